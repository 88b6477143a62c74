"""Connections of a relay: permission to log in, answers, and the end of a connection."""

from __future__ import annotations

import pytest

from gateway.dialects.ami.deviations import Reading
from gateway.dialects.ami.relay import LoginRules, RelayConfig, RelayLimits
from gateway.dialects.session import BytesReceived, ListenerStops, LoginRefused, Peer, TimerExpired
from gateway.model.observations import (
    AgentLost,
    ClassLearned,
    EventSeen,
    ObjectSeen,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.times import SECOND
from tests.dialects.ami.relay_play import HERE, START, WELCOMED, RelayPlay

FAR = Peer("192.0.2.7")
OWN_NAME = "an application must be called (I) as its certificate is"


def test_an_application_logs_in_and_is_welcome() -> None:
    play = RelayPlay()
    play.connects()
    play.says('L#0@1700000000000|I="pump-7"|O="UNIX"|PL="org.example.Plugin"|site="north"')
    steps = play.left()
    assert steps[0] == ResyncBegan("pump-7")
    assert ResyncEnded(complete=True, agent="pump-7") in steps
    assert steps[-1] == WELCOMED
    assert play.schemas  # of the application and of its metrics


def test_it_is_reported_with_all_that_it_said_of_itself() -> None:
    play = RelayPlay()
    play.connects(peer=Peer("127.0.0.1", "pump"))
    play.says('L|I="pump-7"|O="QUIET"|PL="org.example.Plugin"|site="north"')
    (seen, *_) = play.objects("application")
    assert seen.properties == ("pump-7", True, "org.example.Plugin", "QUIET", "127.0.0.1", "pump", START)
    assert seen.agent == "pump-7"


def test_the_second_login_of_a_connection_is_refused() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says('L|I="other"')
    assert play.left() == ['1< M|Q=1|S=1|M="Already logged in"', "refused-instruction"]


@pytest.mark.parametrize(
    "line", ['O|T="Tank"|level=3', "S|a=1", 'D|T="a"|I="b"', 'R|I="a"|S=0', 'C|I="a"|N="b"']
)
def test_nothing_but_a_login_comes_first(line: str) -> None:
    play = RelayPlay()
    play.connects()
    play.says(line)
    assert play.left() == [f'1< M|Q=0|S=1|M="Must login (L) before {line[0]}"', "refused-instruction"]


def test_help_and_comments_and_the_end_need_no_login() -> None:
    play = RelayPlay()
    play.connects()
    play.says("H", "# who is there", "X")
    help_text, comment, end = play.left()
    assert str(help_text).startswith('1< M|Q=0|S=0|M="L login (first), S status')
    assert comment == '1< M|Q=1|S=0|M="ignoring comment"'
    assert end == "1 closed"


def test_what_only_a_relay_says_is_refused() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says("M|Q=1|S=0", 'E|I="a"|C="b"|U="c"')
    assert [str(line)[:12] for line in play.lines()[:2]] == ["1< M|Q=1|S=1", "1< M|Q=2|S=1"]


@pytest.mark.parametrize(
    ("rules", "peer", "name", "welcome"),
    [
        (LoginRules(names=frozenset({"pump-7"})), HERE, "pump-7", True),
        (LoginRules(names=frozenset({"pump-7"})), HERE, "pump-8", False),
        (LoginRules(certificates=frozenset({"pump"})), Peer("192.0.2.7", "pump"), "any", True),
        (LoginRules(certificates=frozenset({"pump"})), FAR, "any", False),
        (LoginRules(own_name=True), Peer("192.0.2.7", "pump"), "pump", True),
        (LoginRules(own_name=True), Peer("192.0.2.7", "pump"), "other", False),
        (LoginRules(), HERE, "", False),
        (LoginRules(), HERE, "x" * 201, False),
        (LoginRules(), HERE, r"a\nb", False),
    ],
)
def test_who_may_log_in(rules: LoginRules, peer: Peer, name: str, welcome: bool) -> None:  # noqa: FBT001
    play = RelayPlay(RelayConfig(logins=rules))
    play.connects(peer=peer)
    play.says(f'L|I="{name}"')
    steps = play.left()
    assert (WELCOMED in steps) is welcome
    assert ("refused-instruction" in steps) is not welcome
    if not welcome:
        assert len(steps) == 2  # nothing is told of who was not let in


def test_a_name_or_certificate_that_may_not_log_in_is_recorded_with_its_address() -> None:
    for rules, peer, reason in (
        (LoginRules(names=frozenset({"pump-7"})), FAR, "'pump-8': this application may not log in here"),
        (
            LoginRules(own_name=True),
            Peer("192.0.2.7", "pump"),
            f"'pump-8' with the certificate of 'pump': {OWN_NAME}",
        ),
    ):
        play = RelayPlay(RelayConfig(logins=rules))
        play.connects(peer=peer)
        play.says('L|I="pump-8"')
        assert play.refused == [LoginRefused("192.0.2.7", reason)]
    play = RelayPlay()
    play.logs_in()
    play.says('L|I="other"')
    assert play.refused == [], "a mistake is no attempt to get in"


@pytest.mark.parametrize(
    ("peer", "terminal", "welcome"), [(HERE, True, True), (HERE, False, False), (FAR, True, False)]
)
def test_terminals_are_of_this_machine(peer: Peer, terminal: bool, welcome: bool) -> None:  # noqa: FBT001
    play = RelayPlay(RelayConfig(logins=LoginRules(terminal=terminal)))
    play.connects(peer=peer)
    play.says('L|I="me"|O="TTY"')
    assert any("S=0" in line for line in play.lines()) is welcome
    play.connects(2, peer)
    play.says_octets(b'\xff\xfd\x01L|I="too"\r\n', number=2)
    steps = play.lines()
    assert ("terminal-refused" in steps) is not welcome
    assert ("2 closed" in steps) is not welcome


def test_lines_end_as_the_application_wants_it() -> None:
    play = RelayPlay()
    for number, option, end in ((1, "UNIX", b"\n"), (2, "WINDOWS", b"\n\r"), (3, "TTY", b"\n\r")):
        play.connects(number)
        effects = play.session.handle(BytesReceived(number, f'L|I="a"|O="{option}"\n'.encode()), play.now)
        written = next(effect.octets for effect in effects if hasattr(effect, "octets"))
        assert written == b'M|Q=0|S=0|M="Welcome to AMI v1.0"' + end
    play.connects(4)
    effects = play.session.handle(BytesReceived(4, b"\xff\xfd\x01H\n"), play.now)
    assert next(effect.octets for effect in effects if hasattr(effect, "octets")).endswith(b"\n\r")
    play.take(play.session.handle(BytesReceived(4, b'L|I="a"|O="UNIX"\n'), play.now))
    effects = play.session.handle(BytesReceived(4, b"H\n"), play.now)
    assert not next(effect.octets for effect in effects if hasattr(effect, "octets")).endswith(b"\r")


def test_a_quiet_session_receives_nothing_but_calls() -> None:
    play = RelayPlay()
    play.connects()
    play.says('L|I="pump-7"|O="QUIET"', "bad", 'O|T="Tank"|I="t1"', 'C|I="halt"|N="Halt"|M="0"', "H", "# x")
    assert [line for line in play.lines() if line.startswith("1<")] == []
    play.calls("halt")
    assert play.lines() == ['1< E@1700000000000|C="halt"|I="g1"|U="amqp-gateway"']


def test_an_unknown_option_refuses_the_login() -> None:
    play = RelayPlay()
    play.connects()
    play.says('L|I="a"|O="QUIET, LOG"')
    assert play.left()[1] == "protocol-error"
    play.says('L|I="a"')
    assert '1< M|Q=1|S=0|M="Welcome to AMI v1.0"' in play.left()


def test_read_strictly_what_a_relay_forgives_is_refused() -> None:
    play = RelayPlay(RelayConfig(reading=Reading.STRICT))
    play.connects()
    play.says("# hello", 'l|I="a"', 'L|I="a"')
    assert [line[3:15] for line in play.lines() if "<" in line] == [
        "M|Q=0|S=1|M=",
        "M|Q=1|S=1|M=",
        "M|Q=2|S=0|M=",
    ]


# Numbers and times.


def test_replies_repeat_the_number_or_count_on() -> None:
    play = RelayPlay()
    play.connects()
    play.says('L#0|I="a"', 'O#1|T="t"|I="1"', "S|a=1", "bad", "O#2", "H")
    numbers = [line.split("|")[1] for line in play.lines() if "<" in line]
    assert numbers == ["Q=0", "Q=1", "Q=2", "Q=3", "Q=2", "Q=3"]


def test_numbered_instructions_are_reported_ack_and_others_in_words() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says('O#0|T="t"|I="1"', 'O|T="t"|I="1"', "S#1|a=1", "S|a=1", 'D#2|T="t"|I="1"', 'D|T="t"|I="1"')
    play.says('C#3|I="c"|N="C"')
    assert [line.partition("M=")[2] for line in play.lines()] == [
        '"ACK"',
        '"OK, object accepted"',
        '"ACK"',
        '"OK, status accepted"',
        '"ACK"',
        '"OK, delete accepted"',
        '"OK, command accepted"',
    ]


def test_gaps_and_repeats_of_numbers_are_counted_and_reported_once_a_second() -> None:
    play = RelayPlay()
    play.connects()
    play.says('L#0|I="pump-7"', "S#3|a=1", "S#2|a=1", "S|a=1", "S#9|a=1")
    play.left()
    play.time_passes(2)
    reported = play.reported()
    assert "event sequenceGap pump-7 7 1" in reported
    play.says("S#10|a=2", "S#11|a=3")
    play.left()
    play.time_passes(2)
    assert [line for line in play.reported() if line.startswith("event")] == []
    play.says("nonsense#12")
    play.says("S#99999999999999999|a=1", "S#9223372036854775807|a=1", "S|a=1", "S|a=1")
    assert play.lines()[-1].startswith("1< M|Q=9223372036854775807L|S=0")


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        (('L|I="pump-7"', "S#1|a=1", "S#2|a=1"), 0),  # the document's own example
        (('L|I="pump-7"', "S#0|a=1", "S#1|a=1"), 0),
        (('L|I="pump-7"', "S|a=1", "H", "S#3|a=1"), 0),
        (('L|I="pump-7"', "S#2|a=1"), 1),
        (('L#0|I="pump-7"', "S#1|a=1", "S|a=1", "S#3|a=1"), 1),
        (('L#0|I="pump-7"', "S#2|a=1"), 1),
    ],
)
def test_numbers_may_begin_behind_a_login_without_one(lines: tuple[str, ...], missing: int) -> None:
    play = RelayPlay()
    play.connects()
    play.says(*lines)
    play.left()
    play.time_passes(2)
    reported = [line for line in play.reported() if "sequenceGap" in line]
    assert reported == ([f"event sequenceGap pump-7 {missing} 0"] if missing else [])


