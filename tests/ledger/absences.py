"""The check of the log's gaps: each has a kill as its cause, is no longer than that, and is recorded once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf
from pathlib import Path

from gateway.eventlog.query import ask
from tests.ledger.lives import Kill, Span, Truth
from tests.ledger.times import MILLISECONDS, ORPHANED_SECONDS, UNDER_WAY_SECONDS, reported_time
from tests.ledger.verdict import CLOSING_SECONDS, Gap, lost_by_agent, recorded_gaps

RECORDED_SECONDS = 0.5
"""The longest time between a record and its subject, before or after, on a busy machine."""

DELAY_SECONDS = (1.0, 10.0)
"""The bounds of twice the longest delay of the last events, by which a gap may begin before the last."""

AGENT_DELAY_SECONDS = 60.0
"""The upper bound if an agent published the event."""

REMEMBERED_SECONDS = 125.0
"""The time for which the delay of an event counts at most, with that after which it is recorded."""

PROOF_SECONDS = 10.5
"""The greatest age of the last proof that all was received, of one each 2 or 5 s, on a busy machine.

5 s, the duration of a proof and 2 s, and 5 s more on a quiet broker, as documented; the rest of the duration
is in the delay of events.
"""

UNPROVEN_SECONDS = 20.0
"""The time by which a gap may begin earlier where a log ended, which does not say when the last proof was."""

LATE_SECONDS = 1.0
"""The delay of an event from which on others wait at the broker, so that nothing proves that all came."""

TIMESTAMP_SECONDS = 1.0
"""The resolution of AMQP's timestamps; events before their schema are reported once per second."""

RESTARTED_SECONDS = 0.5
"""The time after a kill within which no killed process has come back."""

GATEWAY = frozenset({"core", "supervisor"})
"""The victims without which the gateway receives nothing."""

_UNREADABLE = "came before their schema"
"""The end of the text of a gap with a cause of its own: see docs/events.md. Another gap may contain it."""

_PASSED = "an object came and went before that was read to which it belongs"
"""The text of a gap whose cause is one life of a consumer or channel, which nothing else records."""

_OVERTAKEN = "an object was read before the events of an earlier one of its name"
"""The text of a gap whose cause is one life of a queue or exchange, which nothing else records.

A gateway that cannot receive the events that wait for it lists the objects after a while.
"""

