"""Overrides in a gateway of a living RabbitMQ, as SNMP, JMX, event log and command line show them."""

from __future__ import annotations

import getpass
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from gateway.config.files import load_configuration
from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.cli.conftest import ShownGateway, running_gateway
from tests.components.command_line import RunningCommand, Site, amqp_gateway, running
from tests.components.jmx_client import JmxClient
from tests.components.operated_gateway import OperatedGateway
from tests.components.waiting import eventually, wait_until

pytestmark = pytest.mark.xdist_group("overridden gateway")

SAVED = Path(__file__).parent.parent / "data/schemas/rabbitmq-3.10.json"
"""The export of a RabbitMQ 3.10, without overrides."""

OVERRIDES = """\
version: 1
secrets: ["^arguments$"]
classes:
  "rabbitmq:*":
    elements:
      "messageOctets?*": {exclude: true}
  rabbitmq:queue:
    label: Warteschlange
    log_interval: 1ms
    elements:
      messages: {label: Nachrichten}
      messagesReady: {kind: counter}
    methods:
      "cancel*": {dangerous: true}
    alarms:
      long: {element: durable, equals: true, severity: minor, text: "{name} of {vhost} is durable"}
  rabbitmq:exchange: {exclude: true}
  rabbitmq:binding: {exclude: true}
events:
  rabbitmq:queueCreated: {severity: minor}
"""


@dataclass(frozen=True)
class Overridden(OperatedGateway):
    """A gateway with overrides."""

    modules: ClassVar[tuple[str, ...]] = ("AMQP-GATEWAY-RABBITMQ-MIB",)
    site: Site
    running: ShownGateway


@contextmanager
def overridden(broker: PrivateBroker, folder: Path) -> Iterator[Overridden]:
    def prepare(site: Site) -> None:
        (site.folder / "overrides.yaml").write_text(OVERRIDES, encoding="utf-8")

    with running_gateway(
        broker,
        folder,
        prepare,
        overrides=["overrides.yaml"],
        log={"statistics_interval": "1d"},
        operations={"allow": [{"who": [f"cli:{getpass.getuser()}"], "invoke": ["*"]}]},
    ) as shown:
        yield Overridden(shown.site, shown)


@pytest.fixture(scope="module")
def gateway(rabbitmq: PrivateBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Overridden]:
    with overridden(rabbitmq, tmp_path_factory.mktemp("overridden")) as gateway:
        yield gateway


def test_snmp_shows_what_is_left(gateway: Overridden) -> None:
    name = gateway.running.virtual_host.name
    first = f"{name}|first"  # others have one, too
    wait_until(lambda: first in gateway.walk("rmqQueueRowFullName").values(), "the queue is in SNMP")
    assert not gateway.walk("rmqExchangeTable"), "an excluded class has no rows"
    assert not gateway.walk("rmqQueueMessageOctetsReady"), "an excluded element has no instances"
    assert not gateway.walk("rmqQueueArguments"), "neither has a secret"
    assert not gateway.walk("rmqQueueMessagesReady"), "a gauge's column never shows a counter"
    assert name in gateway.walk("rmqVhostName").values()
    wait_until(
        lambda: any(f"first of {name} is durable" in text for text in gateway.walk("agAlarmText").values()),
        "the alarm of the override is raised",
    )


async def test_jmx_shows_what_is_left(gateway: Overridden, tmp_path: Path) -> None:
    settings = load_configuration(gateway.site.configuration).settings
    host, port = settings.jmx.listen
    password = gateway.site.state.secret("jmx-monitor")
    async with await JmxClient.connect(tmp_path / "jar", f"{host}:{port}", "monitor", password) as client:
        found: list[str] = []

        async def is_there() -> bool:
            names = await client.names("amqp.gateway:source=orders,package=rabbitmq,type=queue,*")
            host = gateway.running.virtual_host.name
            found[:] = [name for name in names if "name=first" in name and host in name]
            return bool(found)

        await eventually(is_there, "the queue is in JMX")
        assert not await client.names("amqp.gateway:source=orders,package=rabbitmq,type=exchange,*")
        (queue,) = found
        attributes = await client.read(queue)
    assert "messages" in attributes
    assert not {"arguments", "messageOctetsReady"} & attributes.keys()


def test_a_method_that_is_dangerous_by_an_override_needs_its_name(gateway: Overridden) -> None:
    queue = f"orders/rabbitmq:queue/{gateway.running.virtual_host.name}|first"
    wait_until(lambda: gateway.command("get", queue).code is ExitCode.OK, "the queue is shown")
    for command in (
        ("invoke", queue, "cancelSync"),
        ("role", "explain", f"cli:{getpass.getuser()}", "invoke:cancelSync", queue),
    ):
        ended = gateway.command(*command)
        assert ended.code is ExitCode.REFUSED
        assert "call methods by pattern, and cancelSync cannot be undone" in ended.errors


def test_the_log_has_what_is_left(gateway: Overridden) -> None:
    sql = "SELECT class, \"values\" FROM log WHERE kind IN ('create', 'snapshot')"
    wait_until(lambda: any(r["class"] == "queue" for r in gateway.ask_log(sql)), "the queue is in the log")
    records = gateway.ask_log(sql)
    assert not {"exchange", "binding"} & {record["class"] for record in records}
    values = [json.loads(record["values"]) for record in records if record["class"] == "queue"]
    assert all({"arguments", "messageOctetsReady"}.isdisjoint(each) for each in values)


def test_events_have_the_severity_of_the_override(gateway: Overridden) -> None:
    gateway.running.declare("second")
    sql = "SELECT severity FROM log WHERE event = 'queueCreated' AND object_name = $queue"
    queue = f"{gateway.running.virtual_host.name}|second"
    wait_until(lambda: gateway.ask_log(sql, queue=queue), "the event is in the log")
    assert [record["severity"] for record in gateway.ask_log(sql, queue=queue)] == ["minor"]


