"""A registry only grows: examples, and any sequence of schema changes."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mapping.rules import Mapping
from gateway.model.schema import Access, ClassKey, ClassSchema, Element, Kind, NamedValue
from gateway.model.values import ValueType
from gateway.snmp.oid_registry import ElementEntry, OidRegistry, Status, Twin, parse_registry
from gateway.snmp.registry_files import registry_text
from gateway.snmp.registry_growth import (
    MAX_COLUMNS_PER_CLASS,
    RegistryFullError,
    extend,
    new_registry,
    reserve,
    snmp_units,
)
from gateway.snmp.syntax import Syntax

DAY = dt.date(2026, 5, 1)
NEXT_DAY = dt.date(2026, 5, 2)
EMPTY = new_registry("shop", 7, "SHOP-MIB", "shp", DAY)
PROVISIONAL = new_registry("", 0, "AMQP-GATEWAY-SITE-MIB", "site", DAY)


def till(*elements: Element, package: str = "shop", name: str = "till", version: bytes = b"") -> ClassSchema:
    return ClassSchema(ClassKey(package, name, version), statistics=elements)


def columns(registry: OidRegistry) -> dict[int, tuple[str, Syntax, Status]]:
    return {e.column: (e.name, e.syntax, e.status) for c in registry.classes for e in c.elements}


def only(registry: OidRegistry) -> ElementEntry:
    (class_entry,) = registry.classes
    (element,) = class_entry.elements
    return element


def only_twin(registry: OidRegistry) -> Twin:
    twin = registry.classes[0].elements[0].twin
    assert twin is not None
    return twin


def test_elements_take_the_next_columns_in_schema_order_with_their_twins_behind_them() -> None:
    registry = extend(
        EMPTY,
        [till(Element("owner", ValueType.STRING), Element("sales", ValueType.U64, kind=Kind.COUNTER))],
        DAY,
    )
    owner, sales = registry.classes[0].elements
    assert (owner.column, owner.descriptor, owner.twin and owner.twin.column) == (100, "shpTillOwner", 101)
    assert (sales.column, sales.descriptor, sales.syntax) == (102, "shpTillSales", Syntax.COUNTER64)


def test_nothing_new_gives_the_same_registry_and_the_same_last_updated() -> None:
    schema = till(Element("owner", ValueType.STRING))
    registry = extend(EMPTY, [schema], DAY)
    assert extend(registry, [schema], NEXT_DAY) is registry


def test_new_content_adds_the_day_to_the_revisions() -> None:
    registry = extend(EMPTY, [till(Element("sales", ValueType.U64))], NEXT_DAY)
    assert registry.revisions == (DAY, NEXT_DAY)
    assert registry.last_updated == NEXT_DAY


def test_a_clock_set_back_does_not_break_the_order_of_revisions() -> None:
    registry = extend(EMPTY, [till(Element("sales", ValueType.U64))], dt.date(2020, 1, 1))
    assert registry.revisions == (DAY,)


def test_a_changed_type_gets_a_new_column_and_the_old_one_turns_obsolete() -> None:
    registry = extend(EMPTY, [till(Element("size", ValueType.U32))], DAY)
    registry = extend(registry, [till(Element("size", ValueType.STRING, max_length=9))], DAY)
    assert columns(registry) == {
        100: ("size", Syntax.GAUGE32, Status.OBSOLETE),
        101: ("size", Syntax.TEXT, Status.CURRENT),
    }
    assert [e.descriptor for e in registry.classes[0].elements] == ["shpTillSize", "shpTillSize2"]


def test_a_changed_kind_gets_a_new_column() -> None:
    registry = extend(EMPTY, [till(Element("size", ValueType.U64, kind=Kind.GAUGE))], DAY)
    registry = extend(registry, [till(Element("size", ValueType.U64, kind=Kind.HIGH))], DAY)
    assert [e.status for e in registry.classes[0].elements] == [Status.OBSOLETE, Status.CURRENT]


def test_an_element_that_changes_back_does_not_get_its_old_column_again() -> None:
    number, string = till(Element("size", ValueType.U32)), till(Element("size", ValueType.UUID))
    registry = extend(extend(extend(EMPTY, [number], DAY), [string], DAY), [number], DAY)
    assert columns(registry)[102] == ("size", Syntax.GAUGE32, Status.CURRENT)


def test_a_narrower_integer_stays_in_the_wide_column() -> None:
    registry = extend(EMPTY, [till(Element("size", ValueType.U64))], DAY)
    assert extend(registry, [till(Element("size", ValueType.U16))], DAY) is registry


def test_an_element_that_is_gone_turns_obsolete_and_keeps_its_number() -> None:
    registry = extend(EMPTY, [till(Element("a", ValueType.U32), Element("b", ValueType.U32))], DAY)
    registry = extend(registry, [till(Element("b", ValueType.U32), Element("c", ValueType.U32))], DAY)
    assert {column: (name, status) for column, (name, _, status) in columns(registry).items()} == {
        100: ("a", Status.OBSOLETE),
        101: ("b", Status.CURRENT),
        102: ("c", Status.CURRENT),
    }


def test_versions_of_a_class_share_its_table() -> None:
    old = till(Element("a", ValueType.U32), Element("size", ValueType.U32), version=b"1")
    new = till(Element("b", ValueType.U32), Element("size", ValueType.U64), version=b"2")
    registry = extend(EMPTY, [old, new], DAY)
    assert [(e.name, e.syntax, e.current) for e in registry.classes[0].elements] == [
        ("a", Syntax.GAUGE32, True),
        ("b", Syntax.GAUGE32, True),
        ("size", Syntax.GAUGE64, True),
    ]


def test_versions_met_one_after_the_other_do_not_retire_each_other() -> None:
    number, string = till(Element("size", ValueType.U32)), till(Element("size", ValueType.UUID))
    registry = PROVISIONAL
    for schema in (number, string, number, string):
        registry = extend(registry, [schema], DAY, retire=False)
    assert [e.current for e in registry.classes[0].elements] == [True, True]


def test_text_that_becomes_longer_than_a_cell_gets_its_length_column_later() -> None:
    registry = extend(EMPTY, [till(Element("note", ValueType.STRING, max_length=80))], DAY)
    assert only(registry).twin is None
    registry = extend(registry, [till(Element("note", ValueType.STRING))], DAY)
    assert only(registry).columns == (100, 101)


def test_a_float_of_a_registry_without_its_text_gets_that_behind_all_other_columns() -> None:
    schema = till(Element("mean", ValueType.F32), Element("sales", ValueType.U64))
    registry = extend(EMPTY, [schema], DAY)
    older = parse_registry(
        registry_text(registry).replace(", twin: {column: 101, descriptor: shpTillMeanText}", ""),
        Path("older"),
    )
    assert [element.columns for element in older.classes[0].elements] == [(100,), (102, 103)]
    grown = extend(older, [schema], DAY, retire=False)
    assert [element.columns for element in grown.classes[0].elements] == [(100, 104), (102, 103)]
    assert grown.classes[0].elements[0].descriptors == ("shpTillMean", "shpTillMeanText")


def test_a_gauge_of_64_bits_of_an_older_registry_gets_one_of_32_bits_behind_all_other_columns() -> None:
    schema = till(Element("cash", ValueType.U64, unit="octets"), Element("sales", ValueType.U32))
    older = parse_registry(
        registry_text(extend(EMPTY, [schema], DAY)).replace(
            ", twin: {column: 101, descriptor: shpTillCashKibibytes, unit: kibibytes}", ""
        ),
        Path("older"),
    )
    assert [element.columns for element in older.classes[0].elements] == [(100,), (102,)]
    grown = extend(older, [schema], DAY, retire=False)
    assert [element.columns for element in grown.classes[0].elements] == [(100, 103), (102,)]
    assert only_twin(grown) == Twin(column=103, descriptor="shpTillCashKibibytes", unit="kibibytes")


def test_the_unit_of_a_published_gauge_of_32_bits_stays() -> None:
    registry = extend(EMPTY, [till(Element("cash", ValueType.U64, unit="octets"))], DAY)
    assert extend(registry, [till(Element("cash", ValueType.U64, unit="cents"))], DAY) is registry


@pytest.mark.parametrize(
    ("element", "descriptor"),
    [
        (Element("cash", ValueType.U64), "shpTillCashGauge32"),
        (Element("wait", ValueType.DURATION), "shpTillWaitMilliseconds"),
        (Element("wait", ValueType.DURATION, kind=Kind.HIGH), "shpTillWaitMicroseconds"),
    ],
)
def test_a_gauge_of_32_bits_is_called_by_its_unit(element: Element, descriptor: str) -> None:
    assert only_twin(extend(EMPTY, [till(element)], DAY)).descriptor == descriptor


def test_the_end_of_the_name_of_a_gauge_of_32_bits_stays_however_long_it_is() -> None:
    name = only_twin(extend(EMPTY, [till(Element("cash" * 20, ValueType.U64))], DAY)).descriptor
    assert (len(name), name[:11], name[-7:]) == (64, "shpTillCash", "Gauge32")


def test_gauges_of_32_bits_do_not_count_as_columns_of_a_large_class() -> None:
    schema = till(*(Element(f"e{number}", ValueType.U64) for number in range(MAX_COLUMNS_PER_CLASS)))
    registry = extend(EMPTY, [schema], DAY)
    assert len(registry.classes[0].columns) == 2 * MAX_COLUMNS_PER_CLASS


def test_a_float_that_turns_writable_stays_in_its_column() -> None:
    registry = extend(EMPTY, [till(Element("mean", ValueType.F64))], DAY)
    assert extend(registry, [till(Element("mean", ValueType.F64, access=Access.READ_WRITE))], DAY) is registry


def test_enumerations_begin_with_unknown_and_grow_at_the_end() -> None:
    def state(*labels: str) -> ClassSchema:
        return till(
            Element("state", ValueType.STRING, values=tuple(NamedValue(label, label) for label in labels))
        )

    registry = extend(EMPTY, [state("open", "not-open", "Not_Open")], DAY)
    assert [(v.value, v.label, v.number) for v in only(registry).values] == [
        ("unknown", "unknown", 1),
        ("open", "open", 2),
        ("not-open", "notOpen", 3),
        ("Not_Open", "notOpen2", 4),
    ]
    registry = extend(registry, [state("burnt", "open")], DAY)
    assert only(registry).numbers == {"unknown": 1, "open": 2, "not-open": 3, "Not_Open": 4, "burnt": 5}


def test_labels_are_never_words_that_net_snmp_takes_for_keywords() -> None:
    values = tuple(NamedValue(label, label) for label in ("current", "Optional", "current value"))
    registry = extend(EMPTY, [till(Element("state", ValueType.STRING, values=values))], DAY)
    assert [v.label for v in only(registry).values][1:] == ["currentValue", "optionalValue", "currentValue2"]


def test_a_label_unknown_of_the_peer_is_the_first_number() -> None:
    values = (NamedValue("busy", 0), NamedValue("unknown", 1))
    registry = extend(EMPTY, [till(Element("state", ValueType.U8, values=values))], DAY)
    assert only(registry).numbers == {"unknown": 1, "busy": 2}


def test_descriptors_are_unique_and_at_most_64_characters_long() -> None:
    long = "a" * 200
    registry = extend(
        EMPTY,
        [
            till(
                Element(long + "1", ValueType.STRING),
                Element(long + "2", ValueType.STRING),
                Element("row-state", ValueType.U32),
                Element("Row_State", ValueType.U32),
                Element("\N{GREEK SMALL LETTER ALPHA}", ValueType.U32),
                Element("9 lives", ValueType.U32),
            ),
            till(name="tillSize"),
            till(Element("x", ValueType.U32), name=long),
        ],
        DAY,
    )
    names = list(registry.descriptors())
    assert all(len(name) <= 64 for name in names)
    assert len({name.lower() for name in names}) == len(names)
    assert [e.descriptor for e in registry.classes[0].elements][2:4] == [
        "shpTillRowState2",
        "shpTillRowState3",
    ]
    assert registry == parse_registry(registry_text(registry), Path("x"))


def test_classes_whose_derived_names_would_meet_are_distinguished() -> None:
    registry = extend(
        EMPTY,
        [till(Element("x", ValueType.U32), name="a"), till(Element("x", ValueType.U32), name="aTable")],
        DAY,
    )
    assert [c.descriptor for c in registry.classes] == ["shpA", "shpATable2"]


def test_a_class_whose_table_would_be_called_like_another_class_is_distinguished() -> None:
    schemas = [till(Element("x", ValueType.U32), name=name) for name in ("aTable", "a")]
    assert [c.descriptor for c in extend(EMPTY, schemas, DAY).classes] == ["shpATable", "shpA2"]


def test_reserved_classes_have_their_arcs_before_they_have_elements() -> None:
    registry = reserve(EMPTY, ["drawer", "clerk"], DAY)
    registry = extend(
        registry, [till(Element("x", ValueType.U32)), till(Element("x", ValueType.U32), name="clerk")], DAY
    )
    assert [(c.name, c.arc, len(c.elements)) for c in registry.classes] == [
        ("drawer", 1, 0),
        ("clerk", 2, 1),
        ("till", 3, 1),
    ]


def test_units_come_from_the_mapping() -> None:
    mapping = Mapping.model_validate(
        {
            "version": 1,
            "package": "shop",
            "module": "SHOP-MIB",
            "prefix": "shp",
            "classes": {"till": {"statistics": {"open": {"type": "duration", "snmp_unit": "seconds"}}}},
        }
    )
    registry = extend(EMPTY, [till(Element("open", ValueType.DURATION))], DAY, units=snmp_units(mapping))
    assert (only(registry).syntax, only(registry).unit) == (Syntax.UNSIGNED32, "seconds")


def test_a_class_of_another_package_is_refused() -> None:
    with pytest.raises(ValueError, match="not of the package shop"):
        extend(EMPTY, [till(package="stall")], DAY)


def test_a_flood_of_elements_meets_a_bound() -> None:
    with pytest.raises(RegistryFullError, match="at most 2000 columns"):
        extend(PROVISIONAL, [till(*(Element(f"e{i}", ValueType.U32) for i in range(2_001)))], DAY)


def test_a_flood_of_values_meets_a_bound() -> None:
    values = tuple(NamedValue(f"v{n}", n) for n in range(1_000))
    with pytest.raises(RegistryFullError, match="at most 1000 values"):
        extend(PROVISIONAL, [till(Element("state", ValueType.U32, values=values))], DAY)


def test_a_flood_of_classes_meets_a_bound() -> None:
    with pytest.raises(RegistryFullError, match="at most 999 classes"):
        extend(PROVISIONAL, [till(name=f"c{i}") for i in range(1_000)], DAY)


_names = st.sampled_from(["size", "Size", "si-ze", "state", "x" * 70, "\N{CYRILLIC SMALL LETTER A}"])
_elements = st.builds(
    Element,
    name=_names,
    type=st.sampled_from(ValueType),
    kind=st.sampled_from(Kind),
    access=st.sampled_from(Access),
    max_length=st.sampled_from([None, 10, 5000]),
    values=st.lists(st.sampled_from("ab-"), max_size=2, unique=True).map(
        lambda labels: tuple(NamedValue(label, label) for label in labels)
    ),
)
_schemas = st.builds(
    ClassSchema,
    key=st.builds(ClassKey, st.just("shop"), st.sampled_from(["till", "Till", "clerk"])),
    properties=st.lists(_elements, max_size=4).map(tuple),
    statistics=st.lists(_elements, max_size=4).map(tuple),
)


@given(st.lists(st.tuples(st.lists(_schemas, max_size=3), st.booleans()), max_size=5))
def test_whatever_changes_no_number_or_name_is_moved_freed_or_used_again(
    steps: list[tuple[list[ClassSchema], bool]],
) -> None:
    registry = EMPTY
    for schemas, retire in steps:
        grown = extend(registry, schemas, DAY, retire=retire)
        assert parse_registry(registry_text(grown), Path("x")) == grown  # every check holds
        assert extend(grown, schemas, NEXT_DAY, retire=retire) is grown
        for before, after in zip(registry.classes, grown.classes, strict=False):
            assert (before.name, before.arc, before.descriptor) == (after.name, after.arc, after.descriptor)
            for old, new in zip(before.elements, after.elements, strict=False):
                assert (old.name, old.column, old.form, old.descriptor) == (
                    new.name,
                    new.column,
                    new.form,
                    new.descriptor,
                )
                assert old.twin in (None, new.twin)
                assert new.values[: len(old.values)] == old.values
                assert old.current or not new.current
            assert len(after.elements) >= len(before.elements)
        assert len(grown.classes) >= len(registry.classes)
        registry = grown
