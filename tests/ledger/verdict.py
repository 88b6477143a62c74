"""The lives and counters in the event log, compared with the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from gateway.eventlog.query import ask
from tests.ledger.churn import PREFIX
from tests.ledger.lives import Life, Span, Truth
from tests.ledger.receiving import Received, forgotten
from tests.ledger.times import (
    MILLISECONDS,
    UNDER_WAY_SECONDS,
    begins_late,
    reported_span,
    reported_time,
    within,
)

CLOSING_SECONDS = 5.0
"""The longest delay of the event of a connection's end, and of objects that end with it.

The broker reports these after a cleanup, on a busy machine 2.1 s later.
"""

CLASSES = ("queue", "exchange", "connection", "channel", "consumer", "binding")
"""The classes of which the log has all lives; users are in no listing that the gateway may read."""

COUNTED_SECONDS = 10.0
"""The longest time until a sample has all confirmed messages.

RabbitMQ counts for 5 s before it reports, and then gateway and agent ask every second.
"""

_CLOSING = frozenset({"connection", "exclusive", "channel", "consumer"})
"""Kinds of objects whose end is reported late: the broker answers a client before its cleanup."""

OTHER_USERS = frozenset({"gateway", "agent"})
"""Users of the broker other than the churn.

A channel of theirs may have the name of one of the churn's channels, if it has the same port.
"""

NOTICED_SECONDS = 20.0
"""The longest time after a gap until a listing shows that an object has ended."""

_RECORDS = f"""
    SELECT seq, source, dialect, kind, class, object_id, object_name, epoch(create_ts), epoch(delete_ts),
      coalesce(inferred, false), lifetime, "values", deltas, epoch(sample_ts)
    FROM log WHERE package = 'rabbitmq' AND class IN {CLASSES}
      AND kind IN ('create', 'snapshot', 'update', 'delete')
    ORDER BY seq
"""  # noqa: S608  constants of this module
_GAPS = """
    SELECT seq, coalesce(text, ''), epoch(from_ts), epoch(to_ts) FROM log
    WHERE kind = 'gap' AND coalesce(
      source = $source, NOT list_contains(coalesce("values"->'covered', '[]')::VARCHAR[], $source)
    )
    ORDER BY seq
"""
_LOST = """
    SELECT seq, coalesce("values"->>'reason', ''), epoch(("values"->>'since')::TIMESTAMPTZ),
      epoch(("values"->>'until')::TIMESTAMPTZ)
    FROM log WHERE kind = 'event' AND event = 'eventsLost' AND source = $source AND dialect = 'qmf'
    ORDER BY seq
"""
"""The query of an agent's gaps, which it reports by this event, because QMF has no gap of its own."""


class Record(msgspec.Struct, frozen=True):
    """A record of an object; times are seconds since 1970."""

    seq: int
    source: str
    dialect: str
    kind: str
    class_name: str
    object_id: str
    name: str
    created: float | None
    deleted: float | None
    inferred: bool
    lifetime: str | None
    values: str | None
    deltas: str | None
    sampled: float | None

    @property
    def leaf(self) -> str:
        """The object's own name; of a consumer with its queue and channel, as in the ledger."""
        name = self.name.partition("#")[0]
        return name.partition("|")[2] if self.class_name == "consumer" else name.rpartition("|")[2]


class Gap(NamedTuple):
    """A recorded time in which events were missed; times are seconds since 1970."""

    seq: int
    text: str
    began: float
    ended: float


@dataclass
class Reported:
    """A life in the log.

    Attributes:
        first: the first record of it.
        created: the time of its begin, if it is recorded.
        last: the record of its end.
    """

    first: Record
    created: float | None
    last: Record | None = None


def violations(log: Path, source: str, truth: Truth) -> list[str]:
    """Return the differences between the log of ``source`` and the ledger, one line each."""
    reported = [record for record in _records(log) if record.source == source]
    return contradictions(reported, truth, received(log, source))


def contradictions(reported: Iterable[Record], truth: Truth, reported_to: Received) -> list[str]:
    """Return the differences between the records of one source and the ledger, one line each.

    Args:
        reported: all records of objects, in their order.
        truth: the true state according to the ledger.
        reported_to: the times in which the source missed events.
    """
    reported = list(reported)
    reader = _Lives(truth)
    found = list(reader.read(reported))
    for key, real in sorted(truth.lives.items()):
        if key[0] in CLASSES:
            found += _compared(" ".join(key), reader.reported.get(key, []), real, reported_to)
    return [*found, *_counters(reported, truth)]


