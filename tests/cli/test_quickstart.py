"""One command makes a running gateway from the address of a RabbitMQ."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from gateway.cli.quickstart import installation_lines, lines_of_java, lines_of_jconsole
from gateway.demo.broker import PrivateBroker
from gateway.demo.node_setup import free_ports
from gateway.service.processes.exit_codes import ExitCode
from gateway.sources.rabbitmq.management_api import by_proxy
from tests.components.command_line import COMMAND, Ended, amqp_gateway, running
from tests.components.ports import free_udp_port
from tests.components.rabbitmq import new_virtual_host
from tests.components.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A user who has the address of a broker and an administrator's password, and nothing else."""

    broker: PrivateBroker
    folder: Path
    gateway: str
    """The user that the command makes: other tests have this broker, too."""

    def arguments(self, *more: str, user: str = "", password: str = "", url: str = "") -> list[str]:
        """Return the arguments of the command."""
        file = self.folder / "password"
        file.write_text(password or self.broker.administrator.password, encoding="utf-8")
        jmx, metrics = free_ports(2)
        return [
            "quickstart",
            url or self.broker.management_url,
            *("--user", user or self.broker.administrator.name, "--password-file", str(file)),
            *("--gateway-user", self.gateway),
            *("--snmp-port", str(free_udp_port()), "--jmx-port", str(jmx), "--metrics-port", str(metrics)),
            *more,
        ]

    def quickstart(self, *more: str, user: str = "", password: str = "", url: str = "") -> Ended:
        """Prepare everything, and do not run it."""
        arguments = self.arguments("--no-run", *more, user=user, password=password, url=url)
        return amqp_gateway(*arguments, folder=self.folder)

    @property
    def made(self) -> Path:
        """The folder that it makes."""
        return self.folder / "amqp-gateway"

    def users(self) -> dict[str, Any]:
        """Return the users of the broker, with their tags."""
        with self.broker.http() as http:
            return {one["name"]: one["tags"] for one in http.get("users").json()}


@pytest.fixture
def newcomer(rabbitmq: PrivateBroker, tmp_path: Path) -> Iterator[Newcomer]:
    new = Newcomer(rabbitmq, tmp_path, f"gateway-{secrets.token_hex(4)}")
    yield new
    with rabbitmq.http() as http:
        http.delete(f"users/{new.gateway}")


@pytest.fixture
def user_with(rabbitmq: PrivateBroker) -> Iterator[Callable[..., tuple[str, str]]]:
    """Provide a function that makes a user with these tags, who may read /; it returns name and password."""
    made: list[str] = []

    def make(tags: str, *, reads: str = ".*") -> tuple[str, str]:
        name, password = f"visitor-{secrets.token_hex(4)}", secrets.token_hex(8)
        with rabbitmq.http() as http:
            http.put(f"users/{name}", json={"password": password, "tags": tags}).raise_for_status()
            rights = {"configure": "^amqp-gateway", "write": "^amqp-gateway", "read": reads}
            http.put(f"permissions/%2F/{name}", json=rights).raise_for_status()
        made.append(name)
        return name, password

    yield make
    with rabbitmq.http() as http:
        for name in made:
            http.delete(f"users/{name}")


