"""A dialect of three words, added as docs/development.md says: driven, captured and replayed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gateway.clock import SystemClock
from gateway.dialects.session import (
    Answered,
    Delivery,
    Effect,
    Event,
    EventNotTakenError,
    LinkDown,
    LinkUp,
    Listening,
    LossSuspected,
    NotSent,
    Observed,
    Send,
    TimerExpired,
    WakeAt,
    cannot_be_set,
)
from gateway.links.capture import CapturedSession
from gateway.links.replay import replay
from gateway.links.session_driver import MessageDriver
from gateway.model.observations import ClassLearned, ObjectSeen, Observation, SourceState, SourceStateSeen
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from tests.links.captures import START, Seen, capture_file, reading

LAMP = ClassSchema(
    ClassKey("toy", "lamp"), (Element("name", ValueType.STRING),), (Element("lit", ValueType.BOOL),)
)


class ToyConsole:
    """A console that sends ``lamps?`` each second; ``<name> on`` and ``<name> off`` are the answers."""

    def __init__(self) -> None:
        self._reply_to = ""

    def handle(self, event: Event, now: int) -> list[Effect]:  # noqa: PLR0911  a case for each event
        """Handle an event, as every session does."""
        match event:
            case Delivery(body=body):
                return [Observed(tuple(_lamps(body, now)))]
            case LinkUp(reply_to):
                self._reply_to = reply_to
                up = SourceStateSeen(SourceState.SYNCHRONISED)
                return [Observed((up, ClassLearned(LAMP))), *self._ask(now)]
            case LinkDown(detail):
                self._reply_to = ""
                return [Observed((SourceStateSeen(SourceState.DOWN, detail),))]
            case TimerExpired() | LossSuspected():
                return self._ask(now) if self._reply_to else []
            case NotSent():
                return []
            case MethodCall() | ObjectFetch():
                return [Answered(Answer(event.token, Outcome.NOT_NOW, "not sent: lamps are only watched"))]
            case ObjectModify():
                return [Answered(cannot_be_set(event))]
            case _:
                raise EventNotTakenError(self, event)

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """Return the answer to a request, as every console does."""
        (answered,) = self.handle(request, now)
        assert isinstance(answered, Answered)
        return answered.answer

    def _ask(self, now: int) -> list[Effect]:
        return [Send("toys", "lamps", b"lamps?", self._reply_to), WakeAt(now + SECOND)]


def _lamps(body: bytes, now: int) -> list[Observation]:
    lamps = (line.rpartition(" ") for line in body.decode("ascii", "replace").splitlines())
    return [
        ObjectSeen(LAMP.key, "toy", name, now, 0, 0, (name,), (state == "on",)) for name, _, state in lamps
    ]


def seen(name: str, at: int, *, lit: bool) -> ObjectSeen:
    return ObjectSeen(LAMP.key, "toy", name, at, 0, 0, (name,), (lit,))


def test_a_toy_dialect_is_captured_and_replayed(tmp_path: Path) -> None:
    session = CapturedSession(ToyConsole(), capture_file(tmp_path / "toys.jsonl"))
    session.handle(LinkUp("q"), START)
    session.handle(Delivery("toys", "q", b"hall on\ncellar off"), START + 1)
    session.handle(TimerExpired(), START + SECOND)
    session.handle(LinkDown("it broke"), START + 2 * SECOND)

    again = Seen()
    outcome = replay(reading(tmp_path / "toys.jsonl"), ToyConsole(), again)

    assert (outcome.events, outcome.same, outcome.different) == (4, 2, 0)
    assert again.observations == [
        SourceStateSeen(SourceState.SYNCHRONISED),
        ClassLearned(LAMP),
        seen("hall", START + 1, lit=True),
        seen("cellar", START + 1, lit=False),
        SourceStateSeen(SourceState.DOWN, "it broke"),
    ]


async def test_a_toy_dialect_is_driven() -> None:
    observed: list[Observation] = []
    answers: list[Answer] = []
    driver = MessageDriver("toys", ToyConsole(), observed.extend, SystemClock(), Counter(), answers.append)
    driver.handle(LinkUp("q"))
    assert (await driver.next_send()).body == b"lamps?"
    driver.deliver(Delivery("toys", "q", b"hall on"))
    driver.handle(ObjectFetch(7, LAMP.key, "toy", "hall", 2**62))
    driver.stop()
    assert isinstance(observed[-1], ObjectSeen)
    assert [(one.token, one.outcome) for one in answers] == [(7, Outcome.NOT_NOW)]


def test_an_event_of_another_transport_is_refused() -> None:
    with pytest.raises(EventNotTakenError, match="ToyConsole takes no Listening"):
        ToyConsole().handle(Listening(), START)
