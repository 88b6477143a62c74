"""Console sessions as plays: steps that arrive and must leave, in order, with a clock that tests move.

A step that leaves is a request, an observation, an answer, or the name of a note. `Shop` is a broker that
answers by itself where a test is not about that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gateway.dialects.cml.codec import read_message, write_message
from gateway.dialects.cml.console import ConsoleConfig, ConsoleSession
from gateway.dialects.cml.messages import (
    Field,
    InspectReply,
    InspectRequest,
    MethodReply,
    MethodRequest,
    ModifyReply,
    ModifyRequest,
    Reply,
    Request,
    SchemaClass,
    SchemaField,
    SchemaMethod,
    SchemaReply,
    Spelling,
    Status,
)
from gateway.dialects.cml.session_state import State
from gateway.dialects.session import (
    Answered,
    Delivery,
    Effect,
    LinkDown,
    LinkUp,
    Observed,
    Send,
    TimerExpired,
    WakeAt,
)
from gateway.model.observations import Observation
from gateway.model.operations import Answer
from gateway.model.times import SECOND

START = 1_700_000_000 * SECOND
QUEUE = "amqp-gateway.console.1"
STARTED = "2026-11-20T06:52+00:00"

Step: TypeAlias = Request | Observation | Answer | str


def _child(name: str) -> SchemaField:
    return SchemaField(name, "objref", repeat=True)


SCHEMA = SchemaReply(
    Status.OK,
    "shop",
    "1.0",
    (
        SchemaClass(
            "broker",
            fields=(
                SchemaField("name"),
                SchemaField("started"),
                _child("queue"),
                _child("connection"),
                SchemaField("config", "objref"),
            ),
            methods=(
                SchemaMethod("shutdown"),
                SchemaMethod("lock", fields=(SchemaField("setting", "bool"),)),
            ),
        ),
        SchemaClass(
            "config",
            fields=(
                SchemaField("name"),
                SchemaField("port", modify=True),
                SchemaField("limit", "int", modify=True),
                SchemaField("auto_crash", "int", modify=True),
                SchemaField("password", modify=True),
                SchemaField("main", "object", modify=True),
                SchemaField("day", "time", modify=True),
            ),
            methods=(SchemaMethod("commit"), SchemaMethod("rollback")),
        ),
        SchemaClass(
            "queue",
            fields=(
                SchemaField("name"),
                SchemaField("pending", "int"),
                SchemaField("exclusive", "bool"),
                _child("queue_connection"),
                _child("queue_binding"),
            ),
            methods=(SchemaMethod("purge"),),
        ),
        SchemaClass("queue_connection", fields=(SchemaField("name"),)),
        SchemaClass("queue_binding", fields=(SchemaField("name"),)),
        SchemaClass(
            "connection",
            fields=(
                SchemaField("name"),
                SchemaField("trace", "int", modify=True),
                _child("connection_queue"),
            ),
            methods=(SchemaMethod("kill"),),
        ),
        SchemaClass("connection_queue", fields=(SchemaField("name"),)),
    ),
)


_REPLIES: Final[dict[type[Request], type[InspectReply | ModifyReply | MethodReply]]] = {
    InspectRequest: InspectReply,
    ModifyRequest: ModifyReply,
    MethodRequest: MethodReply,
}


@dataclass
class Shop:
    """A broker's objects: class, fields and children by number."""

    schema: SchemaReply = SCHEMA
    objects: dict[int, tuple[str, dict[str, str], list[tuple[str, int]]]] = field(default_factory=dict)

    def put(self, number: int, class_name: str, parent: int | None = None, **fields: str) -> None:
        """Add an object, or change its fields."""
        known = self.objects.get(number)
        children = known[2] if known else []
        self.objects[number] = (class_name, fields, children)
        if known is None and parent is not None:
            self.objects[parent][2].append((class_name, number))

    def remove(self, number: int) -> None:
        """End an object and the objects in it; remove it from the listing of its parent."""
        class_name, _, children = self.objects.pop(number)
        for _, child in children:
            self.remove(child)
        for _, _, listed in self.objects.values():
            if (class_name, number) in listed:
                listed.remove((class_name, number))

    def reply(self, request: Request) -> Reply:
        """Return the reply to a request: ok to every request for a change, as OpenAMQ does."""
        if not isinstance(request, InspectRequest | ModifyRequest | MethodRequest):
            return self.schema
        assert isinstance(request.object_id, int)
        known = self.objects.get(request.object_id)
        reply = _REPLIES[type(request)]
        if known is None:
            return reply(Status.NOT_FOUND)
        class_name, values, children = known
        if reply is not InspectReply:
            return reply(Status.OK, request.object_id, class_name)
        fields = [Field(name.replace("__", "-"), text) for name, text in values.items()]
        fields += [Field(name, str(number)) for name, number in children]
        return InspectReply(Status.OK, request.object_id, class_name, tuple(fields))


