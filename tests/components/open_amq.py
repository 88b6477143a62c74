"""The objects that an OpenAMQ manages, with its schema, behind a CML server session of ours.

It runs behind `AmqpPeer`, which has the limits of the original on the wire, or beside a RabbitMQ as any other
server of CML.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from gateway.clock import SystemClock
from gateway.dialects.cml.codec import read_message
from gateway.dialects.cml.messages import Field, SchemaReply, Spelling, Status
from gateway.dialects.cml.schema import read_classes
from gateway.dialects.session import (
    Binding,
    Called,
    Delivery,
    Effect,
    Event,
    LinkDown,
    LinkUp,
    ModifyAsked,
    Send,
)
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.protection import Protection
from gateway.links.session_driver import MessageDriver
from gateway.model.observations import Severity
from gateway.model.values import Value
from tests.components.amqp_peer import AmqpPeer, Reply, Request
from tests.components.waiting import eventually
from tests.dialects.cml.recordings import exchanges
from tests.peers.cml_server import ServerConfig, ServerSession
from tests.peers.cml_server_objects import ServedObject

BROKER, CONFIG, ORDERS, PRIVATE, CONNECTION = 0, 1, 22, 23, 30
STARTED = "2026-11-20T06:52+00:00"


def recorded_schema() -> SchemaReply:
    """Return the schema of OpenAMQ 1.4c1."""
    for each in exchanges():
        reply = read_message(each.replies[0]) if b"schema-request" in each.request else None
        if isinstance(reply, SchemaReply):
            return reply
    raise AssertionError("no schema was recorded")


class OpenAmq:
    """A broker with settings, exchanges, a shared and a private queue, and a connection.

    Attributes:
        session: the server session that answers requests.
        done: the changes and calls, in order: object, name, value or arguments.
        deaf: fields that a modify request does not change, as there are in OpenAMQ.
        conversation: the driver of the link, if it has one.
        is_up: whether that link is up.
    """

    def __init__(self, config: ServerConfig | None = None) -> None:
        schema = recorded_schema()
        self._classes = {each.schema.key.name: each for each in read_classes(schema)}
        self._objects: dict[int, tuple[str, int | None, dict[str, str]]] = {}
        self.session = ServerSession(config or ServerConfig(Spelling.OPENAMQ, writers=None), schema)
        self.done: list[tuple[int, str, object]] = []
        self.deaf: set[str] = set()
        self.conversation: MessageDriver | None = None
        self.is_up = False
        self.put(BROKER, "broker", None, name="OpenAMQ 1.4c1", started=STARTED, locked="0", messages="3")
        self.put(
            CONFIG,
            "config",
            BROKER,
            name="amq_server.cfg",
            port="5672",
            vhost="/",
            monitor="0",
            record_stats="0",
        )
        for number, name, kind in (
            (2, "$default$", "direct"),
            (3, "amq.direct", "direct"),
            (4, "ticks", "topic"),
        ):
            self.put(number, "exchange", BROKER, name=name, type=kind, bindings="1")
        self.put(16, "binding", 3, name="orders", queues="1")
        self.put(ORDERS, "queue", BROKER, name="orders", pending="3", exclusive="0", auto_delete="0")
        self.put(PRIVATE, "queue", BROKER, name="reply-1", pending="0", exclusive="1", auto_delete="1")
        self.put(CONNECTION, "connection", BROKER, name="c1", address="127.0.0.1:4711", user_name="guest")
        self.put(31, "connection_queue", CONNECTION, name="orders", enabled="1")
        self.session.start()

    def put(self, number: int, class_name: str, parent: int | None, **texts: str) -> None:
        """Add an object with the field values of OpenAMQ; fields that are not named keep their values."""
        _, _, before = self._objects.get(number, ("", None, {}))
        known = before | texts
        self._objects[number] = class_name, parent, known
        fields = [Field(name, text) for name, text in known.items()]
        if number == BROKER:
            fields.append(Field("config", str(CONFIG)))
        values = self._classes[class_name].read_object(fields, parent).values
        self.session.put(ServedObject(number, class_name, values))

    def change(self, number: int, **texts: str) -> None:
        """Change fields of an existing object."""
        class_name, parent, _ = self._objects[number]
        self.put(number, class_name, parent, **texts)

    def delete(self, number: int) -> None:
        """Delete an object."""
        del self._objects[number]
        self.session.delete(number)

    def text(self, number: int, name: str) -> str:
        """Return the text of a field."""
        return self._objects[number][2][name]

    # As a session of a link.

    def bindings(self, queue: str) -> tuple[Binding, ...]:
        return self.session.bindings(queue)

    def handle(self, event: Event, now: int) -> list[Effect]:
        if isinstance(event, Delivery):
            return self.receive(event, now)
        if isinstance(event, LinkUp | LinkDown):
            self.is_up = isinstance(event, LinkUp)
        return self.session.handle(event, now)

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """Answer a request, and carry out its changes at once."""
        effects: list[Effect] = []
        for effect in self.session.handle(delivery, now):
            if isinstance(effect, ModifyAsked):
                for name, value in effect.values.items():
                    self.done.append((effect.number, name, value))
                    if name not in self.deaf:
                        self.change(effect.number, **{name: _text(value)})
                effects += self.session.done(effect.handle, Status.OK, now)
            elif isinstance(effect, Called):
                self.done.append((effect.number, effect.method, effect.arguments))
                self._call(effect)
                effects += self.session.done(effect.handle, Status.OK, now)
            else:
                effects.append(effect)
        return effects

    def _call(self, call: Called) -> None:
        match call.method:
            case "lock":
                self.change(BROKER, locked=_text(call.arguments[0] or False))
            case "purge":
                self.change(call.number, pending="0")
            case "kill":
                self.delete(31)
                self.delete(call.number)

    def notify(self, severity: Severity, text: str) -> None:
        """Send a notification to consoles, over the link that it has."""
        assert self.conversation is not None
        self.conversation.perform(self.session.notify(severity, text))

    def script(self, request: Request) -> Iterable[Reply]:
        """Answer a request of `AmqpPeer`."""
        properties = request.properties
        delivery = Delivery(
            request.exchange,
            request.routing_key,
            request.body,
            properties.reply_to or "",
            message_id=properties.message_id or "",
        )
        for effect in self.receive(delivery, SystemClock().now()):
            if isinstance(effect, Send):
                yield Reply(effect.routing_key, effect.body, effect.message_id)


def _text(value: Value) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


@asynccontextmanager
async def open_amq(port: int = 0) -> AsyncIterator[tuple[OpenAmq, AmqpPeer]]:
    """Provide an OpenAMQ that listens on 127.0.0.1, with a mandatory heartbeat of 2 s."""
    broker = OpenAmq()
    async with AmqpPeer(broker.script, port=port) as peer:
        yield broker, peer


@asynccontextmanager
async def serving(
    endpoint: AmqpEndpoint, system_exchange: str = "amq.system", protection: Protection | None = None
) -> AsyncIterator[OpenAmq]:
    """Provide the same as a server of CML at a broker with the exchanges, in the specification's spelling."""
    broker, clock = OpenAmq(ServerConfig(system_exchange=system_exchange, writers=None)), SystemClock()
    broker.conversation = MessageDriver("server", broker, lambda _: None, clock, Counter())
    role = AmqpRole("server", broker.bindings, protection=protection)
    running = asyncio.create_task(AmqpLink(endpoint, role, broker.conversation, clock).run())

    async def up() -> bool:
        return broker.is_up

    try:
        await eventually(up, "the server's link is up")
        yield broker
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        broker.conversation.stop()
