"""Generated modules: the text of a small one, and the messages of common tools about it."""

from __future__ import annotations

import datetime as dt
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.mapping.files import class_schemas, event_schemas, load_mapping
from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Element,
    EventSchema,
    Kind,
    NamedValue,
)
from gateway.model.values import ValueType
from gateway.shipped_files import shipped_folder
from gateway.snmp.mib.clauses import plain, units_clause
from gateway.snmp.mib.lint import base_folders, lint, pysmi_complaints, smilint_complaints
from gateway.snmp.mib.module import module_text
from gateway.snmp.oid_registry import ElementEntry, OidRegistry, Status, read_registry
from gateway.snmp.registry_files import generated, registry_text
from gateway.snmp.registry_growth import extend, extend_events, new_registry, reserve
from gateway.snmp.syntax import Syntax
from tests.hypothesis_profiles import examples

DATA = Path(__file__).parents[2] / "data" / "snmp_mib"
DAY, NEXT_DAY = dt.date(2026, 5, 1), dt.date(2026, 6, 2)
SHOP = load_mapping(DATA / "shop.yaml")
EMPTY = reserve(new_registry("shop", 7, "SHOP-MIB", "shp", DAY), ["hall", "till", "clerk"], DAY)


def complaints(folder: Path, module: str, text: str) -> list[str]:
    """Return the messages of smilint and pysmi about the text, with the fixed module beside it."""
    shutil.copy(shipped_folder("mibs") / "AMQP-GATEWAY-MIB.mib", folder)
    path = folder / f"{module}.mib"
    path.write_text(text, encoding="utf-8")
    return [str(complaint) for complaint in lint(path, base_folders())]


def test_the_registry_and_the_module_of_the_shop_are_these_octets() -> None:
    registry, text = generated(SHOP, EMPTY, DAY, grow=True)
    assert registry_text(registry) == (DATA / "shop.oids.yaml").read_text(encoding="utf-8")
    assert text == (DATA / "SHOP-MIB.mib").read_text(encoding="utf-8")


def test_the_module_of_the_shop_is_accepted_without_a_word(tmp_path: Path) -> None:
    assert complaints(tmp_path, "SHOP-MIB", (DATA / "SHOP-MIB.mib").read_text(encoding="utf-8")) == []


def test_without_growing_what_the_registry_lacks_is_left_out() -> None:
    registry = read_registry(DATA / "shop.oids.yaml")
    hall = SHOP.classes["hall"]
    wider = SHOP.model_copy(
        update={
            "classes": {
                **SHOP.classes,
                "hall": hall.model_copy(update={"statistics": SHOP.classes["till"].statistics}),
            }
        }
    )
    same, text = generated(wider, registry, NEXT_DAY, grow=False)
    assert same is registry
    assert "shpHallSales" not in text


def test_a_grown_registry_gives_a_new_revision_and_keeps_the_first(tmp_path: Path) -> None:
    registry = read_registry(DATA / "shop.oids.yaml")
    schemas = class_schemas(SHOP)
    till = schemas["till"]
    schemas["till"] = replace(
        till,
        statistics=(
            *(element for element in till.statistics if element.name != "sales"),
            Element("sales", ValueType.F64, description="Sales, exactly."),
        ),
    )
    grown = extend(registry, schemas.values(), NEXT_DAY, retire=True)
    text = module_text(grown, schemas.values())
    assert 'LAST-UPDATED "202606020000Z"' in text
    assert text.index('REVISION    "202606020000Z"') < text.index('REVISION    "202605010000Z"')
    obsolete = text[text.index("shpTillSales OBJECT-TYPE") :]
    assert "STATUS      obsolete" in obsolete[: obsolete.index("::=")]
    assert "shpTillObsoleteGroup OBJECT-GROUP" in text
    assert complaints(tmp_path, "SHOP-MIB", text) == []


