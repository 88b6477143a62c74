"""agClassTable and agSumTable: rows, stale rows and totals per source and class, updated as rows change.

A management station asks here first: it need not walk a million instances to learn how many messages wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import and_

import msgspec

from gateway.feed.freshness import Freshness
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import date_and_time, float64, float_text, gauge32, gauge32_in, gauge64, text
from gateway.snmp.fixed_mib import CLASS_ENTRY, SUM_ENTRY, ClassColumn, SumColumn
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.store import Store
from gateway.snmp.syntax import gauge32_unit


class SummedColumn(msgspec.Struct, frozen=True):
    """A column whose values can be summed: a statistic that is a counter or gauge."""

    column: int
    name: str
    unit: str


@dataclass(slots=True, eq=False)
class Summary:
    """The counts and totals of one class of one source; each change needs a call of `Summaries.touch`.

    ``totals`` and ``objects`` (the numbers of rows with a value) are indexed by the slot that the class gave
    a column. ``changed_slots`` are those that `Summaries.flush` has to show. The first ``named`` slots have
    their names. ``versions`` has, by the number of the class, the columns that each restricted view shows of
    all objects of a version of the class; ``shown`` is what it shows of all versions.
    """

    source: int
    class_index: int
    package: str
    name: str
    entry: Oid
    rows: int = 0
    stale: int = 0
    withheld: int = 0
    changed: int = 0
    summed: list[SummedColumn] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)
    changed_slots: set[int] = field(default_factory=set)
    named: int = 0
    versions: dict[int, tuple[int, ...]] = field(default_factory=dict)
    shown: tuple[int, ...] = ()

    @property
    def worst_state(self) -> Freshness:
        """The worst state of any row."""
        if self.withheld:
            return Freshness.WITHHELD
        return Freshness.STALE if self.stale else Freshness.FRESH

    def make_room(self, summed: Iterable[SummedColumn]) -> None:
        """Add the summed columns of a further version of the class."""
        for column in summed:
            self.changed_slots.add(len(self.summed))
            self.summed.append(column)
            self.totals.append(0)
            self.objects.append(0)


class Summaries:
    """agClassTable and agSumTable. Changes are collected and shown by `flush`, once a batch.

    Args:
        store: the store in which the tables are made.
        root: the configured root.

    Attributes:
        changed: the summaries that `flush` has to show.
        tables: both tables.
    """

    def __init__(self, store: Store, root: Oid) -> None:
        self._classes = store.table((*root, *CLASS_ENTRY), tuple(ClassColumn), by_source=True)
        self._sums = store.table((*root, *SUM_ENTRY), tuple(SumColumn), by_source=True)
        self.tables = (self._classes, self._sums)
        self._all: dict[tuple[int, int], Summary] = {}
        self.changed: dict[Summary, None] = {}

    def get(self, source: int, class_index: int, class_name: tuple[str, str], entry: Oid) -> Summary:
        """Return the summary of a class of a source, made if new; ``class_name`` is package and class."""
        summary = self._all.get((source, class_index))
        if summary is None:
            summary = Summary(source, class_index, *class_name, entry)
            self._all[source, class_index] = summary
            self._classes.put(
                (source, class_index),
                {
                    ClassColumn.PACKAGE: text(summary.package),
                    ClassColumn.NAME: text(summary.name),
                    ClassColumn.ROW_TABLE: ber.encode_oid(entry[:-1]),
                },
            )
        return summary

    def forget_roles(self) -> None:
        """Show restricted views nothing, until `show_by_roles`: numbers of classes and clearances change."""
        for summary in self._all.values():
            summary.versions.clear()
            summary.shown = ()

    def forget_versions(self) -> None:
        """Forget the numbers of classes: another core gives them to others."""
        for summary in self._all.values():
            summary.versions.clear()

    def show_by_roles(self, summary: Summary) -> None:
        """Show a summary to the restricted views that show all of what it adds up."""
        shown = tuple(reduce(and_, masks) for masks in zip(*summary.versions.values(), strict=True))
        if shown != summary.shown:
            summary.shown = shown
            summary.changed_slots.update(range(len(summary.summed)))
            self.touch(summary)

    def rows_shown(self, source: int, view: int) -> tuple[int, int]:
        """Return the numbers of rows and of stale rows of the classes of a source that a view shows whole."""
        shown = [
            summary
            for summary in self._all.values()
            if summary.source == source and view < len(summary.shown) and _is_shown(summary.shown[view])
        ]
        return sum(summary.rows for summary in shown), sum(summary.stale for summary in shown)

    def touch(self, summary: Summary) -> None:
        """Show this summary again at the next `flush`."""
        self.changed[summary] = None

    def remove_source(self, source: int) -> None:
        """Remove a source that is gone for good; its rows must have been removed before."""
        # What is waiting to be shown would write rows of this source again after they were removed.
        self.flush()
        for key in [key for key in self._all if key[0] == source]:
            summary = self._all.pop(key)
            self._classes.remove(key)
            for column in summary.summed:
                index = (*key, column.column)
                if index in self._sums:
                    self._sums.remove(index)

    def counts(self, source: int) -> tuple[int, int]:
        """Return the numbers of rows and of stale rows of one source."""
        of_source = [summary for summary in self._all.values() if summary.source == source]
        return sum(summary.rows for summary in of_source), sum(summary.stale for summary in of_source)

    def totals(self) -> tuple[int, int, int]:
        """Return the numbers of rows, of stale rows and of withheld rows of all sources."""
        every = self._all.values()
        return sum(s.rows for s in every), sum(s.stale for s in every), sum(s.withheld for s in every)

    def flush(self) -> set[int]:
        """Update the cells. Return the sources in which anything had changed."""
        sources = {summary.source for summary in self.changed}
        for summary in self.changed:
            self._show(summary)
        self.changed.clear()
        return sources

    def _show(self, summary: Summary) -> None:
        # A view that does not show the class shows none of its sums.
        classes = tuple(-1 if _is_shown(mask) else 0 for mask in summary.shown)
        self._classes.put(
            (summary.source, summary.class_index),
            {
                ClassColumn.ROWS: gauge32(summary.rows),
                ClassColumn.STALE_ROWS: gauge32(summary.stale),
                ClassColumn.LAST_CHANGE: date_and_time(summary.changed),
                ClassColumn.WORST_STATE: ber.encode_integer(summary.worst_state),
            },
            classes,
        )
        for slot in summary.changed_slots:
            column, total, objects = summary.summed[slot], summary.totals[slot], summary.objects[slot]
            # A sum over no object is 0, but its mean is not known.
            mean = total / objects if objects else None
            cells: dict[int, bytes | None] = {
                SumColumn.TOTAL: gauge64(total),
                SumColumn.OBJECTS: gauge32(objects),
                SumColumn.MEAN: None if mean is None else float64(mean),
                SumColumn.MEAN_TEXT: None if mean is None else float_text(mean),
                SumColumn.TOTAL_GAUGE32: gauge32_in(gauge32_unit(column.unit), total),
            }
            # Name and unit never change: they are written once.
            if slot >= summary.named:
                cells |= {
                    SumColumn.NAME: text(column.name),
                    SumColumn.UNITS: text(column.unit),
                    SumColumn.GAUGE32_UNITS: text(gauge32_unit(column.unit) or column.unit),
                }
            sums = tuple(
                is_shown if mask >> column.column & 1 else 0
                for is_shown, mask in zip(classes, summary.shown, strict=True)
            )
            self._sums.put((summary.source, summary.class_index, column.column), cells, sums)
        summary.changed_slots.clear()
        summary.named = len(summary.summed)


def _is_shown(mask: int) -> bool:
    return bool(mask >> RowColumn.STALE & 1)
