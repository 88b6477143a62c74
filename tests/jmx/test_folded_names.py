"""No two attributes of an MBean differ only in case, since exporters write names in lower case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.records import ClassRecord
from gateway.jmx.classes import OBJECT_NAME, STALE, shown_class
from gateway.jmx.own_beans import GATEWAY_ATTRIBUTES, SOURCE_ATTRIBUTES
from gateway.mapping.files import class_schemas
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import ValueType
from tests.components.shipped_mappings import shipped_mappings
from tests.mapping.recorded_schemas import PACKAGES, recorded

SHIPPED = [
    *(schema for mapping in shipped_mappings().values() for schema in class_schemas(mapping).values()),
    *(schema for package in PACKAGES for schema in recorded(package) if isinstance(schema, ClassSchema)),
]


def attribute_names(schema: ClassSchema) -> list[str]:
    shown = shown_class(ClassRecord(1, schema, "", ""), lambda _class, _element: "")
    return [attribute.name for attribute in shown.attributes]


def are_distinct(names: list[str]) -> bool:
    everything = [*names, STALE, OBJECT_NAME]
    return len({name.casefold() for name in everything}) == len(everything)


@pytest.mark.parametrize("schema", SHIPPED, ids=lambda schema: str(schema.key))
def test_names_in_shipped_and_recorded_schemas_are_distinct(schema: ClassSchema) -> None:
    assert are_distinct(attribute_names(schema))


def test_names_of_the_gateways_own_mbeans_are_distinct() -> None:
    for attributes in (GATEWAY_ATTRIBUTES, SOURCE_ATTRIBUTES):
        assert are_distinct([attribute.name for attribute in attributes])


def test_an_element_that_is_called_as_another_attribute_has_an_underscore() -> None:
    elements = ("name", "State", "state", "STATE", "Objectname", "depth", "source")
    schema = ClassSchema(ClassKey("p", "c"), tuple(Element(name, ValueType.STRING) for name in elements))
    named = attribute_names(schema)[-len(elements) :]
    assert named == ["name_", "State", "state_", "STATE__", "Objectname_", "depth", "source_"]


@given(st.lists(st.text("aAbB_ßsS\u017f", max_size=3), max_size=20))
def test_names_of_any_schema_are_distinct(elements: list[str]) -> None:
    schema = ClassSchema(ClassKey("p", "c"), tuple(Element(name, ValueType.STRING) for name in elements))
    assert are_distinct(attribute_names(schema))
    assert attribute_names(schema) == attribute_names(schema)