def test_a_float_that_can_be_set_is_one_column_of_text(tmp_path: Path) -> None:
    schema = ClassSchema(
        ClassKey("shop", "oven"),
        (Element("heat", ValueType.F64, access=Access.READ_WRITE, unit="degrees"),),
        (Element("draught", ValueType.F32),),
    )
    registry = extend(new_registry("shop", 7, "SHOP-MIB", "shp", DAY), [schema], DAY)
    text = module_text(registry, [schema])
    heat = text[text.index("shpOvenHeat OBJECT-TYPE") :]
    assert "SYNTAX      DisplayString (SIZE (1..24))" in heat[: heat.index("::=")]
    assert "MAX-ACCESS  read-write" in heat[: heat.index("::=")]
    draught = text[text.index("shpOvenDraughtText OBJECT-TYPE") :]
    assert "MAX-ACCESS  read-only" in draught[: draught.index("::=")]
    assert "shpOvenHeatText" not in text
    assert complaints(tmp_path, "SHOP-MIB", text) == []


def test_an_argument_that_is_gone_stays_in_its_notifications_and_is_obsolete(tmp_path: Path) -> None:
    registry = read_registry(DATA / "shop.oids.yaml")
    events = event_schemas(SHOP)
    closed = events["tillClosed"]
    events["tillClosed"] = replace(
        closed,
        arguments=(
            *(argument for argument in closed.arguments if argument.name not in ("sales", "mean")),
            Argument("sales", ValueType.UUID, description="Its sales, each."),
        ),
    )
    grown = extend_events(registry, events.values(), NEXT_DAY)
    text = module_text(grown, class_schemas(SHOP).values(), events.values())
    obsolete = text[text.index("shpEventSales OBJECT-TYPE") :]
    assert "STATUS      obsolete" in obsolete[: obsolete.index("::=")]
    reported = text[text.index("shpTillClosed NOTIFICATION-TYPE") :]
    reported = reported[: reported.index("::=")]
    assert (
        reported.index("shpEventSales,")
        < reported.index("shpEventMean,")
        < reported.index("shpEventSales2\n")
    )
    assert "shpNotificationObjectObsoleteGroup OBJECT-GROUP" in text
    assert complaints(tmp_path, "SHOP-MIB", text) == []


def test_an_obsolete_event_leaves_the_group_of_current_ones(tmp_path: Path) -> None:
    registry = read_registry(DATA / "shop.oids.yaml")
    events = tuple(
        event.model_copy(update={"status": Status.OBSOLETE}) if event.name == "fire" else event
        for event in registry.events
    )
    text = module_text(registry.model_copy(update={"events": events}), [])
    assert "shpNotificationObsoleteGroup NOTIFICATION-GROUP" in text
    assert complaints(tmp_path, "SHOP-MIB", text) == []


def test_a_module_of_events_alone_is_accepted(tmp_path: Path) -> None:
    schema = EventSchema(ClassKey("zoo", "bark"), (Argument("loud", ValueType.BOOL),))
    bare = EventSchema(ClassKey("zoo", "night"))
    site = new_registry("", 0, "AMQP-GATEWAY-SITE-MIB", "site", DAY)
    for schemas in ([schema], [bare], [schema, bare]):
        registry = extend_events(site, schemas, DAY, retire=False)
        assert complaints(tmp_path, registry.module, module_text(registry, [], schemas)) == []


def test_a_provisional_module_hangs_below_the_sites_arc(tmp_path: Path) -> None:
    registry = new_registry("", 0, "AMQP-GATEWAY-BERLIN-MIB", "berlin", DAY)
    schema = ClassSchema(
        ClassKey("zoo", "dog"), statistics=(Element("legs", ValueType.U8, kind=Kind.COUNTER),)
    )
    registry = extend(registry, [schema], DAY, retire=False)
    text = module_text(registry, [schema])
    assert "berlinMIB MODULE-IDENTITY" in text
    assert "::= { agRoot 3 }" in text
    assert "berlinZooDogLegs OBJECT-TYPE" in text
    assert complaints(tmp_path, registry.module, text) == []


def test_a_module_can_be_written_from_its_registry_alone(tmp_path: Path) -> None:
    text = module_text(read_registry(DATA / "shop.oids.yaml"), [])
    assert "'sales' of the source; it gives no description." in text
    assert complaints(tmp_path, "SHOP-MIB", text) == []


def test_a_registry_without_classes_gives_a_module_too(tmp_path: Path) -> None:
    assert (
        complaints(tmp_path, "SHOP-MIB", module_text(new_registry("shop", 7, "SHOP-MIB", "shp", DAY), []))
        == []
    )


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('"quoted"', "'quoted'"),
        ("two\n  lines\t", "two lines"),
        ("\N{LATIN SMALL LETTER E WITH ACUTE}\N{EM DASH}", "e??"),
        ("\x00\x1b[31m", "[31m"),
        ("x" * 5000, "x" * 3997 + "..."),
    ],
)
def test_texts_of_peers_are_made_harmless(said: str, shown: str) -> None:
    assert plain(said) == shown


