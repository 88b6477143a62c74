"""The parts of a SET: assignments, statuses, tables of this process; and written values as model values.

The conversion is the reverse of `gateway.snmp.cells`. It checks only the syntax of a column (RFC 3416 section
4.2.5, points 3 to 6); the core checks the rest. wrongEncoding never arises: bytes that are not BER of their
tag are no message (section 4.1).
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias
from uuid import UUID

import msgspec

from gateway.escapes import unescaped
from gateway.feed.values import FeedValue, ObjectLink, TextValueError, value_from_text
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import Element
from gateway.model.times import EPOCH, SECOND
from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.cells import SHOWN_AS_TEXT
from gateway.snmp.oid_registry import ElementEntry
from gateway.snmp.store import Store
from gateway.snmp.syntax import (
    MAX_BYTES_OCTETS,
    MAX_FLOAT_CHARACTERS,
    MAX_JSON_OCTETS,
    MAX_TEXT_OCTETS,
    UNIT_NANOSECONDS,
    WRITABLE_SYNTAXES,
    Syntax,
)


class Assignment(msgspec.Struct, frozen=True):
    """One variable binding of a SET.

    Attributes:
        index: its place in the request, from 1: the error-index of errors in it.
        name: the name of the instance.
        value: a canonical TLV of any type.
    """

    index: int
    name: Oid
    value: bytes


class Rejected(msgspec.Struct, frozen=True):
    """The error of a SET: error-status of `gateway.snmp.message`, as of v2c, and error-index."""

    status: int
    index: int


class WritableTable(Protocol):
    """Variables of this process: a SET changes them at once, without asking the core.

    One SET calls `test` with all its assignments below ``prefix``, so that rows of several tables, named in
    any order, are seen together.
    """

    @property
    def prefix(self) -> Oid:
        """The prefix of the names of its variables, and of no others."""

    def test(self, principal: Principal, assignments: Sequence[Assignment]) -> Rejected | None:
        """Return the first error in these assignments (RFC 3416 section 4.2.5), if any; change nothing.

        Args:
            principal: ``snmp:WRITER``, with its origin.
            assignments: in the order of the request; a name may occur twice.
        """

    def commit(self, principal: Principal, assignments: Sequence[Assignment], identity: str) -> None:
        """Carry out the assignments, in which `test` found no error in the same turn of the loop.

        It cannot fail; operations that it starts may. ``identity`` is that of the SET, the same if it is sent
        again.
        """


TEST_STATUSES: Final[Mapping[Outcome, int]] = {
    Outcome.APPLIED: message.NO_ERROR,
    Outcome.OBJECT_GONE: message.INCONSISTENT_NAME,
    Outcome.UNKNOWN_ELEMENT: message.NOT_WRITABLE,
    Outcome.READ_ONLY: message.NOT_WRITABLE,
    Outcome.REFUSED: message.NO_ACCESS,
    Outcome.WRONG_TYPE: message.WRONG_TYPE,
    Outcome.WRONG_LENGTH: message.WRONG_LENGTH,
    Outcome.WRONG_VALUE: message.WRONG_VALUE,
    Outcome.NOT_NOW: message.INCONSISTENT_VALUE,
    Outcome.SOURCE_DOWN: message.RESOURCE_UNAVAILABLE,
}
"""The error-status of each outcome of a check, which changes nothing. A check has no other outcomes."""

COMMIT_STATUSES: Final[Mapping[Outcome, int]] = {
    # An outcome that is certain, and is not APPLIED, has changed nothing as far as is known: `set_requests`
    # looks at what was read back before it says so.
    **dict.fromkeys(Outcome, message.COMMIT_FAILED),
    Outcome.APPLIED: message.NO_ERROR,
    Outcome.UNKNOWN: message.UNDO_FAILED,
}
"""The error-status of each outcome of an attempted change."""

SNMP_SET_SERIAL_NO: Final[Oid] = (1, 3, 6, 1, 6, 3, 1, 1, 6, 1)
"""The object snmpSetSerialNo; its only instance is 0."""

VALUES: Final = 1 << 31
"""The number of values of a TestAndIncr: 0 follows the highest."""


class AdvisoryLock:
    """A TestAndIncr (RFC 2579 section 2): a SET to its present value increments it.

    A manager reads it, reads the variables that it wants to change, and names it in the SET, which is refused
    if another manager was quicker. Any SET may name it, and none has to.

    Args:
        value: the first value, from 0 to 2^31-1; a random one makes values from before a restart invalid.
    """

    prefix: Final = SNMP_SET_SERIAL_NO

    def __init__(self, value: int) -> None:
        self._value = value

    def serve(self, store: Store) -> None:
        """Add the variable to ``store``."""
        store.scalar((*self.prefix, 0), lambda: ber.encode_integer(self._value))

    def test(self, assignments: Sequence[Assignment]) -> Rejected | None:
        """Return the first error in these assignments, all below ``prefix``, if any; change nothing."""
        for place, assignment in enumerate(assignments):
            status = self._status(assignment)
            if status == message.NO_ERROR and place > 0:
                status = message.INCONSISTENT_VALUE  # the first one makes it another value
            if status != message.NO_ERROR:
                return Rejected(status, assignment.index)
        return None

    def commit(self, assignments: Sequence[Assignment]) -> None:
        """Increment the value if there is an assignment, in which `test` found no error."""
        if assignments:
            self._value = (self._value + 1) % VALUES

    def undo(self, assignments: Sequence[Assignment]) -> None:
        """Undo a commit of these assignments, unless another one came after it."""
        for assignment in assignments:
            former, _ = ber.read_integer(assignment.value, 0, len(assignment.value))
            if self._value == (former + 1) % VALUES:
                self._value = former

    def _status(self, assignment: Assignment) -> int:
        if assignment.name != (*self.prefix, 0):
            return message.NO_CREATION
        if assignment.value[0] != ber.INTEGER:
            return message.WRONG_TYPE
        number, _ = ber.read_integer(assignment.value, 0, len(assignment.value))
        if not 0 <= number < VALUES:
            return message.WRONG_VALUE
        return message.NO_ERROR if number == self._value else message.INCONSISTENT_VALUE


FindObject: TypeAlias = Callable[[Oid], ObjectLink | None]
"""Returns the object in whose row an instance is."""

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
    """A value does not conform to its column's syntax; the only argument is the error-status of v2c."""

    @property
    def status(self) -> int:
        """The error-status: wrongType, wrongLength or wrongValue."""
        return int(self.args[0])


