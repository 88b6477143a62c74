"""The answers of an agent before AM2 to consoles."""

from __future__ import annotations

from gateway.dialects.qmf.am01.messages import AgentHello, AgentIdentity, ClassDescription, Message, Revision
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    GetQuery,
    ObjectContent,
    PackageIndication,
    PackageQuery,
    SchemaRequest,
)
from tests.dialects.qmf.am01.examples import KEY
from tests.dialects.qmf.playbook import QUEUE
from tests.peers.am01_agent_scene import BROKER, ONE, started


def test_february_2008_answers_without_an_end() -> None:
    scene = started(Revision.FEBRUARY_2008)
    asked: list[Message] = [AgentHello(), PackageQuery(0), ClassQuery(0, "shop"), ClassQuery(0, "dock")]
    answers = [[message for _, message in scene.messages(scene.asks(one))] for one in asked]
    assert answers == [
        [AgentIdentity("Broker ID")],
        [PackageIndication(0, "shop")],
        [ClassIndication(0, ClassKind.OBJECT, scene.key)],
        [],
    ]


def test_march_2008_answers_with_an_end_and_the_number() -> None:
    scene = started(Revision.MARCH_2008)
    asked: list[Message] = [BrokerRequest(1), PackageQuery(2), ClassQuery(3, "shop"), ClassQuery(4, "dock")]
    answers = [[message for _, message in scene.messages(scene.asks(one))] for one in asked]
    assert answers == [
        [BrokerResponse(1, BROKER)],
        [PackageIndication(2, "shop"), CommandComplete(2)],
        [ClassIndication(3, ClassKind.OBJECT, scene.key), CommandComplete(3)],
        [CommandComplete(4)],
    ]


def test_an_answered_request_for_a_schema_is_a_reason_to_report_everything() -> None:
    scene = started(Revision.FEBRUARY_2008)
    assert scene.asks(SchemaRequest(0, KEY)) == [], "the hash is another"
    assert scene.published() == []
    ((_, described),) = scene.messages(scene.asks(SchemaRequest(0, scene.key)))
    assert isinstance(described, ClassDescription)
    assert described.definition.key == scene.key
    assert len(scene.published()) == 2


def test_march_2008_reports_the_objects_of_a_class() -> None:
    scene = started(Revision.MARCH_2008)
    found, end = (message for _, message in scene.messages(scene.asks(GetQuery(3, {"_class": "tank"}))))
    assert isinstance(found, ObjectContent)
    assert (found.object_id, found.statistics) == (ONE, (7, 50.0, "hi"))
    assert end == CommandComplete(3)
    assert scene.messages(scene.asks(GetQuery(4, {}))) == [(QUEUE, CommandComplete(4))]
