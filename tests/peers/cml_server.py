"""The CML server session: shows objects to consoles, and asks its program for what they want changed.

Its replies suit a client that follows the specification and OpenAMQ's own shell alike: class and object stand
in all that are ok, objects in a list are text and ``id``, and what ends the shell is left out of what is told
to who may be it (it sends no message-id). Sources: "AMQP Console Interface", the wiki's "3-CML",
OpenAMQ 1.4c1.

The program behind it tells objects (`ServerSession.put`, `delete`), calls `start` when all are told, does
what `Called` and `ModifyAsked` say and tells what came of it (`done`), and sends what is returned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from gateway.dialects.cml.codec import read_message, write_message
from gateway.dialects.cml.console_config import (
    NOTIFY_EXCHANGE,
    REPLY_EXCHANGE,
    ROUTING_KEY,
    SYSTEM_EXCHANGE,
)
from gateway.dialects.cml.documents import carried_by_openamq, carried_by_xml, octets_of
from gateway.dialects.cml.messages import (
    OPENAMQ_LIMIT,
    SPECIFICATION_LIMIT,
    Field,
    InspectReply,
    InspectRequest,
    Invalid,
    MethodReply,
    MethodRequest,
    ModifyReply,
    ModifyRequest,
    Notify,
    Received,
    Reply,
    SchemaReply,
    SchemaRequest,
    Spelling,
    Status,
    object_number,
)
from gateway.dialects.cml.safety import MAX_SHOWN, MAX_STRING, shell_would_end
from gateway.dialects.cml.schema import PARENT, TYPES, ClassDescription, flattened_fields, read_classes
from gateway.dialects.cml.values import read_value, shown_value
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.session import (
    Binding,
    Called,
    Delivery,
    Effect,
    Event,
    EventNotTakenError,
    LinkDown,
    LinkUp,
    LossSuspected,
    ModifyAsked,
    Note,
    NotSent,
    Send,
    TimerExpired,
    WakeAt,
)
from gateway.model.observations import Severity
from gateway.model.schema import Argument, Element, Method
from gateway.model.validation import validate
from gateway.model.values import Reference, Value, Values, ValueType

__all__ = ["ServedObject", "ServerConfig", "ServerSession"]


SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """How a server session behaves. Durations are nanoseconds.

    Attributes:
        spelling: of replies; requests are read in either.
        system_exchange: requests are published to it, with `routing_key`.
        reply_exchange: replies are, with the request's reply-to as the key.
        notify_exchange: notifications are.
        readers: users, as the broker checked them, who may ask for schema and objects; ``None`` for anybody,
            also senders that nothing was checked of.
        writers: users who may set fields and call methods; ``None`` for anybody who may read.
        call_deadline: what changes something must be begun so soon after its arrival, if it names no time of
            its own, and ended in as much again, else it is not answered. OpenAMQ's shell waits 10 s.
    """

    spelling: Spelling = Spelling.SPECIFICATION
    system_exchange: str = SYSTEM_EXCHANGE
    routing_key: str = ROUTING_KEY
    reply_exchange: str = REPLY_EXCHANGE
    notify_exchange: str = NOTIFY_EXCHANGE
    readers: frozenset[str] | None = None
    writers: frozenset[str] | None = frozenset()
    call_deadline: int = 4 * SECOND

    def may_read(self, user: str) -> bool:
        """Whether ``user`` may ask for anything at all."""
        return self.readers is None or user in self.readers

    def may_write(self, user: str) -> bool:
        """Whether ``user`` may change anything."""
        return self.may_read(user) and (self.writers is None or user in self.writers)


_CONTENT_TYPE: Final = "text/xml"
_MILLISECOND: Final = 1_000_000
_MAX_NOTICE: Final = 200
_CUT: Final = "..."
_PERCENT: Final = "\uff05"
"""A full-width percent sign, in place of one that would go to the shell's printf."""

