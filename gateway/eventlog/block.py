"""Blocks of the event log: records to lines with a commit line behind them, and octets back to blocks.

The form is specified in ``docs/event-log.md``, "Lines". Writing: a `BlockDraft` takes records, each encoded
once, and is sealed with its commit line. Reading: a `BlockScanner` takes octets in pieces of any size and
finds what is whole; all else is returned as `Damage`, and it goes on behind it. Here is no file and no clock.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from gateway.eventlog.record import AUDITED_KINDS, COMMIT_KIND, AnyRecord, LogRecord, ObjectChange

MAX_BLOCK_RECORDS: Final = 2_500
"""The maximum number of records of one block: larger ones are slower to write and to read."""

MAX_RECORD_OCTETS: Final = 1 << 20
"""The maximum size of a line with its end; a larger record is written without its values, and says so."""

FULL_BLOCK_OCTETS: Final = 4 << 20
"""The size from which a block takes no further record."""

MAX_BLOCK_OCTETS: Final = FULL_BLOCK_OCTETS + MAX_RECORD_OCTETS
"""The maximum size of the record lines of a block; a reader looks no further for a commit line."""

_MAX_LOG_ID: Final = 64
_MAX_COMMIT_LINE: Final = 256
_SHOWN_OCTETS: Final = 40
_COMMA, _LINE_END = b",\n"
_LOG_ID: Final = f"[0-9A-Za-z-]{{1,{_MAX_LOG_ID}}}"
_LINE_BEGIN: Final = b'{"log_id":"'
_A_BLOCK: Final = "a block and its commit line"
_MARK: Final = b'","kind":"%s","seq":' % COMMIT_KIND.encode()
_BEFORE_MARK: Final = len(b"\n") + len(_LINE_BEGIN) + _MAX_LOG_ID
_COMMIT_LINE: Final = re.compile(
    rb'\{"log_id":"(?P<log_id>%s)%s(?P<seq>[0-9]{1,19}),"n":(?P<n>[0-9]{1,9}),"len":(?P<len>[0-9]{1,9}),'
    rb'"crc":"(?P<crc>[0-9a-f]{8})"\}\n' % (_LOG_ID.encode(), re.escape(_MARK))
)


@dataclass(frozen=True, slots=True)
class Block:
    """A whole block: its commit line fits its octets, and each line has its required seq.

    Attributes:
        log_id: identity of the log.
        first_seq: the seq of its first record; each further line has one more.
        last_seq: the seq of its last record.
        offset: its beginning in the scanned octets.
        end: the offset behind its commit line.
        lines: the record lines with their line ends, without the commit line.
    """

    log_id: str
    first_seq: int
    last_seq: int
    offset: int
    end: int
    lines: bytes

    def split(self) -> list[bytes]:
        """Return the record lines without their line ends, in order."""
        return self.lines.split(b"\n")[:-1]


@dataclass(frozen=True, slots=True)
class Damage:
    """Octets that are no whole block.

    Attributes:
        offset: their beginning in the scanned octets.
        end: where a block may begin again.
        expected: a description of the expected octets.
        found: a description of the octets found.
        unfinished: nothing contradicts a block that is still being written: the octets just end.
    """

    offset: int
    end: int
    expected: str
    found: str
    unfinished: bool = False

    def __str__(self) -> str:
        return f"octet {self.offset}: expected {self.expected}, found {self.found}"


class DamageError(Exception):
    """The octets read are no log; ``damage`` is the `Damage`."""

    def __init__(self, where: object, damage: Damage) -> None:
        super().__init__(f"{where}: {damage}")
        self.damage = damage


def is_log_id(text: str) -> bool:
    """Return whether ``text`` may identify a log: letters, digits and hyphens, as in a UUID."""
    return re.fullmatch(_LOG_ID, text) is not None


@dataclass(frozen=True, slots=True)
class CommitLine:
    """The content of a commit line: identity of the log, seq of the last record, number of records."""

    log_id: str
    seq: int
    records: int


def read_commit_line(line: bytes) -> CommitLine | None:
    """Parse a line with its end, without further checks; ``None`` where it is no commit line."""
    match = _COMMIT_LINE.fullmatch(line)
    return match and CommitLine(match["log_id"].decode(), int(match["seq"]), int(match["n"]))


class BlockDraft:
    """A block that is being filled; the writer's half.

    Attributes:
        first_seq: the seq of the first record.
        records: the number of its records.
        lines: the lines so far, and the commit line when it is sealed.
    """

    __slots__ = ("_crc", "_log_id", "_prefix", "_sealed", "_summed", "first_seq", "lines", "records")

    def __init__(self, log_id: str, first_seq: int) -> None:
        assert is_log_id(log_id)
        self._log_id = log_id
        # Made once: only the number differs from line to line.
        self._prefix = b'{"log_id":"%s","seq":%%d,' % log_id.encode()
        self.first_seq = first_seq
        self.records = 0
        self.lines = bytearray()
        self._crc = 0
        self._summed = 0  # octets that it is of
        self._sealed = False

    @property
    def next_seq(self) -> int:
        """The seq of the record that is added next."""
        return self.first_seq + self.records

    @property
    def is_full(self) -> bool:
        """Whether it should take no further record."""
        return self.records >= MAX_BLOCK_RECORDS or len(self.lines) >= FULL_BLOCK_OCTETS

    def add(self, record: AnyRecord) -> int:
        """Append a record, also to a full block; one that is too large is recorded without its values.

        Returns:
            The size of its line, in octets.

        Raises:
            TypeError, ValueError: a value has no form in JSON; the block is as it was.
        """
        lines = self.lines
        before = len(lines)
        lines += self._prefix % (self.first_seq + self.records)
        # The record's own opening brace goes where the prefix's comma is, and is then made that comma.
        brace = len(lines) - 1
        try:
            _ENCODE_INTO(record, lines, brace)
        except (TypeError, ValueError):
            del lines[before:]
            raise
        lines[brace] = _COMMA
        lines.append(_LINE_END)
        octets = len(lines) - before
        if octets > MAX_RECORD_OCTETS:
            del lines[before:]
            # This cannot recur: what is left has texts of a bounded length.
            return self.add(without_values(record, octets))
        self.records += 1
        return octets

    def add_all(self, records: Iterable[AnyRecord], ingest_ts: str, octets: int) -> int:
        """Append records that need no special treatment; quicker than `add` for each.

        It ends where the block is full, after so many ``octets``, and before a record whose time is not
        ``ingest_ts``, which is audited, too large, or has no form in JSON; `add` is for that one.

        Returns:
            The number of records appended.
        """
        lines, prefix = self.lines, self._prefix
        first = seq = self.next_seq
        end = len(lines)
        full_seq, full = self.first_seq + MAX_BLOCK_RECORDS, min(FULL_BLOCK_OCTETS, end + octets)
        for record in records:
            if seq >= full_seq or end >= full or record.ingest_ts != ingest_ts:
                break
            # Nearly all records are changes of objects: their kind needs no look.
            if type(record) is LogRecord and record.kind in AUDITED_KINDS:
                break
            lines += prefix % seq
            brace = len(lines) - 1
            try:
                _ENCODE_INTO(record, lines, brace)
            except (TypeError, ValueError):
                del lines[end:]
                break
            lines[brace] = _COMMA
            lines.append(_LINE_END)
            begin, end = end, len(lines)
            if end - begin > MAX_RECORD_OCTETS:
                del lines[begin:]
                break
            seq += 1
        self.records += seq - first
        self._sum()
        return seq - first

    def seal(self) -> bytearray:
        """Return the whole block as it is written, with the commit line appended if it is missing."""
        if self._sealed:
            return self.lines
        assert self.records
        self._sealed = True
        self._sum()
        commit = b'{"log_id":"%s%s%d,"n":%d,"len":%d,"crc":"%08x"}\n' % (
            self._log_id.encode(),
            _MARK,
            self.next_seq - 1,
            self.records,
            len(self.lines),
            self._crc,
        )
        self.lines += commit
        return self.lines

    def _sum(self) -> None:
        """Add to the CRC the lines that are not in it yet; best soon after they were made."""
        # A slice of a bytearray would be a copy. The view must end before the lines grow again.
        with memoryview(self.lines) as lines:
            self._crc = zlib.crc32(lines[self._summed :], self._crc)
        self._summed = len(self.lines)


class BlockScanner:
    """Finds blocks in octets; holds no more of them than a block may have.

    Every byte is returned, in order and once, as part of a `Block` or of a `Damage`.
    """

    def __init__(self, offset: int = 0) -> None:
        """Begin at ``offset`` of a file, where a block begins."""
        self._offset = offset  # of the first octet that waits
        self._waiting = bytearray()
        self._searched = 0
        self._spoilt: int | None = None  # where octets began that were given up, waiting for their end

    def feed(self, octets: bytes) -> Iterator[Block | Damage]:
        """Yield the blocks and damages completed by the next octets; exhaust it before more is fed."""
        self._waiting += octets
        while (found := self._commit_line()) is not None:
            yield self._judged(*found)
        if len(self._waiting) > MAX_BLOCK_OCTETS + _MAX_COMMIT_LINE:
            # No commit line where one must be. What may begin one is kept.
            self._spoilt = self._offset if self._spoilt is None else self._spoilt
            self._cut(len(self._waiting) - _MAX_COMMIT_LINE)

    def finish(self) -> Damage | None:
        """Return the damage behind the last commit line, when there are no more octets; ``None`` for none."""
        if not self._waiting and self._spoilt is None:
            return None
        begun = bytes(self._waiting[: len(_LINE_BEGIN)])
        # A file system may show zeros where a power cut came between the size and the data: these are damage,
        # and no block in the making.
        unfinished = self._spoilt is None and _LINE_BEGIN.startswith(begun) and 0 not in self._waiting
        offset = self._offset if self._spoilt is None else self._spoilt
        found = f"{shown(bytes(self._waiting[:_SHOWN_OCTETS]))} and no commit line"
        self._cut(len(self._waiting))
        self._spoilt = None
        return Damage(offset, self._offset, _A_BLOCK, found, unfinished)

    def _commit_line(self) -> tuple[int, re.Match[bytes]] | None:
        """Return the offset and the match of the next commit line; ``None`` while there is no whole one."""
        waiting = self._waiting
        while (mark := waiting.find(_MARK, self._searched)) >= 0:
            end = waiting.find(b"\n", mark, mark + _MAX_COMMIT_LINE) + 1
            # The line's end has not arrived yet: the search goes on from here.
            if not end and len(waiting) < mark + _MAX_COMMIT_LINE:
                self._searched = mark
                return None
            self._searched = mark + 1
            # Values may hold the same octets, but not at the beginning of a line.
            start = waiting.rfind(b"\n", max(mark - _BEFORE_MARK, 0), mark) + 1
            if end and (start or mark < _BEFORE_MARK):
                match = _COMMIT_LINE.fullmatch(bytes(waiting[start:end]))
                if match is not None:
                    return start, match
        # A mark may begin in these octets and end in the next ones.
        self._searched = max(self._searched, len(waiting) - len(_MARK))
        return None

    def _judged(self, length: int, commit: re.Match[bytes]) -> Block | Damage:
        begin, spoilt = self._offset, self._spoilt
        with memoryview(self._waiting) as waiting:
            # The only copy that is made of a block when it is read.
            lines = bytes(waiting[:length])
        self._cut(length + len(commit[0]))
        self._spoilt = None
        if spoilt is not None:
            return Damage(spoilt, self._offset, _A_BLOCK, f"{begin + length - spoilt} octets")
        return _block(lines, commit, begin, self._offset)

    def _cut(self, length: int) -> None:
        del self._waiting[:length]
        self._offset += length
        self._searched = 0


def shown(octets: bytes) -> str:
    """Return a stranger's octets in printable form: a Python literal of at most 40 of them."""
    return repr(octets[:_SHOWN_OCTETS])[1:]


