"""The events of the log behind any place, page by page, in their order: over rotation and compaction.

A place is the epoch of a core and the number of an event, which ascend in the log. Each segment's first
record has the number of the last event before it, so that the file in which a page begins is found without
reading the ones before. The end of a page is remembered, so that the next one goes on there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import duckdb
import msgspec

from gateway.eventlog.follow import LogEnd, Selection, files_of
from gateway.eventlog.last_state import EVENTS
from gateway.eventlog.parquet import database, literal
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.segment import LakeFile, Segment, first_line
from gateway.feed.records import Place

MAX_OCTETS: Final = 1 << 20
"""The size of the lines of a page after which it ends, in octets."""

_CURSORS: Final = 4
_CLOSE: Final = 10_000
"""The number of events that a reading passes over, rather than look for the file in which to begin."""

_SELECTION: Final = Selection(kinds=frozenset({RecordKind.EVENT, RecordKind.SCHEMA}))
_MEMORY_MEBIBYTES: Final = 128


@dataclass(slots=True)
class Page:
    """Some events of the log.

    Attributes:
        events: the records, in order.
        schemas: the schemas of events, by ``package:event``, in the last version before the page's end.
        classes: likewise those of classes, by ``package:class``.
        through: the place up to which all events of the log are in this page.
    """

    events: list[LogRecord]
    schemas: dict[str, LogRecord]
    classes: dict[str, LogRecord]
    through: Place


@dataclass(slots=True)
class _Cursor:
    """A reading of the log."""

    end: LogEnd
    at: Place
    lines: Iterator[bytes] | None = None
    left: tuple[Place, LogRecord] | None = None
    schemas: dict[str, LogRecord] = field(default_factory=dict)
    classes: dict[str, LogRecord] = field(default_factory=dict)


class PastEventReader:
    """Reads the events of the cores of one gateway. It is for one thread at a time.

    Args:
        folder: the folder of the log; it need not exist.
        gateway: the uuid of the gateway.
    """

    def __init__(self, folder: Path, gateway: str) -> None:
        self._folder = folder
        self._gateway = gateway
        self._cursors: list[_Cursor] = []

    def read(self, after: Place, until: Place, limit: int) -> Page:
        """Return the events behind a place; what is damaged, or deleted meanwhile, is passed over.

        Args:
            after: the place.
            until: the last place.
            limit: the maximum number of events.

        Raises:
            OSError: the log cannot be read.
        """
        cursor = self._cursor(after)
        events: list[LogRecord] = []
        octets = 0
        through = until
        try:
            for place, record, size in self._events(cursor):
                if place <= after:
                    continue
                if place > until:
                    cursor.left = place, record
                    break
                events.append(record)
                cursor.at = place
                octets += size
                if len(events) >= limit or octets >= MAX_OCTETS:
                    through = place
                    break
            cursor.at = max(cursor.at, through)
        except BaseException:
            self._cursors.remove(cursor)
            raise
        return Page(events, cursor.schemas, cursor.classes, through)

    def _cursor(self, after: Place) -> _Cursor:
        """Return the reading that stands just before a place, or a new one; it is the last one used."""
        near = [
            each
            for each in self._cursors
            if each.at <= after and each.at[0] == after[0] and after[1] - each.at[1] <= _CLOSE
        ]
        if near:
            cursor = max(near, key=lambda each: each.at)
            self._cursors.remove(cursor)
        else:
            cursor = _Cursor(LogEnd(self._folder, _SELECTION), (0, 0))
            first = self._first_file(after)
            if first:
                cursor.end.begin(first)
        self._cursors = [*self._cursors[1 - _CURSORS :], cursor]
        return cursor

    def _events(self, cursor: _Cursor) -> Iterator[tuple[Place, LogRecord, int]]:
        """Yield the events from where the reading stands, and note the schemas before them."""
        if cursor.left is not None:
            (left_place, left), cursor.left = cursor.left, None
            yield left_place, left, 0
        if cursor.lines is None:
            cursor.lines = cursor.end.new()
        for line in cursor.lines:
            try:
                record = _RECORD.decode(line)
            except msgspec.MsgspecError:
                continue
            if record.kind is RecordKind.SCHEMA:
                if record.event is not None:
                    cursor.schemas[f"{record.package}:{record.event}"] = record
                elif record.class_name is not None:
                    cursor.classes[f"{record.package}:{record.class_name}"] = record
            elif (place := self._place(record)) is not None:
                yield place, record, len(line)
        cursor.lines = None  # what is written from now on is read by the next page

    def _place(self, record: LogRecord) -> Place | None:
        made_by, _, number = (record.event_id or "").rpartition(".")
        gateway, _, boot = made_by.rpartition(".")
        if gateway != self._gateway or not (boot.isdecimal() and number.isdecimal()):
            return None
        return int(boot), int(number)

    def _first_file(self, after: Place) -> int:
        """Return the first seq of the last file before which no event behind a place was made; 0 for none."""
        files = list(files_of(self._folder).values())
        low, high = 0, len(files) - 1
        while low < high:
            middle = (low + high + 1) // 2
            begin = self._begins_at(files[middle])
            while begin is None and middle > low + 1:  # what cannot be read may be anywhere
                middle -= 1
                begin = self._begins_at(files[middle])
            if begin is not None and begin <= after:
                low = middle
            else:
                high = middle - 1
        return files[low].first_seq if files else 0

    def _begins_at(self, file: Segment | LakeFile) -> Place | None:
        """Return the place of the last event before a file; ``None`` where it does not say that."""
        try:
            if isinstance(file, Segment):
                values = _START.decode(first_line(file.path) or b"{}").values
            else:
                values = self._start_in_lake(file)
        except (OSError, duckdb.Error, msgspec.MsgspecError):
            return None
        if values.gateway != self._gateway:
            return None
        made = [(int(epoch), number) for epoch, number in values.events.items() if epoch.isdecimal()]
        return max(made, default=(0, 0))

    def _start_in_lake(self, file: LakeFile) -> _StartValues:
        table = f"read_parquet([{literal(str(file.path))}])"
        query = f'FROM {table} SELECT "values" WHERE seq = $first'
        with database(self._folder, memory_mebibytes=_MEMORY_MEBIBYTES, threads=1) as opened:
            found = opened.execute(query, {"first": file.first_seq}).fetchone()
        return _VALUES.decode(str(found[0])) if found else _StartValues()


class _StartValues(msgspec.Struct):
    gateway: str = ""
    events: dict[str, int] = {}


class _Start(msgspec.Struct):
    values: _StartValues = msgspec.field(default_factory=_StartValues)


assert EVENTS in _StartValues.__struct_fields__

_RECORD: Final = msgspec.json.Decoder(LogRecord)
_START: Final = msgspec.json.Decoder(_Start)
_VALUES: Final = msgspec.json.Decoder(_StartValues)
