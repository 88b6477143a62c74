"""Times as text (RFC 3339, UTC); the text of a second is made once, because most times share theirs."""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import Final

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001  the zone is written by hand: always Z
_SECOND: Final = 10**9
_MICROSECOND: Final = 1000
_CACHED_SECONDS: Final = 4096
_CACHED_TIMES: Final = 1024  # objects that were read together have one time


@lru_cache(maxsize=_CACHED_TIMES)
def microseconds_text(time: int) -> str | None:
    """``2026-11-20T14:05:06.123456Z``, cut to the microsecond; ``None`` outside the years 1 to 9999.

    Args:
        time: nanoseconds since 1970-01-01 UTC.
    """
    seconds, rest = divmod(time, _SECOND)
    text = _second(seconds)
    return None if text is None else f"{text}.{rest // _MICROSECOND:06d}Z"


def nanoseconds_text(time: int) -> str | None:
    """``2026-11-20T14:05:06.123456789Z``; ``None`` outside the years 1 to 9999.

    Args:
        time: nanoseconds since 1970-01-01 UTC.
    """
    seconds, rest = divmod(time, _SECOND)
    text = _second(seconds)
    return None if text is None else f"{text}.{rest:09d}Z"


def known_time(time: int) -> str | None:
    """A time of the feed, where 0 stands for one that is not known: to the microsecond."""
    return microseconds_text(time) if time else None


def nanoseconds_of(text: object) -> int:
    """Of a time of the log, since 1970-01-01 UTC; 0 for what is none."""
    try:
        time = dt.datetime.fromisoformat(text if isinstance(text, str) else "")
    except ValueError:
        return 0
    if (offset := time.utcoffset()) is None:
        return 0
    since = time.replace(tzinfo=None) - offset - _EPOCH
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000


@lru_cache(maxsize=_CACHED_SECONDS)
def _second(seconds: int) -> str | None:
    try:
        return (_EPOCH + dt.timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        return None
