"""Converts values from text to the model's and back, by their type in the schema.

CML cannot express absence. Where text is empty, a number, flag, time or reference is absent; a
string is empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from gateway.dialects.cml.documents import octets_of
from gateway.dialects.cml.messages import Spelling, object_number
from gateway.dialects.cml.safety import MAX_STRING
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.model.schema import Argument, Element
from gateway.model.times import EPOCH, SECOND
from gateway.model.validation import validate
from gateway.model.values import Reference, Value, ValueType

INT_LIMIT: Final = 1 << 32
"""An ``int`` is unsigned and has 32 bits."""

_SHOWN: Final = 40
_INTEGER: Final = re.compile(r"[0-9]{1,20}")
_FLAG: Final = re.compile(r"[+-]?[0-9]{1,20}")
_WORDS: Final = {"true": True, "false": False, "yes": True, "no": False}
_ISO_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))?"
)
_LAST_SECOND: Final = (1 << 63) // SECOND


def read_value(text: str, value_type: ValueType) -> Value | None:
    """Return the value of ``text``; ``None`` is absent.

    A flag is any integer, as in OpenAMQ, which stores -1 and 2 if a client sets them; ``true``, ``yes``
    and their opposites are read, too. A time is a number of seconds since 1970 UTC, or the date and minute
    that OpenAMQ shows (``2026-11-20T06:52+00:00``; without zone UTC).

    Raises:
        ProtocolError: ``text`` is not such a value, or an integer beyond 32 bits.
    """
    read = _READERS.get(value_type)
    if read is None:
        return str(text)
    text = text.strip()
    if not text:
        return None
    value = read(text)
    if value is None:
        raise ProtocolError(f"a value of type {value_type.value}", repr(text[:_SHOWN]))
    return value


def _integer(text: str) -> Value | None:
    return int(text) if _INTEGER.fullmatch(text) and int(text) < INT_LIMIT else None


def _flag(text: str) -> Value | None:
    return int(text) != 0 if _FLAG.fullmatch(text) else _WORDS.get(text.lower())


def _reference(text: str) -> Value | None:
    number = object_number(text)
    return None if number is None else Reference(str(number))


def _time(text: str) -> Value | None:
    if _INTEGER.fullmatch(text):
        return int(text) * SECOND if int(text) < _LAST_SECOND else None
    found = _ISO_TIME.fullmatch(text)
    if found is None:
        return None
    *parts, sign, hours, minutes = found.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    seconds = (moment - EPOCH - offset) // timedelta(seconds=1)
    return seconds * SECOND if 0 <= seconds < _LAST_SECOND else None


_READERS: Final[dict[ValueType, Callable[[str], Value | None]]] = {
    ValueType.U32: _integer,
    ValueType.BOOL: _flag,
    ValueType.TIME: _time,
    ValueType.REFERENCE: _reference,
}


def write_value(value: Value, item: Element | Argument, spelling: Spelling) -> str:
    """Return the text of a value. A value that does not fit is refused, never truncated.

    A time is written in seconds, or as date and minute in OpenAMQ's spelling.

    Raises:
        LocalProtocolError: it is of another type, beyond the item's bounds, a string of more than
            `MAX_STRING` octets, an integer beyond 32 bits, a time before 1970 or not of a whole
            second (OpenAMQ: minute), a reference that is not a number, or of a type that CML lacks.
            Integers of other widths, durations in nanoseconds, UUIDs and floating point numbers are sent as
            strings.
    """
    found = validate(item, value)
    if found is not None:
        raise LocalProtocolError(f"{item.name}: {found.text}")
    write = _WRITERS.get(item.type)
    if write is None:
        raise LocalProtocolError(f"{item.name}: CML has no {item.type.value}")
    return write(item, value, spelling)


def shown_value(value: Value, item: Element | Argument, spelling: Spelling) -> str:
    """Return the text of a value in a reply: as `write_value`, but with strings of any length."""
    if item.type is ValueType.STRING and isinstance(value, str):
        return value
    return write_value(value, item, spelling)


def _written_string(item: Element | Argument, value: Value, _: Spelling) -> str:
    text = str(value)
    if len(octets_of(text)) > MAX_STRING:
        raise LocalProtocolError(f"{item.name}: a string may have {MAX_STRING} octets")
    return text


def _written_integer(_: Element | Argument, value: Value, __: Spelling) -> str:
    return str(value)


def _written_flag(_: Element | Argument, value: Value, __: Spelling) -> str:
    return "1" if value else "0"


def _written_time(item: Element | Argument, value: Value, spelling: Spelling) -> str:
    assert isinstance(value, int)
    openamq = spelling is Spelling.OPENAMQ
    unit = 60 * SECOND if openamq else SECOND
    if not 0 <= value < _LAST_SECOND * SECOND or value % unit:
        raise LocalProtocolError(f"{item.name}: a time must be a whole {'minute' if openamq else 'second'}")
    seconds = value // SECOND
    if openamq:
        return (EPOCH + timedelta(seconds=seconds)).isoformat(timespec="minutes")
    return str(seconds)


def _written_reference(item: Element | Argument, value: Value, _: Spelling) -> str:
    assert isinstance(value, Reference)
    number = object_number(value.native_id)
    if number is None:
        raise LocalProtocolError(f"{item.name}: a reference must be an object's number")
    return str(number)


_WRITERS: Final[dict[ValueType, Callable[[Element | Argument, Value, Spelling], str]]] = {
    **{each: _written_integer for each in ValueType if each.integer_bits},
    ValueType.STRING: _written_string,
    ValueType.UUID: _written_string,
    ValueType.F32: _written_string,
    ValueType.F64: _written_string,
    ValueType.DURATION: _written_integer,
    ValueType.BOOL: _written_flag,
    ValueType.TIME: _written_time,
    ValueType.REFERENCE: _written_reference,
}
