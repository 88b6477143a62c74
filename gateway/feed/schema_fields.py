"""Schemas as they come out of msgpack: the fields of their dataclasses in order, nested likewise."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Direction,
    Element,
    EventSchema,
    Kind,
    Method,
    NamedValue,
)
from gateway.model.values import ValueType

_ELEMENT: Final = tuple(field.name for field in dataclasses.fields(Element))
_ARGUMENT: Final = tuple(field.name for field in dataclasses.fields(Argument))


def _element(fields: tuple[Any, ...]) -> Element:
    element = dict(zip(_ELEMENT, fields, strict=True))
    element["type"] = ValueType(element["type"])
    element["access"] = Access(element["access"])
    element["kind"] = Kind(element["kind"])
    element["values"] = tuple(NamedValue(*named) for named in element["values"])
    return Element(**element)


def _argument(fields: tuple[Any, ...]) -> Argument:
    argument = dict(zip(_ARGUMENT, fields, strict=True))
    argument["type"] = ValueType(argument["type"])
    argument["direction"] = Direction(argument["direction"])
    argument["values"] = tuple(NamedValue(*named) for named in argument["values"])
    return Argument(**argument)


def class_schema(fields: tuple[Any, ...]) -> ClassSchema:
    """A class of the fields of its dataclass, in their order; any exception where they are none."""
    key, properties, statistics, methods, label, description = fields
    return ClassSchema(
        ClassKey(*key),
        tuple(_element(element) for element in properties),
        tuple(_element(element) for element in statistics),
        tuple(
            Method(name, tuple(_argument(argument) for argument in arguments), *texts)
            for name, arguments, *texts in methods
        ),
        label,
        description,
    )


def event_schema(fields: tuple[Any, ...]) -> EventSchema:
    """An event; likewise."""
    key, arguments, label, description = fields
    return EventSchema(
        ClassKey(*key), tuple(_argument(argument) for argument in arguments), label, description
    )
