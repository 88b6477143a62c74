"""``amqp-gateway provision`` on a real broker: what it makes suffices, and a second run does nothing."""

from __future__ import annotations

import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.demo.broker import Credentials, PrivateBroker
from gateway.demo.node_setup import free_ports
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import Ended, amqp_gateway
from tests.components.rabbitmq import VirtualHost, login_refusal, new_virtual_host


@dataclass(frozen=True)
class Operator:
    """An operator who sets a broker up, with names that no other test has."""

    broker: PrivateBroker
    watched: VirtualHost
    folder: Path
    mark: str

    @property
    def gateway(self) -> str:
        return f"gateway-{self.mark}"

    @property
    def agent(self) -> str:
        return f"agent-{self.mark}"

    @property
    def writer(self) -> str:
        return f"writer-{self.mark}"

    @property
    def vhost(self) -> str:
        return f"management-{self.mark}"

    def password_file(self, user: str) -> Path:
        return self.folder / "secrets" / f"{user}.password"

    def provision(self, *more: str, by: Credentials | None = None, management: str = "") -> Ended:
        """Run the command, by default as the administrator."""
        return amqp_gateway(*self.arguments(*more, by=by, management=management), folder=self.folder)

    def arguments(
        self, *more: str, by: Credentials | None = None, management: str = ""
    ) -> tuple[str | Path, ...]:
        """Return the arguments of the command, as `provision` runs it."""
        administrator = by or self.broker.administrator
        password = self.folder / "secret-of-the-administrator"
        password.write_text(f"{administrator.password}\n", encoding="utf-8")
        return (
            "provision",
            *("--management", management or self.broker.management_url),
            *("--administrator", administrator.name, "--administrator-password-file", password),
            *("--watch", self.watched.name, "--watch", "/", "--vhost", self.vhost),
            *("--gateway-user", self.gateway, "--agent-user", self.agent, "--secrets", "secrets"),
            *more,
        )

    def state(self) -> dict[str, Any]:
        """Return the objects of ours on the broker, password hashes included."""
        with self.broker.http() as http:
            users = [user for user in http.get("users").json() if self.mark in user["name"]]
            return {
                "users": users,
                "permissions": [one for one in http.get("permissions").json() if self.mark in one["user"]],
                "vhost": http.get(f"vhosts/{self.vhost}").json().get("description"),
                "exchanges": [
                    one["name"] for one in http.get("exchanges").json() if self.mark in one["vhost"]
                ],
            }

    def check(self, printed: str) -> Ended:
        """Run ``check --connect`` of a configuration as it was printed."""
        path = self.folder / "gateway.yaml"
        path.write_text(printed, encoding="utf-8")
        return amqp_gateway("check", "--connect", "--config", path)


@pytest.fixture
def operator(rabbitmq: PrivateBroker, virtual_host: VirtualHost, tmp_path: Path) -> Iterator[Operator]:
    new = Operator(rabbitmq, virtual_host, tmp_path, secrets.token_hex(6))
    yield new
    with rabbitmq.http() as http:
        for path in (
            *(f"users/{name}" for name in (new.gateway, new.agent, new.writer)),
            f"vhosts/{new.vhost}",
        ):
            http.delete(path)


def printed(ended: Ended) -> tuple[list[str], dict[str, Any]]:
    """The comments without what begins them, and the configuration among them."""
    assert (ended.code, ended.errors) == (ExitCode.OK, "")
    head = ended.output.partition("\n\n")[0]
    return [line.removeprefix("# ") for line in head.splitlines()], yaml.safe_load(ended.output)


def refused(ended: Ended) -> tuple[ExitCode, str]:
    (line,) = ended.reported
    assert "Traceback" not in ended.errors
    return ended.code, line.removeprefix("amqp-gateway: ")


def test_what_it_makes_and_prints_is_enough(operator: Operator) -> None:
    ended = operator.provision()

    said, configuration = printed(ended)
    assert said[:3] == [
        f"generate a password into {operator.password_file(operator.gateway)}",
        f"generate a password into {operator.password_file(operator.agent)}",
        f"make the virtual host {operator.vhost}",
    ]
    assert list(configuration["sources"]) == ["rabbitmq", "rabbitmq-agent"]
    assert configuration["agents"]["rabbitmq"]["publish"]["allowed_users"] == [operator.gateway]
    checked = operator.check(ended.output)
    assert (checked.code, checked.errors) == (ExitCode.OK, "")
    assert "source rabbitmq-agent: reached" in checked.output
    for user in (operator.gateway, operator.agent):
        path = operator.password_file(user)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert path.read_text(encoding="utf-8").strip() not in ended.output
    assert {user["name"]: user["tags"] for user in operator.state()["users"]} == {
        operator.agent: ["monitoring"],
        operator.gateway: ["monitoring"],
    }


