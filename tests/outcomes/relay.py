"""A relay to a management API in which a test can intervene between the steps of an operation."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Final, Self

CHUNK_OCTETS: Final = 65_536
_CHANGES: Final = (b"PUT", b"POST", b"DELETE")


class Relay:
    """A relay of connections to a port on loopback; used as a context manager.

    The gateway makes each change on a connection of its own, so the first octets of a connection show whether
    it carries one.

    Args:
        target: the port that it connects to.

    Attributes:
        port: the port on 127.0.0.1 at which it accepts connections.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._entrance = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._entrance.getsockname()[1]
        self._before: Callable[[], object] = _nothing
        self._behind: Callable[[], object] = _nothing

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._entrance.shutdown(socket.SHUT_RDWR)  # wakes the one who accepts
        self._entrance.close()

    @contextlib.contextmanager
    def stepping_in(
        self, before: Callable[[], object] | None = None, behind: Callable[[], object] | None = None
    ) -> Iterator[None]:
        """Within the block, call ``before`` before each change is forwarded, ``behind`` before its answer."""
        self._before, self._behind = before or _nothing, behind or _nothing
        try:
            yield
        finally:
            self._before = self._behind = _nothing

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._entrance.accept()
                threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            octets = near.recv(CHUNK_OCTETS)
            is_change = octets.startswith(_CHANGES)
            if is_change:
                self._before()
            with socket.create_connection(("127.0.0.1", self._target)) as far:
                back = threading.Thread(target=self._carry_back, args=(far, near, is_change), daemon=True)
                back.start()
                while octets:
                    far.sendall(octets)
                    octets = near.recv(CHUNK_OCTETS)
                far.shutdown(socket.SHUT_WR)
                back.join()

    def _carry_back(self, far: socket.socket, near: socket.socket, is_change: bool) -> None:  # noqa: FBT001  a thread's
        with contextlib.suppress(OSError):
            octets = far.recv(CHUNK_OCTETS)
            if is_change:
                self._behind()
            while octets:
                near.sendall(octets)
                octets = far.recv(CHUNK_OCTETS)
            near.shutdown(socket.SHUT_RDWR)


def _nothing() -> None:
    pass
