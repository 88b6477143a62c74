"""Names that the gateway has forgotten are found in the event log."""

from __future__ import annotations

from pathlib import Path

from gateway.eventlog.record import LogRecord, RecordKind
from gateway.service.diagnostics.explanation import logged_meanings
from tests.eventlog.logs import segment, update


def test_events_and_objects_of_the_past_are_found_by_their_names(tmp_path: Path) -> None:
    time = "2026-11-20T08:59:00.000000Z"
    event = LogRecord(
        kind=RecordKind.EVENT, ingest_ts=time, source="orders", event_id="7b0c.1.4", text="it rang"
    )
    segment(tmp_path, 1, [*(update(number) for number in range(20)), event])

    (found,) = logged_meanings(tmp_path, "7b0c.1.4", lambda _: None)
    assert found["kind"] == "record"
    assert (found["record"], found["text"], found["ingest_ts"]) == ("event", "it rang", time)

    for name in ("orders/rabbitmq:queue/3", "/|queue-3"):
        (last,) = logged_meanings(tmp_path, name, lambda _: None)
        assert last["values"]["messages"] == 17  # the last of this object
    assert logged_meanings(tmp_path, "nobody", lambda _: None) == []


def test_no_log_knows_nothing(tmp_path: Path) -> None:
    assert logged_meanings(tmp_path / "log", "7b0c.1.4", lambda _: None) == []
