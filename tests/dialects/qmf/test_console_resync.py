"""The console session as a play: the first resync, and pushes during and after it."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.definitions import EventDefinition
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    EventIndication,
    GetQuery,
    PackageIndication,
    PackageQuery,
    SchemaRequest,
    SchemaResponse,
)
from gateway.dialects.qmf.session_state import State
from gateway.model.observations import (
    ClassLearned,
    EventLearned,
    EventSeen,
    RecordLost,
    ResyncBegan,
    ResyncEnded,
    Severity,
    SourceState,
    SourceStateSeen,
)
from gateway.model.times import SECOND
from tests.dialects.qmf.console_story import (
    GET_TANKS,
    GREETING,
    PUSHED,
    SEEN,
    SYNCHRONISED,
    SYNCHRONISING,
    WITHOUT_HEARTBEATS,
    changed,
    filled,
    got,
    listed,
    synchronised,
    tank_schema,
)
from tests.dialects.qmf.examples import LEAK, TANK
from tests.dialects.qmf.playbook import BROKER, QUEUE, START, ConsolePlay


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


def test_pushes_are_reported_as_they_come() -> None:
    play = synchronised()
    play.arrives(filled(), key=PUSHED)
    play.leaves(replace(SEEN, properties=None, statistics=(60.0, 9)))
    play.arrives(changed("t2"), key=PUSHED)
    play.leaves(replace(SEEN, properties=("t2", 100, None, None), statistics=None))


def test_properties_and_statistics_of_one_object_in_one_body_are_reported_together() -> None:
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
    play.leaves(RecordLost(LEAK.key, "1.0"), ("broker", SchemaRequest(6, LEAK.key)))
    play.arrives(SchemaResponse(6, EventDefinition.of(LEAK)))
    play.leaves(EventLearned(LEAK))


def test_the_end_of_an_object_reported_before_its_schema_is_lost_and_reported_as_lost() -> None:
    play = ConsolePlay()
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(CommandComplete(2))
    play.left()
    play.arrives(changed(deleted=START + 5), key=PUSHED)
    play.leaves(RecordLost(TANK.key, "1.0"), ("broker", SchemaRequest(3, TANK.key)))


def test_objects_reported_before_their_schema_are_asked_for_again() -> None:
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
    play.arrives(got(5))  # part of a reply: patience begins again
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
    assert play.session.state is State.DEGRADED
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
            "and does it accept requests of this user?",
        ),
        ("broker", BrokerRequest(2)),
    )
    play.time_passes(600)
    later = play.left()
    assert all(isinstance(step, tuple) for step in later)
    assert 15 < len(later) < 25
    play.arrives(BrokerResponse(play.sequence(), BROKER))
    assert SYNCHRONISING in play.left()


def test_a_greeting_that_is_refused_is_reported_with_what_was_said_and_repeated() -> None:
    play = ConsolePlay()
    play.connects()
    play.left()
    play.arrives(CommandComplete(1, 7, "not\nnow"))
    play.leaves()
    play.time_passes(10)
    play.leaves(
        SourceStateSeen(
            SourceState.DOWN, "the greeting on exchange qpid.management was refused: not now (7)"
        ),
        ("broker", BrokerRequest(2)),
    )
    play.arrives(BrokerResponse(2, BROKER))
    assert SYNCHRONISING in play.left()
