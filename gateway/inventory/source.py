"""One source's part of the inventory: its observations in, feed records out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gateway.feed.records import (
    AgentRecord,
    AlarmRecord,
    ClassRecord,
    EventClassRecord,
    GapRecord,
    ObjectRecord,
    Record,
    SourceRecord,
)
from gateway.feed.values import ObjectLink
from gateway.inventory.agents import AgentTable
from gateway.inventory.alarm_evaluator import AlarmEvaluator
from gateway.inventory.alarms import AlarmKey, AlarmTable
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.event_texts import duration_text, one_line, time_text
from gateway.inventory.events import EventRecorder
from gateway.inventory.id_allocator import IdAllocator
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.lifecycle import ObjectLifecycle
from gateway.inventory.losses import Losses
from gateway.inventory.objects import Entry
from gateway.inventory.own_events import (
    GAP,
    PACKAGE,
    SOURCE_DOWN,
    SOURCE_DOWN_ALARM,
    SOURCE_UP,
)
from gateway.inventory.restored_objects import RestoredObject
from gateway.model.events import Severity
from gateway.model.observations import (
    BELIEVED,
    AgentGone,
    AgentLost,
    ClassLearned,
    EventLearned,
    EventSeen,
    Gap,
    HeartbeatSeen,
    ObjectSeen,
    Observation,
    RecordLost,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassKey

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
    "unknown_class",
    "events",
    "alarms_refused",
)
"""Counters of every source record, from 0 on."""

UNREACHED = frozenset({SourceState.CONNECTING, SourceState.DOWN})


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """What configuration and state say of a source: the number is the state's, for its name, for ever.

    ``sets_natively``: its dialect has a request of its own to set properties, beside methods.
    """

    number: int
    name: str
    kind: str
    sets_natively: bool = False


class SourceInventory:
    """The objects, agents, alarms and state of one source. Not shared: one writer.

    Args:
        identity: of the source.
        classes: shared registry of classes and their mappings.
        index: row numbers; committed by the caller before the records returned are published.
        numbers: of events, alarms and ends; shared by all sources.
        max_objects: more than these are refused and counted.

    Attributes:
        counters: see `SHOWN_COUNTERS`.
        was_read: all that there is was told once: what is not known is not there.
        agents: who vouches for its objects.
    """

    def __init__(
        self,
        identity: SourceIdentity,
        classes: ClassRegistry,
        index: InstanceIndex,
        numbers: IdAllocator,
        max_objects: int = 200_000,
    ) -> None:
        self.identity = identity
        self.max_objects = max_objects
        self.counters: Counter[str] = Counter()
        self.was_read = False
        self._classes = classes
        self._known: dict[ClassKey, ClassRecord] = {}
        self._known_events: dict[ClassKey, EventClassRecord] = {}
        self._out: list[Record] = []
        self._objects = ObjectLifecycle(
            identity.number,
            classes,
            self._known,
            index,
            numbers,
            self._out,
            self.counters,
            max_objects,
        )
        self._steps = self._objects.steps
        self._recorder = EventRecorder(
            identity.number,
            classes,
            numbers,
            self._objects.link,
            self.counters,
            only_called=self._objects.only_called,
        )
        self.agents = AgentTable(
            (identity.number, identity.name), self._recorder, self._objects.count_of, self._out
        )
        self._alarms = AlarmTable(identity.number, numbers, index)
        self._conditions = AlarmEvaluator(
            classes,
            self._alarms,
            self._recorder,
            self._objects.living,
            self.agents.is_fresh,
            self._out,
            self.counters,
        )
        self._losses = Losses()
        self._state = SourceState.CONNECTING
        self._changes_wait = False
        self._heard_until = 0
        self._detail = ""
        self._since = 0
        self._reached: bool | None = None
        self._last_heard = 0
        self._told: SourceRecord | None = None
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            ObjectSeen: self._object_seen,
            EventSeen: self._event_seen,
            RecordLost: self._record_lost,
            HeartbeatSeen: self._heartbeat_seen,
            ClassLearned: self._class_learned,
            EventLearned: self._event_learned,
            ResyncBegan: self._resync_began,
            ResyncEnded: self._resync_ended,
            SourceStateSeen: self._state_seen,
            AgentLost: self._agent_lost,
            AgentGone: self._agent_gone,
            Gap: self._gap_seen,
        }

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def state(self) -> SourceState:
        """As last observed."""
        return self._state

    @property
    def shows_outcomes(self) -> bool:
        """Whether values from before show that a change failed: it is reached, and no changes wait in it."""
        return self._state not in UNREACHED and not self._changes_wait

    @property
    def last_heard(self) -> int:
        """When an agent last spoke; 0 for never."""
        return self._last_heard

    @property
    def alarm_count(self) -> int:
        """Conditions that last."""
        return len(self._alarms)

    @property
    def detail(self) -> str:
        """Of the state, for people."""
        return self._detail

    def by_row(self, class_name: str, row: int) -> Entry | None:
        """The living object that has this row number in its class (``package:name``)."""
        return self._objects.by_row(class_name, row)

    def is_bound(self, entry: Entry) -> bool:
        """Whether a message to the native id of a living object reaches that object, as far as known."""
        return self._objects.is_bound(entry)

    def link(self, native_id: str) -> ObjectLink | None:
        """The object that has this native id, or had it last and ended lately."""
        return self._objects.link(native_id)

    def restore(self, objects: Iterable[RestoredObject], *, by_native_id: bool) -> None:
        """Take in objects that lived when the core before this one ended (`RestoredObjects.restore`)."""
        self._objects.restore(objects, by_native_id=by_native_id)

    @property
    def is_settling(self) -> bool:
        """Whether something is left to do of what was applied."""
        return bool(self._steps)

    def apply(
        self, observations: deque[Observation], now: int, most: int | None = None
    ) -> tuple[list[Record], int]:
        """Apply what one message body told, to its end or so far.

        Args:
            observations: in the order of the body; those that are applied are taken out.
            now: receipt, nanoseconds, the gateway's clock.
            most: steps that this may take, each of about one object; ``None`` for no such limit. It is to be
                called again while observations are left, or it `is_settling`.

        Returns:
            The records that this makes, in order, and the number of steps.
        """
        steps = self._steps.take(most)
        while observations and (most is None or steps < most):
            observation = observations.popleft()
            self._handlers[type(observation)](observation, now)
            steps += 1
            if self._steps:
                steps += self._steps.take(None if most is None else most - steps)
        self._settle(now)
        return self._take(), steps

    def tick(self, now: int) -> None:
        """Once a second: settle what waited long enough, and tell counters that moved; to be applied."""
        self._objects.settle_overdue(now)
        self._steps.add(self._ticked(now))

    def _ticked(self, now: int) -> Iterator[None]:
        self._conditions.tick(now)
        self._settle(now)
        self._tell_source()
        yield

    def doubt(self, now: int) -> list[Record]:
        """Tell of those agents that it is about to lose: what they vouched for is not fresh any more."""
        self.agents.doubt_lost(now)
        return self._take()

    def end(self, now: int) -> list[Record]:
        """The source is taken out: its objects are gone as far as anyone can know, and so are its alarms."""
        self._conditions.clear_all("its source was taken out", now)
        self._objects.remove_source(now)
        self._objects.touched.clear()
        self._state, self._detail, self._since = SourceState.DOWN, "taken out of the configuration", now
        self._tell_source()
        return self._take()

    def surroundings(self) -> Iterator[SourceRecord | AgentRecord]:
        """The source and its agents as they stand: what a snapshot tells before any object."""
        yield self._source_record()
        yield from self.agents

    def objects(self) -> Iterator[ObjectRecord]:
        """The current record of every object, in dependency order."""
        return self._objects.records()

    def alarms(self) -> Iterator[AlarmRecord]:
        """The record of every active alarm, in the order in which they were raised."""
        return self._alarms.records()

    def _object_seen(self, seen: ObjectSeen, now: int) -> None:
        self._heard(seen.agent, now)
        class_record = self._known.get(seen.key)
        if class_record is not None:
            self._objects.seen(seen, class_record, now)
            return
        if seen.deleted:
            self._record_lost(RecordLost(seen.key, seen.agent), now)
        else:
            self.counters["unknown_class"] += 1  # the resync that follows its schema tells it again

    def _event_seen(self, seen: EventSeen, now: int) -> None:
        self._heard(seen.agent, now)
        if seen.key.package == PACKAGE:
            self.counters["refused"] += 1
            return
        event_class = self._known_events.get(seen.key)
        if event_class is None:
            self._record_lost(RecordLost(seen.key, seen.agent), now)
            return
        rule = self._classes.event_rule(seen.key)
        self._conditions.told_by(self._recorder.of_agent(seen, event_class, rule, now), rule, now)

    def _record_lost(self, lost: RecordLost, now: int) -> None:
        self._heard(lost.agent, now)
        self.counters["unknown_class"] += 1
        self._losses.lost(now)

    def _heartbeat_seen(self, heartbeat: HeartbeatSeen, now: int) -> None:
        self._heard(heartbeat.agent, now)
        self.agents.tell(heartbeat.agent)

    def _class_learned(self, learned: ClassLearned, now: int) -> None:  # noqa: ARG002  one of the handlers
        record = self._classes.class_record(learned.schema, sets_natively=self.identity.sets_natively)
        self._known[learned.schema.key] = record
        self._out.append(record)

    def _event_learned(self, learned: EventLearned, now: int) -> None:  # noqa: ARG002  one of the handlers
        if learned.schema.key.package == PACKAGE:
            return  # nobody speaks in the gateway's name
        record = self._classes.event_record(learned.schema)
        self._known_events[learned.schema.key] = record
        self._out.append(record)

    def _resync_began(self, began: ResyncBegan, now: int) -> None:
        self.counters["resyncs"] += 1
        self.agents.resync_began(began)
        self._objects.begin_resync(began, now)

    def _resync_ended(self, ended: ResyncEnded, now: int) -> None:
        self._objects.end_resync(ended, now)
        self._steps.add(self._resync_settled(ended, now))

    def _resync_settled(self, ended: ResyncEnded, now: int) -> Iterator[None]:
        """What holds when the last object is gone that was not told."""
        if ended.complete and not ended.agent and not ended.class_name:
            self.was_read = True
            yield from self._conditions.resynchronised(now)
        if ended.complete and not ended.class_name:
            self.agents.resync_ended(ended, now)
        yield

    def _agent_lost(self, lost: AgentLost, now: int) -> None:
        self.agents.lost(lost, now)
        if lost.leaving:
            self._objects.begin_resync(ResyncBegan(lost.agent), now)

    def _agent_gone(self, gone: AgentGone, now: int) -> None:
        self.agents.gone(gone.agent, now)
        # Whenever they were told last, its objects are over.
        self._objects.begin_resync(ResyncBegan(gone.agent), now)
        self._objects.end_resync(ResyncEnded(complete=True, agent=gone.agent), now)

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
        self._heard_until = seen.heard_until
        if seen.state in UNREACHED:
            self.agents.doubt(now)
        self._tell_source()
        self._tell_reached(now)

    def _tell_reached(self, now: int) -> None:
        """Tell when the source begins to be believed, ceases to be, or cannot be reached to begin with."""
        if self._state not in BELIEVED | UNREACHED:
            return
        key = AlarmKey(SOURCE_DOWN_ALARM)
        arguments = (self._state.value, self._detail)
        text = f"source {self.identity.name} is {self._state.value}"
        text = one_line(f"{text}: {self._detail}" if self._detail else text)
        if self._state in BELIEVED:
            if self._reached:
                return
            self._reached = True
            event = self._recorder.own(SOURCE_UP, arguments, Severity.INFO, text, now)
            if key in self._alarms:
                self._conditions.cleared_by(event, key, now)
            else:
                self._out.append(event)
        elif self._reached or (self._reached is None and self._state is SourceState.DOWN):
            self._reached = False
            if key not in self._alarms:  # it may stand since before the gateway was restarted
                event = self._recorder.own(SOURCE_DOWN, arguments, Severity.MAJOR, text, now)
                self._conditions.raised_by(event, key, now)

    def _heard(self, agent: str, now: int) -> None:
        self._last_heard = now
        self.agents.heard(agent, now, believed=self._state is SourceState.SYNCHRONISED)

    def _settle(self, now: int) -> None:
        """What follows from a body, or a second, as a whole."""
        self._conditions.settle(self._objects.touched, now)
        self.agents.forget_gone(now)
        gap = self._losses.take(now)
        if gap is not None:
            self._gap_seen(gap, now)

    def _source_record(self) -> SourceRecord:
        return SourceRecord(
            self.identity.number,
            self.identity.name,
            self.identity.kind,
            self._state,
            self._detail,
            self._since,
            self._last_heard,
            {name: self.counters[name] for name in SHOWN_COUNTERS},
            self._heard_until,
        )

    def _tell_source(self) -> None:
        record = self._source_record()
        if record != self._told:
            self._told = record
            self._out.append(record)

    def _take(self) -> list[Record]:
        out = list(self._out)
        self._out.clear()  # shared with the parts: emptied, never replaced
        return out
