"""The two forms of a record in memory have the same line, and its times are read exactly."""

from __future__ import annotations

import msgspec
import pytest

from gateway.eventlog.block import MAX_RECORD_OCTETS, BlockDraft
from gateway.eventlog.record import (
    Delta,
    LogRecord,
    ObjectChange,
    RecordKind,
    encoded_identity,
    nanoseconds_of,
)
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.feed.records import Batch, Record
from gateway.model.times import SECOND
from tests.eventlog.feeds import AGENT, DEPTH, PUBLISHED, QUEUE, SHOP, T0, queue, update
from tests.eventlog.records import LOG_ID, block

IDENTIFIED = LogRecord(
    kind=RecordKind.UPDATE,
    ingest_ts="",
    source="shop",
    dialect="qmf",
    package="shop",
    class_name="queue",
    object_id="shop/shop:queue/1",
    object_name='/|"orders"\n€',
)
NOW = "2026-11-20T14:05:06.123456Z"
CHANGE = ObjectChange(
    RecordKind.UPDATE,
    NOW,
    msgspec.Raw(encoded_identity(IDENTIFIED)),
    sample_ts=NOW,
    sample_ns=2**60,
    reset_ts=NOW,
    values={"published": 2**64 - 1},
    absent=["state"],
    deltas={"published": Delta(3, SECOND)},
    delivery="shop 1f",
)
"""A change with all fields that such a record may have."""


def mirrored(*records: Record) -> list[object]:
    mirror = LogRecorder(RecorderSettings(statistics_interval=0))
    mirror.apply(Batch(1, 1, (SHOP, AGENT, QUEUE)), T0)
    return list(mirror.apply(Batch(1, 2, records), T0))


def test_a_change_stands_on_its_line_as_the_record_with_all_fields() -> None:
    whole = msgspec.structs.replace(
        IDENTIFIED,
        ingest_ts=NOW,
        sample_ts=NOW,
        sample_ns=2**60,
        reset_ts=NOW,
        values={"published": 2**64 - 1},
        absent=["state"],
        deltas={"published": Delta(3, SECOND)},
        delivery="shop 1f",
    )
    assert CHANGE.record() == whole
    assert block([CHANGE], 7) == block([whole], 7)


def test_its_fields_are_those_of_a_record_in_their_order() -> None:
    order = LogRecord.__struct_encode_fields__
    fields = ObjectChange.__struct_encode_fields__
    assert sorted(fields, key=order.index) == list(fields)


def test_changes_are_reported_in_the_quick_form() -> None:
    _, change = mirrored(queue(1), update({DEPTH: 3, PUBLISHED: 4}, now=T0 + SECOND))
    assert isinstance(change, ObjectChange)
    assert (change.record().object_id, change.values) == ("shop/shop:queue/1", {"depth": 3, "published": 4})


def test_a_change_that_is_too_large_is_reported_without_its_values() -> None:
    draft = BlockDraft(LOG_ID, 1)
    draft.add(msgspec.structs.replace(CHANGE, values={"padding": "x" * MAX_RECORD_OCTETS}))
    line = msgspec.json.decode(draft.lines, type=LogRecord)
    assert (line.object_id, line.object_name) == (IDENTIFIED.object_id, IDENTIFIED.object_name)
    assert line.values is None
    assert line.text is not None
    assert "too large" in line.text


def test_an_object_whose_name_has_no_form_in_json_is_refused_alone() -> None:
    nameless = msgspec.structs.replace(queue(1), stable_name="\ud800")
    _, _, change, other = mirrored(
        nameless, queue(2), update({DEPTH: 3}, row=1), update({DEPTH: 3}, row=2, now=T0 + 1)
    )
    assert isinstance(change, LogRecord)
    assert isinstance(other, ObjectChange)
    with pytest.raises(ValueError, match="surrogates"):
        BlockDraft(LOG_ID, 1).add(change)


AT = 1_795_190_641 * SECOND  # 2026-11-20T16:04:01Z


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-20T16:04:01.291000Z", AT + 291_000_000),
        ("2026-11-20T16:04:01.291000123Z", AT + 291_000_123),
        ("2026-11-20T16:04:01.29100012Z", AT + 291_000_120),
        ("2026-11-20T16:04:01Z", AT),
        ("2026-11-20T17:04:01+01:00", AT),
        ("2026-11-20T16:04:01", 0),  # no zone
        ("yesterday", 0),
        (None, 0),
        (7, 0),
    ],
)
def test_times_of_the_log_are_exact(text: object, time: int) -> None:
    assert nanoseconds_of(text) == time
