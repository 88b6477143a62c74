"""Processes schema and inspect replies: the walk down the tree of objects, and polling after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.dialects.cml.console_tree import ClassView, Known, Listing, Views, difference
from gateway.dialects.cml.messages import InspectReply, SchemaReply, Status
from gateway.dialects.cml.schema import ObjectRead, left_out
from gateway.dialects.cml.session_state import Asked, SessionState, Signal, State
from gateway.dialects.errors import ProtocolError
from gateway.dialects.session import NEVER
from gateway.model.observations import AgentLost, Gap, HeartbeatSeen, ResyncBegan, ResyncEnded, SourceState
from gateway.model.times import SECOND

_UNSEEN: Final = "what comes and goes between two looks is not seen"
_LONG: Final = 2
_CONFIRMED_EVERY: Final = 10 * SECOND
"""Nanoseconds between two reports of what is current; less where things are stale soon."""
_SAID_EVERY: Final = 30 * SECOND
"""Nanoseconds between two reports of what is not visible, for which all objects are looked through."""


class Report:
    """Reports until when what was read is current, and what is not visible.

    Attributes:
        shut: the reasons why existing objects are not shown, by number.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._said_at = 0
        self._confirmed_at = 0
        self._interval = min(_CONFIRMED_EVERY, state.config.stale_after // 4)
        self._overdue: tuple[str, ...] = ()
        self.shut: dict[int, str] = {}

    @property
    def due(self) -> int:
        """The time at which `pass_time` has something to report."""
        if self._state.state is not State.SYNCHRONISED or not self._state.readings.has_news:
            return NEVER
        return self._confirmed_at + self._interval

    def pass_time(self) -> None:
        """Report what is current, and less often what is not visible, where that is due."""
        # The clock may have been set back.
        if self.due != NEVER and not 0 <= self._state.now - self._confirmed_at < self._interval:
            self.confirm()
            if not 0 <= self._state.now - self._said_at < _SAID_EVERY:
                self.say()

    def confirm(self) -> None:
        """Report until when the objects of each class are current."""
        state, views = self._state, self._state.views
        assert views is not None  # nothing is read without a schema
        self._confirmed_at = state.now
        until = state.readings.current_until()
        keys = {str(view.key): until[name] for name in until if (view := views.find(name)) is not None}
        state.observations.append(HeartbeatSeen(state.config.agent, state.now, keys))
        overdue = tuple(sorted(name for name, time in until.items() if time <= state.now))
        if overdue != self._overdue:
            self._overdue = overdue
            if state.state is State.SYNCHRONISED:
                self.say()

    def say(self) -> None:
        """Report what is not visible, and what was not read in time."""
        self._said_at = self._state.now
        state, text = SourceState.SYNCHRONISED, self._unseen()
        if self._overdue:
            state, text = SourceState.DEGRADED, f"not read in time: {', '.join(self._overdue)}; {text}"
        self._state.report_state(state, text)

    def _unseen(self) -> str:
        tree, stretch = self._state.tree, self._state.readings.stretch
        parts = [_UNSEEN]
        if tree.passed_over:
            parts.append(f"{tree.passed_over} objects that come and go with connections are not inspected")
        not_yet = tree.not_read_yet
        if not_yet > self._state.config.budget.rate:  # fewer are inspected within a second
            parts.append(f"{not_yet} objects that are listed were not inspected yet")
        if tree.left_out:
            limit = self._state.config.object_limit
            parts.append(f"{tree.left_out} objects beyond the limit of {limit} are left out")
        if self.shut:
            number, why = next(iter(self.shut.items()))
            parts.append(f"{len(self.shut)} objects cannot be shown (object {number}: {why})")
        if stretch >= _LONG:
            parts.append(f"the budget makes intervals {stretch:.0f} times as long")
        return "; ".join(parts)


_MAX_NOTED: Final = 1_000
"""Different anomalies that are noted, once each."""
_STARTED: Final = "started"
_NAME: Final = "name"
_CONNECTION: Final = "connection"
_SHOWN: Final = 80


class Poller:
    """Walks and polls the objects of a broker for a console session."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._attempts = 0  # to get a schema
        self._began_at = 0
        self._resync_open = False
        self._is_restarted = False  # the broker restarted, whatever start time it reports
        self._reconnected = False
        self._newest_connection = 0
        self._doubted = False  # one reply alone shows that the broker restarted
        self._unsettled: set[int] = set()  # objects that the walk waits for
        self._looked_again: set[int] = set()
        self._shortcoming = ""
        self._silent = False  # no request is answered
        self._unanswered_since = 0  # the last answer before none came any more
        self._noted: set[tuple[str, str]] = set()
        self._report = Report(state)

    # Beginning.

    def know(self, schema: SchemaReply) -> None:
        """Use a schema from before.

        Raises:
            ProtocolError: it cannot be used.
        """
        self._use(Views(schema, self._state.config))

    def connected(self) -> None:
        """Request the schema, because the link is up."""
        config = self._state.config
        self._report_gap(self._state.received_at, "not connected")
        self._unanswered_since = 0
        self._state.report_state(
            SourceState.CONNECTING, f"asking for the schema on exchange {config.system_exchange}"
        )
        self._reconnected = True
        self._begin()

    def _report_gap(self, since: int, reason: str) -> None:
        """Report a gap from ``since`` to now, unless it is 0."""
        if since:
            now = self._state.now  # the clock may have been set back
            self._state.observations.append(Gap(min(since, now), now, reason))

    def begin(self, reason: str, *, restarted: bool = False) -> None:
        """Request the schema, and walk the tree again."""
        self._state.note("resync", reason)
        self._is_restarted |= restarted
        self._abandon()
        self._state.move(Signal.BEGIN)
        self._begin()

    def loss_suspected(self, reason: str, since: int) -> None:
        """Report a suspected loss of replies since ``since`` (0: none), and walk the tree again.

        A walk that has just begun is not repeated, as inspections return complete objects.
        """
        self._report_gap(since, reason)
        if self._state.now >= self._began_at + self._state.config.retry_interval:
            self.begin(reason)

    def _begin(self) -> None:
        self._began_at = self._state.now
        self._silent = False
        self._state.restart_polling()
        self._attempts = 1
        self._state.ask_schema()

    def disconnected(self, detail: str) -> None:
        """End the walk, because the link is down."""
        self._abandon()
        self._state.move(Signal.DISCONNECTED)
        self._state.restart_polling()
        self._state.report_state(SourceState.DOWN, detail)

    def turned_away(self, reason: str) -> None:
        """End the walk, because requests do not reach the broker, and try again later."""
        self._unanswered_since = self._unanswered_since or self._state.received_at
        self._abandon()
        self._state.move(Signal.TURNED_AWAY)
        self._state.restart_polling()
        self._state.retry_later(SourceState.DOWN, reason)

    def _abandon(self) -> None:
        """End a walk that is under way as incomplete."""
        self._unsettled.clear()
        if self._resync_open:
            self._resync_open = False
            self._state.observations.append(ResyncEnded(complete=False))

    # The schema.

    def schema_received(self, reply: SchemaReply) -> None:
        """Process the answer to the request for the schema."""
        try:
            if reply.status not in (Status.OK, "") or not reply.classes:
                self._without_schema(f"the broker does not send its schema ({_shown_status(reply)})")
                return
            self._compare_with_saved(reply)
            self._use(Views(reply, self._state.config))
        except ProtocolError as error:
            self._state.note("protocol-error", f"schema: {error}")
            self._without_schema(f"the broker's schema cannot be read: {error}")
            return
        self._walk()

    def no_schema(self, reason: str) -> None:
        """Process an invalid answer to the request for the schema."""
        self._without_schema(reason)

    def _compare_with_saved(self, reply: SchemaReply) -> None:
        saved = self._state.config.schema
        if saved is not None and saved != reply:
            self._state.note("schema-differs", difference(saved, reply))

    def _use(self, views: Views) -> None:
        if self._state.views is None or self._state.views.schema != views.schema:
            self._state.observations += views.learned()
            if count := left_out(views.schema):
                text = f"classes, fields, methods and arguments without a name of their own: {count}"
                self._state.note("schema-left-out", text)
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
        self._report.shut.clear()
        self._unsettled = {self._state.tree.root.number}
        self._state.report_state(SourceState.SYNCHRONISING)
        self._state.schedule.soon(self._state.tree.root.number, self._state.now)

    def _settled(self, number: int) -> None:
        """Note that the walk does not wait for an object any more."""
        self._unsettled.discard(number)
        if self._state.state is State.WALKING and not self._unsettled:
            self._end_walk()

    def _end_walk(self) -> None:
        complete = not self._shortcoming and self._resync_open
        if complete:
            self._report.confirm()
        if self._resync_open:
            self._state.observations.append(ResyncEnded(complete=complete))
        self._resync_open = False
        if complete:
            self._state.move(Signal.WALKED)
            self._state.succeeded()
            self._report.say()
            return
        self._state.move(Signal.FELL_SHORT)
        self._state.retry_later(SourceState.DEGRADED, f"the reading was incomplete: {self._shortcoming}")

    # Inspect replies.

    def inspected(self, known: Known, reply: InspectReply, sent: int) -> bool:
        """Process an object that was inspected by a request of ``sent``; return whether it was observed."""
        state = self._state
        assert state.views is not None  # nothing is inspected without a schema
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
            self._shut_off(known, f"the broker answers {_shown_status(reply)}")
            return False
        view = state.views.find(reply.class_name or known.class_name)
        if view is None:
            self._shut_off(known, f"its class {reply.class_name[:_SHOWN]!r} is not in the schema")
            return False
        read = view.read(reply.fields, known.parent.number if known.parent is not None else None)
        return self._read(known, view, read, sent)

    def _read(self, known: Known, view: ClassView, read: ObjectRead, sent: int) -> bool:
        state = self._state
        known.class_name, known.name = view.key.name, self._current_name(known, view, read)
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
        self._note_anomalies(view, [*read.anomalies, *too_long])
        known.view, known.native_id = view, seen.native_id
        self._report.shut.pop(known.number, None)
        known.shut = ""
        state.observations.append(seen)
        known.attempts = 0
        state.readings.read(known.number, view.key.name, sent)
        self._listed(known, state.tree.list_children(known, read.children))
        return True

    def _current_name(self, known: Known, view: ClassView, read: ObjectRead) -> str:
        """Return the present name. A changed name or class means a new object under the same number."""
        name = self._state.config.secrets.masked_uris(view.text(read, _NAME))
        if known.native_id and (name != known.name or known.view is not view):
            self._report_end(known)
        return name

    def _root_read(self, view: ClassView, read: ObjectRead) -> bool:
        """Process the broker object; return False if the walk begins again.

        Another start time in one reply is no proof of a restart, except after our connection was lost, and
        a list in which ours may lack is none either: the broker is asked once more.
        """
        state, started = self._state, view.text(read, _STARTED)
        newest = max((number for kind, number in read.children if kind.class_name == _CONNECTION), default=0)
        is_another = state.runs.compare(started)
        # Our own connection is new: without a restart it has the highest number, once it is listed.
        begins_again = self._reconnected and 0 < newest < self._newest_connection
        is_proven = self._is_restarted or self._doubted or (is_another and self._reconnected)
        self._doubted = (is_another or begins_again) and not is_proven
        if self._doubted:
            self.begin("the broker may have been restarted")
            return False
        self._is_restarted |= begins_again
        self._reconnected, self._newest_connection = False, newest
        if self._resync_open or state.state is not State.WALKING:
            if state.runs.started is not None and not is_another:
                return True
            reason = "the broker was restarted" if is_another else "the broker object can be read now"
            self.begin(reason, restarted=is_another)
            return False
        restarted = state.runs.began(started, restarted=self._is_restarted)
        self._is_restarted = False
        if restarted:
            state.tree.forget_previous()
        self._resync_open = True
        self._report_gap(self._unanswered_since, "the broker did not answer")
        self._unanswered_since = 0
        state.observations.append(ResyncBegan(restarted=restarted))
        return True

    def _listed(self, known: Known, listing: Listing) -> None:
        """Process the children that an object lists, and schedule its next inspection."""
        state = self._state
        for one in listing.gone:
            self._forget(one)
        walking = state.state is State.WALKING
        for one in listing.new:
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

    def _note_anomalies(self, view: ClassView, anomalies: Iterable[str]) -> None:
        for anomaly in anomalies:
            if (view.key.name, anomaly) not in self._noted and len(self._noted) < _MAX_NOTED:
                self._noted.add((view.key.name, anomaly))
                self._state.note("doubtful-value", f"{view.key}: {anomaly}")

    # Objects that have ended, or cannot be shown.

    def gone(self, known: Known) -> None:
        """End an object and all objects in it."""
        self._forget_all(self._state.tree.remove(known))
        self._settled(known.number)

    def _forget_all(self, removed: Iterable[Known]) -> None:
        for one in removed:
            self._forget(one)

    def _forget(self, known: Known) -> None:
        """Remove an object from schedule and walk, and report its end."""
        self._state.schedule.drop(known.number)
        self._unsettled.discard(known.number)
        self._report.shut.pop(known.number, None)
        self._report_end(known)

    def _report_end(self, known: Known) -> None:
        if known.view is not None:
            gone = known.view.gone(self._state.config.agent, known.native_id, self._state.now)
            self._state.observations.append(gone)
            self._state.readings.drop(known.number)
            known.view, known.native_id = None, ""

    def _shut_off(self, known: Known, why: str) -> None:
        """Do not show an existing object that cannot be processed, nor the objects in it."""
        if known.parent is None:
            self.failed(known, why)
            return
        if not known.shut:
            self._state.note("not-shown", f"object {known.number}: {why}")
        known.shut = self._report.shut[known.number] = why
        self._report_end(known)
        self._forget_all(self._state.tree.list_children(known, ()).gone)
        known.attempts = 0
        self._state.schedule.again(known.number, known.class_name, self._state.now)
        self._settled(known.number)

    # Missing answers.

    def missed(self, asked: Asked) -> None:
        """Process a request without an answer."""
        state = self._state
        seconds = (state.now - asked.sent) // SECOND
        if asked.known is None:
            self._missed_schema()
        elif state.tree.find(asked.known.number) is not asked.known:
            return  # the object was removed meanwhile
        elif state.received_at <= asked.sent:
            self._try_again(asked.known)
            self._silent = True
            self._unanswered_since = self._unanswered_since or state.received_at
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
            f"no answer on exchange {config.system_exchange} with key {config.routing_key}:"
            " is it a broker that speaks CML, and may its user send requests?"
        )

    def failed(self, known: Known, why: str) -> None:
        """Repeat the inspection of an object that failed; after several failures, report all as stale."""
        self._try_again(known)
        if known.attempts >= self._state.config.request_attempts:
            self._lose(f"object {known.number} {known.name[:_SHOWN]!r}: {why}")

    def _try_again(self, known: Known) -> None:
        known.attempts += 1
        delay = self._state.config.retry_after(known.attempts)
        self._state.schedule.at(known.number, self._state.now + delay)

    def _lose(self, reason: str) -> None:
        """Report all objects as stale: CML has one agent, and so one freshness, for each broker."""
        state = self._state
        if state.state is State.WALKING:
            self._shortcoming = reason
            self._unsettled.clear()
            self._end_walk()
        elif state.state is State.SYNCHRONISED:
            state.observations.append(AgentLost(state.config.agent, reason))
            state.move(Signal.SILENT)
            state.retry_later(SourceState.DEGRADED, reason)

    @property
    def report_due(self) -> int:
        """The time at which `report` has something to do."""
        return self._report.due

    def report(self) -> None:
        """Report what is current, and what is not visible, where that is due."""
        self._report.pass_time()

    def pass_time(self) -> None:
        """Begin again if that is due."""
        state = self._state
        if state.retry_at <= state.now:
            self.begin(state.retry_reason)


def _shown_status(reply: SchemaReply | InspectReply) -> str:
    status = reply.status[:_SHOWN] if reply.status else "nothing"
    return f"{status!r}: {reply.notice[:_SHOWN]!r}" if reply.notice else repr(status)