def received(log: Path, source: str) -> Received:
    """Return the times in which a source missed events."""
    missed = gaps(log, source)
    return Received(missed, [*missed, *forgotten(log, source)])


def gaps(log: Path, source: str) -> list[Span]:
    """Return the spans of the gaps of a source, including those of its agent."""
    return joined(
        (gap.began, gap.ended) for gap in (*recorded_gaps(log, source), *lost_by_agent(log, source))
    )


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return spans of which those that adjoin or overlap are one.

    A gap leaves out what an earlier one has, so that the parts of one time without events adjoin.
    """
    found: list[Span] = []
    for began, ended in sorted(spans):
        if found and began <= found[-1][1] + MILLISECONDS:
            found[-1] = found[-1][0], max(found[-1][1], ended)
        else:
            found.append((began, ended))
    return found


def recorded_gaps(log: Path, source: str) -> list[Gap]:
    """Return the gaps of a source in the log, with those of the log itself that concern it."""
    return _gaps(log, source, _GAPS)


def lost_by_agent(log: Path, source: str) -> list[Gap]:
    """Return the gaps that the agent of a source reported."""
    return _gaps(log, source, _LOST)


def _gaps(log: Path, source: str, sql: str) -> list[Gap]:
    with ask(log, sql, {"source": source}) as answer:
        return [
            Gap(int(str(seq)), str(text), float(str(began)), float(str(ended)))
            for seq, text, began, ended in answer.rows
        ]


def _records(log: Path) -> list[Record]:
    fields = Record.__struct_fields__
    with ask(log, _RECORDS) as answer:
        return [msgspec.convert(dict(zip(fields, row, strict=True)), Record) for row in answer.rows]


class _Lives:
    """The lives in the records, and the contradictions among the records."""

    def __init__(self, truth: Truth) -> None:
        self.reported: dict[tuple[str, str], list[Reported]] = {}
        self._truth = truth
        self._clients: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._of_others: set[str] = set()
        self._connections = {_connection(name) for kind, name in truth.lives if kind == "channel"}

    def read(self, records: Iterable[Record]) -> Iterator[str]:
        for record in records:
            if self._is_of_another(record):
                continue
            key = record.class_name, self._called(record)
            if key not in self._truth.lives and self._is_of_churn(record):
                yield f"{' '.join(key)} ({record.kind} {record.object_id}, seq {record.seq}): never was"
            if key in self._truth.lives:
                where = f"{' '.join(key)} ({record.kind} {record.object_id}, seq {record.seq})"
                yield from (
                    f"{where}: {what}" for what in self._take(self.reported.setdefault(key, []), record)
                )
                if self._names.setdefault(record.object_id, record.name) != record.name:
                    yield f"{where}: was the identity of {self._names[record.object_id]}"

    def _take(self, lives: list[Reported], record: Record) -> Iterator[str]:
        alive = [life for life in lives if life.last is None]
        same = next((life for life in alive if life.first.object_id == record.object_id), None)
        if not alive or (same is None and _takes_the_place(alive[-1].first, record)):
            if record.kind in {"create", "snapshot"}:
                former = {life.first.object_id for life in lives} if record.lifetime == "transient" else set()
                if record.object_id in former:
                    yield "is the identity of a former life"
                lives.append(Reported(record, record.created))
            else:
                yield f"{record.kind} of what did not live"
        elif record.kind == "create":
            yield f"created, and the one before (seq {alive[-1].first.seq}) had not ended"
            lives.append(Reported(record, record.created))
        else:
            life = same or alive[-1]
            if same is None:
                yield f"was {life.first.object_id}"
            if life is not alive[-1] and record.kind == "delete" and not record.inferred:
                yield f"ended after another (seq {alive[-1].first.seq}) had taken its place"
            if record.kind == "delete":
                life.last = record
            if life.created is not None and record.created not in {None, life.created}:
                before = reported_time(life.created)
                yield f"created at {reported_time(record.created)}, which was {before} before"
            life.created = life.created if record.created is None else record.created

    def _is_of_another(self, record: Record) -> bool:
        """Return whether it is a channel of gateway or agent, whose port the churn may have used."""
        if record.class_name == "channel":
            user = json.loads(record.values or "{}").get("user")
            if user in OTHER_USERS:
                self._of_others.add(record.object_id)
        return record.object_id in self._of_others

    def _is_of_churn(self, record: Record) -> bool:
        """Return whether only the churn can have made the object; the broker has objects of others, too."""
        called = self._called(record)
        if record.class_name in {"channel", "consumer"}:
            return _connection(called) in self._connections
        return called.startswith(PREFIX)

    def _called(self, record: Record) -> str:
        """Return the name in the ledger: of a connection its client's name, which its last record lacks."""
        if record.class_name != "connection":
            return record.leaf
        client = json.loads(record.values or "{}").get("providedName")
        if isinstance(client, str):
            self._clients[record.object_id] = client
        return self._clients.get(record.object_id, "")


