"""Classes of the feed as classes of MBeans: their attributes, operations and values.

Every object has the gateway's own attributes first (`Own`), then one for each readable element, with its name
in the schema. `ShownClass` is one version of a class; objects of several versions exist side by side.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from gateway.feed.records import ClassRecord, Lifetime, ObjectRecord, UpdateRecord
from gateway.feed.values import FeedValue, ObjectLink
from gateway.jmx import types
from gateway.jmx.commands import (
    Attribute,
    AttributeType,
    Change,
    Command,
    DefineClass,
    JmxValue,
    NotificationType,
    Operation,
    Parameter,
    Result,
)
from gateway.jmx.names import DOMAIN, begins_with_parent
from gateway.jmx.plain_updates import PlainUpdates, times_of
from gateway.model.schema import Access, Argument, ClassSchema, Direction, Element, EventSchema, Kind, Method
from gateway.model.values import ValueType


def unlike(name: str, taken: Iterable[str]) -> str:
    """Return ``name``, followed by underscores until it is none of ``taken``."""
    taken = set(taken)
    while name in taken:
        name += "_"
    return name


def described(*texts: str) -> str:
    """Return the first of ``texts`` that is not blank, or a dash: Java accepts no empty descriptions."""
    return next((types.text(text) for text in texts if text.strip()), "-")


def descriptor(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that are not empty."""
    return {name: types.text(text) for name, text in fields.items() if text}


def units(value: Element | Argument) -> str:
    """Return the unit in which an element or argument is shown."""
    return value.unit or ("nanoseconds" if value.type is ValueType.DURATION else "")


FIRST_FREE_CLASS = 3
"""The first number of other classes than those in `gateway.jmx.own_beans`."""

READ_FRESH = Operation(
    "readFresh",
    "Read the object again from who manages it; when it returns, the attributes are what was read.",
    reads_only=True,
)
"""The operation that every managed object has, whatever its class; a method of that name gets a ``_``."""


@dataclass(frozen=True, slots=True, eq=False)
class ShownMethod:
    """One method.

    Attributes:
        method: the method in the schema.
        inputs: the arguments that a client passes, in order.
        outputs: those that it gets, with converters of their values; references are converted elsewhere.
        operation: the operation that clients see.
    """

    method: Method
    inputs: tuple[Argument, ...]
    outputs: tuple[tuple[Argument, types.Converter], ...]
    operation: Operation


def shown_methods(schema: ClassSchema) -> Mapping[str, ShownMethod]:
    """Return the methods of a class, by the names with which clients call them."""
    shown: dict[str, ShownMethod] = {}
    for number, method in enumerate(schema.methods):
        name = unlike(types.text(method.name.strip()) or f"method{number}", (READ_FRESH.name, *shown))
        shown[name] = _shown_method(name, method)
    return shown


def _shown_method(name: str, method: Method) -> ShownMethod:
    inputs = tuple(a for a in method.arguments if a.direction is not Direction.OUT)
    outputs = tuple(a for a in method.arguments if a.direction is not Direction.IN)
    operation = Operation(
        name,
        described(method.description, method.label, name),
        parameters=tuple(
            _parameter(argument, shown)
            for argument, shown in zip(inputs, _names(inputs, "argument"), strict=True)
        ),
        results=tuple(
            Result(
                shown, types.attribute_type(argument), described(argument.description, argument.label, shown)
            )
            for argument, shown in zip(outputs, _names(outputs, "result"), strict=True)
        ),
    )
    return ShownMethod(
        method, inputs, tuple((argument, types.converter(argument)) for argument in outputs), operation
    )


def _names(arguments: Iterable[Argument], instead: str) -> tuple[str, ...]:
    """Return the name of each: no two are alike, and none is empty, which Java does not accept."""
    names: list[str] = []
    for number, argument in enumerate(arguments):
        names.append(unlike(types.text(argument.name).strip() or f"{instead}{number}", names))
    return tuple(names)


