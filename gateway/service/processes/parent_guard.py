"""Ends this process when the one that started it ends, whatever this one is doing just then.

While a process starts it imports, reads and waits, and nothing in it listens to its lifeline; and all the
time it holds the lock of the state folder, which its supervisor handed down. So a thread listens from the
first moment. Nothing may be imported here that takes long.
"""

from __future__ import annotations

import os
import select
import threading
import time
from typing import Final

LAST_SECONDS: Final = 5.0
"""A process that was ready may take so long to end in order."""

_CODE: Final = 1
"""Of the exit: no process is there to read it."""


class ParentGuard:
    """Listens for the other end of a lifeline to be closed.

    The process then ends as by SIGKILL, which every part of the gateway withstands.

    Args:
        lifeline: descriptor of the inherited socket; ``None`` where the process was started by hand.
    """

    def __init__(self, lifeline: int | None) -> None:
        self._ends_in_order = False
        if lifeline is not None:
            threading.Thread(target=self._listen, args=(lifeline,), name="parent-guard", daemon=True).start()

    def ready(self) -> None:
        """From now on the process listens itself, and ends in order; it is ended if it does not."""
        self._ends_in_order = True

    def _listen(self, lifeline: int) -> None:
        looked = select.poll()
        looked.register(lifeline, 0)  # the end is always reported; data is for others
        looked.poll()
        if self._ends_in_order:
            time.sleep(LAST_SECONDS)
        os._exit(_CODE)
