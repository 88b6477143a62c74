"""A reader of the SNMP store that acts as a management station: it walks tables and decodes values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.oid_registry import ClassEntry, OidRegistry
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.store import MibView, Store
from gateway.snmp.syntax import Syntax
from tests.simulation.truth import Plain

ROOT: Oid = (1, 3, 6, 1, 4, 1, 99999)
_FIXED = frozenset(RowColumn)
_AT_ONCE = 128


@dataclass(frozen=True, slots=True)
class ShownRow:
    """One row: the gateway's own columns, ``values`` and ``pointers`` by element; holes are left out."""

    class_name: str
    source: int
    row: int
    fixed: Mapping[RowColumn, Plain]
    values: Mapping[str, Plain]
    pointers: Mapping[str, Oid]


@dataclass(slots=True)
class _Table:
    """The table of a class: its entry, the element of each column, labels of enumerations by number."""

    entry: Oid
    elements: dict[int, str] = field(default_factory=dict)
    pointers: dict[int, str] = field(default_factory=dict)
    labels: dict[int, dict[int, bytes]] = field(default_factory=dict)

    @classmethod
    def of(cls, registry: OidRegistry, class_entry: ClassEntry, elements: frozenset[str]) -> _Table:
        table = cls(registry.entry_oid(ROOT, class_entry))
        for element in class_entry.elements:
            if element.name not in elements or not element.current:
                continue
            column = element.column
            if element.syntax is Syntax.ROW_POINTER and element.twin is not None:
                table.pointers[column] = element.name
                column = element.twin.column
            table.elements[column] = element.name
            if element.values:
                labels = {number: label.encode() for label, number in element.numbers.items()}
                table.labels[column] = labels
        return table


class TableReader:
    """The tables of classes.

    Args:
        registries: define the columns of the elements of each class.
        elements: the elements that are read, by class (``package:class``).
    """

    def __init__(self, registries: tuple[OidRegistry, ...], elements: Mapping[str, frozenset[str]]) -> None:
        self._tables = {
            name: _Table.of(registry, class_entry, elements[name])
            for registry in registries
            for class_entry in registry.classes
            for name in (f"{registry.package}:{class_entry.name}",)
            if name in elements
        }

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes that it reads."""
        return tuple(self._tables)

    def entry(self, class_name: str) -> Oid:
        """Return the OID of the conceptual row of a class."""
        return self._tables[class_name].entry

    def columns(self, class_name: str) -> Mapping[int, str]:
        """Return the element of each column, by the column's number."""
        return self._tables[class_name].elements

    def is_pointer(self, class_name: str, element: str) -> bool:
        """Return whether an element is a reference."""
        return element in self._tables[class_name].pointers.values()

    def rows(self, store: Store, class_name: str) -> list[ShownRow]:
        """Return all rows of a class, in order."""
        table = self._tables[class_name]
        cells: dict[Oid, dict[int, bytes]] = {}
        for (column, *index), tlv in walk(store, table.entry):
            cells.setdefault(tuple(index), {})[column] = tlv
        return [_row(class_name, table, index, cells[index]) for index in sorted(cells)]


def walk(store: MibView, under: Oid) -> Iterator[tuple[Oid, bytes]]:
    """Yield the rest of the name and the value TLV of every instance below ``under``, as by GETBULK."""
    prefix = ber.encode_name(under)
    here = prefix
    while True:
        varbinds, here = store.walk(here, _AT_ONCE)
        for varbind in varbinds:
            _, start, stop = ber.read_header(varbind, 0, len(varbind))
            _, name_start, name_stop = ber.read_header(varbind, start, stop)
            name = varbind[name_start:name_stop]
            if not name.startswith(prefix):
                return
            yield _sub_identifiers(name[len(prefix) :]), varbind[name_stop:]
        if len(varbinds) < _AT_ONCE:
            return


_sub_identifiers = lru_cache(maxsize=1 << 16)(ber.decode_sub_identifiers)
"""A cached decoder, because the same rows are read many times."""


def decoded(tlv: bytes) -> Plain:
    """Return the value in a TLV: octets or an integer."""
    tag, start, stop = ber.read_header(tlv, 0, len(tlv))
    if tag == ber.INTEGER:
        return int.from_bytes(tlv[start:stop], "big", signed=True)
    if tag in (ber.OCTET_STRING, ber.OBJECT_IDENTIFIER):
        return tlv[start:stop]
    return int.from_bytes(tlv[start:stop], "big")


def _row(class_name: str, table: _Table, index: Oid, cells: Mapping[int, bytes]) -> ShownRow:
    source, row = index
    values: dict[str, Plain] = {}
    for column, element in table.elements.items():
        if column in cells:
            value = decoded(cells[column])
            if column in table.labels and isinstance(value, int):
                value = table.labels[column].get(value, b"unknown")
            values[element] = value
    return ShownRow(
        class_name,
        source,
        row,
        {RowColumn(column): decoded(tlv) for column, tlv in cells.items() if column in _FIXED},
        values,
        {
            element: ber.decode_name(cells[column][2:])
            for column, element in table.pointers.items()
            if column in cells
        },
    )
