"""A source that reads a cluster, and the gateway's publications on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, TypeAlias

from gateway.clock import SystemClock
from gateway.config.sources import RabbitMqSource
from gateway.eventlog.record import AnyRecord, LogRecord, ObjectChange
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.feed.records import (
    AlarmRecord,
    Batch,
    ClassRecord,
    DeleteRecord,
    Lifetime,
    ObjectRecord,
    Record,
    SourceRecord,
)
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.mapping.files import secret_patterns
from gateway.model.observations import SourceState
from gateway.model.secrets import SecretRules
from gateway.service.sources.source_context import SourceContext
from gateway.service.sources.sources import source_of
from tests.components.cluster import PrivateCluster
from tests.components.shipped_mappings import shipped_mappings
from tests.components.waiting import eventually

Shown: TypeAlias = dict[str, dict[str, Any]]
"""The objects of a class: their values by element, by their own name."""


class ClusterWatch:
    """The publications of the gateway on a cluster.

    Attributes:
        records: all published records, in order.
        logged: the records of the event log, in order.
    """

    def __init__(self, inventory: Inventory, records: list[Record], logged: list[LogRecord]) -> None:
        self._inventory = inventory
        self.records = records
        self.logged = logged

    @property
    def source(self) -> SourceRecord:
        """The present record of the source."""
        return next(record for record in self._now() if isinstance(record, SourceRecord))

    @property
    def is_whole(self) -> bool:
        """Whether everything is known, and events arrive."""
        return self.source.state is SourceState.SYNCHRONISED and "cannot be seen" not in self.source.detail

    def shown(self, class_name: str) -> Shown:
        """Return the present objects of a class."""
        now = self._now()
        schemas = {record.number: record.schema for record in now if isinstance(record, ClassRecord)}
        return {
            record.leaf_name: {
                schemas[record.class_number].elements[place].name: value
                for place, value in record.values.items()
            }
            for record in now
            if isinstance(record, ObjectRecord) and schemas[record.class_number].key.name == class_name
        }

    def objects(self, class_name: str) -> list[ObjectRecord]:
        """Return the present objects of a class, also those of one name."""
        now = self._now()
        numbers = {
            record.number
            for record in now
            if isinstance(record, ClassRecord) and record.schema.key.name == class_name
        }
        return [
            record for record in now if isinstance(record, ObjectRecord) and record.class_number in numbers
        ]

    @property
    def identities(self) -> dict[str, tuple[int, int, int]]:
        """Class, row and time of creation of each durable object, by its stable name."""
        return {
            record.stable_name: (record.class_number, record.row, record.created)
            for record in self._now()
            if isinstance(record, ObjectRecord) and record.lifetime is Lifetime.DURABLE
        }

    @property
    def alarms(self) -> set[str]:
        """The names of the active alarms."""
        return {
            record.name for record in self._now() if isinstance(record, AlarmRecord) and not record.cleared
        }

    def states(self, since: int) -> set[SourceState]:
        """Return each state of the source ``since`` so many records."""
        return {record.state for record in self.records[since:] if isinstance(record, SourceRecord)}

    def ended(self, since: int) -> list[str]:
        """Return the stable names of durable objects that were deleted ``since`` so many records."""
        return [
            record.stable_name
            for record in self.records[since:]
            if isinstance(record, DeleteRecord) and record.lifetime is Lifetime.DURABLE
        ]

    def gained(self, class_name: str, name: str, counter: str) -> tuple[Any, int]:
        """Return the last recorded value of a counter of an object, and the sum of its deltas."""
        own = [one for one in self.logged if (one.class_name, one.object_name) == (class_name, name)]
        values = [one.values[counter] for one in own if one.values and counter in one.values]
        deltas = [one.deltas[counter] for one in own if one.deltas and counter in one.deltas]
        return (values or [None])[-1], sum(one.delta or 0 for one in deltas)

    def raised(self, since: int, of: str) -> list[str]:
        """Return the names of the alarms of an object, by its own name, raised ``since`` so many records."""
        return [
            record.name
            for record in self.records[since:]
            if isinstance(record, AlarmRecord)
            and not record.cleared
            and record.subject is not None
            and record.subject.stable_name.endswith(f"|{of}")
        ]

    def texts(self, alarm: str) -> list[str]:
        """Return the texts of the active alarms of a name."""
        now = (record for record in self._now() if isinstance(record, AlarmRecord) and not record.cleared)
        return [record.text for record in now if record.name == alarm]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition of the publications."""

        async def met() -> object:
            return condition()

        await eventually(met, what)

    def _now(self) -> Sequence[Record]:
        return self._inventory.snapshot()[0]


@asynccontextmanager
async def watched(
    cluster: PrivateCluster, folder: Path, event_ports: Sequence[int] = ()
) -> AsyncIterator[ClusterWatch]:
    """Provide a source of kind rabbitmq that knows all nodes of ``cluster`` and has read everything.

    ``event_ports``: the ports at which it receives events, if they are not those of the nodes.
    """
    ports = event_ports or [node.ports.amqp for node in cluster.nodes]
    administrator = cluster.nodes[0].administrator
    (folder / "password").write_text(administrator.password)
    account = {"user": administrator.name, "password": {"file": "password"}}
    settings = RabbitMqSource.model_validate(
        {
            "kind": "rabbitmq",
            "management": [node.management_url for node in cluster.nodes],
            "events": {"url": [f"amqp://127.0.0.1:{port}" for port in ports]},
            **account,
            "writing": account,
            "budget": 0.5,
        }
    )
    mappings = shipped_mappings()
    patterns = [pattern for mapping in mappings.values() for pattern in secret_patterns(mapping)]
    records: list[Record] = []
    logged: list[LogRecord] = []
    clock, recorder = SystemClock(), LogRecorder(RecorderSettings(statistics_interval=1))

    def publish(batch: Batch) -> None:
        records.extend(batch.records)
        log(recorder.apply(batch, clock.now()))

    def log(made: list[AnyRecord]) -> None:
        logged.extend(one.record() if isinstance(one, ObjectChange) else one for one in made)

    def tick() -> None:
        inventory.tick(clock.now())
        log(recorder.tick(clock.now()))

    with closing(InstanceIndex(folder / "instances")) as index:
        inventory = Inventory("gw", 1, ClassRegistry(mappings), index, publish)
        around = SourceContext(inventory, mappings, SecretRules(patterns), clock, folder, 1)
        running = [
            asyncio.create_task(source_of("cluster", settings, around)()),
            asyncio.create_task(_every_second(tick)),
        ]
        watch = ClusterWatch(inventory, records, logged)
        try:
            await watch.until(lambda: watch.is_whole, "the cluster has been read, and events arrive")
            yield watch
        finally:
            for task in running:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def _every_second(tick: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(1)
        tick()
