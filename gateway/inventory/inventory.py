"""The inventory: all sources, one sequence of batches for every subscriber."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gateway.feed.latest import HistoryLimits
from gateway.feed.operations import OperationRecord
from gateway.feed.records import Batch, EventLogRecord, EventRecord, Record
from gateway.inventory.batch_applier import BatchApplier, BatchSettings
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.event_log import EventLogCondition
from gateway.inventory.history import History
from gateway.inventory.id_allocator import IdAllocator
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.source import SourceIdentity, SourceInventory
from gateway.model.observations import Observation


class Inventory:
    """What the gateway knows, told to ``publish`` in batches.

    Args:
        gateway: the gateway's uuid, text; part of every event id.
        epoch: boot of this core; part of every batch and event id.
        classes: registry with the mappings.
        index: row numbers.
        publish: called with each batch; never raises, never waits.
        slicing: how what takes long is cut; ``None`` has all applied at once.
        limits: how much of the past is told again.
    """

    def __init__(
        self,
        gateway: str,
        epoch: int,
        classes: ClassRegistry,
        index: InstanceIndex,
        publish: Callable[[Batch], None],
        slicing: BatchSettings | None = None,
        limits: HistoryLimits | None = None,
    ) -> None:
        self._epoch = epoch
        self._classes = classes
        self._index = index
        self._publish = publish
        self._slicing = slicing
        self._sources: dict[str, SourceInventory] = {}
        self._slices: dict[int, BatchApplier] = {}
        self._numbers = IdAllocator(gateway, epoch, index)
        self._event_log = EventLogCondition(classes, self._numbers)
        self._history = History(limits)
        self._sequence = 0

    @property
    def sources(self) -> tuple[SourceInventory, ...]:
        """All of them."""
        return tuple(self._sources.values())

    def add_source(
        self,
        name: str,
        kind: str,
        max_objects: int = 200_000,
        *,
        sets_natively: bool = False,
        whole: bool = False,
    ) -> SourceInventory:
        """Take a source in; its number is the one its name always had in this state folder.

        Args:
            name: as configured.
            kind: as configured.
            max_objects: more than these are refused and counted.
            sets_natively: its dialect has a request of its own to set properties.
            whole: what a message body tells is applied before `observed` returns, however long that takes.
        """
        identity = SourceIdentity(self._index.source_number(name), name, kind, sets_natively)
        source = SourceInventory(identity, self._classes, self._index, self._numbers, max_objects)
        self._sources[name] = source
        self._slices[identity.number] = BatchApplier(source, self._out, None if whole else self._slicing)
        return source

    def source(self, number: int) -> SourceInventory | None:
        """The source that has this number."""
        return next((one for one in self._sources.values() if one.identity.number == number), None)

    def remove_source(self, source: SourceInventory, now: int) -> None:
        """Take a source out: its alarms are cleared, its objects end, no snapshot tells of it any more."""
        del self._sources[source.identity.name], self._slices[source.identity.number]
        self._out(source.end(now))
        self._history.forget(source.identity.number)

    def observed(self, source: SourceInventory, observations: Iterable[Observation], now: int) -> None:
        """Apply what one message body told of ``source`` and publish what follows from it.

        A long one is applied in slices, and what is told of the source meanwhile follows when it is applied.
        """
        self._slices[source.identity.number].observed(observations, now)

    def afterwards(self, source: SourceInventory, do: Callable[[], None]) -> None:
        """Do something when all that was told of ``source`` before is applied: at once where it is."""
        self._slices[source.identity.number].afterwards(do)

    def go_on(self) -> None:
        """Apply a slice of each source of which something is left."""
        for slices in self._slices.values():
            if slices.is_busy:
                slices.go_on()

    def event_log_stands(self, record: EventLogRecord, now: int) -> None:
        """Tell how the event log is."""
        self._out(self._event_log.stands(record, now))

    def operation_told(self, record: OperationRecord) -> None:
        """Tell of an operation; snapshots tell it again."""
        self._out([record])

    @property
    def events_made(self) -> int:
        """How many events this core has made so far: the number of the last one."""
        return self._numbers.events

    def recall(self, events: Iterable[EventRecord], made: Mapping[int, int]) -> None:
        """Cores before this one made these events: snapshots tell them again, and nobody else is told.

        Args:
            events: those that are known still, in order.
            made: number of the last event that a core made, by its epoch, known still or not.
        """
        self._history.recall(events, made)

    def tick(self, now: int) -> None:
        """Once a second."""
        self._out(self._event_log.tick(now))
        for slices in self._slices.values():
            slices.tick(now)

    def snapshot(self) -> tuple[Sequence[Record], int]:
        """Every current record, immutable and in dependency order, and the sequence they stand at.

        Classes, the event log, sources with their agents, the last ends of objects, objects, the last
        operations, the last events, active alarms.
        """
        sources = tuple(self._sources.values())
        records: list[Record] = [*self._classes.records(), *self._event_log.records()]
        for source in sources:
            records.extend(source.surroundings())
        records.extend(self._history.ends())
        for source in sources:
            records.extend(source.objects())
        records.extend(self._history.operations())
        records.extend(self._history.events())
        for source in sources:
            records.extend(source.alarms())
        return records, self._sequence

    def _out(self, records: list[Record]) -> None:
        self._index.commit()  # before anyone can see a row number
        if records:
            self._history.note(records)
            self._sequence += 1
            self._publish(Batch(self._epoch, self._sequence, tuple(records)))
