"""Files of the schemas that a source's peers reported, cached over restarts of the gateway.

The cache is optional: without it, or with a file that cannot be read, every schema is requested or received
again. With the schemas of a console, messages that waited in a queue while the gateway was down can be read
before an agent is asked, even if the agent has gone. With the classes of applications, which cannot be
requested, the objects of the event log can be restored before an application connects.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import structlog

from gateway.dialects.errors import LocalProtocolError, ProtocolError
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

if TYPE_CHECKING:  # a core imports only the dialects that its sources speak
    from gateway.dialects.cml.messages import SchemaReply
    from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition

log = structlog.get_logger(__name__)

FOLDER: Final = "schemas"
"""The folder of the files in the state folder."""

CLASSES_SETTLING_SECONDS: Final = 0.05
"""Seconds before classes are written, as of the log's commits: objects in the log are of these classes."""

DEFINITIONS_SETTLING_SECONDS: Final = 0.05
"""Seconds before definitions are written, as short as those of classes.

The end of an object that the log has may wait in the queue of a durable subscription.
"""

CML_SETTLING_SECONDS: Final = 1.0
"""Seconds before a schema is written: a broker that is restarted may send its schema more than once."""

_MAX_OCTETS: Final = 64 << 20
_CLASSES_LINE: Final = "amqp-gateway classes 1: fields of each class in their order, JSON"
_DEFINITIONS_LINE: Final = "amqp-gateway schemas 1: AM2 schema responses, in hexadecimal digits"

_ELEMENT: Final = tuple(field.name for field in dataclasses.fields(Element))
_ARGUMENT: Final = tuple(field.name for field in dataclasses.fields(Argument))

T = TypeVar("T")


class SchemaCache(Generic[T]):
    """One file, read once and written again and again.

    Args:
        path: the path of the file.
        content: one word for the content, by which the log names errors.
        write: returns the text of a file; may raise `LocalProtocolError` for content that a file cannot
            carry.
        read: the reverse; raises one of the errors that `read` below handles for a file that cannot be used.
        settling: seconds to wait for further changes before the file is written.
    """

    def __init__(
        self,
        path: Path,
        content: str,
        write: Callable[[T], str],
        read: Callable[[bytes], T],
        settling: float,
    ) -> None:
        self._path = path
        self._content = content
        self._text_of = write
        self._read = read
        self._settling = settling
        self._changed = asyncio.Event()
        self._text = ""

    def read(self) -> T | None:
        """Return the content; ``None`` where there is no file, or none that can be used."""
        try:
            with self._path.open("rb") as file:
                octets = file.read(_MAX_OCTETS)
            content, text = self._read(octets), octets.decode()
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

    async def keep(self, known: Callable[[], T | None]) -> None:
        """Write the content that ``known`` returns, soon after it changed; ends by cancellation only."""
        try:
            while True:
                await self._changed.wait()
                await asyncio.sleep(self._settling)
                self._changed.clear()
                if (text := self._news(known())) is not None:
                    await asyncio.to_thread(self._write, text)
        finally:
            # The gateway ends: what was learnt last cannot wait for more.
            if self._changed.is_set() and (text := self._news(known())) is not None:
                self._write(text)

    def _news(self, content: T | None) -> str | None:
        """Return the text to write; ``None`` where the file has the same, or cannot carry it."""
        if content is None:
            return None
        try:
            text = self._text_of(content)
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
    """The cache file of one source: the latest version of each class.

    Args:
        state: the state folder.
        source: name of the source.
    """

    def __init__(self, state: Path, source: str) -> None:
        self._file = SchemaCache[tuple[ClassSchema, ...]](
            state / FOLDER / f"{source}.classes",
            "classes",
            classes_text,
            lambda octets: read_classes(octets.decode()),
            CLASSES_SETTLING_SECONDS,
        )
        self._classes: dict[str, ClassSchema] = {}

    def read(self) -> tuple[ClassSchema, ...]:
        """Return the cached classes; none where they cannot be read."""
        schemas = self._file.read() or ()
        self.keep_only(schemas)
        return schemas

    def keep_only(self, schemas: Iterable[ClassSchema]) -> None:
        """Drop all other classes, with the next write."""
        self._classes = {str(schema.key): schema for schema in schemas}

    def learnt(self, schemas: Iterable[ClassSchema]) -> None:
        """Cache these classes, too."""
        for schema in schemas:
            if self._classes.get(str(schema.key)) != schema:
                self._classes[str(schema.key)] = schema
                self._file.learnt()

    async def keep(self) -> None:
        """Write the file soon after a class was learnt; ends by cancellation only."""
        await self._file.keep(lambda: tuple(self._classes.values()))


