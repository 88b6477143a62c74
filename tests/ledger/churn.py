"""Churns a RabbitMQ and writes down what it did: a program of its own, which shares no code with the gateway.

Queues of each kind, exchanges, connections, channels, consumers, bindings and users come and go; some of them
stay throughout; messages are counted.
Each act is a line of JSON in the ledger, on the disk before the next one of the same worker begins. What was
sent when the broker died may have been done or not: its line says ``unknown``.

It needs the standard library and aio-pika only. At SIGTERM nothing new begins any more, and the last line,
``rest``, says that the ledger is whole. What stays throughout stays until the process is killed.
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
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO
from urllib.parse import quote

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

PREFIX: Final = "led-"
COUNTED: Final = tuple(f"counted-{number}" for number in range(3))
"""Durable queues to which messages are published, and which stay."""
LASTING: Final = {"lasting-transient": "transient", "lasting-exclusive": "exclusive"}
"""Queues that stay throughout, as does the connection that made them, and of what kind they are."""
EXCHANGE: Final = "amq.topic"
USERS_AT_ONCE: Final = 3
QUEUES_AT_ONCE: Final = 12
EXCHANGES_AT_ONCE: Final = 6
_RETRY_SECONDS: Final = 0.3
_REQUEST_SECONDS: Final = 5.0
_FAILURES: Final = (
    aio_pika.exceptions.AMQPError,
    aio_pika.exceptions.ChannelInvalidStateError,
    ConnectionError,
    OSError,
    TimeoutError,
    asyncio.CancelledError,
    RuntimeError,
)


class Ledger:
    """Appends lines to a file; times are seconds since 1970."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("a", encoding="utf-8")

    def write(self, act: str, began: float, ended: float, outcome: str = "done", **facts: object) -> None:
        """An act that began and ended then: ``done``, or ``unknown`` where nobody answered."""
        line = {"act": act, "from": began, "to": ended, "outcome": outcome, **facts}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


