"""Commands of applications as methods, and calls of methods as instructions.

A call is sent once and answered once. One that is not answered in time is remembered for a while: a late
answer still has its outcome.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.dialects.ami.form import Input, InputType
from gateway.dialects.ami.instructions import Command, Execute, Response, ResponseStatus, Trigger
from gateway.dialects.ami.parameters import is_key, is_reserved
from gateway.dialects.ami.relay_effects import RefusedError
from gateway.dialects.ami.relay_tables import Row
from gateway.dialects.ami.values import AmiValue, Json, Utc, to_model
from gateway.dialects.console import NotSentError, Pending
from gateway.model.operations import Answer, MethodCall, Outcome
from gateway.model.schema import Argument, Direction, Method
from gateway.model.secrets import MASK, SecretRules
from gateway.model.texts import one_line
from gateway.model.validation import validate
from gateway.model.values import Value, Values, ValueType

_SHORT: Final = 4
"""Texts of fewer characters are masked only as whole words: most words contain an ``e``."""


class Unseen:
    """The secret inputs of one call.

    Args:
        typed: the inputs by the variables of the command's form.
    """

    def __init__(self, typed: Mapping[str, str]) -> None:
        self._variables = frozenset(typed)
        longest_first = sorted(filter(None, typed.values()), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_pattern, longest_first))) if longest_first else None

    def left_out(self, response: Response) -> Response:
        """Return a response that may be shown: without the values of those variables, and masked in texts.

        Numbers under other keys stay: they cannot be distinguished from measurements.
        """
        if not self._variables:
            return response
        values = {key: self._value(one) for key, one in response.values.items() if key not in self._variables}
        text, script = self._text(response.text), self._text(response.script)
        return replace(response, text=text, script=script, values=values)

    def _value(self, value: AmiValue) -> AmiValue:
        return type(value)(self._text(value)) if isinstance(value, str) else value

    def _text(self, text: str | None) -> str | None:
        return text if text is None or self._pattern is None else self._pattern.sub(MASK, text)


def _pattern(typed: str) -> str:
    escaped = re.escape(typed)
    return escaped if len(typed) >= _SHORT else rf"(?<!\w){escaped}(?!\w)"


REPLY: Final = "reply"
"""The output of every method: the values of the application's answer, beside status and text."""

_MOST_TEXT: Final = 1_000
"""Characters of a description."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A command that can be called.

    Attributes:
        command: the command as its application defined it.
        method: the method that represents it.
        inputs: the inputs that are arguments, in the order of the arguments.
        takes_rows: whether two more arguments follow: a type, and one object or several.
        unseen: variables whose values must not be shown.
    """

    command: Command
    method: Method
    inputs: tuple[Input, ...]
    takes_rows: bool
    unseen: frozenset[str]

    @property
    def timeout(self) -> int:
        """Milliseconds that the form allows for an answer; 0 where it names no time."""
        form = self.command.form
        return (form.timeout or 0) if form is not None else 0


def offer(command: Command, secrets: SecretRules) -> Offer | None:
    """Return the method of a command; ``None`` where only layouts call it.

    Raises:
        RefusedError: an input of its form could not be sent.
    """
    inputs = command.form.inputs if command.form is not None else ()
    for one in inputs:
        if not is_key(one.variable) or is_reserved(one.variable):
            raise RefusedError("each variable of a form must be a key that is not reserved")
    if Trigger.USER_CLICK not in command.triggers:
        return None
    asked = tuple(one for one in inputs if one.type is not InputType.HIDDEN)
    taken = {REPLY}
    arguments: list[Argument] = [_asked(one, secrets, taken) for one in asked]
    takes_rows = command.selection.most != 0
    if takes_rows:
        arguments += _row_arguments(command, taken)
    description = "Values of the answer."
    arguments.append(Argument(REPLY, ValueType.MAP, Direction.OUT, optional=True, description=description))
    label, text = secrets.masked_uris(command.name), secrets.masked_uris(_description(command))
    method = Method(command.command_id, tuple(arguments), label, text)
    hidden = (one for one in asked if one.type is InputType.PASSWORD or secrets.hides(one.variable))
    unseen = frozenset(one.variable for one in hidden)
    return Offer(command, method, asked, takes_rows, unseen)


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _asked(one: Input, secrets: SecretRules, taken: set[str]) -> Argument:
    """Return the argument of an input; a secret one has a name that marks it, so that no record shows it."""
    name, default = one.variable, one.value
    if one.type is InputType.PASSWORD and not secrets.hides(name):
        name = f"{name}_password"
    if default is not None and (secrets.hides(name) or secrets.masked_uris(default) != default):
        default = None  # the application's default is sent all the same if the argument is absent
    return Argument(
        _unused(name, taken),
        ValueType.STRING,
        default=default,
        label=one.label,
        # The application's own expressions are not evaluated: one could take for ever.
        description=f"Matches {one.pattern}" if one.pattern else "",
        values=one.options,
        optional=not one.required or one.value is not None,
    )


