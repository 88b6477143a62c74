"""Segments, the files that the log is written to: their names, which there are, and what is in them.

``segments/SEQ.open.jsonl`` is being written, ``segments/SEQ.jsonl`` is complete; ``SEQ`` is that of the first
record, with twenty digits. Reading holds one block of a segment at a time. Whoever reads while the log is
written sees the open segment grow, renamed when it is complete, and gone when the lake has it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from gateway.eventlog.block import MAX_RECORD_OCTETS, Block, BlockScanner, Damage, DamageError

SEGMENTS: Final = "segments"
"""The folder of the segments in that of the log."""

LOST: Final = "lost"
"""The folder of what recovery cut off, in that of the log."""

_NAME: Final = re.compile(r"(?P<seq>[0-9]{20})(?P<open>\.open)?\.jsonl")
_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """A segment's file.

    Attributes:
        first_seq: of its first record.
        path: of the file.
        is_open: it is being written, or was when its writer ended.
    """

    first_seq: int
    path: Path
    is_open: bool


def segment_path(folder: Path, first_seq: int, *, is_open: bool) -> Path:
    """Of a segment of the log in ``folder``."""
    return folder / SEGMENTS / f"{first_seq:020}{'.open' if is_open else ''}.jsonl"


def list_segments(folder: Path) -> list[Segment]:
    """The segments of the log in ``folder``, oldest first; files with other names are passed over.

    Raises:
        OSError: the folder is there, but cannot be read.
    """
    try:
        names = [entry.name for entry in (folder / SEGMENTS).iterdir()]
    except FileNotFoundError:
        return []
    matches = [match for name in names if (match := _NAME.fullmatch(name)) is not None]
    return sorted(
        Segment(int(match["seq"]), folder / SEGMENTS / match[0], match["open"] is not None)
        for match in matches
    )


def scan_segment(path: Path, offset: int = 0) -> Iterator[Block | Damage]:
    """All that a file holds, in order: its blocks, and what is no block.

    Args:
        path: of the file.
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
    """The blocks of a segment, held against each other: one log, and no seq is missing.

    An open segment ends with its last whole block, because behind it another may be in the making; to follow
    it, go on later with the ``end`` and the ``last_seq + 1`` of the block read last.

    Args:
        segment: as listed.
        offset: 0, or the ``end`` of the block read last.
        next_seq: of the first record at ``offset``; default: as the segment's name says.

    Raises:
        DamageError: something else than such blocks is there.
        OSError: it cannot be read.
    """
    expected = next_seq or segment.first_seq
    log_id = ""
    for found in scan_segment(segment.path, offset):
        if isinstance(found, Damage):
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
    """The first line of a segment, without its end; empty where it has none yet.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        line, end, _ = _read(file, MAX_RECORD_OCTETS).partition(b"\n")
    return line if end else b""


def tail(path: Path, octets: int) -> bytes:
    """The last octets of a file, at most so many.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        file.seek(max(file.seek(0, os.SEEK_END) - octets, 0))
        return _read(file, octets)


def _read(file: BinaryIO, octets: int) -> bytes:
    pieces = []
    while octets and (piece := file.read(octets)):
        pieces.append(piece)
        octets -= len(piece)
    return b"".join(pieces)


@dataclass(slots=True)
class Salvage:
    """The whole blocks of a segment that belong to one log and go upwards; all else is damage.

    Attributes:
        log_id: of the log; empty where no block is whole.
        records: in whole blocks.
        octets: of their lines.
        first_seq: of the first record; 0 where there is none.
        last_seq: of the last record.
        sum_of_seqs: of all records.
        end: where the last whole block ends, in octets.
        damages: what is no block, or does not go on where the one before ended.
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
    """Write the record lines of what is whole into ``target``, a new file.

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
    into.sum_of_seqs += (block.first_seq + block.last_seq) * count // 2
    into.end = block.end
