"""An inventory that is kept nowhere, for commands that look at a source while nobody else does."""

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


class PassingInventory:
    """An inventory, and all that it tells.

    Args:
        index: of row numbers.
        mappings: by package.
        now: nanoseconds since 1970.

    Attributes:
        happened: told what the inventory tells, from `begin` on.
        inventory: to be told observations.
        view: what it knows, up to date.
        secrets: what sessions must drop and mask.
    """

    def __init__(self, index: InstanceIndex, mappings: Mapping[str, MappingFile], now: int) -> None:
        gateway = str(uuid.uuid4())
        patterns = [pattern for mapping in mappings.values() for pattern in secret_patterns(mapping)]
        self.inventory = Inventory(gateway, EPOCH, ClassRegistry(mappings), index, self._told)
        self.view = TerminalView(lambda: now)
        self.secrets = SecretRules(patterns)
        self._hello = Hello(VERSION, EPOCH, gateway, now)
        self.happened: Callable[[FeedChange], None] = lambda _: None

    def begin(self) -> None:
        """All sources have been added: tell of them."""
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

    async def tick(self, clock: Clock) -> NoReturn:
        """Let time pass for what it knows; ends by cancellation only."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.inventory.tick(clock.now())

    def _told(self, batch: Batch) -> None:
        for happening in self.view.received(batch):
            self.happened(happening)


@contextmanager
def passing_inventory(mappings: Mapping[str, MappingFile], now: int) -> Iterator[PassingInventory]:
    """One, for as long as the block lasts; as `PassingInventory`."""
    with (
        TemporaryDirectory(prefix="amqp-gateway-") as folder,
        closing(InstanceIndex(Path(folder) / "instances.sqlite3")) as index,
    ):
        yield PassingInventory(index, mappings, now)
