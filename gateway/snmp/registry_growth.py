"""The growth of OID registries by classes and events.

Growing is a pure function of registry and schemas, so that the same inputs give the same file anywhere.
A registry never withdraws a number: a changed entry gets another one, a removed entry keeps its own, and the
arguments of a notification grow at their end only.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from gateway.model.schema import Argument, ClassSchema, Element, EventSchema
from gateway.snmp.oid_registry import (
    FIRST_ELEMENT_COLUMN,
    MAX_ARC,
    MAX_DESCRIPTOR,
    UNKNOWN_LABEL,
    UNKNOWN_NUMBER,
    ArgumentEntry,
    ArgumentTwin,
    ClassEntry,
    ElementEntry,
    EnumerationNumber,
    EventEntry,
    OidRegistry,
    Status,
    Twin,
    unique,
    upper_camel,
)
from gateway.snmp.oid_registry import label as label_of
from gateway.snmp.syntax import (
    Form,
    Syntax,
    argument_fits,
    argument_form,
    element_of,
    form_of,
    gauge32_unit,
    needs_twin,
    unit_of,
)

if TYPE_CHECKING:  # only `mib gen` hands mappings in
    from gateway.mapping.rules import Mapping as MappingFile

Units: TypeAlias = Mapping[tuple[str, str], str]
"""``snmp_unit`` of durations and times, by class and element."""

MAX_COLUMNS_PER_CLASS = 2_000
MAX_VALUES_PER_ENUMERATION = 1_000
_TWIN_SUFFIXES = {Syntax.ROW_POINTER: "Name", Syntax.FLOAT64: "Text", Syntax.GAUGE64: "Gauge32"}
_GROWING_TWINS = frozenset({Syntax.FLOAT64, Syntax.GAUGE64})
_MAX_CLASS_DESCRIPTOR = 40  # leaves room for "ObsoleteGroup" and the like below 64


class RegistryFullError(Exception):
    """A peer's schema needs more numbers than a registry assigns; the text names the bound."""


def snmp_units(mapping: MappingFile) -> dict[tuple[str, str], str]:
    """Return the units that a mapping names for durations and times, for `extend`."""
    return {
        (class_name, name): element.snmp_unit
        for class_name, rule in mapping.classes.items()
        for name, element in (*rule.properties.items(), *rule.statistics.items())
        if element.snmp_unit
    }


def new_registry(package: str, arc: int, module: str, prefix: str, today: dt.date) -> OidRegistry:
    """Return a registry without classes. Raises ``ValueError`` where a name or number is not allowed."""
    return OidRegistry(package=package, arc=arc, module=module, prefix=prefix, revisions=(today,))


def reserve(registry: OidRegistry, names: Iterable[str], today: dt.date) -> OidRegistry:
    """Return ``registry`` with arcs reserved, in this order, for classes that have no elements yet."""
    growing = _GrowingClasses(registry)
    for name in names:
        growing.class_entry(name)
    return growing.result(today)


def extend(
    registry: OidRegistry,
    schemas: Iterable[ClassSchema],
    today: dt.date,
    *,
    units: Units | None = None,
    retire: bool = True,
) -> OidRegistry:
    """Return ``registry`` with columns for everything in ``schemas`` that it has none for.

    Several versions of one class share its table: each form that an element has in any of them keeps or
    gets a column.

    Args:
        registry: is not changed; returned itself when nothing is new.
        schemas: classes of the registry's package, with the mapping applied.
        today: becomes LAST-UPDATED when anything is new.
        units: the result of `snmp_units`.
        retire: whether the schemas are all versions of their classes: columns of elements or forms that none
            of them has become obsolete. ``False`` where versions are received one after the other.

    Raises:
        RegistryFullError: a bound was met; ``registry`` remains usable.
        ValueError: a schema of another package, or a unit that does not suit its element.
    """
    versions: dict[str, list[ClassSchema]] = {}
    for schema in schemas:
        if not registry.provisional and schema.key.package != registry.package:
            raise ValueError(f"{schema.key} is not of the package {registry.package}")
        versions.setdefault(registry.entry_name(schema.key), []).append(schema)
    growing = _GrowingClasses(registry)
    for name, of_class in versions.items():
        growing.grow_class(name, of_class, units or {}, retire=retire)
    return growing.result(today)


def revised(registry: OidRegistry, today: dt.date, **entries: object) -> OidRegistry:
    """Return ``registry`` with these entries, revised ``today``; itself where they are the same."""
    if all(getattr(registry, name) == value for name, value in entries.items()):
        return registry
    # The clock of a site may have been set back: revisions ascend all the same.
    revisions = tuple(sorted({*registry.revisions, max(today, registry.last_updated)}))
    return OidRegistry(**{**dict(registry), **entries, "revisions": revisions})


