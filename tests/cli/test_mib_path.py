"""The path by which net-snmp's commands find the modules."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from gateway.service.processes.exit_codes import ExitCode
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
    (reported,) = ended.reported
    assert reported.startswith("the site's own modules are left out: ")


def translated(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Return net-snmp's translation of a name, with the configuration in a folder."""
    program = shutil.which("snmptranslate")
    assert program is not None
    return subprocess.run(  # noqa: S603  Debian's command
        [program, "-On", name],
        env={"PATH": os.environ["PATH"], "SNMPCONFPATH": str(folder), "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_snmp_conf_gives_all_names_and_no_complaints(tmp_path: Path) -> None:
    for _ in range(2):  # done again it writes its own file again
        assert amqp_gateway("mib", "install", "--folder", tmp_path).code is ExitCode.OK
    for name in (
        "AMQP-GATEWAY-MIB::agSourceState",
        "AMQP-GATEWAY-RABBITMQ-MIB::rmqQueueName",
        "AMQP-GATEWAY-QPID-MIB::qpidQueueName",
        "SNMPv2-MIB::sysUpTime",
    ):
        done = translated(name, tmp_path)
        assert (done.stdout.startswith(".1.3.6.1."), done.stderr) == (True, ""), name


def test_a_snmp_conf_is_not_written_through_a_link(tmp_path: Path) -> None:
    place, other = tmp_path / "snmp.conf", tmp_path / "other"
    assert amqp_gateway("mib", "install", "--folder", tmp_path).code is ExitCode.OK
    place.rename(other)
    place.symlink_to(other)
    written = other.read_text()
    other.write_text(f"{written}# more\n")
    ended = amqp_gateway("mib", "install", "--folder", tmp_path)
    assert (ended.code, "is not replaced" in ended.errors) == (ExitCode.CONFIGURATION, True)
    assert other.read_text() == f"{written}# more\n"
    other.unlink()
    assert amqp_gateway("mib", "install", "--folder", tmp_path).code is ExitCode.CONFIGURATION
    assert not other.exists()


def test_a_snmp_conf_that_a_person_wrote_stays_as_it_is(tmp_path: Path) -> None:
    theirs = tmp_path / ".snmp" / "snmp.conf"
    theirs.parent.mkdir()
    theirs.write_text("defVersion 3\n")
    ended = amqp_gateway("mib", "install", "--user", HOME=str(tmp_path))
    assert ended.code is ExitCode.CONFIGURATION
    assert ended.reported[-1].endswith("exists, and this command did not write it: add the lines above to it")
    assert "mibs " in ended.output
    assert theirs.read_text() == "defVersion 3\n"