def _parameter(argument: Argument, name: str) -> Parameter:
    type_ = types.attribute_type(argument)
    minimum, maximum = types.limits(argument, type_)
    fields = {
        "displayName": argument.label,
        "units": units(argument),
        "references": argument.references,
        "optional": "true" if argument.optional or argument.default is not None else "",
        "maxLength": "" if argument.max_length is None else str(argument.max_length),
    }
    return Parameter(
        name,
        type_,
        described(argument.description, argument.label, name),
        minimum,
        maximum,
        tuple(types.text(label) for label in types.legal_values(argument)),
        descriptor(fields),
        _default(argument),
    )


def _default(argument: Argument) -> JmxValue:
    """Return the value of an argument that is left out; ``None`` where the descriptor cannot contain it."""
    if argument.default is None or argument.type is ValueType.REFERENCE:
        return None
    try:
        # A default that JMX cannot show is left out of the descriptor; the core applies it all the same.
        return types.converter(argument)(argument.default)
    except types.UnfitValueError:
        return None


class Own(enum.IntEnum):
    """The gateway's own attributes by their position; elements follow."""

    NAME = 0
    STABLE_NAME = 1
    NATIVE_ID = 2
    SOURCE = 3
    AGENT = 4
    LIFETIME = 5
    PARENT = 6
    ROW = 7
    CREATE_TIME = 8
    SAMPLE_TIME = 9
    CHANGE_TIME = 10
    DISCONTINUITY_TIME = 11
    LAST_OPERATION = 12


def _own(name: str, type_: AttributeType, description: str, legal: tuple[str, ...] = ()) -> Attribute:
    return Attribute(name, type_, description, legal=legal, always=True)


OWN_ATTRIBUTES = (
    _own("Name", AttributeType.STRING, "Name of the object within its parent."),
    _own("StableName", AttributeType.STRING, "Identity of the object, which never changes."),
    _own("NativeId", AttributeType.STRING, "Identifier at the agent; another one after the agent's restart."),
    _own("Source", AttributeType.STRING, "Name of its source in the configuration."),
    _own("Agent", AttributeType.STRING, "Name of its agent within the source."),
    _own(
        "Lifetime",
        AttributeType.STRING,
        "A durable object keeps its name and row over every restart; a transient one is new each time.",
        tuple(lifetime.value for lifetime in Lifetime),
    ),
    _own("Parent", AttributeType.OBJECT_NAME, "The object to which it belongs."),
    _own("Row", AttributeType.LONG, "Row number in SNMP, unique within source and class for ever."),
    _own("CreateTime", AttributeType.DATE, "When it was created; null where that is unknown."),
    _own("SampleTime", AttributeType.DATE, "When the agent read the statistics, by the agent's clock."),
    _own("ChangeTime", AttributeType.DATE, "When a property last changed, by the gateway's clock."),
    _own("DiscontinuityTime", AttributeType.DATE, "When its counters may last have restarted from zero."),
    Attribute(
        "LastOperation",
        AttributeType.STRING,
        "Outcome of the last operation on it that is remembered.",
        always=True,
        varies=True,
    ),
)
_TIMES = (int(Own.SAMPLE_TIME), int(Own.CHANGE_TIME), int(Own.DISCONTINUITY_TIME))
"""The positions of the times that `plain_updates.times_of` returns."""

STALE = "Stale"
"""The attribute that the virtual machine derives from an object's group."""

OBJECT_NAME = "ObjectName"
"""The column of tables that has the names of objects; no attribute is called so."""

ALARM_NOTIFICATIONS = (
    NotificationType(f"{DOMAIN}.gateway.alarmRaised", "A condition of the object has begun."),
    NotificationType(f"{DOMAIN}.gateway.alarmCleared", "A condition of the object has ended."),
)

_NOT_COUNTED = frozenset({Kind.GAUGE, Kind.NONE})
_NUMBERS = frozenset({AttributeType.LONG, AttributeType.BIG_INTEGER, AttributeType.DOUBLE})

