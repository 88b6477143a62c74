"""Requests of front ends to the core over a simulated socket, and the surroundings of every front end."""

from __future__ import annotations

from asyncio import StreamWriter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from gateway.feed.client import FeedLink, Subscriber
from gateway.feed.records import FeedMessage
from tests.simulation.core import Core, Feed
from tests.simulation.loop import VirtualLoop
from tests.simulation.scheduler import Clock, Scheduler


class NorthboundLink(FeedLink):
    """A link that receives messages from the simulation instead of a socket.

    Args:
        subscriber: the subscriber that processes the messages.
        slice_records: as of `FeedLink`.
    """

    def __init__(self, subscriber: Subscriber, slice_records: int | None = None) -> None:
        super().__init__(Path("feed.sock"), subscriber, slice_records=slice_records)

    def take(self, message: FeedMessage, feed: Feed) -> None:
        """Process a message that arrived."""
        for part in self._sliced(message):
            self._received(part, cast("StreamWriter", feed))

    def lost(self, reason: str) -> None:
        """Process the end of the connection."""
        self._writer = None
        self._is_dropped = False
        self._give_up()
        self._subscriber.disconnected(reason)


@dataclass(frozen=True, slots=True)
class NorthboundSurroundings:
    """The surroundings that every front end is started with.

    Attributes:
        scheduler: time and chance.
        loop: the event loop for asynchronous code.
        clock: the gateway's clock.
        core: returns the core that runs now, or ``None``.
        link: the type of link between front ends and the core.
    """

    scheduler: Scheduler
    loop: VirtualLoop
    clock: Clock
    core: Callable[[], Core | None]
    link: type[NorthboundLink] = NorthboundLink
