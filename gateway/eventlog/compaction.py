"""Compaction: one complete segment becomes one Parquet file of the lake, and is deleted.

The steps, each on the disk before the next: the segment's blocks are checked; a draft is made in a hidden
folder of the lake, with a checksum of its own, and read back; it takes its name; the segment is deleted.
A process that is killed in between leaves a draft, which the next one removes, or a segment beside its file,
which the next one deletes. A file of the lake is never written again while it holds what its segment holds.

A damaged segment is set aside in ``lost/``; the file then has the records of its whole blocks.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Final, Self

import duckdb

from gateway.durable_files import set_mode, sync_folder
from gateway.eventlog.disk import FILE_MODE, FOLDER_MODE, NewerLogError, lock_lake
from gateway.eventlog.parquet import (
    ChecksumError,
    Contents,
    ParquetError,
    UnreadableError,
    check,
    contents,
    database,
    first_line_of,
    write_parquet,
)
from gateway.eventlog.segment import (
    DRAFTS,
    LAKE,
    LOST,
    LakeFile,
    Salvage,
    Segment,
    check_form,
    copy_whole_lines,
    form_of_segment,
    lake_file,
    lake_files,
    salvage,
)

MEMORY_MEBIBYTES: Final = 256
"""For DuckDB's data. Measured: 100,000 records of 650 octets take 200 MB in all, 400,000 take 265 MB."""

_ATTEMPTS: Final = 3


class CompactionError(Exception):
    """A segment cannot be compacted now, and stays as it is; the text says why."""