def _block(lines: bytes, commit: re.Match[bytes], offset: int, end: int) -> Block | Damage:
    """Return the block, or the damage where its lines contradict their commit line."""
    last_seq = int(commit["seq"])
    first_seq = last_seq - int(commit["n"]) + 1
    contradiction = _outer_contradiction(lines, commit, first_seq) or _inner_contradiction(
        lines, commit["log_id"], first_seq, last_seq
    )
    if contradiction is not None:
        return Damage(offset, end, *contradiction)
    return Block(commit["log_id"].decode(), first_seq, last_seq, offset, end, lines)


def _outer_contradiction(lines: bytes, commit: re.Match[bytes], first_seq: int) -> tuple[str, str] | None:
    """Return a contradiction of the lines to the commit line: expected and found; ``None`` for none."""
    octets, crc = int(commit["len"]), commit["crc"].decode()
    if len(lines) != octets:
        return f"{octets} octets before the commit line", f"{len(lines)}"
    if (found := f"{zlib.crc32(lines):08x}") != crc:
        return f"octets with CRC {crc}", found
    records = int(commit["n"])
    if first_seq < 1 or not 1 <= records <= MAX_BLOCK_RECORDS or octets > MAX_BLOCK_OCTETS:
        return "a block within its bounds", f"{records} records from seq {first_seq} in {octets} octets"
    return None


