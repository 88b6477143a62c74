"""snmpSetSerialNo (RFC 3418): the lock by which managers that cooperate notice each other's SETs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.store import Store
from gateway.snmp.writable import Assignment, Refusal

SNMP_SET_SERIAL_NO: Final[Oid] = (1, 3, 6, 1, 6, 3, 1, 1, 6, 1)
"""The object; its only instance is 0."""

VALUES: Final = 1 << 31
"""Of a TestAndIncr: 0 follows the highest."""


class AdvisoryLock:
    """A TestAndIncr (RFC 2579 section 2): it can be set to the value that it has, and has the next one then.

    A manager reads it, reads what it wants to change, and names it in the SET: if another one was quicker the
    SET is refused. It may stand beside anything else that can be set, and nobody has to name it.

    Args:
        value: at first, from 0 to 2^31-1; a random one, so that what was read before a restart does not hold.
    """

    prefix: Final = SNMP_SET_SERIAL_NO

    def __init__(self, value: int) -> None:
        self._value = value

    def serve(self, store: Store) -> None:
        """Show it."""
        store.scalar((*self.prefix, 0), lambda: ber.encode_integer(self._value))

    def test(self, assignments: Sequence[Assignment]) -> Refusal | None:
        """The first thing wrong with these assignments, all of them below ``prefix``; changes nothing."""
        for place, assignment in enumerate(assignments):
            status = self._status(assignment)
            if status == message.NO_ERROR and place > 0:
                status = message.INCONSISTENT_VALUE  # the first one makes it another value
            if status != message.NO_ERROR:
                return Refusal(status, assignment.index)
        return None

    def commit(self, assignments: Sequence[Assignment]) -> None:
        """Have the next value, if any assignment asks for it; `test` has found nothing wrong with them."""
        if assignments:
            self._value = (self._value + 1) % VALUES

    def undo(self, assignments: Sequence[Assignment]) -> None:
        """Take a commit of these back, unless another one came after it."""
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
