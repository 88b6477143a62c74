"""Subscribes to the feed and keeps at it: the north's side of the Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import structlog

from gateway.feed.messages import VERSION, FeedError, FrameReader
from gateway.feed.records import FeedMessage, Hello

log = structlog.get_logger(__name__)

RETRY_SECONDS = 0.25
"""Between attempts to reach the core: it is on this machine, so a fixed short wait does no harm."""

_CHUNK_OCTETS = 256 * 1024


class Subscriber(Protocol):
    """What a north does with its feed; both calls are synchronous and must be quick."""

    def received(self, message: FeedMessage) -> None:
        """A message arrived, in order."""

    def disconnected(self, reason: str) -> None:
        """The core is gone: everything known is stale until told again."""


async def at_once() -> None:
    """Be ready for more as soon as others had their turn."""
    await asyncio.sleep(0)


async def follow(path: Path, subscriber: Subscriber, ready: Callable[[], Awaitable[None]] = at_once) -> None:
    """Read the feed at ``path`` for ever, reconnecting as long as it takes. Ends by cancellation only.

    Args:
        path: of the core's socket.
        subscriber: what is done with the messages.
        ready: awaited after each message; while it lasts nothing is read, and the core merges what waits.
    """
    down = ""
    while True:
        try:
            await _read(path, subscriber, ready)
            reason = "the core closed the feed"
        except (OSError, FeedError) as error:
            reason = str(error)
        if reason != down:  # once a reason, not once an attempt
            log.warning("feed-down", reason=reason, path=str(path))
            down = reason
        subscriber.disconnected(reason)
        await asyncio.sleep(RETRY_SECONDS)


async def _read(path: Path, subscriber: Subscriber, ready: Callable[[], Awaitable[None]]) -> None:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        frames = FrameReader()
        while octets := await reader.read(_CHUNK_OCTETS):
            for message in frames.feed(octets):
                if isinstance(message, Hello):
                    if message.version != VERSION:
                        raise FeedError(
                            f"the core speaks feed version {message.version}, this north {VERSION}"
                        )
                    log.info("feed-up", gateway=message.gateway, epoch=message.epoch)
                subscriber.received(message)
                await ready()  # a snapshot is thousands of messages: answer requests in between
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
