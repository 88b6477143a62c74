"""Checks values for an element or an argument against its schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

import msgspec

from gateway.model.operations import Outcome
from gateway.model.schema import Argument, Element
from gateway.model.values import Reference, Value, ValueType

_NANOSECOND_BITS: Final = 64
_F32_LARGEST: Final = (2 - 2**-23) * 2.0**127
_MANY_DIGITS: Final = 10**40


class ValidationError(msgspec.Struct, frozen=True):
    """The reason why a value is not accepted.

    Attributes:
        outcome: ``WRONG_TYPE``, ``WRONG_LENGTH`` or ``WRONG_VALUE``.
        text: one line for people, without the item's name.
    """

    outcome: Outcome
    text: str


def validate(item: Element | Argument, value: Value) -> ValidationError | None:
    """Return the error of ``value`` in type, length, range or enumeration; ``None`` if there is none.

    Whether it may be absent is not checked. The contents of maps and lists have no schema.
    """
    name, is_one = _PYTHON_TYPES[item.type]
    if not is_one(value):
        return ValidationError(Outcome.WRONG_TYPE, f"{name} is wanted, not {_shown(value)}")
    found = _out_of_type(item.type, value) or _out_of_range(item, value)
    if found is None and item.values and value not in [named.value for named in item.values]:
        labels = ", ".join(f"{named.label} ({named.value})" for named in item.values[:20])
        found = ValidationError(Outcome.WRONG_VALUE, f"{_shown(value)} is none of {labels}")
    return found


def _is_integer(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is(kind: type) -> Callable[[Value], bool]:
    return lambda value: isinstance(value, kind)


_PYTHON_TYPES: Final[dict[ValueType, tuple[str, Callable[[Value], bool]]]] = {
    ValueType.BOOL: ("true or false", _is(bool)),
    **{one: ("an integer", _is_integer) for one in ValueType if one.integer_bits},
    ValueType.TIME: ("a time in nanoseconds", _is_integer),
    ValueType.DURATION: ("a duration in nanoseconds", _is_integer),
    ValueType.F32: ("a number", _is_number),
    ValueType.F64: ("a number", _is_number),
    ValueType.STRING: ("text", _is(str)),
    ValueType.BYTES: ("bytes", _is(bytes)),
    ValueType.UUID: ("a UUID", _is(UUID)),
    ValueType.REFERENCE: ("a reference to an object", _is(Reference)),
    ValueType.MAP: ("a map", _is(Mapping)),
    ValueType.LIST: ("a list", _is(tuple)),
}


def _out_of_type(value_type: ValueType, value: Value) -> ValidationError | None:
    """Return the error of a value that its type cannot hold."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        low, high = _integer_bounds(value_type)
        if not low <= value <= high:
            return ValidationError(Outcome.WRONG_VALUE, f"{_shown(value)} does not fit {value_type.value}")
    if isinstance(value, float) and value_type is ValueType.F32 and _F32_LARGEST < abs(value) < math.inf:
        return ValidationError(Outcome.WRONG_VALUE, f"{_shown(value)} does not fit f32")
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        return ValidationError(Outcome.WRONG_VALUE, f"{_shown(value)} cannot be encoded as UTF-8")
    return None


def _integer_bounds(value_type: ValueType) -> tuple[float, float]:
    if value_type in (ValueType.F32, ValueType.F64):
        largest = _F32_LARGEST if value_type is ValueType.F32 else math.ldexp(2 - 2**-52, 1023)
        return -largest, largest
    bits = value_type.integer_bits or _NANOSECOND_BITS
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if value_type.signed else (0, (1 << bits) - 1)


def _out_of_range(item: Element | Argument, value: Value) -> ValidationError | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Not the other way round: NaN is not within the bounds either.
        if item.minimum is not None and not value >= item.minimum:
            return ValidationError(Outcome.WRONG_VALUE, f"{_shown(value)} is less than {item.minimum}")
        if item.maximum is not None and not value <= item.maximum:
            return ValidationError(Outcome.WRONG_VALUE, f"{_shown(value)} is more than {item.maximum}")
    if isinstance(value, str | bytes) and item.max_length is not None:
        length = len(value.encode() if isinstance(value, str) else value)
        if length > item.max_length:
            return ValidationError(Outcome.WRONG_LENGTH, f"{length} bytes, {item.max_length} are taken")
    return None


_KINDS: Final = ((bytes, "bytes"), (UUID, "a UUID"), (Reference, "a reference"), (Mapping, "a map"))


def _shown(value: Value) -> str:
    """Return a value for an error's text: numbers as they are; of others, possibly secret, only the type."""
    if isinstance(value, int) and abs(value) > _MANY_DIGITS:
        return "a number of many digits"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return f"text of {len(value)} characters"
    return next((text for kind, text in _KINDS if isinstance(value, kind)), "a list")
