"""Names that peers choose, with every character that does not print, through every way out of a gateway.

Beside each object is a twin with a harmless name. What is said of both has as many lines, cells and samples.
What else ends in a notification is in `tests/snmp/notifications/test_strange_texts.py`, and what reports
show in `tests/analytics/test_report.py`.
"""

from __future__ import annotations

import csv
import getpass
import json
import re
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aio_pika
import pytest
import yaml
from aiormq.exceptions import ProbableAuthenticationError
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from gateway.demo.broker import Credentials, PrivateBroker
from gateway.escapes import escaped
from gateway.service.processes.exit_codes import ExitCode
from tests.cli.conftest import ShownGateway, running_gateway
from tests.components.background import in_background
from tests.components.command_line import COMMAND, Ended, Site, amqp_gateway, environment
from tests.components.jmx_client import JmxClient
from tests.components.net_snmp import printed, with_modules
from tests.components.pages import served_page
from tests.components.ports import free_tcp_port
from tests.components.prometheus import promtool
from tests.components.waiting import wait_until
from tests.hypothesis_profiles import PROVING
from tests.snmp.notifications.snmptrapd import snmptrapd
from tests.snmp.notifications.test_strange_texts import CONTROLS, OCTETS, SEPARATORS_AND_MARKS

pytestmark = pytest.mark.xdist_group("quiet broker")

NAMES: Final = (CONTROLS[:33], CONTROLS[33:], rf"{SEPARATORS_AND_MARKS}C:\new")
"""The names of queues. Escaped, each fits into a cell of SNMP."""
BYTES: Final = b"caf\xe9"
"""The name of a queue that is no UTF-8; the broker lists it with U+FFFD."""
PLAIN: Final = "plain"
CLASSES: Final = ("vhost", "user", "queue", "exchange", "binding", "policy")
"""The classes of objects with a name of a peer's choice."""
MIB: Final = ("AMQP-GATEWAY-MIB", "AMQP-GATEWAY-RABBITMQ-MIB")
CELL: Final = re.compile(r"[A-Z-]+::\w+\.[\d.]+ = ")


async def _discard(_: object) -> None:
    """Take a message: none is published."""


@dataclass(frozen=True, slots=True)
class Peers:
    """The objects of one virtual host, and who uses them.

    Attributes:
        host: the virtual host.
        renamed: gives their names.
    """

    host: str
    renamed: Callable[[str], str]

    @property
    def user(self) -> str:
        """The name of a user, whose login is refused."""
        return f"{self.host} user"

    @property
    def queues(self) -> list[str]:
        """The names of queues as the gateway has them, in order."""
        return [*map(self.renamed, NAMES), BYTES.decode(errors="backslashreplace"), PLAIN]

    def declare(self, broker: PrivateBroker) -> None:
        """Make the objects. The management API takes NUL in definitions only, and bytes in paths only."""
        own, marks = {"vhost": self.host}, self.renamed(SEPARATORS_AND_MARKS)
        lasting = {**own, "durable": True, "auto_delete": False}
        rights = {"configure": ".*", "write": ".*", "read": self.renamed(".*|\n\x9b")}
        first, second, third = map(self.renamed, NAMES)
        documents: dict[str, list[dict[str, Any]]] = {
            "vhosts": [{"name": self.host, "description": third, "tags": [self.renamed("a\nb")]}],
            "users": [{"name": self.user, "password": "x", "tags": [self.renamed("a\nb")]}],
            "permissions": [
                {**own, "user": user, **rights} for user in (self.user, broker.administrator.name)
            ],
            "queues": [
                {**lasting, "name": name, "arguments": {"x-dead-letter-exchange": name}}
                for name in (first, second, third, PLAIN)
            ],
            "exchanges": [{**lasting, "name": marks, "type": "topic", "internal": False, "arguments": {}}],
            "bindings": [
                {
                    **own,
                    "source": marks,
                    "destination": first,
                    "destination_type": "queue",
                    "routing_key": second,
                    "arguments": {},
                }
            ],
            "policies": [
                {
                    **own,
                    "name": first,
                    "pattern": self.renamed("^\x1b\nq"),
                    "apply-to": "queues",
                    "definition": {"dead-letter-routing-key": second},
                    "priority": 0,
                }
            ],
        }
        with broker.http() as http:
            http.post("definitions", json=documents).raise_for_status()
            path = f"queues/{quote(self.host, safe='')}/{quote(BYTES)}"
            http.put(path, json={"durable": True}).raise_for_status()

    @asynccontextmanager
    async def connected(self, broker: PrivateBroker) -> AsyncIterator[None]:
        """Provide a connection with a consumer, after a login that was refused."""
        refused = aio_pika.Connection(URL(broker.amqp_url(Credentials(self.user, "wrong"), self.host)))
        with pytest.raises(ProbableAuthenticationError):
            await refused.connect()
        # Else it closes itself when it is collected, for which the thread that collects it needs a loop.
        await refused.close()
        url = broker.amqp_url(None, self.host)
        async with await aio_pika.connect(
            url, client_properties={"connection_name": self.renamed(NAMES[2])}
        ) as connection:
            queue = await (await connection.channel()).get_queue(PLAIN, ensure=False)
            await queue.consume(_discard, consumer_tag=self.renamed("tag\n\x1b"))
            yield

    def end(self, broker: PrivateBroker) -> None:
        """Delete the objects."""
        with broker.http() as http:
            for path in (f"vhosts/{quote(self.host, safe='')}", f"users/{quote(self.user, safe='')}"):
                http.delete(path)


