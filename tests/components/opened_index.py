"""An index of instances for tests that end as a process that is killed: without closing it."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from gateway.inventory.instances import InstanceIndex

_NOT_CLOSED: list[sqlite3.Connection] = []
"""Databases whose index was garbage-collected on another thread: only the opening thread may close one."""


def opened_index(
    path: Path,
    *,
    must_exist: bool = False,
    needs_upkeep: Callable[[], None] = lambda: None,
    kind: type[InstanceIndex] = InstanceIndex,
) -> InstanceIndex:
    """Return the index of the file ``path``; its database is closed when the index is garbage-collected.

    Python 3.13 warns of databases that are left open. Changes that are not committed are lost, as at a kill.
    """
    index = kind(path, must_exist=must_exist, needs_upkeep=needs_upkeep)
    # `InstanceIndex.close` would commit.
    weakref.finalize(index, _close, index._database, threading.get_ident())  # noqa: SLF001
    return index


def _close(database: sqlite3.Connection, opened_by: int) -> None:
    if threading.get_ident() == opened_by:
        database.close()
    else:
        _NOT_CLOSED.append(database)
