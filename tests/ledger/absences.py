"""The check of the log's gaps: each has a kill as its cause, is no longer than that, and is recorded once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf
from pathlib import Path

from gateway.eventlog.query import ask
from tests.ledger.lives import Kill
from tests.ledger.times import reported_time
from tests.ledger.verdict import Gap, lost_by_agent, recorded_gaps

RECORDED_SECONDS = 0.5
"""The longest time between a record and its subject, before or after, on a busy machine."""

DELAY_SECONDS = (1.0, 10.0)
"""The bounds of twice the delay of the last event, by which a gap may begin before that event."""

AGENT_DELAY_SECONDS = 60.0
"""The upper bound if an agent published the event."""

TIMESTAMP_SECONDS = 1.0
"""The resolution of AMQP's timestamps; events before their schema are reported once per second."""

RESTARTED_SECONDS = 0.5
"""The time after a kill within which no killed process has come back."""

_UNREADABLE = "came before their schema"
"""The end of the text of a gap with a cause of its own: see docs/events.md. Another gap may contain it."""

_STARTS = """
    SELECT epoch(ingest_ts) FROM log
    WHERE kind = 'start' AND "values"->>'why' IN ('began', 'recovered') ORDER BY seq
"""
_WHOLE = """
    SELECT epoch(ingest_ts) FROM log
    WHERE kind = 'source' AND source = $source AND state = 'synchronised'
      AND ("values"->>'heard_until') IS NULL
    ORDER BY seq
"""
_EVENTS = """
    SELECT epoch(ingest_ts), coalesce(epoch(ingest_ts) - epoch(sample_ts), 0) FROM log
    WHERE kind = 'event' AND source = $source AND package = 'rabbitmq' ORDER BY seq
"""


@dataclass(frozen=True)
class Absence:
    """A time in which a source may have missed events; seconds since 1970.

    Attributes:
        earliest: the earliest begin of a gap.
        killed: the time of the first kill in it.
        ended: the time at which everything had been read again.
    """

    earliest: float
    killed: float
    ended: float


@dataclass(frozen=True)
class Reading:
    """A reader of a broker that records it in a log.

    Attributes:
        log: the folder of the log.
        source: the name of the source in the log.
        misses: the victims other than the broker without which it misses events. They begin the log again.
        of: the reading that it reads in turn, where that reads the broker itself.
    """

    log: Path
    source: str
    misses: frozenset[str] = frozenset()
    of: Reading | None = None

    @property
    def victims(self) -> frozenset[str]:
        """All victims without which it misses events."""
        return self.misses | {"broker"} | (frozenset() if self.of is None else self.of.misses)

    def absences(self, kills: Iterable[Kill]) -> list[Absence]:
        """Return the times in which it may have missed events; a kill during one of them extends it."""
        starts, whole = _times(self.log, _STARTS), _times(self.log, _WHOLE, self.source)
        before = [] if self.of is None else self.of.absences(kills)
        with ask(self.log, _EVENTS, {"source": self.source}) as answer:
            events = [(float(str(at)), float(str(took))) for at, took in answer.rows]
        found: list[Absence] = []
        for kill in sorted(kills, key=lambda kill: kill.began):
            if kill.victim not in self.victims:
                continue
            back = [one.ended for one in before if one.killed <= kill.began <= one.ended]
            back.append(_first(starts, kill.began) if kill.victim in self.misses else kill.ended)
            ended = _first(whole, max(back))
            if found and kill.began <= found[-1].ended:
                found[-1] = replace(found[-1], ended=max(found[-1].ended, ended))
            else:
                longest = DELAY_SECONDS[1] if self.of is None else AGENT_DELAY_SECONDS
                found.append(Absence(_earliest(events, kill.began, longest), kill.began, ended))
        return found


def _earliest(events: Iterable[tuple[float, float]], killed: float, longest: float) -> float:
    """Return the earliest begin of a gap: before the last event, by the delay that other events may have had.

    Args:
        events: the time of the record of each event, and its delay.
        killed: the time of the kill after which events were missed.
        longest: the longest delay of other events.
    """
    received = [(at, took) for at, took in events if at <= killed]
    last = max((at for at, _ in received), default=killed)
    took = max((took for at, took in received if at >= last - longest), default=0.0)
    return last - min(max(2 * took, DELAY_SECONDS[0]), longest)


def unexplained(reading: Reading, kills: Iterable[Kill]) -> Iterator[str]:
    """Yield a line for each gap that kills do not explain in full, or that is recorded twice."""
    kills = [kill for kill in kills if kill.victim in reading.victims]
    slack = RECORDED_SECONDS + (0.0 if reading.of is None else TIMESTAMP_SECONDS)
    reported = recorded_gaps(reading.log, reading.source)
    absences = reading.absences(kills)
    yield from (
        f"not all was read again since {reported_time(one.killed)}" for one in absences if one.ended == inf
    )
    yield from _beyond(reported, absences, slack)
    if reading.of is not None:
        yield from _beyond(lost_by_agent(reading.log, reading.source), reading.of.absences(kills), slack)
    for one, later in combinations((gap for gap in reported if not gap.text.endswith(_UNREADABLE)), 2):
        if _overlap(one, later) and not _causes(later, kills) - _causes(one, kills):
            yield f"{_reported(later)}: of what is in {_reported(one)} already"


def _beyond(gaps: Iterable[Gap], absences: list[Absence], slack: float) -> Iterator[str]:
    for gap in gaps:
        around = [
            one for one in absences if one.earliest - slack <= gap.ended and gap.began <= one.ended + slack
        ]
        if not any(one.earliest - slack <= gap.began and gap.ended <= one.ended + slack for one in around):
            known = [f"{reported_time(one.earliest)} to {reported_time(one.ended)}" for one in around]
            yield f"{_reported(gap)}: kills explain {' and '.join(known) or 'nothing of it'}"


def _overlap(one: Gap, later: Gap) -> bool:
    return one.began < later.ended and later.began < one.ended


def _causes(gap: Gap, kills: list[Kill]) -> set[Kill]:
    return {kill for kill in kills if gap.began <= kill.began <= gap.ended - RESTARTED_SECONDS}


def _reported(gap: Gap) -> str:
    return f"gap {reported_time(gap.began)} to {reported_time(gap.ended)} (seq {gap.seq}: {gap.text})"


def _times(log: Path, sql: str, source: str | None = None) -> list[float]:
    with ask(log, sql, {} if source is None else {"source": source}) as answer:
        return [float(str(time)) for (time,) in answer.rows]


def _first(times: Iterable[float], since: float) -> float:
    """Return the first time that is not before ``since``; infinity, if there is none."""
    return next((time for time in times if time >= since), inf)
