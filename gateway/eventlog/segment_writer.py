"""The writer's half that waits for the disk: batches into segments, segments completed. For one thread.

What `SegmentWriter.commit` has returned from is on the disk. Where it raises, nothing is known: the segment
is given up behind what was committed before, and the same batch is to be committed again, with the same
seqs, into a file of its own. So nothing depends on whether a file can be synced after an error, and nothing
is committed twice.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gateway.eventlog.disk import Disk
from gateway.eventlog.identity import LogIdentity, identity_path
from gateway.eventlog.segment import LOST, SEGMENTS, segment_path
from gateway.eventlog.waiting import Batch


@dataclass(frozen=True, slots=True)
class Unclosed:
    """A segment that takes no more records and is not complete yet.

    Attributes:
        path: of its file.
        first_seq: as its name says.
        last_seq: of the last record that is kept; ``first_seq - 1`` for none.
        last_ts: its ``ingest_ts``.
        octets: from its beginning, that are kept.
        keep_tail: what is behind them goes to ``lost/``; else it is in another segment, or nowhere needed.
    """

    path: Path
    first_seq: int
    last_seq: int
    last_ts: str
    octets: int
    keep_tail: bool = False


@dataclass(slots=True)
class _OpenSegment:
    segment: int
    descriptor: int
    kept: Unclosed


class SegmentWriter:
    """Writes the segments of one log.

    Args:
        folder: of the log.
        identity: of the log; brought to the disk before the first segment.
        disk: that the folder is on.
        min_free: octets that are left free on it.
        unclosed: what recovery found, oldest first.

    Attributes:
        unclosed: segments that could not be completed yet; they are tried again with each new segment.
        unclosed_because: what stood in the way the last time.
        written: octets so far.
        segments: begun so far.
        head_ends_at: seq of the last record of the last head that was told whole; 0 for none.
    """

    def __init__(
        self,
        folder: Path,
        identity: LogIdentity,
        disk: Disk,
        min_free: int,
        unclosed: tuple[Unclosed, ...] = (),
    ) -> None:
        self.unclosed = list(unclosed)
        self.unclosed_because = ""
        self.written = 0
        self.segments = 0
        self.head_ends_at = 0
        self._folder = folder
        self._identity = identity
        self._identity_is_written = False
        self._disk = disk
        self._min_free = min_free
        self._open: _OpenSegment | None = None

    @property
    def open_path(self) -> Path | None:
        """Of the segment that is being written."""
        return None if self._open is None else self._open.kept.path

    def commit(self, batch: Batch) -> None:
        """Bring a batch to the disk; it can be tried again where this fails.

        Raises:
            OSError: it is not known to be there.
        """
        if self._open is None:
            self._disk.make_folder(self._folder / SEGMENTS)
        self._disk.check_free(self._folder, self._min_free)
        if self._open is None or self._open.segment != batch.segment:
            self.close()
            self._begin(batch)
        assert self._open is not None
        try:
            self._disk.write(self._open.descriptor, batch.blocks)
            self._disk.sync(self._open.descriptor)
        except OSError:
            self._end_open()
            raise
        octets = sum(map(len, batch.blocks))
        kept = self._open.kept
        self._open.kept = Unclosed(
            kept.path, kept.first_seq, batch.last_seq, batch.last_ts, kept.octets + octets
        )
        self.written += octets
        self._note_head(self._open.kept)

    def close(self) -> None:
        """Complete the open segment, and what is unclosed; where that fails it is tried again later."""
        self._end_open()
        self.unclosed_because = ""
        for unclosed in tuple(self.unclosed):
            try:
                if unclosed.path.exists():
                    self._complete(unclosed)
                else:
                    self._pass_over(unclosed)  # whoever took it away
            except OSError as error:
                self.unclosed_because = f"{unclosed.path}: {error.strerror or error}"
            else:
                self.unclosed.remove(unclosed)

    def _note_head(self, written: Unclosed) -> None:
        """Where the whole head of the open segment is on the disk, older ones need not be read at a start."""
        is_there = written.first_seq <= self.head_ends_at <= written.last_seq
        if is_there and self._identity.standing_seq < written.first_seq:
            with contextlib.suppress(OSError):  # with the next batch then
                self._write_identity(msgspec.structs.replace(self._identity, standing_seq=written.first_seq))

    def _begin(self, batch: Batch) -> None:
        self._write_identity(self._identity)
        path = segment_path(self._folder, batch.first_seq, is_open=True)
        kept = Unclosed(path, batch.first_seq, batch.first_seq - 1, "", 0)
        try:
            descriptor = self._disk.create(path)
        except OSError:
            if kept not in self.unclosed:  # it may be there: nobody was told of anything in it
                self.unclosed.append(kept)
            raise
        # The file is new: an earlier one of this name is gone, whatever its deletion said.
        self.unclosed = [unclosed for unclosed in self.unclosed if unclosed.path != path]
        self._open = _OpenSegment(batch.segment, descriptor, kept)
        self.segments += 1

    def _end_open(self) -> None:
        if self._open is not None:
            with contextlib.suppress(OSError):  # nothing that was committed depends on it
                self._disk.close(self._open.descriptor)
            self.unclosed.append(self._open.kept)
            self._open = None

    def _complete(self, unclosed: Unclosed) -> None:
        """Cut what is not kept; then the name says that the segment is complete."""
        if unclosed.keep_tail:
            name = f"{unclosed.first_seq:020}-{unclosed.octets}.tail"
            self._disk.copy_tail(unclosed.path, unclosed.octets, self._folder / LOST / name)
        if not unclosed.octets:
            self._disk.delete(unclosed.path)
            return
        self._disk.shorten(unclosed.path, unclosed.octets)
        # Before the name lets compaction take the segment away, and its last seq with it.
        self._pass_over(unclosed)
        complete = segment_path(self._folder, unclosed.first_seq, is_open=False)
        if unclosed.path != complete:
            self._disk.rename(unclosed.path, complete)

    def _pass_over(self, unclosed: Unclosed) -> None:
        """No seq of a segment is given again, whatever becomes of it."""
        if unclosed.last_seq >= self._identity.next_seq:
            self._write_identity(
                msgspec.structs.replace(
                    self._identity, next_seq=unclosed.last_seq + 1, last_ts=unclosed.last_ts
                )
            )

    def _write_identity(self, identity: LogIdentity) -> None:
        if identity == self._identity and self._identity_is_written:
            return
        self._disk.replace_text(identity_path(self._folder), identity.text())
        self._identity, self._identity_is_written = identity, True
