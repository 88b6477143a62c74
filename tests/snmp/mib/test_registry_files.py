"""The registries and modules that a site keeps; a file is never half written."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.mapping.files import load_mapping
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import ValueType
from gateway.snmp.oid_registry import read_registry
from gateway.snmp.registry_files import SiteRegistry, generate_files, registry_text
from gateway.snmp.registry_growth import extend
from gateway.snmp.registry_lookup import SeenSchemas
from gateway.yaml_documents import DocumentError

DAY, NEXT_DAY = dt.date(2026, 5, 1), dt.date(2026, 6, 1)
SHOP = load_mapping(Path(__file__).parents[2] / "data" / "snmp_mib" / "shop.yaml")
DOG = ClassSchema(
    ClassKey("zoo", "dog"), statistics=(Element("legs", ValueType.U8, description="How many it has."),)
)


@pytest.mark.parametrize(
    ("label", "module", "prefix"),
    [
        ("berlin", "AMQP-GATEWAY-BERLIN-MIB", "berlin"),
        ("Berlin east_2", "AMQP-GATEWAY-BERLIN-EAST-2-MIB", "berlinEast2"),
        ("x" * 80, f"AMQP-GATEWAY-{'X' * 40}-MIB", "x" * 16),
        ("9", "AMQP-GATEWAY-9-MIB", "n9"),
    ],
)
def test_a_new_site_has_an_empty_registry_named_after_its_label(
    tmp_path: Path, label: str, module: str, prefix: str
) -> None:
    registry = SiteRegistry(tmp_path, label).load(DAY)
    assert (registry.module, registry.prefix, registry.classes, registry.provisional) == (
        module,
        prefix,
        (),
        True,
    )
    assert list(tmp_path.iterdir()) == []


def test_a_label_of_another_script_still_gives_a_module(tmp_path: Path) -> None:
    registry = SiteRegistry(tmp_path, "\N{GREEK SMALL LETTER ALPHA}").load(DAY)
    assert registry.module.startswith("AMQP-GATEWAY-X")


def test_what_was_saved_is_loaded_whatever_the_label_is_by_then(tmp_path: Path) -> None:
    site = SiteRegistry(tmp_path / "snmp", "berlin")
    registry = extend(site.load(DAY), [DOG], DAY, retire=False)
    site.save(registry, SeenSchemas({"zoo:dog": DOG}))
    assert SiteRegistry(tmp_path / "snmp", "hamburg").load(DAY) == registry
    module = tmp_path / "snmp" / "mibs" / "AMQP-GATEWAY-BERLIN-MIB.mib"
    assert "How many it has." in module.read_text(encoding="ascii")
    assert sorted(path.name for path in (tmp_path / "snmp").iterdir()) == ["mibs", "provisional.oids.yaml"]


def test_a_module_says_what_a_mapping_says_by_now(tmp_path: Path) -> None:
    site = SiteRegistry(tmp_path, "berlin")
    registry = extend(site.load(DAY), [DOG], DAY, retire=False)
    site.save(registry, SeenSchemas({"zoo:dog": DOG}))
    paths = (tmp_path / "provisional.oids.yaml", tmp_path / "mibs" / "AMQP-GATEWAY-BERLIN-MIB.mib")
    before = [path.stat().st_mtime_ns for path in paths]
    described = replace(DOG, statistics=tuple(replace(one, unit="paws") for one in DOG.statistics))
    site.save(registry, SeenSchemas({"zoo:dog": described}))
    assert 'UNITS       "paws"' in paths[1].read_text(encoding="ascii")
    after = [path.stat().st_mtime_ns for path in paths]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False]


def test_a_damaged_registry_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "provisional.oids.yaml"
    path.write_text("version: 9\n", encoding="utf-8")
    with pytest.raises(DocumentError, match="provisional"):
        SiteRegistry(tmp_path, "berlin").load(DAY)
    assert path.read_text(encoding="utf-8") == "version: 9\n"


def test_a_new_package_gets_the_next_arc_its_registry_and_its_module(tmp_path: Path) -> None:
    registries, mibs = tmp_path / "registries", tmp_path / "mibs"
    changed = generate_files(SHOP, registries, mibs, DAY, grow=True)
    assert changed == [registries / "shop.oids.yaml", mibs / "SHOP-MIB.mib"]
    assert read_registry(changed[0]).arc == 6
    generate_files(SHOP.model_copy(update={"package": "stall"}), registries, mibs, DAY, grow=True)
    assert read_registry(registries / "stall.oids.yaml").arc == 7
    generate_files(
        SHOP.model_copy(update={"package": "openamq.org.server"}), registries, mibs, DAY, grow=True
    )
    assert read_registry(registries / "openamq.org.server.oids.yaml").arc == 3


def test_nothing_is_written_when_everything_is_up_to_date_or_only_asked_for(tmp_path: Path) -> None:
    assert len(generate_files(SHOP, tmp_path, tmp_path, DAY, grow=True, dry_run=True)) == 2
    assert list(tmp_path.iterdir()) == []
    generate_files(SHOP, tmp_path, tmp_path, DAY, grow=True)
    assert generate_files(SHOP, tmp_path, tmp_path, NEXT_DAY, grow=True) == []
    module = tmp_path / "SHOP-MIB.mib"
    module.write_text("edited by hand", encoding="utf-8")
    assert generate_files(SHOP, tmp_path, tmp_path, NEXT_DAY, grow=False, dry_run=True) == [module]


def test_a_registry_is_made_only_when_asked_for(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"shop\.oids\.yaml"):
        generate_files(SHOP, tmp_path, tmp_path, DAY, grow=False)


def test_a_site_s_registry_is_read_under_its_old_name_and_saved_under_the_new_one(tmp_path: Path) -> None:
    old = tmp_path / "provisional.lock.yaml"
    site = SiteRegistry(tmp_path, "berlin")
    grown = extend(site.load(DAY), [DOG], DAY)
    old.write_text(registry_text(grown))
    assert site.old_path == old
    assert site.load(DAY) == grown
    site.save(grown, SeenSchemas())
    assert not old.exists()
    assert site.load(DAY) == grown


def test_a_package_s_registry_of_the_old_name_is_read_and_renamed(tmp_path: Path) -> None:
    generate_files(SHOP, tmp_path, tmp_path, DAY, grow=True)
    old, new = tmp_path / "shop.lock.yaml", tmp_path / "shop.oids.yaml"
    registry = read_registry(new)
    new.rename(old)
    assert generate_files(SHOP, tmp_path, tmp_path, DAY, grow=False, dry_run=True) == [new]
    assert generate_files(SHOP, tmp_path, tmp_path, DAY, grow=False) == [new]
    assert (old.exists(), read_registry(new)) == (False, registry)
