"""Relay sessions as plays: lines arrive, and the expected steps are given as short texts, in order.

A step that leaves is an observation, an answer, or a text: ``1< M|Q=0|S=0`` for a line written to connection
1, ``1 closed`` for its end, and the name of a note. Requests to be woken are kept apart, in ``wake_at``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from gateway.dialects.ami.relay import RelayConfig, RelaySession
from gateway.dialects.session import (
    Answered,
    BytesReceived,
    Close,
    Effect,
    Listening,
    Logged,
    LoginRefused,
    Note,
    ObjectsRestored,
    Observed,
    Peer,
    PeerConnected,
    PeerDisconnected,
    PublishRefused,
    TimerExpired,
    WakeAt,
    Write,
)
from gateway.model.observations import ClassLearned, EventSeen, ObjectSeen, Observation
from gateway.model.operations import Answer, MethodCall, ObjectFetch
from gateway.model.schema import ClassKey, ClassSchema
from gateway.model.times import SECOND
from gateway.model.values import Value, Values
from tests.dialects.foreseen import called

START = 1_700_000_000 * SECOND
HERE = Peer("127.0.0.1")
WELCOMED = '1< M|Q=0|S=0|M="Welcome to AMI v1.0"'

Step: TypeAlias = Observation | Answer | str


class RelayPlay:
    """A relay session and its output; ``known`` are the objects known before the gateway restarted."""

    def __init__(self, config: RelayConfig | None = None, known: Iterable[ObjectSeen] = ()) -> None:
        self.session = RelaySession(config or RelayConfig())
        self.now = START
        self.wake_at = 0
        self.logged: list[Logged] = []
        self.refused: list[LoginRefused | PublishRefused] = []
        self.schemas: dict[ClassKey, ClassSchema] = {}
        self._steps: list[Step] = []
        self.take(self.session.handle(ObjectsRestored(tuple(known)), self.now))
        self.restored = self.left()
        self.take(self.session.handle(Listening(), self.now))
        self._steps.clear()

    def take(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Observed(observations):
                    self._steps += observations
                    learned = (one.schema for one in observations if isinstance(one, ClassLearned))
                    self.schemas |= {schema.key: schema for schema in learned}
                case Answered(answer):
                    self._steps.append(answer)
                case Logged():
                    self.logged.append(effect)
                case LoginRefused() | PublishRefused():
                    self.refused.append(effect)
                case WakeAt(time):
                    self.wake_at = time
                case Write() | Close() | Note():
                    self._steps += _in_words(effect)
                case _:
                    raise AssertionError(f"a relay does not want {effect}")

    # What arrives.

    def connects(self, number: int = 1, peer: Peer = HERE) -> None:
        self.take(self.session.handle(PeerConnected(number, peer), self.now))

    def says(self, *lines: str, number: int = 1) -> None:
        """Pass whole lines to the session in one piece."""
        self.take(
            self.session.handle(
                BytesReceived(number, "".join(f"{line}\n" for line in lines).encode()), self.now
            )
        )

    def says_octets(self, octets: bytes, number: int = 1) -> None:
        self.take(self.session.handle(BytesReceived(number, octets), self.now))

    def logs_in(self, name: str = "pump-7", number: int = 1) -> None:
        """Connect an application and log it in; discard the resulting steps."""
        self.connects(number)
        self.says(f'L|I="{name}"', number=number)
        self.left()

    def ends(self, reason: str = "the peer ended it", number: int = 1) -> None:
        self.take(self.session.handle(PeerDisconnected(number, reason), self.now))

    def calls(
        self, method: str, *arguments: Value | None, of: str = "pump-7", token: int = 7, wait: int = 60
    ) -> None:
        key = ClassKey("ami-relay", "application")
        deadline = self.now + wait * SECOND
        call = MethodCall(token, key, of, of, method, arguments, deadline)
        self.take(called(self.session, call, self.now))

    def fetches(self, native_id: str, agent: str = "pump-7") -> None:
        key = ClassKey("ami", "Tank")
        self.take(self.session.handle(ObjectFetch(7, key, agent, native_id, self.now + SECOND), self.now))

    def time_passes(self, seconds: float) -> None:
        """Advance the clock, and wake the session whenever it asked to be woken."""
        until = self.now + int(seconds * SECOND)
        while 0 < self.wake_at <= until:
            self.now = max(self.now, self.wake_at)
            self.wake_at = 0
            self.take(self.session.handle(TimerExpired(), self.now))
        self.now = until

    # What left.

    def left(self) -> list[Step]:
        """Return all that left since the last time."""
        steps, self._steps = self._steps, []
        return steps

    def lines(self) -> list[str]:
        """Return what was written, closed and noted since the last time."""
        return [step for step in self.left() if isinstance(step, str)]

    def answers(self) -> list[Answer]:
        """Return the answers to calls since the last time."""
        return [step for step in self.left() if isinstance(step, Answer)]

    def reported(self, kind: str = "") -> list[str]:
        """Return the observations since the last time as short texts that contain ``kind``."""
        shown = [self.shown(step) for step in self.left() if not isinstance(step, str | Answer)]
        return [one for one in shown if kind in one]

    def shown(self, one: Step) -> str:
        """Return an observation as a short text: ``Tank t1 level=3``, ``-Tank t1`` for an end."""
        match one:
            case ClassLearned(schema):
                return f"class {schema.key.name}"
            case ObjectSeen(key=key, native_id=native_id, deleted=deleted):
                name = f"{key.name} {native_id.rpartition('|')[2]}"
                if deleted:
                    return f"-{name}"
                values = (f"{n}={v!s}" for n, v in self.values(one).items() if v is not None)
                return " ".join((name, *values))
            case EventSeen(key=key, arguments=arguments):
                return f"event {key.name} {' '.join(str(one) for one in arguments)}"
            case _:
                return type(one).__name__

    def values(self, seen: ObjectSeen) -> dict[str, Value | None]:
        """Return the values of an object by the keys that its application chose."""
        schema = self.schemas[seen.key]
        reported: dict[str, Value | None] = {}
        for elements, values in ((schema.properties, seen.properties), (schema.statistics, seen.statistics)):
            if values is not None:
                assert len(values) == len(elements)
                reported |= {
                    element.label: value
                    for element, value in zip(elements, values, strict=True)
                    if element.label
                }
        return reported

    def objects(self, kind: str = "Tank") -> list[ObjectSeen]:
        """Return the observations of objects of a type since the last time."""
        return [step for step in self.left() if isinstance(step, ObjectSeen) and step.key.name == kind]


def _in_words(effect: Write | Close | Note) -> list[str]:
    match effect:
        case Write(connection, octets):
            return [f"{connection}< {line}" for line in octets.decode().splitlines()]
        case Close(connection):
            return [f"{connection} closed"]
        case Note(event):
            return [event]


def fixed(seen: ObjectSeen) -> Values:
    """Return the values of an object that the relay itself provides."""
    assert seen.properties is not None
    return seen.properties[:3]
