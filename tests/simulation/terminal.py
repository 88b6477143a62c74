"""A command at a terminal: a process that asks for one thing, and ends."""

from __future__ import annotations

from collections.abc import Callable

from gateway.feed.operations import OperationAnswer, OperationRequest
from gateway.feed.records import FeedMessage, SnapshotEnded
from gateway.model.operations import Outcome
from tests.simulation.asking import NorthLink
from tests.simulation.core import Core, Feed
from tests.simulation.loop import VirtualLoop


class Terminal:
    """A command that reads what there is, asks for one operation, and ends with its answer.

    Args:
        core: that it connects to.
        loop: what awaits runs on it.
        request: what it asks for.
        answered: given the answer.
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
        self._link = NorthLink(self)
        self._feed: Feed | None = core.subscribe(_Arriving(self))

    def heard(self, told: FeedMessage) -> None:
        """Octets of the feed arrived."""
        if self._feed is not None:
            self._link.heard(told, self._feed)

    def received(self, told: FeedMessage) -> None:
        """A message of the feed."""
        if isinstance(told, SnapshotEnded) and not self._has_asked:
            self._has_asked = True
            self._loop.spawn(self._ask())

    def disconnected(self, reason: str) -> None:
        """The core is gone."""

    def ended(self) -> None:
        """The feed has ended."""
        self._link.lost("the core closed the feed")
        self._feed = None

    def close(self) -> None:
        """It is over."""
        if self._feed is not None:
            self._feed.hang_up()
            self._feed = None

    async def _ask(self) -> None:
        answer = await self._link.ask(self._request)
        if self._feed is not None or answer.outcome is not Outcome.APPLIED:
            self._answered(answer)
        self.close()


class _Arriving:
    """What the feed calls a north."""

    def __init__(self, terminal: Terminal) -> None:
        self.received = terminal.heard
        self.ended = terminal.ended
