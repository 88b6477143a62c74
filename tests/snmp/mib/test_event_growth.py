"""A registry only grows by events, too: examples, and any sequence of schema changes."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mapping.rules import Mapping
from gateway.model.schema import Argument, ClassKey, EventSchema, NamedValue
from gateway.model.values import ValueType
from gateway.snmp.oid_registry import OidRegistry, Status, parse_registry
from gateway.snmp.registry_files import registry_text
from gateway.snmp.registry_growth import (
    RegistryFullError,
    argument_units,
    extend,
    extend_events,
    new_registry,
)
from gateway.snmp.syntax import Syntax
from tests.snmp.mib.shop import HALL

DAY = dt.date(2026, 5, 1)
NEXT_DAY = dt.date(2026, 5, 2)
EMPTY = new_registry("shop", 7, "SHOP-MIB", "shp", DAY)
PROVISIONAL = new_registry("", 0, "AMQP-GATEWAY-SITE-MIB", "site", DAY)


def event(name: str, *arguments: Argument, package: str = "shop") -> EventSchema:
    return EventSchema(ClassKey(package, name), arguments)


def arguments(registry: OidRegistry) -> list[tuple[int, str, Syntax, Status]]:
    return [(a.arc, a.name, a.syntax, a.status) for a in registry.arguments]


def events(registry: OidRegistry) -> dict[str, tuple[int, tuple[int, ...]]]:
    return {e.name: (e.arc, e.arguments) for e in registry.events}


CLERK = Argument("clerk", ValueType.STRING)
SALES = Argument("sales", ValueType.U64)
TILL = Argument("till", ValueType.REFERENCE)


def test_events_share_arguments_of_the_same_name_and_form() -> None:
    registry = extend_events(EMPTY, [event("opened", TILL, CLERK), event("closed", SALES, CLERK)], DAY)
    assert events(registry) == {"opened": (1, (1, 3)), "closed": (2, (4, 3))}
    assert [a.descriptors for a in registry.arguments] == [
        ("shpEventTillRow", "shpEventTillFullName"),
        ("shpEventClerk",),
        ("shpEventSales",),
    ]
    assert [a.arcs for a in registry.arguments] == [(1, 2), (3,), (4,)]
    assert [e.descriptor for e in registry.events] == ["shpOpened", "shpClosed"]


def test_a_number_that_a_registry_has_as_octets_stays_one_in_its_place() -> None:
    level = Argument("level", ValueType.F64)
    grown = extend_events(EMPTY, [event("leak", level, CLERK)], DAY)
    older = parse_registry(registry_text(grown).replace("floatText", "float64"), Path("older.oids.yaml"))
    assert extend_events(older, [event("leak", level, CLERK)], DAY) is older
    newer = extend_events(older, [event("leak", level, CLERK), event("spill", level)], DAY)
    assert [(name, syntax) for _, name, syntax, _ in arguments(newer)] == [
        ("level", Syntax.FLOAT64),
        ("clerk", Syntax.TEXT),
        ("level", Syntax.FLOAT_TEXT),
    ]


@pytest.mark.parametrize(
    ("argument", "syntax"),
    [
        (Argument("x", ValueType.U8), Syntax.GAUGE32),
        (Argument("x", ValueType.S32), Syntax.INTEGER32),
        (Argument("x", ValueType.U64), Syntax.DECIMAL),
        (Argument("x", ValueType.S64), Syntax.DECIMAL),
        (Argument("x", ValueType.DURATION), Syntax.DECIMAL),
        (Argument("x", ValueType.F32), Syntax.FLOAT_TEXT),
        (Argument("x", ValueType.TIME), Syntax.DATE_AND_TIME),
        (Argument("x", ValueType.MAP), Syntax.JSON),
        (Argument("x", ValueType.U64, values=(NamedValue("a", 0),)), Syntax.ENUMERATION),
    ],
)
def test_no_argument_has_a_form_that_version_1_lacks(argument: Argument, syntax: Syntax) -> None:
    registry = extend_events(EMPTY, [event("opened", argument)], DAY)
    assert registry.arguments[0].syntax is syntax


def test_nothing_new_gives_the_same_registry_and_a_new_event_a_new_revision() -> None:
    registry = extend_events(EMPTY, [event("opened", CLERK)], DAY)
    assert extend_events(registry, [event("opened", CLERK)], NEXT_DAY) is registry
    assert extend_events(registry, [event("closed", CLERK)], NEXT_DAY).revisions == (DAY, NEXT_DAY)


def test_an_argument_of_another_type_gets_a_number_behind_all_others() -> None:
    registry = extend_events(EMPTY, [event("opened", CLERK, SALES)], DAY)
    registry = extend_events(registry, [event("opened", Argument("clerk", ValueType.UUID), SALES)], DAY)
    assert events(registry) == {"opened": (1, (1, 2, 3))}
    assert arguments(registry) == [
        (1, "clerk", Syntax.TEXT, Status.OBSOLETE),
        (2, "sales", Syntax.DECIMAL, Status.CURRENT),
        (3, "clerk", Syntax.UUID, Status.CURRENT),
    ]
    assert registry.arguments[2].descriptor == "shpEventClerk2"


def test_an_argument_that_another_event_still_has_stays() -> None:
    registry = extend_events(EMPTY, [event("opened", CLERK), event("closed", CLERK)], DAY)
    assert extend_events(registry, [event("opened")], DAY) is registry
    gone = extend_events(registry, [event("opened"), event("closed")], DAY)
    assert arguments(gone) == [(1, "clerk", Syntax.TEXT, Status.OBSOLETE)]
    assert events(gone) == events(registry)


def test_a_narrower_number_stays_where_the_event_has_it() -> None:
    registry = extend_events(EMPTY, [event("opened", SALES)], DAY)
    assert extend_events(registry, [event("opened", Argument("sales", ValueType.U16))], DAY) is registry


def test_versions_met_one_after_the_other_do_not_retire_each_other() -> None:
    one, other = event("opened", CLERK), event("opened", Argument("clerk", ValueType.UUID))
    registry = PROVISIONAL
    for schema in (one, other, one, other):
        registry = extend_events(registry, [schema], DAY, retire=False)
    assert events(registry) == {"shop:opened": (1, (1, 2))}
    assert all(argument.current for argument in registry.arguments)
    assert registry.events[0].descriptor == "siteShopOpened"


def test_values_that_an_enumeration_has_in_one_event_are_added_to_those_of_the_others() -> None:
    def why(*labels: str) -> Argument:
        values = tuple(NamedValue(label, label) for label in labels)
        return Argument("why", ValueType.STRING, values=values)

    registry = extend_events(
        EMPTY, [event("opened", why("early")), event("closed", why("late", "early"))], DAY
    )
    assert [(v.value, v.number) for v in registry.arguments[0].values] == [
        ("unknown", 1),
        ("early", 2),
        ("late", 3),
    ]


def test_the_unit_of_a_duration_comes_from_the_mapping_and_makes_another_argument() -> None:
    mapping = Mapping.model_validate(
        {
            "version": 1,
            "package": "shop",
            "module": "SHOP-MIB",
            "prefix": "shp",
            "events": {
                "closed": {"arguments": {"open": {"type": "duration", "snmp_unit": "minutes"}}},
                "burnt": {"arguments": {"open": {"type": "duration"}}},
            },
        }
    )
    units = argument_units(mapping)
    assert units == {("closed", "open"): ("minutes",)}
    schema = [event(name, Argument("open", ValueType.DURATION)) for name in ("closed", "burnt")]
    registry = extend_events(EMPTY, schema, DAY, units=units)
    assert [(a.syntax, a.unit) for a in registry.arguments] == [
        (Syntax.UNSIGNED32, "minutes"),
        (Syntax.DECIMAL, ""),
    ]
    optional = [event("closed", Argument("open", ValueType.DURATION, optional=True))]
    assert extend_events(EMPTY, optional, DAY, units=units).arguments[0].syntax is Syntax.DECIMAL


def test_an_object_in_a_finer_unit_comes_behind_all_that_were_there() -> None:
    closed = event("closed", Argument("open", ValueType.DURATION, optional=True), CLERK)
    seconds = {("closed", "open"): ("seconds",)}
    both = {("closed", "open"): ("seconds", "milliseconds")}
    old = extend_events(EMPTY, [closed], DAY, units=seconds)
    assert events(old) == {"closed": (1, (1, 2))}
    grown = extend_events(old, [closed], DAY, units=both)
    assert events(grown) == {"closed": (1, (1, 2, 3))}
    assert [(a.descriptor, a.unit) for a in grown.arguments][::2] == [
        ("shpEventOpen", "seconds"),
        ("shpEventOpenMilliseconds", "milliseconds"),
    ]
    assert grown == extend_events(EMPTY, [closed], DAY, units=both)
    assert extend_events(grown, [closed], NEXT_DAY, units=both) is grown


def test_descriptors_of_classes_and_events_are_kept_apart() -> None:
    registry = extend(EMPTY, [HALL], DAY)
    registry = extend_events(registry, [event("hall"), event("hallName"), event("hall-name")], DAY)
    assert [e.descriptor for e in registry.events] == ["shpHall2", "shpHallName2", "shpHallName3"]


def test_an_event_of_another_package_is_refused() -> None:
    with pytest.raises(ValueError, match="not of the package shop"):
        extend_events(EMPTY, [event("opened", package="stall")], DAY)


def test_floods_meet_a_bound() -> None:
    many = tuple(Argument(f"a{n}", ValueType.U8) for n in range(101))
    with pytest.raises(RegistryFullError, match="at most 100 arguments"):
        extend_events(PROVISIONAL, [event("opened", *many)], DAY)
    with pytest.raises(RegistryFullError, match="at most 1000 events"):
        extend_events(PROVISIONAL, [event(f"e{n}") for n in range(1_001)], DAY)
    wide = [event(f"e{n}", *(Argument(f"a{n}x{m}", ValueType.U8) for m in range(100))) for n in range(21)]
    with pytest.raises(RegistryFullError, match="at most 2000 arguments"):
        extend_events(PROVISIONAL, wide, DAY)


_arguments = st.builds(
    Argument,
    name=st.sampled_from(["size", "Size", "si-ze", "state", "x" * 70, "\N{CYRILLIC SMALL LETTER A}"]),
    type=st.sampled_from(ValueType),
    optional=st.booleans(),
    values=st.lists(st.sampled_from("ab-"), max_size=2, unique=True).map(
        lambda labels: tuple(NamedValue(label, label) for label in labels)
    ),
)
_schemas = st.builds(
    EventSchema,
    key=st.builds(ClassKey, st.just("shop"), st.sampled_from(["opened", "Opened", "closed"])),
    arguments=st.lists(_arguments, max_size=5, unique_by=lambda argument: argument.name).map(tuple),
)


@given(st.lists(st.tuples(st.lists(_schemas, max_size=3), st.booleans()), max_size=5))
def test_whatever_changes_no_number_name_or_place_is_moved_freed_or_used_again(
    steps: list[tuple[list[EventSchema], bool]],
) -> None:
    registry = EMPTY
    for schemas, retire in steps:
        grown = extend_events(registry, schemas, DAY, retire=retire)
        assert parse_registry(registry_text(grown), Path("x")) == grown  # every check holds
        assert extend_events(grown, schemas, NEXT_DAY, retire=retire) is grown
        for before, after in zip(registry.events, grown.events, strict=False):
            assert (before.name, before.arc, before.descriptor) == (after.name, after.arc, after.descriptor)
            assert after.arguments[: len(before.arguments)] == before.arguments
        for old, new in zip(registry.arguments, grown.arguments, strict=False):
            assert (old.name, old.arcs, old.form, old.descriptors) == (
                new.name,
                new.arcs,
                new.form,
                new.descriptors,
            )
            assert new.values[: len(old.values)] == old.values
            assert old.current or not new.current
        assert len(grown.events) >= len(registry.events)
        assert len(grown.arguments) >= len(registry.arguments)
        registry = grown