STRANGE: Final = Peers("strange\x1b\n\u202e", str)
TWIN: Final = Peers("twin", lambda text: "".join(one if one.isprintable() else "x" for one in text))
BOTH: Final = (STRANGE, TWIN)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text; the line feed at the end of each alone does not print."""
    assert text.endswith("\n") or not text
    lines = text.split("\n")[:-1]
    assert [line for line in lines if not line.isprintable()] == []
    return lines


@dataclass(frozen=True, slots=True)
class Scene:
    """A gateway that shows the objects of both, what it runs with, and what was heard of it."""

    broker: PrivateBroker
    gateway: ShownGateway
    page: str
    jmx: str
    handled: Path

    @property
    def site(self) -> Site:
        """The gateway's folder."""
        return self.gateway.site

    def lines(self, *words: str, code: ExitCode = ExitCode.OK) -> list[str]:
        """Return the lines that a command prints, on standard output and as errors."""
        ended = self.ended(*words)
        assert ended.code is code, ended.errors
        return [*lines_of(ended.output), *lines_of(ended.errors)]

    def ended(self, *words: str) -> Ended:
        """Run a command with the configuration."""
        return amqp_gateway(*words, "--config", self.site.configuration)

    def objects(self, peers: Peers) -> dict[str, list[dict[str, Any]]]:
        """Return the documents of the objects of a virtual host, by class; without those of every host."""
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in CLASSES}
        for document in self.gateway.documents("tree"):
            class_name, name = document["class"].removeprefix("rabbitmq:"), str(document["name"])
            # Every virtual host has others.
            if class_name in found and name.startswith(peers.host) and "|amq." not in name:
                found[class_name].append(document)
        return found

    def queue(self, peers: Peers) -> str:
        """Return the name of the queue with all control characters of ASCII, as it is printed."""
        (name,) = (one["name"] for one in self.objects(peers)["queue"] if one["leaf_name"] == peers.queues[0])
        return escaped(str(name))

    def snmp(self, command: str, *words: str) -> list[str]:
        """Return the lines of one of net-snmp's commands."""
        access = ("-v2c", "-c", self.site.state.secret("community"), "-t", "30", *with_modules(MIB))
        agent = f"127.0.0.1:{self.site.snmp_port}"
        done = printed(self.site.folder / "snmp", command, *access, agent, *words)
        assert done.stderr == ""
        return lines_of(done.stdout)


@asynccontextmanager
async def _clients(broker: PrivateBroker) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for peers in BOTH:
            await stack.enter_async_context(peers.connected(broker))
        yield


