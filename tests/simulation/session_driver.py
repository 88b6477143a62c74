"""A driver of a session on virtual time, like `gateway.links.session_driver` on an event loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from gateway.dialects.session import (
    Answered,
    Binding,
    Called,
    Delivery,
    Effect,
    Event,
    LinkDown,
    LinkUp,
    LossSuspected,
    ModifyAsked,
    Note,
    NotSent,
    Observed,
    ReadAsked,
    Send,
    Session,
    TimerExpired,
    WakeAt,
)
from gateway.model.observations import ClassLearned, EventLearned, EventSeen, ObjectSeen, Observation
from gateway.model.operations import Answer
from tests.simulation.scheduler import Clock, Scheduler, Timer

Observe = Callable[[tuple[Observation, ...]], None]


class SimulatedDriver:
    """A session and its surroundings.

    Args:
        scheduler: time and chance.
        clock: the clock of the session's process.
        name: the name in the trace.
        session: the session, which handles the events.
        observe: called with all observations of one message body.
        received: called for each message that arrives, before anything else.
        answered: called with the answers to calls and fetches.

    Attributes:
        asked: called with the requests of consoles to an agent.
        send: sends messages; ``None`` while there is no link, and messages sent then are lost.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        name: str,
        session: Session,
        observe: Observe,
        received: Callable[[], None] = lambda: None,
        answered: Callable[[Answer], None] = lambda _: None,
    ) -> None:
        self.asked: Callable[[Called | ModifyAsked | ReadAsked], None] = lambda _: None
        self._answered = answered
        self.notes: Counter[str] = Counter()
        self.counters: Counter[str] = Counter()
        self.session = session
        self.name = name
        self.send: Callable[[Send], None] | None = None
        self._scheduler = scheduler
        self._clock = clock
        self._observe = observe
        self._received = received
        self._timer: Timer | None = None
        self._stopped = False

    def connected(self, reply_to: str) -> None:
        """Process the start of the link; replies to ``reply_to`` arrive."""
        self._scheduler.note(self.name, f"connected {reply_to}")
        self.handle(LinkUp(reply_to))

    def disconnected(self, detail: str) -> None:
        """Process the loss of the link."""
        self._scheduler.note(self.name, f"disconnected: {detail}")
        self.send = None
        self.handle(LinkDown(detail))

    def unsent(self, sends: Iterable[Send], reason: str) -> None:
        """Report messages as certainly not sent, if they are sent once only or are mandatory."""
        once = [send for send in sends if send.not_after or send.mandatory]
        if once:
            self._scheduler.note(self.name, f"{len(once)} unsent: {reason}")
            self.handle(NotSent(once, reason))

    def doubted(self, reason: str, lasted: int) -> None:
        """Report that messages of the last ``lasted`` nanoseconds may have been lost."""
        self._scheduler.note(self.name, f"doubts: {reason}")
        self.handle(LossSuspected(reason, self._clock.now() - lasted))

    def deliver(self, delivery: Delivery) -> None:
        """Process a message that arrived."""
        if self._stopped:
            return
        self._received()
        self.counters["messages"] += 1
        what = delivery.body[:4].decode("latin-1")
        self._scheduler.note(self.name, f"<- {delivery.routing_key} {what} {len(delivery.body)}")
        self.handle(delivery)

    def handle(self, event: Event) -> None:
        """Pass an event to the session, and carry out its effects."""
        self.perform(self.session.handle(event, self._clock.now()))

    def perform(self, effects: Iterable[Effect]) -> None:
        """Carry out effects of the session."""
        if not self._stopped:
            for effect in effects:
                self._carry_out(effect)

    def stop(self) -> None:
        """Stop at the end of the process; no further effect is carried out."""
        self._stopped = True
        self.send = None
        if self._timer is not None:
            self._timer.cancel()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send():
                if self.send is not None:
                    self.send(effect)
            case Observed(observations):
                for observation in observations:
                    self._scheduler.note(self.name, f"observed {_short(observation)}")
                self._observe(observations)
            case Answered(answer):
                self._scheduler.note(self.name, f"answered {answer}")
                self._answered(answer)
            case Called() | ModifyAsked() | ReadAsked():
                self._scheduler.note(self.name, f"asked {effect}")
                self.asked(effect)
            case WakeAt(time):
                self._wake_at(time)
            case Note(event, detail):
                self.notes[event] += 1
                self._scheduler.note(self.name, f"note {event}: {detail}")

    def _wake_at(self, time: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._stopped:
            self._timer = self._scheduler.after(time - self._clock.now(), self._woken)

    def _woken(self) -> None:
        self._timer = None
        self.handle(TimerExpired())


def _short(observation: Observation) -> str:
    """Return a short text, because most lines of a trace are observations."""
    match observation:
        case ObjectSeen():
            what = "gone" if observation.deleted else "seen"
            parts = f"{observation.properties} {observation.statistics}"
            return f"{what} {observation.key} {observation.native_id} {parts}"
        case ClassLearned(schema) | EventLearned(schema):
            return f"learnt {schema.key}"
        case EventSeen():
            return f"event {observation.key} {observation.arguments}"
    return repr(observation)


def binding_matches(binding: Binding, exchange: str, key: str) -> bool:
    """Return whether a message published to ``exchange`` with ``key`` matches ``binding`` (a topic)."""
    return binding.exchange == exchange and _matches(binding.routing_key.split("."), key.split("."))


def _matches(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_matches(pattern[1:], words[skipped:]) for skipped in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _matches(pattern[1:], words[1:])
