"""The toy dialect: a console asks for lamps, and a peer lists them, each ``on`` or ``off``."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.dialects.decoding.plain import Body, Decoded
from gateway.dialects.errors import ProtocolError
from gateway.dialects.session import (
    Answered,
    Binding,
    Delivery,
    Effect,
    Event,
    EventNotTakenError,
    LinkDown,
    LinkUp,
    LossSuspected,
    NotSent,
    Observed,
    Send,
    TimerExpired,
    WakeAt,
    cannot_be_set,
)
from gateway.model.observations import (
    AgentLost,
    ClassLearned,
    HeartbeatSeen,
    ObjectSeen,
    Observation,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.times import SECOND
from gateway.model.values import ValueType

QUESTION = b"lamps?"
LAMP = ClassSchema(
    ClassKey("toy", "lamp"),
    (Element("name", ValueType.STRING, index=True),),
    (Element("lit", ValueType.BOOL),),
)
_STATES = {"on": True, "off": False}


def read(body: bytes) -> dict[str, bool]:
    """Return the lamps of an answer, each with whether it is lit.

    Raises:
        ProtocolError: the body is something else.
    """
    try:
        lines = [line.rpartition(" ") for line in body.decode("ascii").splitlines()]
        return {name: _STATES[state] for name, _, state in lines}
    except (UnicodeDecodeError, KeyError) as error:
        raise ProtocolError("lines of a name and on or off", repr(body[:40])) from error


def write(lamps: dict[str, bool]) -> bytes:
    """Return the answer that `read` reads."""
    return "\n".join(f"{name} {'on' if lit else 'off'}" for name, lit in lamps.items()).encode("ascii")


@dataclass(frozen=True, slots=True)
class ToyConfig:
    """The settings of a console.

    Attributes:
        exchange: questions are published to it, and it routes answers by the name of the console's queue.
        interval: nanoseconds between two questions.
    """

    exchange: str = "toys"
    interval: int = SECOND


class ToyConsole:
    """A console that asks for all lamps in each interval."""

    def __init__(self, config: ToyConfig = ToyConfig()) -> None:
        self._config = config
        self._reply_to = ""

    def bindings(self, queue: str) -> tuple[Binding, ...]:
        """Return the bindings of the queue of this name before `LinkUp`."""
        return (Binding(self._config.exchange, queue),)

    def handle(self, event: Event, now: int) -> list[Effect]:  # noqa: PLR0911  a case for each event
        """Handle an event, as every session does."""
        match event:
            case Delivery(body=body):
                return self._answered(body, now)
            case LinkUp(reply_to):
                self._reply_to = reply_to
                return [Observed((ClassLearned(LAMP),)), *self._ask(now)]
            case LinkDown(detail):
                self._reply_to = ""
                return [Observed((AgentLost("toy"), SourceStateSeen(SourceState.DOWN, detail)))]
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
        return [
            Send(self._config.exchange, "lamps", QUESTION, self._reply_to),
            WakeAt(now + self._config.interval),
        ]

    def _answered(self, body: bytes, now: int) -> list[Effect]:
        try:
            lamps = read(body)
        except ProtocolError as error:
            return [Observed((SourceStateSeen(SourceState.DEGRADED, str(error)),))]
        seen: list[Observation] = [
            ObjectSeen(LAMP.key, "toy", name, now, 0, 0, (name,), (lit,)) for name, lit in lamps.items()
        ]
        return [
            Observed(
                (
                    ResyncBegan(),
                    HeartbeatSeen("toy", now),
                    *seen,
                    ResyncEnded(complete=True),
                    SourceStateSeen(SourceState.SYNCHRONISED),
                )
            )
        ]


class ToyDecoder:
    """Decodes questions and answers for people."""

    def decode(self, body: Body) -> Decoded:
        """Return the message of a body.

        Raises:
            ProtocolError: it is neither a question nor an answer.
        """
        if body.octets == QUESTION:
            return Decoded([{"message": "question"}], reencoded=True)
        lamps = read(body.octets)
        return Decoded([{"message": "answer", "lamps": dict(lamps)}], reencoded=write(lamps) == body.octets)
