"""The inventory: all sources, one sequence of batches for every subscriber."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gateway.feed.records import Batch, Record
from gateway.inventory.classes import ClassRegistry
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
    """

    def __init__(
        self,
        gateway: str,
        epoch: int,
        classes: ClassRegistry,
        index: InstanceIndex,
        publish: Callable[[Batch], None],
    ) -> None:
        self._gateway = gateway
        self._epoch = epoch
        self._classes = classes
        self._index = index
        self._publish = publish
        self._sources: dict[str, SourceInventory] = {}
        self._sequence = 0
        self._events = 0

    def add_source(self, name: str, kind: str, max_objects: int = 200_000) -> SourceInventory:
        """Take a source in; its number is the one its name always had in this state folder."""
        identity = SourceIdentity(self._index.source_number(name), name, kind)
        source = SourceInventory(identity, self._classes, self._index, self._event_id, max_objects)
        self._sources[name] = source
        return source

    def observed(self, source: SourceInventory, observations: Iterable[Observation], now: int) -> None:
        """Apply what one message body told of ``source`` and publish what follows from it."""
        self._out(source.apply(observations, now))

    def tick(self, now: int) -> None:
        """Once a second."""
        for source in self._sources.values():
            self._out(source.tick(now))

    def snapshot(self) -> tuple[Sequence[Record], int]:
        """Every current record, immutable and in dependency order, and the sequence they stand at."""
        records: list[Record] = list(self._classes.records())
        for source in self._sources.values():
            records.extend(source.records())
        return records, self._sequence

    def _out(self, records: list[Record]) -> None:
        self._index.commit()  # before anyone can see a row number
        if records:
            self._sequence += 1
            self._publish(Batch(self._epoch, self._sequence, tuple(records)))

    def _event_id(self) -> str:
        self._events += 1
        return f"{self._gateway}.{self._epoch}.{self._events}"
