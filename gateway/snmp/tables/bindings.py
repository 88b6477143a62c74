"""How one version of a class fills the columns of its table: what the lock says, made into functions once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.schema import ClassSchema, Element, Kind
from gateway.model.values import ValueType
from gateway.snmp import ber
from gateway.snmp.cells import PairEncoder, encoder_with_length, float_encoder, text, value_encoder
from gateway.snmp.lock_entries import ClassLock, ElementLock
from gateway.snmp.syntax import Form, Syntax, form_of

Cells: TypeAlias = dict[int, bytes | None]
"""Cells of one row by column; ``None`` is a hole."""

Writer: TypeAlias = Callable[[Cells, "FeedValue | None", int], None]
"""Puts a value (``None``: absent) of an object of the source with that number into the cells."""

Pointer: TypeAlias = Callable[[ObjectLink, int], bytes | None]
"""The TLV of a RowPointer to an object of the source with that number, if its table is known."""

_SUMMED_SYNTAXES = frozenset({Syntax.COUNTER64, Syntax.GAUGE32, Syntax.GAUGE64})
_SUMMED_KINDS = frozenset({Kind.COUNTER, Kind.GAUGE})


@dataclass(frozen=True, slots=True)
class SummedColumn:
    """A column whose values mean something added up: a statistic that is a counter or gauge."""

    column: int
    name: str
    unit: str


@dataclass(frozen=True, slots=True)
class Binding:
    """One version of a class, ready to be written.

    Attributes:
        writers: by position in ``ClassSchema.elements``; ``None`` for what the lock has no column for.
        sums: what is summed, by position.
        not_shown: names of elements without a column.
    """

    schema: ClassSchema
    writers: tuple[Writer | None, ...]
    sums: dict[int, SummedColumn]
    not_shown: tuple[str, ...]


def bind(schema: ClassSchema, class_lock: ClassLock, pointer: Pointer) -> Binding:
    """Match the elements of ``schema`` to the current columns of ``class_lock``."""
    columns = {position: column_of(class_lock, element) for position, element in enumerate(schema.elements)}
    return Binding(
        schema,
        tuple(
            None if lock is None else _writer(lock, schema.elements[position], pointer)
            for position, lock in columns.items()
        ),
        dict(_summed(schema, columns)),
        tuple(schema.elements[position].name for position, lock in columns.items() if lock is None),
    )


def column_of(class_lock: ClassLock, element: Element) -> ElementLock | None:
    """The current column that can hold all values of ``element``; an exact match before a wider one."""
    fitting = [
        lock
        for lock in class_lock.elements
        if lock.current and lock.name == element.name and _fits(element, lock)
    ]
    return min(fitting, key=lambda lock: lock.form != _form(element, lock), default=None)


def _fits(element: Element, lock: ElementLock) -> bool:
    return _form(element, lock).fits(lock.form)


def _form(element: Element, lock: ElementLock) -> Form:
    # The feed does not carry the unit that a mapping names: the lock has kept it.
    timed = element.type in (ValueType.DURATION, ValueType.TIME)
    return form_of(element, lock.unit if timed else "")


def _summed(
    schema: ClassSchema, columns: dict[int, ElementLock | None]
) -> Iterator[tuple[int, SummedColumn]]:
    for position, lock in columns.items():
        element = schema.elements[position]
        if (
            lock is not None
            and position >= len(schema.properties)
            and lock.syntax in _SUMMED_SYNTAXES
            and lock.kind in _SUMMED_KINDS
            and element.type.integer_bits
        ):
            yield position, SummedColumn(lock.column, element.name, element.unit)


def _writer(lock: ElementLock, element: Element, pointer: Pointer) -> Writer:
    if lock.syntax is Syntax.ROW_POINTER:
        return _reference_writer(lock.column, lock.twin.column if lock.twin else None, pointer)
    single = element.type is ValueType.F32
    if lock.twin is not None:
        floats = lock.syntax is Syntax.FLOAT64
        encode = float_encoder(single=single) if floats else encoder_with_length(lock.syntax)
        return _pair_writer(lock.column, lock.twin.column, encode)
    numbers = {named.value: lock.numbers.get(named.label, 1) for named in element.values}
    return _plain_writer(lock.column, value_encoder(lock.form, numbers, single=single))


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
        cells[column] = pointer(value, source) if isinstance(value, ObjectLink) else None
        if name_column is not None:
            cells[name_column] = text(value.stable_name) if linked else None  # type: ignore[union-attr]

    return write


def row_pointer(column: bytes, source: int, row: int) -> bytes:
    """The TLV of a pointer to a row: the instance of ``column`` (content octets of its name) in it."""
    return ber.encode_tlv(ber.OBJECT_IDENTIFIER, column + ber.encode_sub_identifiers((source, row)))
