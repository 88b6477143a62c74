"""Instructions to lines, in the form that the documents have; the counterpart of `reader`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from gateway.dialects.ami.form import write_form
from gateway.dialects.ami.instructions import (
    BY_CLICK,
    ONE_ROW,
    Alert,
    Command,
    Delete,
    Execute,
    Exit,
    Help,
    Instruction,
    Login,
    ObjectUpdate,
    Option,
    Pause,
    Reply,
    Response,
    Selection,
    Status,
    Trigger,
    Values,
)
from gateway.dialects.ami.lines import MAX_LINE
from gateway.dialects.ami.parameters import MAX_PARAMETERS, is_key, is_reserved
from gateway.dialects.ami.reader import HIDDEN
from gateway.dialects.ami.values import LONG_LIMIT, Long, quoted, write_value
from gateway.dialects.errors import LocalProtocolError


class LineEnd(enum.Enum):
    """What ends a line; the second one is LF and then CR, as the interface document has it."""

    UNIX = b"\n"
    WINDOWS = b"\n\r"


_Pairs: TypeAlias = Iterable[tuple[str, str | None]]
"""Keys with values as they are written; ``None`` is left out."""


def write_instruction(instruction: Instruction, end: LineEnd = LineEnd.UNIX) -> bytes:
    """Return the line, with its end.

    Raises:
        LocalProtocolError: something in it cannot be said: a key that is none or is reserved, a value or
            number that does not fit, a type that relays keep for themselves, or more than readers here take.
    """
    pairs, values = _WRITERS[type(instruction)](instruction)
    parts = [
        instruction.letter + _mark("#", instruction.sequence) + _mark("@", instruction.now),
        *(f"{key}={text}" for key, text in pairs if text is not None),
        *(f"{_free(key)}={write_value(value)}" for key, value in values.items()),
    ]
    line = "|".join(parts).encode("ascii")
    if len(line) > MAX_LINE or len(parts) > MAX_PARAMETERS:
        raise LocalProtocolError(f"an instruction of {len(line)} octets and {len(parts)} parts is too long")
    return line + end.value


def _mark(mark: str, number: int | None) -> str:
    if number is None:
        return ""
    if not 0 <= number < LONG_LIMIT:
        raise LocalProtocolError(f"{number} cannot stand behind {mark}")
    return f"{mark}{number}"


def _free(key: str) -> str:
    if not is_key(key):
        raise LocalProtocolError("a key must have letters, digits and _ only")
    if is_reserved(key):
        raise LocalProtocolError(f"the key {key} is reserved")
    return key


def _text(text: str | None) -> str | None:
    return None if text is None else quoted(text)


def _type(name: str) -> str:
    if name.startswith(HIDDEN):
        raise LocalProtocolError(f"types that begin with {HIDDEN} are a relay's own")
    return quoted(name)


def _integer(number: int | None) -> str | None:
    return None if number is None else write_value(int(number))


def _long(number: int | None) -> str | None:
    return None if number is None else write_value(Long(number))


_Written: TypeAlias = tuple[_Pairs, Values]


def _login(one: Login) -> _Written:
    options = ",".join(each.value for each in Option if each in one.options)
    pairs = (
        ("I", quoted(one.process_id)),
        ("O", _text(options or None)),
        ("PL", _text(one.plugin or None)),
    )
    return pairs, one.values


def _alert(one: Alert) -> _Written:
    pairs = (
        ("I", quoted(one.alert_id)),
        ("L", _integer(one.level)),
        ("T", _type(one.type)),
        ("E", _long(one.expires)),
        ("U", _text(one.assignee)),
    )
    return pairs, one.values


def _object(one: ObjectUpdate) -> _Written:
    pairs = (
        ("T", _type(one.type)),
        ("I", _text(one.object_id)),
        ("E", _long(one.expires)),
        ("A", _text(one.alert_id)),
    )
    return pairs, one.values


def _delete(one: Delete) -> _Written:
    if one.object_id is None:
        raise LocalProtocolError("an object is deleted by its id")
    return (("I", quoted(one.object_id)), ("T", _type(one.type))), one.values


def _command(one: Command) -> _Written:
    if any("," in column for column in one.fields) or "" in one.fields:
        raise LocalProtocolError("fields of a command must have names without commas")
    triggers = ",".join(each.value for each in Trigger if each in one.triggers)
    if not triggers:
        raise LocalProtocolError("a command needs something that calls it")
    pairs = (
        ("I", quoted(one.command_id)),
        ("N", quoted(one.name)),
        ("L", _integer(one.level)),
        ("M", _selection(one.selection)),
        ("F", _text(",".join(one.fields) or None)),
        ("A", None if one.form is None else quoted(write_form(one.form))),
        ("W", _text(one.where)),
        ("T", _text(one.panel_where)),
        ("H", _text(one.help)),
        ("P", _integer(one.priority)),
        ("E", _text(one.enabled_when)),
        ("S", _text(one.style)),
        ("C", None if one.triggers == BY_CLICK else quoted(triggers)),
        ("X", _text(one.script)),
    )
    return pairs, one.values


def _selection(one: Selection) -> str | None:
    least, most = one.least, one.most
    if least < 0 or (most is not None and most < least) or max(least, most or 0) > 999_999_999:  # noqa: PLR2004
        raise LocalProtocolError(f"{one} is no number of rows")
    if one == ONE_ROW:
        return None
    if most == least:
        return quoted(f"{least}")
    return quoted(f"{least}-{'' if most is None else most}")


def _response(one: Response) -> _Written:
    pairs = (
        ("I", quoted(one.request_id)),
        ("S", _integer(one.status)),
        ("M", _text(one.text)),
        ("X", _text(one.script)),
    )
    return pairs, one.values


def _pause(one: Pause) -> _Written:
    if one.milliseconds <= 0:
        raise LocalProtocolError("a pause must be above 0")
    return (("D", _integer(one.milliseconds)),), {}


def _reply(one: Reply) -> _Written:
    number = one.answers if -(1 << 31) <= one.answers < 1 << 31 else Long(one.answers)
    pairs = (("Q", write_value(number)), ("S", _integer(one.status)), ("M", _text(one.text)))
    return pairs, one.values


def _execute(one: Execute) -> _Written:
    pairs = (
        ("C", quoted(one.command_id)),
        ("I", quoted(one.request_id)),
        ("U", quoted(one.user)),
        ("S", _text(one.session)),
        ("T", _text(one.type)),
        ("O", _text(one.object_id)),
        ("V", None if one.rows is None else write_value(one.rows)),
    )
    return pairs, one.values


# Each function takes the class that it stands under, which the type of a table cannot say.
_WRITERS: Final[Mapping[type[object], Callable[[Any], _Written]]] = {
    Login: _login,
    Status: lambda one: ((), one.values),
    Alert: _alert,
    ObjectUpdate: _object,
    Delete: _delete,
    Command: _command,
    Response: _response,
    Exit: lambda one: ((), one.values),
    Help: lambda _: ((), {}),
    Pause: _pause,
    Reply: _reply,
    Execute: _execute,
}
