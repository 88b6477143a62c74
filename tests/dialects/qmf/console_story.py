"""Helpers for plays of the console session: one class, one object, a first resync."""

from __future__ import annotations

from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.console_config import HeartbeatRules, Heartbeats
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    BrokerResponse,
    ClassIndication,
    ClassKind,
    CommandComplete,
    ObjectContent,
    PackageIndication,
    PropertyContent,
    SchemaResponse,
    StatisticContent,
)
from gateway.dialects.qmf.session_state import State
from gateway.model.observations import (
    ObjectSeen,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassSchema
from gateway.model.times import SECOND
from tests.dialects.qmf.examples import OBJECT_ID, TANK
from tests.dialects.qmf.playbook import AGENT_USER, BROKER, START, ConsolePlay

PUSHED = "console.obj.1.0.shop.tank"
GREETING = SourceStateSeen(SourceState.CONNECTING, "greeting agents on exchange qpid.management")
SYNCHRONISING = SourceStateSeen(SourceState.SYNCHRONISING)
SYNCHRONISED = SourceStateSeen(SourceState.SYNCHRONISED)
GET_TANKS = {"_class": "tank", "_package": "shop"}
WITHOUT_HEARTBEATS = ConsoleConfig(
    trusted_users=frozenset({AGENT_USER}), heartbeats=HeartbeatRules(Heartbeats.NONE, interval=3600 * SECOND)
)
SEEN = ObjectSeen(TANK.key, "1.0", "0-5-1-0-4386", START, START, 0, ("t1", 100, None, None), (50.0, 9))


def got(sequence: int, name: str = "t1", object_id: ObjectId = OBJECT_ID) -> ObjectContent:
    properties = (name, 100, None, None)
    return ObjectContent(sequence, TANK.key, START, START, 0, object_id, properties, (50.0, 9))


def changed(name: str = "t1", deleted: int = 0) -> PropertyContent:
    return PropertyContent(0, TANK.key, START, START, deleted, OBJECT_ID, (name, 100, None, None))


def filled(level: float = 60.0, deleted: int = 0) -> StatisticContent:
    return StatisticContent(0, TANK.key, START, START, deleted, OBJECT_ID, None, (level, 9))


def tank_schema(sequence: int) -> SchemaResponse:
    return SchemaResponse(sequence, ClassDefinition.of(TANK))


def listed(play: ConsolePlay, schema: ClassSchema = TANK) -> None:
    """Answer everything up to the get query of a first resync: requests 1 to 4."""
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(PackageIndication(2, "shop"))
    play.arrives(CommandComplete(2))
    play.arrives(ClassIndication(3, ClassKind.OBJECT, TANK.key))
    play.arrives(CommandComplete(3))
    play.arrives(SchemaResponse(4, ClassDefinition.of(schema)))
    play.left()


def synchronised(config: ConsoleConfig | None = None) -> ConsolePlay:
    """Return a console that knows the only tank; it has sent six requests so far."""
    play = ConsolePlay(config)
    listed(play)
    play.arrives(got(5))
    play.arrives(CommandComplete(5))
    play.left()
    assert play.session.state is State.SYNCHRONISED
    return play
