"""The commands when nothing stands in their way."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import psutil
import pytest

from gateway.cli.main import COMMANDS, GROUPS
from gateway.demo.broker import PrivateBroker
from gateway.service.diagnostics.health import JUST_STARTED
from gateway.service.processes.exit_codes import ExitCode
from gateway.state_folder import StateFolder
from tests.components.command_line import Ended, Site, amqp_gateway, running
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import wait_until

HIDDEN = {"manual", "process", "supervise"}


def said(ended: Ended) -> str:
    """Return the output of a command that succeeded."""
    assert (ended.code, ended.errors) == (ExitCode.OK, "")
    return ended.output


def test_version() -> None:
    name, version, *rest = said(amqp_gateway("version")).split()
    assert name == "amqp-gateway"
    assert version[0].isdigit()
    assert rest[0] == "Python"


def test_version_as_an_option() -> None:
    name, version = said(amqp_gateway("--version")).split()
    assert said(amqp_gateway("version")).startswith(f"{name} {version},")


def test_help_lists_every_command_in_its_group_with_what_it_does() -> None:
    listed = said(amqp_gateway("--help")).partition("Show this message and exit.\n")[2]
    titles = [line.removesuffix(":") for line in listed.splitlines() if line.endswith(":")]
    commands = {line.split()[0]: line.split()[1:] for line in listed.splitlines() if line.startswith("  ")}
    assert titles == list(GROUPS)
    assert list(commands) == [command for command in COMMANDS if command not in HIDDEN]
    assert all(commands.values())


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(command: str) -> None:
    text = said(amqp_gateway(command, "--help"))
    assert text.startswith("Usage: ")
    assert text.partition("\n\n")[2].startswith("  ")


def test_init_makes_what_it_says(site_without_state: Site) -> None:
    site = site_without_state

    lines = said(amqp_gateway("init", "--config", site.configuration)).splitlines()

    state = StateFolder(site.folder / "state")
    community = state.secret_path("community")
    assert lines == [f"{state.path}: gateway {state.identity}", f"SNMP community: in {community}"]
    assert stat.S_IMODE(community.stat().st_mode) == 0o600
    assert community.read_text(encoding="ascii").strip() not in "".join(lines)


def test_init_by_default_is_where_xdg_says(tmp_path: Path) -> None:
    configuration = tmp_path / "gateway.yaml"
    configuration.write_text("version: 1\n", encoding="utf-8")

    said(amqp_gateway("init", folder=tmp_path, XDG_STATE_HOME=str(tmp_path / "home")))

    assert StateFolder(tmp_path / "home" / "amqp-gateway").boots == 0


def test_check_names_what_it_read(site: Site) -> None:
    source = {"kind": "rabbitmq", "management": "http://127.0.0.1:1", "user": "gateway"}
    site.configure(sources={"orders": {**source, "password": site.secret("hunter2")}})

    assert said(amqp_gateway("check", "--config", site.configuration)) == (
        f"source orders: rabbitmq\n{site.configuration}: good\n"
    )


def test_check_reports_what_is_probably_not_meant_so_in_a_password_file(site: Site) -> None:
    source = {"kind": "rabbitmq", "management": "http://127.0.0.1:1", "user": "gateway"}
    site.configure(sources={"orders": {**source, "password": site.secret("\ufeffhunter2")}})

    first, *_ = said(amqp_gateway("check", "--config", site.configuration)).splitlines()

    assert first.startswith("sources.orders.password: ")
    assert "begins with a byte order mark, which counts as part of the secret" in first


def test_check_connect_with_the_path_of_the_management_api(site: Site, rabbitmq: PrivateBroker) -> None:
    user = {"user": rabbitmq.administrator.name, "password": site.secret(rabbitmq.administrator.password)}
    url = f"{rabbitmq.management_url}/api"
    site.configure(sources={"orders": {"kind": "rabbitmq", "management": url, **user}})

    ended = amqp_gateway("check", "--connect", "--config", site.configuration)

    assert ended.code is ExitCode.UNREACHABLE
    assert f"the URL {url} ends in /api, which the gateway adds itself: leave it out" in ended.errors


def test_check_connect_reaches_every_source(site: Site, virtual_host: VirtualHost) -> None:
    broker = virtual_host.broker
    user = {"user": broker.administrator.name, "password": site.secret(broker.administrator.password)}
    amqp = f"amqp://127.0.0.1:{broker.ports.amqp}"
    with virtual_host.http() as http:
        place = f"exchanges/{virtual_host.path}/qpid.management"
        http.put(place, json={"type": "topic", "durable": True}).raise_for_status()
    reading = {"kind": "rabbitmq", "management": broker.management_url, **user}
    field = {"url": amqp, "vhost": virtual_host.name, **user}
    site.configure(
        sources={
            "seeing": {**reading, "events": {"url": amqp}},
            "blind": {**reading, "events": {"url": amqp, "vhost": virtual_host.name}},
            "field": {"kind": "qmf", "amqp": field, "trusted_users": ["agent"]},
        }
    )

    lines = said(amqp_gateway("check", "--connect", "--config", site.configuration)).splitlines()

    assert lines == [
        "source seeing: rabbitmq",
        "source blind: rabbitmq",
        "source field: qmf",
        "source seeing: reached",
        (
            f"{amqp} (virtual host '{virtual_host.name}', user '{broker.administrator.name}'): no exchange "
            "amq.rabbitmq.event: what comes and goes between two looks is not seen; enable the plugin "
            "rabbitmq_event_exchange"
        ),
        "source blind: reached",
        (
            f"{amqp} (virtual host '{virtual_host.name}', user '{broker.administrator.name}'): no agent "
            "answers on exchange qpid.management: no agent receives the key broker, no queue is bound there "
            "(NO_ROUTE): a RabbitMQ has no agent of its own: configure one under 'agents' and run "
            "amqp-gateway agent NAME; a Qpid broker needs a bridge to here (docs/qpid.md): is it up? Does "
            f"it accept requests of user '{broker.administrator.name}'?"
        ),
        "source field: reached",
        f"{site.configuration}: good",
    ]


def test_check_connect_names_a_policy_by_which_the_gateways_queue_may_lose_events(
    site: Site, virtual_host: VirtualHost
) -> None:
    broker = virtual_host.broker
    user = {"user": broker.administrator.name, "password": site.secret(broker.administrator.password)}
    events = {"url": f"amqp://127.0.0.1:{broker.ports.amqp}", "vhost": virtual_host.name}
    with virtual_host.http() as http:
        policy = {"pattern": ".*", "apply-to": "queues", "definition": {"max-length": 100}}
        http.put(f"policies/{virtual_host.path}/cap", json=policy).raise_for_status()
    reading = {"kind": "rabbitmq", "management": broker.management_url, **user}
    site.configure(sources={"orders": {**reading, "events": events}})

    lines = said(amqp_gateway("check", "--connect", "--config", site.configuration))
    assert (
        "the policy 'cap' (max-length: 100) may reach the gateway's own queue amqp-gateway.events." in lines
    )
    assert r"let its pattern begin with ^(?!amqp-gateway\.) to spare" in lines

    with virtual_host.http() as http:
        policy["pattern"] = r"^amqp-gateway\.events\.orders"
        http.put(f"policies/{virtual_host.path}/cap", json=policy).raise_for_status()
    assert "policy" not in said(amqp_gateway("check", "--connect", "--config", site.configuration))
    site.configure(sources={"orders": {**reading, "events": events, "durable": {}}})
    kept = said(amqp_gateway("doctor", "--config", site.configuration))
    assert "(max-length: 100) may reach the gateway's own queue amqp-gateway.events.orders," in kept


def test_a_process_that_is_started_again_has_the_configuration_of_the_gateways_start(site: Site) -> None:
    """The file is being edited, and is not complete."""
    site.configure(snmp={"enabled": False})
    with running("run", "--config", site.configuration, log=site.folder / "log") as gateway:
        gateway.ready()

        def starts() -> int:
            return [record["event"] for record in gateway.log].count("core-ready")

        wait_until(lambda: starts() == 1, "its first core has said so, too")
        site.configuration.write_text("version: 1\nsnmp:\n  listen: [", encoding="utf-8")
        children = psutil.Process(gateway.process.pid).children()
        core = next(child for child in children if " process core " in " ".join(child.cmdline()))
        core.kill()
        wait_until(lambda: starts() == 2, "it is back")
        gateway.process.send_signal(signal.SIGHUP)
        wait_until(
            lambda: any("is not YAML" in record.get("wrong", "") for record in gateway.log),
            "it is said that the file is wrong",
        )
        assert gateway.terminate().code is ExitCode.OK


def test_run_until_it_is_asked_to_end(site: Site, virtual_host: VirtualHost) -> None:
    broker = virtual_host.broker
    password = site.secret(broker.administrator.password)
    source = {"kind": "rabbitmq", "management": broker.management_url, "user": broker.administrator.name}
    site.configure(sources={"orders": {**source, "password": password}})

    with running("run", "--config", site.configuration, log=site.folder / "log") as gateway:
        gateway.ready()
        wait_until(
            lambda: amqp_gateway("health", "--config", site.configuration).code is ExitCode.OK,
            "every source is synchronised",
        )
        health = amqp_gateway("health", "--config", site.configuration)
        unchanged = amqp_gateway("reload", "--config", site.configuration)
        (site.folder / password["file"]).write_text("another", encoding="utf-8")
        renewed = amqp_gateway("reload", "--config", site.configuration)
        site.configure(
            sources={"orders": {**source, "password": password, "interval": "2s"}},
            snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "serve_stale_for": "1min"},
        )
        changed = amqp_gateway("reload", "--config", site.configuration)
        gateway.process.send_signal(signal.SIGHUP)
        wait_until(lambda: any(record.get("by") == "SIGHUP" for record in gateway.log), "it is not reloaded")
        ended = gateway.terminate()
    afterwards = amqp_gateway("reload", "--config", site.configuration)

    keys = ["snmp.serve_stale_for", "sources.orders.interval"]
    assert (unchanged.code, unchanged.output) == (
        ExitCode.OK,
        "the gateway runs with this configuration\n",
    )
    assert (renewed.code, renewed.output) == (
        ExitCode.OK,
        f"secrets were replaced: {password['file']}\n",
    )
    assert changed.code is ExitCode.DIFFERENCE
    assert changed.output.splitlines() == [
        f"{key} was changed: it takes effect when the gateway is restarted" for key in keys
    ]
    assert "restart the gateway" in changed.reported[0]
    by_command, by_signal = (record for record in ended.log if record["event"] == "not-reloaded")
    assert by_command["changed"] == by_signal["changed"] == keys
    assert afterwards.code is ExitCode.UNREACHABLE
    assert health.output.startswith("1 of 1 sources synchronised, ")
    assert health.output.splitlines()[1].startswith("event log: writing, ")
    assert ended.code is ExitCode.OK
    assert ended.reported == []
    assert {"core-ready", "snmp-ready", "gateway-ready"} <= {record["event"] for record in ended.log}
    assert ended.log[-1]["event"] == "gateway-ended"
    assert ended.log[-1]["reason"].startswith(f"it got SIGTERM from process {os.getpid()} (")
    assert broker.administrator.password not in ended.errors
    assert not (site.folder / "feed.sock").exists()
    with site.state.locked(patience_seconds=0):
        assert site.state.boots == 1


def test_health_reports_trouble_with_the_event_log_and_does_not_fail(site: Site) -> None:
    site.configure(log={"min_free": 2**40})  # more than any disk has
    with running("run", "--config", site.configuration, log=site.folder / "log") as gateway:
        gateway.ready()
        line = "event log: disk-full, "
        wait_until(
            lambda: line in amqp_gateway("health", "--config", site.configuration).output,
            "the trouble is told",
        )
        health = amqp_gateway("health", "--config", site.configuration)
        lines = gateway.log

    assert health.code is ExitCode.OK
    assert " MiB are free" in health.output
    assert [record["event"] for record in lines].count("event-log-trouble") == 1


def test_health_says_which_part_is_not_well_and_ctrl_c_ends_in_order_too(site: Site) -> None:
    source = {"kind": "rabbitmq", "management": "http://127.0.0.1:1", "user": "gateway"}
    site.configure(sources={"orders": {**source, "password": site.secret("hunter2")}})

    with running("run", "--config", site.configuration, log=site.folder / "log") as gateway:
        gateway.ready()
        health = amqp_gateway("health", "--config", site.configuration)
        gateway.process.send_signal(signal.SIGINT)
        ended = gateway.ended()

    assert health.code is ExitCode.UNREACHABLE
    assert health.reported in (
        ["amqp-gateway: not every source is synchronised: walk agSourceTable for the reasons"],
        ["amqp-gateway: the core is not running: see its log"],  # the feed is a moment later than ready
        [f"amqp-gateway: {JUST_STARTED}"],
    )
    assert (ended.code, ended.reported) == (ExitCode.OK, [])


def test_an_agent_runs_until_it_is_asked_to_end(site: Site, virtual_host: VirtualHost) -> None:
    broker = virtual_host.broker
    user = {"user": broker.administrator.name, "password": site.secret(broker.administrator.password)}
    amqp = {"url": f"amqp://127.0.0.1:{broker.ports.amqp}", "vhost": virtual_host.name, **user}
    reading = {"kind": "rabbitmq", "management": broker.management_url, **user}
    site.configure(agents={"orders": {**reading, "publish": {"amqp": amqp, "allowed_users": ["gateway"]}}})

    def queues() -> int:
        with virtual_host.http() as http:
            return len(http.get(f"queues/{virtual_host.path}").raise_for_status().json())

    with running("agent", "orders", "--config", site.configuration, log=site.folder / "log") as agent:
        agent.ready()
        wait_until(lambda: queues() == 2, "the agent's queue is there, and the one that it is elected by")
        agent.process.send_signal(signal.SIGHUP)
        wait_until(
            lambda: any(record["event"] == "not-reloaded" for record in agent.log), "it is not reloaded"
        )
        ended = agent.terminate()

    assert (ended.code, ended.reported) == (ExitCode.OK, [])
    assert broker.administrator.password not in ended.errors
    wait_until(lambda: queues() == 0, "the agent's queues have gone")
