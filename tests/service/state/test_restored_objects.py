"""Objects of a RabbitMQ in the log, as inventory and agent know them again."""

from __future__ import annotations

import msgspec
import pytest

from gateway.eventlog.last_state import LastState
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.inventory.restored_objects import RestoredObject
from gateway.service.state.restored_objects import restored_identities, restored_rabbitmq_objects
from gateway.sources.rabbitmq.object_names import ObjectName, object_number
from gateway.sources.rabbitmq.reading import class_readers
from tests.components.shipped_mappings import shipped_mappings

MAPPING = shipped_mappings()["rabbitmq"]
SCHEMA = class_readers(MAPPING)["queue"].schema
CREATED = 1_795_190_641_291_000_000


def logged(class_name: str, name: str, row: int, **fields: object) -> LogRecord:
    return LogRecord(
        kind=RecordKind.SNAPSHOT,
        ingest_ts="2026-11-20T15:00:00.000000Z",
        source="orders",
        package="rabbitmq",
        class_name=class_name,
        object_id=f"orders/rabbitmq:{class_name}/{row}",
        object_name=name,
        row=row,
        native_id=f"0-1-1-0-{row}",
        **fields,  # type: ignore[arg-type]
    )


VHOST = logged("vhost", "/", 1, lifetime="durable", values={"name": "/"})
QUEUE = logged(
    "queue",
    "/|orders",
    7,
    lifetime="durable",
    create_ts="2026-11-20T16:04:01.291000Z",
    sample_ns=5,
    values={
        "vhost": VHOST.object_id,
        "name": "orders",
        "durable": True,
        "arguments": {"x-max-length": 5, "x-list": [1, "two"]},
    },
)


def state(*records: LogRecord) -> LastState:
    return LastState({record.object_id or "": record for record in records}, {"orders": 1})


def test_the_agent_knows_an_object_as_the_agent_before_it_did() -> None:
    known = {one.name: one for one in restored_rabbitmq_objects(MAPPING, state(VHOST, QUEUE), "orders")}

    queue = known[ObjectName("queue", ("/", "orders"))]
    assert queue.created == CREATED
    assert queue.number == object_number(queue.name, CREATED)
    reported = dict(zip([element.name for element in SCHEMA.properties], queue.properties, strict=True))
    assert {name: value for name, value in reported.items() if value is not None} == {
        "vhost": "/",
        "name": "orders",
        "durable": True,
        "arguments": {"x-max-length": 5, "x-list": (1, "two")},
    }
    assert set(queue.statistics) == {None}
    assert ObjectName("vhost", ("/",)) in known


@pytest.mark.parametrize(
    ("vhost", "called"),
    [("shop", "shop|in#1795190641291000000"), ("a|b", r"a\\\|b|in"), (r"\xff", r"\\\\xff|in")],
)
def test_an_object_whose_virtual_host_was_not_recorded_yet_has_its_names_from_its_own_name(
    vhost: str, called: str
) -> None:
    exchange = logged("exchange", called, 9, lifetime="transient", values={"name": "in", "type": "direct"})

    (known,) = restored_rabbitmq_objects(MAPPING, state(exchange), "orders")
    assert known.name == ObjectName("exchange", (vhost, "in"))
    assert vhost in known.properties


def test_what_cannot_be_understood_is_left_out() -> None:
    nameless = logged(
        "queue", r"\?0-1-1-0-9|lost", 8, values={"name": "lost", "vhost": "orders/rabbitmq:vhost/9"}
    )
    unknown = logged("shovel", "s", 9, values={"name": "s"})
    elsewhere = LogRecord(kind=RecordKind.SNAPSHOT, ingest_ts="", source="others", package="rabbitmq")
    assert list(restored_rabbitmq_objects(MAPPING, state(nameless, unknown, elsewhere), "orders")) == []


def test_the_inventory_knows_names_rows_and_native_ids() -> None:
    assert list(restored_identities(state(VHOST, QUEUE), "orders", "rabbitmq")) == [
        RestoredObject("rabbitmq:vhost", "/", 1, "0-1-1-0-1", durable=True),
        RestoredObject("rabbitmq:queue", "/|orders", 7, "0-1-1-0-7", durable=True, created=CREATED),
    ]
    assert list(restored_identities(state(VHOST, QUEUE), "others", "rabbitmq")) == []


@pytest.mark.parametrize(
    ("kind", "native_id", "is_persistent"),
    [
        pytest.param("qmf", "0-0-1-0-7", True, id="AM2, of sequence 0"),
        pytest.param("qmf", "0-3-1-0-7", False, id="AM2, of one boot"),
        pytest.param("qmf", f"0-0-0-0-{CREATED}", False, id="a Java broker's"),
        pytest.param("am01", f"0-0-0-0-{CREATED}", True, id="AM01, numbered from a start"),
        pytest.param("am01", "0-0-0-0-7", False, id="AM01, numbered from 1"),
        pytest.param("am01", "v7", False, id="no object id"),
    ],
)
def test_an_id_that_no_other_object_gets_identifies_its_object(
    kind: str, native_id: str, *, is_persistent: bool
) -> None:
    record = msgspec.structs.replace(QUEUE, native_id=native_id, lifetime="transient", create_ts=None)
    (restored,) = restored_identities(state(record), "orders", kind)
    assert (restored.persistent_id, restored.identified) == (is_persistent, is_persistent)
