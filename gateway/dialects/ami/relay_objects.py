"""The objects of all applications of a relay: created, changed, expired and ended, within bounds."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.dialects.ami.relay_config import RelayConfig
from gateway.dialects.ami.relay_effects import Collected, RefusedError
from gateway.dialects.ami.relay_schemas import is_insert
from gateway.dialects.ami.relay_tables import Fixed, Pace, Row, Sifted, Table, Version, class_name
from gateway.dialects.ami.values import AmiValue
from gateway.model.observations import ClassLearned
from gateway.model.schema import ClassKey, ClassSchema, Method
from gateway.model.values import Values


class Allowance:
    """A limited supply that all applications share.

    An application can take at most as much as it leaves to the others: the first one can have half, and one
    that comes after several greedy ones still finds some.

    Args:
        most: the whole supply.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._by: Counter[str] = Counter()

    def has(self, who: str, amount: int = 1) -> bool:
        """Return whether an application may take this amount."""
        return self._taken + self._by[who] + amount <= self._most

    def take(self, who: str, amount: int = 1) -> None:
        """Take an amount without a check; a negative amount is returned to the supply."""
        self._taken += amount
        self._by[who] += amount
        if not self._by[who]:
            del self._by[who]


_SIZE: Final = 64 << 20
"""Characters of the descriptions of all versions of classes."""


