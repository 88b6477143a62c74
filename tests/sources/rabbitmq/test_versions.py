"""Differences between the versions of RabbitMQ, as they were found in answers of each version."""

from __future__ import annotations

import pytest
from hypothesis import given

from gateway.mapping.paths import Json
from gateway.mapping.rules import ClassRule
from gateway.model.values import Value
from gateway.sources.rabbitmq.listing import completed_queue
from gateway.sources.rabbitmq.reading import class_readers, version_of
from tests.components.shipped_mappings import shipped_mappings
from tests.sources.rabbitmq.documents import any_json
from tests.sources.rabbitmq.imitation import NODE
from tests.sources.rabbitmq.story import world

MAPPING = shipped_mappings()["rabbitmq"]
NOT_MEASURED_SINCE_4_0 = {
    "socketLimit": "sockets_total",
    "socketsUsed": "sockets_used",
    "ioReads": "io_read_count",
    "ioReadOctets": "io_read_bytes",
    "ioReadTime": "io_read_avg_time",
    "ioWrites": "io_write_count",
    "ioWriteOctets": "io_write_bytes",
    "ioWriteTime": "io_write_avg_time",
    "ioSyncs": "io_sync_count",
    "ioSyncTime": "io_sync_avg_time",
    "ioSeeks": "io_seek_count",
    "ioSeekTime": "io_seek_avg_time",
    "ioReopens": "io_reopen_count",
    "definitionMemoryTransactions": "mnesia_ram_tx_count",
    "definitionDiskTransactions": "mnesia_disk_tx_count",
    "messageStoreReads": "msg_store_read_count",
    "messageStoreWrites": "msg_store_write_count",
    "queueIndexReads": "queue_index_read_count",
    "queueIndexWrites": "queue_index_write_count",
}
COUNTERS = (
    "messagesPublished",
    "messagesDelivered",
    "messagesDeliveredWithoutAck",
    "messagesGot",
    "messagesGotWithoutAck",
    "messagesDeliveredOrGot",
    "getsEmpty",
    "messagesRedelivered",
    "messagesAcknowledged",
)


def node_values(version: Json) -> dict[str, Value | None]:
    """Return the values that are read of a node of a version that answers zeros."""
    reader = class_readers(MAPPING)["node"]
    document: dict[str, Json] = dict.fromkeys(NOT_MEASURED_SINCE_4_0.values(), 0)
    document |= {"name": NODE, "fd_used": 52, "applications": [{"name": "rabbit", "version": version}]}
    reading = reader.read(document)
    assert reading is not None
    reported = zip(reader.schema.elements, reading.properties + reading.statistics, strict=True)
    return {element.name: value for element, value in reported}


@pytest.mark.parametrize("version", ["3.10.8", "3.13.7", "3.13.7+12.g0a1b2c"])
def test_zeros_of_a_version_that_measures_are_shown(version: str) -> None:
    reported = node_values(version)
    assert {reported[name] for name in NOT_MEASURED_SINCE_4_0} == {0}


@pytest.mark.parametrize("version", ["4.0.5", "4.3.6", "4.0.0-beta.1", "10.1", "", "git", None, 4])
def test_zeros_of_a_version_that_does_not_measure_or_is_not_known_are_absent(version: Json) -> None:
    reported = node_values(version)
    assert {reported[name] for name in NOT_MEASURED_SINCE_4_0} == {None}
    assert reported["fileDescriptorsUsed"] == 52


def test_a_mapping_that_names_a_version_says_where_that_stands() -> None:
    with pytest.raises(ValueError, match="'until' needs the 'version' of the class"):
        ClassRule.model_validate({"statistics": {"reads": {"type": "u64", "until": "4.0"}}})
    with pytest.raises(ValueError, match="version: 'release' is not one of the properties"):
        ClassRule.model_validate({"version": "release"})


@given(any_json())
def test_any_version_is_numbers_or_none(version: Json) -> None:
    assert all(isinstance(number, int) for number in version_of(version))


def tag_of(**queue: Json) -> Json:
    gateway = completed_queue(queue).get("gateway")
    return gateway["single_active_consumer_tag"] if isinstance(gateway, dict) else None


def test_a_single_active_consumer_is_shown_where_that_is_in_use() -> None:
    asked: dict[str, Json] = {"x-single-active-consumer": True}
    assert tag_of(arguments=asked, single_active_consumer_tag="c1") == "c1"
    assert tag_of(arguments=asked, single_active_consumer_ctag="c2") == "c2"  # a quorum queue of 3.10
    by_policy: dict[str, Json] = {"single-active-consumer": True}
    assert tag_of(effective_policy_definition=by_policy, single_active_consumer_tag="c3") == "c3"
    assert tag_of(arguments=asked, single_active_consumer_tag="") is None


def test_an_ordinary_quorum_queue_of_4_0_has_no_single_active_consumer_although_it_names_one() -> None:
    assert tag_of(arguments={"x-queue-type": "quorum"}, single_active_consumer_tag="c1") is None
    assert tag_of(arguments={"x-single-active-consumer": False}, single_active_consumer_tag="c1") is None


