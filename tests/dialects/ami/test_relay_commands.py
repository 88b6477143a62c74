"""Commands of applications as methods: C is defined, E goes out, R comes back."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.ami.relay import RelayConfig, RelayLimits
from gateway.model.observations import ClassLearned, ObjectSeen
from gateway.model.operations import Answer, Outcome
from gateway.model.schema import Argument, Direction, Method, NamedValue
from gateway.model.secrets import SecretRules
from gateway.model.values import ValueType
from tests.dialects.ami.relay_play import RelayPlay

REPLY = Argument(
    "reply", ValueType.MAP, Direction.OUT, optional=True, description="Values that it answered with."
)
ALONE = 'C|I="stop"|N="Stop"|M="0"'


def command(form: object, rest: str = "") -> str:
    """A definition of the command ``halt``."""
    text = json.dumps(form).replace("\\", "\\\\").replace('"', '\\"')
    return f'C|I="halt"|N="Trading.Halt"|A="{text}"{rest}'


def why(**more: object) -> dict[str, object]:
    return {"form": {"inputs": [{"label": "Why", "var": "why", **more}]}}


def ready(*lines: str, config: RelayConfig | None = None) -> RelayPlay:
    """An application has logged in and said these lines, and its class has settled."""
    play = RelayPlay(config)
    play.logs_in()
    play.says(*lines)
    assert not [line for line in play.lines() if "|S=1|" in line]
    play.time_passes(2)
    return play


def methods(play: RelayPlay) -> dict[str, Method]:
    """The methods in the version of the application's class that was told last."""
    learned = [step.schema for step in play.left() if isinstance(step, ClassLearned)]
    return {method.name: method for method in learned[-1].methods}


# C.


def test_a_command_becomes_a_method_of_its_application() -> None:
    play = ready(
        command(why(required=True), '|M="1"|F="venue"|H="Halts it."|W="level>1"|T="p"|E="on"|L=2|X="alert()"')
    )
    assert methods(play)["halt"] == Method(
        "halt",
        (
            Argument("why", ValueType.STRING, label="Why"),
            Argument("type", ValueType.STRING, description="The type (T) of what is meant."),
            Argument("object", ValueType.STRING, description="The id of the object that is meant."),
            REPLY,
        ),
        "Trading.Halt",
        "Halts it. For objects where level>1. In panels where p. Enabled when on. Needs level 2. "
        "Has a script of the vendor's, which is not run.",
    )


def test_inputs_become_arguments_with_defaults_options_and_patterns() -> None:
    inputs = [
        {
            "var": "venue",
            "type": "select",
            "required": True,
            "value": "X",
            "options": {"X": "Xetra", "L": "LSE"},
        },
        {"var": "size", "pattern": "[0-9]+"},
        {"var": "token", "type": "hidden", "value": "t"},
        {"var": "pin", "type": "password", "value": "1234"},
        {"var": "password", "value": "p", "label": "Word"},
        {"var": "target", "value": "amqp://u:p@h/"},
        {"var": "type"},
        {"var": "reply"},
    ]
    play = ready(command({"form": {"inputs": inputs}}))
    arguments = {argument.name: argument for argument in methods(play)["halt"].arguments}
    assert list(arguments) == [
        "venue",
        "size",
        "pin_password",
        "password",
        "target",
        "type",
        "reply_",
        "type_",
        "object",
        "reply",
    ]
    assert arguments["venue"] == Argument(
        "venue",
        ValueType.STRING,
        default="X",
        values=(NamedValue("Xetra", "X"), NamedValue("LSE", "L")),
        optional=True,
    )
    assert arguments["size"].description == "Matches [0-9]+"
    assert {arguments[name].default for name in ("pin_password", "password", "target")} == {None}


