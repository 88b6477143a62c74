"""How hard the log is pressed by what waits for the disk."""

from __future__ import annotations

import enum


class Pressure(enum.Enum):
    """What should reach the log while it is written too slowly, or not at all.

    ``NONE``: everything. ``MERGE``: values less often. ``FULL``: only what begins, ends or happens; changes
    of values would be dropped, and counted.
    """

    NONE = "none"
    MERGE = "merge"
    FULL = "full"