def written_value(tlv: bytes, element: Element, entry: ElementEntry, find: FindObject) -> FeedValue | None:
    """Return the value that a manager wrote into the column ``entry`` of ``element``; ``None`` removes it.

    ``None`` is written as a value that no cell shows, and that stands for no value elsewhere, too:
    zeroDotZero of a RowPointer (RFC 2579), eight zeros of a DateAndTime (as entPhysicalMfgDate of RFC 6933),
    and null of JSON. An empty text is a text, and no number of a range is reserved.

    Args:
        tlv: a canonical TLV of any type.
        element: an element with access ``READ_WRITE``.
        entry: the entry of the column, of a writable syntax.
        find: returns the object to which a RowPointer points.

    Raises:
        WrittenValueError: the value does not conform to the syntax.
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
    """Return whether a cell may show less than the whole value.

    A manager that writes back such a cell wants no change: a text that was cut must not become the value.

    Args:
        entry: the entry of the column.
        tlv: the cell as it is shown.
        whole_octets: the length of the whole value in octets, where a second column has it.
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
    """Return the time of a DateAndTime (RFC 2579); one without a zone is in UTC, as all that are shown."""
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
    seconds: int = (moment - EPOCH) // dt.timedelta(seconds=1) - minutes * 60
    return seconds * SECOND + int(tenth) * 10**8


def _text(content: bytes, _: Element) -> str:
    """Return the text that a cell shows so; what a manager read, it can write."""
    written = unescaped(content.decode("utf-8"))
    written.encode("utf-8")  # ValueError for half of a surrogate pair, which no protocol carries
    return written


def _bytes(content: bytes, _: Element) -> bytes:
    return (
        unescaped(content.decode("ascii")).encode("latin-1") if SHOWN_AS_TEXT.fullmatch(content) else content
    )


def _json(content: bytes, element: Element) -> FeedValue:
    return value_from_text(content.decode("utf-8"), element.type)


_OCTETS: Final[Mapping[Syntax, Callable[[bytes, Element], FeedValue]]] = {
    Syntax.DECIMAL: _decimal,
    Syntax.FLOAT64: _float,
    Syntax.FLOAT_TEXT: _float_text,
    Syntax.DATE_AND_TIME: _time,
    Syntax.TEXT: _text,
    Syntax.OCTETS: _bytes,
    Syntax.JSON: _json,
    Syntax.UUID: lambda content, _: UUID(content.decode("ascii")),
}

VERSION_1_STATUSES: Final[Mapping[int, int]] = {
    message.WRONG_VALUE: message.BAD_VALUE,
    message.WRONG_ENCODING: message.BAD_VALUE,
    message.WRONG_TYPE: message.BAD_VALUE,
    message.WRONG_LENGTH: message.BAD_VALUE,
    message.INCONSISTENT_VALUE: message.BAD_VALUE,
    message.NO_ACCESS: message.NO_SUCH_NAME,
    message.NOT_WRITABLE: message.NO_SUCH_NAME,
    message.NO_CREATION: message.NO_SUCH_NAME,
    message.INCONSISTENT_NAME: message.NO_SUCH_NAME,
    message.AUTHORIZATION_ERROR: message.NO_SUCH_NAME,
    message.RESOURCE_UNAVAILABLE: message.GEN_ERR,
    message.COMMIT_FAILED: message.GEN_ERR,
    message.UNDO_FAILED: message.GEN_ERR,
}
"""The SNMPv1 error-status for each one that SNMPv1 lacks (RFC 3584 section 4.4)."""
