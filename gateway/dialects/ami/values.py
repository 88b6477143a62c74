r"""Values of parameters: their types, and how each is read and written.

| in a line | in Python |
| --- | --- |
| ``null`` | ``None`` |
| ``true``, ``false`` | ``bool`` |
| ``5`` | ``int`` of 32 bits; more is an error and never silently a long |
| ``5L`` | `Long` |
| ``1.5``, ``5F`` | ``float`` |
| ``1.5D``, ``5D`` | `Double` |
| ``"text"`` | ``str`` |
| ``'text'`` | `Enum` |
| ``1422059533454T``, ``"20140503"T(yyyyMMdd)`` | `Utc` |
| ``"{\"a\":1}"J`` | `Json` |
| ``"AQID"U`` | ``bytes`` |
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, TypeAlias

from gateway.dialects.ami.dates import DateRules, read_date, write_date
from gateway.dialects.ami.deviations import Deviation, Leniency
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.model.times import MILLISECOND
from gateway.model.values import Value, ValueType


class _Exact:
    """Equality that requires the same type: ``5`` and ``5L`` are different values."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and bool(super().__eq__(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return super().__hash__()


class Long(_Exact, int):
    """An integer of 64 bits."""

    __slots__ = ()


class Double(_Exact, float):
    """A number of 64 bits."""

    __slots__ = ()


class Enum(_Exact, str):
    """Text that a relay stores once and refers to; otherwise like a string."""

    __slots__ = ()


class Utc(_Exact, int):
    """Milliseconds since 1970-01-01 UTC."""

    __slots__ = ()


class Json(_Exact, str):
    """A JSON document without blanks between its parts. Its numbers keep their digits."""

    __slots__ = ()


AmiValue: TypeAlias = bool | int | Long | float | Double | str | Enum | Utc | Json | bytes | None

MAX_DIGITS: Final = 400
"""Largest number of characters of a number."""

INT_LIMIT: Final = 1 << 31
LONG_LIMIT: Final = 1 << 63
FLOAT_LIMIT: Final = 3.4028235677973366e38
"""The smallest number that is too large for a float of 32 bits."""

_TIME_LIMIT: Final = 1 << 47

_WORDS: Final[dict[str, bool | None]] = {"null": None, "true": True, "false": False}
_TOKEN: Final = re.compile(r"[^|#@\"']*")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]*\.[0-9]+F?|[0-9]+F)")
_DOUBLE: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?[Dd]")  # the pages' examples have a lower-case d, too
_EXPONENT: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][+-]?[0-9]+[FDd]?")

_QUOTED: Final = {
    '"': re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*)"', re.DOTALL),
    "'": re.compile(r"'([^'\\]*+(?:\\.[^'\\]*+)*)'", re.DOTALL),
}
_FORMAT: Final = re.compile(r"T\(([^)|]*)\)")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED: Final = {
    "\\": "\\",
    '"': '"',
    "'": "'",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "f": "\f",
    "b": "\b",
}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_RAW_CONTROL: Final = re.compile("[\t\f\b]")
_BLANKS_OF_JSON: Final = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*")|[ \t\r\n]+', re.DOTALL)
_TO_ESCAPE: Final = re.compile(r"[^ !#-&(-\[\]-~]")
_ESCAPES: Final = {text: f"\\{letter}" for letter, text in _ESCAPED.items()}


def read_value(text: str, position: int, leniency: Leniency, dates: DateRules) -> tuple[AmiValue, int]:
    """Read the value that begins at ``position`` of a line; return it and the position behind it.

    Raises:
        ProtocolError: there is no valid value. The error shows no text, which may be a secret.
    """
    quote = text[position : position + 1]
    if quote in _QUOTED:
        return _read_quoted(text, position, leniency, dates)
    found = _TOKEN.match(text, position)
    assert found is not None
    token = found[0]
    if token in _WORDS:
        return _WORDS[token], found.end()
    if len(token) > MAX_DIGITS:
        raise ProtocolError("a value", f"{len(token)} characters", position)
    return _read_number(token, position, leniency), found.end()


def _read_number(token: str, position: int, leniency: Leniency) -> AmiValue:
    if _INTEGER.fullmatch(token):
        return _bounded(int(token), INT_LIMIT, "an int of 32 bits (a long ends with L)", position)
    if _INTEGER.fullmatch(token[:-1]):
        if token[-1] == "L":
            return Long(_bounded(int(token[:-1]), LONG_LIMIT, "a long of 64 bits", position))
        if token[-1] == "T":  # numbers may be signed; a relay rejects negative times, and those from 2^47 on
            return Utc(_bounded(int(token[:-1]), LONG_LIMIT, "a time of 64 bits", position))
    if _EXPONENT.fullmatch(token):
        leniency.forgive(Deviation.EXPONENT, f"{len(token)} characters with one", position)
    elif not _FLOAT.fullmatch(token) and not _DOUBLE.fullmatch(token):
        raise ProtocolError(
            "a value", f"{len(token)} characters that are none" if token else "none", position
        )
    if token[-1] in "Dd":
        return read_double(token[:-1], position)
    return read_float(token.removesuffix("F"), position)


