"""Severities of events, one scale for all dialects, and what an event does to a condition that lasts."""

from __future__ import annotations

import enum


class Severity(enum.IntEnum):
    """ITU-T X.733 severities in the order of urgency, ``CLEARED`` apart."""

    CLEARED = 0
    INFO = 1
    WARNING = 2
    MINOR = 3
    MAJOR = 4
    CRITICAL = 5


class EventState(enum.Enum):
    """Whether an event stands for itself, or begins or ends a condition that lasts."""

    ONE_SHOT = "oneShot"
    RAISED = "raised"
    CLEARED = "cleared"
