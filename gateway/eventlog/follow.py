"""The end of the log, and the records committed after it: over rotation, compaction, restarts."""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import duckdb
import msgspec

from gateway.eventlog.block import Block, Damage, DamageError
from gateway.eventlog.parquet import COLUMNS, database, files_as_table, first_line_of, literal
from gateway.eventlog.query import line_of_row
from gateway.eventlog.record import RecordKind
from gateway.eventlog.segment import LakeFile, Segment, lake_files, list_segments, read_segment, scan_segment

HOW_THINGS_STAND = frozenset({RecordKind.SNAPSHOT, RecordKind.SCHEMA})
"""Kinds of records at each segment's head that contain nothing new: thousands of them, each time."""

CHANGES = frozenset(RecordKind) - HOW_THINGS_STAND
"""Kinds of records of changes and events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A choice of records. An empty collection, and ``None``, choose all.

    Attributes:
        kinds: kinds of records.
        sources: names of sources.
        classes: classes of objects: ``queue``, or ``rabbitmq:queue``.
        events: names of events.
        objects: an object's name, ``object_id`` or native id.
        severities: severities of events.
        after: ingested then or later; with a time zone.
        before: ingested before then; with a time zone.
    """

    kinds: Collection[str] = ()
    sources: Collection[str] = ()
    classes: Collection[str] = ()
    events: Collection[str] = ()
    objects: Collection[str] = ()
    severities: Collection[str] = ()
    after: dt.datetime | None = None
    before: dt.datetime | None = None

    def has(self, record: Mapping[str, object]) -> bool:
        """Return whether ``record``, a line's fields by name, is chosen. One without time is at no time."""
        return (
            _one_of(self.kinds, record.get("kind"))
            and _one_of(self.sources, record.get("source"))
            and _one_of(self.events, record.get("event"))
            and _one_of(self.severities, record.get("severity"))
            and _one_of(self.classes, record.get("class"), f"{record.get('package')}:{record.get('class')}")
            and _one_of(self.objects, *map(record.get, ("object_name", "object_id", "native_id")))
            and self._in_time(record.get("ingest_ts"))
        )

    def condition(self) -> tuple[str, dict[str, object]]:
        """Return the selection as a condition of SQL, and its parameters by name."""
        parts: list[str] = []
        parameters: dict[str, object] = {}

        def add(name: str, template: str, chosen: Collection[str]) -> None:
            if chosen:
                parts.append(template.format(f"${name}"))
                parameters[name] = sorted(chosen)

        add("kinds", "list_contains({}, kind)", self.kinds)
        add("sources", "list_contains({}, source)", self.sources)
        add("events", "list_contains({}, event)", self.events)
        add("severities", "list_contains({}, severity)", self.severities)
        add(
            "classes",
            "(list_contains({0}, class) OR list_contains({0}, package || ':' || class))",
            self.classes,
        )
        add("objects", "list_has_any({0}, [object_name, object_id, native_id])", self.objects)
        for name, comparison, time in (("after", ">=", self.after), ("before", "<", self.before)):
            if time is not None:
                parts.append(f"ingest_ts {comparison} ${name}")
                parameters[name] = time
        return " AND ".join(parts) or "true", parameters

    def _in_time(self, text: object) -> bool:
        if self.after is None and self.before is None:
            return True
        try:
            time = dt.datetime.fromisoformat(str(text))
        except ValueError:
            return False
        if time.tzinfo is None:
            return False
        return (self.after is None or time >= self.after) and (self.before is None or time < self.before)


def _one_of(chosen: Collection[str], *found: object) -> bool:
    return not chosen or any(isinstance(value, str) and value in chosen for value in found)


Cleared: TypeAlias = Callable[[Mapping[str, object]], dict[str, object] | None]
"""Returns a record as its reader may see it; ``None`` where nothing of it."""

_MEMORY_MEBIBYTES: Final = 512
_ROWS: Final = 1000
_SEQS: Final = 50_000


