"""SETs that are refused without the core being asked, as reports to it: it records who tried what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from gateway.feed.operations import NorthRefusal, OperationRequest, SetElements
from gateway.feed.refusal_reports import refused_request
from gateway.model.operations import Outcome, Principal
from gateway.snmp import message
from gateway.snmp.asked_values import Variables, asked_values, dotted
from gateway.snmp.set_statuses import STATUS_NAMES
from gateway.snmp.writable import Assignment, Refusal

UNKNOWN: Final = "(unknown)"
"""Who sends a SET with a community that is not known; no writer can be called so. The community is not told:
it may be a right one with a letter wrong."""

READER: Final = "(reader)"
"""Who sends a SET with the community that only reads."""

OUTCOMES: Final[Mapping[int, Outcome]] = {
    message.NO_ACCESS: Outcome.REFUSED,
    message.NOT_WRITABLE: Outcome.READ_ONLY,
    message.NO_CREATION: Outcome.UNKNOWN_ELEMENT,
    message.WRONG_TYPE: Outcome.WRONG_TYPE,
    message.WRONG_LENGTH: Outcome.WRONG_LENGTH,
    message.WRONG_VALUE: Outcome.WRONG_VALUE,
    message.INCONSISTENT_NAME: Outcome.OBJECT_GONE,
    message.INCONSISTENT_VALUE: Outcome.NOT_NOW,
    message.RESOURCE_UNAVAILABLE: Outcome.NOT_NOW,
}
"""How a SET is recorded that was answered so before anything was done."""

Report: TypeAlias = Callable[[OperationRequest], None]
"""`gateway.feed.refusal_reports.RefusalReports.tell`."""


def nobody_told(_: OperationRequest) -> None:
    """Where there is no core."""


class RefusedSets:
    """Makes the reports.

    Args:
        variables: of which something is known.
        report: takes them.
    """

    def __init__(self, variables: Variables, report: Report = nobody_told) -> None:
        self._variables = variables
        self._report = report

    def tested(
        self,
        principal: Principal,
        assignments: Sequence[Assignment],
        refusal: Refusal,
        outcome: Outcome | None = None,
        text: str = "",
    ) -> None:
        """A writer's SET failed its test.

        Args:
            principal: the writer.
            assignments: of the SET.
            refusal: what it is answered with.
            outcome: what the core said, where it was asked and has not recorded it.
            text: likewise.
        """
        place = refusal.index - 1 if 0 < refusal.index <= len(assignments) else 0
        status = STATUS_NAMES.get(refusal.status, str(refusal.status))
        why = f"SET of {_which(assignments, place)}: {status}"
        outcome = outcome or OUTCOMES.get(refusal.status, Outcome.NOT_NOW)
        self._tell(principal, assignments, place, outcome, f"{text}; {why}" if text else why)

    def not_a_writer(self, origin: str, assignments: Sequence[Assignment]) -> None:
        """Somebody who may only read sent a SET."""
        about = f" of {_which(assignments, 0)}" if assignments else ""
        text = f"SET{about} with the community that only reads"
        self._tell(Principal("snmp", READER, origin), assignments, 0, Outcome.REFUSED, text)

    def not_known(self, origin: str) -> None:
        """Somebody sent a SET with a community that is not known: nothing else of it is read."""
        self._tell(
            Principal("snmp", UNKNOWN, origin),
            (),
            0,
            Outcome.REFUSED,
            "SET with a community that is not known",
        )

    def _tell(
        self,
        principal: Principal,
        assignments: Sequence[Assignment],
        place: int,
        outcome: Outcome,
        text: str,
    ) -> None:
        """Report a SET of which the binding at that ``place`` was refused."""
        variable = self._variables.variable(assignments[place].name) if assignments else None
        where, element = (0, "", 0), ""
        if variable is not None:
            target = variable.target
            where = target.source, target.class_name, target.row
            element = "" if variable.lock is None else variable.lock.name
        values = asked_values(self._variables, assignments, place) if assignments else {}
        refusal = NorthRefusal(outcome, text, element)
        self._report(refused_request(principal, SetElements(values), refusal, where))


def _which(assignments: Sequence[Assignment], place: int) -> str:
    """The object identifier of a binding, and which of how many it is."""
    name = dotted(assignments[place].name)
    return name if len(assignments) == 1 else f"{name} ({place + 1} of {len(assignments)})"
