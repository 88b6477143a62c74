"""Every failure of a command has one line for people, the documented exit code, and no traceback."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from gateway.demo.broker import PrivateBroker
from gateway.demo.node_setup import free_ports
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import Ended, Site, amqp_gateway
from tests.components.rabbitmq import VirtualHost, login_refusal

PASSWORD = "hunter2-hunter2"


def one_line(ended: Ended) -> tuple[ExitCode, str]:
    """Return the exit code, and the only line for people; check that no password is in the output."""
    assert PASSWORD not in ended.output + ended.errors
    assert "Traceback" not in ended.errors
    (line,) = ended.reported
    assert line.startswith("amqp-gateway: ")
    return ended.code, line.removeprefix("amqp-gateway: ")


class Sources:
    """The sources and agents of a site at the test's broker, right except for the changes of a test."""

    def __init__(self, site: Site, vhost: VirtualHost) -> None:
        self._site = site
        self._broker = vhost.broker
        self._vhost = vhost.name
        self._password = site.secret(vhost.broker.administrator.password)
        self.wrong_password = site.secret(PASSWORD)
        self.amqp_url = f"amqp://127.0.0.1:{vhost.broker.ports.amqp}"
        self.management = vhost.broker.management_url

    def rabbitmq(self, **changes: Any) -> dict[str, Any]:  # noqa: ANN401  what YAML holds
        user = self._broker.administrator.name
        reading = {"management": self.management, "user": user, "password": self._password}
        return {"kind": "rabbitmq", **reading, **changes}

    def amqp(self, **changes: Any) -> dict[str, Any]:  # noqa: ANN401  what YAML holds
        user = self._broker.administrator.name
        return {
            "url": self.amqp_url,
            "vhost": self._vhost,
            "user": user,
            "password": self._password,
            **changes,
        }

    def qmf(self, **changes: Any) -> dict[str, Any]:  # noqa: ANN401  what YAML holds
        return {"kind": "qmf", "amqp": self.amqp(**changes), "trusted_users": ["agent"]}

    def check(self, source: dict[str, Any]) -> Ended:
        """Run ``check --connect`` with one source."""
        self._site.configure(sources={"orders": source})
        return amqp_gateway("check", "--connect", "--config", self._site.configuration)

    def agent(self, agent: dict[str, Any], publish: dict[str, Any]) -> Ended:
        """Run ``agent orders``, with these settings for publishing."""
        settings = {**agent, "publish": {"amqp": publish, "allowed_users": ["gateway"]}}
        self._site.configure(agents={"orders": settings})
        return amqp_gateway("agent", "orders", "--config", self._site.configuration)


@pytest.fixture
def sources(site: Site, virtual_host: VirtualHost) -> Sources:
    return Sources(site, virtual_host)


# -- configuration


@pytest.mark.parametrize("command", ["run", "check", "health", "init"])
def test_a_wrong_configuration(tmp_path: Path, command: str) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text("version: 1\nsnpm: {}\n", encoding="utf-8")
    ended = amqp_gateway(command, "--config", path)
    assert one_line(ended) == (ExitCode.CONFIGURATION, f"{path}:2: snpm: unknown key")


def test_no_configuration_at_all(tmp_path: Path) -> None:
    code, line = one_line(amqp_gateway("run", folder=tmp_path))
    assert code is ExitCode.CONFIGURATION
    assert line.startswith(
        "no configuration: name one with --config or $AMQP_GATEWAY_CONFIG, or write one of"
    )


def test_a_configuration_that_the_environment_names_and_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    ended = amqp_gateway("check", AMQP_GATEWAY_CONFIG=str(path))
    assert one_line(ended) == (
        ExitCode.CONFIGURATION,
        f"{path}:1: cannot be read: No such file or directory",
    )


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_secret_that_is_missing(site: Site, command: str) -> None:
    source = {
        "kind": "rabbitmq",
        "management": "http://127.0.0.1:1",
        "user": "gateway",
        "password": {"file": "absent"},
    }
    site.configure(sources={"orders": source})
    ended = amqp_gateway(command, "--config", site.configuration)
    assert one_line(ended) == (
        ExitCode.CONFIGURATION,
        f"{site.folder}/absent: the secret cannot be read: No such file or directory",
    )


