"""Mappings and override files that change while the gateway runs, as clients see it that stay connected."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

import psutil
import pytest
import yaml

from gateway.config.files import load_configuration
from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.cli.conftest import ShownGateway, running_gateway
from tests.components.called_agent import CalledAgent
from tests.components.command_line import COMMAND, Ended, Site, amqp_gateway, environment, running
from tests.components.jmx_client import JmxClient
from tests.components.operated_gateway import OperatedGateway
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import eventually, wait_until

pytestmark = pytest.mark.xdist_group("reloaded gateway")

FORMER = """\
version: 1
classes:
  rabbitmq:queue:
    elements: {messages: {label: Before}}
    alarms:
      long: {element: durable, equals: false, severity: minor, text: "{name} is long"}
"""
PRESENT = """\
version: 1
secrets: ["^arguments$"]
classes:
  rabbitmq:queue:
    elements: {messages: {label: After}}
    alarms:
      long: {element: durable, equals: true, severity: minor, text: "{name} is long"}
  rabbitmq:exchange: {exclude: true}
  rabbitmq:binding: {exclude: true}
"""
WRONG = """\
version: 1
classes:
  rabbitmq:queue: {label: Other}
  rabbitmq:queu: {label: Queue}
"""
SAME = "the gateway runs with this configuration"


@dataclass(frozen=True)
class Reloaded(OperatedGateway):
    """A gateway whose override file is changed."""

    modules: ClassVar[tuple[str, ...]] = ("AMQP-GATEWAY-RABBITMQ-MIB",)
    site: Site
    running: ShownGateway

    @property
    def file(self) -> Path:
        return self.site.folder / "overrides.yaml"

    def write(self, text: str) -> None:
        self.file.write_text(text, encoding="utf-8")

    def reload(self) -> Ended:
        return self.command("reload")

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [record for record in self.running.command.log if record["event"] == event]

    def against_running(self) -> list[str]:
        checked = self.command("check", "--against-running")
        assert checked.code is ExitCode.OK, checked.errors
        return checked.output.splitlines()

    def label(self) -> str:
        exported = self.command("schema", "export")
        if exported.code is not ExitCode.OK:
            return ""
        classes = {one["name"]: one for one in json.loads(exported.output)["classes"]}
        if "queue" not in classes:
            return ""  # the source was not read yet
        labels = {one["name"]: one.get("label", "") for one in classes["queue"]["statistics"]}
        return str(labels["messages"])

    def processes(self) -> dict[str, int]:
        """Return the process id of each process of the gateway, by name."""
        found = psutil.Process(self.running.command.process.pid).children()
        words = [each.cmdline() for each in found]
        return {
            line[line.index("process") + 1]: each.pid
            for each, line in zip(found, words, strict=True)
            if "process" in line
        }

    def back_to(self, text: str, label: str) -> None:
        """Have the gateway run with this file, whatever it had before."""
        self.write(text)
        assert self.reload().code is ExitCode.OK
        self.are_all("synchronised")  # at first: to ask for the label takes longer
        wait_until(lambda: self.label() == label, "the file is in use")

    def other(self) -> tuple[str, str]:
        """Return a file that is not in use, and its label: most reloads may go either way."""
        self.are_all("synchronised")
        return (PRESENT, "After") if self.label() == "Before" else (FORMER, "Before")


@pytest.fixture(scope="module")
def gateway(rabbitmq: PrivateBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reloaded]:
    folder = tmp_path_factory.mktemp("reloaded")

    def prepare(site: Site) -> None:
        (site.folder / "overrides.yaml").write_text(FORMER, encoding="utf-8")

    log = {"statistics_interval": "1d"}
    with running_gateway(rabbitmq, folder, prepare, overrides=["overrides.yaml"], log=log) as shown:
        gateway = Reloaded(shown.site, shown)
        gateway.are_all("synchronised")
        yield gateway


async def test_clients_stay_while_mappings_change(gateway: Reloaded, tmp_path: Path) -> None:
    """An element is renamed, an alarm gets another test, a class is excluded, an element becomes a secret.

    The class that was excluded has its former rows when it comes back.
    """
    gateway.back_to(FORMER, "Before")
    name = gateway.running.virtual_host.name
    settings = load_configuration(gateway.site.configuration).settings
    host, port = settings.jmx.listen
    password = gateway.site.state.secret("jmx-monitor")
    former = gateway.shown(gateway.running.path("first"))
    instance = f".{former['row']}"  # others of that name come and go on the broker
    wait_until(lambda: any(one.endswith(instance) for one in gateway.walk("rmqQueueName")), "managers see it")
    (row,) = (one for one in gateway.walk("rmqQueueName") if one.endswith(instance))
    exchanges_before = own_exchanges(gateway)
    assert gateway.walk("rmqQueueArguments")
    processes = gateway.processes()
    async with await JmxClient.connect(tmp_path / "jar", f"{host}:{port}", "monitor", password) as client:
        (queue,) = [
            each
            for each in await client.names("amqp.gateway:source=orders,package=rabbitmq,type=queue,*")
            if "name=first" in each and name in each
        ]
        assert "arguments" in await client.read(queue)
        await client.listen("amqp.gateway:type=Gateway")

        gateway.write(PRESENT)
        lines = gateway.against_running()
        place = "classes.rabbitmq:queue"
        for line in (
            "secrets was added",
            f"{place}.elements.messages.label was changed",
            f"{place}.alarms.long.equals was changed",
            "classes.rabbitmq:exchange was added",
        ):
            assert f"{gateway.file}: {line}" in lines
        assert gateway.label() == "Before", "nothing was applied yet"
        reloaded = gateway.reload()
        assert reloaded.code is ExitCode.OK, reloaded.errors
        assert reloaded.output.splitlines()[-1] == "the mappings were applied"
        assert gateway.against_running()[0] == SAME

        gateway.are_all("synchronised")
        wait_until(lambda: gateway.label() == "After", "the element has its new name")

        async def has_changed() -> bool:
            read = await client.read(queue)
            return "arguments" not in read and read["Stale"].value is False

        await eventually(has_changed, "the same client no longer sees the secret, and fresh values")
        exchanges = "amqp.gateway:source=orders,package=rabbitmq,type=exchange,*"

        async def has_no_exchanges() -> bool:
            return not await client.names(exchanges)

        await eventually(has_no_exchanges, "the excluded class is gone")

        async def is_notified() -> bool:
            return any("mappingsChanged" in each["notification"] for each in client.notifications)

        await eventually(is_notified, "the listener that stayed is notified")

    present = gateway.processes()
    assert present.pop("core") != processes.pop("core")
    processes.pop("compactor", None)
    present.pop("compactor", None)
    assert present == processes, "front ends stay"
    wait_until(lambda: not gateway.walk("rmqExchangeTable"), "the class has no rows")
    wait_until(lambda: gateway.walk("rmqQueueName").get(row) == "first", "the object has its former row")
    assert not gateway.walk("rmqQueueArguments"), "a secret has no instances"
    wait_until(
        lambda: any("first is long" in text for text in gateway.walk("agAlarmText").values()),
        "the alarm is raised by its new test",
    )
    shown = gateway.shown(gateway.running.path("first"))
    assert {key: shown[key] for key in ("row", "name")} == {key: former[key] for key in ("row", "name")}
    assert "arguments" in str(former)
    assert "arguments" not in str(shown)
    exchanges_come_back(gateway, exchanges_before)


async def test_a_secret_is_hidden_also_while_its_source_is_not_reached(
    gateway: Reloaded, tmp_path: Path
) -> None:
    """The next core is refused by the broker: nothing that is read again takes the place of the value."""
    gateway.back_to(FORMER, "Before")
    name = gateway.running.virtual_host.name
    secret = gateway.site.folder / "secret-0"
    password = secret.read_text(encoding="utf-8")
    host, port = load_configuration(gateway.site.configuration).settings.jmx.listen
    words = (f"{host}:{port}", "monitor", gateway.site.state.secret("jmx-monitor"))
    async with await JmxClient.connect(tmp_path / "jar", *words) as client:
        names = await client.names("amqp.gateway:source=orders,package=rabbitmq,type=queue,*")
        (queue,) = [each for each in names if "name=first" in each and name in each]
        assert (await client.read(queue))["arguments"].value is not None
        assert gateway.walk("rmqQueueArguments")
        secret.write_text("wrong", encoding="utf-8")
        try:
            gateway.write(PRESENT)
            assert gateway.reload().code is ExitCode.OK

            async def is_hidden() -> bool:
                return (await client.read(queue))["arguments"].value is None

            await eventually(is_hidden, "a client that stayed does not see it")
            assert (await client.read(queue))["Stale"].value is True
            wait_until(lambda: not gateway.walk("rmqQueueArguments"), "neither does a manager")
            assert gateway.states()["orders"] != "synchronised"
        finally:
            secret.write_text(password, encoding="utf-8")
            gateway.back_to(FORMER, "Before")
        assert await client.names(queue) == [queue]


def exchanges_come_back(gateway: Reloaded, exchanges: dict[str, str]) -> None:
    """Check that the excluded class has these rows again when it is not excluded any more."""
    assert exchanges
    gateway.back_to(FORMER, "Before")
    wait_until(lambda: own_exchanges(gateway) == exchanges, "each exchange has its former row")


def own_exchanges(gateway: Reloaded) -> dict[str, str]:
    """Return the names of the exchanges by row; of this virtual host only, because others come and go."""
    hosts = gateway.walk("rmqExchangeVhostName")
    own = {key.partition(".")[2] for key, host in hosts.items() if host == gateway.running.virtual_host.name}
    rows = {key.partition(".")[2]: name for key, name in gateway.walk("rmqExchangeName").items()}
    return {row: name for row, name in rows.items() if row in own}


@contextmanager
def tailing(gateway: Reloaded) -> Iterator[IO[str]]:
    """Follow the log of the gateway by a command that stays."""
    which = ("--class", "queue", "--kind", "create", "--lines", "1000")
    words = [
        *COMMAND,
        "log",
        "tail",
        "--config",
        str(gateway.site.configuration),
        "--follow",
        "--json",
        *which,
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment()) as process:  # noqa: S603  our own command
        try:
            assert process.stdout is not None
            yield process.stdout
        finally:
            process.terminate()


def test_the_log_goes_on(gateway: Reloaded) -> None:
    text, label = gateway.other()
    with tailing(gateway) as lines:
        gateway.running.declare("written")
        until(lines, "|written")
        gateway.back_to(text, label)
        gateway.running.declare("later")
        until(lines, "|later")
    sql = "SELECT object_id, object_name, kind FROM log WHERE class = 'queue' AND kind = 'create'"
    wait_until(
        lambda: any(str(each["object_name"]).endswith("|later") for each in gateway.ask_log(sql)),
        "what happened behind the reload is in the log",
    )
    verified = gateway.command("log", "verify")
    assert verified.code is ExitCode.OK, verified.errors
    sequence = [each["seq"] for each in gateway.ask_log("SELECT seq FROM log ORDER BY seq")]
    assert sequence == list(range(1, len(sequence) + 1)), "no record is missing"
    names = "SELECT DISTINCT object_id FROM log WHERE class = 'queue' AND object_name LIKE '%|written'"
    assert len(gateway.ask_log(names)) == 1, "the object is the same one"
    ends = "SELECT kind FROM log WHERE class = 'queue' AND kind = 'delete' AND object_name LIKE '%|written'"
    assert not gateway.ask_log(ends), "and has not ended"
    gaps = gateway.ask_log("SELECT text FROM log WHERE kind = 'gap'")
    assert gaps
    assert all(each["text"] for each in gaps), "what was missed meanwhile is explained"
    audited = gateway.ask_log("SELECT principal, \"values\" FROM log WHERE state = 'mappings'")
    assert "(process " in audited[-1]["principal"]
    assert any(
        "elements.messages.label was changed" in one for one in json.loads(audited[-1]["values"])["changes"]
    )
    chain = gateway.command("audit", "verify")
    assert chain.code is ExitCode.OK, chain.errors


def until(lines: IO[str], name: str) -> None:
    """Read records up to the creation of an object; the command, which stays, prints each."""
    for line in lines:
        record = json.loads(line)
        if record["kind"] == "create" and record["object_name"].endswith(name):
            return
    raise AssertionError(f"the command ended before {name}")


def test_a_wrong_file_is_refused_whole(gateway: Reloaded) -> None:
    """The gateway goes on as before, whoever asks, and whatever else is right in the file.

    A process that is killed comes back with the mapping of the last reload, not with that of the start.
    """
    gateway.back_to(PRESENT, "After")
    cores = len(gateway.logged("core-ready"))
    gateway.write(WRONG)
    complaint = f"{gateway.file}:4: classes.rabbitmq:queu: matches no class"
    for refused in (gateway.reload(), gateway.command("check", "--against-running")):
        assert refused.code is ExitCode.CONFIGURATION
        assert complaint in refused.errors
    gateway.running.command.process.send_signal(signal.SIGHUP)
    wait_until(
        lambda: any(complaint in record.get("wrong", "") for record in gateway.logged("not-reloaded")),
        "the log has file and line",
    )
    assert len(gateway.logged("core-ready")) == cores, "the core goes on"
    assert gateway.label() == "After"
    os.kill(gateway.processes()["core"], signal.SIGKILL)
    wait_until(lambda: len(gateway.logged("core-ready")) > cores, "a core is started again")
    wait_until(lambda: gateway.label() == "After", "with the file that was right")
    gateway.write(PRESENT)
    assert gateway.against_running()[0] == SAME


def test_signals_are_followed_also_while_the_core_starts(gateway: Reloaded) -> None:
    text, _ = gateway.other()
    process = gateway.running.command.process
    gateway.write(text)
    starts = len(gateway.logged("core-starts-again"))
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(gateway.logged("core-starts-again")) > starts, "the core ends")
    gateway.write(FORMER.replace("Before", "Later"))
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: gateway.label() == "Later", "the second one is followed, too")
    assert gateway.against_running()[0] == SAME
    assert (
        not gateway.logged("process-died")
        or gateway.logged("process-died")[-1]["exit_code"] == -signal.SIGKILL
    )


@pytest.mark.prove
def test_two_commands_in_a_row(gateway: Reloaded) -> None:
    gateway.back_to(FORMER, "Before")
    gateway.write(PRESENT)
    starts = len(gateway.logged("core-starts-again"))
    gateway.running.command.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(gateway.logged("core-starts-again")) > starts, "the core ends")
    gateway.write(FORMER.replace("Before", "Second"))
    reloaded = gateway.reload()
    assert reloaded.code is ExitCode.OK, reloaded.errors
    wait_until(lambda: gateway.label() == "Second", "the command met the starting core, and waited")
    assert gateway.reload().output.strip() == SAME


def test_policy_and_mappings_change_together(gateway: Reloaded) -> None:
    assert gateway.against_running()[0] == SAME
    document = yaml.safe_load(gateway.site.configuration.read_text(encoding="utf-8"))
    text = gateway.site.configuration.read_text(encoding="utf-8")
    second = gateway.site.folder / "second.yaml"
    second.write_text("version: 1\nclasses: {'rabbitmq:queue': {label: Row}}\n", encoding="utf-8")
    document["overrides"] = ["overrides.yaml", "second.yaml"]
    document["policy"] = {"principals": {"*": ["everything"], "jmx:monitor": ["monitoring"]}}
    gateway.site.configuration.write_text(yaml.safe_dump(document), encoding="utf-8")
    try:
        lines = gateway.against_running()
        assert f"overrides: {second} was added" in lines
        reloaded = gateway.reload()
        assert reloaded.code is ExitCode.OK, reloaded.errors
        assert reloaded.output.splitlines()[-2:] == ["the policy was applied", "the mappings were applied"]
        assert gateway.against_running()[0] == SAME
        classes = json.loads(gateway.command("schema", "export").output)["classes"]
        assert next(one["label"] for one in classes if one["name"] == "queue") == "Row"
    finally:
        gateway.site.configuration.write_text(text, encoding="utf-8")
        assert gateway.reload().code is ExitCode.OK


async def test_an_operation_under_way_ends_before_the_core(virtual_host: VirtualHost, site: Site) -> None:
    broker = virtual_host.broker
    user, vhost = broker.administrator, virtual_host.name
    password = site.secret(user.password)
    url = f"amqp://127.0.0.1:{broker.ports.amqp}"
    amqp = {"url": url, "vhost": vhost, "user": user.name, "password": password}
    rule = {"who": [f"cli:{getpass.getuser()}"], "classes": ["shop:*"], "invoke": ["fill"]}
    file = site.folder / "overrides.yaml"
    file.write_text("version: 1\n", encoding="utf-8")
    site.configure(
        sources={"shop": {"kind": "qmf", "amqp": amqp, "trusted_users": [user.name]}},
        overrides=["overrides.yaml"],
        operations={"allow": [rule], "deadline": "1min"},
        snmp={"enabled": False},
    )
    agent = CalledAgent(user.name)
    speaking = asyncio.create_task(agent.speak(broker, vhost))

    async def call(*words: str) -> Ended:
        return await asyncio.to_thread(amqp_gateway, *words, "--config", site.configuration)

    async def is_shown() -> bool:
        return (await call("get", "shop/shop:vessel/v")).code is ExitCode.OK

    try:
        with running("run", "--config", site.configuration, log=site.folder / "log") as gateway:

            def events() -> list[str]:
                return [record["event"] for record in gateway.log]

            async def is_reloaded() -> bool:
                return "mappings-reloaded" in events()

            await asyncio.to_thread(gateway.ready)
            await eventually(is_shown, "the object is shown")
            invoking = asyncio.create_task(call("invoke", "shop/shop:vessel/v", "fill", "amount=3"))
            called = await agent.called()
            file.write_text("version: 1\nclasses: {'shop:vessel': {label: Vessel}}\n", encoding="utf-8")
            reloading = asyncio.create_task(call("reload"))
            await eventually(is_reloaded, "the reload is accepted")
            assert await is_shown(), "by the core that waits for the operation"
            assert "core-starts-again" not in events()
            agent.put(8)
            agent.answer(called, outputs=(8,))
            assert (await invoking).code is ExitCode.OK
            assert (await reloading).code is ExitCode.OK
            assert events().count("core-ready") == 2
            await eventually(is_shown, "the object is shown again")
    finally:
        speaking.cancel()
        await asyncio.gather(speaking, return_exceptions=True)
