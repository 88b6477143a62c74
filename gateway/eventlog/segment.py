"""The files of the log: segments, files of the lake, and the file ``LOG``; their names and contents.

``segments/SEQ.open.jsonl`` is being written, ``segments/SEQ.jsonl`` is complete; ``SEQ`` is that of the first
record, with twenty digits. Reading holds one block of a segment at a time. A reader that works while the log
is written sees the open segment grow, renamed when it is complete, and gone when the lake has it.

``lake/dt=YYYY-MM-DD/hour=HH/LOG_ID-FIRST_SEQ.parquet``: day and hour, in UTC, of the ``ingest_ts`` of all its
records; the seq of the first one.

``LOG`` has the identity of the log, its progress, and the first record of its last whole state.
``log_id`` never changes. ``next_seq`` and ``last_ts`` are of the time when the last segment was completed:
compaction may then remove that segment, and with it the place where they could be read.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from gateway.eventlog.audit_chain import ChainEnd
from gateway.eventlog.block import (
    MAX_RECORD_OCTETS,
    Block,
    BlockScanner,
    Damage,
    DamageError,
    is_log_id,
    shown,
)
from gateway.eventlog.disk import EventLogError, NewerLogError
from gateway.eventlog.record import VERSION as FORM
from gateway.eventlog.record import RecordKind
from gateway.file_owners import reason_of

SEGMENTS: Final = "segments"
"""The folder of the segments in that of the log."""

LOST: Final = "lost"
"""The folder of data cut off by recovery and of damaged segments, in that of the log."""

_SEGMENT_NAME: Final = re.compile(r"(?P<seq>[0-9]{20})(?P<open>\.open)?\.jsonl")
_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """A segment's file.

    Attributes:
        first_seq: the seq of its first record.
        path: its path.
        is_open: it is being written, or was when its writer ended.
    """

    first_seq: int
    path: Path
    is_open: bool


def segment_path(folder: Path, first_seq: int, *, is_open: bool) -> Path:
    """Return the path of a segment of the log in ``folder``."""
    return folder / SEGMENTS / f"{first_seq:020}{'.open' if is_open else ''}.jsonl"


def list_segments(folder: Path) -> list[Segment]:
    """Return the segments of the log in ``folder``, oldest first; files with other names are passed over.

    So is an open one beside the complete one that it became, as copies of a log in several turns have it.

    Raises:
        OSError: the folder is there, but cannot be read.
    """
    try:
        names = [entry.name for entry in (folder / SEGMENTS).iterdir()]
    except FileNotFoundError:
        return []
    matches = [match for name in names if (match := _SEGMENT_NAME.fullmatch(name)) is not None]
    complete = {match["seq"] for match in matches if match["open"] is None}
    return sorted(
        Segment(int(match["seq"]), folder / SEGMENTS / match[0], match["open"] is not None)
        for match in matches
        if match["open"] is None or match["seq"] not in complete
    )


def scan_segment(path: Path, offset: int = 0) -> Iterator[Block | Damage]:
    """Yield all blocks and damages of a file, in order.

    Args:
        path: its path.
        offset: where a block begins: 0, or the ``end`` of one that was read before.

    Raises:
        OSError: it cannot be read.
    """
    scanner = BlockScanner(offset)
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        while octets := file.read(_PIECE):
            yield from scanner.feed(octets)
    if (rest := scanner.finish()) is not None:
        yield rest


def read_segment(segment: Segment, offset: int = 0, next_seq: int = 0) -> Iterator[Block]:
    """Yield the blocks of a segment, checked against each other: one log, and no seq is missing.

    An open segment ends with its last whole block, because behind it another may be in the making; to follow
    it, go on later with the ``end`` and the ``last_seq + 1`` of the block read last.

    Args:
        segment: as listed.
        offset: 0, or the ``end`` of the block read last.
        next_seq: the seq of the first record at ``offset``; default: that of the segment's name.

    Raises:
        DamageError: something else than such blocks is there.
        OSError: it cannot be read.
    """
    expected = next_seq or segment.first_seq
    log_id = ""
    for found in scan_segment(segment.path, offset):
        if isinstance(found, Damage):
            # A writer may be about to finish it.
            if segment.is_open and found.unfinished:
                return
            raise DamageError(segment.path, found)
        if found.first_seq != expected:
            raise DamageError(
                segment.path, Damage(found.offset, found.end, f"seq {expected}", f"seq {found.first_seq}")
            )
        if found.log_id != (log_id or found.log_id):
            raise DamageError(
                segment.path, Damage(found.offset, found.end, f"log {log_id}", f"log {found.log_id}")
            )
        expected, log_id = found.last_seq + 1, found.log_id
        yield found


def first_line(path: Path) -> bytes:
    """Return the first line of a segment, without its end; empty where it has none yet.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        line, end, _ = _read(file, MAX_RECORD_OCTETS).partition(b"\n")
    return line if end else b""


