"""The schemas that a console knew, kept over restarts of the gateway.

What waited in a queue while the gateway was away can be read with them before any agent is asked, also where
the agent is away by now. The file is a memory, not a truth: without it, or with one that cannot be read, what
waited and cannot be read is told as lost, and all else is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.messages import SchemaResponse
from gateway.dialects.qmf.reader import read_body
from gateway.dialects.qmf.writer import write
from gateway.service.state.cache_file import CacheFile

SETTLING_SECONDS: Final = 1.0
"""Schemas are learnt many at once: they are written together."""

_FIRST_LINE: Final = "amqp-gateway schemas 1: AM2 schema responses, in hexadecimal digits"


class KnownSchemas:
    """The file of one source.

    Args:
        state: the state folder.
        source: name of the source.
    """

    def __init__(self, state: Path, source: str) -> None:
        self._file = CacheFile(state, f"{source}.am2", "schemas")

    def read(self) -> tuple[ClassDefinition | EventDefinition, ...]:
        """What was known; nothing where that cannot be read."""
        return self._file.read(lambda octets: read_definitions(octets.decode("ascii"))) or ()

    def learnt(self) -> None:
        """There is more to be known."""
        self._file.learnt()

    async def keep(self, known: Callable[[], Iterable[ClassDefinition | EventDefinition]]) -> None:
        """Write the file soon after something was learnt; ends by cancellation only."""
        await self._file.keep(lambda: definitions_text(known()), SETTLING_SECONDS)


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
