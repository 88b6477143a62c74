"""A Qpid broker: schemas, objects and events of a recorded one, on a live RabbitMQ's management exchange."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final, TypeVar

from gateway.demo.broker import PrivateBroker
from gateway.dialects.qmf import addresses
from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.qmf.definitions import Definitions
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassQuery,
    CommandComplete,
    EventIndication,
    GetQuery,
    Heartbeat,
    Message,
    MethodRequest,
    MethodResponse,
    ObjectContent,
    PackageIndication,
    PackageQuery,
    Received,
    SchemaRequest,
    SchemaResponse,
)
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.session import (
    Binding,
    Delivery,
    Effect,
    Event,
    EventNotTakenError,
    Send,
    TimerExpired,
    WakeAt,
)
from tests.components.agent_on_link import CLOCK, AgentOnLink
from tests.dialects.qmf.recordings import definitions, readable, recorded
from tests.mapping.recorded_schemas import QPID

PEER: Final = "qpidd-0.34"
_AGENT: Final = addresses.BROKER_AGENT
_HEARTBEAT: Final = 2 * 10**9
_LASTING: Final = ("system", "broker", "vhost", "exchange", "link")
_Record = TypeVar("_Record", ClassIndication, ObjectContent, EventIndication)


class _Session:
    """The session of the broker's agent: it answers, sends heartbeats, and echoes the arguments of `echo`."""

    def __init__(self) -> None:
        self._known: Definitions = definitions(PEER)
        records = [one for message in recorded(PEER) for one in readable(message.body, self._known)]
        self._broker = next(one for one in records if isinstance(one, BrokerResponse))
        self._classes = {one.key: one for one in _of_broker(records, ClassIndication)}
        self._objects = {one.object_id: one for one in _of_broker(records, ObjectContent) if _lasts(one)}
        self._events = {one.key.name: one for one in _of_broker(records, EventIndication)}
        self._schemas = {one.definition.key: one for one in records if isinstance(one, SchemaResponse)}
        self.called: list[str] = []

    def bindings(self) -> list[Binding]:
        keys = (addresses.BROKER_KEY, addresses.agent_key(_AGENT), "schema.#")
        return [Binding(addresses.MANAGEMENT_EXCHANGE, key) for key in keys]

    def start(self, now: int) -> list[Effect]:
        return self._tick(now)

    def suspend(self) -> None:
        """Do nothing: no operation waits."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an event, as a session does."""
        match event:
            case Delivery():
                return self._receive(event, now)
            case TimerExpired():
                return self._tick(now)
        raise EventNotTakenError(self, event)

    def _tick(self, now: int) -> list[Effect]:
        return [self._push(addresses.heartbeat_key(_AGENT), Heartbeat(0, now)), WakeAt(now + _HEARTBEAT)]

    def _receive(self, delivery: Delivery, now: int) -> list[Effect]:
        return [
            Send(addresses.DIRECT_EXCHANGE, delivery.reply_to, write(answer, self._known))
            for request in read_body(delivery.body, self._known)
            for answer in self._answers(request, now)
        ]

    def event(self, name: str, now: int) -> Send:
        recorded_event = dataclasses.replace(self._events[name], sequence=0, time=now)
        return self._push(addresses.event_key(_AGENT, recorded_event.key), recorded_event)

    def _push(self, key: str, message: Message) -> Send:
        return Send(addresses.MANAGEMENT_EXCHANGE, key, write(message, self._known))

    def _answers(self, request: Received, now: int) -> Iterator[Message]:
        number = request.sequence
        match request:
            case BrokerRequest():
                yield BrokerResponse(number, self._broker.broker)
            case SchemaRequest(key=key):
                yield SchemaResponse(number, self._schemas[key].definition)
            case MethodRequest(method=method, arguments=arguments):
                self.called.append(method)
                echoed = arguments if method == "echo" else b""
                yield MethodResponse(number, Status.OK, "OK", echoed)
            case _:
                yield from self._listed(request, number, now)
                yield CommandComplete(number)

    def _listed(self, request: Received, number: int, now: int) -> Iterator[Message]:
        match request:
            case PackageQuery():
                yield PackageIndication(number, QPID)
            case ClassQuery(package=package) if package == QPID:
                for indication in self._classes.values():
                    yield dataclasses.replace(indication, sequence=number)
            case GetQuery(selector=selector):
                for one in self._objects.values():
                    if selector.get("_class") == one.key.name or selector.get("_objectid") == str(
                        one.object_id
                    ):
                        yield dataclasses.replace(one, sequence=number, sampled=now)


class QpidBroker(AgentOnLink):
    """A Qpid broker on a RabbitMQ, which sends a recorded event when a test asks for it.

    Attributes:
        called: names of the methods that were called.
    """

    def __init__(self, broker: PrivateBroker, virtual_host: str) -> None:
        self._session = _Session()
        super().__init__(self._session)
        self._where = (broker, virtual_host)
        self.called = self._session.called

    async def run(self) -> None:
        """Run until cancelled."""
        await self.speak(*self._where)

    def publish(self, event: str) -> None:
        """Send an event of the recording, with the present time."""
        self.conversation.perform([self._session.event(event, CLOCK.now())])


def _of_broker(records: list[Received], kind: type[_Record]) -> list[_Record]:
    """Return the records of the broker's own package."""
    return [one for one in records if isinstance(one, kind) and one.key.package == QPID]


def _lasts(content: ObjectContent) -> bool:
    """Return whether an object is reported: not one of the hundreds that came and went."""
    if content.key.name == "queue" and content.properties is not None:
        _, _, _, is_auto_delete, *_ = content.properties
        return not is_auto_delete
    return content.key.name in _LASTING
