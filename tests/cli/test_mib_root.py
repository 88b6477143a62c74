"""Modules below an organisation's own arc, written and installed by an operator."""

from __future__ import annotations

from pathlib import Path

from gateway.service.processes.exit_codes import ExitCode
from gateway.shipped_files import shipped_folder
from tests.cli.test_mib_path import folders, translated
from tests.components.command_line import Site, amqp_gateway

ROOT = "1.3.6.1.4.1.99999.7"
COUNT = len(list(shipped_folder("mibs").iterdir()))


def test_the_modules_of_a_root_are_written_and_checked(tmp_path: Path) -> None:
    place = tmp_path / "mibs"
    ended = amqp_gateway("mib", "gen", "--root", ROOT, "--mibs", place)
    assert (ended.code, len(ended.output.splitlines())) == (ExitCode.OK, COUNT)
    assert amqp_gateway("mib", "gen", "--root", ROOT, "--mibs", place, "--check").code is ExitCode.OK
    (place / "AMQP-GATEWAY-AMI-MIB.mib").write_text("of a former version\n")
    ended = amqp_gateway("mib", "gen", "--root", ROOT, "--mibs", place, "--check")
    assert ended.code is ExitCode.DIFFERENCE
    assert ended.output == f"{place}/AMQP-GATEWAY-AMI-MIB.mib: is not up to date\n"


def test_the_shipped_modules_stay_as_they_are(tmp_path: Path) -> None:
    amqp_gateway("mib", "gen", "--root", ROOT, "--mibs", tmp_path)
    assert amqp_gateway("mib", "gen", "--check").code is ExitCode.OK


def test_the_configured_root_is_taken_and_the_modules_are_found(site: Site) -> None:
    site.configure(snmp={"root": ROOT})
    config = ("--config", site.configuration)
    before = amqp_gateway("mib", "path", *config)
    (reported,) = before.reported
    assert reported.startswith(f"the shipped modules have another root than snmp.root {ROOT}: ")
    ended = amqp_gateway("mib", "gen", "--root", *config)
    assert (ended.code, len(ended.output.splitlines())) == (ExitCode.OK, COUNT), ended.errors
    after = amqp_gateway("mib", "path", *config)
    assert folders(after)[-1] == str(site.state.path / "mibs")
    assert str(shipped_folder("mibs")) not in folders(after)
    assert after.reported == []


def test_install_takes_the_modules_of_the_configured_root(site: Site, tmp_path: Path) -> None:
    site.configure(snmp={"root": ROOT})
    place = tmp_path / "snmp"
    for _ in range(2):
        ended = amqp_gateway("mib", "install", "--folder", place, "--config", site.configuration)
        assert ended.code is ExitCode.OK, ended.errors
    for name, number in (("AMQP-GATEWAY-MIB::agMIB", "1"), ("AMQP-GATEWAY-RABBITMQ-MIB::rmqMIB", "2.1")):
        done = translated(name, place)
        assert (done.stdout, done.stderr) == (f".{ROOT}.{number}\n", "")


def test_roots_that_no_module_can_have_are_refused(tmp_path: Path) -> None:
    for root, reason in (("2.25.7", "take an arc below"), ("one.two", "write an object identifier")):
        ended = amqp_gateway("mib", "gen", "--root", root, "--mibs", tmp_path)
        assert ended.code is ExitCode.CONFIGURATION
        assert reason in ended.reported[-1]
    assert list(tmp_path.iterdir()) == []


def test_without_a_configuration_root_and_folder_are_asked_for(tmp_path: Path) -> None:
    ended = amqp_gateway("mib", "gen", "--root", "--config", tmp_path / "none.yaml")
    assert ended.code is ExitCode.CONFIGURATION
    assert "give --root OID and --mibs FOLDER" in ended.reported[-1]


def test_a_root_goes_with_no_registry() -> None:
    ended = amqp_gateway("mib", "gen", "--root", ROOT, "--grow")
    assert ended.code is ExitCode.USAGE
    assert "leave out --mapping, --registries and --grow" in ended.errors
