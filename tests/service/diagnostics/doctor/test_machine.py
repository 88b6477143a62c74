"""Findings about the machine, with real files and sockets."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.service.diagnostics.doctor import Finding, Level
from gateway.service.diagnostics.doctor.machine import (
    disk_findings,
    feed_findings,
    java_findings,
    mib_findings,
    port_findings,
    state_findings,
)
from gateway.shipped_files import shipped_folder
from gateway.snmp.ber import parse_oid
from gateway.snmp.mib.lint import base_folders
from gateway.snmp.mib.roots import write_rooted_modules
from tests.components.command_line import Site, new_site
from tests.components.ports import free_tcp_port


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a site with a state folder."""
    return new_site(tmp_path)


def configured(site: Site, **sections: dict[str, Any]) -> LoadedConfiguration:
    site.configure(**sections)
    return load_configuration(site.configuration)


def levels(findings: list[Finding]) -> list[tuple[str, Level]]:
    return [(finding.check, finding.level) for finding in findings]


def test_a_state_folder_is_reported_with_its_identity(site: Site) -> None:
    (found,), reported = state_findings(configured(site))
    assert (found.level, reported is not None and reported.in_use) == (Level.GOOD, False)
    assert site.state.identity in found.text


def test_a_state_folder_that_others_can_read_is_a_warning(site: Site) -> None:
    site.state.path.chmod(0o755)
    found, _ = state_findings(configured(site))
    assert levels(found) == [("state", Level.GOOD), ("state", Level.WARNING)]
    assert found[1].advice == f"chmod 700 {site.state.path}"


def test_no_state_is_a_problem_that_says_what_to_do(tmp_path: Path) -> None:
    (found,), reported = state_findings(configured(new_site(tmp_path, state=False)))
    assert (found.level, reported) == (Level.PROBLEM, None)
    assert "amqp-gateway init" in found.text


@pytest.mark.parametrize(
    ("log", "level"),
    [
        ({"enabled": False}, Level.GOOD),
        ({"min_free": 0, "max_size": 16}, Level.GOOD),
        ({"min_free": 0, "max_size": 2**40}, Level.WARNING),
        ({"min_free": 2**40}, Level.PROBLEM),
    ],
)
def test_room_for_the_event_log(site: Site, log: dict[str, Any], level: Level) -> None:
    (found,) = disk_findings(configured(site, log=log))
    assert found.level is level


def test_java_is_needed_only_where_jmx_is_on(site: Site, tmp_path: Path) -> None:
    (found,) = java_findings(configured(site))
    assert found.level is Level.NOTE
    (found,) = java_findings(configured(site, jmx={"enabled": True}))
    assert found.level is Level.GOOD
    (found,) = java_findings(configured(site, jmx={"enabled": True, "java": str(tmp_path)}))
    assert found.level is Level.PROBLEM


@pytest.mark.parametrize(
    ("says", "level"), [('openjdk version "1.8.0_292"', Level.PROBLEM), ('version "21"', Level.GOOD)]
)
def test_an_old_java_is_a_problem(site: Site, tmp_path: Path, says: str, level: Level) -> None:
    program = tmp_path / "jre" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n", encoding="ascii")
    program.chmod(0o755)
    (found,) = java_findings(configured(site, jmx={"enabled": True, "java": str(tmp_path / "jre")}))
    assert found.level is level


def test_a_port_that_another_has_is_a_problem_unless_the_gateway_runs(site: Site) -> None:
    port = free_tcp_port()
    loaded = configured(site, metrics={"enabled": True, "listen": f"127.0.0.1:{port}"})
    assert levels(list(port_findings(loaded, is_running=False))) == [("ports", Level.GOOD)] * 2
    assert levels(list(port_findings(loaded, is_running=True))) == [("ports", Level.WARNING)] * 2
    with socket.create_server(("127.0.0.1", port)):
        snmp, metrics = port_findings(loaded, is_running=False)
        assert (snmp.level, metrics.level, metrics.subject) == (
            Level.GOOD,
            Level.PROBLEM,
            f"127.0.0.1:{port}",
        )
        _, metrics = port_findings(loaded, is_running=True)
        assert metrics.level is Level.GOOD


def test_the_ports_of_applications_are_looked_at(site: Site) -> None:
    port = free_tcp_port()
    loaded = configured(site, sources={"plant": {"kind": "ami", "listen": f"127.0.0.1:{port}"}})
    with socket.create_server(("127.0.0.1", port)):
        _, found = port_findings(loaded, is_running=False)
    assert (found.level, found.subject) == (Level.PROBLEM, f"127.0.0.1:{port}")
    assert found.text.startswith("AMI source plant: ")


def test_what_listens_to_the_network_is_named(site: Site) -> None:
    _, found = port_findings(
        configured(site, snmp={"listen": [f"0.0.0.0:{site.snmp_port}"]}), is_running=False
    )
    assert found.level is Level.NOTE
    assert found.text == "SNMP listens on any address, which other machines may reach"


def test_a_socket_whose_path_is_too_long_is_a_problem(site: Site) -> None:
    assert list(feed_findings(configured(site, feed={"socket": "feed.sock"}), is_running=False)) == []
    (found,) = feed_findings(configured(site, feed={"socket": "x" * 108}), is_running=False)
    assert found.level is Level.PROBLEM


def test_the_arc_for_trying_out_is_a_warning(site: Site) -> None:
    found = list(mib_findings(configured(site)))
    assert levels(found)[0] == ("oid-root", Level.WARNING)
    found = list(mib_findings(configured(site, snmp={"root": "1.3.6.1.4.1.99999.1"})))
    assert levels(found)[0] == ("oid-root", Level.NOTE)
    (off,) = mib_findings(configured(site, snmp={"enabled": False}))
    assert off.text == "SNMP is off"


def test_names_are_known_where_net_snmp_finds_our_modules(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_nowhere = list(mib_findings(configured(site)))[1]
    assert from_nowhere.level is Level.NOTE
    assert "amqp-gateway mib path" in from_nowhere.advice
    monkeypatch.setenv("MIBDIRS", ":".join(map(str, (*base_folders(), shipped_folder("mibs")))))
    assert list(mib_findings(configured(site)))[1].level is Level.GOOD


def test_modules_of_the_configured_root_are_those_that_must_be_known(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = configured(site, snmp={"root": "1.3.6.1.4.1.99999.1"})
    monkeypatch.setenv("MIBDIRS", ":".join(map(str, (*base_folders(), shipped_folder("mibs")))))
    of_another_root = list(mib_findings(loaded))[1]
    assert of_another_root.level is Level.NOTE
    assert "amqp-gateway mib gen --root" in of_another_root.advice
    write_rooted_modules(shipped_folder("mibs"), tmp_path / "mibs", parse_oid("1.3.6.1.4.1.99999.1"))
    monkeypatch.setenv("MIBDIRS", ":".join(map(str, (*base_folders(), tmp_path / "mibs"))))
    assert list(mib_findings(loaded))[1].level is Level.GOOD


@pytest.mark.parametrize(
    "option", ["-javaagent:/none/agent.jar", "-agentlib:jdwp=transport=dt_socket,server=y,address={taken}"]
)
def test_options_for_other_java_programs_are_no_fault_of_java(
    site: Site, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    """The gateway starts its virtual machine without them."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", option.format(taken=taken))
        (found,) = java_findings(configured(site, jmx={"enabled": True}))
    assert found.level is Level.GOOD
