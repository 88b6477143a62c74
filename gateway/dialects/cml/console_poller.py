"""What a console makes of schema and inspect replies: the walk down the tree, and the polling after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.dialects.cml.console_config import SECOND
from gateway.dialects.cml.console_tree import ClassView, Known, Listing, Views, difference
from gateway.dialects.cml.messages import InspectReply, SchemaReply, Status
from gateway.dialects.cml.schema import ObjectRead
from gateway.dialects.cml.session_state import Asked, SessionState, Signal, State
from gateway.dialects.errors import ProtocolError
from gateway.model.observations import AgentLost, Gap, HeartbeatSeen, ResyncBegan, ResyncEnded, SourceState

_UNSEEN: Final = "what comes and goes between two looks is not seen"
_LONG: Final = 2
_MINUTE: Final = 60 * SECOND


class Rounds:
    """Counts who was answered for a console session.

    Attributes:
        shut: why objects that are there are not shown, by number.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._number = 0
        self._began = 0
        self._behind = 0
        self._said_at = 0
        self.shut: dict[int, str] = {}

    def begin(self) -> None:
        """Nobody was answered yet."""
        self._number += 1
        self._began = self._state.now
        self._behind = len(self._state.tree)

    def joined(self, known: Known) -> None:
        """An object is new, and counts from the next round on."""
        known.round = self._number

    def answered(self, known: Known) -> None:
        """An object was."""
        known.attempts = 0
        self.left(known)
        known.round = self._number

    def left(self, known: Known) -> None:
        """An object is not waited for in this round."""
        if known.round != self._number:
            self._behind -= 1

    def end(self) -> None:
        """If all were answered: what was not told again is as it was when the round began."""
        if self._behind <= 0 and self._state.state is State.SYNCHRONISED:
            self._state.observations.append(HeartbeatSeen(self._state.config.agent, self._began))
            self.synchronised()

    def synchronised(self) -> None:
        """All that can be seen is known: begin, and say what is not seen."""
        self.begin()
        self._say()

    def keep_saying(self) -> None:
        """Say what is not seen by now, once a minute: a round may take long."""
        if self._state.state is State.SYNCHRONISED and self._state.now >= self._said_at + _MINUTE:
            self._say()

    def _say(self) -> None:
        self._said_at = self._state.now
        self._state.report_state(SourceState.SYNCHRONISED, self._unseen())

    def _unseen(self) -> str:
        tree, stretch = self._state.tree, self._state.schedule.stretch
        parts = [_UNSEEN]
        if tree.passed_over:
            parts.append(f"{tree.passed_over} objects that come and go with connections are not inspected")
        not_yet = tree.not_read_yet
        if not_yet > self._state.config.budget.rate:  # fewer are looked at within a second
            parts.append(f"{not_yet} objects that are listed were not looked at yet")
        if tree.left_out:
            limit = self._state.config.object_limit
            parts.append(f"{tree.left_out} objects beyond the limit of {limit} are left out")
        if self.shut:
            number, why = next(iter(self.shut.items()))
            parts.append(f"{len(self.shut)} objects cannot be shown (object {number}: {why})")
        if stretch >= _LONG:
            parts.append(f"the budget makes intervals {stretch:.0f} times as long")
        return "; ".join(parts)


_MAX_DOUBTS: Final = 1_000
"""Different things that could not be read, which are noted once each."""
_STARTED: Final = "started"
_NAME: Final = "name"
_CONNECTION: Final = "connection"
_SHOWN: Final = 80