class LogEnd:
    """Yields the last records of a log, then new ones.

    Attributes:
        remarks: parts of the log that could not be read, in words; the caller takes them out.
    """

    def __init__(self, folder: Path, selection: Selection, cleared: Cleared | None = None) -> None:
        """Store folder and selection; nothing is read yet.

        Args:
            folder: the log's folder.
            selection: selects the records that are returned.
            cleared: returns a record as the reader may see it, ``None`` where nothing of it; it also gets the
                schemas of segments that are read, whatever is selected. The selection then applies to the
                result, so that it finds nothing by what is hidden.
        """
        self._folder = folder
        self._selection = selection
        self._cleared = cleared
        kinds = (
            {*selection.kinds, *([] if cleared is None else [RecordKind.SCHEMA])} if selection.kinds else ()
        )
        self._marks = tuple(b'"kind":"%s"' % kind.encode() for kind in kinds)
        self._first_seq = 0  # of the file that is read; 0 before there is one
        self._offset = 0  # in it, if it is a segment
        self._next_seq = 0  # of the next record to return
        self.remarks: list[str] = []

    def last(self, count: int) -> list[bytes]:
        """Return the last ``count`` records at most, oldest first, as lines without ends; later ones are new.

        Raises:
            OSError: the log cannot be read.
        """
        lines: deque[bytes] = deque()
        files = files_of(self._folder)
        self._stand_at_the_end(files)
        lake = [file for file in files.values() if isinstance(file, LakeFile)]
        for file in reversed(files.values()):
            if len(lines) >= count or isinstance(file, LakeFile):
                break  # what is in the lake is older
            lines.extendleft(reversed(self._end_of(file, count - len(lines))))
        if len(lines) < count and lake:
            lines.extendleft(reversed(self._end_of_lake(lake, count - len(lines))))
        return list(lines)

    def new(self) -> Iterator[bytes]:
        """Return records committed since the last call, as lines without their ends.

        Raises:
            OSError: the log cannot be read.
        """
        while True:
            files = files_of(self._folder)
            if not self._first_seq and files:
                self._begin(next(iter(files)))
            file = files.get(self._first_seq)
            try:
                if isinstance(file, Segment):
                    yield from self._new_of_segment(file)
                elif file is not None:
                    yield from self._new_of_lake_file(file)
            except FileNotFoundError:
                continue  # renamed, or in the lake by now
            if isinstance(file, Segment) and file.is_open:
                return
            following = [first for first in files if first > self._first_seq]
            if not following:
                return
            if following[0] > self._next_seq:
                self.remarks.append(f"seq {self._next_seq} to {following[0] - 1} are gone")
            self._begin(following[0])

    def begin(self, first_seq: int) -> None:
        """Go to the begin of the file whose first record has this seq: all of its records are new."""
        self._next_seq = 0
        self._begin(first_seq)

    def _begin(self, first_seq: int) -> None:
        self._first_seq = first_seq
        self._offset = 0
        self._next_seq = max(self._next_seq, first_seq)

    def _stand_at_the_end(self, files: dict[int, Segment | LakeFile]) -> None:
        """Go to the end of the newest file: its committed records are old, all later ones are new."""
        if not files:
            return
        newest = next(reversed(files.values()))
        self._begin(newest.first_seq)
        if isinstance(newest, Segment):
            for found in scan_segment(newest.path):
                if isinstance(found, Block):
                    self._offset, self._next_seq = found.end, found.last_seq + 1
        else:
            # No segment at all: the lake shows where it ends when something follows.
            self._next_seq = self._last_seq(newest) + 1

    def _read(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the selected lines, as the reader may see them."""
        for line in lines:
            # Most lines are of other kinds: they need not be taken apart.
            if self._marks and not any(mark in line for mark in self._marks):
                continue
            try:
                record = msgspec.json.decode(line, type=dict[str, object])
            except msgspec.DecodeError:
                continue
            is_selected = self._selection.has(record)
            if self._cleared is None:
                if is_selected:
                    yield line
                continue
            if not is_selected and record.get("kind") != RecordKind.SCHEMA:
                continue  # with fewer fields it would not be selected either
            seen = self._cleared(record)
            if seen is not None and self._selection.has(seen):
                yield msgspec.json.encode(seen)

    def _lines_of(self, block: Block) -> Iterable[bytes]:
        """Return the lines of a block; none where it has no record of a selected kind."""
        has_any = not self._marks or any(mark in block.lines for mark in self._marks)
        return block.split() if has_any else ()

    def _end_of(self, segment: Segment, count: int) -> deque[bytes]:
        found: deque[bytes] = deque(maxlen=count)
        try:
            for block in scan_segment(segment.path):
                if isinstance(block, Block):
                    if block.first_seq < self._next_seq:
                        found.extend(self._read(self._lines_of(block)))
                elif not (segment.is_open and block.unfinished):
                    self._remark(segment, block)
        except FileNotFoundError:
            self.remarks.append(f"{segment.path}: went while it was read")
        return found

    def _end_of_lake(self, files: list[LakeFile], count: int) -> deque[bytes]:
        """Return at most the last ``count`` lines of the lake; reads the newest file, then twice as many."""
        found: deque[bytes] = deque()
        condition, parameters = self._selection.condition()
        left, many = list(files), 1
        with database(self._folder, memory_mebibytes=_MEMORY_MEBIBYTES, threads=2) as opened:
            while left and len(found) < count:
                left, part = left[:-many], left[-many:]
                many *= 2
                found.extendleft(self._rows(opened, part, condition, parameters, count - len(found)))
        return found

    def _rows(
        self,
        opened: duckdb.DuckDBPyConnection,
        files: list[LakeFile],
        condition: str,
        parameters: dict[str, object],
        count: int,
    ) -> list[bytes]:
        """Return at most the last ``count`` lines of some files, newest first."""
        table = files_as_table([file.path for file in files])
        # Of what the reader may not see, any number of rows may be before those that are wanted.
        limit = f"LIMIT {count:d}" if self._cleared is None else ""
        query = f"FROM {table} WHERE {condition} ORDER BY seq DESC {limit}"
        found: list[bytes] = []
        try:
            rows = opened.execute(query, parameters or None)
            while len(found) < count and (some := rows.fetchmany(_ROWS)):
                lines = [line_of_row(tuple(COLUMNS), row) for row in some]
                found.extend(lines if self._cleared is None else self._read(lines))
        except duckdb.Error as error:
            self.remarks.append(f"the lake cannot be read: {first_line_of(error)}")
            return []
        return found[:count]

    def _new_of_segment(self, segment: Segment) -> Iterator[bytes]:
        try:
            # As if it were open: behind what is whole there may be more soon.
            reading = Segment(segment.first_seq, segment.path, is_open=True)
            for block in read_segment(reading, self._offset, self._next_seq):
                self._offset, self._next_seq = block.end, block.last_seq + 1
                yield from self._read(self._lines_of(block))
        except DamageError as error:
            if not segment.is_open:
                self._remark(segment, error.damage)

    def _new_of_lake_file(self, file: LakeFile) -> Iterator[bytes]:
        since = self._next_seq
        last = self._last_seq(file)
        condition, parameters = self._selection.condition()
        # A part at a time: a file may have very many, and what reads them may be in no hurry.
        while since <= last:
            until, self._next_seq = min(since + _SEQS, last + 1), last + 1
            part = f"({condition}) AND seq >= {since:d} AND seq < {until:d}"
            with database(self._folder, memory_mebibytes=_MEMORY_MEBIBYTES, threads=1) as opened:
                rows = self._rows(opened, [file], part, parameters, _SEQS)
            yield from reversed(rows)
            since = until

    def _last_seq(self, file: LakeFile) -> int:
        with database(self._folder, memory_mebibytes=_MEMORY_MEBIBYTES, threads=1) as opened:
            try:
                found = opened.execute(
                    f"FROM read_parquet([{literal(str(file.path))}]) SELECT max(seq)"
                ).fetchone()
            except duckdb.Error as error:
                self.remarks.append(f"{file.path}: cannot be read: {first_line_of(error)}")
                return file.first_seq
        return int(found[0]) if found and found[0] is not None else file.first_seq

    def _remark(self, segment: Segment, damage: Damage) -> None:
        self.remarks.append(f"{segment.path}: {damage}")


def files_of(folder: Path) -> dict[int, Segment | LakeFile]:
    """Return files by first seq, in order; a segment takes precedence over the lake's file made of it."""
    # First the segments: one that is compacted in between is then found in both lists, instead of in none.
    segments = list_segments(folder)
    found: dict[int, Segment | LakeFile] = {file.first_seq: file for file in lake_files(folder)}
    found.update({segment.first_seq: segment for segment in segments})
    return dict(sorted(found.items()))
