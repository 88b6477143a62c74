"""Converts the classes of a schema-reply to the model's classes, and back.

Where CML and the model differ: groups become part of a field's name (``group.field``); a field that lists
child objects becomes a reference of the children to their parent (``parentRef``), see
`docs/model-check.md`. ``parentRef`` and ``name`` identify an object from one run to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from gateway.dialects.cml.messages import (
    Field,
    NamedText,
    SchemaClass,
    SchemaField,
    SchemaGroup,
    SchemaMember,
    SchemaMethod,
    SchemaReply,
    Spelling,
    Status,
    object_number,
)
from gateway.dialects.cml.safety import MAX_STRING
from gateway.dialects.cml.values import read_value, write_value
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.model.schema import Access, Argument, ClassKey, ClassSchema, Element, Method, NamedValue
from gateway.model.values import Reference, Value, Values, ValueType

PARENT: Final = "parentRef"
"""The element, not in CML, that refers to the object whose fields list this one."""

IsStatistic: TypeAlias = Callable[[str, str, str], bool]
"""Decides by package, class and element; CML does not distinguish properties from statistics."""

TYPES: Final = {
    "": ValueType.STRING,
    "string": ValueType.STRING,
    "int": ValueType.U32,
    "bool": ValueType.BOOL,
    "time": ValueType.TIME,
    "objref": ValueType.REFERENCE,
    "object": ValueType.REFERENCE,
}


_NAME: Final = "name"
_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Children:
    """A field that lists child objects.

    Attributes:
        field: its name, which is not one of the model's elements.
        class_name: the class of the children: that of the field's name, if the schema has one, as in all
            known schemas; else empty.
        repeated: whether there may be more than one.
    """

    field: str
    class_name: str
    repeated: bool
    label: str = ""


@dataclass(frozen=True, slots=True)
class ObjectRead:
    """The values of an object's fields.

    Attributes:
        values: the values in the schema's order.
        children: the child objects, in the order in which they were listed.
        anomalies: a line for each field that could not be read and is absent, or was not expected.
    """

    values: Values
    children: tuple[tuple[Children, int], ...]
    anomalies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Slot:
    """The place of a field's value: its position, its type, and whether it is part of a list."""

    position: int
    type: ValueType
    repeated: bool


@dataclass(frozen=True, slots=True)
class ClassDescription:
    """A class in the form of the model, with the names of its fields in messages.

    Attributes:
        wire_names: the name of each element in messages: its own name if no other group has the same.
            Empty for `PARENT`, which is not in messages.
    """

    schema: ClassSchema
    wire_names: tuple[str, ...]
    children: tuple[Children, ...]
    _slots: dict[str, _Slot]
    _listings: dict[str, Children]

    def read_object(self, fields: Sequence[Field], parent: int | None = None) -> ObjectRead:
        """Return values and children of an object; a field that cannot be processed is an anomaly."""
        values: list[Value | None] = [None] * len(self.schema.elements)
        children: list[tuple[Children, int]] = []
        anomalies: list[str] = []
        seen: set[int] = set()
        if parent is not None and PARENT in self.schema.positions:
            values[self.schema.positions[PARENT]] = Reference(str(parent))
        for field in fields:
            text = field.text if field.object_id is None else str(field.object_id)
            listing, slot = self._listings.get(field.name), self._slots.get(field.name)
            if listing is not None:
                _add_child(children, listing, text, anomalies)
            if slot is None:
                if listing is None:
                    anomalies.append(f"{field.name or '(no name)'}: no such field in {self.schema.key}")
            elif slot.position in seen and not slot.repeated:
                anomalies.append(f"{field.name}: more than once")
            else:
                seen.add(slot.position)
                _set_value(values, slot, field.name, text, anomalies)
        return ObjectRead(tuple(values), tuple(children), tuple(anomalies))


def _add_child(
    children: list[tuple[Children, int]], listing: Children, text: str, anomalies: list[str]
) -> None:
    text = text.strip()
    number = object_number(text)
    if number:
        children.append((listing, number))
    elif text and listing.repeated:  # a single one has an element with the value
        anomalies.append(f"{listing.field}: no object of another")


