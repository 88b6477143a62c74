"""The shipped mappings of Qpid brokers and OpenAMQ fit the recorded schemas, with nothing left over."""

from __future__ import annotations

import pytest

from gateway.mapping.files import applied, applied_event, settable_by_methods, settable_natively
from gateway.model.observations import Severity
from gateway.model.schema import Access, ClassSchema, EventSchema, Kind
from gateway.model.secrets import SecretRules
from gateway.model.values import ValueType
from gateway.snmp.syntax import Syntax
from tests.mapping.recorded_schemas import (
    JAVA,
    MAPPINGS,
    OPENAMQ,
    PACKAGES,
    QPID,
    QPID_ACL,
    QPIDD,
    REGISTRIES,
    element,
    mapped_names,
    recorded,
    recorded_class,
    reported_names,
    without_a_column,
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_element_that_is_reported_is_in_the_mapping_and_nothing_else(package: str) -> None:
    reported = {
        name: type_ for schema in reversed(recorded(package)) for name, type_ in reported_names(schema)
    }
    mapped = {name: rule.type for name, rule in mapped_names(MAPPINGS[package])}
    if package == OPENAMQ:
        assert mapped.pop("events.notify.text"), "a notify has no schema: it is the session's"
    assert mapped == reported


@pytest.mark.parametrize("package", PACKAGES)
def test_every_class_method_and_event_that_is_reported_is_in_the_mapping_and_nothing_else(
    package: str,
) -> None:
    mapping = MAPPINGS[package]
    classes = [schema for schema in recorded(package) if isinstance(schema, ClassSchema)]
    events = [schema for schema in recorded(package) if isinstance(schema, EventSchema)]
    assert {schema.key.name for schema in classes} == set(mapping.classes)
    assert {schema.key.name for schema in events} == set(mapping.events) - {"notify"}
    reported = {(schema.key.name, method.name) for schema in classes for method in schema.methods}
    assert reported == {(name, method) for name, rule in mapping.classes.items() for method in rule.methods}


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_is_described_in_a_sentence(package: str) -> None:
    mapping = MAPPINGS[package]
    for name, rule in mapped_names(mapping):
        assert rule.description.endswith("."), name
    for class_name, class_rule in mapping.classes.items():
        assert class_rule.label, class_name
        assert class_rule.description.endswith("."), class_name
        for name, one in (*class_rule.properties.items(), *class_rule.statistics.items()):
            assert one.label, f"{class_name}.{name}"
            assert one.kind is not Kind.COUNTER or one.unit, f"{class_name}.{name}"
        for method, method_rule in class_rule.methods.items():
            assert method_rule.label, method
            assert method_rule.description.endswith("."), method
    for event, event_rule in mapping.events.items():
        assert event_rule.label, event
        assert event_rule.text, event
        assert event_rule.description.endswith("."), event


@pytest.mark.parametrize("package", PACKAGES)
def test_every_reference_says_to_what(package: str) -> None:
    for schema in recorded(package):
        if isinstance(schema, ClassSchema):
            for each in applied(MAPPINGS[package], schema).elements:
                if each.type is ValueType.REFERENCE:
                    of_package, _, name = each.references.rpartition(":")
                    assert name in MAPPINGS[of_package or package].classes, f"{schema.key}.{each.name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_version_of_a_class_fits_into_the_columns_of_the_lock(package: str) -> None:
    missing = {str(schema.key): without_a_column(schema, REGISTRIES[package]) for schema in recorded(package)}
    domain = missing.pop(f"{QPID}:domain", None)
    assert domain in (None, {"password"}), "a secret has no column"
    assert not any(missing.values()), missing


def test_a_number_that_has_more_bits_in_one_broker_than_in_the_other_has_one_column() -> None:
    widths = [element(recorded_class("queue", QPID, p), "msgDepth").type.integer_bits for p in (QPIDD, JAVA)]
    assert widths == [64, 32]
    (queue,) = (each for each in REGISTRIES[QPID].classes if each.name == "queue")
    assert [each.syntax for each in queue.elements if each.name == "msgDepth"] == [Syntax.GAUGE64]


def test_flattened_compounds_have_their_kinds() -> None:
    queue = applied(MAPPINGS[QPID], recorded_class("queue", QPID))
    kinds = {each.name: each.kind for each in queue.elements}
    assert kinds["consumerCount"] is Kind.GAUGE
    assert (kinds["consumerCountHigh"], kinds["consumerCountLow"]) == (Kind.HIGH, Kind.LOW)
    assert (kinds["messageLatencyMax"], kinds["messageLatencyMin"]) == (Kind.HIGH, Kind.LOW)
    assert kinds["messageLatencyAverage"] is Kind.AVERAGE
    assert (kinds["msgTotalEnqueues"], kinds["msgDepth"]) == (Kind.COUNTER, Kind.GAUGE)


def test_nothing_of_a_qpid_broker_is_settable_because_no_method_sets_a_property() -> None:
    for package in (QPID, QPID_ACL):
        for schema in recorded(package):
            if isinstance(schema, ClassSchema):
                rule = MAPPINGS[package].classes[schema.key.name]
                shown = settable_by_methods(applied(MAPPINGS[package], schema), rule)
                assert all(each.access is not Access.READ_WRITE for each in shown.elements)


def test_what_can_be_set_on_an_openamq_is_what_its_mib_calls_writable() -> None:
    for schema in recorded(OPENAMQ):
        assert isinstance(schema, ClassSchema)
        rule = MAPPINGS[OPENAMQ].classes[schema.key.name]
        shown = settable_natively(applied(MAPPINGS[OPENAMQ], schema), schema, rule)
        settable = {each.name for each in shown.elements if each.access is Access.READ_WRITE}
        rules = rule.properties | rule.statistics
        assert settable == {name for name, one in rules.items() if one.access is Access.READ_WRITE}


def test_passwords_are_secret_and_those_inside_urls_masked() -> None:
    rules = MAPPINGS[QPID].classes
    assert [name for name, rule in rules["domain"].properties.items() if rule.secret] == ["password"]
    assert rules["broker"].methods["connect"].arguments["password"].secret
    assert SecretRules().masked("amqp://joe:sesame@east") == "amqp://***@east"
    assert not any(rule.secret for _, rule in mapped_names(MAPPINGS[OPENAMQ]))


@pytest.mark.parametrize(
    ("package", "dangerous"),
    [
        (
            QPID,
            {
                *("broker.queueMoveMessages", "broker.delete", "broker.queueRedirect", "broker.shutdown"),
                *("queue.purge", "queue.reroute", "connection.close", "link.close", "bridge.close"),
                *("session.close", "session.detach"),
            },
        ),
        (QPID_ACL, {"acl.reloadACLFile"}),
        (
            OPENAMQ,
            {
                *("broker.shutdown", "queue.purge", "connection_queue.purge", "connection.kill"),
                *("queue_connection.kill", "config.commit", "config.rollback"),
            },
        ),
    ],
)
def test_methods_that_cannot_be_undone_are_dangerous(package: str, dangerous: set[str]) -> None:
    classes = MAPPINGS[package].classes
    found = {f"{c}.{m}" for c, rule in classes.items() for m, one in rule.methods.items() if one.dangerous}
    assert found == dangerous


def test_what_begins_a_condition_has_an_event_that_ends_it() -> None:
    for package in PACKAGES:
        events = MAPPINGS[package].events.values()
        raised = {(rule.raises, rule.subject) for rule in events if rule.raises}
        assert raised == {(rule.clears, rule.subject) for rule in events if rule.clears}
        assert all(rule.severity in (Severity.WARNING, Severity.MAJOR) for rule in events if rule.raises)
    assert MAPPINGS[QPID].events["queueThresholdCrossedUpward"].subject == "qName"


def test_texts_of_a_subject_lead_to_a_class_of_the_package() -> None:
    for schema in recorded(QPID):
        if isinstance(schema, EventSchema):
            rule = MAPPINGS[QPID].events[schema.key.name]
            for argument in applied_event(MAPPINGS[QPID], schema).arguments:
                assert (argument.references in MAPPINGS[QPID].classes) is (argument.name == rule.subject)


def test_openamq_reports_settings_and_parents_as_the_model_has_them() -> None:
    broker = applied(MAPPINGS[OPENAMQ], recorded_class("broker", OPENAMQ))
    assert element(broker, "config").references == "config"
    assert [each.name for each in broker.statistics] == [
        *("datamem", "bucketmem", "messages", "consumers", "bindings")
    ]
    config = applied(MAPPINGS[OPENAMQ], recorded_class("config", OPENAMQ))
    assert element(config, "heartbeat").access is Access.READ_WRITE
    read_only = {each.name for each in config.properties if each.access is not Access.READ_WRITE}
    assert read_only == {"name", "parentRef", "auto_crash", "auto_block"}
    for schema in recorded(OPENAMQ):
        rule = MAPPINGS[OPENAMQ].classes[schema.key.name]
        assert (rule.parent == "parentRef") is (schema.key.name != "broker")