@pytest.mark.parametrize("command", ["run", "check"])
def test_certificates_that_are_missing(site: Site, command: str) -> None:
    source = {
        "kind": "rabbitmq",
        "management": "https://127.0.0.1:1",
        "user": "gateway",
        "password": site.secret(PASSWORD),
        "ca_file": "ca.pem",
    }
    site.configure(sources={"orders": source})
    ended = amqp_gateway(command, "--config", site.configuration)
    assert one_line(ended) == (
        ExitCode.CONFIGURATION,
        f"https://127.0.0.1:1: 'ca_file' {site.folder}/ca.pem cannot be used: No such file or directory",
    )


def test_an_agent_that_is_not_configured(site: Site) -> None:
    ended = amqp_gateway("agent", "orders", "--config", site.configuration)
    assert one_line(ended) == (
        ExitCode.CONFIGURATION,
        f"{site.configuration}: no agent 'orders' under 'agents'; there are: none",
    )


def test_a_socket_whose_name_is_too_long(site: Site) -> None:
    site.configure(feed={"socket": "s" * 108})
    code, line = one_line(amqp_gateway("run", "--config", site.configuration))
    assert code is ExitCode.CONFIGURATION
    assert "the name of a socket has at most 85 bytes, this one 108: name another path under" in line


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["walk"], "No such command 'walk'."),
        (["tre"], "No such command 'tre'. Did you mean 'tree'?"),
        (["log", "qury"], "No such command 'qury'. Did you mean 'query'?"),
        (["agent"], "Missing argument 'NAME'."),
        (["check", "--conect"], "No such option '--conect'. (Did you mean one of: '--config', '--connect'?)"),
        (["check", "--config", "/"], "Invalid value for '--config': File '/' is a directory."),
        (["watch", "a", "b"], "Got unexpected extra argument (b)."),
    ],
)
def test_a_wrong_command_line(arguments: list[str], reported: str) -> None:
    code, line = one_line(amqp_gateway(*arguments))
    assert code is ExitCode.USAGE
    assert reported in line
    assert line.endswith(" --help")


# -- state and addresses


@pytest.mark.parametrize("command", ["run", "health"])
def test_a_state_that_is_missing(site_without_state: Site, command: str) -> None:
    site = site_without_state
    ended = amqp_gateway(command, "--config", site.configuration)
    assert one_line(ended) == (
        ExitCode.STATE,
        (
            f"{site.folder}/state: no gateway state here. A new gateway: run `amqp-gateway init`. One that "
            "ran before: restore a backup with `amqp-gateway state restore`, or every row number changes"
        ),
    )
    assert not (site.folder / "state").exists()


def test_a_second_identity_in_the_same_place(site: Site) -> None:
    ended = amqp_gateway("init", "--config", site.configuration)
    assert one_line(ended) == (
        ExitCode.STATE,
        f"{site.folder}/state: is not empty; a new identity is made in a new or empty folder only",
    )


def test_a_state_that_lost_its_count(site: Site) -> None:
    (site.folder / "state" / "boots").unlink()
    ended = amqp_gateway("run", "--config", site.configuration)
    assert one_line(ended) == (
        ExitCode.STATE,
        (
            f"{site.folder}/state/boots: cannot be read: No such file or directory: restore a backup with "
            "`amqp-gateway state restore`"
        ),
    )


def test_a_state_whose_rows_are_damaged(site: Site) -> None:
    site.state.instances.write_bytes(b"this is no database" * 1000)
    code, line = one_line(amqp_gateway("run", "--config", site.configuration))
    assert code is ExitCode.STATE
    assert str(site.state.instances) in line


def test_a_state_whose_secrets_are_gone_with_their_folder(site: Site) -> None:
    shutil.rmtree(site.folder / "state" / "secrets")
    (site.folder / "state" / "secrets").touch()
    ended = amqp_gateway("health", "--config", site.configuration)
    assert one_line(ended)[0] is ExitCode.STATE


def test_a_port_in_use(site: Site) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", site.snmp_port))
        ended = amqp_gateway("run", "--config", site.configuration)
    assert one_line(ended) == (
        ExitCode.ADDRESS_IN_USE,
        (
            f"cannot listen on 127.0.0.1:{site.snmp_port}/udp: the port is in use, perhaps by another SNMP "
            "agent; stop that or take another port"
        ),
    )


# -- brokers


