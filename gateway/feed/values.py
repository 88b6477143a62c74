"""Values as a feed carries them: those of the model, with references resolved."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

import msgspec

from gateway.model.operations import Outcome
from gateway.model.schema import NamedValue
from gateway.model.times import DAY, EPOCH, HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND, utc_time
from gateway.model.values import Reference, Scalar, Value, ValueType


class FeedStruct(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A part of the feed, encoded as an array of its fields in their order, after its tag where it has one.

    No field refers back to the object that contains it, so the garbage collector need not examine any.
    """


class ObjectLink(FeedStruct, frozen=True):
    """The target of a reference: its class (``package:name``), row and stable name."""

    class_name: str
    row: int
    stable_name: str


FeedValue: TypeAlias = "Value | ObjectLink"

if TYPE_CHECKING:
    PositionedValues: TypeAlias = Mapping[int, FeedValue]
    NamedValues: TypeAlias = Mapping[str, FeedValue | None]
    FoundValues: TypeAlias = Mapping[str, FeedValue]
else:
    # What `gateway.feed.messages` decodes: a union of msgspec's has one type for texts and one for arrays.
    TravellingValue = Scalar | ObjectLink | dict[str, Any] | msgspec.msgpack.Ext
    PositionedValues = dict[int, TravellingValue]
    NamedValues = dict[str, TravellingValue | None]
    FoundValues = dict[str, TravellingValue]


def links_in(value: object) -> Iterator[ObjectLink]:
    """Yield the references in a value, at any depth."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, ObjectLink):
            yield each
        elif isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, tuple | list):
            waiting += each


def as_json(value: object) -> object:
    """Return ``value`` for JSON: bytes as hexadecimal, UUIDs, NaN and infinities as text, references by name.

    Raises:
        RecursionError: it is nested too deeply.
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if isinstance(value, str | int | None) else _as_text(value)


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Reference):
        return value.native_id
    return value.stable_name if isinstance(value, ObjectLink) else str(value)


