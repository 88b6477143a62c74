"""The findings of a report: one sentence each for what needs attention."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Final

from gateway.analytics.reports.answers import Form, Report, Row, number, readable
from gateway.analytics.reports.events import SEVERE

MOST_OF_A_KIND: Final = 3
"""The maximum number of sentences of one kind; the tables have the rest."""

_ENDED_SECONDS: Final = 900
"""Seconds without a record from which a log counts as ended: one that is written has a new segment before."""

_SHORT_SHARE: Final = 0.5
_SHORT_LEAST: Final = 10
_NUMBER_OF: Final = {
    "missing": "records are missing in the log",
    "lost": "records could not be written to the log",
    "unreadable": "lines of the log are unreadable",
    "resets": "times a counter began again",
}


def findings(report: Report) -> list[str]:
    """Return the sentences, the most urgent first; none where nothing is conspicuous."""
    # In the order of urgency.
    return [
        *_ended(report),
        *_silent(report),
        *_worst_events(report),
        *_growing(report),
        *_storms(report),
        *_flapping(report),
        *_short(report),
        *_unknown(report),
        *_doubts(report),
        *_one_broker(report),
    ]


def _ended(report: Report) -> Iterator[str]:
    end = report.contents["end"]
    if isinstance(end, dt.datetime) and (report.period.end - end).total_seconds() > _ENDED_SECONDS:
        yield f"the log ends at {readable(end)}: nothing was recorded in the rest of the period"


def _silent(report: Report) -> Iterator[str]:
    for row in report.table("sources").rows[:MOST_OF_A_KIND]:
        who = f"agent {_text(row, 'agent')} of " if row["agent"] is not None else ""
        if row["silent"]:
            yield f"{who}{_text(row, 'source')} is {_text(row, 'state')} since {readable(row['since'])}"
        elif number(row, "times"):
            lasted = readable(row["silent_seconds"], Form.SECONDS)
            yield f"{who}{_text(row, 'source')} was silent {_times(row, 'times')}, {lasted} in all"


def _worst_events(report: Report) -> Iterator[str]:
    worst = [row for row in report.table("events").rows if row["severity"] in SEVERE]
    for row in worst[:MOST_OF_A_KIND]:
        what = f"{_text(row, 'event')} ({_text(row, 'severity')})"
        yield f"{what} came {_times(row, 'events')}{_source(row, 'from')}"


def _growing(report: Report) -> Iterator[str]:
    for row in report.once("growing")[:MOST_OF_A_KIND]:
        pace = readable(row["per_hour"], Form.COUNT)
        who = f"queue {_text(row, 'queue')}{_source(row, 'of')}"
        then = f": {readable(row['in_24_hours'], Form.COUNT)} in 24 hours" if row["in_24_hours"] else ""
        yield f"{who} grows by {pace} messages an hour{then}"


def _storms(report: Report) -> Iterator[str]:
    for row in report.table("storms").rows[:MOST_OF_A_KIND]:
        begin, end = readable(row["begin"])[:-3], readable(row["end"])[:-3]
        what = f"{_text(row, 'event')} came {_times(row, 'events')}{_source(row, 'from')}"
        yield f"{what}, {begin} to {end.rpartition(' ')[2]}"


def _flapping(report: Report) -> Iterator[str]:
    for row in report.table("flapping").rows[:MOST_OF_A_KIND]:
        what = _text(row, "what")
        is_condition = what == "condition"
        name, verb = _text(row, "name"), "was raised" if is_condition else "was made"
        yield f"{'' if is_condition else what + ' '}{name}{_source(row, 'of')} {verb} {_times(row, 'times')}"


def _short(report: Report) -> Iterator[str]:
    users = [row for row in report.once("connections") if row["user"] is not None]
    hardly_used = [
        row for row in users if number(row, "short") >= max(_SHORT_LEAST, _SHORT_SHARE * number(row, "known"))
    ]
    for row in hardly_used[:MOST_OF_A_KIND]:
        short, known = number(row, "short"), number(row, "known")
        who = (_text(row, "user") or "an unknown user") + _source(row, "to")
        yield f"{short:,.0f} of {known:,.0f} connections of {who} lasted less than a second"


def _unknown(report: Report) -> Iterator[str]:
    unknown = [row for row in report.table("overview").rows if number(row, "unknown")]
    for row in unknown[:MOST_OF_A_KIND]:
        count = number(row, "unknown")
        changes = "a change" if count == 1 else f"{count:,.0f} changes"
        yield f"the outcome is not known of {changes} at {_text(row, 'source')}"


def _doubts(report: Report) -> Iterator[str]:
    for row in report.table("quality").rows:
        sentence = _NUMBER_OF.get(str(row["what"]))
        if sentence is not None and number(row, "count"):
            yield f"{readable(row['count'], Form.COUNT)} {sentence}"


def _one_broker(report: Report) -> Iterator[str]:
    shared = [row for row in report.table("brokers").rows if row["why"] is not None]
    for row in shared[:MOST_OF_A_KIND]:
        who = f"sources {_text(row, 'sources')} are one broker ({_text(row, 'why')})"
        yield f"{who}: totals are those of {_text(row, 'counted')}"


def _times(row: Row, name: str) -> str:
    times = number(row, name)
    return "once" if times == 1 else f"{times:,.0f} times"


def _source(row: Row, preposition: str) -> str:
    """Return the source of a row, as text; empty for the gateway itself. Others may have the same names."""
    return "" if row["source"] is None else f" {preposition} {_text(row, 'source')}"


def _text(row: Row, name: str) -> str:
    return readable(row[name])
