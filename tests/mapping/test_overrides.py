"""Overrides: files of an operator that change the mappings."""

from __future__ import annotations

import json
from collections.abc import Mapping as MappingOf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mapping.files import applied, class_schemas
from gateway.mapping.override_files import load_overrides, load_with_overrides
from gateway.mapping.override_rules import OverrideFile
from gateway.mapping.overrides import Overrides
from gateway.mapping.rules import Mapping
from gateway.model.observations import Severity
from gateway.model.schema import ClassKey, ClassSchema, Element, Kind
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from gateway.yaml_documents import DocumentError, parse_document
from tests.components.shipped_mappings import shipped_mappings

MAPPINGS: MappingOf[str, Mapping] = shipped_mappings()
RABBITMQ = MAPPINGS["rabbitmq"]
QUEUE = class_schemas(RABBITMQ)["queue"]
RULE = RABBITMQ.classes["queue"]


def overrides(text: str) -> Overrides:
    return Overrides([parse_document(f"version: 1\n{text}", OverrideFile, Path("overrides.yaml"))])


def loaded(folder: Path, *texts: str) -> Overrides:
    """Load files with these texts, and compare them with the shipped mappings."""
    paths = [folder / f"{number}.yaml" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(f"version: 1\n{text}", encoding="utf-8")
    return load_overrides(paths, MAPPINGS)


def complaints(folder: Path, text: str) -> list[str]:
    with pytest.raises(DocumentError) as error:
        loaded(folder, text)
    return str(error.value).removeprefix(f"{folder}/").split(f"\n{folder}/")


def shown(schema: ClassSchema, by: Overrides) -> ClassSchema:
    """Return a class of RabbitMQ as overrides show it."""
    rule = RABBITMQ.classes[schema.key.name]
    cut = by.class_cut(schema, rule)
    assert cut is not None
    return by.class_schema(applied(RABBITMQ, cut), rule)


def test_no_file_changes_nothing() -> None:
    assert not overrides("")
    assert shown(QUEUE, overrides("")) == applied(RABBITMQ, QUEUE)


def test_elements_are_excluded_by_pattern_and_included_again() -> None:
    queue = shown(
        QUEUE,
        overrides(
            """\
classes:
  "rabbitmq:*":
    elements:
      "messages*": {exclude: true}
      messages: {exclude: false}
"""
        ),
    )
    names = [element.name for element in queue.elements if element.name.startswith("messages")]
    assert names == ["messages"]


def test_what_names_are_made_of_stays() -> None:
    queue = shown(QUEUE, overrides("classes: {'rabbitmq:queue': {elements: {'*': {exclude: true}}}}"))
    assert {"vhost", "name"} <= {element.name for element in queue.properties}
    assert [element.name for element in queue.properties if element.index] == ["vhost", "name"]
    assert not queue.statistics


def test_a_class_is_excluded_whole_with_what_an_earlier_file_says_of_it() -> None:
    first = parse_document(
        "version: 1\nclasses: {'*:queue': {exclude: true}}", OverrideFile, Path("first.yaml")
    )
    assert Overrides([first]).class_cut(QUEUE, RULE) is None
    again = parse_document(
        "version: 1\nclasses: {'rabbitmq:queue': {exclude: false}}", OverrideFile, Path("second.yaml")
    )
    assert Overrides([first, again]).class_cut(QUEUE, RULE) is QUEUE


def test_labels_kinds_and_units() -> None:
    learnt = ClassSchema(
        ClassKey("plant", "Pump"),
        (Element("id", ValueType.STRING, index=True),),
        (Element("flow", ValueType.U64), Element("heat", ValueType.F64, unit="K")),
        label="Pump",
    )
    by = overrides(
        """\
classes:
  plant:Pump:
    label: Pumpe
    elements:
      flow: {label: Durchfluss, kind: counter, unit: l}
      id: {kind: counter}
"""
    )
    pump = by.class_schema(learnt, None)
    assert pump.label == "Pumpe"
    flow = pump.elements[pump.positions["flow"]]
    assert (flow.label, flow.kind, flow.unit) == ("Durchfluss", Kind.COUNTER, "l")
    assert pump.properties[0].kind is Kind.GAUGE, "a text has no kind"


def test_a_published_unit_stays() -> None:
    by = overrides("classes: {'rabbitmq:*': {elements: {'*': {unit: parsecs}}}}")
    rules = {**RULE.properties, **RULE.statistics}
    for element in shown(QUEUE, by).elements:
        assert element.unit == (rules[element.name].unit or "parsecs")


def test_alarms_are_added_changed_and_removed() -> None:
    by = overrides(
        """\
classes:
  rabbitmq:queue:
    alarms:
      long: {element: messages, at_least: 1000, clear_below: 800, severity: minor, text: "{name}: {messages}"}
  rabbitmq:node:
    alarms:
      memoryAlarm: {severity: critical}
      diskFreeAlarm: {remove: true}
"""
    )
    queue = by.alarms(ClassKey("rabbitmq", "queue"), RULE.alarms)
    assert queue["long"].at_least == 1000
    assert queue.keys() == {*RULE.alarms, "long"}
    rules = RABBITMQ.classes["node"].alarms
    node = by.alarms(ClassKey("rabbitmq", "node"), rules)
    assert node["memoryAlarm"].severity is Severity.CRITICAL
    assert node["memoryAlarm"].text == rules["memoryAlarm"].text
    assert "diskFreeAlarm" in rules
    assert "diskFreeAlarm" not in node


def test_a_test_that_is_given_replaces_the_former_one() -> None:
    by = overrides("classes: {'rabbitmq:node': {alarms: {memoryAlarm: {element: memory, at_least: 5}}}}")
    rule = by.alarms(ClassKey("rabbitmq", "node"), RABBITMQ.classes["node"].alarms)["memoryAlarm"]
    assert (rule.equals, rule.at_least) == (None, 5)


def test_events_get_severities_and_texts() -> None:
    by = overrides("events: {'rabbitmq:connection*': {severity: minor}}")
    key = ClassKey("rabbitmq", "connectionClosed")
    rule = RABBITMQ.events["connectionClosed"]
    changed = by.event_rule(key, rule)
    assert changed is not None
    assert changed.severity is Severity.MINOR
    assert changed.text == rule.text
    unknown = by.event_rule(ClassKey("rabbitmq", "connectionLost"), None)
    assert unknown is not None
    assert unknown.severity is Severity.MINOR
    assert by.event_rule(ClassKey("rabbitmq", "queueDeleted"), rule) is rule


def test_a_method_becomes_dangerous_and_never_harmless() -> None:
    by = overrides("classes: {'rabbitmq:queue': {methods: {'*': {dangerous: true}}}}")
    for name, rule in RULE.methods.items():
        changed = by.method_rule(QUEUE.key, name, rule)
        assert changed is not None
        assert changed.dangerous
    with pytest.raises(DocumentError, match="dangerous: must be True"):
        overrides("classes: {'rabbitmq:queue': {methods: {'*': {dangerous: false}}}}")


def test_what_is_said_last_of_the_interval_counts() -> None:
    by = overrides("classes: {'rabbitmq:*': {log_interval: 1min}, 'rabbitmq:queue': {log_interval: 5s}}")
    assert list(by.log_intervals.items()) == [("rabbitmq:queue", 5 * SECOND), ("rabbitmq:*", 60 * SECOND)]


def test_secrets_are_those_of_every_mapping(tmp_path: Path) -> None:
    path = tmp_path / "o.yaml"
    path.write_text("version: 1\nsecrets: ['(?i)^arguments$']\n", encoding="utf-8")
    known = load_with_overrides([], [path])
    assert all(mapping.secrets[-1] == "(?i)^arguments$" for mapping in known.mappings.values())
    assert "arguments" not in shown(QUEUE, known.overrides).positions


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "classes:\n  rabbitmq:queu:\n    exclude: true\n",
            "0.yaml:3: classes.rabbitmq:queu: matches no class that is known: did you mean 'rabbitmq:queue'?",
        ),
        (
            "classes:\n  rabbitmq:queue:\n    elements:\n      mesages: {exclude: true}\n",
            (
                "0.yaml:5: classes.rabbitmq:queue.elements.mesages: matches no element of rabbitmq:queue: "
                "did you mean 'messages'?"
            ),
        ),
        (
            "classes:\n  rabbitmq:queue:\n    elements:\n      name: {exclude: true}\n",
            (
                "0.yaml:5: classes.rabbitmq:queue.elements.name.exclude: 'name' of rabbitmq:queue cannot be "
                "excluded: names or lifetimes of its objects are made of it"
            ),
        ),
        (
            "classes:\n  rabbitmq:queue:\n    elements:\n      type: {kind: counter}\n",
            "0.yaml:5: classes.rabbitmq:queue.elements.type.kind: 'type' is no number",
        ),
        (
            "classes:\n  rabbitmq:queue:\n    methods:\n      purg: {exclude: true}\n",
            (
                "0.yaml:5: classes.rabbitmq:queue.methods.purg: matches no method of rabbitmq:queue: "
                "did you mean 'purge'?"
            ),
        ),
        (
            "classes:\n  rabbitmq:node:\n    alarms:\n      memoryAlrm: {severity: minor}\n",
            (
                "0.yaml:5: classes.rabbitmq:node.alarms.memoryAlrm: element: is required: "
                "did you mean 'memoryAlarm'?"
            ),
        ),
        (
            "classes:\n  rabbitmq:node:\n    alarms:\n      memoryAlrm: {remove: true}\n",
            (
                "0.yaml:5: classes.rabbitmq:node.alarms.memoryAlrm: matches no alarm of rabbitmq:node: "
                "did you mean 'memoryAlarm'?"
            ),
        ),
        (
            (
                "classes:\n  rabbitmq:queue:\n    alarms:\n"
                "      long: {element: mesages, at_least: 5, severity: minor, text: long}\n"
            ),
            (
                "0.yaml:5: classes.rabbitmq:queue.alarms.long: 'mesages' is no element of rabbitmq:queue "
                "that is shown: did you mean 'messages'?"
            ),
        ),
        (
            "events:\n  rabbitmq:connectionClosd: {severity: minor}\n",
            (
                "0.yaml:3: events.rabbitmq:connectionClosd: matches no event that is known: "
                "did you mean 'rabbitmq:connectionClosed'?"
            ),
        ),
        (
            "events:\n  rabbitmq:connectionClosed: {severity: [minor]}\n",
            "0.yaml:3: events.rabbitmq:connectionClosed.severity: is none of info, warning, minor, major",
        ),
        (
            "secrets: ['name']\n",
            "0.yaml:2: secrets.0: matches 'name' of ",
        ),
        (
            "classes:\n  rabbitmq:vhost: {exclude: true}\n",
            "0.yaml:3: classes.rabbitmq:vhost.exclude: the names of objects of rabbitmq:",
        ),
        (
            "classes:\n  rabbitmq:queue:\n    elements:\n      messages: {hide: true}\n",
            "0.yaml:5: classes.rabbitmq:queue.elements.messages.hide: unknown key",
        ),
    ],
)
def test_complaints_have_file_and_line(tmp_path: Path, text: str, complaint: str) -> None:
    first = complaints(tmp_path, text)[0]
    assert first.startswith(complaint), first


def test_what_an_agent_may_report_is_no_error(tmp_path: Path) -> None:
    assert loaded(tmp_path, "classes: {'plant:Pump': {exclude: true}, '*:Valve': {label: Ventil}}")
    assert loaded(
        tmp_path, "classes: {'org.apache.qpid.broker:queue': {elements: {depth2: {exclude: true}}}}"
    )


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8),
        st.one_of(st.none(), st.booleans(), st.text(), st.dictionaries(st.text(max_size=8), st.booleans())),
        max_size=4,
    )
)
def test_any_content_is_read_or_refused(content: dict[str, object]) -> None:
    """No content of a file makes anything but overrides or one `DocumentError`."""
    text = json.dumps({"version": 1, "classes": {"rabbitmq:queue": content}}, ensure_ascii=True)
    try:
        by = Overrides([parse_document(text, OverrideFile, Path("o.yaml"))])
    except DocumentError:
        return
    cut = by.class_cut(QUEUE, RULE)
    assert cut is None or by.class_schema(cut, RULE).key == QUEUE.key