def _row_arguments(command: Command, taken: set[str]) -> tuple[Argument, Argument]:
    least, most = command.selection.least, command.selection.most
    if most == 1:
        which = "The id of the object."
    else:
        which = f"Ids of the objects, as a JSON list: {least} to {most or 'any number'}."
    kind = Argument(
        _unused("type", taken),
        ValueType.STRING,
        description="The type (T) of the objects.",
        optional=not least,
    )
    name = "object" if most == 1 else "objects"
    rows = Argument(_unused(name, taken), ValueType.STRING, description=which, optional=not least)
    return kind, rows


def _description(command: Command) -> str:
    """Return the application's description. Conditions are in the vendor's language, and only shown."""
    parts = (
        command.help,
        f"For objects where {command.where}." if command.where else "",
        f"In panels where {command.panel_where}." if command.panel_where else "",
        f"Enabled when {command.enabled_when}." if command.enabled_when else "",
        f"Needs level {command.level}." if command.level not in (None, 1) else "",
        "Has a script of the vendor's, which is not run." if command.script else "",
    )
    text = " ".join(part for part in parts if part)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


FindRow = Callable[[str, str], Row | None]
"""Returns the object of a type and an id, of the application that is called."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A checked call.

    Attributes:
        instruction: the instruction to be sent.
        shown: the same without secret inputs.
        row: the object that it concerns; ``None`` where there is none, or there are several.
        unseen: the secret inputs.
    """

    instruction: Execute
    shown: Execute
    row: Row | None
    unseen: Unseen


def prepare(one: Offer, call: MethodCall, request_id: str, user: str, find: FindRow) -> Prepared:
    """Convert a call to an instruction.

    Raises:
        NotSentError: the arguments are not valid for the method.
    """
    wanted = [argument for argument in one.method.arguments if argument.direction is not Direction.OUT]
    if len(call.arguments) != len(wanted):
        text = f"{one.method.name} takes {len(wanted)} arguments, {len(call.arguments)} were given"
        raise NotSentError(Outcome.WRONG_VALUE, text)
    for argument, value in zip(wanted, call.arguments, strict=True):
        _check(argument, value)
    values = _typed(one, call.arguments)
    kind, rows = _rows(one, call.arguments, find) if one.takes_rows else (None, [])
    single = rows[0] if len(rows) == 1 else None
    if single is not None:
        values = {**_fields(one.command, single), **values}
    several = Json(_as_json(one.command, rows)) if len(rows) > 1 else None
    known_as = None if single is None else str(single.properties[1])
    execute = Execute(request_id, one.command.command_id, user, known_as, kind, None, several, values)
    masked = {key: MASK if key in one.unseen else value for key, value in values.items()}
    shown = Execute(request_id, one.command.command_id, user, known_as, kind, None, several, masked)
    typed = {key: str(value) for key, value in values.items() if key in one.unseen}
    return Prepared(execute, shown, single, Unseen(typed))


def _check(argument: Argument, value: object) -> None:
    if value is None:
        if not argument.optional:
            raise NotSentError(Outcome.WRONG_VALUE, f"{argument.name} is needed")
        return
    if not isinstance(value, str):
        raise NotSentError(Outcome.WRONG_TYPE, f"{argument.name}: text is wanted")
    found = validate(argument, value)
    if found is not None:
        raise NotSentError(found.outcome, f"{argument.name}: {found.text}")


def _typed(one: Offer, arguments: Values) -> dict[str, AmiValue]:
    """Return the values of the form: the arguments, and the form's own values where they are absent."""
    given = dict(zip((each.variable for each in one.inputs), arguments, strict=False))
    form = one.command.form
    values: dict[str, AmiValue] = {}
    for each in form.inputs if form is not None else ():
        value = given.get(each.variable)
        text = each.value if value is None else str(value)
        if text is not None:
            values[each.variable] = text
    return values


