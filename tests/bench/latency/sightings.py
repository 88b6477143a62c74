"""Observers of a sample's number, with the time of its first appearance (``time.monotonic_ns``)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from gateway.eventlog.block import Block, BlockScanner
from gateway.eventlog.segment import list_segments
from tests.bench.jmx.programs import Load
from tests.bench.latency.agent import COUNTED
from tests.components.waiting import DEADLINE
from tests.snmp.datagrams import read_answer

_POLLER: Final = Path(__file__).with_name("poller.py")
_MAX_DATAGRAM: Final = 65_535
_LOOK_AGAIN_SECONDS: Final = 0.000_5
_BREATH_SECONDS: Final = 0.2
"""The longest time in which an observer notices that it is to end."""


class Sightings:
    """The sightings of one observer, which may report them from any thread.

    Args:
        loop: the event loop that waits for them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._moments: dict[int, int] = {}
        self._news = asyncio.Event()

    def saw(self, number: int, moment: int) -> None:
        """Add the sighting of a sample's number."""
        self._loop.call_soon_threadsafe(self._note, number, moment)

    def saw_in(self, text: bytes, moment: int) -> None:
        """Add the sightings of samples whose event's text is in ``text``."""
        for number in re.findall(COUNTED, text):
            self.saw(int(number), moment)

    async def of(self, number: int, seconds: float = DEADLINE) -> int | None:
        """Return the time of the first sighting; ``None`` if there was none in time."""
        try:
            async with asyncio.timeout(seconds):
                while number not in self._moments:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return None
        return self._moments.pop(number)

    def _note(self, number: int, moment: int) -> None:
        self._moments.setdefault(number, moment)
        self._news.set()


@contextmanager
def traps(receiver: socket.socket, seen: Sightings) -> Iterator[None]:
    """Watch a UDP socket that receives traps."""
    receiver.settimeout(_BREATH_SECONDS)

    def look() -> None:
        try:
            datagram = receiver.recv(_MAX_DATAGRAM)
        except TimeoutError:
            return
        seen.saw_in(datagram, time.monotonic_ns())

    with _repeating(look):
        yield


@contextmanager
def values(request: bytes, port: int, seen: Sightings) -> Iterator[None]:
    """Watch an instance of an SNMP agent at this port of the loopback, by a process that polls it."""
    command = (sys.executable, "-I", _POLLER, "127.0.0.1", str(port), request.hex())
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as poller:  # noqa: S603  our own
        assert poller.stdout is not None
        lines = poller.stdout

        def look() -> None:
            moment, _, datagram = lines.readline().partition(" ")
            if datagram:
                seen.saw(number_in(bytes.fromhex(datagram)), int(moment))
            else:
                time.sleep(_BREATH_SECONDS)  # it ends

        try:
            with _repeating(look):
                yield
                poller.kill()
        finally:
            poller.kill()


@contextmanager
def notifications(load: Load, seen: Sightings) -> Iterator[None]:
    """Watch the notifications that arrive at a Java client."""

    def look() -> None:
        with contextlib.suppress(queue.Empty):
            moment, message = load.notifications.get(timeout=_BREATH_SECONDS)
            seen.saw_in(message.encode(), moment)

    with _repeating(look):
        yield


@contextmanager
def commits(log: Path, seen: Sightings) -> Iterator[None]:
    """Watch an event log: a record counts as soon as its commit line is on the disk."""
    tail = _LogTail(log)

    def look() -> None:
        time.sleep(_LOOK_AGAIN_SECONDS)
        for block in tail.committed():
            seen.saw_in(block, time.monotonic_ns())

    with _repeating(look):
        yield
    tail.close()


def number_in(datagram: bytes) -> int:
    """Return the number in the only varbind of a response; 0 if it has none."""
    (_, value), *_ = read_answer(datagram).varbinds
    return int.from_bytes(value[2:], "big")


class _LogTail:
    """The end of a log, including its next segments."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._first_seq = 0
        self._scanner = BlockScanner()
        self._segment: BinaryIO | None = None

    def committed(self) -> list[bytes]:
        """Return the record lines of the blocks that were committed since the last call."""
        octets = self._segment.read() if self._segment is not None else b""
        if self._segment is None or not octets:
            self._look_for_the_next()
            return []
        blocks = [found for found in self._scanner.feed(octets) if isinstance(found, Block)]
        if blocks:
            # The line is seen when it was written, before it is on the disk: wait for that here too.
            os.fdatasync(self._segment.fileno())
        return [b"\n".join(block.split()) for block in blocks]

    def close(self) -> None:
        """Close the segment."""
        if self._segment is not None:
            self._segment.close()

    def _look_for_the_next(self) -> None:
        newest = max(list_segments(self._log), default=None)
        if newest is None or newest.first_seq <= self._first_seq:
            return
        with contextlib.suppress(FileNotFoundError):  # renamed just now: it is found at the next look
            segment = newest.path.open("rb")
            self.close()
            self._first_seq, self._scanner, self._segment = newest.first_seq, BlockScanner(), segment


@contextmanager
def _repeating(look: Callable[[], None]) -> Iterator[None]:
    """Call ``look``, which returns soon, repeatedly on a thread until the context is left."""
    ending = threading.Event()

    def repeat() -> None:
        while not ending.is_set():
            look()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join(DEADLINE)