def _bounded(number: int, limit: int, expected: str, position: int) -> int:
    if not -limit <= number < limit:
        raise ProtocolError(expected, "more", position)
    return number


def read_float(digits: str, position: int) -> float:
    """Return the number; it keeps the digits that were written, also beyond those of 32 bits.

    Raises:
        ProtocolError: it is too large.
    """
    number = float(digits)
    if not -FLOAT_LIMIT < number < FLOAT_LIMIT:
        raise ProtocolError("a float of 32 bits (a double ends with D)", "more", position)
    return number


def read_double(digits: str, position: int) -> Double:
    """Return the number.

    Raises:
        ProtocolError: it is too large.
    """
    number = Double(digits)
    if not math.isfinite(number):
        raise ProtocolError("a double of 64 bits", "more", position)
    return number


def _read_quoted(text: str, position: int, leniency: Leniency, dates: DateRules) -> tuple[AmiValue, int]:
    quote = text[position]
    found = _QUOTED[quote].match(text, position)
    if found is None:
        raise ProtocolError(f"a closing {quote}", "the end of the line", position)
    content, end = _unescape(found[1], position + 1, leniency), found.end()
    if quote == "'":
        return Enum(content), end
    suffix = text[end : end + 1]
    if suffix == "J":
        return read_json(content, position), end + 1
    if suffix == "U":
        return _read_base64(content, position), end + 1
    if suffix == "T":
        pattern = _FORMAT.match(text, end)
        if pattern is None:
            raise ProtocolError("the format of a date in parentheses", "none", end)
        return Utc(read_date(content, pattern[1], dates, leniency, position)), pattern.end()
    return content, end


def _unescape(raw: str, position: int, leniency: Leniency) -> str:
    """Replace escapes. A quote of the other kind may be unescaped, as in the pages' examples."""
    control = _RAW_CONTROL.search(raw)
    if control is not None:
        leniency.forgive(Deviation.RAW_CONTROL, repr(control[0]), position + control.start())
    if "\\" not in raw:
        return raw

    def replace(escape: re.Match[str]) -> str:
        digits, letter = escape.groups()
        if digits is not None:
            return chr(int(digits, 16))
        if letter == "|":
            leniency.forgive(Deviation.ESCAPED_PIPE, "\\|", position + escape.start())
            return "|"
        if letter not in _ESCAPED:
            raise ProtocolError("an escape", "another character", position + escape.start())
        return _ESCAPED[letter]

    return _with_whole_characters(_ESCAPE.sub(replace, raw), position, leniency)


def _with_whole_characters(text: str, position: int, leniency: Leniency) -> str:
    """Join pairs of surrogates; a single one, which UTF-8 cannot encode, becomes U+FFFD."""
    if _SURROGATE.search(text) is None:
        return text
    octets = text.encode("utf-16-le", "surrogatepass")
    try:
        return octets.decode("utf-16-le")
    except UnicodeDecodeError:
        leniency.forgive(Deviation.LONE_SURROGATE, "one alone", position)
        return octets.decode("utf-16-le", "replace")