@pytest.fixture(scope="module")
def scene(quiet_rabbitmq: PrivateBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Provide the gateway, as soon as all objects are shown."""
    folder = tmp_path_factory.mktemp("strange")
    handler, handled = folder / "handler", folder / "handled"
    handler.write_text(f"#!/bin/sh\ncat >> {handled}\necho END >> {handled}\n", encoding="ascii")
    handler.chmod(0o755)
    ports = free_tcp_port(), free_tcp_port()
    with snmptrapd(folder, "public", further=(f"traphandle default {handler}",)) as daemon:

        def prepare(site: Site) -> None:
            settings = yaml.safe_load(site.configuration.read_text("utf-8"))
            receiver = {"address": f"127.0.0.1:{daemon.port}", "community": site.secret("public")}
            settings["snmp"]["notifications"] = {"nms": {**receiver, "severity": "info", "rate": 1000}}
            settings["jmx"]["listen"] = f"127.0.0.1:{ports[1]}"
            site.configuration.write_text(yaml.safe_dump(settings), encoding="utf-8")

        metrics = {
            "enabled": True,
            "listen": f"127.0.0.1:{ports[0]}",
            "objects": {"classes": {"rabbitmq:*": ["*"]}},
        }
        rule = {
            "who": [f"cli:{getpass.getuser()}"],
            "classes": ["rabbitmq:*"],
            "set": ["*"],
            "invoke": ["purge"],
            "read": True,
        }
        with running_gateway(
            quiet_rabbitmq,
            folder,
            prepare,
            has_jmx=PROVING,
            metrics=metrics,
            operations={"allow": [rule]},
        ) as gateway:
            try:
                for peers in BOTH:
                    peers.declare(quiet_rabbitmq)
                with in_background(partial(_clients, quiet_rabbitmq)):
                    page = f"http://127.0.0.1:{ports[0]}"
                    there = Scene(quiet_rabbitmq, gateway, page, f"127.0.0.1:{ports[1]}", handled)
                    wait_until(lambda: all(_is_shown(there, each) for each in BOTH), "all are shown")
                    yield there
            finally:
                for peers in BOTH:
                    peers.end(quiet_rabbitmq)


def _is_shown(there: Scene, peers: Peers) -> bool:
    found = there.objects(peers)
    consumers = there.gateway.documents("tree", "orders/consumer")
    return (
        {one["leaf_name"] for one in found["queue"]} == set(peers.queues)
        and all(found.values())
        and sum(str(one["name"]).startswith(f"{peers.host}|") for one in consumers) == 1
    )


def _values(there: Scene) -> list[list[str]]:
    """Return what the metrics show of the objects of each host: the names of elements."""
    text = served_page(f"{there.page}/metrics/objects").text
    samples = [one for metric in text_string_to_metric_families(text) for one in metric.samples]
    return [sorted(one.name for one in samples if each.host in one.labels.values()) for each in BOTH]


def test_what_was_printed_is_read_back(scene: Scene) -> None:
    for peers in BOTH:
        (tree,) = (scene.lines("tree", f"orders/queue/{escaped(peers.host)}*"),)
        shown = [line.split("  ")[-1] for line in tree[1:]]
        assert len(shown) == len(peers.queues)
        for name in shown:
            (document,) = scene.gateway.documents("get", f"orders/queue/{name}")
            assert document["leaf_name"] in peers.queues
            assert escaped(document["name"]) == name
            logged = scene.ended(
                "log", "query", "--json", "--kind", "create", "--class", "queue", "--object", name
            ).output
            (line,) = logged.removesuffix("\n").split("\n")
            assert json.loads(line)["object_name"] == document["name"]


def test_each_line_of_a_command_is_one_of_its_twin(scene: Scene) -> None:
    found = [scene.objects(peers) for peers in BOTH]
    for of in CLASSES:
        paths = [[f"orders/{of}/{escaped(str(one['name']))}" for one in objects[of]] for objects in found]
        counts = [Counter(len(scene.lines("get", path)) for path in each) for each in paths]
        assert counts[0] == counts[1], of
    for words in (("explain",), ("tree",), ("get", "--json")):
        strange, twin = (scene.lines(*words, f"orders/queue/{scene.queue(peers)}") for peers in BOTH)
        assert len(strange) == len(twin)


def test_an_operation_names_its_object_in_a_line(scene: Scene) -> None:
    said = []
    for peers in BOTH:
        host = f"orders/vhost/{escaped(peers.host)}"
        queue = f"orders/queue/{scene.queue(peers)}"
        description = escaped(peers.renamed("new\n\u202e"))
        said.append(
            [
                scene.lines("invoke", queue, "purge"),
                scene.lines("set", host, f"description={description}"),
                scene.lines("get", host, "description", "--fresh"),
                scene.lines("invoke", queue, "delete", code=ExitCode.REFUSED),
                scene.lines("invoke", queue, "nonesuch", code=ExitCode.NOT_FOUND),
                scene.lines(
                    *("role", "explain", "jmx:monitor", "invoke:purge"),
                    queue.replace("/", "/rabbitmq:", 1),
                    code=ExitCode.REFUSED,
                ),
            ]
        )
        assert said[-1][2] == [f"description  {description}"]
    assert [len(lines) for lines in said[0]] == [len(lines) for lines in said[1]]


def test_what_is_said_of_all_has_no_control_characters(scene: Scene, tmp_path: Path) -> None:
    for words in (
        ("tree",),
        ("tree", "--json"),
        ("source", "ls"),
        ("source", "test", "orders"),
        ("health",),
        ("doctor",),
        ("check", "--connect"),
        ("log", "tail", "-n", "2000", "--all", "--whole"),
        ("log", "query", "--last", "1h"),
        ("log", "verify"),
        ("audit", "verify"),
        *(("template", of) for of in ("zabbix", "snmptt", "nagios", "icinga")),
    ):
        ended = scene.ended(*words)
        assert ended.code in (ExitCode.OK, ExitCode.DIFFERENCE), (words, ended)
        assert lines_of(ended.output), words
        lines_of(ended.errors)
    records = lines_of(scene.ended("log", "query", "--csv", "--last", "1h").output)
    assert len(list(csv.reader(records))) == len(records)
    password = tmp_path / "password"
    password.write_text(scene.broker.administrator.password, encoding="utf-8")
    login = ("--user", scene.broker.administrator.name, "--password-file", password)
    url = scene.broker.management_url
    said = [
        lines_of(amqp_gateway("show", url, f"queue/{escaped(peers.host)}*", *login).output) for peers in BOTH
    ]
    assert [len(lines) for lines in said] == [len(peers.queues) for peers in BOTH]
    for peers in BOTH:
        administrator = ("--administrator", login[1], "--administrator-password-file", password)
        wanted = ("--management", url, *administrator, "--watch", peers.host, "--dry-run")
        said.append(lines_of(amqp_gateway("provision", *wanted, folder=tmp_path).output))
    assert len(said[2]) == len(said[3])
    quickstart = amqp_gateway("quickstart", url, *login, "--dry-run", "--folder", tmp_path / "made")
    assert lines_of(quickstart.output)


def test_snmp_shows_a_cell_in_a_line(scene: Scene) -> None:
    objects = [scene.objects(peers) for peers in BOTH]

    def rows_of(table: str) -> Counter[str]:
        lines = scene.snmp("snmpwalk", table)
        assert [line for line in lines if not CELL.match(line)] == []
        return Counter(line.partition(" = ")[0].rpartition(".")[2] for line in lines)

    def are_alike(of: str) -> bool:
        rows = rows_of(f"rmq{of.capitalize()}Table")
        strange, twin = (sorted(rows[str(one["row"])] for one in each[of]) for each in objects)
        return strange == twin and all(strange)

    for of in (*CLASSES, "connection", "channel", "consumer"):
        table = f"rmq{of.capitalize()}Table"
        headers = 3
        assert len(scene.snmp("snmptable", table)) == len(rows_of(table)) + headers
        if of in CLASSES:  # statistics arrive one by one
            wait_until(partial(are_alike, of), f"objects of {of} have as many cells as those of plain names")


def test_a_handler_of_notifications_reads_a_varbind_in_a_line(scene: Scene) -> None:
    def handled() -> dict[str, list[list[str]]]:
        """Return the names of varbinds of each notification, by its own name."""
        found: dict[str, list[list[str]]] = {}
        for block in scene.handled.read_text("utf-8").split("END\n")[:-1] if scene.handled.exists() else ():
            # The daemon itself wraps octets in hexadecimal digits.
            varbinds = [line.split(" ") for line in lines_of(block)[2:] if not OCTETS.fullmatch(line)]
            names = [name.partition(".")[0] for name, *_ in varbinds]
            trap = varbinds[names.index("SNMPv2-MIB::snmpTrapOID")][1]
            found.setdefault(trap.partition("::")[2], []).append(names)
        return found

    kinds = {"QueueCreated", "VhostCreated", "UserCreated", "ConnectionOpened", "AuthenticationFailed"}
    wait_until(lambda: {f"rmq{kind}" for kind in kinds} <= handled().keys(), "one of each kind is handled")
    for trap, received in handled().items():
        whole = max(received, key=len)
        # The last arguments are left out where there is no room.
        assert all(names == whole[: len(names)] for names in received), trap


def test_metrics_are_read_by_their_parser_and_keep_the_value(scene: Scene) -> None:
    lines_of(served_page(f"{scene.page}/metrics").text)
    text = served_page(f"{scene.page}/metrics/objects").text
    assert "error" not in promtool("check", "metrics", text=text).stderr
    metrics: list[Metric] = list(text_string_to_metric_families(text))
    samples = [sample for metric in metrics for sample in metric.samples]
    assert len([line for line in text.split("\n") if line and not line.startswith("#")]) == len(samples)
    wait_until(lambda: (of := _values(scene))[0] == of[1] and of[0], "both hosts have the same metrics")
    queues = {sample.labels.get("name") for sample in samples if STRANGE.host in sample.labels.values()}
    assert queues >= set(STRANGE.queues)


@pytest.mark.prove
async def test_jmx_keeps_the_value(scene: Scene, tmp_path: Path) -> None:
    password = scene.site.state.secret("jmx-monitor")
    async with await JmxClient.connect(tmp_path / "client.jar", scene.jmx, "monitor", password) as java:
        found = await java.names("amqp.gateway:type=queue,*")
        values = {(await java.read(name))["name_"].value for name in found}
        assert values >= set(STRANGE.queues)


def test_the_end_of_all_is_said_in_lines_too(scene: Scene, tmp_path: Path) -> None:
    """What is watched is in lines, and what is said of objects that are gone."""
    both = (Peers("ending \x1b\n\u202e", str), Peers("ending twin", TWIN.renamed))
    output = tmp_path / "watched"

    def ended() -> list[int]:
        """Return how many ends of objects of each were reported."""
        lines = [line for line in output.read_text("utf-8").split("\n") if "  deleted " in line]
        return [sum(escaped(peers.host) in line for line in lines) for peers in both]

    words = [*COMMAND, "watch", "--config", str(scene.site.configuration)]
    with output.open("wb") as file:
        watch = subprocess.Popen(words, stdout=file, stderr=file, env=environment())  # noqa: S603  our own
        try:
            wait_until(lambda: b"watching" in output.read_bytes(), "it watches")
            for peers in both:
                peers.declare(scene.broker)
            wait_until(lambda: all(all(scene.objects(peers).values()) for peers in both), "all are shown")
            names = [scene.queue(peers) for peers in both]
            for peers in both:
                peers.end(scene.broker)
            wait_until(lambda: ended()[0] == ended()[1] > len(NAMES), "all ends are reported")
        finally:
            for peers in both:
                peers.end(scene.broker)
            watch.send_signal(signal.SIGINT)
            watch.wait()
    lines_of(output.read_text("utf-8"))
    for name in names:
        (line,) = scene.lines("get", f"orders/queue/{name}", code=ExitCode.NOT_FOUND)
        assert f"orders/rabbitmq:queue/{name} was deleted at " in line
    strange, twin = (scene.lines("explain", f"orders/queue/{name}") for name in names)
    assert len(strange) == len(twin)
    assert lines_of((scene.site.folder / "log").read_text("utf-8"))
