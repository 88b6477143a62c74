"""Imports without rich, for processes that live long.

structlog and httpx import rich wherever it is installed: to draw tracebacks, and for a command line of their
own. The gateway's processes need neither. Rich takes 5 MB of each, and a quarter of the time of its start.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def without_rich() -> Iterator[None]:
    """Have rich not found by what is imported meanwhile; later it can be imported."""
    if "rich" in sys.modules:
        yield
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # The import system: the module is not found.
    try:
        yield
    finally:
        del sys.modules["rich"]
