"""A small real workload, which a demonstration or a test can observe.

A shop and its billing, each in a virtual host: publishers with confirms, steady consumers, a collector that
comes and goes, and visitors, whose connections and queues live for moments. It keeps a ledger of its acts,
which can be compared with other reports of the same queues.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias
from urllib.parse import quote

import aio_pika
import httpx
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import CONNECTION_EXCEPTIONS
from aiormq.abc import FieldTable
from yarl import URL

from gateway.demo.ledger import Ledger, LedgerFile, QueueName, Topology
from gateway.demo.node_setup import Credentials
from gateway.links.amqp_connection import close_soon, connect_once, ended

VirtualHostUrl: TypeAlias = Callable[[str], str]
"""A function that returns the AMQP URL, with credentials, of a virtual host."""

_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 30.0
_RECONNECT_SECONDS: Final = 0.5
_REQUEST_SECONDS: Final = 10.0
"""Seconds allowed for a request: a broker that is starting or out of memory may never answer it."""
_PREFETCH: Final = 10
_MAX_BODY_OCTETS: Final = 512
_MAX_MESSAGES_OF_A_VISITOR: Final = 5


class WorkloadError(Exception):
    """The workload cannot start or come to rest; the text says what is missing."""


def prepare(client: httpx.Client, user: Credentials, vhosts: Mapping[str, str]) -> None:
    """Create the workload's user and virtual hosts on a private broker.

    Args:
        client: a client of the management API (base URL ends with ``/api/``), as an administrator.
        user: the workload's user, who may do anything in ``vhosts`` and nothing elsewhere.
        vhosts: descriptions by name.

    Raises:
        httpx.HTTPError: the broker refuses, or cannot be reached.
    """
    name = quote(user.name, safe="")
    client.put(f"users/{name}", json={"password": user.password, "tags": ""}).raise_for_status()
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    for vhost, description in vhosts.items():
        path = quote(vhost, safe="")
        client.put(f"vhosts/{path}", json={"description": description}).raise_for_status()
        client.put(f"permissions/{path}/{name}", json=everything).raise_for_status()


class Workload:
    """Publishers, consumers, a collector and visitors, from `start` to `stop`; also a context manager.

    Args:
        url: gives the AMQP URL of each of the two virtual hosts, which must exist.
        shop: name of the first virtual host.
        billing: name of the second.
        rate: messages published per second in each virtual host.
        limit: messages published in all in each virtual host; then nothing is published, but all the rest
            goes on. None: no end.
        seed: the same seed publishes the same messages in the same order.
        visit_interval: seconds between two visitors, and between two collections.
        ledger_file: the file in which the ledger also writes each act as a line; ``None`` for no file.
    """

    def __init__(
        self,
        url: VirtualHostUrl,
        *,
        shop: str = "shop",
        billing: str = "billing",
        rate: float = 20.0,
        limit: int | None = None,
        seed: int = 1,
        visit_interval: float = 3.0,
        ledger_file: Path | None = None,
    ) -> None:
        self.topology = Topology(shop, billing)
        self.ledger = Ledger(file=None if ledger_file is None else LedgerFile(ledger_file))
        self._url = url
        self._interval = 1.0 / rate
        self._left = {shop: limit, billing: limit}
        self._seed = seed
        self._visit_interval = visit_interval
        self._tasks: list[asyncio.Task[None]] = []
        self._going = asyncio.Event()
        self._stopping = asyncio.Event()
        self._busy = 0
        self._changed = asyncio.Condition()

    # -- life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Declare everything, start the consumers, and then the others.

        Raises:
            WorkloadError: a virtual host cannot be reached, or refuses.
        """
        topology = self.topology
        try:
            for vhost in (topology.shop, topology.billing):
                async with self._connection(vhost, "set-up") as connection:
                    await self._declare(await connection.channel(), vhost)
        except CONNECTION_EXCEPTIONS as error:
            raise WorkloadError(f"the workload cannot set up its queues: {error}") from error
        await self._start_consumers()
        self._going.set()
        for vhost in (topology.shop, topology.billing):
            self._keep(vhost, "publisher", self._publisher(vhost))
        self._keep(topology.shop, "collector", self._collect, every=self._visit_interval)
        self._keep(topology.shop, "visitor", self._visitor(), every=self._visit_interval)

    async def _start_consumers(self) -> None:
        consuming = {queue: asyncio.Event() for queue in self.topology.consumed_at_once}
        for queue, event in consuming.items():
            self._keep(queue.vhost, f"consumer of {queue.name}", self._consumer(queue, event), first=True)
        try:
            async with asyncio.timeout(_START_SECONDS):
                for event in consuming.values():
                    await event.wait()
        except TimeoutError as error:
            await self.stop()
            raise WorkloadError(
                f"the consumers do not consume after {_START_SECONDS:g} s;"
                f" last interruption: {self.ledger.last_interruption}"
            ) from error

    async def pause(self, deadline: float = 30.0) -> None:
        """Stop publishing and visiting, and wait until all steady consumers have consumed what there is.

        Publishers and steady consumers stay connected. The ledger then stays unchanged until `resume`, for
        comparison.

        Raises:
            WorkloadError: that did not happen within ``deadline`` seconds.
        """
        self._going.clear()
        try:
            async with asyncio.timeout(deadline), self._changed:
                await self._changed.wait_for(self._at_rest)
        except TimeoutError as error:
            left = [queue for queue in self.topology.consumed_at_once if self.ledger.waiting(queue)]
            raise WorkloadError(f"after {deadline:g} s messages still wait in {left}") from error

    def resume(self) -> None:
        """Continue after `pause`."""
        self._going.set()

    async def stop(self) -> None:
        """End all activities, and close every connection; declared queues and waiting messages stay.

        Raises:
            WorkloadError: a part of the workload had failed before.
        """
        # Everybody ends by himself: an AMQP request that is cancelled leaves tasks of its library behind.
        self._stopping.set()
        self._going.set()
        if self._tasks:
            _done, late = await asyncio.wait(self._tasks, timeout=_STOP_SECONDS)
            for task in late:
                task.cancel()
        ends = await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self.ledger.file is not None:
            self.ledger.file.close()
        for end in ends:
            if isinstance(end, Exception):
                raise WorkloadError(f"part of the workload failed: {end!r}") from end

    async def finished(self) -> None:
        """Wait until ``limit`` messages are published, and the steady consumers have consumed theirs."""
        async with self._changed:
            await self._changed.wait_for(lambda: not any(self._left.values()) and self._at_rest())

    def _at_rest(self) -> bool:
        # What an interruption lost is never consumed: then only what goes on is waited for.
        settled = not any(map(self.ledger.waiting, self.topology.consumed_at_once))
        return self._busy == 0 and (settled or self.ledger.interruptions > 0)

    # -- connections

    @contextlib.asynccontextmanager
    async def _connection(self, vhost: str, name: str) -> AsyncIterator[AbstractConnection]:
        called = _called(vhost, name)
        properties: FieldTable = {"connection_name": called, "product": "demo workload"}
        connection = await connect_once(URL(self._url(vhost)), properties)
        self.ledger.opened(vhost, called)
        try:
            yield connection
        finally:
            await close_soon(connection)  # the library's own end, cancelled, may wait for ever
            self.ledger.closed(vhost, called)

    def _keep(
        self,
        vhost: str,
        name: str,
        act: Callable[[AbstractConnection], Awaitable[None]],
        *,
        every: float | None = None,
        first: bool = False,
    ) -> None:
        """Do ``act`` on a new connection again and again, until stopped.

        During a pause, only an activity that is ``first`` connects again.

        Args:
            vhost: the virtual host.
            name: the name of the connection.
            act: the activity.
            every: seconds between its end and its next begin, for one that soon ends; ``None`` for one that
                lasts to the end.
            first: whether it starts before all others.
        """

        async def again() -> None:
            while not self._stopping.is_set():
                if not first:
                    await self._going.wait()
                self._busy += every is not None
                try:
                    async with self._connection(vhost, name) as connection:
                        await act(connection)
                except CONNECTION_EXCEPTIONS as error:
                    self.ledger.interrupted(f"{vhost} {name}: {error!r}")
                finally:
                    await self._count_busy(-(every is not None))
                await self._rest(_RECONNECT_SECONDS if every is None else every)

        self._tasks.append(asyncio.create_task(again(), name=f"{vhost} {name}"))

    async def _rest(self, seconds: float) -> None:
        """Sleep, but not longer than until the workload is stopped."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _stay(self, connection: AbstractConnection) -> None:
        """Keep ``connection`` until the workload is stopped; raise `ConnectionError` if it ends before."""
        loss = asyncio.ensure_future(ended(connection))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((loss, stopping), return_when=asyncio.FIRST_COMPLETED)
            if loss.done():
                await loss
        finally:
            loss.cancel()
            stopping.cancel()

    # -- who does what

    def _publisher(self, vhost: str) -> Callable[[AbstractConnection], Awaitable[None]]:
        routes = [route for route in self.topology.routes if route.vhost == vhost]
        chance = self._chance("publisher", vhost)

        async def publish(connection: AbstractConnection) -> None:
            channel = await connection.channel()
            await self._declare(channel, vhost)
            exchanges = {route.exchange: await channel.get_exchange(route.exchange) for route in routes}
            while (left := self._left[vhost]) != 0:
                await self._going.wait()
                if self._stopping.is_set():
                    return
                route = chance.choice(routes)
                self._left[vhost] = None if left is None else left - 1
                self._busy += 1
                try:
                    await exchanges[route.exchange].publish(
                        _message(chance), route.key, mandatory=False, timeout=_REQUEST_SECONDS
                    )
                    self.ledger.did_publish(route.queues)
                finally:
                    await self._count_busy(-1)
                await self._rest(self._interval)
            await self._stay(connection)

        return publish

    def _consumer(
        self, name: QueueName, consuming: asyncio.Event
    ) -> Callable[[AbstractConnection], Awaitable[None]]:
        async def consumed(message: AbstractIncomingMessage) -> None:
            await self._consumed(name, message)

        async def consume(connection: AbstractConnection) -> None:
            channel = await connection.channel()
            await channel.set_qos(_PREFETCH)
            await self._declare(channel, name.vhost)
            if name == self.topology.live:
                await self.topology.declare_live(channel)
                self.ledger.declared(name, goes_with=_called(name.vhost, f"consumer of {name.name}"))
            queue = await channel.get_queue(name.name)
            await queue.consume(consumed, timeout=_REQUEST_SECONDS)
            consuming.set()
            await self._stay(connection)

        return consume

    async def _collect(self, connection: AbstractConnection) -> None:
        """Take half of the messages in the audit queue, and one more, so that it never grows for ever."""
        audit = self.topology.audit
        queue = await (await connection.channel()).get_queue(audit.name)
        for _ in range(self.ledger.waiting(audit) // 2 + 1):
            if not self._going.is_set() or self._stopping.is_set() or not await self._take(queue, audit):
                break

    def _visitor(self) -> Callable[[AbstractConnection], Awaitable[None]]:
        chance = self._chance("visitor")

        async def visit(connection: AbstractConnection) -> None:
            """Publish to an exclusive queue, which ends with the connection, and consume the messages."""
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            shop = self.topology.shop
            self.ledger.declared(QueueName(shop, queue.name), goes_with=_called(shop, "visitor"))
            for _ in range(chance.randint(1, _MAX_MESSAGES_OF_A_VISITOR)):
                await channel.default_exchange.publish(_message(chance), queue.name)
            while message := await queue.get(fail=False):
                await message.ack()
            self.ledger.visits += 1

        return visit

    async def _take(self, queue: AbstractQueue, name: QueueName) -> bool:
        message = await queue.get(fail=False)
        if message is not None:
            await self._consumed(name, message)
        return message is not None

    async def _consumed(self, name: QueueName, message: AbstractIncomingMessage) -> None:
        await message.ack()
        async with self._changed:
            self.ledger.did_consume(name)
            self._changed.notify_all()

    async def _count_busy(self, change: int) -> None:
        async with self._changed:
            self._busy += change
            self._changed.notify_all()

    async def _declare(self, channel: AbstractChannel, vhost: str) -> None:
        await self.topology.declare(channel, vhost)
        for queue in self.topology.permanent(vhost):
            self.ledger.declared(queue)

    def _chance(self, *who: str) -> random.Random:
        """Return the actor's own random generator: its choices never depend on how others are scheduled."""
        return random.Random(f"{self._seed} {who}")  # noqa: S311  repeatable on purpose


def _called(vhost: str, name: str) -> str:
    """Return the name of a connection on the broker, and in the ledger."""
    return f"{vhost} {name}"


def _message(chance: random.Random) -> aio_pika.Message:
    body = chance.randbytes(chance.randint(1, _MAX_BODY_OCTETS))
    return aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