_OF_LIVES = {_PASSED: frozenset({"channel", "consumer"}), _OVERTAKEN: frozenset({"queue", "exchange"})}
"""The classes of lives that may be a gap, by its text."""

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
        waits: the victims without which events wait for it at the broker.
        of: the reading that it reads in turn, where that reads the broker itself.
    """

    log: Path
    source: str
    misses: frozenset[str] = frozenset()
    of: Reading | None = None
    waits: frozenset[str] = frozenset()

    @property
    def victims(self) -> frozenset[str]:
        """All victims without which it misses events."""
        return self.misses | {"broker"} | (frozenset() if self.of is None else self.of.misses)

    def absences(self, kills: Iterable[Kill]) -> list[Absence]:
        """Return the times in which it may have missed events; a kill during one of them extends it."""
        starts, whole = _times(self.log, _STARTS), _times(self.log, _WHOLE, self.source)
        kills = list(kills)
        before = [] if self.of is None else self.of.absences(kills)
        away = [kill.began for kill in kills if kill.victim in self.waits]
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
                begin = earliest(events, kill.began, longest, away)
                if kill.victim in self.misses or away:
                    begin -= UNPROVEN_SECONDS
                if self.of is not None:  # of what an agent publishes, the delay of any message counts
                    begin = min(begin, kill.began - longest)
                found.append(Absence(begin, kill.began, ended))
        return found


def earliest(
    events: Iterable[tuple[float, float]], killed: float, longest: float, away: Iterable[float] = ()
) -> float:
    """Return the earliest begin of a gap: before the last event and the last proof, by the delay of events.

    Args:
        events: the time of the record of each event, and its delay, in order.
        killed: the time of the kill after which events were missed.
        longest: the longest delay of other events.
        away: the times of kills after which events waited. There was no proof until all of them were read.
    """
    received = [(at, took) for at, took in events if at <= killed]
    last = max((at for at, _ in received), default=killed)
    took = max((took for at, took in received if at >= last - REMEMBERED_SECONDS), default=0.0)
    provable = in_time = killed
    for at, late in reversed(received):
        in_time = at
        if late < LATE_SECONDS:
            break
        provable = at
    if any(in_time - ORPHANED_SECONDS <= one <= provable < killed for one in away):
        provable = in_time
    return min(last, provable - PROOF_SECONDS) - min(max(2 * took, DELAY_SECONDS[0]), longest)


def unexplained(reading: Reading, kills: Iterable[Kill], truth: Truth) -> Iterator[str]:
    """Yield a line for each gap that kills do not explain in full, or that is recorded twice.

    Args:
        reading: the reader that has the gaps.
        kills: all kills.
        truth: the true state according to the ledger.
    """
    passed, overtaken = (list(_ended(truth, text)) for text in (_PASSED, _OVERTAKEN))
    kills = list(kills)
    slack = RECORDED_SECONDS + (0.0 if reading.of is None else TIMESTAMP_SECONDS)
    recorded = recorded_gaps(reading.log, reading.source)
    absences = reading.absences(kills)
    waited = replace(reading, misses=reading.misses | reading.waits).absences(kills)
    late = [one for one in recorded if is_overtaken(one, recorded, overtaken)]
    reported = [one for one in recorded if one not in late and not is_of_life(one, passed, waited)]
    yield from (
        f"not all was read again since {reported_time(one.killed)}" for one in absences if one.ended == inf
    )
    yield from _beyond(reported, absences, slack)
    yield from _beyond(late, waited, slack)
    if reading.of is not None:
        lost = [one for one in lost_by_agent(reading.log, reading.source) if not is_of_life(one, passed, [])]
        yield from _beyond(lost, reading.of.absences(kills), slack)
    causes = [kill for kill in kills if kill.victim in reading.victims]
    # The gap of a life begins where the source was complete, which may be long ago; each life has its own.
    of_kills = [gap for gap in reported if not gap.text.endswith(_UNREADABLE) and gap.text not in _OF_LIVES]
    for one, later in combinations(of_kills, 2):
        if _overlap(one, later) and not _causes(later, causes) - _causes(one, causes):
            yield f"{_reported(later)}: of what is in {_reported(one)} already"


def _ended(truth: Truth, text: str) -> Iterator[tuple[Span, Span]]:
    """Yield end and begin of the lives that may be a gap with a text."""
    for (kind, _), lives in truth.lives.items():
        if kind in _OF_LIVES[text]:
            yield from ((life.ended, life.created) for life in lives if life.ended is not None)


def _beyond(gaps: Iterable[Gap], absences: list[Absence], slack: float) -> Iterator[str]:
    for gap in gaps:
        around = [
            one for one in absences if one.earliest - slack <= gap.ended and gap.began <= one.ended + slack
        ]
        if not any(one.earliest - slack <= gap.began and gap.ended <= one.ended + slack for one in around):
            known = [f"{reported_time(one.earliest)} to {reported_time(one.ended)}" for one in around]
            yield f"{_reported(gap)}: kills explain {' and '.join(known) or 'nothing of it'}"


def is_of_life(gap: Gap, lives: Iterable[tuple[Span, Span]], waited: Iterable[Absence]) -> bool:
    """Return whether the gap is that of one life.

    While events of a former gateway wait, such a gap begins when that had received all, however long ago.

    Args:
        gap: the gap.
        lives: the spans of the end and of the begin of each life.
        waited: the times of which events waited, until everything had been read again.
    """
    waited = list(waited)

    def earliest_begin(ended: Span, created: Span) -> float:
        of = [one.earliest for one in waited if one.killed <= ended[1] and ended[0] <= one.ended]
        return min([created[0] - PROOF_SECONDS - DELAY_SECONDS[1], *of])

    return gap.text == _PASSED and any(
        ended[0] - UNDER_WAY_SECONDS <= gap.ended <= ended[1] + CLOSING_SECONDS
        and earliest_begin(ended, created) <= gap.began <= created[1] + UNDER_WAY_SECONDS
        for ended, created in lives
    )


def is_overtaken(gap: Gap, gaps: Iterable[Gap], lives: Iterable[tuple[Span, Span]]) -> bool:
    """Return whether a life is in the gap of one whose successor was read before its events.

    It is in this gap and those that adjoin it: what was reported before is left out of a gap.
    """
    began, gaps = gap.began, sorted(gaps, key=lambda one: one.began, reverse=True)
    for one in gaps:
        began = min(began, one.began) if abs(one.ended - began) <= MILLISECONDS else began
    return gap.text == _OVERTAKEN and any(
        began <= created[1] + MILLISECONDS and ended[0] <= gap.ended + MILLISECONDS
        for ended, created in lives
    )


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
