"""Operations in the log: begun, ended, settled; repeated at heads; found again when a core died."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from gateway.eventlog.last_state import unfinished_operations
from gateway.eventlog.record import LogRecord, RecordKind, readable_line
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.feed.operations import OperationKind, OperationRecord, OperationState
from gateway.feed.records import Batch
from gateway.feed.values import ObjectLink
from gateway.model.operations import Outcome, Principal
from gateway.model.times import SECOND
from tests.eventlog.feeds import AGENT, QUEUE, SHOP, T0, queue
from tests.eventlog.records import block, with_all_fields, write_segment

BEGUN = OperationRecord(
    number=1,
    operation_id="gw.3.o1",
    kind=OperationKind.SET,
    state=OperationState.BEGUN,
    principal=Principal("jmx", "operator", "192.0.2.7:50123"),
    source=1,
    class_name="shop:queue",
    row=7,
    stable_name="/|q7",
    leaf_name="q7",
    values={"limit": 2**64 - 1, "to": ObjectLink("shop:queue", 3, "/|q3")},
    previous={"limit": 5, "tags": ("a", b"\xff")},
    began=T0,
    absent=("tags",),
)
ENDED = msgspec.structs.replace(
    BEGUN,
    state=OperationState.ENDED,
    found={"limit": 5},
    outcome=Outcome.NOT_APPLIED,
    element="limit",
    code=0,
    text="limit is what it was before",
    ended=T0 + SECOND,
)


class Log:
    """A mirror of the shop."""

    def __init__(self) -> None:
        self.mirror = LogRecorder(RecorderSettings())
        self.publish(SHOP, QUEUE, AGENT, queue(7))

    def publish(self, *records: object, now: int = T0) -> list[LogRecord]:
        """Apply one batch; return its records."""
        return with_all_fields(self.mirror.apply(Batch(1, 1, records), now))  # type: ignore[arg-type]  # of the feed

    def head(self, now: int) -> list[LogRecord]:
        """Return the operations at a segment's head."""
        records = with_all_fields(self.mirror.head(lambda: now))
        return [record for record in records if record.kind is RecordKind.OPERATION]


def test_an_operation_that_begins() -> None:
    (record,) = Log().publish(BEGUN)
    assert record == LogRecord(
        kind=RecordKind.OPERATION,
        ingest_ts="2026-11-20T15:00:00.000000Z",
        source="shop",
        dialect="qmf",
        package="shop",
        class_name="queue",
        object_id="shop/shop:queue/7",
        object_name="/|q7",
        row=7,
        state="begun",
        principal="jmx:operator",
        origin="192.0.2.7:50123",
        operation_id="gw.3.o1",
        operation="set",
        values={"limit": 2**64 - 1, "to": "shop/shop:queue/3"},
        absent=["tags"],
        former={"limit": 5, "tags": ["a", "ff"]},
        latency_ns=0,
    )


def test_an_operation_that_ends() -> None:
    (record,) = Log().publish(ENDED, now=T0 + 2 * SECOND)
    assert (record.state, record.outcome, record.element, record.code) == ("ended", "not-applied", "limit", 0)
    assert (record.text, record.latency_ns) == ("limit is what it was before", SECOND)
    assert record.found == {"limit": 5}


def test_a_record_that_stands_for_many_attempts_says_for_how_many() -> None:
    counted = msgspec.structs.replace(
        ENDED, source=0, class_name="", row=0, stable_name="", outcome=Outcome.REFUSED, attempts=980
    )
    (record,) = Log().publish(counted)
    assert (record.attempts, record.package, record.class_name, record.source) == (980, None, None, None)


def test_what_was_refused_of_an_object_that_is_not_there() -> None:
    refused = msgspec.structs.replace(
        ENDED, source=9, row=0, stable_name="", leaf_name="", outcome=Outcome.OBJECT_GONE
    )
    (record,) = Log().publish(refused)
    assert (record.source, record.object_id, record.object_name, record.row) == (None, None, None, None)
    assert (record.package, record.class_name) == ("shop", "queue")


def test_what_is_under_way_is_reported_again_at_each_head_and_how_long_it_is() -> None:
    log = Log()
    log.publish(BEGUN)
    (record,) = log.head(T0 + 3 * SECOND)
    assert (record.state, record.operation_id, record.latency_ns) == ("begun", "gw.3.o1", 3 * SECOND)
    log.publish(ENDED)
    assert log.head(T0 + 4 * SECOND) == []


def test_it_is_readable() -> None:
    (record,) = Log().publish(ENDED)
    line = readable_line({"kind": "operation", "principal": record.principal, "outcome": record.outcome})
    assert "by jmx:operator not-applied" in line


# ---- after the end of a core ----------------------------------------------------------------------------


def logged(folder: Path, *segments: Sequence[LogRecord]) -> Path:
    seq = 1
    for number, records in enumerate(segments, start=1):
        write_segment(folder, seq, block(records, seq), is_open=number == len(segments))
        seq += len(records)
    return folder


def test_what_has_no_end_is_found(tmp_path: Path) -> None:
    log = Log()
    second = msgspec.structs.replace(BEGUN, number=2, operation_id="gw.3.o2")
    reported = [*log.publish(BEGUN), *log.publish(second), *log.publish(queue(8)), *log.publish(ENDED)]
    (record,) = unfinished_operations(logged(tmp_path, reported))
    assert record.operation_id == "gw.3.o2"


def test_an_end_in_a_later_segment_is_an_end(tmp_path: Path) -> None:
    log = Log()
    begun, head, ended = log.publish(BEGUN), log.head(T0), log.publish(ENDED)
    assert unfinished_operations(logged(tmp_path / "a", begun, [*head, *ended])) == []
    settled = log.publish(msgspec.structs.replace(ENDED, state=OperationState.SETTLED))
    assert unfinished_operations(logged(tmp_path / "b", begun, settled)) == []


def test_what_is_reported_again_at_a_head_is_found_once(tmp_path: Path) -> None:
    log = Log()
    begun, head = log.publish(BEGUN), log.head(T0)
    assert len(unfinished_operations(logged(tmp_path / "a", begun, head))) == 1
    assert len(unfinished_operations(logged(tmp_path / "b", log.publish(queue(1)), head))) == 1


def test_what_is_damaged_is_passed_over(tmp_path: Path) -> None:
    log = Log()
    logged(tmp_path, log.publish(BEGUN), log.publish(queue(1)))
    last = max((tmp_path / "segments").rglob("*.jsonl*"), key=lambda path: path.name)
    last.write_bytes(last.read_bytes()[:-20])
    assert len(unfinished_operations(tmp_path)) == 1


def test_where_there_is_no_log_nothing_was_begun(tmp_path: Path) -> None:
    assert unfinished_operations(tmp_path / "log") == []
