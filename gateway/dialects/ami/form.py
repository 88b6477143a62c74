"""The form of a command: the questions to the user before it is called, as JSON in its key A.

The pages name ``form.inputs[]`` (label, var, type, required, pattern, value, options), ``form.buttons[]``,
width, height and ``timeout``. They do not define the shape of options: a list of texts, a list of objects
with a value and a label (or text, or name), and an object of values and labels are accepted. Other keys of a
form are ignored.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.model.schema import Argument, Method, NamedValue
from gateway.model.values import ValueType

MAX_INPUTS: Final = 100
"""Largest number of inputs of a form, and of buttons."""

MAX_OPTIONS: Final = 1000
"""Largest number of options of an input."""

MAX_FORM: Final = 1 << 16
"""Largest number of characters of a form's JSON."""

MAX_TIMEOUT: Final = 24 * 60 * 60 * 1000
"""Longest timeout in milliseconds."""

_LABELS: Final = ("label", "text", "name")


class InputType(enum.Enum):
    """The control for an input."""

    TEXT = "text"
    TEXTAREA = "textarea"
    SELECT = "select"
    HIDDEN = "hidden"
    """The user is not asked: the value is sent."""
    PASSWORD = "password"  # noqa: S105  a kind of input


_INPUT_TYPES: Final = {one.value: one for one in InputType}


