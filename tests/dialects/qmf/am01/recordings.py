"""Reader of the recorded messages before AM2 in ``tests/data/qmf``."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from functools import cache

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.am01.codec import read
from gateway.dialects.qmf.am01.messages import ClassDescription, Revision
from gateway.dialects.qmf.definitions import Definitions
from tests.dialects.qmf.recordings import FOLDER

FILES = ("am01-2008", "am1-2008")


@dataclass(frozen=True)
class Recorded:
    """A recorded message, the revision of its peer, and whether it is broken."""

    id: str
    revision: Revision
    key: str
    body: bytes
    broken: bool


@cache
def recorded(file: str) -> tuple[Recorded, ...]:
    with gzip.open(FOLDER / f"{file}.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return tuple(
        Recorded(
            row["id"], Revision(row["revision"]), row["key"], base64.b64decode(row["body"]), "broken" in row
        )
        for row in rows
    )


def message(identifier: str) -> Recorded:
    return next(one for file in FILES for one in recorded(file) if one.id == identifier)


@cache
def definitions() -> Definitions:
    """Return all classes of all recordings: content comes before the schema that explains it."""
    known = Definitions()
    for file in FILES:
        for one in recorded(file):
            try:
                found = read(one.key, one.body, known).message
            except ProtocolError:
                continue
            if isinstance(found, ClassDescription):
                known.add(found.definition)
    return known