def classes_text(schemas: Iterable[ClassSchema]) -> str:
    """Return the content of the file."""
    return "\n".join((_CLASSES_LINE, *map(_class_line, schemas), ""))


def read_classes(text: str) -> tuple[ClassSchema, ...]:
    """Read what `classes_text` returned.

    Raises:
        ValueError: it is something else; so are `TypeError` and `LookupError`.
    """
    return tuple(_schemas(text.splitlines()))


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
    """Return a class from the fields of its dataclass, in order; raise any exception where they are none."""
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


def definitions_cache(state: Path, source: str) -> SchemaCache[tuple[ClassDefinition | EventDefinition, ...]]:
    """Return the file of a source whose agents speak AM2."""
    return SchemaCache(
        state / FOLDER / f"{source}.am2",
        "schemas",
        definitions_text,
        lambda octets: read_definitions(octets.decode("ascii")),
        DEFINITIONS_SETTLING_SECONDS,
    )


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
    from gateway.dialects.qmf.codec import write  # noqa: PLC0415  see above
    from gateway.dialects.qmf.messages import SchemaResponse  # noqa: PLC0415

    try:
        return write(SchemaResponse(0, definition)).hex()
    except LocalProtocolError:
        return ""  # it came from a peer that says more than we can: it is asked for again


def _definitions(lines: list[str]) -> Iterable[ClassDefinition | EventDefinition]:
    if not lines or lines[0] != _DEFINITIONS_LINE:
        raise ValueError("it is no file of schemas, or of a later gateway")
    from gateway.dialects.qmf.codec import read_body  # noqa: PLC0415  see above
    from gateway.dialects.qmf.definitions import Definitions  # noqa: PLC0415
    from gateway.dialects.qmf.messages import SchemaResponse  # noqa: PLC0415

    for line in filter(None, lines[1:]):
        for message in read_body(bytes.fromhex(line), Definitions()):
            if isinstance(message, SchemaResponse):
                yield message.definition


def cml_cache(state: Path, source: str) -> SchemaCache[SchemaReply]:
    """Return the file of a source whose broker speaks CML."""
    return SchemaCache(
        state / FOLDER / f"{source}.cml", "schemas", schema_document, schema_of, CML_SETTLING_SECONDS
    )


def schema_document(reply: SchemaReply) -> str:
    """Return a schema as a document for a file, which any XML parser reads.

    Raises:
        LocalProtocolError: a text in it has characters that XML cannot carry.
    """
    from gateway.dialects.cml.codec import write_message  # noqa: PLC0415  see above
    from gateway.dialects.cml.messages import Spelling  # noqa: PLC0415

    return write_message(reply, Spelling.SPECIFICATION).decode()


def schema_of(document: bytes) -> SchemaReply:
    """Return the schema-reply in a document, in either spelling.

    Raises:
        ProtocolError: it is something else, or a schema that cannot be used.
    """
    from gateway.dialects.cml.codec import read_message  # noqa: PLC0415  see above
    from gateway.dialects.cml.messages import SchemaReply, Status  # noqa: PLC0415
    from gateway.dialects.cml.schema import read_classes as read_cml_classes  # noqa: PLC0415

    message = read_message(document)
    if not isinstance(message, SchemaReply) or message.status != Status.OK or not message.classes:
        raise ProtocolError("a schema-reply with classes", "something else")
    read_cml_classes(message)
    return message
