"""The console session and agents beside the broker's own: they come, are read, called, and go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.console_agents import agent_described
from gateway.dialects.qmf.console_requests import FetchObjects, FetchSchema, RequestRules, Requests, Subject
from gateway.dialects.qmf.console_states import State
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    CommandComplete,
    EventIndication,
    GetQuery,
    Heartbeat,
    MethodRequest,
    MethodResponse,
    ObjectContent,
    PackageIndication,
    PropertyContent,
    SchemaRequest,
    SchemaResponse,
)
from gateway.dialects.qmf.object_id import ObjectId
from gateway.model.observations import (
    AgentLost,
    HeartbeatSeen,
    RecordLost,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.operations import Answer, Outcome
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import ValueType
from tests.dialects.qmf.console_story import GET_TANKS, SEEN, changed, got, listed, synchronised
from tests.dialects.qmf.examples import LEAK, OBJECT_ID, TANK, shop
from tests.dialects.qmf.operations_story import ARGUMENTS, FIRST, OUTPUTS, calls, drain, fetches
from tests.dialects.qmf.playbook import AGENT_USER, BROKER, SECOND, START, ConsolePlay

THEIRS = ObjectId.of(sequence=1, agent_bank=10, number=1)
THEIR_TANK = replace(SEEN, agent="1.10", native_id="0-1-1-10-1")
AGENT_CLASS = ClassSchema(
    ClassKey("org.apache.qpid.broker", "agent", b"A" * 16),
    (
        Element("label", ValueType.STRING),
        Element("brokerBank", ValueType.U32),
        Element("agentBank", ValueType.U32),
    ),
)
GET_AGENTS = {"_class": "agent", "_package": "org.apache.qpid.broker"}
AGENTS_PUSHED = "console.obj.1.0.org.apache.qpid.broker.agent"


def beats(play: ConsolePlay, agent: str = "1.10") -> None:
    play.arrives(Heartbeat(0, play.now), key=f"console.heartbeat.{agent}")


def with_agent(config: ConsoleConfig | None = None) -> ConsolePlay:
    """A console that asks a remote agent, which has just appeared, for its tanks: request 6."""
    play = synchronised(config)
    beats(play)
    play.left()
    return play


def test_an_agent_that_appears_is_read_for_itself() -> None:
    play = synchronised()
    beats(play)
    play.leaves(ResyncBegan("1.10"), HeartbeatSeen("1.10", START), ("agent.1.10", GetQuery(6, GET_TANKS)))
    play.arrives(got(6, object_id=THEIRS))
    play.leaves(THEIR_TANK)
    play.arrives(CommandComplete(6))
    play.leaves(ResyncEnded(complete=True, agent="1.10"))
    assert play.session.state is State.SYNCHRONISED


def test_an_agent_that_falls_silent_is_lost_and_no_other() -> None:
    play = with_agent()
    play.arrives(CommandComplete(6))
    play.time_passes(1)
    beats(play)
    play.left()
    play.time_passes(4)
    assert AgentLost("1.10", "agent 1.10 has been silent for 3 s") in play.left()
    assert play.session.state is State.SYNCHRONISED
    play.time_passes(1)
    beats(play)
    assert play.left()[-1] == ("broker", BrokerRequest(7)), "all is read again"


ONE_AGENT = ConsoleConfig(believed=frozenset({AGENT_USER}), agent_limit=2)
"""Beside the broker's own."""


def test_agents_beyond_the_limit_are_left_out_because_nobody_would_miss_them() -> None:
    play = with_agent(ONE_AGENT)
    play.arrives(CommandComplete(6))
    play.left()
    beats(play, "1.11")
    play.leaves("too-many-agents")
    theirs = replace(changed(), object_id=ObjectId.of(sequence=5, number=1, agent_bank=11))
    play.arrives(theirs, key="console.obj.1.11.shop.tank")
    play.leaves("too-many-agents")
    leak = EventIndication(0, LEAK.key, play.now, 6, ("t1", 1))
    play.arrives(leak, key="console.event.1.11.shop.leak")
    play.leaves(RecordLost(LEAK.key, "1.0"), ("broker", SchemaRequest(7, LEAK.key)))
    play.arrives(SchemaResponse(7, EventDefinition.of(LEAK)))
    play.left()
    play.arrives(leak, key="console.event.1.11.shop.leak")
    play.leaves(RecordLost(LEAK.key, "1.0"), "too-many-agents")


def test_an_agent_too_many_leaves_a_resync_incomplete() -> None:
    play = ConsolePlay(ONE_AGENT)
    listed(play)
    beats(play)
    beats(play, "1.11")
    play.arrives(got(5), CommandComplete(5))
    play.left()
    play.arrives(CommandComplete(6))
    assert ResyncEnded(complete=False) in play.left()
    assert play.session.state is State.DOUBTFUL


