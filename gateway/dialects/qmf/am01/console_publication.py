"""An agent tells everything again, and nothing ends it: when that is over, and whether it was everything.

Agents before March 2008 publish each interval what changed. After a queue was bound (until February 2008), or
after they answered a request for a schema (from then on), they publish everything at the next interval, all
of it at once. So it is over when an interval has passed, and then nothing came for a while.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.outbox import NEVER
from gateway.model.schema import ClassKey

_PATIENCE: Final = 3
"""Intervals after which it is over even where an agent never falls silent."""


class Publication:
    """What is heard of one publication. Times and durations are nanoseconds.

    Args:
        interval: within which an agent begins it, once it has a reason to.
        quiet: of silence that ends it.
    """

    def __init__(self, interval: int, quiet: int) -> None:
        self._interval = interval
        self._quiet = quiet
        self._latest = NEVER
        self.over_at = NEVER
        self._objects = 0
        self._described: set[ClassKey] = set()
        self._described_before: frozenset[ClassKey] = frozenset()

    @property
    def patience(self) -> int:
        """Nanoseconds after which an agent that has a reason to tell everything has been heard."""
        return self._interval + self._quiet

    @property
    def is_awaited(self) -> bool:
        """Whether the agent has a reason to publish everything, and has not been heard out."""
        return self.over_at != NEVER

    def begin(self, now: int) -> None:
        """The agent has a reason, since ``now`` at the latest."""
        self._objects = 0
        self._described.clear()
        self.prolong(now)

    def prolong(self, now: int) -> None:
        """It has another one by now."""
        self.over_at = now + self.patience
        self._latest = now + _PATIENCE * self.patience

    def cancel(self) -> None:
        """None is awaited any more."""
        self.over_at = NEVER

    def heard_object(self, now: int) -> None:
        """An object was told."""
        if self.is_awaited:
            self._objects += 1
            self.over_at = max(self.over_at, min(now + self._quiet, self._latest))

    def heard_schema(self, key: ClassKey) -> None:
        """The schema of a class that is kept was broadcast, as happens for who has bound a queue."""
        self._described.add(key)

    def started_anew(self) -> None:
        """What the agent described before its start says nothing of what it has now."""
        self._described_before = frozenset()

    def completed(self) -> None:
        """What was heard was everything."""
        self._described_before = frozenset(self._described)

    def shortcoming(self, *, broadcasts: bool) -> str:
        """Why what was heard cannot have been everything; empty where it can.

        ``broadcasts``: whether the agent must have broadcast schemas with it.
        """
        if not self._objects:
            return "the agent told no object"
        if not broadcasts:
            return ""
        # One class may have got its first object just now, and another lost its last one meanwhile.
        again, before = len(self._described & self._described_before), len(self._described_before)
        if self._described and 2 * again >= before:
            return ""
        told = f"{again} of {before} classes were described again" if before else "no schema came"
        return f"the agent did not tell everything to who bound a queue: {told}"
