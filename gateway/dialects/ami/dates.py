"""Dates in the patterns of Java's `SimpleDateFormat`, read leniently as Java does by default.

Names of months, days and zones are English. No document says which time zone a relay uses (it is that
of its machine), so it is a setting. One version of the relay drops the first character of the text: a
defect that is not imitated here.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, TypeAlias

from gateway.dialects.ami.deviations import Deviation, Leniency
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.model.times import EPOCH

ZONES: Final[Mapping[str, int]] = {
    "GMT": 0,
    "Greenwich Mean Time": 0,
    "UTC": 0,
    "Coordinated Universal Time": 0,
    "EST": -300,
    "Eastern Standard Time": -300,
    "EDT": -240,
    "Eastern Daylight Time": -240,
    "CST": -360,
    "Central Standard Time": -360,
    "CDT": -300,
    "Central Daylight Time": -300,
    "MST": -420,
    "Mountain Standard Time": -420,
    "MDT": -360,
    "Mountain Daylight Time": -360,
    "PST": -480,
    "Pacific Standard Time": -480,
    "PDT": -420,
    "Pacific Daylight Time": -420,
    "WET": 0,
    "WEST": 60,
    "CET": 60,
    "Central European Standard Time": 60,
    "CEST": 120,
    "Central European Summer Time": 120,
    "EET": 120,
    "EEST": 180,
    "JST": 540,
    "Japan Standard Time": 540,
}
"""Minutes east of Greenwich."""


FIRST_YEAR, LAST_YEAR = 1583, 9999
"""Years that dates may lie in: before the first one, Java uses the Julian calendar."""

_DAY: Final = 86_400_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_FIRST_DAY: Final = date(FIRST_YEAR, 1, 1).toordinal()
_LAST_DAY: Final = date(LAST_YEAR, 12, 30).toordinal()  # one day remains for time zones
_WEEK: Final = 7

FIRST_INSTANT: Final = (_FIRST_DAY - _EPOCH_DAY) * _DAY
LAST_INSTANT: Final = (_LAST_DAY + 1 - _EPOCH_DAY) * _DAY
"""Milliseconds since 1970 UTC: the first valid instant, and the first one after the last valid."""


class DateField(enum.Enum):
    """A field of a calendar; months count from 0, days of the week from Sunday, 1."""

    ERA = "era"
    YEAR = "year"
    WEEK_YEAR = "year that weeks are counted in"
    MONTH = "month"
    WEEK_OF_YEAR = "week of the year"
    WEEK_OF_MONTH = "week of the month"
    DAY_OF_MONTH = "day of the month"
    DAY_OF_YEAR = "day of the year"
    DAY_OF_WEEK = "day of the week"
    DAY_OF_WEEK_IN_MONTH = "how many of such days of the week in the month"
    AM_PM = "half of the day"
    HOUR = "hour of the half of the day"
    HOUR_OF_DAY = "hour of the day"
    MINUTE = "minute"
    SECOND = "second"
    MILLISECOND = "millisecond"
    OFFSET = "milliseconds east of Greenwich"


_F: Final = DateField


class DateFields:
    """Fields of a date, with the order in which they were set; the later ones decide, as in Java."""

    def __init__(self) -> None:
        self._values: dict[DateField, int] = {}
        self._stamps: dict[DateField, int] = {}
        self._newest = 0

    def set(self, field: DateField, value: int) -> None:
        """Set a field; a later setting replaces an earlier one."""
        self._values[field] = value
        self._newest += 1
        self._stamps[field] = self._newest

    def instant(self, zone: tzinfo) -> int | None:
        """Return milliseconds since 1970 UTC; ``None`` where the date lies out of bounds.

        ``zone`` is used where no offset was set. A time that a clock shows twice is the later one; a time
        that the clock skips is counted on from before the gap.
        """
        if self._get(_F.ERA, 1) != 1:
            return None
        week_year = self._values.get(_F.WEEK_YEAR)
        if week_year is not None and self._stamp(_F.WEEK_YEAR) > self._stamp(_F.YEAR):
            day = self._day_of_week_year(week_year)
        else:
            day = self._day()
        if day is None:
            return None
        milliseconds = self._time_of_day()
        day += milliseconds // _DAY
        if not _FIRST_DAY <= day <= _LAST_DAY:
            return None
        wall = (day - _EPOCH_DAY) * _DAY + milliseconds % _DAY
        offset = self._values.get(_F.OFFSET)
        return wall - (_zone_offset(wall, zone) if offset is None else offset)

    def _get(self, field: DateField, default: int = 0) -> int:
        return self._values.get(field, default)

    def _stamp(self, *fields: DateField) -> int:
        """Return when the last of these fields was set; 0 if one of them was not."""
        stamps = [self._stamps.get(field, 0) for field in fields]
        return max(stamps) if all(stamps) else 0

    def _latest(self, *fields: DateField) -> int:
        return max(self._stamps.get(field, 0) for field in fields)

    def _time_of_day(self) -> int:
        of_day, of_half = self._stamp(_F.HOUR_OF_DAY), self._stamp(_F.HOUR, _F.AM_PM)
        if max(of_day, of_half) == 0:
            of_half = self._latest(_F.HOUR, _F.AM_PM)
        if of_day > of_half:
            hours = self._get(_F.HOUR_OF_DAY)
        else:
            hours = self._get(_F.HOUR) + 12 * self._get(_F.AM_PM)
        minutes = hours * 60 + self._get(_F.MINUTE)
        return (minutes * 60 + self._get(_F.SECOND)) * 1000 + self._get(_F.MILLISECOND)

    def _day(self) -> int | None:
        year = self._get(_F.YEAR, 1970)
        form = self._form()
        if form is _F.DAY_OF_YEAR:
            first = _first_of_month(year, 0)
            return first and first + self._get(_F.DAY_OF_YEAR) - 1
        if form is _F.WEEK_OF_YEAR:
            first = _first_of_month(year, 0)
            return first and self._in_week(first, self._get(_F.WEEK_OF_YEAR))
        first = _first_of_month(year, self._get(_F.MONTH))
        if first is None:
            return None
        if form is _F.DAY_OF_MONTH:
            return first + self._get(_F.DAY_OF_MONTH, 1) - 1
        if form is _F.WEEK_OF_MONTH:
            return self._in_week(first, self._get(_F.WEEK_OF_MONTH, 1))
        return self._counted_in_month(first, year)

    def _form(self) -> DateField:
        """Return the field that determines the day: the one that was set last, of those that are complete."""
        week_day = _F.DAY_OF_WEEK
        stamps = {
            _F.DAY_OF_MONTH: self._stamp(_F.DAY_OF_MONTH),
            _F.WEEK_OF_MONTH: self._stamp(_F.WEEK_OF_MONTH, week_day),
            _F.DAY_OF_WEEK_IN_MONTH: self._stamp(_F.DAY_OF_WEEK_IN_MONTH, week_day),
            _F.DAY_OF_YEAR: self._stamp(_F.DAY_OF_YEAR),
            _F.WEEK_OF_YEAR: self._stamp(_F.WEEK_OF_YEAR, week_day),
        }
        if not any(stamps.values()):
            stamps = {
                _F.WEEK_OF_MONTH: self._stamp(_F.WEEK_OF_MONTH),
                _F.DAY_OF_WEEK_IN_MONTH: self._latest(_F.DAY_OF_WEEK_IN_MONTH, week_day),
                _F.WEEK_OF_YEAR: self._stamp(_F.WEEK_OF_YEAR),
            }
        best = max(stamps.values())
        if not best:
            return _F.DAY_OF_MONTH
        # A day of the week that was set last completes several forms: the last set field beside it decides.
        equal = [field for field, stamp in stamps.items() if stamp == best]
        return max(equal, key=self._stamp)

    def _in_week(self, first: int, week: int) -> int:
        """Return the day of the week, or Sunday, in a week that is counted from that of ``first``."""
        week_day = (self._get(_F.DAY_OF_WEEK, 1) - 1) % _WEEK
        return _on_or_before(first, 1) + week_day + _WEEK * (week - 1)

    def _counted_in_month(self, first: int, year: int) -> int | None:
        week_day, count = self._get(_F.DAY_OF_WEEK, 1), self._get(_F.DAY_OF_WEEK_IN_MONTH, 1)
        if count >= 0:
            return _on_or_before(first + _WEEK * count - 1, week_day)
        following = _first_of_month(year, self._get(_F.MONTH) + 1)
        return following and _on_or_before(following - 1 + _WEEK * (count + 1), week_day)

    def _day_of_week_year(self, week_year: int) -> int | None:
        first = _first_of_month(week_year, 0)
        if first is None:
            return None
        week_day, week = self._get(_F.DAY_OF_WEEK, 1), self._get(_F.WEEK_OF_YEAR, 1)
        if not 1 <= week_day <= _WEEK:  # Java counts such a day from Monday
            week, week_day = week + (week_day - 1) // _WEEK, week_day % _WEEK + 1
        return _on_or_before(first, 1) + week_day - 1 + _WEEK * (week - 1)


def _first_of_month(year: int, month: int) -> int | None:
    """Return the number of a month's first day; months may overflow. ``None`` where it is out of bounds."""
    year, month = year + month // 12, month % 12
    return date(year, month + 1, 1).toordinal() if FIRST_YEAR <= year <= LAST_YEAR else None