FindObject: TypeAlias = Callable[[str], "ObjectLink | None"]
"""Returns the object that a text names, in the notation of the caller's users; ``None`` for none."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")
_FLOAT: Final = re.compile(
    r"[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,6})?|[+-]?(inf|nan)"
)
_DURATION: Final = re.compile(r"([+-]?)([0-9]{1,40})(?:\.([0-9]{1,9}))? ?(ns|us|ms|s|min|h|d)")
_TIME: Final = re.compile(r"([0-9T:. +-]{1,40}?)(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})")
_UNITS: Final[Mapping[str, int]] = {
    "ns": 1,
    "us": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "min": MINUTE,
    "h": HOUR,
    "d": DAY,
}
_TRUTHS: Final = {"true": True, "false": False, "1": True, "0": False}
_LARGEST_FLOAT: Final = 2**1023  # somewhat less than the largest float, but enough for written integers
_SHOWN: Final = 40  # characters of an invalid text that an error repeats


class TextValueError(Exception):
    """A text is not a value of the wanted type.

    Args:
        outcome: ``WRONG_TYPE`` or ``WRONG_VALUE``.
        text: what was expected and what was found, for people.
    """

    def __init__(self, outcome: Outcome, text: str) -> None:
        self.outcome = outcome
        super().__init__(text)


def value_from_text(
    text: str, wanted: ValueType, named: Sequence[NamedValue] = (), find: FindObject = lambda _text: None
) -> FeedValue:
    """Return the value that ``text`` stands for. Its range is not checked.

    Numbers are decimal; a boolean is ``true`` or ``false``, or 1 or 0; bytes are hexadecimal digits; a time
    is ISO 8601 with its zone, or nanoseconds since 1970; a duration is a number with ns, us, ms, s, min, h or
    d, or nanoseconds; a map or list is JSON; an enumeration's value is a label or the encoded value.

    Args:
        text: the text as written.
        wanted: the type of the element or argument.
        named: the labels of the element or argument.
        find: returns the object that a reference's text names.

    Raises:
        TextValueError: it is not such a value.
    """
    for name in named:
        if text == name.label:
            return name.value
    if wanted.integer_bits:
        return _integer(text, wanted, named)
    return _READERS[wanted](text) if wanted is not ValueType.REFERENCE else _reference(text, find)


def value_from_json(
    text: str, wanted: ValueType, named: Sequence[NamedValue] = (), find: FindObject = lambda _text: None
) -> FeedValue:
    """Return the value that JSON ``text`` stands for; the contents of a JSON string are read as text.

    Raises:
        TextValueError: it is not JSON, or not such a value.
    """
    value = _json(text)
    if isinstance(value, str):
        return value_from_text(value, wanted, named, find)
    if isinstance(value, bool):
        fits = wanted is ValueType.BOOL
    elif isinstance(value, int) and wanted is ValueType.BOOL:
        return _truth(str(value))
    elif isinstance(value, int):
        fits = bool(wanted.integer_bits) or wanted in _NUMBERS
        value = float(value) if wanted in _FLOATS and abs(value) < _LARGEST_FLOAT else value
    elif isinstance(value, float):
        fits = wanted in _FLOATS
    else:
        fits = wanted is (ValueType.MAP if isinstance(value, Mapping) else ValueType.LIST)
    if not fits:
        raise _wrong_type(_EXPECTED[wanted], text)
    return value


def text_of(value: FeedValue, described: ValueType | None = None, named: Sequence[NamedValue] = ()) -> str:
    """Return a value as `value_from_text` reads it; a reference as its object's name.

    Args:
        value: a value of any type.
        described: its type in the schema, which distinguishes times and durations from other integers.
        named: its labels.
    """
    for name in named:
        if type(name.value) is type(value) and name.value == value:
            return name.label
    if described is ValueType.TIME and type(value) is int:
        return _time_text(value)
    try:
        plain = as_json(value)
        is_text = isinstance(plain, str)
        return str(plain) if is_text else json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return "nested too deeply to be shown"


def _time_text(nanoseconds: int) -> str:
    return utc_time(nanoseconds, 9 if nanoseconds % SECOND else 0) or str(nanoseconds)


def _integer(text: str, wanted: ValueType, named: Sequence[NamedValue]) -> int:
    if not _INTEGER.fullmatch(text):
        if named:
            labels = ", ".join(name.label for name in named)
            raise TextValueError(Outcome.WRONG_VALUE, f"{_quoted(text)} is none of {labels}")
        raise _wrong_type(_EXPECTED[wanted], text)
    return int(text)


def _float(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise _wrong_type("a number", text)
    return float(text)


def _truth(text: str) -> bool:
    truth = _TRUTHS.get(text.lower())
    if truth is None:
        raise _wrong_type("true or false", text)
    return truth


def _octets(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise _wrong_type("bytes in hexadecimal", text) from None


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise _wrong_type("a UUID", text) from None


def _time(text: str) -> int:
    if _INTEGER.fullmatch(text):
        return int(text)
    match = _TIME.fullmatch(text)
    if match is None:
        raise _wrong_type(_EXPECTED[ValueType.TIME], text)
    moment, fraction, zone = match.groups()
    try:
        whole = dt.datetime.fromisoformat(moment + zone)
    except ValueError:
        raise _wrong_type(_EXPECTED[ValueType.TIME], text) from None
    seconds = (whole - EPOCH) // dt.timedelta(seconds=1)
    return seconds * SECOND + int((fraction or "").ljust(9, "0"))


def _duration(text: str) -> int:
    if _INTEGER.fullmatch(text):
        return int(text)
    match = _DURATION.fullmatch(text)
    if match is None:
        raise _wrong_type(_EXPECTED[ValueType.DURATION], text)
    sign, whole, fraction, unit = match.groups()
    nanoseconds = int(whole) * _UNITS[unit]
    if fraction:
        nanoseconds += int(fraction) * _UNITS[unit] // 10 ** len(fraction)
    return -nanoseconds if sign == "-" else nanoseconds


def _reference(text: str, find: FindObject) -> ObjectLink:
    found = find(text)
    if found is None:
        raise TextValueError(Outcome.WRONG_VALUE, f"{_quoted(text)} names no object that is known")
    return found


def _map(text: str) -> Mapping[str, Value]:
    value = _json(text)
    if not isinstance(value, Mapping):
        raise _wrong_type(_EXPECTED[ValueType.MAP], text)
    return value


def _list(text: str) -> tuple[Value, ...]:
    value = _json(text)
    if not isinstance(value, tuple):
        raise _wrong_type(_EXPECTED[ValueType.LIST], text)
    return value


def _json(text: str) -> Value:
    try:
        return _from_json(json.loads(text, parse_constant=_no_number))
    except TextValueError:
        raise
    except (ValueError, RecursionError) as error:
        raise TextValueError(Outcome.WRONG_VALUE, f"not JSON: {error}") from None


def _no_number(constant: str) -> float:
    raise TextValueError(Outcome.WRONG_VALUE, f"{constant} is not JSON")


def _from_json(value: object) -> Value:
    if isinstance(value, Mapping):
        return {key: _from_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return tuple(_from_json(inner) for inner in value)
    if isinstance(value, float) and not math.isfinite(value):
        raise TextValueError(Outcome.WRONG_VALUE, "a number is too large")
    if isinstance(value, bool | int | float | str):
        return value
    raise TextValueError(Outcome.WRONG_VALUE, "null stands for no value: leave it out")


def _wrong_type(expected: str, text: str) -> TextValueError:
    return TextValueError(Outcome.WRONG_TYPE, f"expected {expected}, found {_quoted(text)}")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


_FLOATS: Final = frozenset({ValueType.F32, ValueType.F64})
_NUMBERS: Final = _FLOATS | {ValueType.TIME, ValueType.DURATION}

_READERS: Final[Mapping[ValueType, Callable[[str], FeedValue]]] = {
    ValueType.BOOL: _truth,
    ValueType.F32: _float,
    ValueType.F64: _float,
    ValueType.STRING: str,
    ValueType.BYTES: _octets,
    ValueType.UUID: _uuid,
    ValueType.TIME: _time,
    ValueType.DURATION: _duration,
    ValueType.MAP: _map,
    ValueType.LIST: _list,
}

_EXPECTED: Final[Mapping[ValueType, str]] = {
    **{wanted: "an integer" for wanted in ValueType if wanted.integer_bits},
    ValueType.BOOL: "true or false",
    ValueType.F32: "a number",
    ValueType.F64: "a number",
    ValueType.STRING: "text",
    ValueType.BYTES: "bytes in hexadecimal",
    ValueType.UUID: "a UUID",
    ValueType.TIME: "a time with its zone, such as 2026-11-20T18:00:00Z",
    ValueType.DURATION: "a duration, such as 10s, 500ms or 2h",
    ValueType.REFERENCE: "an object",
    ValueType.MAP: "a JSON object",
    ValueType.LIST: "a JSON array",
}
