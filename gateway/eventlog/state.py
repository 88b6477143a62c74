"""How the log is: what of it is in trouble, how much waits, how much is lost."""

from __future__ import annotations

import enum
import errno
from dataclasses import dataclass


class Trouble(enum.StrEnum):
    """Why records are not on the disk in time; empty for none.

    ``slow``: a commit takes longer than a second. ``upkeep``: records are written, but a segment cannot be
    completed, or an old file not be deleted; it is tried again. ``failed``: a fault of the gateway's own.
    """

    NONE = ""
    DISK_FULL = "disk-full"
    READ_ONLY = "read-only"
    DISK_ERROR = "disk-error"
    SLOW = "slow"
    UPKEEP = "upkeep"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LogState:
    """How the log is at an instant.

    Attributes:
        trouble: why records do not reach the disk in time.
        detail: the same for people, with what to do where something can be done.
        since: when ``trouble`` last changed, nanoseconds since 1970 UTC.
        committed: seq of the last record on the disk.
        waiting: records in memory.
        lost: records that were not taken, since the start; each is counted in a gap record.
        bytes: of all files of the log, the lake and what recovery cut off.
        segments: files of ``segments/``.
        deleted_files: files that were deleted to keep the log within its bounds, since the start.
        deleted_bytes: their octets.
    """

    trouble: Trouble = Trouble.NONE
    detail: str = ""
    since: int = 0
    committed: int = 0
    waiting: int = 0
    lost: int = 0
    bytes: int = 0
    segments: int = 0
    deleted_files: int = 0
    deleted_bytes: int = 0


class EventLogError(Exception):
    """The log cannot be used; the text says what to do."""


class EventLogClosedError(Exception):
    """The log was closed before the record was on the disk."""


def trouble_of(error: OSError) -> Trouble:
    """What an error of the system means for the log."""
    return _TROUBLES.get(error.errno or 0, Trouble.DISK_ERROR)


_TROUBLES = {
    errno.ENOSPC: Trouble.DISK_FULL,
    errno.EDQUOT: Trouble.DISK_FULL,
    errno.EFBIG: Trouble.DISK_FULL,
    errno.EROFS: Trouble.READ_ONLY,
    errno.EACCES: Trouble.READ_ONLY,
    errno.EPERM: Trouble.READ_ONLY,
}