def _on_or_before(day: int, week_day: int) -> int:
    """Return the last such day of the week that is not later than ``day``; Sunday is 1."""
    return day - (day - (week_day - 1)) % _WEEK


def _zone_offset(wall: int, zone: tzinfo) -> int:
    """Return the offset of a zone in milliseconds east of Greenwich when its clock shows that time."""
    moment = (EPOCH + timedelta(milliseconds=wall)).replace(tzinfo=zone)
    offsets = [moment.replace(fold=fold).utcoffset() or timedelta() for fold in (0, 1)]
    return min(offsets) // timedelta(milliseconds=1)


MAX_PATTERN: Final = 100
"""Characters of a pattern, at most."""

MAX_DATE: Final = 400
"""Characters of a date's text, at most."""

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_LETTERS: Final = frozenset("GyYMLwWDdFEuaHkKhmsSzZX")
_PART: Final = re.compile(r"'((?:[^']|'')*)'(?!')|(([a-zA-Z])\3*)|([^'a-zA-Z]+)", re.DOTALL)
_NUMBER: Final = re.compile(r"-?[0-9]++(?!E-?[0-9])")  # Java reads 2E3 as 2000: rejected as unintended
_BLANKS: Final = re.compile(r"[ \t]*")
_WRITTEN: Final = "yyyy-MM-dd HH:mm:ss.SSS Z"


