"""Standard error of a process that lives long: a line that cannot be written is lost, and stops nothing.

The log goes to a file whose disk gets full, a pipe whose reader ends or falls asleep, a terminal that is
closed or stopped by Ctrl-S. That must neither end the process nor block it: lines for which there is no room
wait in a bounded queue, which a thread empties, and those beyond it are lost and counted.
"""

from __future__ import annotations

import atexit
import io
import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import structlog

from gateway.model.times import SECOND

log = structlog.get_logger(__name__)

MAX_WAITING: Final = 1 << 20
"""Bytes that wait for a reader that is slow; a line beyond them is lost."""

LAST_SECONDS: Final = 1.0
"""How long the end of a process waits for lines to be read."""

_TRY_AGAIN: Final = 10 * SECOND
_LOOK_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.02
_ALWAYS_WRITTEN: Final = select.PIPE_BUF
"""Bytes that a pipe takes without blocking if it takes any."""


class LogOutput(io.RawIOBase):
    """Writes to a descriptor whose other end may be closed, full or stopped, and never waits for it.

    Attributes:
        lost: the number of lines that were lost.
        is_losing: the last line was lost.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._number, self._descriptor = descriptor, _not_blocking(descriptor)
        self._room = select.poll()
        self._room.register(self._descriptor, select.POLLOUT)
        self._lock = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._is_emptied = False
        self._ends_in_line = self._is_cut = False
        self.lost = 0
        self.is_losing = False

    def fileno(self) -> int:
        """Return the descriptor that was given."""
        return self._number

    def isatty(self) -> bool:
        """Return whether the output is a terminal."""
        return os.isatty(self._number)

    def writable(self) -> bool:
        """Return true."""
        return True

    def write(self, text: bytes) -> int:  # type: ignore[override]  # no other buffers
        """Write, or lose what cannot be written."""
        if text:
            self.takes(bytes(text))
        return len(text)

    def takes(self, line: bytes) -> bool:
        """Write a line, or let it wait behind others; return whether it was not lost at once."""
        with self._lock:
            before = self.lost
            if not self._waiting:
                line = self._written(line)
            if line:
                self._let_wait(line)
            self.is_losing = self.lost > before
            return not self.is_losing

    def _let_wait(self, line: bytes) -> None:
        if self._size + len(line) > MAX_WAITING:
            self.lost += 1
            return
        self._waiting.append(line)
        self._size += len(line)
        if not self._is_emptied:
            self._is_emptied = True
            threading.Thread(target=self._empty, name="log", daemon=True).start()

    def wait(self, seconds: float) -> None:
        """Wait until nothing waits any more, at the end of the process."""
        with self._lock:
            self._lock.wait_for(lambda: not self._waiting, seconds)

    def _written(self, line: bytes) -> bytes:
        """Write as much of a line as there is room for, and return the rest; a line that fails is lost."""
        rest = b"\n" + line if self._is_cut else line
        try:
            while rest and self._room.poll(0):
                number = os.write(self._descriptor, rest[:_ALWAYS_WRITTEN])
                self._ends_in_line, self._is_cut = rest[number - 1 : number] != b"\n", False
                rest = rest[number:]
        except BlockingIOError:
            pass  # another process has filled the pipe meanwhile
        except OSError:
            self._is_cut = self._ends_in_line
            self.lost += 1
            return b""
        return rest[-len(line) :]

    def _empty(self) -> None:
        """Write what waits, in a thread that ends with it."""
        while True:
            self._room.poll(_LOOK_SECONDS * 1000)
            with self._lock:
                while self._waiting:
                    line = self._waiting.popleft()
                    rest = self._written(line)
                    self._size -= len(line) - len(rest)
                    if rest:
                        self._waiting.appendleft(rest)
                        self._lock.wait(_PAUSE_SECONDS)
                        break
                else:
                    self._is_emptied = False
                    self._lock.notify_all()
                    return


def _not_blocking(descriptor: int) -> int:
    """Open a pipe or a terminal once more, because the mode of a descriptor is shared with other processes.

    Of a terminal that has little room, a descriptor that blocks would wait for more. A pipe of another user
    cannot be opened: then only lines that several processes write at the same instant may block.
    """
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor):
        with suppress(OSError):
            return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    return descriptor


class LogLines:
    """The lines of the log on an output, as structlog's logger and its factory."""

    def __init__(self, output: LogOutput) -> None:
        self._output = output
        self._noted = self._noting = 0

    def __call__(self, *_: object) -> LogLines:
        """Return this object for each logger."""
        return self

    def msg(self, line: str) -> None:
        """Write a line."""
        if self._output.takes((line + "\n").encode("utf-8", "backslashreplace")):
            self._noted = self._noting

    debug = info = warning = error = critical = exception = msg

    def note_lost(
        self, _logger: object, _method: str, record: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        """Note in a record how many lines before it were lost, as one of structlog's processors."""
        self._noting = self._output.lost
        if self._noting > self._noted:
            record["lines_lost"] = self._noting - self._noted
        return record


def replace_standard_error() -> LogLines:
    """Make standard error of this process, also for tracebacks, one that stops nothing."""
    output = LogOutput(2)
    atexit.register(output.wait, LAST_SECONDS)
    sys.stderr = io.TextIOWrapper(output, "utf-8", "backslashreplace", line_buffering=True)
    return LogLines(output)


def log_output() -> LogOutput | None:
    """Return where this process logs, after `replace_standard_error`."""
    output = getattr(sys.stderr, "buffer", None)
    return output if isinstance(output, LogOutput) else None


class OutputWatch:
    """Reports how many lines were lost, and tries from time to time whether that has ended.

    Args:
        report: takes the number of lost lines, and the time (ns).

    Attributes:
        of_others: lines that other processes have lost while this one lives.
    """

    def __init__(self, report: Callable[[int, int], None]) -> None:
        self._report = report
        self._tried_at = 0
        self.of_others = 0

    def tick(self, now: int) -> None:
        """Look at the output; called once a second, at ``now`` (ns)."""
        output = log_output()
        if output is not None and output.is_losing and now - self._tried_at >= _TRY_AGAIN:
            self._tried_at = now
            log.info("log-lines-were-lost")
        self._report(self.of_others + (0 if output is None else output.lost), now)


class LinesOfOthers:
    """Adds up the lines that several processes lose, each of which counts from its own start."""

    def __init__(self) -> None:
        self._counted: dict[object, int] = {}

    def lost_since(self, counts: Mapping[object, int]) -> int:
        """Return how many lines were lost since the call before.

        Args:
            counts: how many each run of a process has lost so far, by anything that stands for this run.
        """
        before, self._counted = self._counted, dict(counts)
        return sum(count - before.get(run, 0) for run, count in counts.items())
