"""One source's part of the inventory: its observations in, feed records out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gateway.feed.records import (
    AgentRecord,
    ClassRecord,
    EventClassRecord,
    EventRecord,
    GapRecord,
    Record,
    SourceRecord,
)
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.lifecycle import ObjectLifecycle
from gateway.model.observations import (
    AgentLost,
    ClassLearned,
    EventLearned,
    EventSeen,
    Gap,
    HeartbeatSeen,
    ObjectSeen,
    Observation,
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
    "events",
)
"""Counters of every source record, from 0 on."""


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """What configuration and state say of a source: the number is the state's, for its name, for ever."""

    number: int
    name: str
    kind: str


class SourceInventory:
    """The objects, agents and state of one source. Not shared: one writer.

    Args:
        identity: of the source.
        classes: shared registry of classes and their mappings.
        index: row numbers; committed by the caller before the records returned are published.
        next_event_id: makes the id of an event, the same in every north.
        max_objects: more than these are refused and counted.
    """

    def __init__(
        self,
        identity: SourceIdentity,
        classes: ClassRegistry,
        index: InstanceIndex,
        next_event_id: Callable[[], str],
        max_objects: int = 200_000,
    ) -> None:
        self.identity = identity
        self.counters: Counter[str] = Counter()
        self._classes = classes
        self._next_event_id = next_event_id
        self._known: dict[ClassKey, ClassRecord] = {}
        self._known_events: dict[ClassKey, EventClassRecord] = {}
        self._out: list[Record] = []
        self._objects = ObjectLifecycle(
            identity.number, classes, self._known, index, self._out, self.counters, max_objects
        )
        self._agents: dict[str, AgentRecord] = {}
        self._told_in_resync: set[str] = set()
        self._state = SourceState.CONNECTING
        self._detail = ""
        self._since = 0
        self._last_heard = 0
        self._told: SourceRecord | None = None
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            ObjectSeen: self._object_seen,
            EventSeen: self._event_seen,
            HeartbeatSeen: self._heartbeat_seen,
            ClassLearned: self._class_learned,
            EventLearned: self._event_learned,
            ResyncBegan: self._resync_began,
            ResyncEnded: self._resync_ended,
            SourceStateSeen: self._state_seen,
            AgentLost: self._agent_lost,
            Gap: self._gap_seen,
        }

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def state(self) -> SourceState:
        """As last observed."""
        return self._state

    def apply(self, observations: Iterable[Observation], now: int) -> list[Record]:
        """Apply what one message body told, whole; returns the records it makes, in order.

        Args:
            observations: in the order of the body.
            now: receipt, nanoseconds, the gateway's clock.
        """
        for observation in observations:
            self._handlers[type(observation)](observation, now)
        return self._take()

    def tick(self, now: int) -> list[Record]:
        """Once a second: settle objects that waited long enough, and tell counters that moved."""
        self._objects.settle_overdue(now)
        self._tell_source()
        return self._take()

    def records(self) -> Iterator[Record]:
        """Everything that is, in dependency order: for a snapshot. Classes are the registry's."""
        yield self._source_record()
        yield from self._agents.values()
        yield from self._objects.records()

    def _object_seen(self, seen: ObjectSeen, now: int) -> None:
        self._heard(seen.agent, now)
        class_record = self._known.get(seen.key)
        if class_record is None:
            self.counters["unknown_class"] += 1
        else:
            self._objects.seen(seen, class_record, now)

    def _heartbeat_seen(self, heartbeat: HeartbeatSeen, now: int) -> None:
        self._heard(heartbeat.agent, now)
        self._out.append(self._agents[heartbeat.agent])

    def _class_learned(self, learned: ClassLearned, now: int) -> None:  # noqa: ARG002  one of the handlers
        record = self._classes.class_record(learned.schema)
        self._known[learned.schema.key] = record
        self._out.append(record)

    def _event_learned(self, learned: EventLearned, now: int) -> None:  # noqa: ARG002  one of the handlers
        record = self._classes.event_record(learned.schema)
        self._known_events[learned.schema.key] = record
        self._out.append(record)

    def _resync_began(self, began: ResyncBegan, now: int) -> None:  # noqa: ARG002  one of the handlers
        self.counters["resyncs"] += 1
        self._told_in_resync.clear()
        self._objects.begin_resync(began)

    def _gap_seen(self, gap: Gap, now: int) -> None:  # noqa: ARG002  one of the handlers
        self.counters["gaps"] += 1
        self._out.append(GapRecord(self.identity.number, gap.start, gap.end, gap.reason))

    def _agent_lost(self, lost: AgentLost, now: int) -> None:
        self._set_fresh(lost.agent, fresh=False, now=now)

    def _resync_ended(self, ended: ResyncEnded, now: int) -> None:
        self._objects.end_resync(ended, now)
        if ended.complete and not ended.class_name:
            for agent in sorted(self._told_in_resync):
                if ended.agent in {"", agent}:
                    self._set_fresh(agent, fresh=True, now=now)

    def _state_seen(self, seen: SourceStateSeen, now: int) -> None:
        if seen.state is not self._state or not self._since:
            self._since = now
        self._state, self._detail = seen.state, seen.detail
        if seen.state in {SourceState.CONNECTING, SourceState.DOWN}:
            for agent in self._agents:
                self._set_fresh(agent, fresh=False, now=now)
        self._tell_source()

    def _heard(self, agent: str, now: int) -> None:
        """An agent spoke: it vouches for its objects, but is believed anew only after a resync."""
        self._last_heard = now
        self._told_in_resync.add(agent)
        known = self._agents.get(agent)
        if known is None:
            fresh = self._state is SourceState.SYNCHRONISED
            self._agents[agent] = AgentRecord(self.identity.number, agent, fresh, now, now)
            self._out.append(self._agents[agent])
        else:
            self._agents[agent] = AgentRecord(known.source, agent, known.fresh, known.since, now)

    def _set_fresh(self, agent: str, *, fresh: bool, now: int) -> None:
        known = self._agents.get(agent)
        if known is None or known.fresh == fresh:
            return
        confirmed = now if fresh else known.confirmed
        self._agents[agent] = AgentRecord(known.source, agent, fresh, now, confirmed)
        self._out.append(self._agents[agent])

    def _event_seen(self, seen: EventSeen, now: int) -> None:
        self._heard(seen.agent, now)
        record = self._known_events.get(seen.key)
        if record is None:
            self.counters["unknown_class"] += 1
            return
        self.counters["events"] += 1
        values = {position: value for position, value in enumerate(seen.arguments) if value is not None}
        self._out.append(
            EventRecord(
                self._next_event_id(),
                self.identity.number,
                record.number,
                seen.agent,
                seen.time,
                seen.severity,
                values,
            )
        )

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
        )

    def _tell_source(self) -> None:
        record = self._source_record()
        if record != self._told:
            self._told = record
            self._out.append(record)

    def _take(self) -> list[Record]:
        out = list(self._out)
        self._out.clear()  # shared with the lifecycle: emptied, never replaced
        return out
