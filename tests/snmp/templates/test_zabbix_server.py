"""A real Zabbix server imports the template, and finds in a gateway what the broker's own commands report."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import aio_pika
import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import RunningCommand, new_site, running
from tests.components.ports import free_udp_port
from tests.components.rabbitmq import TEST_SETTINGS
from tests.components.stopping import standing_still
from tests.components.waiting import until, wait_until
from tests.components.zabbix_server import ZabbixServer, zabbix_server
from tests.snmp.notifications.snmptrapd import snmptrapd
from tests.snmp.templates.conftest import PASSPHRASES, SOURCE, USER, PolledGateway

pytestmark = [pytest.mark.xdist_group("zabbix"), pytest.mark.long]

HOST, RECEIVING = "gateway", "gateway by traps"
"""Two hosts of one gateway: what the second one is sent does not disturb what is expected of the first."""

RECEIVING_ADDRESS = "127.0.0.2"
FORMAT = f"format2 %V\\n%04y-%02m-%02lT%02h:%02j:%02k+0000 ZBXTRAP {RECEIVING_ADDRESS}\\n%v\\n"
"""What snmptrapd writes, in a form that Zabbix reads, as coming from the second host."""

VHOST = "a | b"
LONGEST = "long" + "x" * 251
NAMES = ("orders", 'comma, "quoted" [1]', "größe", "{$MACRO}", "ü" * 120, LONGEST)
"""The names of queues: with all that is special in a list of OIDs, a key, JSON and a macro of Zabbix."""

RECEIVED = f"""\
21:15:28 2026/11/28 ZBXTRAP {RECEIVING_ADDRESS}
PDU INFO:
  receivedfrom                   UDP: [{RECEIVING_ADDRESS}]:33907->[127.0.0.1]:162
VARBINDS:
  SNMPv2-MIB::snmpTrapOID.0      type=6  value=OID: AMQP-GATEWAY-MIB::agAccessRefused
  AMQP-GATEWAY-MIB::agEventId.0  type=4  value=STRING: id.7
  AMQP-GATEWAY-MIB::agEventSeverity.0 type=2  value=INTEGER: warning(6)
  NET-SNMP-MIB::netSnmpPlaypen.1.1.11.6.0 type=4  value=Hex-STRING: 2F 7C 67 72 C3 B6
C3 9F 65
  .1.3.6.1.4.1.8072.9999.9999.1.1.11.8.0 type=4  value=STRING: "a \\"login\\" agEventState.0 = 1"
  SNMPv2-SMI::enterprises.8072.9999.9999.1.1.11.9.0 type=2  value=INTEGER: 3
"""
"""What Zabbix' receiver in Perl writes, each varbind with another form of its name."""

REFUSED = [f'AMQP gateway: a "{word}" agEventState.0 = 1' for word in ("login", "operation")]
"""The texts, each with what must not be taken for a varbind."""

READY = 7
PUBLISHED = 300
PERSISTENT = 2
OWN = "amqp-gateway."
"""The beginning of the name of the gateway's own queue, which it hides."""

SYNCHRONISED = "4"
FRESH, RUNNING, TRUE = "1", "2", "1"
WARNING, DISASTER = 2, 5
CRITICAL = "AMQP gateway: critical alarms"
SILENT = "AMQP gateway: no answer by SNMP"
LOST = f"AMQP gateway: source {SOURCE} is not synchronised"