@pytest.mark.parametrize(
    ("selection", "names", "optional"),
    [
        ("0", [], False),
        ("1", ["type", "object"], False),
        ("0-1", ["type", "object"], True),
        ("2", ["type", "objects"], False),
        ("0-", ["type", "objects"], True),
    ],
)
def test_what_a_command_needs_of_objects_are_arguments(
    selection: str,
    names: list[str],
    optional: bool,  # noqa: FBT001
) -> None:
    play = ready(f'C|I="c"|N="C"|M="{selection}"')
    *rows, reply = methods(play)["c"].arguments
    assert [one.name for one in rows] == names
    assert {one.optional for one in rows} <= {optional}
    assert reply == REPLY


def test_long_conditions_are_cut_in_what_is_shown() -> None:
    play = ready(f'C|I="c"|N="C"|H="{"x" * 2000}"')
    assert methods(play)["c"].description == "x" * 1000 + "…"


def test_commands_that_only_layouts_call_are_no_methods() -> None:
    play = ready('C|I="c"|N="C"|C="user_open_layout,now"', ALONE)
    assert list(methods(play)) == ["stop"]


def test_level_0_withdraws_a_command_whether_it_was_there_or_not() -> None:
    play = ready(ALONE, 'C|I="c"|N="C"')
    play.left()
    play.says('C|I="c"|N="C"|L=0', 'C|I="d"|N="D"|L=0')
    play.time_passes(5)
    assert list(methods(play)) == ["stop"]


def test_two_applications_have_their_own_commands() -> None:
    play = ready(ALONE)
    play.left()
    play.logs_in("pump-8", number=2)
    play.says('C|I="go"|N="Go"|M="0"', number=2)
    play.time_passes(10)
    steps = play.left()
    learned = {step.schema.key: step.schema for step in steps if isinstance(step, ClassLearned)}
    eight = [step for step in steps if isinstance(step, ObjectSeen) and step.native_id == "pump-8"][-1]
    assert [method.name for method in learned[eight.key].methods] == ["go"]


def test_the_same_command_of_two_connections_goes_over_the_later_one() -> None:
    play = ready(ALONE)
    play.connects(2)
    play.says('L|I="pump-7"', ALONE, number=2)
    play.left()
    play.calls("stop")
    assert play.lines()[0].startswith("2< E@")
    play.ends(number=2)
    play.left()
    play.calls("stop")
    assert play.lines()[0].startswith("1< E@")


@pytest.mark.parametrize(
    "line",
    [
        'C|I=""|N="C"',
        f'C|I="{"x" * 201}"|N="C"',
        r'C|I="a\nb"|N="C"',
        command({"form": {"inputs": [{"var": "my var"}]}}),
        command({"form": {"inputs": [{"var": "I"}]}}),
        'C|I="c"|N="C"|C="sometimes"',
        'C|I="c"|N="C"|A="{}}"',
    ],
)
def test_some_commands_are_refused(line: str) -> None:
    play = ready()
    play.left()
    play.says(line)
    assert play.lines()[0].startswith("1< M|Q=1|S=1|M=")
    play.time_passes(10)
    assert "class application" not in play.told()


def test_commands_of_a_connection_are_bounded() -> None:
    limits = RelayLimits(commands=2, command_octets=100)
    play = ready(ALONE, ALONE, config=RelayConfig(limits=limits))
    play.left()
    play.says(f'C|I="stop"|N="{"x" * 100}"', 'C|I="b"|N="B"', 'C|I="c"|N="C"', ALONE, 'C|I="b"|N="B"|L=0')
    play.says(f'C|I="d"|N="{"x" * 60}"')
    assert [line[:14] for line in play.lines() if "<" in line] == [
        "1< M|Q=3|S=1|M",
        "1< M|Q=4|S=0|M",
        "1< M|Q=5|S=1|M",
        "1< M|Q=6|S=0|M",
        "1< M|Q=7|S=0|M",
        "1< M|Q=8|S=0|M",
    ]


# E.


def test_a_call_goes_out_with_what_was_asked_and_the_columns_that_are_wanted() -> None:
    play = ready(
        'O|T="Quote"|I="q7"|venue="XTKS"|size=5|n=1L',
        command(why(required=True), '|F="venue,n,absent,a b"'),
    )
    play.left()
    play.calls("halt", "drift", "Quote", "q7")
    assert play.lines() == [
        '1< E@1700000002000|C="halt"|I="g1"|U="amqp-gateway"|T="Quote"|O="q7"|venue="XTKS"|n=1L|why="drift"'
    ]


