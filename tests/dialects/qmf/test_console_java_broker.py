"""The console session with a Java broker: no hashes, no heartbeats, and no request that it cannot answer."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.console_config import HeartbeatRules, Heartbeats
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions
from gateway.dialects.qmf.fields import NO_HASH, ObjectId
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    CommandComplete,
    GetQuery,
    Message,
    MethodRequest,
    MethodResponse,
    ObjectContent,
    PackageIndication,
    PropertyContent,
    SchemaResponse,
)
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import LossSuspected
from gateway.model.observations import ClassLearned, Gap, ResyncBegan, ResyncEnded
from gateway.model.operations import NOT_READ, Answer, MethodCall, ObjectFetch, Outcome
from gateway.model.schema import ClassKey, ClassSchema, Element, Method
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from tests.dialects.qmf.operations_story import FIRST
from tests.dialects.qmf.playbook import AGENT_USER, BROKER, NEXT_BROKER, START, ConsolePlay

PACKAGE = "org.apache.qpid.broker"
QUEUE = ClassSchema(
    ClassKey(PACKAGE, "queue", NO_HASH), (Element("name", ValueType.STRING),), methods=(Method("purge"),)
)
BROKER_CLASS = ClassSchema(ClassKey(PACKAGE, "broker", NO_HASH), (Element("name", ValueType.STRING),))
ORDERS = ObjectId(0, 7)
ITSELF = ObjectId(0, 1)
CONFIG = ConsoleConfig(frozenset({AGENT_USER}), heartbeats=HeartbeatRules(Heartbeats.AUTO))


def itself(sequence: int, created: int = START) -> ObjectContent:
    return ObjectContent(sequence, BROKER_CLASS.key, START, created, 0, ITSELF, ("java",), ())


def orders(sequence: int) -> ObjectContent:
    return ObjectContent(sequence, QUEUE.key, START, START, 0, ORDERS, ("orders",), ())


def pushed(deleted: int = 0) -> PropertyContent:
    return PropertyContent(0, QUEUE.key, START, START, deleted, ORDERS, ("orders",))


class JavaPlay(ConsolePlay):
    """A console of a Java broker, which ends each answer with a separate completion."""

    def __init__(self, config: ConsoleConfig = CONFIG) -> None:
        known = Definitions()
        for schema in (BROKER_CLASS, QUEUE):
            known.add(ClassDefinition.of(schema))
        super().__init__(config, known=known)
        self.keys: dict[str, ClassKey] = {}

    def answered(self, *messages: Message) -> None:
        """Pass the records of an answer, one in a body, and then its completion."""
        for message in messages:
            self.arrives(message)
        self.arrives(CommandComplete(messages[-1].sequence, 0, ""))

    def is_listed(self, first: int, broker: ObjectContent | None = None) -> None:
        """Answer a resync up to the queues, of which it asks with request ``first`` + 6."""
        self.answered(PackageIndication(first + 1, PACKAGE))
        classes = [ClassIndication(first + 2, ClassKind.OBJECT, one.key) for one in (BROKER_CLASS, QUEUE)]
        self.answered(*classes)
        self.answered(SchemaResponse(first + 3, ClassDefinition.of(BROKER_CLASS)))
        self.answered(SchemaResponse(first + 4, ClassDefinition.of(QUEUE)))
        self.answered(replace(broker or itself(0), sequence=first + 5))

    def synchronises(self, *, first: int = 1, broker: ObjectContent | None = None) -> None:
        self.answered(BrokerResponse(first, BROKER))
        self.is_listed(first, broker)
        self.answered(orders(first + 6))
        assert self.session.state is State.SYNCHRONISED
        self.keys |= {
            one.schema.key.name: one.schema.key for one in self.left() if isinstance(one, ClassLearned)
        }

    def purges(self, token: int = 1) -> None:
        """Request a purge of the queue."""
        call = MethodCall(token, self.keys["queue"], "1.0", str(ORDERS), "purge", (), self.now + 10 * SECOND)
        self.take(self.session.handle(call, self.now))


def synchronised(config: ConsoleConfig = CONFIG) -> JavaPlay:
    play = JavaPlay(config)
    play.connects()
    play.synchronises()
    return play


def refused(play: JavaPlay, outcome: Outcome, text: str) -> None:
    play.left()
    play.purges()
    play.leaves(Answer(1, outcome, f"not sent: {text}"))


NOT_YET = "the agent has not reported this object yet"
NOT_ANY_MORE = "the agent does not report this object any more"


def test_only_what_it_listed_is_asked_for() -> None:
    play = JavaPlay()
    play.connects()
    play.synchronises()
    assert [(one.routing_key, one.body[3:4]) for one in play.sent] == [
        ("broker", b"B"),
        ("broker", b"P"),
        ("broker", b"Q"),
        ("broker", b"S"),
        ("broker", b"S"),
        ("agent.1.0", b"G"),
        ("agent.1.0", b"G"),
    ]


def test_an_object_is_asked_for_by_its_class_as_it_takes_no_heed_of_ids() -> None:
    play = synchronised()
    fetch = ObjectFetch(1, play.keys["queue"], "1.0", str(ORDERS), play.now + 10 * SECOND)
    play.take(play.session.handle(fetch, play.now))
    play.leaves(("agent.1.0", GetQuery(FIRST, {"_class": "queue", "_package": PACKAGE})))
    play.answered(orders(FIRST))
    assert play.left()[-1] == Answer(1, Outcome.APPLIED, "", 0)


def test_a_method_is_called_and_its_answer_ended_twice() -> None:
    play = synchronised()
    play.purges()
    play.leaves(("agent.1.0", MethodRequest(FIRST, ORDERS, QUEUE.key, "purge")))
    play.answered(MethodResponse(FIRST, 0, ""))
    play.leaves(Answer(1, Outcome.APPLIED, "", 0, ()))


def test_an_object_that_was_deleted_is_not_named_to_it() -> None:
    play = synchronised()
    play.arrives(pushed(deleted=START + SECOND), key=f"console.obj.1.0.{PACKAGE}.queue")
    refused(play, Outcome.OBJECT_GONE, NOT_ANY_MORE)


def test_an_object_that_was_deleted_while_it_was_read_is_not_named_to_it() -> None:
    play = synchronised()
    play.take(play.session.handle(LossSuspected("test"), play.now))
    play.answered(BrokerResponse(8, BROKER))
    play.is_listed(8)
    play.arrives(orders(14))
    play.arrives(pushed(deleted=START + SECOND), key=f"console.obj.1.0.{PACKAGE}.queue")
    play.arrives(CommandComplete(14))
    refused(play, Outcome.OBJECT_GONE, NOT_ANY_MORE)


def test_an_object_that_it_does_not_list_any_more_is_not_named_to_it() -> None:
    play = synchronised()
    play.take(play.session.handle(LossSuspected("test"), play.now))
    play.answered(BrokerResponse(8, BROKER))
    play.is_listed(8)
    play.left()
    play.purges()
    play.leaves(("agent.1.0", MethodRequest(FIRST, ORDERS, QUEUE.key, "purge")))
    play.arrives(CommandComplete(14))
    refused(play, Outcome.OBJECT_GONE, NOT_ANY_MORE)


def test_after_a_connection_was_lost_only_what_is_reported_again_is_named_to_it() -> None:
    play = synchronised()
    play.disconnects()
    play.connects()
    play.answered(BrokerResponse(8, BROKER))
    play.is_listed(8)
    refused(play, Outcome.SOURCE_DOWN, NOT_READ)
    play.arrives(orders(14))
    play.left()
    play.purges()
    assert len(play.left()) == 1
    assert play.sent[-1].body[3:4] == b"M"


def test_objects_beyond_the_limit_are_not_named_to_it() -> None:
    play = synchronised(replace(CONFIG, object_limit=1))
    refused(play, Outcome.NOT_NOW, NOT_YET)


@pytest.mark.parametrize("broker", [BROKER, NEXT_BROKER])
def test_one_that_restarted_is_another_incarnation(broker: UUID) -> None:
    play = synchronised()
    play.disconnects()
    play.connects()
    play.left()
    play.answered(BrokerResponse(8, broker))
    play.is_listed(8, itself(0, created=START + SECOND))
    began = [one for one in play.left() if isinstance(one, ResyncBegan) and one.restarted]
    assert len(began) == 1


def test_one_that_restarted_behind_a_bridge_shows_it_by_its_own_object() -> None:
    """It sends no announcement, its ids begin again, and only the broker's object was created later."""
    play = synchronised()
    play.time_passes(10)
    again = PropertyContent(0, BROKER_CLASS.key, play.now, START + 5 * SECOND, 0, ITSELF, ("java",))
    play.arrives(again, key=f"console.obj.1.0.{PACKAGE}.broker")
    left = play.left()
    assert left[:2] == [
        Gap(START, START + 10 * SECOND, "agent 1.0 restarted"),
        ResyncBegan(restarted=True),
    ]
    assert left[-2:] == ["resync", ("broker", BrokerRequest(8))]
    play.arrives(again, key=f"console.obj.1.0.{PACKAGE}.broker")
    assert ResyncBegan(restarted=True) not in play.left(), "once is enough"
    play.answered(BrokerResponse(8, NEXT_BROKER))
    assert not [one for one in play.left() if isinstance(one, Gap)], "nor is the gap told twice"
    play.synchronises(first=8, broker=itself(0, created=START + 5 * SECOND))
    assert play.session.state is State.SYNCHRONISED