def _set_value(values: list[Value | None], slot: _Slot, name: str, text: str, anomalies: list[str]) -> None:
    try:
        value = read_value(text, slot.type)
    except ProtocolError as error:
        anomalies.append(f"{name}: {error.expected} was expected")
        return
    if slot.repeated:
        before = values[slot.position]
        values[slot.position] = (
            *(before if isinstance(before, tuple) else ()),
            *(() if value is None else (value,)),
        )
    else:
        values[slot.position] = value


def package_of(schema_name: str) -> str:
    """Return the package for a schema's name, without characters that a mapping cannot have."""
    return schema_name.replace("/", ".")


def _never(_: str, __: str, ___: str) -> bool:
    return False


def read_classes(reply: SchemaReply, is_statistic: IsStatistic = _never) -> tuple[ClassDescription, ...]:
    """Return the classes that a schema-reply describes, in its order, without what is `left_out`.

    Raises:
        ProtocolError: a value of an enumeration is not of its type.
    """
    classes = _meant(reply.classes)
    names = [each.name for each in classes]
    parents: dict[str, set[str]] = {}
    for each in classes:
        for field in _references(each):
            parents.setdefault(field.name, set()).add(each.name)
    package = package_of(reply.name)
    return tuple(
        _described(package, each, parents.get(each.name, set()), set(names), is_statistic) for each in classes
    )


def left_out(reply: SchemaReply) -> int:
    """Return how many classes, fields, methods and arguments of a schema have no name of their own.

    No message could mean those without a name, and one with a name that several have could mean any of them.
    So they are left out, and everything beside them stays; a method with two arguments of one name, which no
    request can call, is left out whole. The fields of a group without a name are outside it.
    """
    classes, listed = _meant(reply.classes), listed_names(reply)
    of_classes = (_left_out_of(each, has_parent=each.name in listed) for each in classes)
    return len(reply.classes) - len(classes) + sum(of_classes)


def listed_names(reply: SchemaReply) -> set[str]:
    """Return the names of all fields that list objects, which are classes of those."""
    return {field.name for one in _meant(reply.classes) for field in _references(one)}


def _left_out_of(each: SchemaClass, *, has_parent: bool) -> int:
    methods = [_unnamed(one.fields) if _can_be_called(one) else 1 for one in each.methods]
    named = sum(1 for _ in flattened_fields(each.fields))
    return _unnamed(each.fields) + named - len(_own_fields(each, has_parent=has_parent)) + sum(methods)


def _meant(classes: Sequence[SchemaClass]) -> list[SchemaClass]:
    """Return the classes that have a name of their own."""
    names = Counter(each.name for each in classes)
    return [each for each in classes if _is_named(each) and names[each.name] == 1]


def _own_fields(each: SchemaClass, *, has_parent: bool) -> list[tuple[str, tuple[str, ...], SchemaField]]:
    """Return the `flattened_fields` of a class that have a name of their own; that of its parent is taken."""
    flattened = list(flattened_fields(each.fields))
    names = Counter(name for name, _, _ in flattened)
    if has_parent:
        names[PARENT] += 1
    return [one for one in flattened if names[one[0]] == 1]


def _references(each: SchemaClass) -> list[SchemaField]:
    return [one for _, _, one in flattened_fields(each.fields) if TYPES.get(one.type) is ValueType.REFERENCE]


def _can_be_called(method: SchemaMethod) -> bool:
    """Return whether a method has a name, and each of its arguments that has one another."""
    names = Counter(field.name for _, _, field in flattened_fields(method.fields))
    return _is_named(method) and all(count == 1 for count in names.values())


def _unnamed(members: Sequence[SchemaMember]) -> int:
    return sum(
        _unnamed(one.fields) if isinstance(one, SchemaGroup) else not _is_named(one) for one in members
    )


def _is_named(one: SchemaClass | SchemaMember | SchemaMethod) -> bool:
    return bool(one.name.strip())