def test_the_lag_of_the_last_reported_time_is_shown() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says("S@1699999998500|a=1", "S|a=2")
    play.time_passes(2)
    assert play.objects("application")[-1].statistics == (1, 2, 0, 3, 0, 0, 0, 1500)


def test_values_are_as_old_as_their_instruction_and_never_younger_than_its_arrival() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says('O@1699999990000|T="Tank"|I="t1"|level=3', 'O@1800000000000|T="Tank"|I="t1"|level=4')
    play.says('O|T="Tank"|I="t1"|level=5')
    assert [seen.sampled for seen in play.objects()] == [START - 10 * SECOND, START, START]


# Metrics.


def test_metrics_are_added_replaced_and_taken_away() -> None:
    play = RelayPlay()
    play.connects()
    play.says('L|I="pump-7"|mem=12000')
    play.says('S|mem=13000|env="Prod"')
    play.time_passes(1)
    play.left()
    play.says("S|mem=15500|env=null")
    assert play.reported() == ["metrics #metrics mem=15500"]


def test_metrics_that_never_were_are_not_begun() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says("S|env=null", "S")
    assert play.reported() == []


# Pauses.


def test_a_pause_holds_up_the_lines_behind_it() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says("P|D=250", "S|a=1", "P|D=100", "H")
    assert play.left() == []
    play.time_passes(0.2)
    assert play.left() == []
    play.time_passes(0.1)
    assert play.lines() == ['1< M|Q=1|S=0|M="OK, waited 250 ms"', '1< M|Q=2|S=0|M="OK, status accepted"']
    play.time_passes(0.1)
    assert [line[:40] for line in play.lines()] == [
        '1< M|Q=3|S=0|M="OK, waited 100 ms"',
        '1< M|Q=4|S=0|M="L login (first), S statu',
    ]


