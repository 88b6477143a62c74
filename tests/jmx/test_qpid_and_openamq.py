"""Classes of recorded Qpid brokers and of a recorded OpenAMQ in JMX."""

from __future__ import annotations

import pytest

from gateway.inventory.classes import ClassRegistry
from gateway.jmx.classes import ShownClass, shown_class
from gateway.jmx.commands import Attribute, AttributeType
from gateway.mapping.files import applied_event
from gateway.model.schema import ClassSchema, EventSchema
from tests.mapping.recorded_schemas import (
    JAVA,
    MAPPINGS,
    OPENAMQ,
    PACKAGES,
    QPID,
    QPIDD,
    recorded,
    recorded_class,
)


def shown(schema: ClassSchema) -> ShownClass:
    """Return the class as the core publishes it, with its mapping; only CML has a request to set."""
    natively = schema.key.package == OPENAMQ
    record = ClassRegistry(MAPPINGS).class_record(schema, sets_natively=natively)
    return shown_class(record, lambda _class_name, _element: "")


def attribute(shown_class: ShownClass, name: str) -> Attribute:
    return next(each for each in shown_class.attributes if each.name == name)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_element_is_shown_under_its_own_name_with_a_description(package: str) -> None:
    for schema in recorded(package):
        if isinstance(schema, ClassSchema):
            attributes = {each.name: each.description for each in shown(schema).attributes}
            # But for those that are called as one of the gateway's own, such as `Name`.
            assert {element.name for element in schema.elements} - {"name", "source"} <= set(attributes)
            assert all(attributes.values())


@pytest.mark.parametrize(
    ("package", "class_name", "name", "type_", "notifies"),
    [
        (QPID, "queue", "vhostRef", AttributeType.OBJECT_NAME, False),
        (QPID, "queue", "arguments", AttributeType.MAP, True),
        (QPID, "queue", "msgDepth", AttributeType.LONG, False),
        (QPID, "queue", "flowStopped", AttributeType.BOOLEAN, True),
        (QPID, "system", "systemId", AttributeType.STRING, False),
        (QPID, "session", "expireTime", AttributeType.DATE, True),
        (OPENAMQ, "broker", "locked", AttributeType.BOOLEAN, True),
        (OPENAMQ, "broker", "config", AttributeType.OBJECT_NAME, True),
        (OPENAMQ, "queue", "pending", AttributeType.LONG, False),
        (OPENAMQ, "queue", "parentRef", AttributeType.OBJECT_NAME, False),
    ],
)
def test_attributes(package: str, class_name: str, name: str, type_: AttributeType, notifies: bool) -> None:  # noqa: FBT001  expected
    found = attribute(shown(recorded_class(class_name, package)), name)
    assert (found.type, found.notifies) == (type_, notifies)


@pytest.mark.parametrize(
    ("package", "class_name", "writable", "others"),
    [
        (OPENAMQ, "config", {"port", "monitor", "keep_logs"}, {"name_", "auto_crash", "auto_block"}),
        (OPENAMQ, "connection", {"trace"}, {"name_", "messages_in"}),
        (QPID, "broker", set(), {"mgmtPubInterval"}),
    ],
)
def test_attributes_are_writable_where_the_dialect_sets_them(
    package: str, class_name: str, writable: set[str], others: set[str]
) -> None:
    found = {each.name: each.writable for each in shown(recorded_class(class_name, package)).attributes}
    assert {name for name in writable | others if found[name]} == writable


def test_a_queue_looks_the_same_in_both_brokers_as_far_as_both_report_it() -> None:
    cpp, java = (shown(recorded_class("queue", QPID, peer)) for peer in (QPIDD, JAVA))
    both = {each.name for each in java.attributes}
    assert len(both) > 40
    for name in both - {"exclusive"}:  # which the Java broker settles at creation
        mine, other = attribute(cpp, name), attribute(java, name)
        assert (mine.type, mine.description, mine.notifies) == (other.type, other.description, other.notifies)


def test_numbers_say_how_they_behave() -> None:
    queue = shown(recorded_class("queue", QPID))
    reported = {}
    for name in ("msgDepth", "msgTotalEnqueues", "consumerCountHigh"):
        fields = attribute(queue, name).descriptor or {}
        reported[name] = fields["kind"], fields["units"]
    assert reported == {
        "msgDepth": ("gauge", "messages"),
        "msgTotalEnqueues": ("counter", "messages"),
        "consumerCountHigh": ("high", "consumers"),
    }


def test_a_queue_emits_the_events_that_name_it() -> None:
    events = [
        applied_event(MAPPINGS[QPID], schema) for schema in recorded(QPID) if isinstance(schema, EventSchema)
    ]
    defined = shown(recorded_class("queue", QPID)).define(1, events)
    emitted = {each.type.rpartition(".")[2] for each in defined.notifications}
    assert {"queueThresholdCrossedUpward", "queueDelete", "subscribe"} <= emitted
    assert "exchangeDelete" not in emitted


@pytest.mark.parametrize(
    ("package", "below_their_parent"),
    [
        (
            QPID,
            {"vhost", "queue", "exchange", "binding", "connection", "link", "bridge", "agent"},
        ),
        (
            OPENAMQ,
            {
                *("exchange", "queue", "connection", "config"),
                *("binding", "queue_connection", "queue_binding", "connection_queue"),
            },
        ),
    ],
)
def test_what_is_named_after_its_parent_is_below_it(package: str, below_their_parent: set[str]) -> None:
    classes = [schema for schema in recorded(package) if isinstance(schema, ClassSchema)]
    assert {schema.key.name for schema in classes if shown(schema).has_parent} == below_their_parent
