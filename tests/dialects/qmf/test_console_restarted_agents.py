"""The console session and a remote agent that restarts before its absence is noticed."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.qmf.console_gaps import Restarts
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import BrokerResponse, CommandComplete, GetQuery
from gateway.dialects.session import LossSuspected
from gateway.model.observations import ResyncBegan, ResyncEnded
from tests.dialects.qmf.console_story import GET_TANKS, changed, got
from tests.dialects.qmf.playbook import BROKER, ConsolePlay
from tests.dialects.qmf.remote_agents_story import THEIR_TANK, THEIRS, beats, with_agent

PUSHED = "console.obj.1.10.shop.tank"
RESTARTED = ResyncBegan("1.10", restarted=True)
THEIRS_AGAIN = ObjectId.of(sequence=2, agent_bank=10, number=1)


def read() -> ConsolePlay:
    """Return a console that has read the one tank of a remote agent."""
    play = with_agent()
    play.arrives(got(6, object_id=THEIRS), CommandComplete(6))
    play.left()
    return play


def test_it_shows_by_the_boot_sequence_of_its_ids_and_the_agent_is_read_again() -> None:
    play = read()
    play.arrives(replace(changed(), object_id=THEIRS_AGAIN), key=PUSHED)
    reported = replace(THEIR_TANK, native_id=str(THEIRS_AGAIN))
    play.leaves(
        RESTARTED,
        ResyncBegan("1.10"),
        replace(reported, statistics=None),
        ("agent.1.10", GetQuery(7, GET_TANKS)),
    )
    play.arrives(got(7, object_id=THEIRS_AGAIN), CommandComplete(7))
    play.leaves(reported, ResyncEnded(complete=True, agent="1.10"))


def test_ids_that_outlive_a_restart_and_those_of_this_run_show_none() -> None:
    play = read()
    for sequence in (0, 1, 0, 1):
        play.arrives(
            replace(changed(), object_id=ObjectId.of(sequence=sequence, agent_bank=10, number=2)), key=PUSHED
        )
    assert not [one for one in play.left() if isinstance(one, ResyncBegan)]


def test_while_all_is_listed_it_is_reported_and_read_with_everything_else() -> None:
    play = read()
    play.take(play.session.handle(LossSuspected("test"), play.now))
    play.arrives(BrokerResponse(7, BROKER))
    play.left()
    play.arrives(replace(changed(), object_id=THEIRS_AGAIN), key=PUSHED)
    assert [one for one in play.left() if isinstance(one, ResyncBegan | tuple)] == [RESTARTED]


def test_one_that_was_away_has_no_former_run() -> None:
    """An agent that was away is read once when it is back."""
    play = read()
    play.disconnects()
    play.connects()
    play.left()
    beats(play)
    play.arrives(replace(changed(), object_id=THEIRS_AGAIN), key=PUSHED)
    assert RESTARTED not in play.left()


def test_there_is_an_end_to_the_agents_whose_boots_are_known() -> None:
    restarts = Restarts()
    for bank in range(2000):
        assert not restarts.remote_shown_by(f"1.{bank}", THEIRS)
    assert not restarts.remote_shown_by("1.0", THEIRS_AGAIN), "it is forgotten"
    assert restarts.remote_shown_by("1.1999", THEIRS_AGAIN)
