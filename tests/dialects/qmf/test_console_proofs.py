"""What a console shows is stale when nothing proves in time that it was received."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.console_config import HeartbeatRules
from gateway.dialects.qmf.messages import CommandComplete, GetQuery
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import BacklogFollows
from gateway.model.observations import HeartbeatSeen
from gateway.model.times import SECOND
from tests.dialects.qmf.console_story import GET_TANKS, changed, got, listed, synchronised
from tests.dialects.qmf.playbook import START, ConsolePlay, Step
from tests.dialects.qmf.remote_agents_story import THEIRS, TRUSTED, beats

BROKER = "1.0"


def bounds(steps: list[Step]) -> list[tuple[str, int]]:
    """Return the agents whose objects are current, and until when, in seconds from the start."""
    seen = [one for one in steps if isinstance(one, HeartbeatSeen) and one.current_until]
    return [(one.agent, (one.current_until[""] - START) // SECOND) for one in seen]


def proven(config: ConsoleConfig | None = None) -> ConsolePlay:
    """Return a console that is synchronised, after a proof when it began."""
    play = synchronised(config)
    play.proves(play.now)
    play.left()
    return play


def test_the_first_reading_ends_with_the_time_until_which_its_objects_are_current() -> None:
    play = ConsolePlay()
    listed(play)
    play.proves(play.now)
    play.time_passes(7)
    play.arrives(got(5))
    play.arrives(CommandComplete(5))
    assert bounds(play.left()) == [(BROKER, 60)]


def test_objects_are_current_for_a_minute_from_the_last_moment_at_which_nothing_waited() -> None:
    play = proven()
    play.time_passes(5)
    play.proves(play.now)
    assert bounds(play.left()) == [], "no message came since"
    beats(play, BROKER)
    play.time_passes(5)
    play.proves(play.now - SECOND)
    assert bounds(play.left()) == [(BROKER, 65)]


def test_messages_that_waited_confirm_nothing() -> None:
    play = proven()
    for _ in range(10):  # the gateway reads slowly: something waits at each check
        play.time_passes(10)
        beats(play, BROKER)
    assert bounds(play.left()) == []
    play.proves(play.now)
    assert bounds(play.left()) == [(BROKER, 60)], "the last one may have reached the queue 100 s ago"
    beats(play, BROKER)
    play.proves(play.now)
    assert bounds(play.left()) == [(BROKER, 160)]


def test_objects_of_an_agent_with_slow_heartbeats_are_current_for_three_of_them() -> None:
    play = proven(ConsoleConfig(TRUSTED, heartbeats=HeartbeatRules(interval=100 * SECOND)))
    beats(play, BROKER)
    play.proves(play.now)
    assert bounds(play.left()) == [(BROKER, 300)]


def test_a_silent_agent_is_confirmed_by_no_proof() -> None:
    play = proven()
    beats(play, BROKER)
    for _ in range(6):
        play.time_passes(5)
        play.proves(play.now)
    assert bounds(play.left()) == [(BROKER, 60)]
    assert play.session.state is State.DEGRADED


def test_an_agent_without_heartbeats_is_read_before_its_objects_are_stale() -> None:
    play = synchronised()
    play.arrives(replace(changed(), object_id=THEIRS), key="console.obj.1.10.shop.tank")
    play.arrives(CommandComplete(6))
    play.proves(play.now)
    play.left()
    for _ in range(4):
        play.time_passes(10)
        beats(play, BROKER)
    assert not [one for one in play.left() if isinstance(one, tuple)]
    play.time_passes(10)
    asked = [one for one in play.left() if isinstance(one, tuple)]
    assert asked == [("agent.1.10", GetQuery(7, GET_TANKS))]
    play.arrives(replace(got(7), object_id=THEIRS))
    play.arrives(CommandComplete(7))
    play.proves(play.now)
    play.time_passes(40)
    assert ("1.10", 60) in bounds(play.left())


def test_waiting_messages_of_a_durable_queue_confirm_nothing() -> None:
    play = ConsolePlay(ConsoleConfig(TRUSTED))
    play.take(play.session.handle(BacklogFollows("", 100), play.now))
    beats(play, BROKER)
    play.proves(play.now)
    beats(play, BROKER)
    play.proves(play.now)
    assert bounds(play.left()) == []