def test_refused_credentials_of_a_rabbitmq(sources: Sources, rabbitmq: PrivateBroker) -> None:
    ended = sources.check(sources.rabbitmq(password=sources.wrong_password))
    assert one_line(ended) == (
        ExitCode.CREDENTIALS,
        f"{sources.management}: user 'administrator': {login_refusal(rabbitmq)}: check user and password",
    )


def test_a_node_of_a_cluster_that_does_not_answer(sources: Sources) -> None:
    amqp, http = free_ports(2)
    dead_amqp, dead_http = f"amqp://127.0.0.1:{amqp}", f"http://127.0.0.1:{http}"
    source = sources.rabbitmq()
    ended = sources.check(
        {
            **source,
            "management": [dead_http, source["management"]],
            "events": {"url": [sources.amqp_url, dead_amqp]},
        }
    )
    assert ended.code is ExitCode.OK
    said = ended.output + ended.errors
    assert f"{dead_http}: All connection attempts failed: other nodes are asked in its place" in said
    assert f"{dead_amqp}: nothing listens there: is the broker running?: another node is used" in said


def test_refused_credentials_of_amqp(sources: Sources) -> None:
    ended = sources.check(sources.qmf(password=sources.wrong_password))
    assert one_line(ended) == (
        ExitCode.CREDENTIALS,
        (
            f"{sources.amqp_url}: user 'administrator' was refused: check user and password, and that this "
            "broker has it (ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For"
            " details see the broker logfile.)"
        ),
    )


def test_refused_credentials_of_an_agent(sources: Sources) -> None:
    ended = sources.agent(sources.rabbitmq(), sources.amqp(password=sources.wrong_password))
    code, line = one_line(ended)
    assert code is ExitCode.CREDENTIALS
    assert line.startswith(f"{sources.amqp_url}: user 'administrator' was refused")


def test_an_unknown_virtual_host(sources: Sources) -> None:
    ended = sources.check(sources.qmf(vhost="absent"))
    assert one_line(ended) == (
        ExitCode.VHOST,
        (
            f"{sources.amqp_url} (virtual host 'absent', user 'administrator'): the broker opens no"
            " connection: 530 NOT_ALLOWED - vhost absent not found: create the virtual host and grant what"
            " docs/rights.md lists"
        ),
    )


def test_an_unknown_virtual_host_of_an_agent(sources: Sources) -> None:
    code, line = one_line(sources.agent(sources.rabbitmq(), sources.amqp(vhost="absent")))
    assert code is ExitCode.VHOST
    assert "530 NOT_ALLOWED - vhost absent not found" in line


def test_an_exchange_that_is_missing(sources: Sources) -> None:
    code, line = one_line(sources.check(sources.qmf()))
    assert code is ExitCode.MISSING
    assert "NOT_FOUND - no exchange 'qpid.management'" in line
    assert line.endswith(": the agent declares the management exchange when it starts")


@pytest.mark.parametrize("kind", ["rabbitmq", "qmf"])
def test_nothing_listens(sources: Sources, kind: str) -> None:
    (port,) = free_ports(1)
    there = f"http://127.0.0.1:{port}" if kind == "rabbitmq" else f"amqp://127.0.0.1:{port}"
    source = sources.rabbitmq(management=there) if kind == "rabbitmq" else sources.qmf(url=there)
    code, line = one_line(sources.check(source))
    assert code is ExitCode.UNREACHABLE
    assert line.startswith(f"{there}: ")
    assert line.endswith(": is the broker running?")


def test_every_source_is_tried_and_the_first_trouble_ends_it(site: Site, sources: Sources) -> None:
    site.configure(
        sources={
            "first": sources.qmf(vhost="absent"),
            "second": sources.rabbitmq(password=sources.wrong_password),
            "third": sources.rabbitmq(),
        }
    )
    ended = amqp_gateway("check", "--connect", "--config", site.configuration)

    assert one_line(ended)[0] is ExitCode.VHOST
    assert [line.split(": ")[0] for line in ended.output.splitlines()[3:]] == [
        "source first",
        "source second",
        "events are not configured",
        "source third",
    ]
    assert ended.output.endswith("source third: reached\n")


def test_health_says_that_snmp_does_not_answer(site: Site) -> None:
    assert one_line(amqp_gateway("health", "--config", site.configuration)) == (
        ExitCode.UNREACHABLE,
        (f"SNMP 127.0.0.1:{site.snmp_port}: Connection refused: is `amqp-gateway run` running?"),
    )
