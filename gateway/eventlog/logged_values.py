"""Values as the log has them: what JSON has no form for is text, and integers keep their 64 bits.

Absolute times are RFC 3339 with nine digits of a second, durations integer nanoseconds, octets hexadecimal,
references the ``object_id`` of what they lead to. A time of 0 is one that is not known: absent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from gateway.eventlog.timestamps import nanoseconds_text
from gateway.feed.json_values import as_json
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.values import ValueType

Convert: TypeAlias = Callable[["FeedValue", str], object]
"""From a value of the feed and the name of its source to what JSON can hold; ``None`` for absent."""


def object_id(source: str, class_name: str, row: int) -> str:
    """``SOURCE/PACKAGE:CLASS/ROW``: one object's for ever.

    Args:
        source: name of the source.
        class_name: ``package:class``.
        row: number of its row.
    """
    return f"{source}/{class_name}/{row}"


def link_text(link: ObjectLink, source: str) -> str:
    """The ``object_id`` that a reference leads to; the stable name where no row of it was ever seen."""
    return object_id(source, link.class_name, link.row) if link.row else link.stable_name


def converter(value_type: ValueType) -> Convert | None:
    """What turns values of this type into what JSON can hold; ``None`` where they are that already."""
    return _CONVERTERS.get(value_type)


def json_value(value: FeedValue, source: str) -> object:
    """A value whose type nobody tells, such as one inside a map."""
    if isinstance(value, ObjectLink):
        return link_text(value, source)
    if isinstance(value, Mapping):
        return {str(key): json_value(inner, source) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [json_value(inner, source) for inner in value]
    return as_json(value)


def _time(value: FeedValue, source: str) -> object:
    if not isinstance(value, int):
        return json_value(value, source)
    # Beyond the year 9999 no calendar has a text for it: the number is all there is.
    return (nanoseconds_text(value) or value) if value else None


def _float(value: FeedValue, source: str) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return json_value(value, source)


_CONVERTERS: Final[Mapping[ValueType, Convert]] = {
    ValueType.F32: _float,
    ValueType.F64: _float,
    ValueType.BYTES: json_value,
    ValueType.UUID: json_value,
    ValueType.TIME: _time,
    ValueType.REFERENCE: json_value,
    ValueType.MAP: json_value,
    ValueType.LIST: json_value,
}