def test_an_agent_that_is_lost_makes_room_for_another() -> None:
    play = with_agent(ONE_AGENT)
    play.arrives(CommandComplete(6))
    play.time_passes(29)
    play.arrives(changed())
    play.time_passes(2)
    assert AgentLost("1.10", "agent 1.10 has been silent for 30 s") in play.left()
    beats(play, "1.11")
    assert ResyncBegan("1.11") in play.left()
    beats(play)
    play.leaves("too-many-agents")


def test_the_agent_of_the_broker_is_heard_however_many_others_came_first() -> None:
    play = ConsolePlay(ONE_AGENT)
    play.connects()
    for bank in range(10, 20):
        beats(play, f"1.{bank}")
    play.left()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(Heartbeat(0, play.now), key="console.heartbeat.1.0")
    assert play.left()[-1] == HeartbeatSeen("1.0", play.now)


def test_a_class_that_the_broker_does_not_list_any_more_is_asked_for_all_the_same() -> None:
    """Brokers forget the classes of agents that were not there when they started anew."""
    play = synchronised()
    play.take(play.session.resync("test", play.now))
    play.arrives(BrokerResponse(6, BROKER))
    play.arrives(CommandComplete(7))
    beats(play)
    assert play.left()[-1] == ("agent.1.10", GetQuery(8, GET_TANKS))


def test_what_an_agent_refuses_makes_everything_be_read_anew_before_long() -> None:
    play = with_agent()
    play.arrives(got(6, object_id=THEIRS), CommandComplete(6, 1, "no"))
    play.leaves(THEIR_TANK, ResyncEnded(complete=False, agent="1.10"))
    play.time_passes(5)
    play.leaves("resync", ("broker", BrokerRequest(7)))


def test_an_agent_that_never_answers_is_not_read_and_everything_is_tried_anew() -> None:
    play = with_agent()
    for _ in range(13):
        play.time_passes(5)
        beats(play)
        beats(play, "1.0")
    told = play.left()
    assert told.count(ResyncEnded(complete=False, agent="1.10")) == 1
    assert "no-answer" in told
    assert ("broker", BrokerRequest(9)) in told


@pytest.mark.parametrize("ends", ["link", "resync"])
def test_a_reading_ends_incomplete_with_what_it_needs(ends: str) -> None:
    play = with_agent()
    if ends == "link":
        play.disconnects("reset")
        last: object = SourceStateSeen(SourceState.DOWN, "reset")
    else:
        play.take(play.session.resync("test", play.now))
        last = ("broker", BrokerRequest(7))
    told = play.left()
    assert told[0] == ResyncEnded(complete=False, agent="1.10")
    assert told[-1] == last


def test_an_agent_that_appears_while_all_is_read_is_a_part_of_that() -> None:
    play = ConsolePlay()
    listed(play)
    beats(play)
    play.leaves(HeartbeatSeen("1.10", START), ("agent.1.10", GetQuery(6, GET_TANKS)))
    play.arrives(CommandComplete(5))
    play.leaves()
    play.arrives(CommandComplete(6))
    assert play.left()[0] == ResyncEnded(complete=True)


def test_a_call_goes_to_the_agent_that_has_the_object() -> None:
    play = with_agent()
    play.arrives(got(6, object_id=THEIRS), CommandComplete(6))
    play.left()
    calls(play, drain(play, agent="1.10", native_id=str(THEIRS)))
    play.leaves(("agent.1.10", MethodRequest(FIRST, THEIRS, TANK.key, "drain", ARGUMENTS)))
    play.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    play.leaves(Answer(1, Outcome.APPLIED, "OK", 0, (2.5, "cd")))
    fetches(play, 2, agent="1.10", native_id=str(THEIRS))
    play.leaves(("agent.1.10", GetQuery(FIRST + 1, {"_objectid": "0-1-1-10-1"})))


# A Qpid broker has an object for each of its agents.


def agent_object(sequence: int, deleted: int = 0, bank: int = 10) -> ObjectContent:
    return ObjectContent(sequence, AGENT_CLASS.key, 1, 1, deleted, OBJECT_ID, ("farm", 1, bank), ())


def of_a_qpid_broker() -> ConsolePlay:
    """A console that has listed the class of agents, and asks for its objects: request 5."""
    known = shop()
    known.add(ClassDefinition.of(AGENT_CLASS))
    play = ConsolePlay(known=known)
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(PackageIndication(2, "org.apache.qpid.broker"), CommandComplete(2))
    play.arrives(ClassIndication(3, ClassKind.OBJECT, AGENT_CLASS.key), CommandComplete(3))
    play.arrives(SchemaResponse(4, ClassDefinition.of(AGENT_CLASS)))
    play.left()
    return play


def leaves_the_broker(play: ConsolePlay) -> None:
    gone = PropertyContent(0, AGENT_CLASS.key, 1, 1, 2, OBJECT_ID, ("farm", 1, 10))
    play.arrives(gone, key=AGENTS_PUSHED)


