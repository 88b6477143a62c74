"""One JSON value to one value of the model, by the element's type: absent where it is of another type.

The broker's answers are input like any other. Nothing here raises; a value that is not what the schema
says gives `UNREADABLE`, which the reader counts and shows as absent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias, cast

from gateway.mapping.paths import Json
from gateway.model.schema import Argument, Element
from gateway.model.secrets import SecretRules, mask_uris
from gateway.model.values import Value, ValueType

MAX_TEXT_OCTETS = 8_192
"""Longer texts, for which no type or unit of RabbitMQ has a use, are not passed on."""
MAX_COLLECTION_OCTETS = 16_384
"""The most that a map or list may hold: names and texts in octets, every other value as eight."""
MAX_DEPTH = 16
"""Maps and lists nested deeper than this are not passed on."""
MAX_KEY_OCTETS = 255

_U64_MAX = 2**64 - 1
_S64_MIN = -(2**63)


class Unreadable:
    """The type of `UNREADABLE`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNREADABLE"


UNREADABLE: Final = Unreadable()
"""A value stands there, but not one that the element can have."""

Conversion: TypeAlias = Callable[[Json], "Value | Unreadable | None"]


def conversion(
    element: Element | Argument,
    secrets: SecretRules,
    *,
    scale: int = 1,
    absent: Collection[str] = (),
    words: Mapping[str, int] | None = None,
) -> Conversion:
    """How values of ``element`` are read, compiled once.

    Null and the ``absent`` texts, or numbers written as texts, give ``None``; ``words`` stand for numbers.
    """
    convert = _conversion(element, scale, secrets)
    absences = frozenset(absent) | {int(text) for text in absent if text.isascii() and text.isdigit()}
    numbers = dict(words or {})

    def checked(value: Json) -> Value | Unreadable | None:
        if value is None:
            return None
        if isinstance(value, str | int) and not isinstance(value, bool) and value in absences:
            return None
        return convert(numbers.get(value, value) if isinstance(value, str) else value)

    return checked


def _conversion(  # noqa: PLR0911  one return for each type
    element: Element | Argument, scale: int, secrets: SecretRules
) -> Conversion:
    type_ = element.type
    if type_.integer_bits:
        least, most = _integer_range(type_)
        return lambda value: _integer(value, scale, least, most)
    longest = element.max_length or MAX_TEXT_OCTETS
    match type_:
        case ValueType.BOOL:
            return lambda value: value if isinstance(value, bool) else UNREADABLE
        case ValueType.F32 | ValueType.F64:
            return lambda value: _float(value, scale)
        case ValueType.TIME:
            return lambda value: _time(value, scale)
        case ValueType.DURATION:
            return lambda value: _integer(value, scale, 0, _U64_MAX, rounded=True)
        case ValueType.STRING:
            return lambda value: _text(value, longest)
        case ValueType.REFERENCE:
            return lambda value: value if isinstance(value, str) else UNREADABLE
        case ValueType.MAP | ValueType.LIST:
            return lambda value: _collection(value, type_, secrets)
    # RabbitMQ tells neither octets nor UUIDs: a mapping that says so reads nothing.
    return lambda _: UNREADABLE


def _integer_range(type_: ValueType) -> tuple[int, int]:
    bits = type_.integer_bits
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type_.signed else (0, (1 << bits) - 1)


def _number(value: Json) -> int | float | None:
    """A number, also one written as text (``os_pid``); ``None`` if it is none or not finite."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) <= 20 else None  # noqa: PLR2004  u64
    if isinstance(value, int):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else None


def _integer(value: Json, scale: int, least: int, most: int, *, rounded: bool = False) -> Value | Unreadable:
    number = _number(value)
    if number is None:
        return UNREADABLE
    scaled = number * scale
    if isinstance(scaled, float):
        if not math.isfinite(scaled) or not (rounded or scaled.is_integer()):
            return UNREADABLE
        scaled = round(scaled)
    return scaled if least <= scaled <= most else UNREADABLE


def _float(value: Json, scale: int) -> Value | Unreadable:
    number = _number(value)
    if number is None:
        return UNREADABLE
    try:
        scaled = float(number) * scale
    except OverflowError:
        return UNREADABLE
    return scaled if math.isfinite(scaled) else UNREADABLE


def _time(value: Json, scale: int) -> Value | Unreadable:
    """A number of the rule's unit since 1970, or a date as text (ISO 8601, UTC where it names no zone)."""
    if not isinstance(value, str) or value.isdigit():
        return _integer(value, scale, 0, _U64_MAX, rounded=True)
    try:
        date = datetime.fromisoformat(value)
    except ValueError:
        return UNREADABLE
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    nanoseconds = _nanoseconds(date)
    return nanoseconds if 0 <= nanoseconds <= _U64_MAX else UNREADABLE


def _nanoseconds(date: datetime) -> int:
    since = date - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000


def _text(value: Json, longest: int) -> Value | Unreadable:
    if not isinstance(value, str) or len(value) > longest:
        return UNREADABLE
    text = clean_text(value)
    return mask_uris(text) if len(text.encode()) <= longest else UNREADABLE


def clean_text(text: str) -> str:
    """``text`` as UTF-8 can say it: JSON's lone surrogates, which it cannot, become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _collection(value: Json, type_: ValueType, secrets: SecretRules) -> Value | Unreadable:
    if value == [] and type_ is ValueType.MAP:
        value = {}  # an empty Erlang property list, which RabbitMQ cannot tell from an empty object
    if not isinstance(value, Mapping if type_ is ValueType.MAP else list):
        return UNREADABLE
    room = _Room(MAX_COLLECTION_OCTETS)
    plain = _plain(value, 0, room)
    return UNREADABLE if plain is None or room.left < 0 else secrets.masked(plain)


class _Room:
    """What a collection may still hold, in octets."""

    __slots__ = ("left",)

    def __init__(self, octets: int) -> None:
        self.left = octets


def _plain(value: Json, depth: int, room: _Room) -> Value | None:
    """``value`` in the model's types; null, what is too deep and what has no room is left out."""
    room.left -= len(value) if isinstance(value, str) else 8
    if room.left < 0 or depth > MAX_DEPTH:
        return None
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return _plain_map(value, depth, room)
    if isinstance(value, list):
        items = (_plain(item, depth + 1, room) for item in value)
        return tuple(item for item in items if item is not None)
    if isinstance(value, int) and not isinstance(value, bool) and not _S64_MIN <= value <= _U64_MAX:
        return str(value) if abs(value) < 10**40 else None
    return value


def _plain_map(value: Mapping[str, Json], depth: int, room: _Room) -> Value:
    plain: dict[str, Value] = {}
    for key, inner in value.items():
        name = mask_uris(clean_text(key))
        room.left -= len(name)
        item = _plain(inner, depth + 1, room)
        if item is not None and len(name.encode()) <= MAX_KEY_OCTETS:
            plain[name] = item
    return cast("Value", plain)
