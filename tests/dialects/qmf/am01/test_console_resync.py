"""How a console finds out what an agent before AM2 speaks and has, and keeps it current."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.effects import Rebind
from gateway.dialects.qmf.am01.forms import AM01
from gateway.dialects.qmf.am01.messages import (
    AgentHello,
    AgentIdentity,
    ClassDescription,
    Message,
    MethodRequest,
)
from gateway.dialects.qmf.am01.revisions import ALL, Revision
from gateway.dialects.qmf.console_states import State
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    EventIndication,
    GetQuery,
    MethodResponse,
    PackageIndication,
    PackageQuery,
    SchemaRequest,
)
from gateway.dialects.qmf.object_id import NULL, ObjectId
from gateway.model.events import Severity
from gateway.model.observations import (
    AgentLost,
    ClassLearned,
    EventLearned,
    EventSeen,
    Gap,
    HeartbeatSeen,
    ObjectSeen,
    RecordLost,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import Reference, ValueType
from tests.dialects.qmf.am01.between import QUEUE, SECOND, START
from tests.dialects.qmf.am01.examples import KEY, OBJECT_ID, PROPERTY_OCTETS, TIMES_AND_ID
from tests.dialects.qmf.am01.playbook import BROKER, NEXT_BROKER, Play

CONNECTING = SourceStateSeen(SourceState.CONNECTING, "greeting agents on exchange qpid.management")
SYNCHRONISING = SourceStateSeen(SourceState.SYNCHRONISING)
SYNCHRONISED = SourceStateSeen(SourceState.SYNCHRONISED)
REVISIONS = pytest.mark.parametrize("revision", list(Revision), ids=lambda one: one.value)
HEARD = (Revision.DESIGN_NOTES, Revision.NOVEMBER_2007, Revision.JANUARY_2008)


def synchronised(revision: Revision, settings: dict[str, object] | None = None) -> Play:
    play = Play(revision, settings)
    play.synchronised()
    return play


# Finding out.


def test_both_greetings_are_sent_while_nobody_knows_what_is_spoken() -> None:
    play = Play(Revision.FEBRUARY_2008, known=False)
    play.connects()
    play.leaves(CONNECTING, ("agent", AgentHello()), ("agent", BrokerRequest(1)))
    assert play.session.revisions == ALL


def test_nothing_is_sent_to_who_can_only_be_heard() -> None:
    play = Play(Revision.JANUARY_2008)
    play.connects()
    play.leaves(CONNECTING)


NOBODY_HEARD = (
    "no agent was heard on exchange qpid.management for 10 s: is one running there, and does it hear that a "
    "queue is bound?"
)
NOBODY_ANSWERED = (
    "no answer to the greeting on exchange qpid.management for 10 s: is an agent running there, and what "
    "does it speak?"
)


@pytest.mark.parametrize(
    ("revision", "text"),
    [(Revision.JANUARY_2008, NOBODY_HEARD), (Revision.FEBRUARY_2008, NOBODY_ANSWERED)],
)
def test_that_nobody_speaks_is_said(revision: Revision, text: str) -> None:
    play = Play(revision)
    play.connects()
    play.left()
    play.time_passes(11)
    assert SourceStateSeen(SourceState.DOWN, text) in play.left()


def test_what_is_found_out_holds_until_the_link_ends() -> None:
    play = Play(Revision.FEBRUARY_2008, known=False)
    play.synchronised()
    assert play.session.revisions == {Revision.FEBRUARY_2008}
    play.arrives_octets(b"AM1b" + bytes(4) + bytes(16))
    assert play.notes() == ["protocol-error"]
    play.disconnects()
    play.connects()
    assert play.session.revisions == ALL


def test_what_cannot_be_read_whole_finds_nothing_out() -> None:
    play = Play(Revision.FEBRUARY_2008, known=False)
    play.connects()
    play.left()
    play.arrives_octets(b"AM01CC\x04tank" + TIMES_AND_ID, "mgmt.config.tank")
    play.arrives_octets(b"AM01??", QUEUE)
    assert play.session.revisions == ALL
    assert play.session.state is State.GREETING
    play.leaves()


@pytest.mark.parametrize(
    ("answer", "spoken"),
    [
        (b"AM01R\0\0\0\0\0\0\0\0\x01\x0dUnknownObject", Revision.JANUARY_2008),
        (b"\0\0\0\0\0\0\0\x01\x0dUnknownObject", Revision.NOVEMBER_2007),
    ],
)
def test_the_form_of_calls_is_found_out_by_one_that_does_nothing(answer: bytes, spoken: Revision) -> None:
    play = Play(Revision.JANUARY_2008, known=False)
    play.connects()
    play.left()
    play.publishes(play.described())
    probes = [step for step in play.left() if isinstance(step, tuple)]
    bare = MethodRequest(0, NULL, ClassKey("shop", "tank"), "probe", b"", QUEUE)
    assert probes == [
        ("method.shop.tank.probe", bare),
        ("method.shop.tank.probe", replace(bare, reply_queue="")),
    ]
    play.publishes(play.described())
    play.leaves()
    play.arrives_octets(answer)
    play.leaves(HeartbeatSeen("1.0", 0))
    assert play.session.revisions == {spoken}


# Reading everything.


@pytest.mark.parametrize("revision", HEARD, ids=lambda one: one.value)
def test_who_can_only_be_heard_tells_everything_to_who_binds(revision: Revision) -> None:
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


def test_packages_that_nobody_answers_for_make_a_resync_incomplete() -> None:
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


def test_a_schema_that_nobody_answers_for_makes_a_resync_incomplete() -> None:
    play = Play(Revision.FEBRUARY_2008)
    play.listed()
    for _ in range(4):
        play.time_passes(20)
        play.arrives(AgentIdentity("Broker ID"))
    steps = play.left()
    assert "no-answer" in steps
    assert ResyncEnded(complete=False) in steps


def test_an_agent_that_told_no_object_did_not_tell_everything() -> None:
    play = Play(Revision.FEBRUARY_2008)
    play.listed()
    play.arrives(play.described())
    play.left()
    play.time_passes(12)
    reason = "resync incomplete: the agent told no object; next attempt in 5 s"
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


def test_who_never_falls_silent_is_heard_out_in_the_end() -> None:
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
    play.take(play.session.resync("a test", play.now))
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


@pytest.mark.parametrize(
    ("described", "detail"),
    [
        ([], "0 of 3 classes were described again"),
        (["new"], "0 of 3 classes were described again"),
        (["tank", "new"], "1 of 3 classes were described again"),
        (["tank", "ship"], ""),
    ],
)
def test_who_hears_of_no_binding_is_not_taken_to_have_told_everything(
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


# Doubt.


@pytest.mark.parametrize("revision", HEARD, ids=lambda one: one.value)
def test_who_cannot_be_asked_is_heard_anew_by_another_binding(revision: Revision) -> None:
    play = synchronised(revision)
    play.take(play.session.resync("messages were lost", play.now))
    play.leaves("resync", Rebind("messages were lost"))


def test_a_link_that_ends_for_that_is_no_trouble_unless_it_does_not_come_back() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.take(play.session.resync("messages were lost", play.now))
    play.left()
    play.disconnects()
    bound_anew = SourceStateSeen(SourceState.SYNCHRONISING, "the queue is bound anew: messages were lost")
    play.leaves(bound_anew)
    play.connects()
    assert not any(isinstance(one, SourceStateSeen) for one in play.left())
    play.disconnects()
    play.leaves(SourceStateSeen(SourceState.DOWN, "connection reset"))
    play.connects()
    play.publishes(play.described())
    play.take(play.session.resync("messages were lost", play.now))
    play.disconnects()
    assert bound_anew in play.left()
    play.disconnects()
    play.leaves(SourceStateSeen(SourceState.DOWN, "connection reset"))


def test_a_link_that_does_not_end_for_that_is_heard_on() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.take(play.session.resync("messages were lost", play.now))
    play.left()
    play.time_passes(11)
    assert SourceStateSeen(SourceState.DOWN, NOBODY_HEARD) in play.left()


def test_what_was_lost_with_the_queue_is_a_gap() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.take(play.session.resync("the queue overflowed", play.now, play.now - SECOND))
    assert Gap(play.now - SECOND, play.now, "the queue overflowed") in play.left()


def test_an_agent_that_is_silent_is_lost_and_heard_again() -> None:
    play = synchronised(Revision.FEBRUARY_2008)
    heard = play.now
    play.time_passes(31)
    steps = play.left()
    assert steps.count(("agent", AgentHello())) >= 2
    assert any(isinstance(one, AgentLost) for one in steps)
    play.publishes(play.config())
    assert any(isinstance(one, Gap) and one.start <= heard for one in play.left())


def test_a_probe_that_is_answered_keeps_an_idle_agent_fresh() -> None:
    play = synchronised(Revision.MARCH_2008)
    play.time_passes(10)
    play.leaves(("agent", BrokerRequest(0)))
    play.arrives(BrokerResponse(0, BROKER))
    play.leaves(HeartbeatSeen("1.0", 0))


def test_nobody_is_probed_of_whose_classes_nothing_is_known() -> None:
    play = Play(Revision.JANUARY_2008)
    play.connects()
    play.arrives(MethodResponse(77, 0, "OK"))
    play.left()
    play.time_passes(11)
    assert not any(isinstance(step, tuple) for step in play.left())


def answered_for(play: Play, seconds: int, answer: Message) -> None:
    """Time passes, and each probe is answered."""
    for _ in range(seconds // 10):
        play.time_passes(10)
        play.arrives(answer)


def test_who_can_be_asked_is_read_anew_when_nothing_was_published_for_long() -> None:
    play = synchronised(Revision.MARCH_2008)
    answered_for(play, 290, BrokerResponse(0, BROKER))
    assert "resync" not in play.left()
    play.time_passes(10)
    assert play.left()[0] == "resync"
    assert play.read(play.sent[-1]) == BrokerRequest(6)


def test_who_must_publish_everything_at_times_is_doubted_when_it_does_not() -> None:
    play = Play(Revision.JANUARY_2008, {"republish_interval": 20 * SECOND})
    play.connects()
    play.publishes(play.described(), play.config(), play.inst())
    answered_for(play, 20, MethodResponse(0, 1, "UnknownObject"))
    play.time_passes(2)
    assert play.session.state is State.SYNCHRONISED
    answered_for(play, 90, MethodResponse(0, 1, "UnknownObject"))
    assert "resync incomplete: the agent told no object; next attempt in 5 s" in [
        one.detail for one in play.left() if isinstance(one, SourceStateSeen)
    ]


def test_an_idle_agent_that_can_only_be_heard_is_not_made_to_tell_everything() -> None:
    play = synchronised(Revision.JANUARY_2008)
    answered_for(play, 3_600, MethodResponse(0, 1, "UnknownObject"))
    assert not any(isinstance(one, Rebind) for one in play.left())
    assert play.session.state is State.SYNCHRONISED


def test_another_broker_in_the_answer_to_a_probe_is_a_restart() -> None:
    play = synchronised(Revision.MARCH_2008)
    play.time_passes(10)
    play.arrives(BrokerResponse(0, NEXT_BROKER))
    assert ("agent", BrokerRequest(6)) in play.left()
    play.arrives(BrokerResponse(6, NEXT_BROKER), CommandComplete(7))
    assert ResyncBegan(restarted=True) in play.left()


@pytest.mark.parametrize(
    ("number", "restarted"), [(START + 5, False), (START + 60 * SECOND, True), (5, False)]
)
def test_objects_numbered_from_another_time_on_are_of_another_start(number: int, *, restarted: bool) -> None:
    play = Play(Revision.MARCH_2008)
    play.listed()
    play.arrives(play.got(5, ObjectId(0, START)), CommandComplete(5))
    play.left()
    play.publishes(play.config(object_id=ObjectId(0, number)))
    assert (ResyncBegan(restarted=True) in play.left()) is restarted


def test_an_agent_started_anew_while_everything_is_read_is_read_on() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.publishes(play.config(object_id=ObjectId(0, START)))
    play.take(play.session.disconnected("the broker ended", play.now))
    play.connects()
    play.left()
    play.publishes(play.described(), play.config(object_id=ObjectId(0, START + 60 * SECOND)))
    steps = play.left()
    assert steps.count(ResyncBegan(restarted=True)) == 1
    assert not any(isinstance(one, Rebind) for one in steps)
    play.time_passes(12)
    assert ResyncEnded(complete=True) in play.left()


def test_an_agent_started_anew_before_it_is_greeted() -> None:
    play = synchronised(Revision.FEBRUARY_2008)
    play.publishes(play.config(object_id=ObjectId(0, START)))
    play.disconnects()
    play.connects()
    play.left()
    play.publishes(play.config(object_id=ObjectId(0, START + 60 * SECOND)))
    assert ResyncBegan(restarted=True) in play.left()


# Objects and events.


def test_the_end_of_an_object_waits_for_its_last_statistics() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.publishes(play.config(deleted=START + 9))
    play.leaves()
    play.publishes(play.inst(deleted=START + 9))
    (seen,) = play.left()
    assert isinstance(seen, ObjectSeen)
    assert (seen.deleted, seen.properties is None, seen.statistics) == (START + 9, False, (7, 50.0, "hi"))


def test_the_end_of_an_object_does_not_wait_long() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.publishes(play.config(deleted=START + 9))
    play.leaves()
    play.time_passes(1)
    (seen,) = play.left()
    assert isinstance(seen, ObjectSeen)
    assert seen.statistics is None


def test_the_end_of_an_object_is_told_before_whatever_else_comes() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.publishes(play.config(deleted=START + 9), play.config(object_id=ObjectId(0, 5)))
    ended, other = play.left()
    assert isinstance(ended, ObjectSeen)
    assert isinstance(other, ObjectSeen)
    assert (ended.native_id, other.native_id) == (str(OBJECT_ID), "0-0-0-0-5")


def test_the_end_of_an_object_is_told_when_the_link_ends() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.publishes(play.config(deleted=START + 9), play.config(deleted=START + 9, object_id=ObjectId(0, 5)))
    play.disconnects()
    assert len([one for one in play.left() if isinstance(one, ObjectSeen)]) == 2


def test_what_is_told_of_a_class_that_nobody_has_described_is_lost_if_it_is_an_end() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.arrives_octets(b"AM01CC\x04ship" + TIMES_AND_ID + b"\x01", "mgmt.config.ship")
    play.leaves()
    ended = TIMES_AND_ID[:16] + b"\0\0\0\0\0\0\0\x01" + TIMES_AND_ID[24:]
    play.arrives_octets(b"AM01CC\x04ship" + ended + b"\x01", "mgmt.config.ship")
    play.leaves(RecordLost(ClassKey("shop", "ship"), "1.0"))


def test_a_class_that_comes_up_is_asked_for() -> None:
    play = synchronised(Revision.FEBRUARY_2008)
    octets = b"\x04shop\x04ship" + b"S" * 16
    play.arrives_octets(b"AM01CC" + octets + TIMES_AND_ID + b"\x01", "mgmt.config.ship")
    play.leaves(("agent", SchemaRequest(0, ClassKey("shop", "ship", b"S" * 16))))
    ship = ClassSchema(ClassKey("shop", "ship", b"S" * 16), (Element("ready", ValueType.BOOL),))
    play.arrives(ClassDescription(0, ClassDefinition.of(ship, AM01)))
    (learnt,) = play.left()
    assert isinstance(learnt, ClassLearned)
    play.arrives_octets(b"AM01CC" + octets + TIMES_AND_ID + b"\x01", "mgmt.config.ship")
    (seen,) = play.left()
    assert isinstance(seen, ObjectSeen)
    assert seen.properties == (True,)


def test_a_class_whose_schema_changes_is_learnt_anew() -> None:
    play = synchronised(Revision.JANUARY_2008)
    before = play.class_key
    other = ClassSchema(ClassKey("", "tank"), (Element("name", ValueType.STRING, max_length=255),))
    play.publishes(ClassDescription(0, ClassDefinition.of(other, AM01)))
    assert play.class_key.hash != before.hash
    octets = PROPERTY_OCTETS[:3]
    play.arrives_octets(b"AM01CC\x04tank" + TIMES_AND_ID + octets, "mgmt.config.tank")
    seen = play.left()[-1]
    assert isinstance(seen, ObjectSeen)
    assert (seen.key, seen.properties) == (play.class_key, ("t1",))


def test_more_classes_than_are_kept_are_said_once_and_left_out() -> None:
    play = Play(Revision.JANUARY_2008, {"class_limit": 1})
    play.connects()
    play.left()
    one = ClassSchema(ClassKey("", "ship"), (Element("ready", ValueType.BOOL),))
    play.publishes(ClassDescription(0, ClassDefinition.of(one, AM01)))
    play.left()
    play.publishes(play.described())
    play.publishes(play.described())
    assert play.notes() == ["too-many-classes"]


def test_classes_that_nobody_asked_about_change_nothing() -> None:
    play = synchronised(Revision.FEBRUARY_2008)
    ship = ClassSchema(ClassKey("shop", "ship", b"S" * 16), (Element("ready", ValueType.BOOL),))
    play.arrives(ClassDescription(0, ClassDefinition.of(ship, AM01)))
    play.arrives(ClassIndication(0, ClassKind.OBJECT, KEY), PackageIndication(0, "shop"))
    assert not any(isinstance(one, ClassLearned) for one in play.left())


def test_a_package_that_is_announced_is_a_reason_to_list_anew() -> None:
    play = synchronised(Revision.FEBRUARY_2008)
    play.arrives(PackageIndication(0, "dock"), key="mgmt.schema.package")
    assert ("agent", AgentHello()) in play.left()


def test_messages_that_only_agents_are_sent_change_nothing() -> None:
    play = synchronised(Revision.MARCH_2008)
    play.arrives(PackageQuery(9), MethodResponse(77, 0, "OK"))
    play.leaves()


def test_an_event_is_told_with_the_severity_of_its_key() -> None:
    play = synchronised(Revision.DESIGN_NOTES, {"events": True})
    key = ClassKey("shop", "tank.leak", KEY.hash)
    play.arrives(EventIndication(0, key, START + 1, 3, (12,)), key="mgmt.event.shop.tank.error")
    play.leaves(EventSeen(key, "1.0", START + 1, Severity.MAJOR, (12,)))


def test_an_event_is_no_message_of_who_is_not_configured_for_it() -> None:
    play = synchronised(Revision.DESIGN_NOTES)
    key = ClassKey("shop", "tank.leak", KEY.hash)
    play.arrives(EventIndication(0, key, START + 1, 3, (12,)), key="mgmt.event.shop.tank.error")
    play.leaves()


def test_an_event_of_a_class_that_nobody_has_described_is_lost() -> None:
    play = Play(Revision.DESIGN_NOTES, {"events": True})
    play.connects()
    play.left()
    key = ClassKey("shop", "tank.leak", KEY.hash)
    play.arrives(EventIndication(0, key, START + 1, 3, (12,)), key="mgmt.event.shop.tank.error")
    play.leaves(RecordLost(key, "1.0"))


def test_events_come_with_a_class_that_is_asked_for() -> None:
    play = Play(Revision.MARCH_2008)
    play.listed()
    assert [one.schema.key.name for one in play.told if isinstance(one, EventLearned)] == ["tank.leak"]


def test_an_object_known_by_its_statistics_only_is_not_made_up() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.publishes(play.inst(object_id=ObjectId(0, 5)))
    (seen,) = play.left()
    assert isinstance(seen, ObjectSeen)
    assert seen.properties is None


@REVISIONS
def test_nothing_that_arrives_without_a_link_is_heard(revision: Revision) -> None:
    play = synchronised(revision)
    play.disconnects()
    play.left()
    play.publishes(play.config())
    play.leaves()
