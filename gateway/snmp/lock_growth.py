"""How a schema lock grows by classes, and what growing by anything has in common.

Growing is a pure function of the lock and the schemas, so that the same inputs give the same file anywhere.
Nothing that a lock says is ever taken back: what changed gets another column, what went away keeps its own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.schema import ClassSchema, Element
from gateway.snmp.lock import Lock
from gateway.snmp.lock_entries import (
    FIRST_ELEMENT_COLUMN,
    MAX_ARC,
    UNKNOWN_LABEL,
    UNKNOWN_NUMBER,
    ClassLock,
    ElementLock,
    EnumerationNumber,
    Status,
    Twin,
)
from gateway.snmp.names import MAX_DESCRIPTOR, unique, upper_camel
from gateway.snmp.names import label as label_of
from gateway.snmp.syntax import Form, Syntax, form_of, needs_twin

Units: TypeAlias = Mapping[tuple[str, str], str]
"""``snmp_unit`` of durations and times, by class and element."""

MAX_COLUMNS_PER_CLASS = 2_000
MAX_VALUES_PER_ENUMERATION = 1_000
_TWIN_SUFFIXES = {Syntax.ROW_POINTER: "Name", Syntax.FLOAT64: "Text"}
_MAX_CLASS_DESCRIPTOR = 40  # leaves room for "ObsoleteGroup" and the like below 64


class LockFullError(Exception):
    """A peer's schema needs more numbers than a lock gives out; the text says which bound was met."""


def snmp_units(mapping: MappingFile) -> dict[tuple[str, str], str]:
    """The units that a mapping names for durations and times, for `extend`."""
    return {
        (class_name, name): element.snmp_unit
        for class_name, rule in mapping.classes.items()
        for name, element in (*rule.properties.items(), *rule.statistics.items())
        if element.snmp_unit
    }


def new_lock(package: str, arc: int, module: str, prefix: str, today: dt.date) -> Lock:
    """A lock without classes. Raises ``ValueError`` (pydantic's) where a name or number is not allowed."""
    return Lock(package=package, arc=arc, module=module, prefix=prefix, revisions=(today,))


def reserve(lock: Lock, names: Iterable[str], today: dt.date) -> Lock:
    """``lock`` with arcs set aside, in this order, for classes that have no elements yet."""
    growing = _Growing(lock)
    for name in names:
        growing.class_lock(name)
    return growing.result(today)


def extend(
    lock: Lock,
    schemas: Iterable[ClassSchema],
    today: dt.date,
    *,
    units: Units | None = None,
    retire: bool = True,
) -> Lock:
    """``lock`` with columns for everything in ``schemas`` that it has none for.

    Several versions of one class share its table: each form that an element has in any of them keeps or
    gets a column.

    Args:
        lock: stays as it is; returned itself when nothing is new.
        schemas: classes of the lock's package, with the mapping applied.
        today: becomes LAST-UPDATED when anything is new.
        units: what `snmp_units` says.
        retire: the schemas are the whole truth about their classes: columns of elements or forms that none
            of them has turn obsolete. ``False`` where versions come to be known one after the other.

    Raises:
        LockFullError: a bound was met; ``lock`` can be used on.
        ValueError: a schema of another package, or a unit that does not suit its element.
    """
    versions: dict[str, list[ClassSchema]] = {}
    for schema in schemas:
        if not lock.provisional and schema.key.package != lock.package:
            raise ValueError(f"{schema.key} is not of the package {lock.package}")
        versions.setdefault(lock.entry_name(schema.key), []).append(schema)
    growing = _Growing(lock)
    for name, of_class in versions.items():
        growing.grow_class(name, of_class, units or {}, retire=retire)
    return growing.result(today)


