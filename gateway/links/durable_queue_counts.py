"""What is counted of a kept queue, over all connections to it: for whoever watches the gateway."""

from __future__ import annotations

import contextlib
import enum
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field


class Loss(enum.StrEnum):
    """Why some of what was said may not be in the queue; the broker tells of no message that it drops."""

    MISSING = "missing"
    """The queue was not there: it is new, or has expired."""
    FULL = "full"
    """It was full when it was consumed again: it dropped the oldest."""
    UNBOUND = "unbound"
    """Its exchange was made again while nobody consumed."""
    DOWN = "down"
    """The node that has it was down, while other nodes of its cluster went on."""
    DOUBTFUL = "doubtful"
    """It was nearly full while it was consumed, and perhaps full between two looks."""


class Refusal(enum.StrEnum):
    """Why the broker did not let us have the queue."""

    IN_USE = "in_use"
    """It has another consumer."""
    DECLARED_OTHERWISE = "declared_otherwise"
    """There is one of this name with another bound or expiry."""


@dataclass(slots=True)
class DurableQueueCounts:
    """Counters of one durable subscription; they go on over every reconnection.

    Attributes:
        taken: deliveries that arrived here.
        redelivered: of these, those that the broker had delivered before.
        repeated: of these, those that the log had already: they were passed over.
        acknowledged: deliveries that the broker may forget.
        declared: times that the queue was made.
        losses: times that some of what was said may be missing, by cause.
        refusals: times that the queue could not be used, by cause.
        waiting: messages in the queue at the last look, without those on their way to us; ``None`` while it
            is not consumed, for nobody looks then.
        unacknowledged: deliveries that arrived and wait for the log.
        is_quorum: the queue in use is a quorum queue, as an earlier version of the gateway left behind in a
            virtual host whose queues are quorum queues by default.
        is_down: another node said that the one that has the queue is down; until the queue is consumed again.
    """

    taken: int = 0
    redelivered: int = 0
    repeated: int = 0
    acknowledged: int = 0
    declared: int = 0
    losses: Counter[Loss] = field(default_factory=Counter)
    refusals: Counter[Refusal] = field(default_factory=Counter)
    waiting: int | None = None
    unacknowledged: int = 0
    is_quorum: bool = False
    is_down: bool = False

    def looked(self, waiting: int) -> None:
        """So many messages wait in the queue."""
        self.waiting = waiting

    def doubted(self) -> None:
        """It was nearly full."""
        self.losses[Loss.DOUBTFUL] += 1

    @contextlib.contextmanager
    def connection(self) -> Iterator[None]:
        """The time of one connection: what is not acknowledged at its end is the broker's again."""
        try:
            yield
        finally:
            self.waiting = None
            self.unacknowledged = 0
