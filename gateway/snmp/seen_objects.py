"""The objects that a principal sees, for its SETs: what it does not see does not exist for them.

Nor does it take longer than what does not exist: the look-up ends before anything of the object is read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.store import MibView
from gateway.snmp.tables.classes import ManagedObjects, Target, Variable

_MISSING: Final = (ber.NO_SUCH_OBJECT, ber.NO_SUCH_INSTANCE)
_COLUMN_AND_INDEX: Final = 3
_INDEX: Final = 2  # source and row


class SeenObjects:
    """Those of all objects that a view shows; see `gateway.snmp.tables.classes.ManagedObjects`.

    Args:
        objects: all objects.
        view: what the principal sees.
    """

    def __init__(self, objects: ManagedObjects, view: MibView) -> None:
        self._objects = objects
        self._view = view

    def variable(self, name: Oid) -> Variable | None:
        """Return the variable of this name; one that is not seen has no value that could be repeated."""
        absent = self._objects.absent(name)
        if absent is None or not self._is_seen(name):
            return absent
        variable = self._objects.variable(name)
        if variable is None or variable.target.schema is None:
            return variable
        if self._view.read(ber.encode_name(name)) in _MISSING:
            return replace(variable, shown=None, whole_octets=None)
        return variable

    def target(self, instance: Oid) -> Target | None:
        """Return the object in whose row an instance is; one that is not seen does not exist."""
        absent = self._objects.absent(instance)
        if absent is None or not self._is_seen(instance):
            return None if absent is None else absent.target
        return self._objects.target(instance)

    def absent(self, name: Oid) -> Variable | None:
        """Return the variable of this name as of a row that is not there."""
        return self._objects.absent(name)

    def _is_seen(self, instance: Oid) -> bool:
        row = (*instance[:-_COLUMN_AND_INDEX], RowColumn.STALE, *instance[-_INDEX:])
        return self._view.read(ber.encode_name(row)) not in _MISSING
