"""Shipped mappings, and the schemas with mappings."""

import re
from pathlib import Path

import pytest

from gateway.mapping.errors import MappingError
from gateway.mapping.files import (
    applied,
    applied_event,
    class_schemas,
    event_schemas,
    load_mapping,
    load_shipped_mappings,
    secret_patterns,
)
from gateway.mapping.rules import Mapping
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
from gateway.yaml_documents import DocumentError, parse_document

MAPPING = """
version: 1
package: shop
module: SHOP-MIB
prefix: shop
secrets: ['(?i)pin$']
classes:
  till:
    label: Till
    properties:
      name: {type: string, index: true, max_length: 20}
      state: {type: u8, values: [closed, open], access: read-write}
      mode: {type: string, values: [day, night]}
      safeCode: {type: string, secret: true}
    statistics:
      sales: {type: u32, kind: counter, unit: sales, description: Sales made.}
events:
  tillOpened:
    label: Till opened
    subject: till
    text: 'till {till} opened by {clerk}'
    arguments:
      till: {type: reference, references: till}
      clerk: {type: string, optional: true, description: Who opened it.}
      shift: {type: u8, values: [early, late]}
      doorCode: {type: string, secret: true}
"""


def mapping(text: str = MAPPING) -> Mapping:
    return parse_document(text, Mapping, Path("shop.yaml"))


def test_a_mapping_defines_classes() -> None:
    till = class_schemas(mapping())["till"]
    assert till.key == ClassKey("shop", "till")
    assert till.label == "Till"
    assert till.properties[0] == Element("name", ValueType.STRING, index=True, max_length=20)
    assert till.statistics == (
        Element("sales", ValueType.U32, unit="sales", description="Sales made.", kind=Kind.COUNTER),
    )


def test_labels_of_numbers_count_from_zero_and_those_of_texts_are_themselves() -> None:
    elements = {element.name: element for element in class_schemas(mapping())["till"].properties}
    assert elements["state"].values == (NamedValue("closed", 0), NamedValue("open", 1))
    assert elements["mode"].values == (NamedValue("day", "day"), NamedValue("night", "night"))


def test_secrets_are_no_elements_and_become_patterns() -> None:
    assert "safeCode" not in class_schemas(mapping())["till"].positions
    assert secret_patterns(mapping()) == ("(?i)pin$", "^doorCode$", "^safeCode$")


def test_a_class_of_ours_needs_types() -> None:
    with pytest.raises(MappingError, match=r"shop:till\.name: has no type"):
        class_schemas(mapping(MAPPING.replace("type: string, index", "index")))


def test_a_mapping_laid_over_the_wire_adds_what_the_wire_leaves_open() -> None:
    learnt = ClassSchema(
        ClassKey("shop", "till", b"\1" * 16),
        properties=(
            Element("extra", ValueType.U16, unit="cm", kind=Kind.HIGH),
            Element("state", ValueType.U16, description="As the wire says", unit="none"),
        ),
        statistics=(Element("sales", ValueType.U64, unit="pieces"),),
        description="Of the wire",
    )
    shown = applied(mapping(), learnt)
    extra, state = shown.properties
    assert extra == learnt.properties[0]
    assert state.type is ValueType.U16
    assert (state.access, state.unit, state.description) == (Access.READ_WRITE, "none", "As the wire says")
    assert state.values == (NamedValue("closed", 0), NamedValue("open", 1))
    assert (shown.statistics[0].kind, shown.statistics[0].unit) == (Kind.COUNTER, "sales")
    assert (shown.label, shown.description, shown.key) == ("Till", "Of the wire", learnt.key)


def test_a_class_that_the_mapping_does_not_know_stays_as_it_is() -> None:
    for key in (ClassKey("shop", "shelf"), ClassKey("store", "till")):
        learnt = ClassSchema(key, (Element("state", ValueType.U8),))
        assert applied(mapping(), learnt) is learnt


def test_a_mapping_defines_events_without_their_secret_arguments() -> None:
    assert event_schemas(mapping()) == {
        "tillOpened": EventSchema(
            ClassKey("shop", "tillOpened"),
            (
                Argument("till", ValueType.REFERENCE, references="till"),
                Argument("clerk", ValueType.STRING, optional=True, description="Who opened it."),
                Argument("shift", ValueType.U8, values=(NamedValue("early", 0), NamedValue("late", 1))),
            ),
            label="Till opened",
        )
    }


def test_an_event_of_ours_needs_types() -> None:
    with pytest.raises(MappingError, match=r"shop:tillOpened\.clerk: has no type"):
        event_schemas(mapping(MAPPING.replace("clerk: {type: string, ", "clerk: {")))


