"""Our agent and our console before AM2 talk to each other over an exchange in memory, in any revision."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from typing import TypeAlias
from uuid import UUID

from gateway.dialects.effects import (
    Answered,
    Binding,
    Called,
    Delivery,
    Effect,
    ModifyAsked,
    Note,
    Observed,
    Rebind,
    Send,
)
from gateway.dialects.qmf.agent_objects import ManagedObject
from gateway.dialects.qmf.am01.agent import Am01AgentConfig, Am01AgentSession
from gateway.dialects.qmf.am01.console import Am01ConsoleConfig, Am01ConsoleSession
from gateway.dialects.qmf.am01.revisions import Revision
from gateway.model.observations import ClassLearned, ObjectSeen, Observation, ResyncBegan, ResyncEnded
from gateway.model.operations import Answer
from gateway.model.schema import ClassKey, ClassSchema, EventSchema
from gateway.model.values import Reference, Value, Values
from tests.dialects.qmf.am01.examples import KEY, leak, tank

SECOND = 10**9
START = 1_700_000_000 * SECOND
QUEUE = "amqp-gateway.console.1"
AGENT_USER = "agent"
CONSOLE_USER = "gateway"

Picture: TypeAlias = "dict[str, tuple[Values | None, Values | None]]"


def tank_object(
    number: int = 1, name: str = "t1", size: Value | None = 100, fills: int = 7, level: float = 50.0
) -> ManagedObject:
    """A tank as an agent's program tells it."""
    return ManagedObject(KEY, number, START, (name, Reference(""), size), (fills, level, "hi"), START)


def _matches(pattern: str, key: str) -> bool:
    words = [{"*": r"[^.]+", "#": ".*"}.get(word, re.escape(word)) for word in pattern.split(".")]
    return re.fullmatch(r"\.".join(words).replace(r"\..*", r"(\..*)?"), key) is not None


class Between:
    """One console, one agent, and the exchange between them; what the console observes is drawn.

    Args:
        revision: what the agent speaks.
        known: whether the console was told which.
        hears_binds: whether the agent learns that a queue was bound, as an agent within a broker does.
    """

    def __init__(
        self,
        revision: Revision,
        *,
        known: bool = False,
        hears_binds: bool = True,
        classes: tuple[ClassSchema, ...] = (tank(),),
        events: tuple[EventSchema, ...] = (leak(),),
        console: dict[str, object] | None = None,
        agent: dict[str, object] | None = None,
    ) -> None:
        self.now = START
        self.revision = revision
        self.package = classes[0].key.package
        self._classes, self._events = classes, events
        self._hears_binds = hears_binds
        self._agent_settings = agent or {}
        config = Am01ConsoleConfig(believed=frozenset({AGENT_USER}), package=self.package)
        if known:
            config = replace(config, revisions=frozenset((revision,)))
        self.console = Am01ConsoleSession(replace(config, **(console or {})))  # type: ignore[arg-type]  # its fields
        self.observed: list[Observation] = []
        self.answers: list[Answer] = []
        self.asked: list[Called | ModifyAsked] = []
        self.notes: list[Note] = []
        self.picture: Picture = {}
        self._seen: set[str] | None = None
        self._rebinding = ""
        self._messages: deque[tuple[Send, str]] = deque()
        self._boot = 0
        self.start_agent()

    def start_agent(self) -> None:
        """A new process of the agent, which knows nothing of the one before."""
        self._boot += 1
        config = Am01AgentConfig(
            self.revision,
            obey=frozenset({CONSOLE_USER}),
            broker=UUID(int=self._boot),
            package=self.package,
        )
        settings = replace(config, **self._agent_settings)  # type: ignore[arg-type]  # its fields
        self.agent = Am01AgentSession(settings, self._classes, self._events)

    def connects(self) -> None:
        if self._hears_binds:
            self.agent_does(self.agent.console_bound(self.now))
        self.console_does(self.console.connected(QUEUE, self.now))

    def disconnects(self) -> None:
        self.console_does(self.console.disconnected("test", self.now))

    def starts(self) -> None:
        """The agent is there, then the console, and some time passes."""
        self.agent_does(self.agent.start(self.now))
        self.connects()
        self.time_passes(40)

    def told(self, *kinds: type[Observation]) -> list[Observation]:
        found = [one for one in self.observed if not kinds or isinstance(one, kinds)]
        self.observed.clear()
        return found

    def console_does(self, effects: list[Effect]) -> None:
        self._take(effects, CONSOLE_USER)
        self.deliver()

    def agent_does(self, effects: list[Effect]) -> None:
        self._take(effects, AGENT_USER)
        self.deliver()

    def time_passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += SECOND
            self.agent_does(self.agent.tick(self.now))
            self.console_does(self.console.tick(self.now))

    def deliver(self) -> None:
        while self._messages:
            send, user = self._messages.popleft()
            delivery = Delivery(
                send.exchange, send.routing_key, send.body, send.reply_to, user, timestamp=self.now
            )
            if self._routes(self.console.bindings(QUEUE), send):
                self._take(self.console.receive(delivery, self.now), CONSOLE_USER)
            if self._routes(self.agent.bindings(), send):
                self._take(self.agent.receive(delivery, self.now), AGENT_USER)
        if self._rebinding:
            self._rebinding = ""
            self.disconnects()
            self.connects()

    @staticmethod
    def _routes(bindings: tuple[Binding, ...], send: Send) -> bool:
        return any(
            one.exchange == send.exchange and _matches(one.routing_key, send.routing_key) for one in bindings
        )

    def _take(self, effects: list[Effect], user: str) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._messages.append((effect, user))
            elif isinstance(effect, Observed):
                for observation in effect.observations:
                    self._draw(observation)
            elif isinstance(effect, Answered):
                self.answers.append(effect.answer)
            elif isinstance(effect, Called | ModifyAsked):
                self.asked.append(effect)
            elif isinstance(effect, Note):
                self.notes.append(effect)
            elif isinstance(effect, Rebind):
                self._rebinding = effect.reason

    def _draw(self, observation: Observation) -> None:
        """What an inventory would make of it."""
        self.observed.append(observation)
        if isinstance(observation, ResyncBegan):
            self._seen = set()
        elif isinstance(observation, ResyncEnded):
            if observation.complete and self._seen is not None:
                self.picture = {key: one for key, one in self.picture.items() if key in self._seen}
            self._seen = None
        elif isinstance(observation, ObjectSeen) and observation.deleted:
            self.picture.pop(observation.native_id, None)
        elif isinstance(observation, ObjectSeen):
            if self._seen is not None:
                self._seen.add(observation.native_id)
            before = self.picture.get(observation.native_id, (None, None))
            self.picture[observation.native_id] = (
                before[0] if observation.properties is None else observation.properties,
                before[1] if observation.statistics is None else observation.statistics,
            )

    def key(self, name: str = "tank") -> ClassKey:
        """The class as the console told of it."""
        return next(
            one.schema.key
            for one in reversed(self.observed)
            if isinstance(one, ClassLearned) and one.schema.key.name == name
        )


def shown(*objects: ManagedObject) -> Picture:
    """What a console should see of these objects."""
    return {
        f"0-0-0-0-{one.number}": (
            tuple(None if value == Reference("") else value for value in one.properties),
            one.statistics,
        )
        for one in objects
    }
