"""The inventory as used by operations: objects by row, settable elements, repeated records."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from gateway.feed.latest import HistoryLimits
from gateway.feed.operations import OperationState
from gateway.feed.records import EventRecord
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.history import History
from gateway.mapping.rules import Mapping
from gateway.model.observations import ResyncBegan, Severity
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import Access, Argument, ClassKey, ClassSchema, Element, Method
from gateway.model.values import ValueType
from tests.feed.test_operation_messages import RECORD
from tests.inventory.plant import machine, plant

LIMIT = Element("limit", ValueType.U32, Access.READ_WRITE)
SET_LIMIT = Method("setLimit", (Argument("value", ValueType.U32),))
BEGUN = msgspec.structs.replace(RECORD, state=OperationState.BEGUN, outcome=None)


def mapping(access: str = "read-write", argument: str = "value") -> Mapping:
    return Mapping.model_validate(
        {
            "version": 1,
            "package": "shop",
            "module": "SHOP-MIB",
            "prefix": "shop",
            "classes": {
                "till": {
                    "methods": {"setLimit": {"arguments": {argument: {}}, "dangerous": True}},
                    "properties": {
                        "limit": {
                            "access": access,
                            "set_by": {"method": "setLimit", "argument": argument},
                        }
                    },
                }
            },
        }
    )


def silent() -> Mapping:
    """Return a mapping that has the element, without a method to set it."""
    reported = mapping().model_dump()
    reported["classes"]["till"] = {"properties": {"limit": {"type": "u32"}}}
    return Mapping.model_validate(reported)


def till(*methods: Method, access: Access = Access.READ_WRITE) -> ClassSchema:
    return ClassSchema(
        ClassKey("shop", "till"), (dataclasses.replace(LIMIT, access=access),), methods=methods
    )


def limit_of(
    *methods: Method,
    mapped: Mapping | None,
    access: Access = Access.READ_WRITE,
    sets_natively: bool = False,
) -> Element:
    registry = ClassRegistry({"shop": mapped} if mapped else {})
    record = registry.class_record(till(*methods, access=access), sets_natively=sets_natively)
    return record.schema.properties[0]


def test_what_a_method_sets_can_be_set() -> None:
    assert limit_of(SET_LIMIT, mapped=mapping(), access=Access.READ_ONLY).access is Access.READ_WRITE


@pytest.mark.parametrize("methods", [(), (Method("setLimit"),), (Method("purge", SET_LIMIT.arguments),)])
def test_what_no_method_of_the_agent_sets_cannot_whatever_the_mapping_says(
    methods: tuple[Method, ...],
) -> None:
    assert limit_of(*methods, mapped=mapping()).access is Access.READ_ONLY


def test_what_no_mapping_knows_how_to_set_cannot_be_set_whatever_the_agent_says() -> None:
    assert limit_of(SET_LIMIT, mapped=None).access is Access.READ_ONLY
    assert limit_of(SET_LIMIT, mapped=None, access=Access.READ_CREATE).access is Access.READ_CREATE


@pytest.mark.parametrize(
    ("methods", "mapped", "reported", "shown"),
    [
        pytest.param((), None, Access.READ_WRITE, Access.READ_WRITE, id="as the agent tells it"),
        pytest.param((), None, Access.READ_ONLY, Access.READ_ONLY, id="as the agent tells it, not"),
        pytest.param((), mapping(), Access.READ_WRITE, Access.READ_WRITE, id="where its method is not there"),
        pytest.param(
            (), mapping(), Access.READ_ONLY, Access.READ_ONLY, id="not where only the mapping says so"
        ),
        pytest.param((), silent(), Access.READ_WRITE, Access.READ_ONLY, id="not what MIBs call read-only"),
        pytest.param((SET_LIMIT,), mapping(), Access.READ_ONLY, Access.READ_WRITE, id="what a method sets"),
    ],
)
def test_a_dialect_with_a_request_of_its_own_sets_what_agent_and_mapping_say(
    methods: tuple[Method, ...], mapped: Mapping | None, reported: Access, shown: Access
) -> None:
    assert limit_of(*methods, mapped=mapped, access=reported, sets_natively=True).access is shown


def test_sources_of_two_kinds_may_report_the_same_class() -> None:
    registry = ClassRegistry({})
    by_methods, natively = registry.class_record(till()), registry.class_record(till(), sets_natively=True)
    assert by_methods.number != natively.number
    assert [one.schema.properties[0].access for one in (by_methods, natively)] == [
        Access.READ_ONLY,
        Access.READ_WRITE,
    ]
    assert registry.class_record(till()) is by_methods
    assert registry.class_record(till(), sets_natively=True) is natively


def test_the_rules_of_methods_are_known_by_name() -> None:
    registry, key = ClassRegistry({"shop": mapping()}), ClassKey("shop", "till")
    rule = registry.set_rule(key, "limit")
    assert rule is not None
    assert (rule.method, rule.argument) == ("setLimit", "value")
    method = registry.method_rule(key, "setLimit")
    assert method is not None
    assert method.dangerous
    assert registry.method_rule(key, "other") is None
    assert registry.set_rule(key, "other") is None
    assert registry.set_rule(ClassKey("other", "till"), "limit") is None


def test_an_object_is_found_by_its_row_while_it_lives(tmp_path: Path) -> None:
    book = plant(tmp_path)
    book.synchronise(machine())
    entry = book.source.by_row("plant:machine", 1)
    assert entry is not None
    assert entry.record.stable_name == "press"
    assert book.source.is_bound(entry)
    book.publish(ResyncBegan(restarted=True))
    assert not book.source.is_bound(entry)
    book.synchronise()
    assert book.source.by_row("plant:machine", 1) is None


def test_sources_are_found_by_their_numbers(tmp_path: Path) -> None:
    book = plant(tmp_path)
    assert book.inventory.source(book.source.identity.number) is book.source
    assert book.inventory.source(99) is None


def test_an_operation_is_reported_to_all_and_again_to_later_subscribers(tmp_path: Path) -> None:
    book = plant(tmp_path)
    book.inventory.publish_operation(BEGUN)
    book.inventory.publish_operation(RECORD)
    assert [batch.records for batch in book.batches] == [(BEGUN,), (RECORD,)]
    assert [record for record in book.inventory.snapshot()[0] if record == RECORD] == [RECORD]
    assert BEGUN not in book.inventory.snapshot()[0]
    book.inventory.remove_source(book.source, book.now)
    assert RECORD not in book.inventory.snapshot()[0]


def test_a_refused_operation_is_an_event_too(tmp_path: Path) -> None:
    book = plant(tmp_path)
    refused = msgspec.structs.replace(
        RECORD,
        principal=Principal("jmx", "monitor", "192.0.2.1"),
        outcome=Outcome.REFUSED,
        text="login: user or password is wrong",
        attempts=3,
        ended=book.now,
    )
    book.inventory.publish_operation(refused)
    record, event = book.batches[-1].records
    assert record == refused
    assert isinstance(event, EventRecord)
    assert event.text == "jmx:monitor from 192.0.2.1 was refused 3 times: login: user or password is wrong"
    assert event.values == {0: "jmx:monitor", 1: "192.0.2.1", 2: 3, 3: "login: user or password is wrong"}
    assert (event.source, event.severity, event.received) == (0, Severity.WARNING, book.now)


def test_old_operations_are_forgotten_but_not_what_is_under_way() -> None:
    past = History(HistoryLimits(operations=2))
    numbered = [msgspec.structs.replace(RECORD, number=number) for number in range(2, 6)]
    past.note([BEGUN, *numbered])
    assert past.operations() == [BEGUN, *numbered[-2:]]
