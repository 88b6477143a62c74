"""The MBeans of managed objects, the freshness of each group of them, and their references."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import msgspec

from gateway.feed.freshness import Freshness
from gateway.feed.freshness import Group as FeedGroup
from gateway.feed.latest import HistoryLimits, Latest, memory_of
from gateway.feed.operations import OperationRecord
from gateway.feed.records import ObjectRecord, UpdateRecord
from gateway.feed.replica import ShownObject as ReplicaObject
from gateway.feed.values import FeedValue, ObjectLink
from gateway.jmx import types
from gateway.jmx.audience import Audience, ObjectAccess, source_name_of
from gateway.jmx.classes import Own, Resolve, ShownClass, Unfit
from gateway.jmx.commands import (
    NOTHING,
    Change,
    Command,
    JmxValue,
    Register,
    RegisterTable,
    SetGroup,
    Unregister,
    varying,
)
from gateway.jmx.names import name_of, table_name
from gateway.jmx.notifications import operation_line

SHOWN_OPERATIONS: Final = 100
"""The maximum of entries for each source in the attribute ``LastOperations`` of the Gateway MBean."""


class Target(NamedTuple):
    """An object, identified by its row."""

    source: int
    class_name: str
    row: int


class WaitingLinks:
    """References to objects that are not known yet.

    An attribute, identified by the number of its object and its position, has no value until the object that
    it refers to is registered.
    """

    def __init__(self) -> None:
        # In both directions: by target to fill attributes in, by referrer to forget what it waits for.
        self._by_target: dict[Target, set[tuple[int, int]]] = {}
        self._by_referrer: dict[int, dict[int, Target]] = {}

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._by_target.values())

    def __contains__(self, referrer: int) -> bool:
        """Return whether an attribute of this object waits."""
        return referrer in self._by_referrer

    def wait(self, referrer: int, position: int, target: Target) -> None:
        """Let an attribute wait for ``target``."""
        self._by_target.setdefault(target, set()).add((referrer, position))
        self._by_referrer.setdefault(referrer, {})[position] = target

    def settle(self, referrer: int, position: int) -> None:
        """Forget that an attribute waits, because it has another value."""
        targets = self._by_referrer.get(referrer)
        target = targets.pop(position, None) if targets else None
        if target is not None:
            self._leave(referrer, position, target)
        if targets is not None and not targets:
            del self._by_referrer[referrer]

    def settle_all(self, referrer: int, positions: Iterable[int]) -> None:
        """Do as `settle` for several attributes."""
        for position in positions:
            self.settle(referrer, position)

    def forget(self, referrer: int) -> None:
        """Forget all attributes of an object that was removed or registered again."""
        for position, target in self._by_referrer.pop(referrer, {}).items():
            self._leave(referrer, position, target)

    def arrived(self, target: Target) -> list[tuple[int, int]]:
        """Return the attributes that waited for ``target``, and forget that they did."""
        waiting = sorted(self._by_target.get(target, ()))
        for referrer, position in waiting:
            self.settle(referrer, position)
        return waiting

    def _leave(self, referrer: int, position: int, target: Target) -> None:
        waiting = self._by_target[target]
        waiting.discard((referrer, position))
        if not waiting:
            del self._by_target[target]


@dataclass(slots=True, eq=False)
class Group(FeedGroup):
    """MBeans that become stale and fresh together: of an agent and class, or those about a source itself.

    The virtual machine keeps one freshness for each group, so that a change is one command however many
    MBeans there are.

    Attributes:
        number: the number of the group in the virtual machine.
        seen_by: the number of its objects that exist for just these users (`ObjectAccess.seen_by`).
    """

    number: int = 0
    seen_by: Counter[int] = field(default_factory=Counter)

    def add(self, seen_by: int) -> None:
        """Count an object that exists for these users."""
        self.seen_by[seen_by] += 1

    def remove(self, seen_by: int) -> None:
        """Count such an object no more."""
        self.seen_by[seen_by] -= 1
        if not self.seen_by[seen_by]:
            del self.seen_by[seen_by]


class Groups:
    """The groups of all MBeans.

    Args:
        send: takes commands for the virtual machine.

    Attributes:
        own: the group of the Gateway MBean, which is always fresh.
    """

    def __init__(self, send: Callable[[Command], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._of_sources: dict[int, Group] = {}
        self.own = self.new(0)
        self._set(self.own, Freshness.FRESH)

    def new(self, source: int, agent: str = "", class_name: str = "") -> Group:
        """Make a group for the objects of an agent and class."""
        return Group(source, agent, class_name, number=next(self._numbers))

    def changed(self, group: Group) -> None:
        """Send the freshness of a group."""
        self._send(SetGroup(group.number, group.freshness))

    def of_source(self, source: int) -> Group:
        """Return the group of the MBean of a source."""
        group = self._of_sources.get(source)
        if group is None:
            group = self._of_sources[source] = self.new(source)
        return group

    def judge_source(self, source: int, *, is_stale: bool) -> None:
        """Set the freshness of the MBean of a source."""
        self._set(self.of_source(source), Freshness.STALE if is_stale else Freshness.FRESH)

    def remove_source(self, source: int) -> None:
        """Forget a source that is no longer configured."""
        self._of_sources.pop(source, None)

    def _set(self, group: Group, freshness: Freshness) -> None:
        if group.freshness is not freshness:
            group.freshness = freshness
            self.changed(group)


def counts(groups: Iterable[Group]) -> dict[str, int]:
    """Count objects, and those that are stale or withheld, by attribute."""
    objects = dict.fromkeys(Freshness, 0)
    for group in groups:
        objects[group.freshness] += group.objects
    return {
        "Objects": sum(objects.values()),
        "StaleObjects": objects[Freshness.STALE] + objects[Freshness.WITHHELD],
        "WithheldObjects": objects[Freshness.WITHHELD],
    }


def counts_by_user(groups: Iterable[Group], users: int) -> dict[str, JmxValue]:
    """Do as `counts` for each user, of the objects that exist for that user."""
    sums = {freshness: Counter[int]() for freshness in Freshness}
    for group in groups:
        sums[group.freshness].update(group.seen_by)

    def values(*counted: Freshness) -> JmxValue:
        return varying(
            [
                sum(
                    number
                    for each in counted
                    for seen_by, number in sums[each].items()
                    if seen_by >> user & 1
                )
                for user in range(users)
            ]
        )

    return {
        "Objects": values(*Freshness),
        "StaleObjects": values(Freshness.STALE, Freshness.WITHHELD),
        "WithheldObjects": values(Freshness.WITHHELD),
    }


@dataclass(slots=True, eq=False)
class ShownObject(ReplicaObject[Group]):
    """An MBean of a managed object. Its values are in the virtual machine only.

    Attributes:
        number: the number of the MBean in the virtual machine.
        row: the row of the object, unique within source and class.
        name: its ObjectName.
        shown_class: the version of its class.
        access: what users see of it.
    """

    number: int
    row: int
    name: str
    shown_class: ShownClass
    access: ObjectAccess


@dataclass(slots=True, eq=False)
class NotedOperation:
    """An operation as it is remembered.

    Attributes:
        record: the record, without values that are no references, which decide who sees it.
        lines: a line of text for people, by how much is shown (`WHOLE`, `WITHOUT_VALUES`, `WITHOUT_OBJECT`).
        named: the same lines with the name of the object.
        choices: by user, which of them is shown; ``None`` where that is to be decided again.
    """

    record: OperationRecord
    lines: tuple[str, ...]
    named: tuple[str, ...]
    choices: tuple[int, ...] | None = None

    def of_users(self, judge: Judge, *, named: bool) -> list[str | None]:
        """Return the line that each user sees."""
        if self.choices is None:
            self.choices = judge(self.record)
        lines = self.named if named else self.lines
        return [None if choice == NOTHING else lines[choice] for choice in self.choices]


Judge: TypeAlias = Callable[[OperationRecord], tuple[int, ...]]
"""Returns how much of an operation is shown, by user (`Audience.of_operation`)."""


class LastOperations:
    """A line of text for the last operation on each object, and for the last ones on all objects.

    Both are made of one `NotedOperation`, so that they say the same.

    Args:
        limits: the limits of the objects of each source; those that had an operation last are kept, among
            them all of the last `SHOWN_OPERATIONS`.

    Attributes:
        has_changed: whether `recent` would return something else than it did.
    """

    def __init__(self, limits: HistoryLimits) -> None:
        self._lines: dict[Target, NotedOperation] = {}
        self._recent: dict[str, NotedOperation] = {}
        self._shown: JmxValue = None
        self.has_changed = True
        most = max(limits.operations, SHOWN_OPERATIONS)
        self._latest_lines: Latest[Target] = Latest(most, limits.octets)
        self._latest: Latest[str] = Latest(SHOWN_OPERATIONS, limits.octets)

    def recent(self, judge: Judge, users: int) -> JmxValue:
        """Return the last operations on all objects, latest first: the line, then the object; by user."""
        if self.has_changed:
            self.has_changed = False
            shown: list[list[str]] = [[] for _ in range(users)]
            for noted in reversed(self._recent.values()):
                for lines, line in zip(shown, noted.of_users(judge, named=True), strict=True):
                    if line is not None:
                        lines.append(line)
            self._shown = varying([tuple(lines) for lines in shown])
        return self._shown

    def of(self, target: Target, judge: Judge) -> JmxValue:
        """Return the line for an object, which need not be registered; by user."""
        noted = self._lines.get(target)
        if noted is None:
            return None
        # The object may be shown now, or to others than before.
        noted.choices, self.has_changed = None, True
        return varying(noted.of_users(judge, named=False))

    def judge_again(self) -> list[Target]:
        """Decide again who sees what; return all objects with a line."""
        self.has_changed = True
        for noted in (*self._lines.values(), *self._recent.values()):
            noted.choices = None
        return list(self._lines)

    def add(self, record: OperationRecord) -> list[Target]:
        """Remember an operation. Return the objects whose line changed or was forgotten."""
        self.has_changed = True
        of_object = operation_line(record), operation_line(record, with_values=False)
        named = (types.text(f"{line} {record.class_name} {record.stable_name}") for line in of_object)
        without_object = operation_line(record.without_object())
        lines = *of_object, without_object
        noted = NotedOperation(_without_values(record), lines, (*named, without_object))
        # Taken out and put in again: the latest record of an operation makes it the latest operation.
        if self._recent.pop(record.operation_id, None) is not None:
            self._latest.remove(record.source, record.operation_id)
        self._recent[record.operation_id] = noted
        for left in self._latest.put(record.source, record.operation_id, memory_of(noted.named[0])):
            del self._recent[left]
        target = Target(record.source, record.class_name, record.row)
        if self._lines.pop(target, None) is not None:
            self._latest_lines.remove(target.source, target)
        self._lines[target] = noted
        gone = self._latest_lines.put(target.source, target, memory_of(lines[0]))
        for each in gone:
            del self._lines[each]
        return [target, *gone]


def _without_values(record: OperationRecord) -> OperationRecord:
    def references(values: Mapping[str, FeedValue]) -> dict[str, FeedValue]:
        return {name: value if isinstance(value, ObjectLink) else "" for name, value in values.items()}

    return msgspec.structs.replace(
        record,
        values=references(record.values),
        previous=references(record.previous),
        found=references(record.found),
        text="",
    )


class ShownObjects:
    """The objects of all sources.

    Args:
        buckets: the number of groups into which the names of a class (``package:class``) are split.
        last_operations: the outcome of the last operation on each object.
        audience: the users.
        new_number: returns the number of a new MBean.
        send: takes commands for the virtual machine.
        unfit: called with each value that does not fit the type of its attribute.
    """

    def __init__(
        self,
        buckets: Mapping[str, int],
        last_operations: LastOperations,
        audience: Audience,
        *,
        new_number: Callable[[], int],
        send: Callable[[Command], None],
        unfit: Unfit,
    ) -> None:
        self._buckets = buckets
        self._last_operations = last_operations
        self._audience = audience
        self._source_names: dict[int, str] = {}
        self._new_number = new_number
        self._send = send
        self._unfit = unfit
        self._links = WaitingLinks()
        self._by_number: dict[int, ShownObject] = {}
        self._rows: dict[tuple[int, str], dict[int, ShownObject]] = {}
        self._tables: dict[int, dict[str, int]] = {}

    def find(self, number: int) -> ShownObject | None:
        """Return the object with this number in the virtual machine."""
        return self._by_number.get(number)

    def at(self, target: Target) -> ShownObject | None:
        """Return the object in a row."""
        return self.in_row(*target)

    def in_row(self, source: int, class_name: str, row: int) -> ShownObject | None:
        """Do as `at`."""
        rows = self._rows.get((source, class_name))
        return None if rows is None else rows.get(row)

    def of_source(self, source: int) -> list[ShownObject]:
        """List the objects of a source."""
        return [
            shown for (number, _), rows in self._rows.items() if number == source for shown in rows.values()
        ]

    def remove_tables(self, source: int) -> None:
        """Unregister the tables of a source that leaves or is renamed; objects shown later make new ones."""
        for number in self._tables.pop(source, {}).values():
            self._send(Unregister(number))

    def show(
        self,
        record: ObjectRecord,
        source: str,
        shown_class: ShownClass,
        shown: ShownObject | None,
        group: Group,
    ) -> ShownObject:
        """Register an object of the source of this name, again where it is ``shown`` already."""
        name = name_of(
            record,
            source,
            shown_class.record.schema.key,
            has_parent=shown_class.has_parent,
            buckets=self._buckets.get(shown_class.name, 0),
        )
        access = self._audience.of_object(shown_class, record.class_number, source, record.stable_name)
        self._source_names[record.source] = source
        if shown is None:
            shown = ShownObject(group, self._new_number(), record.row, name, shown_class, access)
            self._rows.setdefault((record.source, shown_class.name), {})[record.row] = shown
            self._by_number[shown.number] = shown
        else:
            shown.shown_class.objects -= 1
            shown.group.remove(shown.access.seen_by)
            self._links.forget(shown.number)
            shown.name, shown.shown_class, shown.access = name, shown_class, access
        group.add(access.seen_by)
        shown_class.objects += 1
        target = Target(record.source, shown_class.name, record.row)
        values = shown_class.values(
            record,
            source,
            self._last_operations.of(target, self.judge),
            self._resolver(record.source, shown.number),
            self._unfit,
        )
        table = self._table(record.source, source, shown_class)
        self._send(
            Register(shown.number, shown_class.number, group.number, name, values, table, shown.access.number)
        )
        # References often come before what they lead to, as a binding before its queue.
        for referrer, position in self._links.arrived(target):
            self._send(Change.of(referrer, {position: name}))
        return shown

    def update(self, record: UpdateRecord, shown: ShownObject) -> None:
        """Change attributes of an object."""
        version = shown.shown_class
        if shown.number in self._links:
            # What waited for an earlier value must not be filled in when its target comes.
            self._links.settle_all(shown.number, version.positions(record))
        change = version.plain_updates.change(shown.number, record)
        if change is None:
            resolve = self._resolver(record.source, shown.number)
            change = version.change(shown.number, record, resolve, self._unfit)
        self._send(change)

    def remove(self, shown: ShownObject) -> None:
        """Unregister an object."""
        shown.shown_class.objects -= 1
        shown.group.remove(shown.access.seen_by)
        del self._rows[shown.group.source, shown.shown_class.name][shown.row]
        del self._by_number[shown.number]
        self._links.forget(shown.number)
        self._send(Unregister(shown.number))

    def policy_changed(self) -> None:
        """Hide every object from those who are restricted, until it is shown again."""
        interim = self._audience.interim()
        for shown in self._by_number.values():
            shown.group.remove(shown.access.seen_by)
            shown.access = interim
            shown.group.add(interim.seen_by)

    def exists_for(self, user: str, shown: ShownObject) -> bool:
        """Return whether an object exists for a user, by name."""
        number = self._audience.number_of(user)
        return number is not None and bool(shown.access.seen_by >> number & 1)

    def reads(self, user: str, shown: ShownObject, element: str) -> bool:
        """Return whether a user reads an element of an object."""
        number = self._audience.number_of(user)
        position = shown.shown_class.record.schema.positions.get(element)
        return (
            number is not None and position is not None and bool(shown.access.reads[number] >> position & 1)
        )

    def judge(self, record: OperationRecord) -> tuple[int, ...]:
        """Return how much of an operation is shown, by user (`Audience.of_operation`)."""
        shown = self.at(Target(record.source, record.class_name, record.row))
        source = source_name_of(self._source_names.get(record.source, ""))
        if shown is None:
            return self._audience.of_operation(record, source, None, None)
        schema = shown.shown_class.record.schema
        return self._audience.of_operation(record, source, shown.access, schema)

    def operation_changed(self, record: OperationRecord) -> None:
        """Show an operation as the last one on its object."""
        self._show_operations(self._last_operations.add(record))

    def operations_judged(self) -> None:
        """Show the last operations to those who see them by the tables that are complete now."""
        self._show_operations(self._last_operations.judge_again())

    def _show_operations(self, targets: Iterable[Target]) -> None:
        for target in targets:
            shown = self.at(target)
            if shown is not None:
                line = self._last_operations.of(target, self.judge)
                self._send(Change.of(shown.number, {Own.LAST_OPERATION: line}))

    def _table(self, number: int, source: str, shown_class: ShownClass) -> int:
        """Return the number of the table of a class, which is registered with its first object."""
        tables = self._tables.setdefault(number, {})
        table = tables.get(shown_class.name)
        if table is None:
            table = tables[shown_class.name] = self._new_number()
            name = table_name(source, shown_class.record.schema.key)
            self._send(RegisterTable(table, name, source, shown_class.name))
        return table

    def _resolver(self, source: int, referrer: int) -> Resolve:
        """Return a function that resolves references of an object, and lets it wait for unknown objects."""

        def resolve(position: int, link: ObjectLink) -> str | None:
            target = Target(source, link.class_name, link.row)
            found = self.at(target)
            if found is None:
                self._links.wait(referrer, position, target)
                return None
            return found.name

        return resolve
