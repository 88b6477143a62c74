"""What a console makes of schema and inspect replies: the walk down the tree, and the polling after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.dialects.cml.console_config import SECOND
from gateway.dialects.cml.console_conversation import Conversation
from gateway.dialects.cml.console_requests import Asked
from gateway.dialects.cml.console_rounds import Rounds
from gateway.dialects.cml.console_states import Signal, State
from gateway.dialects.cml.console_tree import Known, Listing
from gateway.dialects.cml.console_views import ClassView, Views, difference
from gateway.dialects.cml.messages import InspectReply, SchemaReply, Status
from gateway.dialects.cml.schema import ObjectRead
from gateway.dialects.errors import ProtocolError
from gateway.model.observations import AgentLost, Gap, ResyncBegan, ResyncEnded, SourceState

_MAX_DOUBTS: Final = 1_000
"""Different things that could not be read, which are noted once each."""
_STARTED: Final = "started"
_NAME: Final = "name"
_CONNECTION: Final = "connection"
_SHOWN: Final = 80


class Poller:
    """Walks and polls on behalf of a conversation."""

    def __init__(self, conversation: Conversation) -> None:
        self._talk = conversation
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
        self._rounds = Rounds(conversation)

    # The beginning.

    def know(self, schema: SchemaReply) -> None:
        """Learn a schema that was saved.

        Raises:
            ProtocolError: it is none that can be used.
        """
        self._use(Views(schema, self._talk.config))

    def connected(self) -> None:
        """The link is up: ask for the schema."""
        config = self._talk.config
        self._tell_gap(self._talk.heard_at, "not connected")
        self._deaf_since = 0
        self._talk.tell(SourceState.CONNECTING, f"asking for the schema on exchange {config.system_exchange}")
        self._reconnected = True
        self._begin()

    def _tell_gap(self, since: int, reason: str) -> None:
        """Not all could be heard from then on, if so it is (not 0)."""
        if since:
            now = self._talk.now  # the clock may have been set back
            self._talk.observations.append(Gap(min(since, now), now, reason))

    def begin(self, reason: str, *, restarted: bool = False) -> None:
        """Ask for the schema and walk down the tree again."""
        self._talk.note("resync", reason)
        self._anew |= restarted
        self._abandon()
        self._talk.move(Signal.BEGIN)
        self._begin()

    def doubted(self, reason: str, since: int) -> None:
        """Replies may have been lost since ``since`` (0: none was): each look tells all again anyway.

        A walk that began just now is as good as another one.
        """
        self._tell_gap(since, reason)
        if self._talk.now >= self._began_at + self._talk.config.retry_interval:
            self.begin(reason)

    def _begin(self) -> None:
        self._began_at = self._talk.now
        self._silent = False
        self._talk.asking_anew()
        self._attempts = 1
        self._talk.ask_schema()

    def disconnected(self, detail: str) -> None:
        """The link is down."""
        self._abandon()
        self._talk.move(Signal.DISCONNECTED)
        self._talk.asking_anew()
        self._talk.tell(SourceState.DOWN, detail)

    def turned_away(self, reason: str) -> None:
        """Requests do not reach the broker, or are of no use: try again later."""
        self._deaf_since = self._deaf_since or self._talk.heard_at
        self._abandon()
        self._talk.move(Signal.TURNED_AWAY)
        self._talk.asking_anew()
        self._talk.retry_later(SourceState.DOWN, reason)

    def _abandon(self) -> None:
        """A walk under way ends incomplete."""
        self._unsettled.clear()
        if self._resync_open:
            self._resync_open = False
            self._talk.observations.append(ResyncEnded(complete=False))

    # The schema.

    def told_schema(self, reply: SchemaReply) -> None:
        """The answer to the request for the schema."""
        try:
            if reply.status not in (Status.OK, "") or not reply.classes:
                self._without_schema(f"the broker does not tell its schema ({_shown_status(reply)})")
                return
            self._compare_with_saved(reply)
            self._use(Views(reply, self._talk.config))
        except ProtocolError as error:
            self._talk.note("protocol-error", f"schema: {error}")
            self._without_schema(f"the broker's schema cannot be read: {error}")
            return
        self._walk()

    def no_schema(self, reason: str) -> None:
        """An answer to the request for the schema that is none."""
        self._without_schema(reason)

    def _compare_with_saved(self, reply: SchemaReply) -> None:
        saved = self._talk.config.schema
        if saved is not None and saved != reply:
            self._talk.note("schema-differs", difference(saved, reply))

    def _use(self, views: Views) -> None:
        if self._talk.views is None or self._talk.views.schema != views.schema:
            self._talk.observations += views.learned()
        self._talk.views = views

    def _without_schema(self, reason: str) -> None:
        if self._talk.views is None:
            self.turned_away(reason)
            return
        self._talk.note("schema-not-verified", f"{reason}; the one known from before is used")
        self._walk()

    # The walk.

    def _walk(self) -> None:
        self._talk.move(Signal.LEARNED)
        self._shortcoming = ""
        self._looked_again.clear()
        self._rounds.shut.clear()
        self._rounds.begin()
        self._unsettled = {self._talk.tree.root.number}
        self._talk.tell(SourceState.SYNCHRONISING)
        self._talk.schedule.soon(self._talk.tree.root.number, self._talk.now)

    def _settled(self, number: int) -> None:
        """The walk has what it wanted of an object."""
        self._unsettled.discard(number)
        if self._talk.state is State.WALKING and not self._unsettled:
            self._end_walk()
        self._rounds.end()

    def _end_walk(self) -> None:
        complete = not self._shortcoming and self._resync_open
        if self._resync_open:
            self._talk.observations.append(ResyncEnded(complete=complete))
        self._resync_open = False
        if complete:
            self._talk.move(Signal.WALKED)
            self._talk.succeeded()
            self._rounds.synchronised()
            return
        self._talk.move(Signal.FELL_SHORT)
        self._talk.retry_later(SourceState.DEGRADED, f"not all could be read: {self._shortcoming}")

    # What inspect replies say.

    def inspected(self, known: Known, reply: InspectReply) -> bool:
        """An object was inspected; returns whether it was observed."""
        talk = self._talk
        assert talk.views is not None  # nothing is inspected before
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
        view = talk.views.find(reply.class_name or known.class_name)
        if view is None:
            self._shut_off(known, f"its class {reply.class_name[:_SHOWN]!r} is not in the schema")
            return False
        read = view.read(reply.fields, known.parent.number if known.parent is not None else None)
        return self._read(known, view, read)

    def _read(self, known: Known, view: ClassView, read: ObjectRead) -> bool:
        talk = self._talk
        known.class_name, known.name = view.key.name, self._name_anew(known, view, read)
        if known.parent is None and not self._root_read(view, read):
            return False
        if not known.native_id and talk.tree.is_another(known):
            self.begin(f"object {known.number} is another one than before: restarted", restarted=True)
            return False
        known.private = known.parent is not None and view.is_private(read)
        if known.private and talk.tree.leaves_private_alone:
            for one in talk.tree.leave_alone(known):
                self._forget(one)
            self._settled(known.number)
            return False
        seen, too_long = view.seen(read, talk.config.agent, known.number, talk.runs.native_id)
        self._tell_doubts(view, [*read.doubts, *too_long])
        known.view, known.native_id = view, seen.native_id
        self._rounds.shut.pop(known.number, None)
        known.shut = ""
        talk.observations.append(seen)
        self._listed(known, talk.tree.list_children(known, read.children))
        self._rounds.answered(known)
        return True

    def _name_anew(self, known: Known, view: ClassView, read: ObjectRead) -> str:
        """The name by now. Who is called otherwise is another object, whatever its number."""
        name = self._talk.config.secrets.masked_uris(view.text(read, _NAME))
        if known.native_id and (name != known.name or known.view is not view):
            self._tell_end(known)
        return name

    def _root_read(self, view: ClassView, read: ObjectRead) -> bool:
        """The broker itself was inspected; returns False where the walk begins again."""
        talk = self._talk
        newest = max((number for kind, number in read.children if kind.class_name == _CONNECTION), default=0)
        if self._reconnected:
            # Our own connection is a new one: in the same run it has the highest number of all.
            self._anew |= 0 < newest < self._newest_connection
            self._reconnected = False
        self._newest_connection = newest
        self._rounds.keep_saying()
        if self._resync_open or talk.state is not State.WALKING:
            if talk.runs.started == view.text(read, _STARTED):
                return True
            restarted = talk.runs.started is not None
            reason = "the broker was restarted" if restarted else "the broker itself can be read by now"
            self.begin(reason, restarted=restarted)
            return False
        restarted = talk.runs.began(view.text(read, _STARTED), anew=self._anew)
        self._anew = False
        if restarted:
            talk.tree.forget_former()
        self._resync_open = True
        self._tell_gap(self._deaf_since, "the broker did not answer")
        self._deaf_since = 0
        talk.observations.append(ResyncBegan(restarted=restarted))
        return True

    def _listed(self, known: Known, listing: Listing) -> None:
        """What follows from what an object lists; then it waits for its next inspection."""
        talk = self._talk
        for one in listing.gone:
            self._forget(one)
        walking = talk.state is State.WALKING
        for one in listing.new:
            self._rounds.joined(one)
            talk.schedule.soon(one.number, talk.now)
            if walking:
                self._unsettled.add(one.number)
        if listing.seen_once:
            talk.schedule.at(known.number, talk.now + talk.config.intervals.second_look)
            if walking and known.number not in self._looked_again:
                self._looked_again.add(known.number)
                return
        else:
            talk.schedule.again(known.number, known.class_name, talk.now)
        self._settled(known.number)

    def _tell_doubts(self, view: ClassView, doubts: Iterable[str]) -> None:
        for doubt in doubts:
            if (view.key.name, doubt) not in self._doubts and len(self._doubts) < _MAX_DOUBTS:
                self._doubts.add((view.key.name, doubt))
                self._talk.note("doubtful-value", f"{view.key}: {doubt}")

    # What is not there, or does not show itself.

    def gone(self, known: Known) -> None:
        """An object has ended, and all in it with it."""
        self._forget_all(self._talk.tree.remove(known))
        self._settled(known.number)

    def _forget_all(self, removed: Iterable[Known]) -> None:
        for one in removed:
            self._forget(one)

    def _forget(self, known: Known) -> None:
        """It is no part of the tree any more."""
        self._talk.schedule.drop(known.number)
        self._unsettled.discard(known.number)
        self._rounds.shut.pop(known.number, None)
        self._tell_end(known)
        self._rounds.left(known)

    def _tell_end(self, known: Known) -> None:
        if known.view is not None:
            gone = known.view.gone(self._talk.config.agent, known.native_id, self._talk.now)
            self._talk.observations.append(gone)
            known.view, known.native_id = None, ""

    def _shut_off(self, known: Known, why: str) -> None:
        """It is there, but cannot be shown; nor can what is in it."""
        if known.parent is None:
            self.failed(known, why)
            return
        if not known.shut:
            self._talk.note("not-shown", f"object {known.number}: {why}")
        known.shut = self._rounds.shut[known.number] = why
        self._tell_end(known)
        self._forget_all(self._talk.tree.list_children(known, ()).gone)
        self._rounds.answered(known)
        self._talk.schedule.again(known.number, known.class_name, self._talk.now)
        self._settled(known.number)

    # What is not answered.

    def missed(self, asked: Asked) -> None:
        """A request of ours was not answered in time."""
        talk = self._talk
        seconds = (talk.now - asked.sent) // SECOND
        if asked.known is None:
            self._missed_schema()
        elif talk.tree.find(asked.known.number) is not asked.known:
            return  # it was removed meanwhile
        elif talk.heard_at <= asked.sent:
            self._try_again(asked.known)
            self._silent = True
            self._deaf_since = self._deaf_since or talk.heard_at
            self._lose(f"the broker has not answered for {seconds} s")
        else:
            self.failed(asked.known, f"no answer for {seconds} s")

    def _missed_schema(self) -> None:
        config = self._talk.config
        if self._attempts < config.request_attempts:
            self._attempts += 1
            self._talk.ask_schema()
            return
        self.turned_away(
            f"nobody answers on exchange {config.system_exchange} with key {config.routing_key}:"
            " is it a broker that speaks CML, and may its user ask?"
        )

    def failed(self, known: Known, why: str) -> None:
        """An object was not answered as it should have been: ask again, and doubt it in the end."""
        self._try_again(known)
        if known.attempts >= self._talk.config.request_attempts:
            self._lose(f"object {known.number} {known.name[:_SHOWN]!r}: {why}")

    def _try_again(self, known: Known) -> None:
        known.attempts += 1
        delay = self._talk.config.retry_after(known.attempts)
        self._talk.schedule.at(known.number, self._talk.now + delay)

    def _lose(self, reason: str) -> None:
        """What is known is not vouched for any more: the model has one freshness for all of a broker."""
        talk = self._talk
        if talk.state is State.WALKING:
            self._shortcoming = reason
            self._unsettled.clear()
            self._end_walk()
        elif talk.state is State.SYNCHRONISED:
            talk.observations.append(AgentLost(talk.config.agent, reason))
            talk.move(Signal.SILENT)
            talk.retry_later(SourceState.DEGRADED, reason)

    def pass_time(self) -> None:
        """Miss answers, and try again where it is time."""
        talk = self._talk
        if talk.retry_at <= talk.now:
            self.begin(talk.retry_reason)


def _shown_status(reply: SchemaReply | InspectReply) -> str:
    status = reply.status[:_SHOWN] if reply.status else "nothing"
    return f"{status!r}: {reply.notice[:_SHOWN]!r}" if reply.notice else repr(status)
