"""Verification of the log: each block and file by its CRC and by reading it, no hole, no stray file.

The gateway may run meanwhile: files that come and go are looked up again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from gateway.eventlog.disk import EventLogError
from gateway.eventlog.parquet import ChecksumError, Contents, ParquetError, check, contents, database
from gateway.eventlog.segment import (
    LAKE,
    LOST,
    SEGMENTS,
    LakeFile,
    Segment,
    lake_files,
    list_segments,
    read_identity,
    salvage,
)

_SET_ASIDE: Final = re.compile(r"([0-9]{20})\.damaged\.jsonl")
_ROUNDS: Final = 5
"""The maximum number of times that files are looked up that came, or went, while others were read."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A deviation of the log from what was written.

    Attributes:
        file: its file.
        offset: its offset in octets, where it is known.
        text: its description.
    """

    file: Path
    offset: int | None
    text: str

    def __str__(self) -> str:
        place = "" if self.offset is None else f": octet {self.offset}"
        return f"{self.file}{place}: {self.text}"


@dataclass(slots=True)
class Summary:
    """The result of a verification.

    Attributes:
        segments: the number of files of ``segments/`` with records that are not in the lake.
        lake_files: the number of files of the lake that can be read.
        lost_files: the number of files of ``lost/``: cut off by recovery, or set aside.
        records: the number of records in whole blocks and in the lake.
        octets: the number of octets read.
        uncommitted: octets behind the last commit line of open segments: in the making, or left by a crash.
        first_seq: the first seq, by ``log_id``.
        last_seq: the last seq, by ``log_id``.
        problems: the number of problems found.
        unchecked: those of ``lake_files`` without a checksum: of earlier versions, or of other programs.
    """

    segments: int = 0
    lake_files: int = 0
    lost_files: int = 0
    records: int = 0
    octets: int = 0
    uncommitted: int = 0
    first_seq: dict[str, int] = field(default_factory=dict)
    last_seq: dict[str, int] = field(default_factory=dict)
    problems: int = 0
    unchecked: int = 0


def verify(folder: Path, summary: Summary, progress: Callable[[int, int], None]) -> Iterator[Problem]:
    """Read the whole log; yield each problem as it is found, those of missing seqs last.

    Args:
        folder: the log's folder.
        summary: filled meanwhile.
        progress: called with the number of bytes read, and their total.

    Raises:
        OSError: a folder or file cannot be read.
    """
    verification = _Verification(folder, summary, progress)
    for problem in verification.problems():
        summary.problems += 1
        yield problem


@dataclass(frozen=True, slots=True)
class _Span:
    """The seqs of a file."""

    log_id: str
    first_seq: int
    last_seq: int
    records: int
    file: Path


class _Reader:
    """Reads the files of the lake; after each damaged one it continues with another database.

    DuckDB gives up a whole database for some damage, and would call every file after that damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def restart(self) -> None:
        """Continue with another database."""
        self._stack.close()
        self._open()

    def _open(self) -> None:
        self.database = self._stack.enter_context(database(self._folder, memory_mebibytes=512, threads=1))


