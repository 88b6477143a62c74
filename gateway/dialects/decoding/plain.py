"""The interface of decoders: bodies go in, messages of values that JSON and YAML can express come out.

A message has its name, and its attributes by their names.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import singledispatch
from typing import Protocol, TypeAlias
from uuid import UUID

from gateway.dialects.ami import values as ami
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.elements import TypeCode
from gateway.dialects.qmf.fields import ObjectId
from gateway.model.schema import Argument, ClassKey, Element

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
"""A value of JSON."""


def message(value: object) -> dict[str, Plain]:
    """Return a message as a mapping: its name as ``message``, and its attributes.

    Octets are ``{"base64": ...}``; AMI's values that look like another type are ``{"long": 5}``; keys of
    classes are ``package:name``, with their hash behind ``#`` in hexadecimal where they have one.
    """
    return {"message": type(value).__name__, **_attributes(value)}


@singledispatch
def plain(value: object) -> Plain:
    """Return any value of a message in the form that `message` describes."""
    return _attributes(value)


def _attributes(value: object) -> dict[str, Plain]:
    assert dataclasses.is_dataclass(value)
    return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}


@plain.register
def _nothing(_: None) -> Plain:
    return None


@plain.register(bool)
@plain.register(int)
def _same(value: int) -> Plain:
    return value


@plain.register
def _text(value: str) -> Plain:
    return str.__str__(value)  # of texts that are more, as those that were Latin-1


@plain.register
def _number(value: float) -> Plain:
    return value if math.isfinite(value) else repr(value)  # JSON has no NaN and no infinity


@plain.register
def _octets(value: bytes) -> Plain:
    return {"base64": base64.b64encode(value).decode()}


@plain.register(enum.IntEnum)
@plain.register(enum.StrEnum)
@plain.register(enum.Enum)
def _name(value: enum.Enum) -> Plain:
    return value.name.lower()


@plain.register(ami.Long)
@plain.register(ami.Utc)
def _typed_integer(value: int) -> Plain:
    return {type(value).__name__.lower(): int(value)}


@plain.register(ami.Double)
def _typed_number(value: float) -> Plain:
    return {"double": plain(float(value))}


@plain.register(ami.Enum)
@plain.register(ami.Json)
def _typed_text(value: str) -> Plain:
    return {type(value).__name__.lower(): str.__str__(value)}


@plain.register
def _class_key(value: ClassKey) -> Plain:
    return f"{value}#{value.hash.hex()}" if value.hash else str(value)


@plain.register(UUID)
@plain.register(ObjectId)
def _as_text(value: object) -> Plain:
    return str(value)


@plain.register
def _class_schema(value: ClassDefinition) -> Plain:
    schema = value.schema
    methods: list[Plain] = [
        {**_attributes(method), "arguments": _with_codes(method.arguments, codes)}
        for method, codes in zip(schema.methods, value.method_codes, strict=True)
    ]
    return {
        **_attributes(schema),
        "properties": _with_codes(schema.properties, value.property_codes),
        "statistics": _with_codes(schema.statistics, value.statistic_codes),
        "methods": methods,
    }


@plain.register
def _event_schema(value: EventDefinition) -> Plain:
    return {**_attributes(value.schema), "arguments": _with_codes(value.schema.arguments, value.codes)}


def _with_codes(items: Sequence[Element] | Sequence[Argument], codes: Sequence[TypeCode]) -> Plain:
    """Return elements or arguments with their type codes: QMF has several for one type of the model."""
    return [
        {**_attributes(item), "type_code": code.name.lower()} for item, code in zip(items, codes, strict=True)
    ]


@plain.register(Mapping)
def _mapping(value: Mapping[object, object]) -> Plain:
    return {str(name): plain(one) for name, one in value.items()}


@plain.register(Sequence)
def _list(value: Sequence[object]) -> Plain:
    return [plain(one) for one in value]


@plain.register(AbstractSet)
def _set(value: AbstractSet[object]) -> Plain:
    return sorted((plain(one) for one in value), key=str)


@dataclass(frozen=True, slots=True)
class Body:
    """A body with its envelope, as far as that is known.

    Attributes:
        octets: the octets of the body.
        exchange: the exchange that it was published to.
        routing_key: its routing key.
        reply_to: the routing key for its answer.
        stream: a name of the stream, if the body is a part of one direction of a connection; else empty.
    """

    octets: bytes
    exchange: str = ""
    routing_key: str = ""
    reply_to: str = ""
    stream: str = ""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The messages of a body.

    Attributes:
        messages: the messages in order (`plain.message`).
        reencoded: whether our encoder gives the same octets; ``None`` where it cannot encode the messages.
    """

    messages: list[dict[str, Plain]]
    reencoded: bool | None


class Decoder(Protocol):
    """Decodes bodies of one dialect in their order; remembers from each what later ones need."""

    def decode(self, body: Body) -> Decoded:
        """Return the messages of ``body``.

        Raises:
            ProtocolError: it is not a body of the dialect.
        """
        ...
