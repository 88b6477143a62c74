"""The files of the instance index after a power failure: as they were at the last sync."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from unittest.mock import patch

from gateway.inventory import index_upkeep, instances
from gateway.inventory.instance_file import sync

_PARTS = ("", "-wal")
"""The suffixes of the files that are on the disk; ``-shm`` never is."""

DurableName = tuple[int, str, str]
"""The number of a source, a class and a stable name."""


class IndexDisk:
    """A disk that copies the files whenever they are synced.

    Args:
        path: the path of the index.
        disk: a folder for the copies.
    """

    def __init__(self, path: Path, disk: Path) -> None:
        self._path = path
        self._disk = disk
        disk.mkdir()

    def watched(self) -> AbstractContextManager[object]:
        """Return a context manager that intercepts each sync of an index."""
        watched = ExitStack()
        for module in (instances, index_upkeep):
            watched.enter_context(patch.object(module, "sync", self._sync))
        return watched

    def synced(self) -> None:
        """Copy the files to the disk."""
        for part in _PARTS:
            source = Path(f"{self._path}{part}")
            if source.exists():
                shutil.copyfile(source, self._disk / source.name)

    def lose_power(self) -> frozenset[DurableName]:
        """Restore the files of the last sync, and return the names whose rows are kept."""
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
