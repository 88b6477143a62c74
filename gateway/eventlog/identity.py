"""The file ``LOG``: which log this is, how far it has come, and from where on it says how all stands.

``log_id`` stays for ever. ``next_seq`` and ``last_ts`` are of the time when the last segment was completed:
compaction may take that segment away then, and with it the place where they could be read.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import msgspec

from gateway.eventlog.block import is_log_id, shown
from gateway.eventlog.disk import EventLogError
from gateway.eventlog.segment import Segment, list_segments

VERSION: Final = 1
"""Of the layout of the log's folder."""

_NAME: Final = "LOG"
_MAX_SEQ: Final = 2**63 - 1
_MAX_OCTETS: Final = 4096
_SEGMENTS_OF_BEFORE: Final = 2
"""Of a log that does not say which have a whole head: the last may end before its head does."""


class LogIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What ``LOG`` says.

    Attributes:
        version: of the layout of the folder.
        log_id: of the log.
        next_seq: every complete segment ends before it.
        last_ts: ``ingest_ts`` of the last record before ``next_seq``; empty for none.
        standing_seq: first seq of the last segment whose whole head is on the disk: it and those behind it
            say how everything stands. 1 in a log that has none yet; 0 in one of an earlier version.
    """

    version: int
    log_id: str
    next_seq: int = 1
    last_ts: str = ""
    standing_seq: int = 0

    def text(self) -> str:
        """As it stands in the file."""
        return msgspec.json.encode(self).decode() + "\n"


def identity_path(folder: Path) -> Path:
    """Of the file in the log's folder."""
    return folder / _NAME


def read_identity(folder: Path) -> LogIdentity | None:
    """Which log is in ``folder``; ``None`` where the file is missing.

    Raises:
        EventLogError: the file is damaged, or of a newer version, or cannot be read.
    """
    path = identity_path(folder)
    try:
        with path.open("rb") as file:
            octets = file.read(_MAX_OCTETS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise EventLogError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        found = msgspec.json.decode(octets, type=LogIdentity)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EventLogError(f"{path}: is damaged, it begins with {shown(octets)}: {WHAT_TO_DO}") from error
    if found.version > VERSION:
        raise EventLogError(
            f"{path}: the log is of version {found.version}, this gateway knows {VERSION}: use the gateway "
            "that wrote it, or a newer one"
        )
    if found.version < 1 or not is_log_id(found.log_id) or not 1 <= found.next_seq <= _MAX_SEQ:
        raise EventLogError(f"{path}: is damaged, it says {shown(octets)}: {WHAT_TO_DO}")
    return found


def standing_segments(folder: Path, first_seq: int) -> list[Segment]:
    """The segments at the end of the log in ``folder`` that say how everything stands, oldest first.

    More than one where the core ended again before it had recorded that again. The first of them is missing
    where somebody took it away.

    Args:
        folder: of the log.
        first_seq: its `standing_seq`; where that is not known, they are the last two.

    Raises:
        OSError: the folder cannot be read.
    """
    segments = list_segments(folder)
    if not first_seq:
        return segments[-_SEGMENTS_OF_BEFORE:]
    return [segment for segment in segments if segment.first_seq >= first_seq]


def standing_seq(folder: Path) -> int:
    """``standing_seq`` of the log in ``folder``; 0 where the file ``LOG`` does not have it, or is damaged."""
    with contextlib.suppress(EventLogError):  # opening the log reports what is wrong
        identity = read_identity(folder)
        return identity.standing_seq if identity is not None else 0
    return 0


WHAT_TO_DO: Final = (
    "put back the file as it was, or move the folder away: a new log then begins, and the old one "
    "can still be read where it is"
)
"""When ``LOG`` is not to be trusted: seqs must not be given twice under one ``log_id``."""
