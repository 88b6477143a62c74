"""Signed heads of the audit: made at an interval and at the end, sent as an event and to a file.

A head names records that are on the disk only: after any crash the log still has them. Nothing waits for the
file, which may be on another machine; what it did not take is kept in memory, and tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

import structlog

from gateway.clock import Clock
from gateway.durable_files import PUBLIC
from gateway.eventlog.audit_statements import AuditKey, Head, line_of
from gateway.eventlog.disk import EventLogClosedError
from gateway.eventlog.retention import time_text
from gateway.model.times import SECOND
from gateway.service.processes.event_log import CoreEventLog

log = structlog.get_logger(__name__)

FIRST_SECONDS: Final = 60.0
"""The longest time from a start to its first head: it signs what a killed core left unsigned."""

COMMIT_SECONDS: Final = 2.0
"""The longest wait for the disk to have the records of a head."""

FILE_SECONDS: Final = 2.0
"""The longest wait for the operator's file."""

AGAIN_SECONDS: Final = 60.0
"""The longest wait before a file that could not be written is tried again."""

MAX_KEPT: Final = 1_000
"""The maximum number of heads that wait for the operator's file; the newest ones."""


Note: TypeAlias = Callable[[str], None]
"""Keeps the last line that the operator's file took."""


class AuditHeads:
    """Makes and sends the heads of one core.

    Args:
        key: signs them.
        gateway: the gateway's uuid.
        event_log: has the chain.
        clock: the gateway's clock.
        publish: sends a head as an event: its number, its hash, its line, and the time.
        file: the operator's file; ``None`` for none.
        stands: called with the reason for which the file cannot be written, and with an empty text whenever
            it was written.
        note: called in another thread with the last line that the file took; it may raise `OSError`.
    """

    def __init__(
        self,
        key: AuditKey,
        gateway: str,
        event_log: CoreEventLog,
        clock: Clock,
        publish: Callable[[int, str, str, int], None],
        file: Path | None,
        stands: Callable[[str], None] = lambda _: None,
        note: Note = lambda _: None,
    ) -> None:
        self._key = key
        self._gateway = gateway
        self._event_log = event_log
        self._clock = clock
        self._publish = publish
        self._file = None if file is None else HeadsFile(file, stands, note)
        self._signed = 0
        self._is_recorded = False
        self._turn = asyncio.Lock()
        event_log.state_deletions(self._deletion)

    async def run(self, interval: int) -> NoReturn:
        """Sign a head at an interval, until cancelled.

        Args:
            interval: nanoseconds.
        """
        seconds = interval / SECOND
        await asyncio.sleep(min(seconds, FIRST_SECONDS))
        while True:
            await self.sign()
            await self._pause(seconds)

    async def _pause(self, seconds: float) -> None:
        """Wait until the next head is due; heads that wait for the file are tried again meanwhile."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0:
            is_waiting = self._file is not None and self._file.is_waiting
            await asyncio.sleep(min(left, AGAIN_SECONDS) if is_waiting else left)
            if is_waiting and self._file is not None:
                async with self._turn:
                    await self._file.write()

    async def sign(self) -> None:
        """Sign the present end of the chain and send it, unless it was signed already; does not raise."""
        async with self._turn:
            if self._file is not None and not self._is_recorded and self._event_log.log_id:
                self._is_recorded = True
                self._event_log.take_heads_file(str(self._file.path))
            head = await self._head()
            if head is not None:
                line = line_of(head)
                self._signed = head.audit
                self._publish(head.audit, head.hash, line, self._clock.now())
                if self._file is not None:
                    self._file.add(line)
            if self._file is not None:
                await self._file.write()

    async def _head(self) -> Head | None:
        log_id = self._event_log.log_id
        if not log_id:
            return None
        end, seq = self._event_log.audited
        if end.number == self._signed:
            return None
        try:
            async with asyncio.timeout(COMMIT_SECONDS):
                self._event_log.flush(seq)
                await self._event_log.reached(seq)
        except (TimeoutError, EventLogClosedError):
            return None  # with the next head: the disk does not take the records now
        now = time_text(self._clock.now())
        return self._key.head(self._gateway, log_id, end.number, seq, end.hash, now)

    def _deletion(self, log_id: str, before_seq: int) -> str:
        now = time_text(self._clock.now())
        return line_of(self._key.deletion(self._gateway, log_id, before_seq, now))


class HeadsFile:
    """The operator's file.

    Args:
        path: its path; made where it is missing, its folder is not.
        stands: as of `AuditHeads`.
        note: likewise.
    """

    def __init__(
        self, path: Path, stands: Callable[[str], None] = lambda _: None, note: Note = lambda _: None
    ) -> None:
        self._path = path
        self._stands = stands
        self._note = note
        self._waiting: deque[str] = deque(maxlen=MAX_KEPT)
        self._writing: asyncio.Future[None] | None = None
        # A thread of its own: a file system that hangs must not take those of the loop's pool.
        self._thread = ThreadPoolExecutor(1, "audit-heads")
        self._failed = False

    @property
    def path(self) -> Path:
        """Its path."""
        return self._path

    @property
    def is_waiting(self) -> bool:
        """Whether heads wait to be written."""
        return bool(self._waiting)

    def add(self, line: str) -> None:
        """Add a head to those that are to be written."""
        self._waiting.append(line)

    async def write(self) -> None:
        """Append what waits; a failure is logged, and tried again with the next call. Waits for a moment."""
        if not self._waiting:
            return
        if self._writing is None:
            lines = tuple(self._waiting)
            loop = asyncio.get_running_loop()
            self._writing = loop.run_in_executor(self._thread, self._append, lines)
            self._writing.add_done_callback(lambda done: self._written(done, lines))
        done, _ = await asyncio.wait({self._writing}, timeout=FILE_SECONDS)
        if not done:
            self._report(f"does not answer within {FILE_SECONDS:g} s")
        await asyncio.sleep(0)  # the callback has run then

    def _append(self, lines: tuple[str, ...]) -> None:
        append_lines(self._path, lines)
        with contextlib.suppress(OSError):  # a state folder that is full has an alarm of its own
            self._note(lines[-1])

    def _written(self, done: asyncio.Future[None], lines: tuple[str, ...]) -> None:
        self._writing = None
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._report(error.strerror or str(error) if isinstance(error, OSError) else repr(error))
            return
        for line in lines:
            with contextlib.suppress(ValueError):  # more heads came meanwhile than are kept
                self._waiting.remove(line)
        if self._failed:
            self._failed = False
            log.info("audit-heads-written", file=str(self._path), heads=len(lines))
        self._stands("")

    def _report(self, reason: str) -> None:
        # Once for each trouble: the next line says that it is over.
        if not self._failed:
            self._failed = True
            log.warning(
                "audit-heads-not-written", file=str(self._path), reason=reason, waiting=len(self._waiting)
            )
        self._stands(reason)


def append_lines(path: Path, lines: tuple[str, ...]) -> None:
    """Append lines to a file and bring them to the disk; after a failure it is as it was, if possible.

    Raises:
        OSError: they are perhaps not there.
    """
    octets = "".join(f"{line}\n" for line in lines).encode()
    # Without waiting: a pipe without a reader is an error, and not a thread that hangs.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(path, flags, PUBLIC)
    try:
        before = os.fstat(descriptor).st_size
        with _undone(descriptor, before):
            written = os.write(descriptor, octets)
            os.fsync(descriptor)
        if written != len(octets):
            _shorten(descriptor, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _undone(descriptor: int, octets: int) -> Iterator[None]:
    """Cut a file to its former size if the block fails: half a line would look like one that was changed."""
    try:
        yield
    except OSError:
        _shorten(descriptor, octets)
        raise


def _shorten(descriptor: int, octets: int) -> None:
    with contextlib.suppress(OSError):  # a file that can only be appended to keeps what it has
        os.truncate(descriptor, octets)
