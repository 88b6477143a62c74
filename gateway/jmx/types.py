"""The form of each type of the model in JMX, and the conversion of written values into those of the model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from gateway.feed.values import FeedValue, ObjectLink, as_json
from gateway.jmx.commands import AttributeType, JmxValue
from gateway.model.schema import Access, Argument, Element, NamedValue
from gateway.model.times import MILLISECOND, utc_time
from gateway.model.values import Reference, Value, ValueType

Converter: TypeAlias = Callable[[FeedValue], JmxValue]
"""Converts a value of the model to one of the attribute's type; raises `UnfitValueError`."""

MIN_LONG, MAX_LONG = -(2**63), 2**63 - 1
"""Smallest and greatest value of a `LONG` or `DATE`."""

_MAX_UNSIGNED = 2**64 - 1

_TYPES: Mapping[ValueType, AttributeType] = {
    ValueType.BOOL: AttributeType.BOOLEAN,
    ValueType.F32: AttributeType.DOUBLE,
    ValueType.F64: AttributeType.DOUBLE,
    ValueType.STRING: AttributeType.STRING,
    ValueType.UUID: AttributeType.STRING,
    ValueType.BYTES: AttributeType.BYTES,
    ValueType.TIME: AttributeType.DATE,
    ValueType.DURATION: AttributeType.LONG,
    ValueType.REFERENCE: AttributeType.OBJECT_NAME,
    ValueType.MAP: AttributeType.MAP,
    ValueType.LIST: AttributeType.LIST,
}


class UnfitValueError(Exception):
    """A value that does not fit its attribute's type, or is not of the type in its schema."""


def is_enumeration(element: Element | Argument) -> bool:
    """Return whether its values have labels."""
    return bool(element.values) and (element.type.integer_bits > 0 or element.type is ValueType.STRING)


def attribute_type(element: Element | Argument, *, statistic: bool = False) -> AttributeType:
    """Return the type of an element's or argument's attribute."""
    if is_enumeration(element):
        return AttributeType.STRING
    if element.type is ValueType.U64 and not statistic:
        return AttributeType.BIG_INTEGER
    return AttributeType.LONG if element.type.integer_bits else _TYPES[element.type]


def converter(element: Element | Argument, *, statistic: bool = False) -> Converter:
    """Return the converter of an attribute's values. References to known objects are converted elsewhere."""
    if is_enumeration(element):
        return _enumeration(element.values)
    if element.type is ValueType.UUID:
        return _uuid
    if isinstance(element, Element) and element.access is Access.READ_WRITE and element.type in _EXACT:
        return _EXACT[element.type]
    return _CONVERTERS[attribute_type(element, statistic=statistic)]


def legal_values(element: Element | Argument) -> tuple[str, ...]:
    """Return the labels of an enumeration, each once; empty for anything else."""
    return tuple(dict.fromkeys(named.label for named in element.values)) if is_enumeration(element) else ()


def limits(
    element: Element | Argument, type_: AttributeType
) -> tuple[int | float | None, int | float | None]:
    """Return smallest and greatest value of the schema, where a descriptor of this type can contain them."""
    low, high = (_limit(bound, type_) for bound in (element.minimum, element.maximum))
    # The constructors of Open MBeans throw for such a range.
    if low is not None and high is not None and low > high:
        return None, None
    return low, high


def _limit(bound: float | None, type_: AttributeType) -> int | float | None:
    if bound is None or isinstance(bound, bool) or not math.isfinite(bound):
        return None
    if type_ is AttributeType.DOUBLE:
        return float(bound)
    # A range with a fraction is not one of whole numbers, and the descriptor's bounds have the attribute's
    # type.
    if bound != int(bound):
        return None
    if type_ is AttributeType.LONG:
        return int(bound) if MIN_LONG <= bound <= MAX_LONG else None
    if type_ is AttributeType.BIG_INTEGER:
        return int(bound) if MIN_LONG <= bound <= _MAX_UNSIGNED else None
    return None