_Request: TypeAlias = InspectRequest | ModifyRequest | MethodRequest
_REPLIES: Final[dict[type[_Request], type[InspectReply | ModifyReply | MethodReply]]] = {
    InspectRequest: InspectReply,
    ModifyRequest: ModifyReply,
    MethodRequest: MethodReply,
}
_NOTIFICATIONS: Final = {
    Severity.CRITICAL: ("E", "amq.error"),
    Severity.MAJOR: ("E", "amq.error"),
    Severity.MINOR: ("W", "amq.warning"),
    Severity.WARNING: ("W", "amq.warning"),
}
_OTHER_NOTIFICATION: Final = ("I", "amq.info")


class ServerSession:
    """A CML server, without I/O.

    Args:
        config: see `ServerConfig`.
        schema: what is served, whole; `schema.write_classes` makes it of classes of the model.

    Raises:
        ProtocolError: as `schema.read_classes`.
        LocalProtocolError: a text in it has characters that the spelling cannot carry.
    """

    def __init__(self, config: ServerConfig, schema: SchemaReply) -> None:
        write_message(schema, config.spelling)
        self._config = config
        self._schema = schema
        self._objects = ServerObjects(schema, config.spelling)
        self._calls = ServerCalls(config.call_deadline)
        self._started = False

    def bindings(self, reply_to: str) -> tuple[Binding, ...]:  # noqa: ARG002  a server asks nobody
        """What the server's queue must be bound to."""
        return (Binding(self._config.system_exchange, self._config.routing_key),)

    # The program's side.

    @property
    def objects(self) -> ServerObjects:
        """What is known: supports ``number in``, ``len`` and `ServerObjects.find`."""
        return self._objects

    def put(self, served: ServedObject) -> None:
        """Add an object, or tell the values of a known one again; raises as `ServerObjects.put`."""
        self._objects.put(served)

    def delete(self, number: int) -> bool:
        """Remove an object; False if there is none."""
        return self._objects.delete(number)

    def start(self) -> None:
        """All objects are told: answer from now on. A console takes for gone what is not listed."""
        self._started = True

    def suspend(self) -> None:
        """What is managed cannot be read: answer nothing until `start`."""
        self._started = False

    def done(self, handle: int, status: Status, now: int, notice: str = "") -> list[Effect]:
        """Tell what came of a change, after the values that it led to; nothing where nobody waits for it.

        Args:
            handle: of the `Called` or `ModifyAsked`.
            status: ``ok``, or why it was not done.
            now: nanoseconds.
            notice: one line for people.
        """
        ended = self._calls.ended(handle)
        if ended is None:
            return []
        asked_for, behind = ended
        return [*self._answer(asked_for, status, notice), *self._go_on(behind, now)]

    def notify(self, severity: Severity, text: str) -> list[Effect]:
        """Tell consoles of something. The routing keys are ours, such as the example ``amq.*`` matches."""
        letter, routing_key = _NOTIFICATIONS.get(severity, _OTHER_NOTIFICATION)
        notify = Notify(f"{letter}: {carried(text, self._config.spelling)}")
        return [self._send(self._config.notify_exchange, routing_key, notify, "")]

    # The link's side.

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Take in what happened; as `Session.handle`, for all events of a link to a broker.

        What is under way when the link goes down goes on, and is answered if it can be by then. A console
        whose request was lost on the way sends it again.
        """
        match event:
            case Delivery():
                return self._receive(event, now)
            case TimerExpired():
                return self._pass_time(now)
            case LinkUp() | LinkDown() | LossSuspected() | NotSent():
                return []
            case _:
                raise EventNotTakenError(self, event)

    def _pass_time(self, now: int) -> list[Effect]:
        """Give up waiting for what should have ended by now.

        It is not answered: whether it was carried out is not known, and CML has no status that says so.
        """
        effects: list[Effect] = []
        for handle in self._calls.overdue(now):
            ended = self._calls.ended(handle)
            assert ended is not None
            asked_for, behind = ended
            text = f"not answered: {asked_for.class_name} {asked_for.request.object_id}: it took too long"
            effects += [Note("gave-up", text), *self._go_on(behind, now)]
        return [*effects, *self._wake()]

    def _receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """Answer a request, or ask the program. Whatever arrives, nothing is raised."""
        if not self._started:
            return [Note("not-ready", "a request came before the objects are known")]
        notes: list[Effect] = []
        request: Received
        try:
            request = read_message(delivery.body)
        except ProtocolError as error:
            notes = [Note("protocol-error", f"request from {delivery.user_id!r}: {error}")]
            request = Invalid()
        if isinstance(request, _Request):
            return self._about_object(AskedFor(request, delivery, self._deadline(delivery, now)), now)
        if isinstance(request, SchemaRequest):
            may_read = self._config.may_read(delivery.user_id)
            return self._reply(delivery, self._schema if may_read else SchemaReply(Status.NO_ACCESS))
        return [*notes, *self._reply(delivery, Invalid())]

    def _go_on(self, behind: Iterable[AskedFor], now: int) -> list[Effect]:
        """What waited for the end of a change has its turn."""
        return [effect for each in behind for effect in self._about_object(each, now)]

    def _deadline(self, delivery: Delivery, now: int) -> int:
        if delivery.timestamp and delivery.expiration:
            return delivery.timestamp + delivery.expiration * _MILLISECOND
        return now + self._config.call_deadline

    def _about_object(self, asked_for: AskedFor, now: int) -> list[Effect]:
        try:
            number = self._object(asked_for.request)
            if self._calls.is_busy(number):
                self._refuse_if_full()
                self._calls.wait(number, asked_for)
                return []
            self._refuse_strangers(number, asked_for)
            if isinstance(asked_for.request, InspectRequest):
                return self._inspected(asked_for, number)
            return self._begin(asked_for.request, number, asked_for, now)
        except RefusedError as refused:
            return self._answer(asked_for, refused.status, str(refused))

    def _object(self, request: _Request) -> int:
        if not isinstance(request.object_id, int):
            raise RefusedError("the number of an object is wanted")
        if isinstance(request, MethodRequest) and not request.name:
            raise RefusedError("the name of a method is wanted")
        return request.object_id

    def _refuse_if_full(self) -> None:
        if self._calls.is_full:
            raise RefusedError(f"not carried out: {MAX_WAITING} requests are under way already")

    def _refuse_strangers(self, number: int, asked_for: AskedFor) -> None:
        """As OpenAMQ does: an object that is not there is not found by those either who may not ask."""
        if number not in self._objects:
            raise RefusedError("", Status.NOT_FOUND)
        reads = isinstance(asked_for.request, InspectRequest)
        may = self._config.may_read if reads else self._config.may_write
        if not may(asked_for.delivery.user_id):
            raise RefusedError("", Status.NO_ACCESS)

    def _begin(
        self, request: ModifyRequest | MethodRequest, number: int, asked_for: AskedFor, now: int
    ) -> list[Effect]:
        """Ask the program for a change.

        Raises:
            RefusedError: it is none that the schema has, or it is too late, or there are too many.
        """
        served_class = self._objects.class_of(number)
        key, user_id, deadline = served_class.schema.key, asked_for.delivery.user_id, asked_for.deadline
        if isinstance(request, ModifyRequest):
            wanted = settings(served_class.settable, request.fields)
            if not wanted:
                return self._answer(asked_for, Status.OK)
            change: ModifyAsked | Called = ModifyAsked(0, key, number, wanted, user_id, deadline)
        else:
            method = served_class.methods.get(request.name or "")
            if method is None:
                raise RefusedError(f"{key.name} has no such method")
            values = arguments(method, request.fields)
            change = Called(0, key, number, method.name, values, user_id, deadline)
        if now > asked_for.deadline:
            raise RefusedError("not carried out: it came after the time that it was given")
        self._refuse_if_full()
        handle = self._calls.begin(number, replace(asked_for, class_name=key.name))
        return [*self._wake(), replace(change, handle=handle)]

    def _wake(self) -> list[Effect]:
        end = self._calls.next_end
        return [WakeAt(end)] if end else []

    # Replies.

    def _inspected(self, asked_for: AskedFor, number: int) -> list[Effect]:
        delivery = asked_for.delivery
        if not delivery.message_id or not delivery.reply_to:
            return self._answer(asked_for, Status.OK)
        body = self._objects.reply(number, self._written)
        return [self._sent(self._config.reply_exchange, delivery.reply_to, body, delivery.message_id)]

    def _answer(self, asked_for: AskedFor, status: Status, notice: str = "") -> list[Effect]:
        request = asked_for.request
        reply, number = _REPLIES[type(request)](status), request.object_id
        # OpenAMQ says nothing but that it failed. The number of what is not there could be any.
        bare = status is not Status.OK and self._config.spelling is Spelling.OPENAMQ
        if not bare:
            reply = replace(reply, notice=notice)
        if not bare and isinstance(number, int):
            known = number in self._objects
            class_name = self._objects.class_of(number).schema.key.name if known else asked_for.class_name
            if class_name:
                reply = replace(reply, class_name=class_name, object_id=number)
            if isinstance(reply, InspectReply) and status is Status.OK:
                reply = replace(reply, fields=self._objects.fields(number))
        return self._reply(asked_for.delivery, reply)

    def _reply(self, delivery: Delivery, reply: Reply) -> list[Effect]:
        if not delivery.reply_to:
            return []  # OpenAMQ carries such a request out too
        spelling = self._config.spelling
        if isinstance(reply, InspectReply | ModifyReply | MethodReply):
            notice = carried(reply.notice.replace("%", _PERCENT), spelling)[:_MAX_NOTICE]
            reply = replace(reply, notice=notice)
            if not delivery.message_id and isinstance(reply, InspectReply):
                reply = _for_shell(reply, spelling)
        return [self._send(self._config.reply_exchange, delivery.reply_to, reply, delivery.message_id)]

    def _send(self, exchange: str, routing_key: str, message: Reply, message_id: str) -> Send:
        return self._sent(exchange, routing_key, self._written(message), message_id)

    def _written(self, message: Reply) -> bytes:
        return write_message(message, self._config.spelling)

    @staticmethod
    def _sent(exchange: str, routing_key: str, body: bytes, message_id: str) -> Send:
        return Send(exchange, routing_key, body, content_type=_CONTENT_TYPE, message_id=message_id)


def _for_shell(reply: InspectReply, spelling: Spelling) -> InspectReply:
    """``reply`` as OpenAMQ's shell can show it; other clients learn from the notice what is not whole."""
    if not shell_would_end(reply, spelling):
        return reply
    shown = tuple(_shell_field(field, spelling) for field in reply.fields)
    changed = [field.name for field, other in zip(reply.fields, shown, strict=True) if field != other]
    notice = f"shortened for amq_shell, whole with a message-id: {', '.join(changed)}"
    return replace(reply, fields=shown, notice=notice[:_MAX_NOTICE])