ColumnOids: TypeAlias = Callable[[str, str], str]
"""Returns the dotted OID of the SNMP column for a class (``package:name``) and element; empty for none."""

Resolve: TypeAlias = Callable[[int, ObjectLink], str | None]
"""Returns the ObjectName to which the attribute at a position refers; ``None`` while that is not known."""

Unfit: TypeAlias = Callable[[str, str, object], None]
"""Called with class, element and value where the value cannot be shown."""


class _Place(NamedTuple):
    """The position of an element's attribute, and its converter."""

    position: int
    convert: types.Converter
    is_reference: bool


@dataclass(slots=True, eq=False)
class ShownClass:
    """One version of a class.

    Attributes:
        record: the record as it was received.
        name: ``package:name``.
        places: the place of each readable element, by its position in the schema.
        attribute_places: the position of the attribute of each element that has one, likewise.
        plain_updates: converts updates that need no conversion value by value.
        attributes: the attributes of the MBeans.
        settable: the elements that clients may try to set, by the names of their attributes.
        methods: the methods, by the names with which clients call them.
        has_parent: whether the stable names of its objects begin with their parents'.
        number: its number in the virtual machine; 0 until it has objects.
        objects: the number of its objects.
    """

    record: ClassRecord
    name: str
    attributes: tuple[Attribute, ...]
    places: Mapping[int, _Place]
    attribute_places: Mapping[int, int]
    plain_updates: PlainUpdates
    settable: Mapping[str, Element]
    methods: Mapping[str, ShownMethod]
    has_parent: bool
    number: int = 0
    objects: int = 0

    def same_as(self, record: ClassRecord) -> bool:
        """Return whether ``record`` describes the same version, under any number."""
        mine = self.record
        return (mine.schema, mine.name_element, mine.parent_element) == (
            record.schema,
            record.name_element,
            record.parent_element,
        )

    def define(self, number: int, events: Iterable[EventSchema]) -> DefineClass:
        """Make the command that defines the class by this number, with the notifications of ``events``."""
        self.number = number
        schema = self.record.schema
        notifications = tuple(
            NotificationType(event_type(event), described(event.description, event.label, str(event.key)))
            for event in events
            if self._concerned_by(event)
        )
        return DefineClass(
            self.number,
            f"{DOMAIN}.{schema.key.package}.{schema.key.name}",
            described(schema.description, schema.label, self.name),
            self.attributes,
            (*notifications, *ALARM_NOTIFICATIONS),
            (*(method.operation for method in self.methods.values()), READ_FRESH),
        )

    def values(
        self, record: ObjectRecord, source: str, last_operation: JmxValue, resolve: Resolve, unfit: Unfit
    ) -> tuple[JmxValue, ...]:
        """Return all values of an object, by position."""
        values: list[JmxValue] = [None] * len(self.attributes)
        values[Own.NAME] = types.text(record.leaf_name)
        values[Own.STABLE_NAME] = types.text(record.stable_name)
        values[Own.NATIVE_ID] = types.text(record.native_id)
        values[Own.SOURCE] = source
        values[Own.AGENT] = types.text(record.agent)
        values[Own.LIFETIME] = record.lifetime.value
        values[Own.PARENT] = None if record.parent is None else resolve(Own.PARENT, record.parent)
        values[Own.ROW] = record.row
        values[Own.CREATE_TIME] = types.time(record.created)
        values[Own.LAST_OPERATION] = last_operation
        _fill_times(values, record)
        self._fill(values, record.values, resolve, unfit)
        return tuple(values)

    def change(self, number: int, record: UpdateRecord, resolve: Resolve, unfit: Unfit) -> Change:
        """Return the change of an object by an update, whatever its values are."""
        changes: dict[int, JmxValue] = {}
        _fill_times(changes, record)
        self._fill(changes, record.values, resolve, unfit)
        for element in record.absent:
            place = self.places.get(element)
            if place is not None:
                changes[place.position] = None
        return Change.of(number, changes)

    def positions(self, record: UpdateRecord) -> Iterator[int]:
        """Iterate over the positions of the elements in an update."""
        for element in (*record.values, *record.absent):
            place = self.places.get(element)
            if place is not None:
                yield place.position

    def _fill(
        self,
        target: list[JmxValue] | dict[int, JmxValue],
        values: Mapping[int, FeedValue],
        resolve: Resolve,
        unfit: Unfit,
    ) -> None:
        """Write elements to their positions. This is the innermost loop, so it calls as little as it can."""
        find = self.places.get
        for element, value in values.items():
            place = find(element)
            if place is None:
                continue
            position, convert, is_reference = place
            if is_reference and isinstance(value, ObjectLink):
                target[position] = resolve(position, value)
                continue
            try:
                target[position] = convert(value)
            except types.UnfitValueError:
                unfit(self.name, self.record.schema.elements[element].name, value)
                target[position] = None

    def _concerned_by(self, event: EventSchema) -> bool:
        """Return whether one of the event's arguments refers to objects of this class."""
        key = self.record.schema.key
        # A reference names a class of its own package without the package.
        names = {str(key), *((key.name,) if event.key.package == key.package else ())}
        return any(argument.references in names for argument in event.arguments)


