"""Commands of applications as methods: their definition by C, and their changes."""

from __future__ import annotations

import pytest

from gateway.dialects.ami.relay import RelayConfig, RelayLimits
from gateway.model.observations import ClassLearned, ObjectSeen
from gateway.model.schema import Argument, Method, NamedValue
from gateway.model.values import ValueType
from tests.dialects.ami.commands_story import ALONE, REPLY, command, methods, ready, why


def test_a_command_becomes_a_method_of_its_application() -> None:
    play = ready(
        command(why(required=True), '|M="1"|F="venue"|H="Halts it."|W="level>1"|T="p"|E="on"|L=2|X="alert()"')
    )
    assert methods(play)["halt"] == Method(
        "halt",
        (
            Argument("why", ValueType.STRING, label="Why"),
            Argument("type", ValueType.STRING, description="The type (T) of the objects."),
            Argument("object", ValueType.STRING, description="The id of the object."),
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
    assert "class application" not in play.reported()


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
