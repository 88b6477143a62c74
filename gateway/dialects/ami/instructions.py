"""The instructions of AMI, both directions, as frozen values.

``values`` are the parameters that an instruction does not define: metrics, columns, arguments, in the order
in which they stand. A key that is absent is not in the mapping; ``None`` clears the value of its key.
Optional keys of an instruction are ``None`` or empty where they are absent.
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
    """The fields of every instruction.

    Attributes:
        sequence: its number. By the documents, a login has 0 and the others follow; a relay does not check.
        now: the time of sending, milliseconds since 1970 UTC.
    """

    letter: ClassVar[str]
    sequence: int | None = None
    now: int | None = None


class Option(enum.Enum):
    """An option that a login sets for its session."""

    QUIET = "QUIET"
    """The relay sends nothing but commands to be executed."""
    LOG = "LOG"
    UNIX = "UNIX"
    """Lines to the application end with LF."""
    WINDOWS = "WINDOWS"
    """Lines to the application end with LF CR."""
    TTY = "TTY"
    """A person types at a terminal."""


@dataclass(frozen=True, slots=True)
class Login(_Instruction):
    """Begins an application's session.

    Attributes:
        process_id: the name of the application, the same after a restart. Several connections may share it.
        options: the options of the session.
        plugin: a Java class. The interface document calls its key PL, the pages P.
    """

    letter = "L"
    process_id: str
    options: frozenset[Option] = frozenset()
    plugin: str = ""
    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status(_Instruction):
    """Metrics of the application: those that it contains change, the others stay."""

    letter = "S"
    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alert(_Instruction):
    """An alert; deprecated for `ObjectUpdate`. For a relay, level 0 ends it.

    Attributes:
        expires: as in `ObjectUpdate`.
        assignee: the user that the alert is assigned to.
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
    """Creates an object, or changes those of its columns that the instruction contains.

    Attributes:
        type: the table of the object.
        object_id: unique for the application in the table; ``None`` where each instruction is a new object.
        expires: milliseconds: negative from receipt on, positive since 1970 UTC, 0 never; ``None``:
            unchanged.
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
    """Deletes an object. ``object_id`` is ``None`` (for a relay) where ``values`` identify the object."""

    letter = "D"
    type: str
    object_id: str | None
    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """The number of rows that a command needs; ``most`` is ``None`` if there is no bound."""

    least: int = 1
    most: int | None = 1


class Trigger(enum.Enum):
    """An action that calls a command."""

    NOW = "now"
    USER_CLICK = "user_click"
    USER_CLOSE_LAYOUT = "user_close_layout"
    USER_OPEN_LAYOUT = "user_open_layout"


BY_CLICK: Final = frozenset({Trigger.USER_CLICK})
"""The triggers of a command that names none."""

ONE_ROW: Final = Selection()
"""The selection of a command that names none."""


@dataclass(frozen=True, slots=True)
class Command(_Instruction):
    """Defines a command that users can call.

    Attributes:
        command_id: the name that `Execute` repeats.
        name: the name in the menu; dots make submenus.
        level: the permission level; 0 withdraws the command.
        form: the questions to the user before the call.
        where: which rows have it, in the vendor's own language, as ``panel_where`` and ``enabled_when``.
        panel_where: which panels have it.
        help: a text for users.
        priority: the position in the menu; 0 is first.
        enabled_when: when it can be called.
        fields: the columns of the rows that the call contains.
        selection: the number of rows that it needs.
        style: the style of the menu, as JSON.
        triggers: the actions that call it.
        script: a script that runs in place of the call, or with it.
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
    """The effect of a response on the command's dialog; other numbers occur, and are kept."""

    OKAY = 0
    CLOSE_DIALOG = 1
    KEEP_DIALOG = 2
    CLOSE_AND_UPDATE = 3
    """The values of the response are columns to change in the row."""


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
    """Requests a text about instructions."""

    letter = "H"


@dataclass(frozen=True, slots=True)
class Pause(_Instruction):
    """Delays the lines after it, for tests."""

    letter = "P"
    milliseconds: int


@dataclass(frozen=True, slots=True)
class Reply(_Instruction):
    """A relay's reply to an instruction (M). The pages show it without a time, a relay sends one.

    Attributes:
        answers: the sequence number of the instruction.
        status: 0 is success.
    """

    letter = "M"
    answers: int
    status: int
    text: str | None = None
    values: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Execute(_Instruction):
    """A relay's call of a command (E).

    Attributes:
        request_id: the id that the `Response` repeats.
        command_id: the id of the `Command`.
        user: the caller.
        object_id: the row, where the call concerns one.
        type: the table of the rows; this and the following are sent by a relay, and in no document.
        session: the user's session.
        rows: the requested columns of several rows.
        values: the answers to the form, and the columns of one row.
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
"""Instructions that applications send."""

Inbound: TypeAlias = Reply | Execute
"""Instructions that relays send."""

Instruction: TypeAlias = Outbound | Inbound


@dataclass(frozen=True, slots=True)
class Comment:
    """A line that begins with ``#``, which a relay answers and otherwise ignores. No document mentions it."""

    text: str = ""