def _shell_field(field: Field, spelling: Spelling) -> Field:
    text = field.text
    if spelling is Spelling.OPENAMQ and field.name != "name":
        text = text.replace("%", _PERCENT)
    if len(octets_of(text)) > MAX_SHOWN:
        text = octets_of(text)[: MAX_SHOWN - len(_CUT)].decode(errors="ignore") + _CUT
    return field if text == field.text else replace(field, text=text)


_SHOWN: Final = 40


class RefusedError(Exception):
    """A request is not carried out: the status says why, the text in words for people, in ASCII."""

    def __init__(self, text: str, status: Status = Status.INVALID) -> None:
        self.status = status
        super().__init__(text)


def settings(settable: Mapping[str, Element], fields: Iterable[Field]) -> dict[str, Value]:
    """Return the values that a modify asks for, by the elements' names.

    Raises:
        RefusedError: a field cannot be set, is there twice, or has a value that does not fit.
    """
    wanted: dict[str, Value] = {}
    for one in fields:
        element = settable.get(one.name)
        if element is None:
            raise RefusedError(f"{_name(one)} cannot be set")
        if element.name in wanted:
            raise RefusedError(f"{_name(one)} is there twice")
        wanted[element.name] = _value(element, one)
    return wanted


def arguments(method: Method, fields: Iterable[Field]) -> Values:
    """Return the arguments of a call, in the schema's order.

    Raises:
        RefusedError: one is missing, unknown, there twice, or has a value that does not fit.
    """
    wanted = {each.name: each for each in method.arguments}
    given: dict[str, Value] = {}
    for one in fields:
        argument = wanted.get(one.name)
        if argument is None:
            raise RefusedError(f"{method.name} has no argument {_name(one)}")
        if one.name in given:
            raise RefusedError(f"{_name(one)} is there twice")
        given[one.name] = _value(argument, one)
    for name in wanted:
        if name not in given:
            # OpenAMQ takes it for zero, so that a lock without its argument unlocks.
            raise RefusedError(f"the argument {name} is missing")
    return tuple(given[name] for name in wanted)