def test_what_was_said_behind_a_pause_holds_when_the_connection_ends() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says("P|D=250", 'O|T="Tank"|I="t1"|level=3', "P|D=250", 'O|T="Tank"|I="t2"|level=3')
    play.ends()
    assert [reported for reported in play.reported() if reported.startswith("Tank")] == [
        "Tank t1 level=3",
        "Tank t2 level=3",
    ]


def test_what_stands_behind_an_end_that_was_held_up_is_not_taken() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says("P|D=250", "X", 'O|T="Tank"|I="t1"')
    play.time_passes(1)
    assert play.lines() == ['1< M|Q=1|S=0|M="OK, waited 250 ms"', "1 closed"]
    play.logs_in(number=2)
    play.says("P|D=250", "X", 'O|T="Tank"|I="t1"', number=2)
    play.ends(number=2)
    assert play.objects() == []


def test_pauses_are_bounded_and_can_be_forbidden() -> None:
    play = RelayPlay(RelayConfig(limits=RelayLimits(held_lines=2, held_octets=1000)))
    play.logs_in()
    play.says("P|D=10001", "P|D=10", "H", "O#7" + "x" * 2000, "H", "H")
    assert [line[:36] for line in play.lines() if "<" in line] == [
        '1< M|Q=1|S=1|M="P holds up at most 1',
        '1< M|Q=7|S=1|M="too many lines wait ',
        '1< M|Q=8|S=1|M="too many lines wait ',
    ]
    play = RelayPlay(RelayConfig(logins=LoginRules(pause=False)))
    play.connects()
    play.says("P|D=1")
    assert play.lines()[0] == '1< M|Q=0|S=1|M="P is not allowed here"'


