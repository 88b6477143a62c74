"""A relay to a management API in which a test can intervene between the steps of an operation."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Final, Self

from gateway.mapping.paths import Json

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
        self._open: set[socket.socket] = set()
        self._entrance = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._entrance.getsockname()[1]
        self._before: Callable[[], object] = _nothing
        self._behind: Callable[[], object] = _nothing
        self._false: tuple[bytes, bool] | None = None
        self._documents: dict[bytes, bytes] = {}

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

    @contextlib.contextmanager
    def answering(self, status: str, *, forwarded: bool) -> Iterator[None]:
        """Within the block, answer each change as a proxy does.

        Args:
            status: the status of the answer, such as ``204 No Content``; empty to end the connection.
            forwarded: forward the change, and drop the broker's answer.
        """
        answer = f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" if status else ""
        self._false = answer.encode(), forwarded
        try:
            yield
        finally:
            self._false = None

    @contextlib.contextmanager
    def showing(self, target: str, document: Json) -> Iterator[None]:
        """Within the block, answer a GET of ``/api/`` and ``target`` with this document."""
        body = json.dumps(document).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        for end in (" ", "?"):
            self._documents[f"GET /api/{target}{end}".encode()] = head.encode() + body
        try:
            yield
        finally:
            self._documents.clear()

    def move(self, target: int) -> None:
        """Connect to another port from now on, and end the open connections, as a name that moves does."""
        self._target = target
        for near in tuple(self._open):
            with contextlib.suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._entrance.accept()
                self._open.add(near)
                threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with contextlib.ExitStack() as ends:
            ends.enter_context(near)
            ends.callback(self._open.discard, near)
            ends.enter_context(contextlib.suppress(OSError))
            octets = near.recv(CHUNK_OCTETS)
            is_change = octets.startswith(_CHANGES)
            false = self._false if is_change else None
            if false is not None and not false[1]:
                near.sendall(false[0])
                return
            if is_change:
                self._before()
            with socket.create_connection(("127.0.0.1", self._target)) as far:
                back = threading.Thread(
                    target=self._carry_back, args=(far, near, is_change, false), daemon=True
                )
                back.start()
                while octets:
                    shown = next(
                        (self._documents[one] for one in self._documents if octets.startswith(one)), b""
                    )
                    if shown:
                        near.sendall(shown)
                    else:
                        far.sendall(octets)
                    octets = near.recv(CHUNK_OCTETS)
                far.shutdown(socket.SHUT_WR)
                back.join()

    def _carry_back(
        self,
        far: socket.socket,
        near: socket.socket,
        is_change: bool,  # noqa: FBT001  a thread's
        false: tuple[bytes, bool] | None,
    ) -> None:
        with contextlib.suppress(OSError):
            octets = far.recv(CHUNK_OCTETS)
            if false is not None:
                near.sendall(false[0])
                near.shutdown(socket.SHUT_RDWR)
                return
            if is_change:
                self._behind()
            while octets:
                near.sendall(octets)
                octets = far.recv(CHUNK_OCTETS)
            near.shutdown(socket.SHUT_RDWR)


def _nothing() -> None:
    pass
