"""Classes and events as they are encoded: the model's schema and the type code of each element.

The model has one string type where AM2 has two; a definition keeps what reading and writing needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.elements import AM2, ElementForms, TypeCode, type_code
from gateway.dialects.qmf.layout import ContentReader, Layout, OptionalLayout, ValuesReader
from gateway.model.schema import Argument, ClassKey, ClassSchema, Direction, Element, EventSchema, Method

_INPUT = (Direction.IN, Direction.INOUT)
_OUTPUT = (Direction.OUT, Direction.INOUT)


def _codes(elements: tuple[Element, ...] | tuple[Argument, ...]) -> tuple[TypeCode, ...]:
    return tuple(type_code(element.type, element.max_length) for element in elements)


@dataclass(frozen=True)
class ClassDefinition:
    """A class; the tuples of codes run parallel to the schema's properties, statistics and methods.

    ``forms``: the encoding of values in the version of QMF that the class is reported in.
    """

    schema: ClassSchema
    property_codes: tuple[TypeCode, ...]
    statistic_codes: tuple[TypeCode, ...]
    method_codes: tuple[tuple[TypeCode, ...], ...] = ()
    forms: ElementForms = AM2

    @classmethod
    def of(cls, schema: ClassSchema, forms: ElementForms = AM2) -> ClassDefinition:
        """Return the definition of a class of this gateway, with chosen type codes.

        Raises:
            LocalProtocolError: QMF has no type for one of its elements.
        """
        return cls(
            schema,
            _codes(schema.properties),
            _codes(schema.statistics),
            tuple(_codes(method.arguments) for method in schema.methods),
            forms,
        )

    @cached_property
    def key(self) -> ClassKey:
        """The class key."""
        return self.schema.key

    @cached_property
    def key_octets(self) -> bytes:
        """The encoded class key; raises `LocalProtocolError` if it cannot be encoded."""
        return fields.class_key(self.schema.key)

    @cached_property
    def properties(self) -> OptionalLayout:
        """The reader and writer of the properties of c and g records."""
        return OptionalLayout(self.property_codes, [p.optional for p in self.schema.properties], self.forms)

    @cached_property
    def statistics(self) -> Layout:
        """The reader and writer of the statistics of i and g records."""
        return Layout(self.statistic_codes, self.forms)

    @cached_property
    def property_record(self) -> ContentReader:
        """The reader of the part of c records after the class key."""
        return self.properties.content_reader()

    @cached_property
    def statistic_record(self) -> ContentReader:
        """The reader of the part of i records after the class key."""
        return self.statistics.content_reader()

    @cached_property
    def statistic_values(self) -> ValuesReader:
        """The reader of the statistics of g records."""
        return self.statistics.values_reader()

    @cached_property
    def methods(self) -> dict[str, Method]:
        """The methods by name; of several with one name the last counts, as in `inputs` and `outputs`."""
        return {method.name: method for method in self.schema.methods}

    @cached_property
    def callable_methods(self) -> tuple[Method, ...]:
        """The methods that a call can mean: with a name, and of several with one name that of `methods`."""
        return tuple(method for name, method in self.methods.items() if name.strip())

    @cached_property
    def inputs(self) -> dict[str, Layout]:
        """The reader and writer of the arguments of M, by method name."""
        return self._arguments(_INPUT)

    @cached_property
    def outputs(self) -> dict[str, Layout]:
        """The reader and writer of the arguments of m, by method name."""
        return self._arguments(_OUTPUT)

    def _arguments(self, directions: tuple[Direction, ...]) -> dict[str, Layout]:
        return {
            method.name: Layout(
                [
                    code
                    for argument, code in zip(method.arguments, codes, strict=True)
                    if argument.direction in directions
                ],
                self.forms,
            )
            for method, codes in zip(self.schema.methods, self.method_codes, strict=True)
        }


@dataclass(frozen=True)
class EventDefinition:
    """An event; ``codes`` runs parallel to the schema's arguments."""

    schema: EventSchema
    codes: tuple[TypeCode, ...]
    forms: ElementForms = AM2

    @classmethod
    def of(cls, schema: EventSchema, forms: ElementForms = AM2) -> EventDefinition:
        """Return the definition of an event of this gateway; raise as `ClassDefinition.of`."""
        return cls(schema, _codes(schema.arguments), forms)

    @property
    def key(self) -> ClassKey:
        """The event's key."""
        return self.schema.key

    @cached_property
    def arguments(self) -> Layout:
        """The reader and writer of the arguments of e records."""
        return Layout(self.codes, self.forms)


