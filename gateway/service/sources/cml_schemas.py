"""Schemas of CML in files: what a broker told last, and what an operator had written for a source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.config.sources import CmlSource
from gateway.dialects.cml.codec import read_message, write_message
from gateway.dialects.cml.documents import MAX_BODY
from gateway.dialects.cml.messages import SchemaReply, Spelling, Status
from gateway.dialects.cml.schema import read_classes
from gateway.dialects.errors import ProtocolError
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.state.cached_schemas import CacheFile

SETTLING_SECONDS: Final = 1.0
"""A broker that is restarted may tell its schema more than once."""

_NO_SCHEMA: Final = "it is no schema-reply of CML: amqp-gateway source schema writes one"


def read_schema(path: Path) -> SchemaReply:
    """Return the schema-reply that a file holds, in either spelling.

    Raises:
        OSError: it cannot be read.
        ProtocolError: it holds something else, or a schema that cannot be used.
    """
    with path.open("rb") as file:
        return schema_of(file.read(MAX_BODY + 1))


def schema_of(document: bytes) -> SchemaReply:
    """Return the schema-reply that stands in a document, in either spelling.

    Raises:
        ProtocolError: it is something else, or a schema that cannot be used.
    """
    message = read_message(document)
    if not isinstance(message, SchemaReply) or message.status != Status.OK or not message.classes:
        raise ProtocolError("a schema-reply with classes", "something else")
    read_classes(message)
    return message


def schema_document(reply: SchemaReply) -> str:
    """A schema as it stands in a file, as any XML parser reads it.

    Raises:
        LocalProtocolError: a text in it has characters that XML cannot carry.
    """
    return write_message(reply, Spelling.SPECIFICATION).decode()


def configured_schema(settings: CmlSource, folder: Path) -> SchemaReply | None:
    """The schema in the file that a source names; ``None`` where it names none.

    Raises:
        CommandError: the file cannot be read, or holds something else.
    """
    if settings.schema_file is None:
        return None
    path = folder / settings.schema_file
    try:
        return read_schema(path)
    except OSError as error:
        reason = error.strerror or str(error)
    except ProtocolError as error:
        reason = f"{error}: {_NO_SCHEMA}"
    raise CommandError(ExitCode.CONFIGURATION, f"{path}: 'schema_file' cannot be used: {reason}")


class KnownSchema:
    """The schema that the broker of one source told last, kept over restarts of the gateway.

    Args:
        state: the state folder.
        source: name of the source.
    """

    def __init__(self, state: Path, source: str) -> None:
        self._file = CacheFile(state, f"{source}.cml", "schemas")

    def read(self) -> SchemaReply | None:
        """What was known; ``None`` where that cannot be read."""
        return self._file.read(schema_of)

    def learnt(self) -> None:
        """It may be another now."""
        self._file.learnt()

    async def keep(self, known: Callable[[], SchemaReply | None]) -> None:
        """Write the file soon after another schema was learnt; ends by cancellation only."""

        def text() -> str | None:
            schema = known()
            return None if schema is None else schema_document(schema)

        await self._file.keep(text, SETTLING_SECONDS)
