"""The state of a gateway that was started."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from gateway.inventory.instances import InstanceIndex
from gateway.service.processes.core import count_start
from gateway.starts import STARTS
from gateway.state_folder import StateFolder
from tests.components.opened_index import opened_index

NOW = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def started(state: StateFolder) -> InstanceIndex:
    """The index of a gateway that has just been started."""
    index = opened_index(state.instances, must_exist=state.boots > 0)
    count_start(state, index)
    return index


def texts(folder: Path) -> dict[str, str]:
    """All files but the index, the numbers of starts and the lock."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {"LOCK", "boots", STARTS} and "sqlite3" not in path.name
    }
