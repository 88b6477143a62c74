"""The tables and scalars that monitoring systems poll: each number with its OID, kind, unit and labels.

A template is a form of this. A 64-bit gauge has its own column here, not the one of 32 bits beside it: the
template says that it is a gauge.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import msgspec

from gateway.feed.freshness import Freshness
from gateway.mapping.rules import AlarmRule
from gateway.model.observations import Severity
from gateway.model.schema import ClassKey, ClassSchema, Element, Kind
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import (
    ALARMS,
    CLASS_ENTRY,
    HEALTH,
    LOG,
    SOURCE_ENTRY,
    SUM_ENTRY,
    AlarmScalar,
    ClassColumn,
    Health,
    LogScalar,
    LogStateNumber,
    SeverityNumber,
    SourceColumn,
    SourceStateNumber,
    SumColumn,
)
from gateway.snmp.mib.clauses import plain, sentence, units_clause
from gateway.snmp.oid_registry import ClassEntry, ElementEntry, OidRegistry
from gateway.snmp.row_columns import ROW_COLUMNS, RowColumn
from gateway.snmp.syntax import Syntax
from gateway.snmp.tables.rows import column_of


class Reading(enum.Enum):
    """How the value of an object is to be read."""

    GAUGE = "gauge"
    COUNTER = "counter"
    TEXT = "a number as text"


class Monitored(msgspec.Struct, frozen=True):
    """An object type whose value is a number.

    Attributes:
        name: its descriptor.
        oid: the column, or the scalar without ``.0``.
        labels: the label of each number, where it is an enumeration or a truth value.
        element: the element of the class, where it is one.
        alarms: the severity of the alarm that a number of an enumeration or a truth value raises, by number.
    """

    name: str
    oid: Oid
    reading: Reading
    description: str
    unit: str = ""
    labels: tuple[tuple[int, str], ...] = ()
    element: str = ""
    alarms: tuple[tuple[int, Severity], ...] = ()


class Label(msgspec.Struct, frozen=True):
    """A text that names the rows of a table.

    Attributes:
        name: the name of the label.
        column: the descriptor of the column in which the text is, of this table or of another one.
        oid: the same column.
        indexes: the index of that column's table, by its names in the table that is named.
    """

    name: str
    column: str
    oid: Oid
    indexes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MonitoredTable:
    """The numbers of one table, or of scalars, which have no index.

    Attributes:
        key: ``package:class``; of the gateway's own module, ``gateway:`` and a word.
        name: the descriptor that the table's own begin with.
        module: the MIB module that defines it.
        title: what a row is, for people.
        indexes: the descriptors of its index objects, in their order.
        labels: what names a row; the last one is the row's own name.
    """

    key: str
    name: str
    module: str
    title: str
    indexes: tuple[str, ...]
    labels: tuple[Label, ...]
    values: tuple[Monitored, ...]

    def selected(self, wanted: Callable[[str], bool]) -> MonitoredTable:
        """Return the table with the elements of these names only; what is of no element stays."""
        return replace(self, values=tuple(v for v in self.values if not v.element or wanted(v.element)))


_TRUTH = ((1, "true"), (2, "false"))
OWN_MODULE: Final = "AMQP-GATEWAY-MIB"
"""The module of what every gateway has."""

_SOURCE_INDEX = "agSourceIndex"
_READINGS: Mapping[Syntax, Reading] = {
    Syntax.COUNTER64: Reading.COUNTER,
    Syntax.GAUGE32: Reading.GAUGE,
    Syntax.GAUGE64: Reading.GAUGE,
    Syntax.INTEGER32: Reading.GAUGE,
    Syntax.UNSIGNED32: Reading.GAUGE,
    Syntax.TRUTH: Reading.GAUGE,
    Syntax.ENUMERATION: Reading.GAUGE,
    Syntax.DECIMAL: Reading.TEXT,
    Syntax.FLOAT_TEXT: Reading.TEXT,
    Syntax.FLOAT64: Reading.TEXT,
}


def numbers(members: type[IntEnum]) -> tuple[tuple[int, str], ...]:
    """Return the labels of an enumeration of the gateway's own module."""
    return tuple((int(member), _camel(member.name)) for member in members)


def tables_of(
    registry: OidRegistry,
    schemas: Iterable[ClassSchema],
    root: Oid,
    alarms: Callable[[ClassKey], Iterable[AlarmRule]],
) -> Iterator[MonitoredTable]:
    """Yield a table for each class of a registry that has numbers, by arc.

    Args:
        registry: the numbers and names.
        schemas: descriptions and units, with the mapping applied; without those of a class its columns are
            described by their names.
        root: the configured root.
        alarms: returns the alarms of a class.
    """
    versions: dict[str, list[ClassSchema]] = {}
    for schema in schemas:
        versions.setdefault(registry.entry_name(schema.key), []).append(schema)
    for class_entry in sorted(registry.classes, key=lambda entry: entry.arc):
        entry = registry.entry_oid(root, class_entry)
        key = registry.class_key(class_entry)
        known = versions.get(class_entry.name, ())
        elements = tuple(_elements(class_entry, known, entry, tuple(alarms(key))))
        if elements:
            yield MonitoredTable(
                str(key),
                class_entry.descriptor,
                registry.module,
                plain(key.name),
                (_SOURCE_INDEX, class_entry.index_descriptor),
                (
                    _source(root),
                    Label(
                        "name",
                        class_entry.descriptor + ROW_COLUMNS[RowColumn.FULL_NAME].suffix,
                        (*entry, RowColumn.FULL_NAME),
                        (_SOURCE_INDEX, class_entry.index_descriptor),
                    ),
                ),
                (_row_state(class_entry, entry), *elements),
            )


