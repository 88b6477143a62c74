"""Rounds of polling: one is over when each object was answered once more; and what polling does not see."""

from __future__ import annotations

from typing import Final

from gateway.dialects.cml.console_config import SECOND
from gateway.dialects.cml.console_conversation import Conversation
from gateway.dialects.cml.console_states import State
from gateway.dialects.cml.console_tree import Known
from gateway.model.observations import HeartbeatSeen, SourceState

_UNSEEN: Final = "what comes and goes between two looks is not seen"
_LONG: Final = 2
_MINUTE: Final = 60 * SECOND


class Rounds:
    """Counts who was answered on behalf of a conversation.

    Attributes:
        shut: why objects that are there are not shown, by number.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._talk = conversation
        self._number = 0
        self._began = 0
        self._behind = 0
        self._said_at = 0
        self.shut: dict[int, str] = {}

    def begin(self) -> None:
        """Nobody was answered yet."""
        self._number += 1
        self._began = self._talk.now
        self._behind = len(self._talk.tree)

    def joined(self, known: Known) -> None:
        """An object is new, and counts from the next round on."""
        known.round = self._number

    def answered(self, known: Known) -> None:
        """An object was."""
        known.attempts = 0
        self.left(known)
        known.round = self._number

    def left(self, known: Known) -> None:
        """An object is not waited for in this round."""
        if known.round != self._number:
            self._behind -= 1

    def end(self) -> None:
        """If all were answered: what was not told again is as it was when the round began."""
        if self._behind <= 0 and self._talk.state is State.SYNCHRONISED:
            self._talk.observations.append(HeartbeatSeen(self._talk.config.agent, self._began))
            self.synchronised()

    def synchronised(self) -> None:
        """All that can be seen is known: begin, and say what is not seen."""
        self.begin()
        self._say()

    def keep_saying(self) -> None:
        """Say what is not seen by now, once a minute: a round may take long."""
        if self._talk.state is State.SYNCHRONISED and self._talk.now >= self._said_at + _MINUTE:
            self._say()

    def _say(self) -> None:
        self._said_at = self._talk.now
        self._talk.tell(SourceState.SYNCHRONISED, self._unseen())

    def _unseen(self) -> str:
        tree, stretch = self._talk.tree, self._talk.schedule.stretch
        parts = [_UNSEEN]
        if tree.passed_over:
            parts.append(f"{tree.passed_over} objects that come and go with connections are not inspected")
        not_yet = tree.not_read_yet
        if not_yet > self._talk.config.budget.rate:  # fewer are looked at within a second
            parts.append(f"{not_yet} objects that are listed were not looked at yet")
        if tree.left_out:
            limit = self._talk.config.object_limit
            parts.append(f"{tree.left_out} objects beyond the limit of {limit} are left out")
        if self.shut:
            number, why = next(iter(self.shut.items()))
            parts.append(f"{len(self.shut)} objects cannot be shown (object {number}: {why})")
        if stretch >= _LONG:
            parts.append(f"the budget makes intervals {stretch:.0f} times as long")
        return "; ".join(parts)