class Poller:
    """Walks and polls for a console session."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._attempts = 0  # to get a schema
        self._began_at = 0
        self._resync_open = False
        self._anew = False  # the broker was restarted, whatever it says of its start
        self._reconnected = False
        self._newest_connection = 0
        self._unsettled: set[int] = set()  # what the walk waits for
        self._looked_again: set[int] = set()
        self._shortcoming = ""
        self._silent = False  # nothing at all is answered
        self._deaf_since = 0  # what was heard last before nothing could be
        self._doubts: set[tuple[str, str]] = set()
        self._rounds = Rounds(state)

    # The beginning.

    def know(self, schema: SchemaReply) -> None:
        """Learn a schema that was saved.

        Raises:
            ProtocolError: it is none that can be used.
        """
        self._use(Views(schema, self._state.config))

    def connected(self) -> None:
        """The link is up: ask for the schema."""
        config = self._state.config
        self._tell_gap(self._state.heard_at, "not connected")
        self._deaf_since = 0
        self._state.report_state(
            SourceState.CONNECTING, f"asking for the schema on exchange {config.system_exchange}"
        )
        self._reconnected = True
        self._begin()

    def _tell_gap(self, since: int, reason: str) -> None:
        """Not all could be heard from then on, if so it is (not 0)."""
        if since:
            now = self._state.now  # the clock may have been set back
            self._state.observations.append(Gap(min(since, now), now, reason))

    def begin(self, reason: str, *, restarted: bool = False) -> None:
        """Ask for the schema and walk down the tree again."""
        self._state.note("resync", reason)
        self._anew |= restarted
        self._abandon()
        self._state.move(Signal.BEGIN)
        self._begin()

    def doubted(self, reason: str, since: int) -> None:
        """Replies may have been lost since ``since`` (0: none was): each look tells all again anyway.

        A walk that began just now is as good as another one.
        """
        self._tell_gap(since, reason)
        if self._state.now >= self._began_at + self._state.config.retry_interval:
            self.begin(reason)

    def _begin(self) -> None:
        self._began_at = self._state.now
        self._silent = False
        self._state.restart_polling()
        self._attempts = 1
        self._state.ask_schema()

    def disconnected(self, detail: str) -> None:
        """The link is down."""
        self._abandon()
        self._state.move(Signal.DISCONNECTED)
        self._state.restart_polling()
        self._state.report_state(SourceState.DOWN, detail)

    def turned_away(self, reason: str) -> None:
        """Requests do not reach the broker, or are of no use: try again later."""
        self._deaf_since = self._deaf_since or self._state.heard_at
        self._abandon()
        self._state.move(Signal.TURNED_AWAY)
        self._state.restart_polling()
        self._state.retry_later(SourceState.DOWN, reason)

    def _abandon(self) -> None:
        """A walk under way ends incomplete."""
        self._unsettled.clear()
        if self._resync_open:
            self._resync_open = False
            self._state.observations.append(ResyncEnded(complete=False))

    # The schema.

    def told_schema(self, reply: SchemaReply) -> None:
        """The answer to the request for the schema."""
        try:
            if reply.status not in (Status.OK, "") or not reply.classes:
                self._without_schema(f"the broker does not tell its schema ({_shown_status(reply)})")
                return
            self._compare_with_saved(reply)
            self._use(Views(reply, self._state.config))
        except ProtocolError as error:
            self._state.note("protocol-error", f"schema: {error}")
            self._without_schema(f"the broker's schema cannot be read: {error}")
            return
        self._walk()

    def no_schema(self, reason: str) -> None:
        """An answer to the request for the schema that is none."""
        self._without_schema(reason)

    def _compare_with_saved(self, reply: SchemaReply) -> None:
        saved = self._state.config.schema
        if saved is not None and saved != reply:
            self._state.note("schema-differs", difference(saved, reply))

    def _use(self, views: Views) -> None:
        if self._state.views is None or self._state.views.schema != views.schema:
            self._state.observations += views.learned()
        self._state.views = views

    def _without_schema(self, reason: str) -> None:
        if self._state.views is None:
            self.turned_away(reason)
            return
        self._state.note("schema-not-verified", f"{reason}; the one known from before is used")
        self._walk()

    # The walk.

    def _walk(self) -> None:
        self._state.move(Signal.LEARNED)
        self._shortcoming = ""
        self._looked_again.clear()
        self._rounds.shut.clear()
        self._rounds.begin()
        self._unsettled = {self._state.tree.root.number}
        self._state.report_state(SourceState.SYNCHRONISING)
        self._state.schedule.soon(self._state.tree.root.number, self._state.now)

    def _settled(self, number: int) -> None:
        """The walk has what it wanted of an object."""
        self._unsettled.discard(number)
        if self._state.state is State.WALKING and not self._unsettled:
            self._end_walk()
        self._rounds.end()

    def _end_walk(self) -> None:
        complete = not self._shortcoming and self._resync_open
        if self._resync_open:
            self._state.observations.append(ResyncEnded(complete=complete))
        self._resync_open = False
        if complete:
            self._state.move(Signal.WALKED)
            self._state.succeeded()
            self._rounds.synchronised()
            return
        self._state.move(Signal.FELL_SHORT)
        self._state.retry_later(SourceState.DEGRADED, f"not all could be read: {self._shortcoming}")

    # What inspect replies say.

    def inspected(self, known: Known, reply: InspectReply) -> bool:
        """An object was inspected; returns whether it was observed."""
        state = self._state
        assert state.views is not None  # nothing is inspected before
        if self._silent:
            self.begin("the broker answers again")
            return False
        if reply.object_id not in (None, known.number):
            self.failed(known, f"the answer is about object {reply.object_id}")
            return False
        if reply.status == Status.NOT_FOUND and known.parent is not None:
            self.gone(known)
            return False
        if reply.status not in (Status.OK, ""):
            self._shut_off(known, f"the broker says {_shown_status(reply)}")
            return False
        view = state.views.find(reply.class_name or known.class_name)
        if view is None:
            self._shut_off(known, f"its class {reply.class_name[:_SHOWN]!r} is not in the schema")
            return False
        read = view.read(reply.fields, known.parent.number if known.parent is not None else None)
        return self._read(known, view, read)

    def _read(self, known: Known, view: ClassView, read: ObjectRead) -> bool:
        state = self._state
        known.class_name, known.name = view.key.name, self._name_anew(known, view, read)
        if known.parent is None and not self._root_read(view, read):
            return False
        if not known.native_id and state.tree.is_another(known):
            self.begin(f"object {known.number} is another one than before: restarted", restarted=True)
            return False
        known.private = known.parent is not None and view.is_private(read)
        if known.private and state.tree.leaves_private_alone:
            for one in state.tree.leave_alone(known):
                self._forget(one)
            self._settled(known.number)
            return False
        seen, too_long = view.seen(read, state.config.agent, known.number, state.runs.native_id)
        self._tell_doubts(view, [*read.doubts, *too_long])
        known.view, known.native_id = view, seen.native_id
        self._rounds.shut.pop(known.number, None)
        known.shut = ""
        state.observations.append(seen)
        self._listed(known, state.tree.list_children(known, read.children))
        self._rounds.answered(known)
        return True

    def _name_anew(self, known: Known, view: ClassView, read: ObjectRead) -> str:
        """The name by now. Who is called otherwise is another object, whatever its number."""
        name = self._state.config.secrets.masked_uris(view.text(read, _NAME))
        if known.native_id and (name != known.name or known.view is not view):
            self._tell_end(known)
        return name

    def _root_read(self, view: ClassView, read: ObjectRead) -> bool:
        """The broker itself was inspected; returns False where the walk begins again."""
        state = self._state
        newest = max((number for kind, number in read.children if kind.class_name == _CONNECTION), default=0)
        if self._reconnected:
            # Our own connection is a new one: in the same run it has the highest number of all.
            self._anew |= 0 < newest < self._newest_connection
            self._reconnected = False
        self._newest_connection = newest
        self._rounds.keep_saying()
        if self._resync_open or state.state is not State.WALKING:
            if state.runs.started == view.text(read, _STARTED):
                return True
            restarted = state.runs.started is not None
            reason = "the broker was restarted" if restarted else "the broker itself can be read by now"
            self.begin(reason, restarted=restarted)
            return False
        restarted = state.runs.began(view.text(read, _STARTED), anew=self._anew)
        self._anew = False
        if restarted:
            state.tree.forget_former()
        self._resync_open = True
        self._tell_gap(self._deaf_since, "the broker did not answer")
        self._deaf_since = 0
        state.observations.append(ResyncBegan(restarted=restarted))
        return True

    def _listed(self, known: Known, listing: Listing) -> None:
        """What follows from what an object lists; then it waits for its next inspection."""
        state = self._state
        for one in listing.gone:
            self._forget(one)
        walking = state.state is State.WALKING
        for one in listing.new:
            self._rounds.joined(one)
            state.schedule.soon(one.number, state.now)
            if walking:
                self._unsettled.add(one.number)
        if listing.seen_once:
            state.schedule.at(known.number, state.now + state.config.intervals.second_look)
            if walking and known.number not in self._looked_again:
                self._looked_again.add(known.number)
                return
        else:
            state.schedule.again(known.number, known.class_name, state.now)
        self._settled(known.number)

    def _tell_doubts(self, view: ClassView, doubts: Iterable[str]) -> None:
        for doubt in doubts:
            if (view.key.name, doubt) not in self._doubts and len(self._doubts) < _MAX_DOUBTS:
                self._doubts.add((view.key.name, doubt))
                self._state.note("doubtful-value", f"{view.key}: {doubt}")

    # What is not there, or does not show itself.

    def gone(self, known: Known) -> None:
        """An object has ended, and all in it with it."""
        self._forget_all(self._state.tree.remove(known))
        self._settled(known.number)

    def _forget_all(self, removed: Iterable[Known]) -> None:
        for one in removed:
            self._forget(one)

    def _forget(self, known: Known) -> None:
        """It is no part of the tree any more."""
        self._state.schedule.drop(known.number)
        self._unsettled.discard(known.number)
        self._rounds.shut.pop(known.number, None)
        self._tell_end(known)
        self._rounds.left(known)

    def _tell_end(self, known: Known) -> None:
        if known.view is not None:
            gone = known.view.gone(self._state.config.agent, known.native_id, self._state.now)
            self._state.observations.append(gone)
            known.view, known.native_id = None, ""

    def _shut_off(self, known: Known, why: str) -> None:
        """It is there, but cannot be shown; nor can what is in it."""
        if known.parent is None:
            self.failed(known, why)
            return
        if not known.shut:
            self._state.note("not-shown", f"object {known.number}: {why}")
        known.shut = self._rounds.shut[known.number] = why
        self._tell_end(known)
        self._forget_all(self._state.tree.list_children(known, ()).gone)
        self._rounds.answered(known)
        self._state.schedule.again(known.number, known.class_name, self._state.now)
        self._settled(known.number)

    # What is not answered.

    def missed(self, asked: Asked) -> None:
        """A request of ours was not answered in time."""
        state = self._state
        seconds = (state.now - asked.sent) // SECOND
        if asked.known is None:
            self._missed_schema()
        elif state.tree.find(asked.known.number) is not asked.known:
            return  # it was removed meanwhile
        elif state.heard_at <= asked.sent:
            self._try_again(asked.known)
            self._silent = True
            self._deaf_since = self._deaf_since or state.heard_at
            self._lose(f"the broker has not answered for {seconds} s")
        else:
            self.failed(asked.known, f"no answer for {seconds} s")

    def _missed_schema(self) -> None:
        config = self._state.config
        if self._attempts < config.request_attempts:
            self._attempts += 1
            self._state.ask_schema()
            return
        self.turned_away(
            f"nobody answers on exchange {config.system_exchange} with key {config.routing_key}:"
            " is it a broker that speaks CML, and may its user ask?"
        )

    def failed(self, known: Known, why: str) -> None:
        """An object was not answered as it should have been: ask again, and doubt it in the end."""
        self._try_again(known)
        if known.attempts >= self._state.config.request_attempts:
            self._lose(f"object {known.number} {known.name[:_SHOWN]!r}: {why}")

    def _try_again(self, known: Known) -> None:
        known.attempts += 1
        delay = self._state.config.retry_after(known.attempts)
        self._state.schedule.at(known.number, self._state.now + delay)

    def _lose(self, reason: str) -> None:
        """What is known is not vouched for any more: the model has one freshness for all of a broker."""
        state = self._state
        if state.state is State.WALKING:
            self._shortcoming = reason
            self._unsettled.clear()
            self._end_walk()
        elif state.state is State.SYNCHRONISED:
            state.observations.append(AgentLost(state.config.agent, reason))
            state.move(Signal.SILENT)
            state.retry_later(SourceState.DEGRADED, reason)

    def pass_time(self) -> None:
        """Miss answers, and try again where it is time."""
        state = self._state
        if state.retry_at <= state.now:
            self.begin(state.retry_reason)


def _shown_status(reply: SchemaReply | InspectReply) -> str:
    status = reply.status[:_SHOWN] if reply.status else "nothing"
    return f"{status!r}: {reply.notice[:_SHOWN]!r}" if reply.notice else repr(status)
