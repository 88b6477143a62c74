"""The correct contents of a store, computed plainly: a dictionary of instances and its sorted keys."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.store import Store
from gateway.snmp.table import Derivation, Table


class SortedOracle:
    """A store and the same instances in a dictionary, changed together."""

    def __init__(self) -> None:
        self.store = Store()
        self.instances: dict[Oid, bytes] = {}
        self.tables: list[tuple[Table, tuple[int, ...]]] = []
        self._derived: dict[Oid, Mapping[int, Derivation]] = {}
        self._order: list[Oid] | None = None

    def scalar(self, oid: Oid, value: bytes) -> None:
        self.store.scalar(oid, value)
        self.instances[oid] = value
        self._order = None

    def table(
        self, entry: Oid, columns: Sequence[int], derived: Mapping[int, Derivation] | None = None
    ) -> Table:
        table = self.store.table(entry, columns, derived)
        self.tables.append((table, tuple(columns)))
        self._derived[entry] = derived or {}
        return table

    def put(self, table: Table, index: Oid, values: Mapping[int, bytes | None]) -> None:
        table.put(index, values)
        for column, value in values.items():
            self._set(table, column, index, value)

    def remove(self, table: Table, index: Oid) -> None:
        table.remove(index)
        (columns,) = (columns for one, columns in self.tables if one is table)
        for column in columns:
            self._set(table, column, index, None)

    def replace_column(self, table: Table, column: int, cells: Mapping[Oid, bytes | None]) -> None:
        table.replace_column(column, cells)
        for index, value in cells.items():
            self._set(table, column, index, value)

    def after(self, oid: Oid, count: int) -> list[tuple[Oid, bytes]]:
        """Return up to ``count`` instances after ``oid``, from the dictionary."""
        if self._order is None:
            self._order = sorted(self.instances)
        start = bisect_right(self._order, oid)
        return [(name, self.instances[name]) for name in self._order[start : start + count]]

    def somewhere(self, chance: random.Random) -> Oid:
        """Return an instance, or a name near one."""
        if not self.instances or chance.random() < 0.1:
            return (1, 3, chance.randrange(8))
        oid = chance.choice(list(self.instances))
        match chance.randrange(5):
            case 0:
                return oid[: chance.randrange(2, len(oid))]
            case 1:
                return (*oid, chance.randrange(3))
            case 2:
                at = chance.randrange(2, len(oid))
                return (*oid[:at], max(oid[at] + chance.choice((-1, 1)), 0), *oid[at + 1 :])
            case _:
                return oid

    def _set(self, table: Table, column: int, index: Oid, value: bytes | None) -> None:
        self._order = None
        cells = {column: value}
        for number, derivation in self._derived[table.entry].items():
            if derivation.base == column:
                cells[number] = None if value is None else derivation.derive(value)
        for number, cell in cells.items():
            if cell is None:
                self.instances.pop((*table.entry, number, *index), None)
            else:
                self.instances[(*table.entry, number, *index)] = cell


def change_at_random(oracle: SortedOracle, chance: random.Random, rows: int) -> None:
    """Make one change of one table: a new or patched row, a deleted one, or a column of many."""
    table, columns = chance.choice(oracle.tables)
    index = (chance.choice((1, 2, 300)), chance.randrange(rows) * chance.choice((1, 70_000)))
    action = chance.random()
    if action < 0.25 and index in table:
        oracle.remove(table, index)
    elif action < 0.27:
        present = list(table.indexes())
        chosen = chance.sample(present, chance.randrange(len(present) + 1))
        values = dict.fromkeys(chosen) if chance.random() < 0.5 else {i: value(chance) for i in chosen}
        oracle.replace_column(table, chance.choice(columns), values)
    else:
        oracle.put(table, index, {column: value(chance) for column in columns if chance.random() < 0.6})


def value(chance: random.Random) -> bytes | None:
    """Return an integer of one to four octets, or a hole."""
    return (
        None if chance.random() < 0.4 else ber.encode_integer(chance.choice((1, 1_000, -70_000, 2**31 - 1)))
    )
