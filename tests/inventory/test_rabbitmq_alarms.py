"""The texts of the alarms of a RabbitMQ's queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.mapping.paths import Json
from gateway.model.observations import EventState, ObjectSeen
from gateway.model.times import SECOND
from gateway.model.values import Reference
from gateway.sources.rabbitmq.listing import completed_queue
from gateway.sources.rabbitmq.reading import class_readers
from tests.components.shipped_mappings import shipped_mappings
from tests.inventory.plant import alarms, events, standing
from tests.inventory.playbook import AGENT, NOW, Playbook

MAPPING = shipped_mappings()["rabbitmq"]
READERS = class_readers(MAPPING)
NODES: list[Json] = ["rabbit@a", "rabbit@b", "rabbit@c"]
MINORITY = 'Queue orders of virtual host / lacks the majority of its replicas: online are ["rabbit@c"]'


def seen(class_name: str, document: dict[str, Json]) -> ObjectSeen:
    """Return the observation of an object in a listing, with the leaf of its name as native id."""
    reader = READERS[class_name]
    reading = reader.read(document)
    assert reading is not None
    properties = [
        Reference(str(value)) if element.references and value is not None else value
        for element, value in zip(reader.schema.properties, reading.properties, strict=True)
    ]
    return ObjectSeen(
        reader.schema.key,
        AGENT,
        reading.name.leaf,
        NOW,
        0,
        0,
        tuple(properties),
        reading.statistics or None,
    )


def orders(**more: Json) -> ObjectSeen:
    """Return a quorum queue on three nodes, as in RabbitMQ's management API."""
    document: dict[str, Json] = {
        "vhost": "/",
        "name": "orders",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "type": "quorum",
        "members": [*NODES],
        "online": [*NODES],
        "state": "running",
        **more,
    }
    return seen("queue", dict(completed_queue(document)))


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    schemas = [reader.schema for reader in READERS.values()]
    playbook = Playbook(tmp_path, mapping=MAPPING, schemas=schemas)
    playbook.synchronise(seen("vhost", {"name": "/", "cluster_state": {}}), orders())
    playbook.now += 60 * SECOND
    return playbook


@pytest.mark.parametrize(
    "state", ["minority", "running"]
)  # of RabbitMQ 4.0, and of 3.10 on the leader's node
def test_a_queue_in_a_minority_names_the_nodes_whose_replica_is_online(
    playbook: Playbook, state: str
) -> None:
    assert not alarms(playbook.publish(orders(online=["rabbit@c"], state=state)))
    records = playbook.tick(16)
    (alarm,), (event,) = alarms(records), events(records)
    assert (alarm.name, alarm.text) == ("queueMinority", MINORITY)
    assert (event.state, event.text) == (EventState.RAISED, MINORITY)


def test_a_stream_that_elects_its_leader_raises_no_alarm(playbook: Playbook) -> None:
    playbook.publish(orders(type="stream", online=NODES[:2], state="down"))
    playbook.tick(60)
    assert standing(playbook) == []
    playbook.publish(orders(type="stream", online=[], state="down"))
    playbook.tick(16)
    assert standing(playbook) == ["queueDown"]


@pytest.mark.parametrize(
    "trouble",
    [
        *({"type": "classic", "members": None, "online": None, "state": one} for one in ("down", "crashed")),
        {"online": ["rabbit@c"], "state": "minority"},
    ],
    ids=lambda one: one["state"],
)
def test_a_queue_that_is_in_trouble_while_its_node_starts_raises_no_alarm(
    playbook: Playbook, trouble: dict[str, Json]
) -> None:
    for _ in range(5):
        assert not alarms(playbook.publish(orders(**trouble)))
        assert not alarms(playbook.tick(14))
        assert not alarms(playbook.publish(orders()))
        assert not alarms(playbook.tick(14))
    assert standing(playbook) == []


def deprecated(*, used: bool | None) -> ObjectSeen:
    return seen("deprecatedFeature", {"name": "old", "gateway": {"in_use": used}})


def node(**gateway: Json) -> ObjectSeen:
    return seen("node", {"name": "rabbit@a", "running": True, "gateway": gateway})


@pytest.mark.parametrize(
    ("shown", "unknown", "over"),
    [
        (deprecated(used=True), deprecated(used=None), deprecated(used=False)),
        (node(certificates_expiring=True), node(), node(certificates_expiring=False)),
        (orders(state="crashed"), orders(state=None), orders()),
        (
            seen("vhost", {"name": "/", "gateway": {"state": "stopped"}}),
            seen("vhost", {"name": "/", "gateway": {"state": None}}),
            seen("vhost", {"name": "/", "gateway": {"state": "running"}}),
        ),
    ],
    ids=["deprecated feature", "certificate", "queue", "virtual host"],
)
def test_a_reading_that_fails_neither_raises_nor_clears(
    playbook: Playbook, shown: ObjectSeen, unknown: ObjectSeen, over: ObjectSeen
) -> None:
    assert not alarms([*playbook.publish(unknown), *playbook.tick(20)])
    (raised,) = alarms([*playbook.publish(shown), *playbook.tick(20)])
    assert not alarms([*playbook.publish(unknown), *playbook.tick(60)])
    assert standing(playbook) == [raised.name]
    (cleared,) = alarms([*playbook.publish(over), *playbook.tick(20)])
    assert (cleared.name, bool(cleared.cleared)) == (raised.name, True)


def test_every_alarm_of_an_element_that_may_be_unknown_stays_while_it_is() -> None:
    """Of a node that does not run nothing else is known, and its resources are short no more."""
    decided = {
        name
        for one in MAPPING.classes.values()
        for name, rule in one.alarms.items()
        if not rule.absent_is_unknown
    }
    assert decided == {"memoryAlarm", "diskFreeAlarm", "partitioned"}


def test_a_queue_that_stays_down_raises_an_alarm(playbook: Playbook) -> None:
    classic = {"type": "classic", "members": None, "online": None}
    assert not alarms(playbook.publish(orders(**classic, state="down")))
    playbook.tick(10)
    assert not alarms(playbook.publish(orders(**classic, state="down")))
    (alarm,) = alarms(playbook.tick(6))
    assert alarm.name == "queueDown"
    (alarm,) = alarms(playbook.publish(orders(**classic, state="running")))
    assert (alarm.name, bool(alarm.cleared)) == ("queueDown", True)
