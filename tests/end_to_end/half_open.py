"""A way between two TCP ends that can fall silent: connections stay open on both sides, nothing passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

_CHUNK_OCTETS = 65_536


class SilentWay:
    """A forwarder of connections to a port, which can fall silent.

    A connection that fell silent never speaks again: when the way is open again, old connections are cut off
    and new ones forwarded, as behind a firewall that was restarted. Used as an asynchronous context manager.

    Attributes:
        port: its port on 127.0.0.1.
        target: returns the port of the broker; called for each connection.
    """

    def __init__(self) -> None:
        self.port = 0
        self.target: Callable[[], int] = lambda: 0
        self._silent = False
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._cut_off()
        await self._server.wait_closed()

    def fall_silent(self) -> None:
        """Forward nothing from now on, not even the end of a connection."""
        self._silent = True

    async def speak_again(self) -> None:
        """Cut off the silent connections, and forward new ones; do nothing if the way is not silent."""
        if self._silent:
            await self._cut_off()
            self._silent = False

    async def _cut_off(self) -> None:
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        writers = [writer]
        try:
            await self._while_speaking()
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target())
            writers.append(far_writer)
            await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass  # an end, or the end of a silence
        finally:
            self._connections.discard(connection)
            for one in writers:
                one.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward until one side ends; that ends the other too, unless the way is silent."""
        while octets := await reader.read(_CHUNK_OCTETS):
            await self._while_speaking()
            writer.write(octets)
            await writer.drain()
        await self._while_speaking()
        raise ConnectionResetError

    async def _while_speaking(self) -> None:
        """Wait for ever once the way is silent."""
        if self._silent:
            await asyncio.get_running_loop().create_future()


@dataclass(frozen=True, slots=True)
class Ways:
    """The ways by which gateway and agent reach the broker: AMQP and the management API."""

    amqp: SilentWay
    http: SilentWay
