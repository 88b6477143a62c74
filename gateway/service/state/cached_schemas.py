"""Files of the schemas that a source's peers reported, cached over restarts of the gateway.

A cache is no truth: without it, or with a file that cannot be read, everything is requested, or learnt,
again. With the schemas of a console, what waited in a queue while the gateway was away can be read before any
agent is asked, also where the agent is away by now. With the classes of applications, which nobody can
request, the objects of the event log can be restored before an application speaks.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.messages import SchemaResponse
from gateway.durable_files import write_durably
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

log = structlog.get_logger(__name__)

FOLDER: Final = "schemas"
"""In the state folder."""

CLASSES_SETTLING_SECONDS: Final = 0.05
"""As the log's commits: objects in it are of classes in here."""

DEFINITIONS_SETTLING_SECONDS: Final = 1.0
"""Definitions are learnt many at once: they are written together."""

_MAX_OCTETS: Final = 64 << 20
_CLASSES_LINE: Final = "amqp-gateway classes 1: fields of each class in their order, JSON"
_DEFINITIONS_LINE: Final = "amqp-gateway schemas 1: AM2 schema responses, in hexadecimal digits"

_ELEMENT: Final = tuple(field.name for field in dataclasses.fields(Element))
_ARGUMENT: Final = tuple(field.name for field in dataclasses.fields(Argument))

T = TypeVar("T")


class CacheFile:
    """One file, read once and written again and again.

    Args:
        state: the state folder.
        name: of the file, within `FOLDER`.
        content: what is in it, in one word, by which the log names what went wrong.
    """

    def __init__(self, state: Path, name: str, content: str) -> None:
        self._path = state / FOLDER / name
        self._content = content
        self._changed = asyncio.Event()
        self._text = ""

    def read(self, understood: Callable[[bytes], T]) -> T | None:
        """Return the content; ``None`` where there is no file, or none that can be ``understood``."""
        try:
            with self._path.open("rb") as file:
                octets = file.read(_MAX_OCTETS)
            content, text = understood(octets), octets.decode()
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, LookupError, ProtocolError) as error:
            self._warn("not-read", error)
            return None
        self._text = text
        return content

    def learnt(self) -> None:
        """Write the file soon: its content changed."""
        self._changed.set()

    async def keep(self, known: Callable[[], str | None], settling: float) -> None:
        """Write what is known, if it differs, soon after something was learnt; ends by cancellation only.

        Args:
            known: the text, or ``None`` where there is nothing to write; may raise `LocalProtocolError`
                for what the file cannot carry.
            settling: seconds to wait for more.
        """
        try:
            while True:
                await self._changed.wait()
                await asyncio.sleep(settling)
                self._changed.clear()
                if (text := self._news(known)) is not None:
                    await asyncio.to_thread(self._write, text)
        finally:
            # The gateway ends: what was learnt last cannot wait for more.
            if self._changed.is_set() and (text := self._news(known)) is not None:
                self._write(text)

    def _news(self, known: Callable[[], str | None]) -> str | None:
        """Return the text to write; ``None`` where the file has the same, or cannot carry it."""
        try:
            text = known()
        except LocalProtocolError as error:
            self._warn("not-kept", error)
            return None
        return None if text == self._text else text

    def _write(self, text: str) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            write_durably(self._path, text)
        except OSError as error:
            self._warn("not-kept", error)
        else:
            self._text = text

    def _warn(self, what: str, error: Exception) -> None:
        event = f"{self._content}-{what}"
        log.warning(event, path=str(self._path), detail=str(error))


class CachedClasses:
    """The file of one source: of each class its latest version.

    Args:
        state: the state folder.
        source: name of the source.
    """

    def __init__(self, state: Path, source: str) -> None:
        self._file = CacheFile(state, f"{source}.classes", "classes")
        self._lines: dict[str, str] = {}

    def read(self) -> tuple[ClassSchema, ...]:
        """Return what was cached; nothing where that cannot be read."""
        schemas = self._file.read(lambda octets: read_classes(octets.decode()))
        if schemas is None:
            return ()
        self._lines = {str(schema.key): _class_line(schema) for schema in schemas}
        return schemas

    def keep_only(self, schemas: Iterable[ClassSchema]) -> None:
        """Drop all others, with the next write."""
        names = {str(schema.key) for schema in schemas}
        self._lines = {name: line for name, line in self._lines.items() if name in names}

    def learnt(self, schemas: Iterable[ClassSchema]) -> None:
        """Cache these, too."""
        for schema in schemas:
            line = _class_line(schema)
            if self._lines.get(str(schema.key)) != line:
                self._lines[str(schema.key)] = line
                self._file.learnt()

    async def keep(self) -> None:
        """Write the file soon after something was learnt; ends by cancellation only."""
        await self._file.keep(lambda: _classes_file(self._lines.values()), CLASSES_SETTLING_SECONDS)


def classes_text(schemas: Iterable[ClassSchema]) -> str:
    """Return the content of the file."""
    return _classes_file(map(_class_line, schemas))


def read_classes(text: str) -> tuple[ClassSchema, ...]:
    """Read what `classes_text` returned.

    Raises:
        ValueError: it is something else; so are `TypeError` and `LookupError`.
    """
    return tuple(_schemas(text.splitlines()))


def _classes_file(lines: Iterable[str]) -> str:
    return "\n".join((_CLASSES_LINE, *lines, ""))


def _class_line(schema: ClassSchema) -> str:
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
    if not lines or lines[0] != _CLASSES_LINE:
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


class CachedDefinitions:
    """The file of one source.

    Args:
        state: the state folder.
        source: name of the source.
    """

    def __init__(self, state: Path, source: str) -> None:
        self._file = CacheFile(state, f"{source}.am2", "schemas")

    def read(self) -> tuple[ClassDefinition | EventDefinition, ...]:
        """Return what was cached; nothing where that cannot be read."""
        return self._file.read(lambda octets: read_definitions(octets.decode("ascii"))) or ()

    def learnt(self) -> None:
        """Write the file soon: there is more to be cached."""
        self._file.learnt()

    async def keep(self, known: Callable[[], Iterable[ClassDefinition | EventDefinition]]) -> None:
        """Write the file soon after something was learnt; ends by cancellation only."""
        await self._file.keep(lambda: definitions_text(known()), DEFINITIONS_SETTLING_SECONDS)


def definitions_text(known: Iterable[ClassDefinition | EventDefinition]) -> str:
    """Return the content of the file."""
    return "\n".join((_DEFINITIONS_LINE, *map(_definition_line, known), ""))


def read_definitions(text: str) -> tuple[ClassDefinition | EventDefinition, ...]:
    """Read what `definitions_text` returned.

    Raises:
        ValueError: it is something else; so is `ProtocolError`.
    """
    return tuple(_definitions(text.splitlines()))


def _definition_line(definition: ClassDefinition | EventDefinition) -> str:
    try:
        return write(SchemaResponse(0, definition)).hex()
    except LocalProtocolError:
        return ""  # it came from a peer that says more than we can: it is asked for again


def _definitions(lines: list[str]) -> Iterable[ClassDefinition | EventDefinition]:
    if not lines or lines[0] != _DEFINITIONS_LINE:
        raise ValueError("it is no file of schemas, or of a later gateway")
    for line in filter(None, lines[1:]):
        for message in read_body(bytes.fromhex(line), Definitions()):
            if isinstance(message, SchemaResponse):
                yield message.definition
