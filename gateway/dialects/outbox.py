"""What a console session has to say to who runs it, kept until the call that led to it ends."""

from __future__ import annotations

from typing import Final

from gateway.dialects.session import Answered, Effect, Note, Observed, Send, WakeAt
from gateway.model.observations import Observation, SourceState, SourceStateSeen
from gateway.model.operations import Answer

NEVER: Final = 1 << 63
"""A time that does not come."""


class Outbox:
    """Effects in the order in which they come about, with one `Observed` in front of them.

    Attributes:
        observations: what was observed, in order.
    """

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self._effects: list[Effect] = []
        self._source_state: SourceStateSeen | None = None
        self._wake_at = NEVER

    def tell(self, state: SourceState, detail: str = "") -> None:
        """Observe the source's state, if that is news."""
        seen = SourceStateSeen(state, detail)
        if seen != self._source_state:
            self._source_state = seen
            self.observations.append(seen)

    def note(self, event: str, detail: str) -> None:
        """Leave a note for operators."""
        self._effects.append(Note(event, detail))

    def send(self, send: Send) -> None:
        """Send a message."""
        self._effects.append(send)

    def answer(self, answer: Answer) -> None:
        """Tell what came of an operation, behind what this call observes."""
        self._effects.append(Answered(answer))

    def awake(self) -> None:
        """The timer is spent, even if the clock was set back meanwhile and its time has not come."""
        self._wake_at = NEVER

    def take_effects(self) -> list[Effect]:
        """Return all there is."""
        effects, self._effects = self._effects, []
        if self.observations:
            effects.insert(0, Observed(tuple(self.observations)))
            self.observations = []
        return effects

    def hand_out(self, wake_at: int, now: int) -> list[Effect]:
        """Return all there is, and when to be woken: at ``wake_at``, unless a timer ends sooner."""
        effects = self.take_effects()
        # Each message moves the deadlines on; an early tick costs less than a timer set again each time.
        if wake_at != NEVER and (wake_at < self._wake_at or self._wake_at <= now):
            self._wake_at = wake_at
            effects.append(WakeAt(wake_at))
        return effects
