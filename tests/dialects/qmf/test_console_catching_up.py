"""A console with a durable queue reads the messages of its absence first, then asks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    CommandComplete,
    EventIndication,
    Heartbeat,
    PackageIndication,
    PropertyContent,
)
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import BacklogFollows, LinkDown, LossSuspected, PropertiesMissing, TimerExpired
from gateway.model.observations import (
    ClassLearned,
    EventLearned,
    EventSeen,
    Gap,
    HeartbeatSeen,
    RecordLost,
    ResyncBegan,
    Severity,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from tests.dialects.qmf.console_story import GREETING, PUSHED, SEEN, changed, got, synchronised
from tests.dialects.qmf.examples import LEAK, TANK, shop
from tests.dialects.qmf.playbook import AGENT_USER, START, ConsolePlay

RECEIVED = START - 3600 * SECOND
KNOWN = (ClassDefinition.of(TANK), EventDefinition.of(LEAK))
RESTARTED = ConsoleConfig(trusted_users=frozenset({AGENT_USER}), definitions=KNOWN, complete_until=RECEIVED)
"""The configuration of a console that has the state of its former process."""
LEAKED = EventIndication(0, LEAK.key, START - 7, 4, ("t1", 3))
LEAK_KEY = "console.event.1.0.shop.leak"


def catching_up(config: ConsoleConfig = RESTARTED, missed: str = "", waiting: int = 3) -> ConsolePlay:
    """Return a console that reads the messages of its absence."""
    play = ConsolePlay(config)
    play.take(play.session.handle(BacklogFollows(missed, waiting), play.now))
    return play


def receiving(waiting: int) -> SourceStateSeen:
    return SourceStateSeen(SourceState.SYNCHRONISING, f"reading messages that waited: {waiting}")


def test_what_was_sent_meanwhile_is_reported_and_nothing_is_asked_before_it_is_over() -> None:
    play = catching_up()
    play.leaves(ClassLearned(TANK), EventLearned(LEAK), receiving(3))
    play.arrives(changed(deleted=START - 5), key=PUSHED)
    ended = replace(SEEN, deleted=START - 5, statistics=None)
    play.leaves(ended)
    play.arrives(LEAKED, key=LEAK_KEY)
    play.leaves(EventSeen(LEAK.key, "1.0", START - 7, Severity.WARNING, ("t1", 3)))
    play.arrives(Heartbeat(0, START - 4), key="console.heartbeat.1.0")
    play.leaves(HeartbeatSeen("1.0", START - 4))
    play.connects()
    play.leaves(GREETING, ("broker", BrokerRequest(1)))
    assert play.session.state is State.GREETING


def test_answers_to_a_former_console_are_not_listened_to() -> None:
    """The numbers of a former console may be those of requests that this console will send."""
    play = catching_up()
    play.left()
    play.arrives(got(5))
    play.arrives(CommandComplete(5))
    play.leaves()


def test_requests_are_numbered_from_where_it_is_reported() -> None:
    play = ConsolePlay(replace(RESTARTED, first_sequence=0x7FFF_FFFE))
    play.connects()
    assert ("broker", BrokerRequest(0x7FFF_FFFF)) in play.left()


def test_a_class_that_is_not_known_yet_is_not_asked_for_and_what_cannot_be_sent_again_is_lost() -> None:
    play = catching_up(replace(RESTARTED, definitions=()))
    play.leaves(receiving(3))
    play.arrives(changed(), key=PUSHED)
    play.leaves()
    play.arrives(LEAKED, key=LEAK_KEY)
    play.leaves(RecordLost(LEAK.key, "1.0"))


def test_an_agent_that_restarted_meanwhile_means_other_objects_from_there_on() -> None:
    play = catching_up()
    play.arrives(changed(), key=PUSHED, sent=START - 100 * SECOND)
    play.left()
    play.arrives(PackageIndication(0, "shop"), key="schema.package", sent=START - 50 * SECOND)
    reason = "agent 1.0 restarted or lost its connection"
    play.leaves(Gap(START - 100 * SECOND, START - 50 * SECOND, reason), ResyncBegan(restarted=True))


def test_what_a_full_queue_dropped_is_missed_until_the_first_that_it_kept() -> None:
    play = catching_up(missed="it was full")
    play.left()
    play.arrives(changed(), key=PUSHED, sent=START - 60 * SECOND)
    assert Gap(RECEIVED, START - 60 * SECOND, "it was full") in play.left()
    play.connects()
    assert [step for step in play.left() if isinstance(step, Gap)] == []


def test_what_a_new_queue_could_not_receive_is_missed_until_now() -> None:
    play = catching_up(missed="it is new", waiting=0)
    assert Gap(RECEIVED, START, "it is new") in play.left()
    play.connects()
    assert [step for step in play.left() if isinstance(step, Gap)] == []


def test_where_nothing_was_received_before_nothing_is_missed() -> None:
    play = catching_up(replace(RESTARTED, complete_until=0), missed="it is new", waiting=0)
    assert [step for step in play.left() if isinstance(step, Gap)] == []


def test_a_loss_is_reported_although_the_link_goes_down_before_anything_arrived() -> None:
    play = catching_up(missed="it was full")
    play.take(play.session.handle(LinkDown("gone"), play.now))
    play.take(play.session.handle(BacklogFollows("", 1), play.now))
    play.connects()
    assert Gap(RECEIVED, START, "it was full") in play.left()


def test_without_a_durable_queue_a_new_console_reports_since_when_nothing_was_received() -> None:
    play = ConsolePlay(RESTARTED)
    play.connects()
    assert Gap(RECEIVED, START, "not connected") in play.left()


def test_a_reconnection_to_a_kept_queue_is_no_gap() -> None:
    play = synchronised()
    play.take(play.session.handle(LinkDown("gone"), play.now))
    play.now += 60 * SECOND
    play.take(play.session.handle(BacklogFollows("", 2), play.now))
    play.connects()
    assert [step for step in play.left() if isinstance(step, Gap)] == []


def test_while_it_catches_up_neither_time_nor_a_loss_makes_it_ask() -> None:
    play = catching_up()
    play.arrives(Heartbeat(0, START - 4), key="console.heartbeat.1.0")
    play.left()
    play.now += 3600 * SECOND
    play.take(play.session.handle(TimerExpired(), play.now))
    play.leaves()
    play.take(play.session.handle(LossSuspected("doubt", play.now - SECOND), play.now))
    play.leaves(Gap(play.now - SECOND, play.now, "doubt"))


def test_to_catch_up_while_connected_is_a_mistake_of_ours() -> None:
    with pytest.raises(LocalProtocolError, match="resumed means nothing while synchronised"):
        synchronised().session.handle(BacklogFollows("", 0), START)


def test_packages_and_restarts_of_meanwhile_are_greeted_for_when_it_is_over() -> None:
    play = catching_up()
    play.left()
    play.arrives(PackageIndication(0, "barn"), key="schema.package")
    play.leaves()
    play.arrives(replace(changed(), object_id=ObjectId.of(sequence=3, number=7)), key=PUSHED)
    play.arrives(PackageIndication(0, "shop"), key="schema.package")
    play.arrives(replace(changed(), object_id=ObjectId.of(sequence=4, number=7)), key=PUSHED)
    assert not [one for one in play.left() if isinstance(one, tuple)]
    play.time_passes(10)
    play.leaves()


def test_an_agent_that_came_meanwhile_is_not_greeted_before_it_is_over() -> None:
    play = catching_up()
    play.left()
    reported = replace(changed(), object_id=ObjectId.of(sequence=3, number=7))
    play.arrives(reported, key=PUSHED)
    play.session.handle(PropertiesMissing(), play.now)
    play.time_passes(10)
    assert not [one for one in play.left() if isinstance(one, tuple)]


def test_what_is_known_of_packages_that_are_not_wanted_any_more_is_forgotten() -> None:
    play = catching_up(replace(RESTARTED, packages=frozenset({"barn"})))
    play.leaves(receiving(3))
    assert play.session.definitions == ()
    assert set(catching_up().session.definitions) == set(KNOWN)


def test_a_broker_that_was_restarted_meanwhile_is_reported_and_asked_later() -> None:
    key = ClassKey("org.apache.qpid.broker", "broker", b"B" * 16)
    broker = ClassDefinition.of(ClassSchema(key, (Element("name", ValueType.STRING),)))
    known = shop()
    known.add(broker)
    play = ConsolePlay(replace(RESTARTED, definitions=(*KNOWN, broker)), known=known)
    play.take(play.session.handle(BacklogFollows("", 3), play.now))
    play.left()
    for created in (START - 9 * SECOND, START - 5 * SECOND):
        itself = PropertyContent(0, key, START, created, 0, ObjectId.of(sequence=0, number=2), ("east",))
        play.arrives(itself, key="console.obj.1.0.org.apache.qpid.broker.broker")
    reported = play.left()
    assert reported.count(ResyncBegan(restarted=True)) == 1
    assert not [one for one in reported if isinstance(one, tuple)]
