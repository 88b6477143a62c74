"""Says of what takes long that it goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

EVERY_SECONDS: Final = 10.0


@contextmanager
def patiently(tell: Callable[[str], None], what: str, every: float = EVERY_SECONDS) -> Iterator[None]:
    """Tell every few seconds, while the block lasts, that ``what`` goes on, and for how long it has.

    Args:
        tell: told one line each time, in a thread of its own.
        what: goes on.
        every: seconds.
    """
    began, over = time.monotonic(), threading.Event()

    def watch() -> None:
        while not over.wait(every):
            tell(f"{what}: {time.monotonic() - began:.0f} s so far")

    watching = threading.Thread(target=watch, name="patience", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