def shown_class(record: ClassRecord, column_oid: ColumnOids) -> ShownClass:
    """Return the class of MBeans that shows objects of a class."""
    schema = record.schema
    attributes = list(OWN_ATTRIBUTES)
    # JMX takes no two attributes of one name, and a schema's elements may be called as ours are. Exporters
    # write names in lower case, so two that differ in case only would be one there.
    taken = {
        OBJECT_NAME.casefold(),
        STALE.casefold(),
        *(attribute.name.casefold() for attribute in attributes),
    }
    places: dict[int, _Place] = {}
    attribute_places: dict[int, int] = {}
    longs: dict[int, int] = {}
    settable: dict[str, Element] = {}
    for number, element in enumerate(schema.elements):
        is_settable = element.access is Access.READ_WRITE
        if not (element.readable or is_settable):
            continue
        statistic = number >= len(schema.properties)
        name = element.name.strip() or f"element{number}"
        while name.casefold() in taken:
            name += "_"
        taken.add(name.casefold())
        attribute_places[number] = len(attributes)
        if element.readable:
            convert = types.converter(element, statistic=statistic)
            places[number] = _Place(len(attributes), convert, element.type is ValueType.REFERENCE)
            if types.is_long(element, statistic=statistic):
                longs[number] = len(attributes)
        if is_settable:
            settable[name] = element
        oid = column_oid(str(schema.key), element.name)
        attributes.append(_attribute(name, element, statistic=statistic, oid=oid))
    return ShownClass(
        record,
        str(schema.key),
        tuple(attributes),
        places,
        attribute_places,
        PlainUpdates(_TIMES, longs),
        settable,
        shown_methods(schema),
        begins_with_parent(record),
    )


def event_type(schema: EventSchema) -> str:
    """Return the type of the notifications of an event."""
    return f"{DOMAIN}.{schema.key.package}.{schema.key.name}"


def _attribute(name: str, element: Element, *, statistic: bool, oid: str) -> Attribute:
    type_ = types.attribute_type(element, statistic=statistic)
    minimum, maximum = types.limits(element, type_)
    return Attribute(
        name,
        type_,
        described(element.description, element.label, name),
        minimum,
        maximum,
        tuple(types.text(label) for label in types.legal_values(element)),
        _descriptor(element, type_, statistic=statistic, oid=oid),
        element.readable and _notifies(element, statistic=statistic),
        readable=element.readable,
        writable=element.access is Access.READ_WRITE,
    )


