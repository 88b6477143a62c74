"""Lines to instructions. One that is refused has no effect at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gateway.dialects.ami.dates import DateRules
from gateway.dialects.ami.deviations import Deviation, Leniency, Reading
from gateway.dialects.ami.form import read_form
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
)
from gateway.dialects.ami.parameters import Fields, Parts, read_parts
from gateway.dialects.errors import ProtocolError

PASSING: Final = "ALU"
"""One-letter keys that a relay lets pass where an instruction does not define them."""

HIDDEN: Final = "__"
"""Types that begin so are a relay's own."""

_DATES: Final = DateRules()
_SELECTION: Final = re.compile(r"([0-9]{1,9})(?:(-)([0-9]{1,9})?)?")
_NUMBERED: Final = re.compile(rb"[A-Za-z](?:@[0-9]{1,19})?#([0-9]{1,18})(?![0-9])")
_OPTIONS: Final = {one.value: one for one in Option}
_TRIGGERS: Final = {one.value: one for one in Trigger}


@dataclass(frozen=True, slots=True)
class Received:
    """What a line says, and what it was forgiven to say it."""

    instruction: Instruction | Comment
    deviations: frozenset[Deviation] = frozenset()


_NOTHING: Final[frozenset[Deviation]] = frozenset()


def read_line(octets: bytes, reading: Reading = Reading.LENIENT, dates: DateRules = _DATES) -> Received:
    """Read one line, without its end.

    Args:
        octets: as `lines.Lines` parts them.
        reading: how strictly.
        dates: what dates in it leave open.

    Raises:
        ProtocolError: it is no instruction. ``offset`` counts from the begin of the line.
    """
    leniency = Leniency(reading)
    text = _text(octets, leniency)
    if text[:1] == "#":
        leniency.forgive(Deviation.COMMENT, "one", 0)
        return Received(Comment(text[1:]), frozenset(leniency.deviations))
    parts = read_parts(text, leniency, dates)
    read = _READERS.get(parts.letter)
    if read is None:
        # A relay also knows V, for its plugins, which no document mentions.
        raise ProtocolError(f"a type of instruction ({''.join(_READERS)})", parts.letter)
    instruction = read(parts, Fields(parts, leniency))
    return Received(instruction, frozenset(leniency.deviations) if leniency.deviations else _NOTHING)


def stated_sequence(octets: bytes) -> int | None:
    """Return the number that a line gives itself, even if it is refused otherwise: a reply repeats it."""
    found = _NUMBERED.match(octets)
    return None if found is None else int(found[1])


def _text(octets: bytes, leniency: Leniency) -> str:
    """Octets as text: what is not ASCII is UTF-8 where it can be, else Latin-1. Relays garble it."""
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


def _login(parts: Parts, fields: Fields) -> Instruction:
    process_id = fields.text("I")
    names = fields.optional_text("O")
    options = frozenset() if names is None else _named(names, _OPTIONS, "options of L")
    # The interface document says PL, the vendor's page P (and PL in its summary).
    plugin = fields.optional_text("PL") or ""
    short = fields.optional_text("P") or ""
    if plugin and short:
        raise ProtocolError("one plugin of L", "PL and P")
    return Login(
        process_id, options, plugin or short, fields.rest(PASSING), sequence=parts.sequence, now=parts.now
    )


def _named(names: str, known: dict[str, Any], what: str) -> frozenset[Any]:
    """Names with commas between them, without blanks, in their case: so a relay wants them."""
    found = names.split(",")
    if not known.keys() >= set(found):
        raise ProtocolError(f"{what} ({', '.join(known)}), with commas and without blanks", "others")
    return frozenset(known[name] for name in found)


def _status(parts: Parts, fields: Fields) -> Instruction:
    return Status(fields.rest(PASSING), sequence=parts.sequence, now=parts.now)


def _alert(parts: Parts, fields: Fields) -> Instruction:
    return Alert(
        fields.text("I"),
        fields.integer("L"),
        _type(fields),
        fields.optional_long("E"),
        fields.optional_text("U"),
        fields.rest(PASSING),
        sequence=parts.sequence,
        now=parts.now,
    )