def _described(
    package: str, each: SchemaClass, parents: set[str], names: set[str], is_statistic: IsStatistic
) -> ClassDescription:
    flattened = _own_fields(each, has_parent=bool(parents))
    # Those that are left out may be in messages, too.
    own_names = Counter(field.name for _, _, field in flattened_fields(each.fields))
    elements: list[tuple[Element, str, _Slot]] = []
    listings: list[Children] = []
    for name, group, field in flattened:
        value_type = TYPES.get(field.type, ValueType.STRING)
        wire_name = field.name if own_names[field.name] == 1 else name
        if value_type is ValueType.REFERENCE:
            child_class = field.name if field.name in names else ""
            listings.append(Children(wire_name, child_class, field.repeat, field.label))
            if field.repeat:
                continue
        elements.append((_element(name, group, field), wire_name, _Slot(0, value_type, field.repeat)))
    if parents:
        of_one = next(iter(parents)) if len(parents) == 1 else ""
        parent = Element(PARENT, ValueType.REFERENCE, index=True, references=of_one, label="Parent")
        # First, so that stable names begin with the parent's name.
        elements.insert(0, (parent, "", _Slot(0, ValueType.REFERENCE, repeated=False)))
    return _assembled(package, each, elements, listings, is_statistic)


def _assembled(
    package: str,
    each: SchemaClass,
    elements: list[tuple[Element, str, _Slot]],
    listings: list[Children],
    is_statistic: IsStatistic,
) -> ClassDescription:
    properties = [one for one in elements if not is_statistic(package, each.name, one[0].name)]
    statistics = [one for one in elements if is_statistic(package, each.name, one[0].name)]
    ordered = properties + statistics
    schema = ClassSchema(
        ClassKey(package, each.name),
        tuple(element for element, _, _ in properties),
        tuple(element for element, _, _ in statistics),
        tuple(_method(method) for method in each.methods if _can_be_called(method)),
        each.label,
        each.description,
    )
    slots: dict[str, _Slot] = {}
    for position, (element, wire_name, slot) in enumerate(ordered):
        if wire_name:
            # A field in a group may have either name in messages.
            slots[wire_name] = slots[element.name] = replace(slot, position=position)
    return ClassDescription(
        schema,
        tuple(wire_name for _, wire_name, _ in ordered),
        tuple(listings),
        slots,
        {listed.field: listed for listed in listings},
    )


def flattened_fields(
    members: tuple[SchemaMember, ...], outer: SchemaGroup | None = None, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[str, ...], SchemaField]]:
    """Yield the model's name, the path of groups, and each field that has a name, with its groups' flags."""
    for member in members:
        inspect = member.inspect and (outer is None or outer.inspect)
        modify = member.modify or (outer is not None and outer.modify)
        inherited = replace(member, inspect=inspect, modify=modify)
        if isinstance(inherited, SchemaGroup):
            inner = (*path, inherited.name) if _is_named(inherited) else path
            yield from flattened_fields(inherited.fields, inherited, inner)
        elif _is_named(inherited):
            yield ".".join((*path, inherited.name)), path, inherited


def _element(name: str, group: tuple[str, ...], field: SchemaField) -> Element:
    value_type = TYPES.get(field.type, ValueType.STRING)
    return Element(
        name,
        ValueType.LIST if field.repeat else value_type,
        Access.READ_WRITE if field.modify else Access.READ_ONLY,
        index=name == _NAME,
        # Only sent values have a bound: values are shown at any length.
        max_length=MAX_STRING
        if field.modify and value_type is ValueType.STRING and not field.repeat
        else None,
        references=field.name if value_type is ValueType.REFERENCE else "",
        label=field.label,
        description=field.description,
        values=_named_values(field, value_type),
        readable=field.inspect,
        group=group,
    )


def _method(method: SchemaMethod) -> Method:
    arguments = tuple(_argument(field) for _, _, field in flattened_fields(method.fields))
    return Method(method.name, arguments, method.label, method.description)


def _argument(field: SchemaField) -> Argument:
    value_type = TYPES.get(field.type, ValueType.STRING)
    return Argument(
        field.name,
        value_type,
        max_length=MAX_STRING if value_type is ValueType.STRING else None,
        label=field.label,
        description=field.description,
        values=_named_values(field, value_type),
    )


