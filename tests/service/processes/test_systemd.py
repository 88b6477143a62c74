"""Units for systemd, read by systemd's own tools; and the signs that a running gateway gives it."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import gateway
from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.processes.supervisor import gateway_command
from gateway.service.processes.systemd import AGENT_UNIT, GATEWAY_UNIT, MODULE, USERS, unit_files
from gateway.state_folder import FEED_PLACE
from tests.components.command_line import Site, amqp_gateway, new_site, running
from tests.components.waiting import DEADLINE

EXPOSURE = 20
"""The exposure in tenths below which systemd calls a service well protected."""

AMQP = {"url": "amqp://broker:5672", "user": "agent", "password": {"env": "AGENT_PASSWORD"}}
AGENT = {
    "kind": "rabbitmq",
    "management": "http://broker:15672",
    "user": "agent",
    "password": {"env": "AGENT_PASSWORD"},
    "publish": {"amqp": AMQP, "allowed_users": ["gateway"]},
}
EVERYTHING: dict[str, Mapping[str, Any]] = {
    "snmp": {"listen": ["127.0.0.1:161"]},
    "jmx": {"enabled": True},
    "metrics": {"enabled": True},
    "agents": {"orders": AGENT},
    "sources": {
        "orders": {
            "kind": "rabbitmq",
            "management": "https://broker:15671",
            "user": "gateway",
            "password": {"credential": "orders"},
            "writing": {"user": "writer", "password": {"credential": "orders-writer"}},
        }
    },
}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return new_site(tmp_path)


def configured(site: Site, **sections: Mapping[str, Any]) -> LoadedConfiguration:
    """Return the configuration as installed: state and feed in the system's places unless configured."""
    site.configure(**{"state": {"folder": "/var/lib/amqp-gateway"}, "feed": {}, **sections})
    return load_configuration(site.configuration)


