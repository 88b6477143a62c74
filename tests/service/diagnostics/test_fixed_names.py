"""Names of the gateway's own MIB module, read from its text and compared with the numbers in the code."""

from __future__ import annotations

import pytest

from gateway.service.diagnostics.published_names import FixedNames, PublishedNames
from gateway.shipped_files import shipped_folder
from gateway.snmp import fixed_mib
from gateway.snmp.ber import Oid
from gateway.snmp.oid_registry import DEFAULT_ROOT
from tests.components.shipped_mappings import shipped_registries

FIXED = FixedNames.of(shipped_folder("mibs"))
NAMES = PublishedNames(DEFAULT_ROOT, shipped_registries(), None, FIXED)


@pytest.mark.parametrize(
    ("oid", "name"),
    [
        (fixed_mib.MODULE, "agMIB"),
        (fixed_mib.HEALTH, "agHealth"),
        ((*fixed_mib.HEALTH, fixed_mib.Health.ROWS), "agRows"),
        (fixed_mib.SOURCE_ENTRY, "agSourceEntry"),
        ((*fixed_mib.SOURCE_ENTRY, fixed_mib.SourceColumn.STATE), "agSourceState"),
        (fixed_mib.NOTIFICATIONS, "agNotifications"),
    ],
)
def test_the_module_s_text_has_the_numbers_of_the_code(oid: Oid, name: str) -> None:
    assert FIXED.by_descriptor[name] == oid
    assert FIXED.by_oid[oid].descriptor == name


def test_every_object_type_is_found_and_described() -> None:
    text = (shipped_folder("mibs") / "AMQP-GATEWAY-MIB.mib").read_text(encoding="ascii")
    declared = {line.split()[0] for line in text.splitlines() if line[:1] != " " and " OBJECT-TYPE" in line}
    assert declared
    assert declared <= FIXED.by_descriptor.keys()
    assert all(FIXED.by_oid[FIXED.by_descriptor[name]].description for name in declared)


def test_instances_are_named_as_net_snmp_writes_them() -> None:
    oid = NAMES.oid_of("AMQP-GATEWAY-MIB::agSourceState.1")
    assert oid == (*DEFAULT_ROOT, *fixed_mib.SOURCE_ENTRY, fixed_mib.SourceColumn.STATE, 1)
    meaning = NAMES.meaning(oid)
    assert meaning is not None
    assert meaning.descriptor == "AMQP-GATEWAY-MIB::agSourceState.1"
    assert meaning.description
    assert NAMES.meaning((*DEFAULT_ROOT, 77)) is None
