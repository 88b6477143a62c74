"""Calls of methods and reads of objects that an agent's program answers later, and their checks.

Source: QMF AM2 protocol ("Method Request"). Where peers guess (qpidd reads missing arguments as zeros, and
carries out a call with extra octets), a call here is carried out only if it is valid as a whole.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.layout import Layout
from gateway.dialects.qmf.messages import (
    CommandComplete,
    GetQuery,
    MethodRequest,
    MethodResponse,
)
from gateway.dialects.qmf.model_values import wire_values
from gateway.dialects.qmf.statuses import FAILED, UNKNOWN_OBJECT, Status
from gateway.dialects.qmf.typed_values import QmfValue
from gateway.dialects.session import Called, Delivery, ModifyAsked, Note, ReadAsked
from gateway.model.schema import Argument, Direction, Method
from gateway.model.times import SECOND
from gateway.model.validation import validate
from gateway.model.values import Reference, Value, Values

MAX_WAITING: Final = 256
"""Calls and reads of all consoles that may be under way; further ones are refused."""
REMEMBERED: Final = 1_000
"""Calls that are remembered, so that a duplicate is detected."""
REMEMBERED_FOR: Final = 60 * SECOND

_MAX_TEXT: Final = 1_000
"""Characters of a status text, whose octets fit the u16 length."""
_MAX_METHOD_TEXT: Final = 200
"""Characters of the text of the one status that is sent as str8."""
_MAX_COMPLETION_TEXT: Final = 200


class Target(Protocol):
    """An object that can be called or read."""

    @property
    def object_id(self) -> ObjectId:
        """The id of the object."""
        ...

    @property
    def definition(self) -> ClassDefinition:
        """The definition of its class."""
        ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call or read that the program has not answered yet.

    ``outputs`` encodes the answer's arguments; ``None`` for a read, which concerns ``object_id``.
    """

    reply_to: str
    sequence: int
    object_id: ObjectId
    outputs: Layout | None = None


Refusal: TypeAlias = MethodResponse | CommandComplete


class AgentCalls:
    """The calls and reads that are under way.

    Args:
        deadline: nanoseconds after the arrival of a request without a deadline of its own.
    """

    def __init__(self, deadline: int) -> None:
        self._deadline = deadline
        self._waiting: dict[int, Waiting] = {}
        self._handles = 0
        self._known: OrderedDict[tuple[str, str, int], int] = OrderedDict()

    def called(
        self, request: MethodRequest, target: Target | None, delivery: Delivery, now: int
    ) -> Called | MethodResponse | Note:
        """Check a call; return the call for the program, or qpidd's answer to an invalid call."""
        sequence = request.sequence
        if target is None:
            return unknown_object(request)
        try:
            arguments = _understood(request, target)
        except _RefusedError as refused:
            return MethodResponse(sequence, refused.status, refused.text)
        refusal = self._refused(sequence, delivery, now)
        if refusal is not None:
            return refusal
        definition = target.definition
        handle = self._wait(
            Waiting(delivery.reply_to, sequence, target.object_id, definition.outputs[request.method])
        )
        deadline = self._deadline_of(delivery, now)
        number = target.object_id.number
        return Called(handle, definition.key, number, request.method, arguments, delivery.user_id, deadline)

    def modify_asked(
        self, sequence: int, target: Target, values: Mapping[str, Value], delivery: Delivery, now: int
    ) -> ModifyAsked | MethodResponse | Note:
        """Accept a set whose values are checked, as `called`; AM2 has no such request."""
        refusal = self._refused(sequence, delivery, now)
        if refusal is not None:
            return refusal
        handle = self._wait(Waiting(delivery.reply_to, sequence, target.object_id))
        number, deadline = target.object_id.number, self._deadline_of(delivery, now)
        return ModifyAsked(handle, target.definition.key, number, values, delivery.user_id, deadline)

    def _refused(self, sequence: int, delivery: Delivery, now: int) -> MethodResponse | Note | None:
        """Return the reason why the program is not called; ``None`` where it is, once."""
        call = (delivery.user_id, delivery.reply_to, sequence)
        if self._is_repeated(call, now):
            return Note("repeated-call", f"call {sequence} of {delivery.user_id!r} came twice: done once")
        if self._is_late(delivery, now):
            text = "not carried out: it came after the time that it was given"
            return MethodResponse(sequence, Status.EXCEPTION, text)
        if len(self._waiting) >= MAX_WAITING:
            text = f"not carried out: {MAX_WAITING} calls are under way already"
            return MethodResponse(sequence, Status.EXCEPTION, text)
        self._known[call] = now
        return None

    def asked(
        self, query: GetQuery, target: Target, delivery: Delivery, now: int
    ) -> ReadAsked | CommandComplete:
        """Accept a request for one object, which is to be read again."""
        if len(self._waiting) >= MAX_WAITING:
            text = f"not read: {MAX_WAITING} calls are under way already"
            return CommandComplete(query.sequence, FAILED, text)
        handle = self._wait(Waiting(delivery.reply_to, query.sequence, target.object_id))
        key = target.definition.key
        number, deadline = target.object_id.number, self._deadline_of(delivery, now)
        return ReadAsked(handle, key, number, deadline, delivery.user_id)

    def ended(self, handle: int) -> Waiting | None:
        """Remove the request that the program has answered; return ``None`` if it does not wait."""
        return self._waiting.pop(handle, None)

    def _wait(self, waiting: Waiting) -> int:
        self._handles += 1
        self._waiting[self._handles] = waiting
        return self._handles

    def _deadline_of(self, delivery: Delivery, now: int) -> int:
        if not delivery.timestamp or not delivery.expiration:
            return now + self._deadline
        # The deadline may be up to a second early, as the timestamp has whole seconds, but never late.
        return delivery.timestamp + delivery.expiration * 1_000_000

    def _is_late(self, delivery: Delivery, now: int) -> bool:
        """Return whether a request waited too long in transit, as in a broker that is blocked."""
        if not delivery.timestamp:
            return False
        if delivery.expiration:
            return now > self._deadline_of(delivery, now)
        return now > delivery.timestamp + self._deadline + SECOND  # a timestamp is exact to a second

    def _is_repeated(self, call: tuple[str, str, int], now: int) -> bool:
        """Return whether the console made this very call before: a broker may deliver a message twice."""
        known = self._known
        while known and (now - next(iter(known.values())) > REMEMBERED_FOR or len(known) >= REMEMBERED):
            known.popitem(last=False)
        return call in known