def _rows(one: Offer, arguments: Values, find: FindRow) -> tuple[str | None, list[Row]]:
    kind, named = arguments[-2:]
    if kind is None and named is None:
        return None, []
    if kind is None or named is None:
        raise NotSentError(Outcome.WRONG_VALUE, "type and object belong together")
    ids = [str(named)] if one.command.selection.most == 1 else _listed(str(named))
    least, most = one.command.selection.least, one.command.selection.most
    if len(ids) < least or (most is not None and len(ids) > most):
        raise NotSentError(Outcome.WRONG_VALUE, f"{least} to {most or 'any number of'} objects are wanted")
    rows = []
    for known_as in ids:
        row = find(str(kind), known_as)
        if row is None:
            text = "the application has no object of this type and id"
            raise NotSentError(Outcome.OBJECT_GONE, text)
        rows.append(row)
    return str(kind), rows


def _listed(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise NotSentError(Outcome.WRONG_VALUE, 'objects are wanted as a JSON list of ids, as ["t1", "t2"]')
    if len(set(found)) < len(found):
        raise NotSentError(Outcome.WRONG_VALUE, "an object is named twice")
    return found


def _fields(command: Command, row: Row) -> dict[str, AmiValue]:
    keys = (key for key in command.fields if is_key(key) and not is_reserved(key))
    return {key: row.values[key] for key in keys if key in row.values}


def _as_json(command: Command, rows: Sequence[Row]) -> str:
    shown = [
        {"O": row.properties[1], **{key: _plain(value) for key, value in _fields(command, row).items()}}
        for row in rows
    ]
    return json.dumps(shown, separators=(",", ":"))


def _plain(value: AmiValue) -> object:
    if isinstance(value, bytes):
        return value.hex()
    return int(value) if isinstance(value, Utc) else to_model(value)


_DONE: Final = frozenset((ResponseStatus.OKAY, ResponseStatus.CLOSE_AND_UPDATE))
"""Statuses that report success. The others only define what happens to a dialog."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that was sent.

    Attributes:
        call: the request to the session.
        connection: the number of its connection.
        deadline: nanoseconds.
        row: the object that it concerns; ``None`` where there is none, or there are several.
        unseen: its secret inputs.
    """

    call: MethodCall
    connection: int
    deadline: int
    row: Row | None
    unseen: Unseen


class Calls(Pending[str, OpenCall]):
    """The calls of a session, by their request ids.

    Args:
        limit: the number of calls that may wait at once.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._number = 0

    @property
    def is_full(self) -> bool:
        """Whether no further call may wait."""
        return len(self) >= self._limit

    @property
    def next_id(self) -> str:
        """An unused request id; it stays the same until `ask` uses it."""
        return f"g{self._number + 1}"

    def ask(self, call: OpenCall) -> None:
        """Wait for the answer to a call, whose id is `next_id`."""
        self.begin(self.next_id, call, call.deadline)
        self._number += 1

    def find_on(self, connection: int, request_id: str) -> OpenCall | None:
        """Return the call that is open on a connection, or was given up; ``None`` if there is none."""
        found = self.find(request_id)
        return found if found is not None and found.connection == connection else None

    def give_up_overdue(self, now: int) -> list[Answer]:
        """Return the answers to calls whose time is over."""
        text = "the application has not answered in time"
        return [Answer(one.call.token, Outcome.UNKNOWN, text) for one in self.overdue(now)]

    def lose(self, connection: int, reason: str) -> list[Answer]:
        """Return the answers to calls on a connection that has ended."""
        text = f"the connection ended before an answer came: {reason}"
        lost = self.forget(lambda one: one.connection == connection)
        return [Answer(one.call.token, Outcome.UNKNOWN, text) for one in lost]


def answer(call: OpenCall, response: Response, values: dict[str, Value], secrets: SecretRules) -> Answer:
    """Return the outcome that a response reports.

    Statuses 0 (okay) and 3 (close the dialog and change the row) report success. 1 and 2 close the dialog or
    keep it open for an unknown reason, and other numbers are undocumented: the outcome is unknown.
    """
    text = one_line(secrets.masked_uris(response.text or ""))
    outcome = Outcome.APPLIED if response.status in _DONE else Outcome.UNKNOWN
    if outcome is Outcome.UNKNOWN:
        text = f"answered with status {response.status}, which does not say whether it was done: {text}"
    return Answer(call.call.token, outcome, text.rstrip(": "), response.status, (values or None,))