def _connection(name: str) -> str:
    """Return RabbitMQ's name of the connection of a channel or consumer."""
    return name.rpartition(" (")[0].rpartition("|")[2]


def _takes_the_place(former: Record, record: Record) -> bool:
    """Return whether it is the first record of another object in place of one whose end follows later.

    A console that reads everything again first receives the existing objects, and detects ended ones when it
    has read everything: QMF does not exclude that two objects of one name live at once.
    """
    return record.dialect == "qmf" and record.kind == "create" and record.name != former.name


def _compared(what: str, reported: list[Reported], real: list[Life], received: Received) -> Iterator[str]:
    unseen = sum(not life.sure or received.may_lack(life) for life in real)
    alike = sum(received.may_be_the_same(one, next_one) for one, next_one in pairwise(real))
    most = len(real) + sum(life.may_return for life in real)
    if not len(real) - unseen - alike <= len(reported) <= most:
        seqs = [one.first.seq for one in reported]
        yield f"{what}: {len(reported)} lives (seq {seqs}) of {len(real)}; {unseen} unseen, {alike} alike"
    if len(reported) == len(real):
        for one, life in zip(reported, real, strict=True):
            yield from (f"{what} (seq {one.first.seq}): {wrong}" for wrong in _wrongs(one, [life], received))
    elif len(reported) < len(real) and not _is_explained(reported, real, received):
        times = (f"{reported_time(one.created)} (seq {one.first.seq})" for one in reported)
        yield f"{what}: {', '.join(times)} are none of {'; '.join(map(_reported_life, real))}"


def _is_explained(reported: list[Reported], real: list[Life], received: Received) -> bool:
    """Return whether the recorded lives may be those of the ledger, except unrecorded ones."""
    if any(one.first.dialect == "qmf" for one in reported):
        return _is_explained_in_any_order(reported, real, received)

    def with_lacking(explained: set[int]) -> set[int]:
        for number, life in enumerate(real):
            if number in explained and (not life.sure or received.may_lack(life)):
                explained.add(number + 1)
        return explained

    explained = with_lacking({0})  # so many of the ledger's lives, in each way to understand what is told
    for one in reported:
        further = {
            number + len(lives)
            for number in explained
            for lives in _joined(real[number:], received)
            if not any(_wrongs(one, lives, received))
        }
        explained = with_lacking(further)
    return len(real) in explained


def _is_explained_in_any_order(reported: list[Reported], real: list[Life], received: Received) -> bool:
    """Return the same for the lives of an agent, in any order: see `_takes_the_place`.

    A transient object whose creation an agent did not see has the number of another such object. Where the
    console missed the end of that, too, both are one life, although another one may be recorded in between.
    """
    explained = {number for number, life in enumerate(real) if not life.sure or received.may_lack(life)}
    for one in reported:
        fitting = [
            range(first, first + len(lives))
            for first in range(len(real))
            for lives in _joined(real[first:], received)
            if not any(_wrongs(one, lives, received))
        ]
        if not fitting:
            return False
        explained.update(*fitting)
    return len(explained) == len(real)


def _joined(lives: list[Life], received: Received) -> Iterator[list[Life]]:
    """Yield the first life, and with it as many of the next ones as may be taken for the same."""
    for last in range(1, len(lives) + 1):
        yield lives[:last]
        if last < len(lives) and not received.may_be_the_same(lives[last - 1], lives[last]):
            return


def _reported_life(life: Life) -> str:
    ended = "now" if life.ended is None else reported_span(life.ended)
    return f"{reported_span(life.created)} until {ended}"