def read_json(text: str, position: int = 0) -> Json:
    """Return the document.

    The note "Base 64" on JSON's row in the interface document belongs to the row below it, and its example,
    which names a key without quotes, is not JSON: a relay rejects it.

    Raises:
        ProtocolError: it is not JSON, or nested more deeply than Python's reader permits.
    """
    try:
        json.loads(text, parse_int=len, parse_float=len, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("JSON", f"{len(text)} characters that are none", position) from error
    return Json(_BLANKS_OF_JSON.sub(lambda found: found[1] or "", text))


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _read_base64(text: str, position: int) -> bytes:
    """Read both alphabets, with padding or without: relays send the second one, and may read either."""
    digits = text.replace("-", "+").replace("_", "/").removesuffix("=").removesuffix("=")
    try:
        return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ProtocolError("base64", f"{len(text)} characters that are none", position) from error


def write_value(value: AmiValue) -> str:
    """Return a value in the form of the documents.

    Raises:
        LocalProtocolError: a number has more bits than its type, or is NaN or infinite; a time before 1583 or
            after 9999; text with half a surrogate pair.
    """
    write = _WRITERS.get(type(value))
    if write is None:
        raise LocalProtocolError(f"AMI has no {type(value).__name__}")
    return write(value)


def quoted(text: str, quote: str = '"') -> str:
    """Return text in quotes: ASCII, with both kinds of quotes escaped, as in the interface document.

    Raises:
        LocalProtocolError: it contains half a surrogate pair.
    """
    return quote + _TO_ESCAPE.sub(_escape, text) + quote


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    short = _ESCAPES.get(character)
    if short is not None:
        return short
    try:
        units = character.encode("utf-16-be").hex()
    except UnicodeEncodeError as error:
        raise LocalProtocolError("text holds half of a character (a surrogate)") from error
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def _written_int(value: AmiValue) -> str:
    return str(_fitting(value, INT_LIMIT, "int"))


def _written_long(value: AmiValue) -> str:
    return f"{_fitting(value, LONG_LIMIT, 'long')}L"


def _fitting(value: AmiValue, limit: int, name: str) -> int:
    assert isinstance(value, int)
    if not -limit <= value < limit:
        raise LocalProtocolError(f"a number does not fit {name}")
    return int(value)


def _decimal(number: float) -> str:
    """Return digits without an exponent, which no document has."""
    digits = format(Decimal(repr(number)), "f")
    return digits if "." in digits else f"{digits}.0"


def _written_float(value: AmiValue) -> str:
    assert isinstance(value, float)
    if not -FLOAT_LIMIT < value < FLOAT_LIMIT:
        raise LocalProtocolError("a number does not fit float")
    return _decimal(value)


def _written_double(value: AmiValue) -> str:
    assert isinstance(value, float)
    number = float(value)
    if not math.isfinite(number):
        raise LocalProtocolError("AMI has no infinity, and nothing for what is not a number")
    return f"{_decimal(number)}D"


def _written_utc(value: AmiValue) -> str:
    assert isinstance(value, int)
    if 0 <= value < _TIME_LIMIT:
        return f"{int(value)}T"
    text, pattern = write_date(int(value))  # a relay rejects these as numbers
    return f'"{text}"T({pattern})'


_WRITERS: Final[dict[type, Callable[..., str]]] = {
    type(None): lambda _: "null",
    bool: lambda value: "true" if value else "false",
    int: _written_int,
    Long: _written_long,
    float: _written_float,
    Double: _written_double,
    str: quoted,
    Enum: lambda value: quoted(value, "'"),
    Utc: _written_utc,
    Json: lambda value: f"{quoted(read_json_to_write(value))}J",
    bytes: lambda value: f'"{base64.b64encode(value).decode()}"U',
}


def read_json_to_write(value: Json) -> str:
    """Return the text of a valid document.

    Raises:
        LocalProtocolError: it is not JSON.
    """
    try:
        return str(read_json(value))
    except ProtocolError as error:
        raise LocalProtocolError("a JSON value is no JSON") from error


_TYPES: Final[dict[type, ValueType]] = {
    bool: ValueType.BOOL,
    int: ValueType.S32,
    Long: ValueType.S64,
    float: ValueType.F32,
    Double: ValueType.F64,
    str: ValueType.STRING,
    Enum: ValueType.STRING,
    Json: ValueType.STRING,  # its shape may differ from value to value
    bytes: ValueType.BYTES,
    Utc: ValueType.TIME,
}


def value_type(value: AmiValue) -> ValueType | None:
    """Return the model's type of a value; ``None`` for null, which has none."""
    return _TYPES.get(type(value))


def to_model(value: AmiValue) -> Value | None:
    """Return the model's value, a time in nanoseconds; ``None`` is absent."""
    if isinstance(value, Utc):
        return int(value) * MILLISECOND
    if value is None or isinstance(value, bool | bytes):
        return value
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else str(value)


def from_model(value: Value | None, value_type: ValueType) -> AmiValue:
    """Return AMI's value for a value of the model; integers beyond 32 bits are longs.

    Raises:
        LocalProtocolError: AMI has no such type, a number does not fit, or a time has no whole milliseconds.
    """
    if value is None or isinstance(value, bool | bytes):
        return value
    if isinstance(value, int) and value_type is ValueType.TIME:
        if value % MILLISECOND:
            raise LocalProtocolError("a time must be of whole milliseconds")
        return Utc(value // MILLISECOND)
    if isinstance(value, int) and value_type.integer_bits:
        return value if value_type in _OF_32_BITS else Long(value)
    if isinstance(value, int | float) and value_type in (ValueType.F32, ValueType.F64):
        return float(value) if value_type is ValueType.F32 else Double(value)
    if isinstance(value, str):
        return str(value)
    raise LocalProtocolError(f"AMI has no {value_type.value}")


_OF_32_BITS: Final = frozenset((ValueType.U8, ValueType.U16, ValueType.S8, ValueType.S16, ValueType.S32))