def settings_of(text: str) -> dict[str, list[str]]:
    """Return the values of each key of a unit, in order."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_a_unit_loads_the_credentials_that_the_configuration_names(site: Site) -> None:
    agent = {**AGENT, "password": {"credential": "agent"}}
    files = unit_files(configured(site, **{**EVERYTHING, "agents": {"orders": agent}}))
    assert settings_of(files[GATEWAY_UNIT])["LoadCredential"] == ["orders", "orders-writer"]
    assert settings_of(files[AGENT_UNIT])["LoadCredential"] == ["agent"]


def unit(site: Site, place: Path = GATEWAY_UNIT, **sections: Mapping[str, Any]) -> dict[str, list[str]]:
    return settings_of(unit_files(configured(site, **sections))[place])


@pytest.mark.parametrize("sections", [{}, EVERYTHING], ids=["least", "everything"])
def test_systemd_finds_nothing_to_remark_and_little_to_attack(
    site: Site, sections: Mapping[str, Mapping[str, Any]]
) -> None:
    configured(site, **sections)
    done = amqp_gateway("systemd", "install", "--config", site.configuration, "--root", site.folder)
    assert done.code is ExitCode.OK
    units = sorted((site.folder / "etc/systemd/system").iterdir())
    assert len(units) == 1 + ("agents" in sections)
    for path in units:
        for check in (
            ["verify", "--man=no"],
            ["security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager"],
        ):
            reported = subprocess.run(  # noqa: S603  systemd's own command
                ["systemd-analyze", *check, path],  # noqa: S607
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert reported.returncode == 0, reported.stdout + reported.stderr
            assert reported.stderr == ""


def test_the_user_can_be_made(site: Site) -> None:
    (site.folder / USERS).parent.mkdir(parents=True)
    (site.folder / USERS).write_text(unit_files(configured(site))[USERS])
    command = ["systemd-sysusers", f"--root={site.folder}"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)  # noqa: S603
    (line,) = (site.folder / "etc/passwd").read_text().splitlines()
    name, _, number, *_, home, shell = line.split(":")
    assert (name, home, shell) == ("amqp-gateway", "/var/lib/amqp-gateway", "/usr/sbin/nologin")
    assert 0 < int(number) < 1000


def test_what_runs_is_this_installation_with_this_configuration(site: Site) -> None:
    (line,) = unit(site)["ExecStart"]
    *program, run, option, path = shlex.split(line)
    assert (run, option, path) == ("run", "--config", str(site.configuration))
    assert amqp_gateway("version", program=program).code is ExitCode.OK


def test_no_code_is_taken_from_the_current_folder(tmp_path: Path) -> None:
    planted = tmp_path / "gateway"
    planted.mkdir()
    (planted / "__init__.py").write_text("raise SystemExit('planted')\n")
    for command in (MODULE, gateway_command("core", tmp_path, tmp_path)[: len(MODULE)]):
        assert amqp_gateway("version", folder=tmp_path, program=command).code is ExitCode.OK
    sources = (path.read_text() for path in Path(gateway.__file__).parent.rglob("*.py"))
    started = [line for text in sources for line in text.splitlines() if 'sys.executable, "-' in line]
    assert started
    # One is printed for a source checkout, in which nothing is installed yet.
    assert all('"-P", "-m"' in line or '"-I"' in line or "gateway.demo.install" in line for line in started)


def test_no_core_dump_has_secrets(site: Site) -> None:
    assert unit(site)["LimitCORE"] == ["0"]


def test_the_state_is_the_only_place_that_can_be_written(site: Site) -> None:
    usual = unit(site)
    assert usual["StateDirectory"] == ["amqp-gateway"]
    assert "ReadWritePaths" not in usual
    other = unit(site, state={"folder": "/srv/gateway"}, log={"folder": "/srv/log"})
    assert other["ReadWritePaths"] == ["/srv/gateway", "/srv/log"]
    assert "StateDirectory" not in other
    assert usual["ProtectSystem"] == other["ProtectSystem"] == ["strict"]


LOW = "CAP_NET_BIND_SERVICE"
LOW_AMI = {"sources": {"plant": {"kind": "ami", "listen": "127.0.0.1:700"}}}
LOW_AGENT = {"agents": {"orders": {**AGENT, "metrics": {"listen": "127.0.0.1:700"}}}}


@pytest.mark.parametrize(
    ("sections", "of_gateway", "of_agents"),
    [
        ({"snmp": {"listen": ["127.0.0.1:1161"]}, "agents": {"orders": AGENT}}, "", ""),
        ({"snmp": {"listen": ["0.0.0.0:161"]}, "agents": {"orders": AGENT}}, LOW, ""),
        ({**LOW_AMI, "agents": {"orders": AGENT}}, LOW, ""),
        (LOW_AGENT, "", LOW),
    ],
    ids=["none", "SNMP", "AMI", "agent"],
)
def test_only_low_ports_take_a_capability(
    site: Site, sections: dict[str, Any], of_gateway: str, of_agents: str
) -> None:
    for path, capabilities in ((GATEWAY_UNIT, of_gateway), (AGENT_UNIT, of_agents)):
        found = unit(site, path, **sections)
        assert found["CapabilityBoundingSet"] == [capabilities]
        assert found.get("AmbientCapabilities", [""]) == [capabilities]


def test_only_java_may_make_code(site: Site) -> None:
    assert unit(site)["MemoryDenyWriteExecute"] == ["yes"]
    assert "MemoryDenyWriteExecute" not in unit(site, jmx={"enabled": True})


def test_ends_that_no_start_mends_are_final(site: Site) -> None:
    (codes,) = unit(site)["RestartPreventExitStatus"]
    found = {ExitCode(int(code)) for code in codes.split()}
    assert found == {ExitCode.USAGE, ExitCode.CONFIGURATION, ExitCode.NOT_INSTALLED}


def test_agents_are_services_of_their_own(site: Site) -> None:
    assert AGENT_UNIT not in unit_files(configured(site))
    found = unit(site, AGENT_UNIT, agents={"orders": AGENT})
    (line,) = found["ExecStart"]
    assert line.endswith(f"agent %i --config {site.configuration}")
    assert found["StateDirectory"] == ["amqp-gateway"]


def test_odd_paths_are_one_word(tmp_path: Path) -> None:
    folder = tmp_path / 'two words, 50% "quoted" $HOME'
    folder.mkdir()
    site = new_site(folder, state=False)
    (line,) = unit(site)["ExecStart"]
    word = str(site.configuration).replace("%", "%%").replace('"', '\\"').replace("$", "$$")
    assert line.endswith(f'--config "{word}"')


def test_show_prints_what_install_writes(site: Site) -> None:
    files = unit_files(configured(site, **EVERYTHING))
    shown = amqp_gateway("systemd", "show", "--config", site.configuration)
    assert shown.code is ExitCode.OK
    root = site.folder / "root"
    root.mkdir()
    written = amqp_gateway("systemd", "install", "--config", site.configuration, "--root", root)
    assert written.code is ExitCode.OK
    for place in files:
        text = (root / place).read_text()
        assert f"# /{place}\n{text}" in shown.output
        assert f"# {root / place}: written" in written.output
    assert "systemctl enable --now amqp-gateway.service amqp-gateway-agent@orders" in written.output


def test_a_running_gateway_says_when_it_is_ready_lives_and_stops(site: Site) -> None:
    path = site.folder / "notify"
    site.configure(snmp={"enabled": False})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(os.fspath(path))
        systemd.settimeout(DEADLINE)
        reported: list[str] = []

        def received(word: str) -> None:
            while word not in reported:
                reported.extend(systemd.recv(4096).decode().split("\n"))

        variables = {"NOTIFY_SOCKET": os.fspath(path), "WATCHDOG_USEC": "2000000"}
        with running("run", "--config", site.configuration, log=site.folder / "log", **variables) as gateway:
            received("READY=1")
            reported.clear()
            received("WATCHDOG=1")
            assert gateway.terminate().code is ExitCode.OK
            received("STOPPING=1")


def test_the_folder_of_the_feeds_socket_is_that_of_the_next_start(site: Site) -> None:
    state = site.folder / "state-of-before"
    state.mkdir()
    (state / FEED_PLACE).write_text("feed.sock\n", encoding="utf-8")
    moved = unit(site, state={"folder": str(state)}, feed={"socket": "/srv/feed/feed.sock"})
    assert moved["ReadWritePaths"] == [str(state), "/srv/feed"]
