"""Our agent and our console of AM2 with each other."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.messages import CommandComplete
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import LinkDown, LinkUp, LossSuspected, Send
from gateway.model.observations import (
    EventSeen,
    Gap,
    ResyncBegan,
    ResyncEnded,
    Severity,
)
from gateway.model.times import SECOND
from tests.dialects.qmf.between import Between, Picture
from tests.dialects.qmf.examples import LEAK, TANK
from tests.dialects.qmf.playbook import AGENT_USER, CONSOLE_USER, QUEUE, START, tank


class Conversation(Between[ConsoleSession, AgentSession]):
    """A console and an agent of AM2 with each other."""

    def __init__(self) -> None:
        super().__init__(ConsoleSession(ConsoleConfig(trusted_users=frozenset({AGENT_USER}))))
        self._boot = 0
        self.start_agent()

    def start_agent(self) -> None:
        """Start a new process of the agent, without the state of the one before."""
        self._boot += 1
        config = AgentConfig(UUID(int=self._boot), self._boot, frozenset({CONSOLE_USER}))
        self.agent = AgentSession(config, (TANK,), (LEAK,))


def shown(conversation: Conversation, *objects: ManagedObject) -> Picture:
    """Return the values that a console should observe of these objects, by native id."""
    return {
        str(conversation.agent.object_id(one.number)): (one.properties, one.statistics) for one in objects
    }


def test_everything_that_is_managed_is_seen() -> None:
    conversation = Conversation()
    tanks = [tank(number, f"t{number}", level=None if number % 2 else 7.5) for number in range(300)]
    for one in tanks:
        conversation.agent.put(one)
    conversation.agent_does(conversation.agent.start(conversation.now))
    conversation.console_does(conversation.console.handle(LinkUp(QUEUE), conversation.now))
    assert conversation.console.state is State.SYNCHRONISED
    assert conversation.picture == shown(conversation, *tanks)


def test_creations_changes_deletions_and_events_arrive() -> None:
    conversation = Conversation()
    conversation.agent_does(conversation.agent.start(conversation.now))
    conversation.console_does(conversation.console.handle(LinkUp(QUEUE), conversation.now))
    conversation.agent.put(tank(1))
    conversation.agent.put(tank(2))
    conversation.agent_does(conversation.agent.flush(conversation.now))
    assert conversation.picture == shown(conversation, tank(1), tank(2))
    conversation.agent.put(tank(1, fills=None))
    conversation.agent.delete(2, conversation.now)
    conversation.time_passes(11)
    assert conversation.picture == shown(conversation, tank(1, fills=None))
    conversation.reported()
    conversation.agent_does(
        conversation.agent.raise_event(LEAK.key, conversation.now, Severity.CRITICAL, ("t1", 5))
    )
    (event,) = conversation.reported(EventSeen)
    assert isinstance(event, EventSeen)
    assert (event.severity, event.arguments) == (Severity.CRITICAL, ("t1", 5))


def test_a_console_that_was_there_first_receives_the_agent_s_start() -> None:
    conversation = Conversation()
    conversation.console_does(conversation.console.handle(LinkUp(QUEUE), conversation.now))
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
    conversation.console_does(conversation.console.handle(LinkUp(QUEUE), conversation.now))
    conversation.time_passes(5)
    conversation.reported()
    conversation.start_agent()
    conversation.agent.put(tank(2))
    conversation.agent_does(conversation.agent.start(conversation.now))
    assert conversation.picture == shown(conversation, tank(2))
    assert conversation.reported(ResyncBegan, Gap, ResyncEnded) == [
        Gap(START, START + 5 * SECOND, "agent 1.0 restarted or lost its connection"),
        ResyncBegan(restarted=True),
        ResyncEnded(complete=True),
    ]


def test_a_forged_message_changes_nothing() -> None:
    conversation = Conversation()
    conversation.agent.put(tank(1))
    conversation.agent_does(conversation.agent.start(conversation.now))
    conversation.console_does(conversation.console.handle(LinkUp(QUEUE), conversation.now))
    before = dict(conversation.picture)
    forged = Send("amq.direct", QUEUE, write(CommandComplete(1)))
    conversation.take([forged, replace(forged, body=b"\xff" * 50)], "guest")  # a third party
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
    conversation.console_does(conversation.console.handle(LinkUp(QUEUE), conversation.now))
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
            conversation.console_does(conversation.console.handle(LinkDown("test"), conversation.now))
            conversation.console_does(conversation.console.handle(LinkUp(QUEUE), conversation.now))
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
            conversation.console_does(conversation.console.handle(LossSuspected("test"), conversation.now))
    conversation.time_passes(31)
    assert conversation.console.state is State.SYNCHRONISED
    assert conversation.picture == shown(conversation, *managed.values())
