"""Records of the event log as a user reads them who may not read everything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.eventlog.record import RecordKind
from gateway.policy.marks import Marks
from gateway.policy.rules import Role, RoleSet, Rule
from gateway.service.diagnostics.cleared_log import ClearedLog
from tests.components.shipped_mappings import shipped_mappings

ANNA = "cli:anna"
MARKS = Marks(shipped_mappings())
ALL = Rule("allow rule 1,", read=("*",), subscribe=("*:*",), audit=True)
WHOLE = Rule("allow rule 1,", read=("*",), subscribe=("*:*",), audit=True, private=True)
NO_ORDERS = Rule("deny rule 1,", denies=True, classes=("*:queue",), objects=("/|orders*",), read=("*",))
NO_DEPTH = Rule("deny rule 1,", denies=True, read=("messages",))
NO_VHOSTS = Rule("deny rule 1,", denies=True, classes=("*:vhost",), read=("*",))
NO_SHOP = Rule("deny rule 1,", denies=True, sources=("shop",), read=("*",))

TIME = "2026-11-20T08:00:01.000000Z"


def record(kind: str, **fields: object) -> dict[str, Any]:
    return {"log_id": "a log", "seq": 7, "kind": kind, "ingest_ts": TIME, **fields}


def schema(name: str, elements: dict[str, str], *index: str) -> dict[str, Any]:
    described = [
        {"name": element, "group": "property", "type": kind, "index": element in index}
        for element, kind in elements.items()
    ]
    return record(
        "schema",
        package="rabbitmq",
        **{"class": name},
        values={"name_element": "name", "elements": described},
    )


def event_schema(event: str, **arguments: str) -> dict[str, Any]:
    described = [{"name": argument, "type": kind} for argument, kind in arguments.items()]
    return record(
        "schema", package="rabbitmq", event=event, values={"label": f"The {event}", "arguments": described}
    )


QUEUE = schema(
    "queue",
    {"vhost": "reference", "name": "string", "messages": "u64", "arguments": "map"},
    "vhost",
    "name",
)
VHOST = schema("vhost", {"name": "string"}, "name")
CONNECTION = schema("connection", {"name": "string", "peerHost": "string", "channels": "u32"}, "name")
CLOSED = event_schema("vhostLimitsCleared", name="string", by="string")


def queue(kind: str = "create", name: str = "/|orders", **fields: object) -> dict[str, Any]:
    place = {
        "source": "shop",
        "package": "rabbitmq",
        "class": "queue",
        "object_id": "shop/rabbitmq:queue/3",
        "object_name": name,
        "row": 3,
        "native_id": f"queue {name}",
        "parent_id": "shop/rabbitmq:vhost/1",
    }
    values = {"vhost": "shop/rabbitmq:vhost/1", "name": "orders", "messages": 7}
    return record(kind, **{**place, "values": values, **fields})


def operation(principal: str = "jmx:bert") -> dict[str, Any]:
    return queue(
        "operation",
        principal=principal,
        operation="set",
        operation_id="id.1.o1",
        state="ended",
        text="messages were 3",
        values={"messages": 4, "name": "x"},
        former={"messages": 3},
    )


def log_of(*rules: Rule) -> ClearedLog:
    roles = RoleSet({"watching": Role("watching", rules)}, {ANNA: ("watching",)})
    log = ClearedLog(ANNA, roles, MARKS)
    for one in (QUEUE, VHOST, CONNECTION, CLOSED):
        log.read(one)
    return log


def test_who_reads_everything_reads_each_record_as_it_is() -> None:
    log = log_of(WHOLE)
    assert log.clearance.unrestricted
    for one in (queue(), operation(), record("of a later version", field=1)):
        assert log.read(one) == one


@pytest.mark.parametrize("kind", ["create", "snapshot", "update", "delete"])
def test_an_object_that_is_not_read_is_in_no_record(kind: str) -> None:
    log = log_of(ALL, NO_ORDERS)
    assert log.read(queue(kind)) is None
    assert log.read(queue(kind, "/|invoices")) == queue(kind, "/|invoices")


def test_elements_that_are_not_read_are_left_out() -> None:
    read = log_of(ALL, NO_DEPTH).read(
        queue(former={"messages": 1}, absent=["messages", "arguments"], deltas={"messages": {"delta": 1}})
    )
    assert read is not None
    assert read["values"] == {"vhost": "shop/rabbitmq:vhost/1", "name": "orders"}
    assert read["absent"] == ["arguments"]
    assert "former" not in read
    assert "deltas" not in read


def test_an_update_of_what_is_not_read_is_no_record() -> None:
    log = log_of(ALL, NO_DEPTH)
    change = queue("update", values={"messages": 8})
    del change["native_id"], change["parent_id"]
    assert log.read(change) is None


def test_an_object_whose_name_is_private_does_not_exist() -> None:
    connection = queue(
        name="10.1.2.3:4", **{"class": "connection", "object_id": "shop/rabbitmq:connection/1"}
    )
    assert log_of(ALL).read(connection) is None


def test_references_to_what_is_not_read_are_left_out() -> None:
    inside = {"x-dead": ["shop/rabbitmq:vhost/9"]}
    read = log_of(ALL, NO_VHOSTS).read(
        queue(values={"vhost": "shop/rabbitmq:vhost/1", "name": "orders", "arguments": inside})
    )
    assert read is not None
    assert read["values"] == {"name": "orders"}
    assert "parent_id" not in read


def test_a_reference_without_a_row_is_a_name_and_not_shown() -> None:
    read = log_of(ALL).read(queue(values={"vhost": "sales", "name": "orders"}))
    assert read is not None
    assert read["values"] == {"name": "orders"}


def test_a_class_without_a_schema_is_not_shown() -> None:
    unknown = queue(**{"class": "exchange", "object_id": "shop/rabbitmq:exchange/3"})
    assert log_of(ALL).read(unknown) is None


def test_every_version_of_a_class_decides() -> None:
    log = log_of(ALL, Rule("deny rule 1,", denies=True, read=("secretName",)))
    assert log.read(queue()) is not None
    log.read(schema("queue", {"vhost": "reference", "secretName": "string"}, "secretName"))
    assert log.read(queue()) is None


def event(**fields: object) -> dict[str, Any]:
    return record(
        "event",
        source="shop",
        package="rabbitmq",
        event="vhostLimitsCleared",
        event_id="id.1.1",
        text="cleared by anna",
        values={"name": "sales", "by": "anna"},
        **fields,
    )


def test_private_arguments_of_an_event_are_left_out_with_its_text() -> None:
    read = log_of(ALL).read(event())
    assert read is not None
    assert (read["values"], read["text"]) == ({"name": "sales"}, "The vhostLimitsCleared")


def test_an_event_of_an_alarm_is_read_with_the_alarm_and_without_its_text() -> None:
    raised = event(
        **{"class": "queue", "object_id": "shop/rabbitmq:queue/1", "object_name": "/|orders", "row": 1},
        condition='full rabbitmq:queue "/|orders"',
    ) | {
        "package": "gateway",
        "event": "alarmRaised",
        "values": {"alarm": "full"},
        "text": "holds 7 messages",
    }
    described = event_schema("alarmRaised", alarm="string") | {"package": "gateway"}
    for rules, text in (((ALL,), "The alarmRaised"), ((WHOLE,), "holds 7 messages")):
        log = log_of(*rules)
        log.read(described)
        read = log.read(raised)
        assert read is not None
        assert (read["text"], read["values"]) == (text, {"alarm": "full"})
    log = log_of(ALL, Rule("deny rule 1,", denies=True, subscribe=("rabbitmq:full",)))
    log.read(described)
    assert log.read(raised) is None


@pytest.mark.parametrize(
    "rule",
    [
        Rule("deny rule 1,", denies=True, subscribe=("*:vhostLimits*",)),
        NO_SHOP,
        Rule("deny rule 1,", denies=True, objects=("sales",), read=("*",)),
    ],
)
def test_an_event_is_not_received(rule: Rule) -> None:
    about = {"class": "vhost", "object_id": "shop/rabbitmq:vhost/1", "object_name": "sales", "row": 1}
    assert log_of(ALL).read(event(**about)) is not None
    assert log_of(ALL, rule).read(event(**about)) is None


def test_an_event_without_a_schema_is_not_received() -> None:
    assert log_of(ALL).read({**event(), "event": "unknown"}) is None


def test_operations_of_others_take_a_rule_with_audit() -> None:
    reading = Rule("allow rule 1,", read=("*",), subscribe=("*:*",))
    assert log_of(reading).read(operation()) is None
    assert log_of(reading).read(operation(ANNA)) is not None
    assert log_of(ALL).read(operation()) is not None
    assert log_of(ALL, NO_ORDERS).read(operation()) is None


def test_operations_of_others_are_without_values_that_are_not_read() -> None:
    read = log_of(ALL, NO_DEPTH).read(operation())
    assert read is not None
    assert read["values"] == {"name": "x"}
    assert not {"former", "text"} & read.keys()


def test_logins_of_others_are_of_the_audit() -> None:
    login = record("login", principal="jmx:bert", origin="10.1.2.3", text="logged in from 10.1.2.3")
    assert log_of(ALL).read(login) == login
    assert log_of(Rule("allow rule 1,", read=("*",))).read(login) is None


@pytest.mark.parametrize("kind", ["source", "agent", "gap"])
def test_a_source_is_shown_without_numbers_of_its_objects(kind: str) -> None:
    about = record(kind, source="shop", state="synchronised", lost=4)
    about["values"] = {"messages": 3, "objects_created": 9, "events": 2}
    about["deltas"] = {"events": {"delta": 1}}
    read = log_of(ALL).read(about)
    assert read is not None
    assert (read["values"], "deltas" in read, "lost" in read) == ({"messages": 3}, False, False)
    assert log_of(ALL, NO_SHOP).read(about) is None


def test_fields_of_later_versions_are_not_shown() -> None:
    read = log_of(ALL).read(queue(later="what it may be"))
    assert read is not None
    assert "later" not in read
    assert log_of(ALL).read(record("a later kind")) is None


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("shop/rabbitmq:vhost/1"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({*queue(), *operation(), *event(), "absent", "deltas", "found"})


@given(
    st.sampled_from([kind.value for kind in RecordKind]),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=12),
)
def test_any_record_is_read_as_a_part_of_itself_or_not_at_all(kind: str, fields: dict[str, Any]) -> None:
    whole = {**fields, "kind": kind}
    read = log_of(ALL, NO_VHOSTS).read(whole)
    assert read is None or read.keys() <= whole.keys()
    if read is not None and kind not in {"schema", "login"}:
        assert "shop/rabbitmq:vhost/1" not in str(read.get("values"))