def _inner_contradiction(
    lines: bytes, log_id: bytes, first_seq: int, last_seq: int
) -> tuple[str, str] | None:
    """Return where a line is missing, foreign or too much: expected and found; ``None`` for none."""
    # Each line is compared although the CRC fits: the CRC says that the octets are those that were written,
    # not that they belong here.
    prefix = b'{"log_id":"%s","seq":%%d,' % log_id
    start = 0
    for seq in range(first_seq, last_seq + 1):
        line = start
        start = lines.find(b"\n", start) + 1
        if not (start and lines.startswith(prefix % seq, line)):
            return f"a line of this log with seq {seq}", shown(lines[line : line + _SHOWN_OCTETS])
    if start != len(lines):
        return f"no line behind seq {last_seq}", shown(lines[start : start + _SHOWN_OCTETS])
    return None


def without_values(record: AnyRecord, octets: int) -> LogRecord:
    """Return the record without its values, with a text that says so.

    Args:
        record: one that is too large for a line.
        octets: the size of its line.
    """
    if isinstance(record, ObjectChange):
        record = record.record()
    return LogRecord(
        kind=record.kind,
        ingest_ts=record.ingest_ts,
        source=_cut_text(record.source),
        package=_cut_text(record.package),
        class_name=_cut_text(record.class_name),
        object_id=_cut_text(record.object_id),
        object_name=_cut_text(record.object_name),
        row=record.row,
        event_id=_cut_text(record.event_id),
        event=_cut_text(record.event),
        severity=_cut_text(record.severity),
        text=f"a record of {octets} octets is too large: it is recorded without its values",
        sample_ts=record.sample_ts,
        create_ts=record.create_ts,
        delete_ts=record.delete_ts,
        lost=record.lost,
        state=_cut_text(record.state),
        principal=_cut_text(record.principal),
        outcome=_cut_text(record.outcome),
        operation_id=_cut_text(record.operation_id),
        operation=_cut_text(record.operation),
        origin=_cut_text(record.origin),
        method=_cut_text(record.method),
        element=_cut_text(record.element),
        code=record.code,
        latency_ns=record.latency_ns,
        attempts=record.attempts,
    )


def _cut_text(text: str | None) -> str | None:
    return None if text is None else text[:1024]


_ENCODE_INTO: Final = msgspec.json.Encoder().encode_into
