"""How often classes may change: so often in all, and so that no application uses up what others need."""

from __future__ import annotations

from typing import Final

from gateway.dialects.ami.relay_allowances import Allowance
from gateway.dialects.ami.relay_effects import RefusedError
from gateway.dialects.ami.relay_tables import Row, Table, Version
from gateway.model.schema import ClassKey

_SIZE: Final = 64 << 20
"""Characters that all versions of classes may take."""


class Versions:
    """The versions of all classes that were told, and whose doing each was.

    Nobody can take one back: norths, event log and objects that ended may still mean it. One that was told
    before costs nothing when it comes again.

    Args:
        most: versions; half of them may differ by methods.
    """

    def __init__(self, most: int) -> None:
        self._told: set[ClassKey] = set()
        self._count, self._size = Allowance(most), Allowance(_SIZE)
        self._with_methods, self._methods_size = Allowance(most // 2), Allowance(_SIZE // 2)
        self._expected: dict[Table | Row, str] = {}

    def check(self, who: str, classes: int = 1) -> None:
        """Make sure that an application may change so many classes.

        Raises:
            RefusedError: it must not any more.
        """
        if not self._count.has(who, classes) or not self._size.has(who):
            raise RefusedError("it has changed classes as often as it may since the gateway was started")

    def check_methods(self, row: Row) -> None:
        """Make sure that a row's methods may change: with half of all, so that keys have the others.

        An application may define its commands again as often as it likes, with what it has just now to choose
        from; that must not end what it, or anybody, can tell.

        Raises:
            RefusedError: they must not any more.
        """
        if row in self._expected:
            return
        if not self._with_methods.has(row.agent) or not self._methods_size.has(row.agent):
            raise RefusedError("it has changed its commands as often as it may since the gateway was started")
        self.check(row.agent)

    def is_needed(self, table: Table, *, grows: bool) -> bool:
        """Whether telling an object in a table, which ``grows`` by it or not, makes one more version."""
        if table in self._expected:
            return False
        return grows or (not table.rows and not (table.is_settled and self._knows(table.version())))

    def expect(self, what: Table | Row, who: str) -> None:
        """An application has changed a table, or a row's methods: a version of that will be told."""
        if what not in self._expected:
            self._expected[what] = who
            self._count.take(who)
            if isinstance(what, Row):
                self._with_methods.take(who)

    def forget(self, what: Table | Row) -> str | None:
        """That version is told, or will never be; returns whose doing it would have been."""
        who = self._expected.pop(what, None)
        if who is not None:
            self._count.take(who, -1)
            if isinstance(what, Row):
                self._with_methods.take(who, -1)
        return who

    def told(self, version: Version, row: Row | None = None) -> bool:
        """A version is told, with this row under it; returns whether it is a new one."""
        if self._knows(version):
            return False
        self._told.add(version.schema.key)
        who = "" if row is None else (self.forget(row.table) or row.agent)
        self._count.take(who)
        self._size.take(who, version.size)
        if version.schema.methods:
            self._with_methods.take(who)
            self._methods_size.take(who, version.size)
        return True

    def _knows(self, version: Version) -> bool:
        return version.schema.key in self._told
