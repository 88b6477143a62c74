"""What overrides exclude reaches nothing behind the inventory."""

from __future__ import annotations

from pathlib import Path

from gateway.feed.records import ClassRecord, EventClassRecord, EventRecord, GapRecord, ObjectRecord
from gateway.inventory.restored_objects import RestoredObject
from gateway.mapping.override_rules import OverrideFile
from gateway.mapping.overrides import Overrides
from gateway.model.observations import EventSeen, RecordLost, Severity
from gateway.model.schema import Argument, ClassKey, EventSchema
from gateway.model.values import ValueType
from tests.inventory.playbook import (
    AGENT,
    CONNECTION,
    CONSUMER,
    NOW,
    QUEUE,
    VHOST,
    Playbook,
    connection,
    consumer,
    of,
    queue,
    statistics,
    vhost,
)

CLOSED = EventSchema(
    ClassKey("shop", "closed", b"e" * 16),
    (Argument("who", ValueType.STRING), Argument("why", ValueType.STRING)),
)
OPENED = EventSchema(ClassKey("shop", "opened", b"e" * 16), CLOSED.arguments)
OVERRIDES = Overrides(
    [
        OverrideFile.model_validate(
            {
                "version": 1,
                "secrets": ["^who$"],
                "classes": {
                    "shop:connection": {"exclude": True},
                    "shop:queue": {
                        "elements": {"*": {"exclude": True}, "published": {"exclude": False}},
                        "alarms": {
                            "busy": {
                                "element": "published",
                                "at_least": 5,
                                "severity": "minor",
                                "text": "{name} is busy",
                            }
                        },
                    },
                },
                "events": {"shop:opened": {"exclude": True}, "shop:closed": {"severity": "major"}},
            }
        )
    ]
)


def playbook(folder: Path) -> Playbook:
    schemas = (VHOST, QUEUE, CONSUMER, CONNECTION, CLOSED, OPENED)
    return Playbook(folder, schemas=schemas, overrides=OVERRIDES)


def test_excluded_classes_and_elements_are_in_no_record(tmp_path: Path) -> None:
    book = playbook(tmp_path)
    records = book.synchronise(
        vhost("/", "v1"), queue("orders", "q1", depth=7, published=3), connection("c", "c1")
    )
    classes = {str(one.schema.key): one.schema for one in of(ClassRecord, records)}
    assert "shop:connection" not in classes
    # `exclusive` decides on the lifetime, and so stays.
    assert [e.name for e in classes["shop:queue"].elements] == ["vhost", "name", "exclusive", "published"]
    objects = book.objects()
    assert objects.keys() == {"/", "/|orders"}
    assert objects["/|orders"].values[classes["shop:queue"].positions["published"]] == 3
    assert 7 not in objects["/|orders"].values.values()


def test_statistics_alone_are_cut_alike(tmp_path: Path) -> None:
    book = playbook(tmp_path)
    book.synchronise(vhost("/", "v1"), queue("orders", "q1", depth=7, published=3))
    book.publish(statistics("q1", 8, 4))
    assert set(book.objects()["/|orders"].values.values()) >= {4}
    assert 8 not in book.objects()["/|orders"].values.values()


def test_an_alarm_of_an_override_is_raised(tmp_path: Path) -> None:
    book = playbook(tmp_path)
    book.synchronise(vhost("/", "v1"), queue("orders", "q1", published=3))
    (event,) = of(EventRecord, book.publish(statistics("q1", 8, 5)))
    assert (event.severity, event.text) == (Severity.MINOR, "orders is busy")


def test_a_reference_to_an_excluded_object_is_absent(tmp_path: Path) -> None:
    book = playbook(tmp_path)
    book.synchronise(vhost("/", "v1"), connection("c", "c1"), consumer("t", "t1", "c1"))
    book.tick(60)
    (shown,) = (one for name, one in book.objects().items() if name.startswith("t"))
    assert len(shown.values) == 1


def test_events_lose_secret_arguments_and_whole_ones_are_dropped(tmp_path: Path) -> None:
    book = playbook(tmp_path)
    records = book.synchronise()
    assert [str(one.schema.key) for one in of(EventClassRecord, records)] == ["shop:closed"]
    seen = [EventSeen(schema.key, AGENT, NOW, Severity.INFO, ("bob", "bored")) for schema in (OPENED, CLOSED)]
    (event,) = of(EventRecord, book.publish(*seen))
    assert (event.severity, dict(event.values)) == (Severity.MAJOR, {0: "bored"})
    assert "bob" not in event.text


def test_losses_of_excluded_classes_are_no_gap(tmp_path: Path) -> None:
    book = playbook(tmp_path)
    book.synchronise()
    assert not of(GapRecord, book.publish(RecordLost(CONNECTION.key, AGENT)))
    assert book.source_record().counters["unknown_class"] == 0


def test_objects_of_an_earlier_core_are_dropped(tmp_path: Path) -> None:
    book = playbook(tmp_path)
    book.source.restore(
        [
            RestoredObject("shop:connection", "c", 1, "c1", durable=False),
            RestoredObject("shop:vhost", "/", 1, "v1", durable=True),
        ],
        by_native_id=True,
    )
    assert book.source.link("c1") is None
    assert book.source.link("v1") is not None


def test_nothing_is_asked_where_nothing_is_overridden(tmp_path: Path) -> None:
    book = Playbook(tmp_path)
    records = book.synchronise(vhost("/", "v1"), connection("c", "c1"))
    assert len(of(ObjectRecord, records)) == 2