def _row_state(class_entry: ClassEntry, entry: Oid) -> Monitored:
    text = ROW_COLUMNS[RowColumn.STATE]
    return Monitored(
        class_entry.descriptor + text.suffix,
        (*entry, RowColumn.STATE),
        Reading.GAUGE,
        text.description,
        labels=numbers(Freshness),
    )


def _elements(
    class_entry: ClassEntry, versions: Sequence[ClassSchema], entry: Oid, rules: Sequence[AlarmRule]
) -> Iterator[Monitored]:
    for element_entry in class_entry.elements:
        reading = _READINGS.get(element_entry.syntax) if element_entry.current else None
        if reading is None:
            continue
        column, name = element_entry.column, element_entry.descriptor
        if element_entry.syntax is Syntax.FLOAT64:
            if element_entry.twin is None:
                continue  # eight octets, which few tools can read
            column, name = element_entry.twin.column, element_entry.twin.descriptor
        element = _element(class_entry, element_entry, versions)
        yield Monitored(
            name,
            (*entry, column),
            reading,
            _described(element_entry, element),
            units_clause(element_entry, element),
            _labels(element_entry),
            element_entry.name,
            tuple(_alarms(element_entry, rules)),
        )


def _element(class_entry: ClassEntry, entry: ElementEntry, versions: Sequence[ClassSchema]) -> Element | None:
    elements = (element for schema in reversed(versions) for element in schema.elements)
    return next((e for e in elements if e.name == entry.name and column_of(class_entry, e) is entry), None)


def _described(entry: ElementEntry, element: Element | None) -> str:
    said = (element.description or element.label) if element else ""
    kinds = {Kind.HIGH: " The highest value.", Kind.LOW: " The lowest value.", Kind.AVERAGE: " An average."}
    return plain(sentence(said or f"'{entry.name}' of the source.") + kinds.get(entry.kind, ""))


def _labels(entry: ElementEntry) -> tuple[tuple[int, str], ...]:
    if entry.syntax is Syntax.TRUTH:
        return _TRUTH
    return tuple((value.number, value.label) for value in entry.values)


def _alarms(entry: ElementEntry, rules: Iterable[AlarmRule]) -> Iterator[tuple[int, Severity]]:
    """Yield the number and the severity of each value that raises an alarm."""
    numbers: dict[object, int] = {value.value: value.number for value in entry.values}
    if entry.syntax is Syntax.TRUTH:
        numbers = {True: 1, False: 2}
    for rule in rules:
        number = numbers.get(rule.equals) if rule.element == entry.name else None
        if number is not None:
            yield number, rule.severity


def _camel(name: str) -> str:
    words = name.lower().split("_")
    return words[0] + "".join(word.capitalize() for word in words[1:])


def _source(root: Oid) -> Label:
    return Label("source", "agSourceName", (*root, *SOURCE_ENTRY, SourceColumn.NAME), (_SOURCE_INDEX,))


_Row = tuple[IntEnum, Reading, str, str, tuple[tuple[int, str], ...]]
_G, _C = Reading.GAUGE, Reading.COUNTER

_OWN_ALARMS: Mapping[str, tuple[tuple[int, Severity], ...]] = {"agFeedConnected": ((2, Severity.CRITICAL),)}
"""`Monitored.alarms` of the gateway's own module, by descriptor."""

