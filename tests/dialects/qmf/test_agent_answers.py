"""The agent session as a play: its answers, their addresses, and its refusals."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.dialects.qmf.agent_objects import MAX_BODY, MAX_OBJECTS
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    AttachRequest,
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    EventIndication,
    GetQuery,
    Heartbeat,
    MethodRequest,
    MethodResponse,
    PackageIndication,
    PackageQuery,
    PropertyContent,
    SchemaRequest,
    SchemaResponse,
)
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.qmf.typed_values import QmfValue
from gateway.dialects.session import Delivery
from gateway.model.observations import Severity
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.times import SECOND
from gateway.model.values import Reference, ValueType
from tests.dialects.qmf.agent_story import (
    HEARTBEAT,
    POND,
    PUSHED,
    TANK_ID,
    got,
    key_of,
    properties,
    started,
)
from tests.dialects.qmf.examples import LEAK, TANK
from tests.dialects.qmf.playbook import BROKER, QUEUE, START, AgentPlay, tank


def test_what_is_here() -> None:
    play = started()
    play.asks(PackageQuery(1))
    play.leaves((QUEUE, PackageIndication(1, "shop")), (QUEUE, CommandComplete(1)))
    play.asks(ClassQuery(2, "shop"))
    leak = play.session.definitions.find_event(play.session.event_key("shop", "leak"))
    assert leak is not None
    play.leaves(
        (QUEUE, ClassIndication(2, ClassKind.OBJECT, key_of(play))),
        (QUEUE, ClassIndication(2, ClassKind.EVENT, leak.key)),
        (QUEUE, CommandComplete(2)),
    )
    play.asks(ClassQuery(3, "barn"))
    play.leaves((QUEUE, CommandComplete(3)))
    play.asks(SchemaRequest(4, leak.key))
    play.leaves((QUEUE, SchemaResponse(4, leak)))


def test_a_schema_says_what_may_be_absent_and_its_key_is_the_hash_of_it() -> None:
    play = started()
    play.asks(SchemaRequest(4, key_of(play)))
    ((queue, answer),) = [step for step in play.left() if isinstance(step, tuple)]
    assert queue == QUEUE
    assert isinstance(answer, SchemaResponse)
    schema = answer.definition.schema
    assert isinstance(schema, ClassSchema)
    assert [one.name for one in schema.statistics] == ["level", "fills", "absentStatistics"]
    assert schema.key != TANK.key


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (ClassKey("barn", "tank", b"T" * 16), "Package not found"),
        (ClassKey("shop", "tank", b"?" * 16), "Class key not found"),
        (ClassKey("shop", "pond", b"?" * 16), "Class key not found"),
    ],
)
def test_schemas_that_are_not_here(key: ClassKey, text: str) -> None:
    play = started()
    play.asks(SchemaRequest(4, key))
    play.leaves((QUEUE, CommandComplete(4, 1, text)))


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ({"_class": "tank"}, 1),
        ({"_class": "tank", "_package": "shop"}, 1),
        ({"_class": "tank", "_package": ""}, 1),
        ({"_class": "tank", "_package": "barn"}, 0),
        ({"_class": "tank", "_agent": UUID(int=7)}, 1),
        ({"_class": "pond"}, 0),
        ({"_class": ""}, 0),
        ({"_class": 7, "_objectid": "0-5-1-0-4386"}, 1),
        ({"_objectid": "0-5-1-0-4386"}, 1),
        ({"_objectid": "0-5-1-0-1"}, 0),
        ({"_objectid": "0-6-1-0-4386"}, 0),
    ],
)
def test_objects_by_class_or_id(selector: dict[str, QmfValue], found: int) -> None:
    play = started(tank())
    play.asks(GetQuery(5, selector), key="agent.1.0")
    play.leaves(*[(QUEUE, got(play, 5))] * found, (QUEUE, CommandComplete(5)))


def test_many_objects_come_in_several_bodies_and_one_completion() -> None:
    play = started(*(tank(number, name="n" * 200) for number in range(1000)))
    play.sent.clear()
    play.asks(GetQuery(5, {"_class": "tank"}), key="agent.1.0")
    assert len(play.left()) == 1001
    assert len(play.sent) == 1000 // MAX_OBJECTS + 1
    assert all(len(send.body) <= MAX_BODY and send.exchange == "amq.direct" for send in play.sent)


@pytest.mark.parametrize(
    "selector",
    [{}, {"_class": 7}, {"_objectid": "nonsense"}, {"_objectid": "\U0001f4a7" * 90}, {"_objectid": 7}],
)
def test_a_get_query_without_a_usable_selector_is_refused_and_not_left_waiting(
    selector: dict[str, str | int],
) -> None:
    play = started(tank())
    play.asks(GetQuery(5, selector))
    (step,) = play.left()
    assert isinstance(step, tuple)
    assert isinstance(step[1], CommandComplete)
    assert (step[1].sequence, step[1].code) == (5, 1)


def test_calls_are_refused_as_a_qpid_broker_would() -> None:
    play = started(tank(), classes=(TANK, POND))
    key = key_of(play)
    play.asks(MethodRequest(1, ObjectId.of(sequence=5, number=1), key, "drain"))
    play.leaves((QUEUE, MethodResponse(1, Status.UNKNOWN_OBJECT, "UnknownObject")))
    play.asks(MethodRequest(2, TANK_ID, key_of(play, "pond"), "drain"))
    text = "InvalidParameter: the object is of another class"
    play.leaves((QUEUE, MethodResponse(2, Status.INVALID_PARAMETER, text)))
    play.asks(MethodRequest(3, TANK_ID, key, "burn"))
    play.leaves((QUEUE, MethodResponse(3, Status.UNKNOWN_METHOD, "UnknownMethod")))


def test_several_requests_in_one_body_are_answered_in_order() -> None:
    play = started()
    play.asks(BrokerRequest(1), BrokerRequest(2), PackageQuery(3))
    play.leaves(
        (QUEUE, BrokerResponse(1, BROKER)),
        (QUEUE, BrokerResponse(2, BROKER)),
        (QUEUE, PackageIndication(3, "shop")),
        (QUEUE, CommandComplete(3)),
    )


def test_other_agents_do_not_join_here() -> None:
    play = started()
    play.asks(AttachRequest(1, "farm", BROKER, 1, 10))
    play.leaves((QUEUE, CommandComplete(1, 1, "Remote agents are not served here")))
    play.asks(PackageIndication(0, "barn"))
    play.leaves("unserved-message")


def test_announcements_are_not_for_us_not_even_our_own_that_come_back() -> None:
    play = started()
    play.asks(PackageIndication(0, "barn"), key="schema.package")
    play.asks(PackageIndication(0, "shop"), key="schema.package", user="agent")
    play.leaves()


def test_only_requests_of_configured_users_are_accepted() -> None:
    play = started()
    play.asks(BrokerRequest(1), user="guest")
    play.asks(BrokerRequest(1), user="")
    play.leaves("refused-sender", "refused-sender")


def test_no_request_is_accepted_while_senders_can_be_forged_and_the_rest_goes_on() -> None:
    play = started(tank())
    play.session.distrust("'mallory' can forge any sender")
    play.asks(BrokerRequest(1))
    play.asks(BrokerRequest(1), user="guest")
    play.leaves("distrusted-sender", "refused-sender")
    play.time_passes(10)
    play.leaves((HEARTBEAT, Heartbeat(0, play.now)))
    play.session.distrust("")
    play.asks(BrokerRequest(2))
    play.leaves((QUEUE, BrokerResponse(2, BROKER)))


def test_a_late_request_is_refused() -> None:
    play = started()
    play.asks(BrokerRequest(1), sent=play.now - 30 * SECOND)
    play.leaves((QUEUE, BrokerResponse(1, BROKER)))
    play.asks(BrokerRequest(2), sent=play.now - 32 * SECOND)
    play.leaves("late-request")


@pytest.mark.parametrize(
    "body", [b"", b"junk", b"AM1B\0\0\0\1", b"AM2Q\0\0\0\1", b"AM2B\0\0\0\1" + bytes(MAX_BODY)]
)
def test_octets_that_are_no_request_are_noted(body: bytes) -> None:
    play = started()
    play.asks_octets(body)
    assert "protocol-error" in play.notes()


def test_a_request_without_a_way_back_is_noted() -> None:
    play = started()
    play.asks_octets(b"AM2B\0\0\0\1", reply_to="")
    play.leaves("protocol-error")


@given(st.binary(max_size=60), st.sampled_from(list("BPQSGMAbzpqsciegh?")))
def test_whatever_arrives_nothing_is_raised(octets: bytes, opcode: str) -> None:
    session = AgentSession(AgentConfig(BROKER, 1, frozenset({"gateway"})), (TANK,), (LEAK,))
    session.put(tank())
    session.start(START)
    for body in (octets, b"AM2" + opcode.encode() + b"\0\0\0\1" + octets):
        session.handle(Delivery("qpid.management", "broker", body, QUEUE, "gateway"), START)


def test_an_event_leaves_at_once() -> None:
    play = started()
    play.take(play.session.raise_event(LEAK.key, START, Severity.MAJOR, ("t1", 5)))
    key = play.session.event_key("shop", "leak")
    play.leaves(("console.event.1.0.shop.leak", EventIndication(0, key, START, 3, ("t1", 5))))
    with pytest.raises(LocalProtocolError, match="barn:flood is not served"):
        play.session.raise_event(ClassKey("barn", "flood"), START, Severity.MAJOR, ())
    with pytest.raises(LocalProtocolError):
        play.session.raise_event(LEAK.key, START, Severity.MAJOR, ("t1", -5))


def test_references_are_object_ids_of_this_agent() -> None:
    play = started()
    owner = Reference(str(play.session.object_id(77)))
    play.session.put(ManagedObject(TANK.key, 1, START, ("t1", 100, None, owner), (1.0, 1), START))
    play.session.put(ManagedObject(TANK.key, 2, START, ("t2", 100, None, Reference("")), (1.0, 1), START))
    play.flushes()
    reported = [step[1] for step in play.left() if isinstance(step, tuple)]
    owners = [one.properties[3] for one in reported if isinstance(one, PropertyContent) and one.properties]
    assert owners == [ObjectId.of(sequence=5, number=77), ObjectId(0, 0)]


@pytest.mark.parametrize(
    "managed",
    [
        replace(tank(), key=ClassKey("shop", "barrel")),
        tank(name="n" * 256),
        tank(size=1 << 16),
        tank(size=None),
        tank(fills=-1),
        tank(number=1 << 64),
        tank(number=-1),
        replace(tank(), created=-1),
        replace(tank(), properties=("t1", 100, None)),
        replace(tank(), statistics=(1.0,)),
        replace(tank(), properties=("t1", 100, None, Reference("nonsense"))),
        replace(tank(0x77), key=ClassKey("shop", "pond"), properties=("p1",), statistics=()),
    ],
)
def test_what_cannot_be_reported_is_refused_and_changes_nothing(managed: ManagedObject) -> None:
    play = started(tank(0x77), classes=(TANK, POND))
    with pytest.raises(LocalProtocolError):
        play.session.put(managed)
    play.flushes()
    play.leaves()
    assert list(play.session.objects) == [0x77]


def test_an_object_that_does_not_fit_a_body_is_refused() -> None:
    long = ClassSchema(ClassKey("shop", "scroll"), (Element("text", ValueType.STRING),))
    play = started(classes=(long,))
    with pytest.raises(LocalProtocolError, match="does not fit 65536 octets"):
        play.session.put(ManagedObject(long.key, 1, START, ("x" * 65_500,), (), START))
    play.session.put(ManagedObject(long.key, 1, START, ("x" * 65_000,), (), START))
    play.session.put(ManagedObject(long.key, 2, START, ("y" * 65_000,), (), START))
    play.sent.clear()
    play.flushes()
    assert len(play.sent) == 2


def test_there_is_an_end_to_deletions_that_no_one_is_reachable() -> None:
    config = AgentConfig(BROKER, 4, frozenset(), deletion_limit=2)
    play = AgentPlay(config=config)
    play.starts()
    play.left()
    for number in (1, 2, 3):
        play.session.put(tank(number))
    play.flushes()
    play.left()
    play.session.suspend()
    for number in (1, 2, 3):
        play.session.delete(number, START + number)
    play.starts()
    play.left()
    play.flushes()
    assert len(play.left()) == 2


def test_objects_can_be_counted_and_found() -> None:
    play = started(tank(1), tank(2))
    assert len(play.session.objects) == 2
    assert 1 in play.session.objects
    assert 3 not in play.session.objects
    with pytest.raises(LocalProtocolError, match="shop:barrel is not served"):
        play.session.class_key("shop", "barrel")


@pytest.mark.parametrize(("boot", "sequence"), [(1, 2), (4094, 4095), (4095, 1), (4096, 2)])
def test_the_boot_goes_into_object_ids_and_does_not_become_zero(boot: int, sequence: int) -> None:
    session = AgentSession(AgentConfig(BROKER, boot), (TANK,))
    assert session.object_id(9) == ObjectId.of(sequence=sequence, number=9)
    assert not session.object_id(9).is_persistent


def test_ids_without_a_boot_outlive_restarts_and_say_so() -> None:
    session = AgentSession(AgentConfig(BROKER, 0), (TANK,))
    assert session.object_id(9) == ObjectId.of(sequence=0, number=9)
    assert session.object_id(9).is_persistent
    assert not ObjectId.parse("0-0-0-0-9").is_persistent, "of before AM2"


def test_a_class_is_served_once() -> None:
    with pytest.raises(LocalProtocolError, match="shop:tank is given twice"):
        AgentSession(AgentConfig(BROKER, 1), (TANK, TANK))


def test_an_end_is_reported_before_an_answer_that_lacks_the_object() -> None:
    play = started(tank())
    play.session.delete(tank().number, START + 3)
    play.asks(GetQuery(5, {"_class": "tank"}), key="agent.1.0")
    play.leaves((PUSHED, properties(play, deleted=START + 3)), (QUEUE, CommandComplete(5)))
    play.flushes()
    play.leaves()
