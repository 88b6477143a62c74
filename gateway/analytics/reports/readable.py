"""Values in the form that people read; the same on the terminal and on the page."""

from __future__ import annotations

import datetime as dt
from typing import Final

from gateway.analytics.reports.answers import Form, Value

_DIGITS: Final = 3
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def readable(value: Value, form: Form = Form.TEXT) -> str:
    """A value as its column shows it; what is absent is shown as nothing."""
    if value is None:
        return ""
    if isinstance(value, dt.datetime):
        return f"{value.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S}"
    if isinstance(value, str) or form is Form.TEXT:
        return printable(str(value))
    if form is Form.SECONDS:
        return duration(float(value))
    if form is Form.SHARE:
        return f"{100 * float(value):.0f} %"
    return f"{round(value):,}" if form is Form.COUNT else rounded(float(value))


def printable(text: str) -> str:
    """Names are a stranger's: nothing in them may move a cursor or set a colour."""
    return "".join(character if character.isprintable() else _REPLACEMENT for character in text)


def rounded(value: float) -> str:
    """A number with three digits that matter, all digits before the point, and no empty ones behind it."""
    if value == 0:
        return "0"
    if abs(value) >= 10**_DIGITS - 0.5:
        return f"{value:,.0f}"
    text = f"{value:.{_DIGITS}g}"
    return f"{value:.6f}".rstrip("0").rstrip(".") if "e" in text else text


def duration(seconds: float) -> str:
    """In the two largest units that it has: ``2 h 5 min``, ``12 s``, ``0.25 s``."""
    sign, rest = ("-", -seconds) if seconds < 0 else ("", seconds)
    if rest < _UNITS[-2][0]:
        return f"{sign}{rounded(rest)} s"
    whole = round(rest)
    parts: list[str] = []
    for size, unit in _UNITS:
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return sign + " ".join(part for part in parts[:2] if part)


def cut(text: str, length: int) -> str:
    """No more than ``length`` characters of it; one of them tells that there are more.

    A sentence keeps its beginning. A name, which has no space, keeps both ends: names that begin alike differ
    at their ends.
    """
    if len(text) <= length:
        return text
    end = 0 if " " in text else (length - 1) // 2
    return text[: length - 1 - end] + "\N{HORIZONTAL ELLIPSIS}" + text[len(text) - end :]


def short(value: float) -> str:
    """A number for a glance: 12.3 k, 4.56 M."""
    for size, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= size:
            return f"{rounded(value / (1e3 if unit == ' k' else size))}{unit}"
    return rounded(value)