def test_several_objects_go_out_as_a_list() -> None:
    play = ready(
        'O|T="Quote"|I="q7"|venue="XTKS"|at=1700000000000T|raw="AQI="U',
        'O|T="Quote"|I="q8"|venue="XETR"',
        'C|I="halt"|N="Halt"|M="1-2"|F="venue,at,raw"',
    )
    play.left()
    play.calls("halt", "Quote", '["q7","q8"]')
    (line,) = play.lines()
    assert (
        r'|T="Quote"|V="[{\"O\":\"q7\",\"venue\":\"XTKS\",\"at\":1700000000000,\"raw\":\"0102\"},'
        r'{\"O\":\"q8\",\"venue\":\"XETR\"}]"J' in line
    )
    play.calls("halt", "Quote", '["q7"]')
    assert '|O="q7"|venue="XTKS"' in play.lines()[0]


def test_defaults_are_sent_where_nothing_is_said() -> None:
    inputs = [
        {"var": "a", "value": "1", "required": True},
        {"var": "b"},
        {"var": "c", "type": "hidden", "value": "3"},
        {"var": "d", "type": "hidden"},
    ]
    play = ready(command({"form": {"inputs": inputs}}, '|M="0-1"'))
    play.left()
    play.calls("halt", None, None, None, None)
    assert play.lines()[0].endswith('|U="amqp-gateway"|a="1"|c="3"')
    play.calls("halt", "x", "y", None, None)
    assert play.lines()[0].endswith('|U="amqp-gateway"|a="x"|b="y"|c="3"')


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ((), Outcome.WRONG_VALUE),
        ((None, None, None), Outcome.WRONG_VALUE),
        ((5, None, None), Outcome.WRONG_TYPE),
        (("Z", None, None), Outcome.WRONG_VALUE),
        (("\ud800", None, None), Outcome.WRONG_VALUE),
        (("X", "Quote", None), Outcome.WRONG_VALUE),
        (("X", None, '["q7"]'), Outcome.WRONG_VALUE),
        (("X", "Quote", "q7"), Outcome.WRONG_VALUE),
        (("X", "Quote", "[7]"), Outcome.WRONG_VALUE),
        (("X", "Quote", '["q7","q7"]'), Outcome.WRONG_VALUE),
        (("X", "Quote", '["q7","q8","q9"]'), Outcome.WRONG_VALUE),
        (("X", "Quote", '["q7","q8"]'), Outcome.OBJECT_GONE),
        (("X", "Nothing", '["q7"]'), Outcome.OBJECT_GONE),
    ],
)
def test_what_does_not_fit_the_form_is_not_sent(arguments: tuple[str | None, ...], outcome: Outcome) -> None:
    play = ready('O|T="Quote"|I="q7"', command(why(required=True, options=["X", "Y"]), '|M="0-2"'))
    play.left()
    play.calls("halt", *arguments)
    (answer,) = play.left()
    assert isinstance(answer, Answer)
    assert (answer.token, answer.outcome, answer.text[:9]) == (7, outcome, "not sent:")


def test_what_no_line_can_carry_is_not_sent() -> None:
    play = ready(command(why(), '|M="0"'))
    play.left()
    play.calls("halt", "x" * (1 << 20))
    assert play.answers()[0].outcome is Outcome.WRONG_VALUE


def test_what_is_typed_unseen_is_sent_and_not_logged() -> None:
    inputs = [{"var": "pin", "type": "password", "value": "0"}, {"var": "secret"}, {"var": "why"}]
    play = RelayPlay()
    play.connects()
    play.says('L|I="pump-7"|O="LOG"', command({"form": {"inputs": inputs}}, '|M="0"'))
    play.logged.clear()
    play.left()
    play.calls("halt", "1234", "shh", "drift")
    assert '|pin="1234"|secret="shh"|why="drift"' in play.lines()[0]
    (logged,) = play.logged
    assert logged.outgoing
    assert logged.line.endswith(b'|pin="***"|secret="***"|why="drift"')