class _FormOfSegment(msgspec.Struct):
    version: int = 0


class _Head(msgspec.Struct):
    kind: str = ""
    values: _FormOfSegment = msgspec.field(default_factory=_FormOfSegment)


_HEAD: Final = msgspec.json.Decoder(_Head)


def form_of_segment(segment: Segment) -> int:
    """Return the version of the records' form in a segment; 0 where its first record does not say that.

    Raises:
        OSError: it cannot be read.
    """
    try:
        head = _HEAD.decode(first_line(segment.path))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0  # damaged, or without a head: the records speak for themselves
    return head.values.version if head.kind == RecordKind.START.value else 0


def check_form(what: str, form: int) -> None:
    """Check that this gateway knows a form of records: otherwise their unknown fields would be lost.

    Raises:
        NewerLogError: a later version of the gateway wrote them.
    """
    if form > FORM:
        raise NewerLogError(
            f"{what}: written in form {form} of the log by a later version of the gateway, this one knows "
            f"form {FORM}: use that one"
        )


def tail(path: Path, octets: int) -> bytes:
    """Return the last octets of a file, at most so many.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        file.seek(max(file.seek(0, os.SEEK_END) - octets, 0))
        return _read(file, octets)


def _read(file: BinaryIO, octets: int) -> bytes:
    pieces = []
    # An unbuffered file may give less than was asked for.
    while octets and (piece := file.read(octets)):
        pieces.append(piece)
        octets -= len(piece)
    return b"".join(pieces)


@dataclass(slots=True)
class Salvage:
    """The whole blocks of a segment that belong to one log in ascending order; all else is damage.

    Attributes:
        log_id: their log; empty where no block is whole.
        records: the number of their records.
        octets: the size of their lines.
        first_seq: the seq of the first record; 0 where there is none.
        last_seq: the seq of the last record.
        sum_of_seqs: the sum of the seqs of all records.
        end: the end of the last whole block, in octets.
        damages: octets that are no block, and blocks that do not follow on the one before.
    """

    log_id: str = ""
    records: int = 0
    octets: int = 0
    first_seq: int = 0
    last_seq: int = 0
    sum_of_seqs: int = 0
    end: int = 0
    damages: list[Damage] = field(default_factory=list)


def salvage(segment: Segment) -> Salvage:
    """Read a segment to its end.

    Raises:
        OSError: it cannot be read.
    """
    found = Salvage()
    for _ in _whole_blocks(segment, found):
        pass
    return found


def copy_whole_lines(segment: Segment, target: Path) -> Salvage:
    """Write the record lines of a segment's whole blocks into ``target``, a new file.

    Raises:
        OSError: it cannot be read or written.
    """
    found = Salvage()
    with target.open("xb") as file:
        for block in _whole_blocks(segment, found):
            file.write(block.lines)
    return found


def _whole_blocks(segment: Segment, into: Salvage) -> Iterator[Block]:
    least = segment.first_seq
    hole_is_recorded = False
    for found in scan_segment(segment.path):
        if isinstance(found, Damage):
            into.damages.append(found)
            hole_is_recorded = True
            continue
        log_id = into.log_id or found.log_id
        fits = found.log_id == log_id and found.first_seq >= least
        if not fits or (found.first_seq > least and not hole_is_recorded):
            expected, name = f"seq {least} of log {log_id}", f"seq {found.first_seq} of log {found.log_id}"
            into.damages.append(Damage(found.offset, found.end, expected, name))
        if fits:
            _add(found, into)
            least = found.last_seq + 1
            yield found
        hole_is_recorded = not fits


def _add(block: Block, into: Salvage) -> None:
    count = block.last_seq - block.first_seq + 1
    into.log_id = block.log_id
    into.first_seq = into.first_seq or block.first_seq
    into.last_seq = block.last_seq
    into.records += count
    into.octets += len(block.lines)
    # With count, first and last the sum shows whether the file of the lake has each record once.
    into.sum_of_seqs += (block.first_seq + block.last_seq) * count // 2
    into.end = block.end


LAKE: Final = "lake"
"""The folder of the lake, in that of the log."""

DRAFTS: Final = ".tmp-"
"""The beginning of the names of unfinished files; readers of any kind pass over hidden ones."""

_LAKE_NAME: Final = re.compile(r"(?P<log_id>.+)-(?P<first>\d{20})\.parquet", re.DOTALL)
_DAY: Final = re.compile(r"dt=(\d{4}-\d{2}-\d{2})")
_HOUR: Final = re.compile(r"hour=([01]\d|2[0-3])")


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A Parquet file of the lake.

    Attributes:
        path: its path.
        log_id: the log of its records.
        first_seq: the seq of its first record.
        hour: its day and hour, UTC.
    """

    path: Path
    log_id: str
    first_seq: int
    hour: dt.datetime


