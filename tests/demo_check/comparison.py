"""The objects in SNMP, compared with those of the broker's own tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.demo.broker import PrivateBroker
from gateway.demo.snmp_commands import Table
from gateway.sources.rabbitmq.listing import properties_key

OWN_QUEUE_PREFIX = "amqp-gateway."
VOLATILE = frozenset(
    {
        "Index",
        "RowNativeId",
        "RowSampled",
        "RowCreated",
        "RowDiscontinuity",
        "RowLastChange",
        "RowFullName",
        "ReceivedOctets",
        "SentOctets",
        "Memory",
    }
)
"""Suffixes of the columns that differ between two sources of the same broker by their nature.

Octets and memory move with heartbeats although nothing is published.
"""

OWN_TRAFFIC = frozenset({"amqp-gateway"})
"""The virtual hosts in which, and in whose exchanges, the gateway's own messages are counted."""

EVENT_HOST = ("rmqVhost", "/")
"""The prefix and name of the row that counts the broker's events.

Some of them occur even at rest: those of the channels by which our own links look after their queues.
"""

Facts = dict[str, dict[str, str]]
"""Objects by name, each with some of its values as text."""


@dataclass(frozen=True, slots=True)
class View:
    """The comparison of a class.

    Attributes:
        table: the MIB table, and the prefix of its columns.
        columns: SNMP column, by the name it has in the facts.
        broker: reads the same facts from the broker.
    """

    table: str
    columns: Mapping[str, str]
    broker: Callable[[PrivateBroker], Facts]


def shown(table: Table, view: View, source: int, prefix: str) -> Facts:
    """The facts that one source's rows of ``table`` show, by full name; stale rows are left out."""
    facts: Facts = {}
    for index, cells in table.items():
        if index.split(".")[0] == str(source) and cells.get(f"{prefix}RowStale") == "false":
            name = without_incarnation(cells[f"{prefix}RowFullName"])
            facts[name] = {fact: cells.get(f"{prefix}{column}", "") for fact, column in view.columns.items()}
    return facts


def differences(expected: Facts, found: Facts) -> list[str]:
    """One line for each thing in which two sets of facts differ."""
    lines = [f"{name!r} is missing" for name in expected.keys() - found.keys()]
    lines += [f"{name!r} should not be there" for name in found.keys() - expected.keys()]
    for name in expected.keys() & found.keys():
        lines += [
            f"{name!r}: {fact} is {found[name].get(fact, '')!r}, should be {value!r}"
            for fact, value in expected[name].items()
            if found[name].get(fact, "") != value
        ]
    return sorted(lines)


class AtRest:
    """The facts of a view from a broker at rest, which are read again only if other facts differ from them.

    Its tools take a second each, and it is compared with two norths and two sources.
    """

    def __init__(self, view: View, broker: PrivateBroker) -> None:
        self.view = view
        self._broker = broker
        self._facts: Facts = {}

    def differences(self, found: Facts) -> list[str]:
        """Return one line for each thing in which ``found`` differs from the facts of the broker."""
        if not self._facts or differences(self._facts, found):
            self._facts = self.view.broker(self._broker)
        return differences(self._facts, found) or ([] if self._facts else ["there is nothing to compare"])


def rows_by_name(tables: Mapping[str, Table], prefix: str, source: int) -> Facts:
    """All cells of one source's rows by full name, without those that differ by nature.

    Args:
        tables: by the prefix of their columns; pointers into them are replaced by names.
        prefix: of the table wanted.
        source: number of the source.
    """
    facts: Facts = {}
    for index, cells in tables[prefix].items():
        name = without_incarnation(cells[f"{prefix}RowFullName"])
        is_own = name.split("|")[0] in OWN_TRAFFIC or (prefix, name) == EVENT_HOST
        if index.split(".")[0] == str(source) and not is_own:
            facts[name] = {
                column: _pointed_to(cell, tables)
                for column, cell in cells.items()
                if column.removeprefix(prefix) not in VOLATILE
            }
    return facts


def _pointed_to(cell: str, tables: Mapping[str, Table]) -> str:
    """The full name of the row that a cell points to; any other cell as it is."""
    match = re.fullmatch(r"(rmq[A-Z][a-z]+)RowName\.([0-9.]+)", cell)
    row = tables.get(match[1], {}).get(match[2]) if match else None
    return cell if match is None or row is None else row[f"{match[1]}RowFullName"]


def without_incarnation(full_name: str) -> str:
    """Return a full name without the part that distinguishes the incarnations of a transient object."""
    return re.split(r"(?<!\\)#", full_name)[0]


# What the broker says.


def queues_by_rabbitmqctl(broker: PrivateBroker) -> Facts:
    """Queues of all virtual hosts that are shown, as ``rabbitmqctl list_queues`` has them."""
    facts: Facts = {}
    for vhost in _vhosts(broker):
        columns = ("name", "durable", "auto_delete", "messages", "messages_ready", "consumers")
        for queue in _rabbitmqctl(broker, "list_queues", "-p", vhost, *columns):
            if not queue["name"].startswith(OWN_QUEUE_PREFIX):
                facts[f"{vhost}|{queue['name']}"] = {
                    "durable": _truth(queue["durable"]),
                    "messages": str(queue["messages"]),
                    "ready": str(queue["messages_ready"]),
                    "consumers": str(queue["consumers"]),
                }
    return facts


