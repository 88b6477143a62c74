"""One source's part of the inventory: takes its observations, returns records of the feed."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, assert_never

import structlog

from gateway.feed.records import (
    AgentRecord,
    AlarmRecord,
    EventClassRecord,
    EventRecord,
    GapRecord,
    ObjectRecord,
    Record,
    SourceRecord,
)
from gateway.feed.values import ObjectLink
from gateway.inventory.agents import AgentTable
from gateway.inventory.alarms import AlarmEvaluator, AlarmKey, AlarmTable
from gateway.inventory.events import EventRecorder, duration_text, one_line, time_text
from gateway.inventory.exclusions import Exclusions
from gateway.inventory.lifecycle import ObjectLifecycle
from gateway.inventory.objects import Entry
from gateway.inventory.own_events import (
    ALARM_CLEARED,
    ALARM_RAISED,
    CLASS_NOT_READABLE_ALARM,
    GAP,
    PACKAGE,
    SOURCE_DOWN,
    SOURCE_DOWN_ALARM,
    SOURCE_UP,
)
from gateway.inventory.peer_identity import PeerWatch
from gateway.inventory.restored_objects import RestoredObject
from gateway.inventory.scope import SourceScope
from gateway.model.observations import (
    EVENT_DELAY_BOUNDS,
    TRUSTED,
    AgentGone,
    AgentLost,
    ClassLearned,
    EventLearned,
    EventSeen,
    Gap,
    HeartbeatSeen,
    ObjectSeen,
    Observation,
    PeerReplaced,
    RecordLost,
    ResyncBegan,
    ResyncEnded,
    Severity,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassKey
from gateway.model.source_kinds import source_kind
from gateway.model.times import SECOND

log = structlog.get_logger(__name__)

SHOWN_COUNTERS = (
    "messages",
    "octets",
    "protocol_errors",
    "refused",
    "resyncs",
    "gaps",
    "objects_created",
    "objects_deleted",
    "objects_refused",
    "objects_unshown",
    "unknown_class",
    "events",
    "alarms_refused",
)
"""Counters of every source record, which begin at 0."""

UNREACHED = frozenset({SourceState.CONNECTING, SourceState.DOWN})

_GAP_INTERVAL = 10**9
"""Nanoseconds between two published gaps of reports that could not be read."""


DEAD_LINK_FOUND: Final = 60 * SECOND
"""Nanoseconds after a standstill within which a connection that ended meanwhile is found to be dead.

