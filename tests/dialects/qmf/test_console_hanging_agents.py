"""Remote agents that hang, or answer wrongly, do not affect the objects of other agents."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.console_config import HeartbeatRules
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.messages import (
    BrokerResponse,
    ClassIndication,
    ClassKind,
    CommandComplete,
    GetQuery,
    PackageIndication,
    SchemaResponse,
)
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import LossSuspected, TimerExpired
from gateway.model.observations import (
    AgentGone,
    AgentLost,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from tests.dialects.qmf.console_story import (
    GET_TANKS,
    SYNCHRONISED,
    WITHOUT_HEARTBEATS,
    changed,
    got,
    listed,
    synchronised,
)
from tests.dialects.qmf.examples import TANK
from tests.dialects.qmf.playbook import BROKER, START, ConsolePlay, Step
from tests.dialects.qmf.remote_agents_story import (
    AGENT_CLASS,
    THEIR_TANK,
    THEIRS,
    TRUSTED,
    agent_object,
    asked,
    beats,
    leaves_the_broker,
    of_a_qpid_broker,
    passes,
    with_agent,
)

REFUSED = "it was read incompletely: FetchObjects refused: no (1)"
UNANSWERED = "it does not answer: no answer to FetchObjects"


def not_trusted(why: str, agent: str = "1.10") -> SourceStateSeen:
    return SourceStateSeen(SourceState.SYNCHRONISED, f"agent {agent} is stale: {why}")


def test_an_agent_that_refuses_is_read_again_before_long_and_no_other() -> None:
    play = with_agent()
    play.arrives(got(6, object_id=THEIRS), CommandComplete(6, 1, "no"))
    play.leaves(
        THEIR_TANK,
        ResyncEnded(complete=False, agent="1.10"),
        AgentLost("1.10", f"agent 1.10: {REFUSED}; asked again in 6 s", remote=True),
        not_trusted(REFUSED),
    )
    play.time_passes(7)
    play.leaves(ResyncBegan("1.10"), ("agent.1.10", GetQuery(7, GET_TANKS)))
    play.arrives(got(7, object_id=THEIRS), CommandComplete(7))
    play.leaves(THEIR_TANK, ResyncEnded(complete=True, agent="1.10"), SYNCHRONISED)


def test_what_is_due_of_an_agent_that_is_given_up_is_not_asked_again() -> None:
    """The timeout of the agent and its next query become due at once when the console was held up."""
    pond = replace(TANK, key=ClassKey("shop", "pond", b"P" * 16))
    play = with_agent(replace(WITHOUT_HEARTBEATS, definitions=(ClassDefinition.of(pond),)))
    for seconds in (5, 29, 19, 6):
        play.time_passes(seconds)  # ponds are asked for three times, and of tanks one comes now and then
        play.arrives(got(6, object_id=THEIRS))
    play.left()
    play.now += 25 * SECOND
    play.take(play.session.handle(TimerExpired(), play.now))
    assert not asked(play)


def test_an_agent_that_never_answers_loses_nothing_but_its_own() -> None:
    play = with_agent()
    reported = passes(play, 65, "1.0", "1.10")
    assert reported == [
        ("agent.1.10", GetQuery(7, GET_TANKS)),
        ("agent.1.10", GetQuery(8, GET_TANKS)),
        ResyncEnded(complete=False, agent="1.10"),
        AgentLost("1.10", f"agent 1.10: {UNANSWERED}; asked again in 6 s", remote=True),
        not_trusted(UNANSWERED),
        "no-answer",
    ]
    assert play.session.state is State.SYNCHRONISED


def test_an_agent_that_hangs_is_asked_more_and_more_seldom_until_it_answers() -> None:
    play = with_agent()
    pauses: list[int] = []
    asked_at = START
    while play.now - START < 3600 * SECOND:
        reported = passes(play, 5, "1.0", "1.10")
        if ResyncEnded(complete=False, agent="1.10") in reported:
            asked_at = play.now
        elif ResyncBegan("1.10") in reported:
            pauses.append((play.now - asked_at) // SECOND)
    assert pauses[:5] == sorted(pauses[:5])
    assert 300 <= max(pauses) <= 300 * 5 // 4 + 5
    while not (queries := asked(play)):
        play.time_passes(5)
        beats(play, "1.0")
        beats(play)
    play.arrives(CommandComplete(queries[-1].sequence))
    assert ResyncEnded(complete=True, agent="1.10") in play.left()


def test_an_agent_that_hung_is_asked_for_the_rest_when_it_has_answered_for_one_class() -> None:
    play = synchronised(ConsoleConfig(TRUSTED, definitions=(ClassDefinition.of(AGENT_CLASS),)))
    beats(play)
    assert len(asked(play)) == 2
    passes(play, 65, "1.0", "1.10")
    play.time_passes(10)
    for _ in range(2):
        (query,) = asked(play)
        play.arrives(CommandComplete(query.sequence))
    assert ResyncEnded(complete=True, agent="1.10") in play.left()


def of_two_classes(play_config: ConsoleConfig | None = None) -> ConsolePlay:
    """Return a console that asks a remote agent, which has just appeared, for two classes: requests 6, 7."""
    config = play_config or ConsoleConfig(TRUSTED)
    return with_agent(replace(config, definitions=(ClassDefinition.of(AGENT_CLASS),)))


def test_that_an_agent_does_not_answer_is_reported_once_however_much_it_was_asked() -> None:
    play = of_two_classes()
    lost = [one for one in passes(play, 65, "1.0", "1.10") if isinstance(one, AgentLost)]
    assert lost == [AgentLost("1.10", f"agent 1.10: {UNANSWERED}; asked again in 6 s", remote=True)]


def test_what_an_agent_that_is_given_up_was_to_be_asked_again_is_not() -> None:
    play = of_two_classes()
    play.time_passes(9)
    play.arrives(got(6, object_id=THEIRS))
    passes(play, 25, "1.0", "1.10")
    play.now += 27 * SECOND  # a process that was held up: one request is over, the other one due again
    play.take(play.session.handle(TimerExpired(), play.now))
    reported = play.left()
    assert [one for one in reported if isinstance(one, AgentLost) and one.agent == "1.10"]
    assert not [one for one in reported if isinstance(one, tuple) and one[0] == "agent.1.10"]


def test_an_agent_that_hung_and_was_silent_is_read_as_soon_as_it_speaks() -> None:
    play = with_agent()
    passes(play, 65, "1.0", "1.10")
    passes(play, 600, "1.0")
    beats(play)
    assert ResyncBegan("1.10") in play.left()


def test_too_much_to_ask_of_an_agent_leaves_only_it_unread() -> None:
    play = of_two_classes(ConsoleConfig(TRUSTED, request_limit=1))
    play.arrives(CommandComplete(6))
    why = "it was read incompletely: too many requests are waiting"
    assert not_trusted(why) in play.left()


def test_an_agent_that_never_sent_a_heartbeat_is_not_missed_while_it_answers() -> None:
    play = synchronised()
    theirs = replace(changed(), object_id=THEIRS)
    play.arrives(theirs, key="console.obj.1.10.shop.tank")
    play.arrives(CommandComplete(6))
    reported: list[Step] = []
    questions = 0
    while play.now - START < 86_500 * SECOND:
        play.time_passes(20)
        beats(play, "1.0")
        left = play.left()
        reported += [one for one in left if isinstance(one, AgentLost | AgentGone)]
        sent = [one[1] for one in left if isinstance(one, tuple)]
        for question in [one.sequence for one in sent if isinstance(one, GetQuery)]:
            questions += 1
            play.arrives(replace(got(question), object_id=THEIRS), CommandComplete(question))
    assert reported == []
    assert questions > 1000, "it is read again and again"


def test_what_an_agent_that_left_does_not_answer_is_no_fault() -> None:
    play = of_a_qpid_broker(ConsoleConfig(TRUSTED, heartbeats=HeartbeatRules(interval=60 * SECOND)))
    play.arrives(agent_object(5))
    play.arrives(CommandComplete(5), CommandComplete(6))
    play.arrives(replace(changed(), object_id=THEIRS), key="console.obj.1.10.shop.tank")
    leaves_the_broker(play)
    play.left()
    play.arrives(SchemaResponse(7, ClassDefinition.of(TANK)))
    assert play.left()[-1] == ("agent.1.10", GetQuery(8, GET_TANKS))
    assert not [one for one in passes(play, 65, "1.0") if isinstance(one, AgentLost)]


def test_a_whole_reading_asks_no_agent_that_hangs_and_ends_without_it() -> None:
    play = with_agent()
    passes(play, 65, "1.0", "1.10")
    play.take(play.session.handle(LossSuspected("test"), play.now))
    play.arrives(BrokerResponse(9, BROKER))
    play.arrives(PackageIndication(10, "shop"), CommandComplete(10))
    play.arrives(ClassIndication(11, ClassKind.OBJECT, TANK.key), CommandComplete(11))
    assert play.left()[-1] == ("agent.1.0", GetQuery(12, GET_TANKS))
    play.arrives(CommandComplete(12))
    play.leaves(ResyncEnded(complete=True, without=frozenset({"1.10"})), not_trusted(UNANSWERED))


def test_an_agent_that_hangs_while_everything_is_read_is_left_out_of_it() -> None:
    play = ConsolePlay()
    listed(play)
    beats(play)
    play.arrives(CommandComplete(5))
    play.left()
    reported = passes(play, 65, "1.0", "1.10")
    assert AgentLost("1.10", f"agent 1.10: {UNANSWERED}; asked again in 6 s", remote=True) in reported
    assert ResyncEnded(complete=True, without=frozenset({"1.10"})) in reported
    assert play.session.state is State.SYNCHRONISED


# What one agent says wrongly is its own trouble.


def test_an_answer_of_an_agent_that_cannot_be_read_leaves_all_others_trusted() -> None:
    play = with_agent()
    play.arrives_octets(b"AM2g" + (6).to_bytes(4, "big") + b"?")
    play.arrives(CommandComplete(6))
    reported = play.left()
    assert ResyncEnded(complete=False, agent="1.10") in reported
    assert not_trusted("it was read incompletely: a message could not be read") in reported


def test_what_an_agent_refuses_of_a_whole_reading_leaves_it_out() -> None:
    play = ConsolePlay()
    listed(play)
    beats(play)
    play.left()
    play.arrives(CommandComplete(6, 1, "no"), CommandComplete(5))
    assert play.left() == [
        AgentLost("1.10", f"agent 1.10: {REFUSED}; asked again in 6 s", remote=True),
        ResyncEnded(complete=True, without=frozenset({"1.10"})),
        not_trusted(REFUSED),
    ]


def test_a_message_of_an_agent_that_is_not_being_read_spoils_no_reading_of_it() -> None:
    play = with_agent()
    play.arrives(CommandComplete(6))
    play.arrives_octets(b"AM2c" + bytes(4) + b"?", key="console.obj.1.10.shop.tank")
    assert not [one for one in play.left() if isinstance(one, AgentLost | SourceStateSeen)]


def test_many_agents_that_are_not_trusted_are_counted() -> None:
    play = synchronised()
    for bank in range(10, 15):
        beats(play, f"1.{bank}")
    states = [one for one in passes(play, 35, "1.0") if isinstance(one, SourceStateSeen)]
    detail = "5 agents are stale: 1.10, 1.11, 1.12 and 2 more"
    assert states == [SourceStateSeen(SourceState.SYNCHRONISED, detail)]
