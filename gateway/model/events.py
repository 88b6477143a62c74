"""Severity of events, on the one scale that every dialect is mapped to."""

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