def _value(item: Element | Argument, field: Field) -> Value:
    text = field.text if field.object_id is None else str(field.object_id)
    try:
        value = read_value(text, item.type)
    except ProtocolError as error:
        raise RefusedError(f"{item.name}: {error.expected} was expected") from error
    if value is None:
        raise RefusedError(f"{item.name}: a value of type {item.type.value} was expected")
    length = len(octets_of(text))
    if length > MAX_STRING:
        raise RefusedError(f"{item.name}: {length} octets, {MAX_STRING} are taken")
    wrong = validate(item, value)
    if wrong is not None:
        raise RefusedError(f"{item.name}: {wrong.text}")
    return value


def _name(field: Field) -> str:
    return ascii(str(field.name)[:_SHOWN])


MAX_WAITING: Final = 256
"""Requests that are under way or wait behind others, of all consoles together; further ones are refused."""


@dataclass(frozen=True, slots=True)
class AskedFor:
    """A request about an object, and the message that it came in.

    Attributes:
        deadline: nanoseconds; a change must not be begun later.
        class_name: of the object of a change that was begun, which may be the object's end.
    """

    request: InspectRequest | ModifyRequest | MethodRequest
    delivery: Delivery
    deadline: int
    class_name: str = ""


@dataclass(slots=True)
class _UnderWay:
    handle: int
    asked_for: AskedFor
    until: int
    behind: deque[AskedFor] = field(default_factory=deque)


