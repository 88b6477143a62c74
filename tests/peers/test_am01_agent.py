"""The messages that an agent before AM2 sends without a request, and its refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.agent_objects import ManagedObject
from gateway.dialects.qmf.am01.codec import MAX_BODY, write
from gateway.dialects.qmf.am01.messages import (
    ASKED,
    BROADCASTING,
    AgentHello,
    AttachRequest,
    ClassDescription,
    Revision,
)
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    Content,
    PackageIndication,
    PackageQuery,
    PropertyContent,
    StatisticContent,
)
from gateway.dialects.session import Note, TimerExpired, WakeAt
from gateway.model.observations import Severity
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from tests.dialects.qmf.am01.between import tank_object
from tests.dialects.qmf.am01.examples import tank
from tests.dialects.qmf.playbook import START
from tests.peers.am01_agent import Am01AgentConfig, Am01AgentSession
from tests.peers.am01_agent_scene import BROKER, ONE, REVISIONS, Scene, started

RECEIVED = pytest.mark.parametrize(
    "revision", [one for one in Revision if one not in ASKED], ids=lambda one: one.value
)


@pytest.mark.parametrize("revision", [Revision.FEBRUARY_2008, Revision.MARCH_2008])
def test_packages_are_announced_by_who_can_be_asked(revision: Revision) -> None:
    scene = Scene(revision)
    reported = scene.messages(scene.starts())
    key = "mgmt.schema.package" if revision is Revision.FEBRUARY_2008 else f"mgmt.{BROKER}.schema.package"
    assert reported == [(key, PackageIndication(0, "shop"))]


@REVISIONS
def test_everything_is_reported_at_the_first_interval_and_what_changed_at_each(revision: Revision) -> None:
    scene = Scene(revision)
    assert scene.starts()[-1] == WakeAt(START + 10 * SECOND)
    reported = scene.published()
    kinds = [type(message) for _, message in reported]
    schemas = [] if revision in ASKED else [ClassDescription]
    assert kinds == [*schemas, PropertyContent, StatisticContent]
    assert scene.published() == []
    scene.session.put(tank_object(1, fills=8))
    ((key, changed),) = scene.published()
    middle = "shop.tank" if revision is Revision.DESIGN_NOTES else "tank"
    front = f"{BROKER}." if revision is Revision.MARCH_2008 else ""
    assert key == f"mgmt.{front}inst.{middle}"
    assert changed == StatisticContent(0, scene.key, START, START, 0, ONE, None, (8, 50.0, "hi"))


@REVISIONS
def test_configuration_is_published_only_if_it_has_changed(revision: Revision) -> None:
    scene = started(revision)
    scene.session.put(tank_object(1, size=101))
    ((key, changed),) = scene.published()
    assert ".config." in key
    assert isinstance(changed, PropertyContent)
    assert changed.properties == ("t1", ObjectId(0, 0), 101)
    scene.session.put(tank_object(1, size=101))
    assert scene.published() == []


@RECEIVED
def test_a_schema_is_published_with_the_first_object_of_its_class(revision: Revision) -> None:
    scene = Scene(revision)
    scene.session.start(scene.now)
    assert scene.published() == []
    scene.session.put(tank_object(1))
    assert [type(message) for _, message in scene.published()] == [
        ClassDescription,
        PropertyContent,
        StatisticContent,
    ]
    scene.session.put(tank_object(2))
    assert [type(message) for _, message in scene.published()] == [PropertyContent, StatisticContent]


@REVISIONS
def test_an_end_is_reported_with_its_time(revision: Revision) -> None:
    scene = started(revision)
    assert scene.session.delete(1, START + 5)
    assert not scene.session.delete(1, START + 5)
    ((_, ended),) = scene.published()
    assert isinstance(ended, PropertyContent)
    assert (ended.deleted, ended.object_id) == (START + 5, ONE)
    assert 1 not in scene.session.objects
    assert len(scene.session.objects) == 0


def test_what_came_and_went_within_an_interval_is_reported_with_its_statistics() -> None:
    scene = started(Revision.JANUARY_2008)
    scene.session.put(tank_object(2))
    scene.session.delete(2, START + 5)
    reported = [message for _, message in scene.published()]
    assert [(type(one), one.deleted) for one in reported if isinstance(one, Content)] == [
        (PropertyContent, START + 5),
        (StatisticContent, START + 5),
    ]


@RECEIVED
def test_a_queue_that_is_bound_receives_everything_at_the_next_interval(revision: Revision) -> None:
    scene = started(revision)
    assert scene.session.console_bound(scene.now) == [WakeAt(scene.now + 10 * SECOND)]
    assert [type(message) for _, message in scene.published()] == [
        ClassDescription,
        PropertyContent,
        StatisticContent,
    ]


def test_later_agents_take_no_notice_of_bindings() -> None:
    scene = started(Revision.FEBRUARY_2008)
    scene.session.console_bound(scene.now)
    assert scene.published() == []


@REVISIONS
def test_everything_is_reported_at_times_where_that_is_wanted(revision: Revision) -> None:
    scene = started(revision, {"republish_interval": 30 * SECOND})
    assert [len(scene.published()) > 0 for _ in range(6)] == [False, False, True, False, False, True]


def test_nothing_is_published_or_answered_before_the_start_and_while_suspended() -> None:
    scene = Scene(Revision.FEBRUARY_2008)
    key = ClassKey("shop", "tank.leak")
    for _ in range(2):
        assert scene.session.handle(TimerExpired(), scene.now) == []
        assert scene.session.flush(scene.now) == []
        assert scene.session.console_bound(scene.now) == []
        (note,) = scene.asks(AgentHello())
        assert isinstance(note, Note)
        assert note.event == "not-ready"
        scene.starts()
        scene.session.suspend()
    written = Scene(Revision.DESIGN_NOTES, {"events": True})
    assert written.session.raise_event(key, START, Severity.INFO, (1,)) == []


def test_nothing_is_published_before_its_time() -> None:
    scene = Scene(Revision.JANUARY_2008)
    scene.starts()
    assert scene.session.handle(TimerExpired(), START + 1) == [WakeAt(START + 10 * SECOND)]


def test_an_event_travels_under_its_class_and_severity() -> None:
    scene = started(Revision.DESIGN_NOTES, {"events": True})
    key = ClassKey("shop", "tank.leak")
    ((routing_key, _),) = scene.messages(scene.session.raise_event(key, START, Severity.MAJOR, (12,)))
    assert routing_key == "mgmt.event.shop.tank.error"


@pytest.mark.parametrize(
    ("revision", "events", "name"),
    [
        (Revision.DESIGN_NOTES, False, "tank.leak"),
        (Revision.FEBRUARY_2008, True, "tank.leak"),
        (Revision.DESIGN_NOTES, True, "tank.fire"),
        (Revision.DESIGN_NOTES, True, "ship.leak"),
    ],
)
def test_an_event_that_cannot_be_reported_is_a_mistake(
    revision: Revision, name: str, *, events: bool
) -> None:
    scene = started(revision, {"events": events})
    with pytest.raises(LocalProtocolError):
        scene.session.raise_event(ClassKey("shop", name), START, Severity.MAJOR, (12,))


# What is refused.


@pytest.mark.parametrize(
    ("delivery", "note"),
    [
        ({"user": "guest"}, "refused-sender"),
        ({"reply_to": ""}, "protocol-error"),
        ({"body": b"AM01P"}, "protocol-error"),
        ({"body": b"x" * (MAX_BODY + 1)}, "protocol-error"),
        ({"body": write(AttachRequest(0, "label", 1), Revision.FEBRUARY_2008)}, "unserved-message"),
    ],
)
def test_what_is_not_answered_leaves_a_note(delivery: dict[str, object], note: str) -> None:
    scene = started(Revision.FEBRUARY_2008)
    body = write(PackageQuery(0), Revision.FEBRUARY_2008)
    (effect,) = scene.asks_octets(**{"body": body, **delivery})  # type: ignore[arg-type]  # its arguments
    assert isinstance(effect, Note)
    assert effect.event == note


# The program's mistakes.


@REVISIONS
def test_what_does_not_fit_a_class_is_a_mistake_and_changes_nothing(revision: Revision) -> None:
    scene = started(revision)
    mistakes = [
        replace(tank_object(2), key=ClassKey("shop", "ship")),
        replace(tank_object(2), properties=("t2",)),
        replace(tank_object(2), statistics=(1, 2.0, "x" * MAX_BODY)),
        replace(tank_object(2), statistics=(1, 2.0, "x" * (MAX_BODY - 60))),  # not with its properties
        replace(tank_object(2), number=-1),
    ]
    for mistake in mistakes:
        with pytest.raises(LocalProtocolError):
            scene.session.put(mistake)
    assert list(scene.session.objects) == [1]
    assert scene.published() == []


def test_an_object_does_not_change_its_class() -> None:
    ship = ClassSchema(ClassKey("shop", "ship"), (Element("ready", ValueType.BOOL),))
    session = Am01AgentSession(Am01AgentConfig(Revision.FEBRUARY_2008), [tank(), ship])
    session.put(tank_object(1))
    with pytest.raises(LocalProtocolError, match="another class"):
        session.put(ManagedObject(ship.key, 1, START, (True,), (), START))


@REVISIONS
def test_a_class_is_served_once(revision: Revision) -> None:
    other = replace(tank(), key=ClassKey("dock", "tank"))
    config = Am01AgentConfig(revision)
    with pytest.raises(LocalProtocolError, match="given twice"):
        Am01AgentSession(config, [tank(), tank()])
    if revision in BROADCASTING:
        with pytest.raises(LocalProtocolError, match="given twice"):
            Am01AgentSession(config, [tank(), other])
    else:
        Am01AgentSession(config, [tank(), other])


def test_bindings_are_what_consoles_ask_under() -> None:
    keys = {one: [each.routing_key for each in Scene(one).session.bindings()] for one in Revision}
    asked = ["agent", "agent.method.#"]
    assert keys == {one: asked if one in ASKED else ["method.#"] for one in Revision}
