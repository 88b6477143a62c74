"""Objects and events of a Qpid broker by its mapping: their subjects, and lasting conditions."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.feed.records import AlarmRecord, EventRecord, Lifetime
from gateway.feed.values import ObjectLink
from gateway.model.observations import EventSeen, EventState, ObjectSeen, Severity
from gateway.model.schema import ClassSchema, EventSchema
from gateway.model.times import SECOND
from gateway.model.values import Reference, Value
from tests.dialects.qmf.recordings import definitions
from tests.inventory.playbook import AGENT, NOW, Playbook, of
from tests.mapping.recorded_schemas import MAPPINGS, QPID, QPIDD

SCHEMAS = {each.key.name: each.schema for each in definitions(QPIDD) if each.key.package == QPID}


def seen(class_name: str, native_id: str, **properties: Value) -> ObjectSeen:
    """Return an observation of an object without statistics; missing properties are absent."""
    schema = SCHEMAS[class_name]
    assert isinstance(schema, ClassSchema)
    values = tuple(properties.get(each.name) for each in schema.properties)
    return ObjectSeen(schema.key, AGENT, native_id, NOW, 1, 0, values, None)


def queue(name: str, native_id: str, *, vhost: str = "v1", **properties: Value) -> ObjectSeen:
    return seen(
        "queue", native_id, vhostRef=Reference(vhost), name=name, **{"autoDelete": False, **properties}
    )


def binding(key: str, native_id: str, queue_id: str) -> ObjectSeen:
    ends = {"exchangeRef": Reference("x1"), "queueRef": Reference(queue_id)}
    return seen("binding", native_id, bindingKey=key, **ends)


def event(name: str, **arguments: Value) -> EventSeen:
    schema = SCHEMAS[name]
    assert isinstance(schema, EventSchema)
    values = tuple(arguments.get(argument.name) for argument in schema.arguments)
    return EventSeen(schema.key, AGENT, NOW, Severity.INFO, values)


BROKER = (
    seen("system", "s1", nodeName="east"),
    seen("broker", "b1", name="amqp-broker", systemRef=Reference("s1")),
    seen("vhost", "v1", brokerRef=Reference("b1"), name="/"),
    seen("exchange", "x1", vhostRef=Reference("v1"), name="amq.topic", autoDelete=False),
)


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    playbook = Playbook(tmp_path, mapping=MAPPINGS[QPID], schemas=tuple(SCHEMAS.values()))
    playbook.synchronise(*BROKER, queue("orders", "q1"), queue("bills", "q2"))
    return playbook


def reported(playbook: Playbook, seen: EventSeen) -> EventRecord:
    (record,) = of(EventRecord, playbook.publish(seen))
    return record


def alarms(playbook: Playbook) -> list[tuple[str, str]]:
    """Return the active alarms, with the name of their object."""
    standing = of(AlarmRecord, playbook.snapshot())
    return [(one.name, one.subject.stable_name if one.subject else "") for one in standing]


def test_a_threshold_that_is_crossed_is_an_alarm_of_the_queue_that_is_named(
    playbook: Playbook,
) -> None:
    up = reported(playbook, event("queueThresholdCrossedUpward", qName="orders", msgDepth=80, byteDepth=9000))
    assert up.subject == ObjectLink(f"{QPID}:queue", 1, r"amqp-broker\|/|orders")
    assert (up.state, up.severity) == (EventState.RAISED, Severity.WARNING)
    assert up.text == "Queue orders has reached its threshold: 80 messages, 9000 octets"
    reported(playbook, event("queueThresholdCrossedUpward", qName="bills", msgDepth=80, byteDepth=9000))
    assert [name for name, _ in alarms(playbook)] == ["queueThreshold", "queueThreshold"]
    down = reported(
        playbook, event("queueThresholdCrossedDownward", qName="orders", msgDepth=3, byteDepth=90)
    )
    assert (down.state, down.condition) == (EventState.CLEARED, up.condition)
    ((name, of_queue),) = alarms(playbook)
    assert name == "queueThreshold"
    assert of_queue.endswith("|bills")


def test_an_event_about_an_object_that_is_not_known_stands_for_itself(playbook: Playbook) -> None:
    record = reported(playbook, event("queueThresholdCrossedUpward", qName="gone", msgDepth=80, byteDepth=1))
    assert (record.subject, record.state) == (None, EventState.ONE_SHOT)
    assert alarms(playbook) == []


def test_a_name_that_two_objects_have_leads_to_neither_until_one_is_gone(playbook: Playbook) -> None:
    playbook.publish(seen("vhost", "v2", brokerRef=Reference("b1"), name="other"))
    playbook.publish(queue("orders", "q3", vhost="v2"))
    assert reported(playbook, event("queueDelete", qName="orders")).subject is None
    playbook.synchronise(*BROKER, queue("orders", "q1"), queue("bills", "q2"))
    subject = reported(playbook, event("queueDelete", qName="orders")).subject
    assert subject is not None
    assert subject.row == playbook.objects()[subject.stable_name].row


def test_a_queue_that_comes_back_after_a_restart_is_found_by_its_name(playbook: Playbook) -> None:
    playbook.now += SECOND
    again = (*BROKER[:3], queue("orders", "q9"))
    playbook.synchronise(*again, restarted=True)
    subject = reported(playbook, event("queueDelete", qName="orders")).subject
    assert subject is not None
    assert playbook.objects()[subject.stable_name].native_id == "q9"
    assert reported(playbook, event("queueDelete", qName="bills")).subject is None, "it was not told again"


def test_a_connection_is_found_by_its_address(playbook: Playbook) -> None:
    playbook.publish(
        seen("connection", "c1", vhostRef=Reference("v1"), address="10.0.0.1:5672-10.0.0.2:4711")
    )
    record = reported(playbook, event("clientDisconnect", rhost="10.0.0.1:5672-10.0.0.2:4711", user="joe"))
    assert record.subject is not None
    assert record.subject.class_name == f"{QPID}:connection"
    assert record.text == "Client of joe disconnected: 10.0.0.1:5672-10.0.0.2:4711"


def test_a_link_that_waits_is_an_alarm_with_the_reason(playbook: Playbook) -> None:
    link = seen("link", "l1", vhostRef=Reference("v1"), name="east-west", host="west", port=5672)
    for state, error, standing in (("Waiting", "Connection refused", 1), ("Operational", "", 0)):
        playbook.publish(
            ObjectSeen(link.key, AGENT, "l1", NOW, 1, 0, link.properties, (state, error)),
        )
        assert len(alarms(playbook)) == standing


def test_a_binding_lasts_as_long_as_its_queue_can(playbook: Playbook) -> None:
    playbook.publish(queue("replies", "q3", autoDelete=True), queue("topics", "q4", exclusive=True))
    for number, queue_id in enumerate(("q1", "q3", "q4")):
        playbook.publish(binding("key", f"k{number}", queue_id))
    lifetimes = {record.native_id: record.lifetime for record in playbook.objects().values()}
    assert (lifetimes["q1"], lifetimes["k0"]) == (Lifetime.DURABLE, Lifetime.DURABLE)
    assert (lifetimes["q3"], lifetimes["k1"]) == (Lifetime.TRANSIENT, Lifetime.TRANSIENT)
    assert (lifetimes["q4"], lifetimes["k2"]) == (Lifetime.DURABLE, Lifetime.DURABLE)
