"""Helpers for plays of the agent session: a running agent of one class."""

from __future__ import annotations

from gateway.dialects.qmf.agent import ManagedObject
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    ObjectContent,
    PropertyContent,
    StatisticContent,
)
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import ValueType
from tests.dialects.qmf.examples import TANK
from tests.dialects.qmf.playbook import START, AgentPlay

PUSHED = "console.obj.1.0.shop.tank"
HEARTBEAT = "console.heartbeat.1.0"
TANK_ID = ObjectId.of(sequence=5, number=0x1122)
POND = ClassSchema(ClassKey("shop", "pond"), (Element("name", ValueType.STRING),))


def started(*objects: ManagedObject, classes: tuple[ClassSchema, ...] = (TANK,)) -> AgentPlay:
    """Return a running agent that has published everything once."""
    play = AgentPlay(classes)
    for managed in objects:
        play.session.put(managed)
    play.starts()
    play.time_passes(10)
    play.left()
    return play


def key_of(play: AgentPlay, name: str = "tank") -> ClassKey:
    return play.session.class_key("shop", name)


def properties(play: AgentPlay, name: str = "t1", deleted: int = 0, number: int = 0x1122) -> PropertyContent:
    values = (name, 100, None, None, None)
    object_id = ObjectId.of(sequence=5, number=number)
    return PropertyContent(0, key_of(play), START, START, deleted, object_id, values)


def statistics(
    play: AgentPlay,
    level: float = 50.0,
    fills: int = 9,
    absent: int = 0,
    deleted: int = 0,
    number: int = 0x1122,
) -> StatisticContent:
    values = (level, fills, absent)
    object_id = ObjectId.of(sequence=5, number=number)
    return StatisticContent(0, key_of(play), START, START, deleted, object_id, None, values)


def got(play: AgentPlay, sequence: int, number: int = 0x1122) -> ObjectContent:
    object_id = ObjectId.of(sequence=5, number=number)
    values = ("t1", 100, None, None, None), (50.0, 9, 0)
    return ObjectContent(sequence, key_of(play), START, START, 0, object_id, *values)
