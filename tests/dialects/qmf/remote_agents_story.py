"""Helpers for plays of agents beside the broker's own: one has just appeared, or is described."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    BrokerResponse,
    ClassIndication,
    ClassKind,
    CommandComplete,
    GetQuery,
    Heartbeat,
    ObjectContent,
    PackageIndication,
    PropertyContent,
    SchemaResponse,
)
from gateway.model.observations import (
    AgentGone,
    AgentLost,
    HeartbeatSeen,
)
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import ValueType
from tests.dialects.qmf.console_story import (
    SEEN,
    synchronised,
)
from tests.dialects.qmf.examples import OBJECT_ID, shop
from tests.dialects.qmf.playbook import AGENT_USER, BROKER, ConsolePlay, Step

TRUSTED = frozenset({AGENT_USER})
THEIRS = ObjectId.of(sequence=1, agent_bank=10, number=1)
THEIR_TANK = replace(SEEN, agent="1.10", native_id="0-1-1-10-1")
AGENT_CLASS = ClassSchema(
    ClassKey("org.apache.qpid.broker", "agent", b"A" * 16),
    (
        Element("label", ValueType.STRING),
        Element("brokerBank", ValueType.U32),
        Element("agentBank", ValueType.U32),
    ),
)
GET_AGENTS = {"_class": "agent", "_package": "org.apache.qpid.broker"}
AGENTS_PUSHED = "console.obj.1.0.org.apache.qpid.broker.agent"


def beats(play: ConsolePlay, agent: str = "1.10") -> None:
    play.arrives(Heartbeat(0, play.now), key=f"console.heartbeat.{agent}")


def with_agent(config: ConsoleConfig | None = None) -> ConsolePlay:
    """Return a console that asks a remote agent, which has just appeared, for its tanks: request 6."""
    play = synchronised(config)
    beats(play)
    play.left()
    return play


def asked(play: ConsolePlay) -> list[GetQuery]:
    """Return the queries for objects that have left."""
    sent = [one[1] for one in play.left() if isinstance(one, tuple)]
    return [one for one in sent if isinstance(one, GetQuery)]


def passes(play: ConsolePlay, seconds: int, *agents: str) -> list[Step]:
    """Let time pass, in which these agents send heartbeats; return the other steps that left."""
    for _ in range(seconds // 5):
        play.time_passes(5)
        for agent in agents:
            beats(play, agent)
    return [one for one in play.left() if not isinstance(one, HeartbeatSeen)]


def agent_object(sequence: int, deleted: int = 0, bank: int = 10) -> ObjectContent:
    return ObjectContent(sequence, AGENT_CLASS.key, 1, 1, deleted, OBJECT_ID, ("farm", 1, bank), ())


def of_a_qpid_broker(config: ConsoleConfig | None = None) -> ConsolePlay:
    """Return a console that has listed the class of agents, and asks for its objects: request 5."""
    known = shop()
    known.add(ClassDefinition.of(AGENT_CLASS))
    play = ConsolePlay(config, known=known)
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(PackageIndication(2, "org.apache.qpid.broker"), CommandComplete(2))
    play.arrives(ClassIndication(3, ClassKind.OBJECT, AGENT_CLASS.key), CommandComplete(3))
    play.arrives(SchemaResponse(4, ClassDefinition.of(AGENT_CLASS)))
    play.left()
    return play


LEFT = AgentLost("1.10", "agent 1.10 left the broker", remote=True, leaving=True)
GONE = AgentGone("1.10", "agent 1.10 is gone: it left, and did not return")


def leaves_the_broker(play: ConsolePlay) -> None:
    gone = PropertyContent(0, AGENT_CLASS.key, 1, 1, 2, OBJECT_ID, ("farm", 1, 10))
    play.arrives(gone, key=AGENTS_PUSHED)
