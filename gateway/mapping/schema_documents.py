"""Saved schemas: the classes and events that a gateway knew, as a JSON document for people and programs.

The same schemas give the same text anywhere: classes and events are in the order of their names, elements and
arguments in that of the wire, and what has its default is left out. It contains no values of objects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, ValidationError

from gateway.file_owners import opened
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
from gateway.yaml_documents import MAX_COMPLAINTS, Complaint, DocumentError, StrictModel, in_words

DOCUMENT: Final = "amqp-gateway schemas"
MAX_OCTETS: Final = 64 << 20
"""The maximum size of a document, in bytes."""


def _hexadecimal(text: str) -> str:
    bytes.fromhex(text)
    return text


_Hash = Annotated[str, Field(max_length=128), AfterValidator(_hexadecimal)]


class _Value(StrictModel):
    label: str
    value: int | str


class _Item(StrictModel):
    name: str
    type: ValueType
    optional: bool = False
    unit: str = ""
    minimum: int | float | None = None
    maximum: int | float | None = None
    max_length: int | None = None
    default: bool | int | float | str | None = None
    references: str = ""
    label: str = ""
    description: str = ""
    values: tuple[_Value, ...] = ()


class _Element(_Item):
    access: Access = Access.READ_ONLY
    index: bool = False
    readable: bool = True
    group: tuple[str, ...] = ()
    kind: Kind = Kind.GAUGE


class _Argument(_Item):
    direction: Direction = Direction.IN


class _Method(StrictModel):
    name: str
    label: str = ""
    description: str = ""
    arguments: tuple[_Argument, ...] = ()


class _Class(StrictModel):
    package: str
    name: str
    hash: _Hash = ""
    label: str = ""
    description: str = ""
    named_by: str = ""
    parent: str = ""
    properties: tuple[_Element, ...] = ()
    statistics: tuple[_Element, ...] = ()
    methods: tuple[_Method, ...] = ()


class _Event(StrictModel):
    package: str
    name: str
    hash: _Hash = ""
    label: str = ""
    description: str = ""
    arguments: tuple[_Argument, ...] = ()


class _Document(StrictModel):
    document: Literal["amqp-gateway schemas"]
    version: Literal[1]
    classes: tuple[_Class, ...] = ()
    events: tuple[_Event, ...] = ()


@dataclass(frozen=True)
class SavedClass:
    """A version of a class, with the mapping applied.

    Attributes:
        schema: the class.
        named_by: the property that has the leaf name of objects; empty where the schema decides.
        parent: the property that leads to the parent; empty for none.
    """

    schema: ClassSchema
    named_by: str = ""
    parent: str = ""


@dataclass(frozen=True)
class SavedSchemas:
    """All classes and events of a document; there may be several versions of one."""

    classes: tuple[SavedClass, ...] = ()
    events: tuple[EventSchema, ...] = ()


def schemas_text(schemas: SavedSchemas) -> str:
    """Return the document, which ends with a line break."""
    document = {
        "document": DOCUMENT,
        "version": 1,
        "classes": _ordered(map(_class_of, schemas.classes)),
        "events": _ordered(map(_event_of, schemas.events)),
    }
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def read_schemas(path: Path) -> SavedSchemas:
    """Read the document in the file ``path``.

    Raises:
        DocumentError: it cannot be read, or is something else.
    """
    try:
        with opened(path) as file:
            octets = file.read(MAX_OCTETS + 1)
    except OSError as error:
        raise DocumentError(path, [Complaint(1, "", f"cannot be read: {error.strerror or error}")]) from error
    if len(octets) > MAX_OCTETS:
        raise DocumentError(path, [Complaint(1, "", f"is larger than {MAX_OCTETS} bytes")])
    return parse_schemas(octets, path)


def parse_schemas(octets: bytes, path: Path) -> SavedSchemas:
    """Read a document as `read_schemas` does; ``path`` only names it in complaints."""
    try:
        data = json.loads(octets)
    except json.JSONDecodeError as error:
        raise DocumentError(path, [Complaint(error.lineno, "", f"is not JSON: {error.msg}")]) from error
    except (ValueError, RecursionError) as error:
        raise DocumentError(path, [Complaint(1, "", "is not JSON in UTF-8")]) from error
    if not isinstance(data, dict) or data.get("document") != DOCUMENT:
        text = "is no document of `amqp-gateway schema export`"
        raise DocumentError(path, [Complaint(1, "", text)])
    try:
        read = _Document.model_validate(data)
    except ValidationError as error:
        complaints = [
            Complaint(1, ".".join(map(str, each["loc"])), in_words(each))
            for each in error.errors(include_url=False, include_input=False)[:MAX_COMPLAINTS]
        ]
        raise DocumentError(path, complaints) from error
    return SavedSchemas(tuple(map(_class_from, read.classes)), tuple(map(_event_from, read.events)))


def _ordered(entries: Iterable[StrictModel]) -> list[dict[str, Any]]:
    """Return entries as JSON, in the order of package, name and contents, each once."""
    found = {}
    for entry in entries:
        document = entry.model_dump(mode="json", exclude_defaults=True)
        found[document["package"], document["name"], json.dumps(document)] = document
    return [found[key] for key in sorted(found)]


def _class_of(saved: SavedClass) -> _Class:
    schema = saved.schema
    return _Class(
        **_named(schema),
        named_by=_clean(saved.named_by),
        parent=_clean(saved.parent),
        properties=tuple(map(_element_of, schema.properties)),
        statistics=tuple(map(_element_of, schema.statistics)),
        methods=tuple(
            _Method(
                name=_clean(method.name),
                label=_clean(method.label),
                description=_clean(method.description),
                arguments=tuple(map(_argument_of, method.arguments)),
            )
            for method in schema.methods
        ),
    )


def _event_of(schema: EventSchema) -> _Event:
    return _Event(**_named(schema), arguments=tuple(map(_argument_of, schema.arguments)))


def _named(schema: ClassSchema | EventSchema) -> dict[str, str]:
    key = schema.key
    return {
        "package": _clean(key.package),
        "name": _clean(key.name),
        "hash": key.hash.hex(),
        "label": _clean(schema.label),
        "description": _clean(schema.description),
    }


def _element_of(element: Element) -> _Element:
    return _Element(**_fields(element, _Element))


def _argument_of(argument: Argument) -> _Argument:
    return _Argument(**_fields(argument, _Argument))


def _fields(item: Element | Argument, model: type[_Item]) -> dict[str, Any]:
    fields = {name: _clean(getattr(item, name)) for name in model.model_fields}
    values = tuple(_Value(label=_clean(one.label), value=_clean(one.value)) for one in item.values)
    return {**fields, "values": values}


def _clean(value: Any) -> Any:  # noqa: ANN401  any field of a schema
    """Return a value whose texts can be written: a peer's text may contain half of a surrogate pair."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no infinity, and a limit of it limits nothing
    return tuple(map(_clean, value)) if isinstance(value, tuple) else value


def _class_from(read: _Class) -> SavedClass:
    schema = ClassSchema(
        ClassKey(read.package, read.name, bytes.fromhex(read.hash)),
        tuple(map(_element_from, read.properties)),
        tuple(map(_element_from, read.statistics)),
        tuple(
            Method(one.name, tuple(map(_argument_from, one.arguments)), one.label, one.description)
            for one in read.methods
        ),
        read.label,
        read.description,
    )
    return SavedClass(schema, read.named_by, read.parent)


def _event_from(read: _Event) -> EventSchema:
    return EventSchema(
        ClassKey(read.package, read.name, bytes.fromhex(read.hash)),
        tuple(map(_argument_from, read.arguments)),
        read.label,
        read.description,
    )


def _element_from(read: _Element) -> Element:
    return Element(**_read_fields(read))


def _argument_from(read: _Argument) -> Argument:
    return Argument(**_read_fields(read))


def _read_fields(read: _Item) -> dict[str, Any]:
    fields = {name: getattr(read, name) for name in type(read).model_fields}
    return {**fields, "values": tuple(NamedValue(one.label, one.value) for one in read.values)}
