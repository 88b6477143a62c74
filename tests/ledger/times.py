"""The resolution of times, and comparisons of times; all are seconds since 1970."""

from __future__ import annotations

import datetime as dt

from tests.ledger.lives import Life, Span

MILLISECONDS = 0.005
"""The resolution of the broker's times, in seconds."""

ANSWERED_SECONDS = 0.5
"""The longest time between the answer to a declaration or a new consumer and the event of it."""

_ANSWERED_FIRST = frozenset({"durable", "transient", "exclusive", "consumer"})

UNDER_WAY_SECONDS = 3.0
"""The longest transit time of an event to the log on a busy machine; the broker collects for a second."""

ORPHANED_SECONDS = 10.0
"""The longest time for which processes may go on after their supervisor was killed."""


def touches(span: Span, missed: list[Span]) -> bool:
    """Return whether an act in ``span`` may have been missed."""
    return any(began - MILLISECONDS <= span[1] and span[0] <= ended + MILLISECONDS for began, ended in missed)


def within(time: float, span: Span, slack: float) -> bool:
    """Return whether ``time`` lies in ``span``; it may be later by ``slack`` seconds."""
    return span[0] - MILLISECONDS <= time <= span[1] + slack


def begins_late(life: Life) -> float:
    """Return the seconds by which the event of a begin may be later than the answer to the client."""
    return ANSWERED_SECONDS if life.kind in _ANSWERED_FIRST else MILLISECONDS


def reported_time(seconds: float | None) -> str:
    """Return the time of day as text."""
    return "no time" if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat()[11:26]


def reported_span(span: Span) -> str:
    """Return the times of day of both ends as text."""
    return f"{reported_time(span[0])} to {reported_time(span[1])}"
