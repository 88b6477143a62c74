"""Reports to the core of SETs that were refused without asking it; the core records who attempted what.

A report is made of what the requester sees, so that it takes as long for a hidden object as for none.
A value is reported where its variable is that of an element; the core masks it where the element is secret.
Any other name may have any value, such as a password under a mistyped name: only the name is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from gateway.feed.client import refused_request
from gateway.feed.guesses import UNKNOWN
from gateway.feed.operations import FrontEndRefusal, OperationRequest, SetElements
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.operations import Outcome, Principal
from gateway.model.secrets import MASK
from gateway.snmp import ber, message
from gateway.snmp.ber import Oid, dotted
from gateway.snmp.message import STATUS_NAMES
from gateway.snmp.syntax import WRITABLE_SYNTAXES
from gateway.snmp.tables.classes import ManagedObjects, Target, Variable
from gateway.snmp.written_values import Assignment, Rejected, WrittenValueError, written_value

MAX_RECORDED: Final = 100
"""The maximum number of variable bindings recorded of one SET: the first ones, and the refused one."""

_NUMBERS: Final = frozenset({ber.GAUGE32, ber.COUNTER32, ber.COUNTER64, ber.TIME_TICKS})


Find: TypeAlias = Callable[[Oid], Variable | None]
"""`gateway.snmp.tables.classes.ManagedObjects.variable`, or ``absent``."""


def asked_values(find: Find, assignments: Sequence[Assignment], refused: int) -> Mapping[str, FeedValue]:
    """Return the requested values by name.

    An element of the refused binding's object has its own name, one of another object the name of that object
    before it, and any other variable its object identifier.

    Args:
        find: returns known variables.
        assignments: the assignments of the SET.
        refused: the place of the refused one, from 0.
    """
    about = find(assignments[refused].name)
    places = list(range(min(len(assignments), MAX_RECORDED)))
    if refused not in places:
        places[-1] = refused
    values: dict[str, FeedValue] = {}
    for place in places:
        assignment = assignments[place]
        variable = find(assignment.name)
        name = _name(variable, about, assignment.name)
        if name in values:
            # A SET may have one variable several times.
            name = f"{name} ({assignment.index})"
        values[name] = (
            MASK if variable is None or variable.entry is None else _value(find, variable, assignment)
        )
    return values


def _name(variable: Variable | None, about: Variable | None, oid: Oid) -> str:
    if variable is None or variable.entry is None:
        return dotted(oid)
    target, element = variable.target, variable.entry.name
    if about is not None and _object(target) == _object(about.target):
        return element
    return f"{target.class_name} {target.stable_name or target.row} {element}"


def _object(target: Target) -> tuple[int, str, int]:
    return target.source, target.class_name, target.row


def _value(find: Find, variable: Variable, assignment: Assignment) -> FeedValue:
    """Return a value of the element's type; the SNMP value where it does not fit, or means no value."""
    element, entry = variable.element, variable.entry
    if element is not None and entry is not None and entry.syntax in WRITABLE_SYNTAXES:

        def link(instance: Oid) -> ObjectLink | None:
            found = find(instance)
            target = None if found is None else found.target
            if target is None or target.schema is None or target.source != variable.target.source:
                return None
            return ObjectLink(target.class_name, target.row, target.stable_name)

        try:
            value = written_value(assignment.value, element, entry, link)
        except WrittenValueError:
            value = None
        if value is not None:
            return value
    return snmp_value(assignment.value)


def snmp_value(tlv: bytes) -> FeedValue:
    """Return an SNMP value as a number, a printable text, or a dotted object identifier; else as octets."""
    tag, start, stop = ber.read_header(tlv, 0, len(tlv))
    content = tlv[start:stop]
    if tag == ber.INTEGER:
        return int.from_bytes(content, "big", signed=True)
    if tag in _NUMBERS:
        return int.from_bytes(content, "big")
    if tag == ber.OBJECT_IDENTIFIER:
        return dotted(ber.decode_name(content))
    if tag == ber.OCTET_STRING:
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return content
        return text if text.isprintable() else content
    return content


READER: Final = "(reader)"
"""The principal of a SET with the read-only community."""

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
"""The recorded outcome of a SET that was answered with this error-status before anything was done."""

Report: TypeAlias = Callable[[OperationRequest], None]
"""`gateway.feed.client.RefusalReports.report`."""


def drop_report(_: OperationRequest) -> None:
    """Drop a report, because there is no core."""


class RefusedSets:
    """The reporter of refused SETs.

    Args:
        variables: the known variables.
        report: takes the reports.
        seen: returns those that a writer sees, by its name; without it all see all.
    """

    def __init__(
        self,
        variables: ManagedObjects,
        report: Report = drop_report,
        seen: Callable[[str], ManagedObjects] | None = None,
    ) -> None:
        self._variables = variables
        self._report = report
        self._seen = seen

    def tested(
        self,
        principal: Principal,
        assignments: Sequence[Assignment],
        refusal: Rejected,
        outcome: Outcome | None = None,
        text: str = "",
    ) -> None:
        """Report a writer's SET that failed its test.

        Args:
            principal: the writer.
            assignments: the assignments of the SET.
            refusal: the error-status and error-index of the answer.
            outcome: the outcome from the core, where it was asked and has not recorded the SET.
            text: the text from the core, likewise.
        """
        # An error-index of 0 names no binding.
        place = refusal.index - 1 if 0 < refusal.index <= len(assignments) else 0
        status = STATUS_NAMES.get(refusal.status, str(refusal.status))
        why = f"SET of {_which(assignments, place)}: {status}"
        outcome = outcome or OUTCOMES.get(refusal.status, Outcome.NOT_NOW)
        find = (self._variables if self._seen is None else self._seen(principal.name)).variable
        self._send_report(principal, assignments, place, outcome, f"{text}; {why}" if text else why, find)

    def not_a_writer(self, origin: str, assignments: Sequence[Assignment], user: str = "") -> None:
        """Report a SET of a client that may only read: of a user of version 3, or with the community."""
        about = f" of {_which(assignments, 0)}" if assignments else ""
        reader = "by a user that only reads" if user else "with the community that only reads"
        principal = Principal("snmp", user or READER, origin)
        self._send_report(principal, assignments, 0, Outcome.REFUSED, f"SET{about} {reader}")

    def not_known(self, origin: str) -> None:
        """Report a SET with an unknown community; nothing else of it is read."""
        self._send_report(
            Principal("snmp", UNKNOWN, origin),
            (),
            0,
            Outcome.REFUSED,
            "SET with a community that is not known",
        )

    def _send_report(
        self,
        principal: Principal,
        assignments: Sequence[Assignment],
        place: int,
        outcome: Outcome,
        text: str,
        find: Find | None = None,
    ) -> None:
        """Report a SET whose binding at ``place`` was refused."""
        find = find or self._variables.absent
        variable = find(assignments[place].name) if assignments else None
        where, element = (0, "", 0), ""
        if variable is not None:
            target = variable.target
            where = target.source, target.class_name, target.row
            element = "" if variable.entry is None else variable.entry.name
        values = asked_values(find, assignments, place) if assignments else {}
        refusal = FrontEndRefusal(outcome, text, element)
        self._report(refused_request(principal, SetElements(values), refusal, where))


def _which(assignments: Sequence[Assignment], place: int) -> str:
    """Return the object identifier of a binding, and its number of how many."""
    name = dotted(assignments[place].name)
    return name if len(assignments) == 1 else f"{name} ({place + 1} of {len(assignments)})"