def test_a_qpid_broker_tells_which_agents_come_and_go() -> None:
    play = of_a_qpid_broker()
    play.arrives(agent_object(5))
    assert play.left()[1:] == [("agent.1.10", GetQuery(6, GET_AGENTS))]
    leaves_the_broker(play)
    assert play.left()[1:] == [AgentLost("1.10", "agent 1.10 left the broker")]
    leaves_the_broker(play)
    assert len(play.left()) == 1
    play.arrives(CommandComplete(5))
    assert ResyncEnded(complete=True) in play.left(), "nothing of an agent that left is waited for"


def test_an_agent_that_leaves_while_it_is_read() -> None:
    play = of_a_qpid_broker()
    play.arrives(CommandComplete(5))
    play.left()
    play.arrives(PropertyContent(0, AGENT_CLASS.key, 1, 1, 0, OBJECT_ID, ("farm", 1, 10)), key=AGENTS_PUSHED)
    assert play.left()[1] == ResyncBegan("1.10")
    leaves_the_broker(play)
    assert play.left()[1:] == [
        ResyncEnded(complete=False, agent="1.10"),
        AgentLost("1.10", "agent 1.10 left the broker"),
    ]
    play.time_passes(25)
    play.leaves()


def test_what_an_agent_had_before_it_came_back_is_told_anew() -> None:
    play = of_a_qpid_broker()
    play.arrives(agent_object(5), CommandComplete(5))
    leaves_the_broker(play)
    play.left()
    play.arrives(PropertyContent(0, AGENT_CLASS.key, 1, 1, 0, OBJECT_ID, ("farm", 1, 10)), key=AGENTS_PUSHED)
    assert play.left()[1] == ResyncBegan("1.10")


def test_requests_to_one_agent_are_dropped_whether_sent_or_not() -> None:
    requests = Requests(RequestRules(SECOND, 3 * SECOND, window=2))
    kept: list[Subject] = [
        FetchObjects("1.0", "shop", "tank"),
        FetchSchema(TANK.key),
        FetchObjects("1.0", "shop", "pump"),
    ]
    dropped: list[Subject] = [FetchObjects("1.10", "shop", name) for name in ("tank", "pump")]
    for subject in (dropped[0], kept[0], kept[1], dropped[1], kept[2]):
        requests.add(subject)
    sent = requests.launch(START)
    assert [subject for subject, _ in sent] == [dropped[0], kept[0]]
    assert requests.asks_objects_of("1.10")
    requests.drop_objects_of("1.10")
    assert not requests.asks_objects_of("1.10")
    assert requests.subject(sent[0][1]) is None
    assert [subject for subject, _ in requests.launch(START)] == [kept[1]]
    assert requests.complete(99) is None
    requests.drop(kept[1])
    assert [subject for subject, _ in requests.launch(START)] == [kept[2]]


# Objects told in part.


def test_objects_whose_properties_were_never_told_are_read_before_long_and_not_too_often() -> None:
    play = synchronised()

    def unnamed() -> None:
        play.session.unnamed(play.now)
        play.take(play.session.tick(play.now))

    unnamed()
    unnamed()
    play.leaves()
    play.time_passes(5)
    play.leaves("resync", ("broker", BrokerRequest(6)))
    unnamed()
    play.arrives(BrokerResponse(6, BROKER))
    play.arrives(CommandComplete(7))
    assert play.session.state is State.SYNCHRONISED
    play.left()
    unnamed()
    for _ in range(11):
        play.time_passes(5)
        beats(play, "1.0")
    assert not [one for one in play.left() if isinstance(one, str)]
    play.time_passes(5)
    assert [one for one in play.left() if isinstance(one, str)] == ["resync"]


@pytest.mark.parametrize("banks", [(), ("brokerBank",), ("agentBank",)])
def test_a_class_of_agents_without_banks_tells_of_none(banks: tuple[str, ...]) -> None:
    elements = [one for one in AGENT_CLASS.properties if one.name in {"label", *banks}]
    definition = ClassDefinition.of(replace(AGENT_CLASS, properties=tuple(elements)))
    values: tuple[str | int, ...] = ("farm", *(10 for _ in banks))
    told = PropertyContent(0, AGENT_CLASS.key, 1, 1, 0, OBJECT_ID, values)
    assert agent_described(definition, told) is None


def test_where_only_an_agent_s_package_is_wanted_its_heartbeats_show_it() -> None:
    """The broker's objects, its agents among them, are not learnt then, nor others' schemas asked for."""
    known = shop()
    known.add(ClassDefinition.of(AGENT_CLASS))
    play = ConsolePlay(ConsoleConfig(frozenset({AGENT_USER}), packages=frozenset({"shop"})), known=known)
    listed(play)
    play.arrives(got(5), CommandComplete(5))
    play.left()
    leaves_the_broker(play)
    play.leaves()
    beats(play)
    play.leaves(ResyncBegan("1.10"), HeartbeatSeen("1.10", START), ("agent.1.10", GetQuery(6, GET_TANKS)))