def _type(fields: Fields) -> str:
    name = fields.text("T")
    if name.startswith(HIDDEN):
        raise ProtocolError(f"a type (T) that does not begin with {HIDDEN}", "one that does")
    return name


def _object(parts: Parts, fields: Fields) -> Instruction:
    kind, object_id = _type(fields), fields.optional_text("I")
    expires, alert_id = fields.optional_long("E"), fields.optional_text("A")
    deleted = fields.has("L", 0)
    values = fields.rest(PASSING)
    sequence, now = parts.sequence, parts.now
    if deleted:  # so it does in a relay; the documents have this of alerts only
        fields.forgive(Deviation.DELETE_BY_LEVEL)
        del values["L"]
        return Delete(kind, object_id, values, sequence=sequence, now=now)
    return ObjectUpdate(kind, object_id, expires, alert_id, values, sequence=sequence, now=now)


def _delete(parts: Parts, fields: Fields) -> Instruction:
    object_id = fields.optional_text("I")
    if object_id is None:
        fields.forgive(Deviation.MISSING_ID)
    kind = _type(fields)
    return Delete(kind, object_id, fields.rest(PASSING), sequence=parts.sequence, now=parts.now)


def _command(parts: Parts, fields: Fields) -> Instruction:
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
        ONE_ROW if rows is None else _selection(rows),
        text("S"),
        BY_CLICK if triggers is None else _named(triggers, _TRIGGERS, "triggers (C) of C"),
        text("X"),
        fields.rest(PASSING),
        sequence=parts.sequence,
        now=parts.now,
    )


def _selection(text: str) -> Selection:
    found = _SELECTION.fullmatch(text)
    if found is None:
        raise ProtocolError('a number of rows (M) as "2", "2-" or "2-5"', "something else")
    least, dash, most = found.groups()
    if most is not None and int(most) < int(least):
        raise ProtocolError("the smaller number of rows (M) first", "the larger one")
    if dash is None:
        return Selection(int(least), int(least))
    return Selection(int(least), None if most is None else int(most))


def _response(parts: Parts, fields: Fields) -> Instruction:
    return Response(
        fields.text("I"),
        fields.integer("S"),
        fields.optional_text("M"),
        fields.optional_text("X"),
        fields.rest(f"{PASSING}V"),  # V are values to a relay, in no document
        sequence=parts.sequence,
        now=parts.now,
    )


def _exit(parts: Parts, fields: Fields) -> Instruction:
    return Exit(fields.rest(PASSING), sequence=parts.sequence, now=parts.now)


def _help(parts: Parts, fields: Fields) -> Instruction:
    fields.nothing_left()
    return Help(sequence=parts.sequence, now=parts.now)


def _pause(parts: Parts, fields: Fields) -> Instruction:
    milliseconds = fields.integer("D")
    if milliseconds <= 0:
        raise ProtocolError("a time (D) of P above 0", f"{milliseconds}")
    fields.nothing_left()
    return Pause(milliseconds, sequence=parts.sequence, now=parts.now)


def _reply(parts: Parts, fields: Fields) -> Instruction:
    answers, status = fields.sequence("Q"), fields.integer("S")
    text = fields.optional_text("M")
    return Reply(answers, status, text, fields.rest(PASSING), sequence=parts.sequence, now=parts.now)


def _execute(parts: Parts, fields: Fields) -> Instruction:
    return Execute(
        fields.text("I"),
        fields.text("C"),
        fields.text("U"),
        fields.optional_text("O"),
        # No document has these three, which a relay sends; but reserved keys are its own to use.
        fields.optional_text("T"),
        fields.optional_text("S"),
        fields.optional_json("V"),
        fields.rest(PASSING),
        sequence=parts.sequence,
        now=parts.now,
    )


_Reader: TypeAlias = Callable[[Parts, Fields], Instruction]

_READERS: Final[dict[str, _Reader]] = {
    "L": _login,
    "S": _status,
    "A": _alert,
    "O": _object,
    "D": _delete,
    "C": _command,
    "R": _response,
    "X": _exit,
    "H": _help,
    "P": _pause,
    "M": _reply,
    "E": _execute,
}
