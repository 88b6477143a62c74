"""The names and units of elements as metrics."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mapping.files import class_schemas
from gateway.model.schema import ClassKey, ClassSchema, Element, Kind, NamedValue
from gateway.model.values import ValueType
from gateway.prometheus.families import (
    DEFAULT_CLASSES,
    families_of,
    family_of,
    snake_case,
    without_family,
)
from tests.components.shipped_mappings import shipped_mappings
from tests.distribution.building import ROOT
from tests.prometheus.table import table

NAME = re.compile("[a-z][a-z0-9_]*")


def named(element: Element, package: str = "shop", class_name: str = "till") -> tuple[str, str, float] | None:
    family = family_of(ClassSchema(ClassKey(package, class_name), (element,)), element)
    return None if family is None else (family.name, family.kind, family.factor)


def left_out(schema: ClassSchema, classes: dict[str, list[str]]) -> frozenset[str]:
    return without_family(schema, classes, families_of(schema, classes))


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (Element("messagesReady", ValueType.U64), ("amqp_shop_till_messages_ready", "gauge", 1)),
        (Element("sales", ValueType.U64, kind=Kind.COUNTER), ("amqp_shop_till_sales", "counter", 1)),
        (Element("salesTotal", ValueType.U64, kind=Kind.COUNTER), ("amqp_shop_till_sales", "counter", 1)),
        (Element("memory", ValueType.U64, unit="octets"), ("amqp_shop_till_memory_bytes", "gauge", 1)),
        (Element("sentOctets", ValueType.U64, unit="octets"), ("amqp_shop_till_sent_bytes", "gauge", 1)),
        (
            Element("megabytes_in", ValueType.U32, unit="megabytes", kind=Kind.COUNTER),
            ("amqp_shop_till_megabytes_in_bytes", "counter", 2**20),
        ),
        (
            Element("delay", ValueType.S64, unit="milliseconds"),
            ("amqp_shop_till_delay_seconds", "gauge", 1e-3),
        ),
        (Element("uptime", ValueType.DURATION), ("amqp_shop_till_uptime_seconds", "gauge", 1e-9)),
        (
            Element("latency", ValueType.DURATION, unit="nanoseconds"),
            ("amqp_shop_till_latency_seconds", "gauge", 1e-9),
        ),
        (Element("samples", ValueType.DURATION, unit="samples"), ("amqp_shop_till_samples", "gauge", 1)),
        (
            Element("startTime", ValueType.TIME),
            ("amqp_shop_till_start_time_timestamp_seconds", "gauge", 1e-9),
        ),
        (Element("locked", ValueType.BOOL), ("amqp_shop_till_locked", "gauge", 1)),
        (Element("load", ValueType.F64), ("amqp_shop_till_load", "gauge", 1)),
        (Element("peak", ValueType.U32, kind=Kind.HIGH), ("amqp_shop_till_peak", "gauge", 1)),
        (Element("owner", ValueType.STRING), None),
        (Element("arguments", ValueType.MAP), None),
        (Element("hallRef", ValueType.REFERENCE), None),
    ],
)
def test_names_units_and_types(element: Element, expected: tuple[str, str, float] | None) -> None:
    assert named(element) == expected


def test_the_whole_package_is_part_of_the_name() -> None:
    element = Element("msgDepth", ValueType.U64)
    assert named(element, "org.apache.qpid.broker", "queue") == (
        "amqp_org_apache_qpid_broker_queue_msg_depth",
        "gauge",
        1,
    )


def test_an_enumeration_has_a_state_for_each_value() -> None:
    element = Element("mode", ValueType.U8, values=(NamedValue("idle", 0), NamedValue("busy", 1)))
    family = family_of(ClassSchema(ClassKey("shop", "till"), (element,)), element)
    assert family is not None
    assert family.states == ((0, "idle"), (1, "busy"))


def test_the_first_pattern_that_fits_a_class_counts() -> None:
    schema = ClassSchema(
        ClassKey("shop", "till"), tuple(Element(name, ValueType.U32) for name in ("coins", "notes", "sales"))
    )
    assert set(families_of(schema, {"shop:t*": ["coins", "s*"], "*:*": ["*"]})) == {0, 2}
    assert families_of(schema, {"shop:hall": ["*"]}) == {}


@pytest.mark.parametrize("names", [("depth", "Depth"), ("Depth", "depth")])
def test_elements_that_would_have_one_name_are_shown_once_small_letters_first(names: tuple[str, str]) -> None:
    schema = ClassSchema(ClassKey("shop", "till"), tuple(Element(name, ValueType.U32) for name in names))
    assert set(families_of(schema, {"*:*": ["*"]})) == {names.index("depth")}
    assert left_out(schema, {"*:*": ["*"]}) == {"Depth"}
    assert left_out(schema, {"*:*": ["Dep*"]}) == set()


def test_a_counter_has_the_name_of_its_samples_too() -> None:
    sales = Element("sales", ValueType.U64, kind=Kind.COUNTER)
    schema = ClassSchema(ClassKey("shop", "till"), (sales, Element("salesTotal", ValueType.U64)))
    assert left_out(schema, {"*:*": ["*"]}) == {"salesTotal"}


def test_a_counter_has_the_name_of_the_time_at_which_it_began_too() -> None:
    names = ("salesCreated", "sales", "salesInfo", "salesBucket", "salesSum")
    kinds = {"sales": Kind.COUNTER}
    elements = tuple(Element(name, ValueType.U64, kind=kinds.get(name, Kind.GAUGE)) for name in names)
    assert left_out(ClassSchema(ClassKey("shop", "till"), elements), {"*:*": ["*"]}) == {"salesCreated"}


def test_every_element_that_is_shown_by_default_exists_and_has_a_number() -> None:
    schemas = {
        f"{mapping.package}:{name}": schema
        for mapping in shipped_mappings().values()
        for name, schema in class_schemas(mapping).items()
    }
    for class_name, elements in DEFAULT_CLASSES.items():
        schema = schemas[class_name]
        shown = {schema.elements[position].name for position in families_of(schema, DEFAULT_CLASSES)}
        assert shown == set(elements), class_name


def test_the_documentation_lists_what_is_shown_by_default() -> None:
    assert table() in (ROOT / "docs" / "prometheus.md").read_text(encoding="utf-8")


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_any_names_give_names_of_metrics(package: str, class_name: str, element: str) -> None:
    reported = named(Element(element, ValueType.U32, unit="octets"), package, class_name)
    assert reported is not None
    assert NAME.fullmatch(reported[0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("messagesReady", "messages_ready"), ("IOReads", "io_reads"), ("SystemConnection", "system_connection")],
)
def test_words_of_a_name(name: str, expected: str) -> None:
    assert snake_case(name) == expected