@dataclass
class Churn:
    """Everything that is done.

    Attributes:
        amqp: URL with user and password.
        management: URL of the management API.
        login: user and password there.
        ledger: where it is written down.
        chance: decides.
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
    _lasting: AbstractConnection | None = None

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
        """The counted queues, which stay."""
        for name in COUNTED:
            while True:
                connection = await self._connected("prepare")
                declared = False
                with contextlib.suppress(*_FAILURES):
                    channel = await connection.channel()
                    began = time.time()
                    await channel.declare_queue(name, durable=True)
                    declared = True
                    self.ledger.write("queue-create", began, time.time(), name=name, kind="durable")
                await self._closed(connection)
                if declared:
                    break

    def _fresh(self, what: str) -> str:
        """A name that nothing has had; now and then one of something of that kind that has ended."""
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

    async def _connected(self, purpose: str) -> AbstractConnection:
        """A connection; while the broker is away it is tried again."""
        while True:
            name = self._fresh("connection")
            began = time.time()
            try:
                connection = await aio_pika.connect(
                    self.amqp, client_properties={"connection_name": name}, timeout=_REQUEST_SECONDS
                )
            except _FAILURES:
                self.ledger.write("connection-open", began, time.time(), "unknown", name=name)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self.ledger.write("connection-open", began, time.time(), name=name, purpose=purpose)
            setattr(connection, "ledger_name", name)  # noqa: B010  aio-pika's class is not ours
            return connection

    async def _closed(self, connection: AbstractConnection) -> None:
        """Close it; where the broker killed it, it ended some time before."""
        name = getattr(connection, "ledger_name")  # noqa: B009  see above
        began = time.time()
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                was_open = not connection.is_closed
                await connection.close()
        except _FAILURES:
            was_open = False
        self.ledger.write(
            "connection-close", began, time.time(), "done" if was_open else "unknown", name=name
        )

    async def _connections(self) -> None:
        """Connections with channels, consumers and exclusive queues, for moments or seconds."""
        while not self.ending.is_set():
            connection = await self._connected("visit")
            name = getattr(connection, "ledger_name")  # noqa: B009  see above
            exclusive = ""
            with contextlib.suppress(*_FAILURES):
                async with asyncio.timeout(2 * _REQUEST_SECONDS):
                    channel = await connection.channel()
                    if self.chance.random() < 0.5:
                        exclusive = self._fresh("exclusive")
                        began = time.time()
                        try:
                            queue = await channel.declare_queue(exclusive, exclusive=True)
                        except _FAILURES:
                            self._told("queue-create", began, exclusive, "exclusive", "unknown", name)
                            raise
                        self._told("queue-create", began, exclusive, "exclusive", "done", name)
                        await queue.consume(_dropped, no_ack=True)
            await self._pause(self.chance.choice((0.05, 0.5, 3.0)))
            await self._closed(connection)
            await self._pause()

    def _told(self, act: str, began: float, name: str, kind: str, outcome: str, connection: str = "") -> None:
        self.ledger.write(act, began, time.time(), outcome, name=name, kind=kind, connection=connection)

    async def _over_connections(
        self, purpose: str, act: Callable[[AbstractChannel], Awaitable[None]]
    ) -> None:
        """Act again and again, over a connection that stays while it can."""
        while not self.ending.is_set():
            connection = await self._connected(purpose)
            with contextlib.suppress(*_FAILURES):
                channel = await connection.channel()
                while not self.ending.is_set():
                    await act(channel)
                    await self._pause()
            await self._closed(connection)

    async def _lasts(self) -> None:
        """A connection with queues that stay; where the broker is killed, others take their place."""
        while not self.ending.is_set():
            connection = self._lasting = await self._connected("lasts")
            name = getattr(connection, "ledger_name")  # noqa: B009  see above
            with contextlib.suppress(*_FAILURES):
                channel = await connection.channel()
                for queue, kind in LASTING.items():
                    exclusive = kind == "exclusive"
                    does = channel.declare_queue(queue, exclusive=exclusive)
                    await self._act("queue-create", queue, kind, does, name if exclusive else "")
                while not (self.ending.is_set() or connection.is_closed or channel.is_closed):
                    await self._pause()
            if not self.ending.is_set():
                await self._closed(connection)

    # Queues and exchanges.

    async def _come_and_go(self, what: str, at_once: int) -> None:
        """Durable and transient ones, made and deleted over a connection that stays while it can."""
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

    async def _act(
        self, act: str, name: str, kind: str, does: Awaitable[object], connection: str = ""
    ) -> None:
        began = time.time()
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                await does
        except _FAILURES:
            self._told(act, began, name, kind, "unknown", connection)
            raise
        self._told(act, began, name, kind, "done", connection)

    # Bindings and users.

    async def _bindings(self) -> None:
        """Bindings of counted queues, each with a key of its own."""
        alive: list[tuple[str, str]] = []
        await self._over_connections("bindings", lambda channel: self._change_bindings(channel, alive))

    async def _change_bindings(self, channel: AbstractChannel, alive: list[tuple[str, str]]) -> None:
        queue = await channel.get_queue(self.chance.choice(COUNTED), ensure=False)
        if alive and self.chance.random() < 0.5:
            name, key = alive.pop()
            of = await channel.get_queue(name, ensure=False)
            await self._act("binding-delete", key, "durable", of.unbind(EXCHANGE, key))
        else:
            key = self._fresh("key")
            alive.append((queue.name, key))
            await self._act("binding-create", key, "durable", queue.bind(EXCHANGE, key))

    async def _users(self) -> None:
        """Users without a password, who come and go."""
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
        """Ask the management API.

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

    async def _publishes(self, name: str) -> None:
        """Persistent messages with confirms: what was not confirmed may have been counted or not."""
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
        except _FAILURES:
            self.ledger.write("publish", began, time.time(), "unknown", name=name, confirmed=confirmed)
            raise
        self.ledger.write("publish", began, time.time(), name=name, confirmed=confirmed)


async def _dropped(_message: AbstractIncomingMessage) -> None:
    """A consumer that is told of messages, and does nothing."""


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
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, churn.ending.set)
        await churn.run()
        await asyncio.Event().wait()  # what stays throughout would end with this process

    asyncio.run(run())


if __name__ == "__main__":
    main()
