"""A command and its arguments, as its owner has written them and as it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gateway.feed.values import FeedValue
from gateway.model.operations import Outcome
from gateway.snmp.ber import Oid
from gateway.snmp.commands.row_status import RowStatus
from gateway.snmp.fixed_mib import CommandStateNumber, ValueSyntaxNumber

NO_TARGET: Final[Oid] = (0, 0)
"""zeroDotZero: nothing is pointed to."""


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
    target: Oid = NO_TARGET
    method: str = ""
    timeout: int = 0
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    progress: Progress = Progress()
    written: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether it could be submitted."""
        return (
            self.target != NO_TARGET
            and self.method != ""
            and all(argument.is_complete for argument in self.arguments.values())
        )

    @property
    def is_submitted(self) -> bool:
        """Whether it runs or has run: it never changes any more, and never runs again."""
        return self.progress.state is not CommandStateNumber.PREPARING
