"""The console session as a play: content that is unreadable, or not yet readable, is never lost silently."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    CommandComplete,
    GetQuery,
    Heartbeat,
    ObjectContent,
    PackageIndication,
    PropertyContent,
    SchemaRequest,
    SchemaResponse,
    StatisticContent,
)
from gateway.dialects.qmf.model_values import with_marks
from gateway.dialects.qmf.session_state import State
from gateway.model.observations import Gap, ObjectSeen, ResyncEnded, SourceStateSeen
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from tests.dialects.qmf.console_story import (
    GET_TANKS,
    PUSHED,
    changed,
    got,
    listed,
    synchronised,
)
from tests.dialects.qmf.examples import TANK, shop
from tests.dialects.qmf.playbook import AGENT_USER, BROKER, START, ConsolePlay

NEW_TANK = replace(TANK, key=replace(TANK.key, hash=b"N" * 16))
GARBLED = b"AM2c\0\0\0\0what is this"
UNREAD = "a message could not be read"


def of(agent_bank: int, number: int = 1) -> ObjectId:
    return ObjectId.of(sequence=1, agent_bank=agent_bank, number=number)


def with_new_tanks(config: ConsoleConfig | None = None) -> ConsolePlay:
    """Return a console that knows one class and one tank; its peers have a new version of that class."""
    known = shop()
    known.add(ClassDefinition.of(NEW_TANK))
    play = ConsolePlay(config, known)
    listed(play)
    play.arrives(got(5), CommandComplete(5))
    play.left()
    return play


def test_an_object_that_an_agent_of_this_gateway_marks_is_stale_until_it_comes_without_the_mark() -> None:
    definition = ClassDefinition.of(with_marks(TANK))
    known = shop()
    known.add(definition)
    play = ConsolePlay(None, known)
    listed(play, definition.schema)
    head = (START, START, 0, of(0))
    tank = ("t1", 100, None, None)

    def observed() -> list[tuple[int | None, object]]:
        return [(one.unread_since, one.properties) for one in play.left() if isinstance(one, ObjectSeen)]

    play.arrives(ObjectContent(5, TANK.key, *head, (*tank, START - 7), (0.0, 0, 0b11)), CommandComplete(5))
    assert observed() == [(START - 7, tank)]
    play.arrives(StatisticContent(0, TANK.key, *head, None, (50.0, 9, 0)), key=PUSHED)
    assert observed() == [(None, None)], "statistics have no mark: what was known of that goes on"
    play.arrives(PropertyContent(0, TANK.key, *head, (*tank, None)), key=PUSHED)
    assert observed() == [(0, tank)]
    play.arrives(PropertyContent(0, TANK.key, *head, (*tank, START + 900 * SECOND)), key=PUSHED)
    assert observed() == [(play.now, tank)], "the agent's clock is ahead"


def new_tank(sequence: int, object_id: ObjectId) -> ObjectContent:
    return replace(got(sequence, object_id=object_id), key=NEW_TANK.key)


# What agents say by themselves.


def test_what_an_unreadable_message_reported_is_read_again_before_long() -> None:
    play = synchronised()
    play.arrives_octets(GARBLED, key=PUSHED)
    play.leaves("protocol-error")
    play.time_passes(5)
    play.leaves(Gap(START, START, UNREAD), "resync", ("broker", BrokerRequest(6)))


def test_more_of_them_are_one_gap_and_do_not_make_a_storm() -> None:
    play = synchronised()
    for _ in range(4):
        play.arrives_octets(GARBLED, key=PUSHED)
        play.time_passes(1)
    play.left()
    play.time_passes(1)
    play.leaves(Gap(START, START + 3 * SECOND, UNREAD), "resync", ("broker", BrokerRequest(6)))
    play.arrives(BrokerResponse(6, BROKER))
    play.arrives(CommandComplete(7))
    play.arrives(Heartbeat(0, play.now), key="console.heartbeat.1.0")
    play.left()
    assert play.session.state is State.SYNCHRONISED
    play.arrives_octets(GARBLED, key=PUSHED)
    play.time_passes(20)
    play.leaves("protocol-error")


def test_what_could_not_be_read_is_reported_although_the_link_goes_down_before_it_is_read_again() -> None:
    play = synchronised()
    play.arrives_octets(GARBLED, key=PUSHED)
    play.disconnects()
    play.left()
    play.time_passes(1)
    play.connects()
    assert [one for one in play.left() if isinstance(one, Gap)] == [
        Gap(START, START, UNREAD),
        Gap(START, START + SECOND, "not connected"),
    ]


def test_an_unreadable_answer_loses_nothing_that_is_not_asked_for_again() -> None:
    play = synchronised()
    play.arrives_octets(GARBLED)
    play.time_passes(10)
    play.leaves("protocol-error")


# Objects of a class whose schema is still asked for.


def test_what_was_reported_before_its_schema_is_asked_for_again_although_the_answer_goes_on() -> None:
    """A broker sends the schema while the agent still sends objects: the first ones are unread."""
    play = with_new_tanks()
    play.arrives(Heartbeat(0, START), key="console.heartbeat.1.10")
    play.left()
    play.arrives(new_tank(6, of(10, 1)))
    play.leaves(("broker", SchemaRequest(7, NEW_TANK.key)))
    play.arrives(SchemaResponse(7, ClassDefinition.of(NEW_TANK)))
    assert play.left()[1:] == [("agent.1.10", GetQuery(8, GET_TANKS))]
    play.arrives(new_tank(6, of(10, 2)), CommandComplete(6))
    (late,) = play.left()
    assert isinstance(late, ObjectSeen), "the end of the first answer ends nothing: it was not heard whole"
    play.arrives(new_tank(8, of(10, 1)), new_tank(8, of(10, 2)), CommandComplete(8))
    assert [type(one) for one in play.left()] == [ObjectSeen, ObjectSeen, ResyncEnded]


def test_each_agent_that_reported_a_class_before_its_schema_is_asked_for_its_objects() -> None:
    play = with_new_tanks()
    for bank in (10, 11):
        play.arrives(Heartbeat(0, START), key=f"console.heartbeat.1.{bank}")
        play.arrives(CommandComplete(play.sequence()))
    play.left()
    for bank in (10, 11, 10):
        play.arrives(
            replace(changed(), key=NEW_TANK.key, object_id=of(bank)), key=f"console.obj.1.{bank}.shop.tank"
        )
    play.leaves(("broker", SchemaRequest(8, NEW_TANK.key)))
    play.arrives(SchemaResponse(8, ClassDefinition.of(NEW_TANK)))
    assert play.left()[1:] == [
        ("agent.1.10", GetQuery(9, GET_TANKS)),
        ("agent.1.11", GetQuery(10, GET_TANKS)),
    ]


@pytest.mark.parametrize(("names", "complete"), [("abca", False), ("aba", True)])
def test_there_is_an_end_to_the_classes_that_are_listed(names: str, *, complete: bool) -> None:
    """Names alone use memory, even if no schema of them is available."""
    play = ConsolePlay(ConsoleConfig(trusted_users=frozenset({AGENT_USER}), class_limit=2))
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(PackageIndication(2, "shop"), CommandComplete(2))
    for name in names:
        play.arrives(ClassIndication(3, ClassKind.OBJECT, ClassKey("shop", name, name.encode() * 16)))
    play.left()
    objects = 4 + len(set(names))  # behind the list, and a schema of each
    play.arrives(*(CommandComplete(sequence) for sequence in range(3, objects)))
    asked = [one[1] for one in play.left() if isinstance(one, tuple)]
    assert [one.selector["_class"] for one in asked if isinstance(one, GetQuery)] == ["a", "b"]
    play.arrives(CommandComplete(objects), CommandComplete(objects + 1))
    assert ResyncEnded(complete=complete) in play.left()


def test_what_an_agent_says_of_a_refusal_is_one_line_without_passwords() -> None:
    play = ConsolePlay()
    listed(play)
    play.arrives(CommandComplete(5, 7, "not\n\x1b[31m from amqp://guest:secret@example.org"))
    *_, degraded = play.left()
    assert isinstance(degraded, SourceStateSeen)
    assert "refused: not [31m from amqp://***@example.org (7)" in degraded.detail


def test_there_is_an_end_to_the_agents_that_are_asked_for_a_class() -> None:
    play = with_new_tanks(ConsoleConfig(trusted_users=frozenset({AGENT_USER}), agent_limit=2))
    for bank in (10, 11, 12):
        new = replace(changed(), key=NEW_TANK.key, object_id=of(bank))
        play.arrives(new, key=f"console.obj.1.{bank}.shop.tank")
    play.left()
    play.arrives(SchemaResponse(6, ClassDefinition.of(NEW_TANK)))
    assert [one[0] for one in play.left() if isinstance(one, tuple)] == ["agent.1.10", "agent.1.11"]
