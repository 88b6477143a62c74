"""Churns a RabbitMQ and records its acts: a program of its own, which shares no code with the gateway.

Queues of each kind, exchanges, connections, channels, consumers, bindings and users are created and deleted;
some of them stay throughout; messages are counted.
Each act is a line of JSON in the ledger, on the disk before the next one of the same worker begins. A request
under way when the broker died may have been carried out or not: its line says ``unknown``.

It needs the standard library and aio-pika only. It works slowly between SIGUSR1 and SIGUSR2: the gateway on a
busy machine may need that to catch up. At SIGTERM no further act begins, and the last line, ``rest``, marks
the ledger as complete. The lasting objects stay until the process is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import logging
import os
import random
import signal
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO
from urllib.parse import quote

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aiormq.connection import TCPTransportFactory
from yarl import URL

PREFIX: Final = "led-"
COUNTED: Final = tuple(f"counted-{number}" for number in range(3))
"""Durable queues to which messages are published; they are not deleted."""
LASTING: Final = {"lasting-transient": "transient", "lasting-exclusive": "exclusive"}
"""Queues that stay throughout, as does the connection that made them, with their kinds."""
EXCHANGE: Final = "amq.topic"
USERS_AT_ONCE: Final = 3
QUEUES_AT_ONCE: Final = 12
EXCHANGES_AT_ONCE: Final = 6
CHANNEL_NUMBERS: Final = range(1, 5)
"""The numbers of the channels of one connection; a closed number is opened again."""
SLOWLY: Final = 10
"""The factor of the pause between two acts, between SIGUSR1 and SIGUSR2."""
_RETRY_SECONDS: Final = 0.3
_REQUEST_SECONDS: Final = 5.0
_COUNTED_SECONDS: Final = 60.0
_FAILURES: Final = (
    aio_pika.exceptions.AMQPError,
    aio_pika.exceptions.ChannelInvalidStateError,
    ConnectionError,
    OSError,
    TimeoutError,
    asyncio.CancelledError,
    RuntimeError,
)


class _Socket(TCPTransportFactory):
    """The factory of the socket of one connection.

    Attributes:
        name: the addresses of both ends, as RabbitMQ names the connection.
    """

    name = ""

    async def create(
        self,
        url: URL,
        **kwargs: Any,  # noqa: ANN401  as in aiormq
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await super().create(url, **kwargs)
        here, there = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
        self.name = f"{here[0]}:{here[1]} -> {there[0]}:{there[1]}"
        return reader, writer


class Connection(aio_pika.Connection):
    """A connection with its names in the ledger and in RabbitMQ.

    Attributes:
        called: its name in the ledger.
        socket: its socket, with its name in RabbitMQ.
        opened: its channels by name, each with the time of its opening; seconds since 1970.
    """

    def __init__(self, url: URL, **kwargs: Any) -> None:  # noqa: ANN401  as in aio-pika
        super().__init__(url, **kwargs)
        self.called: str = self.kwargs["client_properties"]["connection_name"]
        self.socket = self.kwargs["transport_factory"] = _Socket()
        self.opened: dict[str, tuple[AbstractChannel, float]] = {}

    def channel_name(self, number: int) -> str:
        """Return RabbitMQ's name of the channel with this number."""
        return f"{self.socket.name} ({number})"


@dataclass
class Consuming:
    """An open channel, and the queues that have a consumer on it."""

    channel: AbstractChannel
    queues: set[str] = field(default_factory=set)


