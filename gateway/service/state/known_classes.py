"""The classes that applications had told, kept over restarts of the gateway.

A dialect whose classes grow as values arrive tells them of nobody's asking. Kept, they are what they were
before anybody speaks again, and what the event log has of their objects can be read. The file is a memory,
not a truth: without it, or with one that cannot be read, classes are learnt again as their objects are told.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Direction,
    Element,
    Kind,
    Method,
    NamedValue,
)
from gateway.model.values import ValueType
from gateway.service.state.cache_file import CacheFile

SETTLING_SECONDS: Final = 0.05
"""As the log's commits: objects in it are of classes in here."""

_FIRST_LINE: Final = "amqp-gateway classes 1: fields of each class in their order, JSON"

_ELEMENT: Final = tuple(field.name for field in dataclasses.fields(Element))
_ARGUMENT: Final = tuple(field.name for field in dataclasses.fields(Argument))


class KnownClasses:
    """The file of one source: of each class its latest version.

    Args:
        state: the state folder.
        source: name of the source.
    """

    def __init__(self, state: Path, source: str) -> None:
        self._file = CacheFile(state, f"{source}.classes", "classes")
        self._lines: dict[str, str] = {}

    def read(self) -> tuple[ClassSchema, ...]:
        """What was known; nothing where that cannot be read."""
        schemas = self._file.read(lambda octets: read_classes(octets.decode()))
        if schemas is None:
            return ()
        self._lines = {str(schema.key): _line(schema) for schema in schemas}
        return schemas

    def keep_only(self, schemas: Iterable[ClassSchema]) -> None:
        """Forget all others, as of when something is learnt."""
        names = {str(schema.key) for schema in schemas}
        self._lines = {name: line for name, line in self._lines.items() if name in names}

    def learnt(self, schemas: Iterable[ClassSchema]) -> None:
        """These are known from now on."""
        for schema in schemas:
            line = _line(schema)
            if self._lines.get(str(schema.key)) != line:
                self._lines[str(schema.key)] = line
                self._file.learnt()

    async def keep(self) -> None:
        """Write the file soon after something was learnt; ends by cancellation only."""
        await self._file.keep(lambda: _text(self._lines.values()), SETTLING_SECONDS)


def classes_text(schemas: Iterable[ClassSchema]) -> str:
    """What stands in the file."""
    return _text(map(_line, schemas))


def read_classes(text: str) -> tuple[ClassSchema, ...]:
    """What `classes_text` told.

    Raises:
        ValueError: it is something else; so are `TypeError` and `LookupError`.
    """
    return tuple(_schemas(text.splitlines()))


def _text(lines: Iterable[str]) -> str:
    return "\n".join((_FIRST_LINE, *lines, ""))


def _line(schema: ClassSchema) -> str:
    return json.dumps(_fields(schema), ensure_ascii=True, separators=(",", ":"))


def _fields(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [_fields(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple):
        return [_fields(one) for one in value]
    if isinstance(value, enum.Enum):
        return value.value
    return value.hex() if isinstance(value, bytes) else value


def _schemas(lines: list[str]) -> Iterable[ClassSchema]:
    if not lines or lines[0] != _FIRST_LINE:
        raise ValueError("it is no file of classes, or of a later gateway")
    for line in lines[1:]:
        (package, name, version), *rest = _tuples(json.loads(line))
        yield _class_schema(((package, name, bytes.fromhex(version)), *rest))


def _tuples(value: Any) -> Any:  # noqa: ANN401  whatever JSON gave
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


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


def _class_schema(fields: tuple[Any, ...]) -> ClassSchema:
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
