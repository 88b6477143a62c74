"""The files of the instance index as a power failure leaves them: as they were at the last sync."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import AbstractContextManager, closing
from pathlib import Path
from unittest.mock import patch

from gateway.inventory import instances
from gateway.inventory.instance_file import sync

_PARTS = ("", "-wal")
"""Of the file's name; what stands in ``-shm`` is on no disk."""

DurableName = tuple[int, str, str]
"""Number of a source, class and stable name."""


class IndexDisk:
    """Copies the files whenever they are synced.

    Args:
        path: of the index.
        disk: a folder for the copies.
    """

    def __init__(self, path: Path, disk: Path) -> None:
        self._path = path
        self._disk = disk
        disk.mkdir()

    def watched(self) -> AbstractContextManager[object]:
        """Meanwhile each sync of an index is noticed."""
        return patch.object(instances, "sync", self._sync)

    def synced(self) -> None:
        """All that stands in the files is on the disk."""
        for part in _PARTS:
            source = Path(f"{self._path}{part}")
            if source.exists():
                shutil.copyfile(source, self._disk / source.name)

    def lose_power(self) -> frozenset[DurableName]:
        """Whatever was not synced is lost; returns the names whose rows are kept."""
        for part in (*_PARTS, "-shm"):
            Path(f"{self._path}{part}").unlink(missing_ok=True)
        for copy in self._disk.iterdir():
            shutil.copyfile(copy, self._path.with_name(copy.name))
        with closing(sqlite3.connect(self._path)) as database:
            rows = database.execute("SELECT source, class, name FROM durable").fetchall()
        # Closing it has written its log into the file, and removed that.
        return frozenset((source, class_name, name) for source, class_name, name in rows)

    def _sync(self, path: Path) -> None:
        sync(path)
        self.synced()