class _Wanted(msgspec.Struct, frozen=True):
    """A column that some version of the class needs."""

    element: Element
    form: Form
    twin: bool


@dataclass(slots=True)
class _GrowingClasses:
    """A registry being extended: its classes by name, and the descriptors that are taken."""

    registry: OidRegistry
    classes: dict[str, ClassEntry] = field(init=False)
    _taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.classes = {class_entry.name: class_entry for class_entry in self.registry.classes}

    @property
    def taken(self) -> set[str]:
        """Descriptors in use, in lower case; collected when the first new one is needed, which is rare."""
        if not self._taken:
            self._taken = {descriptor.lower() for descriptor in self.registry.descriptors()}
        return self._taken

    def result(self, today: dt.date) -> OidRegistry:
        return revised(self.registry, today, classes=tuple(self.classes.values()))

    def class_entry(self, name: str) -> ClassEntry:
        """Return the class of that name; a new one gets the next arc."""
        if name not in self.classes:
            # Never a free number below the highest one: it may have been published.
            arc = max((c.arc for c in self.classes.values()), default=0) + 1
            if arc > MAX_ARC:
                raise RegistryFullError(f"{name}: a module has at most {MAX_ARC} classes")
            class_entry = ClassEntry(name=name, arc=arc, descriptor=self._class_descriptor(name, arc))
            self.taken.update(descriptor.lower() for descriptor in class_entry.reserved_descriptors)
            self.classes[name] = class_entry
        return self.classes[name]

    def _class_descriptor(self, name: str, arc: int) -> str:
        wanted = self.registry.prefix + upper_camel(name)
        descriptor = unique(wanted, self.taken, _MAX_CLASS_DESCRIPTOR)
        while not self.taken.isdisjoint(
            d.lower() for d in ClassEntry(name=name, arc=arc, descriptor=descriptor).reserved_descriptors
        ):
            self.taken.add(descriptor.lower())
            descriptor = unique(wanted, self.taken, _MAX_CLASS_DESCRIPTOR)
        return descriptor

    def grow_class(self, name: str, versions: Sequence[ClassSchema], units: Units, *, retire: bool) -> None:
        class_entry = self.class_entry(name)
        elements = list(class_entry.elements)
        free = _FreeColumns(elements)
        kept: set[int] = set()
        for wanted in _wanted(versions, units):
            place = _place(elements, wanted)
            if place is None:
                place = len(elements)
                elements.append(self._new_element(class_entry.descriptor, free.take(), wanted))
            elements[place] = self._completed(elements[place], free, wanted)
            kept.add(elements[place].column)
        if retire:
            elements = [
                element
                if element.column in kept or not element.current
                else element.model_copy(update={"status": Status.OBSOLETE})
                for element in elements
            ]
        self.classes[name] = class_entry.model_copy(update={"elements": tuple(elements)})

    def _new_element(self, class_descriptor: str, column: int, wanted: _Wanted) -> ElementEntry:
        enumeration = wanted.form.syntax is Syntax.ENUMERATION
        return ElementEntry(
            name=wanted.element.name,
            column=column,
            kind=wanted.form.kind,
            syntax=wanted.form.syntax,
            unit=wanted.form.unit,
            descriptor=self._take(class_descriptor + upper_camel(wanted.element.name)),
            values=extended_values((), wanted.element) if enumeration else (),
        )

    def _completed(self, element: ElementEntry, free: _FreeColumns, wanted: _Wanted) -> ElementEntry:
        """Return ``element`` with the second column and the enumeration numbers that ``wanted`` needs."""
        # What is placed in a column of eight octets or of 64 bits is to be read by every tool, whatever form
        # it would have today.
        if element.twin is None and (wanted.twin or element.syntax in _GROWING_TWINS):
            unit = ""
            if element.syntax is Syntax.GAUGE64:
                unit = gauge32_unit(unit_of(wanted.element), element.kind)
            # A unit that is in the name as well cannot be mistaken for that of the first column.
            suffix = upper_camel(unit) if unit else _TWIN_SUFFIXES.get(element.syntax, "Length")
            # The suffix must stay, or `unique` would cut it from a long name.
            base = element.descriptor[: MAX_DESCRIPTOR - len(suffix)]
            column = free.take(is_kept=element.syntax is not Syntax.GAUGE64)
            twin = Twin(column=column, descriptor=self._take(base + suffix), unit=unit)
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
    """Return each element and form once; where versions differ in width, the form that holds both."""
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


