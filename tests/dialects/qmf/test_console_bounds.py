"""The console session as a play: untrusted and unreadable messages, and limits of its state and output."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.fields import NULL, ObjectId
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    EventIndication,
    GetQuery,
    ObjectContent,
    PackageIndication,
    SchemaRequest,
    SchemaResponse,
)
from gateway.dialects.qmf.session_state import TRANSITIONS, Signal, State
from gateway.dialects.qmf.typed_values import QmfValue, QmfValues
from gateway.model.observations import (
    ClassLearned,
    EventSeen,
    ObjectSeen,
    ResyncBegan,
    ResyncEnded,
    Severity,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import Argument, ClassKey, ClassSchema, Element, EventSchema, Method
from gateway.model.values import Reference, ValueType
from tests.dialects.qmf.console_story import (
    GET_TANKS,
    PUSHED,
    SEEN,
    SYNCHRONISED,
    SYNCHRONISING,
    WITHOUT_HEARTBEATS,
    changed,
    got,
    listed,
    synchronised,
    tank_schema,
)
from tests.dialects.qmf.examples import OBJECT_ID, TANK, shop
from tests.dialects.qmf.playbook import AGENT_USER, BROKER, NEXT_BROKER, ConsolePlay


def test_messages_of_others_are_not_trusted() -> None:
    play = synchronised()
    play.arrives(changed("forged"), key=PUSHED, user="guest")
    play.arrives(changed("forged"), key=PUSHED, user="")
    play.leaves("refused-sender", "refused-sender")


def test_a_broker_that_sends_no_user_is_trusted_where_that_is_configured() -> None:
    play = ConsolePlay(ConsoleConfig(trust_anyone=True))
    play.connects()
    play.left()
    play.arrives(BrokerResponse(1, BROKER), user="")
    assert SYNCHRONISING in play.left()


def test_hostile_octets_in_the_middle_of_a_resync_leave_it_incomplete() -> None:
    play = ConsolePlay()
    listed(play)
    play.arrives_octets(write(got(5), shop()) + b"AM2g\0\0\0\x05 what is this")
    play.leaves(SEEN, "protocol-error")
    play.arrives(got(5, "t2", ObjectId(0, 9)), CommandComplete(5))
    left = play.left()
    assert ResyncEnded(complete=False) in left
    assert play.session.state is State.DEGRADED


def test_hostile_octets_at_other_times_are_noted() -> None:
    play = synchronised()
    play.arrives_octets(b"\xff" * 100)
    play.leaves("protocol-error")
    assert play.session.state is State.SYNCHRONISED


def test_a_schema_that_cannot_be_read_costs_its_class_only() -> None:
    play = ConsolePlay()
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(PackageIndication(2, "shop"), CommandComplete(2))
    play.arrives(ClassIndication(3, ClassKind.OBJECT, TANK.key), CommandComplete(3))
    play.left()
    broken = bytearray(write(tank_schema(4)))
    broken[35] = 0xFF  # so many properties it has not
    play.arrives_octets(bytes(broken))
    play.leaves(ResyncBegan(), "protocol-error", ("agent.1.0", GetQuery(5, GET_TANKS)))
    play.arrives(got(5))
    play.leaves()
    play.arrives(CommandComplete(5))
    play.leaves(ResyncEnded(complete=True), SYNCHRONISED)


def test_methods_that_no_call_can_mean_are_left_out_and_counted() -> None:
    """Of several with one name the last one is called; arguments travel by their positions."""
    play = ConsolePlay()
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(PackageIndication(2, "shop"), CommandComplete(2))
    play.arrives(ClassIndication(3, ClassKind.OBJECT, TANK.key), CommandComplete(3))
    play.left()
    arguments = tuple(Argument(name, ValueType.U32) for name in ("litres", "", "litres"))
    methods = (Method("fill"), Method(""), Method(" "), Method("fill", arguments))
    tank = ClassDefinition.of(ClassSchema(TANK.key, TANK.properties, TANK.statistics, methods))
    body = write(SchemaResponse(4, tank))
    assert body.count(b"\x04name\x95\x00\x04fill") == 2
    play.arrives_octets(body)
    steps = play.left()
    (learned,) = [one for one in steps if isinstance(one, ClassLearned)]
    assert learned.schema.methods == methods[3:]
    assert [one for one in steps if isinstance(one, str)] == ["schema-left-out"]


def test_a_schema_that_is_not_to_be_had_is_not_asked_for_again_and_again() -> None:
    play = synchronised()
    key = ClassKey("shop", "pond", b"P" * 16)
    play.arrives(ClassIndication(0, ClassKind.OBJECT, key), key="schema.class")
    play.leaves(("broker", SchemaRequest(6, key)))
    play.arrives(CommandComplete(6, 1, "Class key not found"))
    play.leaves("no-schema")
    play.arrives(ClassIndication(0, ClassKind.OBJECT, key), key="schema.class")
    play.leaves()


def test_a_schema_that_never_comes_is_given_up() -> None:
    play = synchronised(WITHOUT_HEARTBEATS)
    play.arrives(
        ClassIndication(0, ClassKind.OBJECT, ClassKey("shop", "pond", b"P" * 16)), key="schema.class"
    )
    play.time_passes(100)
    assert play.notes() == ["no-answer"]
    assert play.session.state is State.SYNCHRONISED


def test_packages_that_are_not_wanted_are_left_alone() -> None:
    play = ConsolePlay(ConsoleConfig(trusted_users=frozenset({AGENT_USER}), packages=frozenset({"barn"})))
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.left()
    play.arrives(PackageIndication(2, "shop"), PackageIndication(2, "barn"), CommandComplete(2))
    play.leaves(("broker", ClassQuery(3, "barn")))
    play.arrives(ClassIndication(3, ClassKind.OBJECT, TANK.key))
    play.arrives(changed(), key=PUSHED)
    play.arrives(PackageIndication(0, "shop"), key="schema.package")
    play.leaves()


def test_there_is_an_end_to_the_classes_that_are_learnt() -> None:
    play = synchronised(ConsoleConfig(trusted_users=frozenset({AGENT_USER}), class_limit=1))
    for letter in "abc":
        key = ClassKey("shop", letter, letter.encode() * 16)
        play.arrives(ClassIndication(0, ClassKind.OBJECT, key), key="schema.class")
    assert play.notes() == ["too-many-classes"] * 3


def test_there_is_an_end_to_the_requests_that_wait() -> None:
    play = ConsolePlay(ConsoleConfig(trusted_users=frozenset({AGENT_USER}), request_limit=50))
    listed(play)
    keys = [ClassKey("shop", f"c{number}", b"h" * 16) for number in range(500)]
    for key in keys:
        play.arrives(ClassIndication(0, ClassKind.OBJECT, key), key="schema.class")
    assert len(play.left()) == 15  # the window is 16, and a get query is in flight already
    for sequence in range(6, 600):
        play.arrives(CommandComplete(sequence, 1, "Class key not found"))
    asked = [step for step in play.left() if isinstance(step, tuple)]
    assert len(asked) == 50
    play.arrives(CommandComplete(5))
    assert ResyncEnded(complete=False) in play.left()


def test_a_java_broker_ends_every_reply_and_hashes_nothing() -> None:
    hashless = replace(TANK, key=replace(TANK.key, hash=bytes(16)))
    known = Definitions()
    known.add(ClassDefinition.of(hashless))
    play = ConsolePlay(known=known)
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(CommandComplete(1, text=""))
    play.arrives(PackageIndication(2, "shop"), CommandComplete(2, text=""))
    play.arrives(ClassIndication(3, ClassKind.OBJECT, hashless.key), CommandComplete(3, text=""))
    play.left()
    play.arrives(SchemaResponse(4, ClassDefinition.of(hashless)))
    learnt = play.left()[0]
    play.arrives(CommandComplete(4, text=""))
    assert isinstance(learnt, ClassLearned)
    assert learnt.schema.key.hash != bytes(16)
    play.arrives(replace(got(5), key=hashless.key, object_id=ObjectId(0, 50)))
    (seen,) = play.left()
    assert isinstance(seen, ObjectSeen)
    assert (seen.key, seen.agent, seen.native_id) == (learnt.schema.key, "1.0", "0-0-0-0-50")


def test_what_no_one_asked_for_is_ignored() -> None:
    play = synchronised()
    play.arrives(BrokerResponse(99, NEXT_BROKER))
    play.arrives(CommandComplete(99))
    play.arrives(tank_schema(99))
    play.arrives(PackageIndication(99, "barn"))
    play.arrives(ClassIndication(99, ClassKind.OBJECT, ClassKey("shop", "pond", b"P" * 16)))
    play.arrives(BrokerRequest(1))
    play.leaves()
    assert play.session.broker == BROKER


def test_completion_without_a_broker_s_name_is_no_greeting() -> None:
    play = ConsolePlay()
    play.connects()
    play.left()
    play.arrives(CommandComplete(1))
    play.leaves()
    play.arrives(BrokerResponse(0, BROKER))  # the specification's sequence
    assert SYNCHRONISING in play.left()


SAFE = ClassSchema(
    ClassKey("shop", "safe", b"S" * 16),
    (
        Element("name", ValueType.STRING),
        Element("passwordHash", ValueType.STRING),
        Element("source", ValueType.STRING),
        Element("arguments", ValueType.MAP),
        Element("chain", ValueType.LIST),
        Element("nearest", ValueType.REFERENCE),
        Element("next", ValueType.REFERENCE),
    ),
    (Element("secretUses", ValueType.U32), Element("uses", ValueType.U32)),
)


def test_secrets_go_no_further() -> None:
    known = shop()
    known.add(ClassDefinition.of(SAFE))
    play = ConsolePlay(known=known)
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(PackageIndication(2, "shop"), CommandComplete(2))
    play.arrives(ClassIndication(3, ClassKind.OBJECT, SAFE.key), CommandComplete(3))
    play.arrives(SchemaResponse(4, ClassDefinition.of(SAFE)))
    arguments: QmfValue = {
        "uri": "amqp://u:plant@h",
        "password": "plant",
        "inner": {"token": None, "secret": "plant"},
    }
    properties: QmfValues = (
        "s1",
        "plant",
        "amqp://u:plant@h/v",
        arguments,
        (None, "amqp://u:plant@h"),
        NULL,
        OBJECT_ID,
    )
    play.arrives(ObjectContent(5, SAFE.key, 1, 1, 0, OBJECT_ID, properties, (7, 8)))
    left = play.left()
    assert "plant" not in repr(left)
    learnt = next(step for step in left if isinstance(step, ClassLearned)).schema
    assert [one.name for one in learnt.properties] == [
        "name",
        "source",
        "arguments",
        "chain",
        "nearest",
        "next",
    ]
    assert [one.name for one in learnt.statistics] == ["uses"]
    seen = next(step for step in left if isinstance(step, ObjectSeen))
    assert seen.properties == (
        "s1",
        "amqp://***@h/v",
        {"uri": "amqp://***@h", "inner": {}},
        ("amqp://***@h",),
        None,
        Reference("0-5-1-0-4386"),
    )
    assert seen.statistics == (8,)


def test_secrets_of_events_go_no_further() -> None:
    login = EventSchema(
        ClassKey("shop", "login", b"E" * 16),
        (
            Argument("user", ValueType.STRING),
            Argument("password", ValueType.STRING),
            Argument("args", ValueType.MAP),
        ),
    )
    known = shop()
    known.add(EventDefinition.of(login))
    play = ConsolePlay(known=known)
    listed(play)
    play.arrives(ClassIndication(0, ClassKind.EVENT, login.key), key="schema.class")
    play.arrives(SchemaResponse(6, EventDefinition.of(login)))
    arguments: QmfValues = ("u", "plant", {"secret": "plant", "uri": "amqp://u:plant@h"})
    play.arrives(EventIndication(0, login.key, 1, 6, arguments), key="console.event.1.0.shop.login")
    left = play.left()
    assert "plant" not in repr(left)
    assert left[-1] == EventSeen(login.key, "1.0", 1, Severity.INFO, ("u", {"uri": "amqp://***@h"}))


def test_connecting_twice_is_a_mistake_of_ours() -> None:
    play = ConsolePlay()
    play.connects()
    with pytest.raises(LocalProtocolError, match="connected means nothing while greeting"):
        play.connects()


def test_disconnecting_twice_says_why_the_second_time() -> None:
    play = ConsolePlay()
    play.disconnects("refused")
    play.disconnects("unknown virtual host")
    play.leaves(
        SourceStateSeen(SourceState.DOWN, "refused"),
        SourceStateSeen(SourceState.DOWN, "unknown virtual host"),
    )


def test_the_table_of_states_is_printable_and_complete() -> None:
    lines = str(TRANSITIONS).splitlines()
    assert len(lines) == len(TRANSITIONS.table)
    assert "greeting      answered      -> listing" in lines
    assert {signal for _, signal in TRANSITIONS.table} == set(Signal)
    assert {state for state, _ in TRANSITIONS.table} == set(State)
