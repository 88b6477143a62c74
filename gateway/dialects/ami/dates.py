"""Dates in the patterns of Java's `SimpleDateFormat`, read leniently as Java does by default.

Names of months, days and zones are English. The relay's time zone is not told by any document (it is that
of its machine), so it is a setting. One version of the relay loses the first character of the text: a defect,
not repeated here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, TypeAlias

from gateway.dialects.ami.date_zones import ZONES
from gateway.dialects.ami.deviations import Deviation, Leniency
from gateway.dialects.ami.gregorian import (
    FIRST_INSTANT,
    FIRST_YEAR,
    LAST_INSTANT,
    LAST_YEAR,
    DateField,
    DateFields,
)
from gateway.dialects.errors import LocalProtocolError, ProtocolError

MAX_PATTERN: Final = 100
"""Characters of a pattern."""

MAX_DATE: Final = 400
"""Characters of a date's text."""

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_LETTERS: Final = frozenset("GyYMLwWDdFEuaHkKhmsSzZX")
_PART: Final = re.compile(r"'((?:[^']|'')*)'(?!')|(([a-zA-Z])\3*)|([^'a-zA-Z]+)", re.DOTALL)
_NUMBER: Final = re.compile(r"-?[0-9]++(?!E-?[0-9])")  # Java reads 2E3 as 2000: refused, as nobody means it
_BLANKS: Final = re.compile(r"[ \t]*")
_WRITTEN: Final = "yyyy-MM-dd HH:mm:ss.SSS Z"


@dataclass(frozen=True, slots=True)
class DateRules:
    """What dates leave open.

    Attributes:
        zone: whose clock is meant where a date names no zone.
        century: two digits of a year mean one of the hundred years from this one on (in Java those
            from 80 years ago).
    """

    zone: tzinfo = UTC
    century: int = 1950


@dataclass(frozen=True, slots=True)
class _Letters:
    letter: str
    count: int


_Part: TypeAlias = _Letters | str


class _NoDate(Exception):  # noqa: N818  it is caught where the error is made
    """The text does not fit the pattern."""


class _Parsing:
    """A text on its way through a pattern."""

    def __init__(self, text: str, rules: DateRules) -> None:
        self.text = text
        self.rules = rules
        self.position = 0
        self.fields = DateFields()

    def number(self, width: int | None) -> str:
        """Read a number; ``width`` bounds it where digits of another follow, blanks counted."""
        end = len(self.text) if width is None else self.position + width
        if end > len(self.text):
            raise _NoDate
        self.skip_blanks()
        found = _NUMBER.match(self.text, self.position, end)
        if found is None or len(found[0]) > 10:  # noqa: PLR2004  the digits of 32 bits
            raise _NoDate
        self.position = found.end()
        return found[0]

    def skip_blanks(self) -> None:
        found = _BLANKS.match(self.text, self.position)
        assert found is not None
        self.position = found.end()

    def name(self, names: tuple[tuple[str, int], ...]) -> int:
        """Read the longest of names that stands there, in any case; return its number."""
        rest = self.text[self.position : self.position + 40].lower()
        fitting = [(len(name), number) for name, number in names if rest.startswith(name)]
        if not fitting:
            raise _NoDate
        length, number = max(fitting)
        self.position += length
        return number

    def literal(self, text: str) -> None:
        if not self.text.startswith(text, self.position):
            raise _NoDate
        self.position += len(text)


_Field: TypeAlias = Callable[[_Parsing, int, "int | None"], None]