class Versions:
    """The versions of all classes that were reported, and the application that caused each.

    No version can be withdrawn: front ends, event log and ended objects may still refer to it. A version that
    was reported before costs nothing when it is used again.

    Args:
        most: the number of versions; half of them may differ by methods.
    """

    def __init__(self, most: int) -> None:
        self._reported: set[ClassKey] = set()
        self._count, self._size = Allowance(most), Allowance(_SIZE)
        self._with_methods, self._methods_size = Allowance(most // 2), Allowance(_SIZE // 2)
        self._expected: dict[Table | Row, str] = {}

    def check(self, who: str, classes: int = 1) -> None:
        """Check that an application may change this number of classes.

        Raises:
            RefusedError: its share is used up.
        """
        if not self._count.has(who, classes) or not self._size.has(who):
            raise RefusedError("it has changed classes as often as it may since the gateway was started")

    def check_methods(self, row: Row) -> None:
        """Check that a row's methods may change. They have half of all versions; keys keep the others.

        An application may redefine its commands as often as it likes, and combine them differently. That must
        not use up the versions that objects need.

        Raises:
            RefusedError: the share is used up.
        """
        if row in self._expected:
            return
        if not self._with_methods.has(row.agent) or not self._methods_size.has(row.agent):
            raise RefusedError("it has changed its commands as often as it may since the gateway was started")
        self.check(row.agent)

    def is_needed(self, table: Table, *, grows: bool) -> bool:
        """Return whether a report of an object in a table needs a new version; ``grows``: it adds columns."""
        if table in self._expected:
            return False
        return grows or (not table.rows and not (table.is_settled and self._knows(table.version())))

    def expect(self, what: Table | Row, who: str) -> None:
        """Reserve a version for an application that has changed a table, or a row's methods."""
        if what not in self._expected:
            self._expected[what] = who
            self._count.take(who)
            if isinstance(what, Row):
                self._with_methods.take(who)

    def forget(self, what: Table | Row) -> str | None:
        """Release a reserved version; return the application that it was reserved for."""
        who = self._expected.pop(what, None)
        if who is not None:
            self._count.take(who, -1)
            if isinstance(what, Row):
                self._with_methods.take(who, -1)
        return who

    def add(self, version: Version, row: Row | None = None) -> bool:
        """Count a reported version, with the first row that uses it; return whether it is a new one."""
        if self._knows(version):
            return False
        self._reported.add(version.schema.key)
        who = "" if row is None else (self.forget(row.table) or row.agent)
        self._count.take(who)
        self._size.take(who, version.size)
        if version.schema.methods:
            self._with_methods.take(who)
            self._methods_size.take(who, version.size)
        return True

    def _knows(self, version: Version) -> bool:
        return version.schema.key in self._reported


_AT_ONCE: Final = 1
"""A time in the past."""
_FEW: Final = 64
"""Number of outdated entries in the heap of expiry times that need no clean-up."""
_ROW: Final = 512
"""Octets of an object without its values."""


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one object.

    Attributes:
        agent: the application.
        native_id: the native id of the object.
        sampled: the time of the values, nanoseconds.
        properties: values of the fixed properties; ``statistics`` likewise.
        values: values by key; ``None`` removes one, and keys that are missing here stay unchanged.
        expires: nanoseconds; 0 for never, ``None`` for unchanged.
        created: the creation of a new object, nanoseconds; 0 for the time of the report.
    """

    agent: str
    native_id: str
    sampled: int
    properties: Values
    statistics: Values = ()
    values: Mapping[str, AmiValue] = field(default_factory=dict)
    expires: int | None = None
    created: int = 0


class Objects:
    """The tables by the names of their classes, with the bounds that they share."""

    def __init__(self, config: RelayConfig, out: Collected) -> None:
        self._config = config
        self._limits = config.limits
        self._secrets = config.secrets
        self._out = out
        self._tables: dict[tuple[str, str], Table] = {}
        self._types = Allowance(config.limits.types)
        self._begun: dict[Table, str] = {}
        self._keys: dict[Table, Allowance] = {}
        self._expiring: list[tuple[int, int, Row]] = []
        self._order = itertools.count()
        self._versions = Versions(config.limits.versions)
        self._size = 0
        self._count = 0
        self._inserts: dict[str, deque[Row]] = {}
        self._owned: dict[str, dict[str, Row]] = {}
        self._waiting: deque[Row | Callable[[], None]] = deque()

    def table(self, package: str, name: str, fixed: Fixed, label: str = "", description: str = "") -> Table:
        """Return the table of a class; it is created if it does not exist."""
        table = self._tables.get((package, name))
        if table is None:
            pace = Pace(self._config.settle, self._config.settle_longest)
            table = Table(package, name, fixed, pace, label, description)
            for schema in self._config.schemas:
                if (schema.key.package, schema.key.name) == (package, name):
                    table.learn(schema, self._secrets)
            self._tables[package, name] = table
            if package == self._config.relay_package:  # all applications share its keys
                self._keys[table] = Allowance(self._limits.keys)
                self._keys[table].take("", len(table.columns))
        return table

    def find(self, kind: str) -> Table | None:
        """Return the table of a type of objects (T); ``None`` if there is none."""
        table = self._tables.get((self._config.package, class_name(kind)))
        return table if table is not None and table.label == kind else None

    def has(self, native_id: str) -> bool:
        """Return whether an object has this native id."""
        return any(native_id in table.rows for table in self._tables.values())

    def know_type(self, schema: ClassSchema, fixed: Fixed) -> None:
        """Add a type of objects (T) from before the restart, whichever application began it."""
        self._begin(self.table(self._config.package, schema.key.name, fixed, schema.label), "")

    def table_of_type(self, kind: str, fixed: Fixed, agent: str) -> Table:
        """Return the table of a type of objects (T); create it for the application if necessary.

        Raises:
            RefusedError: there are too many types, the application has too many, or the name is invalid.
        """
        name = class_name(kind)
        table = self._tables.get((self._config.package, name))
        if table is not None:
            if table.label != kind:
                raise RefusedError("a type (T) must not be called as another one is shown")
            return table
        if not kind or len(kind) > self._limits.name or not kind.isprintable():
            raise RefusedError(f"a type (T) must be of 1 to {self._limits.name} printable characters")
        if not self._types.has(agent):
            raise RefusedError(f"of {self._limits.types} types of objects (T) none is left for it")
        return self._begin(self.table(self._config.package, name, fixed, kind), agent)

    def _begin(self, table: Table, agent: str) -> Table:
        if table not in self._begun:
            self._begun[table] = agent
            self._types.take(agent)
        return table

    @property
    def schemas(self) -> tuple[ClassSchema, ...]:
        """The latest version of each class that has columns, without methods."""
        return tuple(table.version().schema for table in self._tables.values() if table.columns)

    def report_classes(self) -> None:
        """Report the classes from before the restart."""
        for table in self._tables.values():
            version = table.version()
            if self._versions.add(version):
                self._out.observe(ClassLearned(version.schema))

    def check(self, *reports: tuple[Table, Report]) -> list[Sifted]:
        """Check that all of this could be reported, of one application; return the changes.

        Raises:
            RefusedError: it exceeds the bounds.
        """
        found: list[Sifted] = []
        agent, growing = reports[0][1].agent, 0
        for table, report in reports:
            sifted = table.sift(report.native_id, report.values, self._secrets)
            grows = False
            if sifted.gained:
                self._check_keys(table, agent, sifted.gained)
                grows = table.would_change(sifted.gained)
            growing += self._versions.is_needed(table, grows=grows)
            found.append(sifted)
        if growing:
            self._versions.check(agent, growing)
        new = sum(sifted.row is None for sifted in found)
        self._check_room(agent, sum(sifted.size for sifted in found), new)
        return found

    def report(self, table: Table, report: Report, now: int) -> Row:
        """Report a new or changed object.

        Raises:
            RefusedError: it exceeds the bounds; nothing has changed.
        """
        (sifted,) = self.check((table, report))
        return self._report(table, report, sifted, now)

    def report_checked(self, table: Table, report: Report, now: int) -> Row:
        """Report an object as `report` does, after `check`."""
        return self._report(table, report, table.sift(report.native_id, report.values, self._secrets), now)

    def _report(self, table: Table, report: Report, sifted: Sifted, now: int) -> Row:
        if sifted.gained:
            if table in self._keys:
                self._keys[table].take(report.agent, len(table.unknown(sifted.gained)))
            table.grow(sifted.gained, now)
            if table.due:
                self._versions.expect(table, report.agent)
        row = sifted.row
        if row is None:
            row = self._made(table, report)
            self._change(row, report, sifted)
            self._first(row, now)
            self._bound_inserts(row, now)
            return row
        whole = _changes_properties(row, report)
        self._change(row, report, sifted)
        self._out.observe(row.whole() if whole else row.measured())
        return row

    def _bound_inserts(self, row: Row, now: int) -> None:
        """End the oldest of too many objects without an id, which can never be reported again."""
        if not row.transient:
            return
        inserts = self._inserts.setdefault(row.agent, deque())
        inserts.append(row)
        while len(inserts) > self._limits.inserted:
            oldest = inserts.popleft()
            if oldest.is_there:
                self.end(oldest, now)
                self._out.note("object-dropped", f"{row.agent!r} has too many objects without an id (I)")

    def drop_unused(self, table: Table) -> None:
        """Remove a table that a refused instruction has created."""
        if not table.rows and not table.columns:
            self._tables = {key: one for key, one in self._tables.items() if one is not table}
            self._types.take(self._begun.pop(table), -1)

    def check_methods(self, row: Row, methods: tuple[Method, ...]) -> None:
        """Check that these methods of an object can be shown.

        Raises:
            RefusedError: its application has changed them too often.
        """
        if not _are_among(methods, row.shown_methods):
            self._versions.check_methods(row)

    def call_by(self, row: Row, methods: tuple[Method, ...], now: int) -> bool:
        """Set the methods that can be called on an object.

        If its application has changed them too often, the object keeps the methods that it was shown with
        last, provided that these are among them: a call of one that is no longer offered is answered
        accordingly. Otherwise it is shown without methods. Returns whether this hides methods that were shown
        before.
        """
        shown, before = methods, row.methods
        if methods and methods != row.methods:
            try:
                self._versions.check_methods(row)
            except RefusedError:
                among = _are_among(methods, row.shown_methods)
                shown = tuple(row.shown_methods.values()) if among else ()
        if shown != row.methods:
            row.methods = shown
            row.table.changed(now)
            if shown and shown != tuple(row.shown_methods.values()):
                self._versions.expect(row, row.agent)
            else:
                self._versions.forget(row)
        return bool(methods and before and not shown)

    def end(self, row: Row, now: int) -> None:
        """End an object."""
        del row.table.rows[row.native_id]
        self._size -= row.size
        self._count -= 1
        del self._owned[row.agent][row.native_id]
        row.expires = 0
        self._versions.forget(row)
        self._out.observe(row.end(now))

    def end_all(self, agent: str, now: int) -> None:
        """End all objects of an application."""
        for row in list(self._owned.get(agent, {}).values()):
            self.end(row, now)
        self._owned.pop(agent, None)
        self._inserts.pop(agent, None)

    def report_all(self, agent: str, reported: Callable[[], None]) -> None:
        """Report all objects of an application with their last values, in turns; then call ``reported``.

        The application confirms them from now on, so no values from before a restart may be among them.
        """
        owned = self._owned.get(agent, {}).values()
        for row in owned:
            if row.unconfirmed:
                known = Report(agent, row.native_id, row.sampled, row.properties, row.statistics)
                gone = dict.fromkeys(row.unconfirmed)
                self._change(row, known, row.table.sift(row.native_id, gone, self._secrets))
        self._waiting += owned
        self._waiting.append(reported)
        self._report_waiting()

    def count(self, agent: str) -> int:
        """Return the number of objects of an application."""
        return len(self._owned.get(agent, ()))

    # Timers.

    def pass_time(self, now: int) -> None:
        """End expired objects, and report changed classes.

        A class that is due later than the longest wait is due at once: the clock was set back.
        """
        self._report_waiting()
        for _ in range(self._config.at_once):
            if not self._expiring or self._expiring[0][0] > now:
                break
            when, _, row = heapq.heappop(self._expiring)
            if row.expires == when:
                self.end(row, now)
        for table in self._tables.values():
            if table.due and not table.due - self._config.settle_longest <= now < table.due:
                self._settle(table, now)

    @property
    def next_time(self) -> int:
        """The time at which `pass_time` has something to do; 0 for never."""
        times = [table.due for table in self._tables.values() if table.due]
        return _AT_ONCE if self._waiting else min(times + [one[0] for one in self._expiring[:1]], default=0)

    def _settle(self, table: Table, now: int) -> None:
        for row in table.settle(now):
            if not row.waits:
                row.waits = True
                self._waiting.append(row)
        self._report_waiting()

    def _report_waiting(self) -> None:
        for _ in range(min(len(self._waiting), self._config.at_once)):
            one = self._waiting.popleft()
            if not isinstance(one, Row):
                one()
            elif one.is_there:
                self._show(one)

    def _first(self, row: Row, now: int) -> None:
        """Report a new object; the first one of a class does not wait for further columns."""
        if len(row.table.rows) == 1:
            row.table.settle(now)
        self._show(row)

    def _show(self, row: Row) -> None:
        """Report all values of a row, in the settled version of its class."""
        row.version, row.waits = row.table.version(row.methods), False
        self._versions.forget(row)
        if row.methods:
            row.shown_methods = {method.name: method for method in row.methods}
        if self._versions.add(row.version, row):
            self._out.observe(ClassLearned(row.version.schema))
        self._out.observe(row.whole())

    # Bounds.

    def _check_keys(self, table: Table, agent: str, gained: Collection[str]) -> None:
        shared, new = self._keys.get(table), len(table.unknown(gained))
        if shared is not None and new and not shared.has(agent, new):
            raise RefusedError(f"of {self._limits.keys} keys that applications share none is left for it")
        if new and len(table.columns) + new > self._limits.keys:
            raise RefusedError(f"more than {self._limits.keys} keys")

    def _check_room(self, agent: str, size: int, new: int) -> None:
        if self._size + size + _ROW * new > self._limits.octets:
            raise RefusedError("the values of all objects take too much room")
        if new and self._count + new > self._limits.objects:
            raise RefusedError(f"there are {self._limits.objects} objects already")
        if new and self.count(agent) + new > self._limits.objects_each:
            raise RefusedError(f"there are {self._limits.objects_each} objects of this application already")

    def _made(self, table: Table, report: Report) -> Row:
        created = report.created or report.sampled
        row = Row(table, report.agent, report.native_id, created, report.sampled, report.properties)
        row.size, row.transient = _ROW, is_insert(report.native_id)
        table.rows[report.native_id] = row
        self._size += _ROW
        self._count += 1
        self._owned.setdefault(report.agent, {})[report.native_id] = row
        return row

    def _change(self, row: Row, report: Report, sifted: Sifted) -> None:
        for key, value in sifted.kept.items():
            if value is None:
                row.values.pop(key, None)
            else:
                row.values[key] = value
        if row.unconfirmed:
            row.unconfirmed = row.unconfirmed.difference(sifted.kept)
        row.size += sifted.size
        self._size += sifted.size
        row.sampled = report.sampled
        row.properties, row.statistics = report.properties, report.statistics
        if report.expires is not None and report.expires != row.expires:
            row.expires = report.expires
            self._expect(row)

    def _expect(self, row: Row) -> None:
        """Add an expiry time to the heap. Outdated entries are skipped, and removed from time to time."""
        if row.expires:
            heapq.heappush(self._expiring, (row.expires, next(self._order), row))
        if len(self._expiring) > 2 * self._count + _FEW:
            self._expiring = [one for one in self._expiring if one[2].expires == one[0]]
            heapq.heapify(self._expiring)


def _changes_properties(row: Row, report: Report) -> bool:
    assert row.version is not None
    return report.properties != row.properties or any(
        column.key in report.values for column in row.version.properties
    )


def _are_among(methods: Iterable[Method], shown: Mapping[str, Method]) -> bool:
    return all(shown.get(method.name) == method for method in methods)
