"""A gateway whose users of version 3 read and set with net-snmp's commands."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.state.snmp_security import ENGINE, StoredEngine
from tests.cli.conftest import ShownGateway, running_gateway
from tests.components.command_line import Site, amqp_gateway, new_site, running
from tests.components.net_snmp import printed, with_modules
from tests.components.ports import free_udp_port
from tests.components.waiting import wait_until

pytestmark = pytest.mark.xdist_group("gateway with SNMP users")

MODULES = ("SNMPv2-MIB", "AMQP-GATEWAY-MIB", "AMQP-GATEWAY-RABBITMQ-MIB")
PHRASES = {"nms": ("phrase of nms", "secret of nms"), "operator": ("phrase of op", "secret of op")}
NO_ANSWER = ("-t", "1", "-r", "0")
PATIENT = ("-t", "20", "-r", "3")


@dataclass(frozen=True, slots=True)
class Users:
    """The running gateway, and a folder for net-snmp's files."""

    gateway: ShownGateway
    folder: Path
    port: int

    def ask(
        self,
        command: str,
        *words: str,
        user: str = "nms",
        level: str = "authPriv",
        context: str = "",
        phrase: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of net-snmp as a user of version 3."""
        authentication, privacy = PHRASES[user]
        keys = ("-a", "SHA-256", "-A", phrase or authentication, "-x", "AES", "-X", privacy)
        who = ("-v3", "-u", user, "-l", level, *keys, *(("-n", context) if context else ()))
        where = f"127.0.0.1:{self.port}"
        return printed(self.folder, command, *with_modules(MODULES), *PATIENT, "-OsQ", *who, where, *words)

    def values(self, name: str, **how: str) -> dict[str, str]:
        """Return the values below a name."""
        done = self.ask("snmpbulkwalk", name, **how)
        assert done.returncode == 0, done.stderr
        pairs = (line.partition(" = ") for line in done.stdout.splitlines())
        return {name: value.strip('"') for name, _, value in pairs}


def add_users(site: Site) -> None:
    for name, phrases in PHRASES.items():
        typed = "".join(f"{phrase}\n" for phrase in phrases)
        line = ["snmp", "user", "add", name, "--config", str(site.configuration)]
        assert CliRunner().invoke(main, line, input=typed).exit_code == ExitCode.OK


@pytest.fixture(scope="module")
def users(rabbitmq: PrivateBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    folder, port = tmp_path_factory.mktemp("users"), free_udp_port()
    snmp = {
        "listen": [f"127.0.0.1:{port}"],
        "versions": ["v3"],
        "users": {"nms": {}, "operator": {"may_set": True}, "late": {}},
    }
    rule = {"who": ["snmp:operator"], "classes": ["rabbitmq:vhost"], "set": ["maxConnections"]}
    with running_gateway(
        rabbitmq, folder, add_users, snmp=snmp, operations={"allow": [rule], "deadline": "1min"}
    ) as gateway:
        yield Users(gateway, tmp_path_factory.mktemp("net-snmp"), port)


def test_a_user_reads(users: Users) -> None:
    assert list(users.values("agSourceName").values()) == ["orders"]
    assert "first" in users.values("rmqQueueRowName").values()


def test_a_wrong_passphrase_reads_nothing(users: Users) -> None:
    done = users.ask("snmpget", "sysName.0", phrase="another phrase")
    assert done.returncode == 1
    assert "Authentication failure (incorrect password, community or key)" in done.stderr


def test_less_than_the_level_of_the_user_is_refused(users: Users) -> None:
    done = users.ask("snmpget", "sysName.0", level="authNoPriv")
    assert "authorizationError" in done.stdout + done.stderr


def test_no_community_is_answered(users: Users) -> None:
    community = users.gateway.site.state.secret("community")
    where = f"127.0.0.1:{users.port}"
    for version in ("1", "2c"):
        done = printed(
            users.folder, "snmpget", f"-v{version}", "-c", community, *NO_ANSWER, where, "1.3.6.1.2.1.1.5.0"
        )
        assert "No Response" in done.stderr


def test_health_asks_as_a_user_where_no_community_is_answered(users: Users) -> None:
    assert "1 of 1 sources synchronised" in users.gateway.output("health")


def test_the_context_of_a_source_has_its_rows(users: Users) -> None:
    everything = users.values("rmqQueueRowName")
    assert users.values("rmqQueueRowName", context="orders") == everything
    done = users.ask("snmpget", "sysName.0", context="elsewhere")
    assert done.returncode == 1
    assert "Bad context specified" in done.stderr


def test_a_user_who_may_set_limits_a_virtual_host(users: Users) -> None:
    name = users.gateway.virtual_host.name
    (row,) = [key for key, value in users.values("rmqVhostRowName").items() if value == name]
    instance = f"rmqVhostMaxConnections{row.removeprefix('rmqVhostRowName')}"
    done = users.ask("snmpset", instance, "=", "77", user="nms")
    assert "noAccess" in done.stdout + done.stderr
    done = users.ask("snmpset", instance, "=", "77", user="operator", context="orders")
    assert "noAccess" in done.stdout + done.stderr
    done = users.ask("snmpset", instance, "=", "77", user="operator")
    assert done.returncode == 0, done.stderr
    with users.gateway.virtual_host.http() as http:
        (limits,) = http.get(f"vhost-limits/{users.gateway.virtual_host.path}").json()
    assert limits["value"]["max-connections"] == 77


def test_a_user_without_keys_is_reported_and_the_others_are_served(users: Users) -> None:
    lines = (users.gateway.site.folder / "log").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in map(json.loads, lines) if line["event"] == "snmp-user-cannot-log-in"]
    assert (line["level"], line["user"]) == ("warning", "late")
    assert line["reason"] == "has no keys for this gateway: run `amqp-gateway snmp user add late`"


def test_a_restart_keeps_the_engine_and_counts_its_boots(tmp_path: Path) -> None:
    """The engine has more boots after each start, also where an old state was restored."""
    site = new_site(tmp_path)
    site.configure(snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "users": {"nms": {}}})
    add_users(site)
    path = site.state.path / ENGINE
    before = path.read_bytes()

    def started() -> StoredEngine:
        with running("run", "--config", site.configuration, log=site.folder / "log") as command:
            command.ready()
            wait_until(
                lambda: amqp_gateway("health", "--config", site.configuration).code is ExitCode.OK,
                "it is well",
            )
        return StoredEngine.model_validate_json(path.read_bytes())

    first, second = started(), started()
    path.write_bytes(before)
    third = started()
    assert first.engine_id == second.engine_id == third.engine_id
    assert 0 < first.boots < second.boots <= third.boots + 1
