"""What is told of one source is applied in order, and a slice at a time where that takes long.

A resync may end a hundred thousand objects at once. Between two slices others have their turn: snapshots,
operations, other sources. What is told of the source meanwhile waits for its turn; only that its agents are
lost is told at once, because what they vouched for must not be shown as fresh until then.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from gateway.feed.records import Record
from gateway.inventory.source import UNREACHED, SourceInventory
from gateway.model.observations import AgentGone, AgentLost, Observation, SourceStateSeen

SLICE: Final = 200
"""Objects that are applied in one slice, about: ten milliseconds, with what feed and log do with them."""

MAX_WAITING: Final = 10_000
"""Message bodies that may wait for their turn; where there are more, all is applied at once."""

_EVERYONE: Final = ""


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """How what is told is cut into slices.

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
    """What was told of one source and is not applied yet.

    Args:
        source: to be told.
        out: given the records that each slice makes; it may lead to new calls.
        slicing: how; ``None`` has each body applied at once.
    """

    def __init__(
        self, source: SourceInventory, out: Callable[[list[Record]], None], slicing: BatchSettings | None
    ) -> None:
        self._source = source
        self._out = out
        self._slicing = slicing
        self._waiting: deque[_Body | Callable[[], None]] = deque()
        self._losses: Counter[str] = Counter()
        self._is_at_work = False
        source.agents.loses = lambda agent: bool(self._losses[agent] or self._losses[_EVERYONE])

    @property
    def is_busy(self) -> bool:
        """Whether something is still to be applied."""
        return bool(self._waiting)

    def observed(self, observations: Iterable[Observation], now: int) -> None:
        """What one message body told, and when it was received."""
        body = _Body(deque(observations), now)
        if self._waiting:
            body.lost = frozenset(_lost_by(body.left))
            self._losses.update(body.lost)
            if body.lost:
                self._out(self._source.doubt(now))
        self._waiting.append(body)
        self.go_on()

    def afterwards(self, do: Callable[[], None]) -> None:
        """Do something when all that was told before is applied; at once where it is."""
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
        self._is_at_work = True
        try:
            self._apply()
        finally:
            self._is_at_work = False
        if self._waiting and self._slicing is not None:
            self._slicing.left()

    def _apply(self) -> None:
        sliced = self._slicing is not None and len(self._waiting) <= MAX_WAITING
        room = self._slicing.size if self._slicing is not None and sliced else None
        while self._waiting and (room is None or room > 0):
            first = self._waiting[0]
            if not isinstance(first, _Body):
                self._waiting.popleft()
                first()
                continue
            self._losses -= Counter(first.lost)
            first.lost = frozenset()
            try:
                records, steps = self._source.apply(first.left, first.now, room)
            except BaseException:
                self._waiting.popleft()
                raise
            if not (first.left or self._source.is_settling):
                self._waiting.popleft()
            room = None if room is None else room - max(1, steps)
            self._out(records)


def _lost_by(observations: Iterable[Observation]) -> Iterable[str]:
    """The agents that are lost with these; the empty text stands for every one."""
    for one in observations:
        if isinstance(one, AgentLost | AgentGone):
            yield one.agent
        elif isinstance(one, SourceStateSeen) and one.state in UNREACHED:
            yield _EVERYONE
