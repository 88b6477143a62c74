"""Serves the feed on a Unix socket to the norths of the same user."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from gateway.feed.messages import encode
from gateway.feed.records import Batch, Hello, Record
from gateway.feed.subscription import Subscription

log = structlog.get_logger(__name__)

MAX_SOCKET_PATH_OCTETS = 107
"""``sun_path`` holds 108 octets, one of them NUL (unix(7))."""

_CREDENTIALS = struct.Struct("3i")

Snapshot = Callable[[], tuple[Sequence[Record], int]]
"""Gives all current records, immutable and in dependency order, and the sequence they stand at."""


class FeedServer:
    """Accepts subscribers and sends each a hello, a snapshot and then every batch.

    Args:
        path: of the socket; its folder must be ours alone.
        hello: sent first to each subscriber.
        snapshot: called when a subscriber needs the whole state.
        limit: records that may wait for one subscriber.
    """

    def __init__(self, path: Path, hello: Hello, snapshot: Snapshot, limit: int = 100_000) -> None:
        self._path = path
        self._hello = hello
        self._snapshot = snapshot
        self._limit = limit
        self._subscribers: dict[Subscription, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the socket cannot be made; ``ValueError`` where its path is too long for one.
        """
        octets = len(os.fsencode(self._path))
        if octets > MAX_SOCKET_PATH_OCTETS:
            raise ValueError(
                f"{self._path}: a Unix socket's path has at most {MAX_SOCKET_PATH_OCTETS} octets, this one "
                f"{octets}: set XDG_RUNTIME_DIR to a shorter folder"
            )
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        former = os.umask(0o177)
        try:
            listener.bind(os.fspath(self._path))
        finally:
            os.umask(former)
        self._server = await asyncio.start_unix_server(self._accepted, sock=listener)

    def publish(self, batch: Batch) -> None:
        """Hand ``batch`` to every subscriber; never waits."""
        for subscription, wake in self._subscribers.items():
            subscription.offer(batch)
            wake.set()

    async def close(self) -> None:
        """Stop listening and hang up."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if _peer_uid(writer) != os.getuid():
                log.warning("feed-refused", reason="the peer runs as another user", uid=_peer_uid(writer))
                return
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the subscriber or we hung up: either is a normal end
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        subscription, wake = Subscription(self._hello.epoch, self._limit), asyncio.Event()
        self._subscribers[subscription] = wake
        hung_up = asyncio.ensure_future(_end_of(reader, wake))
        try:
            writer.write(encode(self._hello))
            while not hung_up.done():
                if subscription.needs_snapshot:
                    if subscription.overflows:
                        log.warning("feed-subscriber-slow", overflows=subscription.overflows)
                    subscription.start_snapshot(*self._snapshot())
                message = subscription.take()
                if message is None:
                    wake.clear()
                    await wake.wait()
                    continue
                writer.write(encode(message))
                await writer.drain()
                await asyncio.sleep(0)  # drain returns at once while the buffer has room: let others run
        finally:
            hung_up.cancel()
            del self._subscribers[subscription]


async def _end_of(reader: asyncio.StreamReader, wake: asyncio.Event) -> None:
    """Until the peer closes; a north has nothing to say yet, so whatever it says ends the conversation."""
    await reader.read(1)
    wake.set()


def _peer_uid(writer: asyncio.StreamWriter) -> int:
    """User id of the process at the other end (SO_PEERCRED, unix(7))."""
    peer: socket.socket = writer.get_extra_info("socket")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(credentials)[1]
    return uid
