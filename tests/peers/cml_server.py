"""The CML server session: shows objects to consoles, and asks its program for the changes they want.

Its replies suit a client that follows the specification and OpenAMQ's own shell alike: class and object stand
in all that are ok, objects in a list are text and ``id``, and all texts that would end the shell are left out
of messages to a client that may be the shell (it sends no message-id). Sources: "AMQP Console Interface", the
wiki's "3-CML", OpenAMQ 1.4c1.

The program behind it adds and removes objects (`ServerSession.put`, `delete`), calls `start` when all are
known, carries out each `Called` and `ModifyAsked` and reports its result (`done`), and sends the returned
messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from gateway.dialects.cml.codec import read_message, write_message
from gateway.dialects.cml.console_config import (
    NOTIFY_EXCHANGE,
    REPLY_EXCHANGE,
    ROUTING_KEY,
    SYSTEM_EXCHANGE,
)
from gateway.dialects.cml.documents import octets_of
from gateway.dialects.cml.messages import (
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
)
from gateway.dialects.cml.safety import MAX_SHOWN, shell_would_end
from gateway.dialects.errors import ProtocolError
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
from tests.peers.cml_server_changes import (
    MAX_WAITING,
    AskedFor,
    RefusedError,
    ServerCalls,
    arguments,
    settings,
)
from tests.peers.cml_server_objects import ServedObject, ServerObjects, carried

SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The settings of a server session. Durations are nanoseconds.

    Attributes:
        spelling: the spelling of replies; requests are read in either.
        system_exchange: the exchange for requests, with `routing_key`.
        reply_exchange: the exchange for replies, with the request's reply-to as the key.
        notify_exchange: the exchange for notifications.
        readers: users, as the broker checked them, who may ask for schema and objects; ``None`` for anybody,
            also senders whose user was not checked.
        writers: users who may set fields and call methods; ``None`` for anybody who may read.
        call_deadline: the time from the arrival of a change to its latest start, if it names no time of
            its own; it must end in as much again, or is not answered. OpenAMQ's shell waits 10 s.
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
        """Return whether ``user`` may send any request."""
        return self.readers is None or user in self.readers

    def may_write(self, user: str) -> bool:
        """Return whether ``user`` may change anything."""
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
        config: the settings, see `ServerConfig`.
        schema: the whole served schema; `schema.write_classes` makes it of classes of the model.

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
        """Return the bindings of the server's queue."""
        return (Binding(self._config.system_exchange, self._config.routing_key),)

    # The program's side.

    @property
    def objects(self) -> ServerObjects:
        """The known objects: supports ``number in``, ``len`` and `ServerObjects.find`."""
        return self._objects

    def put(self, served: ServedObject) -> None:
        """Add an object, or update the values of a known one; raises as `ServerObjects.put`."""
        self._objects.put(served)

    def delete(self, number: int) -> bool:
        """Remove an object; False if there is none."""
        return self._objects.delete(number)

    def start(self) -> None:
        """Answer from now on: all objects are known. Consoles take unlisted objects for deleted."""
        self._started = True

    def suspend(self) -> None:
        """Answer nothing until `start`, because the managed system cannot be read."""
        self._started = False

    def done(self, handle: int, status: Status, now: int, notice: str = "") -> list[Effect]:
        """Send the result of a change, after the values that it led to; nothing if no request waits for it.

        Args:
            handle: the handle of the `Called` or `ModifyAsked`.
            status: ``ok``, or the reason for a failure.
            now: nanoseconds.
            notice: one line for people.
        """
        ended = self._calls.ended(handle)
        if ended is None:
            return []
        asked_for, behind = ended
        return [*self._answer(asked_for, status, notice), *self._go_on(behind, now)]

    def notify(self, severity: Severity, text: str) -> list[Effect]:
        """Send a notification to consoles. The routing keys are ours; the example ``amq.*`` matches them."""
        letter, routing_key = _NOTIFICATIONS.get(severity, _OTHER_NOTIFICATION)
        notify = Notify(f"{letter}: {carried(text, self._config.spelling)}")
        return [self._send(self._config.notify_exchange, routing_key, notify, "")]

    # The link's side.

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an event as `Session.handle`, for all events of a link to a broker.

        Changes that are under way when the link goes down continue, and are answered if possible. A console
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
        """Give up waiting for changes that are overdue.

        They are not answered: it is unknown whether they were carried out, and CML has no status for that.
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
        """Answer a request, or ask the program. Raise nothing, whatever the request is."""
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
        """Handle the requests that waited for the end of a change."""
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
        """Raise `RefusedError` if the object is unknown or the user has no access.

        As in OpenAMQ, users without access also get "not found" for an unknown object.
        """
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
            RefusedError: the schema does not have it, or it is too late, or there are too many.
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
    """Return ``reply`` as OpenAMQ's shell can show it, with a notice of the changed fields for others."""
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
