"""Where net-snmp's commands find the modules."""

from __future__ import annotations

from pathlib import Path

from gateway.service.exit_codes import ExitCode
from gateway.shipped_files import shipped_folder
from tests.components.command_line import Ended, Site, amqp_gateway

SHIPPED = str(shipped_folder("mibs"))


def folders(ended: Ended) -> list[str]:
    return ended.output.strip().split(":")


def test_a_sites_own_modules_are_found_as_soon_as_there_are_any(site: Site) -> None:
    own = site.state.path / "mibs"

    assert str(own) not in folders(amqp_gateway("mib", "path", "--config", str(site.configuration)))
    own.mkdir()
    found = folders(amqp_gateway("mib", "path", "--config", str(site.configuration)))
    assert found[-2:] == [SHIPPED, str(own)]


def test_the_shipped_modules_need_no_configuration(tmp_path: Path) -> None:
    ended = amqp_gateway("mib", "path", "--config", str(tmp_path / "none.yaml"))
    assert (ended.code, ended.output) == (ExitCode.CONFIGURATION, "")

    broken = tmp_path / "gateway.yaml"
    broken.write_text("version: 7\n")
    ended = amqp_gateway("mib", "path", AMQP_GATEWAY_CONFIG=str(broken))
    assert folders(ended)[-1] == SHIPPED
    (told,) = ended.told
    assert told.startswith("without the site's own modules: ")