# The end.


def test_an_application_that_says_goodbye_is_not_answered() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says('X#9|reason="eod"', "H")
    steps = play.left()
    assert steps[-1] == "1 closed"
    assert [play.shown(one) for one in steps if not isinstance(one, str)][-3:] == [
        "event loggedOut pump-7 it sent an end of session (X)",
        "application pump-7",
        "AgentLost",
    ]
    play.says("H")
    play.ends()
    assert play.left() == []


def test_a_goodbye_whose_metrics_are_refused_is_none() -> None:
    play = RelayPlay(RelayConfig(limits=RelayLimits(keys=1)))
    play.logs_in()
    play.says("X|a=1|b=2", "H")
    assert [line[:14] for line in play.lines() if "<" in line] == ["1< M|Q=1|S=1|M", "1< M|Q=2|S=0|M"]


def test_objects_stay_when_the_connection_ends_and_are_stale() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says('O|T="Tank"|I="t1"|level=3')
    play.left()
    play.says_octets(b"O|T=")
    play.ends("it broke")
    steps = play.left()
    assert AgentLost("pump-7", "not connected: it broke") in steps
    assert not [step for step in steps if not isinstance(step, str) and play.shown(step).startswith("-")]
    assert "line-unfinished" in steps


def test_an_agent_that_comes_back_confirms_what_it_reported_before() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says('O|T="Tank"|I="t1"|level=3')
    play.ends()
    play.left()
    play.time_passes(100)
    play.connects(2)
    play.says('L|I="pump-7"', number=2)
    steps = play.left()
    began, ended = steps.index(ResyncBegan("pump-7")), steps.index(ResyncEnded(complete=True, agent="pump-7"))
    (again,) = [one for one in steps[began:ended] if isinstance(one, ObjectSeen) and one.key.name == "Tank"]
    assert play.shown(again) == "Tank t1 level=3"
    assert again.sampled == START  # as old as it is


def test_an_agent_that_comes_back_with_much_is_trusted_when_all_of_it_was_reported() -> None:
    play = RelayPlay(RelayConfig(at_once=2))
    play.logs_in()
    play.says(*(f'O|T="Tank"|I="t{n}"' for n in range(4)))
    play.ends()
    play.left()
    play.connects(2)
    play.says('L|I="pump-7"', number=2)
    assert "ResyncEnded" not in play.reported()
    play.time_passes(0)
    assert play.reported()[-1] == "ResyncEnded"
    play.ends(number=2)
    play.connects(3)
    play.says('L|I="pump-7"', number=3)
    play.ends(number=3)
    play.time_passes(10)
    assert "ResyncEnded" not in play.reported()  # nobody is there who could be believed