class Ledger:
    """The ledger, a file to which lines are appended; times are seconds since 1970."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("a", encoding="utf-8")

    def write(self, act: str, began: float, ended: float, outcome: str = "done", **facts: object) -> None:
        """Append an act with its begin and end; the outcome is ``done``, or ``unknown`` without an answer."""
        line = {"act": act, "from": began, "to": ended, "outcome": outcome, **facts}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


@dataclass
class Churn:
    """All workers of the churn.

    Attributes:
        amqp: URL with user and password.
        management: URL of the management API.
        login: user and password there.
        ledger: the ledger of the acts.
        chance: the source of random choices.
        pace: seconds that a worker waits on average between two acts.
    """

    amqp: str
    management: str
    login: tuple[str, str]
    ledger: Ledger
    chance: random.Random
    pace: float
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    _number: int = 0
    _ended_names: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _lasting: Connection | None = None
    _sent: Counter[AbstractChannel] = field(default_factory=Counter)

    async def run(self) -> None:
        """Work until `ending`, then come to rest."""
        await self._prepared()
        workers = [
            self._lasts(),
            self._come_and_go("queue", QUEUES_AT_ONCE),
            self._come_and_go("queue", QUEUES_AT_ONCE),
            self._come_and_go("exchange", EXCHANGES_AT_ONCE),
            self._connections(),
            self._connections(),
            self._channels(),
            self._users(),
            self._bindings(),
            *(self._publishes(name) for name in COUNTED),
        ]
        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker)
        now = time.time()
        self.ledger.write("rest", now, now)

    async def _prepared(self) -> None:
        """Declare the counted queues, which stay."""
        for name in COUNTED:
            while True:
                connection = await self._connected("prepare")
                declared = False
                with contextlib.suppress(*_FAILURES):
                    channel = await self._opened(connection)
                    began = time.time()
                    await channel.declare_queue(name, durable=True)
                    declared = True
                    self.ledger.write("queue-create", began, time.time(), name=name, kind="durable")
                await self._closed(connection)
                if declared:
                    break

    def _fresh(self, what: str) -> str:
        """Return an unused name, or sometimes the name of an ended object of that kind."""
        ended = self._ended_names[what]
        if ended and self.chance.random() < 0.2:
            return ended.pop(self.chance.randrange(len(ended)))
        self._number += 1
        return f"{PREFIX}{what}-{self._number}"

    async def _pause(self, longest: float | None = None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(
                self.chance.random() * (2 * self.pace if longest is None else longest)
            ):
                await self.ending.wait()

    # Connections.

    async def _connected(self, purpose: str) -> Connection:
        """Return a new connection; retry while the broker is away."""
        while True:
            name = self._fresh("connection")
            began = time.time()
            try:
                connection = Connection(URL(self.amqp), client_properties={"connection_name": name})
                await connection.connect(timeout=_REQUEST_SECONDS)
            except _FAILURES:
                self.ledger.write("connection-open", began, time.time(), "unknown", name=name)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self.ledger.write("connection-open", began, time.time(), name=name, purpose=purpose)
            return connection

    async def _closed(self, connection: Connection) -> None:
        """Close a connection; the outcome is ``unknown`` where the broker ended it before."""
        began = time.time()
        for channel_name, (channel, since) in connection.opened.items():
            if channel.is_closed and not connection.is_closed:  # by aiormq, because an act took too long
                self.ledger.write("channel-close", since, time.time(), name=channel_name)
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                was_open = not connection.is_closed
                await connection.close()
        except _FAILURES:
            was_open = False
        self.ledger.write(
            "connection-close",
            began,
            time.time(),
            "done" if was_open else "unknown",
            name=connection.called,
        )

    async def _connections(self) -> None:
        """Open connections with channels, consumers and exclusive queues for moments or seconds."""
        while not self.ending.is_set():
            connection = await self._connected("visit")
            with contextlib.suppress(*_FAILURES):
                async with asyncio.timeout(2 * _REQUEST_SECONDS):
                    channel = await self._opened(connection)
                    if self.chance.random() < 0.5:
                        await self._consume_alone(connection, channel)
            await self._pause(self.chance.choice((0.05, 0.5, 3.0)))
            await self._closed(connection)
            await self._pause()

    async def _consume_alone(self, connection: Connection, channel: AbstractChannel) -> None:
        """Declare an exclusive queue with a consumer, and sometimes delete the queue."""
        name = self._fresh("exclusive")
        declare = channel.declare_queue(name, exclusive=True)
        await self._act("queue-create", name, "exclusive", declare, connection=connection.called)
        await self._consume(connection, 1, channel, name)
        if self.chance.random() < 0.2:
            await self._act("queue-delete", name, "exclusive", channel.queue_delete(name))

    # Channels and consumers.

    async def _opened(self, connection: Connection, number: int = 1) -> AbstractChannel:
        name, channel = connection.channel_name(number), connection.channel(number)
        await self._act("channel-open", name, "channel", channel.initialize(), connection=connection.called)
        connection.opened[name] = channel, time.time()
        return channel

    async def _consume(
        self, connection: Connection, number: int, channel: AbstractChannel, queue: str
    ) -> None:
        """Begin to consume; no message is acknowledged, so that at most one is delivered."""
        tag, of = _tag(connection, number, queue), await channel.get_queue(queue, ensure=False)
        await channel.set_qos(prefetch_count=1)
        await self._act(
            "consumer-create",
            _consumer(connection, number, queue),
            "consumer",
            of.consume(_dropped, consumer_tag=tag),
            connection=connection.called,
            channel=connection.channel_name(number),
            queue=queue,
        )

    async def _channels(self) -> None:
        """Open and close channels and consumers of a connection that is kept open."""
        while not self.ending.is_set():
            connection = await self._connected("channels")
            with contextlib.suppress(*_FAILURES):
                alive: dict[int, Consuming] = {}
                while not self.ending.is_set():
                    await self._change_channels(connection, alive)
                    await self._pause()
            await self._closed(connection)

    async def _change_channels(self, connection: Connection, alive: dict[int, Consuming]) -> None:
        """Open or close a channel, or begin or cancel a consumer; a number that ended begins again."""
        number = self.chance.choice(CHANNEL_NUMBERS)
        if number not in alive:
            alive[number] = Consuming(await self._opened(connection, number))
            return
        channel, queues = alive[number].channel, alive[number].queues
        queue = self.chance.choice(COUNTED)
        if self.chance.random() < 0.3:
            name = connection.channel_name(number)
            del alive[number], connection.opened[name]
            await self._act("channel-close", name, "channel", channel.close())
            if self.chance.random() < 0.5:  # at once
                alive[number] = Consuming(await self._opened(connection, number))
        elif queue not in queues:
            queues.add(queue)
            await self._consume(connection, number, channel, queue)
        else:
            queues.remove(queue)
            of = await channel.get_queue(queue, ensure=False)
            cancel = of.cancel(_tag(connection, number, queue))
            await self._act("consumer-delete", _consumer(connection, number, queue), "consumer", cancel)

    async def _over_connections(
        self, purpose: str, act: Callable[[AbstractChannel], Awaitable[None]]
    ) -> None:
        """Repeat an act over a connection that is kept open."""
        while not self.ending.is_set():
            connection = await self._connected(purpose)
            with contextlib.suppress(*_FAILURES):
                channel = await self._opened(connection)
                while not self.ending.is_set():
                    await act(channel)
                    await self._pause()
                await self._counted(connection, channel)
            await self._closed(connection)

    async def _lasts(self) -> None:
        """Keep a connection with lasting queues; where the broker is killed, others take their place."""
        while not self.ending.is_set():
            connection = self._lasting = await self._connected("lasts")
            with contextlib.suppress(*_FAILURES):
                channel = await self._opened(connection)
                for queue, kind in LASTING.items():
                    exclusive = kind == "exclusive"
                    does = channel.declare_queue(queue, exclusive=exclusive)
                    within = {"connection": connection.called} if exclusive else {}
                    await self._act("queue-create", queue, kind, does, **within)
                    await self._consume(connection, 1, channel, queue)
                while not (self.ending.is_set() or connection.is_closed or channel.is_closed):
                    await self._pause()
            if not self.ending.is_set():
                await self._closed(connection)

    # Queues and exchanges.

    async def _come_and_go(self, what: str, at_once: int) -> None:
        """Create and delete durable and transient objects over a connection that is kept open."""
        alive: list[tuple[str, str]] = []
        await self._over_connections(what, lambda channel: self._change(channel, what, alive, at_once))

    async def _change(
        self, channel: AbstractChannel, what: str, alive: list[tuple[str, str]], at_once: int
    ) -> None:
        if alive and self.chance.random() < len(alive) / at_once:
            name, kind = alive.pop(self.chance.randrange(len(alive)))
            delete: Callable[[str], Awaitable[object]] = (
                channel.queue_delete if what == "queue" else channel.exchange_delete
            )
            await self._act(f"{what}-delete", name, kind, delete(name))
            self._ended_names[what].append(name)
            return
        name, kind = self._fresh(what), self.chance.choice(("durable", "transient"))
        alive.append((name, kind))
        declare: Callable[..., Awaitable[object]] = (
            channel.declare_queue if what == "queue" else channel.declare_exchange
        )
        await self._act(f"{what}-create", name, kind, declare(name, durable=kind == "durable"))

    async def _act(self, act: str, name: str, kind: str, does: Awaitable[object], **within: str) -> None:
        """Carry out an act, and record it.

        Args:
            act: the name of the act.
            name: the name of the object.
            kind: the kind of the object.
            does: carries out the act.
            within: names of the owners with which the object ends, by class.
        """
        began = time.time()
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                await does
        except _FAILURES:
            self.ledger.write(act, began, time.time(), "unknown", name=name, kind=kind, **within)
            raise
        self.ledger.write(act, began, time.time(), name=name, kind=kind, **within)

    # Bindings and users.

    async def _bindings(self) -> None:
        """Create and delete bindings of counted queues, each with a key of its own."""
        alive: list[tuple[str, str]] = []
        await self._over_connections("bindings", lambda channel: self._change_bindings(channel, alive))

    async def _change_bindings(self, channel: AbstractChannel, alive: list[tuple[str, str]]) -> None:
        queue = await channel.get_queue(self.chance.choice(COUNTED), ensure=False)
        if alive and self.chance.random() < 0.5:
            name, key = alive.pop()
            of = await channel.get_queue(name, ensure=False)
            await self._act("binding-delete", key, "durable", of.unbind(EXCHANGE, key))
            self._ended_names[f"key-{name}"].append(key)
        else:
            key = self._fresh(f"key-{queue.name}")
            alive.append((queue.name, key))
            await self._act("binding-create", key, "durable", queue.bind(EXCHANGE, key))

    async def _users(self) -> None:
        """Create and delete users without a password."""
        alive: list[str] = []
        while not self.ending.is_set():
            name = alive.pop(0) if len(alive) >= USERS_AT_ONCE else ""
            act, user = ("user-delete", name) if name else ("user-create", self._fresh("user"))
            if not name:
                alive.append(user)
            body = None if name else {"password_hash": "", "tags": ""}
            began = time.time()
            try:
                await asyncio.to_thread(
                    self.request, "DELETE" if name else "PUT", f"users/{quote(user)}", body
                )
                outcome = "done"
            except OSError:  # urllib.error.URLError is one
                outcome = "unknown"
            self.ledger.write(act, began, time.time(), outcome, name=user)
            await self._pause(4 * self.pace)

    def request(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401  whatever JSON holds
        """Make a request to the management API.

        Raises:
            OSError: it did not answer, or with an error.
        """
        user, password = self.login
        request = urllib.request.Request(  # noqa: S310  the URL of a broker of the test's own
            f"{self.management}/api/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
        )
        request.add_header("Content-Type", "application/json")
        request.add_header(
            "Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        )
        with urllib.request.urlopen(request, timeout=_REQUEST_SECONDS) as answer:  # noqa: S310  see above
            text = answer.read()
        return json.loads(text) if text else None

    # Messages.

    async def _counted(self, connection: Connection, channel: AbstractChannel) -> None:
        """Wait until the broker has counted what was published: it may not do so after the channel's end."""
        sent, path = self._sent.pop(channel, 0), f"channels/{quote(connection.channel_name(1), safe='')}"
        async with asyncio.timeout(_COUNTED_SECONDS):
            while sent:
                shown = await asyncio.to_thread(self.request, "GET", f"{path}?columns=message_stats.publish")
                if shown.get("message_stats", {}).get("publish", 0) >= sent:
                    return
                await self._pause()

    async def _publishes(self, name: str) -> None:
        """Publish persistent messages with confirms; unconfirmed messages may or may not be counted."""
        await self._over_connections(f"publish {name}", lambda channel: self._publish_some(channel, name))

    async def _publish_some(self, channel: AbstractChannel, name: str) -> None:
        count = self.chance.randrange(1, 20)
        message = aio_pika.Message(b"x", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        began, confirmed = time.time(), 0
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                for _ in range(count):
                    await channel.default_exchange.publish(message, name)
                    confirmed += 1
                    self._sent[channel] += 1
        except _FAILURES:
            self.ledger.write("publish", began, time.time(), "unknown", name=name, confirmed=confirmed)
            raise
        self.ledger.write("publish", began, time.time(), name=name, confirmed=confirmed)


def _tag(connection: Connection, number: int, queue: str) -> str:
    """Return the tag of a consumer; all consumers of this queue on this channel number have the same."""
    return f"{connection.called}-{number}-{queue}"


def _consumer(connection: Connection, number: int, queue: str) -> str:
    """Return the name of a consumer: its queue, channel and tag."""
    return "|".join((queue, connection.channel_name(number), _tag(connection, number, queue)))


async def _dropped(_message: AbstractIncomingMessage) -> None:
    """Ignore a message."""


def main() -> None:
    """Churn until SIGTERM, and stay."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--amqp", "--management", "--user", "--password"):
        parser.add_argument(option, required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0.1)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)  # each connection that breaks would be told at length
    churn = Churn(
        given.amqp,
        given.management,
        (given.user, given.password),
        Ledger(given.ledger),
        random.Random(given.seed),  # noqa: S311  repeatable on purpose
        given.pace,
    )

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, churn.ending.set)
        loop.add_signal_handler(signal.SIGUSR1, setattr, churn, "pace", SLOWLY * given.pace)
        loop.add_signal_handler(signal.SIGUSR2, setattr, churn, "pace", given.pace)
        await churn.run()
        await asyncio.Event().wait()  # what stays throughout would end with this process

    asyncio.run(run())


if __name__ == "__main__":
    main()
