"""The effects of one event of a relay session, collected in the order in which they must be applied."""

from __future__ import annotations

from gateway.dialects.session import (
    Answered,
    Close,
    Effect,
    Logged,
    LoginRefused,
    Note,
    Observed,
    PublishRefused,
    WakeAt,
    Write,
)
from gateway.model.observations import Observation
from gateway.model.operations import Answer


class RefusedError(Exception):
    """An instruction is refused and has no effect; the text is the reply to its application."""


class LoginRefusedError(RefusedError):
    """An application may not log in, because of its name or its certificate."""


class Collected:
    """The effects of one event: observations first, then answers, then written lines."""

    def __init__(self) -> None:
        self._observations: list[Observation] = []
        self._answers: list[Answer] = []
        self._lines: dict[int, bytearray] = {}
        self._closed: list[int] = []
        self._logged: list[Logged] = []
        self._notes: list[Note] = []
        self._refused: list[LoginRefused | PublishRefused] = []
        self._wake_at = 0

    def observe(self, *observations: Observation) -> None:
        """Add observations."""
        self._observations += observations

    def answer(self, answer: Answer) -> None:
        """Add the answer to a call."""
        self._answers.append(answer)

    def write(self, connection: int, line: bytes) -> None:
        """Send a line."""
        self._lines.setdefault(connection, bytearray()).extend(line)

    def close(self, connection: int) -> None:
        """End a connection after what is written."""
        self._closed.append(connection)

    def log(self, logged: Logged) -> None:
        """Add a line to the log that an application requested."""
        self._logged.append(logged)

    def note(self, event: str, detail: str) -> None:
        """Add a note to the gateway's own log."""
        self._notes.append(Note(event, detail))

    def refuse(self, refused: LoginRefused | PublishRefused) -> None:
        """Have what a peer may not do recorded."""
        self._refused.append(refused)

    def take(self, wake_at: int) -> list[Effect]:
        """Return all effects, with a timer for ``wake_at`` (0: none) unless it is set already."""
        effects: list[Effect] = []
        if self._observations:
            effects.append(Observed(tuple(self._observations)))
        effects += [Answered(answer) for answer in self._answers]
        effects += self._logged
        effects += [Write(connection, bytes(lines)) for connection, lines in self._lines.items()]
        effects += [Close(connection) for connection in self._closed]
        effects += self._notes
        effects += self._refused
        if wake_at and wake_at != self._wake_at:
            effects.append(WakeAt(wake_at))
        self._wake_at = wake_at
        for part in (self._observations, self._answers, self._logged, self._closed):
            part.clear()
        self._notes.clear()
        self._refused.clear()
        self._lines.clear()
        return effects

    def woken(self) -> None:
        """Note that the timer has expired."""
        self._wake_at = 0