def test_two_connections_of_one_application_are_one_application() -> None:
    play = RelayPlay()
    play.logs_in()
    play.connects(2)
    play.says('L|I="pump-7"', number=2)
    assert "ResyncBegan" not in play.reported()
    play.ends(number=1)
    assert "AgentLost" not in play.reported()
    play.says('O|T="Tank"|I="t1"', number=2)
    assert play.reported()[-1] == "Tank t1"
    play.ends(number=2)
    assert "AgentLost" in play.reported()


def test_who_does_not_log_in_is_not_waited_for_for_ever() -> None:
    play = RelayPlay()
    play.connects()
    play.logs_in(number=2)
    play.says("H")
    play.left()
    play.time_passes(61)
    assert play.lines() == ["1 closed", "no-login"]
    play.time_passes(1000)
    assert play.lines() == []


def test_when_the_gateway_ends_everything_is_stale() -> None:
    play = RelayPlay()
    play.logs_in()
    play.connects(2)
    play.take(play.session.handle(ListenerStops(), play.now))
    steps = play.left()
    assert SourceStateSeen(SourceState.DOWN, "the gateway ends") in steps
    assert steps[-2:] == ["1 closed", "2 closed"]
    play.ends()
    assert play.left() == []


def test_connections_are_bounded() -> None:
    play = RelayPlay(RelayConfig(limits=RelayLimits(connections=1)))
    play.connects()
    play.connects(2)
    assert play.left() == ["2 closed", "connection-refused"]
    play.says("H", number=2)
    play.ends(number=2)
    assert play.left() == []


def test_a_line_that_is_too_long_is_answered_once_and_passed_over() -> None:
    play = RelayPlay(RelayConfig(limits=RelayLimits(line=100)))
    play.logs_in()
    play.says("S|a=" + "1" * 200, "H")
    assert [line[:14] for line in play.lines() if "<" in line] == ["1< M|Q=1|S=1|M", "1< M|Q=2|S=0|M"]


def refusals(play: RelayPlay) -> list[str]:
    return [step for step in play.reported() if step.startswith("event instructionsRefused")]


def test_what_a_quiet_application_loses_is_reported_at_once_and_then_once_a_minute() -> None:
    play = RelayPlay()
    play.connects()
    play.says('L|I="pump-7"|O="QUIET"', "O|level=3", 'O|T="Tank"|I="t1"|level=3')
    play.time_passes(2)
    (reported,) = refusals(play)
    assert reported.startswith("event instructionsRefused pump-7 1 ")
    play.says("nonsense", "O|level=3")
    play.time_passes(30)
    assert refusals(play) == []
    play.time_passes(29)
    (reported,) = refusals(play)
    assert reported.startswith("event instructionsRefused pump-7 2 ")
    play.time_passes(120)
    assert refusals(play) == []


# The clock.


def test_a_clock_that_is_set_back_holds_nothing_up() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says('O|T="Tank"|I="t1"|level=3', 'O|T="Tank"|I="t1"|vol=1.5', "S#5|a=1", "P|D=100", "H")
    play.left()
    play.now -= 3600 * SECOND
    play.take(play.session.handle(TimerExpired(), play.now))
    steps = play.left()
    assert [play.shown(step) for step in steps if isinstance(step, ClassLearned)] == ["class Tank"]
    assert "event sequenceGap pump-7 2 0" in [play.shown(s) for s in steps if isinstance(s, EventSeen)]
    assert [step[:14] for step in steps if isinstance(step, str)] == ["1< M|Q=6|S=0|M", "1< M|Q=7|S=0|M"]


def test_who_has_many_objects_may_come_back_after_the_clock_was_set_back() -> None:
    play = RelayPlay()
    play.logs_in()
    play.says(*(f'O|T="t"|I="{n}"' for n in range(1001)))
    play.ends()
    play.left()
    play.now -= 3600 * SECOND
    play.connects(2)
    play.says('L|I="pump-7"', number=2)
    assert play.lines() == ['2< M|Q=0|S=0|M="Welcome to AMI v1.0"']