@dataclass(frozen=True, slots=True)
class Input:
    """One question to the user.

    Attributes:
        variable: the key of the user's answer.
        pattern: a regular expression that the answer must match; empty for none.
        value: the initial value.
        options: the only permitted answers, if any are named.
    """

    variable: str
    label: str = ""
    type: InputType = InputType.TEXT
    required: bool = False
    pattern: str = ""
    value: str | None = None
    options: tuple[NamedValue, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """The questions to the user, and the milliseconds for which an answer of the application is awaited.

    ``width`` and ``height`` are in pixels. ``None`` stands for an absent value.
    """

    inputs: tuple[Input, ...] = ()
    buttons: tuple[NamedValue, ...] = ()
    width: int | None = None
    height: int | None = None
    timeout: int | None = None


def read_form(text: str, position: int = 0) -> Form:
    """Return the form that JSON describes; ``position`` is that of the JSON in its line.

    Raises:
        ProtocolError: it is not JSON, not of this shape, or exceeds a bound.
    """
    if len(text) > MAX_FORM:
        raise ProtocolError(f"a form of at most {MAX_FORM} characters", f"{len(text)}", position)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a form as JSON", "what is none", position) from error
    reader = _FormReader(position)
    outer = reader.an_object(document, "a form")
    inner = reader.an_object(outer.get("form", {}), "form")
    inputs = tuple(reader.input(one) for one in reader.a_list(inner, "inputs", MAX_INPUTS))
    if len({one.variable for one in inputs}) < len(inputs):
        raise ProtocolError("each variable of a form once", "one twice", position)
    sizes = [reader.number(inner, name, outer) for name in ("width", "height", "timeout")]
    return Form(inputs, reader.buttons(inner), *sizes)


class _FormReader:
    def __init__(self, position: int) -> None:
        self._position = position

    def _fail(self, expected: str) -> ProtocolError:
        return ProtocolError(expected, "something else", self._position)

    def an_object(self, value: object, what: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._fail(f"{what} as an object of JSON")
        return value

    def a_list(self, owner: Mapping[str, object], name: str, most: int) -> list[Any]:
        value = owner.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > most:
            raise self._fail(f"{name} as a list of at most {most}")
        return value

    def text(self, owner: Mapping[str, object], name: str) -> str | None:
        value = owner.get(name)
        return None if value is None else self._plain(value, name)

    def _plain(self, value: object, name: str) -> str:
        """Return a text; numbers and booleans are accepted, because scripts that write JSON use them."""
        if not isinstance(value, str | int | float):
            raise self._fail(f"{name} as text")
        return value if isinstance(value, str) else json.dumps(value)

    def number(self, inner: Mapping[str, object], name: str, outer: Mapping[str, object]) -> int | None:
        """Return a number of the form. A relay's example has ``timeout`` beside ``form``: both are read."""
        value = inner.get(name, outer.get(name))
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_TIMEOUT:
            raise self._fail(f"{name} as a number from 0 to {MAX_TIMEOUT}")
        return value

    def input(self, value: object) -> Input:
        fields = self.an_object(value, "an input")
        variable = self.text(fields, "var")
        if not variable:
            raise self._fail("the variable (var) of an input")
        kind = self.text(fields, "type") or InputType.TEXT.value
        if kind not in _INPUT_TYPES:
            raise self._fail(f"a type of input ({', '.join(_INPUT_TYPES)})")
        required = fields.get("required", False)
        if not isinstance(required, bool):
            raise self._fail("required as true or false")
        return Input(
            variable,
            self.text(fields, "label") or "",
            _INPUT_TYPES[kind],
            required,
            self.text(fields, "pattern") or "",
            self.text(fields, "value"),
            self._options(fields.get("options")),
        )

    def _options(self, value: object) -> tuple[NamedValue, ...]:
        if isinstance(value, dict):
            pairs = [(self._plain(label, "an option"), name) for name, label in value.items()]
        elif isinstance(value, list):
            pairs = [self._named(one, "an option") for one in value]
        elif value is None:
            pairs = []
        else:
            raise self._fail("options as a list or an object")
        if len(pairs) > MAX_OPTIONS:
            raise self._fail(f"at most {MAX_OPTIONS} options")
        return tuple(NamedValue(label, name) for label, name in pairs)

    def buttons(self, inner: Mapping[str, object]) -> tuple[NamedValue, ...]:
        found = self.a_list(inner, "buttons", MAX_INPUTS)
        return tuple(NamedValue(*self._named(one, "a button")) for one in found)

    def _named(self, value: object, what: str) -> tuple[str, str]:
        if not isinstance(value, dict):
            plain = self._plain(value, what)
            return plain, plain
        labels = [text for name in _LABELS if (text := self.text(value, name)) is not None]
        named = self.text(value, "value")
        if named is None and not labels:
            raise self._fail(f"{what} with a value or a label")
        label = labels[0] if labels else str(named)
        return label, label if named is None else named


def write_form(form: Form) -> str:
    """Return the form as JSON.

    Raises:
        LocalProtocolError: it exceeds a bound.
    """
    inputs = [_written_input(one) for one in form.inputs]
    buttons = [{"label": one.label, "value": one.value} for one in form.buttons]
    sizes = {"width": form.width, "height": form.height}
    inner = {"inputs": inputs, "buttons": buttons, **sizes}
    document = {
        "form": {name: value for name, value in inner.items() if value not in (None, [])},
        **({} if form.timeout is None else {"timeout": form.timeout}),
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    try:
        read_form(text)
    except ProtocolError as error:
        raise LocalProtocolError(f"a form that could not be read: {error}") from error
    return text


def _written_input(one: Input) -> dict[str, object]:
    options = [{"label": option.label, "value": option.value} for option in one.options]
    fields: dict[str, object] = {"label": one.label, "var": one.variable}
    if one.type is not InputType.TEXT:
        fields["type"] = one.type.value
    if one.required:
        fields["required"] = True
    fields |= {"pattern": one.pattern} if one.pattern else {}
    fields |= {} if one.value is None else {"value": one.value}
    return fields | ({"options": options} if options else {})


def form_arguments(form: Form | None) -> tuple[Argument, ...]:
    """Return the inputs as arguments of a method: texts, optional where no answer is required."""
    return tuple(_argument(one) for one in form.inputs) if form is not None else ()


def _argument(one: Input) -> Argument:
    return Argument(
        one.variable,
        ValueType.STRING,
        default=one.value,
        label=one.label,
        description=f"Matches {one.pattern}" if one.pattern else "",
        values=one.options,
        optional=not one.required,
    )


def form_method(name: str, form: Form | None, label: str = "", description: str = "") -> Method:
    """Return a method whose arguments are the form's inputs."""
    return Method(name, form_arguments(form), label, description)