def test_a_mapping_laid_over_an_event_of_the_wire_says_what_may_be_absent() -> None:
    learnt = EventSchema(
        ClassKey("shop", "tillOpened", b"\2" * 16),
        (
            Argument("clerk", ValueType.STRING, description="As the wire says", unit="names"),
            Argument("shift", ValueType.U16),
            Argument("extra", ValueType.U64, unit="cm"),
        ),
        description="Of the wire",
    )
    shown = applied_event(mapping(), learnt)
    clerk, shift, extra = shown.arguments
    assert (clerk.optional, clerk.unit, clerk.description) == (True, "names", "Who opened it.")
    assert (shift.type, [named.label for named in shift.values]) == (ValueType.U16, ["early", "late"])
    assert extra == learnt.arguments[2]
    assert (shown.label, shown.description, shown.key) == ("Till opened", "Of the wire", learnt.key)


def test_an_event_that_the_mapping_does_not_know_stays_as_it_is() -> None:
    for key in (ClassKey("shop", "tillClosed"), ClassKey("store", "tillOpened")):
        learnt = EventSchema(key, (Argument("clerk", ValueType.STRING),))
        assert applied_event(mapping(), learnt) is learnt


def test_what_our_agent_serves_looks_the_same_with_its_mapping_laid_over() -> None:
    rabbitmq = load_shipped_mappings()["rabbitmq"]
    for schema in class_schemas(rabbitmq).values():
        assert applied(rabbitmq, schema) == schema
    for event in event_schemas(rabbitmq).values():
        assert applied_event(rabbitmq, event) == event


def test_the_rabbitmq_mapping_keeps_to_what_am2_and_a_mib_can_carry() -> None:
    rabbitmq = load_shipped_mappings()["rabbitmq"]
    assert list(rabbitmq.classes) == [
        *("node", "vhost", "queue", "exchange", "connection", "channel", "session", "link", "consumer"),
        *("streamConsumer", "streamPublisher", "binding", "policy", "user", "parameter", "operatorPolicy"),
        *("permission", "topicPermission", "featureFlag", "deprecatedFeature", "protocol"),
        *("shovel", "federationLink"),
    ]
    for name, schema in class_schemas(rabbitmq).items():
        assert len(schema.statistics) <= 63, name
        for element in schema.elements:
            assert element.description.endswith("."), f"{name}.{element.name}"
            assert len(f"rmq{name}{element.name}") <= 64
            assert "_" not in element.name
            assert not element.references or element.references in rabbitmq.classes
        assert all(element.index != element.optional for element in schema.properties if element.index)


def test_two_mappings_of_one_package_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(MAPPING)
    monkeypatch.setattr("gateway.mapping.files.shipped_folder", lambda _: tmp_path)
    with pytest.raises(MappingError, match=r"b\.yaml: a second mapping of the package 'shop'"):
        load_shipped_mappings()


def test_a_damaged_mapping_says_where(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(MAPPING.replace("label: Till", "labell: Till"))
    with pytest.raises(DocumentError, match=r"shop\.yaml:9: classes\.till\.labell: unknown key"):
        load_mapping(path)
    path.write_text(MAPPING.replace("index: true", "index: true, read: 'a..b'"))
    with pytest.raises(DocumentError, match="is not a path"):
        load_mapping(path)


@pytest.mark.parametrize(
    ("former", "wrong", "complaint"),
    [
        ("{till} opened", "{shop} opened", "text: 'shop' is not one of the arguments that are shown"),
        ("{till} opened", "{doorCode} opened", "text: 'doorCode' is not one of the arguments"),
        ("subject: till", "subject: shop", "subject: 'shop' is not one of the arguments"),
        ("{name} sold", "{names} sold", "alarms: busy: text: 'names' is not one of the elements"),
        ("element: sales", "element: sale", "alarms: busy: 'sale' is not one of the elements"),
    ],
)
def test_an_event_or_alarm_that_names_what_is_not_there_is_refused(
    former: str, wrong: str, complaint: str
) -> None:
    alarms = (
        "    alarms: {busy: {element: sales, at_least: 9, severity: minor, text: '{name} sold {sales}'}}\n"
    )
    text = MAPPING.replace("    label: Till\n", f"    label: Till\n{alarms}")
    mapping(text)
    with pytest.raises(DocumentError, match=re.escape(complaint)):
        mapping(text.replace(former, wrong))


def test_shipped_folders_are_found() -> None:
    assert (shipped_folder("mappings") / "rabbitmq.yaml").is_file()


def test_a_missing_shipped_folder_says_that_the_installation_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.shipped_files._PACKAGE", tmp_path / "gateway")
    with pytest.raises(FileNotFoundError, match="'mibs': install it again"):
        shipped_folder("mibs")
