"""Shipped registries and modules fit their mappings, the fixed module fits the code; tools accept all."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
from collections import Counter
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pysmi.codegen import JsonCodeGen
from pysmi.compiler import MibCompiler
from pysmi.parser.smi import parserFactory
from pysmi.reader import FileReader
from pysmi.writer import CallbackWriter

from gateway.feed.freshness import Freshness
from gateway.feed.operations import OperationKind, OperationState
from gateway.mapping.rules import ElementRule
from gateway.model.operations import Outcome
from gateway.model.values import ValueType
from gateway.service.processes.exit_codes import ExitCode
from gateway.shipped_files import shipped_folder
from gateway.snmp import fixed_mib
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import (
    ALARM_ENTRY,
    ALARMS,
    CLASS_ENTRY,
    COMMAND_ARGUMENT_ENTRY,
    COMMAND_ENTRY,
    COMMAND_RESULT_ENTRY,
    COMMANDS,
    COMMON_OBJECTS,
    DELETED,
    DELETED_ENTRY,
    HEALTH,
    NOTIFICATION_OBJECTS,
    NOTIFICATIONS,
    OPERATION_ENTRY,
    OPERATIONS,
    SOURCE_ENTRY,
    SUM_ENTRY,
    TARGET_ENTRY,
    AlarmColumn,
    AlarmScalar,
    ClassColumn,
    CommandArgumentColumn,
    CommandColumn,
    CommandResultColumn,
    CommandScalar,
    CommandStateNumber,
    ConditionStateNumber,
    DeletedColumn,
    DeletedScalar,
    Health,
    NotificationObject,
    OperationColumn,
    OperationKindNumber,
    OperationScalar,
    OperationStateNumber,
    OutcomeNumber,
    OwnNotification,
    SeverityNumber,
    SourceColumn,
    SourceStateNumber,
    SumColumn,
    TargetColumn,
    TargetKindNumber,
    ValueSyntaxNumber,
)
from gateway.snmp.mib.capabilities import MODULE_NAME as CAPABILITIES_MODULE
from gateway.snmp.mib.lint import base_folders
from gateway.snmp.oid_registry import DEFAULT_ROOT, OidRegistry
from gateway.snmp.registry_files import generated, registry_text
from gateway.snmp.row_columns import ROW_COLUMNS, RowColumn, RowLifetime
from tests.components.command_line import amqp_gateway
from tests.components.shipped_mappings import shipped_mappings, shipped_registries
from tests.written_pages.notifications_table import notifications_table

pytestmark = pytest.mark.xdist_group("shipped modules")  # each worker would compile them

MIBS = shipped_folder("mibs")
REGISTRIES = {registry.package: registry for registry in shipped_registries()}
REPORTED = ("read-only", "read-write", "read-create", "accessible-for-notify")
OBJECT_MODULES = [path for path in sorted(MIBS.iterdir()) if path.stem != CAPABILITIES_MODULE]
"""Files of modules that define objects."""

BASE_MODULES = {"SNMPv2-SMI", "SNMPv2-TC", "SNMPv2-CONF", "SNMPv2-MIB", "SNMP-FRAMEWORK-MIB"}


@cache
def parser() -> Any:  # noqa: ANN401  pysmi has no types
    return parserFactory()()


@cache
def compiled(module: str) -> dict[str, Any]:
    """Return the module as pysmi compiles it."""
    texts: dict[str, str] = {}
    writer = CallbackWriter(lambda name, text, _: texts.update({name: text}))
    compiler = MibCompiler(parser(), JsonCodeGen(), writer)
    compiler.add_sources(*(FileReader(str(folder), recursive=False) for folder in (MIBS, *base_folders())))
    compiler.compile(module, rebuild=True)
    document: dict[str, Any] = json.loads(texts[module])
    return document


@pytest.fixture(scope="module")
def fixed() -> dict[str, Any]:
    return compiled("AMQP-GATEWAY-MIB")


def oid_of(document: dict[str, Any], name: str) -> Oid:
    return tuple(int(part) for part in document[name]["oid"].split("."))


def dotted(oid: Oid) -> str:
    return "." + ".".join(str(part) for part in oid)


def translate(form: str, *names: str, module: str = "") -> str:
    """Return the translation by net-snmp of names, or of numbers of a module."""
    module = module or names[0].partition("::")[0]
    folders = ":".join(str(folder) for folder in (*base_folders(), MIBS))
    run = subprocess.run(  # noqa: S603  fixed arguments
        ["/usr/bin/snmptranslate", "-M", folders, "-m", module, form, *names],
        env={**os.environ, "SNMPCONFPATH": os.devnull, "MIBS": ""},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    return run.stdout.strip()


def labels(numbers: type[IntEnum]) -> dict[str, int]:
    """Return the labels of an enumeration of the code in a module, with their numbers."""
    return {camel(member.name)[0].lower() + camel(member.name)[1:]: int(member) for member in numbers}


def camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


@pytest.mark.parametrize("path", sorted(MIBS.iterdir()), ids=lambda path: path.name)
def test_every_file_of_mibs_is_a_module(path: Path) -> None:
    assert path.suffix == ".mib"
    assert path.read_text(encoding="ascii").startswith(f"{path.stem} DEFINITIONS ::= BEGIN\n")


def test_the_command_accepts_every_file_without_a_word() -> None:
    ended = amqp_gateway("mib", "lint")
    assert (ended.code, ended.output) == (ExitCode.OK, f"{len(list(MIBS.iterdir()))} files, no complaints\n")


@pytest.mark.parametrize("path", sorted(MIBS.iterdir()), ids=lambda path: path.name)
def test_only_modules_that_users_have_are_imported(path: Path) -> None:
    imported = set(compiled(path.stem)["imports"]) - {"class"}
    assert imported <= BASE_MODULES | {"AMQP-GATEWAY-MIB"}


@pytest.mark.parametrize("package", sorted(REGISTRIES))
def test_a_shipped_registry_and_module_are_what_their_mapping_gives(package: str) -> None:
    registry, mapping = REGISTRIES[package], shipped_mappings()[package]
    path = shipped_folder("mappings") / "oids" / f"{package}.oids.yaml"
    assert registry_text(registry) == path.read_text(encoding="utf-8")
    grown, text = generated(mapping, registry, dt.date(2100, 1, 1), grow=True)
    assert grown is registry, "the mapping has something that the registry lacks: run `amqp-gateway mib gen`"
    assert (registry.module, registry.prefix) == (mapping.module, mapping.prefix)
    assert text == (MIBS / f"{registry.module}.mib").read_text(encoding="utf-8")


def test_the_page_on_modules_has_every_notification(fixed: dict[str, Any]) -> None:
    page = (shipped_folder("mibs").parent / "docs" / "mibs.md").read_text(encoding="utf-8")
    for package, registry in REGISTRIES.items():
        assert notifications_table(shipped_mappings()[package], registry) in page, (
            f"write the table of {package} in docs/mibs.md again from notifications_table()"
        )
    for member in COMMON_OBJECTS:
        assert f"`agEvent{camel(member.name)}`" in page
    for name, node in fixed.items():
        if node.get("class") == "notificationtype":
            own = [f"`{entry['object']}`" for entry in node["objects"][len(COMMON_OBJECTS) :]]
            (row,) = (
                line
                for line in page.splitlines()
                if line.startswith(f"| `{name}` ({oid_of(fixed, name)[-1]})")
            )
            assert row.split(" | ")[-1].removesuffix(" |").strip("| ") == ", ".join(own)


def test_every_shipped_mapping_has_its_lock() -> None:
    assert set(shipped_mappings()) == set(REGISTRIES)


def test_no_name_means_something_in_two_modules() -> None:
    names = Counter(name.lower() for registry in REGISTRIES.values() for name in registry.descriptors())
    names.update(name.lower() for name in compiled("AMQP-GATEWAY-MIB") if name not in ("imports", "meta"))
    assert [name for name, times in names.items() if times > 1] == []
    assert max(map(len, names)) <= 64


def test_packages_stand_where_they_were_published() -> None:
    assert {package: registry.arc for package, registry in REGISTRIES.items()} == {
        "rabbitmq": 1,
        "org.apache.qpid.broker": 2,
        "openamq.org.server": 3,
        "org.apache.qpid.acl": 4,
        "ami-relay": 5,
    }


@pytest.mark.parametrize("package", sorted(REGISTRIES))
def test_a_registry_takes_what_a_later_version_adds_and_moves_nothing(package: str) -> None:
    registry, mapping = REGISTRIES[package], shipped_mappings()[package]
    name, rule = next(iter(mapping.classes.items()))
    newer = rule.model_copy(
        update={"statistics": {"later": ElementRule(type=ValueType.U64)} | rule.statistics}
    )
    day = dt.date(2100, 1, 1)
    grown, _ = generated(mapping.model_copy(update={"classes": {name: newer}}), registry, day, grow=True)
    assert grown.last_updated == day
    for before, after in zip(registry.classes, grown.classes, strict=True):
        added = after.elements[len(before.elements) :]
        assert after.elements[: len(before.elements)] == before.elements
        assert [element.name for element in added] == (["later"] if after.name == name else [])


def test_the_classes_of_rabbitmq_have_the_arcs_that_were_published() -> None:
    assert REGISTRIES["rabbitmq"].arc == 1
    assert {c.name: c.arc for c in REGISTRIES["rabbitmq"].classes} == {
        "node": 1,
        "vhost": 2,
        "queue": 3,
        "exchange": 4,
        "connection": 5,
        "binding": 6,
        "channel": 7,
        "consumer": 8,
        "user": 9,
        "policy": 10,
        "parameter": 11,
        "streamConsumer": 12,
        "streamPublisher": 13,
        "session": 14,
        "link": 15,
        "operatorPolicy": 16,
        "permission": 17,
        "topicPermission": 18,
        "featureFlag": 19,
        "deprecatedFeature": 20,
        "protocol": 21,
        "shovel": 22,
        "federationLink": 23,
    }


def test_the_fixed_module_hangs_where_the_code_says(fixed: dict[str, Any]) -> None:
    assert oid_of(fixed, "agRoot") == DEFAULT_ROOT
    assert oid_of(fixed, "agMIB") == (*DEFAULT_ROOT, *fixed_mib.MODULE)
    assert oid_of(fixed, "agPackages") == (*DEFAULT_ROOT, 2)
    assert oid_of(fixed, "agSourceEntry") == (*DEFAULT_ROOT, *SOURCE_ENTRY)
    assert oid_of(fixed, "agClassEntry") == (*DEFAULT_ROOT, *CLASS_ENTRY)
    assert oid_of(fixed, "agSumEntry") == (*DEFAULT_ROOT, *SUM_ENTRY)
    assert oid_of(fixed, "agAlarmEntry") == (*DEFAULT_ROOT, *ALARM_ENTRY)
    assert oid_of(fixed, "agDeletedEntry") == (*DEFAULT_ROOT, *DELETED_ENTRY)
    assert oid_of(fixed, "agCommandEntry") == (*DEFAULT_ROOT, *COMMAND_ENTRY)
    assert oid_of(fixed, "agCommandArgumentEntry") == (*DEFAULT_ROOT, *COMMAND_ARGUMENT_ENTRY)
    assert oid_of(fixed, "agCommandResultEntry") == (*DEFAULT_ROOT, *COMMAND_RESULT_ENTRY)
    assert oid_of(fixed, "agTargetEntry") == (*DEFAULT_ROOT, *TARGET_ENTRY)
    assert oid_of(fixed, "agNotifications") == (*DEFAULT_ROOT, *NOTIFICATIONS)
    assert oid_of(fixed, "agNotificationObjects") == (*DEFAULT_ROOT, *NOTIFICATION_OBJECTS)


@pytest.mark.parametrize(
    ("numbers", "base", "prefix"),
    [
        (Health, HEALTH, "ag"),
        (SourceColumn, SOURCE_ENTRY, "agSource"),
        (ClassColumn, CLASS_ENTRY, "agClass"),
        (SumColumn, SUM_ENTRY, "agSum"),
        (AlarmColumn, ALARM_ENTRY, "agAlarm"),
        (AlarmScalar, ALARMS, "agAlarms"),
        (DeletedColumn, DELETED_ENTRY, "agDeleted"),
        (DeletedScalar, DELETED, "agDeleted"),
        (CommandColumn, COMMAND_ENTRY, "agCommand"),
        (CommandArgumentColumn, COMMAND_ARGUMENT_ENTRY, "agCommandArgument"),
        (CommandResultColumn, COMMAND_RESULT_ENTRY, "agCommandResult"),
        (CommandScalar, COMMANDS, "agCommands"),
        (OperationColumn, OPERATION_ENTRY, "agOperation"),
        (OperationScalar, OPERATIONS, "agOperations"),
        (NotificationObject, NOTIFICATION_OBJECTS, "agEvent"),
        (OwnNotification, NOTIFICATIONS, "ag"),
        (TargetColumn, TARGET_ENTRY, "agTarget"),
    ],
)
def test_every_object_of_the_fixed_module_has_the_number_of_the_code(
    fixed: dict[str, Any], numbers: type[IntEnum], base: Oid, prefix: str
) -> None:
    expected = {f"{prefix}{camel(member.name)}": (*DEFAULT_ROOT, *base, int(member)) for member in numbers}
    reported = {
        name: oid_of(fixed, name)
        for name, node in fixed.items()
        if (node.get("maxaccess") in REPORTED or node.get("class") == "notificationtype")
        and oid_of(fixed, name)[:-1] == (*DEFAULT_ROOT, *base)
    }
    assert reported == expected


def test_the_enumerations_of_the_fixed_module_are_those_of_the_code(fixed: dict[str, Any]) -> None:
    expected: dict[str, type[IntEnum]] = {
        "agSourceState": SourceStateNumber,
        "agEventSourceState": SourceStateNumber,
        "agTargetKind": TargetKindNumber,
        "agCommandState": CommandStateNumber,
        "agOperationKind": OperationKindNumber,
        "agOperationState": OperationStateNumber,
        "AgOutcome": OutcomeNumber,
        "AgValueSyntax": ValueSyntaxNumber,
        "agDeletedLifetime": RowLifetime,
        "AgRowState": Freshness,
        "AgSeverity": SeverityNumber,
        "AgConditionState": ConditionStateNumber,
    }
    for name, numbers in expected.items():
        node = fixed[name]
        syntax = node.get("syntax") or node["type"]
        assert syntax["constraints"]["enumeration"] == labels(numbers), name


def test_every_outcome_has_a_number() -> None:
    assert [outcome.name for outcome in Outcome] == [number.name for number in OutcomeNumber]
    assert [kind.name for kind in OperationKind] == [number.name for number in OperationKindNumber]
    assert [state.name for state in OperationState] == [number.name for number in OperationStateNumber]


def test_every_notification_of_the_fixed_module_begins_with_what_all_have_in_common(
    fixed: dict[str, Any],
) -> None:
    common = [f"agEvent{camel(member.name)}" for member in COMMON_OBJECTS]
    notifications = [node for node in fixed.values() if node.get("class") == "notificationtype"]
    assert len(notifications) == len(OwnNotification)
    for node in notifications:
        reported = [entry["object"] for entry in node["objects"]]
        assert reported[: len(common)] == common
        assert [oid_of(fixed, name)[-1] for name in reported] == sorted(
            oid_of(fixed, n)[-1] for n in reported
        )


@pytest.mark.parametrize("package", sorted(REGISTRIES))
def test_a_generated_module_has_the_oids_that_the_agent_serves(package: str) -> None:
    registry: OidRegistry = REGISTRIES[package]
    document = compiled(registry.module)
    for class_entry in registry.classes:
        if not class_entry.elements:
            continue
        entry = registry.entry_oid(DEFAULT_ROOT, class_entry)
        assert oid_of(document, f"{class_entry.descriptor}Entry") == entry
        for column in RowColumn:
            name = class_entry.descriptor + ROW_COLUMNS[column].suffix
            assert oid_of(document, name) == (*entry, column)
        for element in class_entry.elements:
            for descriptor, number in zip(element.descriptors, element.columns, strict=True):
                assert oid_of(document, descriptor) == (*entry, number)


@pytest.mark.parametrize(
    ("name", "oid"),
    [
        ("AMQP-GATEWAY-MIB::agSourceState.1", (*DEFAULT_ROOT, *SOURCE_ENTRY, SourceColumn.STATE, 1)),
        ("AMQP-GATEWAY-RABBITMQ-MIB::rmqQueueRowName.1.2", (*DEFAULT_ROOT, 2, 1, 1, 3, 1, 2, 1, 2)),
        ("AMQP-GATEWAY-QPID-MIB::qpidQueueMsgDepth.1.2", (*DEFAULT_ROOT, 2, 2, 1, 4, 1, 116, 1, 2)),
        ("AMQP-GATEWAY-OPENAMQ-MIB::oamqConfigHeartbeat.1.2", (*DEFAULT_ROOT, 2, 3, 1, 9, 1, 123, 1, 2)),
        ("AMQP-GATEWAY-QPID-ACL-MIB::qpidAclAclAclDenyCount.1.2", (*DEFAULT_ROOT, 2, 4, 1, 1, 1, 111, 1, 2)),
        ("AMQP-GATEWAY-AMI-MIB::amiApplicationConnected.1.2", (*DEFAULT_ROOT, 2, 5, 1, 1, 1, 102, 1, 2)),
    ],
)
def test_net_snmp_translates_names(name: str, oid: Oid) -> None:
    assert translate("-On", name) == dotted(oid)


@pytest.mark.parametrize("package", sorted(REGISTRIES))
def test_a_generated_module_has_the_notifications_that_the_agent_sends(package: str) -> None:
    registry: OidRegistry = REGISTRIES[package]
    document = compiled(registry.module)
    notifications = {n for n, node in document.items() if node.get("class") == "notificationtype"}
    assert notifications == {event_entry.descriptor for event_entry in registry.events}
    common = [f"agEvent{camel(member.name)}" for member in COMMON_OBJECTS]
    for event_entry in registry.events:
        reported = document[event_entry.descriptor]
        assert oid_of(document, event_entry.descriptor) == registry.notification_oid(
            DEFAULT_ROOT, event_entry
        )
        own = [name for argument in registry.arguments_of(event_entry) for name in argument.descriptors]
        assert [entry["object"] for entry in reported["objects"]] == common + own
    for argument in registry.arguments:
        for descriptor, arc in zip(argument.descriptors, argument.arcs, strict=True):
            assert document[descriptor]["maxaccess"] == "accessible-for-notify"
            assert (*oid_of(document, descriptor), 0) == registry.argument_oid(DEFAULT_ROOT, arc)


def test_nothing_that_a_notification_carries_is_a_counter64() -> None:
    for path in sorted(MIBS.iterdir()):
        for name, node in compiled(path.stem).items():
            if node.get("maxaccess") == "accessible-for-notify":
                assert node["syntax"]["type"] not in ("Counter64", "AgGauge64"), name


@pytest.mark.parametrize("path", OBJECT_MODULES, ids=lambda path: path.name)
def test_net_snmp_translates_every_name_of_notifications_there_and_back(path: Path) -> None:
    document = compiled(path.stem)
    names = [
        name
        for name, node in document.items()
        if node.get("class") == "notificationtype" or node.get("maxaccess") == "accessible-for-notify"
    ]
    oids = [dotted(oid_of(document, name)) for name in names]
    assert names
    assert translate("-On", *(f"{path.stem}::{name}" for name in names)).split() == oids
    assert translate("-OS", *oids, module=path.stem).split() == [f"{path.stem}::{name}" for name in names]


@pytest.mark.parametrize("path", OBJECT_MODULES, ids=lambda path: path.name)
def test_net_snmp_knows_the_label_of_every_number(path: Path) -> None:
    document = compiled(path.stem)
    labelled = {
        name: set(node["syntax"]["constraints"]["enumeration"])
        for name, node in document.items()
        if isinstance(node, dict) and "enumeration" in node.get("syntax", {}).get("constraints", {})
    }
    assert labelled
    reported = translate("-Td", *(f"{path.stem}::{name}" for name in labelled))
    for name, labels in labelled.items():
        definition = reported.partition(f"{path.stem}::{name}\n")[2].partition("\n::= {")[0]
        assert all(f"{label}(" in definition for label in labels), name


def test_a_count_that_qpid_declares_as_a_duration_is_counted_in_samples() -> None:
    text = (shipped_folder("mibs") / "AMQP-GATEWAY-QPID-MIB.mib").read_text(encoding="ascii")
    definition = text.partition("\nqpidQueueMessageLatencySamples OBJECT-TYPE")[2].partition("::=")[0]
    assert 'UNITS       "samples"' in definition