def called_with_a_pin() -> RelayPlay:
    """A session that is logged, whose command was called with two things typed unseen: 1234 and no."""
    inputs = [
        {"var": "pin", "type": "password"},
        {"var": "secret"},
        {"var": "empty_password"},
        {"var": "why"},
    ]
    play = RelayPlay()
    play.connects()
    form = command({"form": {"inputs": inputs}}, '|M="1"')
    play.says('L|I="pump-7"|O="LOG"', 'O|T="Tank"|I="t1"|level=3', form)
    play.calls("halt", "1234", "no", "", "drift", "Tank", "t1")
    play.logged.clear()
    play.left()
    return play


def test_what_was_typed_unseen_is_not_shown_where_an_application_says_it_back() -> None:
    play = called_with_a_pin()
    play.says(r'R|I="g1"|S=0|M="pin 1234: no, not known"|pin="1234"|note="1234!"|n=5')
    assert play.answers()[0].text == "pin ***: ***, not known"
    (logged, _) = play.logged
    assert logged.line == b'R|I="g1"|S=0|M="pin ***: ***, not known"|note="***!"|n=5'


def test_what_was_typed_unseen_is_no_column_of_a_row() -> None:
    play = called_with_a_pin()
    play.says(r'R|I="g1"|S=3|pin="1234"|state="by 1234"|n=1234')
    play.time_passes(1)
    assert play.told("Tank")[-1] == "Tank t1 state=by *** level=3 n=1234"


def test_an_answer_without_what_was_typed_unseen_is_logged_as_it_came() -> None:
    play = called_with_a_pin()
    play.says(r'R|M="halted"|S=0|I="g1"')
    assert play.logged[0].line == b'R|M="halted"|S=0|I="g1"'
    play.says(r'R|M="1234"|S=0|I="g1"')
    assert play.logged[-2].line == b"refused: Unknown Original Request ID"


def test_a_form_whose_unseen_input_is_left_empty_masks_nothing() -> None:
    play = ready(command({"form": {"inputs": [{"var": "pin", "type": "password"}]}}, '|M="0"'))
    play.left()
    play.calls("halt", "")
    play.says('R|I="g1"|S=0|M="no pin"|script=5|X="see"')
    assert play.answers()[0].text == "no pin"


def test_calls_of_nobody_are_not_sent() -> None:
    play = ready(ALONE)
    play.left()
    play.calls("stop", of="pump-8")
    play.calls("start")
    play.calls("stop", wait=0)
    play.ends()
    play.calls("stop")
    assert [answer.outcome for answer in play.answers()] == [
        Outcome.OBJECT_GONE,
        Outcome.UNKNOWN_ELEMENT,
        Outcome.NOT_NOW,
        Outcome.SOURCE_DOWN,
    ]


def test_calls_under_way_are_bounded() -> None:
    play = ready(ALONE, config=RelayConfig(limits=RelayLimits(operations=1)))
    play.left()
    play.calls("stop")
    play.calls("stop")
    assert [answer.outcome for answer in play.answers()] == [Outcome.NOT_NOW]


# R.


@pytest.mark.parametrize(
    ("status", "outcome", "text"),
    [
        (0, Outcome.APPLIED, "halted"),
        (1, Outcome.UNKNOWN, "answered with status 1, which does not tell whether it was done: halted"),
        (2, Outcome.UNKNOWN, "answered with status 2, which does not tell whether it was done: halted"),
        (3, Outcome.APPLIED, "halted"),
        (9, Outcome.UNKNOWN, "answered with status 9, which does not tell whether it was done: halted"),
    ],
)
def test_what_an_answer_says(status: int, outcome: Outcome, text: str) -> None:
    play = ready(ALONE)
    play.left()
    play.calls("stop", token=11)
    play.says(f'R|I="g1"|S={status}|M="halted"|n=5|at=0T|password="p"|none=null')
    answer = play.answers()[0]
    assert answer == Answer(11, outcome, text, status, ({"n": 5, "at": "1970-01-01T00:00:00.000Z"},))


