"""A command at a terminal: a process that submits one operation and ends."""

from __future__ import annotations

from collections.abc import Callable

from gateway.feed.operations import OperationAnswer, OperationRequest
from gateway.feed.records import FeedMessage, SnapshotEnded
from gateway.model.operations import Outcome
from tests.simulation.asking import NorthboundLink
from tests.simulation.core import Core, Feed
from tests.simulation.loop import VirtualLoop


class Terminal:
    """A command that reads the snapshot, submits one operation, and ends with its answer.

    Args:
        core: the core that it connects to.
        loop: the event loop for asynchronous code.
        request: the request for the operation.
        answered: called with the answer.
    """

    def __init__(
        self,
        core: Core,
        loop: VirtualLoop,
        request: OperationRequest,
        answered: Callable[[OperationAnswer], None],
    ) -> None:
        self._loop = loop
        self._request = request
        self._answered = answered
        self._has_asked = False
        self._link = NorthboundLink(self)
        self._feed: Feed | None = core.subscribe(_Arriving(self))

    def arrived(self, reported: FeedMessage) -> None:
        """Process a message that arrived from the feed."""
        if self._feed is not None:
            self._link.take(reported, self._feed)

    def received(self, reported: FeedMessage) -> None:
        """Process a message of the feed; submit the request after the snapshot."""
        if isinstance(reported, SnapshotEnded) and not self._has_asked:
            self._has_asked = True
            self._loop.spawn(self._ask())

    def disconnected(self, reason: str) -> None:
        """Ignore the end of the core."""

    def ended(self) -> None:
        """Process the end of the feed."""
        self._link.lost("the core closed the feed")
        self._feed = None

    def close(self) -> None:
        """Close the feed."""
        if self._feed is not None:
            self._feed.hang_up()
            self._feed = None

    async def _ask(self) -> None:
        answer = await self._link.ask(self._request)
        if self._feed is not None or answer.outcome is not Outcome.APPLIED:
            self._answered(answer)
        self.close()


class _Arriving:
    """The handler of the feed, which forwards to a terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self.received = terminal.arrived
        self.ended = terminal.ended