def _place(elements: Sequence[ElementEntry], wanted: _Wanted) -> int | None:
    """Return the place of the current column that takes the values; an equal form before a wider one."""
    places = [
        place
        for place, element in enumerate(elements)
        if element.current and element.name == wanted.element.name and wanted.form.fits(element.form)
    ]
    return min(places, key=lambda place: elements[place].form != wanted.form, default=None)


class _FreeColumns:
    """The numbers that further columns of a class get, above all that there ever were."""

    def __init__(self, elements: Sequence[ElementEntry]) -> None:
        columns = [column for element in elements for column in element.columns]
        self._last = max(columns, default=FIRST_ELEMENT_COLUMN - 1)
        self._kept = len(columns) - sum(element.gauge32 is not None for element in elements)

    def take(self, *, is_kept: bool = True) -> int:
        """Return the next number. Raises `RegistryFullError` where the class has enough columns.

        Columns that are made of others when they are read are not counted: they need no memory for each row,
        and the class of a peer that once had room has it for ever.
        """
        if is_kept and self._kept >= MAX_COLUMNS_PER_CLASS:
            raise RegistryFullError(f"a class has at most {MAX_COLUMNS_PER_CLASS} columns")
        self._kept += is_kept
        self._last += 1
        return self._last


def extended_values(values: tuple[EnumerationNumber, ...], element: Element) -> tuple[EnumerationNumber, ...]:
    """Return ``values`` and the element's further ones; unknown(1) comes first even if the element lacks it.

    Raises:
        RegistryFullError: there are more values than an enumeration can have.
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
            raise RegistryFullError(
                f"{element.name}: an enumeration has at most {MAX_VALUES_PER_ENUMERATION} values"
            )
        label = unique(label_of(named.label), labels)
        # Above all that there ever were: the number of a value that went stays its own.
        number = max(entry.number for entry in extended) + 1
        extended.append(EnumerationNumber(value=named.label, label=label, number=number))
        known.add(named.label)
        labels.add(label.lower())
    return tuple(extended)


ArgumentUnits: TypeAlias = Mapping[tuple[str, str], Sequence[str]]
"""``snmp_unit`` of durations and times, and ``snmp_also`` where there is one, by event and argument."""

MAX_EVENTS = 1_000
MAX_ARGUMENTS = 2_000
MAX_ARGUMENTS_OF_AN_EVENT = 100
"""The maximum number of arguments of an event: more than a datagram holds."""

_ROW_SUFFIX = "Row"
_NAME_SUFFIX = "FullName"


def argument_units(mapping: MappingFile) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the units that a mapping names for arguments of events, for `extend_events`."""
    return {
        (event_name, name): (argument.snmp_unit, *filter(None, [argument.snmp_also]))
        for event_name, rule in mapping.events.items()
        for name, argument in rule.arguments.items()
        if argument.snmp_unit
    }


def extend_events(
    registry: OidRegistry,
    schemas: Iterable[EventSchema],
    today: dt.date,
    *,
    units: ArgumentUnits | None = None,
    retire: bool = True,
) -> OidRegistry:
    """Return ``registry`` with numbers for everything in ``schemas`` that it has none for.

    Events share arguments of the same name and form. Several versions of one event share its notification.

    Args:
        registry: is not changed; returned itself when nothing is new.
        schemas: events of the registry's package, with the mapping applied.
        today: becomes LAST-UPDATED when anything is new.
        units: the result of `argument_units`.
        retire: whether the schemas are all versions of their events: arguments that neither they nor other
            events have any more become obsolete. ``False`` where versions are received one after the other.

    Raises:
        RegistryFullError: a bound was met; ``registry`` remains usable.
        ValueError: a schema of another package, or a unit that does not suit its argument.
    """
    growing = _GrowingEvents(registry)
    given: set[str] = set()
    for schema in schemas:
        if not registry.provisional and schema.key.package != registry.package:
            raise ValueError(f"{schema.key} is not of the package {registry.package}")
        given.add(registry.entry_name(schema.key))
        growing.grow_event(schema, units or {})
    if retire:
        growing.retire(given)
    return revised(
        registry, today, arguments=tuple(growing.arguments.values()), events=tuple(growing.events.values())
    )


