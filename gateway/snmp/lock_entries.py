"""The entries of a schema lock: classes with their elements, events with their arguments.

Values and the checks that each of them must pass by itself; `gateway.snmp.lock` holds them together.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, model_validator

from gateway.model.schema import Kind
from gateway.snmp.row_columns import ROW_COLUMNS
from gateway.snmp.syntax import TWIN_SYNTAXES, UNIT_NANOSECONDS, Form, Syntax
from gateway.yaml_documents import StrictModel

FIRST_ELEMENT_COLUMN = 100
"""Columns 1 to 99 of each table belong to the gateway (`gateway.snmp.row_columns`)."""

MAX_COLUMN = 65535
MAX_ARC = 999
"""Of packages and classes, so that package * 1000 + class is one number (agClassIndex)."""

MAX_EVENT_ARC = 65535
"""Of events and arguments: what the specific-trap of SNMPv1 and every tool can hold."""

UNKNOWN_LABEL = "unknown"
UNKNOWN_NUMBER = 1
"""Every enumeration begins with unknown(1): what a value becomes that the lock does not know yet."""

_DESCRIPTOR = r"^[a-z][A-Za-z0-9]{0,63}$"
Descriptor = Annotated[str, Field(pattern=_DESCRIPTOR)]
Column = Annotated[int, Field(ge=FIRST_ELEMENT_COLUMN, le=MAX_COLUMN)]
Arc = Annotated[int, Field(ge=1, le=MAX_ARC)]
EventArc = Annotated[int, Field(ge=1, le=MAX_EVENT_ARC)]

_ROW_SUFFIXES = tuple(text.suffix for text in ROW_COLUMNS.values())
_CLASS_SUFFIXES = ("", "Table", "Entry", "Group", "ObsoleteGroup", *_ROW_SUFFIXES)


class Status(enum.Enum):
    """Whether something is in use; what is obsolete stays in the MIB and has no value for ever."""

    CURRENT = "current"
    OBSOLETE = "obsolete"


class EnumerationNumber(StrictModel):
    """One value of an enumeration: ``value`` is the model's label, ``label`` what SMIv2 lets it be."""

    value: str
    label: Descriptor
    number: Annotated[int, Field(ge=1, le=2**31 - 1)]


class ValueLock(StrictModel):
    """What a column of a class and an argument of events have in common.

    Attributes:
        name: of the element or argument.
        unit: what a duration or time is counted in, where not nanoseconds or DateAndTime.
        values: the numbers of an enumeration, ``unknown`` first; empty for every other syntax.
    """

    name: str
    syntax: Syntax
    descriptor: Descriptor
    unit: str = ""
    status: Status = Status.CURRENT
    values: tuple[EnumerationNumber, ...] = ()

    @property
    def current(self) -> bool:
        """Whether it has values."""
        return self.status is Status.CURRENT

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each of the model's labels."""
        return {entry.value: entry.number for entry in self.values}

    @model_validator(mode="after")
    def _parts_fit(self) -> ValueLock:
        if bool(self.values) != (self.syntax is Syntax.ENUMERATION):
            raise ValueError("'values' belong to the syntax enumeration, and to no other")
        if self.values and (self.values[0].label, self.values[0].number) != (UNKNOWN_LABEL, UNKNOWN_NUMBER):
            raise ValueError(f"the first value must be {UNKNOWN_LABEL}({UNKNOWN_NUMBER})")
        refuse_repeated("the number", (entry.number for entry in self.values))
        refuse_repeated("the label", (entry.label.lower() for entry in self.values))
        refuse_repeated("the value", (entry.value for entry in self.values))
        if self.unit and self.unit not in UNIT_NANOSECONDS:
            raise ValueError(f"the unit must be one of {', '.join(UNIT_NANOSECONDS)}")
        return self


class Twin(StrictModel):
    """A second column: the octets of the whole text, the name of what is pointed to, a number as text."""

    column: Column
    descriptor: Descriptor


