"""Captures that are configured, or left behind, are reported."""

from __future__ import annotations

from pathlib import Path

from gateway.config.files import load_configuration
from gateway.service.diagnostics.doctor import Finding
from gateway.service.diagnostics.doctor.examination import capture_findings
from tests.components.command_line import Site, new_site


def found(site: Site) -> list[Finding]:
    return list(capture_findings(load_configuration(site.configuration)))


def test_what_is_captured_and_what_is_left(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    assert found(site) == []

    source = {"kind": "rabbitmq", "management": "http://127.0.0.1:1", "user": "u", "password": {"env": "P"}}
    site.configure(sources={"orders": source}, captures={"orders": {}})
    folder = site.state.path / "captures"
    folder.mkdir()
    (folder / "orders.jsonl").touch()
    (captured,) = found(site)
    assert (captured.check, captured.subject) == ("captures", "orders")
    assert "passwords too" in captured.text

    site.configure(sources={"orders": source})
    (folder / "orders.jsonl.1").touch()
    (left,) = found(site)
    assert left.text == f"2 files of captures that have ended are left in {folder}"
