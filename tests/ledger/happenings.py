"""The check that each act of the ledger is an event of the log, once and with its time, or within a gap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from gateway.eventlog.query import ask
from tests.ledger.lives import Life, Span, Truth
from tests.ledger.times import MILLISECONDS, begins_late, reported_span, reported_time, touches, within
from tests.ledger.verdict import CLOSING_SECONDS, gaps

EVENTS = {
    "queue": ("queueCreated", "queueDeleted", "name"),
    "exchange": ("exchangeCreated", "exchangeDeleted", "name"),
    "connection": ("connectionOpened", "connectionClosed", "clientName"),
    "user": ("userCreated", "userDeleted", "user"),
}
"""The events of begin and end by class, and the argument that names their object."""

_RECORDS = """
    SELECT event, "values"->>'name', "values"->>'clientName', "values"->>'user', epoch(sample_ts), seq
    FROM log WHERE kind = 'event' AND package = 'rabbitmq' AND source = $source ORDER BY seq
"""

_Reported: TypeAlias = tuple[float, int]
"""The time of an event, and the seq of its record."""


def untold(log: Path, source: str, truth: Truth) -> Iterator[str]:
    """Yield a line for each missing, repeated or unfounded event of ``source`` in the log."""
    reported = _reported(log, source)
    missed = gaps(log, source)
    for (class_name, name), lives in truth.lives.items():
        if class_name not in EVENTS:
            continue
        begin, end, _ = EVENTS[class_name]
        begins = [(life.created, life.sure, max(_slack(life), begins_late(life))) for life in lives]
        # What nobody knows to have begun may have been deleted without an event: RabbitMQ agrees to that.
        ends = [(one.ended, one.sure and one.end_sure, _slack(one)) for one in lives if one.ended is not None]
        for event, spans in ((begin, begins), (end, ends)):
            what = f"{event} {name} of {source}"
            yield from (f"{what}: {wrong}" for wrong in _compared(reported[event, name], spans, missed))


def _reported(log: Path, source: str) -> dict[tuple[str, str], list[_Reported]]:
    named = {event: argument for *events, argument in EVENTS.values() for event in events}
    found: defaultdict[tuple[str, str], list[_Reported]] = defaultdict(list)
    with ask(log, _RECORDS, {"source": source}) as answer:
        for event, name, client, user, time, seq in answer.rows:
            arguments = {"name": name, "clientName": client, "user": user}
            if event in named:
                found[str(event), str(arguments[named[str(event)]])].append((float(str(time)), int(str(seq))))
    return found


def _slack(life: Life) -> float:
    """Return the seconds by which the begin and the end of a life may be reported late."""
    return CLOSING_SECONDS if life.kind in {"connection", "exclusive"} else MILLISECONDS


def _compared(
    reported: list[_Reported], real: list[tuple[Span, bool, float]], missed: list[Span]
) -> Iterator[str]:
    left = list(reported)
    for span, sure, slack in real:
        fitting = [one for one in left if within(one[0], span, slack)]
        if fitting:
            left.remove(fitting[0])
        elif sure and not touches(span, missed):
            yield f"no event, which was {reported_span(span)}"
    yield from (f"told of {reported_time(time)}, too (seq {seq})" for time, seq in left)