def read_date(text: str, pattern: str, rules: DateRules, leniency: Leniency, position: int = 0) -> int:
    """Return milliseconds since 1970 UTC.

    Args:
        text: the date.
        pattern: in the letters of ``SimpleDateFormat``.
        rules: see there.
        leniency: whether text after the date is forgiven; Java does not look at it.
        position: where the date stands in its line, for errors.

    Raises:
        ProtocolError: the pattern is none, the text does not fit it, a number has more than 10 digits, a zone
            has a name that is not known here, or the date lies before 1583 or after 9999.
    """
    if len(text) > MAX_DATE:
        raise ProtocolError(f"a date of at most {MAX_DATE} characters", f"{len(text)}", position)
    parts = _parts(pattern) if len(pattern) <= MAX_PATTERN else None
    if parts is None:
        raise ProtocolError("a pattern of SimpleDateFormat", f"{len(pattern)} other characters", position)
    parsing = _Parsing(text, rules)
    try:
        for place, part in enumerate(parts):
            if isinstance(part, str):
                parsing.literal(part)
                continue
            abutting = place + 1 < len(parts) and _is_number(parts[place + 1])
            _FIELDS[part.letter](parsing, part.count, part.count if abutting else None)
    except _NoDate as error:
        raise ProtocolError(
            f"a date as {pattern}", f"{len(text)} characters that are none", position
        ) from error
    if parsing.position < len(text):
        leniency.forgive(Deviation.TEXT_AFTER_DATE, "more", position)
    instant = parsing.fields.instant(rules.zone)
    if instant is None:
        raise ProtocolError("a date from 1583 to 9999", "another", position)
    return instant


@lru_cache(maxsize=256)
def _parts(pattern: str) -> tuple[_Part, ...] | None:
    """Return the letters and texts of a pattern; ``None`` where it is none."""
    parts: list[_Part] = []
    position = 0
    while position < len(pattern):
        found = _PART.match(pattern, position)
        if found is None:
            return None
        quoted, letters, letter, plain = found.groups()
        position = found.end()
        if letters is None:
            text = plain if quoted is None else quoted.replace("''", "'") or "'"
            parts.append(text)
        elif letter not in _LETTERS or (letter == "X" and len(letters) > 3):  # noqa: PLR2004  X, XX, XXX
            return None
        else:
            parts.append(_Letters(letter, len(letters)))
    return tuple(parts)


def _is_number(part: _Part) -> bool:
    """Whether digits follow: a number before them has as many digits as its field has letters."""
    if isinstance(part, str) or part.letter in "GEazZX":
        return False
    return part.letter not in "ML" or part.count <= 2  # noqa: PLR2004  names from three letters on


def _year(field: DateField) -> _Field:
    def read(parsing: _Parsing, count: int, width: int | None) -> None:
        digits = parsing.number(width)
        year = int(digits)
        if count <= 2 and len(digits) == 2 and digits.isdigit():  # noqa: PLR2004  "70" is 1970, "070" is not
            century = parsing.rules.century
            year = century + (year - century) % 100
        parsing.fields.set(field, year)

    return read


def _month(parsing: _Parsing, count: int, width: int | None) -> None:
    numeric = count <= 2  # noqa: PLR2004  M and MM are numbers, MMM and more names
    month = int(parsing.number(width)) - 1 if numeric else parsing.name(_MONTH_NAMES)
    parsing.fields.set(DateField.MONTH, month)


def _number(field: DateField, zero: int | None = None) -> _Field:
    """A number; ``zero`` is another way to say 0: hour 24, or 12 of a half of a day."""

    def read(parsing: _Parsing, _: int, width: int | None) -> None:
        number = int(parsing.number(width))
        parsing.fields.set(field, 0 if number == zero else number)

    return read


def _iso_day_of_week(parsing: _Parsing, _: int, width: int | None) -> None:
    number = int(parsing.number(width))  # Monday is 1
    in_week = 1 <= number <= len(_DAYS)
    parsing.fields.set(DateField.DAY_OF_WEEK, number % len(_DAYS) + 1 if in_week else number)


def _name(field: DateField, names: tuple[tuple[str, int], ...]) -> _Field:
    def read(parsing: _Parsing, _: int, __: int | None) -> None:
        parsing.fields.set(field, parsing.name(names))

    return read


def _short_and_long(names: tuple[str, ...], first: int) -> tuple[tuple[str, int], ...]:
    return tuple(
        (form.lower(), number) for number, name in enumerate(names, first) for form in (name, name[:3])
    )


