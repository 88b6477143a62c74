"""An inventory that is stored nowhere, for commands that read a source without a running gateway."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NoReturn

from gateway.clock import Clock
from gateway.feed.messages import VERSION
from gateway.feed.records import Batch, FeedMessage, Hello, SnapshotBegan, SnapshotEnded
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.mapping.files import secret_patterns
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.secrets import SecretRules
from gateway.terminal.view import FeedChange, TerminalView

EPOCH = 1
TICK_SECONDS: Final = 1.0


class TemporaryInventory:
    """An inventory, and a view of all that it publishes.

    Args:
        index: of row numbers.
        mappings: by package.
        now: nanoseconds since 1970.

    Attributes:
        inventory: that applies observations.
        view: what it knows, up to date.
        secrets: what sessions must drop and mask.
    """

    def __init__(self, index: InstanceIndex, mappings: Mapping[str, MappingFile], now: int) -> None:
        gateway = str(uuid.uuid4())
        patterns = [pattern for mapping in mappings.values() for pattern in secret_patterns(mapping)]
        self.inventory = Inventory(gateway, EPOCH, ClassRegistry(mappings), index, self._publish)
        self.view = TerminalView(lambda: now)
        self.secrets = SecretRules(patterns)
        self._hello = Hello(VERSION, EPOCH, gateway, now)
        self._watch: Callable[[FeedChange], None] | None = None

    def begin(self, watch: Callable[[FeedChange], None] | None = None) -> None:
        """Publish the sources, all of which have been added; call ``watch`` with each change from now on."""
        records, sequence = self.inventory.snapshot()
        batch = Batch(EPOCH, sequence, tuple(records))
        beginning: list[FeedMessage] = [
            self._hello,
            SnapshotBegan(EPOCH, sequence),
            batch,
            SnapshotEnded(EPOCH, sequence),
        ]
        for message in beginning:
            self.view.received(message)
        self._watch = watch

    async def tick(self, clock: Clock) -> NoReturn:
        """Let time pass for what it knows; ends by cancellation only."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.inventory.tick(clock.now())

    def _publish(self, batch: Batch) -> None:
        for change in self.view.received(batch):
            if self._watch is not None:
                self._watch(change)


@contextmanager
def temporary_inventory(mappings: Mapping[str, MappingFile], now: int) -> Iterator[TemporaryInventory]:
    """One, for as long as the block lasts; as `TemporaryInventory`."""
    with (
        TemporaryDirectory(prefix="amqp-gateway-") as folder,
        closing(InstanceIndex(Path(folder) / "instances.sqlite3")) as index,
    ):
        yield TemporaryInventory(index, mappings, now)
