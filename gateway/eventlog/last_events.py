"""The events that the log tells last, for a gateway that starts again: not all may have been told of them.

Each segment tells at its head what its events look like, and in its first record how many events cores made
before it. So the segments from the last whole head on, which no compaction takes, tell how many there were,
though not what: further events are in the segment before, if it is there still.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from gateway.eventlog.block import DamageError
from gateway.eventlog.identity import standing_segments, standing_seq
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.segment import Segment, list_segments, read_segment

_EVENT: Final = b'"kind":"event"'
_KIND: Final = RecordKind.EVENT.value
_SCHEMA: Final = b'"kind":"schema"'
_START: Final = b'"kind":"start"'

EVENTS: Final = "events"
"""Among the values of a ``start`` record: number of the last event by epoch of the core that made it."""

MAX_CORES: Final = 100
"""So many cores are told of there, the last ones that made events."""


class _Told(msgspec.Struct):
    """What decides whether a line is kept."""

    kind: str = ""
    source: str = ""
    event_id: str = ""


class _StartValues(msgspec.Struct):
    gateway: str = ""
    events: dict[str, int] = {}


class _Start(msgspec.Struct):
    """What a ``start`` record tells of events."""

    kind: str = ""
    values: _StartValues = msgspec.field(default_factory=_StartValues)


@dataclass(slots=True)
class LastEvents:
    """What the end of the log tells of events.

    Attributes:
        schemas: of events, by ``package:event``, as they were known last.
        events: in the order in which they were recorded.
        made: number of the last event that a core is known to have made, by the core's epoch.
    """

    schemas: dict[str, LogRecord] = field(default_factory=dict)
    events: list[LogRecord] = field(default_factory=list)
    made: dict[int, int] = field(default_factory=dict)


def events_value(made: Mapping[int, int]) -> dict[str, int]:
    """What a ``start`` record says of the events so far.

    Args:
        made: number of the last event by the core's epoch; 0 where there is none.
    """
    cores = sorted(epoch for epoch, number in made.items() if number)[-MAX_CORES:]
    return {str(epoch): made[epoch] for epoch in cores}


def last_events(folder: Path, most: int, gateway: str) -> LastEvents:
    """Read them; what is damaged is passed over.

    Args:
        folder: of the log; it need not be there.
        most: events of each source, the last ones; the gateway itself counts as one.
        gateway: uuid of the gateway whose cores count as having made events.

    Raises:
        OSError: it cannot be read.
    """
    reader = _Reader(most, gateway)
    standing = standing_segments(folder, standing_seq(folder))
    before = [
        each for each in list_segments(folder) if not standing or each.first_seq < standing[0].first_seq
    ]
    for segment in (*before[-1:], *standing):
        reader.read(segment)
    return reader.result()


class _Reader:
    """Keeps lines as they are: of very many events only the last ones are taken apart."""

    def __init__(self, most: int, gateway: str) -> None:
        self._most = most
        self._gateway = gateway
        self._lines: dict[str, deque[tuple[int, bytes]]] = {}
        self._seen = 0
        self._found = LastEvents()

    def read(self, segment: Segment) -> None:
        try:
            for block in read_segment(segment):
                if any(kind in block.lines for kind in (_EVENT, _SCHEMA, _START)):  # few have any
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
                self._made(*told.event_id.split("."))
                kept = self._lines.get(told.source)
                if kept is None:
                    kept = self._lines[told.source] = deque(maxlen=self._most)
                kept.append((self._seen, line))
        elif _START in line:
            start = _STARTS.decode(line)
            if start.kind == RecordKind.START.value:
                for epoch, number in start.values.events.items():
                    self._made(start.values.gateway, epoch, str(number))
        elif _SCHEMA in line:
            schema = _RECORD.decode(line)
            if schema.kind is RecordKind.SCHEMA and schema.event is not None:
                self._found.schemas[f"{schema.package}:{schema.event}"] = schema

    def _made(self, gateway: str, epoch: str = "", number: str = "", *_more: str) -> None:
        if gateway == self._gateway and epoch.isdecimal() and number.isdecimal():
            made = self._found.made
            made[int(epoch)] = max(made.get(int(epoch), 0), int(number))


_RECORD: Final = msgspec.json.Decoder(LogRecord)
_TOLD: Final = msgspec.json.Decoder(_Told)
_STARTS: Final = msgspec.json.Decoder(_Start)
