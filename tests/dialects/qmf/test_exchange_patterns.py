"""The three exchange patterns of QMF AM2 as a console performs them, including all failures."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.messages import (
    AttachRequest,
    AttachResponse,
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    ConsoleAdded,
    EventIndication,
    GetQuery,
    Heartbeat,
    Message,
    MethodRequest,
    MethodResponse,
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
    HeartbeatSeen,
    ObjectSeen,
    ResyncBegan,
    ResyncEnded,
    Severity,
    SourceState,
    SourceStateSeen,
)
from gateway.model.operations import Answer, Outcome
from gateway.model.schema import ClassKey
from tests.dialects.qmf.console_story import (
    GET_TANKS,
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
from tests.dialects.qmf.examples import LEAK, OBJECT_ID, TANK
from tests.dialects.qmf.operations_story import FIRST, OUTPUTS, calls, drain, fetches, unanswered
from tests.dialects.qmf.playbook import BROKER, START, ConsolePlay, Step

CODES = [1, 2, 3, 7, 0x10000, 0xFFFF_FFFF]
POND = ClassKey("shop", "pond", b"P" * 16)


def degraded(what: str) -> list[Step]:
    """Return the steps of a resync that ended incomplete."""
    detail = f"resync incomplete: {what}; next attempt in 5 s"
    return [ResyncEnded(complete=False), SourceStateSeen(SourceState.DEGRADED, detail)]


# Request-Response: one response, or a completion with an error, of the request's sequence.


def asks_schema() -> ConsolePlay:
    """Return a console that waits for the schema of a tank: request 4."""
    play = ConsolePlay(WITHOUT_HEARTBEATS)
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(PackageIndication(2, "shop"), CommandComplete(2))
    play.arrives(ClassIndication(3, ClassKind.OBJECT, TANK.key), CommandComplete(3))
    assert play.left()[-1] == ("broker", SchemaRequest(4, TANK.key))
    return play


def test_a_request_is_answered_by_one_response() -> None:
    play = asks_schema()
    play.arrives(tank_schema(4))
    learnt, *asked = play.left()
    assert isinstance(learnt, ClassLearned)
    assert asked == [ResyncBegan(), ("agent.1.0", GetQuery(5, GET_TANKS))]
    play.arrives(tank_schema(4))
    play.arrives(CommandComplete(4))
    play.leaves()


@pytest.mark.parametrize("code", [0, *CODES])
def test_a_request_that_is_completed_without_a_response_had_none(code: int) -> None:
    """Code 0 instead is no answer either: it has no schema."""
    play = asks_schema()
    play.arrives(CommandComplete(4, code, "Class key not found"))
    play.leaves(ResyncBegan(), "no-schema", ("agent.1.0", GetQuery(5, GET_TANKS)))
    play.arrives(CommandComplete(5))
    play.leaves(ResyncEnded(complete=True), SYNCHRONISED)


@pytest.mark.parametrize(
    "stray", [CommandComplete(99, 1, "no"), CommandComplete(0), tank_schema(99), tank_schema(0)]
)
def test_a_response_of_another_sequence_answers_nothing(stray: Message) -> None:
    play = asks_schema()
    play.arrives(stray)
    play.leaves()
    play.arrives(tank_schema(4))
    assert isinstance(play.left()[0], ClassLearned)


def test_a_response_about_something_else_answers_nothing() -> None:
    play = asks_schema()
    play.arrives(SchemaResponse(4, EventDefinition.of(LEAK)))
    play.leaves()
    play.arrives(MethodResponse(4, 0, "OK"))
    play.leaves()
    play.time_passes(10)
    play.leaves(("broker", SchemaRequest(5, TANK.key)))


def test_a_response_that_never_comes_is_given_up_and_one_that_comes_after_that_means_nothing() -> None:
    play = asks_schema()
    play.time_passes(60)
    assert play.left() == [
        ("broker", SchemaRequest(5, TANK.key)),
        ("broker", SchemaRequest(6, TANK.key)),
        ResyncBegan(),
        "no-answer",
        ("agent.1.0", GetQuery(7, GET_TANKS)),
    ]
    play.arrives(tank_schema(4), tank_schema(6))
    play.leaves()
    play.arrives(CommandComplete(7))
    play.leaves(*degraded("no answer to FetchSchema"))


def test_a_response_to_an_earlier_attempt_counts() -> None:
    play = asks_schema()
    play.time_passes(10)
    play.arrives(tank_schema(4))
    assert [one for one in play.left() if isinstance(one, ClassLearned)]


def test_a_greeting_is_answered_by_b_and_by_nothing_else() -> None:
    play = ConsolePlay()
    play.connects()
    play.left()
    for answer in (CommandComplete(1), CommandComplete(1, 1, "no"), BrokerResponse(99, BROKER)):
        play.arrives(answer)
    play.leaves()
    play.arrives(BrokerResponse(1, BROKER), BrokerResponse(1, UUID(int=9)), CommandComplete(1))
    play.leaves(SYNCHRONISING, ("broker", PackageQuery(2)))
    assert play.session.broker == BROKER, "the second answer came too late"


def test_a_call_is_answered_once() -> None:
    play = synchronised()
    calls(play)
    play.left()
    for stray in (MethodResponse(FIRST + 7, 0, "OK", OUTPUTS), MethodResponse(0, 0, "OK", OUTPUTS)):
        play.arrives(stray)
    play.arrives(CommandComplete(FIRST))
    play.leaves()
    play.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    play.arrives(MethodResponse(FIRST, 7, "no"))
    play.leaves(Answer(1, Outcome.APPLIED, "OK", 0, (2.5, "cd")))


@pytest.mark.parametrize("code", CODES)
def test_a_call_that_is_completed_with_an_error_failed(code: int) -> None:
    play = synchronised()
    calls(play)
    play.left()
    play.arrives(CommandComplete(FIRST, code, "no"))
    play.leaves(Answer(1, Outcome.REMOTE_FAILURE, "no", code))


@pytest.mark.parametrize("text", [b"\x0dUnknownMethod", b"\0\x0dUnknownMethod"])
def test_the_text_of_an_unknown_method_has_either_width(text: bytes) -> None:
    play = synchronised()
    calls(play)
    play.left()
    play.arrives_octets(b"AM2m" + FIRST.to_bytes(4, "big") + b"\0\0\0\x02" + text)
    play.leaves(Answer(1, Outcome.UNKNOWN_ELEMENT, "UnknownMethod", 2))


def test_a_call_whose_answer_comes_late_is_answered_twice() -> None:
    play = synchronised(WITHOUT_HEARTBEATS)
    calls(play)
    play.left()
    play.time_passes(10)
    play.leaves(unanswered())
    for _ in range(2):
        play.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    play.leaves(Answer(1, Outcome.APPLIED, "OK", 0, (2.5, "cd")))


def test_a_call_of_an_agent_that_falls_silent_is_open() -> None:
    play = synchronised()
    play.time_passes(25)
    calls(play, drain(play))
    play.time_passes(6)
    play.left()
    calls(play, drain(play, 2))
    play.leaves(Answer(2, Outcome.SOURCE_DOWN, "not sent: agent 1.0 is silent"))
    play.time_passes(4)
    assert unanswered() in play.left()


# Query-Indication: any number of indications, then a completion; with an error, no indications.


def lists_classes() -> ConsolePlay:
    """Return a console that waits for the classes of a package: request 3."""
    play = ConsolePlay(WITHOUT_HEARTBEATS)
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(PackageIndication(2, "shop"), CommandComplete(2))
    assert play.left()[-1] == ("broker", ClassQuery(3, "shop"))
    return play


def fetching() -> ConsolePlay:
    """Return a console that waits for the tanks: request 5."""
    play = ConsolePlay(WITHOUT_HEARTBEATS)
    listed(play)
    return play


def test_a_query_may_have_no_answers() -> None:
    play = fetching()
    play.arrives(CommandComplete(5, 0, ""))
    play.leaves(ResyncEnded(complete=True), SYNCHRONISED)


@pytest.mark.parametrize("code", CODES)
def test_a_query_for_objects_that_is_refused(code: int) -> None:
    play = fetching()
    play.arrives(CommandComplete(5, code, "no"))
    play.leaves(*degraded(f"FetchObjects refused: no ({code})"))


def test_each_package_that_is_reported_prolongs_the_wait_for_the_others() -> None:
    play = ConsolePlay(WITHOUT_HEARTBEATS)
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.left()
    for package in ("shop", "barn"):
        play.time_passes(9)
        play.arrives(PackageIndication(2, package))
    asked = [one[1] for one in play.left() if isinstance(one, tuple)]
    assert PackageQuery not in map(type, asked)


def test_a_query_for_classes_that_is_refused() -> None:
    play = lists_classes()
    play.arrives(CommandComplete(3, 1, "no"))
    play.leaves(ResyncBegan(), *degraded("ListClasses refused: no (1)"))


def test_a_query_for_packages_that_is_refused() -> None:
    play = ConsolePlay()
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.left()
    play.arrives(CommandComplete(2, 1, "no"))
    play.leaves(ResyncBegan(), *degraded("ListPackages refused: no (1)"))


def test_an_error_behind_indications_leaves_them_true_and_the_rest_unknown() -> None:
    """The page has no indications before an error; objects that were reported remain valid."""
    play = fetching()
    play.arrives(got(5), CommandComplete(5, 7, "interrupted"))
    play.leaves(SEEN, *degraded("FetchObjects refused: interrupted (7)"))


def test_indications_without_a_completion_are_asked_for_again() -> None:
    play = fetching()
    play.arrives(got(5))
    play.leaves(SEEN)
    play.time_passes(10)
    play.leaves(("agent.1.0", GetQuery(6, GET_TANKS)))
    play.arrives(got(6), CommandComplete(6))
    play.leaves(SEEN, ResyncEnded(complete=True), SYNCHRONISED)
    play.arrives(CommandComplete(5), CommandComplete(6))
    play.leaves()


def test_indications_behind_their_completion_are_reported_all_the_same() -> None:
    play = fetching()
    play.arrives(CommandComplete(5), got(5))
    assert SEEN in play.left()
    assert play.session.state is State.SYNCHRONISED


@pytest.mark.parametrize("sequence", [4, 6, 0xFFFF_FFFF])
def test_an_indication_of_another_sequence_is_reported_and_prolongs_nothing(sequence: int) -> None:
    play = fetching()
    play.time_passes(9)
    play.arrives(got(sequence))
    play.leaves(SEEN)
    play.time_passes(1)
    play.leaves(("agent.1.0", GetQuery(6, GET_TANKS)))


def test_classes_that_were_not_asked_for_are_no_part_of_the_answer() -> None:
    play = lists_classes()
    play.arrives(ClassIndication(2, ClassKind.OBJECT, POND), PackageIndication(3, "barn"))
    play.leaves()
    play.arrives(CommandComplete(3))
    play.leaves(ResyncBegan(), ResyncEnded(complete=True), SYNCHRONISED)


def test_a_class_listed_twice_is_asked_for_once() -> None:
    play = lists_classes()
    indication = ClassIndication(3, ClassKind.OBJECT, TANK.key)
    play.arrives(indication, indication)
    play.leaves(("broker", SchemaRequest(4, TANK.key)))


def test_a_link_that_is_lost_in_the_middle_ends_the_query_incomplete() -> None:
    play = fetching()
    play.arrives(got(5))
    play.disconnects("reset")
    play.leaves(SEEN, ResyncEnded(complete=False), SourceStateSeen(SourceState.DOWN, "reset"))


def test_an_agent_that_is_lost_in_the_middle_is_missed_and_the_query_given_up() -> None:
    play = ConsolePlay()
    listed(play)
    play.arrives(got(5))
    play.time_passes(60)
    reported = play.left()
    assert [type(one).__name__ for one in reported if not isinstance(one, tuple | str)] == [
        "ObjectSeen",
        "AgentLost",
        "ResyncEnded",
        "SourceStateSeen",
    ]
    assert play.session.state is State.DEGRADED


def test_a_fetch_is_a_query_too() -> None:
    play = synchronised()
    fetches(play)
    play.left()
    play.arrives(MethodResponse(FIRST, 0, "OK"), CommandComplete(FIRST + 1))
    play.leaves()
    play.arrives(got(FIRST), CommandComplete(FIRST), CommandComplete(FIRST))
    play.leaves(SEEN, Answer(1, Outcome.APPLIED, "", 0))


# Unsolicited-Indication: sequence 0, whenever an agent has something to say.


def test_everything_that_agents_say_unasked() -> None:
    play = synchronised()
    play.arrives(ClassIndication(0, ClassKind.EVENT, LEAK.key), key="schema.class")
    play.leaves(("broker", SchemaRequest(6, LEAK.key)))
    play.arrives(SchemaResponse(6, EventDefinition.of(LEAK)))
    play.leaves(EventLearned(LEAK))
    play.arrives(changed(), filled(), key=PUSHED)
    play.leaves(replace(SEEN, statistics=(60.0, 9)))
    play.arrives(EventIndication(0, LEAK.key, START, 3, ("t1", 5)), key="console.event.1.10.shop.leak")
    play.leaves(
        ResyncBegan("1.10"),
        EventSeen(LEAK.key, "1.10", START, Severity.MAJOR, ("t1", 5)),
        ("agent.1.10", GetQuery(7, GET_TANKS)),
    )
    play.arrives(Heartbeat(0, START), key="console.heartbeat.1.0")
    play.leaves(HeartbeatSeen("1.0", START))
    play.arrives(PackageIndication(0, "barn"), key="schema.package")
    play.time_passes(2)
    assert play.left()[-1] == ("broker", BrokerRequest(8))


def test_objects_reported_unasked_under_a_sequence_are_reported() -> None:
    play = synchronised()
    play.arrives(replace(changed("t2"), sequence=77), key=PUSHED)
    (seen,) = play.left()
    assert isinstance(seen, ObjectSeen)


@pytest.mark.parametrize(
    "message",
    [
        BrokerRequest(0),
        PackageQuery(0),
        ClassQuery(0, "shop"),
        SchemaRequest(0, TANK.key),
        GetQuery(0, GET_TANKS),
        MethodRequest(0, OBJECT_ID, TANK.key, "drain", bytes(5)),
        AttachRequest(0, "agent", UUID(int=1), 1, 10),
        AttachResponse(0, 1, 10),
        ConsoleAdded(0),
        CommandComplete(0, 1, "no"),
        MethodResponse(0, 0, "OK"),
        SchemaResponse(0, ClassDefinition.of(TANK)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_requests_to_agents_and_answers_without_a_request_are_passed_over(message: Message) -> None:
    play = synchronised()
    play.arrives(message)
    play.leaves()
    assert play.session.state is State.SYNCHRONISED