@dataclass(frozen=True, slots=True)
class DateRules:
    """The settings by which incomplete dates are completed.

    Attributes:
        zone: the time zone of dates that name none.
        century: the first of the hundred years that two digits of a year can mean (in Java, 80 years ago).
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
    """A text that is being read by a pattern."""

    def __init__(self, text: str, rules: DateRules) -> None:
        self.text = text
        self.rules = rules
        self.position = 0
        self.fields = DateFields()

    def number(self, width: int | None) -> str:
        """Read a number; ``width`` bounds it, with its blanks, where another number follows at once."""
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
        """Read the longest matching name, in any case; return its number."""
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
    """Return the time of a date in milliseconds since 1970 UTC.

    Args:
        text: the date.
        pattern: a pattern in the letters of ``SimpleDateFormat``.
        rules: the settings for incomplete dates.
        leniency: whether text after the date is accepted; Java ignores it.
        position: the position of the date in its line, for errors.

    Raises:
        ProtocolError: the pattern is invalid, the text does not fit it, a number has more than 10 digits, a
            zone has an unknown name, or the date lies before 1583 or after 9999.
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
    """Return the letters and texts of a pattern; ``None`` where it is invalid."""
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
    """Return whether a part is digits: a number right before it has as many digits as it has letters."""
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
    """Return a reader of a number; ``zero`` is an alternative for 0: hour 24, or 12 in half a day."""

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
    """Read a name, ``GMT+5:30`` or ``+0530``: z and Z accept all of them."""
    parsing.skip_blanks()
    if parsing.text[parsing.position : parsing.position + 1] in ("+", "-"):
        _offset(parsing, _NO_COLON)
        return
    minutes = parsing.name(_ZONE_NAMES)
    # An offset can follow only GMT itself.
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
    """Return a date with its zone, and its pattern, for a time in milliseconds since 1970 UTC.

    Raises:
        LocalProtocolError: the time lies before 1583 or after 9999.
    """
    if not FIRST_INSTANT <= milliseconds < LAST_INSTANT:
        raise LocalProtocolError(f"{milliseconds} ms are no date from {FIRST_YEAR} to {LAST_YEAR}")
    moment = datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)  # noqa: DTZ001  UTC, and written so
    return f"{moment.isoformat(' ', 'milliseconds')} +0000", _WRITTEN
