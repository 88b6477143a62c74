"""The versions of classes that the core has told, and the numbers that the virtual machine knows them by."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.feed.records import ClassRecord
from gateway.jmx.classes import ColumnOids, ShownClass, shown_class
from gateway.jmx.commands import Command
from gateway.jmx.own_beans import FIRST_FREE_CLASS
from gateway.model.schema import EventSchema

MAX_VERSIONS = 2_000
"""Versions of classes known at a time; objects of further ones are not shown."""


class ClassVersions:
    """All of them; one is defined in the virtual machine when its first object comes.

    Args:
        tell: takes the commands.
        log: told, once, that there are too many.
        column_oid: of the SNMP column that shows an element too.
    """

    def __init__(
        self, tell: Callable[[Command], None], log: Callable[[str, str], None], column_oid: ColumnOids
    ) -> None:
        self._tell = tell
        self._log = log
        self._column_oid = column_oid
        self._versions: dict[str, list[ShownClass]] = {}
        self._count = 0
        self._next_number = FIRST_FREE_CLASS
        self._free_numbers: list[int] = []
        self._full = False

    def find(self, record: ClassRecord) -> ShownClass | None:
        """The version that a record describes; ``None`` (logged) where there are too many."""
        versions = self._versions.setdefault(str(record.schema.key), [])
        known = next((version for version in versions if version.same_as(record)), None)
        if known is None:
            if self._count >= MAX_VERSIONS:
                self._refuse(record)
                return None
            known = shown_class(record, self._column_oid)
            versions.append(known)
            self._count += 1
        return known

    def define(self, version: ShownClass, events: Iterable[EventSchema]) -> None:
        """See to it that the virtual machine knows this version."""
        if version.number:
            return
        if self._free_numbers:
            number = self._free_numbers.pop()
        else:
            number = self._next_number
            self._next_number += 1
        self._tell(version.define(number, events))

    def drop_unused(self, used: Iterable[ShownClass]) -> None:
        """Forget versions that the core does not use, as these are all, and that have no objects."""
        told = set(map(id, used))
        for name, versions in tuple(self._versions.items()):
            kept = [version for version in versions if version.objects or id(version) in told]
            dropped = [version for version in versions if not version.objects and id(version) not in told]
            self._free_numbers += [version.number for version in dropped if version.number]
            self._count -= len(dropped)
            if kept:
                self._versions[name] = kept
            else:
                del self._versions[name]

    def _refuse(self, record: ClassRecord) -> None:
        if not self._full:
            self._full = True
            self._log(
                "class-not-shown",
                f"{record.schema.key}: there are {MAX_VERSIONS} versions of classes already",
            )
