"""The objects of all applications of a relay: made, changed, expired and ended, within bounds."""

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
    """Something of which there is so much for all applications together.

    Whoever takes of it leaves at least as much as it has taken itself: the first one can have half, and one
    that comes behind several greedy ones still finds some.

    Args:
        most: that there is.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._by: Counter[str] = Counter()

    def has(self, who: str, amount: int = 1) -> bool:
        """Whether an application may take so much."""
        return self._taken + self._by[who] + amount <= self._most

    def take(self, who: str, amount: int = 1) -> None:
        """It has taken this, whether it might or not; a negative amount is given back."""
        self._taken += amount
        self._by[who] += amount
        if not self._by[who]:
            del self._by[who]


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


_AT_ONCE: Final = 1
"""A time that is past."""
_FEW: Final = 64
"""Former times of expiry that are not worth sweeping."""
_ROW: Final = 512
"""Octets that an object takes without values."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of one object.

    Attributes:
        agent: whose it is.
        native_id: of the object.
        sampled: when it was true, nanoseconds.
        properties: values of the fixed elements; ``statistics`` as well.
        values: by key; ``None`` takes one away, and those that are not here stay.
        expires: nanoseconds; 0 for never, ``None`` as before.
        created: when a new one came into being, nanoseconds; 0 for when it was told.
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
    """Tables by the names of their classes, and what bounds them all."""

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
        """The table of a class, which is made where there is none."""
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
        """The table of a type of objects (T), if there is one."""
        table = self._tables.get((self._config.package, class_name(kind)))
        return table if table is not None and table.label == kind else None

    def has(self, native_id: str) -> bool:
        """Whether there is an object of this native id."""
        return any(native_id in table.rows for table in self._tables.values())

    def know_type(self, schema: ClassSchema, fixed: Fixed) -> None:
        """There was a type of objects (T) before the gateway was started, whoever began it."""
        self._begin(self.table(self._config.package, schema.key.name, fixed, schema.label), "")

    def table_of_type(self, kind: str, fixed: Fixed, agent: str) -> Table:
        """The table of a type of objects (T), which an application may begin.

        Raises:
            RefusedError: there are too many types, or it has begun too many, or its name is no name.
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
        """The latest version of each class that has something to tell, without methods."""
        return tuple(table.version().schema for table in self._tables.values() if table.columns)

    def tell_classes(self) -> None:
        """Tell classes that are known from before."""
        for table in self._tables.values():
            version = table.version()
            if self._versions.told(version):
                self._out.observe(ClassLearned(version.schema))

    def check(self, *tellings: tuple[Table, Told]) -> list[Sifted]:
        """Make sure that all of this could be told, of one application; returns what it changes.

        Raises:
            RefusedError: it is more than the bounds allow.
        """
        found: list[Sifted] = []
        agent, growing = tellings[0][1].agent, 0
        for table, told in tellings:
            sifted = table.sift(told.native_id, told.values, self._secrets)
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

    def tell(self, table: Table, told: Told, now: int) -> Row:
        """An object is new, or has changed.

        Raises:
            RefusedError: it is more than the bounds allow; nothing has changed.
        """
        (sifted,) = self.check((table, told))
        return self._tell(table, told, sifted, now)

    def tell_checked(self, table: Table, told: Told, now: int) -> Row:
        """As `tell`, of what `check` has let pass."""
        return self._tell(table, told, table.sift(told.native_id, told.values, self._secrets), now)

    def _tell(self, table: Table, told: Told, sifted: Sifted, now: int) -> Row:
        if sifted.gained:
            if table in self._keys:
                self._keys[table].take(told.agent, len(table.unknown(sifted.gained)))
            table.grow(sifted.gained, now)
            if table.due:
                self._versions.expect(table, told.agent)
        row = sifted.row
        if row is None:
            row = self._made(table, told)
            self._change(row, told, sifted)
            self._first(row, now)
            self._bound_inserts(row, now)
            return row
        whole = _changes_properties(row, told)
        self._change(row, told, sifted)
        self._out.observe(row.whole() if whole else row.measured())
        return row

    def _bound_inserts(self, row: Row, now: int) -> None:
        """Objects without an id can never be told again: where there are too many, the oldest end."""
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
        """Forget a table that what was refused would have begun."""
        if not table.rows and not table.columns:
            self._tables = {key: one for key, one in self._tables.items() if one is not table}
            self._types.take(self._begun.pop(table), -1)

    def check_methods(self, row: Row, methods: tuple[Method, ...]) -> None:
        """Make sure that these methods of an object can be shown.

        Raises:
            RefusedError: they cannot: its application has changed them too often.
        """
        if not _are_among(methods, row.shown_methods):
            self._versions.check_methods(row)

    def call_by(self, row: Row, methods: tuple[Method, ...], now: int) -> bool:
        """These methods can be called on an object from now on.

        Where its application has changed them too often, it is shown with those that it was shown with last,
        if these are among them: one that is not offered any more cannot be called, and the answer says so.
        Returns whether those that were shown are hidden by that, as none is shown otherwise.
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
        """An object is no more."""
        del row.table.rows[row.native_id]
        self._size -= row.size
        self._count -= 1
        del self._owned[row.agent][row.native_id]
        row.expires = 0
        self._versions.forget(row)
        self._out.observe(row.end(now))

    def end_all(self, agent: str, now: int) -> None:
        """Nothing of an application is left."""
        for row in list(self._owned.get(agent, {}).values()):
            self.end(row, now)
        self._owned.pop(agent, None)
        self._inserts.pop(agent, None)

    def tell_all(self, agent: str, told: Callable[[], None]) -> None:
        """Tell all that an application has, as it was told last, in turns; then call ``told``.

        It vouches for that from now on, so that nothing may be among it that is older.
        """
        owned = self._owned.get(agent, {}).values()
        for row in owned:
            if row.doubtful:
                known = Told(agent, row.native_id, row.sampled, row.properties, row.statistics)
                gone = dict.fromkeys(row.doubtful)
                self._change(row, known, row.table.sift(row.native_id, gone, self._secrets))
        self._waiting += owned
        self._waiting.append(told)
        self._tell_waiting()

    def count(self, agent: str) -> int:
        """How many objects an application has."""
        return len(self._owned.get(agent, ()))

    # What time does.

    def pass_time(self, now: int) -> None:
        """End what has expired, and tell classes that have gained something.

        Whoever is woken before the time of that lives after the clock was set back.
        """
        self._tell_waiting()
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
        """When `pass_time` has something to do; 0 for never."""
        times = [table.due for table in self._tables.values() if table.due]
        return _AT_ONCE if self._waiting else min(times + [one[0] for one in self._expiring[:1]], default=0)

    def _settle(self, table: Table, now: int) -> None:
        for row in table.settle(now):
            if not row.waits:
                row.waits = True
                self._waiting.append(row)
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        for _ in range(min(len(self._waiting), self._config.at_once)):
            one = self._waiting.popleft()
            if not isinstance(one, Row):
                one()
            elif one.is_there:
                self._show(one)

    def _first(self, row: Row, now: int) -> None:
        """Tell a new object; the first one of a class does not wait for what it may gain."""
        if len(row.table.rows) == 1:
            row.table.settle(now)
        self._show(row)

    def _show(self, row: Row) -> None:
        """Tell a row whole, under the class as it was settled last."""
        row.version, row.waits = row.table.version(row.methods), False
        self._versions.forget(row)
        if row.methods:
            row.shown_methods = {method.name: method for method in row.methods}
        if self._versions.told(row.version, row):
            self._out.observe(ClassLearned(row.version.schema))
        self._out.observe(row.whole())

    # What bounds.

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

    def _made(self, table: Table, told: Told) -> Row:
        created = told.created or told.sampled
        row = Row(table, told.agent, told.native_id, created, told.sampled, told.properties)
        row.size, row.transient = _ROW, is_insert(told.native_id)
        table.rows[told.native_id] = row
        self._size += _ROW
        self._count += 1
        self._owned.setdefault(told.agent, {})[told.native_id] = row
        return row

    def _change(self, row: Row, told: Told, sifted: Sifted) -> None:
        for key, value in sifted.kept.items():
            if value is None:
                row.values.pop(key, None)
            else:
                row.values[key] = value
        if row.doubtful:
            row.doubtful = row.doubtful.difference(sifted.kept)
        row.size += sifted.size
        self._size += sifted.size
        row.sampled = told.sampled
        row.properties, row.statistics = told.properties, told.statistics
        if told.expires is not None and told.expires != row.expires:
            row.expires = told.expires
            self._expect(row)

    def _expect(self, row: Row) -> None:
        """Look at it when it expires. Former times of objects are passed over, and swept now and then."""
        if row.expires:
            heapq.heappush(self._expiring, (row.expires, next(self._order), row))
        if len(self._expiring) > 2 * self._count + _FEW:
            self._expiring = [one for one in self._expiring if one[2].expires == one[0]]
            heapq.heapify(self._expiring)


def _changes_properties(row: Row, told: Told) -> bool:
    assert row.version is not None
    return told.properties != row.properties or any(
        column.key in told.values for column in row.version.properties
    )


def _are_among(methods: Iterable[Method], shown: Mapping[str, Method]) -> bool:
    return all(shown.get(method.name) == method for method in methods)
