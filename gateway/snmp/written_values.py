"""Values that managers write, as values of the model: the way back of `gateway.snmp.cells`.

Only what the syntax of a column says is checked here (RFC 3416 section 4.2.5, points 3 to 6); the core checks
the rest. wrongEncoding never arises: what is no BER of its tag is no message (section 4.1).
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias
from uuid import UUID

from gateway.feed.values import FeedValue, ObjectLink, TextValueError, value_from_text
from gateway.model.schema import Element
from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.oid_registry import ElementEntry
from gateway.snmp.syntax import (
    MAX_BYTES_OCTETS,
    MAX_FLOAT_CHARACTERS,
    MAX_JSON_OCTETS,
    MAX_TEXT_OCTETS,
    UNIT_NANOSECONDS,
    WRITABLE_SYNTAXES,
    Syntax,
)

FindObject: TypeAlias = Callable[[Oid], ObjectLink | None]
"""The object in whose row an instance is."""

# By patterns, because Python's int and float also read underscores, spaces and words such as "inf".
_DECIMAL: Final = re.compile(rb"-?[0-9]{1,20}")
# The digits of 2^64-1, or a sign and the 19 digits of -2^63.
_MAX_DECIMAL: Final = 20
_INFINITY: Final = b"Infinity"
_FLOAT: Final = re.compile(
    rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|NaN|[+-]?" + _INFINITY
)
_UUID_OCTETS: Final = 36
_FLOAT_OCTETS: Final = 8
_LOCAL_TIME, _ZONED_TIME = 8, 11  # octets of a DateAndTime
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# From the text of DateAndTime in RFC 2579: the hours from UTC end at 13.
_MAX_ZONE_HOURS, _MINUTES, _MAX_TENTH = 13, 60, 9
_TRUE, _FALSE = 1, 2

_TAGS: Final[Mapping[Syntax, int]] = {
    **dict.fromkeys(WRITABLE_SYNTAXES, ber.OCTET_STRING),
    Syntax.GAUGE32: ber.GAUGE32,
    Syntax.UNSIGNED32: ber.GAUGE32,
    Syntax.INTEGER32: ber.INTEGER,
    Syntax.TRUTH: ber.INTEGER,
    Syntax.ENUMERATION: ber.INTEGER,
    Syntax.ROW_POINTER: ber.OBJECT_IDENTIFIER,
}
_SIZES: Final[Mapping[Syntax, Callable[[int], bool]]] = {
    Syntax.DECIMAL: lambda size: 1 <= size <= _MAX_DECIMAL,
    Syntax.FLOAT64: lambda size: size == _FLOAT_OCTETS,
    Syntax.FLOAT_TEXT: lambda size: 1 <= size <= MAX_FLOAT_CHARACTERS,
    Syntax.DATE_AND_TIME: lambda size: size in (_LOCAL_TIME, _ZONED_TIME),
    Syntax.TEXT: lambda size: size <= MAX_TEXT_OCTETS,
    Syntax.OCTETS: lambda size: size <= MAX_BYTES_OCTETS,
    Syntax.JSON: lambda size: size <= MAX_JSON_OCTETS,
    Syntax.UUID: lambda size: size == _UUID_OCTETS,
}


class WrittenValueError(Exception):
    """A value is none of its column's syntax; the only argument is the error-status of v2c."""

    @property
    def status(self) -> int:
        """WrongType, wrongLength or wrongValue."""
        return int(self.args[0])


def written_value(tlv: bytes, element: Element, entry: ElementEntry, find: FindObject) -> FeedValue | None:
    """Return the value that a manager wrote into the column ``entry`` of ``element``; ``None`` takes it away.

    That has a form where a syntax has values that no value is shown as, and that say nothing elsewhere, too:
    zeroDotZero of a RowPointer (RFC 2579), eight zeros of a DateAndTime (as entPhysicalMfgDate of RFC 6933),
    and null of JSON. An empty text is a text, and no number of a range is set aside.

    Args:
        tlv: canonical, of any type.
        element: with access ``READ_WRITE``.
        entry: of the column, of a writable syntax.
        find: the object that a RowPointer leads to.

    Raises:
        WrittenValueError: it is none.
    """
    syntax = entry.syntax
    tag, start, stop = ber.read_header(tlv, 0, len(tlv))
    if tag != _TAGS[syntax]:
        raise WrittenValueError(message.WRONG_TYPE)
    fits = _SIZES.get(syntax)
    if fits is not None and not fits(stop - start):
        raise WrittenValueError(message.WRONG_LENGTH)
    content = tlv[start:stop]
    try:
        if tag in (ber.INTEGER, ber.GAUGE32):
            return _number(int.from_bytes(content, "big", signed=tag == ber.INTEGER), element, entry)
        if content == _NOTHING.get(syntax):
            return None
        if tag == ber.OBJECT_IDENTIFIER:
            return _found(find(ber.decode_name(content)))
        return _OCTETS[syntax](content, element)
    except (ValueError, OverflowError, TextValueError):
        raise WrittenValueError(message.WRONG_VALUE) from None


