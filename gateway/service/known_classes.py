"""The classes that applications had told, kept over restarts of the gateway.

A dialect whose classes grow as values arrive tells them of nobody's asking. Kept, they are what they were
before anybody speaks again, and what the event log has of their objects can be read. The file is a memory,
not a truth: without it, or with one that cannot be read, classes are learnt anew as their objects are told.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import structlog

from gateway.durable_files import write_durably
from gateway.feed.schema_fields import class_schema
from gateway.model.schema import ClassSchema
from gateway.service.known_schemas import FOLDER

log = structlog.get_logger(__name__)

SETTLING_SECONDS: Final = 0.05
"""As the log's commits: objects in it are of classes in here."""

_FIRST_LINE: Final = "amqp-gateway classes 1: fields of each class in their order, JSON"
_MAX_CHARACTERS: Final = 64 << 20


class KnownClasses:
    """The file of one source: of each class its latest version.

    Args:
        state: the state folder.
        source: name of the source.
    """

    def __init__(self, state: Path, source: str) -> None:
        self._path = state / FOLDER / f"{source}.classes"
        self._changed = asyncio.Event()
        self._lines: dict[str, str] = {}

    def read(self) -> tuple[ClassSchema, ...]:
        """What was known; nothing where that cannot be read."""
        try:
            with self._path.open(encoding="utf-8") as file:
                schemas = read_classes(file.read(_MAX_CHARACTERS))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, TypeError, LookupError) as error:
            log.warning("classes-not-read", path=str(self._path), detail=str(error))
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
                self._changed.set()

    async def keep(self) -> None:
        """Write the file soon after something was learnt; ends by cancellation only."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(SETTLING_SECONDS)
            self._changed.clear()
            text = _text(self._lines.values())
            try:
                await asyncio.to_thread(self._write, text)
            except OSError as error:
                log.warning("classes-not-kept", path=str(self._path), detail=str(error))

    def _write(self, text: str) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        write_durably(self._path, text)


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
        yield class_schema(((package, name, bytes.fromhex(version)), *rest))


def _tuples(value: Any) -> Any:  # noqa: ANN401  whatever JSON gave
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
