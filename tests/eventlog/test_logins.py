"""Logins in the log: records of their own, which no reader takes for a change."""

from __future__ import annotations

from pathlib import Path

from gateway.eventlog.last_state import unfinished_operations
from gateway.eventlog.record import LogRecord, RecordKind, microseconds_text, readable_line
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.feed.operations import LoginReport
from gateway.model.operations import Principal
from tests.eventlog.feeds import T0
from tests.eventlog.records import block, with_all_fields, write_segment

MONITOR = Principal("jmx", "monitor", "192.0.2.7")


def recorded(report: LoginReport) -> LogRecord:
    (record,) = with_all_fields(LogRecorder(RecorderSettings()).login(report, T0))
    return record


def test_a_login_is_a_record_with_user_and_address() -> None:
    assert recorded(LoginReport(MONITOR)) == LogRecord(
        kind=RecordKind.LOGIN,
        ingest_ts=microseconds_text(T0) or "",
        text="logged in from 192.0.2.7",
        principal="jmx:monitor",
        origin="192.0.2.7",
    )


def test_logins_that_were_counted_are_one_record() -> None:
    record = recorded(LoginReport(MONITOR, 120))
    assert (record.text, record.attempts) == ("120 logins from 192.0.2.7", 120)


def test_it_is_readable() -> None:
    line = readable_line({"kind": "login", "principal": "jmx:monitor", "text": "logged in from 192.0.2.7"})
    assert " login " in line
    assert line.endswith(" by jmx:monitor logged in from 192.0.2.7")


def test_it_is_no_operation(tmp_path: Path) -> None:
    write_segment(tmp_path, 1, block([recorded(LoginReport(MONITOR))], 1), is_open=True)
    assert unfinished_operations(tmp_path) == []