def test_an_answer_may_say_nothing_and_must_not_say_secrets() -> None:
    play = ready(ALONE)
    play.left()
    play.calls("stop")
    play.says('R|I="g1"|S=0')
    assert play.answers() == [Answer(7, Outcome.APPLIED, "", 0, (None,))]
    play.calls("stop")
    play.says(r'R|I="g2"|S=1')
    assert play.answers()[0].text == "answered with status 1, which does not tell whether it was done"
    play.calls("stop")
    play.says(r'R|I="g3"|S=0|M="see\nhttp://u:p@h/ ' + "x" * 600 + '"')
    text = play.answers()[0].text
    assert text.startswith("see http://***@h/ xxx")
    assert len(text) == 501


def test_status_3_changes_the_object_that_was_meant() -> None:
    play = ready('O|T="Quote"|I="q7"|state="OPEN"|size=5', 'C|I="halt"|N="Halt"')
    play.left()
    play.calls("halt", "Quote", "q7")
    play.left()
    play.says('R|I="g1"|S=3|state="HALTED"')
    steps = play.left()
    assert play.shown(steps[0]) == "Quote q7 state=HALTED size=5"
    assert isinstance(steps[1], Answer)  # behind what it led to
    assert steps[2] == '1< M|Q=3|S=0|M="OK, response accepted"'


def test_status_3_without_one_object_changes_nothing_and_says_so() -> None:
    play = ready('O|T="Quote"|I="q7"|state="OPEN"', 'C|I="halt"|N="Halt"', ALONE)
    play.left()
    play.calls("halt", "Quote", "q7")
    play.calls("stop")
    play.says('D|T="Quote"|I="q7"', 'R|I="g1"|S=3|state="HALTED"', 'R|I="g2"|S=3|state="HALTED"')
    lines = play.lines()
    assert [line.partition("M=")[2] for line in lines[-2:]] == [
        '"OK, response accepted; there is no one object that its values could change"'
    ] * 2


def test_an_answer_whose_values_are_refused_leaves_the_call_open() -> None:
    play = ready(
        'O|T="Quote"|I="q7"|a=1', 'C|I="halt"|N="Halt"', config=RelayConfig(limits=RelayLimits(keys=1))
    )
    play.left()
    play.calls("halt", "Quote", "q7")
    play.says('R|I="g1"|S=3|b=2')
    assert play.answers() == []
    play.says('R|I="g1"|S=3|a=2')
    assert play.answers()[0].outcome is Outcome.APPLIED


def test_answers_to_nothing_and_second_answers_are_refused() -> None:
    play = ready(ALONE)
    play.logs_in("pump-8", number=2)
    play.left()
    play.calls("stop")
    play.says('R|I="nope"|S=0', 'R|I="g1"', 'R|I="g1"|S="0"')
    play.says('R|I="g1"|S=0', number=2)
    assert play.answers() == []
    play.says('R|I="g1"|S=0', 'R|I="g1"|S=0')
    steps = play.left()
    assert len([step for step in steps if isinstance(step, Answer)]) == 1
    assert '1< M|Q=6|S=1|M="Unknown Original Request ID"' in steps


@pytest.mark.parametrize(
    ("form", "wait", "seconds"), [({"timeout": 8000}, 60, 8), ({}, 5, 5), ({}, 1000, 60)]
)
def test_an_answer_is_waited_for_as_long_as_form_and_caller_say(
    form: dict[str, object], wait: int, seconds: int
) -> None:
    play = ready(command({"form": {}, **form}, '|M="0"'))
    play.left()
    play.calls("halt", wait=wait)
    play.time_passes(seconds - 1)
    assert play.answers() == []
    play.time_passes(2)
    (answer,) = play.answers()
    assert (answer.outcome, answer.text) == (Outcome.UNKNOWN, "the application has not answered in time")


