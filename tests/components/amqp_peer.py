"""A small AMQP 0-9-1 broker on a real socket, with the limits of OpenAMQ 1.4.

It is the only stand-in among the tests' peers, because OpenAMQ cannot be installed any more. It has what was
measured of the original: one channel for each connection, frames of 32,768 octets, a mandatory heartbeat of 2
s, PLAIN only, no capabilities, no confirms. Requests to ``amq.system`` with the key ``amq.console`` are
answered by a script, through ``amq.direct`` with the reply-to as the key.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NoReturn, Self, TypeVar

from pamqp import commands as spec
from pamqp import frame as frames
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader, ProtocolHeader
from pamqp.heartbeat import Heartbeat

from tests.components.amqp_peer_routing import Consumer, Routing

CONSOLE_EXCHANGE, CONSOLE_KEY = "amq.system", "amq.console"
FRAME_MAX: Final = 32_768
_FRAME_OVERHEAD: Final = 8
_FRAME_HEAD: Final = 7
_Expected = TypeVar("_Expected", bound=Frame)
_GREETING: Final = ProtocolHeader(0, 9, 1).marshal()


@dataclass(frozen=True, slots=True)
class Request:
    """A message that a client published."""

    exchange: str
    routing_key: str
    body: bytes
    properties: spec.Basic.Properties
    mandatory: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of the script; it is published to amq.direct with the key ``to``."""

    to: str
    body: bytes
    message_id: str = ""


Script = Callable[[Request], Iterable[Reply]]


def echo(request: Request) -> Iterable[Reply]:
    """Answer each request with its own body and message-id, to its reply-to."""
    properties = request.properties
    if properties.reply_to:
        yield Reply(properties.reply_to, request.body, properties.message_id or "")


def silence(_: Request) -> Iterable[Reply]:
    """Answer no request."""
    return ()


class Backwards:
    """A script that collects a number of requests, then answers them as `echo` does, the last one first."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: list[Request] = []

    def __call__(self, request: Request) -> Iterable[Reply]:
        self._held.append(request)
        if len(self._held) < self._count:
            return
        held, self._held = self._held, []
        for one in reversed(held):
            yield from echo(one)


@dataclass(slots=True)
class AmqpPeer:
    """A broker that listens on a free port of 127.0.0.1 while the context is open.

    Attributes:
        script: answers the requests.
        silent_seconds: after this silence a client that accepted a heartbeat is disconnected.
        refuses: code and text with which each virtual host is refused; ``None`` to open each.
        queue_arguments: whether a queue may be declared with arguments; if not, the reply is 540.
        requests: all messages that were published.
        connections: the number of connections that were opened.
        tuned: the heartbeats that clients accepted.
        heartbeats: the number of heartbeats that arrived.
        complaints: the errors that ended connections, in order.
        closed: the parts that clients closed, in order: ``channel``, ``connection``.
    """

    script: Script = echo
    silent_seconds: float = 8.0
    queue_arguments: bool = False
    refuses: tuple[int, str] | None = None
    requests: list[Request] = field(default_factory=list)
    tuned: list[int] = field(default_factory=list)
    heartbeats: int = 0
    connections: int = 0
    complaints: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    routing: Routing = field(default_factory=Routing)
    port: int = 0
    _server: asyncio.Server | None = None
    _open: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)
    _reading: asyncio.Event = field(default_factory=asyncio.Event)
    _held_looks: list[Callable[[], None]] | None = None

    async def __aenter__(self) -> Self:
        self._reading.set()
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        await asyncio.gather(*self._open, return_exceptions=True)

    def cut(self) -> None:
        """Abort all connections without a close method, as a broker that is killed."""
        for task, writer in list(self._open.items()):
            writer.transport.abort()
            task.cancel()

    def block(self) -> None:
        """Stop reading, so that the clients' send windows fill up."""
        self._reading.clear()

    def unblock(self) -> None:
        """Resume reading."""
        self._reading.set()

    def hold_looks(self) -> None:
        """Defer the answers to passive declarations of queues until `answer_looks`."""
        self._held_looks = []

    def answer_looks(self) -> None:
        """Send the deferred answers, and answer at once from now on."""
        held, self._held_looks = self._held_looks or [], None
        for answer in held:
            answer()

    def look(self, answer: Callable[[], None]) -> None:
        """Answer a client's passive declaration of a queue, or defer the answer."""
        if self._held_looks is None:
            answer()
        else:
            self._held_looks.append(answer)

    def publish(self, exchange: str, routing_key: str, body: bytes, message_id: str = "") -> bool:
        """Deliver a message to the bound queues. Return whether there was a consumer."""
        properties = spec.Basic.Properties(content_type="text/xml", message_id=message_id or None)
        consumers = self.routing.consumers(exchange, routing_key)
        for consumer in consumers:
            consumer.deliver(exchange, routing_key, properties, body)
        return bool(consumers)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("a connection is a task")
        self._open[task] = writer
        connection = _Connection(self, reader, writer)
        try:
            await connection.serve()
        except _ClosedError as closed:
            self.complaints.append(str(closed))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.routing.forget(connection)
            del self._open[task]
            writer.close()

    async def may_read(self) -> None:
        """Wait while the broker is blocked."""
        await self._reading.wait()