def _named_values(field: SchemaField, value_type: ValueType) -> tuple[NamedValue, ...]:
    named = []
    for each in field.values:
        value = read_value(each.text, value_type)
        if not isinstance(value, int | str):
            raise ProtocolError(f"a string or an integer for {field.name}", repr(each.text[:_SHOWN]))
        named.append(NamedValue(each.label if each.label.strip() else each.text, value))
    return tuple(named)


_TYPE_TEXTS: Final = {
    **dict.fromkeys(ValueType, ""),
    ValueType.U8: "int",
    ValueType.U16: "int",
    ValueType.U32: "int",
    ValueType.BOOL: "bool",
    ValueType.TIME: "time",
    ValueType.REFERENCE: "objref",
}
"""The type's text in CML; integers beyond 32 bits, and other types that CML lacks, are strings."""

_NOT_IN_CML: Final = frozenset((ValueType.MAP, ValueType.LIST, ValueType.BYTES))


def write_classes(classes: Sequence[ClassSchema], name: str, version: str) -> SchemaReply:
    """Return the schema of ``classes``; ``name`` and ``version`` are the schema's own.

    A class that is the ``parentRef`` of another lists its objects in a field of the other's name, after all
    others.

    Raises:
        LocalProtocolError: an element or argument has a type that CML lacks, a ``parentRef`` names
            no class among these, or an element's name does not begin with its groups.
    """
    listed: dict[str, list[str]] = {each.key.name: [] for each in classes}
    for each in classes:
        for element in each.elements:
            if element.name == PARENT:
                if element.references not in listed:
                    raise LocalProtocolError(f"{each.key}: its parent's class is unknown")
                listed[element.references].append(each.key.name)
    return SchemaReply(
        Status.OK, name, version, tuple(_write_class(each, listed[each.key.name]) for each in classes)
    )


def _write_class(each: ClassSchema, children: Iterable[str]) -> SchemaClass:
    shown = [element for element in each.elements if element.name != PARENT]
    lists = [SchemaField(child, "objref", repeat=True) for child in children]
    methods = tuple(_write_method(method) for method in each.methods)
    return SchemaClass(
        each.key.name, each.label, each.description, (*_write_members(shown, 0), *lists), methods
    )


def _write_members(elements: Sequence[Element], depth: int) -> tuple[SchemaMember, ...]:
    """Return the elements in their order; adjacent ones of one group become one group."""
    members: list[SchemaMember] = []
    position = 0
    while position < len(elements):
        group = elements[position].group[: depth + 1]
        if len(group) <= depth:
            members.append(_write_field(elements[position], depth))
            position += 1
            continue
        end = position
        while end < len(elements) and elements[end].group[: depth + 1] == group:
            end += 1
        members.append(SchemaGroup(group[depth], _write_members(elements[position:end], depth + 1)))
        position = end
    return tuple(members)


def _write_field(element: Element, depth: int) -> SchemaField:
    path = ".".join(element.group)
    name = element.name.removeprefix(f"{path}.") if depth else element.name
    if depth and name == element.name:
        raise LocalProtocolError(f"{element.name}: its name does not begin with {path}")
    return SchemaField(
        name,
        _type_text(element),
        inspect=element.readable,
        modify=element.access is Access.READ_WRITE,
        label=element.label,
        description=element.description,
        values=_write_named_values(element),
    )


def _write_method(method: Method) -> SchemaMethod:
    arguments = tuple(
        SchemaField(
            each.name,
            _type_text(each),
            label=each.label,
            description=each.description,
            values=_write_named_values(each),
        )
        for each in method.arguments
    )
    return SchemaMethod(method.name, method.label, method.description, arguments)


def _type_text(item: Element | Argument) -> str:
    if item.type in _NOT_IN_CML:
        raise LocalProtocolError(f"{item.name}: CML has no {item.type.value}")
    return _TYPE_TEXTS[item.type]


def _write_named_values(item: Element | Argument) -> tuple[NamedText, ...]:
    # Times are in the specification's form, because a schema is the same for all readers.
    return tuple(
        NamedText(each.label, write_value(each.value, item, Spelling.SPECIFICATION)) for each in item.values
    )
