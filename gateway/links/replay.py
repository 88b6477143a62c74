"""Replays a capture: its events are handed to a session, and what that sends is compared.

The captured times are the clock. No broker, no socket, no waiting: what took an hour takes as long as the
session needs to compute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.session import (
    Answered,
    Effect,
    EventNotTakenError,
    LinkUp,
    Note,
    Observed,
    Session,
    TimerExpired,
    WakeAt,
)
from gateway.links.capture import effect_fields, read_event, read_peer, read_sent
from gateway.links.capture_reading import Capture, CaptureError, Record
from gateway.model.observations import Observation
from gateway.model.operations import Answer

KEPT_DIFFERENCES: Final = 100
OVERDUE: Final = 10**9
"""Nanoseconds after which a session is woken where the captured one was not: its code may have changed."""
_WAKINGS: Final = 10_000
"""Between two records, so that a clock that was set forward by years does not hold us up."""
_OPTIONAL: Final = frozenset({"catch-up", "unsent", "restored", "started", "call", "modify", "fetch"})
"""Events that a session may have no use for; any other that it does not take is of another transport."""

Said: TypeAlias = dict[str, Any]
"""Something that a session sent, as in the file."""


class Witness:
    """Sees what comes of a replay, with the captured times; this one looks at nothing."""

    def passed(self, now: int) -> None:
        """The captured time (nanoseconds since 1970) is ``now``; what follows happens then."""

    def observed(self, observations: tuple[Observation, ...], now: int) -> None:
        """The session observed this."""

    def answered(self, answer: Answer) -> None:
        """The session answered an operation."""

    def noted(self, note: Note, line: int) -> None:
        """The session left a note, when it was handed what stands in ``line``."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a session said something else than the captured one.

    Attributes:
        line: of what both were told.
        captured: what was said then; ``None`` where nothing was.
        replayed: what is said now; ``None`` where nothing is.
    """

    line: int
    captured: Said | None
    replayed: Said | None


@dataclass(slots=True)
class Outcome:
    """What came of a replay.

    Attributes:
        told: how much the session was told.
        same: how much it said as the captured one did.
        different: how much it did not.
        differences: the first of those.
        passed_over: events that this session has no use for.
    """

    told: int = 0
    same: int = 0
    different: int = 0
    differences: list[Difference] = field(default_factory=list)
    passed_over: int = 0

    def compare(self, line: int, captured: Sequence[Said], replayed: Sequence[Said]) -> None:
        """What was, and is, sent for one thing that both were given."""
        for index in range(max(len(captured), len(replayed))):
            before = captured[index] if index < len(captured) else None
            after = replayed[index] if index < len(replayed) else None
            if before == after:
                self.same += 1
                continue
            self.different += 1
            if len(self.differences) < KEPT_DIFFERENCES:
                self.differences.append(Difference(line, before, after))


_NOBODY: Final = Witness()


def replay(capture: Capture, session: Session, witness: Witness = _NOBODY) -> Outcome:
    """Replay the capture of a session.

    Args:
        capture: read from its beginning. One that is not the first part begins with the link that was up, or
            the connections that were open.
        session: a new one, configured as the captured one was.
        witness: given what comes of it.

    Raises:
        CaptureError: the capture cannot be read further, or is of another kind of session.
    """
    return _SessionPlayer(session, witness).play(capture)


class Player(ABC):
    """What every replay has in common: the order, the clock, the comparison.

    Args:
        witness: called with what comes of it.
    """

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._wake: int | None = None
        self._line = 1
        self._captured: list[Said] = []
        self._replayed: list[Said] = []
        self._outcome = Outcome()

    def play(self, capture: Capture) -> Outcome:
        """Replay to the end of the capture."""
        self.begin(capture.first, capture.head.ns)
        for record in capture.records:
            if record.event or record.value("dir", str) == capture.head.received:
                self._settle(record.line)
                try:
                    self._hand_in(record)
                except LocalProtocolError as error:
                    text = f"line {record.line}: the session cannot take this now: {error}"
                    raise CaptureError(text) from error
            else:
                self._captured.append(self.captured(record))
        self._settle(self._line)
        return self._outcome

    def told(self, record: Record, now: int, effects: Iterable[Effect]) -> None:
        """What stands in ``record`` was handed in, and led to these effects."""
        self._line = record.line
        self._outcome.told += 1
        self._witness.passed(now)
        for effect in effects:
            match effect:
                case WakeAt(time):
                    self._wake = time
                case Observed(observations):
                    self._witness.observed(observations, now)
                case Answered(answer):
                    self._witness.answered(answer)
                case Note():
                    self._witness.noted(effect, record.line)
                case _ if (said := effect_fields(effect)) is not None:
                    self._replayed.append(said)

    def said(self, said: Said) -> None:
        """The session says this now, beside its effects."""
        self._replayed.append(said)

    def _hand_in(self, record: Record) -> None:
        now = record.time
        if record.event == "tick":
            if self._wake is not None and self._wake <= now:
                self._wake_up(record, now)
            return
        for _ in range(_WAKINGS):
            if self._wake is None or self._wake + OVERDUE > now:
                break
            self._wake_up(record, self._wake)
        effects = self.handed_in(record, now)
        if effects is None:
            self._outcome.passed_over += 1
        else:
            self.told(record, now, effects)

    def _wake_up(self, record: Record, now: int) -> None:
        self._wake = None
        self.told(record, now, self.woken(now))

    def _settle(self, line: int) -> None:
        self._outcome.compare(self._line, self._captured, self._replayed)
        self._captured, self._replayed, self._line = [], [], line

    # What differs.

    @abstractmethod
    def begin(self, first: Record, now: int) -> None:
        """Hand in what the first line says."""

    @abstractmethod
    def captured(self, record: Record) -> Said:
        """Return what was said then."""

    @abstractmethod
    def handed_in(self, record: Record, now: int) -> Iterable[Effect] | None:
        """Hand in what stands in a record; ``None`` where the session has no use for it."""

    @abstractmethod
    def woken(self, now: int) -> Iterable[Effect]:
        """Hand in that the time has come that was asked for."""


class _SessionPlayer(Player):
    def __init__(self, session: Session, witness: Witness) -> None:
        super().__init__(witness)
        self._session = session

    def begin(self, first: Record, now: int) -> None:
        reply_to = first.value("reply_to", str, "")
        if reply_to:
            self.told(first, now, self._session.handle(LinkUp(reply_to), now))
        for peer in first.records("open"):
            self.told(first, now, self._session.handle(read_peer(peer), now))

    def captured(self, record: Record) -> Said:
        return read_sent(record)

    def handed_in(self, record: Record, now: int) -> Iterable[Effect] | None:
        event = read_event(record)
        try:
            return self._session.handle(event, now)
        except EventNotTakenError as error:
            if record.event in _OPTIONAL:
                return None
            raise CaptureError(f"line {record.line}: {error}") from error

    def woken(self, now: int) -> Iterable[Effect]:
        return self._session.handle(TimerExpired(), now)