class Definitions:
    """The known classes and events, by which content records are read.

    Args:
        limit: the largest number of classes and events.
    """

    def __init__(self, limit: int = 4096) -> None:
        self.limit = limit
        self._classes: dict[ClassKey, ClassDefinition] = {}
        self._events: dict[ClassKey, EventDefinition] = {}
        # A content record names its class by these octets: one look-up, without making strings.
        self._classes_by_octets: dict[bytes, ClassDefinition] = {}
        self._events_by_octets: dict[bytes, EventDefinition] = {}

    def __len__(self) -> int:
        return len(self._classes) + len(self._events)

    def __iter__(self) -> Iterator[ClassDefinition | EventDefinition]:
        yield from self._classes.values()
        yield from self._events.values()

    def __contains__(self, key: ClassKey) -> bool:
        return key in self._classes or key in self._events

    def add(self, definition: ClassDefinition | EventDefinition) -> bool:
        """Add a definition, or replace the one of the same key; return False if there is no room."""
        if definition.key not in self and len(self) >= self.limit:
            return False
        octets = fields.class_key(definition.key)
        if isinstance(definition, ClassDefinition):
            self._classes[definition.key] = definition
            self._classes_by_octets[octets] = definition
        else:
            self._events[definition.key] = definition
            self._events_by_octets[octets] = definition
        return True

    def forget(self, key: ClassKey) -> None:
        """Remove a class or event."""
        octets = fields.class_key(key)
        self._classes.pop(key, None)
        self._classes_by_octets.pop(octets, None)
        self._events.pop(key, None)
        self._events_by_octets.pop(octets, None)

    def find_class(self, key: ClassKey) -> ClassDefinition | None:
        """Return the class of this key; ``None`` if it is unknown."""
        return self._classes.get(key)

    def find_event(self, key: ClassKey) -> EventDefinition | None:
        """Return the event of this key; ``None`` if it is unknown."""
        return self._events.get(key)

    def class_at(self, body: bytes, start: int) -> tuple[ClassDefinition | None, int]:
        """Return the class whose key begins at ``start``, if it is known, and the position behind the key.

        Raises:
            ProtocolError: the body ends before the key does.
        """
        end = key_end(body, start)
        return self._classes_by_octets.get(body[start:end]), end

    def class_by_octets(self, octets: bytes) -> ClassDefinition | None:
        """Return the class whose encoded key is ``octets``; ``None`` if it is unknown."""
        return self._classes_by_octets.get(octets)

    def event_by_octets(self, octets: bytes) -> EventDefinition | None:
        """Return the event whose encoded key is ``octets``; ``None`` if it is unknown."""
        return self._events_by_octets.get(octets)


def key_end(body: bytes, start: int) -> int:
    """Return the position behind the class key that begins at ``start``, without making strings.

    Raises:
        ProtocolError: the body ends before the key does.
    """
    try:
        class_length = start + 1 + body[start]
        end = class_length + 1 + body[class_length] + fields.HASH_LENGTH
    except IndexError as error:
        raise ProtocolError("a class key", "the end of the body", start) from error
    if end > len(body):
        raise ProtocolError("a class key", "the end of the body", start)
    return end


def schema_hash(key: ClassKey, body: bytes) -> bytes:
    """Return the 16 octets that identify a version of a class or event: MD5 over package, name and body.

    ``body`` is the encoded schema after the hash (`schema_records`). Peers never compute it: it only has
    to change with the schema, and to be the same in each run.
    """
    digest = hashlib.md5(fields.str8(key.package) + fields.str8(key.name) + body, usedforsecurity=False)
    return digest.digest()
