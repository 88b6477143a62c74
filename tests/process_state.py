"""What a test may leave behind in its process: nothing that another test would meet.

The state is compared around each test, after all fixtures that it does not share with others have ended. The
model is ``regrtest --fail-env-changed`` of CPython.
"""

from __future__ import annotations

import contextlib
import locale
import logging
import os
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_LIMITS: Final = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
_SIGNALS: Final = tuple(
    one for one in signal.Signals if one not in {signal.SIGKILL, signal.SIGSTOP, signal.SIGALRM}
)
"""Not those that have no handler, and that of pytest-timeout."""
_OF_PYTEST: Final = frozenset({"PYTEST_CURRENT_TEST"})
"""Variables that pytest itself sets for each phase of a test."""

State = Mapping[str, object]

MAX_PLACES: Final = 10_000
"""The maximum number of places for which `Openings` knows the test."""
_CONNECTED: Final = re.compile(r"raddr=(\('[^']*', \d+)")
_NAMED: Final = re.compile(r"name='([^']+)'")


class Openings:
    """The tests in which files were opened, and sockets connected, for those that are never closed.

    They are collected, and a failure then, in any later test.
    """

    def __init__(self) -> None:
        self._tests: dict[str, str] = {}

    def begin(self) -> None:
        """Observe what is opened from now on, to the end of this process."""
        sys.addaudithook(self._observe)

    def _observe(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            place = str(arguments[0])
        elif event == "socket.connect" and isinstance(arguments[1], tuple):
            place = str(arguments[1][:2]).removesuffix(")")
        else:
            return
        self._tests.pop(place, None)
        self._tests[place] = os.environ.get("PYTEST_CURRENT_TEST", "no test")
        if len(self._tests) > MAX_PLACES:
            del self._tests[next(iter(self._tests))]

    def of(self, warning: str) -> list[str]:
        """Return lines with the tests in which the resources in the text of a warning were opened last."""
        places = dict.fromkeys([*_CONNECTED.findall(warning), *_NAMED.findall(warning)])
        return [
            f"{place} was opened last in {self._tests[place]}" for place in places if place in self._tests
        ]


def process_state() -> State:
    """Return the state of this process, by the name of what it is."""
    return {
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "umask": _umask(),
        "current folder": Path.cwd(),
        "time zone": time.tzname,
        "locale": locale.setlocale(locale.LC_ALL),
        "recursion limit": sys.getrecursionlimit(),
        "sys.path": tuple(sys.path),
        "exception hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook),
        "handlers of the root logger": tuple(logging.getLogger().handlers),
        **{f"limit {name}": resource.getrlimit(number) for name, number in _LIMITS.items()},
        **{f"handler of {one.name}": signal.getsignal(one) for one in _SIGNALS},
        **{f"variable {name}": value for name, value in os.environ.items() if name not in _OF_PYTEST},
    }


def _umask() -> str:
    """Return the umask without setting it: other threads may make files just then."""
    status = Path("/proc/self/status").read_text("ascii")
    return next(line for line in status.splitlines() if line.startswith("Umask"))


def differences(before: State, after: State) -> list[str]:
    """Return a line for each part of the state that is not as it was."""
    return [
        f"{name}: {before.get(name, 'absent')!r} became {after.get(name, 'absent')!r}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


@contextlib.contextmanager
def left_as_it_was() -> Iterator[None]:
    """Fail if the process is not left as it was entered.

    Raises:
        AssertionError: it is not; the text names each difference.
    """
    before = process_state()
    yield
    left = differences(before, process_state())
    assert not left, "the test left behind:\n" + "\n".join(left)
