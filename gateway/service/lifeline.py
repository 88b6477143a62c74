"""The line between the supervisor and each of its processes: one says ``ready``, the other just lives.

It is a Unix socket pair. When the supervisor ends, however it ends, its side closes and the child ends
too: no process outlives a supervisor that was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket

READY = b"R"


class Lifeline:
    """The child's end.

    Args:
        descriptor: of the inherited socket; ``None`` where the process was started by hand.
        state_lock: of the inherited lock of the state folder, which all processes of a gateway hold together;
            ``None`` where this process has to take it.
    """

    def __init__(self, descriptor: int | None, state_lock: int | None = None) -> None:
        self.state_lock = state_lock
        self._socket = None if descriptor is None else socket.socket(fileno=descriptor)

    def ready(self) -> None:
        """Say that this process does its work now."""
        if self._socket is not None:
            with contextlib.suppress(ConnectionError):  # it has gone: `parent_gone` says so
                self._socket.send(READY)

    async def parent_gone(self) -> None:
        """Return when the supervisor has gone; never, where there is none."""
        if self._socket is None:
            await asyncio.get_running_loop().create_future()
            return
        self._socket.setblocking(False)
        with contextlib.suppress(ConnectionError):
            await asyncio.get_running_loop().sock_recv(self._socket, 1)

    def close(self) -> None:
        """Let go of it; for a caller that lives on."""
        if self._socket is not None:
            self._socket.close()
