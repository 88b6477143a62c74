"""Names that the gateway has forgotten are found in the event log."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gateway.eventlog.record import LogRecord, RecordKind
from gateway.model.schema import ClassKey
from gateway.service.diagnostics.explanation import logged_meanings, logged_name
from gateway.service.diagnostics.published_names import PublishedNames
from gateway.snmp.oid_registry import DEFAULT_ROOT
from tests.components.shipped_mappings import shipped_registries
from tests.eventlog.logs import segment, update


def test_events_and_objects_of_the_past_are_found_by_their_names(tmp_path: Path) -> None:
    time = "2026-11-20T08:59:00.000000Z"
    event = LogRecord(
        kind=RecordKind.EVENT, ingest_ts=time, source="orders", event_id="7b0c.1.4", text="it rang"
    )
    segment(tmp_path, 1, [*(update(number) for number in range(20)), event])

    (found,) = logged_meanings(tmp_path, "7b0c.1.4", lambda _: None)
    assert found["kind"] == "record"
    assert (found["record"], found["text"], found["ingest_ts"]) == ("event", "it rang", time)

    for name in ("orders/rabbitmq:queue/3", "/|queue-3"):
        (last,) = logged_meanings(tmp_path, name, lambda _: None)
        assert last["values"]["messages"] == 17  # the last of this object
    assert logged_meanings(tmp_path, "nobody", lambda _: None) == []


def test_every_form_of_a_name_is_found_without_the_gateway(tmp_path: Path) -> None:
    of_source = LogRecord(kind=RecordKind.SOURCE, ingest_ts="2026-11-20T08:59:00.000000Z", source="orders")
    segment(tmp_path, 1, [of_source, *(update(number) for number in range(20))])
    names = PublishedNames(DEFAULT_ROOT, shipped_registries(), {})
    table = names.table(ClassKey("rabbitmq", "queue"))
    assert table is not None
    cell = f"{table.oid}.1.3.4.3"
    transient = 'amqp.gateway:source=orders,package=rabbitmq,type=queue,name="a/b",id=3'
    durable = 'amqp.gateway:source=orders,package=rabbitmq,type=queue,parent="/",name=queue-3'
    for text in (
        "orders/queue/3",
        "orders/queue//|queue-3",
        "orders/queue/queue-3",
        "queue-3",
        "orders/rabbitmq:queue//|queue-3",
        cell,
        transient,
        durable,
    ):
        found = logged_meanings(tmp_path, text, lambda _: None, logged_name(names, {4: "orders"}, text))
        assert [each["object_id"] for each in found] == ["orders/rabbitmq:queue/3"], text
    (last,) = logged_meanings(tmp_path, "orders", lambda _: None)
    assert (last["record"], last["source"]) == ("source", "orders")


def test_classes_and_events_are_found_with_and_without_package(tmp_path: Path) -> None:
    time = "2026-11-20T08:59:00.000000Z"
    schemas = [
        LogRecord(kind=RecordKind.SCHEMA, ingest_ts=time, package=package, class_name="queue", values={})
        for package in ("rabbitmq", "org.apache.qpid.broker")
    ]
    event = LogRecord(
        kind=RecordKind.EVENT,
        ingest_ts=time,
        source="orders",
        package="rabbitmq",
        event="nodeUp",
        event_id="7.1.1",
    )
    segment(tmp_path, 1, [*schemas, event, update(3)])
    for text, packages in (
        ("queue", {"rabbitmq", "org.apache.qpid.broker"}),
        ("rabbitmq:queue", {"rabbitmq"}),
        ("nodeUp", {"rabbitmq"}),
        ("rabbitmq:nodeUp", {"rabbitmq"}),
    ):
        found = logged_meanings(tmp_path, text, lambda _: None)
        assert sorted(str(each["package"]) for each in found) == sorted(packages), text


def test_a_leaf_name_is_the_whole_last_part_of_a_name(tmp_path: Path) -> None:
    names = ["shop|till", "shop|till#7", "till", r"shop\|till", "shop|untill", "till|7"]
    records = [
        msgspec.structs.replace(
            update(0), object_id=f"orders/rabbitmq:queue/{row}", row=row, object_name=name
        )
        for row, name in enumerate(names)
    ]
    segment(tmp_path, 1, records)
    for text in ("till", "orders/queue/till"):
        found = logged_meanings(tmp_path, text, lambda _: None, logged_name(None, {}, text))
        assert {each["object_name"] for each in found} == {*names[:3]}, text


def test_no_log_knows_nothing(tmp_path: Path) -> None:
    assert logged_meanings(tmp_path / "log", "7b0c.1.4", lambda _: None) == []
