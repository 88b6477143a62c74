"""Records as examples need them, and blocks and segments made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from hypothesis import strategies as st

from gateway.eventlog.block import BlockDraft
from gateway.eventlog.record import AnyRecord, Delta, LogRecord, ObjectChange, RecordKind
from gateway.eventlog.segment import segment_path

LOG_ID = "0b6b7e4c-2f5d-4a58-9a55-1c5d1a2e8f10"


def update(number: int, ingest_ts: str = "2026-11-20T14:05:06.000000Z", padding: int = 0) -> LogRecord:
    """A change of a queue's values; ``number`` is one of them."""
    return LogRecord(
        kind=RecordKind.UPDATE,
        ingest_ts=ingest_ts,
        source="rabbitmq",
        package="rabbitmq",
        class_name="queue",
        object_id=f"rabbitmq/rabbitmq:queue/{number % 7 + 1}",
        row=number % 7 + 1,
        values={"messagesReady": number, **({"padding": "x" * padding} if padding else {})},
    )


def kinds(records: Iterable[LogRecord]) -> list[str]:
    """Return the kinds of the records."""
    return [record.kind.value for record in records]


def with_all_fields(records: Iterable[AnyRecord]) -> list[LogRecord]:
    """Return the same records with all fields; check that the quick form of each has the same line."""
    whole = []
    for record in records:
        if isinstance(record, ObjectChange):
            line = msgspec.json.encode(record)
            whole.append(record.record())
            assert msgspec.json.encode(whole[-1]) == line
        else:
            whole.append(record)
    return whole


def block(records: Sequence[AnyRecord], first_seq: int = 1, log_id: str = LOG_ID) -> bytes:
    """Return the block of these records, as the writer makes it."""
    draft = BlockDraft(log_id, first_seq)
    for record in records:
        draft.add(record)
    return bytes(draft.seal())


def blocks(sizes: Iterable[int], first_seq: int = 1) -> list[bytes]:
    """Return one block after the other, each with this number of updates."""
    made = []
    for size in sizes:
        made.append(block([update(first_seq + n) for n in range(size)], first_seq))
        first_seq += size
    return made


def write_segment(folder: Path, first_seq: int, octets: bytes, *, is_open: bool = False) -> Path:
    """Write a segment's file with this content."""
    path = segment_path(folder, first_seq, is_open=is_open)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(octets)
    return path


_TEXT = st.text(max_size=12)
_VALUE: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | _TEXT
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)

log_records = st.builds(
    LogRecord,
    kind=st.sampled_from(RecordKind),
    ingest_ts=st.datetimes().map(lambda at: f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"),
    source=st.none() | _TEXT,
    object_name=st.none() | _TEXT,
    row=st.none() | st.integers(0, 2**31),
    text=st.none() | _TEXT,
    lost=st.none() | st.integers(0, 2**63),
    inferred=st.none() | st.booleans(),
    values=st.none() | st.dictionaries(_TEXT, _VALUE, max_size=4),
    absent=st.none() | st.lists(_TEXT, max_size=3),
    deltas=st.none() | st.dictionaries(_TEXT, st.builds(Delta, delta=st.integers(0, 2**64 - 1)), max_size=2),
)
"""Any record that the form allows."""
