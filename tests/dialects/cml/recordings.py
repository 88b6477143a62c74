"""Reader of the recorded exchanges of ``tests/data/cml``."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).parents[2] / "data" / "cml" / "openamq-1.4c1.jsonl.xz"

HEAD = b'<?xml version="1.0"?><cml version="1.0" xmlns="http://www.openamq.org/schema/cml">'
TAIL = b"</cml>"
INVALID = HEAD + b"<invalid/>" + TAIL + b"\0"


@dataclass(frozen=True)
class Exchange:
    """A request and its replies; ``ended_the_broker`` marks those that must never be sent.

    ``user`` is ``guest``, who reads, or ``super``.
    """

    id: str
    request: bytes
    replies: tuple[bytes, ...]
    ended_the_broker: bool
    user: str

    @property
    def by_shell(self) -> bool:
        return self.id.startswith("shell")


@cache
def exchanges() -> tuple[Exchange, ...]:
    with lzma.open(FILE, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return tuple(
        Exchange(
            row["id"],
            row["request"].encode("latin-1"),
            tuple(reply.encode("latin-1") for reply in row["replies"]),
            "ended_the_broker" in row,
            row["user"],
        )
        for row in rows
    )


@cache
def exchange(name: str) -> Exchange:
    return next(each for each in exchanges() if each.id == name)


def replies() -> list[bytes]:
    return [reply for each in exchanges() for reply in each.replies]
