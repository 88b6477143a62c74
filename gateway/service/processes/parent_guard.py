"""Ends this process when the one that started it ends, whatever this one is doing.

While a process starts it imports, reads and waits, and nothing in it receives from its lifeline; meanwhile it
holds the lock of the state folder, which it inherited from its supervisor. So a thread waits for the end from
the first moment. This module must not import anything slow.
"""

from __future__ import annotations

import os
import select
import threading
import time
from typing import Final

LAST_SECONDS: Final = 5.0
"""Seconds within which a process that was ready must end in order."""

_CODE: Final = 1
"""The exit code, which no process reads."""


class ParentGuard:
    """Waits for the other end of a lifeline to be closed.

    The process then ends as by SIGKILL, which every part of the gateway withstands.

    Args:
        lifeline: descriptor of the inherited socket; ``None`` if the process was started by hand.
    """

    def __init__(self, lifeline: int | None) -> None:
        self._ends_in_order = False
        if lifeline is not None:
            threading.Thread(target=self._listen, args=(lifeline,), name="parent-guard", daemon=True).start()

    def ready(self) -> None:
        """Give the process `LAST_SECONDS` to end in order: it uses the lifeline itself from now on."""
        self._ends_in_order = True

    def _listen(self, lifeline: int) -> None:
        looked = select.poll()
        looked.register(lifeline, 0)  # the end is always reported; data is for others
        looked.poll()
        if self._ends_in_order:
            time.sleep(LAST_SECONDS)
        os._exit(_CODE)
