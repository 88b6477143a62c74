"""Reads message properties of any peer: pamqp ends a connection at a property that it cannot read.

A broker passes on what a publisher has sent. A text that is not UTF-8, such as the name of an argument in an
event about a queue, or a time after the year 9999, raises an error in pamqp for the whole frame, and the
connection ends. A message that stays in a durable queue would end each later connection, too.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from pamqp import decode

_Decoded: TypeAlias = tuple[int, Any]
_LENGTH: Final = 4
_TIME: Final = 8

_read_time: Final[Callable[[bytes], _Decoded]] = decode.timestamp


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "backslashreplace")


def short_text(value: bytes) -> _Decoded:
    """Read a short string; bytes that are not UTF-8 are escaped.

    Raises:
        ValueError: it is cut off.
    """
    end = 1 + value[0] if value else 1
    if end > len(value):
        raise ValueError("a short string is cut off")
    return end, _text(value[1:end])


def timestamp(value: bytes) -> _Decoded:
    """Read a time; one that Python does not have is read as 1970, which no message is from.

    Raises:
        ValueError: it is cut off.
    """
    if len(value) < _TIME:
        raise ValueError("a time is cut off")
    try:
        return _read_time(value)
    except (ValueError, ArithmeticError, OSError):
        return _TIME, datetime.fromtimestamp(0, UTC)


def table(value: bytes) -> _Decoded:
    """Read a field table (AMQP 0-9-1 section 4.2.5.5), as far as its entries can be read.

    Raises:
        ValueError: it is cut off.
    """
    end = _LENGTH + int.from_bytes(value[:_LENGTH])
    if end > len(value):
        raise ValueError("a table is cut off")
    entries: dict[str, Any] = {}
    offset = _LENGTH
    try:
        while offset < end:
            consumed, key = short_text(value[offset:end])
            offset += consumed
            consumed, entries[key] = decode.embedded_value(value[offset:end])
            offset += consumed
    except (ValueError, ArithmeticError, RecursionError):
        pass  # nothing shows where an entry of an unknown type ends
    return end, entries


def read_leniently() -> None:
    """Let pamqp read properties by the functions of this module, in the whole process."""
    decode.METHODS |= {"shortstr": short_text, "timestamp": timestamp, "table": table}
    decode.TABLE_MAPPING |= {b"T": timestamp, b"F": table}
