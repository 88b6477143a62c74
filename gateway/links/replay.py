"""Plays a capture to a session, with the captured times as its clock, and compares what the session says.

No broker, no socket, no waiting: what took an hour takes as long as the session needs to think.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from gateway.dialects.effects import Answered, Delivery, Effect, Note, Observed, Send, WakeAt
from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.stream_effects import Peer, StreamEffect, StreamSession
from gateway.links.capture import (
    CatchesUp,
    MessagingSession,
    ToldOfUnsent,
    message_fields,
    octets_fields,
    stream_fields,
)
from gateway.links.capture_operations import OPERATIONS, read_operation
from gateway.links.capture_reading import Capture, CaptureError, Record
from gateway.links.capture_sightings import read_sightings
from gateway.model.observations import ObjectSeen, Observation
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify

KEPT_DIFFERENCES: Final = 100
OVERDUE: Final = 10**9
"""Nanoseconds after which a session is woken where the captured one was not: its code may have changed."""
_WAKINGS: Final = 10_000
"""Between two records, so that a clock that was set forward by years does not hold us up."""

Said: TypeAlias = dict[str, Any]
"""Something that a session sent, as in the file."""


@runtime_checkable
class _Calls(Protocol):
    def call(self, call: MethodCall, now: int) -> Iterable[Any]: ...


@runtime_checkable
class _Modifies(Protocol):
    def modify(self, modify: ObjectModify, now: int) -> Iterable[Any]: ...


@runtime_checkable
class _Fetches(Protocol):
    def fetch(self, fetch: ObjectFetch, now: int) -> Iterable[Any]: ...


@runtime_checkable
class _Restores(Protocol):
    def restore(self, sightings: Iterable[ObjectSeen], now: int) -> Iterable[StreamEffect]: ...


@runtime_checkable
class _Starts(Protocol):
    def started(self, now: int) -> Iterable[StreamEffect]: ...


class Waking(Protocol):
    """A session that is woken when it asked to be."""

    def tick(self, now: int) -> Iterable[Any]:
        """The time it asked for has come."""
        ...


class Witness:
    """Sees what comes of a replay, with the captured times; this one looks at nothing."""

    def passed(self, now: int) -> None:
        """The captured time (nanoseconds since 1970) is ``now``; what follows happens then."""

    def observed(self, observations: tuple[Observation, ...], now: int) -> None:
        """The session told what it learnt."""

    def answered(self, answer: Answer) -> None:
        """The session told what came of an operation."""

    def noted(self, note: Note, line: int) -> None:
        """The session remarked something, being told what stands in ``line``."""


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
        """What was, and is, said to one thing that both were told."""
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


def replay(
    capture: Capture,
    session: MessagingSession,
    witness: Witness = _NOBODY,
) -> Outcome:
    """Play a capture of a session over AMQP.

    Args:
        capture: read from its beginning. One that is not the first part begins with a link that is up.
        session: a new one, configured as the captured one was.
        witness: told what comes of it.

    Raises:
        CaptureError: the capture cannot be read further, or is of another kind.
    """
    player = _MessagingPlayer(session, witness)
    reply_to = capture.first.value("reply_to", str, "")
    if reply_to:
        player.told(capture.first, capture.head.ns, session.connected(reply_to, capture.head.ns))
    return player.play(capture)


def replay_streams(
    capture: Capture,
    session: StreamSession,
    witness: Witness = _NOBODY,
) -> Outcome:
    """Play a capture of a session over byte streams; as `replay`."""
    player = _StreamPlayer(session, witness)
    for peer in capture.first.records("open"):
        player.told(capture.first, capture.head.ns, player.opened(peer, capture.head.ns))
    return player.play(capture)


class Player(ABC):
    """What all kinds of replay have in common: the order, the clock, the comparison.

    Args:
        session: that is played to.
        witness: called with what comes of it.
    """

    def __init__(self, session: Waking, witness: Witness) -> None:
        self._witness = witness
        self._waking = session
        self._wake: int | None = None
        self._line = 1
        self._captured: list[Said] = []
        self._replayed: list[Said] = []
        self._outcome = Outcome()

    def play(self, capture: Capture) -> Outcome:
        """To the end of the capture."""
        for record in capture.records:
            if record.event or record.value("dir", str) == capture.head.received:
                self._settle(record.line)
                try:
                    self._tell(record)
                except LocalProtocolError as error:
                    text = f"line {record.line}: the session cannot be told this now: {error}"
                    raise CaptureError(text) from error
            else:
                self._captured.append(self.captured(record))
        self._settle(self._line)
        return self._outcome

    def told(self, record: Record, now: int, effects: Iterable[Effect] | Iterable[StreamEffect]) -> None:
        """The session was told what stands in ``record``, and wants this."""
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
                case _ if (said := self.replayed(effect)) is not None:
                    self._replayed.append(said)

    def said(self, said: Said) -> None:
        """The session says this now, beside its effects."""
        self._replayed.append(said)

    def _tell(self, record: Record) -> None:
        now = record.time
        if record.event == "tick":
            if self._wake is not None and self._wake <= now:
                self._wake_up(record, now)
            return
        for _ in range(_WAKINGS):
            if self._wake is None or self._wake + OVERDUE > now:
                break
            self._wake_up(record, self._wake)
        if record.event in OPERATIONS:
            effects = self._operated(record, now)
        else:
            effects = self.event(record, now) if record.event else self.received(record, now)
        if effects is None:
            self._outcome.passed_over += 1
        else:
            self.told(record, now, effects)

    def _operated(self, record: Record, now: int) -> Iterable[Any] | None:
        """Ask what an operator asked then; ``None`` where that cannot be asked of this session."""
        session: object = self._waking
        match read_operation(record):
            case MethodCall() as call if isinstance(session, _Calls):
                return session.call(call, now)
            case ObjectModify() as modify if isinstance(session, _Modifies):
                return session.modify(modify, now)
            case ObjectFetch() as fetch if isinstance(session, _Fetches):
                return session.fetch(fetch, now)
        return None

    def _wake_up(self, record: Record, now: int) -> None:
        self._wake = None
        self.told(record, now, self._waking.tick(now))

    def _settle(self, line: int) -> None:
        self._outcome.compare(self._line, self._captured, self._replayed)
        self._captured, self._replayed, self._line = [], [], line

    # What differs.

    @abstractmethod
    def captured(self, record: Record) -> Said:
        """What was said then."""

    @abstractmethod
    def replayed(self, effect: object) -> Said | None:
        """What is said now; ``None`` for what no peer hears."""

    @abstractmethod
    def received(self, record: Record, now: int) -> Iterable[Effect] | Iterable[StreamEffect]:
        """The session hears it."""

    @abstractmethod
    def event(self, record: Record, now: int) -> Iterable[Effect] | Iterable[StreamEffect] | None:
        """The session is told; ``None`` where it has no use for that."""


class _MessagingPlayer(Player):
    def __init__(self, session: MessagingSession, witness: Witness) -> None:
        super().__init__(session, witness)
        self._session = session

    def captured(self, record: Record) -> Said:
        return message_fields(record.send())

    def replayed(self, effect: object) -> Said | None:
        return message_fields(effect) if isinstance(effect, Send) else None

    def received(self, record: Record, now: int) -> Iterable[Effect]:
        delivery: Delivery = record.delivery()
        return self._session.receive(delivery, now)

    def event(self, record: Record, now: int) -> Iterable[Effect] | None:
        session = self._session
        match record.event:
            case "connected":
                return session.connected(record.value("reply_to", str), now)
            case "disconnected":
                return session.disconnected(record.value("detail", str), now)
            case "resync":
                return session.resync(record.value("reason", str), now, record.value("since", int))
            case "unsent" if isinstance(session, ToldOfUnsent):
                sends = [send.send() for send in record.records("sends")]
                return session.unsent(sends, record.value("reason", str), now)
            case "catch-up" if isinstance(session, CatchesUp):
                return session.catch_up(record.value("missed", str), record.value("waiting", int), now)
            case "unsent" | "catch-up":
                return None
        raise CaptureError(f"line {record.line}: no session over AMQP is told '{record.event}'")


class _StreamPlayer(Player):
    def __init__(self, session: StreamSession, witness: Witness) -> None:
        super().__init__(session, witness)
        self._session = session

    def captured(self, record: Record) -> Said:
        connection = record.value("connection", int)
        if record.value("close", bool, False):
            return {"connection": connection, "close": True}
        return octets_fields(connection, record.body)

    def replayed(self, effect: object) -> Said | None:
        return stream_fields(effect)

    def received(self, record: Record, now: int) -> Iterable[StreamEffect]:
        return self._session.received(record.value("connection", int), record.body, now)

    def event(self, record: Record, now: int) -> Iterable[StreamEffect] | None:
        match record.event:
            case "opened":
                return self.opened(record, now)
            case "ended":
                return self._session.ended(record.value("connection", int), record.value("reason", str), now)
            case "restored":
                sightings = read_sightings(record)
                return self._session.restore(sightings, now) if isinstance(self._session, _Restores) else None
            case "started":
                return self._session.started(now) if isinstance(self._session, _Starts) else None
            case "stopping":
                return self._session.stopping(now)
        raise CaptureError(f"line {record.line}: no session over byte streams is told '{record.event}'")

    def opened(self, record: Record, now: int) -> Iterable[StreamEffect]:
        """Somebody connected."""
        peer = Peer(record.value("address", str), record.value("name", str))
        return self._session.opened(record.value("connection", int), peer, now)