class _ClosedError(Exception):
    """The broker ended the connection; the text is the reason."""


class _Connection:
    """The connection of a client."""

    def __init__(self, peer: AmqpPeer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._peer = peer
        self._reader = reader
        self._writer = writer
        self._silent: float | None = None
        self._tags = itertools.count(1)

    async def serve(self) -> None:
        """Serve the connection from the protocol header to its end.

        Raises:
            _ClosedError: the client sent something that this broker does not accept.
        """
        if await self._reader.readexactly(len(_GREETING)) != _GREETING:
            raise _ClosedError("another protocol")
        self._say(0, spec.Connection.Start(0, 9, {"product": "Peer"}, "PLAIN", "en_US"))
        await self._expect(spec.Connection.StartOk)
        self._say(0, spec.Connection.Tune(channel_max=1, frame_max=FRAME_MAX, heartbeat=2))
        tuned = await self._expect(spec.Connection.TuneOk)
        self._peer.tuned.append(tuned.heartbeat)
        self._silent = self._peer.silent_seconds if tuned.heartbeat else None
        await self._expect(spec.Connection.Open)
        if self._peer.refuses is not None:
            self._close(*self._peer.refuses)
        self._say(0, spec.Connection.OpenOk())
        self._peer.connections += 1
        beating = asyncio.create_task(self._beat())
        try:
            while await self._one():
                pass
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(1)
            self._writer.write(frames.marshal(Heartbeat(), 0))

    async def _one(self) -> bool:
        """Handle one frame. Return whether the connection goes on."""
        channel, frame = await self._frame()
        match frame:
            case Heartbeat():
                self._peer.heartbeats += 1
            case spec.Connection.Close():
                self._peer.closed.append("connection")
                self._say(0, spec.Connection.CloseOk())
                return False
            case Frame() if channel > 1:
                self._close(504, "channel number is out of range")
            case spec.Basic.Publish():
                await self._published(frame)
            case _:
                self._on_channel(frame)
        return True

    def _on_channel(self, frame: frames.FrameTypes) -> None:
        match frame:
            case spec.Channel.Open():
                self._say(1, spec.Channel.OpenOk())
            case spec.Channel.Close():
                self._peer.closed.append("channel")
                self._say(1, spec.Channel.CloseOk())
            case spec.Queue.Declare():
                self._declare_queue(frame)
            case spec.Exchange.Declare():
                self._declare_exchange(frame)
            case spec.Queue.Bind():
                self._peer.routing.bind(frame.exchange, frame.routing_key, frame.queue)
                self._say(1, spec.Queue.BindOk())
            case spec.Basic.Consume():
                consumer = Consumer(frame.consumer_tag or f"tag-{next(self._tags)}", self._deliver)
                self._peer.routing.consume(frame.queue, consumer)
                self._say(1, spec.Basic.ConsumeOk(consumer.tag))
            case spec.Channel.CloseOk():
                pass
            case _:
                self._close(540, f"{frame.name} is not implemented")

    def _declare_exchange(self, frame: spec.Exchange.Declare) -> None:
        known = self._peer.routing.exchanges.get(frame.exchange)
        if known == frame.exchange_type:
            self._say(1, spec.Exchange.DeclareOk())
        elif known is not None:  # passive or not
            self._close(530, "Exchange exists with different type")
        else:
            self._end_channel(404, f"no exchange {frame.exchange}", frame)

    def _declare_queue(self, frame: spec.Queue.Declare) -> None:
        routing = self._peer.routing
        if frame.passive and not routing.has_queue(frame.queue):
            self._end_channel(404, f"no queue {frame.queue}", frame)
            return
        if frame.arguments and not self._peer.queue_arguments:
            self._close(540, "arguments of queues are not implemented")
        routing.declare(frame.queue, self)

        def answer() -> None:
            self._say(1, spec.Queue.DeclareOk(frame.queue, routing.waiting(frame.queue), 1))

        if frame.passive:
            self._peer.look(answer)
        else:
            answer()

    async def _published(self, publish: spec.Basic.Publish) -> None:
        _, head = await self._frame()
        if not isinstance(head, ContentHeader):
            self._close(505, "a content header was expected")
        body = b""
        while len(body) < head.body_size:
            _, part = await self._frame()
            if not isinstance(part, ContentBody):
                self._close(505, "a content body was expected")
            body += part.value or b""
        request = Request(publish.exchange, publish.routing_key, body, head.properties, publish.mandatory)
        self._peer.requests.append(request)
        if (request.exchange, request.routing_key) == (CONSOLE_EXCHANGE, CONSOLE_KEY):
            for reply in self._peer.script(request):
                self._peer.publish("amq.direct", reply.to, reply.body, reply.message_id)
            return
        consumers = self._peer.routing.consumers(request.exchange, request.routing_key)
        for consumer in consumers:
            consumer.deliver(request.exchange, request.routing_key, request.properties, body)
        if not consumers and request.mandatory:
            returned = spec.Basic.Return(310, "no route is defined", request.exchange, request.routing_key)
            self._content(returned, request.properties, body)

    def _deliver(
        self, tag: str, exchange: str, key: str, properties: spec.Basic.Properties, body: bytes
    ) -> None:
        delivered = spec.Basic.Deliver(tag, next(self._tags), exchange=exchange, routing_key=key)
        self._content(delivered, properties, body)

    def _content(
        self, method: spec.Basic.Deliver | spec.Basic.Return, properties: spec.Basic.Properties, body: bytes
    ) -> None:
        octets = [
            frames.marshal(method, 1),
            frames.marshal(ContentHeader(body_size=len(body), properties=properties), 1),
        ]
        size = FRAME_MAX - _FRAME_OVERHEAD
        parts = (body[start : start + size] for start in range(0, len(body), size))
        self._writer.write(b"".join([*octets, *(frames.marshal(ContentBody(part), 1) for part in parts)]))

    def _say(self, channel: int, frame: Frame) -> None:
        self._writer.write(frames.marshal(frame, channel))

    def _end_channel(self, code: int, text: str, frame: Frame) -> None:
        self._say(1, spec.Channel.Close(code, text, frame.frame_id, frame.index & 0xFFFF))

    def _close(self, code: int, text: str) -> NoReturn:
        self._say(0, spec.Connection.Close(code, text, 0, 0))
        raise _ClosedError(f"{code} {text}")

    async def _expect(self, kind: type[_Expected]) -> _Expected:
        _, frame = await self._frame()
        if not isinstance(frame, kind):
            raise _ClosedError(f"{kind.name} was expected, not {frame.name}")
        return frame

    async def _frame(self) -> tuple[int, frames.FrameTypes]:
        await self._peer.may_read()
        try:
            async with asyncio.timeout(self._silent):
                head = await self._reader.readexactly(_FRAME_HEAD)
        except TimeoutError:
            with contextlib.suppress(ConnectionError):
                self._writer.transport.abort()
            raise _ClosedError("client heartbeat slowing/stopped") from None
        _, channel, length = frames.frame_parts(head)
        rest = await self._reader.readexactly((length or 0) + 1)
        _, channel, frame = frames.unmarshal(head + rest)
        return channel, frame
