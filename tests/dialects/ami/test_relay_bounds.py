"""The limits of applications at a relay: a line beyond a limit is refused and changes nothing."""

from __future__ import annotations

from gateway.dialects.ami.relay import RelayConfig, RelayLimits
from gateway.dialects.session import ListenerStops
from gateway.model.observations import AgentGone, EventSeen, ObjectSeen
from tests.dialects.ami.relay_play import RelayPlay


def statuses(play: RelayPlay) -> list[str]:
    """Return the status that answered each line since the last time: 0 or 1."""
    return [line.split("|S=")[1][0] for line in play.lines() if "<" in line]


def play_with(**limits: int) -> RelayPlay:
    return RelayPlay(RelayConfig(limits=RelayLimits(**limits)))


def test_objects_in_all_and_of_each_are_bounded() -> None:
    play = play_with(objects=5, objects_each=3)  # each application is an object itself
    play.logs_in()
    play.says('O|T="t"|I="1"', 'O|T="t"|I="2"', 'O|T="t"|I="3"', 'O|T="t"', 'D|T="t"|I="1"', 'O|T="t"|I="3"')
    assert statuses(play) == ["0", "0", "1", "1", "0", "0"]
    play.connects(2)
    play.says('L|I="pump-8"', 'O|T="t"|I="1"', 'O|T="t"|I="2"', number=2)
    assert statuses(play) == ["0", "0", "1"]


def test_the_room_that_values_take_is_bounded() -> None:
    play = play_with(octets=4000)
    play.logs_in()
    play.says(
        f'O|T="t"|I="1"|a="{"x" * 1000}"',
        f'O|T="t"|I="2"|a="{"x" * 1500}"',
        f'O|T="t"|I="1"|a="{"x" * 900}"',
        'O|T="t"|I="1"|a=null',
        f'O|T="t"|I="2"|a="{"x" * 1500}"',
        'D|T="t"|I="2"',
        'D|T="t"|I="1"',
    )
    assert statuses(play) == ["0", "1", "0", "0", "0", "0", "0"]
    play.says(*[f'O|T="t"|I="{n}"' for n in range(9)])
    assert statuses(play).count("0") == 6


def test_types_are_bounded_and_refused_objects_begin_none() -> None:
    play = play_with(types=4, keys=1, name=10)
    play.logs_in()
    play.says(
        'O|T="a"|I="1"|k=1|l=2', f'O|T="b"|I="{"x" * 11}"', 'O|T="c"|I="1"', 'O|T="d"|I="1"', 'O|T="e"|I="1"'
    )
    assert statuses(play) == ["1", "1", "0", "0", "1"]


def test_no_application_begins_all_types_that_there_can_be() -> None:
    play = play_with(types=8)
    play.logs_in()
    play.logs_in("pump-8", 2)
    play.says(*(f'O|T="t{number}"|I="1"' for number in range(6)))
    assert statuses(play) == ["0", "0", "0", "0", "1", "1"]
    play.says(*(f'O|T="of{number}"|I="1"' for number in range(3)), number=2)
    assert statuses(play) == ["0", "0", "1"]


def test_no_application_uses_up_the_keys_of_metrics() -> None:
    play = play_with(keys=8)
    play.logs_in()
    play.says(*(f"S|k{number}=1" for number in range(6)))
    assert statuses(play) == ["0", "0", "0", "0", "1", "1"]
    play.says("S|k0=2|k1=3|k2=4|k3=5|k4=null")
    assert statuses(play) == ["0"]
    play.connects(2)
    play.says('L|I="pump-8"|load=1|k0=1', number=2)
    assert statuses(play) == ["0"]


def test_who_is_longest_away_makes_room_for_others() -> None:
    play = play_with(applications=2)
    play.logs_in("a", 1)
    play.says('O|T="t"|I="1"')
    play.time_passes(1)
    play.logs_in("b", 2)
    play.connects(3)
    play.says('L|I="c"', number=3)
    assert statuses(play) == ["1"]
    play.ends(number=1)
    play.time_passes(1)
    play.ends(number=2)
    play.left()
    play.says('L|I="c"', number=3)
    steps = play.left()
    ended = [step.native_id for step in steps if isinstance(step, ObjectSeen) and step.deleted]
    assert ended == ["a", "a|t|1"]
    assert "application-forgotten" in steps
    play.logs_in("a", 4)  # b makes room
    play.says('O|T="t"|I="1"', number=4)
    assert statuses(play) == ["0"]


def test_applications_that_come_once_do_not_keep_others_out() -> None:
    play = play_with(applications=1)
    for number in range(1, 50):
        play.logs_in(f"job-{number}", number)
        play.ends(number=number)
    play.left()
    play.connects(50)
    play.says('L|I="last"', number=50)
    steps = play.left()
    assert [one.agent for one in steps if isinstance(one, AgentGone)] == ["job-49"]
    assert "event loggedIn last 127.0.0.1 None" in [
        play.shown(one) for one in steps if isinstance(one, EventSeen)
    ]


def test_what_was_refused_of_an_application_is_reported_before_it_is_forgotten() -> None:
    play = play_with(applications=1)
    play.logs_in()
    play.says("bad line")
    play.time_passes(1)
    play.says("worse line")
    play.ends()
    play.left()
    play.connects(2)
    play.says('L|I="pump-8"', number=2)
    reported = play.reported()
    (refused,) = (
        number for number, one in enumerate(reported) if one.startswith("event instructionsRefused pump-7 1 ")
    )
    assert refused < reported.index("AgentGone")


def test_a_login_that_is_refused_removes_nothing_and_reports_nothing() -> None:
    play = play_with(applications=1, keys=1)
    play.logs_in("a", 1)
    play.ends(number=1)
    play.left()
    play.connects(2)
    play.says('L|I="b"|x=1|y=2', number=2)
    steps = play.left()
    assert [step for step in steps if not isinstance(step, str)] == []
    play.says('L|I="b"|x=1', number=2)
    assert statuses(play) == ["0"]


def test_who_has_many_objects_does_not_come_and_go_all_the_time() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says(*(f'O|T="t"|I="{n}"' for n in range(1001)))
    play.ends()
    play.left()
    play.connects(2)
    play.says('L|I="pump-7"', number=2)
    assert statuses(play) == ["1"]
    play.time_passes(11)
    play.says('L|I="pump-7"', number=2)
    assert statuses(play) == ["0"]


def test_a_goodbye_and_an_end_are_reported_once() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says("X")
    play.left()
    play.take(play.session.handle(ListenerStops(), play.now))
    assert "1 closed" not in play.left()
