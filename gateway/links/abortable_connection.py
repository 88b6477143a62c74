"""AMQP connections that can be given up at once."""

from __future__ import annotations

import asyncio
import ssl

import aio_pika
from aiormq.abc import FieldTable
from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from yarl import URL


class AbortableConnection(aio_pika.Connection):
    """An ``aio_pika.Connection`` that knows its socket.

    To close a connection, aiormq waits until all that was written has left, however long that takes: a broker
    that does not read keeps it waiting for ever. It hides the socket, but for who makes it.
    """

    def __init__(
        self, url: URL, *, ssl_context: ssl.SSLContext | None, client_properties: FieldTable
    ) -> None:
        super().__init__(url, ssl_context=ssl_context, client_properties=client_properties)
        self._opened = _KeptTransport(
            TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()
        )
        self.kwargs["transport_factory"] = self._opened

    def abort(self) -> None:
        """Drop the connection, with all that did not leave yet; whoever closes it need not wait any more."""
        if self._opened.writer is not None:
            self._opened.writer.transport.abort()


class _KeptTransport(TransportFactory):
    """Opens a transport as another one does, and remembers it."""

    def __init__(self, factory: TransportFactory) -> None:
        self._factory = factory
        self.writer: asyncio.StreamWriter | None = None

    async def create(self, url: URL, **kwargs: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, self.writer = await self._factory.create(url, **kwargs)
        return reader, self.writer
