"""The table of one class: its rows, their freshness and sums; versions of the class bound to its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import msgspec

from gateway.feed.access import Vector
from gateway.feed.freshness import Freshness, Group
from gateway.feed.records import Lifetime, ObjectRecord, UpdateRecord
from gateway.feed.replica import ShownObject
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.schema import ClassKey, ClassSchema, Element, Kind
from gateway.model.values import ValueType
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import (
    PairEncoder,
    encoder_with_length,
    float_encoder,
    gauge32_derivation,
    known_time,
    text,
    truth,
    value_encoder,
)
from gateway.snmp.oid_registry import FIRST_ELEMENT_COLUMN, ClassEntry, ElementEntry, OidRegistry
from gateway.snmp.row_columns import RowColumn, RowLifetime
from gateway.snmp.store import Store
from gateway.snmp.syntax import Form, Syntax, form_of
from gateway.snmp.table import Derivation, Table
from gateway.snmp.tables.summaries import Summaries, Summary, SummedColumn

Cells: TypeAlias = dict[int, bytes | None]
"""Cells of one row by column; ``None`` is a hole."""

Writer: TypeAlias = Callable[[Cells, "FeedValue | None", int], None]
"""Writes a value (``None``: absent) of an object of the source with that number into the cells."""

Masks: TypeAlias = tuple[int, ...]
"""For each restricted view the columns that it shows of a row: bit *n* stands for column *n*."""

Pointer: TypeAlias = Callable[[ObjectLink, int], bytes | None]
"""Returns the TLV of a RowPointer to an object of the source with that number, if its table is known."""

_SUMMED_SYNTAXES = frozenset({Syntax.COUNTER64, Syntax.GAUGE32, Syntax.GAUGE64})
_SUMMED_KINDS = frozenset({Kind.COUNTER, Kind.GAUGE})


class Binding(msgspec.Struct, frozen=True):
    """One version of a class with the writers of its columns.

    Attributes:
        writers: by position in ``ClassSchema.elements``; ``None`` for an element without a column.
        sums: the summed columns, by position.
        not_shown: the names of elements without a column.
        bits: the columns of each element, by position: bit *n* stands for column *n*.
        linking: of elements that can refer to objects, by position, the columns that show their names.
    """

    schema: ClassSchema
    writers: tuple[Writer | None, ...]
    sums: dict[int, SummedColumn]
    not_shown: tuple[str, ...]
    bits: tuple[int, ...]
    linking: Mapping[int, int]


def bind(schema: ClassSchema, class_entry: ClassEntry, pointer: Pointer) -> Binding:
    """Match the elements of ``schema`` to the current columns of ``class_entry``."""
    columns = {position: column_of(class_entry, element) for position, element in enumerate(schema.elements)}
    return Binding(
        schema,
        tuple(
            None if entry is None else _writer(entry, schema.elements[position], pointer)
            for position, entry in columns.items()
        ),
        dict(_summed(schema, columns)),
        tuple(schema.elements[position].name for position, entry in columns.items() if entry is None),
        tuple(0 if entry is None else bits_of(entry.columns) for entry in columns.values()),
        {
            position: 1 << entry.twin.column if entry.syntax is Syntax.ROW_POINTER and entry.twin else -1
            for position, entry in columns.items()
            if entry is not None and entry.syntax in (Syntax.ROW_POINTER, Syntax.JSON)
        },
    )


def bits_of(columns: Iterable[int]) -> int:
    """Return columns as bits."""
    bits = 0
    for column in columns:
        bits |= 1 << column
    return bits


def column_of(class_entry: ClassEntry, element: Element) -> ElementEntry | None:
    """Return the current column that can hold all values of ``element``, preferably an exact match."""
    fitting = [
        entry
        for entry in class_entry.elements
        if entry.current and entry.name == element.name and _fits(element, entry)
    ]
    return min(fitting, key=lambda entry: entry.form != _form(element, entry), default=None)


def _fits(element: Element, entry: ElementEntry) -> bool:
    return _form(element, entry).fits(entry.form)


def _form(element: Element, entry: ElementEntry) -> Form:
    # The feed does not carry the unit that a mapping names: the registry has kept it.
    timed = element.type in (ValueType.DURATION, ValueType.TIME)
    return form_of(element, entry.unit if timed else "")


def _summed(
    schema: ClassSchema, columns: dict[int, ElementEntry | None]
) -> Iterator[tuple[int, SummedColumn]]:
    for position, entry in columns.items():
        element = schema.elements[position]
        if (
            entry is not None
            and position >= len(schema.properties)
            and entry.syntax in _SUMMED_SYNTAXES
            and entry.kind in _SUMMED_KINDS
            # Durations are numbers in SNMP as well, but their sum over objects answers no question.
            and element.type.integer_bits
        ):
            yield position, SummedColumn(entry.column, element.name, element.unit)


def _writer(entry: ElementEntry, element: Element, pointer: Pointer) -> Writer:
    if entry.syntax is Syntax.ROW_POINTER:
        return _reference_writer(entry.column, entry.twin.column if entry.twin else None, pointer)
    single = element.type is ValueType.F32
    if entry.twin is not None and entry.gauge32 is None:
        floats = entry.syntax is Syntax.FLOAT64
        encode = float_encoder(single=single) if floats else encoder_with_length(entry.syntax)
        return _pair_writer(entry.column, entry.twin.column, encode)
    # A label that the registry does not have is shown as unknown(1).
    numbers = {named.value: entry.numbers.get(named.label, 1) for named in element.values}
    return _plain_writer(entry.column, value_encoder(entry.form, numbers, single=single))


def _plain_writer(column: int, encode: Callable[[FeedValue], bytes | None]) -> Writer:
    def write(cells: Cells, value: FeedValue | None, _source: int) -> None:
        cells[column] = None if value is None else encode(value)

    return write


def _pair_writer(column: int, twin: int, encode: PairEncoder) -> Writer:
    def write(cells: Cells, value: FeedValue | None, _source: int) -> None:
        cells[column], cells[twin] = (None, None) if value is None else encode(value)

    return write


def _reference_writer(column: int, name_column: int | None, pointer: Pointer) -> Writer:
    def write(cells: Cells, value: FeedValue | None, source: int) -> None:
        linked = isinstance(value, ObjectLink)
        # A reference that leads to no known object stays a native id, which no RowPointer can say.
        cells[column] = pointer(value, source) if isinstance(value, ObjectLink) else None
        if name_column is not None:
            cells[name_column] = text(value.stable_name) if linked else None  # type: ignore[union-attr]

    return write


def row_pointer(column: bytes, source: int, row: int) -> bytes:
    """Return the TLV of a pointer to a row: the instance of ``column`` (content octets of its name) in it."""
    return ber.encode_tlv(ber.OBJECT_IDENTIFIER, column + ber.encode_sub_identifiers((source, row)))


_STATE_CELLS: Mapping[Freshness, Cells] = {
    state: {
        RowColumn.STALE: truth(state is not Freshness.FRESH),
        RowColumn.STATE: ber.encode_integer(state),
    }
    for state in Freshness
}
LIFETIMES = {
    Lifetime.DURABLE: ber.encode_integer(RowLifetime.DURABLE),
    Lifetime.TRANSIENT: ber.encode_integer(RowLifetime.TRANSIENT),
}
"""Values of columns that show the lifetime of an object."""


@dataclass(slots=True, eq=False)
class RowGroup(Group):
    """The rows of one class of one agent of one source: they become stale, and fresh again, together.

    ``freshness`` is the state that the rows must get; `ClassTable.settle` gives it to them.
    """

    rows: dict[Row, None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Row(ShownObject[RowGroup]):
    """One row, with all that is needed to change or remove it.

    Attributes:
        withheld: the cells of its elements while they are not shown.
        allowed: the columns that each restricted view may show of it.
        shown: those that it shows: without references to objects that it hides.
    """

    index: Oid
    table: ClassTable
    bound: BoundClass
    summary: Summary
    state: Freshness = Freshness.FRESH
    withheld: Cells | None = None
    allowed: Masks = ()
    shown: Masks = ()


@dataclass(frozen=True, slots=True, eq=False)
class BoundClass:
    """One version of a class and the table that shows it.

    Attributes:
        masks: what restricted views show, by the identity of the vector, which is there, too.
    """

    table: ClassTable
    binding: Binding
    masks: dict[int, tuple[Vector, Masks]] = field(default_factory=dict)


class RowAccess(Protocol):
    """Decides what restricted views show of rows (`gateway.snmp.row_access.ShownColumns`)."""

    def allowed(self, bound: BoundClass, record: ObjectRecord) -> Masks:
        """Return the columns that each view may show of an object."""

    def without_hidden(
        self,
        bound: BoundClass,
        allowed: Masks,
        values: Mapping[int, FeedValue | None],
        source: int,
        parent: ObjectLink | None = None,
    ) -> Masks:
        """Return those of them that remain, as the values refer to objects that views hide."""

    def whole(self, bound: BoundClass, class_number: int, source: int) -> Masks:
        """Return the columns that each view shows of all objects of a version of a class of a source."""

    def attach(self, table: Table) -> None:
        """Have the restricted views show parts of a table."""

    def detach(self, table: Table) -> None:
        """Forget a table that is removed."""


class UnsettledRows:
    """Rows that do not show the freshness of their groups yet: there may be a hundred thousand of them.

    Attributes:
        waiting: the rows, by group.
    """

    def __init__(self) -> None:
        self.waiting: dict[RowGroup, list[Row]] = {}

    def add(self, group: RowGroup) -> None:
        """Add the rows of a group whose freshness has changed."""
        self.waiting[group] = list(group.rows)

    def forget(self, groups: Iterable[RowGroup]) -> None:
        """Forget groups that have no rows any more."""
        for group in groups:
            self.waiting.pop(group, None)

    def settle(self, budget: int, heavy: int) -> int:
        """Bring rows into the states of their groups, as many as the budget allows.

        Args:
            budget: the number of rows that may be changed.
            heavy: the cost, in rows, of a row of which every cell is changed.

        Returns:
            The rest of the budget; below 0 where the last row was heavy.
        """
        while budget > 0 and self.waiting:
            group, rows = next(iter(self.waiting.items()))
            while budget > 0 and rows:
                row = rows.pop()
                # The row may have gone, or have passed to another agent, since the list was made.
                if row in group.rows:
                    budget -= heavy if Freshness.WITHHELD in (row.state, group.freshness) else 1
                    row.table.settle(row)
            if not rows:
                del self.waiting[group]
        return budget


class ClassTable:
    """The table of one class in the store.

    Args:
        store: the store in which the table is made.
        summaries: the counts of its rows and the sums of its columns.
        registry: the registry that knows the class.
        class_entry: the class in it.
        key: package and name of the class.
        root: the configured root.
        access: decides what restricted views show.
    """

    def __init__(
        self,
        store: Store,
        summaries: Summaries,
        registry: OidRegistry,
        class_entry: ClassEntry,
        key: ClassKey,
        root: Oid,
        access: RowAccess,
    ) -> None:
        self.entry = registry.entry_oid(root, class_entry)
        self._access = access
        self.rows: dict[Oid, Row] = {}
        self._store = store
        self._summaries = summaries
        self._names = (key.package, key.name)
        self._class_index = registry.class_index(class_entry)
        self._class_entry = class_entry
        self._columns = _columns(class_entry)
        self._table = store.table(self.entry, self._columns, _derivations(class_entry), by_source=True)
        access.attach(self._table)
        self._slots: dict[int, int] = {}
        self._summed: list[SummedColumn] = []

    def bind(self, schema: ClassSchema, pointer: Pointer) -> BoundClass:
        """Bind one version of the class to the columns of the table."""
        binding = bind(schema, self._class_entry, pointer)
        new = [column for column in binding.sums.values() if column.column not in self._slots]
        for column in new:
            self._slots[column.column] = len(self._summed)
            self._summed.append(column)
        for summary in {row.summary for row in self.rows.values()} if new else ():
            summary.make_room(self._summed[len(summary.summed) :])
        return BoundClass(self, binding)

    def extend(self, class_entry: ClassEntry) -> None:
        """Add columns that the registry has got since; rows keep their cells."""
        columns, derived = _columns(class_entry), _derivations(class_entry)
        known, self._class_entry = _derivations(self._class_entry), class_entry
        # What is new may be numbers of an enumeration only.
        if (columns, derived.keys()) == (self._columns, known.keys()):
            return
        # A table of the store has fixed columns. Registries grow rarely, so all rows are written again.
        kept = {index: self._table.row(index) for index in self.rows}
        self._access.detach(self._table)
        self._store.remove_table(self.entry)
        self._columns = columns
        self._table = self._store.table(self.entry, columns, derived, by_source=True)
        self._access.attach(self._table)
        for index, cells in kept.items():
            self._table.put(index, cells, self.rows[index].shown)

    def show(
        self,
        bound: BoundClass,
        record: ObjectRecord,
        row: Row | None,
        group: RowGroup,
        pointer: Pointer,
        now: int,
    ) -> Row:
        """Write the whole row of an object; ``row`` is its existing row, if any."""
        if row is None:
            row = self._insert((record.source, record.row), bound, group, now)
        elif row.group is not group:
            del row.group.rows[row]
            row.group = group
            group.rows[row] = None
        cells = self._cells_of(row, bound)
        row.bound = bound
        for position, write in enumerate(bound.binding.writers):
            if write is not None:
                write(cells, record.values.get(position), record.source)
        # Encoded once: most names are both.
        full_name = text(record.stable_name)
        fixed: Cells = {
            **_STATE_CELLS[row.state],
            RowColumn.NAME: full_name if record.leaf_name == record.stable_name else text(record.leaf_name),
            RowColumn.NATIVE_ID: text(record.native_id),
            RowColumn.PARENT: None if record.parent is None else pointer(record.parent, record.source),
            RowColumn.CREATED: known_time(record.created),
            RowColumn.FULL_NAME: full_name,
            RowColumn.LIFETIME: LIFETIMES[record.lifetime],
        }
        fixed.update(_times(record))
        access, source = self._access, record.source
        row.allowed = access.allowed(bound, record)
        row.shown = access.without_hidden(bound, row.allowed, record.values, source, record.parent)
        if record.class_number not in row.summary.versions:
            row.summary.versions[record.class_number] = access.whole(bound, record.class_number, source)
            self._summaries.show_by_roles(row.summary)
        self._write(row, cells, fixed, row.shown)
        # The row was written in its own state: this withholds it, or shows it again, where its group has
        # another one.
        self.settle(row)
        return row

    def update(self, bound: BoundClass, row: Row, record: UpdateRecord) -> None:
        """Write the values of a row that have changed."""
        cells: Cells = {}
        writers = bound.binding.writers
        for position, value in record.values.items():
            if 0 <= position < len(writers) and (write := writers[position]) is not None:
                write(cells, value, record.source)
        for position in record.absent:
            if 0 <= position < len(writers) and (write := writers[position]) is not None:
                write(cells, None, record.source)
        self._write(row, cells, _times(record), self._shown_after(bound, row, record))

    def _shown_after(self, bound: BoundClass, row: Row, record: UpdateRecord) -> Masks | None:
        """Return what is shown of a row after an update; ``None`` for the same as before."""
        linking, bits = bound.binding.linking, bound.binding.bits
        changed: dict[int, FeedValue | None] = {p: record.values[p] for p in linking if p in record.values}
        changed |= {position: None for position in record.absent if position in linking}
        if not changed or not row.allowed:
            return None
        free = self._access.without_hidden(bound, row.allowed, changed, record.source)
        concerned = sum(bits[position] for position in changed)
        row.shown = tuple(
            former & ~concerned | now & concerned for former, now in zip(row.shown, free, strict=True)
        )
        return row.shown

    def element(self, column: int, row: Row | None) -> tuple[ElementEntry | None, Element | None]:
        """Return the registry's entry of a column, and the element in the version of this row's class."""
        entry = next((e for e in self._class_entry.elements if e.current and e.column == column), None)
        if entry is None or row is None:
            return entry, None
        elements = row.bound.binding.schema.elements
        found = (e for e in elements if e.name == entry.name and column_of(self._class_entry, e) is entry)
        return entry, next(found, None)

    def shown(self, row: Row, entry: ElementEntry) -> tuple[bytes | None, int | None]:
        """Return the cell of an element, and the length of the whole value where a second column has it."""
        cells = self._table.row(row.index) if row.withheld is None else row.withheld
        octets = cells.get(entry.twin.column) if entry.twin is not None else None
        measured = octets is not None and octets[0] == ber.GAUGE32
        return cells.get(entry.column), int.from_bytes(octets[2:], "big") if octets and measured else None

    def stable_name(self, row: Row) -> str:
        """Return the stable name of the row's object, as its row shows it: a very long name is cut."""
        cell = self._table.cell(row.index, RowColumn.FULL_NAME)
        return "" if cell is None else ber.read_octets(cell, 0, len(cell))[0].decode("utf-8")

    def remove(self, row: Row, now: int) -> None:
        """Remove the row of an object that is gone."""
        if row.withheld is None:
            # A withheld row shows nothing, so no sum contains it.
            self._count(row, dict.fromkeys(self._slots))
        self._count_state(row.summary, row.state, -1)
        row.summary.rows -= 1
        row.summary.changed = now
        self._summaries.touch(row.summary)
        del row.group.rows[row]
        del self.rows[row.index]
        self._table.remove(row.index)

    def settle(self, row: Row) -> None:
        """Bring a row into the state of its group."""
        state = row.group.freshness
        if row.state is state:
            return
        cells: Cells = dict(_STATE_CELLS[state])
        if row.withheld is not None:
            cells |= row.withheld
            row.withheld = None
            self._count(row, cells)
        elif state is Freshness.WITHHELD:
            shown = self._table.row(row.index)
            # The cells move out of the table, so that no request can read them, and come back as they are
            # when the agent confirms them: the core sends unchanged values again only in a snapshot.
            row.withheld = {c: cell for c, cell in shown.items() if c >= FIRST_ELEMENT_COLUMN}
            cells.update(dict.fromkeys(row.withheld))
            self._count(row, cells)
        self._table.put(row.index, cells)
        self._count_state(row.summary, row.state, -1)
        self._count_state(row.summary, state, 1)
        self._summaries.touch(row.summary)
        row.state = state

    def _insert(self, index: Oid, bound: BoundClass, group: RowGroup, now: int) -> Row:
        summary = self._summaries.get(index[0], self._class_index, self._names, self.entry)
        summary.make_room(self._summed[len(summary.summed) :])
        summary.rows += 1
        summary.changed = now
        self._summaries.touch(summary)
        row = Row(group, index, self, bound, summary)
        self.rows[index] = row
        group.rows[row] = None
        return row

    def _cells_of(self, row: Row, bound: BoundClass) -> Cells:
        """Return no cells; or, where the row is of another version of the class, holes for all elements."""
        if row.bound is bound:
            return {}
        # Elements that only the former version has must not keep their last values.
        return dict.fromkeys(column for column in self._columns if column >= FIRST_ELEMENT_COLUMN)

    def _write(self, row: Row, elements: Cells, fixed: Cells, shown: Masks | None) -> None:
        if row.withheld is None:
            # Sums compare with the cells that the table still has: they are counted before those are
            # replaced.
            self._count(row, elements)
            elements.update(fixed)
            self._table.put(row.index, elements, shown)
        else:
            # It goes on to change while it is not shown.
            row.withheld |= elements
            self._table.put(row.index, fixed, shown)

    def _count(self, row: Row, cells: Cells) -> None:
        """Update the sums for these cells, which will replace the present ones of the row."""
        slots, summary = self._slots, row.summary
        summed = cells.keys() & slots.keys()
        if not summed:
            return
        totals, changed = summary.totals, summary.changed_slots
        for column, before in zip(summed, self._table.cells(row.index, summed), strict=True):
            cell = cells[column]
            if before != cell:
                slot = slots[column]
                changed.add(slot)
                if cell is not None and before is not None and len(cell) == len(before):
                    # Both have the same tag and length, so these need not be taken off.
                    totals[slot] += int.from_bytes(cell, "big") - int.from_bytes(before, "big")
                else:
                    totals[slot] += _number(cell) - _number(before)
                    summary.objects[slot] += (cell is not None) - (before is not None)
        self._summaries.touch(summary)

    @staticmethod
    def _count_state(summary: Summary, state: Freshness, rows: int) -> None:
        summary.stale += rows * (state is not Freshness.FRESH)
        summary.withheld += rows * (state is Freshness.WITHHELD)


