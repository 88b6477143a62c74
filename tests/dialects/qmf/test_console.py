"""The console session as a play: what agents and time bring, and what it asks and tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.console_agents import Agents, HeartbeatRules
from gateway.dialects.qmf.console_states import TRANSITIONS, Signal, State, table
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    EventIndication,
    GetQuery,
    Heartbeat,
    ObjectContent,
    PackageIndication,
    PackageQuery,
    PropertyContent,
    SchemaRequest,
    SchemaResponse,
    StatisticContent,
)
from gateway.dialects.qmf.object_id import NULL, ObjectId
from gateway.dialects.qmf.typed_values import QmfValue, QmfValues
from gateway.dialects.qmf.writer import write
from gateway.model.events import Severity
from gateway.model.observations import (
    AgentLost,
    ClassLearned,
    EventLearned,
    EventSeen,
    Gap,
    HeartbeatSeen,
    ObjectSeen,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import Argument, ClassKey, ClassSchema, Element, EventSchema
from gateway.model.values import Reference, ValueType
from tests.dialects.qmf.examples import LEAK, OBJECT_ID, TANK, shop
from tests.dialects.qmf.playbook import AGENT_USER, BROKER, NEXT_BROKER, QUEUE, SECOND, START, ConsolePlay

PUSHED = "console.obj.1.0.shop.tank"
GREETING = SourceStateSeen(SourceState.CONNECTING, "greeting agents on exchange qpid.management")
SYNCHRONISING = SourceStateSeen(SourceState.SYNCHRONISING)
SYNCHRONISED = SourceStateSeen(SourceState.SYNCHRONISED)
GET_TANKS = {"_class": "tank", "_package": "shop"}
WITHOUT_HEARTBEATS = ConsoleConfig(
    believed=frozenset({AGENT_USER}), heartbeats=HeartbeatRules(expected=False)
)
SEEN = ObjectSeen(TANK.key, "1.0", "0-5-1-0-4386", START, START, 0, ("t1", 100, None, None), (50.0, 9))


def got(sequence: int, name: str = "t1", object_id: ObjectId = OBJECT_ID) -> ObjectContent:
    properties = (name, 100, None, None)
    return ObjectContent(sequence, TANK.key, START, START, 0, object_id, properties, (50.0, 9))


def changed(name: str = "t1", deleted: int = 0) -> PropertyContent:
    return PropertyContent(0, TANK.key, START, START, deleted, OBJECT_ID, (name, 100, None, None))


def filled(level: float = 60.0, deleted: int = 0) -> StatisticContent:
    return StatisticContent(0, TANK.key, START, START, deleted, OBJECT_ID, None, (level, 9))


def tank_schema(sequence: int) -> SchemaResponse:
    return SchemaResponse(sequence, ClassDefinition.of(TANK))


def listed(play: ConsolePlay) -> None:
    """Answer everything up to the get query of a first resync: requests 1 to 4."""
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(PackageIndication(2, "shop"))
    play.arrives(CommandComplete(2))
    play.arrives(ClassIndication(3, ClassKind.OBJECT, TANK.key))
    play.arrives(CommandComplete(3))
    play.arrives(tank_schema(4))
    play.left()


def synchronised(config: ConsoleConfig | None = None) -> ConsolePlay:
    """A console that knows the one tank there is; six requests were sent so far."""
    play = ConsolePlay(config)
    listed(play)
    play.arrives(got(5))
    play.arrives(CommandComplete(5))
    play.left()
    assert play.session.state is State.SYNCHRONISED
    return play


def test_a_first_resync_from_greeting_to_synchronised() -> None:
    play = ConsolePlay()
    play.connects()
    play.leaves(GREETING, ("broker", BrokerRequest(1)))
    play.arrives(BrokerResponse(1, BROKER))
    play.leaves(SYNCHRONISING, ("broker", PackageQuery(2)))
    play.arrives(PackageIndication(2, "shop"))
    play.leaves(("broker", ClassQuery(3, "shop")))
    play.arrives(CommandComplete(2))
    play.leaves()
    play.arrives(ClassIndication(3, ClassKind.OBJECT, TANK.key))
    play.leaves(("broker", SchemaRequest(4, TANK.key)))
    play.arrives(ClassIndication(3, ClassKind.EVENT, LEAK.key))
    play.leaves(("broker", SchemaRequest(5, LEAK.key)))
    play.arrives(CommandComplete(3))
    play.arrives(tank_schema(4))
    learnt = play.left()
    assert [type(step) for step in learnt] == [ClassLearned]
    play.arrives(SchemaResponse(5, EventDefinition.of(LEAK)))
    play.leaves(EventLearned(LEAK), ResyncBegan(), ("agent.1.0", GetQuery(6, GET_TANKS)))
    play.arrives(got(6))
    play.leaves(SEEN)
    play.arrives(CommandComplete(6))
    play.leaves(ResyncEnded(complete=True), SYNCHRONISED)
    assert play.session.broker == BROKER


def test_requests_say_where_to_answer_and_when_they_are_of_no_use_any_more() -> None:
    play = ConsolePlay()
    play.connects()
    (greeting,) = play.sent
    assert (greeting.exchange, greeting.routing_key, greeting.reply_to) == (
        "qpid.management",
        "broker",
        QUEUE,
    )
    assert greeting.content_type == "x-application/qmf"
    assert greeting.expiration == 10_000


def test_what_the_link_must_bind() -> None:
    bound = [(one.exchange, one.routing_key) for one in ConsoleSession(ConsoleConfig()).bindings("q")]
    assert bound == [
        ("amq.direct", "q"),
        ("qpid.management", "console.obj.#"),
        ("qpid.management", "console.event.#"),
        ("qpid.management", "console.heartbeat.#"),
        ("qpid.management", "schema.#"),
    ]
    narrow = ConsoleSession(ConsoleConfig(packages=frozenset({"b", "a"}))).bindings("q")
    assert [one.routing_key for one in narrow] == [
        "q",
        "console.obj.*.*.a.#",
        "console.obj.*.*.b.#",
        "console.event.*.*.a.#",
        "console.event.*.*.b.#",
        "console.heartbeat.#",
        "schema.#",
    ]


def test_pushes_are_told_as_they_come() -> None:
    play = synchronised()
    play.arrives(filled(), key=PUSHED)
    play.leaves(replace(SEEN, properties=None, statistics=(60.0, 9)))
    play.arrives(changed("t2"), key=PUSHED)
    play.leaves(replace(SEEN, properties=("t2", 100, None, None), statistics=None))


def test_properties_and_statistics_of_one_object_in_one_body_are_told_together() -> None:
    play = synchronised()
    play.arrives(changed(), filled(50.0), key=PUSHED)
    play.leaves(SEEN)


def test_a_deletion() -> None:
    play = synchronised()
    play.arrives(changed(deleted=START + 5), filled(50.0, deleted=START + 5), key=PUSHED)
    play.leaves(replace(SEEN, deleted=START + 5))


def test_an_object_created_and_deleted_between_two_looks() -> None:
    play = synchronised()
    play.arrives(changed(deleted=START + 5), key=PUSHED)
    play.leaves(replace(SEEN, deleted=START + 5, statistics=None))


def test_events() -> None:
    play = synchronised()
    play.arrives(ClassIndication(0, ClassKind.EVENT, LEAK.key), key="schema.class")
    play.leaves(("broker", SchemaRequest(6, LEAK.key)))
    play.arrives(SchemaResponse(6, EventDefinition.of(LEAK)))
    play.leaves(EventLearned(LEAK))
    play.arrives(EventIndication(0, LEAK.key, START, 3, ("t1", 5)), key="console.event.1.0.shop.leak")
    play.leaves(EventSeen(LEAK.key, "1.0", START, Severity.MAJOR, ("t1", 5)))


def test_an_event_not_known_yet_makes_its_schema_asked_for() -> None:
    play = synchronised()
    play.arrives(EventIndication(0, LEAK.key, START, 3, ("t1", 5)), key="console.event.1.0.shop.leak")
    play.leaves(("broker", SchemaRequest(6, LEAK.key)))
    play.arrives(SchemaResponse(6, EventDefinition.of(LEAK)))
    play.leaves(EventLearned(LEAK))


def test_objects_told_before_their_schema_are_asked_for_again() -> None:
    play = ConsolePlay()
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(CommandComplete(2))
    play.left()
    assert play.session.state is State.SYNCHRONISED
    play.arrives(changed(), filled(), key=PUSHED)
    play.leaves(("broker", SchemaRequest(3, TANK.key)))
    play.arrives(changed(), key=PUSHED)  # asked for once is enough
    play.leaves()
    play.arrives(tank_schema(3))
    assert play.left()[1:] == [("agent.1.0", GetQuery(4, GET_TANKS))]
    play.arrives(got(4))
    play.arrives(CommandComplete(4))
    play.leaves(SEEN)


def test_objects_of_a_class_that_appears_during_a_resync_belong_to_it() -> None:
    play = ConsolePlay()
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(changed(), key=PUSHED)
    play.left()
    play.arrives(CommandComplete(2))
    play.leaves()
    play.arrives(tank_schema(3))
    assert play.left()[1:] == [ResyncBegan(), ("agent.1.0", GetQuery(4, GET_TANKS))]


def test_pushes_during_a_resync_are_applied() -> None:
    play = ConsolePlay()
    listed(play)
    play.arrives(changed(deleted=START + 1), key=PUSHED)
    play.leaves(replace(SEEN, deleted=START + 1, statistics=None))


def test_a_reply_that_never_ends_leaves_the_resync_incomplete_and_it_is_tried_again() -> None:
    play = ConsolePlay(WITHOUT_HEARTBEATS)
    listed(play)
    play.time_passes(9)
    play.arrives(got(5))  # part of a reply: patience begins anew
    play.leaves(SEEN)
    play.time_passes(10)
    play.leaves(("agent.1.0", GetQuery(6, GET_TANKS)))
    play.time_passes(20)
    play.leaves(("agent.1.0", GetQuery(7, GET_TANKS)))
    play.time_passes(30)
    play.leaves(
        ResyncEnded(complete=False),
        SourceStateSeen(
            SourceState.DEGRADED, "resync incomplete: no answer to FetchObjects; next attempt in 5 s"
        ),
        "no-answer",
    )
    assert play.session.state is State.DOUBTFUL
    play.time_passes(5)
    play.leaves("resync", ("broker", BrokerRequest(8)))


def test_a_late_answer_to_an_earlier_attempt_counts() -> None:
    play = ConsolePlay()
    listed(play)
    play.time_passes(10)
    play.leaves(("agent.1.0", GetQuery(6, GET_TANKS)))
    play.arrives(got(5))
    play.arrives(CommandComplete(5))
    play.leaves(SEEN, ResyncEnded(complete=True), SYNCHRONISED)


def test_the_wait_between_attempts_grows_to_a_limit() -> None:
    config = ConsoleConfig()
    waits = [config.retry_after(attempt) // SECOND for attempt in (1, 2, 3, 4, 9, 1000)]
    assert waits == [5, 10, 20, 40, 300, 300]


def test_a_refused_get_query_leaves_the_resync_incomplete() -> None:
    play = ConsolePlay()
    listed(play)
    play.arrives(CommandComplete(5, 1, "no"))
    play.leaves(
        ResyncEnded(complete=False),
        SourceStateSeen(
            SourceState.DEGRADED, "resync incomplete: FetchObjects refused: no (1); next attempt in 5 s"
        ),
    )


def test_no_answer_to_the_greeting() -> None:
    play = ConsolePlay()
    play.connects()
    play.left()
    play.time_passes(10)
    play.leaves(
        SourceStateSeen(
            SourceState.DOWN,
            "no answer to the greeting on exchange qpid.management for 10 s: is an agent running there, "
            "and does it obey this user?",
        ),
        ("broker", BrokerRequest(2)),
    )
    play.time_passes(600)
    later = play.left()
    assert all(isinstance(step, tuple) for step in later)
    assert 15 < len(later) < 25
    play.arrives(BrokerResponse(play.sequence(), BROKER))
    assert SYNCHRONISING in play.left()


def test_an_agent_that_starts_is_greeted_at_once() -> None:
    play = ConsolePlay()
    play.connects()
    play.time_passes(25)
    play.left()
    play.arrives(PackageIndication(0, "shop"), key="schema.package")
    play.leaves(("broker", BrokerRequest(3)))


def test_an_agent_that_restarts_is_another_incarnation() -> None:
    play = synchronised()
    play.time_passes(5)
    play.arrives(PackageIndication(0, "shop"), key="schema.package")
    play.leaves("resync", ("broker", BrokerRequest(6)))
    play.arrives(BrokerResponse(6, NEXT_BROKER))
    play.leaves(
        Gap(START, START + 5 * SECOND, "agent 1.0 started anew"), SYNCHRONISING, ("broker", PackageQuery(7))
    )
    play.arrives(PackageIndication(7, "shop"), CommandComplete(7))
    play.arrives(ClassIndication(8, ClassKind.OBJECT, TANK.key), CommandComplete(8))
    play.leaves(
        ("broker", ClassQuery(8, "shop")), ResyncBegan(restarted=True), ("agent.1.0", GetQuery(9, GET_TANKS))
    )
    assert play.session.broker == NEXT_BROKER


def test_an_agent_that_only_announces_itself_again_is_read_again_without_a_restart() -> None:
    play = synchronised()
    play.time_passes(5)
    play.arrives(PackageIndication(0, "shop"), key="schema.package")
    play.arrives(BrokerResponse(6, BROKER))
    play.arrives(CommandComplete(7))
    play.leaves(
        "resync",
        ("broker", BrokerRequest(6)),
        SYNCHRONISING,
        ("broker", PackageQuery(7)),
        ResyncBegan(),
        ResyncEnded(complete=True),
        SYNCHRONISED,
    )


def test_announcements_do_not_make_a_storm() -> None:
    play = synchronised()
    play.time_passes(5)
    for _ in range(100):
        play.arrives(PackageIndication(0, "shop"), key="schema.package")
        play.time_passes(0.1)
    greetings = [
        step for step in play.left() if isinstance(step, tuple) and isinstance(step[1], BrokerRequest)
    ]
    assert 4 <= len(greetings) <= 6


def test_a_silent_agent_is_lost_and_its_heartbeat_makes_everything_doubtful() -> None:
    play = synchronised()
    play.time_passes(2)
    play.arrives(Heartbeat(0, START + 2 * SECOND), key="console.heartbeat.1.0")
    play.leaves(HeartbeatSeen("1.0", START + 2 * SECOND))
    play.time_passes(2)
    play.arrives(Heartbeat(0, START + 4 * SECOND), key="console.heartbeat.1.0")  # so it comes every 2 s
    play.left()
    play.time_passes(7)
    play.leaves(
        AgentLost("1.0", "agent 1.0 has been silent for 6 s"),
        SourceStateSeen(SourceState.DEGRADED, "agent 1.0 has been silent for 6 s; next attempt in 5 s"),
    )
    assert play.session.state is State.DOUBTFUL
    play.arrives(Heartbeat(0, START + 11 * SECOND), key="console.heartbeat.1.0")
    play.leaves(
        Gap(START + 4 * SECOND, START + 11 * SECOND, "agent 1.0 was silent"),
        HeartbeatSeen("1.0", START + 11 * SECOND),
        "resync",
        ("broker", BrokerRequest(6)),
    )


def test_a_silent_agent_is_greeted_again_by_and_by() -> None:
    play = synchronised()
    play.time_passes(30)
    assert play.left()[0] == AgentLost("1.0", "agent 1.0 has been silent for 30 s")
    play.time_passes(5)
    play.leaves("resync", ("broker", BrokerRequest(6)))
    play.arrives(BrokerResponse(6, BROKER))
    assert play.left()[0] == Gap(START, START + 35 * SECOND, "agent 1.0 was silent")


def test_an_agent_that_never_sent_heartbeats_is_not_missed_where_none_are_expected() -> None:
    play = synchronised(WITHOUT_HEARTBEATS)
    play.time_passes(3600)
    play.leaves()


@pytest.mark.parametrize(
    ("beats", "silence"),
    [
        ([(2, 2), (4, 4), (6, 6)], 6),  # an agent that is quicker than what is assumed
        ([(2, 2), (22, 22)], 60),  # one that is slower
        ([(2, 2), (4, 4), (100_000, 6)], 6),  # its clock was set
        ([(2, 2), (12, 32), (22, 32), (32, 32)], 30),  # heartbeats were held up
        ([(2, 2), (1, 4)], 30),  # its clock went back
        ([(2, 2), (2, 4)], 30),
        ([(100, 2), (100.5, 2.5)], 3),  # never less than a second
        ([(0, 0), (20_000, 20_000)], 10_800),  # nor more than an hour
    ],
)
def test_how_long_silence_may_last_is_learnt_from_heartbeats(
    beats: list[tuple[float, float]], silence: int
) -> None:
    agents = Agents(HeartbeatRules(), limit=1)
    for time, now in beats:
        agents.heard("1.0", int(now * SECOND))
        agents.beat("1.0", int(time * SECOND), int(now * SECOND))
    assert agents.next_deadline == int(beats[-1][1] * SECOND) + silence * SECOND


def test_there_is_an_end_to_the_agents_that_are_watched() -> None:
    agents = Agents(HeartbeatRules(), limit=1)
    agents.heard("1.0", START)
    agents.heard("1.10", START)
    agents.beat("1.10", START, START)
    assert list(agents) == ["1.0"]


def test_a_remote_agent_is_asked_for_its_objects_too() -> None:
    play = synchronised()
    play.arrives(Heartbeat(0, START), key="console.heartbeat.1.10")
    play.leaves(HeartbeatSeen("1.10", START), ("agent.1.10", GetQuery(6, GET_TANKS)))
    theirs = ObjectId.of(sequence=1, agent_bank=10, number=1)
    play.arrives(got(6, object_id=theirs), CommandComplete(6))
    play.leaves(replace(SEEN, agent="1.10", native_id="0-1-1-10-1"))
    play.time_passes(1)
    play.arrives(Heartbeat(0, START + SECOND), key="console.heartbeat.1.10")
    play.left()
    play.time_passes(4)
    assert AgentLost("1.10", "agent 1.10 has been silent for 3 s") in play.left()
    assert play.session.state is State.SYNCHRONISED


def test_agents_beyond_the_limit_are_believed_but_not_asked() -> None:
    play = synchronised(ConsoleConfig(believed=frozenset({AGENT_USER}), agent_limit=1))
    play.arrives(Heartbeat(0, START), key="console.heartbeat.1.10")
    play.leaves(HeartbeatSeen("1.10", START))


AGENT_CLASS = ClassSchema(
    ClassKey("org.apache.qpid.broker", "agent", b"A" * 16),
    (
        Element("label", ValueType.STRING),
        Element("brokerBank", ValueType.U32),
        Element("agentBank", ValueType.U32),
    ),
)


def test_a_qpid_broker_tells_which_agents_come_and_go() -> None:
    known = shop()
    known.add(ClassDefinition.of(AGENT_CLASS))
    play = ConsolePlay(known=known)
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(PackageIndication(2, "org.apache.qpid.broker"), CommandComplete(2))
    play.arrives(ClassIndication(3, ClassKind.OBJECT, AGENT_CLASS.key), CommandComplete(3))
    play.arrives(SchemaResponse(4, ClassDefinition.of(AGENT_CLASS)))
    play.left()
    agent = ObjectContent(5, AGENT_CLASS.key, 1, 1, 0, OBJECT_ID, ("farm", 1, 10), ())
    play.arrives(agent)
    query = GetQuery(6, {"_class": "agent", "_package": "org.apache.qpid.broker"})
    assert play.left()[1:] == [("agent.1.10", query)]
    gone = PropertyContent(0, AGENT_CLASS.key, 1, 1, 2, OBJECT_ID, ("farm", 1, 10))
    play.arrives(gone, key="console.obj.1.0.org.apache.qpid.broker.agent")
    assert play.left()[1:] == [AgentLost("1.10", "agent 1.10 left the broker")]
    play.arrives(gone, key="console.obj.1.0.org.apache.qpid.broker.agent")
    assert len(play.left()) == 1
    play.arrives(CommandComplete(5))
    assert ResyncEnded(complete=True) in play.left()


def test_a_disconnection_in_the_middle_of_a_resync() -> None:
    play = ConsolePlay()
    listed(play)
    play.time_passes(1)
    play.disconnects("connection reset by peer")
    play.leaves(ResyncEnded(complete=False), SourceStateSeen(SourceState.DOWN, "connection reset by peer"))
    play.arrives(got(5))
    play.time_passes(3600)
    play.leaves()
    play.connects()
    reconnected = START + 3601 * SECOND
    play.leaves(Gap(START + SECOND, reconnected, "not connected"), GREETING, ("broker", BrokerRequest(6)))
    play.arrives(got(5), CommandComplete(5))  # from before: content is content, its end means nothing
    play.leaves(SEEN)


def test_what_is_known_of_schemas_outlives_a_connection() -> None:
    play = synchronised()
    play.disconnects()
    play.connects()
    play.left()
    play.arrives(BrokerResponse(6, BROKER))
    play.arrives(PackageIndication(7, "shop"), CommandComplete(7))
    play.arrives(ClassIndication(8, ClassKind.OBJECT, TANK.key), CommandComplete(8))
    play.leaves(
        SYNCHRONISING,
        ("broker", PackageQuery(7)),
        ("broker", ClassQuery(8, "shop")),
        ResyncBegan(),
        ("agent.1.0", GetQuery(9, GET_TANKS)),
    )


def test_a_resync_can_be_asked_for() -> None:
    play = synchronised()
    play.take(play.session.resync("the queue overflowed", play.now))
    play.leaves("resync", ("broker", BrokerRequest(6)))
    play.take(play.session.resync("again", play.now))
    play.leaves(("broker", BrokerRequest(7)))
    play.disconnects()
    play.left()
    play.take(play.session.resync("nobody listens", play.now))
    play.leaves()


def test_messages_of_others_are_not_believed() -> None:
    play = synchronised()
    play.arrives(changed("forged"), key=PUSHED, user="guest")
    play.arrives(changed("forged"), key=PUSHED, user="")
    play.leaves("refused-sender", "refused-sender")


def test_a_broker_that_sends_no_user_is_believed_where_that_is_configured() -> None:
    play = ConsolePlay(ConsoleConfig(believe_anyone=True))
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
    assert play.session.state is State.DOUBTFUL


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
    play = ConsolePlay(ConsoleConfig(believed=frozenset({AGENT_USER}), packages=frozenset({"barn"})))
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
    play = synchronised(ConsoleConfig(believed=frozenset({AGENT_USER}), class_limit=1))
    for letter in "abc":
        key = ClassKey("shop", letter, letter.encode() * 16)
        play.arrives(ClassIndication(0, ClassKind.OBJECT, key), key="schema.class")
    assert play.notes() == ["too-many-classes"] * 3


def test_there_is_an_end_to_the_requests_that_wait() -> None:
    play = ConsolePlay(ConsoleConfig(believed=frozenset({AGENT_USER}), request_limit=50))
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


def test_disconnecting_twice_tells_why_the_second_time() -> None:
    play = ConsolePlay()
    play.disconnects("refused")
    play.disconnects("unknown virtual host")
    play.leaves(
        SourceStateSeen(SourceState.DOWN, "refused"),
        SourceStateSeen(SourceState.DOWN, "unknown virtual host"),
    )


def test_the_table_of_states_is_printable_and_complete() -> None:
    lines = table().splitlines()
    assert len(lines) == len(TRANSITIONS)
    assert "greeting      answered      -> listing" in lines
    assert {signal for _, signal in TRANSITIONS} == set(Signal)
    assert {state for state, _ in TRANSITIONS} == set(State)
