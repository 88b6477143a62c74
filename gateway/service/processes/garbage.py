"""How long-lived processes collect garbage: rarely, and not what was there from the start."""

from __future__ import annotations

import gc

_YOUNG_OBJECTS = 10_000
"""Allocations between two looks at the youngest; the default of 700 costs more than it finds."""

_YOUNGER_BEFORE_MIDDLE, _MIDDLE_BEFORE_OLD = 4, 2_500
"""While 100,000 objects are read first, all that is young stays: looking at a million takes half a second."""


def tune_garbage_collection() -> None:
    """Call once a process is set up: a full pass over 100,000 objects holds the loop for 24 to 77 ms."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNGER_BEFORE_MIDDLE, _MIDDLE_BEFORE_OLD)
