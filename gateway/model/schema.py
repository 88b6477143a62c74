"""Schemas as an agent describes them: classes with their elements and methods, and events."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeVar

from gateway.model.values import Scalar, ValueType

_NUMBERED: Final = re.compile(r"(.+)_(?:[2-9]|[1-9][0-9]+)", re.DOTALL)
"""A name to which `distinct_names` may have appended a number, from 2 on."""


class Access(enum.Enum):
    """The permission to change a property: never, at creation only, or at any time."""

    READ_ONLY = "read-only"
    READ_CREATE = "read-create"
    READ_WRITE = "read-write"


class Kind(enum.Enum):
    """The behaviour of a number over time.

    No dialect carries it. A mapping sets it; without one a statistic is a gauge, and a property has none: it
    is a port, an identifier, a limit, a setting.

    Attributes:
        GAUGE: an amount that is measured, and goes up and down.
        NONE: no amount that is measured.
    """

    COUNTER = "counter"
    GAUGE = "gauge"
    HIGH = "high"
    LOW = "low"
    AVERAGE = "average"
    NONE = "none"


class Direction(enum.Enum):
    """The direction in which a method's argument travels."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"


@dataclass(frozen=True, slots=True)
class ClassKey:
    """The name of one version of a class or event.

    ``hash`` is the agent's schema hash (16 bytes in QMF); empty where the dialect has none.
    """

    package: str
    name: str
    hash: bytes = b""

    def __str__(self) -> str:
        """Return ``package:name``, the form used in messages and logs."""
        return f"{self.package}:{self.name}"


@dataclass(frozen=True, slots=True)
class NamedValue:
    """One value of an enumeration: the label shown and the number or string that travels."""

    label: str
    value: int | str


@dataclass(frozen=True, slots=True)
class Element:
    """A property or statistic of a class.

    ``minimum``, ``maximum`` and ``default`` are in the element's own type and ``unit``; ``max_length`` is
    in bytes. ``references`` names the class pointed to (``name``, or ``package:name``) where ``type`` is
    REFERENCE and the agent reports it. ``group`` is the path of CML groups the field was found in.
    """

    name: str
    type: ValueType
    access: Access = Access.READ_ONLY
    index: bool = False
    optional: bool = False
    unit: str = ""
    minimum: int | float | None = None
    maximum: int | float | None = None
    max_length: int | None = None
    default: Scalar | None = None
    references: str = ""
    label: str = ""
    description: str = ""
    values: tuple[NamedValue, ...] = ()
    readable: bool = True
    group: tuple[str, ...] = ()
    kind: Kind = Kind.GAUGE


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a method or event; ``direction`` means nothing for events.

    ``optional``: it may be absent; where a dialect has no way to say so, empty text, zero and a reference to
    nothing stand for that. ``references`` names the class pointed to (``name``, or ``package:name``).
    """

    name: str
    type: ValueType
    direction: Direction = Direction.IN
    unit: str = ""
    minimum: int | float | None = None
    maximum: int | float | None = None
    max_length: int | None = None
    default: Scalar | None = None
    label: str = ""
    description: str = ""
    values: tuple[NamedValue, ...] = ()
    optional: bool = False
    references: str = ""


@dataclass(frozen=True, slots=True)
class Method:
    """A procedure that can be called on an object."""

    name: str
    arguments: tuple[Argument, ...] = ()
    label: str = ""
    description: str = ""


@dataclass(frozen=True)
class ClassSchema:
    """One version of a class: its properties and statistics in wire order, and its methods."""

    key: ClassKey
    properties: tuple[Element, ...] = ()
    statistics: tuple[Element, ...] = ()
    methods: tuple[Method, ...] = ()
    label: str = ""
    description: str = ""

    @cached_property
    def elements(self) -> tuple[Element, ...]:
        """The properties, then the statistics: the order of values in every snapshot and record."""
        return self.properties + self.statistics

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each element in ``elements``, by its name."""
        return {element.name: position for position, element in enumerate(self.elements)}

    # The following are needed for each report of an object, and so are computed once.

    @cached_property
    def class_name(self) -> str:
        """``package:name``, one text for all objects of the class."""
        return str(self.key)

    @cached_property
    def property_positions(self) -> dict[str, int]:
        """The position of each property, by its name."""
        return {element.name: position for position, element in enumerate(self.properties)}

    @cached_property
    def index_positions(self) -> tuple[int, ...]:
        """The positions of the index properties."""
        return tuple(position for position, element in enumerate(self.properties) if element.index)

    @cached_property
    def counters(self) -> frozenset[int]:
        """The positions of the counters in ``elements``."""
        return frozenset(p for p, element in enumerate(self.elements) if element.kind is Kind.COUNTER)

    @cached_property
    def leaf_position(self) -> int | None:
        """The position of the last index property that is no reference, else that of ``name``."""
        for position in reversed(self.index_positions):
            if self.properties[position].type is not ValueType.REFERENCE:
                return position
        return self.property_positions.get("name")


@dataclass(frozen=True, slots=True)
class EventSchema:
    """One version of an event and its arguments."""

    key: ClassKey
    arguments: tuple[Argument, ...] = ()
    label: str = ""
    description: str = ""


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return a name for each element of a class, or argument of an event, that no other one has.

    Everything behind the inventory distinguishes them by name: columns, attributes, fields, rules of roles.
    Of several with one name the first keeps it, and the second is ``depth_2``. One without a name is called
    by its position, as ``element3``.
    """
    found: dict[str, None] = {}
    last: dict[str, int] = {}  # a peer may send thousands of one name
    taken = {name for name in names if name.strip()}
    for position, name in enumerate(names):
        wanted = distinct = name if name.strip() else f"element{position}"
        number = last.get(wanted, 1)
        while distinct in found or (distinct != name and distinct in taken):
            number += 1
            distinct = f"{wanted}_{number}"
        last[wanted] = number
        found[distinct] = None
    return tuple(found)


def original_name(name: str) -> str:
    """Return the name that a peer has sent, of one that `distinct_names` may have made."""
    found = _NUMBERED.fullmatch(name)
    return found[1] if found else name


_Item = TypeVar("_Item", Element, Argument)


def _distinct(items: tuple[_Item, ...]) -> tuple[_Item, ...]:
    """Return items that have `distinct_names`; nearly always ``items`` themselves."""
    names = tuple(one.name for one in items)
    if (distinct := distinct_names(names)) == names:
        return items
    return tuple(replace(one, name=name) for one, name in zip(items, distinct, strict=True))


def with_distinct_names(schema: ClassSchema) -> ClassSchema:
    """Return a class whose elements, and whose methods' arguments, have `distinct_names`.

    Arguments travel by their positions where a dialect permits such names.
    """
    elements = _distinct(schema.elements)
    count = len(schema.properties)
    methods = tuple(replace(one, arguments=_distinct(one.arguments)) for one in schema.methods)
    if (elements, methods) == (schema.elements, schema.methods):
        return schema
    return replace(schema, properties=elements[:count], statistics=elements[count:], methods=methods)


def with_distinct_arguments(schema: EventSchema) -> EventSchema:
    """Return an event whose arguments have `distinct_names`; nearly always ``schema`` itself."""
    arguments = _distinct(schema.arguments)
    return schema if arguments is schema.arguments else replace(schema, arguments=arguments)
