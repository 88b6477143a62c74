"""The product, its capabilities statements, and sysORTable, which names them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.shipped_files import shipped_folder
from gateway.snmp import ber
from gateway.snmp.ber import Oid, dotted
from gateway.snmp.fixed_mib import CAPABILITIES, PACKAGE_CAPABILITIES, PRODUCT, CapabilitiesNumber
from gateway.snmp.mib.capabilities import MODULE_NAME, capabilities_text
from gateway.snmp.mib.lint import base_folders, smilint_complaints
from gateway.snmp.oid_registry import DEFAULT_ROOT
from gateway.snmp.registry_files import update_capabilities
from gateway.snmp.registry_growth import extend
from gateway.snmp.served_modules import STANDARD_MODULES, list_modules, list_site_module
from gateway.snmp.standard_groups import SnmpCounters, SystemDescription, SystemGroup
from gateway.snmp.store import Store
from tests.components.shipped_mappings import shipped_registries
from tests.snmp.mib.shop import DAY, HALL, PROVISIONAL
from tests.snmp.mib.test_shipped import compiled, oid_of, translate

pytestmark = pytest.mark.xdist_group("shipped modules")  # that of what `compiled` keeps

MIBS = shipped_folder("mibs")
REGISTRIES = shipped_registries()
TEXT = (MIBS / f"{MODULE_NAME}.mib").read_text("ascii")
SUPPORTED = re.findall(r"SUPPORTS +(\S+)\n    INCLUDES +\{([^}]*)\}", TEXT)
OR_ENTRY: Oid = (1, 3, 6, 1, 2, 1, 1, 9, 1)


def test_the_shipped_text_is_what_its_modules_give() -> None:
    registries = shipped_folder("mappings") / "oids"
    assert update_capabilities(MIBS, registries, dry_run=True) == [], "run `amqp-gateway mib gen`"


def test_the_statements_have_the_numbers_that_the_agent_serves() -> None:
    document = compiled(MODULE_NAME)
    assert oid_of(document, "agGateway") == (*DEFAULT_ROOT, *PRODUCT)
    assert oid_of(document, "agAgentCapabilities") == (*DEFAULT_ROOT, *CAPABILITIES)
    numbers = {
        oid_of(document, name)[-1]
        for name, node in document.items()
        if isinstance(node, dict) and node.get("class") == "agentcapabilities"
    }
    assert numbers == {*CapabilitiesNumber} | {PACKAGE_CAPABILITIES + registry.arc for registry in REGISTRIES}


@pytest.mark.parametrize("module", [module for module, _ in SUPPORTED])
def test_a_statement_includes_groups_that_its_module_has(module: str) -> None:
    groups = next(names for name, names in SUPPORTED if name == module).replace(",", " ").split()
    document = compiled(module)
    known = {
        name
        for name, node in document.items()
        if isinstance(node, dict) and node.get("class") in ("objectgroup", "notificationgroup")
    }
    assert set(groups) <= known
    if module.startswith("AMQP-GATEWAY-"):
        assert set(groups) == {name for name in known if document[name].get("status") == "current"}


def test_a_statement_about_a_module_without_a_text_is_right_where_its_clauses_are_no_comments(
    tmp_path: Path,
) -> None:
    path = tmp_path / f"{MODULE_NAME}.mib"
    path.write_text(re.sub("^    -- ", "    ", TEXT, flags=re.MULTILINE), "ascii")
    said = [complaint.text for complaint in smilint_complaints(path, [MIBS, *base_folders()])]
    missing = [text for text in said if "failed to locate MIB module" in text]
    assert [text.split("`")[1].rstrip("'") for text in missing] == [
        "NETWORK-SERVICES-MIB",
        "NOTIFICATION-LOG-MIB",
    ]
    assert all("unknown object identifier label" in text for text in said if text not in missing)


def test_each_standard_module_has_a_statement_of_its_own() -> None:
    numbers = [module.capabilities for module in STANDARD_MODULES]
    assert sorted(numbers) == sorted({*CapabilitiesNumber} - {CapabilitiesNumber.GATEWAY})
    for module in STANDARD_MODULES:
        (statement,) = re.findall(rf"SUPPORTS    {module.name}\n(.*?)::= ", TEXT, re.DOTALL)
        before, _, after = TEXT.partition(statement)
        assert after.startswith(f"::= {{ agAgentCapabilities {module.capabilities} }}")
        assert "AGENT-CAPABILITIES" in before


def test_a_group_that_has_become_obsolete_is_not_included() -> None:
    text = (MIBS / "AMQP-GATEWAY-MIB.mib").read_text("ascii")
    name = re.findall(r"^(\w+) OBJECT-GROUP$", text, re.MULTILINE)[0]
    head, _, tail = text.partition(f"{name} OBJECT-GROUP\n")
    obsolete = f"{head}{name} OBJECT-GROUP\n{tail.replace('STATUS      current', 'STATUS      obsolete', 1)}"
    assert f"        {name}" in capabilities_text(text, {})
    assert f"        {name}" not in capabilities_text(obsolete, {})


def test_a_later_revision_of_a_module_is_one_of_this() -> None:
    text = (MIBS / "AMQP-GATEWAY-MIB.mib").read_text("ascii")
    later = text.replace('    REVISION     "', '    REVISION     "210001010000Z"\n    REVISION     "', 1)
    assert 'LAST-UPDATED "210001010000Z"' in capabilities_text(later, {})


def served_modules(*subtrees: Oid) -> dict[Oid, str]:
    """Return the rows of sysORTable of an agent that also serves something below these subtrees."""
    store = Store()
    SnmpCounters().serve(store)
    system = SystemGroup(store, SystemDescription("a gateway", (*DEFAULT_ROOT, *PRODUCT)), lambda: 0)
    for subtree in subtrees:
        store.table((*subtree, 9, 1), [2])
    list_modules(system, store, DEFAULT_ROOT, REGISTRIES)
    rows = {}
    for index in range(1, 50):
        identity, text = (store.get((*OR_ENTRY, column, index)) for column in (2, 3))
        if identity != ber.NO_SUCH_INSTANCE:
            rows[ber.decode_name(identity[2:])] = text[2:].decode().partition(":")[0]
    return rows


def test_a_module_is_listed_where_the_agent_serves_something_of_it() -> None:
    own = ["AMQP-GATEWAY-MIB", *(registry.module for registry in REGISTRIES)]
    assert list(served_modules().values()) == ["SNMPv2-MIB", "SNMP-MPD-MIB", *own]
    everything = served_modules(*(module.subtree for module in STANDARD_MODULES[3:]))
    assert [*everything.values()] == [
        *(module.name for module in STANDARD_MODULES if module.name != "SNMP-FRAMEWORK-MIB"),
        *own,
    ]


def test_what_is_listed_has_a_name() -> None:
    for identity in served_modules(*(module.subtree for module in STANDARD_MODULES[3:])):
        name = translate("-OS", f".{dotted(identity)}", module=MODULE_NAME)
        assert name.startswith(f"{MODULE_NAME}::ag")
        assert name.endswith("Capabilities")


def test_the_sites_own_module_is_listed_once_it_has_anything() -> None:
    store = Store()
    system = SystemGroup(store, SystemDescription("a gateway", (1, 3)), lambda: 0)
    list_site_module(system, DEFAULT_ROOT, PROVISIONAL)
    assert store.next(OR_ENTRY) is None
    grown = extend(PROVISIONAL, [HALL], DAY)
    for _ in range(2):
        list_site_module(system, DEFAULT_ROOT, grown)
    assert store.get((*OR_ENTRY, 2, 1)) == ber.encode_oid((*DEFAULT_ROOT, 3))
    assert store.get((*OR_ENTRY, 2, 2)) == ber.NO_SUCH_INSTANCE
