"""A network path between a link and its broker."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self


class Wire:
    """A TCP proxy that can stop forwarding without closing anything, as a firewall that lost its state."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._open = asyncio.Event()
        self._open.set()
        self._last = b""
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self) -> None:
        """Stop forwarding."""
        self._open.clear()

    def end_at(self, octets: bytes) -> None:
        """End a connection when a client has sent these octets in one piece, which are not forwarded."""
        self._last = octets

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._tasks.add(asyncio.create_task(self._forward(reader, there_writer)))
        self._tasks.add(asyncio.create_task(self._answer(there_reader, writer)))

    async def _answer(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        await self._forward(source, target)

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while octets := await source.read(65536):
                await self._open.wait()
                if self._last and self._last in octets:
                    break
                target.write(octets)
        except ConnectionError:
            pass
        finally:
            target.close()
            with contextlib.suppress(ConnectionError):
                await target.wait_closed()


_BASIC_ACK = b"\x00\x3c\x00\x50"
"""Class 60, method 80 of AMQP 0-9-1."""


class WireWithoutConfirmations(Wire):
    """A wire to a broker that answers everything, but never confirms a published message."""

    async def _answer(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Forward frames: type, channel and size in seven octets, the payload, and one octet that ends it."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await source.readexactly(7)
                payload = await source.readexactly(int.from_bytes(head[3:]) + 1)
                if not payload.startswith(_BASIC_ACK):
                    target.write(head + payload)
        target.close()
