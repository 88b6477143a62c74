"""The MBeans of managed objects: registered, changed and taken away, and what they refer to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.feed.operations import OperationRecord
from gateway.feed.records import ObjectRecord, UpdateRecord
from gateway.feed.values import ObjectLink
from gateway.jmx.classes import Own, Resolve, ShownClass, Unfit
from gateway.jmx.commands import Change, Command, Register, Unregister
from gateway.jmx.groups import Group
from gateway.jmx.links import Target, WaitingLinks
from gateway.jmx.names import name_of
from gateway.jmx.operation_notices import LastOperations
from gateway.jmx.sources import ShownObject, ShownSource


class ShownObjects:
    """The objects of all sources; whether what a record names is known has been found out before.

    Args:
        sources: by number.
        buckets: into how many groups the names of a class (``package:class``) are split.
        last_operations: what came of the last operation on an object.
        new_number: numbers an MBean.
        tell: takes the commands.
        unfit: told of each value that does not fit its type.
    """

    def __init__(
        self,
        sources: Mapping[int, ShownSource],
        buckets: Mapping[str, int],
        last_operations: LastOperations,
        *,
        new_number: Callable[[], int],
        tell: Callable[[Command], None],
        unfit: Unfit,
    ) -> None:
        self._sources = sources
        self._buckets = buckets
        self._last_operations = last_operations
        self._new_number = new_number
        self._tell = tell
        self._unfit = unfit
        self._links = WaitingLinks()
        self._by_number: dict[int, ShownObject] = {}
        self._rows: dict[tuple[int, str], dict[int, ShownObject]] = {}

    def find(self, number: int) -> ShownObject | None:
        """The object that the virtual machine knows by this number, while there is one."""
        return self._by_number.get(number)

    def at(self, target: Target) -> ShownObject | None:
        """The object that has a row, if one has."""
        return self._rows.get((target.source, target.class_name), {}).get(target.row)

    def of_source(self, source: int) -> list[ShownObject]:
        """The objects of a source."""
        return [
            shown for (number, _), rows in self._rows.items() if number == source for shown in rows.values()
        ]

    def show(
        self, record: ObjectRecord, shown_class: ShownClass, shown: ShownObject | None, group: Group
    ) -> ShownObject:
        """Register an object, or register it again where it is ``shown`` already."""
        source = self._sources[record.source]
        name = name_of(
            record,
            source.name,
            shown_class.record.schema.key,
            has_parent=shown_class.has_parent,
            buckets=self._buckets.get(shown_class.name, 0),
        )
        if shown is None:
            shown = ShownObject(group, self._new_number(), record.row, name, shown_class)
            self._rows.setdefault((record.source, shown_class.name), {})[record.row] = shown
            self._by_number[shown.number] = shown
        else:
            shown.shown_class.objects -= 1
            self._links.forget(shown.number)
            shown.name, shown.shown_class = name, shown_class
        shown_class.objects += 1
        target = Target(record.source, shown_class.name, record.row)
        values = shown_class.values(
            record,
            source.name,
            self._last_operations.of(target),
            self._resolver(record.source, shown.number),
            self._unfit,
        )
        self._tell(Register(shown.number, shown_class.number, group.number, name, values))
        for referrer, position in self._links.arrived(target):
            self._tell(Change(referrer, {position: name}))
        return shown

    def update(self, record: UpdateRecord, shown: ShownObject) -> None:
        """Values of an object have changed."""
        self._links.settle_all(shown.number, shown.shown_class.positions(record))
        resolve = self._resolver(record.source, shown.number)
        self._tell(Change(shown.number, shown.shown_class.changes(record, resolve, self._unfit)))

    def take_away(self, shown: ShownObject) -> None:
        """Unregister an object."""
        shown.shown_class.objects -= 1
        del self._rows[shown.group.source, shown.shown_class.name][shown.row]
        del self._by_number[shown.number]
        self._links.forget(shown.number)
        self._tell(Unregister(shown.number))

    def operation_told(self, record: OperationRecord) -> None:
        """An operation on an object has ended, or more is known of it."""
        for changed in self._last_operations.tell(record):
            shown = self.at(changed)
            if shown is not None:
                self._tell(Change(shown.number, {Own.LAST_OPERATION: self._last_operations.of(changed)}))

    def _resolver(self, source: int, referrer: int) -> Resolve:
        """What finds the names that an object refers to, or lets it wait for them."""

        def resolve(position: int, link: ObjectLink) -> str | None:
            target = Target(source, link.class_name, link.row)
            found = self.at(target)
            if found is None:
                self._links.wait(referrer, position, target)
                return None
            return found.name

        return resolve
