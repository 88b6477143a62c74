"""The virtual machine of Spark's driver, a child of this process: how Ctrl-C ends it.

PySpark does not do that well. It does not know a machine that is still starting, which goes on after its
Python. While a call waits for its answer, PySpark asks on the same connection to cancel all jobs; after that
each call reads the answer of another one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from pyspark import SparkContext
from pyspark.sql import SparkSession


class Driver:
    """The machine that PySpark starts in the main thread while an object of this class is in use."""

    def __init__(self) -> None:
        self._others = _children(os.getpid())
        self._ignores = signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    def end_now(self) -> None:
        """End the machine, whatever it does, and let PySpark forget it: the next session starts another."""
        gateway = SparkContext._gateway  # noqa: SLF001  PySpark has no other way to it
        machine = getattr(gateway, "proc", None)
        # Of a machine that is still starting, PySpark has nothing.
        for child in _children(os.getpid()) - self._others if machine is None else {machine.pid}:
            for process in (child, *_descendants(child)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)
        if machine is not None and gateway is not None:
            machine.wait()
            machine.stdin.close()
            gateway.close()
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
        SparkContext._active_spark_context = None  # noqa: SLF001
        SparkSession._instantiatedSession = None  # noqa: SLF001

    @contextmanager
    def ends_with_ctrl_c(self) -> Iterator[None]:
        """End the machine where Ctrl-C ends the block, and before ``KeyboardInterrupt`` is raised."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)
        self.take_ctrl_c()
        try:
            yield
        except KeyboardInterrupt:
            self.end_now()
            raise
        finally:
            signal.signal(signal.SIGINT, before)

    def take_ctrl_c(self) -> None:
        """Handle Ctrl-C, unless it was ignored; PySpark does so itself as soon as it has started."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN if self._ignores else self._stop)

    def _stop(self, _number: int, _frame: FrameType | None) -> NoReturn:
        self.end_now()
        raise KeyboardInterrupt


def _descendants(process: int) -> Iterator[int]:
    for child in _children(process):
        yield child
        yield from _descendants(child)


def _children(process: int) -> set[int]:
    """Return the children of a process; none of one that has gone."""
    found: set[int] = set()
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(map(int, children.read_text().split()))
    return found