@pytest.mark.parametrize(("created", "deleted"), [(0, 0), (START + SECOND, START + SECOND)])
def test_what_says_nothing_of_a_birth_shows_no_restart(created: int, deleted: int) -> None:
    play = synchronised()
    reported = PropertyContent(0, BROKER_CLASS.key, START, created, deleted, ITSELF, ("java",))
    play.arrives(reported, key=f"console.obj.1.0.{PACKAGE}.broker")
    assert not [one for one in play.left() if isinstance(one, ResyncBegan)]


def test_a_class_that_it_has_otherwise_than_before_is_learnt_again() -> None:
    """Without a hash only the schema differs: calls for the former class are not sent."""
    play = synchronised()
    former = play.keys["queue"]
    play.take(play.session.handle(LossSuspected("test"), play.now))
    play.answered(BrokerResponse(8, BROKER))
    play.answered(PackageIndication(9, PACKAGE))
    play.answered(ClassIndication(10, ClassKind.OBJECT, QUEUE.key))
    play.left()
    grown = replace(QUEUE, methods=(*QUEUE.methods, Method("reroute")))
    play.answered(SchemaResponse(11, ClassDefinition.of(grown)))
    (learnt,) = [one.schema for one in play.left() if isinstance(one, ClassLearned)]
    assert learnt.key != former
    play.purges()
    play.leaves(Answer(1, Outcome.NOT_NOW, f"not sent: the schema of {former} is not known"))


def test_a_whole_reading_reports_all_there_is() -> None:
    play = JavaPlay()
    play.connects()
    play.left()
    play.answered(BrokerResponse(1, BROKER))
    play.is_listed(1)
    play.answered(orders(7))
    assert ResyncEnded(complete=True) in play.left()