SILENT_SECONDS = 400.0
"""The maximum delay of a problem: an agent that is silent for 15 s (UnreachablePeriod) is unavailable."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A Zabbix that watches a gateway as ``HOST``, the gateway's command, and the broker that it reads."""

    zabbix: ZabbixServer
    gateway: PolledGateway
    broker: PrivateBroker
    command: RunningCommand

    def items(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the items that are made of a column, by what is between the brackets of their keys."""
        items = self.zabbix.items(HOST).items()
        return {key[:-1].partition("[")[2]: item for key, item in items if key.startswith(f"amqp.{name}[")}

    def values(self, name: str) -> dict[str, str]:
        """Return the values of items that are made of a column, by the number of the row."""
        return {row: item["lastvalue"] for row, item in self.items(name).items() if item["lastclock"] != "0"}

    def column(self, name: str) -> dict[str, str]:
        """Return what net-snmp's ``snmpwalk`` reads of a column, by the number of the row."""
        walked = self.gateway.walk(f"AMQP-GATEWAY-RABBITMQ-MIB::{name}").items()
        return {instance.partition(".")[2]: value for instance, value in walked}

    def listed(self, what: str, *columns: str) -> list[dict[str, Any]]:
        """Return what ``rabbitmqctl`` lists."""
        listed: list[dict[str, Any]] = json.loads(
            self.broker.rabbitmqctl("--formatter", "json", "--quiet", what, *columns)
        )
        return listed

    def messages(self) -> dict[str, str]:
        """Return the number of messages in each queue of the broker but the gateway's own, which it hides."""
        queues = self.listed("list_queues", "name", "messages")
        return {each["name"]: str(each["messages"]) for each in queues if not each["name"].startswith(OWN)}

    def reported(self) -> list[tuple[int, dict[str, str]]]:
        """Return severity and tags of each problem that a notification reported of the node's memory."""
        problems = self.zabbix.tagged(RECEIVING).values()
        return [problem for problem in problems if "memoryAlarm" in problem[1].get("condition", "")]

    def queues(self) -> dict[str, str]:
        """Return the names of all queues by the numbers of their rows, as the gateway has them."""
        return self.column("rmqQueueName")


def publish(broker: PrivateBroker, queue: str, count: int) -> None:
    body = {
        "properties": {"delivery_mode": PERSISTENT},
        "routing_key": queue,
        "payload": "x",
        "payload_encoding": "string",
    }
    with broker.http() as client:
        for _ in range(count):
            client.post("exchanges/%2F/amq.default/publish", json=body).raise_for_status()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    gateway = PolledGateway(new_site(tmp_path_factory.mktemp("watched")))
    site = gateway.site
    with PrivateBroker(settings=TEST_SETTINGS) as broker, broker.http() as client:
        for name in NAMES:
            client.put(f"queues/%2F/{quote(name, safe='')}", json={"durable": True}).raise_for_status()
        client.put(f"vhosts/{quote(VHOST, safe='')}", json={}).raise_for_status()
        publish(broker, "orders", READY)
        reader = broker.administrator
        trap_port = free_udp_port()
        addresses = ("127.0.0.1", RECEIVING_ADDRESS)
        site.configure(
            snmp={
                "listen": [f"{address}:{site.snmp_port}" for address in addresses],
                "users": {USER: {}},
                "notifications": {"zabbix": {"address": f"127.0.0.1:{trap_port}"}},
            },
            sources={
                SOURCE: {
                    "kind": "rabbitmq",
                    "management": broker.management_url,
                    "user": reader.name,
                    "password": site.secret(reader.password),
                    "events": {"url": f"amqp://127.0.0.1:{broker.ports.amqp}"},
                    "interval": "1s",
                },
            },
        )
        typed = "".join(f"{phrase}\n" for phrase in PASSPHRASES.values())
        added = CliRunner().invoke(
            main, ["snmp", "user", "add", USER, "--config", str(site.configuration)], typed
        )
        assert added.exit_code is ExitCode.OK, added.output
        with (
            running("run", "--config", site.configuration, log=site.folder / "log") as command,
            zabbix_server(folder := tmp_path_factory.mktemp("zabbix")) as zabbix,
            snmptrapd(folder, gateway.community, trap_port, [FORMAT], modules=""),
        ):
            command.ready()
            gateway.are_all("synchronised")
            template = zabbix.import_template(gateway.template("zabbix"))
            access = {"version": 2, "bulk": 1, "community": gateway.community}
            zabbix.add_host(RECEIVING, template, site.snmp_port, access, RECEIVING_ADDRESS)
            zabbix.add_host(HOST, template, site.snmp_port, access, INTERVAL="1s", SILENCE="5s")
            watched = Watched(zabbix, gateway, broker, command)
            wait_until(lambda: watched.values("agSourceState"), "Zabbix has found the source")
            yield watched
            assert command.terminate().code is ExitCode.OK


def test_discovery_finds_the_queues_virtual_hosts_and_the_node_of_the_broker(watched: Watched) -> None:
    wait_until(lambda: len(watched.values("rmqQueueMessages")) == len(NAMES), "all queues have values")
    queues = watched.queues()
    assert sorted(queues.values()) == sorted(watched.messages())
    assert watched.items("rmqQueueMessages").keys() == queues.keys()
    for row, item in watched.items("rmqQueueMessages").items():
        assert item["name"].startswith(f"queue /|{queues[row]}"[:100])
        assert item["name"].endswith(f" [{row}]: messages")
    vhosts = {vhost["name"] for vhost in watched.listed("list_vhosts", "name")}
    assert set(watched.column("rmqVhostName").values()) == vhosts == {"/", VHOST}
    wait_until(
        lambda: set(watched.values("rmqVhostState").values()) == {RUNNING}, "virtual hosts have states"
    )
    assert len(watched.items("rmqVhostState")) == len(vhosts)
    (node,) = watched.items("rmqNodeMemoryLimit").values()
    assert watched.broker.node_name in node["name"]


async def test_a_connection_is_found_and_its_items_are_kept_when_it_is_closed(watched: Watched) -> None:
    async with await aio_pika.connect(watched.broker.amqp_url()):
        await until(lambda: watched.values("rmqConnectionChannels"), "the connection has values")
        (connection,) = watched.items("rmqConnectionChannels").values()
        names = {each["name"] for each in watched.listed("list_connections", "name")}
        assert any(name in connection["name"] for name in names)
        assert connection["lastvalue"] == "0"
    await until(lambda: watched.column("rmqConnectionChannels") == {}, "the connection is gone")
    assert watched.items("rmqConnectionChannels")


def test_no_item_is_unsupported_and_values_are_those_of_the_broker(watched: Watched) -> None:
    wait_until(lambda: set(watched.values("rmqQueueState").values()) == {RUNNING}, "queues have states")
    names = watched.queues()

    def messages() -> dict[str, str]:
        return {names[row]: value for row, value in watched.values("rmqQueueMessages").items()}

    expected = watched.messages()
    wait_until(lambda: messages() == expected, "Zabbix has the broker's numbers of messages")
    assert messages()["orders"] == str(READY)
    for column in ("rmqNodeMemoryLimit", "rmqNodeDiskFreeLimit", "rmqNodeProcessLimit"):
        shown = {row: value.partition(" ")[0] for row, value in watched.column(column).items()}
        wait_until(partial(has, watched, column, shown), f"the values of {column} are those of SNMP")
    items = watched.zabbix.items(HOST)
    assert {key: item["error"] for key, item in items.items() if item["state"] != "0"} == {}
    assert items["amqp.agFeedConnected"]["lastvalue"] == "1"
    assert items["amqp.agSourcesSynchronised"]["lastvalue"] == "1"
    (row,) = watched.values("agSourceState")
    source = items[f"amqp.agSourceState[{row}]"]
    assert (source["lastvalue"], source["valuemap"]["name"]) == (SYNCHRONISED, "agSourceState")
    rules = watched.zabbix.rules(HOST)
    assert {key: rule["error"] for key, rule in rules.items() if rule["error"] or rule["state"] != "0"} == {}


def has(watched: Watched, column: str, values: dict[str, str]) -> bool:
    return watched.values(column) == values


def test_a_counter_is_a_rate_whose_sum_is_what_was_published(watched: Watched) -> None:
    (row,) = (row for row, name in watched.queues().items() if name == "größe")

    def item() -> dict[str, Any]:
        return watched.items("rmqQueueMessagesPublished")[row]

    # The first value after a time without values, as after a restart of the broker, is no rate yet.
    former = len(watched.zabbix.history(item()))
    wait_until(lambda: len(watched.zabbix.history(item())) > former, "the rate has a value of now")
    publish(watched.broker, "größe", PUBLISHED)

    def total() -> float:
        rates = watched.zabbix.history(item())
        return sum(rate * (time - former) for (former, _), (time, rate) in pairwise(rates))

    wait_until(lambda: round(total(), 3) >= PUBLISHED, "all messages are in the rates")
    assert round(total(), 3) == PUBLISHED
    assert item()["units"] == "!messages/s"


def test_a_critical_alarm_is_a_problem_until_it_ends(watched: Watched) -> None:
    wait_until(lambda: not watched.zabbix.problems(HOST), "there is no problem")
    watched.broker.rabbitmqctl("set_vm_memory_high_watermark", "0.000001")
    wait_until(lambda: watched.zabbix.problems(HOST) == {CRITICAL}, "Zabbix has the problem")
    wait_until(watched.reported, "Zabbix has the problem by the notification, too")
    ((severity, tags),) = watched.reported()
    assert severity == DISASTER
    assert (tags["source"], tags["object"]) == (SOURCE, watched.broker.node_name)
    wait_until(lambda: set(watched.values("rmqNodeMemoryAlarm").values()) == {TRUE}, "it is of the memory")
    watched.broker.rabbitmqctl("set_vm_memory_high_watermark", "0.4")
    wait_until(lambda: not watched.zabbix.problems(HOST), "the problem is resolved")
    wait_until(lambda: not watched.reported(), "the notification of the end has resolved it")


def test_each_single_event_is_a_problem_also_in_the_form_of_zabbix_own_receiver(watched: Watched) -> None:
    with watched.zabbix.traps.open("a", encoding="utf-8") as file:
        file.write(RECEIVED + RECEIVED.replace("login", "operation"))
    wait_until(lambda: set(REFUSED) <= watched.zabbix.problems(RECEIVING), "Zabbix has both problems")
    for name in REFUSED:
        severity, tags = watched.zabbix.tagged(RECEIVING)[name]
        assert (severity, tags["object"]) == (WARNING, "/|größe")


def test_a_source_that_is_lost_is_a_problem_until_it_is_back(watched: Watched) -> None:
    wait_until(lambda: not watched.zabbix.problems(HOST), "there is no problem")
    watched.broker.kill_node()
    wait_until(lambda: LOST in watched.zabbix.problems(HOST), "Zabbix has the problem")
    wait_until(lambda: FRESH not in watched.values("rmqQueueRowState").values(), "rows are stale")
    watched.broker.start()
    wait_until(lambda: not watched.zabbix.problems(HOST), "the problem is resolved")
    wait_until(lambda: set(watched.values("rmqQueueRowState").values()) == {FRESH}, "rows are fresh")


def test_a_gateway_that_does_not_answer_is_a_problem_until_it_does(watched: Watched) -> None:
    wait_until(lambda: not watched.zabbix.problems(HOST), "there is no problem")
    with standing_still(watched.command.process.pid):
        wait_until(lambda: SILENT in watched.zabbix.problems(HOST), "Zabbix has the problem", SILENT_SECONDS)
    wait_until(lambda: not watched.zabbix.problems(HOST), "the problem is resolved", SILENT_SECONDS)


@pytest.mark.prove  # the same items by another version, of which cli/test_snmp_users.py has real readers
def test_a_user_of_version_3_reads_the_same(watched: Watched) -> None:
    (template,) = watched.zabbix("template.get", filter={"host": ["AMQP gateway by SNMP"]})
    sha256, aes128, with_privacy = 3, 1, 2
    access = {
        "version": 3,
        "bulk": 1,
        "securityname": USER,
        "securitylevel": with_privacy,
        "authprotocol": sha256,
        "authpassphrase": PASSPHRASES["AUTHENTICATION-PASSPHRASE"],
        "privprotocol": aes128,
        "privpassphrase": PASSPHRASES["PRIVACY-PASSPHRASE"],
    }
    host = f"by-user-{secrets.token_hex(4)}"
    port = watched.gateway.site.snmp_port
    watched.zabbix.add_host(host, template["templateid"], port, access, INTERVAL="1s")

    def found() -> set[str]:
        items = watched.zabbix.items(host).items()
        return {key for key, item in items if item["lastclock"] != "0"}

    queues = {f"amqp.rmqQueueMessages[{row}]" for row in watched.queues()}
    wait_until(lambda: queues <= found(), "all queues have values")
    (found_host,) = watched.zabbix("host.get", filter={"host": [host]})
    watched.zabbix("host.delete", [found_host["hostid"]])


def test_all_numbers_of_all_classes_can_be_imported_and_none_is_unsupported(watched: Watched) -> None:
    watched.zabbix.import_template(watched.gateway.template("zabbix", "--class", "*"))
    wait_until(lambda: watched.values("rmqExchangeRowState"), "exchanges are found")
    wait_until(lambda: watched.values("rmqUserRowState"), "users are found")
    items = watched.zabbix.items(HOST)
    assert {key: item["error"] for key, item in items.items() if item["state"] != "0"} == {}
    assert {key: rule["error"] for key, rule in watched.zabbix.rules(HOST).items() if rule["error"]} == {}