_MONTH_NAMES: Final = _short_and_long(_MONTHS, 0)
_ZONE_NAMES: Final = tuple((name.lower(), minutes) for name, minutes in ZONES.items())
_NO_COLON: Final = re.compile(r"([0-9]{2})([0-9]{2})")
_COLON: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})")
_TWO_DIGITS: Final = re.compile(r"([0-9]{2})()")
_TWO_DIGITS_AND_COLON: Final = re.compile(r"([0-9]{2}):([0-9]{2})")


def _zone(parsing: _Parsing, _: int, __: int | None) -> None:
    """A name, ``GMT+5:30`` or ``+0530``: z and Z read all of them."""
    parsing.skip_blanks()
    if parsing.text[parsing.position : parsing.position + 1] in ("+", "-"):
        _offset(parsing, _NO_COLON)
        return
    minutes = parsing.name(_ZONE_NAMES)
    # Only behind GMT itself is an offset looked for.
    named = parsing.text[parsing.position - 3 : parsing.position].upper()
    if named == "GMT" and parsing.text[parsing.position : parsing.position + 1] in ("+", "-"):
        _offset(parsing, _COLON)
        return
    parsing.fields.set(DateField.OFFSET, minutes * 60_000)


def _iso_zone(parsing: _Parsing, count: int, _: int | None) -> None:
    parsing.skip_blanks()
    sign = parsing.text[parsing.position : parsing.position + 1]
    if sign == "Z":
        parsing.position += 1
        parsing.fields.set(DateField.OFFSET, 0)
    elif sign in ("+", "-"):
        _offset(parsing, (_TWO_DIGITS, _NO_COLON, _TWO_DIGITS_AND_COLON)[count - 1])
    else:
        raise _NoDate


def _offset(parsing: _Parsing, form: re.Pattern[str]) -> None:
    sign = -1 if parsing.text[parsing.position] == "-" else 1
    found = form.match(parsing.text, parsing.position + 1)
    if found is None:
        raise _NoDate
    hours, minutes = int(found[1]), int(found[2] or 0)
    if hours > 23 or minutes > 59:  # noqa: PLR2004  a day, an hour
        raise _NoDate
    parsing.position = found.end()
    parsing.fields.set(DateField.OFFSET, sign * (hours * 60 + minutes) * 60_000)


_FIELDS: Final[dict[str, _Field]] = {
    "G": _name(DateField.ERA, (("bc", 0), ("before christ", 0), ("ad", 1), ("anno domini", 1))),
    "y": _year(DateField.YEAR),
    "Y": _year(DateField.WEEK_YEAR),
    "M": _month,
    "L": _month,
    "w": _number(DateField.WEEK_OF_YEAR),
    "W": _number(DateField.WEEK_OF_MONTH),
    "D": _number(DateField.DAY_OF_YEAR),
    "d": _number(DateField.DAY_OF_MONTH),
    "F": _number(DateField.DAY_OF_WEEK_IN_MONTH),
    "E": _name(DateField.DAY_OF_WEEK, _short_and_long(_DAYS, 1)),
    "u": _iso_day_of_week,
    "a": _name(DateField.AM_PM, (("am", 0), ("pm", 1))),
    "H": _number(DateField.HOUR_OF_DAY),
    "k": _number(DateField.HOUR_OF_DAY, 24),
    "K": _number(DateField.HOUR),
    "h": _number(DateField.HOUR, 12),
    "m": _number(DateField.MINUTE),
    "s": _number(DateField.SECOND),
    "S": _number(DateField.MILLISECOND),
    "z": _zone,
    "Z": _zone,
    "X": _iso_zone,
}


def write_date(milliseconds: int) -> tuple[str, str]:
    """Return a date and its pattern for a time in milliseconds since 1970 UTC, the zone in it.

    Raises:
        LocalProtocolError: it lies before 1583 or after 9999.
    """
    if not FIRST_INSTANT <= milliseconds < LAST_INSTANT:
        raise LocalProtocolError(f"{milliseconds} ms are no date from {FIRST_YEAR} to {LAST_YEAR}")
    moment = datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)  # noqa: DTZ001  UTC, and written so
    return f"{moment.isoformat(' ', 'milliseconds')} +0000", _WRITTEN
