"""The resync of a console with an agent before AM2."""

from __future__ import annotations

import pytest

from gateway.dialects.qmf.am01.forms import AM01
from gateway.dialects.qmf.am01.messages import AgentHello, AgentIdentity, ClassDescription, Revision
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    GetQuery,
    PackageIndication,
    PackageQuery,
    SchemaRequest,
)
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import LossSuspected
from gateway.model.observations import (
    ClassLearned,
    EventLearned,
    HeartbeatSeen,
    ObjectSeen,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.times import SECOND
from gateway.model.values import Reference, ValueType
from tests.dialects.qmf.am01.examples import KEY, OBJECT_ID
from tests.dialects.qmf.am01.playbook import BROKER, RECEIVED, Play, synchronised
from tests.dialects.qmf.playbook import START

CONNECTING = SourceStateSeen(SourceState.CONNECTING, "greeting agents on exchange qpid.management")
SYNCHRONISING = SourceStateSeen(SourceState.SYNCHRONISING)
SYNCHRONISED = SourceStateSeen(SourceState.SYNCHRONISED)


@pytest.mark.parametrize("revision", RECEIVED, ids=lambda one: one.value)
def test_an_agent_that_takes_no_requests_reports_everything_to_a_new_binding(revision: Revision) -> None:
    play = Play(revision)
    play.connects()
    play.left()
    play.publishes(play.described(), play.config(), play.inst())
    steps = play.left()
    assert steps[:2] == [SYNCHRONISING, ResyncBegan()]
    learnt, event = steps[2:4]
    assert isinstance(learnt, ClassLearned)
    assert isinstance(event, EventLearned)
    assert (event.schema.key.package, event.schema.key.name) == ("shop", "tank.leak")
    native_id = str(OBJECT_ID)
    values = ("t1", Reference("0-0-0-0-9"), 100)
    play_key = play.class_key
    assert [one for one in steps if isinstance(one, ObjectSeen)] == [
        ObjectSeen(play_key, "1.0", native_id, START, START, 0, values, None),
        ObjectSeen(play_key, "1.0", native_id, START, START, 0, None, (7, 50.0, "hi")),
    ]
    play.time_passes(11)
    assert ResyncEnded(complete=True) not in play.left()
    play.time_passes(1)
    assert play.left()[:2] == [ResyncEnded(complete=True), SYNCHRONISED]


def test_february_2008_is_asked_for_packages_classes_and_schemas_and_publishes_behind_them() -> None:
    play = Play(Revision.FEBRUARY_2008)
    play.connects()
    play.leaves(CONNECTING, ("agent", AgentHello()))
    play.arrives(AgentIdentity("Broker ID"))
    play.leaves(SYNCHRONISING, ("agent", PackageQuery(0)))
    play.arrives(PackageIndication(0, "shop"))
    play.leaves(("agent", ClassQuery(0, "shop")))
    play.arrives(ClassIndication(0, ClassKind.OBJECT, KEY))
    play.leaves(("agent", SchemaRequest(0, KEY)))
    play.arrives(play.described())
    assert [type(one) for one in play.left()] == [ClassLearned, EventLearned]
    play.time_passes(1.9)
    play.leaves()
    play.time_passes(0.1)
    play.leaves(ResyncBegan(), ("agent", SchemaRequest(0, KEY)))
    play.arrives(play.described())
    play.publishes(play.config(), play.inst())
    play.left()
    play.time_passes(12)
    assert [one for one in play.left() if not isinstance(one, tuple)] == [
        ResyncEnded(complete=True),
        SYNCHRONISED,
    ]


def test_march_2008_is_asked_as_am2_is() -> None:
    play = Play(Revision.MARCH_2008)
    play.connects()
    play.leaves(CONNECTING, ("agent", BrokerRequest(1)))
    play.arrives(BrokerResponse(1, BROKER))
    play.leaves(SYNCHRONISING, ("agent", PackageQuery(2)))
    play.arrives(PackageIndication(2, "shop"), CommandComplete(2))
    play.leaves(("agent", ClassQuery(3, "shop")))
    play.arrives(ClassIndication(3, ClassKind.OBJECT, KEY), CommandComplete(3))
    play.leaves(("agent", SchemaRequest(4, KEY)))
    play.arrives(play.described(4))
    play.left()
    assert play.read(play.sent[-1]) == GetQuery(5, {"_class": "tank"})
    play.arrives(play.got(5), CommandComplete(5))
    assert play.left()[1:3] == [ResyncEnded(complete=True), SYNCHRONISED]


def test_a_package_without_classes_is_no_shortcoming() -> None:
    play = Play(Revision.FEBRUARY_2008)
    play.connects()
    play.arrives(AgentIdentity("Broker ID"), PackageIndication(0, "empty"), PackageIndication(0, "shop"))
    play.arrives(ClassIndication(0, ClassKind.OBJECT, KEY), play.described())
    play.left()
    for _ in range(3):
        play.time_passes(20)
        play.arrives(AgentIdentity("Broker ID"))
    assert "no-classes" in play.left()
    assert play.session.state is State.FETCHING
    play.arrives(play.described())
    play.publishes(play.config(), play.inst())
    play.time_passes(12)
    assert play.session.state.value == "synchronised"


def test_a_package_that_comes_late_is_listed_all_the_same() -> None:
    play = Play(Revision.FEBRUARY_2008)
    play.listed()
    assert play.session.state is State.FETCHING
    play.arrives(PackageIndication(0, "dock"))
    play.leaves(("agent", ClassQuery(0, "dock")))


def test_an_agent_without_classes_has_no_objects() -> None:
    play = Play(Revision.FEBRUARY_2008)
    play.connects()
    play.arrives(AgentIdentity("Broker ID"), PackageIndication(0, "empty"))
    play.left()
    play.time_passes(61)
    steps = play.left()
    assert ResyncEnded(complete=True) in steps
    assert play.session.state is State.SYNCHRONISED


def test_packages_without_an_answer_make_a_resync_incomplete() -> None:
    play = Play(Revision.FEBRUARY_2008)
    play.connects()
    play.arrives(AgentIdentity("Broker ID"))
    play.time_passes(29)
    play.arrives(AgentIdentity("Broker ID"))
    play.time_passes(29)
    play.arrives(AgentIdentity("Broker ID"))
    play.left()
    play.time_passes(3)
    steps = play.left()
    assert "no-answer" in steps
    assert ResyncEnded(complete=False) in steps


def test_a_schema_without_an_answer_makes_a_resync_incomplete() -> None:
    play = Play(Revision.FEBRUARY_2008)
    play.listed()
    for _ in range(4):
        play.time_passes(20)
        play.arrives(AgentIdentity("Broker ID"))
    steps = play.left()
    assert "no-answer" in steps
    assert ResyncEnded(complete=False) in steps


def test_an_agent_that_reported_no_object_did_not_report_everything() -> None:
    play = Play(Revision.FEBRUARY_2008)
    play.listed()
    play.arrives(play.described())
    play.left()
    play.time_passes(12)
    reason = "resync incomplete: the agent published no object; next attempt in 5 s"
    assert [one for one in play.left() if not isinstance(one, tuple | HeartbeatSeen)] == [
        ResyncEnded(complete=False),
        SourceStateSeen(SourceState.DEGRADED, reason),
    ]


def test_a_publication_that_takes_longer_than_an_answer_may_is_waited_for() -> None:
    play = Play(Revision.FEBRUARY_2008, {"republish_interval": 120 * SECOND})
    play.listed()
    play.arrives(play.described())
    for _ in range(11):
        play.publishes(play.config(), play.inst())
        play.time_passes(10)
    assert play.session.state is State.FETCHING
    play.time_passes(13)
    assert play.session.state.value == "synchronised"


def test_an_agent_that_never_falls_silent_is_complete_in_the_end() -> None:
    play = Play(Revision.JANUARY_2008)
    play.connects()
    play.publishes(play.described())
    for _ in range(36):
        play.publishes(play.config(), play.inst())
        play.time_passes(1)
    assert play.session.state is State.SYNCHRONISED


def test_what_was_known_before_must_be_missing_twice() -> None:
    """Silence in the middle of a publication looks like its end."""
    play = synchronised(Revision.FEBRUARY_2008)
    play.take(play.session.handle(LossSuspected("a test"), play.now))
    play.arrives(AgentIdentity("Broker ID"), PackageIndication(0, "shop"))
    play.arrives(ClassIndication(0, ClassKind.OBJECT, KEY))
    play.left()
    play.time_passes(2)
    play.leaves(ResyncBegan(), ("agent", SchemaRequest(0, KEY)))
    play.arrives(play.described())
    play.publishes(play.config(object_id=ObjectId(0, 5)))
    play.left()
    play.time_passes(12)
    assert ("agent", SchemaRequest(0, KEY)) in play.left()
    play.arrives(play.described())
    play.publishes(play.config(), play.inst())
    play.left()
    play.time_passes(12)
    assert ResyncEnded(complete=True) in play.left()


def test_what_a_console_of_before_knew_must_be_missing_twice() -> None:
    play = Play(Revision.FEBRUARY_2008, {"read_before": True})
    play.connects()
    play.arrives(AgentIdentity("Broker ID"), PackageIndication(0, "shop"))
    play.time_passes(2)
    play.arrives(ClassIndication(0, ClassKind.OBJECT, KEY))
    play.arrives(play.described())
    play.time_passes(2)
    play.left()
    for expected in (("agent", SchemaRequest(0, KEY)), ResyncEnded(complete=True)):
        play.arrives(play.described())
        play.publishes(play.config(), play.inst())
        play.left()
        play.time_passes(12)
        assert expected in play.left()


@pytest.mark.parametrize(
    ("described", "detail"),
    [
        ([], "0 of 3 classes were described again"),
        (["new"], "0 of 3 classes were described again"),
        (["tank", "new"], "1 of 3 classes were described again"),
        (["tank", "ship"], ""),
    ],
)
def test_an_agent_that_learns_of_no_binding_is_not_taken_to_have_reported_everything(
    described: list[str], detail: str
) -> None:
    def schema(name: str) -> ClassDescription:
        if name == "tank":
            return play.described()
        other = ClassSchema(ClassKey("", name), (Element("ready", ValueType.BOOL),))
        return ClassDescription(0, ClassDefinition.of(other, AM01))

    play = Play(Revision.JANUARY_2008)
    play.connects()
    play.publishes(*map(schema, ("tank", "ship", "dock")), play.config(), play.inst())
    play.time_passes(12)
    play.disconnects()
    play.connects()
    play.left()
    play.publishes(play.config(), *map(schema, described))
    play.left()
    play.time_passes(12)
    steps = play.left()
    details = [one.detail for one in steps if isinstance(one, SourceStateSeen)]
    assert any(detail in one for one in details)
    assert ResyncEnded(complete=not detail) in steps
