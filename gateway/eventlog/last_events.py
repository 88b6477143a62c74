"""The events that the log tells last, for a gateway that starts again: not all may have been told of them.

Each segment tells at its head what its events look like, so those from the last whole head on are enough.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from gateway.eventlog.block import DamageError
from gateway.eventlog.identity import standing_segments, standing_seq
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.segment import Segment, read_segment

_EVENT: Final = b'"kind":"event"'
_KIND: Final = RecordKind.EVENT.value
_SCHEMA: Final = b'"kind":"schema"'


class _Told(msgspec.Struct):
    """What decides whether a line is kept."""

    kind: str = ""
    source: str = ""


@dataclass(slots=True)
class LastEvents:
    """What the end of the log tells of events.

    Attributes:
        schemas: of events, by ``package:event``, as they were known last.
        events: in the order in which they were recorded.
    """

    schemas: dict[str, LogRecord] = field(default_factory=dict)
    events: list[LogRecord] = field(default_factory=list)


def last_events(folder: Path, most: int) -> LastEvents:
    """Read them; what is damaged is passed over.

    Args:
        folder: of the log; it need not be there.
        most: events of each source, the last ones; the gateway itself counts as one.

    Raises:
        OSError: it cannot be read.
    """
    reader = _Reader(most)
    for segment in standing_segments(folder, standing_seq(folder)):
        reader.read(segment)
    return reader.result()


class _Reader:
    """Keeps lines as they are: of very many events only the last ones are taken apart."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines: dict[str, deque[tuple[int, bytes]]] = {}
        self._seen = 0
        self._found = LastEvents()

    def read(self, segment: Segment) -> None:
        try:
            for block in read_segment(segment):
                for line in block.split():
                    self._take(line)
        except (FileNotFoundError, DamageError, msgspec.MsgspecError):
            return  # it became Parquet meanwhile, or is damaged

    def result(self) -> LastEvents:
        lines = sorted(line for kept in self._lines.values() for line in kept)
        self._found.events = [_RECORD.decode(line) for _, line in lines]
        return self._found

    def _take(self, line: bytes) -> None:
        if _EVENT in line:
            told = _TOLD.decode(line)
            if told.kind == _KIND:
                self._seen += 1
                kept = self._lines.get(told.source)
                if kept is None:
                    kept = self._lines[told.source] = deque(maxlen=self._most)
                kept.append((self._seen, line))
        elif _SCHEMA in line:
            schema = _RECORD.decode(line)
            if schema.kind is RecordKind.SCHEMA and schema.event is not None:
                self._found.schemas[f"{schema.package}:{schema.event}"] = schema


_RECORD: Final = msgspec.json.Decoder(LogRecord)
_TOLD: Final = msgspec.json.Decoder(_Told)
