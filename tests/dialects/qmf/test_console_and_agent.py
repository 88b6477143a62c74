"""Our agent and our console talk to each other over an exchange in memory, as they would over a broker."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, replace
from typing import TypeAlias
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.effects import Binding, Delivery, Effect, Observed, Send
from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.console_states import State
from gateway.dialects.qmf.messages import CommandComplete
from gateway.dialects.qmf.writer import write
from gateway.model.events import Severity
from gateway.model.observations import (
    EventSeen,
    Gap,
    ObjectSeen,
    Observation,
    ResyncBegan,
    ResyncEnded,
)
from gateway.model.values import Values
from tests.dialects.qmf.examples import LEAK, TANK
from tests.dialects.qmf.playbook import AGENT_USER, CONSOLE_USER, QUEUE, SECOND, START, tank

Picture: TypeAlias = "dict[str, tuple[Values | None, Values | None]]"


def _matches(pattern: str, key: str) -> bool:
    """Whether a topic binding takes a routing key (AMQP 0-9-1, topic exchange)."""
    words = [{"*": r"[^.]+", "#": ".*"}.get(word, re.escape(word)) for word in pattern.split(".")]
    return re.fullmatch(r"\.".join(words).replace(r"\..*", r"(\..*)?"), key) is not None


@dataclass
class _Message:
    send: Send
    user: str


class Conversation:
    """One console, one agent, and the exchange between them; what the console observes is drawn."""

    def __init__(self) -> None:
        self.now = START
        self.console = ConsoleSession(ConsoleConfig(believed=frozenset({AGENT_USER})))
        self.observed: list[Observation] = []
        self.picture: Picture = {}
        self._seen: set[str] | None = None
        self._messages: deque[_Message] = deque()
        self._boot = 0
        self.start_agent()

    def start_agent(self) -> None:
        """A new process of the agent, which knows nothing of the one before."""
        self._boot += 1
        config = AgentConfig(UUID(int=self._boot), self._boot, frozenset({CONSOLE_USER}))
        self.agent = AgentSession(config, (TANK,), (LEAK,))

    def told(self, *kinds: type[Observation]) -> list[Observation]:
        found = [one for one in self.observed if isinstance(one, kinds)]
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
            message = self._messages.popleft()
            send = message.send
            delivery = Delivery(
                send.exchange, send.routing_key, send.body, send.reply_to, message.user, timestamp=self.now
            )
            if self._routes(self.console.bindings(QUEUE), send):
                self._take(self.console.receive(delivery, self.now), CONSOLE_USER)
            if self._routes(self.agent.bindings(), send):
                self._take(self.agent.receive(delivery, self.now), AGENT_USER)

    @staticmethod
    def _routes(bindings: tuple[Binding, ...], send: Send) -> bool:
        return any(
            one.exchange == send.exchange and _matches(one.routing_key, send.routing_key) for one in bindings
        )

    def _take(self, effects: list[Effect], user: str) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._messages.append(_Message(effect, user))
            elif isinstance(effect, Observed):
                for observation in effect.observations:
                    self._draw(observation)

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


def shown(conversation: Conversation, *objects: ManagedObject) -> Picture:
    """What a console should see of these objects."""
    return {
        str(conversation.agent.object_id(one.number)): (one.properties, one.statistics) for one in objects
    }


def test_everything_that_is_managed_is_seen() -> None:
    conversation = Conversation()
    tanks = [tank(number, f"t{number}", level=None if number % 2 else 7.5) for number in range(300)]
    for one in tanks:
        conversation.agent.put(one)
    conversation.agent_does(conversation.agent.start(conversation.now))
    conversation.console_does(conversation.console.connected(QUEUE, conversation.now))
    assert conversation.console.state is State.SYNCHRONISED
    assert conversation.picture == shown(conversation, *tanks)


def test_creations_changes_deletions_and_events_arrive() -> None:
    conversation = Conversation()
    conversation.agent_does(conversation.agent.start(conversation.now))
    conversation.console_does(conversation.console.connected(QUEUE, conversation.now))
    conversation.agent.put(tank(1))
    conversation.agent.put(tank(2))
    conversation.agent_does(conversation.agent.flush(conversation.now))
    assert conversation.picture == shown(conversation, tank(1), tank(2))
    conversation.agent.put(tank(1, fills=None))
    conversation.agent.delete(2, conversation.now)
    conversation.time_passes(11)
    assert conversation.picture == shown(conversation, tank(1, fills=None))
    conversation.told()
    conversation.agent_does(
        conversation.agent.raise_event(LEAK.key, conversation.now, Severity.CRITICAL, ("t1", 5))
    )
    (event,) = conversation.told(EventSeen)
    assert isinstance(event, EventSeen)
    assert (event.severity, event.arguments) == (Severity.CRITICAL, ("t1", 5))


def test_a_console_that_was_there_first_hears_of_the_agent_s_start() -> None:
    conversation = Conversation()
    conversation.console_does(conversation.console.connected(QUEUE, conversation.now))
    conversation.time_passes(25)
    conversation.agent.put(tank(1))
    conversation.agent_does(conversation.agent.start(conversation.now))
    conversation.time_passes(3)
    assert conversation.picture == shown(conversation, tank(1))
    assert conversation.console.state is State.SYNCHRONISED


def test_an_agent_that_died_and_came_back_with_less() -> None:
    conversation = Conversation()
    conversation.agent.put(tank(1))
    conversation.agent.put(tank(2))
    conversation.agent_does(conversation.agent.start(conversation.now))
    conversation.console_does(conversation.console.connected(QUEUE, conversation.now))
    conversation.time_passes(5)
    conversation.told()
    conversation.start_agent()
    conversation.agent.put(tank(2))
    conversation.agent_does(conversation.agent.start(conversation.now))
    assert conversation.picture == shown(conversation, tank(2))
    assert conversation.told(ResyncBegan, Gap, ResyncEnded) == [
        Gap(START, START + 5 * SECOND, "agent 1.0 started anew or lost its connection"),
        ResyncBegan(restarted=True),
        ResyncEnded(complete=True),
    ]


def test_a_forged_message_changes_nothing() -> None:
    conversation = Conversation()
    conversation.agent.put(tank(1))
    conversation.agent_does(conversation.agent.start(conversation.now))
    conversation.console_does(conversation.console.connected(QUEUE, conversation.now))
    before = dict(conversation.picture)
    forged = Send("amq.direct", QUEUE, write(CommandComplete(1)))
    conversation._take([forged, replace(forged, body=b"\xff" * 50)], "guest")  # noqa: SLF001  a third party
    conversation.deliver()
    assert conversation.picture == before


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.integers(0, 5), st.just(0)),
        st.tuples(
            st.sampled_from(["flush", "time", "reconnect", "suspend", "restart", "resync"]),
            st.just(0),
            st.just(0),
        ),
    ),
    max_size=25,
)


@given(_STEPS)
def test_whatever_happens_the_console_s_picture_becomes_what_the_agent_manages(
    steps: list[tuple[str, int, int]],
) -> None:
    conversation = Conversation()
    managed: dict[int, ManagedObject] = {}
    conversation.agent_does(conversation.agent.start(conversation.now))
    conversation.console_does(conversation.console.connected(QUEUE, conversation.now))
    for what, number, fills in steps:
        if what == "put":
            managed[number] = tank(number, fills=fills or None)
            conversation.agent.put(managed[number])
        elif what == "delete":
            managed.pop(number, None)
            conversation.agent.delete(number, conversation.now)
        elif what == "flush":
            conversation.agent_does(conversation.agent.flush(conversation.now))
        elif what == "time":
            conversation.time_passes(4)
        elif what == "reconnect":
            conversation.console_does(conversation.console.disconnected("test", conversation.now))
            conversation.console_does(conversation.console.connected(QUEUE, conversation.now))
        elif what == "suspend":
            conversation.agent.suspend()
            conversation.time_passes(2)
            conversation.agent_does(conversation.agent.start(conversation.now))
        elif what == "restart":
            conversation.start_agent()
            for one in managed.values():
                conversation.agent.put(one)
            conversation.agent_does(conversation.agent.start(conversation.now))
        else:
            conversation.console_does(conversation.console.resync("test", conversation.now))
    conversation.time_passes(31)
    assert conversation.console.state is State.SYNCHRONISED
    assert conversation.picture == shown(conversation, *managed.values())