def lake_file(folder: Path, log_id: str, first_seq: int, ingested: dt.datetime) -> LakeFile:
    """Return the file of the lake for the segment that begins with ``first_seq``.

    Args:
        folder: the log's folder.
        log_id: the identity of the log.
        first_seq: the first seq of the segment.
        ingested: the time when any of its records was ingested; with a time zone.
    """
    hour = ingested.astimezone(dt.UTC).replace(minute=0, second=0, microsecond=0)
    name = f"{log_id}-{first_seq:020}.parquet"
    return LakeFile(
        folder / LAKE / f"dt={hour.date().isoformat()}" / f"hour={hour:%H}" / name, log_id, first_seq, hour
    )


def lake_files(folder: Path) -> list[LakeFile]:
    """Return all files of the lake by log and seq; none where there is no lake.

    Files with other names and drafts are passed over. A folder that is removed while it is listed has no
    files.

    Raises:
        OSError: a folder cannot be listed.
    """
    found = [file for day in _entries(folder / LAKE) for hour in _entries(day) for file in _files(day, hour)]
    return sorted(found, key=lambda file: (file.log_id, file.first_seq))


def _files(day: Path, hour: Path) -> Iterator[LakeFile]:
    begins = _hour_of(day.name, hour.name)
    if begins is None:
        return
    for path in _entries(hour):
        name = _LAKE_NAME.fullmatch(path.name)
        if name and not path.name.startswith("."):
            yield LakeFile(path, name["log_id"], int(name["first"]), begins)


def _hour_of(day: str, hour: str) -> dt.datetime | None:
    found_day, found_hour = _DAY.fullmatch(day), _HOUR.fullmatch(hour)
    if found_day is None or found_hour is None:
        return None
    try:
        date = dt.date.fromisoformat(found_day[1])
    except ValueError:
        return None
    return dt.datetime.combine(date, dt.time(int(found_hour[1])), dt.UTC)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


VERSION: Final = 3
"""The version of ``LOG`` and of the layout of the log's folder; one of an older version is read as it is.

2: ``LOG`` has the end of the audit's chain, and the gateway to which the log belongs. 3: records of form 3,
which a gateway that knows less cannot continue.
"""

_IDENTITY_NAME: Final = "LOG"
_MAX_SEQ: Final = 2**63 - 1
_MAX_OCTETS: Final = 4096
_SEGMENTS_OF_BEFORE: Final = 2
"""The number of segments read of a log without ``standing_seq``: the last may end before its head does."""


class LogIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``LOG``.

    Attributes:
        version: the version of the folder's layout.
        log_id: the identity of the log.
        next_seq: every complete segment ends before it.
        last_ts: ``ingest_ts`` of the last record before ``next_seq``; empty for none.
        standing_seq: the first seq of the last segment whose whole head is on the disk: it and those behind
            it have the whole state. 1 in a log that has none yet; 0 in one of an earlier version.
        trusted_ts: the time that the ages of files were counted from when the last segment was completed:
            a clock that was set forward does not show in it. Empty in a log of an earlier version.
        audit: the number of the last audited record before ``next_seq``; 0 for none.
        audit_hash: its hash, hexadecimal (`gateway.eventlog.audit_chain`); empty for none.
        gateway: the uuid of the gateway to which the log belongs (`gateway.eventlog.ownership`); empty in a
            log of version 1.
        boot: the number of its start that opened the log last.
        adopted: the signed statement by which the log began in the place of another one, until a segment has
            it; else empty.
        adopted_by: the principal who requested that.
    """

    version: int
    log_id: str
    next_seq: int = 1
    last_ts: str = ""
    standing_seq: int = 0
    trusted_ts: str = ""
    audit: int = 0
    audit_hash: str = ""
    gateway: str = ""
    boot: int = 0
    adopted: str = ""
    adopted_by: str = ""

    @property
    def chain_end(self) -> ChainEnd | None:
        """The end of the chain of audited records before ``next_seq``; ``None`` for none."""
        return ChainEnd(self.audit, self.audit_hash) if self.audit else None

    def after(self, last_seq: int, last_ts: str, chain_end: ChainEnd | None, trusted_ts: str) -> LogIdentity:
        """Return the content after a segment was completed.

        Args:
            last_seq: the seq of its last record.
            last_ts: ``ingest_ts`` of that record.
            chain_end: the end of the chain in it; ``None`` where it has no audited records.
            trusted_ts: as the attribute.
        """
        chain_end = chain_end or ChainEnd(self.audit, self.audit_hash)
        return msgspec.structs.replace(
            self,
            next_seq=last_seq + 1,
            last_ts=last_ts,
            trusted_ts=trusted_ts,
            audit=chain_end.number,
            audit_hash=chain_end.hash,
        )

    def text(self) -> str:
        """Return the text of the file."""
        return msgspec.json.encode(self).decode() + "\n"


def identity_path(folder: Path) -> Path:
    """Return the path of ``LOG`` in the log's folder."""
    return folder / _IDENTITY_NAME


