"""Which instant a set of calendar fields means, by the rules of Java's lenient `GregorianCalendar`.

Fields may contradict each other, and be out of range: the field that was set last wins, and a 32nd of January
is the first of February. Weeks begin on Sunday, and the first one of a year holds its first of January, as in
the locale en_US.
"""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

FIRST_YEAR, LAST_YEAR = 1583, 9999
"""Years that dates may lie in: before the first one Java counts by the Julian calendar."""

_DAY: Final = 86_400_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = date(FIRST_YEAR, 1, 1).toordinal()
_LAST_DAY: Final = date(LAST_YEAR, 12, 30).toordinal()  # one left for time zones
_WEEK: Final = 7

FIRST_INSTANT: Final = (_FIRST_DAY - _EPOCH_DAY) * _DAY
LAST_INSTANT: Final = (_LAST_DAY + 1 - _EPOCH_DAY) * _DAY
"""Milliseconds since 1970 UTC: the first one that a date may have, and the first one that none has."""


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
    """Fields in the order in which they were set."""

    def __init__(self) -> None:
        self._values: dict[DateField, int] = {}
        self._stamps: dict[DateField, int] = {}
        self._newest = 0

    def set(self, field: DateField, value: int) -> None:
        """Set a field; of two settings the later one counts."""
        self._values[field] = value
        self._newest += 1
        self._stamps[field] = self._newest

    def instant(self, zone: tzinfo) -> int | None:
        """Return milliseconds since 1970 UTC; ``None`` where the date lies out of bounds.

        ``zone`` counts where no offset was set. Of a time that a clock shows twice the later one is meant, a
        time that it leaves out is counted on from before the gap.
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
        return wall - (_offset(wall, zone) if offset is None else offset)

    def _get(self, field: DateField, default: int = 0) -> int:
        return self._values.get(field, default)

    def _stamp(self, *fields: DateField) -> int:
        """When the last of these fields was set; 0 if one of them was not."""
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
        """Which field says the day: the one that was set last, of those that say enough."""
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
        # Where a day of the week was set last it completes all: the field beside it that was set last counts.
        equal = [field for field, stamp in stamps.items() if stamp == best]
        return max(equal, key=self._stamp)

    def _in_week(self, first: int, week: int) -> int:
        """The day of the week, or Sunday, in a week that is counted from the one with ``first`` in it."""
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
        if not 1 <= week_day <= _WEEK:  # such a one was counted from Monday
            week, week_day = week + (week_day - 1) // _WEEK, week_day % _WEEK + 1
        return _on_or_before(first, 1) + week_day - 1 + _WEEK * (week - 1)


def _first_of_month(year: int, month: int) -> int | None:
    """The number of a month's first day; months may run over. ``None`` out of bounds."""
    year, month = year + month // 12, month % 12
    return date(year, month + 1, 1).toordinal() if FIRST_YEAR <= year <= LAST_YEAR else None


def _on_or_before(day: int, week_day: int) -> int:
    """The last such day of the week that is not later than ``day``; Sunday is 1."""
    return day - (day - (week_day - 1)) % _WEEK


def _offset(wall: int, zone: tzinfo) -> int:
    """Milliseconds east of Greenwich of a zone's clock when it shows that time."""
    moment = (_EPOCH + timedelta(milliseconds=wall)).replace(tzinfo=zone)
    offsets = [moment.replace(fold=fold).utcoffset() or timedelta() for fold in (0, 1)]
    return min(offsets) // timedelta(milliseconds=1)
