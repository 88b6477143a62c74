"""The core's side of a feed whose octets are made before the measurement."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gateway.feed.messages import VERSION, encode
from gateway.feed.records import Alive, Batch, Hello, Record, SnapshotBegan, SnapshotEnded
from tests.components.waiting import DEADLINE

BATCH_RECORDS: Final = 50
"""The number of records in one batch: as many objects as a body of QMF has at most."""

_EPOCH: Final = 1
_ALIVE: Final = encode(Alive())
_ALIVE_SECONDS: Final = 1.0
"""The interval of a core's signs of life."""


def frames(records: Iterable[Record], batch_records: int = BATCH_RECORDS) -> bytes:
    """Return the octets of batches with so many of these records each."""
    waiting = tuple(records)
    starts = range(0, len(waiting), batch_records)
    return b"".join(encode(Batch(_EPOCH, 1, waiting[start : start + batch_records])) for start in starts)


class FeedPlayer:
    """A server that accepts one front end, and sends it the given frames as fast as it reads them.

    Meanwhile it sends a core's signs of life. Without them a front end disconnects, and shows stale values.

    Args:
        path: the path of the socket, as in the front end's configuration.
    """

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(DEADLINE)
        self._listener.bind(str(path))
        self._listener.listen()
        self._northbound: socket.socket | None = None
        self._sending = threading.Lock()
        self._ended = threading.Event()
        self._living = threading.Thread(target=self._live, daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._listener.close()
        if self._northbound is not None:
            self._living.join()
            self._northbound.close()

    def begin(self, snapshot: Iterable[Record]) -> None:
        """Wait for the front end, and send it a whole snapshot.

        Raises:
            TimeoutError: the front end does not connect.
        """
        self._northbound, _ = self._listener.accept()
        self._northbound.settimeout(DEADLINE)
        hello = Hello(VERSION, _EPOCH, "6bd7a1f6-0c3d-4c57-9be5-c22cf2cf7d39", 1)
        began, ended = SnapshotBegan(_EPOCH, 1), SnapshotEnded(_EPOCH, 1)
        self.send(encode(hello) + encode(began) + frames(snapshot) + encode(ended))
        self._living.start()

    def send(self, octets: bytes) -> None:
        """Send frames; return when the last octets are with the kernel.

        Raises:
            OSError: the front end is gone, or does not read.
        """
        assert self._northbound is not None, "begin accepts the front end"
        with self._sending:
            self._northbound.sendall(octets)

    def _live(self) -> None:
        with contextlib.suppress(OSError):  # the next `send` fails, too
            while not self._ended.wait(_ALIVE_SECONDS):
                self.send(_ALIVE)
