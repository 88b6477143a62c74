"""Objects of an application are current until something that it sent may have waited for too long."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.ami.relay import LoginRules, RelayConfig
from gateway.dialects.session import ReceivedUntil
from gateway.model.observations import HeartbeatSeen
from gateway.model.times import SECOND
from tests.dialects.ami.relay_play import START, RelayPlay


def proves(play: RelayPlay, number: int = 1) -> None:
    """Report that nothing waits in a connection."""
    play.take(play.session.handle(ReceivedUntil(play.now, number), play.now))


def logs_in(play: RelayPlay, number: int = 1) -> None:
    """Open a connection, in which nothing waits, and log an application in."""
    play.connects(number)
    proves(play, number)
    play.says('L|I="pump-7"', number=number)


def bounds(play: RelayPlay) -> list[tuple[str, int]]:
    """Return the applications whose objects are current, and until when, in seconds from the start."""
    seen = [one for one in play.left() if isinstance(one, HeartbeatSeen)]
    return [(one.agent, (one.current_until[""] - START) // SECOND) for one in seen]


def test_an_application_without_news_is_current_while_its_connection_is_empty() -> None:
    play = RelayPlay()
    logs_in(play)
    assert bounds(play) == [("pump-7", 60)], "with the end of its login"
    for _ in range(720):
        play.time_passes(5)
        proves(play)
    assert bounds(play)[-1] == ("pump-7", 3660)


def test_what_waits_in_one_connection_of_an_application_may_be_of_any_of_its_objects() -> None:
    play = RelayPlay()
    for number in (1, 2):
        logs_in(play, number)
    play.left()
    play.time_passes(30)
    proves(play, 1)
    assert bounds(play) == [("pump-7", 60)]
    proves(play, 2)
    assert bounds(play) == [("pump-7", 90)]


def test_lines_behind_a_pause_wait() -> None:
    play = RelayPlay(RelayConfig(logins=replace(LoginRules(), pause=True)))
    logs_in(play)
    play.says("P|D=10000", 'O|T="Tank"|I="t1"|level=3')
    play.left()
    play.time_passes(5)
    proves(play)
    assert bounds(play) == []
    play.time_passes(6)
    proves(play)
    assert bounds(play) == [("pump-7", 71)]