def may_differ(entry: ElementEntry, tlv: bytes, whole_octets: int | None) -> bool:
    """Return whether what a cell shows may say less than the value it stands for.

    Who writes back such a cell wants no change: a text that was cut must not become the value.

    Args:
        entry: of the column.
        tlv: what is shown.
        whole_octets: of the whole value, where a second column has that number.
    """
    if entry.syntax in (Syntax.JSON, Syntax.DATE_AND_TIME) or entry.unit:
        return True
    _, start, stop = ber.read_header(tlv, 0, len(tlv))
    if entry.syntax is Syntax.ENUMERATION:
        return tlv[start:stop] == _UNKNOWN
    return whole_octets is not None and whole_octets != stop - start


_NOTHING: Final[Mapping[Syntax, bytes]] = {
    Syntax.ROW_POINTER: ber.encode_name((0, 0)),
    Syntax.DATE_AND_TIME: bytes(_LOCAL_TIME),
    Syntax.JSON: b"null",
}
"""Contents that stand for no value."""

_UNKNOWN: Final = b"\x01"  # stands for labels that the registry does not know, too


def _number(number: int, element: Element, entry: ElementEntry) -> FeedValue:
    if entry.syntax is Syntax.TRUTH:
        if number not in (_TRUE, _FALSE):
            raise ValueError(number)
        return number == _TRUE
    if entry.syntax is Syntax.ENUMERATION:
        labels = {value.number: value.value for value in entry.values}
        for named in element.values:
            if named.label == labels.get(number):
                return named.value
        raise ValueError(number)
    return number * UNIT_NANOSECONDS[entry.unit] if entry.unit else number


def _found(link: ObjectLink | None) -> ObjectLink:
    if link is None:
        raise ValueError("leads to no object")
    return link


def _decimal(content: bytes, _: Element) -> int:
    if not _DECIMAL.fullmatch(content):
        raise ValueError(content)
    return int(content)


def _float(content: bytes, _: Element) -> float:
    (number,) = struct.unpack(">d", content)
    return float(number)


def _float_text(content: bytes, _: Element) -> float:
    if not _FLOAT.fullmatch(content):
        raise ValueError(content)
    number = float(content)
    if math.isinf(number) and not content.endswith(_INFINITY):
        raise ValueError(content)  # beyond all numbers, which is not what was written
    return number


def _time(content: bytes, _: Element) -> int:
    """DateAndTime (RFC 2579); one without a zone is in UTC, as all that are shown here."""
    year, month, day, hour, minute, second, tenth = struct.unpack_from(">HBBBBBB", content)
    if tenth > _MAX_TENTH:
        raise ValueError(content)
    minutes = 0
    if len(content) == _ZONED_TIME:
        sign, hours, rest = struct.unpack_from(">cBB", content, _LOCAL_TIME)
        if sign not in (b"+", b"-") or hours > _MAX_ZONE_HOURS or rest >= _MINUTES:
            raise ValueError(content)
        minutes = (hours * _MINUTES + rest) * (1 if sign == b"+" else -1)
    # A leap second (60) raises ValueError: the model's times, nanoseconds since 1970, have none.
    moment = dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.UTC)
    seconds: int = (moment - _EPOCH) // dt.timedelta(seconds=1) - minutes * 60
    return seconds * 10**9 + int(tenth) * 10**8


def _json(content: bytes, element: Element) -> FeedValue:
    return value_from_text(content.decode("utf-8"), element.type)


_OCTETS: Final[Mapping[Syntax, Callable[[bytes, Element], FeedValue]]] = {
    Syntax.DECIMAL: _decimal,
    Syntax.FLOAT64: _float,
    Syntax.FLOAT_TEXT: _float_text,
    Syntax.DATE_AND_TIME: _time,
    Syntax.TEXT: lambda content, _: content.decode("utf-8"),
    Syntax.OCTETS: lambda content, _: content,
    Syntax.JSON: _json,
    Syntax.UUID: lambda content, _: UUID(content.decode("ascii")),
}
