"""Forms of commands: reading, writing, and conversion to arguments of methods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.ami.form import (
    MAX_FORM,
    MAX_INPUTS,
    MAX_OPTIONS,
    MAX_TIMEOUT,
    Form,
    Input,
    InputType,
    form_arguments,
    form_method,
    read_form,
    write_form,
)
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.model.schema import Argument, Method, NamedValue
from gateway.model.values import ValueType

TEXT = """
{"form": {
   "width": 300, "height": 200,
   "inputs": [
     {"label": "Why", "var": "why", "required": true, "pattern": "[a-z]+"},
     {"label": "Where", "var": "venue", "type": "select", "value": "T",
      "options": [{"label": "Tokyo", "value": "T"}, {"text": "Osaka", "value": "O"}, "Nagoya",
                  {"label": "Kobe"}, {"value": 7}]},
     {"var": "side", "type": "select", "options": {"B": "Buy", "S": "Sell"}},
     {"var": "id", "type": "hidden", "value": 12},
     {"var": "note", "type": "textarea", "value": true},
     {"var": "code", "type": "password"}
   ],
   "buttons": [{"name": "Go", "value": "go"}, "Stop"]},
 "timeout": 8000}
"""

FORM = Form(
    (
        Input("why", "Why", required=True, pattern="[a-z]+"),
        Input(
            "venue",
            "Where",
            InputType.SELECT,
            value="T",
            options=(
                NamedValue("Tokyo", "T"),
                NamedValue("Osaka", "O"),
                NamedValue("Nagoya", "Nagoya"),
                NamedValue("Kobe", "Kobe"),
                NamedValue("7", "7"),
            ),
        ),
        Input("side", type=InputType.SELECT, options=(NamedValue("Buy", "B"), NamedValue("Sell", "S"))),
        Input("id", type=InputType.HIDDEN, value="12"),
        Input("note", type=InputType.TEXTAREA, value="true"),
        Input("code", type=InputType.PASSWORD),
    ),
    (NamedValue("Go", "go"), NamedValue("Stop", "Stop")),
    300,
    200,
    8000,
)


def test_a_form_is_read() -> None:
    assert read_form(TEXT) == FORM


def test_a_form_is_written_and_read_again() -> None:
    assert read_form(write_form(FORM)) == FORM
    assert write_form(Form()) == '{"form":{}}'
    assert read_form("{}") == Form()


def test_a_timeout_may_stand_within() -> None:
    assert read_form('{"form":{"timeout":5}}') == Form(timeout=5)


def _form(**fields: object) -> dict[str, object]:
    return {"form": fields}


REFUSED: list[tuple[Any, str]] = [
    ([], "a form as an object"),
    ({"form": 5}, "form as an object"),
    (_form(inputs={}), "inputs as a list"),
    (
        _form(inputs=[{"var": f"v{number}"} for number in range(MAX_INPUTS + 1)]),
        "inputs as a list of at most",
    ),
    (_form(inputs=[5]), "an input as an object"),
    (_form(inputs=[{"label": "a"}]), "the variable"),
    (_form(inputs=[{"var": ["a"]}]), "var as text"),
    (_form(inputs=[{"var": "a"}, {"var": "a"}]), "each variable of a form once"),
    (_form(inputs=[{"var": "a", "type": "range"}]), "a type of input"),
    (_form(inputs=[{"var": "a", "required": "yes"}]), "required"),
    (_form(inputs=[{"var": "a", "options": 5}]), "options as a list"),
    (_form(inputs=[{"var": "a", "options": [None]}]), "an option as text"),
    (_form(inputs=[{"var": "a", "options": [{}]}]), "an option with a value"),
    (_form(inputs=[{"var": "a", "options": ["x"] * (MAX_OPTIONS + 1)}]), "at most 1000 options"),
    (_form(width="5"), "width as a number"),
    (_form(width=True), "width as a number"),
    ({"timeout": -1}, "timeout as a number"),
    ({"timeout": MAX_TIMEOUT + 1}, "timeout as a number"),
]


@pytest.mark.parametrize(("document", "why"), REFUSED)
def test_what_is_no_form(document: Any, why: str) -> None:  # noqa: ANN401  any JSON
    with pytest.raises(ProtocolError, match=why):
        read_form(json.dumps(document))


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 60_000, " " * (MAX_FORM + 1)], ids=["no", "half", "deep", "long"]
)
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(ProtocolError):
        read_form(text)


@pytest.mark.parametrize("form", [Form((Input(""),)), Form(timeout=-1), Form((Input("a", "x" * MAX_FORM),))])
def test_what_could_not_be_read_is_not_written(form: Form) -> None:
    with pytest.raises(LocalProtocolError):
        write_form(form)


def test_a_form_is_the_arguments_of_a_method() -> None:
    why, venue, *_ = form_arguments(FORM)
    assert why == Argument("why", ValueType.STRING, label="Why", description="Matches [a-z]+")
    assert (venue.optional, venue.default, venue.values[0]) == (True, "T", NamedValue("Tokyo", "T"))
    assert form_arguments(None) == ()
    assert form_method("halt", None, "Trading.Halt", "Halts it") == Method(
        "halt", (), "Trading.Halt", "Halts it"
    )
