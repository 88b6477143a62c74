"""Replays a capture: passes its events to a session, and compares the messages that it sends.

The captured times are the clock. There is no broker, no socket, no waiting: an hour takes as long as the
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
"""Nanoseconds after which an expired timer is passed although the captured session had none: code changes."""
_WAKINGS: Final = 10_000
"""Timers between two records, at most, in case the clock was set forward by years."""
_OPTIONAL: Final = frozenset({"catch-up", "unsent", "restored", "started", "call", "modify", "fetch"})
"""Events that a session may not accept; another unaccepted event belongs to another transport."""

Said: TypeAlias = dict[str, Any]
"""A message that a session sent, as in the file."""


class Witness:
    """Receives the results of a replay, with the captured times; this one ignores them."""

    def passed(self, now: int) -> None:
        """Note that the captured time is ``now`` (nanoseconds since 1970)."""

    def observed(self, observations: tuple[Observation, ...], now: int) -> None:
        """Process observations of the session."""

    def answered(self, answer: Answer) -> None:
        """Process the answer to an operation."""

    def noted(self, note: Note, line: int) -> None:
        """Process a note of the session, caused by the record in ``line``."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A message that differs from the captured one.

    Attributes:
        line: the line of the event that caused both.
        captured: the captured message; ``None`` where there is none.
        replayed: the message of the replay; ``None`` where there is none.
    """

    line: int
    captured: Said | None
    replayed: Said | None


@dataclass(slots=True)
class Outcome:
    """The result of a replay.

    Attributes:
        events: events that were passed to the session.
        same: messages that are equal.
        different: messages that differ.
        differences: the first of those.
        passed_over: events that this session does not accept.
    """

    events: int = 0
    same: int = 0
    different: int = 0
    differences: list[Difference] = field(default_factory=list)
    passed_over: int = 0

    def compare(self, line: int, captured: Sequence[Said], replayed: Sequence[Said]) -> None:
        """Compare the captured and the replayed messages of one event."""
        for index in range(max(len(captured), len(replayed))):
            before = captured[index] if index < len(captured) else None
            after = replayed[index] if index < len(replayed) else None
            if before == after:
                self.same += 1
                continue
            self.different += 1
            if len(self.differences) < KEPT_DIFFERENCES:
                self.differences.append(Difference(line, before, after))


_IGNORING: Final = Witness()


def replay(capture: Capture, session: Session, witness: Witness = _IGNORING) -> Outcome:
    """Replay the capture of a session.

    Args:
        capture: a capture, not read yet. One that is not the first part begins with the link that was up, or
            the connections that were open.
        session: a new session with the configuration of the captured one.
        witness: receives the results.

    Raises:
        CaptureError: the capture cannot be read further, or is of another kind of session.
    """
    return _SessionPlayer(session, witness).play(capture)


class Player(ABC):
    """The common part of every replay: order, clock and comparison.

    Args:
        witness: receives the results.
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

    def passed(self, record: Record, now: int, effects: Iterable[Effect]) -> None:
        """Process the effects of the event in ``record``."""
        self._line = record.line
        self._outcome.events += 1
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
        """Add a message that the session sends now, beside its effects."""
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
            self.passed(record, now, effects)

    def _wake_up(self, record: Record, now: int) -> None:
        self._wake = None
        self.passed(record, now, self.woken(now))

    def _settle(self, line: int) -> None:
        self._outcome.compare(self._line, self._captured, self._replayed)
        self._captured, self._replayed, self._line = [], [], line

    # Differences of transports.

    @abstractmethod
    def begin(self, first: Record, now: int) -> None:
        """Pass the events that the first line implies."""

    @abstractmethod
    def captured(self, record: Record) -> Said:
        """Return the captured message of a record."""

    @abstractmethod
    def handed_in(self, record: Record, now: int) -> Iterable[Effect] | None:
        """Pass the event of a record; return ``None`` if the session does not accept it."""

    @abstractmethod
    def woken(self, now: int) -> Iterable[Effect]:
        """Pass an expired timer."""


class _SessionPlayer(Player):
    def __init__(self, session: Session, witness: Witness) -> None:
        super().__init__(witness)
        self._session = session

    def begin(self, first: Record, now: int) -> None:
        reply_to = first.value("reply_to", str, "")
        if reply_to:
            self.passed(first, now, self._session.handle(LinkUp(reply_to), now))
        for peer in first.records("open"):
            self.passed(first, now, self._session.handle(read_peer(peer), now))

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