def printed_commands(text: str) -> dict[str, str]:
    """Return the printed commands, by the program's name."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    return {Path(shlex.split(line)[0]).name: line for line in reversed(lines) if " " in line}


def test_it_runs_and_what_it_prints_can_be_typed(newcomer: Newcomer) -> None:
    log = newcomer.folder / "output"
    folder = ("--folder", str(newcomer.made))
    with running(*newcomer.arguments("--yes", *folder), log=log) as gateway:
        gateway.ready()
        commands = printed_commands(log.read_text("utf-8"))
        exports = [line for line in log.read_text("utf-8").splitlines() if line.startswith("  export ")]

        def typed(name: str) -> str:
            script = "\n".join([*exports, commands[name]])
            return subprocess.run(  # noqa: S603  what the command printed, as people would type it
                ["/bin/bash", "-c", script], capture_output=True, text=True, check=False, env=os.environ
            ).stdout

        wait_until(lambda: "synchronised" in typed("snmptable"), "the source is read")
        assert "rabbitmq:vhost  /" in typed("amqp-gateway")
        assert "amqp_gateway_" in typed("curl")
        wait_until(lambda: '"event": "jmx-ready"' in log.read_text("utf-8"), "JMX takes connections")
        assert newcomer.users()[newcomer.gateway] in ("monitoring", ["monitoring"])
    assert newcomer.made.joinpath("secrets", f"{newcomer.gateway}.password").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("has_commands", "has_modules", "packages"),
    [(False, False, "snmp erlang-snmp"), (True, False, "erlang-snmp")],
)
def test_where_modules_are_missing_it_is_done_again_after_their_installation(
    *, has_commands: bool, has_modules: bool, packages: str
) -> None:
    first, second = installation_lines(has_commands=has_commands, has_modules=has_modules, again="quickstart")

    assert shlex.split(first, comments=True) == ["apt-get", "install", *packages.split()]
    assert shlex.split(second, comments=True) == ["quickstart"]


def test_where_nothing_is_missing_nothing_is_installed() -> None:
    (line,) = installation_lines(has_commands=False, has_modules=True, again="quickstart")

    assert shlex.split(line, comments=True) == ["apt-get", "install", "snmp"]
    assert installation_lines(has_commands=True, has_modules=True, again="quickstart") == []


@pytest.mark.parametrize(
    ("has_java", "has_spark", "serves_jmx", "said"),
    [
        (True, False, True, []),
        (True, True, True, ["amqp-gateway analytics report"]),
        (False, False, False, ["for JMX (then set jmx.enabled to true): there is no Java"]),
        (
            *(False, True, False),
            [
                "amqp-gateway analytics report",
                "for JMX (then set jmx.enabled to true) and reports: there is no Java",
            ],
        ),
    ],
)
def test_what_needs_java_is_said(
    *, has_java: bool, has_spark: bool, serves_jmx: bool, said: list[str]
) -> None:
    lines = lines_of_java("amqp-gateway", has_java=has_java, has_spark=has_spark, serves_jmx=serves_jmx)
    assert len(lines) == len(said)
    assert all(words in line for words, line in zip(said, lines, strict=True))


def test_done_again_it_keeps_what_is_there(newcomer: Newcomer) -> None:
    first = newcomer.quickstart("--yes")
    assert first.code is ExitCode.OK, first.errors
    before = {path: path.read_bytes() for path in newcomer.made.rglob("*") if path.is_file()}
    again = newcomer.quickstart(password="not asked for")
    assert again.code is ExitCode.OK, again.errors
    assert f"{newcomer.made / 'gateway.yaml'} exists and is not changed" in again.output
    assert {path: path.read_bytes() for path in newcomer.made.rglob("*") if path.is_file()} == before
    checked = amqp_gateway("check", "--connect", "--config", newcomer.made / "gateway.yaml")
    assert checked.code is ExitCode.OK, checked.output


def test_a_configuration_of_another_broker_is_not_taken_for_that_of_this_one(newcomer: Newcomer) -> None:
    assert newcomer.quickstart("--yes").code is ExitCode.OK
    other = "http://127.0.0.1:25672"
    for more in ([], ["--dry-run"]):
        ended = newcomer.quickstart(*more, url=other)
        (line,) = ended.reported
        assert ended.code is ExitCode.CONFIGURATION
        assert f"exists, and watches {newcomer.broker.management_url}: choose another folder" in line


def test_a_dry_run_changes_nothing(newcomer: Newcomer) -> None:
    ended = newcomer.quickstart("--dry-run")
    assert ended.code is ExitCode.OK
    assert f"make the user {newcomer.gateway}: tags monitoring" in ended.output
    configuration = yaml.safe_load(ended.output.partition("would be:\n\n")[2])
    assert configuration["sources"]["rabbitmq"]["user"] == newcomer.gateway
    assert not newcomer.made.exists()
    assert newcomer.gateway not in newcomer.users()


def test_who_is_no_administrator_is_used_as_it_is(
    newcomer: Newcomer, user_with: Callable[..., tuple[str, str]]
) -> None:
    name, password = user_with("monitoring")
    ended = newcomer.quickstart(user=name, password=password)
    assert ended.code is ExitCode.OK, ended.errors
    assert newcomer.gateway not in newcomer.users()
    configuration = yaml.safe_load((newcomer.made / "gateway.yaml").read_text("utf-8"))
    assert configuration["sources"]["rabbitmq"]["user"] == name
    assert amqp_gateway("check", "--connect", "--config", newcomer.made / "gateway.yaml").code is ExitCode.OK


def test_a_user_who_may_not_consume_events_gets_a_gateway_without_them(
    newcomer: Newcomer, user_with: Callable[..., tuple[str, str]]
) -> None:
    name, password = user_with("monitoring", reads="^amqp-gateway")
    ended = newcomer.quickstart(user=name, password=password)
    assert ended.code is ExitCode.OK, ended.errors
    # Virtual hosts of other tests are reported, too.
    (line,) = [line for line in ended.reported if line.startswith("The configuration is without events")]
    assert "access to exchange 'amq.rabbitmq.event' in vhost '/' refused" in line
    assert r"read ^amqp-gateway\.|^amq\.rabbitmq\.event$" in line
    written = newcomer.made / "gateway.yaml"
    assert "events" not in yaml.safe_load(written.read_text("utf-8"))["sources"]["rabbitmq"]

    written.write_text(re.sub(r"# (events: )", r"\1", written.read_text("utf-8")), "utf-8")
    checked = amqp_gateway("check", "--connect", "--config", written)
    assert (checked.code, "for the broker's events the user needs" in checked.errors) == (
        ExitCode.FORBIDDEN,
        True,
    )


def test_what_keeps_it_from_beginning_is_said_and_nothing_is_made(
    newcomer: Newcomer, user_with: Callable[..., tuple[str, str]]
) -> None:
    name, password = user_with("")
    limited, of_limited = user_with("management")
    management = newcomer.broker.management_url
    amqp = f"http://127.0.0.1:{newcomer.broker.ports.amqp}"
    for ended, code, said in (
        (newcomer.quickstart(password="wrong"), ExitCode.CREDENTIALS, "Login failed"),
        (newcomer.quickstart(user=name, password=password), ExitCode.FORBIDDEN, f"set_user_tags {name} mon"),
        (
            newcomer.quickstart(user=limited, password=of_limited),
            ExitCode.FORBIDDEN,
            f"set_user_tags {limited} management monitoring",
        ),
        (newcomer.quickstart(url=amqp), ExitCode.UNREACHABLE, "cannot be reached"),
        (newcomer.quickstart(url="http://127.0.0.1:5671"), ExitCode.UNREACHABLE, "port 5671 is that of AMQP"),
        (newcomer.quickstart(url=f"{management}/elsewhere"), ExitCode.UNREACHABLE, "no RabbitMQ management"),
    ):
        (line,) = ended.reported
        assert (ended.code, said in line) == (code, True), line
    assert not newcomer.made.exists()


@contextmanager
def proxy_that_refuses(status: int) -> Iterator[str]:
    """Yield the URL of a proxy that lets nothing through, and has pages of its own."""

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"<html><h1>Not you</h1></html>")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("status", [401, 403])
def test_a_proxy_that_refuses_is_not_taken_for_a_user_without_a_tag(newcomer: Newcomer, status: int) -> None:
    with proxy_that_refuses(status) as url:
        (line,) = newcomer.quickstart(url=url).reported
    assert by_proxy(status) in line
    assert "rabbitmqctl" not in line
    assert not newcomer.made.exists()


def test_virtual_hosts_that_the_user_cannot_read_are_named_with_what_permits_it(
    newcomer: Newcomer, user_with: Callable[..., tuple[str, str]]
) -> None:
    name, password = user_with("monitoring")
    # Only the first five by name are named, and other tests have virtual hosts, too.
    with new_virtual_host(newcomer.broker, "0-first-") as hidden:
        ended = newcomer.quickstart(user=name, password=password)
    assert ended.code is ExitCode.OK, ended.errors
    permits = ["rabbitmqctl", "set_permissions", "-p", hidden.name, name, "^$", "^$", "^$"]
    assert any(shlex.split(line) == permits for line in ended.errors.splitlines()), ended.errors
    assert not any("-p / " in line for line in ended.errors.splitlines()), "it may read this one"


def test_prepared_only_it_does_not_speak_of_a_gateway_that_runs(newcomer: Newcomer) -> None:
    ended = newcomer.quickstart("--yes", "--amqp", "amqp://192.0.2.1:5672")
    assert ended.code is ExitCode.OK, ended.errors
    assert "Ctrl-C stops it" not in ended.output
    assert f"run --config {newcomer.made / 'gateway.yaml'}" in ended.output
    source = yaml.safe_load((newcomer.made / "gateway.yaml").read_text("utf-8"))["sources"]["rabbitmq"]
    assert source["events"]["url"] == "amqp://192.0.2.1:5672"


@pytest.mark.parametrize("has_jconsole", [True, False])
def test_jconsole_is_installed_before_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_jconsole: bool
) -> None:
    if has_jconsole:
        (tmp_path / "jconsole").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    first, *more = lines_of_jconsole("127.0.0.1:9990", "user monitor")
    assert shlex.split(first)[0] == ("jconsole" if has_jconsole else "apt-get")
    assert len(more) == (0 if has_jconsole else 1)


def test_without_a_terminal_it_says_which_options_answer_its_questions(newcomer: Newcomer) -> None:
    ended = amqp_gateway("quickstart", newcomer.broker.management_url, folder=newcomer.folder)
    assert (ended.code, ended.output) == (ExitCode.USAGE, "")
    (line,) = ended.reported
    assert "use --user and --password-file" in line

    unasked = newcomer.quickstart()
    assert (unasked.code, newcomer.gateway in newcomer.users()) == (ExitCode.USAGE, False)
    assert unasked.reported[-1].endswith("give --yes to change the broker without asking")


def test_a_password_is_not_asked_for_where_it_would_be_shown(tmp_path: Path) -> None:
    words = ["quickstart", "--dry-run", "--user", "monitor", "http://127.0.0.1:15672"]
    ended = amqp_gateway(*words, folder=tmp_path, program=("setsid", "--wait", *COMMAND))
    assert ended.code is ExitCode.USAGE
    (line,) = ended.reported
    assert line.endswith(
        "there is no terminal to ask for the password: use --password-file (- is standard input)"
    )
