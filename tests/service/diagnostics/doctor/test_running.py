"""Findings about the state that the running gateway reports."""

from __future__ import annotations

from collections.abc import Iterator
from errno import EACCES
from pathlib import Path

import msgspec
import pytest

from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.feed.records import AlarmRecord, EventLogRecord, EventLogState
from gateway.model.observations import Severity, SourceState
from gateway.service.diagnostics.doctor import Finding, Level, examination
from gateway.service.diagnostics.doctor.examination import examine, picture_findings, running_findings
from tests.components.command_line import new_site
from tests.components.shop import START, source
from tests.terminal.reported import known_shop, publish, till


def test_sources_log_and_alarms_are_judged(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    qmf = {"kind": "qmf", "trust_anyone": True}
    amqp = {"url": "amqp://127.0.0.1", "user": "gateway", "password": site.secret("hunter2")}
    site.configure(sources={"shop1": {**qmf, "amqp": amqp}, "new": {**qmf, "amqp": amqp}})
    picture = known_shop(till(1))
    alarm = AlarmRecord(4, 1, "full", "full", Severity.MAJOR, None, "full", "7b0c.1.1", START)
    publish(
        picture, source(SourceState.DOWN, objects_refused=3), alarm, EventLogRecord(EventLogState.DISK_FULL)
    )

    findings = list(picture_findings(picture, load_configuration(site.configuration)))

    assert [(finding.check, finding.subject, finding.level) for finding in findings] == [
        ("gateway", "", Level.GOOD),
        ("source", "shop1", Level.PROBLEM),
        ("source", "shop1", Level.WARNING),
        ("source", "new", Level.PROBLEM),
        ("event-log", "", Level.PROBLEM),
        ("alarms", "", Level.NOTE),
    ]
    assert findings[0].text == "runs; sources: 1, objects: 2"
    assert findings[1].text == "the running gateway has it down: a detail"


@pytest.mark.parametrize(
    ("detail", "level"), [("", Level.GOOD), ("agent 1.0 answers, but publishes nothing", Level.NOTE)]
)
def test_a_complete_source_with_a_detail_is_not_good(tmp_path: Path, detail: str, level: Level) -> None:
    picture = known_shop(till(1))
    publish(picture, msgspec.structs.replace(source(SourceState.SYNCHRONISED), detail=detail))

    findings = picture_findings(picture, load_configuration(new_site(tmp_path).configuration))

    assert next(finding.level for finding in findings if finding.check == "source") is level


async def test_a_gateway_that_does_not_run_is_no_problem_unless_a_process_holds_its_state(
    tmp_path: Path,
) -> None:
    loaded = load_configuration(new_site(tmp_path).configuration)
    (found,) = await running_findings(loaded, has_lock=False)
    assert (found.level, found.advice) == (Level.NOTE, "amqp-gateway run")
    (found,) = await running_findings(loaded, has_lock=True)
    assert found.level is Level.PROBLEM


async def test_what_cannot_be_looked_at_is_reported_and_ends_no_examination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_loaded: LoadedConfiguration) -> Iterator[Finding]:
        yield Finding("captures", Level.NOTE, "seen before")
        raise PermissionError(EACCES, "Permission denied", "/captures")

    monkeypatch.setattr(examination, "capture_findings", unreadable)
    loaded = load_configuration(new_site(tmp_path).configuration)
    found = [finding async for finding in examine(loaded)]
    assert [(one.level, one.text) for one in found if one.check == "captures"] == [
        (Level.NOTE, "seen before"),
        (Level.NOT_CHECKED, "/captures: Permission denied"),
    ]
    assert found[-1].check == "writing"
