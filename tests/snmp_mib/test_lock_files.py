"""What a site keeps of its own, and that a file is never half written."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import ValueType
from gateway.snmp.lock_files import SiteSchemas, write_atomically
from gateway.snmp.lock_growth import extend
from gateway.yaml_documents import DocumentError

DAY = dt.date(2026, 5, 1)
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
def test_a_new_site_has_an_empty_lock_named_after_its_label(
    tmp_path: Path, label: str, module: str, prefix: str
) -> None:
    lock = SiteSchemas(tmp_path, label).load(DAY)
    assert (lock.module, lock.prefix, lock.classes, lock.provisional) == (module, prefix, (), True)
    assert list(tmp_path.iterdir()) == []


def test_a_label_of_another_script_still_gives_a_module(tmp_path: Path) -> None:
    lock = SiteSchemas(tmp_path, "\N{GREEK SMALL LETTER ALPHA}").load(DAY)
    assert lock.module.startswith("AMQP-GATEWAY-X")


def test_what_was_saved_is_loaded_whatever_the_label_is_by_then(tmp_path: Path) -> None:
    site = SiteSchemas(tmp_path / "snmp", "berlin")
    lock = extend(site.load(DAY), [DOG], DAY, retire=False)
    site.save(lock, {"zoo:dog": DOG})
    assert SiteSchemas(tmp_path / "snmp", "hamburg").load(DAY) == lock
    module = tmp_path / "snmp" / "mibs" / "AMQP-GATEWAY-BERLIN-MIB.mib"
    assert "How many it has." in module.read_text(encoding="ascii")
    assert sorted(path.name for path in (tmp_path / "snmp").iterdir()) == ["mibs", "provisional.lock.yaml"]


def test_a_damaged_lock_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "provisional.lock.yaml"
    path.write_text("version: 9\n", encoding="utf-8")
    with pytest.raises(DocumentError, match="provisional"):
        SiteSchemas(tmp_path, "berlin").load(DAY)
    assert path.read_text(encoding="utf-8") == "version: 9\n"


def test_a_file_that_cannot_be_written_keeps_its_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old\n")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \ud800\n")
    assert path.read_text(encoding="utf-8") == "old\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
