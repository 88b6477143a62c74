"""The schema lock: which numbers, names and syntaxes a package's classes and elements have in SNMP, for ever.

A lock is text under version control (``mappings/locks/<package>.lock.yaml``) or, for classes met at run
time that no shipped lock knows, a file in the state folder. It only ever grows: `gateway.snmp.lock_growth`
is its one writer. Numbers are relative; the root is added from the configuration. Here are the values,
the checks that every lock must pass, and the file's reader and writer.
"""

from __future__ import annotations

import datetime as dt
import enum
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, model_validator

from gateway.model.schema import ClassKey, Kind
from gateway.snmp.ber import Oid
from gateway.snmp.row_columns import ROW_COLUMNS
from gateway.snmp.syntax import TWIN_SYNTAXES, UNIT_NANOSECONDS, Form, Syntax
from gateway.yaml_documents import StrictModel, parse_document, read_document

DEFAULT_ROOT: Oid = (1, 3, 6, 1, 4, 1, 8072, 9999, 9999)
"""The experimental arc of net-snmp (netSnmpPlaypen): for trying out, not for a site that publishes."""

FIRST_ELEMENT_COLUMN = 100
"""Columns 1 to 99 of each table belong to the gateway (`gateway.snmp.row_columns`)."""

MAX_COLUMN = 65535
MAX_ARC = 999
"""Of packages and classes, so that package * 1000 + class is one number (agClassIndex)."""

PROVISIONAL_PACKAGE_NUMBER = 1_000
"""Stands for the package in agClassIndex where a class is provisional."""

UNKNOWN_LABEL = "unknown"
UNKNOWN_NUMBER = 1
"""Every enumeration begins with unknown(1): what a value becomes that the lock does not know yet."""

_DESCRIPTOR = r"^[a-z][A-Za-z0-9]{0,63}$"
_MODULE = r"^[A-Z][A-Za-z0-9-]{0,63}$"
Descriptor = Annotated[str, Field(pattern=_DESCRIPTOR)]
Column = Annotated[int, Field(ge=FIRST_ELEMENT_COLUMN, le=MAX_COLUMN)]
Arc = Annotated[int, Field(ge=1, le=MAX_ARC)]

_ROW_SUFFIXES = tuple(text.suffix for text in ROW_COLUMNS.values())
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NOT_PLAIN_IN_YAML = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})

_CLASS_SUFFIXES = ("", "Table", "Entry", "Group", "ObsoleteGroup", *_ROW_SUFFIXES)
_MODULE_SUFFIXES = (
    "MIB",
    "Notifications",
    "Objects",
    "Conformance",
    "Groups",
    "Compliances",
    "Compliance",
)


class Status(enum.Enum):
    """Whether a column is in use; an obsolete one stays in the MIB and is empty for ever."""

    CURRENT = "current"
    OBSOLETE = "obsolete"


class Twin(StrictModel):
    """A second column of an element: the octets of the whole text, or the name of what is pointed to."""

    column: Column
    descriptor: Descriptor


class EnumerationNumber(StrictModel):
    """One value of an enumeration: ``value`` is the model's label, ``label`` what SMIv2 lets it be."""

    value: str
    label: Descriptor
    number: Annotated[int, Field(ge=1, le=2**31 - 1)]


class ElementLock(StrictModel):
    """One column of a class: an element as it once was. A changed one gets another column.

    Attributes:
        unit: what a duration or time is counted in, where not nanoseconds or DateAndTime.
        values: the numbers of an enumeration, ``unknown`` first; empty for every other syntax.
    """

    name: str
    column: Column
    kind: Kind = Kind.GAUGE
    syntax: Syntax
    descriptor: Descriptor
    unit: str = ""
    status: Status = Status.CURRENT
    twin: Twin | None = None
    values: tuple[EnumerationNumber, ...] = ()

    @property
    def columns(self) -> tuple[int, ...]:
        """All columns that the element occupies."""
        return (self.column,) if self.twin is None else (self.column, self.twin.column)

    @property
    def descriptors(self) -> tuple[str, ...]:
        """Their descriptors, in the same order."""
        return (self.descriptor,) if self.twin is None else (self.descriptor, self.twin.descriptor)

    @property
    def current(self) -> bool:
        """Whether the column has values."""
        return self.status is Status.CURRENT

    @property
    def form(self) -> Form:
        """What makes this column this one and not another of the same element."""
        return Form(self.syntax, self.kind, self.unit)

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each of the model's labels."""
        return {entry.value: entry.number for entry in self.values}

    @model_validator(mode="after")
    def _parts_fit(self) -> ElementLock:
        if bool(self.values) != (self.syntax is Syntax.ENUMERATION):
            raise ValueError("'values' belong to the syntax enumeration, and to no other")
        if self.values and (self.values[0].label, self.values[0].number) != (UNKNOWN_LABEL, UNKNOWN_NUMBER):
            raise ValueError(f"the first value must be {UNKNOWN_LABEL}({UNKNOWN_NUMBER})")
        _refuse_repeated("the number", (entry.number for entry in self.values))
        _refuse_repeated("the label", (entry.label.lower() for entry in self.values))
        _refuse_repeated("the value", (entry.value for entry in self.values))
        if self.twin is not None and self.syntax not in TWIN_SYNTAXES:
            raise ValueError(f"an element of syntax {self.syntax.value} has no second column")
        if self.unit and self.unit not in UNIT_NANOSECONDS:
            raise ValueError(f"the unit must be one of {', '.join(UNIT_NANOSECONDS)}")
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
        _refuse_repeated("the column", (c for e in self.elements for c in e.columns))
        _refuse_repeated(
            "the current element",
            ((e.name, e.kind.value, e.syntax.value, e.unit) for e in self.elements if e.current),
        )
        return self


