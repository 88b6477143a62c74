"""What takes part in a SET: assignments, error statuses, tables of this process, and snmpSetSerialNo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.model.operations import Outcome, Principal
from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.store import Store


@dataclass(frozen=True, slots=True)
class Assignment:
    """One variable binding of a SET.

    Attributes:
        index: its place in the request, from 1: the error-index of what is wrong with it.
        name: of the instance.
        value: canonical TLV of any type.
    """

    index: int
    name: Oid
    value: bytes


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why a SET changes nothing: error-status of `gateway.snmp.message`, as of v2c, and error-index."""

    status: int
    index: int


class WritableTable(Protocol):
    """Variables that live in this process: a SET changes them at once, without asking the core.

    One SET calls `test` with all its assignments below ``prefix``, so that rows of several tables, named in
    any order, are seen together.
    """

    @property
    def prefix(self) -> Oid:
        """What the names of its variables begin with, and no other's do."""

    def test(self, principal: Principal, assignments: Sequence[Assignment]) -> Rejected | None:
        """The first thing wrong with these assignments (RFC 3416 section 4.2.5), if any; changes nothing.

        Args:
            principal: ``snmp:WRITER``, and where from.
            assignments: in the order of the request; names may stand there twice.
        """

    def commit(self, principal: Principal, assignments: Sequence[Assignment], identity: str) -> None:
        """Make the assignments, which `test` has found nothing wrong with in the same turn of the loop.

        It cannot fail; what they set going may. ``identity`` is that of the SET, the same if it comes again.
        """


TEST_STATUSES: Final[Mapping[Outcome, int]] = {
    Outcome.APPLIED: message.NO_ERROR,
    Outcome.OBJECT_GONE: message.INCONSISTENT_NAME,
    Outcome.UNKNOWN_ELEMENT: message.NOT_WRITABLE,
    Outcome.READ_ONLY: message.NOT_WRITABLE,
    Outcome.REFUSED: message.NO_ACCESS,
    Outcome.WRONG_TYPE: message.WRONG_TYPE,
    Outcome.WRONG_LENGTH: message.WRONG_LENGTH,
    Outcome.WRONG_VALUE: message.WRONG_VALUE,
    Outcome.NOT_NOW: message.INCONSISTENT_VALUE,
    Outcome.SOURCE_DOWN: message.RESOURCE_UNAVAILABLE,
}
"""Of what a check came to: nothing has been done. No other outcome comes of a check."""

COMMIT_STATUSES: Final[Mapping[Outcome, int]] = {
    # An outcome that is certain, and is not APPLIED, has changed nothing as far as is known: `set_requests`
    # looks at what was read back before it says so.
    **dict.fromkeys(Outcome, message.COMMIT_FAILED),
    Outcome.APPLIED: message.NO_ERROR,
    Outcome.UNKNOWN: message.UNDO_FAILED,
}
"""Of what was tried."""

VERSION_1_STATUSES: Final[Mapping[int, int]] = {
    message.WRONG_VALUE: message.BAD_VALUE,
    message.WRONG_ENCODING: message.BAD_VALUE,
    message.WRONG_TYPE: message.BAD_VALUE,
    message.WRONG_LENGTH: message.BAD_VALUE,
    message.INCONSISTENT_VALUE: message.BAD_VALUE,
    message.NO_ACCESS: message.NO_SUCH_NAME,
    message.NOT_WRITABLE: message.NO_SUCH_NAME,
    message.NO_CREATION: message.NO_SUCH_NAME,
    message.INCONSISTENT_NAME: message.NO_SUCH_NAME,
    message.AUTHORIZATION_ERROR: message.NO_SUCH_NAME,
    message.RESOURCE_UNAVAILABLE: message.GEN_ERR,
    message.COMMIT_FAILED: message.GEN_ERR,
    message.UNDO_FAILED: message.GEN_ERR,
}
"""What stands for the statuses that SNMPv1 lacks (RFC 3584 section 4.4)."""

STATUS_NAMES: Final[Mapping[int, str]] = {
    message.NO_ERROR: "noError",
    message.TOO_BIG: "tooBig",
    message.GEN_ERR: "genErr",
    message.NO_ACCESS: "noAccess",
    message.WRONG_TYPE: "wrongType",
    message.WRONG_LENGTH: "wrongLength",
    message.WRONG_VALUE: "wrongValue",
    message.NO_CREATION: "noCreation",
    message.INCONSISTENT_VALUE: "inconsistentValue",
    message.RESOURCE_UNAVAILABLE: "resourceUnavailable",
    message.COMMIT_FAILED: "commitFailed",
    message.UNDO_FAILED: "undoFailed",
    message.NOT_WRITABLE: "notWritable",
    message.INCONSISTENT_NAME: "inconsistentName",
}
"""Every status that a SET in version 2c can be answered with here, as RFC 3416 writes it."""


SNMP_SET_SERIAL_NO: Final[Oid] = (1, 3, 6, 1, 6, 3, 1, 1, 6, 1)
"""The object; its only instance is 0."""

VALUES: Final = 1 << 31
"""Of a TestAndIncr: 0 follows the highest."""


class AdvisoryLock:
    """A TestAndIncr (RFC 2579 section 2): it can be set to the value that it has, and has the next one then.

    A manager reads it, reads what it wants to change, and names it in the SET: if another one was quicker the
    SET is refused. It may stand beside anything else that can be set, and no SET has to name it.

    Args:
        value: at first, from 0 to 2^31-1; a random one, so that what was read before a restart does not hold.
    """

    prefix: Final = SNMP_SET_SERIAL_NO

    def __init__(self, value: int) -> None:
        self._value = value

    def serve(self, store: Store) -> None:
        """Show it."""
        store.scalar((*self.prefix, 0), lambda: ber.encode_integer(self._value))

    def test(self, assignments: Sequence[Assignment]) -> Rejected | None:
        """The first thing wrong with these assignments, all of them below ``prefix``; changes nothing."""
        for place, assignment in enumerate(assignments):
            status = self._status(assignment)
            if status == message.NO_ERROR and place > 0:
                status = message.INCONSISTENT_VALUE  # the first one makes it another value
            if status != message.NO_ERROR:
                return Rejected(status, assignment.index)
        return None

    def commit(self, assignments: Sequence[Assignment]) -> None:
        """Go on to the next value if there is an assignment; `test` has found nothing wrong with it."""
        if assignments:
            self._value = (self._value + 1) % VALUES

    def undo(self, assignments: Sequence[Assignment]) -> None:
        """Undo a commit of these assignments, unless another one came after it."""
        for assignment in assignments:
            former, _ = ber.read_integer(assignment.value, 0, len(assignment.value))
            if self._value == (former + 1) % VALUES:
                self._value = former

    def _status(self, assignment: Assignment) -> int:
        if assignment.name != (*self.prefix, 0):
            return message.NO_CREATION
        if assignment.value[0] != ber.INTEGER:
            return message.WRONG_TYPE
        number, _ = ber.read_integer(assignment.value, 0, len(assignment.value))
        if not 0 <= number < VALUES:
            return message.WRONG_VALUE
        return message.NO_ERROR if number == self._value else message.INCONSISTENT_VALUE
