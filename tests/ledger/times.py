"""How exactly times are told, and whether one lies where it must; all are seconds since 1970."""

from __future__ import annotations

import datetime as dt

from tests.ledger.lives import Life, Span

MILLISECONDS = 0.005
"""Seconds: the broker tells times to the millisecond."""

ANSWERED_SECONDS = 0.5
"""The broker answers a client that declares a queue or begins to consume before it reports that."""

_ANSWERED_FIRST = frozenset({"durable", "transient", "exclusive", "consumer"})

UNDER_WAY_SECONDS = 3.0
"""An event takes so long at most to the log, on a busy machine; the broker collects some for a second."""


def touches(span: Span, missed: list[Span]) -> bool:
    """Whether something that happened in ``span`` may have been missed."""
    return any(began - MILLISECONDS <= span[1] and span[0] <= ended + MILLISECONDS for began, ended in missed)


def within(time: float, span: Span, slack: float) -> bool:
    """Whether ``time`` lies in ``span``; it may be later by ``slack`` seconds."""
    return span[0] - MILLISECONDS <= time <= span[1] + slack


def begins_late(life: Life) -> float:
    """Return by how many seconds its beginning may be told later than its maker was answered."""
    return ANSWERED_SECONDS if life.kind in _ANSWERED_FIRST else MILLISECONDS


def told_time(seconds: float | None) -> str:
    """For people: the time of day."""
    return "no time" if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat()[11:26]


def told_span(span: Span) -> str:
    """For people: both ends."""
    return f"{told_time(span[0])} to {told_time(span[1])}"
