"""The console session and agents beside the broker's own: they appear, are read, called, and end."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.console_agents import agent_described
from gateway.dialects.qmf.console_requests import FetchObjects, FetchSchema, RequestRules, Requests, Subject
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.fields import ObjectId
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
    PackageIndication,
    PropertyContent,
    SchemaRequest,
    SchemaResponse,
)
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import LossSuspected, PropertiesMissing, TimerExpired
from gateway.model.observations import (
    AgentGone,
    AgentLost,
    HeartbeatSeen,
    RecordLost,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.operations import Answer, Outcome
from gateway.model.times import SECOND
from tests.dialects.qmf.console_story import (
    GET_TANKS,
    changed,
    got,
    listed,
    synchronised,
)
from tests.dialects.qmf.examples import LEAK, OBJECT_ID, TANK, shop
from tests.dialects.qmf.operations_story import ARGUMENTS, FIRST, OUTPUTS, calls, drain, fetches
from tests.dialects.qmf.playbook import AGENT_USER, BROKER, NEXT_BROKER, START, ConsolePlay, Step
from tests.dialects.qmf.remote_agents_story import (
    AGENT_CLASS,
    AGENTS_PUSHED,
    GET_AGENTS,
    GONE,
    LEFT,
    THEIR_TANK,
    THEIRS,
    TRUSTED,
    agent_object,
    beats,
    leaves_the_broker,
    of_a_qpid_broker,
    passes,
    with_agent,
)


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
    assert AgentLost("1.10", "agent 1.10 has been silent for 3 s", remote=True) in play.left()
    assert play.session.state is State.SYNCHRONISED
    play.time_passes(1)
    beats(play)
    assert play.left()[-1] == ("agent.1.10", GetQuery(7, GET_TANKS)), "it is read again, and nobody else"


ONE_AGENT = ConsoleConfig(TRUSTED, agent_limit=2)
"""The configuration of a console that allows one agent beside the broker's own."""


def test_agents_beyond_the_limit_are_left_out_because_their_end_would_not_be_noticed() -> None:
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
    assert play.session.state is State.DEGRADED


def test_an_agent_that_is_lost_makes_room_for_another() -> None:
    play = with_agent(ONE_AGENT)
    play.arrives(CommandComplete(6))
    play.time_passes(29)
    play.arrives(changed())
    play.time_passes(2)
    assert AgentLost("1.10", "agent 1.10 has been silent for 30 s", remote=True) in play.left()
    beats(play, "1.11")
    assert play.left()[:2] == [
        AgentGone("1.10", "agent 1.10 is gone: it is silent, and another one came"),
        ResyncBegan("1.11"),
    ]
    beats(play)
    play.leaves("too-many-agents")


def test_the_agent_of_the_broker_is_read_however_many_others_came_first() -> None:
    play = ConsolePlay(ONE_AGENT)
    play.connects()
    for bank in range(10, 20):
        beats(play, f"1.{bank}")
    play.left()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(Heartbeat(0, play.now), key="console.heartbeat.1.0")
    assert play.left()[-1] == HeartbeatSeen("1.0", play.now)


def test_a_class_that_the_broker_does_not_list_any_more_is_asked_for_all_the_same() -> None:
    """Brokers forget the classes of agents that were not there when they restarted."""
    play = synchronised()
    play.take(play.session.handle(LossSuspected("test"), play.now))
    play.arrives(BrokerResponse(6, BROKER))
    play.arrives(CommandComplete(7))
    beats(play)
    assert play.left()[-1] == ("agent.1.10", GetQuery(8, GET_TANKS))


@pytest.mark.parametrize("ends", ["link", "resync"])
def test_a_reading_ends_incomplete_with_what_it_needs(ends: str) -> None:
    play = with_agent()
    if ends == "link":
        play.disconnects("reset")
        last: object = SourceStateSeen(SourceState.DOWN, "reset")
    else:
        play.take(play.session.handle(LossSuspected("test"), play.now))
        last = ("broker", BrokerRequest(7))
    reported = play.left()
    assert reported[0] == ResyncEnded(complete=False, agent="1.10")
    assert reported[-1] == last


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


def test_a_qpid_broker_says_which_agents_come_and_go() -> None:
    play = of_a_qpid_broker()
    play.arrives(agent_object(5))
    assert play.left()[1:] == [("agent.1.10", GetQuery(6, GET_AGENTS))]
    leaves_the_broker(play)
    assert play.left()[1:] == [LEFT]
    leaves_the_broker(play)
    assert play.left() == []
    play.arrives(CommandComplete(5))
    ended = ResyncEnded(complete=True, without=frozenset({"1.10"}))
    assert ended in play.left(), "nothing of an agent that left is waited for"


def test_an_agent_that_leaves_while_it_is_read() -> None:
    play = of_a_qpid_broker()
    play.arrives(CommandComplete(5))
    play.left()
    play.arrives(PropertyContent(0, AGENT_CLASS.key, 1, 1, 0, OBJECT_ID, ("farm", 1, 10)), key=AGENTS_PUSHED)
    assert play.left()[1] == ResyncBegan("1.10")
    leaves_the_broker(play)
    assert play.left()[1:] == [
        ResyncEnded(complete=False, agent="1.10"),
        LEFT,
    ]
    play.time_passes(25)
    play.leaves()


def test_what_an_agent_had_before_it_came_back_is_reported_again() -> None:
    play = of_a_qpid_broker()
    play.arrives(agent_object(5), CommandComplete(5))
    leaves_the_broker(play)
    play.left()
    play.arrives(PropertyContent(0, AGENT_CLASS.key, 3, 3, 0, OBJECT_ID, ("farm", 1, 10)), key=AGENTS_PUSHED)
    assert play.left()[1] == ResyncBegan("1.10")