class ServerCalls:
    """Which changes are under way: one of an object at a time.

    Args:
        patience: nanoseconds that a change may take from the last moment at which it may be begun.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._handles = 0
        self._by_object: dict[int, _UnderWay] = {}
        self._objects: dict[int, int] = {}
        self._waiting = 0

    @property
    def is_full(self) -> bool:
        """Nothing more can be begun, or wait."""
        return self._waiting >= MAX_WAITING

    @property
    def next_end(self) -> int:
        """When the first one of those under way is given up; 0 where none is."""
        return min((each.until for each in self._by_object.values()), default=0)

    def is_busy(self, number: int) -> bool:
        """Whether a change of the object is under way."""
        return number in self._by_object

    def begin(self, number: int, asked_for: AskedFor) -> int:
        """A change of an object that is not busy is the program's now; returns its handle."""
        self._handles += 1
        self._objects[self._handles] = number
        self._by_object[number] = _UnderWay(self._handles, asked_for, asked_for.deadline + self._patience)
        self._waiting += 1
        return self._handles

    def wait(self, number: int, asked_for: AskedFor) -> None:
        """A request waits behind what is under way."""
        self._by_object[number].behind.append(asked_for)
        self._waiting += 1

    def ended(self, handle: int) -> tuple[AskedFor, deque[AskedFor]] | None:
        """What ended, and what waited behind it; ``None`` where nobody waits for it."""
        number = self._objects.pop(handle, None)
        if number is None:
            return None
        under_way = self._by_object.pop(number)
        self._waiting -= 1 + len(under_way.behind)
        return under_way.asked_for, under_way.behind

    def overdue(self, now: int) -> list[int]:
        """The handles of what should have been ended by now."""
        return [each.handle for each in self._by_object.values() if each.until <= now]


LIMITS: Final = {Spelling.OPENAMQ: OPENAMQ_LIMIT, Spelling.SPECIFICATION: SPECIFICATION_LIMIT}
"""What numbers of objects are less than."""