def test_a_late_answer_still_tells_what_became_of_it() -> None:
    play = ready(ALONE)
    play.left()
    play.calls("stop", wait=5)
    play.time_passes(6)
    play.left()
    play.says('R|I="g1"|S=0|M="done"')
    assert play.answers() == [Answer(7, Outcome.APPLIED, "done", 0, (None,))]
    play.says('R|I="g1"|S=0|M="done"')
    assert play.answers() == []


def test_only_the_last_calls_without_an_answer_are_remembered() -> None:
    play = ready(ALONE)
    play.left()
    for _ in range(2):
        for _ in range(600):
            play.calls("stop", wait=5)
        play.time_passes(6)
    assert len(play.answers()) == 1200
    play.says('R|I="g1"|S=0', 'R|I="g1200"|S=0')
    assert len(play.answers()) == 1


def test_what_a_connection_left_open_nobody_knows() -> None:
    play = ready(ALONE)
    play.left()
    play.calls("stop", wait=5)
    play.time_passes(6)
    play.left()
    play.calls("stop", token=8)
    play.ends("it broke")
    (answer,) = play.answers()
    assert (answer.token, answer.outcome) == (8, Outcome.UNKNOWN)
    assert answer.text == "the connection ended before an answer came: it broke"
    play.connects(2)
    play.says('L|I="pump-7"', 'R|I="g1"|S=0', 'R|I="g2"|S=0', number=2)
    assert play.answers() == []


def test_commands_go_with_their_connection_and_are_shown_until_it_is_back() -> None:
    play = ready(ALONE)
    play.left()
    play.ends()
    play.time_passes(100)
    assert "class application" not in play.told()
    play.connects(2)
    play.says('L|I="pump-7"', ALONE, number=2)
    play.time_passes(100)
    assert "class application" not in play.told()  # they are the same ones


# Reading anew.


def test_nothing_can_be_read_anew() -> None:
    play = ready('O|T="Tank"|I="t1"')
    play.left()
    play.fetches("pump-7|Tank|t1")
    play.fetches("pump-7|Tank|t2")
    play.fetches("pump-7|Tank|t1", agent="pump-8")
    play.ends()
    play.fetches("pump-7|Tank|t1")
    assert [answer.outcome for answer in play.answers()] == [
        Outcome.NOT_NOW,
        Outcome.OBJECT_GONE,
        Outcome.OBJECT_GONE,
        Outcome.SOURCE_DOWN,
    ]


# The log that an application asks for.


def test_a_session_is_logged_where_its_application_wants_that() -> None:
    play = RelayPlay(RelayConfig(secrets=SecretRules([r"^pin$"])))
    play.connects()
    play.says(
        'L#0|I="pump-7"|O="LOG"',
        'O#1|T="Tank"|I="t1"|level=3',
        'O#2|T="Tank"|I="t1"|level=3|pin=1',
        "bad http://u:p@h/",
        'S#3|u="http://u:p@h/"',
        '#O|T="Tank"|password="p"',
        'O#4|T="Tank"|I="t1"|AB=1|pin=1',
        "H",
    )
    assert [one.line for one in play.logged if not one.outgoing] == [
        b'L#0|I="pump-7"|O="LOG"',
        b'O#1|T="Tank"|I="t1"|level=3',
        b'O#2|T="Tank"|I="t1"|level=3|pin="***"',
        b"refused: at offset 1: expected |, # or @, found something else",
        b'S#3|u="http://***@h/"',
        b"# a comment of 24 octets",
        b"O, with secrets",
        b"H",
    ]
    assert {one.application for one in play.logged} == {"pump-7"}
    assert play.logged[1].outgoing
    assert play.logged[1].line == b'M|Q=0|S=0|M="Welcome to AMI v1.0"'


def test_no_session_is_logged_that_does_not_ask_for_it() -> None:
    play = ready("S|a=1")
    assert play.logged == []