def _columns(class_entry: ClassEntry) -> tuple[int, ...]:
    """Return the columns that are ever filled: the gateway's own and those of current elements."""
    own = tuple(column for column in RowColumn if column is not RowColumn.INDEX)
    current = [element for element in class_entry.elements if element.current]
    filled = {c for element in current for c in element.columns} - _derivations(class_entry).keys()
    return (*own, *sorted(filled))


def _derivations(class_entry: ClassEntry) -> dict[int, Derivation]:
    """Return the 32-bit gauges beside those of 64 bits, which are made of them when they are read."""
    return {
        twin.column: gauge32_derivation(element.column, twin.unit)
        for element in class_entry.elements
        if element.current and (twin := element.gauge32) is not None
    }


def _number(cell: bytes | None) -> int:
    """Return the number that the TLV of a Counter64, Gauge32 or AgGauge64 shows; 0 for a hole."""
    return 0 if cell is None else int.from_bytes(cell[2:], "big")


def _times(record: ObjectRecord | UpdateRecord) -> Cells:
    return {
        RowColumn.SAMPLED: known_time(record.statistics_sampled or record.properties_sampled),
        RowColumn.DISCONTINUITY: known_time(record.reset),
        RowColumn.LAST_CHANGE: known_time(record.changed),
    }