class CompactionBusyError(Exception):
    """Another process compacts this log."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """The outcome of the compaction of a segment.

    Attributes:
        segment: the segment that was compacted; it is gone.
        file: the file made of it; ``None`` where no block in it is whole.
        records: the number of records of the file.
        octets: the size of the segment.
        file_octets: the size of the file.
        problems: descriptions of the damage.
        set_aside: the present path of a damaged segment.
    """

    segment: Segment
    file: Path | None
    records: int
    octets: int
    file_octets: int
    problems: tuple[str, ...] = ()
    set_aside: Path | None = None


class Compactor:
    """Compacts the log in ``folder``; a context manager that excludes other compactors.

    Raises:
        CompactionBusyError: on entering: another process compacts this log.
        OSError: on entering: the folder cannot be written to.
    """

    def __init__(self, folder: Path, *, memory_mebibytes: int = MEMORY_MEBIBYTES, wait: bool = False) -> None:
        """Store the settings; the work begins on entering.

        Args:
            folder: the log's folder.
            memory_mebibytes: for data of DuckDB.
            wait: wait for another compactor to end, instead of being refused.
        """
        self._folder = folder
        self._lake = folder / LAKE
        self._memory = memory_mebibytes
        self._wait = wait
        self._lock: int | None = None
        self._database: duckdb.DuckDBPyConnection | None = None
        self._interrupted = False

    def __enter__(self) -> Self:
        self._lake.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        try:
            lock = lock_lake(self._lake, wait=self._wait)
        except BlockingIOError as error:
            raise CompactionBusyError(f"{self._folder}: another process compacts this log") from error
        try:
            # Under the lock no draft can belong to a process that is still at work.
            for draft in self._lake.glob(f"{DRAFTS}*"):
                shutil.rmtree(draft)
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._lock is not None
        os.close(self._lock)
        self._lock = None

    def interrupt(self) -> None:
        """Interrupt a compaction in another thread: it and all later ones raise `CompactionError`."""
        self._interrupted = True
        if self._database is not None:
            self._database.interrupt()

    def compact(self, segment: Segment) -> Compacted | None:
        """Make a file of a complete segment, and delete the segment.

        Returns:
            The outcome; ``None`` where the segment is gone, as by retention.

        Raises:
            CompactionError: it cannot be done now.
        """
        assert self._lock is not None
        assert not segment.is_open
        draft = None
        try:
            octets = segment.path.stat().st_size
            check_form(str(segment.path), form_of_segment(segment))
            draft = Path(mkdtemp(prefix=DRAFTS, dir=self._lake))
            return self._compact(segment, octets, draft)
        except duckdb.Error as error:
            raise CompactionError(f"{segment.path}: {first_line_of(error)}") from error
        except ChecksumError as error:
            raise CompactionError(f"{segment.path}: the file made of it: {error}") from error
        except FileNotFoundError as error:
            if segment.path.exists():
                raise CompactionError(f"{segment.path}: {error}") from error
            return None
        except OSError as error:
            raise CompactionError(f"{segment.path}: {error}") from error
        except NewerLogError as error:
            raise CompactionError(str(error)) from error
        finally:
            if draft is not None:
                shutil.rmtree(draft, ignore_errors=True)

    def _compact(self, segment: Segment, octets: int, draft: Path) -> Compacted:
        whole = salvage(segment)
        problems = [str(damage) for damage in whole.damages]
        if not whole.records:
            return self._set_aside(segment, octets, None, 0, problems or ["no records"])
        lines = segment.path
        if problems:
            lines = draft / "lines"
            copy_whole_lines(segment, lines)
        made = draft / "file"
        with database(
            self._folder, memory_mebibytes=self._memory, threads=1, scratch=draft / "spilt"
        ) as opened:
            self._database = opened
            try:
                if self._interrupted:
                    raise CompactionError("interrupted")
                file, found = self._made(opened, whole, segment, lines, made)
            except (duckdb.DataError, duckdb.InvalidInputException, _UnfitError) as error:
                text = first_line_of(error) if isinstance(error, duckdb.Error) else str(error)
                return self._set_aside(segment, octets, None, 0, [*problems, text])
            finally:
                self._database = None
        if problems:
            return self._set_aside(segment, octets, file.path, found.records, problems)
        # Only now: the file of the lake is on the disk under its name, and was read back.
        segment.path.unlink()
        sync_folder(segment.path.parent)
        return Compacted(segment, file.path, found.records, octets, file.path.stat().st_size)

    def _made(
        self, opened: duckdb.DuckDBPyConnection, whole: Salvage, segment: Segment, lines: Path, made: Path
    ) -> tuple[LakeFile, Contents]:
        """Return the file in its place and its contents; it is made unless it is there already.

        Raises:
            _UnfitError: the segment holds records that no segment may hold.
            ChecksumError: the file is not read back as it was written.
            CompactionError: the file cannot be read back.
        """
        for there in lake_files(self._folder):
            # A process was killed after it had made the file, and before it deleted the segment.
            if (there.log_id, there.first_seq) == (whole.log_id, segment.first_seq):
                try:
                    # Not with the one that writes: DuckDB gives up a whole database for some damage.
                    with database(self._folder, memory_mebibytes=self._memory, threads=1) as reading:
                        found = contents(reading, there.path)
                        check(reading, there.path)
                except (ParquetError, ChecksumError):
                    continue
                if _is_in(whole, found):
                    return there, found
        write_parquet(opened, lines, made, whole.octets // whole.records)
        try:
            found = contents(opened, made)
        except UnreadableError as error:  # the segment's blocks are not to blame
            raise CompactionError(f"{segment.path}: the file made of it: {error}") from error
        except ParquetError as error:
            raise _UnfitError(str(error)) from error
        if not _is_in(whole, found):
            raise _UnfitError(f"{found.records} of {whole.records} records were read")
        if not found.is_of_one_hour:
            raise _UnfitError(
                f"records of more than one hour: {found.earliest:%Y-%m-%d %H:%M} to "
                f"{found.latest:%Y-%m-%d %H:%M} UTC"
            )
        check(opened, made)
        file = lake_file(self._folder, whole.log_id, segment.first_seq, found.earliest)
        _put_in_place(made, file.path)
        return file, found

    def _set_aside(
        self, segment: Segment, octets: int, file: Path | None, records: int, problems: list[str]
    ) -> Compacted:
        lost = self._folder / LOST
        lost.mkdir(FOLDER_MODE, exist_ok=True)
        aside = lost / f"{segment.first_seq:020}.damaged.jsonl"
        # Not deleted: it is the evidence, and more may be in it than whole blocks.
        segment.path.rename(aside)
        sync_folder(lost)
        sync_folder(segment.path.parent)
        size = 0 if file is None else file.stat().st_size
        return Compacted(segment, file, records, octets, size, tuple(problems), aside)


class _UnfitError(Exception):
    """The blocks are whole, but hold records that no segment may hold."""


def _is_in(whole: Salvage, found: Contents) -> bool:
    """Return whether a file holds exactly the records of a segment, judged by their seqs."""
    return (found.log_ids, found.records, found.first_seq, found.last_seq, found.sum_of_seqs) == (
        (whole.log_id,),
        whole.records,
        whole.first_seq,
        whole.last_seq,
        whole.sum_of_seqs,
    )


def _put_in_place(made: Path, target: Path) -> None:
    """Bring a file to the disk, then give it its name. Retention may remove an empty folder meanwhile."""
    descriptor = os.open(made, os.O_RDONLY)
    try:
        set_mode(descriptor, FILE_MODE, target)
        # Before the name: otherwise a power cut could leave the name with an empty file.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    hour, day = target.parent, target.parent.parent
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            day.mkdir(FOLDER_MODE, exist_ok=True)
            hour.mkdir(FOLDER_MODE, exist_ok=True)
            made.replace(target)
            break
        except FileNotFoundError:
            if attempt == _ATTEMPTS:
                raise
    # Each of these folders may be new, and is an entry of the one above it.
    for folder in (hour, day, day.parent, day.parent.parent):
        sync_folder(folder)
