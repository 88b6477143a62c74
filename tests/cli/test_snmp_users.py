"""A gateway whose users of version 3 read and set with net-snmp's commands."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest
import yaml
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.state.snmp_security import StoredEngine
from gateway.starts import ENGINE
from tests.cli.conftest import ShownGateway, running_gateway
from tests.components.command_line import Site, new_site, running
from tests.components.net_snmp import printed, with_modules
from tests.components.ports import free_udp_port

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
        rabbitmq,
        folder,
        add_users,
        has_jmx=False,
        snmp=snmp,
        operations={"allow": [rule], "deadline": "1min"},
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
    own = users.gateway.virtual_host.name

    def rows(**how: str) -> list[str]:
        return [instance for instance, name in users.values("rmqVhostRowName", **how).items() if name == own]

    assert len(rows()) == 1
    assert rows(context="orders") == rows()
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
    # Another test gives the user keys for a while.
    line, *_ = [line for line in map(json.loads, lines) if line["event"] == "snmp-user-cannot-log-in"]
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
        with running("process", "snmp", "--config", site.configuration, log=site.folder / "log") as agent:
            agent.ready()
        return StoredEngine.model_validate_json(path.read_bytes())

    first, second = started(), started()
    path.write_bytes(before)
    third = started()
    assert first.engine_id == second.engine_id == third.engine_id
    assert 0 < first.boots < second.boots <= third.boots + 1


class Asking:
    """A manager that asks one after the other; a datagram that is lost, and sent again, is counted."""

    def __init__(self, users: Users, engine_id: str, user: str) -> None:
        authentication, privacy = PHRASES[user]
        keys = ("-a", "SHA-256", "-A", authentication, "-x", "AES", "-X", privacy)
        line = ["-v3", "-e", engine_id, "-u", user, "-l", "authPriv", *keys, "-t", "20", "-r", "0", "-Oqv"]
        self._line = ["snmpget", *line, f"127.0.0.1:{users.port}", "1.3.6.1.6.3.10.2.1.2.0"]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.boots: list[str] = []

    def _ask(self) -> None:
        while not self._is_over.is_set():
            done = subprocess.run(self._line, capture_output=True, text=True, check=False)  # noqa: S603
            self.boots.append(done.stdout.strip() or done.stderr.strip())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


def command(site: Site, *words: str, typed: str = "") -> str:
    done = CliRunner().invoke(main, [*words, "--config", str(site.configuration)], input=typed)
    assert done.exit_code == ExitCode.OK, done.output
    return done.output


def assert_receiver_ends_with_keys(users: Users) -> None:
    assert "of-late" in str(users.values("agTargetKind"))
    command(users.gateway.site, "snmp", "user", "remove", "late")
    left = str(users.values("agTargetKind"))
    assert ("noc" in left, "far" in left, "of-late" in left) == (True, True, False)


def test_users_communities_and_receivers_change_while_others_ask(users: Users) -> None:
    """A gateway follows with the next datagram. No other request is lost, nor are there more boots.

    One of the receivers is behind an interface that is not there.
    """
    site, sink = users.gateway.site, socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("127.0.0.1", 0))
    sink.settimeout(60)
    before = site.configuration.read_text(encoding="utf-8")
    engine_id = StoredEngine.model_validate_json((site.state.path / ENGINE).read_bytes()).engine_id
    try:
        with Asking(users, engine_id, "nms") as manager, sink:
            PHRASES["late"] = ("phrase of late", "secret of late")
            command(site, "snmp", "user", "add", "late", typed="phrase of late\nsecret of late\n")
            assert users.ask("snmpget", "sysName.0", user="late").returncode == 0
            command(site, "snmp", "user", "add", "late", typed="another of late\nsecret of late\n")
            refused = users.ask("snmpget", "sysName.0", user="late")
            assert "Authentication failure" in refused.stderr
            assert users.ask("snmpget", "sysName.0", user="late", phrase="another of late").returncode == 0
            command(site, "snmp", "user", "remove", "late")
            refused = users.ask("snmpget", "sysName.0", user="late", phrase="another of late")
            assert "Unknown user name" in refused.stderr

            address = f"127.0.0.1:{sink.getsockname()[1]}"
            receiver = {"address": address, "events": ["gateway:policyChanged"]}
            wanted = yaml.safe_load(before)
            wanted["snmp"]["users"]["guest"] = {"level": "noAuthNoPriv"}
            of_late = {"address": "127.0.0.1:9", "version": "v3", "user": "late"}
            command(site, "snmp", "user", "add", "late", typed="phrase of late\nsecret of late\n")
            wanted["snmp"] |= {
                "versions": ["v2c", "v3"],
                "notifications": {
                    "far": {"address": "[fe80::1%nowhere]:162"},
                    "noc": receiver,
                    "of-late": of_late,
                },
            }
            site.configuration.write_text(yaml.safe_dump(wanted), encoding="utf-8")
            said = command(site, "reload")
            assert "snmp.users.guest was added\n" in said
            assert "snmp.notifications.noc was added\n" in said
            where = (f"127.0.0.1:{users.port}", "1.3.6.1.2.1.1.5.0")
            asked = printed(
                users.folder, "snmpget", "-v3", "-l", "noAuthNoPriv", "-u", "guest", *PATIENT, *where
            )
            assert asked.returncode == 0, asked.stderr
            community = site.state.secret("community")
            assert printed(users.folder, "snmpget", "-v2c", "-c", community, *PATIENT, *where).returncode == 0
            assert b"policy" in sink.recv(65_536)
            assert_receiver_ends_with_keys(users)

            site.configuration.write_text(before, encoding="utf-8")
            assert "snmp.users.guest was removed\n" in command(site, "reload")
            asked = printed(
                users.folder, "snmpget", "-v3", "-l", "noAuthNoPriv", "-u", "guest", *PATIENT, *where
            )
            assert "Unknown user name" in asked.stderr
            done = printed(users.folder, "snmpget", "-v2c", "-c", community, *NO_ANSWER, *where)
            assert "No Response" in done.stderr
    finally:
        site.configuration.write_text(before, encoding="utf-8")
        PHRASES.pop("late", None)
    assert len(manager.boots) > 10
    assert len(set(manager.boots)) == 1, "each was answered, by one life of the engine"
    assert manager.boots[0].isdecimal()
