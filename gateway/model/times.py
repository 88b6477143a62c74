"""Times and durations: integers of nanoseconds, and their texts.

A time counts from 1970-01-01 UTC. A duration has no unit in its name; the constants are its units.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import Final

MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000 * MICROSECOND
SECOND: Final = 1_000 * MILLISECOND
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_CACHED_SECONDS: Final = 4096


def since_epoch(moment: dt.datetime) -> int:
    """Return a time as nanoseconds since 1970-01-01 UTC, exactly.

    Raises:
        TypeError: it has no zone.
    """
    # In integers: a float does not have enough digits for nanoseconds since 1970.
    return (moment - EPOCH) // dt.timedelta(microseconds=1) * MICROSECOND


def utc_time(time: int, digits: int = 9) -> str | None:
    """Return ``2026-11-20T14:05:06.123456789Z``; ``None`` outside the years 1 to 9999.

    Args:
        time: nanoseconds since 1970-01-01 UTC.
        digits: digits of the fraction of a second, which is truncated, not rounded; 0 to 9.
    """
    seconds, rest = divmod(time, SECOND)
    text = _second(seconds)
    if text is None:
        return None
    if not digits:
        return f"{text}Z"
    return f"{text}.{rest // 10 ** (9 - digits):0{digits}d}Z"


@lru_cache(maxsize=_CACHED_SECONDS)
def _second(seconds: int) -> str | None:
    try:
        return (EPOCH + dt.timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
    except OverflowError:
        return None