def test_an_agent_that_left_has_a_moment_to_return() -> None:
    play = of_a_qpid_broker()
    play.arrives(agent_object(5), CommandComplete(5))
    leaves_the_broker(play)
    play.left()
    passes(play, 25, "1.0")
    play.leaves()
    assert passes(play, 5, "1.0") == [GONE]
    assert passes(play, 60, "1.0") == []


def test_an_agent_that_returns_in_time_is_not_gone() -> None:
    play = of_a_qpid_broker()
    play.arrives(agent_object(5), CommandComplete(5))
    leaves_the_broker(play)
    beats(play)
    assert ResyncBegan("1.10") in play.left()
    assert GONE not in passes(play, 60, "1.0", "1.10")


def test_agents_that_leave_faster_than_they_are_forgotten_are_forgotten_at_once() -> None:
    play = of_a_qpid_broker(ONE_AGENT)
    for bank in (11, 12, 10):
        for deleted in (0, 200):
            described = PropertyContent(0, AGENT_CLASS.key, bank, bank, deleted, OBJECT_ID, ("farm", 1, bank))
            play.arrives(described, key=AGENTS_PUSHED)
    gone = [one for one in play.left() if isinstance(one, AgentGone)]
    assert gone == [AgentGone("1.11", "agent 1.11 is gone: others came and went since")]


# The link breaks, and the agents are elsewhere meanwhile.


def read_again(play: ConsolePlay, broker: UUID = BROKER) -> None:
    """Connect again, to a broker of this identity, and answer all but the queries for objects."""
    play.connects()
    play.left()
    play.arrives(BrokerResponse(7, broker))
    play.arrives(PackageIndication(8, "shop"), CommandComplete(8))
    play.arrives(ClassIndication(9, ClassKind.OBJECT, TANK.key), CommandComplete(9))


def cut_off() -> ConsolePlay:
    """Return a console that knows an agent and has lost its link."""
    play = with_agent()
    play.arrives(CommandComplete(6))
    play.disconnects("reset")
    play.left()
    return play


@pytest.mark.parametrize("broker", [BROKER, NEXT_BROKER], ids=["link", "broker"])
def test_an_agent_that_ended_while_the_link_was_down_is_removed_when_it_would_have_reported(
    broker: UUID,
) -> None:
    play = cut_off()
    read_again(play, broker)
    play.arrives(CommandComplete(10))
    assert ResyncEnded(complete=True, without=frozenset({"1.10"})) in play.left()
    assert passes(play, 25, "1.0") == []
    assert passes(play, 5, "1.0") == [GONE]


def test_an_agent_that_reports_again_behind_a_broken_link_is_read() -> None:
    play = cut_off()
    read_again(play)
    play.arrives(CommandComplete(10))
    assert play.session.state is State.SYNCHRONISED
    play.left()
    beats(play)
    assert play.left()[0] == ResyncBegan("1.10")


def test_no_agent_is_gone_while_no_message_can_arrive() -> None:
    play = cut_off()
    play.connects()
    play.left()
    reported = passes(play, 120)
    assert not [one for one in reported if isinstance(one, AgentGone)]
    greeted = [one[1] for one in reported if isinstance(one, tuple)][-1]
    assert isinstance(greeted, BrokerRequest)
    play.arrives(BrokerResponse(greeted.sequence, BROKER))
    beats(play)
    assert GONE not in play.left()


def test_an_agent_that_is_silent_for_a_day_is_gone() -> None:
    play = with_agent()
    play.arrives(CommandComplete(6))
    reported: list[Step] = []
    while play.now - START < 86_500 * SECOND:
        play.time_passes(20)
        beats(play, "1.0")
        reported += [one for one in play.left() if isinstance(one, AgentLost | AgentGone)]
    assert reported == [
        AgentLost("1.10", "agent 1.10 has been silent for 30 s", remote=True),
        AgentGone("1.10", "agent 1.10 is gone: it is silent for all too long"),
    ]


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


def test_objects_whose_properties_were_never_reported_are_read_before_long_and_not_too_often() -> None:
    play = synchronised()

    def unnamed() -> None:
        play.session.handle(PropertiesMissing(), play.now)
        play.take(play.session.handle(TimerExpired(), play.now))

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
def test_a_class_of_agents_without_banks_reports_none(banks: tuple[str, ...]) -> None:
    elements = [one for one in AGENT_CLASS.properties if one.name in {"label", *banks}]
    definition = ClassDefinition.of(replace(AGENT_CLASS, properties=tuple(elements)))
    values: tuple[str | int, ...] = ("farm", *(10 for _ in banks))
    reported = PropertyContent(0, AGENT_CLASS.key, 1, 1, 0, OBJECT_ID, values)
    assert agent_described(definition, reported) is None


def test_where_only_an_agent_s_package_is_wanted_its_heartbeats_show_it() -> None:
    """The broker's objects, including its agents, and schemas of other packages are not read then."""
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


def test_an_agent_of_before_the_start_has_a_moment_to_return() -> None:
    config = ConsoleConfig(trusted_users=TRUSTED, restored_agents=("1.10",))
    play = synchronised(config)
    assert passes(play, 25, "1.0") == []
    assert passes(play, 10, "1.0") == [GONE]

    back = synchronised(config)
    beats(back)
    back.left()
    assert GONE not in passes(back, 35, "1.0", "1.10")
