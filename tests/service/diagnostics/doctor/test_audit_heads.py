"""Findings about the file of signed heads."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.files import load_configuration
from gateway.feed.records import AlarmRecord
from gateway.inventory.own_conditions import AUDIT_HEADS_ALARM as ALARM
from gateway.model.observations import Severity, SourceState
from gateway.service.diagnostics.doctor import Finding, Level
from gateway.service.diagnostics.doctor.audit_heads import audit_heads_findings
from gateway.service.diagnostics.doctor.examination import picture_findings
from tests.components.command_line import new_site
from tests.components.shop import START, source
from tests.terminal.reported import known_shop, publish, till


def found(tmp_path: Path, file: str) -> Finding:
    """Return the finding about the file of this name, and check that the finding wrote nothing."""
    site = new_site(tmp_path, state=False)
    site.configure(audit={"heads": {"file": file}})
    before = sorted(tmp_path.rglob("*"))
    (finding,) = audit_heads_findings(load_configuration(site.configuration))
    assert sorted(tmp_path.rglob("*")) == before
    assert finding.check == "audit-heads"
    return finding


def test_where_no_file_is_configured_there_is_no_finding(tmp_path: Path) -> None:
    assert list(audit_heads_findings(load_configuration(new_site(tmp_path).configuration))) == []


def test_a_file_that_can_be_made_or_written_is_good(tmp_path: Path) -> None:
    assert found(tmp_path, "heads").level is Level.GOOD
    (tmp_path / "heads").write_text("")
    assert found(tmp_path, "heads").level is Level.GOOD


def test_a_missing_folder_is_a_problem(tmp_path: Path) -> None:
    finding = found(tmp_path, "missing/heads")
    assert finding.level is Level.PROBLEM
    assert finding.text.endswith("missing/heads: its folder is missing, and the gateway makes none")
    assert "audit.heads.file" in finding.advice


def test_a_folder_in_its_place_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "heads").mkdir()
    assert found(tmp_path, "heads").text.endswith("heads: is a folder")


def test_what_may_not_be_written_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # for root everything can be written
    assert "may not make it" in found(tmp_path, "heads").text
    (tmp_path / "heads").write_text("")
    assert "may not write it" in found(tmp_path, "heads").text


def test_the_alarm_of_the_running_gateway_is_a_problem(tmp_path: Path) -> None:
    picture = known_shop(till(1))
    text = "signed heads of the audit are not written: No space left on device"
    alarm = AlarmRecord(4, 0, ALARM, ALARM, Severity.MAJOR, None, text, "7b0c.1.1", START)
    publish(picture, source(SourceState.SYNCHRONISED), alarm)
    loaded = load_configuration(new_site(tmp_path).configuration)
    (finding,) = (one for one in picture_findings(picture, loaded) if one.check == "audit-heads")
    assert (finding.level, finding.text) == (Level.PROBLEM, text)
