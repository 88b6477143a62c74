"""The descriptions of classes, and their versions."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from gateway.feed.records import ClassRecord
from gateway.jmx.classes import MAX_VERSIONS, Own
from gateway.jmx.commands import AttributeType
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import ValueType
from tests.components.shop import agent, source, update
from tests.jmx.shop import NAME, TILL, Gateway, classes, delete, hall, hall_name, till, till_name


def test_descriptors_say_what_the_schema_does(gateway: Gateway) -> None:
    sales = gateway.machine.attribute(till_name(), "sales")
    assert (sales.type, sales.description) == (AttributeType.LONG, "Sales made.")
    assert sales.descriptor == {
        "element": "statistic",
        "units": "sales",
        "kind": "counter",
        "metricType": "counter",
        "sampleTime": "SampleTime",
        "oid": "1.3.9.5",
    }
    waiting = gateway.machine.attribute(till_name(), "waiting").descriptor or {}
    assert (waiting["displayName"], waiting["metricType"]) == ("Waiting", "gauge")
    assert (gateway.machine.attribute(till_name(), "idle").descriptor or {})["units"] == "nanoseconds"
    number = gateway.machine.attribute(till_name(), "number")
    assert (number.type, number.minimum, number.maximum) == (AttributeType.BIG_INTEGER, 1, 2**64 - 1)
    assert gateway.machine.attribute(till_name(), "state").legal == ("open", "closed")


def test_changes_of_states_and_configuration_are_reported_and_of_nothing_else(gateway: Gateway) -> None:
    definition = gateway.machine.beans[gateway.machine.names[till_name()]].definition
    assert [a.name for a in definition.attributes if a.notifies] == ["state", "next", "number", "tags"]
    assert [n.type for n in definition.notifications] == [
        "amqp.gateway.shop.tillBurns",
        "amqp.gateway.gateway.alarmRaised",
        "amqp.gateway.gateway.alarmCleared",
    ]
    hall_definition = gateway.machine.beans[gateway.machine.names[hall_name()]].definition
    assert [a.name for a in hall_definition.attributes if a.notifies] == []
    assert hall_definition.notifications == definition.notifications[1:]


ODD = ClassSchema(
    ClassKey("odd", "class"),
    properties=(
        Element("Stale", ValueType.U8),
        Element(" ", ValueType.U8),
        Element("twice", ValueType.U8),
        Element("secret", ValueType.STRING, readable=False),
        Element("twice", ValueType.STRING),
    ),
)


def test_elements_with_odd_names_are_all_shown(gateway: Gateway) -> None:
    gateway.publish(
        ClassRecord(30, ODD, "", ""), till(1, {0: 1, 1: 2, 2: 3, 3: "hidden", 4: "4"}, class_number=30)
    )
    (name,) = [name for name in gateway.machine.names if "type=class" in name]
    shown = gateway.machine.read(name)
    assert {key: shown[key] for key in list(shown)[len(Own) :]} == {
        "Stale_": 1,
        "element1": 2,
        "twice": 3,
        "twice_": "4",
        "Stale": False,
    }


def test_a_class_is_defined_with_its_first_object() -> None:
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source(), *classes(), hall())
    assert sorted(d.name for d in gateway.machine.definitions.values()) == [
        "amqp.gateway.Gateway",
        "amqp.gateway.Source",
        "amqp.gateway.shop.hall",
    ]


def test_a_later_version_of_a_class_lives_beside_the_former(gateway: Gateway) -> None:
    wider = replace(
        TILL,
        key=replace(TILL.key, hash=b"other"),
        statistics=(*TILL.statistics, Element("returns", ValueType.U32)),
    )
    gateway.publish(ClassRecord(21, wider, "name", "hall"), till(3, {NAME: "till3", 9: 4}, class_number=21))
    assert gateway.till(3)["returns"] == 4
    assert "returns" not in gateway.till(1)
    gateway.publish(delete(1), till(1, {NAME: "till1", 9: 5}, class_number=21))
    assert gateway.till(1)["returns"] == 5


def test_an_object_whose_class_grows_keeps_its_mbean(gateway: Gateway) -> None:
    history = list(gateway.machine.history)
    wider = replace(TILL, statistics=(*TILL.statistics, Element("returns", ValueType.U32)))
    gateway.publish(
        ClassRecord(21, wider, "name", "hall"),
        *(delete(1, number=0), till(1, {NAME: "till1", 9: 5}, class_number=21)),
        *(delete(2, number=0), till(2, {NAME: "till2", 9: 6}, class_number=21)),
    )
    assert [gateway.till(row)["returns"] for row in (1, 2)] == [5, 6]
    gateway.publish(msgspec.structs.replace(update(1, {9: 7}), class_number=21))
    assert gateway.till(1)["returns"] == 7
    assert gateway.machine.history == history


def test_a_new_core_may_number_classes_again_and_nothing_is_registered_again(gateway: Gateway) -> None:
    history = list(gateway.machine.history)
    gateway.disconnect()
    gateway.hello(epoch=2)
    swapped = [msgspec.structs.replace(record, number=30 - record.number) for record in classes()[:2]]
    gateway.snapshot(
        source(),
        *swapped,
        agent(fresh=True),
        msgspec.structs.replace(hall(), class_number=20),
        till(1, class_number=10),
    )
    gateway.settle()
    assert gateway.till()["sales"] == 10
    assert gateway.machine.history == [*history, f"-{till_name(2)}"]


def test_versions_without_objects_are_forgotten_and_their_numbers_used_again(gateway: Gateway) -> None:
    known = set(gateway.machine.definitions)
    for version in range(2, 10):
        gateway.hello(epoch=version)
        newer = ClassRecord(20, replace(TILL, description=f"version {version}"), "name", "hall")
        gateway.snapshot(source(), newer, agent(fresh=True), till(1))
        gateway.settle()
    assert set(gateway.machine.definitions) <= known | {max(known) + 1, max(known) + 2}
    assert "version 9" in {d.description for d in gateway.machine.definitions.values()}


def test_versions_are_bounded(gateway: Gateway) -> None:
    gateway.publish(
        *(
            ClassRecord(number, replace(TILL, key=ClassKey("shop", f"till{number}")), "", "")
            for number in range(100, 101 + MAX_VERSIONS)
        )
    )
    assert [event for event, _ in gateway.logged] == ["class-not-shown"]
