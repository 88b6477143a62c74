"""The RabbitMQ source: takes answers and events, returns observations. Without I/O.

Its driver sends the requests of `RabbitMqSource.next_request`, one at a time, passes in the answers and the
broker's events, and carries out the effects. `BrokerEvents` interprets events, and `ManagementAnswers`
answers; `BrokerView` determines what changes, and `ObservationStream` publishes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.dialects.console import sending_last
from gateway.dialects.event_backlog import Loss
from gateway.dialects.session import (
    Answered,
    BacklogFollows,
    Effect,
    EventNotTakenError,
    LinkDown,
    LinkUp,
    LossSuspected,
    Note,
    Observed,
    TimerExpired,
    WakeAt,
    cannot_be_set,
)
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.observations import ClassNotReadable, Gap, SourceState, SourceStateSeen
from gateway.model.operations import Answer as ResultAnswer
from gateway.model.operations import MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import EventSchema
from gateway.model.secrets import SecretRules
from gateway.sources.rabbitmq.broker_events import BrokerEvents
from gateway.sources.rabbitmq.broker_view import BrokerView
from gateway.sources.rabbitmq.cluster import RECOVERY_LASTS
from gateway.sources.rabbitmq.event_gaps import (
    COMPARE_AGAIN,
    COMPARE_AT_LONGEST,
    GapTracker,
    LateEvents,
)
from gateway.sources.rabbitmq.events import Changed
from gateway.sources.rabbitmq.management_answers import ManagementAnswers
from gateway.sources.rabbitmq.management_api import (
    PAUSE_DEMANDED,
    Answer,
    Document,
    ManagementRequest,
    Unavailable,
)
from gateway.sources.rabbitmq.management_changes import BrokerRequest
from gateway.sources.rabbitmq.method_calls import MethodCalls
from gateway.sources.rabbitmq.object_lives import EVENT_DELAY, KnownObject
from gateway.sources.rabbitmq.observation_stream import HEARTBEAT_INTERVAL, ObservationStream
from gateway.sources.rabbitmq.polling import NEEDED_BY_EVENTS
from gateway.sources.rabbitmq.prometheus_samples import ScrapeRequest, Sheet
from gateway.sources.rabbitmq.prometheus_statistics import PrometheusStatistics, statistics_of
from gateway.sources.rabbitmq.reading import ClassReader, class_readers
from gateway.sources.rabbitmq.rights import TAGS_EVENT, ImpersonatorCheck
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from gateway.sources.rabbitmq.source_events import (
    AnswerReceived,
    BrokerEventReceived,
    BrokerReached,
    CallAnswered,
    ConnectionBlocked,
    EventsDropped,
    EventsReceived,
    MetricsReceived,
    PauseDemanded,
    RequestSent,
    SourceEvent,
    Work,
    WorkContinues,
)
from gateway.sources.rabbitmq.status import SourceStatus

OLDEST_ANSWER = 30_000_000_000
"""Nanoseconds after which the answer to a request is outdated, as after the process was stopped."""
CATCHING_UP_LIMIT = 60_000_000_000
"""Nanoseconds after the last event of the time without a connection for which listings wait."""

RESUMING_LIMIT = 15_000_000_000
"""Nanoseconds for which listings wait until a durable subscription is resumed, if the broker answers."""

_WITHOUT_EVENTS = "what lives for a moment is not seen"
_WITHOUT_OVERVIEW = "the nodes' listeners, versions and the cluster's name are those of before"

_HURRIED = {"alarm.set": "node", "alarm.cleared": "node", "vhost.down": "vhost"}
"""Events that change values of objects, each with the class to be listed soon."""

_STOPS = "broker forced connection closure with reason 'shutdown'"
"""What RabbitMQ says on each connection when a node stops."""


class RabbitMqSource:
    """Observes one RabbitMQ.

    Args:
        config: settings of the source.
        mapping: the classes and events, and the rules by which they are read.
        secrets: the rules of elements that are not published.

    Raises:
        LocalProtocolError: AM2 cannot carry one of the mapping's classes or events.
        MappingError: an element of the mapping has no type, or an event refers to a class that does not
            exist.
    """

    def __init__(
        self, config: RabbitMqSourceConfig, mapping: MappingFile, secrets: SecretRules | None = None
    ) -> None:
        self._config = config
        self._readers = class_readers(mapping)
        self._view = BrokerView(
            self._readers,
            show_own=config.show_own,
            own_users=config.own_users | {config.user},
            management_virtual_host=config.management_virtual_host,
            statistics=statistics_of(self._readers, config.statistics),
        )
        self._events = BrokerEvents(mapping, self._readers, self._view, config.user)
        self._stream = ObservationStream(
            self._readers,
            self._view.known,
            self._events.maker.schemas,
            secrets or SecretRules(),
            self._view.counters.counting,
        )
        self._impersonators = ImpersonatorCheck(config.allowed_users, config.user)
        self._answers = ManagementAnswers(
            config, self._readers, self._view, self._events.alarms, self._stream, self._impersonators
        )
        self._calls = MethodCalls(
            *(self._readers, self._view, self._answers, self._stream, config.writer, config.lockout),
            lambda: self.status.changes_wait,
            lambda: self._gaps.received_until,
        )
        self._plan = self._answers.plan
        self._visibility = self._answers.visibility
        self._woken_at = 0
        self._gaps = GapTracker()
        self._late_events = LateEvents(EVENT_DELAY, CATCHING_UP_LIMIT)
        self._overdue: tuple[str, ...] = ()
        self._rebind_reason = ""
        self._compare_at = 0  # not before (ns): each gap has everything listed again
        self._compare_pause = COMPARE_AGAIN
        self._state = SourceStateSeen(SourceState.CONNECTING)

    # Properties for the driver.

    @property
    def readers(self) -> Mapping[str, ClassReader]:
        """The reader of each class, which has its schema."""
        return self._readers

    @property
    def event_schemas(self) -> Mapping[str, EventSchema]:
        """The schemas of the events that may be published, by name."""
        return self._events.maker.schemas

    @property
    def event_keys(self) -> tuple[str, ...]:
        """The routing keys of the broker's events that are needed."""
        return tuple(dict.fromkeys((*self._events.routing_keys, TAGS_EVENT)))

    @property
    def status(self) -> SourceStatus:
        """The state of the source."""
        return self._visibility.status(
            self._view.hosts.not_permitted,
            self._impersonators.distrust,
            self._plan.intervals,
            blocked=self._events.alarms.blocked,
            statistics=self._view.statistics.trouble if self._view.statistics else "",
            counted=self._view.statistics is not None and self._view.statistics.active,
            overdue=self._overdue,
            others_dropped=self._view.own_queues.remark(self._visibility.events_may_be_dropped),
        )

    @property
    def synchronised(self) -> bool:
        """Whether everything has been read, and the broker has not been silent for too long since."""
        return self._stream.synchronised

    @property
    def reads_first(self) -> bool:
        """Whether the first reading is in progress; values that only listings have may still be missing."""
        return not self._stream.synchronised or self._visibility.in_progress

    @property
    def understands_events(self) -> bool:
        """Whether the objects on which others depend are known, so that earlier events can be applied."""
        known = self._visibility.has_listed(NEEDED_BY_EVENTS)
        # The meaning of creation events depends on whether a node was started again.
        return known and self._visibility.listed_since("node", self._gaps.resumed_at)

    @property
    def knows_dependencies(self) -> bool:
        """Whether virtual hosts and nodes were listed since the start, if they can be."""
        return self._visibility.was_listed(NEEDED_BY_EVENTS)

    @property
    def cluster_names(self) -> frozenset[str]:
        """The names that the cluster has had whose management API is read; empty if none is known."""
        return self._view.nodes.identity.names

    def can_ask(self, request: ManagementRequest) -> bool:
        """Return whether the path of a request arrives at the broker, as far as that is known."""
        return not self._visibility.paths.fault(request.target)

    def pauses(self, now: int) -> str:
        """Return why nothing but the next planned request is to be sent now, for people; empty if it may be.

        A server demands a pause, or the management API does not answer, as with a login that is refused: each
        attempt more may have the account locked.
        """
        if now < self._plan.demanded_until:
            return PAUSE_DEMANDED
        status = self.status
        return status.detail if status.state is SourceState.DOWN else ""

    @property
    def unreadable(self) -> Mapping[str, int]:
        """The number of malformed values and events, by place."""
        counts: dict[str, int] = {**self._events.reader.unreadable, **self._events.maker.unreadable}
        for reader in self._readers.values():
            counts.update(reader.unreadable)
        return counts

    @property
    def request_at(self) -> int:
        """The time at which the next request is due (ns)."""
        return self._plan.due()

    @property
    def busy(self) -> bool:
        """Whether `advance` has something to do."""
        return self._answers.busy

    def known(self, class_name: str) -> Iterable[KnownObject]:
        """Return the known objects of a class."""
        return self._view.known.of_class(class_name)

    @property
    def call_at(self) -> int:
        """The time at which the work on calls continues (ns)."""
        return self._calls.due

    @property
    def takes_metrics(self) -> bool:
        """Whether metrics that arrived are still to be applied."""
        return self._answers.metrics.busy

    @property
    def statistics(self) -> PrometheusStatistics | None:
        """The statistics that are read beside the listings, if they are."""
        return self._view.statistics

    @property
    def is_catching_up(self) -> bool:
        """Whether events from the time without a connection are being received."""
        return self._visibility.catching_up

    def handle(self, event: SourceEvent, now: int) -> list[Effect]:
        """Take an event that happened at ``now`` (ns); return the effects.

        Raises:
            EventNotTakenError: only other sessions take such events.
        """
        return self._awake(self._effects_of(event, now), now)

    def _effects_of(self, event: SourceEvent, now: int) -> list[Effect]:  # noqa: C901, PLR0911, PLR0912  a case for each event
        match event:
            case TimerExpired():
                return self._tick(now)
            case BrokerEventReceived():
                return self._broker_event(event, now)
            case LinkUp():
                return self._caught_up(now) if self.is_catching_up else self._events_connected(now)
            case LinkDown(reason):
                began = self._broker_stopped(reason, now)
                return [*began, *self._events_missing(reason, now)]
            case BacklogFollows(missed):
                return self._events_resumed(missed, now)
            case BrokerReached():
                if not self._visibility.login_refused:  # each attempt more may have the account locked
                    self._plan.try_again(now)
                return []
            case LossSuspected(reason, since):
                return self._events_lost(reason, now, since)
            case EventsReceived(until, remark, took):
                self._gaps.received_until = until or self._gaps.received_until
                self._gaps.proof_took = took
                self._visibility.events_may_be_dropped = remark
                return []
            case EventsDropped(since, until, reason):
                gaps = self._gaps.dropped(since, until, reason)
                return [Observed(tuple(gaps))] if gaps else []
            case ConnectionBlocked():
                self._events.alarms.connection_blocked(now)
                self._plan.poll_soon(now, "node")
                return []
            case PauseDemanded(pause):
                self._plan.demand(now + pause)
                return []
            case RequestSent():
                self._visibility.asked_at = now
                return []
            case AnswerReceived(request, answer, began):
                return self._answered(request, answer, began, now)
            case MetricsReceived(metrics_request, outcome, began):
                return self._answers.metrics.scraped(metrics_request, outcome, began, now)
            case CallAnswered(broker_answer):
                return self._calls.answered(broker_answer, now)
            case WorkContinues(work):
                return self._continued(work, now)
            case MethodCall() | ObjectFetch():
                with sending_last():
                    unreachable = self._unreachable(event.token)
                    return [Answered(unreachable)] if unreachable else self._calls.begin(event, now)
            case ObjectModify():
                return [Answered(cannot_be_set(event))]
            case _:
                raise EventNotTakenError(self, event)

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> ResultAnswer | None:
        """Return the answer that would be given at once; ``None`` if the request would be carried out."""
        if isinstance(request, ObjectModify):
            return cannot_be_set(request)
        return self._unreachable(request.token) or self._calls.precheck(request, now)

    def _unreachable(self, token: int) -> ResultAnswer | None:
        status = self.status
        if status.state not in {SourceState.CONNECTING, SourceState.DOWN}:
            return None
        text = f"not sent: the broker is not reached: {status.detail or status.state.value}"
        return ResultAnswer(token, Outcome.SOURCE_DOWN, text)

    def _continued(self, work: Work, now: int) -> list[Effect]:
        match work:
            case Work.LISTING:
                return [*self._answers.advance(now), *self._compare_with_events(now)]
            case Work.METRICS:
                effects = self._answers.metrics.advance()
                return effects if self.takes_metrics else [*effects, *self._answers.metrics_taken(now)]
            case Work.CALLS:
                return self._calls.advance(now)

    def _tick(self, now: int) -> list[Effect]:
        """Do what is due: a heartbeat, or make all stale because the broker has been silent for too long."""
        self._woken_at = 0
        self._view.known.ends.forget_old(now)
        self._overdue = self._answers.overdue(now) if self._stream.synchronised else ()
        stood_still = self._stood_still(now)
        silent_since = self._visibility.silent_since
        effects = [*stood_still, *self._calls.overdue(now)]
        if not silent_since or now - silent_since < self._config.silence_limit:
            answers = not self._visibility.failure
            effects += self._answers.show_unread(now)
            return [*effects, *self._stream.tick(now, self._answers.current_until, answers=answers)]
        effects += self._answers.silent(silent_since)
        if self._stream.synchronised:
            effects += self._stream.mark_stale(self._visibility.failure)
            self._gaps.missed(now, "the management API did not answer", silent_since)
            effects.append(Note("agent-silent", self._visibility.failure))
        return effects

    def _stood_still(self, now: int) -> list[Effect]:
        """Read everything again if the process was stopped for long, so that all values are old."""
        if not self._stream.wake_at or now - self._stream.wake_at < self._config.silence_limit:
            return []
        if not self._gaps.received_until:  # there are no events that show what was missed
            self._note_missed(now, "the gateway stood still", self._stream.wake_at - HEARTBEAT_INTERVAL)
        self._view.known.mark_unconfirmed()
        self._read_again(now)
        self._hold_for_late_events(self._late_events.stood_still(now))
        return self._stream.mark_stale("the gateway stood still")

    def _read_again(self, now: int) -> None:
        """Read everything again, also what could not be listed, before anything counts as confirmed."""
        self._visibility.read_again()
        self._plan.poll_soon(now)
        self._plan.retry(now, at_once=False)

    def _awake(self, effects: list[Effect], now: int) -> list[Effect]:
        """Return ``effects``, the source's state if it changed, and the next time at which to wake it."""
        effects = [*self._note_missing(now), *effects]
        gaps = self._regained(now)
        if gaps:
            effects = [Observed(tuple(gaps)), *effects]
        status = self.status
        complete_until = self._gaps.complete_until(now)
        not_readable = () if status.state is SourceState.DOWN else self._not_readable(now)
        state = SourceStateSeen(
            status.state, status.detail, status.changes_wait, complete_until, not_readable
        )
        if state != self._state:
            self._state = state
            effects.append(Observed((state,)))
        times = [
            self._stream.wake_at,
            self._calls.wake_at,
            self._visibility.unread_until(now, self._config.silence_limit),
        ]
        if (missing_since := self._visibility.events_missing_since) + self._config.silence_limit > now:
            times.append(missing_since + self._config.silence_limit)
        if self._visibility.silent_since and self._stream.synchronised:
            times.append(self._visibility.silent_since + self._config.silence_limit)
        wake = min((time for time in times if time), default=0)
        if wake and wake != self._woken_at:
            self._woken_at = wake
            effects.append(WakeAt(wake))
        return effects

    def _not_readable(self, now: int) -> tuple[ClassNotReadable, ...]:
        visibility = self._visibility
        since = visibility.events_missing_since
        events = ClassNotReadable("events", visibility.events_missing, since, consequence=_WITHOUT_EVENTS)
        lack = visibility.lacks_events and now >= since + self._config.silence_limit
        overview = (
            ClassNotReadable(name, reason, since, consequence=_WITHOUT_OVERVIEW)
            for name, (reason, since) in visibility.overview_not_readable.items()
        )
        whole, partly = visibility.not_readable, visibility.read_in_part
        classes = (
            ClassNotReadable(self._readers[name].schema.class_name, reason, since, name not in whole)
            for name, (reason, since) in (partly | whole).items()
        )
        return *([events] if lack else ()), *overview, *classes

    def _regained(self, now: int) -> list[Gap]:
        """Close the gap in which events may be missing, if it is over."""
        visibility = self._visibility
        events_are_late = self._awaits_events or visibility.catching_up
        if not self._gaps.since or visibility.failure or not visibility.complete or events_are_late:
            return []
        return self._gaps.close(now) if visibility.all_listed_from(self._gaps.listed_from) else []

    def _note_missing(self, now: int) -> list[Effect]:
        """Note that events are missing, if only answers show that."""
        visibility = self._visibility
        if visibility.failure:
            return []
        effects: list[Effect] = []
        resumed_at, arrive = self._gaps.resumed_at, not visibility.events_missing
        if resumed_at and arrive and not visibility.catching_up and self._nodes_dated(resumed_at):
            restarted = self._gaps.nodes_listed(self._view.starts_since(self._gaps.interrupted_at))
            if restarted and self._view.mark_unconfirmed_since(resumed_at):
                self._read_again(now)
                effects = self._stream.mark_stale("a node was started again, and reported no ends")
        never_arrived = not arrive and not visibility.had_events and self._config.awaits_events
        if never_arrived and visibility.complete and not visibility.events_are_kept:
            # Everything was read, and changes from now on are missed.
            visibility.had_events = True
            self._gaps.missed(now, f"no events arrived: {visibility.events_missing}")
        return effects

    def _nodes_dated(self, since: int) -> bool:
        """Return whether a listing that began then (ns), or later, showed since when each node runs."""
        return self._view.nodes.are_dated and self._visibility.listed_since("node", since)

    @property
    def _awaits_events(self) -> bool:
        return bool(self._visibility.events_missing and self._visibility.had_events)

    # Events.

    def _events_connected(self, now: int) -> list[Effect]:
        """Take note that events arrive from now on, and that earlier ones may have been missed."""
        again = self._visibility.had_events
        self._plan.try_again(now)
        self._visibility.events_arrive()
        self._visibility.unbroken_since = self._view.known.events_since = now
        self._view.known.events_arrive = True
        self._events.lost()
        effects = self._answers.resync("events are connected", now, events_lost=again)
        if again:
            self._forget_limits(now)
            effects += self._missed("they were not connected", now)
        self._visibility.had_events = True
        self._gaps.received_until = now
        return effects

    def _events_resumed(self, missed: str, now: int) -> list[Effect]:
        """Take note that events arrive, first those that waited; ``missed``: why earlier ones may be lost.

        The source is not synchronised before `LinkUp` ends that.
        """
        self._plan.try_again(now)
        self._visibility.events_arrive()
        self._visibility.unbroken_since = now
        self._visibility.catching_up = self._visibility.events_are_kept = True
        self._visibility.had_events = True
        self._gaps.resumed(now)
        self._view.known.events_arrive = True
        self._plan.hold(now + CATCHING_UP_LIMIT)
        if missed:
            self._events.lost()
            self._view.known.events_since = now
            self._forget_limits(now)
            self._view.known.events_of_meanwhile_missed()
        reason = missed or "events are connected again"
        return self._answers.resync(reason, now, events_lost=bool(missed))

    def _caught_up(self, now: int) -> list[Effect]:
        """Take note that all events that waited were received."""
        self._visibility.catching_up = False
        self._gaps.received_until = now
        self._gaps.caught_up(now)
        self._plan.release()
        return self._answers.resync("events have been caught up with", now)

    def _events_lost(self, reason: str, now: int, since: int) -> list[Effect]:
        """List everything again: events since ``since`` may have been lost, although others arrive."""
        self._events.lost()
        self._visibility.unbroken_since = self._view.known.events_since = now
        self._forget_limits(now)
        lost = self._answers.resync(reason, now, events_lost=True)
        return [*lost, *self._missed(reason, now, since)]

    def remember(
        self, objects: Iterable[KnownObject], now: int, *, events_kept: bool, complete_until: int = 0
    ) -> None:
        """Take the objects that existed when the previous gateway ended.

        Args:
            objects: all these objects.
            now: the time (ns).
            events_kept: whether every event since then will be received.
            complete_until: until when all events were received (ns); 0 if unknown.
        """
        self._visibility.events_are_kept = events_kept
        former = self._view.left(objects, complete_until)
        if former:
            self._answers.await_nodes(now)
        if events_kept and complete_until:
            self._gaps.interrupted_before(complete_until)
        if events_kept:
            self._view.known.restore(former, now, complete_until)
            self._plan.hold(now + CATCHING_UP_LIMIT)
        else:
            self._view.known.remember(former, now)

    def received_until(self, now: int) -> int:
        """Return the time until which all was proven to be received (ns); 0 if not all was read yet."""
        if not (self._visibility.was_complete or self._gaps.since):
            return 0
        return self._gaps.complete_until(now) or self._gaps.received_until or now

    def interrupted(self, since: int, now: int) -> None:
        """Note, before anything is read, that an internal error ended this source at ``since`` (ns)."""
        self._gaps.missed(now, "the source was restarted after an internal error", since)

    def _forget_limits(self, now: int) -> None:
        """Drop the limits, which no listing shows: virtual hosts may have been created again unnoticed."""
        self._view.hosts.learn_limits(None)
        self._calls.answers_again(now)

    def _missed(self, reason: str, now: int, since: int = 0) -> list[Effect]:
        self._view.known.mark_unconfirmed()
        self._note_missed(now, reason, since)
        since = min(filter(None, (since, self._gaps.since, self._gaps.received_until, now)))
        return self._stream.events_lost(Loss(0, since, now), reason, now)

    def _note_missed(self, now: int, reason: str, since: int = 0) -> None:
        """Note that events are missed; before the first reading the log knows that by itself."""
        if self._visibility.was_complete or self._visibility.events_are_kept:
            self._gaps.missed(now, reason, since)

    def _compare_with_events(self, now: int) -> list[Effect]:
        """Open a gap where listings show objects whose creation no event reported, though events arrive."""
        visibility = self._visibility
        are_due = now >= self._compare_at and not visibility.catching_up and not visibility.events_missing
        found = self._view.without_event.take(visibility.unbroken_since if are_due else 0)
        if not found:
            return []
        is_again = now < self._compare_at + COMPARE_AT_LONGEST
        self._compare_pause = min(2 * self._compare_pause, COMPARE_AT_LONGEST) if is_again else COMPARE_AGAIN
        self._compare_at = now + self._compare_pause
        self._rebind_reason = (
            f"of new objects ({len(found)}) no event came, though others may arrive, and earlier ones may be"
            " missing: the event exchange is bound again"
        )
        return self._events_lost(self._rebind_reason, now, min(one.made_after for one in found))

    def take_rebind_reason(self) -> str:
        """Return why the events' queue is to be bound again, since the last call; empty for nothing."""
        text, self._rebind_reason = self._rebind_reason, ""
        return text

    def _events_missing(self, reason: str, now: int) -> list[Effect]:
        """Take note that no events arrive; ``reason`` is shown to people."""
        news = reason != self._visibility.events_missing
        if self._visibility.had_events and not self._visibility.events_missing:
            if self._visibility.events_are_kept:
                self._gaps.interrupted()
            else:
                self._note_missed(now, f"no events arrived: {reason}")
        self._visibility.events_missing = reason
        self._visibility.events_missing_since = self._visibility.events_missing_since or now
        self._view.known.events_arrive = False
        self._visibility.unbroken_since = 0
        self._visibility.catching_up = False
        if self._visibility.events_are_kept:
            self._plan.hold_at_most(now + RESUMING_LIMIT)
        else:
            self._plan.release()
        notes: list[Effect] = [Note("events-missing", reason)] if news else []
        return [*notes, *self._answers.show_unread(now, at_once=True)]

    def _note_lateness(self, time: int, now: int) -> None:
        """Hold listings while events that happened before now arrive."""
        if self.is_catching_up:
            self._plan.hold(now + CATCHING_UP_LIMIT)
        elif time > 0:
            self._hold_for_late_events(self._late_events.arrived(time, now))

    def _hold_for_late_events(self, until: int) -> None:
        """List nothing until a time (ns), or 0, while late events arrive, which wait in the connection.

        A listing would show their results, and so end objects that they report next.
        """
        if until and not self.is_catching_up:
            self._plan.hold(until)

    def _note_recovery(self, event: BrokerEventReceived, now: int) -> None:
        """Note whether the event may be about what a node recovered that was started just before.

        Once all has been read, only one about a known object may be.
        """
        if self._gaps.resumed_at:
            starts = self._view.starts_since(self._gaps.interrupted_at)
            connects = event.key == "connection.created"
            self._gaps.event_happened(event.time or now, starts, connects=connects)
        elif not self._visibility.events_are_kept:
            connected = self._visibility.unbroken_since
            is_soon = connected <= now <= connected + RECOVERY_LASTS
            recovers = is_soon and self._view.any_started_before(connected)
            self._view.known.recovered_until = connected + RECOVERY_LASTS if recovers else 0
            self._gaps.recovering = recovers and bool(self._gaps.since or not self._visibility.was_complete)

    def _broker_event(self, event: BrokerEventReceived, now: int) -> list[Effect]:
        key = event.key
        self._gaps.event_arrived(event.time, now)
        self._note_lateness(event.time, now)
        self._note_recovery(event, now)
        waited = self._visibility.catching_up
        outcome = self._events.take(event, now, recovering=self._gaps.recovering, waited=waited)
        if late_by := self._late_events.late_by(event.time, now):
            self._view.known.ends.arrived_late(outcome.ended, late_by)
        effects = self._stream.apply(outcome.changes)
        # Events of a durable subscription cannot wait: they are acknowledged once published. The objects they
        # refer to are known from before the start, or by these events.
        effects += self._stream.raise_events(outcome.raised, now, at_once=self._visibility.events_are_kept)
        for host in self._events.hosts_in_question(event, outcome.changes, now):
            self._answers.ask_permission(host)
        for one in self._view.known.take_overtaken():
            gaps = self._gaps.overtaken(one)
            effects += [Observed(tuple(gaps))] if gaps else []
        if isinstance(outcome.event, Changed):
            self._plan.poll_soon(now, outcome.event.class_name)
        if key == TAGS_EVENT:
            self._plan.poll_users_soon(now)
            if self._visibility.refused:  # perhaps temporarily, by the gateway's own requests
                self._plan.poll_soon(now)
                self._plan.retry(now, at_once=True)
        elif key in _HURRIED:
            self._plan.poll_soon(now, _HURRIED[key])
        self._calls.broker_event(event, outcome.event, now)
        return effects

    # Requests to the management API.

    def next_request(self, now: int) -> ManagementRequest | None:
        """Return the request to send now, if one is due and the last answer has been applied completely."""
        if self.busy:
            return None
        self._answers.ask_singly(now)
        return self._plan.next_request(now)

    def _answered(self, request: ManagementRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        """Take the answer to a request that was sent at ``began`` and ended at ``ended`` (ns)."""
        if ended - began > OLDEST_ANSWER and isinstance(answer, Document):
            answer = Unavailable("its answer was taken too late", late=True)
        failed = self._visibility.failure
        effects = self._answers.take(request, answer, began, ended)
        identity = self._view.nodes.identity
        if identity.replacement:
            effects += self._broker_replaced(ended)
        if failed and not self._visibility.failure:
            if self._visibility.events_are_kept and self._visibility.events_missing:
                self._plan.hold(ended + RESUMING_LIMIT)
            self._calls.answers_again(ended)
            effects += self._stream.answers_again()
        return effects

    def _broker_stopped(self, reason: str, now: int) -> list[Effect]:
        """Note that the only node stops; its process may run on (``rabbitmqctl stop_app``, ``reset``)."""
        if _STOPS not in reason or len(self._view.nodes.names) != 1:
            return []
        return self._stream.apply(self._view.counters.stopped(now))

    def _broker_replaced(self, now: int) -> list[Effect]:
        """End all objects, and read the broker that is read in the place of the former one."""
        identity = self._view.nodes.identity
        text, identity.replacement = identity.replacement, ""
        self._visibility.replacement = text
        self._note_missed(now, text)
        self._events.lost()
        self._late_events = LateEvents(EVENT_DELAY, CATCHING_UP_LIMIT)
        ends = self._stream.apply(self._view.replaced(now))
        self._view.known.ends.forget_all(lambda _: True)
        self._forget_limits(now)
        self._read_again(now)
        self._answers.await_nodes(now)
        self._plan.nodes_listed()
        stale = self._stream.mark_stale(text)
        return [
            Note("another-broker", text),
            *ends,
            *stale,
            *self._calls.abandon(text),
        ]

    def next_scrape(self, now: int) -> ScrapeRequest | None:
        """Return the metrics to request now, beside the requests of `next_request`."""
        if self._visibility.failure or self._plan.is_holding(now):
            return None
        return self._answers.metrics.next_request(now)

    def sheet_for(self, request: ScrapeRequest) -> Sheet:
        """Return the object that takes the answer to ``request``."""
        return self._answers.metrics.sheet_for(request)

    def next_call_request(self) -> BrokerRequest | None:
        """Return the request of an operation to send now, beside those of `next_request`."""
        return self._calls.next_request()

    def abandon(self, reason: str) -> list[Effect]:
        """End the source because of ``reason``: no waiting operation is carried out any further."""
        return self._calls.abandon(reason)
