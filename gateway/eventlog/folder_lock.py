"""One writer for one log: a lock on its folder that ends with its holder, however that ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from gateway.eventlog.disk import FILE_MODE

_NAME: Final = "LOCK"


def try_lock(folder: Path) -> int | None:
    """The lock's descriptor, to be closed in the end; ``None`` while another process has it.

    Raises:
        OSError: the lock's file cannot be made or opened.
    """
    # To be read only: a lock needs no more, and so it can be had where another user made the file.
    lock = os.open(folder / _NAME, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError:
        os.close(lock)
        raise
    return lock