_SCALARS: tuple[tuple[str, Oid, tuple[_Row, ...]], ...] = (
    (
        "ag",
        HEALTH,
        (
            (Health.FEED_CONNECTED, _G, "Whether the SNMP agent is connected to the core.", "", _TRUTH),
            (Health.SOURCES, _G, "Sources that are configured.", "sources", ()),
            (Health.SOURCES_SYNCHRONISED, _G, "Sources that are synchronised.", "sources", ()),
            (Health.ROWS, _G, "Rows of all tables of objects.", "rows", ()),
            (Health.ROWS_STALE, _G, "Rows that are stale.", "rows", ()),
            (Health.ROWS_WITHHELD, _G, "Rows whose values are withheld.", "rows", ()),
            (Health.ELEMENTS_NOT_SHOWN, _G, "Elements that no registry has.", "elements", ()),
        ),
    ),
    (
        "agAlarms",
        ALARMS,
        (
            (AlarmScalar.ACTIVE, _G, "Active alarms.", "alarms", ()),
            (AlarmScalar.CRITICAL, _G, "Active alarms that are critical.", "alarms", ()),
            (AlarmScalar.MAJOR, _G, "Active alarms that are major.", "alarms", ()),
            (AlarmScalar.MINOR, _G, "Active alarms that are minor.", "alarms", ()),
            (AlarmScalar.WARNING, _G, "Active alarms that are warnings.", "alarms", ()),
        ),
    ),
    (
        "agLog",
        LOG,
        (
            (LogScalar.STATE, _G, "The state of the event log.", "", numbers(LogStateNumber)),
            (LogScalar.WAITING, _G, "Records that are not on the disk yet.", "records", ()),
            (LogScalar.LOST, _C, "Records that were lost.", "records", ()),
            (LogScalar.OCTETS, _G, "The size of the event log.", "octets", ()),
        ),
    ),
)
_SOURCES: tuple[_Row, ...] = (
    (SourceColumn.STATE, _G, "The state of the source.", "", numbers(SourceStateNumber)),
    (SourceColumn.ROWS, _G, "Rows of the source.", "rows", ()),
    (SourceColumn.STALE_ROWS, _G, "Rows of the source that are stale.", "rows", ()),
    (SourceColumn.MESSAGES, _C, "Messages or answers received.", "messages", ()),
    (SourceColumn.OCTETS, _C, "Their size.", "octets", ()),
    (SourceColumn.PROTOCOL_ERRORS, _C, "Messages that could not be read.", "messages", ()),
    (SourceColumn.REFUSED, _C, "What exceeded a limit.", "", ()),
    (SourceColumn.RESYNCS, _C, "How often all of the source was read again.", "times", ()),
    (SourceColumn.GAPS, _C, "Gaps.", "gaps", ()),
    (SourceColumn.OBJECTS_CREATED, _C, "Objects that were created.", "objects", ()),
    (SourceColumn.OBJECTS_DELETED, _C, "Objects that were deleted.", "objects", ()),
    (SourceColumn.EVENTS, _C, "Events received.", "events", ()),
    (SourceColumn.ACTIVE_ALARMS, _G, "Active alarms of the source.", "alarms", ()),
    (SourceColumn.WORST_ALARM, _G, "The worst severity of them.", "", numbers(SeverityNumber)),
)
_CLASSES: tuple[_Row, ...] = (
    (ClassColumn.ROWS, _G, "Objects of the class.", "rows", ()),
    (ClassColumn.STALE_ROWS, _G, "Those that are stale.", "rows", ()),
    (ClassColumn.WORST_STATE, _G, "The worst state of any of them.", "", numbers(Freshness)),
)
_SUMS: tuple[_Row, ...] = (
    (SumColumn.TOTAL, _G, "The sum of a statistic over the objects of the class.", "", ()),
    (SumColumn.OBJECTS, _G, "Objects that have the statistic.", "objects", ()),
    (SumColumn.MEAN_TEXT, Reading.TEXT, "Its mean.", "", ()),
)


def gateway_tables(root: Oid) -> Iterator[MonitoredTable]:
    """Yield what is polled of the gateway's own module: scalars, sources, classes, sums."""
    scalars = tuple(value for prefix, base, rows in _SCALARS for value in _values(prefix, base, rows, root))
    yield MonitoredTable("gateway:health", "ag", OWN_MODULE, "gateway", (), (), scalars)
    source = _source(root)
    of_sources = tuple(_values("agSource", SOURCE_ENTRY, _SOURCES, root))
    yield MonitoredTable(
        "gateway:source", "agSource", OWN_MODULE, "source", (_SOURCE_INDEX,), (source,), of_sources
    )
    of_class = (_SOURCE_INDEX, "agClassIndex")
    class_label = Label("class", "agClassName", (*root, *CLASS_ENTRY, ClassColumn.NAME), of_class)
    package = Label("package", "agClassPackage", (*root, *CLASS_ENTRY, ClassColumn.PACKAGE), of_class)
    yield MonitoredTable(
        "gateway:class",
        "agClass",
        OWN_MODULE,
        "class",
        of_class,
        (source, package, class_label),
        tuple(_values("agClass", CLASS_ENTRY, _CLASSES, root)),
    )
    of_sum = (*of_class, "agSumColumn")
    statistic = Label("statistic", "agSumName", (*root, *SUM_ENTRY, SumColumn.NAME), of_sum)
    yield MonitoredTable(
        "gateway:sum",
        "agSum",
        OWN_MODULE,
        "sum",
        of_sum,
        (source, package, class_label, statistic),
        tuple(_values("agSum", SUM_ENTRY, _SUMS, root)),
    )


def _values(prefix: str, base: Oid, rows: Iterable[_Row], root: Oid) -> Iterator[Monitored]:
    for member, reading, description, unit, labels in rows:
        camel = _camel(member.name)
        name = prefix + camel[0].upper() + camel[1:]
        oid, alarms = (*root, *base, member), _OWN_ALARMS.get(name, ())
        yield Monitored(name, oid, reading, description, unit, labels, alarms=alarms)
