"""SETs that are refused without the core being asked, as reports to it: it records who tried what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from gateway.feed.operations import NorthRefusal, OperationRequest, SetElements
from gateway.feed.refusal_reports import refused_request
from gateway.model.operations import Outcome, Principal
from gateway.snmp import message
from gateway.snmp.ber import Oid
from gateway.snmp.set_statuses import STATUS_NAMES
from gateway.snmp.tables.classes import Variable
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


class Variables(Protocol):
    """Knows the variables of managed objects (`gateway.snmp.projection.Projection`)."""

    def variable(self, name: Oid) -> Variable | None:
        """The variable of this name; ``None`` outside the tables of objects."""


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
        name = assignments[place].name
        variable = self._variables.variable(name)
        element = "" if variable is None or variable.element is None else variable.element.name
        where = (0, "", 0)
        if variable is not None and variable.target.schema is not None:
            where = (variable.target.source, variable.target.class_name, variable.target.row)
        why = text or f"SET of {_dotted(name)}: {STATUS_NAMES.get(refusal.status, str(refusal.status))}"
        outcome = outcome or OUTCOMES.get(refusal.status, Outcome.NOT_NOW)
        action = SetElements({element: None} if element else {})
        self._report(refused_request(principal, action, NorthRefusal(outcome, why, element), where))

    def not_a_writer(self, origin: str, name: Oid | None) -> None:
        """Somebody who may only read sent a SET; ``name`` is of its first variable."""
        about = "" if name is None else f" of {_dotted(name)}"
        self._nobody(READER, origin, f"SET{about} with the community that only reads")

    def not_known(self, origin: str) -> None:
        """Somebody sent a SET with a community that is not known."""
        self._nobody(UNKNOWN, origin, "SET with a community that is not known")

    def _nobody(self, who: str, origin: str, text: str) -> None:
        refusal = NorthRefusal(Outcome.REFUSED, text)
        self._report(refused_request(Principal("snmp", who, origin), SetElements({}), refusal))


def _dotted(name: Oid) -> str:
    return ".".join(map(str, name))
