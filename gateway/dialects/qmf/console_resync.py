"""How far a console has come with reading everything again, and when it will next."""

from __future__ import annotations

from gateway.dialects.outbox import NEVER
from gateway.model.schema import ClassKey


class Resync:
    """The resync under way, if any, and the next one, if it is due at a time.

    Attributes:
        listed: package and name of the classes to get, in the order told.
        missed: classes whose objects were told before their schema, and the agents that did.
        unavailable: schemas that are not asked for again in this resync.
        is_open: its beginning was told, and its end is not yet.
        shortcoming: why it is incomplete; empty where it is not, as far as known.
        due_at: when the next one begins, nanoseconds; `NEVER` where none is planned.
        reason: why that one does.
    """

    def __init__(self) -> None:
        self.listed: dict[tuple[str, str], None] = {}
        self.missed: dict[ClassKey, set[str]] = {}
        self.unavailable: set[ClassKey] = set()
        self.is_open = False
        self.shortcoming = ""
        self.due_at = NEVER
        self.reason = ""
        self._in_a_row = 0

    def begin(self) -> None:
        """The agents are listed again."""
        self.listed.clear()
        self.missed.clear()
        self.unavailable.clear()
        self.shortcoming = ""
        self.cancel()

    def cancel(self) -> None:
        """None is due any more."""
        self.due_at = NEVER

    def plan(self, at: int, reason: str) -> bool:
        """One is due at ``at``, unless one is sooner; returns whether it is not."""
        if at >= self.due_at:
            return False
        self.due_at, self.reason = at, reason
        return True

    def fell_short(self) -> int:
        """It stayed incomplete, or the agent was silent behind it; returns how often in a row."""
        self._in_a_row += 1
        return self._in_a_row

    def succeeded(self) -> None:
        """It was complete."""
        self._in_a_row = 0
