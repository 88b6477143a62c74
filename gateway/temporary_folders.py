"""Temporary folders that do not outlive their processes for long, however these end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_NEW: Final = ".new-"
_LOCK: Final = "lock"


class NoTemporaryFolderError(OSError):
    """No folder takes temporary files; the text says what to do."""


def temporary_place() -> Path:
    """Return the system's folder for temporary files.

    Raises:
        NoTemporaryFolderError: there is none that can be written.
    """
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        raise NoTemporaryFolderError(
            "no folder takes temporary files, neither $TMPDIR nor /tmp, /var/tmp and the current folder: "
            "make room in one, or set TMPDIR to a folder that this user can write"
        ) from error


@contextmanager
def temporary_folder(prefix: str = "amqp-gateway-") -> Iterator[Path]:
    """Make a folder for temporary files, which is removed with the block.

    Raises:
        NoTemporaryFolderError: there is no place for it.
        OSError: it cannot be made.
    """
    with tempfile.TemporaryDirectory(prefix=prefix, dir=temporary_place()) as folder:
        yield Path(folder)


class TemporaryFolder:
    """A folder for the time of one run.

    A process that is killed leaves its folder behind; the next one that makes a folder for the same purpose
    removes it. A lock on a file in the folder shows whether its run lives.

    Args:
        purpose: the beginning of the names of these folders.
        instead: a folder that takes it, hidden, where the system has none for temporary files.

    Attributes:
        path: the folder, of mode 0700.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, purpose: str, instead: Path | None = None) -> None:
        try:
            place = temporary_place()
        except NoTemporaryFolderError:
            if instead is None:
                raise
            place, purpose = instead, f".{purpose}"
        for left in place.glob(f"{purpose}-*"):
            _remove_left_behind(left)
        new = Path(tempfile.mkdtemp(prefix=f"{_NEW}{purpose}-", dir=place))
        self._lock = (new / _LOCK).open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # No other run finds it before it is locked.
        self.path: Final = new.rename(place / new.name.removeprefix(_NEW))

    def remove(self) -> None:
        """Remove the folder at the end of the run; files that cannot be removed stay."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _remove_left_behind(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it is another user's, or of a run that lives, or gone by now
        if folder.stat().st_uid != os.getuid():
            return
        with (folder / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