@dataclass(frozen=True, slots=True)
class ServedObject:
    """An object as the program behind a server tells it.

    Attributes:
        number: no other object's, and not given again to another while the server runs; 0 is the root.
        class_name: of the schema.
        values: of the class's elements in the model (`schema.read_classes`), in their order. That of
            ``parentRef`` is a reference to the number of the object that lists this one; ``None`` is absent,
            which travels as empty text.
    """

    number: int
    class_name: str
    values: Values


@dataclass(frozen=True, slots=True)
class _Shown:
    """A field of a class, as the schema has it.

    Attributes:
        position: among the values; ``None`` of a field that only lists objects.
        item: what one value of it is; of a list, what one of its items is.
    """

    name: str
    position: int | None
    item: Element | None
    listed: str


class ServedClass:
    """A class of the schema: what is shown of its objects, and what can be changed.

    Attributes:
        settable: the elements that can be set, by each name that a request may use.
        methods: by name.
    """

    def __init__(self, description: ClassDescription, shown: tuple[_Shown, ...]) -> None:
        self.schema = description.schema
        self._shown = shown
        self.methods: dict[str, Method] = {each.name: each for each in self.schema.methods}
        self.settable: dict[str, Element] = {}
        for element, wire_name in zip(self.schema.elements, description.wire_names, strict=True):
            if wire_name and element.access.value == "read-write" and element.type is not ValueType.LIST:
                self.settable[wire_name] = self.settable[element.name] = element
        self._parent = self.schema.positions.get(PARENT)

    def parent(self, values: Values) -> int | None:
        """The number of the object that lists one with these values.

        Raises:
            LocalProtocolError: it is no number.
        """
        value = None if self._parent is None else values[self._parent]
        if value is None:
            return None
        number = object_number(value.native_id) if isinstance(value, Reference) else None
        if number is None:
            raise LocalProtocolError(f"{self.schema.key}: {PARENT} must refer to a number")
        return number

    def parts(self, values: Values, spelling: Spelling) -> tuple[Field | str, ...]:
        """The fields in the schema's order; for objects that are listed, the name of their class.

        Raises:
            LocalProtocolError: a value does not fit.
        """
        if len(values) != len(self.schema.elements):
            text = f"{len(self.schema.elements)} values are wanted, not {len(values)}"
            raise LocalProtocolError(f"{self.schema.key}: {text}")
        return tuple(part for shown in self._shown for part in _parts(shown, values, spelling))


def _parts(shown: _Shown, values: Values, spelling: Spelling) -> Iterator[Field | str]:
    if shown.position is None or shown.item is None:
        yield shown.listed
        return
    value = values[shown.position]
    for one in value if isinstance(value, tuple) else (value,):
        yield _field(shown.name, one, shown.item, spelling)


def _field(name: str, value: Value | None, item: Element, spelling: Spelling) -> Field:
    if value is None:
        return Field(name)
    text = shown_value(value, item, spelling)
    if item.type is ValueType.REFERENCE:
        number = int(text)
        if not 0 < number < LIMITS[spelling]:
            raise LocalProtocolError(f"{name}: it refers to no object that can be listed")
        return Field(name, object_id=number)
    return Field(name, carried(text, spelling))


def carried(text: str, spelling: Spelling) -> str:
    """``text`` with U+FFFD in place of each character that documents of the spelling cannot carry."""
    return carried_by_openamq(text) if spelling is Spelling.OPENAMQ else carried_by_xml(text)


@dataclass(slots=True)
class _Known:
    served: ServedObject
    served_class: ServedClass
    parts: tuple[Field | str, ...]
    parent: int | None


