"""What stands in the way of the log: errors of its own, and what the system's mean for it."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

from gateway.feed.records import EventLogState


class EventLogError(Exception):
    """The log cannot be used; the text says what to do."""


class EventLogClosedError(Exception):
    """The log was closed before the record was on the disk."""


def state_of(error: OSError) -> EventLogState:
    """How the log is where an error of the system keeps it from being written."""
    return _STATES.get(error.errno or 0, EventLogState.DISK_ERROR)


_STATES: Final[Mapping[int, EventLogState]] = {
    errno.ENOSPC: EventLogState.DISK_FULL,
    errno.EDQUOT: EventLogState.DISK_FULL,
    errno.EFBIG: EventLogState.DISK_FULL,
    errno.EROFS: EventLogState.READ_ONLY,
    errno.EACCES: EventLogState.READ_ONLY,
    errno.EPERM: EventLogState.READ_ONLY,
}
