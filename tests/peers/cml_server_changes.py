"""Changes that consoles request of a CML server: their check against the schema, and those under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.dialects.cml.documents import octets_of
from gateway.dialects.cml.messages import (
    Field,
    InspectRequest,
    MethodRequest,
    ModifyRequest,
    Status,
)
from gateway.dialects.cml.safety import MAX_STRING
from gateway.dialects.cml.values import read_value
from gateway.dialects.errors import ProtocolError
from gateway.dialects.session import (
    Delivery,
)
from gateway.model.schema import Argument, Element, Method
from gateway.model.validation import validate
from gateway.model.values import Value, Values

_SHOWN: Final = 40


class RefusedError(Exception):
    """A request is refused: the status is the reason, the text describes it for people, in ASCII."""

    def __init__(self, text: str, status: Status = Status.INVALID) -> None:
        self.status = status
        super().__init__(text)


def settings(settable: Mapping[str, Element], fields: Iterable[Field]) -> dict[str, Value]:
    """Return the values of a modify request, by the elements' names.

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
    """A request about an object, and its message.

    Attributes:
        deadline: the latest start of a change in nanoseconds.
        class_name: the class of the object of a change that was begun; the change may end the object.
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
    """The changes under way: one of each object at a time.

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
        """Whether nothing more can be begun, or wait."""
        return self._waiting >= MAX_WAITING

    @property
    def next_end(self) -> int:
        """The time at which the first change under way is given up; 0 if there is none."""
        return min((each.until for each in self._by_object.values()), default=0)

    def is_busy(self, number: int) -> bool:
        """Return whether a change of the object is under way."""
        return number in self._by_object

    def begin(self, number: int, asked_for: AskedFor) -> int:
        """Begin a change of an object that is not busy; return its handle."""
        self._handles += 1
        self._objects[self._handles] = number
        self._by_object[number] = _UnderWay(self._handles, asked_for, asked_for.deadline + self._patience)
        self._waiting += 1
        return self._handles

    def wait(self, number: int, asked_for: AskedFor) -> None:
        """Let a request wait behind the change that is under way."""
        self._by_object[number].behind.append(asked_for)
        self._waiting += 1

    def ended(self, handle: int) -> tuple[AskedFor, deque[AskedFor]] | None:
        """Return the change that ended and the requests behind it; ``None`` if the handle is unknown."""
        number = self._objects.pop(handle, None)
        if number is None:
            return None
        under_way = self._by_object.pop(number)
        self._waiting -= 1 + len(under_way.behind)
        return under_way.asked_for, under_way.behind

    def overdue(self, now: int) -> list[int]:
        """Return the handles of changes that should have ended by now."""
        return [each.handle for each in self._by_object.values() if each.until <= now]
