"""What requests to a server mean by its schema; nothing is carried out that was not understood whole.

OpenAMQ says ok to anything and takes what it does not understand for zero. The specification answers
``invalid`` to fields that are not valid, and OpenAMQ's own shell takes that too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.dialects.cml.entities import octets_of
from gateway.dialects.cml.messages import Field, Status
from gateway.dialects.cml.safety import MAX_STRING
from gateway.dialects.cml.values import read_value
from gateway.dialects.errors import ProtocolError
from gateway.model.schema import Argument, Element, Method
from gateway.model.validation import validate
from gateway.model.values import Value, Values

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
    for field in fields:
        element = settable.get(field.name)
        if element is None:
            raise RefusedError(f"{_name(field)} cannot be set")
        if element.name in wanted:
            raise RefusedError(f"{_name(field)} is there twice")
        wanted[element.name] = _value(element, field)
    return wanted


def arguments(method: Method, fields: Iterable[Field]) -> Values:
    """Return the arguments of a call, in the schema's order.

    Raises:
        RefusedError: one is missing, unknown, there twice, or has a value that does not fit.
    """
    wanted = {each.name: each for each in method.arguments}
    given: dict[str, Value] = {}
    for field in fields:
        argument = wanted.get(field.name)
        if argument is None:
            raise RefusedError(f"{method.name} has no argument {_name(field)}")
        if field.name in given:
            raise RefusedError(f"{_name(field)} is there twice")
        given[field.name] = _value(argument, field)
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
