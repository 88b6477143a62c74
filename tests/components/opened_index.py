"""An index of instances for tests that end as a process that is killed: without closing it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path

from gateway.inventory.instances import InstanceIndex


def opened_index(
    path: Path,
    *,
    must_exist: bool = False,
    needs_upkeep: Callable[[], None] = lambda: None,
    kind: type[InstanceIndex] = InstanceIndex,
) -> InstanceIndex:
    """The index of the file ``path``. Its database is closed when nothing refers to the index any more.

    Python 3.13 warns of databases that are left open. What is not committed is lost, as at a kill.
    """
    index = kind(path, must_exist=must_exist, needs_upkeep=needs_upkeep)
    weakref.finalize(index, index._database.close)  # noqa: SLF001  `InstanceIndex.close` commits
    return index
