"""Texts for people, out of templates and values: one line, bounded, safe to show on any terminal.

What is absent is ``?``. Values are shown as people read them: times as ISO 8601 in UTC, durations as
``3 min 20 s``, enumerations by their labels, links by stable name, maps and lists as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from uuid import UUID

from gateway.feed.values import FeedValue, ObjectLink
from gateway.mapping.rules import filled
from gateway.model.schema import Argument, Element, EventSchema
from gateway.model.texts import utc_time
from gateway.model.values import Reference, ValueType

ABSENT = "?"
MAX_TEXT_OCTETS = 255
"""Of UTF-8: what ``SnmpAdminString`` holds (RFC 3411), so that every front end shows the same text."""

MAX_VALUE_CHARACTERS = 100
"""Of one value, so that a long one leaves room for the rest."""

_CUT = "\N{HORIZONTAL ELLIPSIS}"
_SPACES = re.compile("[\t-\r\x85\u2028\u2029 ]+")
# Controls, marks that reverse the direction of what follows, and halves of surrogate pairs.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MICROSECOND, _MILLISECOND, _SECOND = 10**3, 10**6, 10**9
_TENTHS_BELOW = 10 * _SECOND
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def line_from(template: str, text_of: Callable[[str], str]) -> str:
    """The one line that ``template`` makes, where ``text_of`` gives the text of a name."""
    return one_line(filled(template, lambda name: shortened(text_of(name))))


def event_text(schema: EventSchema, values: Mapping[int, FeedValue]) -> str:
    """Return the line of an event without a template: its name and the arguments it has."""
    arguments = (
        f"{argument.name}={shortened(value_text(values[position], argument))}"
        for position, argument in enumerate(schema.arguments)
        if position in values
    )
    return one_line(f"{schema.key} {', '.join(arguments)}")


def value_text(value: FeedValue | None, of: Argument | Element) -> str:
    """The text of one value of an argument or element; ``?`` where it is absent."""
    if value is None:
        return ABSENT
    for named in of.values:
        if named.value == value:
            return named.label
    if isinstance(value, int) and not isinstance(value, bool):
        if of.type is ValueType.TIME:
            return time_text(value)
        if of.type is ValueType.DURATION:
            return duration_text(value)
    return _plain_text(value)


def _plain_text(value: FeedValue) -> str:
    if isinstance(value, Mapping | tuple):
        return json.dumps(value, default=_json, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, ObjectLink):
        return value.stable_name
    if isinstance(value, Reference):
        return value.native_id
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _json(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes | UUID | Reference | ObjectLink):
        return _plain_text(value)
    raise TypeError(f"{type(value).__name__} is no value of the model")


def time_text(time: int) -> str:
    """Return nanoseconds since 1970 to the millisecond; ``?`` for 0, which means unknown."""
    return (utc_time(time, 3 if time % _SECOND >= _MILLISECOND else 0) or str(time)) if time else ABSENT


def duration_text(duration: int) -> str:
    """Nanoseconds as people say them: the two largest units, ``1 h 5 min``, ``3 min 20 s``, ``1.5 s``."""
    sign, duration = ("-", -duration) if duration < 0 else ("", duration)
    if 0 < duration < _MICROSECOND:
        return f"{sign}{duration} ns"
    if 0 < duration < _MILLISECOND:
        return f"{sign}{duration // _MICROSECOND} us"
    if 0 < duration < _SECOND:
        return f"{sign}{duration // _MILLISECOND} ms"
    if duration < _TENTHS_BELOW:
        tenths = duration * 10 // _SECOND
        return f"{sign}{tenths // 10}.{tenths % 10} s" if tenths % 10 else f"{sign}{tenths // 10} s"
    seconds = duration // _SECOND
    for (large, size), (small, part) in pairwise(_UNITS):
        if seconds >= size:
            rest = seconds % size // part
            return f"{sign}{seconds // size} {large}" + (f" {rest} {small}" if rest else "")
    return f"{sign}{seconds} s"


def shortened(text: str) -> str:
    """``text`` at the length that one value may have."""
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[: MAX_VALUE_CHARACTERS - 1] + _CUT


def one_line(text: str) -> str:
    """Return ``text`` on one line, at most 255 bytes; white space is one space, other controls U+FFFD."""
    line = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", _SPACES.sub(" ", text)).strip()
    octets = line.encode()
    if len(octets) <= MAX_TEXT_OCTETS:
        return line
    room = MAX_TEXT_OCTETS - len(_CUT.encode())
    return octets[:room].decode(errors="ignore") + _CUT
