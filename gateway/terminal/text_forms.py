"""Values and times as people read them and as JSON has them; where values can be written, they are so too."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from typing import Final

from gateway.feed.text_values import as_json
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.schema import Argument, Element
from gateway.model.values import ValueType
from gateway.terminal.view import path_of

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001  the zone is written by hand: always Z
_SECOND: Final = 10**9


def time_text(time: int) -> str | None:
    """``2026-11-20T14:05:06.123456789Z``; ``None`` where it is not known (0) or no calendar has it.

    Args:
        time: nanoseconds since 1970-01-01 UTC.
    """
    seconds, rest = divmod(time, _SECOND)
    try:
        return f"{(_EPOCH + dt.timedelta(seconds=seconds)).isoformat()}.{rest:09d}Z" if time else None
    except OverflowError:
        return None


def json_form(described: Element | Argument, value: FeedValue, source: str) -> object:
    """A value as JSON has it: labels of enumerations, RFC 3339, integer nanoseconds, hexadecimal, paths.

    Args:
        described: whose value it is.
        value: it.
        source: name of the source, for references.
    """
    if isinstance(value, ObjectLink):
        return link_path(value, source)
    for named in described.values:
        if type(named.value) is type(value) and named.value == value:
            return named.label
    if described.type is ValueType.TIME and isinstance(value, int):
        return time_text(value) or value
    if isinstance(value, Mapping):
        return {str(key): _inner(inner, source) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_inner(inner, source) for inner in value]
    return as_json(value)


def text_form(described: Element | Argument, value: FeedValue, source: str) -> str:
    """A value in one text for people: as in JSON, without quotation marks around a text."""
    if described.type is ValueType.DURATION and type(value) is int:
        return duration_text(value)
    plain = json_form(described, value, source)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def duration_text(nanoseconds: int) -> str:
    """``90 s``, ``1.5 s`` or ``250 ms``: exact, and as `gateway.feed.text_values` reads it."""
    for unit, size in (("s", _SECOND), ("ms", 10**6), ("us", 10**3)):
        if nanoseconds % (size // 1000 or 1) == 0 and abs(nanoseconds) >= size:
            text = f"{nanoseconds / size:.3f}".rstrip("0").rstrip(".")
            return f"{text} {unit}"
    return f"{nanoseconds} ns"


def link_path(link: ObjectLink, source: str) -> str:
    """What the object that a reference leads to is called at the command line."""
    return path_of(source, link.class_name, link.stable_name)


def _inner(value: object, source: str) -> object:
    """Convert what is inside a map or list, whose type is in no schema."""
    if isinstance(value, ObjectLink):
        return link_path(value, source)
    if isinstance(value, Mapping):
        return {str(key): _inner(inner, source) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_inner(inner, source) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return as_json(value)