def queues_by_http(broker: PrivateBroker) -> Facts:
    """Message counters of queues, as the management API has them."""
    return {
        f"{queue['vhost']}|{queue['name']}": {
            "published": _number(queue, "publish"),
            "acknowledged": _number(queue, "ack"),
            "type": queue["type"],
        }
        for queue in _http(broker, "queues")
        if not queue["name"].startswith(OWN_QUEUE_PREFIX)
    }


def exchanges_by_rabbitmqctl(broker: PrivateBroker) -> Facts:
    """Exchanges, as ``rabbitmqctl list_exchanges`` has them."""
    return {
        f"{vhost}|{exchange['name']}": {"type": exchange["type"], "durable": _truth(exchange["durable"])}
        for vhost in _vhosts(broker)
        for exchange in _rabbitmqctl(broker, "list_exchanges", "-p", vhost, "name", "type", "durable")
    }


def vhosts_by_rabbitmqctl(broker: PrivateBroker) -> Facts:
    """Virtual hosts, as ``rabbitmqctl list_vhosts`` has them."""
    return {
        vhost["name"]: {"tracing": _truth(vhost["tracing"])}
        for vhost in _rabbitmqctl(broker, "list_vhosts", "name", "tracing")
    }


def definitions_by_http(broker: PrivateBroker) -> dict[str, Any]:
    """Everything that is configured on the broker, as the management API exports it; lists in one order."""
    with broker.http() as client:
        reported: dict[str, Any] = client.get("definitions").raise_for_status().json()
    return {
        part: sorted(found, key=json.dumps) if isinstance(found, list) else found
        for part, found in reported.items()
    }


def nodes_by_http(broker: PrivateBroker) -> Facts:
    """Nodes, as the management API has them."""
    return {
        node["name"]: {"running": _truth(node["running"]), "process": str(node["os_pid"])}
        for node in _http(broker, "nodes")
    }


def connections_by_http(broker: PrivateBroker) -> Facts:
    """Connections of the workload, as the management API has them; short-lived ones may be on their way."""
    return {
        connection["name"]: {
            "user": connection["user"],
            "given": connection.get("user_provided_name", ""),
            "port": str(connection["peer_port"]),
        }
        for connection in _http(broker, "connections")
        if connection.get("user") == "workload" and " visitor" not in connection.get("user_provided_name", "")
    }


def channels_by_http(broker: PrivateBroker) -> Facts:
    """Channels of the workload's connections, as the management API has them."""
    connections = connections_by_http(broker)
    return {
        channel["name"]: {
            "user": channel["user"],
            "number": str(channel["number"]),
            "prefetch": str(channel["prefetch_count"]),
            "consumers": str(channel["consumer_count"]),
        }
        for channel in _http(broker, "channels")
        if channel.get("connection_details", {}).get("name") in connections
    }


def consumers_by_http(broker: PrivateBroker) -> Facts:
    """Consumers on these channels, as the management API has them."""
    channels = channels_by_http(broker)
    return {
        "|".join(
            (
                *(consumer["queue"]["vhost"], consumer["queue"]["name"]),
                *(consumer["channel_details"]["name"], consumer["consumer_tag"]),
            )
        ): {"acknowledging": _truth(consumer["ack_required"]), "status": consumer["activity_status"]}
        for consumer in _http(broker, "consumers")
        if consumer.get("channel_details", {}).get("name") in channels
    }


def bindings_by_rabbitmqctl(broker: PrivateBroker) -> Facts:
    """Bindings of the workload, which have no arguments, as ``rabbitmqctl list_bindings`` has them."""
    columns = ("source_name", "destination_kind", "destination_name", "routing_key")
    return {
        f"{vhost}|{source}|{kind}|{destination}|{properties_key(key)}": {"key": key}
        for vhost in _vhosts(broker)
        for source, kind, destination, key in (
            tuple(str(binding[column]) for column in columns)
            for binding in _rabbitmqctl(broker, "list_bindings", "-p", vhost, *columns)
        )
        if source and not destination.startswith(OWN_QUEUE_PREFIX)
    }


def _vhosts(broker: PrivateBroker) -> Iterable[str]:
    return [vhost["name"] for vhost in _rabbitmqctl(broker, "list_vhosts", "name")]


def _rabbitmqctl(broker: PrivateBroker, *arguments: str) -> list[dict[str, Any]]:
    printed = broker.rabbitmqctl(*arguments, "--formatter", "json", "--quiet")
    listed: list[dict[str, Any]] = json.loads(printed[printed.index("[") :])
    return listed


def _http(broker: PrivateBroker, path: str) -> list[dict[str, Any]]:
    with broker.http() as client:
        listed: list[dict[str, Any]] = client.get(path).raise_for_status().json()
        return listed


def _truth(value: object) -> str:
    return "true" if value in {True, "true"} else "false"


def _number(queue: Mapping[str, Any], counter: str) -> str:
    """A counter as text; empty where the broker has none yet, which is not zero."""
    value = queue.get("message_stats", {}).get(counter)
    return "" if value is None else str(value)
