"""Conversion of the management API's JSON to objects of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.qmf.agent import ManagedObject
from gateway.dialects.qmf.agent_objects import AgentClass
from gateway.mapping.paths import Json
from gateway.model.values import Reference, Value
from gateway.sources.rabbitmq.object_names import ObjectName, object_number
from gateway.sources.rabbitmq.reading import (
    ClassReader,
    Reading,
    class_readers,
    preferred,
    reference_positions,
)
from tests.components.shipped_mappings import shipped_mappings
from tests.sources.rabbitmq.documents import any_json, sample

MAPPING = shipped_mappings()["rabbitmq"]
MINIMUM: Mapping[str, dict[str, Json]] = {
    "node": {"name": "rabbit@shop"},
    "vhost": {"name": "/"},
    "queue": {"vhost": "/", "name": "q", "durable": True, "auto_delete": False, "exclusive": False},
    "exchange": {
        "vhost": "/",
        "name": "",
        "type": "direct",
        "durable": True,
        "auto_delete": False,
        "internal": False,
    },
    "connection": {"name": "a -> b"},
}
"""The minimal document of an object of each class."""


def readers() -> dict[str, ClassReader]:
    return class_readers(MAPPING)


def read(class_name: str, document: Json) -> Reading:
    reading = readers()[class_name].read(document)
    assert reading is not None
    return reading


def values(class_name: str, document: Json) -> dict[str, Value | None]:
    """Return the values that are read, by element, without absent ones."""
    reader = readers()[class_name]
    reading = reader.read(document)
    assert reading is not None
    reported = zip(reader.schema.elements, reading.properties + reading.statistics, strict=True)
    return {element.name: value for element, value in reported if value is not None}


def items(name: str) -> list[Any]:
    document = sample(name)
    return cast("list[Any]", document["items"] if isinstance(document, Mapping) else document)


def test_a_classic_queue_as_recorded() -> None:
    recorded = next(item for item in items("queues") if item["name"] == "qclassic" and item["vhost"] == "/")
    reported = values("queue", recorded)
    assert (
        reported.items()
        >= {
            "vhost": "/",
            "name": "qclassic",
            "type": "classic",
            "durable": True,
            "autoDelete": False,
            "exclusive": False,
            "arguments": {"x-max-priority": 3},
            "node": "rabbit@shop",
            "state": "running",
            "effectivePolicy": {},
            "messages": 0,
            "consumers": 1,
            "consumerCapacity": 1.0,
            "memory": 110328,
            "messagesPublished": 37,
            "messagesDelivered": 37,
            "messagesAcknowledged": 37,
            "messagesGot": 0,
            "messagesRedelivered": 0,
        }.items()
    )
    assert reported.keys().isdisjoint({"policy", "headMessageTime", "idleSince", "members", "exclusiveOwner"})


def test_an_idle_queue_says_since_when_and_no_traffic() -> None:
    recorded = next(item for item in items("queues") if item["name"].startswith("amq.gen-"))
    reported = values("queue", recorded)
    assert reported["exclusive"] is True
    assert reported["idleSince"] == 1795163247_757000000
    assert not {name for name in reported if name.startswith(("messagesPub", "messagesDel", "messagesAck"))}


def test_a_stream_has_fewer_statistics_and_is_never_exclusive() -> None:
    recorded = next(item for item in items("queues") if item["name"] == "qstream" and item["vhost"] == "/")
    without = {key: value for key, value in recorded.items() if key != "exclusive"}
    reported = values("queue", without)
    assert reported["exclusive"] is False
    assert reported["members"] == ("rabbit@shop",)
    assert reported["messages"] == 0
    assert "consumerCapacity" not in reported
    assert "messageOctets" not in reported


def test_a_node_as_recorded() -> None:
    recorded = {**items("nodes")[0], "gateway": {"start_time": 1795163231_000000000, "cluster_name": "shop"}}
    reported = values("node", recorded)
    assert (
        reported.items()
        >= {
            "name": "rabbit@shop",
            "version": "3.10.8",
            "osProcess": 7222,
            "clusterName": "shop",
            "startTime": 1795163231_000000000,
            "netTickTime": 60_000000000,
            "uptime": 26154_000000,
            "enabledPlugins": ("rabbitmq_management", "rabbitmq_event_exchange"),
            "partitions": (),
            "memoryAlarm": False,
            "memoryUsed": 137302016,
            "ioReadTime": 215000,
            "garbageCollections": 15222,
        }.items()
    )


def test_a_virtual_host_as_recorded() -> None:
    seen = next(item for item in items("vhosts") if item["name"] == "seen")
    reported = values("vhost", {**seen, "gateway": {"state": "running"}})
    assert (
        reported.items()
        >= {"name": "seen", "state": "running", "description": "d", "tags": ("a", "b")}.items()
    )
    assert "defaultQueueType" not in reported  # the broker says "undefined"
    assert "messagesPublished" not in reported


def test_an_exchange_without_traffic_has_no_statistics() -> None:
    default, direct = items("exchanges")[:2]
    assert read("exchange", default).statistics == (111, 111)
    assert read("exchange", direct).statistics == (None, None)
    assert read("exchange", default).name == ObjectName("exchange", ("/", ""))


def test_a_connection_as_recorded_without_its_secrets() -> None:
    (recorded,) = items("connections")
    assert "hush" in repr(recorded)
    reported = values("connection", recorded)
    assert (
        reported.items()
        >= {
            "user": "admin",
            "vhost": "/",
            "protocol": "AMQP 0-9-1",
            "peerHost": "127.0.0.1",
            "peerPort": 34366,
            "tls": False,
            "heartbeatTimeout": 60_000000000,
            "state": "running",
            "connectedAt": 1795163246_746000000,
            "channels": 1,
            "receivedOctets": 16248,
        }.items()
    )
    assert reported["clientProperties"].items() >= {"product": "aiormq"}.items()  # type: ignore[union-attr]
    assert "hush" not in repr(reported)


def test_passwords_in_uris_are_masked_wherever_they_stand() -> None:
    arguments: Json = {
        "upstream": "amqp://user:hush@host/v",
        "list": ["x", {"deep": "see amqp://user:hush@host and amqps://u:hush@h2"}],
        "amqp://user:hush@host": 1,
        "api_token": "hush",
    }
    reported = values("queue", {**MINIMUM["queue"], "arguments": arguments, "policy": "amqp://u:hush@h"})
    assert reported["arguments"] == {
        "upstream": "amqp://***@host/v",
        "list": ("x", {"deep": "see amqp://***@host and amqps://***@h2"}),
        "amqp://***@host": 1,
    }
    assert reported["policy"] == "amqp://***@h"


@pytest.mark.parametrize(
    ("element", "document"),
    [
        ("messages", {"messages": "many"}),
        ("messages", {"messages": True}),
        ("messages", {"messages": -1}),
        ("messages", {"messages": 2**64}),
        ("messages", {"messages": 1.5}),
        ("messages", {"messages": [1]}),
        ("consumers", {"consumers": 2**32}),
        ("consumerCapacity", {"consumer_capacity": "full"}),
        ("consumerCapacity", {"consumer_capacity": float("inf")}),
        ("consumerCapacity", {"consumer_capacity": 10**400}),
        ("headMessageTime", {"head_message_timestamp": "yesterday"}),
        ("headMessageTime", {"head_message_timestamp": 2**62}),
        ("idleSince", {"idle_since": "1931-01-01"}),
        ("state", {"state": 7}),
        ("state", {"state": "x" * 256}),
        ("policy", {"policy": "é" * 8000}),
        ("arguments", {"arguments": "none"}),
        ("arguments", {"arguments": {"big": "x" * 20_000}}),
        ("members", {"members": {"a": 1}}),
        ("node", {"node": 7}),
    ],
)
def test_a_value_of_another_type_is_absent_and_counted(element: str, document: dict[str, Json]) -> None:
    reader = readers()["queue"]
    reading = reader.read({**MINIMUM["queue"], **document})
    assert reading is not None
    position = reader.schema.positions[element]
    assert (reading.properties + reading.statistics)[position] is None
    assert dict(reader.unreadable) == {f"queue.{element}": 1}


@pytest.mark.parametrize(
    ("element", "document", "value"),
    [
        ("messages", {"messages": 3.0}, 3),
        ("messages", {"messages": "3"}, 3),
        ("idleSince", {"idle_since": "2023-11-14 22:13:20"}, 1700000000_000000000),
        ("idleSince", {"idle_since": "2023-11-14T23:13:20.5+01:00"}, 1700000000_500000000),
        ("headMessageTime", {"head_message_timestamp": 1700000000}, 1700000000_000000000),
        ("arguments", {"arguments": []}, {}),
        ("arguments", {"arguments": {"a": None, "b": 2**70, "c": 10**50}}, {"b": str(2**70)}),
        ("arguments", {"arguments": {"lone \ud800": "\ud83d\ude00 \udfff"}}, {"lone \ufffd": "😀 \ufffd"}),
        ("policy", {"policy": "\ud800"}, "\ufffd"),
        ("members", {"members": ["a", None, "b"]}, ("a", "b")),
        ("members", {"members": []}, ()),
    ],
)
def test_odd_but_clear_values_are_read(element: str, document: dict[str, Json], value: Value) -> None:
    assert values("queue", {**MINIMUM["queue"], **document})[element] == value


def test_collections_nested_too_deep_are_cut_off() -> None:
    deep: Json = 1
    for _ in range(100):
        deep = [deep]
    nested = values("queue", {**MINIMUM["queue"], "members": deep})["members"]
    assert repr(nested).count("(") < 20


def test_an_object_without_its_index_is_none() -> None:
    reader = readers()["queue"]
    documents: list[Json] = [None, [], {}, {"name": "q"}, {**MINIMUM["queue"], "durable": None}]
    for document in documents:
        assert reader.read(document) is None
    assert reader.unreadable["queue"] == len(documents)


@given(st.sampled_from(sorted(MINIMUM)), any_json())
def test_any_json_is_an_object_or_none(class_name: str, document: Json) -> None:
    readers()[class_name].read(document)


@given(st.sampled_from(sorted(MINIMUM)), st.data())
def test_any_values_can_be_served(class_name: str, data: st.DataObject) -> None:
    reader = readers()[class_name]
    keys = sorted({column.partition(".")[0] for column in reader.columns} | {"gateway"})
    extra = data.draw(st.dictionaries(st.sampled_from(keys), any_json(), max_size=8))
    reading = reader.read({**extra, **MINIMUM[class_name]})
    assert reading is not None
    properties = list(reading.properties)
    for position, _ in reference_positions(reader.schema):
        properties[position] = Reference("0-2-1-0-7")
    managed = ManagedObject(reader.schema.key, 1, 0, tuple(properties), reading.statistics, 1)
    AgentClass(reader.schema).encode(managed)


def test_the_columns_asked_for_are_those_that_are_read() -> None:
    columns = readers()["node"].columns
    assert {"name", "mem_used", "applications.name", "applications.version"} <= set(columns)
    assert not [column for column in columns if column.startswith("gateway")]


def test_object_numbers_depend_on_class_name_and_creation_and_stay_what_they_are() -> None:
    queue = ObjectName("queue", ("/", "orders"))
    assert object_number(queue, 0) == 0x2238EE8560881841
    others = [
        object_number(queue, 1),
        object_number(ObjectName("exchange", ("/", "orders")), 0),
        object_number(ObjectName("queue", ("/orders", "")), 0),
        object_number(ObjectName("queue", ("/or", "ders")), 0),
    ]
    assert len({object_number(queue, 0), *others}) == 5


def test_what_is_fixed_at_creation_is_kept_where_an_answer_lacks_it_or_has_it_empty() -> None:
    """RabbitMQ 4.3 lists connections of STOMP with empty client properties, and shows each with them."""
    said: Value = {"product": "STOMP client"}
    empty: Value = {}
    for old, new in ((said, empty), (empty, said), (said, None), (None, said)):
        assert preferred(old, new, keep=True, old_first=False) == said
        assert preferred(old, new, keep=True, old_first=True) == said
    assert preferred(said, empty, keep=False, old_first=False) == empty
    assert preferred(said, None, keep=False, old_first=False) is None
    assert preferred(empty, None, keep=True, old_first=False) == empty
