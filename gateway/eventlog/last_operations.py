"""Operations that the log saw begin, and not end: the core ended before they did.

Each segment tells at its head which are under way, so those from the last whole head on are enough.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from gateway.eventlog.block import DamageError
from gateway.eventlog.identity import standing_segments, standing_seq
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.segment import Segment, read_segment
from gateway.feed.operations import OperationState

MAX_UNFINISHED: Final = 10_000
"""Many times what a core has under way."""

_MARK: Final = b'"kind":"operation"'


def unfinished_operations(folder: Path) -> list[LogRecord]:
    """The records of their begin, the oldest first; what is damaged is passed over.

    Args:
        folder: of the log; it need not be there.

    Raises:
        OSError: it cannot be read.
    """
    begun: dict[str, LogRecord] = {}
    for segment in standing_segments(folder, standing_seq(folder)):
        try:
            _read(segment, begun)
        except FileNotFoundError:
            continue  # it became Parquet meanwhile: the next one tells again what was under way
        except (DamageError, msgspec.MsgspecError):
            continue
    return list(begun.values())


def _read(segment: Segment, begun: dict[str, LogRecord]) -> None:
    for block in read_segment(segment):
        for line in block.split():
            if _MARK not in line:  # most lines are something else: they need not be taken apart
                continue
            record = _DECODER.decode(line)
            if record.kind is not RecordKind.OPERATION or record.operation_id is None:
                continue
            if record.state != OperationState.BEGUN.value:
                begun.pop(record.operation_id, None)
            elif len(begun) < MAX_UNFINISHED:
                begun.setdefault(record.operation_id, record)


_DECODER: Final = msgspec.json.Decoder(LogRecord)