def _wrongs(reported: Reported, lives: list[Life], received: Received) -> Iterator[str]:
    """Yield the differences of a recorded life from one of the ledger, or from several taken for one."""
    creations = [list(wrong_creation(reported.created, life, received)) for life in lives]
    if all(creations):
        yield from creations[-1]
    yield from _wrong_end(reported, lives[-1], received)


def wrong_creation(created: float | None, life: Life, received: Received) -> Iterator[str]:
    """Yield the difference of the recorded time of creation from the ledger, if there is one.

    Args:
        created: the recorded time, in seconds since 1970; ``None`` where there is none.
        life: the life in the ledger.
        received: the times in which the source missed events.
    """
    if created is None:
        if not received.begins_untold(life):
            yield f"no time of its creation, which was {reported_span(life.created)}"
    elif not within(created, life.created, begins_late(life)):
        yield f"created at {reported_time(created)}, which was {reported_span(life.created)}"


def _wrong_end(reported: Reported, life: Life, received: Received) -> Iterator[str]:
    if reported.last is None:
        if life.ended is not None and life.end_sure:
            yield f"no end, which was {reported_span(life.ended)}"
        return
    slack = CLOSING_SECONDS if life.kind in _CLOSING else MILLISECONDS
    if life.ended is None:
        yield f"ended (seq {reported.last.seq}), and lives"
        return
    deleted = None if reported.last.inferred else reported.last.deleted
    if deleted is not None and within(deleted, life.ended, slack):
        return
    if reported.last.inferred or _is_noticed(reported.last, life.ended, received.missed):
        if not life.may_vanish and not received.ends_untold(life):
            yield f"its end is inferred (seq {reported.last.seq}), which was {reported_span(life.ended)}"
    else:
        when = f"{reported_time(deleted)} (seq {reported.last.seq})"
        yield f"ended at {when}, which was {reported_span(life.ended)}"


def _is_noticed(end: Record, real: Span, missed: list[Span]) -> bool:
    """Return whether an agent may have detected the end by a listing, after a gap.

    AM2 cannot mark such an end, and requires a time of each end: it has the time of its detection.
    """
    deleted = end.deleted
    return (
        end.dialect == "qmf"
        and deleted is not None
        and any(
            real[0] <= ended and real[1] < deleted <= ended + NOTICED_SECONDS
            for began, ended in missed
            if began - UNDER_WAY_SECONDS <= real[1]
        )
    )


def _counters(reported: Iterable[Record], truth: Truth) -> Iterator[str]:
    counters = {name: _Counter() for name in truth.published}
    for record in reported:
        if record.class_name == "queue" and record.leaf in counters:
            counter = counters[record.leaf]
            if not counter.read(record):
                continue
            least = truth.counted_by(record.leaf, record.sampled or 0.0, COUNTED_SECONDS)
            if counter.last < least:
                yield f"queue {record.leaf}: {counter.last} published (seq {record.seq}), and {least} were"
    for name, counter in counters.items():
        where = f"queue {name}: messages published"
        most = truth.counted[name] + truth.doubtful[name]
        if not truth.counted[name] <= counter.last <= most:
            yield f"{where}: {counter.last}, and {truth.counted[name]} to {most} were"
        if counter.gained != counter.counted + counter.last:
            yield f"{where}: {counter.gained} gained of {counter.counted} and then {counter.last}"


class _Counter:
    """The messages published to a queue, according to the log.

    Attributes:
        gained: the sum of all deltas, and the first value where that has none.
        counted: the sum of the last values before each reset of the broker's counter, less what the log says
            is not known.
        last: the last value.
    """

    def __init__(self) -> None:
        self.gained = self.counted = self.last = 0
        self._known = False

    def read(self, record: Record) -> bool:
        """Read a record, and return whether it has a value."""
        value = json.loads(record.values or "{}").get("messagesPublished")
        delta = json.loads(record.deltas or "{}").get("messagesPublished")
        if value is not None:
            if delta is not None and delta.get("reset"):
                self.counted += self.last - (int(value) - int(delta.get("delta") or 0))
            self.gained += 0 if self._known or delta is not None else int(value)
            self.last, self._known = int(value), True
        if delta is not None:
            self.gained += int(delta.get("delta") or 0)
        return value is not None
