"""The line between the supervisor and each of its processes.

It is a Unix socket pair. The process reports on it that it is ready, and answers questions: each is one
byte, the answer its `Metrics`, as length and msgpack. The supervisor also announces what ends
(`Announcement`), behind a byte of their own, and hands over a socket to listen on, with another byte. A
process reports the end of one that it started itself, before an answer: a map in msgpack, while an answer is
an array. When the supervisor ends, however it ends, its side closes and the child ends too: no process
outlives a supervisor that was killed. Until the process is ready, and if it hangs, its `ParentGuard` ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import structlog

from gateway.service.metrics.families import Metrics, Reading, decode_readings, encode_readings
from gateway.service.processes.parent_guard import ParentGuard

log = structlog.get_logger(__name__)

READY = b"R"
QUESTION = b"?"
ANNOUNCED = b"!"
LISTENER = b"L"
"""The byte with which a descriptor is passed (SCM_RIGHTS, unix(7)): that of a socket to listen on."""

MAX_ANSWER_OCTETS = 8 << 20
"""Maximum size of an answer; a source has about two hundred readings of 80 bytes."""

MAX_REPORTS = 16
"""The number of ends that a process remembers between two questions of its supervisor."""

MAX_ANNOUNCED_OCTETS = 16 << 10
"""Maximum size of an announcement; its reason is a line."""

_LENGTH = struct.Struct(">I")


class ProcessEnd(msgspec.Struct, frozen=True, tag="process-end"):
    """The end of a process that was not asked to end.

    Attributes:
        process: the name of the process.
        reason: why it ended, as far as that is known: one line.
    """

    process: str
    reason: str


class GatewayStop(msgspec.Struct, frozen=True, tag="gateway-stop"):
    """The gateway was asked to end, and ends now.

    Attributes:
        reason: who asked, and how: one line.
    """

    reason: str


class Reload(msgspec.Struct, frozen=True, tag="reload"):
    """The gateway was asked to read its configuration again.

    Attributes:
        by: who asked, and how: one line.
    """

    by: str


class AccessRefused(msgspec.Struct, frozen=True, tag="access-refused"):
    """Clients that proved no identity were refused by the supervisor's own listener.

    Attributes:
        front_end: the front end of the principal.
        address: the address of the clients.
        reason: why the last one was refused: one line.
        attempts: the number of attempts that it stands for.
    """

    front_end: str
    address: str
    reason: str
    attempts: int


class NotStarted(msgspec.Struct, frozen=True, tag="not-started"):
    """The processes that cannot be started at present; an announcement replaces the one before.

    Attributes:
        reasons: why, one line for each process, by its name; empty if all of them start.
    """

    reasons: dict[str, str]


class LogLinesLost(msgspec.Struct, frozen=True, tag="log-lines-lost"):
    """Processes other than the core have lost lines of their logs since the announcement before.

    Attributes:
        lines: how many, of all of them.
    """

    lines: int


Announcement: TypeAlias = ProcessEnd | GatewayStop | Reload | AccessRefused | NotStarted | LogLinesLost
"""What the supervisor announces to the core, which publishes it."""


@dataclass(frozen=True, slots=True)
class NewListener:
    """The socket that the process is to listen on now, because the file of the former one is gone."""

    listener: socket.socket


Message: TypeAlias = Announcement | NewListener
"""What the supervisor sends to a process, beside questions."""

_MAPS = {bytes([0x80 | entries]) for entries in range(16)}
_DECODER = msgspec.msgpack.Decoder(Announcement)


class Lifeline:
    """The child's end of the line.

    Args:
        descriptor: the descriptor of the inherited socket; ``None`` where the process was started by hand.
        state_lock: the descriptor of the inherited lock of the state folder, which all processes of a gateway
            hold together; ``None`` where this process has to take it.
        guard: informed when this process is ready.
        listener: the descriptor of the inherited socket to listen on; ``None`` for a process that does not,
            or has to make one.
        start: the number of this start of the process, which the supervisor has reserved
            (`gateway.starts`); ``None`` where the process counts its starts itself, or they have no number.

    Attributes:
        metrics: the metrics that the supervisor receives when it asks.
        listener: the inherited socket to listen on.
        start: as above.
    """

    def __init__(
        self,
        descriptor: int | None,
        state_lock: int | None = None,
        guard: ParentGuard | None = None,
        listener: int | None = None,
        start: int | None = None,
    ) -> None:
        self.state_lock = state_lock
        self.start = start
        self.listener = None if listener is None else socket.socket(fileno=listener)
        if listener is not None:
            os.set_inheritable(listener, False)  # programs that this process starts do not listen
        self.metrics = Metrics()
        self._guard = guard
        self._announced: deque[Announcement] = deque(maxlen=MAX_REPORTS)
        self._take: Callable[[Message], None] | None = None
        # Sent by `parent_gone` alone: an answer of which a part is sent must not be interrupted.
        self._reports: deque[bytes] = deque(maxlen=MAX_REPORTS)
        self._socket = None if descriptor is None else socket.socket(fileno=descriptor)

    def ready(self) -> None:
        """Report that this process is ready."""
        if self._guard is not None:
            self._guard.ready()
        if self._socket is not None:
            with contextlib.suppress(ConnectionError):  # it has gone: `parent_gone` says so
                self._socket.send(READY)

    def report(self, end: ProcessEnd) -> None:
        """Report the end of a process that this one had started, with the next answer."""
        self._reports.append(_framed(msgspec.msgpack.encode(end)))

    def announce(self, announcement: Announcement) -> None:
        """Announce something within this process, as its supervisor would.

        It waits for `parent_gone`; of many that wait, the last ones are kept.
        """
        if self._take is None:
            self._announced.append(announcement)
        else:
            self._take(announcement)

    async def parent_gone(self, take: Callable[[Message], None] | None = None) -> None:
        """Answer questions until the supervisor has gone; without a supervisor, never return.

        Args:
            take: receives what the supervisor announces, and hands over.
        """
        self._take = take
        try:
            while take is not None and self._announced:
                take(self._announced.popleft())
            await self._serve(take)
        finally:
            self._take = None

    async def _serve(self, take: Callable[[Message], None] | None) -> None:
        if self._socket is None:
            await asyncio.get_running_loop().create_future()
            return
        self._socket.setblocking(False)
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                kind, descriptors = await _kind(self._socket)
                if not kind:
                    return
                for listener in [socket.socket(fileno=each) for each in descriptors]:
                    if take is None:
                        listener.close()
                    else:
                        take(NewListener(listener))
                if kind == LISTENER:
                    continue
                if kind == ANNOUNCED:
                    octets = await _received(self._socket, MAX_ANNOUNCED_OCTETS)
                    if take is not None and (announcement := _announcement(octets)) is not None:
                        take(announcement)
                    continue
                answer = encode_readings(await self.metrics.collect())
                while self._reports:
                    await loop.sock_sendall(self._socket, self._reports.popleft())
                await loop.sock_sendall(self._socket, _framed(answer))

    def close(self) -> None:
        """Close the line, for a caller that lives on."""
        if self._socket is not None:
            self._socket.close()


class ProcessLine:
    """The supervisor's end of the line.

    Args:
        line: connected to the child's end; this object closes it.

    Attributes:
        last_answer: the last answer of the child.
        answers: the number of its answers, also of those that came late.
    """

    def __init__(self, line: socket.socket) -> None:
        self._socket = line
        self._socket.setblocking(False)
        self._asked: asyncio.Future[list[Reading]] | None = None
        self._is_ready = False
        self.last_answer: list[Reading] = []
        self.answers = 0

    @property
    def is_ready(self) -> bool:
        """Whether the child has reported that it is ready, and lives."""
        return self._is_ready

    async def receive(
        self, ready: Callable[[], None], take: Callable[[Announcement], None] | None = None
    ) -> None:
        """Read answers until the child closes the line.

        Args:
            ready: called when the child reports that it is ready.
            take: receives what the child reports of processes that it started.
        """
        loop = asyncio.get_running_loop()
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                if await loop.sock_recv(self._socket, 1) != READY:
                    return
                self._is_ready = True
                ready()
                while True:
                    octets = await _received(self._socket, MAX_ANSWER_OCTETS)
                    if octets[:1] not in _MAPS:
                        self._answered(octets)
                    elif take is not None and (announcement := _announcement(octets)) is not None:
                        take(announcement)
        finally:
            self._is_ready = False
            if self._asked is not None:
                self._asked.cancel()

    async def ask(self, seconds: float) -> list[Reading] | None:
        """Return the child's metrics; ``None`` if it is not ready, or does not answer in ``seconds``.

        Simultaneous callers share one question; one that timed out leaves it to the next.
        """
        if not self._is_ready:
            return None
        asked = self._asked
        if asked is None:
            asked = self._asked = asyncio.get_running_loop().create_future()
            try:
                self._socket.send(QUESTION)
            except OSError:
                self._asked = None
                return None
        done, _ = await asyncio.wait({asked}, timeout=seconds)
        return None if not done or asked.cancelled() else asked.result()

    def announce(self, announcement: Announcement) -> bool:
        """Send an announcement; return whether that was possible: the child is ready, and reads."""
        if not self._is_ready:
            return False
        framed = ANNOUNCED + _framed(msgspec.msgpack.encode(announcement))
        try:
            return self._socket.send(framed) == len(framed)
        except OSError:
            return False

    def hand_over(self, listener: socket.socket) -> bool:
        """Have the child listen on another socket; return whether it is ready, and reads."""
        if not self._is_ready:
            return False
        try:
            return socket.send_fds(self._socket, [LISTENER], [listener.fileno()]) == len(LISTENER)
        except OSError:
            return False

    def close(self) -> None:
        """Close the line: the child ends, if it has not."""
        self._socket.close()

    def _answered(self, octets: bytes) -> None:
        try:
            readings = decode_readings(octets)
        except ValueError as error:  # another version of us, installed while we run
            log.warning("answer-not-understood", reason=str(error))
            readings = []
        self.last_answer = readings
        self.answers += 1
        asked, self._asked = self._asked, None
        if asked is not None and not asked.done():
            asked.set_result(readings)


def _framed(octets: bytes) -> bytes:
    return _LENGTH.pack(len(octets)) + octets


def _announcement(octets: bytes) -> Announcement | None:
    """Return an announcement; ``None`` for that of another version of us, installed while we run."""
    try:
        announcement: Announcement = _DECODER.decode(octets)
    except msgspec.DecodeError as error:
        log.warning("announcement-not-understood", reason=str(error))
        return None
    return announcement


async def _kind(line: socket.socket) -> tuple[bytes, list[int]]:
    """Return the byte that says what follows, and the descriptors that came with it; no byte at the end."""
    while True:
        try:
            kind, descriptors, _, _ = socket.recv_fds(line, 1, 1)
        except BlockingIOError:
            await _readable(line)
        else:
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)  # Python 3.11 ignores the flag MSG_CMSG_CLOEXEC
            return kind, list(descriptors)


async def _readable(line: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(line, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(line)


async def _received(line: socket.socket, limit: int) -> bytes:
    """Return what follows as length and content.

    Raises:
        ConnectionError: the content is larger than ``limit``.
        asyncio.IncompleteReadError: the other end closed the line.
    """
    (length,) = _LENGTH.unpack(await _exactly(line, _LENGTH.size))
    if length > limit:
        raise ConnectionError(f"{length} bytes on the lifeline, at most {limit} are expected")
    return await _exactly(line, length)


async def _exactly(line: socket.socket, octets: int) -> bytes:
    loop, received = asyncio.get_running_loop(), bytearray()
    while len(received) < octets:
        part = await loop.sock_recv(line, octets - len(received))
        if not part:
            raise asyncio.IncompleteReadError(bytes(received), octets)
        received += part
    return bytes(received)