def test_the_schema_is_exported_and_compared(gateway: Overridden, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    assert gateway.command("schema", "export", "--out", str(saved)).code is ExitCode.OK
    document = json.loads(saved.read_text(encoding="utf-8"))
    classes = {one["name"]: one for one in document["classes"]}
    assert "exchange" not in classes
    queue = classes["queue"]
    assert queue["label"] == "Warteschlange"
    labels = {one["name"]: one.get("label") for one in queue["statistics"]}
    assert labels["messages"] == "Nachrichten"
    assert "messageOctetsReady" not in labels
    same = gateway.command("schema", "diff", str(saved), "live")
    assert (same.code, same.output) == (ExitCode.OK, "no difference\n")
    direct = gateway.command("schema", "export", "--source", "orders")
    assert direct.output == saved.read_text(encoding="utf-8")
    queue["statistics"] = [one for one in queue["statistics"] if one["name"] != "messages"]
    saved.write_text(json.dumps(document), encoding="utf-8")
    different = gateway.command("schema", "diff", str(saved), "live", "--json")
    assert different.code is ExitCode.DIFFERENCE
    (change,) = map(json.loads, different.output.splitlines())
    assert (change["name"], change["part"], change["how"]) == ("rabbitmq:queue", "messages", "added")


def test_check_compares_with_a_saved_and_with_the_live_schema(gateway: Overridden, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    assert gateway.command("schema", "export", "--out", str(saved)).code is ExitCode.OK
    for how in (("--schema", str(saved)), ("--connect",)):
        checked = gateway.command("check", *how)
        assert checked.code is ExitCode.OK, checked.errors
        assert checked.output.endswith("gateway.yaml: good\n")


@pytest.mark.each_rabbitmq
def test_an_upgrade_of_rabbitmq_is_no_difference(rabbitmq: PrivateBroker, site: Site) -> None:
    """Each release has the saved schema: the mapping defines the classes, whatever a release measures."""
    password = site.secret(rabbitmq.administrator.password)
    source = {"kind": "rabbitmq", "management": rabbitmq.management_url, "password": password}
    site.configure(sources={"orders": {**source, "user": rabbitmq.administrator.name}})
    exported = amqp_gateway("schema", "export", "--source", "orders", "--config", site.configuration)
    assert exported.code is ExitCode.OK, exported.errors
    saved, read = SAVED, site.folder / "read.json"
    read.write_text(exported.output, encoding="utf-8")
    compared = amqp_gateway("schema", "diff", str(saved), str(read), "--config", site.configuration)
    assert (compared.code, compared.output) == (ExitCode.OK, "no difference\n")


OWN = "version: 1\npackage: pumps\nmodule: AMQP-PUMPS-MIB\nprefix: pmp\nclasses: {pump: {label: NAMED}}\n"


def test_own_mappings_are_as_at_the_start_until_a_reload(site: Site) -> None:
    """What is being edited is shown by ``check``, and read by no process that starts again."""
    file = site.folder / "pumps.yaml"
    file.write_text(OWN.replace("NAMED", "Pump"), encoding="utf-8")
    site.configure(mappings=["pumps.yaml"], snmp={"enabled": False})
    configuration = ("--config", site.configuration)
    line = f"{file}: classes.pump.label was changed"
    with running("run", *configuration, log=site.folder / "log") as gateway:
        gateway.ready()
        assert amqp_gateway("reload", *configuration).output == "the gateway runs with this configuration\n"
        file.write_text(OWN.replace("NAMED", "Engine"), encoding="utf-8")
        shown = amqp_gateway("check", "--against-running", *configuration)
        assert shown.output.splitlines()[:2] == [
            line,
            "a reload applies changes of mappings and overrides: it connects all sources again",
        ]
        file.write_text("version: 1\npackage: pumps\nclasses: {pump: {labl: Pump}}\n", encoding="utf-8")
        os.kill(process_of(gateway), signal.SIGKILL)
        wait_until(lambda: starts_of_core(gateway) == 2, "the core starts again with the former file")
        wrong = amqp_gateway("reload", *configuration)
        assert wrong.code is ExitCode.CONFIGURATION
        assert f"{file}:3: classes.pump.labl: unknown key" in wrong.errors
        file.write_text(OWN.replace("NAMED", "Engine"), encoding="utf-8")
        reloaded = amqp_gateway("reload", *configuration)
        assert reloaded.code is ExitCode.OK, reloaded.errors
        assert reloaded.output.splitlines() == [line, "the mappings were applied"]
        assert starts_of_core(gateway) == 3
        assert amqp_gateway("reload", *configuration).output == "the gateway runs with this configuration\n"
        assert gateway.terminate().code is ExitCode.OK


def starts_of_core(gateway: RunningCommand) -> int:
    return [record["event"] for record in gateway.log].count("core-ready")


def process_of(gateway: RunningCommand) -> int:
    """Return the process id of the first core."""
    (ready,) = (record for record in gateway.log if record["event"] == "gateway-ready")
    return int(ready["processes"]["core"])


def test_a_wrong_file_is_refused_at_the_start(site: Site) -> None:
    file = site.folder / "overrides.yaml"
    file.write_text("version: 1\nclasses:\n  rabbitmq:queu: {label: Row}\n", encoding="utf-8")
    site.configure(overrides=["overrides.yaml"])
    ended = amqp_gateway("run", "--config", site.configuration)
    assert ended.code is ExitCode.CONFIGURATION
    assert f"{file}:3: classes.rabbitmq:queu: matches no class" in ended.errors