def unknown_object(request: MethodRequest) -> MethodResponse:
    """Return qpidd's answer to a call on an object id that it does not know."""
    return MethodResponse(request.sequence, Status.UNKNOWN_OBJECT, UNKNOWN_OBJECT)


def response(waiting: Waiting, status: int, text: str, outputs: Values) -> MethodResponse:
    """Return the reply to a call.

    Raises:
        LocalProtocolError: the outputs do not fit the method.
    """
    octets = b""
    if waiting.outputs is not None and (status == Status.OK or outputs):
        octets = waiting.outputs.write(wire_values(outputs))
    longest = _MAX_METHOD_TEXT if status == Status.UNKNOWN_METHOD else _MAX_TEXT
    return MethodResponse(waiting.sequence, status, _plain(text, longest), octets)


def completion(waiting: Waiting, failure: str) -> CommandComplete:
    """Return the end of the answer to a read; ``failure`` is empty if it succeeded."""
    if not failure:
        return CommandComplete(waiting.sequence)
    return CommandComplete(waiting.sequence, FAILED, _plain(failure, _MAX_COMPLETION_TEXT))


def _plain(text: str, longest: int) -> str:
    """Return ``text`` in ASCII, because consoles decode other characters differently."""
    return text.encode("ascii", "replace")[:longest].decode()


class _RefusedError(Exception):
    """A call is refused with this status."""

    def __init__(self, status: Status, text: str) -> None:
        self.status = status
        self.text = _plain(text, _MAX_TEXT)
        super().__init__(text)


def _understood(request: MethodRequest, target: Target) -> Values:
    """Return the arguments of a call, checked against the schema.

    Raises:
        _RefusedError: the class has no such method, or the arguments are not valid.
    """
    definition = target.definition
    if (definition.key.package, definition.key.name) != (request.key.package, request.key.name):
        raise _RefusedError(Status.INVALID_PARAMETER, "InvalidParameter: the object is of another class")
    method = next((one for one in definition.schema.methods if one.name == request.method), None)
    if method is None:
        raise _RefusedError(Status.UNKNOWN_METHOD, "UnknownMethod")
    if request.key.hash not in (definition.key.hash, fields.NO_HASH):
        text = "InvalidParameter: the class has another version by now: ask for its schema"
        raise _RefusedError(Status.INVALID_PARAMETER, text)
    try:
        return _arguments(definition, method, request.arguments)
    except ProtocolError as error:
        raise _RefusedError(Status.INVALID_PARAMETER, f"InvalidParameter: {error}") from error


def _arguments(definition: ClassDefinition, method: Method, octets: bytes) -> Values:
    """Return the arguments of a call; raise `ProtocolError` if they are not valid for the method."""
    values, end = definition.inputs[method.name].read(octets, 0)
    if end != len(octets):
        raise ProtocolError("the end of the arguments", f"{len(octets) - end} more octets", end)
    inputs = [one for one in method.arguments if one.direction is not Direction.OUT]
    return tuple(_checked(argument, value) for argument, value in zip(inputs, values, strict=True))


def _checked(argument: Argument, wire: QmfValue) -> Value | None:
    value = model_value(wire)
    if argument.optional and (value is None or value in ("", (), {}) or value == 0):
        return None
    if value is None:
        raise ProtocolError(f"a value for {argument.name}")
    wrong = validate(argument, value)
    if wrong is not None:
        raise ProtocolError(f"a value that fits {argument.name}", wrong.text)
    return value


def model_value(value: QmfValue) -> Value | None:
    """Return ``value`` as the model has it; nulls in maps and lists are left out."""
    if isinstance(value, ObjectId):
        return Reference(str(value)) if value else None
    if isinstance(value, Mapping):
        plain = ((key, model_value(inner)) for key, inner in value.items())
        return {key: inner for key, inner in plain if inner is not None}
    if isinstance(value, tuple):
        return tuple(inner for inner in map(model_value, value) if inner is not None)
    return value
