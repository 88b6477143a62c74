"""AMQP connections that can be given up at once, and that keep the broker's words when it refuses them."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, SupportsIndex

import aio_pika
from aiormq.abc import FieldTable
from aiormq.connection import TransportFactory
from aiormq.exceptions import AMQPConnectionError
from yarl import URL

MAX_OPENING_BYTES: Final = 64 * 1024
"""Kept of what a broker sends while a connection is opened: its properties, limits, and perhaps a refusal."""

_FRAME_HEAD: Final = struct.Struct(">BHI")  # type, channel, size (AMQP 0-9-1 section 4.2.3)
_CLOSE_HEAD: Final = struct.Struct(">HB")  # reply code, length of the reply text
_METHOD_FRAME: Final = 1
_CONNECTION_CLOSE: Final = struct.pack(">HH", 10, 50)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The ``connection.close`` by which a broker ended the opening of a connection.

    Attributes:
        code: reply code (AMQP 0-9-1 section 1.2), such as 530.
        text: the broker's own words, in one line.
    """

    code: int
    text: str


class AbortableConnection(aio_pika.Connection):
    """An ``aio_pika.Connection`` that knows its socket.

    To close a connection, aiormq waits until all that was written has left, however long that takes: a broker
    that does not read keeps it waiting for ever. Where a broker refuses to open a virtual host, aiormq
    reports neither code nor text. It hides the socket, but for who makes it.
    """

    def __init__(
        self, url: URL, *, ssl_context: ssl.SSLContext | None, client_properties: FieldTable
    ) -> None:
        super().__init__(url, ssl_context=ssl_context, client_properties=client_properties)
        self._opened = _KeptTransport(ssl_context if url.scheme == "amqps" else None)
        self.kwargs["transport_factory"] = self._opened

    def abort(self) -> None:
        """Drop the connection, with all that did not leave yet; whoever closes it need not wait any more."""
        if self._opened.writer is not None:
            self._opened.writer.transport.abort()

    def is_open(self) -> None:
        """Note that the connection was opened: what the broker sent until then is not kept any longer."""
        if self._opened.reader is not None:
            self._opened.reader.opening = None

    @property
    def refusal(self) -> Refusal | None:
        """How the broker refused to open the connection; ``None`` where it did not."""
        reader = self._opened.reader
        return None if reader is None or reader.opening is None else refusal_in(bytes(reader.opening))


class _OpeningReader(asyncio.StreamReader):
    """A stream that keeps what arrives first.

    Attributes:
        opening: what arrived, up to `MAX_OPENING_BYTES`; ``None`` where it is not kept any longer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.opening: bytearray | None = bytearray()

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        octets = bytes(data)
        if self.opening is not None:
            self.opening += octets[: MAX_OPENING_BYTES - len(self.opening)]
        super().feed_data(octets)


class _KeptTransport(TransportFactory):
    """Opens a transport, as those of aiormq do, and remembers it."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self.reader: _OpeningReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def create(self, url: URL, **_: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        self.reader = _OpeningReader()
        protocol = asyncio.StreamReaderProtocol(self.reader)
        try:
            transport, _protocol = await loop.create_connection(
                lambda: protocol, url.host or "", url.port or 0, ssl=self._context
            )
        except OSError as error:
            raise AMQPConnectionError(*error.args) from error
        self.writer = asyncio.StreamWriter(transport, protocol, self.reader, loop)
        return self.reader, self.writer


def refusal_in(octets: bytes) -> Refusal | None:
    """The first ``connection.close`` among the frames that ``octets`` begin with. Any octets are taken."""
    while len(octets) >= _FRAME_HEAD.size:
        kind, _channel, size = _FRAME_HEAD.unpack_from(octets)
        frame = octets[_FRAME_HEAD.size : _FRAME_HEAD.size + size]
        method, arguments = frame[: len(_CONNECTION_CLOSE)], frame[len(_CONNECTION_CLOSE) :]
        if kind == _METHOD_FRAME and method == _CONNECTION_CLOSE and len(arguments) >= _CLOSE_HEAD.size:
            code, length = _CLOSE_HEAD.unpack_from(arguments)
            text = arguments[_CLOSE_HEAD.size :][:length].decode("utf-8", "replace")
            return Refusal(code, " ".join(text.split()))
        octets = octets[_FRAME_HEAD.size + size + 1 :]
    return None
