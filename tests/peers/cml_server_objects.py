"""The objects that a CML server shows: their classes, fields and lists, and the replies about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from gateway.dialects.cml.documents import carried_by_openamq, carried_by_xml
from gateway.dialects.cml.messages import (
    OPENAMQ_LIMIT,
    SPECIFICATION_LIMIT,
    Field,
    InspectReply,
    SchemaReply,
    Spelling,
    Status,
    object_number,
)
from gateway.dialects.cml.schema import PARENT, TYPES, ClassDescription, flattened_fields, read_classes
from gateway.dialects.cml.values import shown_value
from gateway.dialects.errors import LocalProtocolError
from gateway.model.schema import Element, Method
from gateway.model.values import Reference, Value, Values, ValueType

LIMITS: Final = {Spelling.OPENAMQ: OPENAMQ_LIMIT, Spelling.SPECIFICATION: SPECIFICATION_LIMIT}
"""The exclusive upper bounds of object numbers."""


@dataclass(frozen=True, slots=True)
class ServedObject:
    """An object as the program behind a server describes it.

    Attributes:
        number: the object's number, not reused for another while the server runs; 0 is the root.
        class_name: the name of its class in the schema.
        values: the values of the class's elements (`schema.read_classes`), in their order. That of
            ``parentRef`` is a reference to the number of the object that lists this one; ``None`` is absent,
            which travels as empty text.
    """

    number: int
    class_name: str
    values: Values


@dataclass(frozen=True, slots=True)
class _Shown:
    """A field of a class, as the schema has it.

    Attributes:
        position: the position among the values; ``None`` for a field that only lists objects.
        item: the element of a value; for a list, the element of an item.
    """

    name: str
    position: int | None
    item: Element | None
    listed: str


class ServedClass:
    """A class of the schema: the fields and lists of its objects, and the possible changes.

    Attributes:
        settable: the elements that can be set, by each name that a request may use.
        methods: the methods by name.
    """

    def __init__(self, description: ClassDescription, shown: tuple[_Shown, ...]) -> None:
        self.schema = description.schema
        self._shown = shown
        self.methods: dict[str, Method] = {each.name: each for each in self.schema.methods}
        self.settable: dict[str, Element] = {}
        for element, wire_name in zip(self.schema.elements, description.wire_names, strict=True):
            if wire_name and element.access.value == "read-write" and element.type is not ValueType.LIST:
                self.settable[wire_name] = self.settable[element.name] = element
        self._parent = self.schema.positions.get(PARENT)

    def parent(self, values: Values) -> int | None:
        """Return the number of the object that lists one with these values.

        Raises:
            LocalProtocolError: the reference is no number.
        """
        value = None if self._parent is None else values[self._parent]
        if value is None:
            return None
        number = object_number(value.native_id) if isinstance(value, Reference) else None
        if number is None:
            raise LocalProtocolError(f"{self.schema.key}: {PARENT} must refer to a number")
        return number

    def parts(self, values: Values, spelling: Spelling) -> tuple[Field | str, ...]:
        """Return the fields in the schema's order; for listed objects, the name of their class.

        Raises:
            LocalProtocolError: a value does not fit.
        """
        if len(values) != len(self.schema.elements):
            text = f"{len(self.schema.elements)} values are wanted, not {len(values)}"
            raise LocalProtocolError(f"{self.schema.key}: {text}")
        return tuple(part for shown in self._shown for part in _parts(shown, values, spelling))


def _parts(shown: _Shown, values: Values, spelling: Spelling) -> Iterator[Field | str]:
    if shown.position is None or shown.item is None:
        yield shown.listed
        return
    value = values[shown.position]
    for one in value if isinstance(value, tuple) else (value,):
        yield _field(shown.name, one, shown.item, spelling)


def _field(name: str, value: Value | None, item: Element, spelling: Spelling) -> Field:
    if value is None:
        return Field(name)
    text = shown_value(value, item, spelling)
    if item.type is ValueType.REFERENCE:
        number = int(text)
        if not 0 < number < LIMITS[spelling]:
            raise LocalProtocolError(f"{name}: it refers to no object that can be listed")
        return Field(name, object_id=number)
    return Field(name, carried(text, spelling))


def carried(text: str, spelling: Spelling) -> str:
    """Return ``text`` with U+FFFD in place of each character that the spelling cannot carry."""
    return carried_by_openamq(text) if spelling is Spelling.OPENAMQ else carried_by_xml(text)


@dataclass(slots=True)
class _Known:
    served: ServedObject
    served_class: ServedClass
    parts: tuple[Field | str, ...]
    parent: int | None


class ServerObjects:
    """The objects that a server knows.

    Args:
        schema: the whole served schema.
        spelling: the spelling in which fields are written.

    Raises:
        ProtocolError: as `schema.read_classes`.
    """

    def __init__(self, schema: SchemaReply, spelling: Spelling) -> None:
        self._spelling = spelling
        self._limit = LIMITS[spelling]
        described = read_classes(schema)
        self.classes: dict[str, ServedClass] = {
            each.name: ServedClass(description, tuple(_shown(description, schema, position)))
            for position, (each, description) in enumerate(zip(schema.classes, described, strict=True))
        }
        self._known: dict[int, _Known] = {}
        self._children: dict[int, dict[str, dict[int, None]]] = {}
        # Replies are the same until the object changes, or what it lists; consoles ask again and again.
        self._replies: dict[int, bytes] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._known

    def __len__(self) -> int:
        return len(self._known)

    def put(self, served: ServedObject) -> None:
        """Add an object, or update the values of a known one.

        Raises:
            LocalProtocolError: the class is not of the schema, the number is out of range or another class's
                object has it, or a value does not fit: nothing has changed then.
        """
        served_class = self.classes.get(served.class_name)
        if served_class is None:
            raise LocalProtocolError(f"class {served.class_name} is not served")
        if not 0 <= served.number < self._limit:
            raise LocalProtocolError(f"an object's number must be 0 to {self._limit - 1}")
        before = self._known.get(served.number)
        if before is not None and before.served_class is not served_class:
            raise LocalProtocolError(f"object {served.number} is of class {before.served.class_name}")
        parts = served_class.parts(served.values, self._spelling)
        parent = served_class.parent(served.values)
        if parent is not None and not served.number:
            raise LocalProtocolError("object 0 is nobody's child")
        if before is None or before.parent != parent:
            self._leave(before)
            if parent is not None:
                of_parent = self._children.setdefault(parent, {})
                of_parent.setdefault(served.class_name, {})[served.number] = None
                self._replies.pop(parent, None)
        self._replies.pop(served.number, None)
        self._known[served.number] = _Known(served, served_class, parts, parent)

    def delete(self, number: int) -> bool:
        """Remove an object; those that it lists stay. False if there is none."""
        known = self._known.pop(number, None)
        self._replies.pop(number, None)
        self._leave(known)
        return known is not None

    def _leave(self, known: _Known | None) -> None:
        """Remove an object from the list of its parent."""
        if known is None or known.parent is None:
            return
        self._replies.pop(known.parent, None)
        of_parent = self._children[known.parent]
        of_class = of_parent[known.served.class_name]
        del of_class[known.served.number]
        if not of_class:
            del of_parent[known.served.class_name]
        if not of_parent:
            del self._children[known.parent]

    def find(self, number: int) -> ServedObject | None:
        """Return the object as it was put last; ``None`` if there is none."""
        known = self._known.get(number)
        return None if known is None else known.served

    def class_of(self, number: int) -> ServedClass:
        """Return the class of a known object."""
        return self._known[number].served_class

    def reply(self, number: int, write: Callable[[InspectReply], bytes]) -> bytes:
        """Return the whole reply about a known object: the last one that ``write`` wrote, or a new one."""
        body = self._replies.get(number)
        if body is None:
            class_name = self.class_of(number).schema.key.name
            body = self._replies[number] = write(
                InspectReply(Status.OK, number, class_name, self.fields(number))
            )
        return body

    def fields(self, number: int) -> tuple[Field, ...]:
        """Return the fields of a known object as in a reply; objects in the order of their arrival."""
        fields: list[Field] = []
        children = self._children.get(number, {})
        for part in self._known[number].parts:
            if isinstance(part, Field):
                fields.append(part)
            else:
                fields += [Field(part, object_id=child) for child in children.get(part, ())]
        return tuple(fields)


def _shown(description: ClassDescription, schema: SchemaReply, position: int) -> Iterator[_Shown]:
    elements = {element.name: element for element in description.schema.elements}
    positions = description.schema.positions
    wire_names = dict(zip(elements, description.wire_names, strict=True))
    for name, _, each in flattened_fields(schema.classes[position].fields):
        if not each.inspect:
            continue
        element = elements.get(name)
        if element is None:
            yield _Shown(each.name, None, None, each.name)
        else:
            item = replace(element, type=TYPES.get(each.type, ValueType.STRING))
            yield _Shown(wire_names[name], positions[name], item, "")