class ElementLock(ValueLock):
    """One column of a class: an element as it once was. A changed one gets another column."""

    column: Column
    kind: Kind = Kind.GAUGE
    twin: Twin | None = None

    @property
    def columns(self) -> tuple[int, ...]:
        """All columns that the element occupies."""
        return (self.column,) if self.twin is None else (self.column, self.twin.column)

    @property
    def descriptors(self) -> tuple[str, ...]:
        """Their descriptors, in the same order."""
        return (self.descriptor,) if self.twin is None else (self.descriptor, self.twin.descriptor)

    @property
    def form(self) -> Form:
        """What makes this column this one and not another of the same element."""
        return Form(self.syntax, self.kind, self.unit)

    @model_validator(mode="after")
    def _may_have_a_twin(self) -> ElementLock:
        if self.twin is not None and self.syntax not in TWIN_SYNTAXES:
            raise ValueError(f"an element of syntax {self.syntax.value} has no second column")
        return self


class ArgumentTwin(StrictModel):
    """What stands in a notification after a pointer: the name of the object pointed to."""

    arc: EventArc
    descriptor: Descriptor


class ArgumentLock(ValueLock):
    """An argument of events, as an object that only notifications carry: all events of the package share it.

    Attributes:
        arc: below the module's arc of such objects.
        twin: of a reference, and of nothing else.
    """

    arc: EventArc
    twin: ArgumentTwin | None = None

    @property
    def arcs(self) -> tuple[int, ...]:
        """All arcs that the argument occupies, in the order in which a notification carries them."""
        return (self.arc,) if self.twin is None else (self.arc, self.twin.arc)

    @property
    def descriptors(self) -> tuple[str, ...]:
        """Their descriptors, in the same order."""
        return (self.descriptor,) if self.twin is None else (self.descriptor, self.twin.descriptor)

    @property
    def form(self) -> Form:
        """What makes this argument this one and not another of the same name."""
        return Form(self.syntax, Kind.GAUGE, self.unit)

    @model_validator(mode="after")
    def _references_have_a_name(self) -> ArgumentLock:
        if (self.twin is not None) != (self.syntax is Syntax.ROW_POINTER):
            raise ValueError("an argument has a second object if it is a reference, and only then")
        return self


class EventLock(StrictModel):
    """One event: its notification is arc ``arc`` below the module's notifications.

    Attributes:
        name: the event; ``package:event`` in a lock that holds events of any package.
        arguments: arcs of its arguments in the order of the notification. It grows at its end only, so that
            receivers may count on places.
    """

    name: str
    arc: EventArc
    descriptor: Descriptor
    status: Status = Status.CURRENT
    arguments: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _arguments_differ(self) -> EventLock:
        refuse_repeated("the argument", self.arguments)
        return self


class ClassLock(StrictModel):
    """One class: its table is arc ``arc`` of the module's objects.

    Attributes:
        name: the class; ``package:class`` in a lock that holds classes of any package.
        descriptor: what the descriptors of its table, entry, groups and columns begin with.
    """

    name: str
    arc: Arc
    descriptor: Descriptor
    elements: tuple[ElementLock, ...] = ()

    @property
    def index_descriptor(self) -> str:
        """The descriptor of the column that is the second index of the table."""
        return f"{self.descriptor}{_ROW_SUFFIXES[0]}"

    @property
    def reserved_descriptors(self) -> tuple[str, ...]:
        """Descriptors that the class needs beside those of its elements."""
        return tuple(self.descriptor + suffix for suffix in _CLASS_SUFFIXES)

    @property
    def columns(self) -> tuple[int, ...]:
        """All columns of elements, obsolete ones too, ascending."""
        return tuple(sorted(column for element in self.elements for column in element.columns))

    @model_validator(mode="after")
    def _columns_differ(self) -> ClassLock:
        refuse_repeated("the column", (c for e in self.elements for c in e.columns))
        refuse_repeated(
            "the current element",
            ((e.name, e.kind.value, e.syntax.value, e.unit) for e in self.elements if e.current),
        )
        return self


def refuse_repeated(what: str, items: Iterable[object]) -> None:
    """Raise ``ValueError`` if anything among ``items`` stands there twice."""
    repeated = [item for item, times in Counter(items).items() if times > 1]
    if repeated:
        raise ValueError(f"{what} {repeated[0]} is used twice; numbers and names are never used again")
