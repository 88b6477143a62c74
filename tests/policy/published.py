"""A core that publishes the world under one policy after another, on a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import yaml

from gateway.config.policy import PolicySettings
from gateway.feed.messages import VERSION
from gateway.feed.records import Batch, Hello, Record
from gateway.feed.server import FeedServer
from gateway.policy.marks import Marks
from gateway.policy.publishing import PolicyPublisher
from gateway.policy.rules import RoleSet
from tests.components.background import Background, background
from tests.components.shipped_mappings import shipped_mappings
from tests.components.waiting import wait_until
from tests.policy.world import (
    FIRST_ENDING,
    GATEWAY_ID,
    START,
    Thing,
    alarms,
    endings,
    happenings,
    operations,
    surroundings,
    things,
)


class Core:
    """The core.

    Args:
        server: its server.
        publisher: adds the policy to what it publishes.
        records: what snapshots contain beside the policy.

    Attributes:
        ends: the number of ends of objects so far, and the number of the last one.
    """

    def __init__(self, server: FeedServer, publisher: PolicyPublisher, records: list[Record]) -> None:
        self._server = server
        self._publisher = publisher
        self._records = records
        self._loop: Background[FeedServer] | None = None
        self.ends = 0
        self._things: list[Thing] = []

    def on(self, loop: Background[FeedServer]) -> None:
        """Call everything on this loop from now on."""
        self._loop = loop

    def apply(self, text: str) -> None:
        """Publish the policy of a configuration's text; return when every front end begins to receive it."""
        settings = PolicySettings.model_validate(yaml.safe_load(text)["policy"])
        sent = self._server.counters.snapshots

        def send() -> None:
            self._publisher.change(settings.role_set(()))
            self._server.send_snapshots()

        self._do(send)
        front_ends = self._server.subscribers
        wait_until(lambda: self._server.counters.snapshots >= sent + front_ends, "snapshots of the policy")

    def begin(self, stamp: int, *more: Record) -> None:
        """Publish objects, events, alarms and operations, and ``more``."""
        self._things = things(stamp)
        records: list[Record] = [thing.record() for thing in self._things]
        events = [one.record(stamp * 1000 + n) for n, one in enumerate(happenings(self._things, stamp), 1)]
        operated = operations(self._things, stamp)
        self._records[:] = [*surroundings(), *records, *operated]
        happened: list[Record] = [*events, *alarms(self._things, stamp), *operated]
        self.publish(*records, *happened, *more)

    def end(self, stamp: int, *more: Record) -> None:
        """Publish the ends of all objects and alarms, and ``more``."""
        self._records[:] = surroundings()
        ends = [thing.end(self.ends + number) for number, thing in enumerate(self._things, 1)]
        self.ends += len(ends)
        first = stamp * 1000 + FIRST_ENDING
        over = [one.record(first + n) for n, one in enumerate(endings(self._things, stamp))]
        self.publish(*ends, *over, *alarms(self._things, stamp, cleared=START + 1), *more)

    def publish(self, *records: Record) -> None:
        """Publish records in one batch."""
        self._do(lambda: self._server.publish(Batch(1, 1, records)))

    @property
    def front_ends(self) -> int:
        """The number of front ends that are connected."""
        return self._server.subscribers

    def _do(self, work: object) -> None:
        assert self._loop is not None
        assert callable(work)
        self._loop.do(work)


@contextmanager
def core_at(socket: Path) -> Iterator[Core]:
    """Run a core, where every principal has the role of its front end at first."""
    records = surroundings()
    publisher = PolicyPublisher(RoleSet(), Marks(shipped_mappings()))

    def snapshot() -> tuple[Sequence[Record], int]:
        return publisher.snapshot(records), 1

    server = FeedServer(socket, Hello(VERSION, 1, GATEWAY_ID, START), snapshot)

    @asynccontextmanager
    async def listening() -> AsyncIterator[FeedServer]:
        await server.start()
        try:
            yield server
        finally:
            await server.close()

    core = Core(server, publisher, records)
    with background(listening) as loop:
        core.on(loop)
        yield core
