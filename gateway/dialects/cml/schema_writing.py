"""The model's classes as a schema-reply: what a server of CML shows of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gateway.dialects.cml.messages import (
    NamedText,
    SchemaClass,
    SchemaField,
    SchemaGroup,
    SchemaMember,
    SchemaMethod,
    SchemaReply,
    Spelling,
    Status,
)
from gateway.dialects.cml.schema import PARENT
from gateway.dialects.cml.values import write_value
from gateway.dialects.errors import LocalProtocolError
from gateway.model.schema import Access, Argument, ClassSchema, Element, Method
from gateway.model.values import ValueType

_TYPES: Final = {
    **dict.fromkeys(ValueType, ""),
    ValueType.U8: "int",
    ValueType.U16: "int",
    ValueType.U32: "int",
    ValueType.BOOL: "bool",
    ValueType.TIME: "time",
    ValueType.REFERENCE: "objref",
}
"""Integers beyond 32 bits, and what CML has no type for, go as strings."""

_NOT_IN_CML: Final = frozenset((ValueType.MAP, ValueType.LIST, ValueType.BYTES))


def write_classes(classes: Sequence[ClassSchema], name: str, version: str) -> SchemaReply:
    """Return the schema of ``classes``; ``name`` and ``version`` are the schema's own.

    A class whose ``parentRef`` names another is listed by that one, in a field of its own name behind all
    others.

    Raises:
        LocalProtocolError: an element or argument has a type that CML has nothing for, a ``parentRef`` names
            no class among these, or an element's name does not begin with its groups.
    """
    listed: dict[str, list[str]] = {each.key.name: [] for each in classes}
    for each in classes:
        for element in each.elements:
            if element.name == PARENT:
                if element.references not in listed:
                    raise LocalProtocolError(f"{each.key}: nothing says which class lists it")
                listed[element.references].append(each.key.name)
    return SchemaReply(
        Status.OK, name, version, tuple(_class(each, listed[each.key.name]) for each in classes)
    )


def _class(each: ClassSchema, children: Iterable[str]) -> SchemaClass:
    shown = [element for element in each.elements if element.name != PARENT]
    lists = [SchemaField(child, "objref", repeat=True) for child in children]
    methods = tuple(_method(method) for method in each.methods)
    return SchemaClass(each.key.name, each.label, each.description, (*_members(shown, 0), *lists), methods)


def _members(elements: Sequence[Element], depth: int) -> tuple[SchemaMember, ...]:
    """Elements in their order; those of one group that stand side by side in one group."""
    members: list[SchemaMember] = []
    position = 0
    while position < len(elements):
        group = elements[position].group[: depth + 1]
        if len(group) <= depth:
            members.append(_field(elements[position], depth))
            position += 1
            continue
        end = position
        while end < len(elements) and elements[end].group[: depth + 1] == group:
            end += 1
        members.append(SchemaGroup(group[depth], _members(elements[position:end], depth + 1)))
        position = end
    return tuple(members)


def _field(element: Element, depth: int) -> SchemaField:
    path = ".".join(element.group)
    name = element.name.removeprefix(f"{path}.") if depth else element.name
    if depth and name == element.name:
        raise LocalProtocolError(f"{element.name}: its name does not begin with {path}")
    return SchemaField(
        name,
        _type(element),
        inspect=element.readable,
        modify=element.access is Access.READ_WRITE,
        label=element.label,
        description=element.description,
        values=_values(element),
    )


def _method(method: Method) -> SchemaMethod:
    arguments = tuple(
        SchemaField(
            each.name, _type(each), label=each.label, description=each.description, values=_values(each)
        )
        for each in method.arguments
    )
    return SchemaMethod(method.name, method.label, method.description, arguments)


def _type(item: Element | Argument) -> str:
    if item.type in _NOT_IN_CML:
        raise LocalProtocolError(f"{item.name}: CML has no {item.type.value}")
    return _TYPES[item.type]


def _values(item: Element | Argument) -> tuple[NamedText, ...]:
    # The specification's form of times, for a schema is the same for all readers.
    return tuple(
        NamedText(each.label, write_value(each.value, item, Spelling.SPECIFICATION)) for each in item.values
    )
