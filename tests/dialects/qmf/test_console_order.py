"""The order in which the objects of classes are requested."""

from __future__ import annotations

import pytest

from gateway.dialects.qmf.console_requests import targets_first
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import ValueType

SHOP = "shop"


def definition(name: str, *properties: Element, package: str = SHOP) -> ClassDefinition:
    return ClassDefinition.of(ClassSchema(ClassKey(package, name), properties))


def reference(name: str, references: str = "") -> Element:
    return Element(name, ValueType.REFERENCE, references=references)


def order(listed: str, *definitions: ClassDefinition) -> str:
    found = targets_first([(SHOP, name) for name in listed.split()], definitions)
    return " ".join(name for _, name in found)


def test_a_class_comes_behind_what_its_objects_are_in() -> None:
    """The classes are in the order of qpidd's lists, and the references have its names."""
    queue = definition("queue", Element("name", ValueType.STRING), reference("vhostRef"))
    vhost = definition("vhost", reference("brokerRef"))
    binding = definition("binding", reference("exchangeRef"), reference("queueRef"))
    known = (binding, queue, vhost, definition("broker"), definition("exchange", reference("vhostRef")))
    assert (
        order("binding queue acl vhost exchange broker", *known) == "broker vhost exchange queue binding acl"
    )


@pytest.mark.parametrize("references", ["house", "shop:house"])
def test_a_schema_may_say_which_class_it_refers_to(references: str) -> None:
    assert order("tank house", definition("tank", reference("place", references))) == "house tank"


def test_what_is_not_listed_is_not_asked_for() -> None:
    known = (definition("tank", reference("houseRef")), definition("house", reference("farm", "other:farm")))
    assert order("tank", *known) == "tank"


def test_classes_that_refer_to_each_other_all_come_once() -> None:
    """The references of an agent may form circles, and a class may refer to itself."""
    known = [
        definition("one", reference("twoRef")),
        definition("two", reference("threeRef"), reference("twoRef")),
        definition("three", reference("oneRef")),
    ]
    assert order("one two three", *known) == "three two one"
    assert order("two one three three", *known) == "one three two"


def test_a_chain_of_any_length_is_followed() -> None:
    names = [f"c{number}" for number in range(3000)]
    known = [definition(name, reference(f"c{number + 1}Ref")) for number, name in enumerate(names)]
    assert order(" ".join(names), *known).split() == names[::-1]


def test_versions_of_a_class_all_count() -> None:
    known = (definition("tank", reference("houseRef")), definition("tank", reference("farmRef")))
    assert order("tank farm house", *known) == "house farm tank"