@given(any_json(), any_json())
def test_any_arguments_and_policy_of_a_queue_can_be_looked_at(arguments: Json, policy: Json) -> None:
    queue = {"arguments": arguments, "effective_policy_definition": policy, "single_active_consumer_tag": "c"}
    assert completed_queue(queue)["arguments"] == arguments


def counters(**queue: Json) -> set[Json]:
    """Return the set of the counters' values of a queue on a broker with one node."""
    shop = world()
    shop.broker.objects["node"][NODE,]["rates_mode"] = "basic"
    shop.broker.add_queue("fresh")
    shop.broker.objects["queue"]["/", "fresh"] |= queue
    shop.run(12)
    return {shop.value("queue", "fresh", name) for name in COUNTERS}


def test_counters_that_a_measured_queue_does_not_have_are_zero() -> None:
    assert counters(messages=0) == {0}
    assert counters(messages=7, type="quorum") == {0}
    assert counters(messages=7, message_stats={"publish": 7}) == {0, 7}


def test_counters_of_a_queue_that_is_not_measured_are_absent() -> None:
    assert counters() == {None}  # for some seconds after a restart
    assert counters(messages=7, type="stream") == {None}
    assert counters(messages=0, type="rabbit_mqtt_qos0_queue") == {None}


@pytest.mark.parametrize("node", [{"rates_mode": "none"}, {"rates_mode": "basic", "running": False}])
def test_counters_that_a_node_does_not_report_are_absent(node: dict[str, Json]) -> None:
    shop = world()
    shop.broker.objects["node"][NODE,] |= node
    shop.broker.add_queue("fresh", messages=0)
    shop.run(12)
    assert shop.value("queue", "fresh", "messagesPublished") is None


def test_what_a_newer_broker_calls_states_and_types_is_shown_as_it_says() -> None:
    shop = world()
    shop.queue_created("mqtt", type="rabbit_mqtt_qos0_queue")
    shop.broker.add_queue("mqtt", type="rabbit_mqtt_qos0_queue")
    shop.broker.add_queue("later", type="of-5.0", state="of-5.0 too")
    shop.run(12)
    assert shop.value("queue", "mqtt", "type") == "rabbit_mqtt_qos0_queue"
    assert shop.value("queue", "later", "type") == "of-5.0"
    assert shop.value("queue", "later", "state") == "of-5.0 too"
    assert not {place for place in shop.source.unreadable if place.startswith("queue")}


def test_policies_may_be_for_kinds_of_queues() -> None:
    kinds = {"classic_queues", "quorum_queues", "streams"}
    policy = MAPPING.classes["policy"]
    assert kinds <= set(policy.properties["appliesTo"].values)
    assert kinds <= set(policy.methods["setAppliesTo"].arguments["appliesTo"].values)


def test_a_permission_of_nothing_is_reported_as_empty() -> None:
    shop = world()
    shop.event("permission.created", vhost="/", user="bob", configure="", write="", read="^a$")
    shop.run(1)
    (reported,) = [event for event in shop.events() if event.name == "permissionSet"]
    assert (reported.arguments["configure"], reported.arguments["write"]) == ("", "")


@pytest.mark.parametrize(
    ("queue", "state"),
    [
        ({"members": ["a", "b", "c"], "online": ["c"], "leader": None}, "minority"),  # 3.10.8
        ({"members": ["a", "b", "c"], "online": ["b", "c"]}, None),
        ({"members": ["a", "b"], "online": ["a"]}, "minority"),
        ({"members": ["a", "b", "c"], "online": ["c"], "leader": "c", "state": "running"}, "minority"),
        ({"members": ["a", "b", "c"], "online": ["c"], "state": "down"}, "down"),
        ({"members": [], "online": [], "state": "running"}, "running"),
        ({"members": "a", "online": []}, None),
        ({}, None),
    ],
)
def test_a_queue_that_lacks_a_majority_is_in_minority_whatever_release(
    queue: dict[str, Json], state: str | None
) -> None:
    assert completed_queue(queue).get("state") == state


@pytest.mark.parametrize(
    ("queue", "state"),
    [
        ({"type": "stream", "state": "down", "members": ["a", "b", "c"], "online": ["b", "c"]}, "electing"),
        ({"type": "stream", "state": "down", "members": ["a", "b", "c"], "online": ["c"]}, "down"),
        ({"type": "stream", "state": "down", "members": ["a"], "online": []}, "down"),
        ({"type": "stream", "state": "down"}, "down"),
        ({"type": "classic", "state": "down", "members": ["a"], "online": ["a"]}, "down"),
        ({"type": "stream", "state": "running", "members": ["a"], "online": ["a"]}, "running"),
    ],
)
def test_a_stream_that_elects_its_leader_is_not_down(queue: dict[str, Json], state: str) -> None:
    """Otherwise its alarm `queueDown` would be raised for some seconds whenever a leader's node stops."""
    assert completed_queue(queue).get("state") == state