@dataclass(slots=True)
class _GrowingEvents:
    """A registry being extended: arguments by arc, events by name, and the descriptors that are taken."""

    registry: OidRegistry
    arguments: dict[int, ArgumentEntry] = field(init=False)
    events: dict[str, EventEntry] = field(init=False)
    _wanted: set[int] = field(default_factory=set)
    _taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.arguments = {argument.arc: argument for argument in self.registry.arguments}
        self.events = {event_entry.name: event_entry for event_entry in self.registry.events}

    def grow_event(self, schema: EventSchema, units: ArgumentUnits) -> None:
        event_entry = self._event(self.registry.entry_name(schema.key))
        arcs = list(event_entry.arguments)
        for argument, unit, is_first in _in_units(schema, units):
            arc = self._argument(argument, argument_form(argument, unit), arcs, is_first=is_first)
            self._wanted.add(arc)
            if arc not in arcs:
                arcs.append(arc)
        if len(arcs) > MAX_ARGUMENTS_OF_AN_EVENT:
            raise RegistryFullError(
                f"{schema.key}: an event has at most {MAX_ARGUMENTS_OF_AN_EVENT} arguments"
            )
        self.events[event_entry.name] = event_entry.model_copy(update={"arguments": tuple(arcs)})

    def retire(self, given: set[str]) -> None:
        """Make obsolete the arguments that no ``given`` event wants and no other event lists."""
        listed = {
            arc
            for name, event_entry in self.events.items()
            if name not in given
            for arc in event_entry.arguments
        }
        for arc, argument in self.arguments.items():
            if argument.current and arc not in self._wanted and arc not in listed:
                self.arguments[arc] = argument.model_copy(update={"status": Status.OBSOLETE})

    def _event(self, name: str) -> EventEntry:
        """Return the event of that name; a new one gets the next arc."""
        if name not in self.events:
            arc = max((event_entry.arc for event_entry in self.events.values()), default=0) + 1
            if len(self.events) >= MAX_EVENTS:
                raise RegistryFullError(f"{name}: a module has at most {MAX_EVENTS} events")
            descriptor = self._take(self.registry.prefix + upper_camel(name))
            self.events[name] = EventEntry(name=name, arc=arc, descriptor=descriptor)
        return self.events[name]

    def _argument(self, argument: Argument, form: Form, of_event: Sequence[int], *, is_first: bool) -> int:
        """Return the arc of the argument that takes these values, preferably one that the event has."""
        fitting = [
            entry
            for entry in self.arguments.values()
            if entry.current and entry.name == argument.name and argument_fits(form, entry.form)
        ]
        found = min(
            fitting,
            key=lambda entry: (entry.arc not in of_event, entry.form != form, entry.arc),
            default=None,
        )
        # A wider argument is shared only where this event lists it already: any other event gets the exact
        # form.
        if found is None or (found.form != form and found.arc not in of_event):
            found = self._new_argument(argument, form, "" if is_first else upper_camel(form.unit))
        if form.syntax is Syntax.ENUMERATION:
            values = extended_values(found.values, element_of(argument))
            found = found.model_copy(update={"values": values})
        self.arguments[found.arc] = found
        return found.arc

    def _new_argument(self, argument: Argument, form: Form, suffix: str) -> ArgumentEntry:
        arc = max((arc for entry in self.arguments.values() for arc in entry.arcs), default=0) + 1
        if len(self.arguments) >= MAX_ARGUMENTS:
            raise RegistryFullError(
                f"{argument.name}: a module has at most {MAX_ARGUMENTS} arguments of events"
            )
        base = f"{self.registry.prefix}Event{upper_camel(argument.name)}{suffix}"
        reference = form.syntax is Syntax.ROW_POINTER
        descriptor = self._take(base + _ROW_SUFFIX if reference else base)
        twin = ArgumentTwin(arc=arc + 1, descriptor=self._take(base + _NAME_SUFFIX)) if reference else None
        return ArgumentEntry(
            name=argument.name,
            arc=arc,
            syntax=form.syntax,
            descriptor=descriptor,
            unit=form.unit,
            twin=twin,
            values=extended_values((), element_of(argument)) if form.syntax is Syntax.ENUMERATION else (),
        )

    def _take(self, wanted: str) -> str:
        if not self._taken:
            self._taken = {descriptor.lower() for descriptor in self.registry.descriptors()}
        descriptor = unique(wanted, self._taken)
        self._taken.add(descriptor.lower())
        return descriptor


def _in_units(schema: EventSchema, units: ArgumentUnits) -> Iterator[tuple[Argument, str, bool]]:
    """Yield the arguments in the order of their objects, each with its unit, and whether it is the first one.

    Objects in further units come after all others.
    """
    named = {
        argument.name: units.get((schema.key.name, argument.name), ("",)) for argument in schema.arguments
    }
    for argument in schema.arguments:
        yield argument, named[argument.name][0], True
    for argument in schema.arguments:
        # Behind all others: a mapping may add a unit later, and the list of a notification grows at its end
        # only.
        for unit in named[argument.name][1:]:
            yield argument, unit, False
