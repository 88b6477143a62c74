"""Schemas of CML in files: what a broker told last, and what an operator had written for a source."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from gateway.config.cml_source import CmlSource
from gateway.dialects.cml.documents import MAX_BODY
from gateway.dialects.cml.messages import SchemaReply, Spelling, Status
from gateway.dialects.cml.reader import read_message
from gateway.dialects.cml.schema import read_classes
from gateway.dialects.cml.writer import write_message
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.durable_files import write_durably
from gateway.service.exit_codes import CommandError, ExitCode
from gateway.service.known_schemas import FOLDER, SETTLING_SECONDS

log = structlog.get_logger(__name__)

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

    The file is a memory, not a truth: without it, or with one that cannot be read, the broker is asked.

    Args:
        state: the state folder.
        source: name of the source.
    """

    def __init__(self, state: Path, source: str) -> None:
        self._path = state / FOLDER / f"{source}.cml"
        self._changed = asyncio.Event()
        self._kept: SchemaReply | None = None

    def read(self) -> SchemaReply | None:
        """What was known; ``None`` where that cannot be read."""
        try:
            self._kept = read_schema(self._path)
        except FileNotFoundError:
            return None
        except (OSError, ProtocolError) as error:
            log.warning("schemas-not-read", path=str(self._path), detail=str(error))
        return self._kept

    def learnt(self) -> None:
        """It may be another now."""
        self._changed.set()

    async def keep(self, known: Callable[[], SchemaReply | None]) -> None:
        """Write the file soon after another schema was learnt; ends by cancellation only."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(SETTLING_SECONDS)
            self._changed.clear()
            schema = known()
            if schema is None or schema == self._kept:
                continue
            try:
                await asyncio.to_thread(self._write, schema_document(schema))
                self._kept = schema
            except (OSError, LocalProtocolError) as error:
                log.warning("schemas-not-kept", path=str(self._path), detail=str(error))

    def _write(self, text: str) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        write_durably(self._path, text)
