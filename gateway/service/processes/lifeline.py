"""The line between the supervisor and each of its processes.

It is a Unix socket pair. The process reports on it that it is ready, and answers questions: each is one byte,
the answer its `Metrics`, as length and msgpack. When the supervisor ends, however it ends, its side closes
and the child ends too: no process outlives a supervisor that was killed. Until the process is ready, and if
it hangs, its `ParentGuard` ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

import structlog

from gateway.service.metrics.families import Metrics, Reading, decode_readings, encode_readings
from gateway.service.processes.parent_guard import ParentGuard

log = structlog.get_logger(__name__)

READY = b"R"
QUESTION = b"?"
MAX_ANSWER_OCTETS = 8 << 20
"""Maximum size of an answer; a source has about two hundred readings of 80 bytes."""

_LENGTH = struct.Struct(">I")


class Lifeline:
    """The child's end of the line.

    Args:
        descriptor: the descriptor of the inherited socket; ``None`` where the process was started by hand.
        state_lock: the descriptor of the inherited lock of the state folder, which all processes of a gateway
            hold together; ``None`` where this process has to take it.
        guard: informed when this process is ready.

    Attributes:
        metrics: the metrics that the supervisor receives when it asks.
    """

    def __init__(
        self, descriptor: int | None, state_lock: int | None = None, guard: ParentGuard | None = None
    ) -> None:
        self.state_lock = state_lock
        self.metrics = Metrics()
        self._guard = guard
        self._socket = None if descriptor is None else socket.socket(fileno=descriptor)

    def ready(self) -> None:
        """Report that this process is ready."""
        if self._guard is not None:
            self._guard.ready()
        if self._socket is not None:
            with contextlib.suppress(ConnectionError):  # it has gone: `parent_gone` says so
                self._socket.send(READY)

    async def parent_gone(self) -> None:
        """Answer questions until the supervisor has gone; without a supervisor, never return."""
        if self._socket is None:
            await asyncio.get_running_loop().create_future()
            return
        self._socket.setblocking(False)
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):
            while await loop.sock_recv(self._socket, 1):
                answer = encode_readings(await self.metrics.collect())
                await loop.sock_sendall(self._socket, _LENGTH.pack(len(answer)) + answer)

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
    """

    def __init__(self, line: socket.socket) -> None:
        self._socket = line
        self._socket.setblocking(False)
        self._asked: asyncio.Future[list[Reading]] | None = None
        self._is_ready = False
        self.last_answer: list[Reading] = []

    @property
    def is_ready(self) -> bool:
        """Whether the child has reported that it is ready, and lives."""
        return self._is_ready

    async def receive(self, ready: asyncio.Event) -> None:
        """Read answers until the child closes the line; set ``ready`` when it reports that it is ready."""
        loop = asyncio.get_running_loop()
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                if await loop.sock_recv(self._socket, 1) != READY:
                    return
                self._is_ready = True
                ready.set()
                while True:
                    (length,) = _LENGTH.unpack(await self._exactly(_LENGTH.size))
                    if length > MAX_ANSWER_OCTETS:
                        return
                    self._answered(await self._exactly(length))
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
        asked, self._asked = self._asked, None
        if asked is not None and not asked.done():
            asked.set_result(readings)

    async def _exactly(self, octets: int) -> bytes:
        loop, received = asyncio.get_running_loop(), bytearray()
        while len(received) < octets:
            part = await loop.sock_recv(self._socket, octets - len(received))
            if not part:
                raise asyncio.IncompleteReadError(bytes(received), octets)
            received += part
        return bytes(received)
