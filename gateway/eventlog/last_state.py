"""How things stood when the log ended: what a gateway that starts again need not tell, or find out, again.

Each segment tells at its head how everything stands, so those from the last whole head on are enough. Only
sources are looked at that ask for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from gateway.eventlog.block import DamageError
from gateway.eventlog.identity import standing_segments, standing_seq
from gateway.eventlog.late_deliveries import told_in
from gateway.eventlog.logged_sources import HEARD_UNTIL, READ_WHOLE, UNHEARD
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.segment import Segment, list_segments, read_segment
from gateway.eventlog.timestamps import nanoseconds_of

MAX_DELIVERIES: Final = 100_000
"""Identities of deliveries that are remembered: many times what a broker delivers again."""

_ATTEMPTS: Final = 3
_HEAD_SECONDS: Final = 60.0
"""In a log of an earlier version, a segment that spans so much time has told all of its head."""

UNDER_WAY: Final = (10**9, 10 * 10**9)
"""Nanoseconds, at least and at most: what happened so shortly before the log's end may have been under way.

Between these it is twice as long as the source's last event took; clocks that differ make no more of it.
"""

_UNHEARD: Final = frozenset(state.value for state in UNHEARD)


@dataclass(slots=True)
class LastState:
    """What the log says of some sources where it ends.

    Attributes:
        objects: those that live, by ``object_id``, with all that is known of each; ``kind`` is ``snapshot``.
        heard_until: by source: until when all that happened is told, nanoseconds since 1970 UTC. Absent where
            the log does not know the source.
        read_whole: sources all of whose objects were told at one time at least: of these, what the log does
            not know is new.
        deliveries: of durable subscriptions of any source, whose records are in the log; the last ones, in
            order.
        is_complete: no object that lived is missing.
    """

    objects: dict[str, LogRecord] = field(default_factory=dict)
    heard_until: dict[str, int] = field(default_factory=dict)
    read_whole: set[str] = field(default_factory=set)
    deliveries: dict[str, None] = field(default_factory=dict)
    is_complete: bool = True

    def of(self, source: str) -> Iterator[LogRecord]:
        """The living objects of a source."""
        return (record for record in self.objects.values() if record.source == source)


def last_state(folder: Path, sources: Collection[str]) -> LastState:
    """Read the end of the log in ``folder``; what is damaged there is passed over.

    Args:
        folder: of the log; it need not be there.
        sources: names of those that are looked at.

    Raises:
        OSError: it cannot be read.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(FileNotFoundError):  # a segment became Parquet in between
            first_seq = standing_seq(folder)
            return _read(standing_segments(folder, first_seq), first_seq, sources)
    return _read(list_segments(folder)[-1:], standing_seq(folder), sources)


def _read(segments: list[Segment], first_seq: int, sources: Collection[str]) -> LastState:
    reader = _Reader(frozenset(sources))
    for segment in segments:
        reader.read(segment)
    return reader.result(segments, first_seq)


class _Reader:
    def __init__(self, sources: frozenset[str]) -> None:
        self._sources = sources
        self._state = LastState()
        self._unheard: dict[str, int] = {}
        self._took: dict[str, int] = {}
        self._known: set[str] = set()
        self._first_ts = self._last_ts = ""

    def read(self, segment: Segment) -> None:
        self._first_ts = ""
        try:
            for block in read_segment(segment):
                for line in block.split():
                    self._take(_DECODER.decode(line))
        except (DamageError, msgspec.MsgspecError):
            self._state.is_complete = False

    def result(self, segments: list[Segment], first_seq: int) -> LastState:
        state = self._state
        lasted = nanoseconds_of(self._last_ts) - nanoseconds_of(self._first_ts)
        if first_seq:
            whole = bool(segments) and segments[0].first_seq == first_seq
        else:
            whole = len(segments) > 1 or lasted >= _HEAD_SECONDS * 10**9
        if not whole and segments and segments[0].first_seq > 1:  # a log's first segment has no head to tell
            state.is_complete = False
        until = nanoseconds_of(self._last_ts)
        for source in self._known:
            shortest, longest = UNDER_WAY
            under_way = min(max(2 * self._took.get(source, 0), shortest), longest)
            state.heard_until[source] = self._unheard.get(source, until - under_way)
        return state

    def _take(self, record: LogRecord) -> None:
        self._first_ts = self._first_ts or record.ingest_ts
        self._last_ts = record.ingest_ts
        if record.delivery is not None:
            self._note_delivery(record.delivery)
        elif record.kind is RecordKind.START:
            for delivery in told_in(record.values or {}):
                self._note_delivery(delivery)
        if record.source not in self._sources:
            return
        match record.kind:
            case RecordKind.EVENT if record.sample_ns:
                self._took[record.source] = nanoseconds_of(record.ingest_ts) - record.sample_ns
            case RecordKind.SOURCE:
                self._source_told(record.source, record)
            case _:
                self._object_told(record)

    def _object_told(self, record: LogRecord) -> None:
        match record.kind:
            case RecordKind.CREATE | RecordKind.SNAPSHOT if record.object_id is not None:
                self._state.objects[record.object_id] = msgspec.structs.replace(
                    record, kind=RecordKind.SNAPSHOT, delivery=None
                )
            case RecordKind.UPDATE if record.object_id is not None:
                former = self._state.objects.get(record.object_id)
                if former is not None:
                    self._state.objects[record.object_id] = _updated(former, record)
            case RecordKind.DELETE if record.object_id is not None:
                self._state.objects.pop(record.object_id, None)

    def _note_delivery(self, identity: str) -> None:
        deliveries = self._state.deliveries
        deliveries.pop(identity, None)
        deliveries[identity] = None
        if len(deliveries) > MAX_DELIVERIES:
            del deliveries[next(iter(deliveries))]

    def _source_told(self, source: str, record: LogRecord) -> None:
        self._known.add(source)
        values = record.values or {}
        if values.get(READ_WHOLE) is True:
            self._state.read_whole.add(source)
        until = nanoseconds_of(values.get(HEARD_UNTIL))
        if until or record.state not in _UNHEARD:
            self._unheard.pop(source, None)
        if until:
            self._unheard[source] = until
        elif record.state in _UNHEARD and source not in self._unheard:
            since = values.get("since")
            self._unheard[source] = nanoseconds_of(since) or nanoseconds_of(record.ingest_ts)


def _updated(former: LogRecord, update: LogRecord) -> LogRecord:
    """An object as it stands after an update."""
    told, gone = update.values or {}, frozenset(update.absent or ())
    values = {name: value for name, value in (former.values or {}).items() if name not in gone}
    absent = {name for name in former.absent or () if name not in told} | gone
    unread = {
        name: value for name, value in (former.former or {}).items() if name not in (told.keys() | gone)
    }
    return msgspec.structs.replace(
        former,
        values=values | told,
        former=unread or None,
        absent=sorted(absent) or None,
        parent_id=update.parent_id or former.parent_id,
        native_id=update.native_id or former.native_id,
        agent=update.agent or former.agent,
        sample_ts=update.sample_ts or former.sample_ts,
        sample_ns=update.sample_ns or former.sample_ns,
        create_ts=update.create_ts or former.create_ts,
        reset_ts=update.reset_ts or former.reset_ts,
    )


_DECODER: Final = msgspec.json.Decoder(LogRecord)