def text(value: str) -> str:
    """Return ``value`` with characters that have no UTF-8 form replaced: they cannot be sent."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def link_name(value: FeedValue) -> JmxValue:
    """Return the stable name of the object of a reference; where there is no such object, the native id."""
    if isinstance(value, ObjectLink):
        return text(value.stable_name)
    if isinstance(value, Reference):
        return text(value.native_id)
    raise UnfitValueError


def time(nanoseconds: int) -> int | None:
    """Return a time of a record as a `DATE`; ``None`` where it is not known (0) or no time at all."""
    return nanoseconds if 0 < nanoseconds <= MAX_LONG else None


def map_value(value: Mapping[str, FeedValue]) -> JmxValue:
    """Return values by name as a `MAP`.

    Raises:
        UnfitValueError: one is nested too deeply.
    """
    return tuple(sorted((text(name), _item(inner)) for name, inner in value.items()))


def item_text(value: FeedValue) -> str:
    """Return a value inside a text, as it stands in a map or list.

    Raises:
        UnfitValueError: it is nested too deeply.
    """
    return _item(value)


def _boolean(value: FeedValue) -> JmxValue:
    if isinstance(value, bool):
        return value
    raise UnfitValueError


def is_long(element: Element, *, statistic: bool) -> bool:
    """Return whether each value of the element that fits `LONG` is shown as it is."""
    return converter(element, statistic=statistic) is _long


def _long(value: FeedValue) -> JmxValue:
    if type(value) is int and MIN_LONG <= value <= MAX_LONG:  # no bool
        return value
    raise UnfitValueError


def _big_integer(value: FeedValue) -> JmxValue:
    if type(value) is int and MIN_LONG <= value <= _MAX_UNSIGNED:  # no bool
        return value
    raise UnfitValueError


def _double(value: FeedValue) -> JmxValue:
    # A peer may send a whole number where its schema says float.
    if isinstance(value, bool) or not isinstance(value, float | int):
        raise UnfitValueError
    try:
        return float(value)
    except OverflowError as error:
        raise UnfitValueError from error


def _string(value: FeedValue) -> JmxValue:
    if isinstance(value, str):
        return text(value)
    raise UnfitValueError


def _uuid(value: FeedValue) -> JmxValue:
    if isinstance(value, UUID):
        return str(value)
    raise UnfitValueError


def _bytes(value: FeedValue) -> JmxValue:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise UnfitValueError


def _object_name(_value: FeedValue) -> JmxValue:
    raise UnfitValueError  # a reference that is no link leads nowhere


def _map_of(shown: Callable[[object], str]) -> Converter:
    def convert(value: FeedValue) -> JmxValue:
        if isinstance(value, Mapping):
            return tuple(sorted((text(str(key)), shown(inner)) for key, inner in value.items()))
        raise UnfitValueError

    return convert


def _list_of(shown: Callable[[object], str]) -> Converter:
    def convert(value: FeedValue) -> JmxValue:
        if isinstance(value, tuple | list):
            return tuple(shown(inner) for inner in value)
        raise UnfitValueError

    return convert


def _item(value: object) -> str:
    """Return a value inside a map or list as text."""
    plain = _plain(value)
    return plain if isinstance(plain, str) else _json(plain)


def _exact_item(value: object) -> str:
    """Return as `_item`, but in quotes where a text could be taken for something else."""
    plain = _plain(value)
    return plain if isinstance(plain, str) and not _is_json(plain) else _json(plain)


def _plain(value: object) -> object:
    try:
        plain = as_json(value)
    except RecursionError as error:
        raise UnfitValueError from error
    return text(plain) if isinstance(plain, str) else plain


def _json(plain: object) -> str:
    try:
        return text(json.dumps(plain, separators=(",", ":"), sort_keys=True))
    except (RecursionError, ValueError, TypeError) as error:
        raise UnfitValueError from error


def _is_json(shown: str) -> bool:
    try:
        json.loads(shown)
    except (ValueError, RecursionError):
        return False
    return True


_CONVERTERS: Mapping[AttributeType, Converter] = {
    AttributeType.BOOLEAN: _boolean,
    AttributeType.LONG: _long,
    AttributeType.BIG_INTEGER: _big_integer,
    AttributeType.DOUBLE: _double,
    AttributeType.STRING: _string,
    AttributeType.DATE: _long,
    AttributeType.BYTES: _bytes,
    AttributeType.OBJECT_NAME: _object_name,
    AttributeType.MAP: _map_of(_item),
    AttributeType.LIST: _list_of(_item),
}
_EXACT: Mapping[ValueType, Converter] = {
    ValueType.MAP: _map_of(_exact_item),
    ValueType.LIST: _list_of(_exact_item),
}


def _enumeration(values: tuple[NamedValue, ...]) -> Converter:
    # By type, too: in Python True, 1 and 1.0 are one key.
    labels = {(type(named.value), named.value): text(named.label) for named in values}

    def convert(value: FeedValue) -> JmxValue:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise UnfitValueError
        label = labels.get((type(value), value))
        # A newer peer has values that the schema does not know: better its own word than none.
        return text(str(value)) if label is None else label

    return convert


def moment(nanoseconds: int) -> str:
    """Return a time as text, in UTC to the millisecond."""
    return utc_time(nanoseconds, 3) or "?"


MAX_LOGGED: Final = 1000
"""The maximum number of elements that are distinguished."""


class UnfitValues:
    """The elements of which a value could not be shown; each is logged once.

    Args:
        log: called with an event name and a text.
    """

    def __init__(self, log: Callable[[str, str], None]) -> None:
        self._log = log
        self._seen: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def seen(self, class_name: str, element: str, value: object) -> None:
        """Count and log a value that cannot be shown."""
        if (class_name, element) not in self._seen and len(self._seen) < MAX_LOGGED:
            self._seen.add((class_name, element))
            self._log(
                "value-not-shown", f"{class_name}.{element}: {str(value)[:100]!r} does not fit its type"
            )


MAX_DIGITS = 100
"""The maximum of an integer; one with more is a text, of the wrong type: reading it would take long."""


_LARGEST_EXACT = 2**53
"""Whole numbers up to this have one floating-point number each (IEEE 754, binary64)."""


@dataclass(frozen=True, slots=True)
class Written:
    """A value as a client gave it.

    Attributes:
        type: its type in Java, whatever the attribute's type is.
        value: ``LONG`` and ``DATE`` (milliseconds): int; ``BIG_INTEGER``: its digits; ``OBJECT_NAME``:
            number and stable name of the MBean; ``MAP``: pairs of texts; ``LIST``: texts; else as in
            `gateway.jmx.commands`.
    """

    type: AttributeType
    value: object


Resolve: TypeAlias = Callable[[int, str], ObjectLink | None]
"""Returns the object of an MBean's number and stable name; ``None`` where it does not exist any more."""


