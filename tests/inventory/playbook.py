"""A source inventory with its surroundings: observations as input, feed records as output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from gateway.feed.records import Batch, ObjectRecord, Record, SourceRecord
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import BatchSettings, Inventory
from gateway.mapping.overrides import NO_OVERRIDES, Overrides
from gateway.mapping.rules import Mapping
from gateway.model.observations import (
    ClassLearned,
    EventLearned,
    ObjectSeen,
    Observation,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassKey, ClassSchema, Element, EventSchema, Kind
from gateway.model.times import SECOND
from gateway.model.values import Reference, Value, ValueType
from tests.components.opened_index import opened_index

NOW = 1_700_000_000 * SECOND
AGENT = "1.0"

VHOST = ClassSchema(
    ClassKey("shop", "vhost", b"v" * 16), properties=(Element("name", ValueType.STRING, index=True),)
)
QUEUE = ClassSchema(
    ClassKey("shop", "queue", b"q" * 16),
    properties=(
        Element("vhost", ValueType.REFERENCE, index=True, references="vhost"),
        Element("name", ValueType.STRING, index=True),
        Element("exclusive", ValueType.BOOL),
    ),
    statistics=(Element("depth", ValueType.U64), Element("published", ValueType.U64)),
)
CONNECTION = ClassSchema(
    ClassKey("shop", "connection", b"c" * 16), properties=(Element("name", ValueType.STRING, index=True),)
)
CONSUMER = ClassSchema(
    ClassKey("shop", "consumer", b"o" * 16),
    properties=(
        Element("tag", ValueType.STRING, index=True),
        Element("queue", ValueType.REFERENCE, optional=True, references="queue"),
    ),
)
MAPPING = Mapping.model_validate(
    {
        "version": 1,
        "package": "shop",
        "module": "SHOP-MIB",
        "prefix": "shop",
        "classes": {
            "vhost": {"properties": {"name": {}}},
            "queue": {
                "parent": "vhost",
                "name": "name",
                "lifetime": {"transient_when": [{"property": "exclusive", "equals": True}]},
                "properties": {"vhost": {}, "name": {}},
                "statistics": {"published": {"kind": Kind.COUNTER}},
            },
            "consumer": {
                "parent": "queue",
                "lifetime": {"default": "transient"},
                "properties": {"tag": {}, "queue": {}},
            },
            "connection": {"lifetime": {"default": "transient"}, "properties": {"name": {}}},
        },
    }
)

SomeRecord = TypeVar("SomeRecord", bound=Record)


class Playbook:
    """One source called ``shop``; each `publish` is one message body, at a clock that tests move."""

    def __init__(  # noqa: PLR0913  what a source and its inventory are made of
        self,
        state: Path,
        *,
        boot: int = 1,
        max_objects: int = 1000,
        mapping: Mapping = MAPPING,
        schemas: Sequence[ClassSchema | EventSchema] = (VHOST, QUEUE, CONSUMER, CONNECTION),
        slicing: BatchSettings | None = None,
        overrides: Overrides = NO_OVERRIDES,
        kind: str = "qmf",
        whole: bool = False,
    ) -> None:
        self.now = NOW
        self.batches: list[Batch] = []
        self.index = opened_index(state / "instances.sqlite3")
        self.schemas = schemas
        registry = ClassRegistry({mapping.package: mapping}, overrides)
        self.inventory = Inventory("gw", boot, registry, self.index, self.batches.append, slicing)
        self.source = self.inventory.add_source("shop", kind, max_objects, whole=whole)

    def publish(self, *observations: Observation) -> list[Record]:
        """Pass the observations of one body to the inventory; return the resulting records."""
        before = len(self.batches)
        self.inventory.observed(self.source, observations, self.now)
        return [record for batch in self.batches[before:] for record in batch.records]

    def synchronise(
        self, *objects: ObjectSeen, complete: bool = True, restarted: bool = False
    ) -> list[Record]:
        """Run a whole resync that reports ``objects``, each in a body of its own; return the records."""
        records = self.publish(
            SourceStateSeen(SourceState.SYNCHRONISING),
            *(ClassLearned(s) if isinstance(s, ClassSchema) else EventLearned(s) for s in self.schemas),
            ResyncBegan(restarted=restarted),
        )
        for seen in objects:
            records += self.publish(seen)
        state = SourceState.SYNCHRONISED if complete else SourceState.DEGRADED
        return records + self.publish(ResyncEnded(complete), SourceStateSeen(state))

    def tick(self, seconds: float) -> list[Record]:
        """Let time pass; return the resulting records."""
        self.now += int(seconds * SECOND)
        before = len(self.batches)
        self.inventory.tick(self.now)
        return [record for batch in self.batches[before:] for record in batch.records]

    def remove_source(self) -> list[Record]:
        """Remove the source from the inventory; return the resulting records."""
        before = len(self.batches)
        self.inventory.remove_source(self.source, self.now)
        return [record for batch in self.batches[before:] for record in batch.records]

    def snapshot(self) -> list[Record]:
        """Return the snapshot for a new subscriber."""
        return list(self.inventory.snapshot()[0])

    def objects(self) -> dict[str, ObjectRecord]:
        """Return the objects in a snapshot, by stable name."""
        records, _ = self.inventory.snapshot()
        return {record.stable_name: record for record in records if isinstance(record, ObjectRecord)}

    def source_record(self) -> SourceRecord:
        """Return the record of the source in a snapshot."""
        return of(SourceRecord, list(self.inventory.snapshot()[0]))[0]


def of(kind: type[SomeRecord], records: Sequence[Record]) -> list[SomeRecord]:
    """Return the records of one kind."""
    return [record for record in records if isinstance(record, kind)]


def vhost(name: str, native_id: str) -> ObjectSeen:
    """Return a complete observation of a virtual host."""
    return ObjectSeen(VHOST.key, AGENT, native_id, NOW, 0, 0, (name,), ())


def queue(
    name: str,
    native_id: str,
    vhost_id: str = "v1",
    *,
    exclusive: bool = False,
    created: int = 0,
    deleted: int = 0,
    depth: Value | None = 0,
    published: Value | None = None,
) -> ObjectSeen:
    """Return a complete observation of a queue."""
    properties = (Reference(vhost_id), name, exclusive)
    return ObjectSeen(QUEUE.key, AGENT, native_id, NOW, created, deleted, properties, (depth, published))


def connection(name: str, native_id: str, created: int = 0) -> ObjectSeen:
    """Return a complete observation of a connection."""
    return ObjectSeen(CONNECTION.key, AGENT, native_id, NOW, created, 0, (name,), ())


def consumer(tag: str, native_id: str, queue_id: str | None) -> ObjectSeen:
    """Return a complete observation of a consumer; it belongs to a queue, which is not in its name."""
    target = None if queue_id is None else Reference(queue_id)
    return ObjectSeen(CONSUMER.key, AGENT, native_id, NOW, NOW, 0, (tag, target), ())


def statistics(
    native_id: str, depth: Value | None, published: Value | None, sampled: int = NOW
) -> ObjectSeen:
    """Return an observation of a queue's statistics alone."""
    return ObjectSeen(QUEUE.key, AGENT, native_id, sampled, 0, 0, None, (depth, published))