def _descriptor(element: Element, type_: AttributeType, *, statistic: bool, oid: str) -> dict[str, str]:
    """Return an attribute's descriptor; ``units``, ``metricType`` and ``displayName`` are JMX's own fields.

    Only numbers have a kind; ports, identifiers, limits and settings have none. Statistics are dated by
    ``SampleTime``.
    """
    fields = {
        "displayName": element.label,
        "element": "statistic" if statistic else "property",
        "units": units(element),
        "references": element.references,
        "default": "" if element.default is None else str(element.default),
        "oid": oid,
    }
    if statistic:
        fields["sampleTime"] = OWN_ATTRIBUTES[Own.SAMPLE_TIME].name
    if type_ in _NUMBERS and element.kind is not Kind.NONE:
        fields["kind"] = element.kind.value
        fields["metricType"] = "counter" if element.kind is Kind.COUNTER else "gauge"
    return descriptor(fields)


def _notifies(element: Element, *, statistic: bool) -> bool:
    """Return whether changes are notified: those of states and configuration, not of counters and gauges.

    An element that can be set at creation only does not change.
    """
    if element.index or element.access is Access.READ_CREATE:
        return False
    if types.is_enumeration(element) or element.type is ValueType.BOOL:
        return True
    return not statistic and element.kind in _NOT_COUNTED


def _fill_times(target: list[JmxValue] | dict[int, JmxValue], record: ObjectRecord | UpdateRecord) -> None:
    for position, nanoseconds in zip(_TIMES, times_of(record), strict=True):
        target[position] = types.time(nanoseconds)


MAX_VERSIONS = 2_000
"""The maximum number of versions of classes at a time; objects of further ones are not shown."""


class ClassVersions:
    """All versions of classes; each is defined in the virtual machine with its first object.

    Args:
        send: takes commands for the virtual machine.
        log: called once when there are too many.
        column_oid: finds the SNMP column of an element.
    """

    def __init__(
        self, send: Callable[[Command], None], log: Callable[[str, str], None], column_oid: ColumnOids
    ) -> None:
        self._send = send
        self._log = log
        self._column_oid = column_oid
        self._versions: dict[str, list[ShownClass]] = {}
        self._count = 0
        self._next_number = FIRST_FREE_CLASS
        self._free_numbers: list[int] = []
        self._full = False

    def find(self, record: ClassRecord) -> ShownClass | None:
        """Return the version that a record describes; ``None`` (logged) where there are too many."""
        versions = self._versions.setdefault(str(record.schema.key), [])
        known = next((version for version in versions if version.same_as(record)), None)
        if known is None:
            if self._count >= MAX_VERSIONS:
                self._refuse(record)
                return None
            known = shown_class(record, self._column_oid)
            versions.append(known)
            self._count += 1
        return known

    def define(self, version: ShownClass, events: Iterable[EventSchema]) -> None:
        """Define this version in the virtual machine, unless it is defined already."""
        if version.number:
            return
        if self._free_numbers:
            number = self._free_numbers.pop()
        else:
            number = self._next_number
            self._next_number += 1
        self._send(version.define(number, events))

    def drop_unused(self, used: Iterable[ShownClass]) -> None:
        """Forget versions that have no objects and are not in ``used``, which is all that the core uses."""
        in_use = set(map(id, used))
        for name, versions in tuple(self._versions.items()):
            kept = [version for version in versions if version.objects or id(version) in in_use]
            dropped = [version for version in versions if not version.objects and id(version) not in in_use]
            # The virtual machine keeps the definition of a number until it is defined again, so numbers are
            # used again instead of growing for ever.
            self._free_numbers += [version.number for version in dropped if version.number]
            self._count -= len(dropped)
            if kept:
                self._versions[name] = kept
            else:
                del self._versions[name]

    def _refuse(self, record: ClassRecord) -> None:
        if not self._full:
            self._full = True
            self._log(
                "class-not-shown",
                f"{record.schema.key}: there are {MAX_VERSIONS} versions of classes already",
            )
