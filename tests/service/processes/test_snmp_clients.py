"""The clients of SNMP while it runs, as their files have them."""

from __future__ import annotations

from pathlib import Path

from structlog.testing import capture_logs

from gateway.config.files import load_configuration
from gateway.service.processes.snmp_clients import ClientFiles
from gateway.service.state.running_configuration import note_reload
from tests.components.command_line import new_site


def test_other_clients_are_taken_whole_or_not_at_all(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    files = ClientFiles(load_configuration(site.configuration).with_copies(), site.state)
    before = files.clients
    site.configure(snmp={"notifications": {"nms": {"address": "192.0.2.1:162"}}})
    note_reload(site.state.path, load_configuration(site.configuration).with_copies())
    boots = site.state.path / "boots"
    kept = boots.read_text(encoding="ascii")
    boots.write_text("damaged", encoding="ascii")  # what receivers are sent has its number
    with capture_logs() as lines:
        assert not files.follow()
        assert not files.follow(again=True)
    assert files.clients is before
    assert [line["event"] for line in lines] == ["snmp-clients-not-taken"]
    boots.write_text(kept, encoding="ascii")
    assert files.follow(again=True)
    assert list(files.clients.settings.notifications) == ["nms"]
