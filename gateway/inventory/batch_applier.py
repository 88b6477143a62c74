"""What is reported of one source is applied in order, and a slice at a time where that takes long.

A resync may end a hundred thousand objects at once. Between two slices others have their turn: snapshots,
operations, other sources. What is reported of the source meanwhile waits for its turn; only that its agents
are lost is published at once, because their objects must not be shown as fresh until then.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from gateway.feed.records import Record
from gateway.inventory.agents import EVERY_AGENT
from gateway.inventory.source import UNREACHED, SourceInventory
from gateway.model.observations import AgentGone, AgentLost, Observation, SourceStateSeen

SLICE: Final = 200
"""Objects that are applied in one slice, about: ten milliseconds, with what feed and log do with them."""

MAX_WAITING: Final = 10_000
"""Message bodies that may wait for their turn; where there are more, all is applied at once."""


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """How what is reported is cut into slices.

    Attributes:
        left: called when something is left to be applied; somebody calls `BatchApplier.go_on` soon.
        size: objects of one slice, about.
    """

    left: Callable[[], None]
    size: int = SLICE


@dataclass(slots=True)
class _Body:
    """What is left of a message body, when it was received, and the agents that it loses."""

    left: deque[Observation]
    now: int
    lost: frozenset[str] = field(default=frozenset())


class BatchApplier:
    """What was reported of one source and is not applied yet.

    Args:
        source: that applies it.
        out: given the records that each slice makes; it may lead to new calls.
        slicing: how bodies are cut; ``None`` has each applied at once.
    """

    def __init__(
        self, source: SourceInventory, out: Callable[[list[Record]], None], slicing: BatchSettings | None
    ) -> None:
        self._source = source
        self._out = out
        self._slicing = slicing
        self._losses = source.agents.pending_losses
        self._waiting: deque[_Body | Callable[[], None]] = deque()
        self._is_at_work = False

    @property
    def is_busy(self) -> bool:
        """Whether something is still to be applied."""
        return bool(self._waiting)

    def observed(self, observations: Iterable[Observation], now: int) -> None:
        """Apply what one message body reported, or let it wait for its turn."""
        body = _Body(deque(observations), now)
        if self._waiting:
            body.lost = frozenset(_lost_by(body.left))
            self._losses.update(body.lost)
            if body.lost:
                self._out(self._source.mark_pending_losses(now))
        self._waiting.append(body)
        self.go_on()

    def afterwards(self, do: Callable[[], None]) -> None:
        """Do something when all that was reported before is applied; at once where it is."""
        self._waiting.append(do)
        self.go_on()

    def tick(self, now: int) -> None:
        """Once a second."""
        if not self._waiting:
            self._source.tick(now)
            self.observed((), now)

    def go_on(self) -> None:
        """Apply the next slice."""
        if self._is_at_work:
            return  # it is what a slice led to: behind it
        slicing = self._slicing
        room = slicing.size if slicing is not None and len(self._waiting) <= MAX_WAITING else None
        self._is_at_work = True
        try:
            while self._waiting and (room is None or room > 0):
                first = self._waiting[0]
                if not isinstance(first, _Body):
                    self._waiting.popleft()
                    first()
                    continue
                records, steps = self._apply(first, room)
                room = None if room is None else room - max(1, steps)
                self._out(records)
        finally:
            self._is_at_work = False
        if self._waiting and slicing is not None:
            slicing.left()

    def _apply(self, body: _Body, room: int | None) -> tuple[list[Record], int]:
        """Apply the first body that waits, or a part of it that fits ``room``."""
        if body.lost:
            self._losses -= Counter(body.lost)
            body.lost = frozenset()
        try:
            applied = self._source.apply(body.left, body.now, room)
        except BaseException:
            self._waiting.popleft()
            raise
        if not (body.left or self._source.is_settling):
            self._waiting.popleft()
        return applied


def _lost_by(observations: Iterable[Observation]) -> Iterable[str]:
    """Yield the agents that are lost with these."""
    for one in observations:
        if isinstance(one, AgentLost | AgentGone):
            yield one.agent
        elif isinstance(one, SourceStateSeen) and one.state in UNREACHED:
            yield EVERY_AGENT