def test_done_again_it_changes_nothing(operator: Operator) -> None:
    first = operator.provision()
    before = operator.state()

    second = operator.provision()

    assert operator.state() == before
    said, configuration = printed(second)
    assert said == ["nothing to do: the broker is as it should be"]
    assert configuration == printed(first)[1]


def test_a_dry_run_says_all_of_it_and_does_nothing(operator: Operator) -> None:
    before = operator.state()

    said, configuration = printed(operator.provision("--dry-run"))

    assert operator.state() == before == {"users": [], "permissions": [], "vhost": None, "exchanges": []}
    assert not (operator.folder / "secrets").exists()
    own, events = r"^amqp-gateway\.", r"^amqp-gateway\.|^amq\.rabbitmq\.event$"
    assert f"make the user {operator.gateway}: tags monitoring" in said
    assert (
        f"permit the user {operator.gateway} in {operator.watched.name}: configure ^$, write ^$, read ^$"
        in said
    )
    assert f"permit the user {operator.agent} in /: configure {own}, write {own}, read {events}" in said
    assert said[-1] == f"declare the exchange qpid.management (topic, durable) in {operator.vhost}"
    assert printed(operator.provision())[1] == configuration


def test_who_changes_the_broker_is_made_when_asked_for(operator: Operator) -> None:
    ended = operator.provision("--writing", "--writing-user", operator.writer)

    said, configuration = printed(ended)
    assert f"make the user {operator.writer}: tags administrator" in said
    account = {"user": operator.writer, "password": {"file": str(operator.password_file(operator.writer))}}
    assert configuration["sources"]["rabbitmq"]["writing"] == account
    assert configuration["agents"]["rabbitmq"]["writing"] == account
    checked = operator.check(ended.output)
    assert (checked.code, checked.errors) == (ExitCode.OK, "")
    assert "'writing'" not in checked.output
    with operator.broker.http() as http:
        password = operator.password_file(operator.writer).read_text(encoding="utf-8").strip()
        reported = {"password": password, "tags": "monitoring"}
        http.put(f"users/{operator.writer}", json=reported).raise_for_status()
        assert "lacks the tag 'administrator'" in operator.check(ended.output).output
        http.put(f"users/{operator.writer}", json={**reported, "password": "another"}).raise_for_status()
        assert "every change will be refused" in operator.check(ended.output).output
        http.put(f"users/{operator.writer}", json={**reported, "tags": "administrator"}).raise_for_status()
    state = operator.state()
    assert {user["name"] for user in state["users"]} == {operator.gateway, operator.agent, operator.writer}
    removal = operator.provision("--writing", "--writing-user", operator.writer, "--remove", "--yes")
    assert removal.code == ExitCode.OK
    assert operator.state()["users"] == []


def test_without_an_agent_the_gateway_only_reads(operator: Operator) -> None:
    arguments = [str(one) for one in operator.arguments()]
    where = arguments.index("--agent-user")
    ended = amqp_gateway(*arguments[:where], *arguments[where + 2 :], folder=operator.folder)

    configuration = printed(ended)[1]
    assert list(configuration) == ["version", "sources"]
    assert list(configuration["sources"]) == ["rabbitmq"]
    state = operator.state()
    assert [user["name"] for user in state["users"]] == [operator.gateway]
    assert (state["vhost"], state["exchanges"]) == (None, [])
    assert {one["vhost"] for one in state["permissions"]} == {"/", operator.watched.name}
    assert operator.check(ended.output).code is ExitCode.OK


def test_an_exchange_of_another_name(operator: Operator) -> None:
    ended = operator.provision("--exchange", "site.management")

    assert printed(ended)[1]["agents"]["rabbitmq"]["publish"]["exchange"] == "site.management"
    assert "site.management" in operator.state()["exchanges"]
    (write,) = [
        one["write"]
        for one in operator.state()["permissions"]
        if (one["user"], one["vhost"]) == (operator.gateway, operator.vhost)
    ]
    assert write == r"^amqp-gateway\.|^site\.management$"
    assert operator.check(ended.output).code is ExitCode.OK


def test_a_password_that_is_there_is_used_and_kept(operator: Operator) -> None:
    path = operator.password_file(operator.gateway)
    path.parent.mkdir()
    path.write_text("chosen by hand\n", encoding="utf-8")
    path.chmod(0o640)

    said, _ = printed(operator.provision())

    assert path.read_text(encoding="utf-8") == "chosen by hand\n"
    assert f"careful: others can read {path}: chmod 600" in said
    with operator.broker.http(Credentials(operator.gateway, "chosen by hand")) as http:
        assert http.get("whoami").json()["tags"] == ["monitoring"]


