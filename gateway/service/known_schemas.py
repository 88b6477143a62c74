"""The schemas that a console knew, kept over restarts of the gateway.

What waited in a queue while the gateway was away can be read with them before any agent is asked, also where
the agent is away by now. The file is a memory, not a truth: without it, or with one that cannot be read, what
waited and cannot be read is told as lost, and all else is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import structlog

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.messages import SchemaResponse
from gateway.dialects.qmf.reader import read_body
from gateway.dialects.qmf.writer import write
from gateway.durable_files import write_durably

log = structlog.get_logger(__name__)

FOLDER: Final = "schemas"
"""In the state folder."""

SETTLING_SECONDS: Final = 1.0
"""Schemas are learnt many at once: they are written together."""

_FIRST_LINE: Final = "amqp-gateway schemas 1: AM2 schema responses, in hexadecimal digits"
_MAX_CHARACTERS: Final = 64 << 20


class KnownSchemas:
    """The file of one source.

    Args:
        state: the state folder.
        source: name of the source.
    """

    def __init__(self, state: Path, source: str) -> None:
        self._path = state / FOLDER / f"{source}.am2"
        self._changed = asyncio.Event()

    def read(self) -> tuple[ClassDefinition | EventDefinition, ...]:
        """What was known; nothing where that cannot be read."""
        try:
            with self._path.open(encoding="ascii") as file:
                return read_definitions(file.read(_MAX_CHARACTERS))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, ProtocolError) as error:
            log.warning("schemas-not-read", path=str(self._path), detail=str(error))
            return ()

    def learnt(self) -> None:
        """There is more to be known."""
        self._changed.set()

    async def keep(self, known: Callable[[], Iterable[ClassDefinition | EventDefinition]]) -> None:
        """Write the file soon after something was learnt; never ends."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(SETTLING_SECONDS)
            self._changed.clear()
            text = definitions_text(known())
            try:
                await asyncio.to_thread(self._write, text)
            except OSError as error:
                log.warning("schemas-not-kept", path=str(self._path), detail=str(error))

    def _write(self, text: str) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        write_durably(self._path, text)


def definitions_text(known: Iterable[ClassDefinition | EventDefinition]) -> str:
    """What stands in the file."""
    return "\n".join((_FIRST_LINE, *map(_line, known), ""))


def read_definitions(text: str) -> tuple[ClassDefinition | EventDefinition, ...]:
    """What `definitions_text` told.

    Raises:
        ValueError: it is something else; so is `ProtocolError`.
    """
    return tuple(_definitions(text.splitlines()))


def _line(definition: ClassDefinition | EventDefinition) -> str:
    try:
        return write(SchemaResponse(0, definition)).hex()
    except LocalProtocolError:
        return ""  # it came from a peer that says more than we can: it is asked for again


def _definitions(lines: list[str]) -> Iterable[ClassDefinition | EventDefinition]:
    if not lines or lines[0] != _FIRST_LINE:
        raise ValueError("it is no file of schemas, or of a later gateway")
    for line in filter(None, lines[1:]):
        for message in read_body(bytes.fromhex(line), Definitions()):
            if isinstance(message, SchemaResponse):
                yield message.definition