A core that is killed before that leaves in the log that all was received until the standstill.
"""


class SourceInventory:
    """The objects, agents, alarms and state of one source. It has one writer.

    Args:
        scope: the scope of the source. The caller commits its index before the returned records are
            published.
        max_objects: the maximum number of objects; more are refused and counted.
        whole: each body is applied at once, so that no report may wait for another body.

    Attributes:
        identity: the identity of the source.
        counters: see `SHOWN_COUNTERS`.
        was_read: all objects were read once, so that an unknown object does not exist.
        agents: the agents of the source.
        steps: work that is left of applied observations.
    """

    def __init__(self, scope: SourceScope, max_objects: int = 200_000, *, whole: bool = False) -> None:
        self.identity = scope.identity
        self.max_objects = max_objects
        self.counters = scope.counters
        self.was_read = False
        self._scope = scope
        self._classes = scope.classes
        self._out = scope.records
        self._event_classes: dict[ClassKey, EventClassRecord] = {}
        self._objects = ObjectLifecycle(scope, max_objects)
        self.steps = self._objects.steps
        self._recorder = EventRecorder(scope, self._objects)
        self.agents = AgentTable(scope, self._recorder, self._objects)
        self._alarms = AlarmTable(scope)
        self._evaluator = AlarmEvaluator(scope, self._alarms, self._recorder, self._objects, self.agents)
        self._unread = _UnreadRecords()
        self._exclusions = Exclusions(scope.classes) if scope.classes.excludes else None
        # A session that keeps objects itself has to end them itself.
        restores = source_kind(scope.identity.kind).restores_objects
        self._peers = None if restores else PeerWatch(scope.classes, holds=not whole)
        self._watched = 0  # the number of observations in front that the watch has let pass
        self._replacement = ""
        self._state = SourceState.CONNECTING
        self._changes_wait = False
        self._complete_until = 0
        self._complete_until_standstill = 0
        self._standstill_over = 0
        self._detail = ""
        self._since = 0
        self._reached: bool | None = None
        self._published: SourceRecord | None = None

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def state(self) -> SourceState:
        """The last observed state."""
        return self._state

    @property
    def shows_outcomes(self) -> bool:
        """Whether unchanged values prove that a change failed: it is reached, and no changes wait in it."""
        return self._state not in UNREACHED and not self._changes_wait

    @property
    def last_received(self) -> int:
        """The time when an agent's message was last received; 0 for never."""
        return self.agents.last_received

    @property
    def alarm_count(self) -> int:
        """The number of active alarms."""
        return len(self._alarms)

    @property
    def unshown(self) -> int:
        """The number of objects that wait, not shown, until the disk takes their row numbers."""
        return self._objects.unnumbered

    @property
    def detail(self) -> str:
        """The detail of the state, for people."""
        return self._detail

    def by_row(self, class_name: str, row: int) -> Entry | None:
        """Return the living object with this row number in its class (``package:name``)."""
        return self._objects.by_row(class_name, row)

    def is_bound(self, entry: Entry) -> bool:
        """Return whether a message to the native id of a living object reaches it, as far as known."""
        return self._objects.is_bound(entry)

    def link(self, native_id: str) -> ObjectLink | None:
        """Return the object that has this native id, or had it last and ended lately."""
        return self._objects.link(native_id)

    def restore(self, objects: Iterable[RestoredObject], *, by_native_id: bool) -> None:
        """Take objects that lived when the previous core ended (`RestoredObjects.restore`)."""
        if self._exclusions is not None:
            objects = [one for one in objects if not self._classes.excludes_class(one.class_name)]
        self._objects.restore(objects, by_native_id=by_native_id)

    def restore_peer(self, class_name: str, agent: str, values: Mapping[str, object]) -> None:
        """Take the values of an object that lived when the previous core ended (`PeerWatch.restore`)."""
        if self._peers is not None:
            self._peers.restore(class_name, agent, values)

    @property
    def identifying(self) -> Mapping[str, Collection[str]]:
        """The agents to ask which peer is read, by class (``package:name``); empty where none is known."""
        return {} if self._peers is None else self._peers.asked

    def is_peer_shown(self, shown: Collection[Observation]) -> bool:
        """Return whether agents have shown the known peer (`PeerWatch.is_shown`)."""
        return self._peers is not None and self._peers.is_shown(shown)

    def has_peer_answered(self, shown: Collection[Observation], answered: Collection[str]) -> bool:
        """Return whether enough agents have answered (`PeerWatch.is_answered`)."""
        return self._peers is not None and self._peers.is_answered(shown, answered)

    def peer_replaced(
        self, shown: Collection[Observation], answered: Collection[str], silent: Collection[str]
    ) -> PeerReplaced | None:
        """Return that agents have shown another peer (`PeerWatch.replaced`); the caller has it observed."""
        return None if self._peers is None else self._peers.replaced(shown, answered, silent)

    def doubted(self, observations: Iterable[Observation]) -> frozenset[str]:
        """Return the agents that are to be asked before their objects are used (`PeerWatch.doubted`)."""
        return frozenset() if self._peers is None else self._peers.doubted(observations)

    def restore_agents(self, agents: Iterable[str], complete_until: int) -> None:
        """Add agents that had objects before the start, as stale: each is fresh once read completely."""
        for agent in agents:
            self.agents.restore(agent, complete_until)

    def expect_clearings(self, raised: Iterable[EventRecord]) -> None:
        """Take the events that raised conditions which, by the event log, have not ended."""
        self._evaluator.expect_clearings(raised)

    def apply(
        self, observations: deque[Observation], now: int, budget: int | None = None
    ) -> tuple[list[Record], int]:
        """Apply the observations of one message body, or a part of them.

        Args:
            observations: in the order of the body; those that are applied are removed.
            now: receipt, nanoseconds, the gateway's clock.
            budget: steps that this may take, each of about one object; ``None`` for no limit. It must be
                called again while observations or ``steps`` are left.

        Returns:
            The records that follow, in order, and the number of steps.
        """
        queue = self.steps
        steps = queue.run(budget) if queue.left else 0
        if self._peers is not None and not observations:
            self._let_pass(self._peers.overdue(now), observations)
        while observations and (budget is None or steps < budget):
            if (observation := self._next(observations, now)) is not None:
                self._observe(observation, now)
            steps += 1
            if queue.left:
                steps += queue.run(None if budget is None else budget - steps)
        self._settle(now)
        return self._take_records(), steps

    def _next(self, observations: deque[Observation], now: int) -> Observation | None:
        """Take out the next observation; ``None`` if it is excluded, or has to wait."""
        observation = observations.popleft()
        if self._watched:
            self._watched -= 1
            return observation
        left = self._without_excluded(observation, now)
        if left is None or self._peers is None or self._peers.is_indifferent_to(left):
            return left
        released = self._peers.passed(left, now)
        self._let_pass(released, observations)
        return self._next(observations, now) if released else None

    def _let_pass(self, watched: Collection[Observation], observations: deque[Observation]) -> None:
        """Put observations that the watch has let pass in front of those that it has not seen."""
        observations.extendleft(reversed([*watched]))
        self._watched += len(watched)

    def _without_excluded(self, received: Observation, now: int) -> Observation | None:
        """Return what is left of an observation: what is excluded is dropped before anything keeps it."""
        if self._exclusions is None:
            return received
        left = self._exclusions.shown(received)
        if left is None and isinstance(received, ObjectSeen | EventSeen | RecordLost):
            self.agents.received(received.agent, now)
        return left

    def _observe(self, observation: Observation, now: int) -> None:
        match observation:
            case ObjectSeen():
                self._object_seen(observation, now)
            case EventSeen():
                self._event_seen(observation, now)
            case RecordLost():
                self._record_lost(observation, now)
            case HeartbeatSeen():
                self.agents.confirmed(observation, now)
            case ClassLearned() | EventLearned():
                self._learned(observation)
            case ResyncBegan() | ResyncEnded():
                self._resync(observation, now)
            case SourceStateSeen():
                self._state_seen(observation, now)
            case AgentLost() | AgentGone() | PeerReplaced():
                self._agent_lost(observation, now)
            case Gap():
                self._gap_seen(observation, now)
            case _:
                assert_never(observation)

    def tick(self, now: int) -> None:
        """Settle all that is overdue, and publish changed counters; called once a second."""
        self._objects.settle_overdue(now)
        if now >= self._standstill_over:
            self._complete_until_standstill = 0
        self.steps.add(self._ticked(now))

    def _ticked(self, now: int) -> Iterator[None]:
        self.agents.tick(now)
        self._evaluator.tick(now)
        self._settle(now)
        self._publish_source()
        yield

    def stood_still(self, since: int, now: int) -> list[Record]:
        """Take note that the gateway stood still, from ``since`` until now; return what follows."""
        if self._state not in UNREACHED:  # otherwise it is a gap already
            kind = source_kind(self.identity.kind)
            if kind.misses_in_standstills:
                self._gap_seen(Gap(since, now, "the gateway stood still"), now)
            else:
                proven_until = since - EVENT_DELAY_BOUNDS[1] - kind.unproven
                self._complete_until_standstill = self._complete_until_standstill or proven_until
                self._standstill_over = now + DEAD_LINK_FOUND
                self._publish_source()
        return self._take_records()

    def mark_pending_losses(self, now: int) -> list[Record]:
        """Mark the objects of those agents as stale whose loss is still to be applied."""
        self.agents.mark_pending_losses(now)
        return self._take_records()

    def remove(self, now: int) -> list[Record]:
        """Remove the source: its alarms are cleared, its objects removed."""
        self._evaluator.clear_all("its source was taken out", now)
        self._objects.remove_source(now)
        self._objects.touched.clear()
        self._state, self._detail, self._since = SourceState.DOWN, "taken out of the configuration", now
        self._publish_source()
        return self._take_records()

    def surroundings(self) -> Iterator[SourceRecord | AgentRecord]:
        """Yield the source and its agents, which a snapshot contains before any object."""
        yield self._source_record()
        yield from self.agents

    def objects(self) -> Iterator[ObjectRecord]:
        """Yield the current record of every object, in dependency order."""
        return self._objects.records()

    def alarms(self) -> Iterator[AlarmRecord]:
        """Yield the record of every active alarm, in the order in which they were raised."""
        return self._alarms.records()

    def _object_seen(self, seen: ObjectSeen, now: int) -> None:
        self.agents.received(seen.agent, now)
        class_record = self._objects.known.get(seen.key)
        if class_record is not None:
            self._objects.seen(seen, class_record, now)
            return
        if seen.deleted:
            self._record_lost(RecordLost(seen.key, seen.agent), now)
        else:
            self.counters["unknown_class"] += 1  # the resync that follows its schema reports it again

    def _event_seen(self, seen: EventSeen, now: int) -> None:
        self.agents.received(seen.agent, now)
        if seen.key.package == PACKAGE:
            self.counters["refused"] += 1
            return
        event_class = self._event_classes.get(seen.key)
        if event_class is None:
            self._record_lost(RecordLost(seen.key, seen.agent), now)
            return
        rule = self._classes.event_rule(seen.key)
        self._evaluator.reported(self._recorder.of_agent(seen, event_class, rule, now), rule, now)

    def _record_lost(self, lost: RecordLost, now: int) -> None:
        self.agents.received(lost.agent, now)
        self.counters["unknown_class"] += 1
        self._unread.note(now)

    def _learned(self, learned: ClassLearned | EventLearned) -> None:
        record: Record
        if isinstance(learned, ClassLearned):
            record = self._classes.class_record(learned.schema, sets_natively=self.identity.sets_natively)
            self._objects.known[learned.schema.key] = record
        elif learned.schema.key.package == PACKAGE:
            return  # no agent may report an event in the gateway's name
        else:
            record = self._classes.event_record(learned.schema)
            self._event_classes[learned.schema.key] = record
        self._out.append(record)

    def _resync(self, resync: ResyncBegan | ResyncEnded, now: int) -> None:
        if isinstance(resync, ResyncBegan):
            self.counters["resyncs"] += 1
            self.agents.resync_began(resync)
            self._objects.begin_resync(resync, now)
        else:
            self._objects.end_resync(resync, now)
            self.steps.add(self._resync_settled(resync, now))

    def _resync_settled(self, ended: ResyncEnded, now: int) -> Iterator[None]:
        """Apply the consequences of a resync, after the objects that it did not report were removed."""
        if ended.complete and not ended.agent and not ended.class_name:
            self.was_read = True
            yield from self._evaluator.resynchronised(now)
        if ended.complete and not ended.class_name:
            self.agents.resync_ended(ended, now)
        yield

    def _agent_lost(self, lost: AgentLost | AgentGone | PeerReplaced, now: int) -> None:
        if isinstance(lost, PeerReplaced):
            self._peer_replaced(lost, now)
            return
        if isinstance(lost, AgentLost):
            self.agents.lost(lost, now)
            if lost.leaving:
                self._objects.begin_resync(ResyncBegan(lost.agent), now)
            return
        self.agents.gone(lost.agent, now)
        # Its objects are missing, whenever they were reported last.
        self._objects.begin_resync(ResyncBegan(lost.agent), now)
        self._objects.end_resync(ResyncEnded(complete=True, agent=lost.agent), now)

    def _peer_replaced(self, replaced: PeerReplaced, now: int) -> None:
        log.warning("another-broker", source=self.identity.name, reason=replaced.text)
        self._gap_seen(Gap(self.last_received or now, now, replaced.text), now)
        self._replacement = replaced.text
        self._publish_source()
        for agent in sorted(replaced.agents):
            self._agent_lost(AgentGone(agent, replaced.text), now)
        self.steps.add(self._former_gone(now))

    def _former_gone(self, now: int) -> Iterator[None]:
        """Publish, behind the ends of its objects, that the former peer is gone."""
        self.agents.remove_gone(now)
        yield

    def _gap_seen(self, gap: Gap, now: int) -> None:
        self.counters["gaps"] += 1
        self._out.append(GapRecord(self.identity.number, gap.start, gap.end, gap.reason))
        lasted = duration_text(max(0, gap.end - gap.start))
        text = one_line(f"{self.identity.name}: for {lasted} from {time_text(gap.start)} on: {gap.reason}")
        arguments = (gap.start, gap.end, gap.reason)
        self._out.append(self._recorder.own(GAP, arguments, Severity.WARNING, text, now))

    def _state_seen(self, seen: SourceStateSeen, now: int) -> None:
        if seen.state is not self._state or not self._since:
            self._since = now
        self._state, self._detail, self._changes_wait = seen.state, seen.detail, seen.changes_wait
        self._complete_until = seen.complete_until
        self.agents.is_source_trusted = seen.state is SourceState.SYNCHRONISED
        if seen.state in UNREACHED:
            self.agents.mark_all_stale(now)
        self._publish_source()
        self._publish_reached(now)
        self._judge_classes(seen, now)

    def _judge_classes(self, seen: SourceStateSeen, now: int) -> None:
        """Raise an alarm for each class that cannot be read, and clear those of others once that is known."""
        name, lasting = self.identity.name, set()
        for one in seen.not_readable:
            key = AlarmKey(CLASS_NOT_READABLE_ALARM, about=one.class_name)
            lasting.add(key)
            if key not in self._alarms:
                fails, stale = "cannot be read", "what is known of its objects is stale"
                if one.partly:
                    fails, stale = "is read in part", "the others of its objects are stale"
                text = f"{name}: {one.class_name} {fails} since {time_text(one.since)}: {one.reason};"
                text += f" {one.consequence or stale}"
                arguments = (CLASS_NOT_READABLE_ALARM,)
                event = self._recorder.own(ALARM_RAISED, arguments, Severity.MINOR, one_line(text), now)
                self._evaluator.raised_by(event, key, now)
        for key in list(self._alarms) if seen.state in TRUSTED else ():
            if key.name == CLASS_NOT_READABLE_ALARM and key not in lasting:
                text = one_line(f"{name}: {key.about} is read again")
                arguments = (CLASS_NOT_READABLE_ALARM,)
                event = self._recorder.own(ALARM_CLEARED, arguments, Severity.CLEARED, text, now)
                self._evaluator.cleared_by(event, key, now)

    def _publish_reached(self, now: int) -> None:
        """Publish that the source becomes synchronised, is no longer, or cannot be reached from the start."""
        if self._state not in TRUSTED | UNREACHED:
            return
        key = AlarmKey(SOURCE_DOWN_ALARM)
        arguments = (self._state.value, self._detail)
        text = f"source {self.identity.name} is {self._state.value}"
        text = one_line(f"{text}: {self._detail}" if self._detail else text)
        if self._state in TRUSTED:
            if self._reached:
                return
            self._reached = True
            event = self._recorder.own(SOURCE_UP, arguments, Severity.INFO, text, now)
            if key in self._alarms:
                self._evaluator.cleared_by(event, key, now)
            else:
                self._out.append(event)
        elif self._reached or (self._reached is None and self._state is SourceState.DOWN):
            self._reached = False
            if key not in self._alarms:  # it may be active since before the gateway was restarted
                event = self._recorder.own(SOURCE_DOWN, arguments, Severity.MAJOR, text, now)
                self._evaluator.raised_by(event, key, now)

    def _settle(self, now: int) -> None:
        """Apply the consequences of a body, or of a second, as a whole."""
        self._evaluator.evaluate(self._objects.touched, now)
        if self.agents.leaving:
            self.agents.remove_gone(now)
        if self._unread.count and (gap := self._unread.take_gap(now)) is not None:
            self._gap_seen(gap, now)

    def _take_records(self) -> list[Record]:
        """Return and clear the records to publish."""
        records = list(self._out)
        self._out.clear()
        return records

    def _source_record(self) -> SourceRecord:
        complete_until = min(filter(None, (self._complete_until, self._complete_until_standstill)), default=0)
        return SourceRecord(
            self.identity.number,
            self.identity.name,
            self.identity.kind,
            self._state,
            "; ".join(filter(None, (self._detail, self._replacement))),
            self._since,
            self.agents.last_received,
            {name: self.counters[name] for name in SHOWN_COUNTERS},
            complete_until,
        )

    def _publish_source(self) -> None:
        record = self._source_record()
        if record != self._published:
            self._published = record
            self._out.append(record)


class _UnreadRecords:
    """Events and ends of short-lived objects that arrived before their schema; they are published as gaps.

    Attributes:
        count: the number of reports not published yet.
    """

    def __init__(self) -> None:
        self.count = 0
        self._since = 0
        self._published: int | None = None

    def note(self, now: int) -> None:
        self._since = self._since if self.count else now
        self.count += 1

    def take_gap(self, now: int) -> Gap | None:
        """Return the gap to publish now, if there is one and the last one was published long enough ago."""
        if self._published is not None and 0 <= now - self._published < _GAP_INTERVAL:
            return None
        count, self.count, self._published = self.count, 0, now
        reason = f"{count} events or short-lived objects came before their schema"
        return Gap(min(self._since, now), now, reason)  # the clock may have been set back meanwhile
