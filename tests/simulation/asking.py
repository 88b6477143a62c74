"""How a north asks the core, by the real link over a simulated socket; what every north is started with."""

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


class NorthLink(FeedLink):
    """A link that is told what its socket would bring.

    Args:
        subscriber: what is done with the messages.
    """

    def __init__(self, subscriber: Subscriber) -> None:
        super().__init__(Path("feed.sock"), subscriber)

    def heard(self, message: FeedMessage, feed: Feed) -> None:
        """A message arrived."""
        self._received(message, cast("StreamWriter", feed))

    def lost(self, reason: str) -> None:
        """The connection has ended."""
        self._writer = None
        self._is_dropped = False
        self._give_up()
        self._subscriber.disconnected(reason)


@dataclass(frozen=True, slots=True)
class NorthSurroundings:
    """What every north is started with.

    Attributes:
        scheduler: time and chance.
        loop: what awaits runs on it.
        clock: the gateway's.
        core: the core that runs now, or ``None``.
        link: how norths are connected with it.
    """

    scheduler: Scheduler
    loop: VirtualLoop
    clock: Clock
    core: Callable[[], Core | None]
    link: type[NorthLink] = NorthLink
