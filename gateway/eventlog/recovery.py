"""What the last writer left, however it ended: where the log goes on, and what has to be cut off first.

Looking changes nothing; `gateway.eventlog.committer` carries out what is found when it writes, and again
until it succeeds. Records that were acknowledged are kept; what stands behind them was never promised and
goes to ``lost/``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from gateway.eventlog.block import Block, CommitLine, Damage, read_commit_line
from gateway.eventlog.committer import Unclosed
from gateway.eventlog.disk import EventLogError
from gateway.eventlog.identity import WHAT_TO_DO, LogIdentity, identity_path, read_identity
from gateway.eventlog.lake import lake_files
from gateway.eventlog.segment import Segment, list_segments, scan_segment, tail
from gateway.eventlog.waiting import MAX_COMMIT_OCTETS

MAX_PROBLEMS: Final = 100
"""Findings that one recovery reports; the first ones."""

_LAST_LINE: Final = 512
_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found.

    Attributes:
        identity: of the log; ``None`` for one that has to be made.
        next_seq: of the next record.
        last_ts: ``ingest_ts`` of the last record; empty where none is known.
        unclosed: segments that have to be completed, oldest first.
        problems: what is not as it should be, a line for each.
    """

    identity: LogIdentity | None
    next_seq: int = 1
    last_ts: str = ""
    unclosed: tuple[Unclosed, ...] = ()
    problems: tuple[str, ...] = ()


def look(folder: Path) -> Recovery:
    """What there is of the log in ``folder``; reads open segments whole, of others the end.

    Raises:
        EventLogError: its identity is missing, damaged or not that of its files, or it cannot be read.
    """
    attempts = _ATTEMPTS
    while True:
        identity = read_identity(folder)
        try:
            segments = list_segments(folder)
            if identity is None:
                _check_is_new(folder, segments)
                return Recovery(None)
            return _Look(folder, identity).at(segments)
        except OSError as error:
            attempts -= 1
            if not attempts or not isinstance(error, FileNotFoundError):  # else: compacted meanwhile
                raise EventLogError(
                    f"{error.filename or folder}: the event log cannot be read: {error.strerror}"
                ) from error


@dataclass(frozen=True, slots=True)
class _End:
    """Of what is kept of a segment."""

    last_seq: int
    last_ts: str = ""
    octets: int = 0


class _Look:
    def __init__(self, folder: Path, identity: LogIdentity) -> None:
        self._folder = folder
        self._identity = identity
        self._unclosed: list[Unclosed] = []
        self._problems: list[str] = []

    def at(self, segments: list[Segment]) -> Recovery:
        lake = {file.first_seq for file in lake_files(self._folder) if file.log_id == self._identity.log_id}
        next_seq, last_ts, expected = self._identity.next_seq, self._identity.last_ts, 0
        for number, segment in enumerate(segments):
            following = segments[number + 1].first_seq if number + 1 < len(segments) else None
            end = self._end_of(segment, following)
            if expected not in (0, segment.first_seq) and expected not in lake:
                self._problem(
                    segment.path, f"seq {expected} to {segment.first_seq - 1} are missing before it"
                )
            expected = end.last_seq + 1
            if expected > next_seq:
                next_seq, last_ts = expected, end.last_ts
        if lake and max(lake) >= next_seq:
            raise EventLogError(
                f"{identity_path(self._folder)}: is older than the lake: it ends before seq {next_seq}, "
                f"a file of the lake begins with {max(lake)}: {WHAT_TO_DO}"
            )
        return Recovery(
            self._identity, next_seq, last_ts, tuple(self._unclosed), tuple(self._problems[:MAX_PROBLEMS])
        )

    def _end_of(self, segment: Segment, following: int | None) -> _End:
        if not segment.is_open:
            commit = _last_commit_line(segment)
            if commit is not None and (following is None or commit.seq < following):
                self._check_log(segment, commit.log_id)
                return _End(commit.seq)
            if commit is None:
                # Evidence, and perhaps not all of it: it is left to compaction.
                self._problem(segment.path, "is damaged: it does not end with a commit line")
                return self._scan(segment, following)
        end = self._scan(segment, following)
        size = segment.path.stat().st_size
        self._unclosed.append(
            Unclosed(
                segment.path,
                segment.first_seq,
                end.last_seq,
                end.last_ts,
                end.octets,
                keep_tail=size > end.octets,
            )
        )
        if size > end.octets:
            self._problem(segment.path, f"{size - end.octets} octets behind the last commit line go to lost/")
        return end

    def _scan(self, segment: Segment, following: int | None) -> _End:
        """The end of what is acknowledged.

        Behind damage there can be whole blocks. Those of the last commit may have reached the disk in any
        order before a power cut: they are cut off with it. Damage that is older than the last commit is of
        what was acknowledged, and so is what stands behind it: that is kept.
        """
        unsure = segment.path.stat().st_size - MAX_COMMIT_OCTETS
        kept = _End(segment.first_seq - 1)
        for found in scan_segment(segment.path):
            if isinstance(found, Damage):
                if found.offset >= unsure:
                    break
                self._problem(segment.path, str(found))
                continue
            self._check_log(segment, found.log_id)
            if following is not None and found.last_seq >= following:
                break
            if found.first_seq != kept.last_seq + 1:
                if found.first_seq <= kept.last_seq or found.offset >= unsure:
                    break
                self._problem(
                    segment.path, f"seq {kept.last_seq + 1} to {found.first_seq - 1} are missing in it"
                )
            kept = _End(found.last_seq, _last_ts(found), found.end)
        return kept

    def _check_log(self, segment: Segment, log_id: str) -> None:
        if log_id != self._identity.log_id:
            raise EventLogError(
                f"{segment.path}: is of log {log_id[:64]}, {identity_path(self._folder)} says "
                f"{self._identity.log_id}: {WHAT_TO_DO}"
            )

    def _problem(self, path: Path, text: str) -> None:
        self._problems.append(f"{path}: {text}")


def _check_is_new(folder: Path, segments: list[Segment]) -> None:
    if segments or lake_files(folder):
        raise EventLogError(
            f"{identity_path(folder)}: is missing, although there are files of a log: {WHAT_TO_DO}"
        )


def _last_commit_line(segment: Segment) -> CommitLine | None:
    octets = tail(segment.path, _LAST_LINE)
    return read_commit_line(octets[octets.rfind(b"\n", 0, -1) + 1 :])


class _Time(msgspec.Struct):
    ingest_ts: str = ""


def _last_ts(block: Block) -> str:
    try:
        return _TIME.decode(block.lines[block.lines.rfind(b"\n", 0, -1) + 1 :]).ingest_ts
    except msgspec.MsgspecError:
        return ""


_TIME: Final = msgspec.json.Decoder(_Time)
