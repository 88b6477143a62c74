"""A command with its arguments and progress, and the states of its row (RowStatus of RFC 2579 section 2)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from gateway.feed.values import FeedValue
from gateway.model.operations import Outcome
from gateway.snmp import message
from gateway.snmp.ber import NO_ROW, Oid
from gateway.snmp.fixed_mib import CommandStateNumber, ValueSyntaxNumber


class RowStatus(enum.IntEnum):
    """The first three are states of a row, the last three only ever set; notReady(3) is never set."""

    ACTIVE = 1
    NOT_IN_SERVICE = 2
    NOT_READY = 3
    CREATE_AND_GO = 4
    CREATE_AND_WAIT = 5
    DESTROY = 6


class Next(enum.Enum):
    """Where the table below leads; how complete the row is then decides the rest."""

    SAME = "stays"
    ACTIVE_IF_COMPLETE = "active, if complete"
    WAITING_IF_COMPLETE = "notInService, if complete"
    WAITING = "notInService, or notReady if not complete"
    GONE = "no row"
    REFUSED = "inconsistentValue"
    NOT_THERE = "inconsistentName"


State: TypeAlias = "RowStatus | None"
"""Of a row: one of the first three, ``None`` where there is none."""

Action: TypeAlias = "RowStatus | None"
"""What the status is set to; ``None`` where only other columns are set."""

A, B, C, D = None, RowStatus.NOT_READY, RowStatus.NOT_IN_SERVICE, RowStatus.ACTIVE

TRANSITIONS: Final[Mapping[Action, Mapping[State, Next]]] = {
    RowStatus.CREATE_AND_GO: {
        A: Next.ACTIVE_IF_COMPLETE,
        B: Next.REFUSED,
        C: Next.REFUSED,
        D: Next.REFUSED,
    },
    RowStatus.CREATE_AND_WAIT: {
        A: Next.WAITING,
        B: Next.REFUSED,
        C: Next.REFUSED,
        D: Next.REFUSED,
    },
    RowStatus.ACTIVE: {
        A: Next.REFUSED,
        B: Next.ACTIVE_IF_COMPLETE,
        C: Next.ACTIVE_IF_COMPLETE,
        D: Next.SAME,
    },
    RowStatus.NOT_IN_SERVICE: {
        A: Next.REFUSED,
        B: Next.WAITING_IF_COMPLETE,
        C: Next.WAITING_IF_COMPLETE,
        D: Next.REFUSED,  # what is submitted cannot be taken back: "(6)" of the RFC's table
    },
    RowStatus.DESTROY: {
        A: Next.GONE,
        B: Next.GONE,
        C: Next.GONE,
        D: Next.GONE,
    },
    None: {
        A: Next.NOT_THERE,
        B: Next.WAITING,
        C: Next.WAITING,
        D: Next.SAME,
    },
}
"""The table of RFC 2579, with the names that it gives to states; where it leaves a choice, one is made."""


class RefusedError(Exception):
    """A row cannot become what is asked for.

    Args:
        status: inconsistentValue or inconsistentName, a number of `gateway.snmp.message`.
    """

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"error-status {status}")


def next_state(state: State, action: Action, *, complete: bool, made_by_columns: bool = False) -> State:
    """The state of a row after a SET.

    Args:
        state: before it.
        action: what its status is set to; never notReady, which is a wrongValue.
        complete: whether the row has all that it must have, with the other columns of the same SET.
        made_by_columns: a column that is set makes the row: the choice of the RFC's note 4.

    Raises:
        RefusedError: it stays as it is.
    """
    step = TRANSITIONS[action][state]
    if step is Next.NOT_THERE and made_by_columns:
        step = Next.WAITING
    if step is Next.NOT_THERE:
        raise RefusedError(message.INCONSISTENT_NAME)
    if_complete = step in (Next.ACTIVE_IF_COMPLETE, Next.WAITING_IF_COMPLETE)
    if step is Next.REFUSED or (if_complete and not complete):
        raise RefusedError(message.INCONSISTENT_VALUE)
    if step is Next.SAME:
        return state
    if step is Next.GONE:
        return None
    if step is Next.ACTIVE_IF_COMPLETE:
        return RowStatus.ACTIVE
    return RowStatus.NOT_IN_SERVICE if complete else RowStatus.NOT_READY


def transitions_table() -> str:
    """The table as the documentation draws it."""
    states: tuple[State, ...] = (A, B, C, D)
    lines = [
        "| the SET names | no row | notReady | notInService | active |",
        "| --- | --- | --- | --- | --- |",
    ]
    for action, steps in TRANSITIONS.items():
        named = "other columns only" if action is None else f"`{_label(action)}`"
        lines.append(f"| {named} | {' | '.join(steps[state].value for state in states)} |")
    return "\n".join(lines)


def _label(status: RowStatus) -> str:
    first, *others = status.name.lower().split("_")
    return first + "".join(word.capitalize() for word in others)


class CommandKey(NamedTuple):
    """What names a command: its owner (a writer of the configuration) and the name that the owner chose."""

    owner: str
    name: str


@dataclass(frozen=True, slots=True)
class Argument:
    """One row of the argument table; ``value`` is ``None`` until it is written."""

    status: RowStatus = RowStatus.NOT_READY
    value: str | None = None
    syntax: ValueSyntaxNumber = ValueSyntaxNumber.TEXT

    @property
    def is_complete(self) -> bool:
        """Whether it has all that it must have."""
        return self.value is not None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a command is, and what came of it.

    Attributes:
        state: ``PREPARING`` until it is submitted.
        outcome: ``None`` until it has ended.
        element: the argument or method that the outcome is about.
        code: the dialect's own status.
        text: one line for people.
        operation_id: as in the event log.
        results: what the method gave back, by name.
        submitted: nanoseconds since 1970-01-01 UTC; 0 before.
        ended: the same.
    """

    state: CommandStateNumber = CommandStateNumber.PREPARING
    outcome: Outcome | None = None
    element: str = ""
    code: int | None = None
    text: str = ""
    operation_id: str = ""
    results: Mapping[str, FeedValue] = field(default_factory=dict)
    submitted: int = 0
    ended: int = 0


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the command table, with its arguments.

    Attributes:
        target: an instance in the row of the object.
        timeout: seconds; 0 for the configured deadline.
        arguments: by what their index says: a name, or the place among those that are passed, from 1.
        written: when its owner last wrote to it, nanoseconds since 1970-01-01 UTC.
    """

    status: RowStatus = RowStatus.NOT_READY
    target: Oid = NO_ROW
    method: str = ""
    timeout: int = 0
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    progress: Progress = Progress()
    written: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether it could be submitted."""
        return (
            self.target != NO_ROW
            and self.method != ""
            and all(argument.is_complete for argument in self.arguments.values())
        )

    @property
    def is_submitted(self) -> bool:
        """Whether it runs or has run: it never changes any more, and never runs again."""
        return self.progress.state is not CommandStateNumber.PREPARING