class _Verification:
    def __init__(self, folder: Path, summary: Summary, progress: Callable[[int, int], None]) -> None:
        self._folder = folder
        self._summary = summary
        self._progress = progress
        self._read: set[Path] = set()
        # By name, whether open or complete: an open segment that was completed meanwhile is read again.
        self._segments: dict[int, _Span] = {}
        self._lake: dict[tuple[str, int], _Span] = {}
        self._uncommitted: dict[int, int] = {}
        self._log_id: str | None = None

    def problems(self) -> Iterator[Problem]:
        yield from self._identity()
        with _Reader(self._folder) as reader:
            for _ in range(_ROUNDS):
                # Segments first: what goes from there has come to the lake by then.
                waiting = [
                    segment for segment in list_segments(self._folder) if segment.path not in self._read
                ]
                files = [file for file in lake_files(self._folder) if file.path not in self._read]
                if not waiting and not files:
                    break
                paths = [segment.path for segment in waiting] + [file.path for file in files]
                of = self._summary.octets + _octets(paths)
                for segment in waiting:
                    yield from self._segment(segment)
                    self._progress(self._summary.octets, of)
                for file in files:
                    yield from self._lake_file(reader, file)
                    self._progress(self._summary.octets, of)
        # At last: only now all files have been read, also those that came meanwhile.
        yield from self._contiguity()
        yield from self._strays()
        self._summary.lost_files = _visible_files(self._folder / LOST)

    def _identity(self) -> Iterator[Problem]:
        try:
            identity = read_identity(self._folder)
        except EventLogError as error:
            yield Problem(self._folder / "LOG", None, str(error))
            return
        if identity is not None:
            self._log_id = identity.log_id
        elif list_segments(self._folder) or lake_files(self._folder):
            yield Problem(self._folder / "LOG", None, "is missing, although there are files of a log")

    def _segment(self, segment: Segment) -> Iterator[Problem]:
        try:
            found = salvage(segment)
            octets = segment.path.stat().st_size
        except FileNotFoundError:
            return  # renamed, compacted or deleted: the next round looks
        self._read.add(segment.path)
        self._summary.octets += octets
        damages = found.damages
        if segment.is_open:
            # Behind its last commit line anything may stand: it was never acknowledged.
            damages = [damage for damage in damages if damage.offset < found.end]
        self._uncommitted[segment.first_seq] = octets - found.end if segment.is_open else 0
        for damage in damages:
            yield Problem(segment.path, damage.offset, f"expected {damage.expected}, found {damage.found}")
        if found.records:
            self._segments[segment.first_seq] = _Span(
                found.log_id, found.first_seq, found.last_seq, found.records, segment.path
            )
        if found.records and found.log_id != (self._log_id or found.log_id):
            yield Problem(segment.path, 0, f"is of log {found.log_id}, not of {self._log_id}")

    def _lake_file(self, reader: _Reader, file: LakeFile) -> Iterator[Problem]:
        try:
            octets = file.path.stat().st_size
            found = contents(reader.database, file.path)
        except FileNotFoundError:
            return
        except ParquetError as error:
            self._read.add(file.path)
            reader.restart()
            yield Problem(file.path, None, f"cannot be read: {error}")
            return
        self._read.add(file.path)
        self._summary.octets += octets
        self._lake[file.log_id, file.first_seq] = _Span(
            file.log_id, found.first_seq, found.last_seq, found.records, file.path
        )
        yield from self._checksum(reader, file)
        yield from _against_its_name(file, found)

    def _checksum(self, reader: _Reader, file: LakeFile) -> Iterator[Problem]:
        try:
            self._summary.unchecked += not check(reader.database, file.path)
        except FileNotFoundError:
            return
        except ChecksumError as error:
            reader.restart()
            yield Problem(file.path, None, str(error))

    def _contiguity(self) -> Iterator[Problem]:
        before: _Span | None = None
        aside = _set_aside(self._folder)
        for span in self._each_once():
            self._summary.records += span.records
            self._summary.first_seq.setdefault(span.log_id, span.first_seq)
            self._summary.last_seq[span.log_id] = span.last_seq
            if before is not None and before.log_id == span.log_id:
                if span.first_seq > before.last_seq + 1:
                    missing = f"seq {before.last_seq + 1} to {span.first_seq - 1} are missing before it"
                    yield Problem(
                        span.file, None, missing + _named(aside, before.last_seq + 1, span.first_seq)
                    )
                elif span.first_seq <= before.last_seq:
                    last = min(before.last_seq, span.last_seq)
                    yield Problem(span.file, None, f"seq {span.first_seq} to {last} are in {before.file} too")
            elif span.log_id == self._log_id and (named := _named(aside, 1, span.first_seq)):
                # Of what retention took nothing is left, in lost/ neither.
                yield Problem(span.file, None, f"what came before it is missing{named}")
            before = span

    def _strays(self) -> Iterator[Problem]:
        """Yield a problem for each foreign file, which a reader of the whole folder reads, too."""
        found = [path for name in (SEGMENTS, LAKE) for path in sorted((self._folder / name).rglob("*"))]
        ours = {segment.path for segment in list_segments(self._folder)}
        ours |= {file.path for file in lake_files(self._folder)}
        for path in found:
            is_hidden = any(part.startswith(".") for part in path.relative_to(self._folder).parts)
            if path not in ours and not is_hidden and path.is_file():
                yield Problem(path, None, "is no file of the log, and may be read as one: move it away")

    def _each_once(self) -> list[_Span]:
        """Return the spans of all files, by log and seq, without segments beside the file made of them."""
        for log_id, first_seq in self._lake:
            if first_seq in self._segments and self._segments[first_seq].log_id == log_id:
                del self._segments[first_seq]
        self._summary.segments, self._summary.lake_files = len(self._segments), len(self._lake)
        self._summary.uncommitted = sum(self._uncommitted.values())
        spans = [*self._segments.values(), *self._lake.values()]
        return sorted(spans, key=lambda span: (span.log_id, span.first_seq))


def _set_aside(folder: Path) -> dict[int, Path]:
    """Return the damaged segments that compaction set aside, by their first seq."""
    names = (_SET_ASIDE.fullmatch(path.name) for path in (folder / LOST).glob("*"))
    return {int(name[1]): Path(LOST, name[0]) for name in names if name is not None}


def _named(aside: Mapping[int, Path], first: int, behind: int) -> str:
    """Return a text that names set-aside segments with a first seq in this range; empty for none."""
    names = [str(path) for seq, path in sorted(aside.items()) if first <= seq < behind]
    return f": damaged, and set aside as {', '.join(names)}" if names else ""


def _against_its_name(file: LakeFile, found: Contents) -> Iterator[Problem]:
    if found.log_ids != (file.log_id,):
        yield Problem(file.path, None, f"has records of log {', '.join(found.log_ids)}")
    if not found.is_contiguous:
        missing = found.last_seq - found.first_seq + 1 - found.records
        what = f"{missing} are missing" if missing > 0 else "some are there twice"
        yield Problem(file.path, None, f"of seq {found.first_seq} to {found.last_seq} {what}")
    if found.first_seq != file.first_seq:
        yield Problem(file.path, None, f"begins with seq {found.first_seq}")
    if not found.is_of_one_hour or found.earliest.replace(minute=0, second=0, microsecond=0) != file.hour:
        yield Problem(
            file.path, None, f"has records of {found.earliest.isoformat()} to {found.latest.isoformat()}"
        )


def _octets(paths: list[Path]) -> int:
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def _visible_files(folder: Path) -> int:
    try:
        return sum(not entry.name.startswith(".") for entry in folder.iterdir())
    except FileNotFoundError:
        return 0