def shop() -> Shop:
    """Return a broker with settings, one queue with a binding, and one connection."""
    stocked = Shop()
    stocked.put(0, "broker", name="shop", started=STARTED)
    stocked.put(1, "config", 0, name="shop.cfg", port="5672")
    stocked.put(7, "queue", 0, name="orders", pending="3", exclusive="0")
    stocked.put(8, "queue_binding", 7, name="orders")
    stocked.put(9, "connection", 0, name="till", trace="0")
    return stocked


class ConsolePlay:
    """A console session, its clock, and the messages on the way to its broker.

    Attributes:
        spoils: replies that replace the correct ones, by request; ``None`` for no reply.
        receives: a function that receives the observations.
    """

    def __init__(self, config: ConsoleConfig | None = None, broker: Shop | None = None) -> None:
        self.now = START
        self.wake_at = 0
        self.broker = broker or shop()
        self.waiting: deque[Send] = deque()
        self.sent: list[Send] = []
        self.receives: Callable[[Observed], None] = lambda _: None
        self.spoils: dict[Request, Reply | None] = {}
        self.session = ConsoleSession(config or ConsoleConfig(message_id_prefix="c-"))
        self._steps: list[Step] = []

    def take(self, effects: Sequence[Effect]) -> None:
        """Store the effects of the session."""
        for effect in effects:
            if isinstance(effect, WakeAt):
                self.wake_at = effect.time
            elif isinstance(effect, Send):
                self.sent.append(effect)
                self.waiting.append(effect)
                self._steps.append(self.read(effect))
            elif isinstance(effect, Observed):
                self._steps.extend(effect.observations)
                self.receives(effect)
            elif isinstance(effect, Answered):
                self._steps.append(effect.answer)
            else:
                self._steps.append(getattr(effect, "event", str(effect)))

    @staticmethod
    def read(send: Send) -> Request:
        """Return the request in a message."""
        message = read_message(send.body)
        assert isinstance(message, Request)
        return message

    @staticmethod
    def written(reply: Reply, spelling: Spelling = Spelling.OPENAMQ) -> bytes:
        """Return the body of a reply."""
        return write_message(reply, spelling)

    def connects(self) -> None:
        self.take(self.session.handle(LinkUp(QUEUE), self.now))

    def disconnects(self, detail: str = "connection reset") -> None:
        self.waiting.clear()
        self.take(self.session.handle(LinkDown(detail), self.now))

    def answers(
        self, reply: Reply | None = None, *, to: Send | None = None, message_id: str | None = None
    ) -> None:
        """Answer the oldest request, or ``to``, with ``reply`` or the correct reply."""
        send = to or self.waiting.popleft()
        if send in self.waiting:
            self.waiting.remove(send)
        answer = reply or self.broker.reply(self.read(send))
        self.arrives(
            write_message(answer, Spelling.OPENAMQ), send.message_id if message_id is None else message_id
        )

    def arrives(
        self, body: bytes, message_id: str = "", exchange: str = "amq.direct", user: str = ""
    ) -> None:
        """Pass a message to the session."""
        delivery = Delivery(exchange, QUEUE, body, user_id=user, message_id=message_id)
        self.take(self.session.handle(delivery, self.now))

    def answers_all(self) -> None:
        """Answer all waiting requests, and those that result from the answers."""
        while self.waiting:
            request = self.read(self.waiting[0])
            if request not in self.spoils:
                self.answers()
            elif (spoilt := self.spoils[request]) is not None:
                self.answers(spoilt)
            else:
                self.waiting.popleft()

    def time_passes(self, seconds: float, *, answering: bool = True) -> None:
        """Advance the clock, wake the session when it asked to be woken, and answer its requests at once."""
        until = self.now + int(seconds * SECOND)
        while True:
            if answering:
                self.answers_all()
            if not self.now <= self.wake_at <= until:
                break
            self.now = max(self.now + 1, self.wake_at)
            self.take(self.session.handle(TimerExpired(), self.now))
        self.now = until

    def stands(self, state: State) -> None:
        """Assert that the session is in this state."""
        assert self.session.state is state

    def leaves(self, *expected: Step) -> None:
        """Assert that these steps are all that left since the last time."""
        assert self.left() == list(expected)

    def left(self) -> list[Step]:
        """Return all that left since the last time."""
        steps, self._steps = self._steps, []
        return steps

    def notes(self) -> list[str]:
        """Return the names of the notes that left since the last time."""
        return [step for step in self.left() if isinstance(step, str)]
