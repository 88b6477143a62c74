"""Reader of the recorded messages of ``tests/data/qmf``."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.codec import read_body
from gateway.dialects.qmf.definitions import Definitions
from gateway.dialects.qmf.messages import Received, SchemaResponse

FOLDER = Path(__file__).parents[2] / "data" / "qmf"
PEERS = ("qpidd-0.34", "console-and-agent-0.6", "java-0.8")


@dataclass(frozen=True)
class Recorded:
    """A recorded message: the number of records of each opcode in its body, and whether it is broken."""

    id: str
    records: dict[str, int]
    body: bytes
    broken: bool


@cache
def recorded(peer: str) -> tuple[Recorded, ...]:
    with gzip.open(FOLDER / f"{peer}.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return tuple(
        Recorded(row["id"], row["records"], base64.b64decode(row["body"]), "broken" in row) for row in rows
    )


@cache
def definitions(peer: str) -> Definitions:
    """Return all schemas of a recording: some pushes come before the schema that explains them."""
    known = Definitions()
    for message in recorded(peer):
        for record in readable(message.body, known):
            if isinstance(record, SchemaResponse):
                known.add(record.definition)
    return known


def readable(body: bytes, known: Definitions) -> Iterator[Received]:
    """Yield the readable messages of a body."""
    try:
        yield from read_body(body, known)
    except ProtocolError:
        return