def revised(lock: Lock, today: dt.date, **entries: object) -> Lock:
    """``lock`` with these entries in place of its own, as of ``today``; itself where they are the same."""
    if all(getattr(lock, name) == value for name, value in entries.items()):
        return lock
    # The clock of a site may have been set back: revisions ascend all the same.
    revisions = tuple(sorted({*lock.revisions, max(today, lock.last_updated)}))
    return Lock(**{**dict(lock), **entries, "revisions": revisions})


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A column that some version of the class needs."""

    element: Element
    form: Form
    twin: bool


@dataclass(slots=True)
class _Growing:
    """A lock being extended: its classes by name, and the descriptors that are taken."""

    lock: Lock
    classes: dict[str, ClassLock] = field(init=False)
    _taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.classes = {class_lock.name: class_lock for class_lock in self.lock.classes}

    @property
    def taken(self) -> set[str]:
        """Descriptors in use, in lower case; collected when the first new one is needed, which is rare."""
        if not self._taken:
            self._taken = {descriptor.lower() for descriptor in self.lock.descriptors()}
        return self._taken

    def result(self, today: dt.date) -> Lock:
        return revised(self.lock, today, classes=tuple(self.classes.values()))

    def class_lock(self, name: str) -> ClassLock:
        """The class of that name, with the next arc where it is new."""
        if name not in self.classes:
            arc = max((c.arc for c in self.classes.values()), default=0) + 1
            if arc > MAX_ARC:
                raise LockFullError(f"{name}: a module has at most {MAX_ARC} classes")
            class_lock = ClassLock(name=name, arc=arc, descriptor=self._class_descriptor(name, arc))
            self.taken.update(descriptor.lower() for descriptor in class_lock.reserved_descriptors)
            self.classes[name] = class_lock
        return self.classes[name]

    def _class_descriptor(self, name: str, arc: int) -> str:
        wanted = self.lock.prefix + upper_camel(name)
        descriptor = unique(wanted, self.taken, _MAX_CLASS_DESCRIPTOR)
        while not self.taken.isdisjoint(
            d.lower() for d in ClassLock(name=name, arc=arc, descriptor=descriptor).reserved_descriptors
        ):
            self.taken.add(descriptor.lower())
            descriptor = unique(wanted, self.taken, _MAX_CLASS_DESCRIPTOR)
        return descriptor

    def grow_class(self, name: str, versions: Sequence[ClassSchema], units: Units, *, retire: bool) -> None:
        class_lock = self.class_lock(name)
        elements = list(class_lock.elements)
        kept: set[int] = set()
        for wanted in _wanted(versions, units):
            place = _place(elements, wanted)
            if place is None:
                place = len(elements)
                elements.append(self._new_element(class_lock.descriptor, _next_column(elements), wanted))
            elements[place] = self._completed(elements[place], elements, wanted)
            kept.add(elements[place].column)
        if retire:
            elements = [
                element
                if element.column in kept or not element.current
                else element.model_copy(update={"status": Status.OBSOLETE})
                for element in elements
            ]
        self.classes[name] = class_lock.model_copy(update={"elements": tuple(elements)})

    def _new_element(self, class_descriptor: str, column: int, wanted: _Wanted) -> ElementLock:
        enumeration = wanted.form.syntax is Syntax.ENUMERATION
        return ElementLock(
            name=wanted.element.name,
            column=column,
            kind=wanted.form.kind,
            syntax=wanted.form.syntax,
            unit=wanted.form.unit,
            descriptor=self._take(class_descriptor + upper_camel(wanted.element.name)),
            values=extended_values((), wanted.element) if enumeration else (),
        )

    def _completed(
        self, element: ElementLock, elements: Sequence[ElementLock], wanted: _Wanted
    ) -> ElementLock:
        """``element`` with the second column and the enumeration numbers that ``wanted`` needs beside."""
        # What is placed in a column of eight octets is to be read as text, whatever form it would have today.
        if element.twin is None and (wanted.twin or element.syntax is Syntax.FLOAT64):
            suffix = _TWIN_SUFFIXES.get(element.syntax, "Length")
            base = element.descriptor[: MAX_DESCRIPTOR - len(suffix)]
            twin = Twin(column=_next_column(elements), descriptor=self._take(base + suffix))
            element = element.model_copy(update={"twin": twin})
        if element.syntax is Syntax.ENUMERATION:
            values = extended_values(element.values, wanted.element)
            if values != element.values:
                element = element.model_copy(update={"values": values})
        return element

    def _take(self, wanted: str) -> str:
        descriptor = unique(wanted, self.taken)
        self.taken.add(descriptor.lower())
        return descriptor


def _wanted(versions: Sequence[ClassSchema], units: Units) -> list[_Wanted]:
    """Each element and form once; where versions differ in width, the form that holds both."""
    found: list[_Wanted] = []
    for schema in versions:
        for element in schema.elements:
            form = form_of(element, units.get((schema.key.name, element.name), ""))
            found.append(_Wanted(element, form, needs_twin(element, form)))
    return [
        wanted
        for wanted in found
        if not any(
            wanted.element.name == other.element.name
            and wanted.form != other.form
            and wanted.form.fits(other.form)
            for other in found
        )
    ]


def _place(elements: Sequence[ElementLock], wanted: _Wanted) -> int | None:
    """Which of the current columns takes the values; an equal form before a wider one."""
    places = [
        place
        for place, element in enumerate(elements)
        if element.current and element.name == wanted.element.name and wanted.form.fits(element.form)
    ]
    return min(places, key=lambda place: elements[place].form != wanted.form, default=None)


def _next_column(elements: Sequence[ElementLock]) -> int:
    used = [column for element in elements for column in element.columns]
    if len(used) >= MAX_COLUMNS_PER_CLASS:
        raise LockFullError(f"a class has at most {MAX_COLUMNS_PER_CLASS} columns")
    return max(used, default=FIRST_ELEMENT_COLUMN - 1) + 1


def extended_values(values: tuple[EnumerationNumber, ...], element: Element) -> tuple[EnumerationNumber, ...]:
    """``values`` and what the element has beside; unknown(1) comes first even if the element lacks it.

    Raises:
        LockFullError: these are more than an enumeration can have.
    """
    extended = list(values) or [
        EnumerationNumber(value=UNKNOWN_LABEL, label=UNKNOWN_LABEL, number=UNKNOWN_NUMBER)
    ]
    known = {entry.value for entry in extended}
    labels = {entry.label.lower() for entry in extended}
    for named in element.values:
        if named.label in known:
            continue
        if len(extended) >= MAX_VALUES_PER_ENUMERATION:
            raise LockFullError(
                f"{element.name}: an enumeration has at most {MAX_VALUES_PER_ENUMERATION} values"
            )
        label = unique(label_of(named.label), labels)
        number = max(entry.number for entry in extended) + 1
        extended.append(EnumerationNumber(value=named.label, label=label, number=number))
        known.add(named.label)
        labels.add(label.lower())
    return tuple(extended)
