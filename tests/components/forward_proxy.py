"""A forward proxy for HTTP (RFC 9110 sections 3.7 and 9.3.6), with a login, on the loopback."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class ForwardProxy:
    """Passes requests on to any server.

    Attributes:
        user: the name and password that it demands, joined by a colon; empty for none.
        asked: the first line of each request.
        url: its URL.
    """

    def __init__(self, user: str = "") -> None:
        self.user = user
        self.asked: list[str] = []
        self.url = ""
        self._serving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve during the context."""
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield
            server.close()
            for task in [*self._serving]:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head[:-4].decode().split("\r\n")
            self.asked.append(first)
            method, target, version = first.split(" ")
            login = base64.b64encode(self.user.encode()).decode()
            if self.user and f"proxy-authorization: basic {login}".lower() not in [
                one.lower() for one in lines
            ]:
                writer.write(b"HTTP/1.1 407 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            else:
                parts = urlsplit(target if "://" in target else f"//{target}")
                there, out = await asyncio.open_connection(parts.hostname, parts.port)
                if method == "CONNECT":
                    writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
                else:
                    kept = [line for line in lines if not line.lower().startswith(("proxy-", "connection:"))]
                    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
                    text = "\r\n".join([f"{method} {path} {version}", *kept, "connection: close", "", ""])
                    out.write(text.encode())
                await asyncio.gather(_copied(reader, out), _copied(there, writer))
            await writer.drain()
        writer.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with suppress(ConnectionError):
            while octets := await reader.read(65536):
                writer.write(octets)
                await writer.drain()
    finally:
        writer.close()
