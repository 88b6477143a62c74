"""The names of objects and elements in SNMP and JMX, in both directions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.schema import ClassKey
from gateway.service.diagnostics.published_names import PublishedNames
from gateway.snmp.oid_registry import DEFAULT_ROOT
from gateway.terminal.view import ObjectKey
from tests.components.shipped_mappings import shipped_registries
from tests.terminal.reported import known_shop, till

REGISTRIES = shipped_registries()
NAMES = PublishedNames(DEFAULT_ROOT, REGISTRIES, {})
ROOT = ".".join(map(str, DEFAULT_ROOT))
QUEUE = ClassKey("rabbitmq", "queue")
MIB = "AMQP-GATEWAY-RABBITMQ-MIB::"


@pytest.mark.parametrize(
    ("oid", "descriptor"),
    [
        (f"{ROOT}.2.1", MIB.strip(":")),
        (f"{ROOT}.2.1.1.3", f"{MIB}rmqQueueTable"),
        (f"{ROOT}.2.1.1.3.1", f"{MIB}rmqQueueEntry"),
        (f"{ROOT}.2.1.1.3.1.2", f"{MIB}rmqQueueRowName"),
        (f"{ROOT}.2.1.1.3.1.2.7.9", f"{MIB}rmqQueueRowName.7.9"),
        (f".{ROOT}.2.1.1.3.1.129.7.9", f"{MIB}rmqQueueMessagesReady.7.9"),
        (f"{ROOT}.2.1.1.3.1.65000", f"{MIB}rmqQueueEntry.65000"),
        (f"{ROOT}.2.1.0.1", f"{MIB}rmqQueueCreated"),
        (f"{ROOT}.2.1.1.999.1", MIB.strip(":")),
    ],
)
def test_object_identifiers_have_the_descriptors_of_the_module(oid: str, descriptor: str) -> None:
    given_oid = NAMES.oid_of(oid)
    assert given_oid is not None
    meaning = NAMES.meaning(given_oid)
    assert meaning is not None
    assert (meaning.oid, meaning.descriptor) == (oid.strip("."), descriptor)


def test_a_cell_names_class_element_and_row() -> None:
    oid = NAMES.oid_of("rmqQueueMessagesReady.7.9")
    assert oid is not None
    meaning = NAMES.meaning(oid)
    assert meaning is not None
    assert (meaning.key, meaning.element) == (QUEUE, "messagesReady")
    assert meaning.row == ObjectKey(7, "rabbitmq:queue", 9)
    assert not meaning.is_event


def test_each_descriptor_of_the_shipped_modules_is_found_again() -> None:
    for registry in REGISTRIES:
        for class_entry in registry.classes:
            for element in class_entry.elements:
                for descriptor in element.descriptors:
                    oid = NAMES.oid_of(f"{registry.module}::{descriptor}.1.2")
                    assert oid is not None
                    meaning = NAMES.meaning(oid)
                    assert meaning is not None
                    assert meaning.descriptor == f"{registry.module}::{descriptor}.1.2"
        for event_entry in registry.events:
            oid = NAMES.oid_of(event_entry.descriptor)
            assert oid is not None
            found = NAMES.meaning(oid)
            assert found is not None
            assert (found.is_event, found.descriptor) == (
                True,
                f"{registry.module}::{event_entry.descriptor}",
            )
        for argument in registry.arguments:
            for descriptor in argument.descriptors:
                oid = NAMES.oid_of(descriptor)
                assert oid is not None
                found = NAMES.meaning(oid)
                assert found is not None
                assert (found.element, found.descriptor) == (
                    argument.name,
                    f"{registry.module}::{descriptor}",
                )


@pytest.mark.parametrize(
    "text", ["", "1", "orders", "1.2.x", "AMQP-GATEWAY-MIB::rmqQueueTable", "a::b", "1..2"]
)
def test_what_is_no_object_identifier(text: str) -> None:
    assert NAMES.oid_of(text) is None


def test_a_front_end_that_is_off_names_nothing() -> None:
    names = PublishedNames(None, REGISTRIES, None)
    known = next(iter(known_shop(till(1)).objects.values()))
    assert names.row(known) is None
    assert names.notification(ClassKey("rabbitmq", "queueCreated")) is None
    assert names.object_name(known) == ""
    assert names.oid_of("rmqQueueTable") is None
    assert names.meaning((1, 3, 6)) is None


def test_object_names_are_the_same_in_any_order_of_their_keys() -> None:
    objects = known_shop(till(1), till(2)).objects
    for known in objects.values():
        name = NAMES.object_name(known)
        domain, _, keys = name.partition(":")
        shuffled = f"{domain}:{','.join(reversed(keys.split(',')))}"
        assert NAMES.by_object_name(name, objects.values()) is known
        assert NAMES.by_object_name(shuffled, objects.values()) is known
    assert NAMES.by_object_name("amqp.gateway:type=till", objects.values()) is None


@given(st.text(max_size=60), st.lists(st.integers(0, 2**32), max_size=12))
def test_any_text_and_any_number_has_a_meaning_or_none(text: str, arcs: list[int]) -> None:
    NAMES.oid_of(text)
    NAMES.by_object_name(f"amqp.gateway:{text}", known_shop().objects.values())
    meaning = NAMES.meaning((*DEFAULT_ROOT, *arcs))
    assert meaning is None or meaning.oid == ".".join(map(str, (*DEFAULT_ROOT, *arcs)))
