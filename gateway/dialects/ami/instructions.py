"""The instructions of AMI, both directions, as frozen values.

``values`` are the parameters that an instruction does not define: metrics, columns, arguments, in the order
in which they stand. A key that is not there is not in the mapping; one that is there with ``None`` clears
what it names. Optional keys of an instruction are ``None`` or empty where they are absent.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

from gateway.dialects.ami.form import Form
from gateway.dialects.ami.values import AmiValue, Json

Values: TypeAlias = Mapping[str, AmiValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Instruction:
    """What every instruction may say of itself.

    Attributes:
        sequence: its number. Documents let a login be 0 and the others follow; a relay does not look.
        now: when it was sent, milliseconds since 1970 UTC.
    """

    letter: ClassVar[str]
    sequence: int | None = None
    now: int | None = None


class Option(enum.Enum):
    """What a login asks of its session."""

    QUIET = "QUIET"
    """Nothing is sent back but commands to be executed."""
    LOG = "LOG"
    UNIX = "UNIX"
    """Lines to the application end with LF."""
    WINDOWS = "WINDOWS"
    """Lines to the application end with LF CR."""
    TTY = "TTY"
    """A person types."""


@dataclass(frozen=True, slots=True)
class Login(_Instruction):
    """Begins an application's session.

    Attributes:
        process_id: names the application, the same one after a restart. Several connections may share it.
        options: see there.
        plugin: a Java class. The interface document calls it PL, the pages P.
    """

    letter = "L"
    process_id: str
    options: frozenset[Option] = frozenset()
    plugin: str = ""
    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status(_Instruction):
    """Metrics of the application: those that are told change, the others stay."""

    letter = "S"
    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alert(_Instruction):
    """An alert; deprecated for `ObjectUpdate`. To a relay level 0 takes it back.

    Attributes:
        expires: as in `ObjectUpdate`.
        assignee: whose it is.
    """

    letter = "A"
    alert_id: str
    level: int
    type: str
    expires: int | None = None
    assignee: str | None = None
    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ObjectUpdate(_Instruction):
    """Creates an object, or changes those of its columns that are told.

    Attributes:
        type: its table.
        object_id: unique for the application in the table; ``None`` where each is a new object.
        expires: milliseconds: negative from receipt on, positive since 1970 UTC, 0 never; ``None`` as before.
        alert_id: deprecated.
    """

    letter = "O"
    type: str
    object_id: str | None = None
    expires: int | None = None
    alert_id: str | None = None
    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delete(_Instruction):
    """Deletes an object. ``object_id`` is ``None`` (a relay) where ``values`` tell which one."""

    letter = "D"
    type: str
    object_id: str | None
    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """How many rows a command needs; ``most`` is ``None`` where there is no bound."""

    least: int = 1
    most: int | None = 1


class Trigger(enum.Enum):
    """What calls a command."""

    NOW = "now"
    USER_CLICK = "user_click"
    USER_CLOSE_LAYOUT = "user_close_layout"
    USER_OPEN_LAYOUT = "user_open_layout"


BY_CLICK: Final = frozenset({Trigger.USER_CLICK})
"""What calls a command that names no trigger."""

ONE_ROW: Final = Selection()
"""How many rows a command needs that does not say it."""


@dataclass(frozen=True, slots=True)
class Command(_Instruction):
    """Defines a command that people can call.

    Attributes:
        command_id: what `Execute` repeats.
        name: in the menu; dots make submenus.
        level: of permission; 0 withdraws the command.
        form: what is asked before.
        where: which rows have it, in the vendor's own language; so are ``panel_where`` and ``enabled_when``.
        panel_where: which panels have it.
        help: shown to people.
        priority: 0 stands first.
        enabled_when: when it can be called.
        fields: which columns of the rows are wanted.
        selection: how many rows.
        style: of the menu, as JSON.
        triggers: what calls it.
        script: run in place of the call, or with it.
    """

    letter = "C"
    command_id: str
    name: str
    level: int | None = None
    form: Form | None = None
    where: str | None = None
    panel_where: str | None = None
    help: str | None = None
    priority: int | None = None
    enabled_when: str | None = None
    fields: tuple[str, ...] = ()
    selection: Selection = ONE_ROW
    style: str | None = None
    triggers: frozenset[Trigger] = BY_CLICK
    script: str | None = None
    values: Values = field(default_factory=dict)


class ResponseStatus(enum.IntEnum):
    """What becomes of the dialog after a command; others may come, and are kept."""

    OKAY = 0
    CLOSE_DIALOG = 1
    KEEP_DIALOG = 2
    CLOSE_AND_UPDATE = 3
    """Its values are columns to change in the row."""


@dataclass(frozen=True, slots=True)
class Response(_Instruction):
    """Answers `Execute`, whose ``request_id`` it repeats."""

    letter = "R"
    request_id: str
    status: int
    text: str | None = None
    script: str | None = None
    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exit(_Instruction):
    """Ends the session."""

    letter = "X"
    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Help(_Instruction):
    """Asks for a text about instructions."""

    letter = "H"


@dataclass(frozen=True, slots=True)
class Pause(_Instruction):
    """Holds the lines behind it up, for tests."""

    letter = "P"
    milliseconds: int


@dataclass(frozen=True, slots=True)
class Reply(_Instruction):
    """What a relay says of an instruction (M). The pages show it without a time, a relay tells one.

    Attributes:
        answers: the number of the instruction.
        status: 0 is success.
    """

    letter = "M"
    answers: int
    status: int
    text: str | None = None
    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Execute(_Instruction):
    """A relay calls a command (E).

    Attributes:
        request_id: what the `Response` repeats.
        command_id: of the `Command`.
        user: who calls.
        object_id: where one row is meant.
        type: of the rows; this and what follows comes from a relay and is in no document.
        session: of the user.
        rows: the columns that were asked for, of several rows.
        values: what the form asked, and the columns of one row.
    """

    letter = "E"
    request_id: str
    command_id: str
    user: str
    object_id: str | None = None
    type: str | None = None
    session: str | None = None
    rows: Json | None = None
    values: Values = field(default_factory=dict)


Outbound: TypeAlias = (
    Login | Status | Alert | ObjectUpdate | Delete | Command | Response | Exit | Help | Pause
)
"""What applications send."""

Inbound: TypeAlias = Reply | Execute
"""What relays send."""

Instruction: TypeAlias = Outbound | Inbound


@dataclass(frozen=True, slots=True)
class Comment:
    """A line that begins with ``#``, which a relay answers and otherwise ignores. No document mentions it."""

    text: str = ""
