"""Converts lines to instructions and back, as the documents define them. A rejected line has no effect."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gateway.dialects.ami.dates import DateRules
from gateway.dialects.ami.deviations import Deviation, Leniency, Reading
from gateway.dialects.ami.form import read_form, write_form
from gateway.dialects.ami.instructions import (
    BY_CLICK,
    ONE_ROW,
    Alert,
    Command,
    Comment,
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
from gateway.dialects.ami.parameters import MAX_PARAMETERS, Fields, Parts, is_key, is_reserved, read_parts
from gateway.dialects.ami.values import LONG_LIMIT, Long, quoted, write_value
from gateway.dialects.errors import LocalProtocolError, ProtocolError

PASSING: Final = "ALU"
"""One-letter keys that a relay accepts although an instruction does not define them."""

HIDDEN: Final = "__"
"""The prefix of types that a relay uses itself."""

_DATES: Final = DateRules()
_SELECTION: Final = re.compile(r"([0-9]{1,9})(?:(-)([0-9]{1,9})?)?")
_NUMBERED: Final = re.compile(rb"[A-Za-z](?:@[0-9]{1,19})?#([0-9]{1,18})(?![0-9])")
_OPTIONS: Final = {one.value: one for one in Option}
_TRIGGERS: Final = {one.value: one for one in Trigger}


@dataclass(frozen=True, slots=True)
class Received:
    """The instruction of a line, and the deviations that a lenient reading accepted."""

    instruction: Instruction | Comment
    deviations: frozenset[Deviation] = frozenset()


_NOTHING: Final[frozenset[Deviation]] = frozenset()


def read_line(octets: bytes, reading: Reading = Reading.LENIENT, dates: DateRules = _DATES) -> Received:
    """Read one line, without its end.

    Args:
        octets: a line as `lines.Lines` returns it.
        reading: the strictness of the reading.
        dates: the rules by which incomplete dates in it are completed.

    Raises:
        ProtocolError: it is no instruction. ``offset`` counts from the beginning of the line.
    """
    leniency = Leniency(reading)
    text = _read_text(octets, leniency)
    if text[:1] == "#":
        leniency.forgive(Deviation.COMMENT, "one", 0)
        return Received(Comment(text[1:]), frozenset(leniency.deviations))
    parts = read_parts(text, leniency, dates)
    read = _READERS.get(parts.letter)
    if read is None:
        # A relay also accepts V, for its plugins, which no document mentions.
        raise ProtocolError(f"a type of instruction ({''.join(_READERS)})", parts.letter)
    instruction = read(parts, Fields(parts, leniency))
    return Received(instruction, frozenset(leniency.deviations) if leniency.deviations else _NOTHING)


def stated_sequence(octets: bytes) -> int | None:
    """Return the sequence number of a line, even if the line is rejected otherwise: a reply repeats it."""
    found = _NUMBERED.match(octets)
    return None if found is None else int(found[1])


def _read_text(octets: bytes, leniency: Leniency) -> str:
    """Decode octets: those that are not ASCII as UTF-8 if possible, else as Latin-1. Relays garble them."""
    if b"\r" in octets:
        leniency.forgive(Deviation.CARRIAGE_RETURN, "one", octets.index(b"\r"))
        octets = octets.replace(b"\r", b"")
    if b"\n" in octets:
        raise ProtocolError("one line", "more", octets.index(b"\n"))
    if octets.isascii():
        return octets.decode("ascii")
    leniency.forgive(Deviation.NOT_ASCII, "other octets", 0)
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets.decode("latin-1")


def _read_login(parts: Parts, fields: Fields) -> Instruction:
    process_id = fields.text("I")
    names = fields.optional_text("O")
    options = frozenset() if names is None else _read_named(names, _OPTIONS, "options of L")
    # The interface document has PL, the vendor's page P (and PL in its summary).
    plugin = fields.optional_text("PL") or ""
    short = fields.optional_text("P") or ""
    if plugin and short:
        raise ProtocolError("one plugin of L", "PL and P")
    return Login(
        process_id, options, plugin or short, fields.rest(PASSING), sequence=parts.sequence, now=parts.now
    )


def _read_named(names: str, known: dict[str, Any], what: str) -> frozenset[Any]:
    """Read names with commas between them, without blanks, case-sensitive, as a relay requires."""
    found = names.split(",")
    if not known.keys() >= set(found):
        raise ProtocolError(f"{what} ({', '.join(known)}), with commas and without blanks", "others")
    return frozenset(known[name] for name in found)


def _read_status(parts: Parts, fields: Fields) -> Instruction:
    return Status(fields.rest(PASSING), sequence=parts.sequence, now=parts.now)


def _read_alert(parts: Parts, fields: Fields) -> Instruction:
    return Alert(
        fields.text("I"),
        fields.integer("L"),
        _read_type(fields),
        fields.optional_long("E"),
        fields.optional_text("U"),
        fields.rest(PASSING),
        sequence=parts.sequence,
        now=parts.now,
    )


def _read_type(fields: Fields) -> str:
    name = fields.text("T")
    if name.startswith(HIDDEN):
        raise ProtocolError(f"a type (T) that does not begin with {HIDDEN}", "one that does")
    return name


def _read_object(parts: Parts, fields: Fields) -> Instruction:
    kind, object_id = _read_type(fields), fields.optional_text("I")
    expires, alert_id = fields.optional_long("E"), fields.optional_text("A")
    deleted = fields.has("L", 0)
    values = fields.rest(PASSING)
    sequence, now = parts.sequence, parts.now
    if deleted:  # a relay deletes the object; the documents define this for alerts only
        fields.forgive(Deviation.DELETE_BY_LEVEL)
        del values["L"]
        return Delete(kind, object_id, values, sequence=sequence, now=now)
    return ObjectUpdate(kind, object_id, expires, alert_id, values, sequence=sequence, now=now)


def _read_delete(parts: Parts, fields: Fields) -> Instruction:
    object_id = fields.optional_text("I")
    if object_id is None:
        fields.forgive(Deviation.MISSING_ID)
    kind = _read_type(fields)
    return Delete(kind, object_id, fields.rest(PASSING), sequence=parts.sequence, now=parts.now)


def _read_command(parts: Parts, fields: Fields) -> Instruction:
    command_id, name = fields.text("I"), fields.optional_text("N")
    if name is None:
        fields.forgive(Deviation.MISSING_NAME)
        name = command_id
    form, columns, rows = fields.optional_text("A"), fields.optional_text("F"), fields.optional_text("M")
    triggers = fields.optional_text("C")
    text = fields.optional_text
    return Command(
        command_id,
        name,
        fields.optional_integer("L"),
        None if form is None else read_form(form),
        text("W"),
        text("T"),
        text("H"),
        fields.optional_integer("P"),
        text("E"),
        tuple(columns.split(",")) if columns else (),
        ONE_ROW if rows is None else _read_selection(rows),
        text("S"),
        BY_CLICK if triggers is None else _read_named(triggers, _TRIGGERS, "triggers (C) of C"),
        text("X"),
        fields.rest(PASSING),
        sequence=parts.sequence,
        now=parts.now,
    )


def _read_selection(text: str) -> Selection:
    found = _SELECTION.fullmatch(text)
    if found is None:
        raise ProtocolError('a number of rows (M) as "2", "2-" or "2-5"', "something else")
    least, dash, most = found.groups()
    if most is not None and int(most) < int(least):
        raise ProtocolError("the smaller number of rows (M) first", "the larger one")
    if dash is None:
        return Selection(int(least), int(least))
    return Selection(int(least), None if most is None else int(most))


def _read_response(parts: Parts, fields: Fields) -> Instruction:
    return Response(
        fields.text("I"),
        fields.integer("S"),
        fields.optional_text("M"),
        fields.optional_text("X"),
        fields.rest(f"{PASSING}V"),  # a relay sends values as V, which no document mentions
        sequence=parts.sequence,
        now=parts.now,
    )


def _read_exit(parts: Parts, fields: Fields) -> Instruction:
    return Exit(fields.rest(PASSING), sequence=parts.sequence, now=parts.now)


def _read_help(parts: Parts, fields: Fields) -> Instruction:
    fields.nothing_left()
    return Help(sequence=parts.sequence, now=parts.now)


def _read_pause(parts: Parts, fields: Fields) -> Instruction:
    milliseconds = fields.integer("D")
    if milliseconds <= 0:
        raise ProtocolError("a time (D) of P above 0", f"{milliseconds}")
    fields.nothing_left()
    return Pause(milliseconds, sequence=parts.sequence, now=parts.now)


def _read_reply(parts: Parts, fields: Fields) -> Instruction:
    answers, status = fields.sequence("Q"), fields.integer("S")
    text = fields.optional_text("M")
    return Reply(answers, status, text, fields.rest(PASSING), sequence=parts.sequence, now=parts.now)


def _read_execute(parts: Parts, fields: Fields) -> Instruction:
    return Execute(
        fields.text("I"),
        fields.text("C"),
        fields.text("U"),
        fields.optional_text("O"),
        # A relay sends these three, which no document has; reserved keys are the protocol's to define.
        fields.optional_text("T"),
        fields.optional_text("S"),
        fields.optional_json("V"),
        fields.rest(PASSING),
        sequence=parts.sequence,
        now=parts.now,
    )


_Reader: TypeAlias = Callable[[Parts, Fields], Instruction]

_READERS: Final[dict[str, _Reader]] = {
    "L": _read_login,
    "S": _read_status,
    "A": _read_alert,
    "O": _read_object,
    "D": _read_delete,
    "C": _read_command,
    "R": _read_response,
    "X": _read_exit,
    "H": _read_help,
    "P": _read_pause,
    "M": _read_reply,
    "E": _read_execute,
}


class LineEnd(enum.Enum):
    """The end of a line; the second one is LF and then CR, as in the interface document."""

    UNIX = b"\n"
    WINDOWS = b"\n\r"


_Pairs: TypeAlias = Iterable[tuple[str, str | None]]
"""Keys with encoded values; pairs with ``None`` are left out."""


def write_instruction(instruction: Instruction, end: LineEnd = LineEnd.UNIX) -> bytes:
    """Return the instruction as a line, with its end.

    Raises:
        LocalProtocolError: it cannot be expressed: a key is invalid or reserved, a value or number does not
            fit, a type is reserved for relays, or a bound of readers is exceeded.
    """
    pairs, values = _WRITERS[type(instruction)](instruction)
    parts = [
        instruction.letter + _write_mark("#", instruction.sequence) + _write_mark("@", instruction.now),
        *(f"{key}={text}" for key, text in pairs if text is not None),
        *(f"{_write_free(key)}={write_value(value)}" for key, value in values.items()),
    ]
    line = "|".join(parts).encode("ascii")
    if len(line) > MAX_LINE or len(parts) > MAX_PARAMETERS:
        raise LocalProtocolError(f"an instruction of {len(line)} octets and {len(parts)} parts is too long")
    return line + end.value


def _write_mark(mark: str, number: int | None) -> str:
    if number is None:
        return ""
    if not 0 <= number < LONG_LIMIT:
        raise LocalProtocolError(f"{number} cannot stand behind {mark}")
    return f"{mark}{number}"


def _write_free(key: str) -> str:
    if not is_key(key):
        raise LocalProtocolError("a key must have letters, digits and _ only")
    if is_reserved(key):
        raise LocalProtocolError(f"the key {key} is reserved")
    return key


def _write_text(text: str | None) -> str | None:
    return None if text is None else quoted(text)


def _write_type(name: str) -> str:
    if name.startswith(HIDDEN):
        raise LocalProtocolError(f"types that begin with {HIDDEN} are a relay's own")
    return quoted(name)


def _write_integer(number: int | None) -> str | None:
    return None if number is None else write_value(int(number))


def _write_long(number: int | None) -> str | None:
    return None if number is None else write_value(Long(number))


_Written: TypeAlias = tuple[_Pairs, Values]


def _write_login(one: Login) -> _Written:
    options = ",".join(each.value for each in Option if each in one.options)
    pairs = (
        ("I", quoted(one.process_id)),
        ("O", _write_text(options or None)),
        ("PL", _write_text(one.plugin or None)),
    )
    return pairs, one.values


def _write_alert(one: Alert) -> _Written:
    pairs = (
        ("I", quoted(one.alert_id)),
        ("L", _write_integer(one.level)),
        ("T", _write_type(one.type)),
        ("E", _write_long(one.expires)),
        ("U", _write_text(one.assignee)),
    )
    return pairs, one.values


def _write_object(one: ObjectUpdate) -> _Written:
    pairs = (
        ("T", _write_type(one.type)),
        ("I", _write_text(one.object_id)),
        ("E", _write_long(one.expires)),
        ("A", _write_text(one.alert_id)),
    )
    return pairs, one.values


def _write_delete(one: Delete) -> _Written:
    if one.object_id is None:
        raise LocalProtocolError("an object is deleted by its id")
    return (("I", quoted(one.object_id)), ("T", _write_type(one.type))), one.values


def _write_command(one: Command) -> _Written:
    if any("," in column for column in one.fields) or "" in one.fields:
        raise LocalProtocolError("fields of a command must have names without commas")
    triggers = ",".join(each.value for each in Trigger if each in one.triggers)
    if not triggers:
        raise LocalProtocolError("a command needs a trigger")
    pairs = (
        ("I", quoted(one.command_id)),
        ("N", quoted(one.name)),
        ("L", _write_integer(one.level)),
        ("M", _write_selection(one.selection)),
        ("F", _write_text(",".join(one.fields) or None)),
        ("A", None if one.form is None else quoted(write_form(one.form))),
        ("W", _write_text(one.where)),
        ("T", _write_text(one.panel_where)),
        ("H", _write_text(one.help)),
        ("P", _write_integer(one.priority)),
        ("E", _write_text(one.enabled_when)),
        ("S", _write_text(one.style)),
        ("C", None if one.triggers == BY_CLICK else quoted(triggers)),
        ("X", _write_text(one.script)),
    )
    return pairs, one.values


def _write_selection(one: Selection) -> str | None:
    least, most = one.least, one.most
    if least < 0 or (most is not None and most < least) or max(least, most or 0) > 999_999_999:  # noqa: PLR2004
        raise LocalProtocolError(f"{one} is no number of rows")
    if one == ONE_ROW:
        return None
    if most == least:
        return quoted(f"{least}")
    return quoted(f"{least}-{'' if most is None else most}")


def _write_response(one: Response) -> _Written:
    pairs = (
        ("I", quoted(one.request_id)),
        ("S", _write_integer(one.status)),
        ("M", _write_text(one.text)),
        ("X", _write_text(one.script)),
    )
    return pairs, one.values


def _write_pause(one: Pause) -> _Written:
    if one.milliseconds <= 0:
        raise LocalProtocolError("a pause must be above 0")
    return (("D", _write_integer(one.milliseconds)),), {}


def _write_reply(one: Reply) -> _Written:
    number = one.answers if -(1 << 31) <= one.answers < 1 << 31 else Long(one.answers)
    pairs = (("Q", write_value(number)), ("S", _write_integer(one.status)), ("M", _write_text(one.text)))
    return pairs, one.values


def _write_execute(one: Execute) -> _Written:
    pairs = (
        ("C", quoted(one.command_id)),
        ("I", quoted(one.request_id)),
        ("U", quoted(one.user)),
        ("S", _write_text(one.session)),
        ("T", _write_text(one.type)),
        ("O", _write_text(one.object_id)),
        ("V", None if one.rows is None else write_value(one.rows)),
    )
    return pairs, one.values


# Each function takes the class of its key, which the type of a table cannot express.
_WRITERS: Final[Mapping[type[object], Callable[[Any], _Written]]] = {
    Login: _write_login,
    Status: lambda one: ((), one.values),
    Alert: _write_alert,
    ObjectUpdate: _write_object,
    Delete: _write_delete,
    Command: _write_command,
    Response: _write_response,
    Exit: lambda one: ((), one.values),
    Help: lambda _: ((), {}),
    Pause: _write_pause,
    Reply: _write_reply,
    Execute: _write_execute,
}