class ServerObjects:
    """What is known.

    Args:
        schema: what is served, whole.
        spelling: that the fields will be written in.

    Raises:
        ProtocolError: as `schema.read_classes`.
    """

    def __init__(self, schema: SchemaReply, spelling: Spelling) -> None:
        self._spelling = spelling
        self._limit = LIMITS[spelling]
        described = read_classes(schema)
        self.classes: dict[str, ServedClass] = {
            each.name: ServedClass(description, tuple(_shown(description, schema, position)))
            for position, (each, description) in enumerate(zip(schema.classes, described, strict=True))
        }
        self._known: dict[int, _Known] = {}
        self._children: dict[int, dict[str, dict[int, None]]] = {}
        # Replies are the same until the object changes, or what it lists; consoles ask again and again.
        self._replies: dict[int, bytes] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._known

    def __len__(self) -> int:
        return len(self._known)

    def put(self, served: ServedObject) -> None:
        """Add an object, or tell the values of a known one again.

        Raises:
            LocalProtocolError: the class is not of the schema, the number is out of range or another class's
                object has it, or a value does not fit: nothing has changed then.
        """
        served_class = self.classes.get(served.class_name)
        if served_class is None:
            raise LocalProtocolError(f"class {served.class_name} is not served")
        if not 0 <= served.number < self._limit:
            raise LocalProtocolError(f"an object's number must be 0 to {self._limit - 1}")
        before = self._known.get(served.number)
        if before is not None and before.served_class is not served_class:
            raise LocalProtocolError(f"object {served.number} is of class {before.served.class_name}")
        parts = served_class.parts(served.values, self._spelling)
        parent = served_class.parent(served.values)
        if parent is not None and not served.number:
            raise LocalProtocolError("object 0 is nobody's child")
        if before is None or before.parent != parent:
            self._leave(before)
            if parent is not None:
                of_parent = self._children.setdefault(parent, {})
                of_parent.setdefault(served.class_name, {})[served.number] = None
                self._replies.pop(parent, None)
        self._replies.pop(served.number, None)
        self._known[served.number] = _Known(served, served_class, parts, parent)

    def delete(self, number: int) -> bool:
        """Remove an object; those that it lists stay. False if there is none."""
        known = self._known.pop(number, None)
        self._replies.pop(number, None)
        self._leave(known)
        return known is not None

    def _leave(self, known: _Known | None) -> None:
        """An object is listed by its parent no longer."""
        if known is None or known.parent is None:
            return
        self._replies.pop(known.parent, None)
        of_parent = self._children[known.parent]
        of_class = of_parent[known.served.class_name]
        del of_class[known.served.number]
        if not of_class:
            del of_parent[known.served.class_name]
        if not of_parent:
            del self._children[known.parent]

    def find(self, number: int) -> ServedObject | None:
        """The object as it was put last; ``None`` if there is none."""
        known = self._known.get(number)
        return None if known is None else known.served

    def class_of(self, number: int) -> ServedClass:
        """The class of an object that is known."""
        return self._known[number].served_class

    def reply(self, number: int, write: Callable[[InspectReply], bytes]) -> bytes:
        """The whole reply about an object that is known, as ``write`` wrote it last or writes it now."""
        body = self._replies.get(number)
        if body is None:
            class_name = self.class_of(number).schema.key.name
            body = self._replies[number] = write(
                InspectReply(Status.OK, number, class_name, self.fields(number))
            )
        return body

    def fields(self, number: int) -> tuple[Field, ...]:
        """The fields of an object that is known, as a reply has them; objects in the order they came."""
        fields: list[Field] = []
        children = self._children.get(number, {})
        for part in self._known[number].parts:
            if isinstance(part, Field):
                fields.append(part)
            else:
                fields += [Field(part, object_id=child) for child in children.get(part, ())]
        return tuple(fields)


def _shown(description: ClassDescription, schema: SchemaReply, position: int) -> Iterator[_Shown]:
    elements = {element.name: element for element in description.schema.elements}
    positions = description.schema.positions
    wire_names = dict(zip(elements, description.wire_names, strict=True))
    for name, _, each in flattened_fields(schema.classes[position].fields):
        if not each.inspect:
            continue
        element = elements.get(name)
        if element is None:
            yield _Shown(each.name, None, None, each.name)
        else:
            item = replace(element, type=TYPES.get(each.type, ValueType.STRING))
            yield _Shown(wire_names[name], positions[name], item, "")
