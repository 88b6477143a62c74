"""The core's side of a feed whose octets are made before anything is measured."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gateway.feed.messages import VERSION, encode
from gateway.feed.records import Batch, Hello, Record, SnapshotBegan, SnapshotEnded
from tests.components.waiting import DEADLINE

BATCH_RECORDS: Final = 50
"""In one batch: as many objects as a body of QMF tells at most."""

_EPOCH: Final = 1


def frames(records: Iterable[Record]) -> bytes:
    """The octets of batches that tell these records."""
    waiting = tuple(records)
    starts = range(0, len(waiting), BATCH_RECORDS)
    return b"".join(encode(Batch(_EPOCH, 1, waiting[start : start + BATCH_RECORDS])) for start in starts)


class FeedPlayer:
    """Lets one north in, and sends it what it is told to, as fast as that takes it.

    Args:
        path: of the socket, as the north's configuration has it.
    """

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(DEADLINE)
        self._listener.bind(str(path))
        self._listener.listen()
        self._north: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        if self._north is not None:
            self._north.close()

    def begin(self, snapshot: Iterable[Record]) -> None:
        """Wait for the north, and tell it everything there is.

        Raises:
            TimeoutError: it does not come.
        """
        self._north, _ = self._listener.accept()
        self._north.settimeout(DEADLINE)
        hello = Hello(VERSION, _EPOCH, "6bd7a1f6-0c3d-4c57-9be5-c22cf2cf7d39", 1)
        began, ended = SnapshotBegan(_EPOCH, 1), SnapshotEnded(_EPOCH, 1)
        self.send(encode(hello) + encode(began) + frames(snapshot) + encode(ended))

    def send(self, octets: bytes) -> None:
        """Send frames; returns when the last octets are with the kernel.

        Raises:
            OSError: the north is gone, or takes nothing any more.
        """
        assert self._north is not None, "the north is let in by begin"
        self._north.sendall(octets)
