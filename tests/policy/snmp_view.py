"""What a principal of SNMP sees of the world, as instances of the MIB: as the evaluator says.

The numbers of columns are those of the gateway's own modules; what is seen of them is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from gateway.escapes import escaped
from gateway.model.operations import Outcome
from gateway.model.schema import Element
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import (
    ALARM_ENTRY,
    ALARMS,
    CLASS_ENTRY,
    DELETED,
    DELETED_ENTRY,
    OPERATION_ENTRY,
    OPERATIONS,
    SOURCE_ENTRY,
    SUM_ENTRY,
    AlarmColumn,
    AlarmScalar,
    ClassColumn,
    DeletedColumn,
    DeletedScalar,
    OperationColumn,
    OperationScalar,
    OutcomeNumber,
    SeverityNumber,
    SourceColumn,
    SumColumn,
)
from gateway.snmp.oid_registry import ClassEntry, ElementEntry, OidRegistry
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.syntax import Syntax
from gateway.snmp.tables.rows import column_of
from tests.policy.evaluator import Evaluator
from tests.policy.facts import Expected
from tests.policy.world import (
    CLASSES,
    OTHER,
    SOURCES,
    Thing,
    alarm_condition,
    number_of,
    operation_id,
    operation_text,
    things,
)

Shown: TypeAlias = "int | bytes | Oid | None"
"""A value that an instance has; ``None``: any."""

Instances: TypeAlias = dict[Oid, Shown]

_EVERYTHING: Final = Evaluator("policy: {principals: {'*': [everything]}}", Path("no mappings"))
"""Answers for who sees everything, whatever is private."""

_ANY_OF_ROWS: Final = (
    RowColumn.SAMPLED,
    RowColumn.CREATED,
    RowColumn.STATE,
    RowColumn.DISCONTINUITY,
    RowColumn.LAST_CHANGE,
    RowColumn.LIFETIME,
)
_OF_ALL_OBJECTS: Final = {SourceColumn.OBJECTS_CREATED, SourceColumn.OBJECTS_DELETED, SourceColumn.EVENTS}
_ANY_OF_ALARMS: Final = (AlarmColumn.SINCE, AlarmColumn.EVENT_ID, AlarmColumn.STALE)
_ANY_OF_ENDS: Final = (DeletedColumn.LIFETIME, DeletedColumn.DELETED, DeletedColumn.INFERRED)
_ANY_OF_OPERATIONS: Final = (
    OperationColumn.ORIGIN,
    OperationColumn.KIND,
    OperationColumn.METHOD,
    OperationColumn.STATE,
    OperationColumn.BEGAN,
)


@dataclass(frozen=True, slots=True)
class _Table:
    """The table of a class."""

    registry: OidRegistry
    of_class: ClassEntry
    entry: Oid

    @property
    def index(self) -> int:
        return self.registry.class_index(self.of_class)


class SnmpView:
    """The instances that a principal sees of sources, objects, sums, alarms, ends and operations.

    Args:
        evaluator: reads the policy.
        who: the principal.
        stamp: the number in all values.
        registries: those that have the classes of the world.
        root: the root of all object identifiers.
    """

    def __init__(
        self, evaluator: Evaluator, who: str, stamp: int, registries: Sequence[OidRegistry], root: Oid
    ) -> None:
        self._evaluator = evaluator
        self._expected = Expected(evaluator, who, stamp)
        self._who = who
        self._stamp = stamp
        self._things = things(stamp)
        self._registries = registries
        self._root = root
        self._tables = dict(_tables(registries, root))
        self.sees_everything = evaluator.sees_everything(who)
        self._counts = evaluator.counts(who)

    @property
    def questions(self) -> int:
        """The number of facts that who sees everything sees."""
        return self._expected.questions

    def begun(self) -> Instances:
        """Return the instances while there are objects."""
        return {
            **self._sources(exist=True),
            **self._objects(),
            **self._classes(exist=True),
            **self._alarms(),
            **self._operations(),
            **self._scalars(DELETED, DeletedScalar, []),
        }

    def ended(self, first: int) -> Instances:
        """Return the instances when all objects have ended, the first of them with this number."""
        found = dict(self._ends(first))
        indexes = sorted({instance[-1] for instance in found})
        return {
            **self._sources(exist=False),
            **self._classes(exist=False),
            **self._alarm_scalars(0),
            **self._operations(),
            **found,
            **self._scalars(DELETED, DeletedScalar, indexes),
        }

    def of_everything(self) -> Instances:
        """Return instances of objects, alarms and operations of which who sees everything has a row."""
        whole = SnmpView(_EVERYTHING, self._who, self._stamp, self._registries, self._root)
        return {name: None for name in whole.begun() if self.is_of_this_policy(name)}

    def without_markers(self, found: Instances) -> Instances:
        """Return what was found, without the operations that mark for other front ends what has come."""
        entry = (*self._root, *OPERATION_ENTRY)
        ids = (*entry, OperationColumn.ID)
        markers = {
            name[-1]
            for name, value in found.items()
            if name[:-1] == ids and isinstance(value, bytes) and value.startswith(b"marker ")
        }
        return {
            name: value
            for name, value in found.items()
            if name[-1] not in markers or name[: len(entry)] != entry
        }

    def is_of_this_policy(self, instance: Oid) -> bool:
        """Return whether an instance is of an object, alarm or operation of this stamp."""
        tables = [
            *(table.entry for table in self._tables.values()),
            *((*self._root, *entry) for entry in (ALARM_ENTRY, OPERATION_ENTRY)),
        ]
        return instance[-1] // 100 == self._stamp and any(instance[: len(one)] == one for one in tables)

    # ---- objects ------------------------------------------------------------------------------------------

    def _objects(self) -> Instances:
        return {
            (*self._tables[thing.class_name].entry, column, thing.source, thing.row): value
            for thing in self._things
            if self._read(thing)
            for column, value in self._row(thing)
        }

    def _row(self, thing: Thing) -> Iterator[tuple[int, Shown]]:
        yield from ((column, None) for column in _ANY_OF_ROWS)
        yield RowColumn.STALE, 2
        if self._is_named(thing):
            yield RowColumn.NAME, _displayed(thing.parts[-1])
            yield RowColumn.NATIVE_ID, _displayed(thing.native_id)
            yield RowColumn.FULL_NAME, _displayed(thing.stable_name)
        if thing.parent is not None and "vhost" in self._read(thing) and self._read(thing.parent):
            yield RowColumn.PARENT, self._pointer(thing.parent)
        of_class = self._tables[thing.class_name].of_class
        for name in self._read(thing):
            entry = column_of(of_class, _element(thing, name))
            if entry is not None:
                yield from self._cells(entry, thing.values[name])

    def _cells(self, entry: ElementEntry, value: int | str | Thing) -> Iterator[tuple[int, Shown]]:
        second = None if entry.twin is None else entry.twin.column
        if isinstance(value, Thing):
            assert entry.syntax is Syntax.ROW_POINTER
            if self._read(value):
                yield entry.column, self._pointer(value)
                if second is not None and self._is_named(value):
                    yield second, _displayed(value.stable_name)
            return
        octets = value if isinstance(value, int) else _displayed(value)
        yield entry.column, octets
        if second is not None:
            yield second, octets if isinstance(octets, int) else len(octets)

    def _read(self, thing: Thing) -> list[str]:
        return [name for name in thing.values if self._evaluator.reads(self._who, *thing.place, name)]

    def _is_named(self, thing: Thing) -> bool:
        return self._evaluator.shows_name(self._who, *thing.place, thing.named)

    def _pointer(self, thing: Thing) -> Oid:
        return (*self._tables[thing.class_name].entry, RowColumn.NAME, thing.source, thing.row)

    # ---- sources, classes, sums ---------------------------------------------------------------------------

    def _sources(self, *, exist: bool) -> Instances:
        found: Instances = {}
        for number, name in SOURCES.items():
            if not self._evaluator.sees(self._who, name):
                continue
            whole = [self._whole(number, class_name) for class_name in self._tables if exist]
            ours = sum(one.source == number for one in self._things)
            raised = [one for one in self._raised() if one.source == number and exist]
            row: dict[int, Shown] = dict.fromkeys(
                column for column in SourceColumn if self._counts or column not in _OF_ALL_OBJECTS
            )
            row |= {
                SourceColumn.NAME: _displayed(name),
                SourceColumn.ROWS: ours if self._counts and exist else sum(map(len, whole)),
                SourceColumn.STALE_ROWS: 0,
                SourceColumn.ACTIVE_ALARMS: len(raised),
                SourceColumn.WORST_ALARM: SeverityNumber.MAJOR if raised else SeverityNumber.CLEARED,
            }
            found |= {(*self._root, *SOURCE_ENTRY, column, number): value for column, value in row.items()}
        return found

    def _whole(self, source: int, class_name: str) -> list[Thing]:
        """Return the objects of a class and source, if there are such that are all seen by any name."""
        ours = [one for one in self._things if (one.source, one.class_name) == (source, class_name)]
        return ours if any(self._reads_all(source, class_name, name) for name in ours[0].values) else []

    def _reads_all(self, source: int, class_name: str, element: str) -> bool:
        return self._evaluator.reads_of_all(self._who, SOURCES[source], class_name, element)

    def _classes(self, *, exist: bool) -> Instances:
        found: Instances = {}
        for source in SOURCES:
            for class_name, table in self._tables.items():
                whole = self._whole(source, class_name)
                if not whole:
                    continue
                row: dict[int, Shown] = dict.fromkeys(ClassColumn)
                package, _, name = class_name.partition(":")
                row |= {
                    ClassColumn.PACKAGE: _displayed(package),
                    ClassColumn.NAME: _displayed(name),
                    ClassColumn.ROWS: len(whole) if exist else 0,
                    ClassColumn.STALE_ROWS: 0,
                    ClassColumn.ROW_TABLE: table.entry[:-1],
                }
                base = (*self._root, *CLASS_ENTRY)
                found |= {(*base, column, source, table.index): value for column, value in row.items()}
                found |= self._sums(source, table, whole, exist=exist)
        return found

    def _sums(self, source: int, table: _Table, whole: list[Thing], *, exist: bool) -> Instances:
        found: Instances = {}
        for name, value in whole[0].values.items():
            entry = column_of(table.of_class, _element(whole[0], name))
            is_shown = self._reads_all(source, whole[0].class_name, name)
            if not is_shown or not isinstance(value, int) or entry is None:
                continue
            total, objects = (value * len(whole), len(whole)) if exist else (0, 0)
            row: dict[int, Shown] = {
                SumColumn.NAME: _displayed(name),
                SumColumn.UNITS: None,
                SumColumn.TOTAL: total,
                SumColumn.OBJECTS: objects,
                SumColumn.TOTAL_GAUGE32: total,
                SumColumn.GAUGE32_UNITS: None,
            }
            if objects:
                row |= {SumColumn.MEAN: None, SumColumn.MEAN_TEXT: None}
            index = (source, table.index, entry.column)
            found |= {
                (*self._root, *SUM_ENTRY, column, *index): value_shown for column, value_shown in row.items()
            }
        return found

    # ---- alarms, ends, operations -------------------------------------------------------------------------

    def _raised(self) -> list[Thing]:
        shown = self._expected.alarms()
        return [thing for thing in self._things if ("alarm", thing.path) in shown]

    def _alarms(self) -> Instances:
        found: Instances = {}
        for number, thing in enumerate(self._things):
            if ("alarm", thing.path) not in self._expected.alarms():
                continue
            row: dict[int, Shown] = dict.fromkeys(_ANY_OF_ALARMS)
            row |= {
                AlarmColumn.SOURCE: thing.source,
                AlarmColumn.NAME: b"full",
                AlarmColumn.SEVERITY: SeverityNumber.MAJOR,
                AlarmColumn.CONDITION: _displayed(alarm_condition(thing)),
                AlarmColumn.CLASS: _displayed(thing.class_name),
                AlarmColumn.OBJECT_NAME: _displayed(thing.stable_name),
                AlarmColumn.ROW: self._pointer(thing),
                AlarmColumn.TEXT: _displayed(self._expected.text_of_alarm(thing)),
            }
            index = self._stamp * 100 + number
            found |= {(*self._root, *ALARM_ENTRY, column, index): value for column, value in row.items()}
        return {**found, **self._alarm_scalars(len(self._raised()))}

    def _alarm_scalars(self, active: int) -> Instances:
        values: dict[int, Shown] = dict.fromkeys(AlarmScalar, 0)
        values |= {AlarmScalar.ACTIVE: active, AlarmScalar.MAJOR: active, AlarmScalar.LAST_CHANGE: None}
        if not self.sees_everything and not self._raised():
            # A time would say that there was an alarm.
            del values[AlarmScalar.LAST_CHANGE]
        return {(*self._root, *ALARMS, scalar, 0): value for scalar, value in values.items()}

    def _ends(self, first: int) -> Iterator[tuple[Oid, Shown]]:
        for number, thing in enumerate(self._things, first):
            if not self._read(thing):
                continue
            row: dict[int, Shown] = dict.fromkeys(_ANY_OF_ENDS)
            row |= {
                DeletedColumn.SOURCE: thing.source,
                DeletedColumn.CLASS: _displayed(thing.class_name),
                DeletedColumn.ROW: self._pointer(thing),
            }
            if self._is_named(thing):
                row[DeletedColumn.NAME] = _displayed(thing.parts[-1])
                row[DeletedColumn.FULL_NAME] = _displayed(thing.stable_name)
                row[DeletedColumn.NATIVE_ID] = _displayed(thing.native_id)
            for column, value in row.items():
                yield (*self._root, *DELETED_ENTRY, column, number), value

    def _operations(self) -> Instances:
        shown = {fact[1] for fact in self._expected.operations()}
        found: Instances = {}
        indexes = []
        for number, thing in enumerate(self._things, self._stamp * 100):
            if operation_id(thing) not in shown:
                continue
            indexes.append(number)
            row: dict[int, Shown] = dict.fromkeys(_ANY_OF_OPERATIONS)
            row |= {
                OperationColumn.ID: _displayed(operation_id(thing)),
                OperationColumn.PRINCIPAL: _displayed(str(OTHER)),
                OperationColumn.SOURCE: thing.source,
                OperationColumn.CLASS: _displayed(thing.class_name),
                OperationColumn.NAME: _displayed(thing.parts[-1]),
                OperationColumn.FULL_NAME: _displayed(thing.stable_name),
                OperationColumn.ROW: self._pointer(thing),
                OperationColumn.ELEMENT: b"",
                OperationColumn.OUTCOME: OutcomeNumber[Outcome.APPLIED.name],
            }
            if self.sees_everything:
                element = number_of(thing)
                row |= {
                    OperationColumn.VALUES: b'{"%s":%d}' % (_displayed(element), self._stamp),
                    OperationColumn.FORMER: b'{"%s":0}' % _displayed(element),
                    OperationColumn.FOUND: b"{}",
                    OperationColumn.TEXT: _displayed(operation_text(thing)),
                }
            found |= {(*self._root, *OPERATION_ENTRY, column, number): value for column, value in row.items()}
        return {**found, **self._scalars(OPERATIONS, OperationScalar, indexes)}

    def _scalars(
        self,
        base: Oid,
        scalars: type[DeletedScalar | OperationScalar],
        indexes: Sequence[int],
    ) -> Instances:
        """Return how many rows there are, which was the last, and how many there ever were."""
        values: Mapping[str, Shown] = {
            "COUNT": len(indexes),
            "LAST": indexes[-1] if indexes else 0,
            "TOLD": len(indexes),
        }
        # Tables of all go on from one policy to the next, and markers are operations of the gateway.
        goes_on = self.sees_everything
        if goes_on or (base == OPERATIONS and self._evaluator.audits(self._who, "gateway", "", "")):
            values = dict.fromkeys(values)
        return {(*self._root, *base, scalars[name], 0): value for name, value in values.items()}

    def applications(self) -> set[int]:
        """Return the indexes of applTable."""
        return {number for number, name in SOURCES.items() if self._evaluator.sees(self._who, name)}


def _element(thing: Thing, name: str) -> Element:
    schema = thing.in_class.schema
    return schema.elements[schema.positions[name]]


def _tables(registries: Sequence[OidRegistry], root: Oid) -> Iterator[tuple[str, _Table]]:
    for record in CLASSES:
        key = record.schema.key
        registry, of_class = next(
            (registry, found) for registry in registries if (found := registry.find(key)) is not None
        )
        yield str(key), _Table(registry, of_class, registry.entry_oid(root, of_class))


def _displayed(text: str) -> bytes:
    return escaped(text).encode()