_texts = st.text(max_size=30) | st.sampled_from(['"', "END", "::=", "--", "x" * 100, "IMPORTS;"])


@given(
    st.lists(
        st.builds(
            Element,
            name=_texts,
            type=st.sampled_from(ValueType),
            unit=_texts,
            description=_texts,
            minimum=st.none() | st.integers(-(2**65), 2**65),
            maximum=st.none() | st.integers(-(2**65), 2**65),
            max_length=st.none() | st.integers(-1, 2000),
        ),
        max_size=3,
    ),
    _texts,
    _texts,
)
@settings(max_examples=max(examples() // 50, 3))  # each one is read by smilint and pysmi
def test_no_schema_of_a_peer_makes_a_module_that_tools_refuse(
    tmp_path_factory: pytest.TempPathFactory, elements: list[Element], name: str, description: str
) -> None:
    schema = ClassSchema(ClassKey("zoo", name), statistics=tuple(elements), description=description)
    registry = extend(new_registry("", 0, "AMQP-GATEWAY-SITE-MIB", "site", DAY), [schema], DAY, retire=False)
    folder = tmp_path_factory.mktemp("mibs")
    assert complaints(folder, registry.module, module_text(registry, [schema])) == []


@given(
    st.lists(
        st.builds(
            Argument,
            name=_texts,
            type=st.sampled_from(ValueType),
            unit=_texts,
            description=_texts,
            optional=st.booleans(),
            max_length=st.none() | st.integers(-1, 2000),
            values=st.just(()) | st.builds(lambda text: (NamedValue(text, text),), _texts),
        ),
        max_size=4,
    ),
    _texts,
    _texts,
)
@settings(max_examples=max(examples() // 50, 3))  # each one is read by smilint and pysmi
def test_no_event_of_a_peer_makes_a_module_that_tools_refuse(
    tmp_path_factory: pytest.TempPathFactory, arguments: list[Argument], name: str, description: str
) -> None:
    schema = EventSchema(ClassKey("zoo", name), tuple(arguments), description=description)
    registry = extend_events(
        new_registry("", 0, "AMQP-GATEWAY-SITE-MIB", "site", DAY), [schema], DAY, retire=False
    )
    folder = tmp_path_factory.mktemp("mibs")
    assert complaints(folder, registry.module, module_text(registry, [], [schema])) == []


def test_smilint_and_pysmi_do_complain_of_what_is_wrong(tmp_path: Path) -> None:
    text = (DATA / "SHOP-MIB.mib").read_text(encoding="utf-8")
    shutil.copy(shipped_folder("mibs") / "AMQP-GATEWAY-MIB.mib", tmp_path)
    path = tmp_path / "SHOP-MIB.mib"
    path.write_text(text.replace("SYNTAX      Counter64", "SYNTAX      Counter65"), encoding="utf-8")
    said = smilint_complaints(path, base_folders())
    assert any("Counter65" in complaint.text and complaint.line > 0 for complaint in said)
    assert pysmi_complaints(path, base_folders())
    path.write_text(
        text.replace("MODULE-IDENTITY\n    LAST", "MODULE-IDENTITY {\n    LAST"), encoding="utf-8"
    )
    assert pysmi_complaints(path, base_folders())


def test_the_shop_registry_is_what_the_file_says() -> None:
    registry: OidRegistry = read_registry(DATA / "shop.oids.yaml")
    assert [(c.name, c.arc, bool(c.elements)) for c in registry.classes] == [
        ("hall", 1, True),
        ("till", 2, True),
        ("clerk", 3, False),
    ]


@pytest.mark.parametrize(("unit", "shown"), [("samples", "samples"), ("", "nanoseconds")])
def test_the_unit_of_a_mapping_wins_over_that_of_the_type(unit: str, shown: str) -> None:
    element = Element("latencySamples", ValueType.DURATION, unit=unit)
    entry = ElementEntry(name=element.name, column=100, syntax=Syntax.GAUGE64, descriptor="latencySamples")
    assert units_clause(entry, element) == shown