def model_value(written: Written, target: Element | Argument, resolve: Resolve) -> FeedValue:
    """Return the written value in the type of this element or argument.

    Raises:
        ValueError: values of this type are written otherwise, which is an error of ours.
    """
    match written.type, written.value:
        case AttributeType.OBJECT_NAME, [int(number), str(stable_name)]:
            # A name that leads nowhere goes to the core as a text, which refuses it and records what was
            # asked.
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
            return value * MILLISECOND if wants_time else str(value)  # a text, which is of the wrong type
        case ((AttributeType.LONG | AttributeType.BIG_INTEGER), (int() | str())):
            number = value if isinstance(value, int) else _integer(value)
            # A number is no time, and says so as a text: the core refuses it as of a wrong type.
            if wants_time:
                return str(number)
            # Clients write 5 where they mean 5.0; beyond this the conversion would change the number.
            if wants_float and isinstance(number, int) and abs(number) <= _LARGEST_EXACT:
                return float(number)
            return number
    return value


def _entry(pair: object) -> tuple[str, Value]:
    match pair:
        case [str(key), str(text)]:
            return key, from_shown(text)
    raise ValueError("an entry of a map is two texts")


def _from_text(written: str, target: Element | Argument) -> Value:
    if is_enumeration(target):
        for named in target.values:
            if text(named.label) == written:
                return named.value
        # What has no label is shown as it is.
        return _integer(written) if target.type.integer_bits else written
    if target.type is ValueType.UUID:
        try:
            return UUID(written)
        except ValueError:
            return written
    return written


def _integer(text: str) -> int | str:
    try:
        return int(text) if len(text) <= MAX_DIGITS else text
    except ValueError:
        return text


def from_shown(text: str) -> Value:
    """Return a value of a map or list from its text: as JSON, unless there is a null in it; else the text."""
    try:
        return _value(json.loads(text, parse_constant=_number, parse_int=_number, parse_float=_number))
    except (ValueError, RecursionError):
        return text


def _number(digits: str) -> int | float:
    """Return a finite number: JSON has no NaN and no infinity, which Python's reader accepts."""
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