def test_what_another_user_changed_is_set_right(operator: Operator) -> None:
    printed(operator.provision())
    with operator.broker.http() as http:
        changed = {"password": "forgotten", "tags": "administrator"}
        http.put(f"users/{operator.gateway}", json=changed).raise_for_status()
        http.delete(f"permissions/%2F/{operator.agent}").raise_for_status()

    said, _ = printed(operator.provision())

    assert [line.partition(":")[0] for line in said] == [
        f"set password and tags of the user {operator.gateway}",
        f"permit the user {operator.agent} in /",
    ]
    assert printed(operator.provision())[0] == ["nothing to do: the broker is as it should be"]


def test_the_administrators_own_permission_is_only_lent(operator: Operator) -> None:
    with operator.broker.http() as http, new_virtual_host(operator.broker) as older:
        permission = f"permissions/{older.path}/{operator.broker.administrator.name}"
        http.delete(permission).raise_for_status()
        printed(operator.provision("--vhost", older.name))
        assert http.get(permission).status_code == 404
        assert http.get(f"exchanges/{older.path}/qpid.management").json()["type"] == "topic"


# -- refusals


def test_an_existing_user_whose_password_is_not_known_is_left_alone(operator: Operator) -> None:
    with operator.broker.http() as http:
        http.put(f"users/{operator.agent}", json={"password": "theirs", "tags": ""}).raise_for_status()
    before = operator.state()

    code, line = refused(operator.provision())

    assert code is ExitCode.CONFIGURATION
    assert line.startswith(
        f"the broker has a user '{operator.agent}' already, and {operator.folder}/secrets/"
    )
    assert operator.state() == before
    assert not (operator.folder / "secrets").exists()


def test_a_wrong_password(operator: Operator) -> None:
    wrong = Credentials(operator.broker.administrator.name, "hunter2-hunter2")
    code, line = refused(operator.provision(by=wrong))
    assert code is ExitCode.CREDENTIALS
    assert line.endswith(f"{login_refusal(operator.broker)}: check name and password of the administrator")
    assert "hunter2" not in line


def test_a_user_who_is_no_administrator(operator: Operator) -> None:
    printed(operator.provision())
    password = operator.password_file(operator.agent).read_text(encoding="utf-8").strip()
    by = Credentials(operator.agent, password)
    code, line = refused(operator.provision("--agent-user", "", by=by))
    assert code is ExitCode.FORBIDDEN
    assert "it takes a user with the tag administrator" in line


def test_a_virtual_host_that_is_not_there(operator: Operator) -> None:
    code, line = refused(operator.provision("--watch", "absent"))
    assert code is ExitCode.VHOST
    assert "there is no virtual host 'absent'" in line
    assert operator.state()["users"] == []


def test_an_exchange_of_another_kind(operator: Operator) -> None:
    with operator.broker.http() as http:
        exchange = f"exchanges/{operator.watched.path}/qpid.management"
        http.put(exchange, json={"type": "direct"}).raise_for_status()
    code, line = refused(operator.provision("--vhost", operator.watched.name))
    assert code is ExitCode.CONFIGURATION
    assert "is not a durable topic exchange" in line


def test_nothing_listens(operator: Operator) -> None:
    (port,) = free_ports(1)
    code, line = refused(operator.provision(management=f"http://127.0.0.1:{port}"))
    assert code is ExitCode.UNREACHABLE
    assert f"http://127.0.0.1:{port}/api/ cannot be reached" in line


def test_a_place_that_is_no_management_api(operator: Operator) -> None:
    code, line = refused(operator.provision(management=f"{operator.broker.management_url}/elsewhere"))
    assert code is ExitCode.UNREACHABLE
    assert "no management API answers there" in line or "no RabbitMQ management API" in line


def test_an_administrators_password_that_cannot_be_read(operator: Operator) -> None:
    code, line = refused(operator.provision("--administrator-password-file", "absent"))
    assert (code, line) == (
        ExitCode.CONFIGURATION,
        "absent: the secret cannot be read: No such file or directory",
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--management", "http://u:p@localhost"], "leave user and password out of the URL"),
        (["--gateway-user", ""], "must not be empty"),
        (["--gateway-user", "same", "--agent-user", "same"], "must be different users"),
        (["--amqp", "amqp://host/vhost"], "leave the virtual host out of the URL"),
        (["--administrator-password", "secret"], "No such option"),
    ],
)
def test_a_wrong_command_line(operator: Operator, arguments: list[str], text: str) -> None:
    ended = operator.provision(*arguments)
    assert ended.code is ExitCode.USAGE
    assert text in ended.reported[-1]
