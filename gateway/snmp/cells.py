"""Values of the model as the value TLVs of SNMP columns.

Encoders return ``None`` (a hole: noSuchInstance) for values that the form of their column cannot express;
they never raise, whatever a peer sent. `gateway.snmp.syntax` chooses the form of a column, and the registry
keeps it.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from functools import lru_cache, partial
from typing import Final, TypeAlias
from uuid import UUID

from gateway.escapes import escaped, printable, without_part
from gateway.feed.values import FeedValue, as_json
from gateway.model.observations import EventState, Severity
from gateway.model.times import EPOCH
from gateway.snmp import ber
from gateway.snmp.fixed_mib import ConditionStateNumber, SeverityNumber
from gateway.snmp.syntax import (
    GAUGE32_DIVISORS,
    MAX_BYTES_OCTETS,
    MAX_JSON_OCTETS,
    MAX_TEXT_OCTETS,
    UNIT_NANOSECONDS,
    Form,
    Syntax,
)
from gateway.snmp.table import Derivation

_FLOAT64 = struct.Struct(">BBd")
_MASK64 = 0xFFFF_FFFF_FFFF_FFFF
_MAX32 = 0xFFFF_FFFF
_OCTETS_OF_MAX32 = 5
_GAUGE32_TAG = bytes((ber.GAUGE32,))
_MAX_GAUGE32 = ber.encode_gauge32(_MAX32)


Encoder: TypeAlias = Callable[[FeedValue], bytes | None]
"""Returns the TLV of a column for a value of the model; ``None`` for a hole."""

PairEncoder: TypeAlias = Callable[[FeedValue], tuple[bytes | None, bytes | None]]
"""Returns the TLVs of a column and its second column for a value of the model; ``None`` for a hole."""


def value_encoder(
    form: Form, numbers: Mapping[int | str, int] | None = None, *, single: bool = False
) -> Encoder:
    """Return the encoder of a form.

    A reference needs more than its value and is encoded where rows are known: its encoder gives a hole.

    Args:
        form: the form of the column.
        numbers: the number of each wire value of an enumeration.
        single: whether numbers that are text are of binary32, see `float_text`.
    """
    if form.syntax is Syntax.FLOAT_TEXT and single:
        return _encode_single_text
    if form.syntax is Syntax.ENUMERATION:
        return _enumeration_encoder(numbers or {})
    if form.syntax in _MEASURED:
        return _measured_encoder(*_MEASURED[form.syntax])
    if form.unit:
        return _unit_encoder(UNIT_NANOSECONDS[form.unit], _ENCODERS[form.syntax])
    return _ENCODERS[form.syntax]


def encoder_with_length(syntax: Syntax) -> PairEncoder:
    """Return the encoder of a value and its length column, the number of octets of the whole, uncut value.

    The escapes of a text count, so that a cell with fewer octets is cut.
    """
    whole, shown = _MEASURED[syntax]

    def encode(value: FeedValue) -> tuple[bytes | None, bytes | None]:
        octets = whole(value)
        return (None, None) if octets is None else (shown(octets), gauge32(len(octets)))

    return encode


def float_encoder(*, single: bool) -> PairEncoder:
    """Return the encoder of a number and its text column; ``single`` as in `float_text`."""

    def encode(value: FeedValue) -> tuple[bytes | None, bytes | None]:
        number = value if isinstance(value, float) else _float(value)
        return (None, None) if number is None else (float64(number), float_text(number, single=single))

    return encode


def text(value: str, limit: int = MAX_TEXT_OCTETS) -> bytes:
    """Return the TLV of ``value`` as `escaped` displays it, cut to ``limit`` octets of UTF-8.

    A character or an escape that exceeds the limit is left out whole.
    """
    return cut_text(escaped(value).encode(), limit)


def line(value: str, limit: int = MAX_TEXT_OCTETS) -> bytes:
    """Return the TLV of a line that is made of escaped texts, cut as `text` is."""
    return cut_text(printable(value).encode(), limit)


def date_and_time(nanoseconds: int) -> bytes | None:
    """Return the TLV of a DateAndTime (RFC 2579) in UTC, to 0.1 s; ``None`` outside years 1 to 9999."""
    return _date_and_time(nanoseconds // 100_000_000)


def known_time(nanoseconds: int) -> bytes | None:
    """Return the TLV of a DateAndTime as `date_and_time`; ``None`` for 0, "not known" in records."""
    return _date_and_time(nanoseconds // 100_000_000) if nanoseconds else None


def date_of(nanoseconds: int) -> date:
    """Return the day of a time of the gateway's clock, in UTC."""
    return (EPOCH + timedelta(microseconds=nanoseconds // 1000)).date()


def truth(value: bool) -> bytes:  # noqa: FBT001  the value that is encoded
    """Return the TLV of a TruthValue (RFC 2579): true(1), false(2)."""
    return ber.encode_integer(1 if value else 2)


def gauge64(value: int) -> bytes:
    """Return the TLV of an AgGauge64, which stays at 0 or 2^64-1 while the number is beyond."""
    return ber.encode_counter64(min(max(value, 0), _MASK64))


def float64(value: float) -> bytes:
    """Return the TLV of an AgFloat64: binary64 of IEEE 754. ``OverflowError`` for an integer too large."""
    return _FLOAT64.pack(ber.OCTET_STRING, 8, value)


def float_text(value: float, *, single: bool = False) -> bytes:
    """Return the TLV of the shortest decimal text that reads back as ``value``, at most 24 characters.

    Examples are ``0.5``, ``1e+22``, ``NaN``, ``-Infinity``. With ``single`` the text reads back as binary32:
    0.1 is ``0.1`` and not ``0.10000000149011612``.
    """
    if not math.isfinite(value):
        return _NOT_FINITE[repr(value)]
    return ber.encode_octets(repr(_shortest_single(value) if single else value).encode())


def counter64(value: int) -> bytes:
    """Return the TLV of a Counter64, which wraps after 2^64-1 (RFC 2578 section 7.1.10)."""
    return ber.encode_counter64(value & _MASK64)


def gauge32(value: int) -> bytes:
    """Return the TLV of a Gauge32, which stays at 0 or 2^32-1 while the number is beyond (RFC 2578 7.1.7)."""
    return ber.encode_gauge32(min(max(value, 0), _MAX32))


def gauge32_in(unit: str, value: int) -> bytes:
    """Return the TLV of a Gauge32 of a number in a unit of `gateway.snmp.syntax.GAUGE32_DIVISORS`.

    It is rounded up, so that 0 is shown for 0 only, and stays at 0 or 2^32-1 while the number is beyond.
    """
    return gauge32(-(-value // GAUGE32_DIVISORS[unit]))


def gauge32_derivation(column: int, unit: str) -> Derivation:
    """Return how the 32-bit gauge beside a column of AgGauge64 is made of it, as `gauge32_in` does."""
    return Derivation(column, ber.GAUGE32, partial(_divided, GAUGE32_DIVISORS[unit]) if unit else _narrowed)


def _divided(divisor: int, cell: bytes) -> bytes:
    number = -(-int.from_bytes(cell[2:], "big") // divisor)
    return ber.encode_gauge32(number) if number < _MAX32 else _MAX_GAUGE32


def _narrowed(cell: bytes) -> bytes:
    # Both types have the same content for the same number: five octets with the first 0 where it has 32 bits.
    if cell[1] < _OCTETS_OF_MAX32 or (cell[1] == _OCTETS_OF_MAX32 and not cell[2]):
        return _GAUGE32_TAG + cell[1:]
    return _MAX_GAUGE32


def _integer(value: FeedValue) -> int | None:
    # bool is a subclass of int in Python; in every protocol it is another type.
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _encode_counter64(value: FeedValue) -> bytes | None:
    # Most cells that change are counters and gauges: one call less for each.
    number = value if type(value) is int else _integer(value)
    return None if number is None or number < 0 else ber.encode_counter64(number & _MASK64)


def _encode_gauge32(value: FeedValue) -> bytes | None:
    number = value if type(value) is int else _integer(value)
    if number is None:
        return None
    return ber.encode_gauge32(number) if 0 <= number <= _MAX32 else gauge32(number)


def _encode_gauge64(value: FeedValue) -> bytes | None:
    number = _integer(value)
    return None if number is None else gauge64(number)


def _encode_integer32(value: FeedValue) -> bytes | None:
    number = _integer(value)
    return None if number is None or not -(2**31) <= number < 2**31 else ber.encode_integer(number)


def _encode_decimal(value: FeedValue) -> bytes | None:
    number = _integer(value)
    return None if number is None or not -(2**63) <= number < 2**64 else ber.encode_octets(b"%d" % number)


def _float(value: FeedValue) -> float | None:
    # A peer may send a whole number where its schema says float.
    if isinstance(value, bool) or not isinstance(value, float | int):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _shortest_single(value: float) -> float:
    """Return the number of fewest digits that is ``value`` as binary32; ``value`` where it is no binary32."""
    with contextlib.suppress(OverflowError):
        for digits in _DIGITS_OF_SINGLE:
            shorter = float(f"{value:.{digits}g}")
            if struct.unpack(">f", struct.pack(">f", shorter))[0] == value:
                return shorter
    return value


_DIGITS_OF_SINGLE = range(6, 10)  # any six make a difference, and nine distinguish all of them
_NOT_FINITE: Mapping[str, bytes] = {
    "nan": ber.encode_octets(b"NaN"),
    "inf": ber.encode_octets(b"Infinity"),
    "-inf": ber.encode_octets(b"-Infinity"),
}


def _encode_float64(value: FeedValue) -> bytes | None:
    number = _float(value)
    return None if number is None else float64(number)


def _encode_float_text(value: FeedValue) -> bytes | None:
    number = _float(value)
    return None if number is None else float_text(number)


def _encode_single_text(value: FeedValue) -> bytes | None:
    number = _float(value)
    return None if number is None else float_text(number, single=True)


def _encode_truth(value: FeedValue) -> bytes | None:
    return truth(value) if isinstance(value, bool) else None


def _encode_date_and_time(value: FeedValue) -> bytes | None:
    number = _integer(value)
    return None if number is None else date_and_time(number)


def _encode_uuid(value: FeedValue) -> bytes | None:
    return ber.encode_octets(str(value).encode()) if isinstance(value, UUID) else None


def _encode_nothing(_value: FeedValue) -> bytes | None:
    return None


_ENCODERS: Mapping[Syntax, Encoder] = {
    Syntax.COUNTER64: _encode_counter64,
    Syntax.GAUGE32: _encode_gauge32,
    Syntax.GAUGE64: _encode_gauge64,
    Syntax.INTEGER32: _encode_integer32,
    Syntax.UNSIGNED32: _encode_gauge32,
    Syntax.DECIMAL: _encode_decimal,
    Syntax.FLOAT64: _encode_float64,
    Syntax.FLOAT_TEXT: _encode_float_text,
    Syntax.TRUTH: _encode_truth,
    Syntax.DATE_AND_TIME: _encode_date_and_time,
    Syntax.ROW_POINTER: _encode_nothing,
    Syntax.UUID: _encode_uuid,
}


def _enumeration_encoder(numbers: Mapping[int | str, int]) -> Encoder:
    tlvs = {value: ber.encode_integer(number) for value, number in numbers.items()}
    # The registry assigns numbers from 2: 1 is "unknown" in each enumeration, also for values that a peer of
    # a later version has.
    unknown = ber.encode_integer(1)

    def encode(value: FeedValue) -> bytes | None:
        return tlvs.get(value, unknown) if isinstance(value, int | str) else None

    return encode


def _unit_encoder(unit_nanoseconds: int, encode_number: Encoder) -> Encoder:
    def encode(value: FeedValue) -> bytes | None:
        number = _integer(value)
        if number is not None and 0 < number < unit_nanoseconds and encode_number is _encode_decimal:
            return ber.encode_octets(_fraction(number, unit_nanoseconds))  # what lived 0.4 s did not live 0 s
        return None if number is None else encode_number(number // unit_nanoseconds)

    return encode


def _fraction(number: int, of: int) -> bytes:
    """Return the digits of a fraction, enough to distinguish a nanosecond of a day from 0: ``0.4``."""
    return f"{number / of:.15f}".rstrip("0").encode()


def _measured_encoder(whole: _Whole, shown: _Shown) -> Encoder:
    def encode(value: FeedValue) -> bytes | None:
        octets = whole(value)
        return None if octets is None else shown(octets)

    return encode


def cut_text(octets: bytes, limit: int = MAX_TEXT_OCTETS) -> bytes:
    """Return the TLV of an escaped text, cut to ``limit`` octets."""
    if len(octets) > limit:
        # What was cut in the middle of a character is ignored.
        octets = without_part(octets[:limit].decode("utf-8", "ignore")).encode()
    return ber.encode_octets(octets)


def _whole_or_empty(limit: int) -> _Shown:
    return lambda octets: ber.encode_octets(octets if len(octets) <= limit else b"")


def _text_octets(value: FeedValue) -> bytes | None:
    return escaped(value).encode() if isinstance(value, str) else None


def _bytes_octets(value: FeedValue) -> bytes | None:
    if not isinstance(value, bytes | bytearray | memoryview):
        return None
    octets = bytes(value)
    return escaped(octets.decode("ascii")).encode() if SHOWN_AS_TEXT.fullmatch(octets) else octets


SHOWN_AS_TEXT: Final = re.compile(rb"[\t-\r -~]*")
"""Octets that tools print as text, as net-snmp's do; line feeds among them would begin lines of their own."""


def _json_octets(value: FeedValue) -> bytes | None:
    if not isinstance(value, Mapping | tuple | list):
        return None
    # ASCII only (the default of dumps), so that tools show it as text without a display hint.
    try:
        shown = json.dumps(as_json(value), separators=(",", ":"), sort_keys=True)
    except (RecursionError, ValueError, TypeError):
        return None
    return shown.encode("ascii")


_Whole: TypeAlias = Callable[[FeedValue], bytes | None]
_Shown: TypeAlias = Callable[[bytes], bytes]

_MEASURED: Mapping[Syntax, tuple[_Whole, _Shown]] = {
    Syntax.TEXT: (_text_octets, cut_text),
    Syntax.OCTETS: (_bytes_octets, _whole_or_empty(MAX_BYTES_OCTETS)),
    Syntax.JSON: (_json_octets, _whole_or_empty(MAX_JSON_OCTETS)),
}


# Objects that were read together have the same sample time, and most have few other times.
@lru_cache(maxsize=8192)
def _date_and_time(tenths: int) -> bytes | None:
    seconds, tenth = divmod(tenths, 10)
    try:
        moment = EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None
    date = struct.pack(">HBBBBBB", *moment.timetuple()[:6], tenth)
    # Always with the zone: without it the time would be a local one (RFC 2579).
    return ber.encode_octets(date + b"+\x00\x00")


SEVERITIES: Mapping[Severity, bytes] = {
    severity: ber.encode_integer(SeverityNumber[severity.name]) for severity in Severity
}
"""The TLV of each AgSeverity."""

CONDITION_STATES: Mapping[EventState, bytes] = {
    state: ber.encode_integer(ConditionStateNumber[state.name]) for state in EventState
}
"""The TLV of each AgConditionState."""
