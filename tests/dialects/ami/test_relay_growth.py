"""Classes of a relay grow with the keys that are received, and widen with their values."""

from __future__ import annotations

import pytest

from gateway.dialects.ami.relay import RelayConfig, RelayLimits
from gateway.dialects.ami.relay_tables import element_name, text_of
from gateway.dialects.ami.values import Utc
from gateway.dialects.session import TimerExpired
from gateway.model.observations import ClassLearned, EventSeen, ObjectSeen
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from tests.dialects.ami.relay_play import RelayPlay


@pytest.fixture
def play() -> RelayPlay:
    """Return a play whose application has logged in and reported a tank."""
    play = RelayPlay()
    play.logs_in()
    play.says('O|T="Tank"|I="t1"|level=3')
    play.left()
    return play


def element_type(play: RelayPlay, key: str) -> ValueType:
    """Return the type of a key of tanks in the version of the class that was reported last."""
    schema = [one for one in play.schemas.values() if one.key.name == "Tank"][-1]
    return next(element.type for element in schema.elements if element.label == key)


def test_a_new_key_is_reported_after_a_moment_with_all_objects_again(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t2"|level=4', 'O|T="Tank"|I="t2"|vol=1.5', 'O|T="Tank"|I="t1"|level=5')
    assert play.reported("Tank") == ["Tank t2 level=4", "Tank t2 level=4", "Tank t1 level=5"]
    play.time_passes(0.3)
    assert play.reported("Tank") == ["class Tank", "Tank t1 level=5", "Tank t2 level=4 vol=1.5"]
    play.says('O|T="Tank"|I="t1"|vol=2.5')
    assert play.reported() == ["Tank t1 level=5 vol=2.5"]


def test_a_hundred_new_keys_make_few_versions(play: RelayPlay) -> None:
    for number in range(100):
        play.says(f'O|T="Tank"|I="t1"|k{number}={number}')
        play.time_passes(0.1)
    play.time_passes(100)
    learned = [step.schema for step in play.left() if isinstance(step, ClassLearned)]
    versions = [schema for schema in learned if schema.key.name == "Tank"]
    assert len(versions) <= 7  # waits double from a quarter of a second on
    assert len(versions[-1].statistics) == 101


def test_a_class_that_was_quiet_waits_for_a_moment_only_again(play: RelayPlay) -> None:
    for number in range(20):
        play.says(f'O|T="Tank"|I="t1"|k{number}={number}')
        play.time_passes(0.3)
    play.time_passes(1000)
    play.left()
    play.says('O|T="Tank"|I="t1"|new=1')
    play.time_passes(0.3)
    assert "class Tank" in play.reported()


def test_a_version_that_was_reported_before_is_not_reported_again_as_another_one(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|note=null|level=4L')
    play.time_passes(1)
    assert play.reported("Tank")[1] == "class Tank"
    play.says('O|T="Tank"|I="t1"|level=5')
    play.time_passes(100)
    assert "class Tank" not in play.reported()


@pytest.mark.parametrize(
    ("first", "second", "widened", "shown"),
    [
        ("3", "4L", ValueType.S64, 4),
        ("3L", "4", ValueType.S64, 4),
        ("3", "4.5", ValueType.F64, 4.5),
        ("3.5", "4", ValueType.F64, 4.0),
        ("3.5", "4.5D", ValueType.F64, 4.5),
        ("3L", "4.5D", ValueType.F64, 4.5),
        ("3.5", f"34028235{'0' * 31}.0", ValueType.F64, 3.4028235e38),
        ("9007199254740993L", "4.5D", ValueType.STRING, "4.5"),
        ("4.5D", "9007199254740993L", ValueType.STRING, "9007199254740993"),
        ("3", '"x"', ValueType.STRING, "x"),
        ('"x"', "3", ValueType.STRING, "3"),
        ('"x"', "3.5", ValueType.STRING, "3.5"),
        ("true", "3", ValueType.STRING, "3"),
        ("3", "true", ValueType.STRING, "true"),
        ('"AQI="U', "false", ValueType.STRING, "false"),
        ("true", '"AQI="U', ValueType.STRING, "0102"),
        ("1700000000000T", "3", ValueType.STRING, "3"),
        ("3", "1700000000123T", ValueType.STRING, "2023-11-14T22:13:20.123Z"),
        ("1700000000000T", "-1T", ValueType.STRING, "1969-12-31T23:59:59.999Z"),
        ("1700000000000T", "9223372036854775807T", ValueType.STRING, "9223372036854775807T"),
    ],
)
def test_a_key_whose_values_change_their_type_widens(
    play: RelayPlay, first: str, second: str, widened: ValueType, shown: object
) -> None:
    play.says(f'O|T="Tank"|I="t1"|x={first}')
    play.time_passes(1)
    play.left()
    play.says(f'O|T="Tank"|I="t1"|x={second}')
    (meanwhile,) = play.objects()
    assert play.values(meanwhile).get("x") in (None, shown)  # never the former value
    play.time_passes(2)
    assert element_type(play, "x") is widened
    play.left()
    play.says('O|T="Tank"|I="t1"|x=null', f'O|T="Tank"|I="t1"|x={second}')
    assert play.values(play.objects()[-1])["x"] == shown


def test_what_was_reported_before_is_reported_in_the_wider_type(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t2"|level="high"')
    play.time_passes(1)
    assert play.reported("Tank")[-2:] == ["Tank t1 level=3", "Tank t2 level=high"]


def test_text_for_a_number_is_absent_until_the_class_has_it(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|level="high"')
    assert play.reported() == ["Tank t1"]


def test_the_same_type_under_a_wider_range_needs_no_version(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|x=4.5D|y=3L')
    play.time_passes(1)
    play.left()
    play.says('O|T="Tank"|I="t1"|x=4L|y=9007199254740993L')
    play.time_passes(100)
    assert play.reported("Tank") == ["Tank t1 level=3 x=4.0 y=9007199254740993"]


def test_a_class_without_objects_grows_with_the_next_one(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|vol=1.5', 'D|T="Tank"|I="t1"')
    play.left()
    play.says('O|T="Tank"|I="t2"|vol=1.5')
    assert play.reported() == ["class Tank", "Tank t2 vol=1.5"]


def test_many_objects_are_reported_again_in_turns_so_that_no_other_waits() -> None:
    play = RelayPlay(RelayConfig(at_once=2))
    play.logs_in()
    play.says(*(f'O|T="Tank"|I="t{n}"|a={n}' for n in range(5)), 'O|T="Tank"|I="t0"|b=9')
    play.left()
    play.now += SECOND
    play.take(play.session.handle(TimerExpired(), play.now))
    assert play.reported("Tank") == ["class Tank", "Tank t0 a=0 b=9", "Tank t1 a=1"]
    assert play.wake_at <= play.now
    play.says('O|T="Tank"|I="t4"|a=7|b=8', 'D|T="Tank"|I="t3"', 'O|T="Tank"|I="t5"|b=6')
    assert play.reported("Tank") == ["Tank t4 a=7", "-Tank t3", "Tank t5 b=6"]
    play.says('O|T="Tank"|I="t4"|c=1')
    play.time_passes(0)
    assert play.reported("Tank") == ["Tank t4 a=7", "Tank t2 a=2", "Tank t4 a=7 b=8"]
    play.time_passes(10)
    assert [reported for reported in play.reported("Tank t") if "c=" in reported] == ["Tank t4 a=7 b=8 c=1"]


def test_objects_that_wait_take_turns_while_others_change() -> None:
    play = RelayPlay(RelayConfig(at_once=1))
    play.logs_in()
    play.says(*(f'O|T="Tank"|I="t{n}"|a={n}' for n in range(4)), 'O|T="Tank"|I="t3"|b=1')
    for line in ('O|T="Tank"|I="t3"|c=1', 'O|T="Tank"|I="t3"|d=1'):
        play.now += SECOND
        play.take(play.session.handle(TimerExpired(), play.now))
        play.says(line)
    play.left()
    play.time_passes(10)
    assert play.reported("Tank t3") == ["Tank t3 a=3 b=1 c=1", "Tank t3 a=3 b=1 c=1 d=1"]


def test_many_objects_expire_in_turns() -> None:
    play = RelayPlay(RelayConfig(at_once=2))
    play.logs_in()
    play.says(*(f'O|T="Tank"|I="t{n}"|E=-1000L' for n in range(5)))
    play.left()
    play.now += 2 * SECOND
    play.take(play.session.handle(TimerExpired(), play.now))
    assert play.reported("-Tank") == ["-Tank t0", "-Tank t1"]
    play.time_passes(0)
    assert play.reported("-Tank") == ["-Tank t2", "-Tank t3", "-Tank t4"]


def test_keys_are_bounded_and_a_refused_instruction_changes_nothing() -> None:
    play = RelayPlay(RelayConfig(limits=RelayLimits(keys=2)))
    play.logs_in()
    play.says('O|T="Tank"|I="t1"|a=1|b=2')
    play.left()
    play.says('O|T="Tank"|I="t1"|a=9|c=3', 'O|T="Tank"|I="t1"|b=4')
    assert play.objects()[0].statistics == (1, 4)


def test_versions_are_bounded() -> None:
    play = RelayPlay(RelayConfig(limits=RelayLimits(versions=4)))  # three of which are the relay's own
    play.logs_in()
    play.says('O|T="Tank"|I="t1"|a=1', 'O|T="Tank"|I="t1"|a=2|b=3', 'O|T="Pump"|I="t1"', 'C|I="c"|N="c"')
    assert [line[:14] for line in play.lines() if "<" in line] == [
        "1< M|Q=1|S=0|M",
        "1< M|Q=2|S=1|M",
        "1< M|Q=3|S=1|M",
        "1< M|Q=4|S=1|M",
    ]
    play.says('O|T="Tank"|I="t1"|a=5')
    assert play.reported() == ["Tank t1 a=5"]


def test_names_of_elements_never_meet() -> None:
    fixed = frozenset({"object"})
    keys = ["object", "object_key", "object_key_key", "objects", "_key", "x_key"]
    assert len({element_name(key, fixed) for key in keys}) == len(keys)


def test_a_time_before_all_calendars_is_its_number() -> None:
    assert text_of(Utc(-(1 << 62))) == f"{-(1 << 62)}T"


def play_with_versions(number: int) -> RelayPlay:
    """Return a play that is limited to ``number`` versions of classes; three are the relay's own."""
    return RelayPlay(RelayConfig(limits=RelayLimits(versions=number)))


def greedy(play: RelayPlay, number: int = 1, most: int = 100) -> int:
    """Report a new key each minute on a connection until one is refused; return the number accepted."""
    for key in range(most):
        play.left()
        play.says(f'O|T="Tank{number}"|I="t1"|key{number}_{key}=1', number=number)
        play.time_passes(60)
        if f"{number}< M|Q={key + 1}|S=1" in "\n".join(play.lines()):
            return key
    return most


def test_no_application_uses_up_what_others_need() -> None:
    play = play_with_versions(43)
    taken = []
    for number in (1, 2, 3):
        play.logs_in(f"greedy-{number}", number)
        taken.append(greedy(play, number))
    assert taken == [20, 10, 5]
    play.logs_in("modest", 4)
    play.says('O|T="Pump"|I="p1"|flow=1', number=4)
    assert "Pump p1 flow=1" in play.reported()


def test_changes_beyond_an_applications_share_are_counted_and_reported() -> None:
    play = play_with_versions(7)
    play.logs_in()
    greedy(play)
    play.says('O|T="Tank1"|I="t1"|more=1')
    play.time_passes(60)
    reason = "it has changed classes as often as it may since the gateway was started"
    assert f"event instructionsRefused pump-7 1 {reason}" in play.reported("event")


def test_keys_reported_together_are_one_version_whichever_agent_reports_them() -> None:
    play = play_with_versions(7)
    play.logs_in("a", 1)
    play.logs_in("b", 2)
    play.says('O|T="Tank"|I="t1"|a=1')
    play.says('O|T="Tank"|I="t1"|b=1', number=1)
    play.says('O|T="Tank"|I="t2"|c=1', 'O|T="Tank"|I="t2"|d=1', number=2)
    play.says('O|T="Tank"|I="t1"|e=1', number=1)
    play.time_passes(1)
    assert play.reported("Tank t1")[-1] == "Tank t1 a=1 b=1 e=1"
    play.says('O|T="Tank"|I="t2"|f=1', number=2)
    play.time_passes(1)
    assert play.reported("Tank t2")[-1] == "Tank t2 c=1 d=1 f=1"


def test_a_version_that_was_reported_before_may_come_again() -> None:
    play = play_with_versions(5)
    play.logs_in()
    assert greedy(play) == 1
    play.says('D|T="Tank1"|I="t1"', 'O|T="Tank1"|I="t1"|key1_0=2')
    assert play.reported("Tank1") == ["-Tank1 t1", "Tank1 t1 key1_0=2"]


def test_commands_that_change_all_the_time_leave_room_for_keys() -> None:
    play = play_with_versions(20)
    play.logs_in()
    play.says('O|T="Tank"|I="t1"|a=1')
    for number in range(6):
        play.left()
        play.says(f'C|I="sell"|N="Sell {number}"')
        said = play.left()
        play.time_passes(60)
    assert said == [
        '1< M|Q=7|S=1|M="it has changed its commands as often as it may since the gateway was started"',
        "refused-instruction",
    ]
    play.says('O|T="Tank"|I="t1"|b=2')
    play.time_passes(60)
    assert "Tank t1 a=1 b=2" in play.reported("Tank")


def offered(play: RelayPlay) -> list[str]:
    """Return the names of the commands in the class of ``pump-7`` as reported last."""
    reported = [step for step in play.left() if isinstance(step, ObjectSeen) and step.native_id == "pump-7"]
    return [method.name for method in play.schemas[reported[-1].key].methods]


def two_commands_and_no_change_left() -> RelayPlay:
    """Return a play with ``pump-7``; a command that is withdrawn at once consumes no version."""
    play = play_with_versions(8)
    play.logs_in()
    for commands in (['C|I="a"|N="A"'], ['C|I="c"|N="C"', 'C|I="c"|N="C"|L=0'], ['C|I="b"|N="B"']):
        play.says(*commands)
        play.time_passes(60)
    assert offered(play) == ["a", "b"]
    play.says('C|I="c"|N="C"')
    assert "1< M|Q=5|S=1" in "\n".join(play.lines())
    return play


def test_an_application_that_may_not_change_its_commands_comes_back_with_them() -> None:
    play = two_commands_and_no_change_left()
    play.ends()
    play.logs_in()
    play.time_passes(60)
    assert offered(play) == []
    play.says('C|I="b"|N="B"')
    play.time_passes(60)
    play.says('C|I="a"|N="A"')
    play.time_passes(60)
    assert offered(play) == ["a", "b"]


def test_a_command_that_is_withdrawn_may_stay_shown_and_cannot_be_called() -> None:
    play = two_commands_and_no_change_left()
    play.says('C|I="b"|N="B"|L=0')
    play.time_passes(60)
    assert offered(play) == ["a", "b"]
    play.calls("b")
    assert play.answers()[0].text == "not sent: the application offers no command 'b'"


def test_commands_that_cannot_be_shown_as_they_are_left_are_hidden_which_is_said() -> None:
    play = play_with_versions(8)
    for number in (1, 2):
        play.logs_in(number=number)
        play.says(f'C|I="a"|N="Definition {number}"', number=number)
        play.time_passes(60)
    play.ends(number=2)  # what is left is the first definition, which is shown no more
    assert "commands-hidden" in play.lines()
    play.time_passes(60)
    steps = play.left()
    shown = [step for step in steps if isinstance(step, ObjectSeen) and step.native_id == "pump-7"]
    assert play.schemas[shown[-1].key].methods == ()
    (event,) = (step for step in steps if isinstance(step, EventSeen))
    assert event.arguments[1:] == (
        1,
        "the commands that it has left are not shown: it has changed them too often",
    )
