"""An agent and a console of ours connected by an exchange in memory, as they would be by a broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar

from gateway.dialects.session import Binding, Delivery, Effect, Event, Observed, Send, TimerExpired
from gateway.model.observations import ObjectSeen, Observation, ResyncBegan, ResyncEnded
from gateway.model.times import SECOND
from gateway.model.values import Values
from tests.dialects.qmf.playbook import AGENT_USER, CONSOLE_USER, QUEUE, START
from tests.simulation.session_driver import binding_matches

Picture: TypeAlias = "dict[str, tuple[Values | None, Values | None]]"


class Session(Protocol):
    """The common interface of console and agent sessions."""

    def handle(self, event: Event, now: int) -> list[Effect]: ...


class Console(Session, Protocol):
    """The interface of a console session of any generation of QMF."""

    def bindings(self, queue: str) -> Sequence[Binding]: ...


class Agent(Session, Protocol):
    """The interface of an agent session of any generation of QMF."""

    def bindings(self) -> Sequence[Binding]: ...


ConsoleT = TypeVar("ConsoleT", bound=Console)
AgentT = TypeVar("AgentT", bound=Agent)


class Between(Generic[ConsoleT, AgentT]):
    """One console, one agent, and the exchange between them; the console's observations are applied.

    Attributes:
        console: receives messages under its bindings.
        agent: receives messages under its bindings; a replacement receives them from then on.
        observed: the observations of the console, in order.
        picture: the objects as an inventory would have them: properties and statistics by native id.
    """

    agent: AgentT

    def __init__(self, console: ConsoleT) -> None:
        self.now = START
        self.console = console
        self.observed: list[Observation] = []
        self.picture: Picture = {}
        self._seen: set[str] | None = None
        self._messages: deque[tuple[Send, str]] = deque()

    def reported(self, *kinds: type[Observation]) -> list[Observation]:
        """Return the observations of these types since the last time; all of them, if no type is given."""
        found = [one for one in self.observed if not kinds or isinstance(one, kinds)]
        self.observed.clear()
        return found

    def console_does(self, effects: list[Effect]) -> None:
        self.take(effects, CONSOLE_USER)
        self.deliver()

    def agent_does(self, effects: list[Effect]) -> None:
        self.take(effects, AGENT_USER)
        self.deliver()

    def time_passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += SECOND
            self.agent_does(self.agent.handle(TimerExpired(), self.now))
            self.console_does(self.console.handle(TimerExpired(), self.now))

    def deliver(self) -> None:
        """Deliver all published messages, and those that result from them."""
        while self._messages:
            send, user = self._messages.popleft()
            delivery = Delivery(
                send.exchange, send.routing_key, send.body, send.reply_to, user, timestamp=self.now
            )
            if _routes(self.console.bindings(QUEUE), send):
                self.take(self.console.handle(delivery, self.now), CONSOLE_USER)
            if _routes(self.agent.bindings(), send):
                self.take(self.agent.handle(delivery, self.now), AGENT_USER)

    def take(self, effects: Sequence[Effect], user: str) -> None:
        """Execute effects; their messages, also those of a third party, are queued for delivery."""
        for effect in effects:
            if isinstance(effect, Send):
                self._messages.append((effect, user))
            elif isinstance(effect, Observed):
                for observation in effect.observations:
                    self._draw(observation)
            else:
                self.noticed(effect)

    def noticed(self, effect: Effect) -> None:
        """Handle an effect that is neither a message nor an observation."""

    def _draw(self, observation: Observation) -> None:
        self.observed.append(observation)
        if isinstance(observation, ResyncBegan):
            self._seen = set()
        elif isinstance(observation, ResyncEnded):
            if observation.complete and self._seen is not None:
                self.picture = {key: one for key, one in self.picture.items() if key in self._seen}
            self._seen = None
        elif isinstance(observation, ObjectSeen):
            self._draw_object(observation)

    def _draw_object(self, seen: ObjectSeen) -> None:
        if seen.deleted:
            self.picture.pop(seen.native_id, None)
            return
        if self._seen is not None:
            self._seen.add(seen.native_id)
        before = self.picture.get(seen.native_id, (None, None))
        self.picture[seen.native_id] = (
            before[0] if seen.properties is None else seen.properties,
            before[1] if seen.statistics is None else seen.statistics,
        )


def _routes(bindings: Sequence[Binding], send: Send) -> bool:
    return any(binding_matches(one, send.exchange, send.routing_key) for one in bindings)