class Lock(StrictModel):
    """The lock of one package, or (``arc`` 0, no ``package``) of all that is provisional at a site.

    Attributes:
        arc: below ``root.2`` for a package; 0 for the provisional module at ``root.3``.
        revisions: the days on which the content changed, ascending.
    """

    version: Annotated[int, Field(ge=1, le=1)] = 1
    package: str
    arc: Annotated[int, Field(ge=0, le=MAX_ARC)]
    module: Annotated[str, Field(pattern=_MODULE)]
    prefix: Annotated[str, Field(pattern=r"^[a-z][A-Za-z0-9]{0,15}$")]
    revisions: Annotated[tuple[dt.date, ...], Field(min_length=1)]
    classes: tuple[ClassLock, ...] = ()

    @property
    def provisional(self) -> bool:
        """Whether this lock takes classes of any package, at the site's own arc."""
        return self.arc == 0

    @property
    def last_updated(self) -> dt.date:
        """LAST-UPDATED of the module."""
        return self.revisions[-1]

    @property
    def module_arc(self) -> Oid:
        """Where the module stands below the root."""
        return (3,) if self.provisional else (2, self.arc)

    def class_name(self, key: ClassKey) -> str:
        """What the class is called in this lock."""
        return str(key) if self.provisional else key.name

    def find(self, key: ClassKey) -> ClassLock | None:
        """The class of that package and name, or ``None`` where this lock does not know it."""
        if not self.provisional and key.package != self.package:
            return None
        return self._classes_by_name.get(self.class_name(key))

    def entry_oid(self, root: Oid, class_lock: ClassLock) -> Oid:
        """The object identifier of the table's entry: columns and index follow it."""
        return (*root, *self.module_arc, 1, class_lock.arc, 1)

    def class_index(self, class_lock: ClassLock) -> int:
        """What identifies the class in the tables of the fixed MIB (agClassIndex)."""
        package = PROVISIONAL_PACKAGE_NUMBER if self.provisional else self.arc
        return package * (MAX_ARC + 1) + class_lock.arc

    @property
    def reserved_descriptors(self) -> tuple[str, ...]:
        """Descriptors that the module needs beside those of its classes."""
        return tuple(self.prefix + suffix for suffix in _MODULE_SUFFIXES)

    def descriptors(self) -> Iterator[str]:
        """Every descriptor of the module."""
        yield from self.reserved_descriptors
        for class_lock in self.classes:
            yield from class_lock.reserved_descriptors
            for element in class_lock.elements:
                yield from element.descriptors

    @cached_property
    def _classes_by_name(self) -> dict[str, ClassLock]:
        return {class_lock.name: class_lock for class_lock in self.classes}

    @model_validator(mode="after")
    def _names_and_numbers_differ(self) -> Lock:
        if self.provisional == bool(self.package):
            raise ValueError("a package has an arc from 1 on; arc 0 is for provisional classes of no package")
        if list(self.revisions) != sorted(set(self.revisions)):
            raise ValueError("revisions must ascend")
        _refuse_repeated("the class", (c.name for c in self.classes))
        _refuse_repeated("the arc", (c.arc for c in self.classes))
        _refuse_repeated("the descriptor", (d.lower() for d in self.descriptors()))
        return self


def _refuse_repeated(what: str, items: Iterable[object]) -> None:
    repeated = [item for item, times in Counter(items).items() if times > 1]
    if repeated:
        raise ValueError(f"{what} {repeated[0]} is used twice; numbers and names are never used again")


def read_lock(path: Path) -> Lock:
    """The lock in the file ``path``.

    Raises:
        gateway.yaml_documents.DocumentError: unreadable, not of this shape, or with numbers used twice;
            the text names file and line.
    """
    return read_document(path, Lock)


def parse_lock(text: str, path: Path) -> Lock:
    """Like `read_lock`, of text at hand; ``path`` only names it in complaints."""
    return parse_document(text, Lock, path)


def lock_text(lock: Lock) -> str:
    """The file's content: the same octets for the same lock; one line per element, for short reviews."""
    lines = [
        "# Numbers and names that this package has in SNMP. Append-only: written by `amqp-gateway mib gen`,",
        "# reviewed like code. What stands here once is never changed, moved or used for something else.",
        f"version: {lock.version}",
        f"package: {_flow(lock.package)}",
        f"arc: {lock.arc}",
        f"module: {lock.module}",
        f"prefix: {lock.prefix}",
        f"revisions: {_flow([*lock.revisions])}",
        "classes:" if lock.classes else "classes: []",
    ]
    for class_lock in lock.classes:
        lines += [
            f"- name: {_flow(class_lock.name)}",
            f"  arc: {class_lock.arc}",
            f"  descriptor: {class_lock.descriptor}",
            "  elements:" if class_lock.elements else "  elements: []",
        ]
        lines += [
            f"  - {_flow(element.model_dump(mode='json', exclude_defaults=True))}"
            for element in class_lock.elements
        ]
    return "\n".join(lines) + "\n"


def _flow(value: object) -> str:
    """``value`` as YAML on one line; only ASCII, so that no editor's idea of an encoding can change it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(inner) for inner in value) + "]"
    if isinstance(value, int) or (
        isinstance(value, str) and _WORD.fullmatch(value) and value.lower() not in _NOT_PLAIN_IN_YAML
    ):
        return str(value)  # nearly everything, and a hundred times faster
    # Text with line breaks would be folded over lines in any style but the double-quoted one.
    style = None if not isinstance(value, str) or value.isprintable() else '"'
    line: str = yaml.safe_dump([value], default_flow_style=True, default_style=style, width=2**31)
    return line.strip()[1:-1]