def read_identity(folder: Path) -> LogIdentity | None:
    """Return the identity of the log in ``folder``; ``None`` where the file is missing.

    Raises:
        EventLogError: the file is damaged, or of a newer version, or cannot be read.
    """
    path = identity_path(folder)
    try:
        with path.open("rb") as file:
            # A damaged or foreign file of this name may have any size.
            octets = file.read(_MAX_OCTETS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise EventLogError(f"{path}: cannot be read: {reason_of(error, path.parent)}") from error
    try:
        found = msgspec.json.decode(octets, type=LogIdentity)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EventLogError(f"{path}: is damaged, it begins with {shown(octets)}: {WHAT_TO_DO}") from error
    if found.version > VERSION:
        raise NewerLogError(
            f"{path}: the log is of version {found.version}, this gateway knows {VERSION}: use the gateway "
            "that wrote it, or a newer one"
        )
    if found.version < 1 or not is_log_id(found.log_id) or not 1 <= found.next_seq <= _MAX_SEQ:
        raise EventLogError(f"{path}: is damaged, it says {shown(octets)}: {WHAT_TO_DO}")
    return found


def standing_segments(folder: Path, first_seq: int) -> list[Segment]:
    """Return the segments at the end of the log in ``folder`` that have the whole state, oldest first.

    There are several where the core ended before it had recorded the whole state again. The first of them is
    missing where it was removed.

    Args:
        folder: the log's folder.
        first_seq: its `standing_seq`; where that is not known, they are the last two.

    Raises:
        OSError: the folder cannot be read.
    """
    segments = list_segments(folder)
    if not first_seq:
        return segments[-_SEGMENTS_OF_BEFORE:]
    return [segment for segment in segments if segment.first_seq >= first_seq]


def standing_seq(folder: Path) -> int:
    """Return ``standing_seq`` of the log in ``folder``; 0 where ``LOG`` does not have it, or is damaged."""
    with contextlib.suppress(EventLogError):  # opening the log reports what is wrong
        identity = read_identity(folder)
        return identity.standing_seq if identity is not None else 0
    return 0


WHAT_TO_DO: Final = (
    "put back the file as it was, or move the folder away: a new log then begins, and the old one "
    "can still be read where it is"
)
"""The advice where ``LOG`` cannot be trusted: seqs must not be given twice under one ``log_id``."""


def compactable(folder: Path, *, standing: bool = True) -> list[Segment]:
    """Return the segments that wait to be compacted, oldest first.

    These are the complete ones; the newest only where ``LOG`` has its end, because otherwise a writer reads
    from it where to go on.

    Args:
        folder: the log's folder.
        standing: also those from which the next core reads the whole state.

    Raises:
        OSError: the folder cannot be read.
    """
    segments = list_segments(folder)
    newest = segments[-1:]
    if newest and not _is_known_to_end(folder, newest[0]):
        segments.pop()
    # From the last whole head on segments stay: the next core reads there how everything stood, also after
    # two kills in a row.
    left_from = 0 if standing else standing_seq(folder)
    return [
        segment
        for segment in segments
        if not segment.is_open and (not left_from or segment.first_seq < left_from)
    ]


def due(folder: Path) -> list[Segment]:
    """Return the segments that the gateway compacts by itself, oldest first.

    The newest one and those with the whole state stay: the next core reads them, should this one end now.

    Raises:
        OSError: the folder cannot be read.
    """
    newest = list_segments(folder)[-1:]
    return [segment for segment in compactable(folder, standing=False) if segment not in newest]


def _is_known_to_end(folder: Path, segment: Segment) -> bool:
    try:
        identity = read_identity(folder)
    except EventLogError:
        return False
    return identity is not None and identity.next_seq > segment.first_seq
