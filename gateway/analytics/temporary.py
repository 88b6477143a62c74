"""Where Spark has its temporary files: one folder a run, which the next run removes if it was left behind.

Spark and its libraries leave several files and folders in the system's temporary folder when their process
is killed. Here they are together, under a name that says whose they are; a lock tells whether the run lives.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import BinaryIO, Final

from pyspark import SparkContext

_PREFIX: Final = "amqp-gateway-spark-"
_NEW: Final = ".new-"
_LOCK: Final = "lock"
_SECONDS: Final = 20
"""The virtual machine has so long to end."""


def temporary_folder() -> Path:
    """A new folder, which goes when this process ends; those of processes that were killed go first."""
    place = Path(tempfile.gettempdir())
    for left in place.glob(f"{_PREFIX}*"):
        _remove_left_behind(left)
    new = Path(tempfile.mkdtemp(prefix=f"{_NEW}{_PREFIX}", dir=place))
    lock = (new / _LOCK).open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    folder = new.rename(place / new.name.removeprefix(_NEW))  # not to be found before it is locked
    atexit.register(_remove_own, folder, lock)
    return folder


def _remove_own(folder: Path, lock: BinaryIO) -> None:
    """Let the virtual machine end, which has files open there, and remove the folder."""
    machine = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001  PySpark has no other way to it
    if machine is not None:
        machine.stdin.close()  # what it ends by when its Python has gone
        with contextlib.suppress(subprocess.TimeoutExpired):
            machine.wait(_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)
    lock.close()


def _remove_left_behind(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it is another user's, or of a run that lives, or gone by now
        if folder.stat().st_uid != os.getuid():
            return
        with (folder / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
