"""What clients write, as values of the model: the way back of `types`.

Nothing is judged here. A value that is not of the element's type becomes the value of the model that it is
by itself, and the core refuses it, as for every front end. Only this much is syntax:

- an enumeration is written as its label;
- what stands in a map or a list is text, and JSON where it can be read as JSON: ``5`` is a number, ``"5"`` a
  text. Elements that can be set are shown so too, so that what was read can be written back;
- a UUID is written as text, a reference as the ObjectName of an MBean of ours.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from gateway.feed.values import FeedValue, ObjectLink
from gateway.jmx import types
from gateway.jmx.commands import AttributeType
from gateway.model.schema import Argument, Element
from gateway.model.values import Value, ValueType

MAX_DIGITS = 100
"""Of an integer; one with more is a text, and so of the wrong type: reading it would take long."""

_NANOSECONDS = 1_000_000
"""In a millisecond."""

_EXACT = 2**53
"""Whole numbers up to this have one floating-point number each (IEEE 754, binary64)."""


@dataclass(frozen=True, slots=True)
class Written:
    """A value as a client gave it.

    Attributes:
        type: what it is in Java, whatever the attribute's type is.
        value: ``LONG`` and ``DATE`` (milliseconds): int; ``BIG_INTEGER``: its digits; ``OBJECT_NAME``:
            number and stable name of the MBean; ``MAP``: pairs of texts; ``LIST``: texts; else as in
            `gateway.jmx.commands`.
    """

    type: AttributeType
    value: object


Resolve: TypeAlias = Callable[[int, str], ObjectLink | None]
"""Where an MBean's number and stable name lead; ``None`` where there is no such managed object any more."""


def model_value(written: Written, target: Element | Argument, resolve: Resolve) -> FeedValue:
    """What was written, for this element or argument.

    Raises:
        ValueError: values of this type are written otherwise, which is a mistake of ours.
    """
    match written.type, written.value:
        case AttributeType.OBJECT_NAME, [int(number), str(stable_name)]:
            return resolve(number, stable_name) or stable_name
        case AttributeType.MAP, [*pairs]:
            return dict(_entry(pair) for pair in pairs)
        case AttributeType.LIST, [*items]:
            return tuple(from_shown(str(text)) for text in items)
        case type_, (bool() | int() | float() | bytes() | str()) as value:
            return _simple(type_, value, target)
    raise ValueError(f"{written.type.name} is written otherwise")


def _simple(type_: AttributeType, value: Value, target: Element | Argument) -> Value:
    wants_time, wants_float = target.type is ValueType.TIME, target.type in (ValueType.F32, ValueType.F64)
    match type_, value:
        case AttributeType.STRING, str():
            return _from_text(value, target)
        case AttributeType.DATE, int():
            return value * _NANOSECONDS if wants_time else str(value)  # a text, which is of the wrong type
        case ((AttributeType.LONG | AttributeType.BIG_INTEGER), (int() | str())):
            number = value if isinstance(value, int) else _integer(value)
            if wants_time:
                return str(number)
            if wants_float and isinstance(number, int) and abs(number) <= _EXACT:
                return float(number)
            return number
    return value


def _entry(pair: object) -> tuple[str, Value]:
    match pair:
        case [str(key), str(text)]:
            return key, from_shown(text)
    raise ValueError("an entry of a map is two texts")


def _from_text(text: str, target: Element | Argument) -> Value:
    if types.is_enumeration(target):
        for named in target.values:
            if types.text(named.label) == text:
                return named.value
        # What has no label is shown as it is.
        return _integer(text) if target.type.integer_bits else text
    if target.type is ValueType.UUID:
        try:
            return UUID(text)
        except ValueError:
            return text
    return text


def _integer(text: str) -> int | str:
    try:
        return int(text) if len(text) <= MAX_DIGITS else text
    except ValueError:
        return text


def from_shown(text: str) -> Value:
    """What stands in a map or a list, from its text: JSON, unless there is a null in it; else the text."""
    try:
        return _value(json.loads(text, parse_constant=_number, parse_int=_number, parse_float=_number))
    except (ValueError, RecursionError):
        return text


def _number(digits: str) -> int | float:
    """A number that ends: JSON has no NaN and no infinity, which Python's reader takes."""
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    try:
        return int(digits)
    except ValueError:
        value = float(digits)
    if not math.isfinite(value):
        raise ValueError(digits)
    return value


def _value(plain: object) -> Value:
    match plain:
        case bool() | int() | float() | str():
            return plain
        case dict():
            return {key: _value(inner) for key, inner in plain.items()}
        case list():
            return tuple(map(_value, plain))
    raise ValueError("null, for which there is no value")
