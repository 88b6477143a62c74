"""The output of `--json`, as `docs/cli.md` describes it."""

from __future__ import annotations

import json
from uuid import UUID

import msgspec
import pytest

from gateway.feed.operations import OperationAnswer, OperationKind, OperationRecord, OperationState
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import Element
from gateway.model.values import ValueType
from gateway.terminal.documents import (
    Document,
    answer_document,
    brief_document,
    change_document,
    descriptions,
    duration_text,
    json_form,
    object_document,
    operation_document,
    source_document,
    text_form,
    time_text,
)
from gateway.terminal.lines import (
    ABSENT,
    aligned,
    change_line,
    object_lines,
    operation_line,
    summary_rows,
    tree_lines,
    value_with_unit,
)
from gateway.terminal.selection import Pattern, concerns
from gateway.terminal.view import CoreChanged, FeedChange, ObjectKey, TerminalView
from tests.components.shop import START, update
from tests.terminal.reported import TILL, known_shop, publish, rang, till

FIRST = ObjectKey(1, "shop:till", 1)
AT = "2023-11-14T22:13:20.000000000Z"
LATER = "2023-11-14T22:13:29.000000000Z"
TILL_PATH = "shop1/shop:till/hall1|till1"
BRIEF = {
    "object": TILL_PATH,
    "source": "shop1",
    "class": "shop:till",
    "name": "hall1|till1",
    "leaf_name": "till1",
    "row": 1,
    "parent": "shop1/shop:hall/hall1",
    "lifetime": "transient",
    "stale_since": None,
}


def test_an_object() -> None:
    view = known_shop(till(1))
    known = view.objects[FIRST]
    assert brief_document(known, view) == BRIEF
    assert object_document(known, view, TILL.schema.elements) == {
        **BRIEF,
        "native_id": "0-1-1-0-1",
        "agent": "1.0",
        "created": AT,
        "properties_sampled": AT,
        "statistics_sampled": "2023-11-14T22:13:21.000000000Z",
        "changed": AT,
        "reset": AT,
        "values": {"hall": "shop1/shop:hall/hall1", "limit": 10, "mood": "busy", "sales": 7},
        "absent": ["opened"],
    }


def test_a_source() -> None:
    view = known_shop(till(1))
    assert source_document(view.sources[1], view) == {
        "source": "shop1",
        "number": 1,
        "source_kind": "qmf",
        "state": "synchronised",
        "detail": "a detail",
        "since": AT,
        "last_heard": AT,
        "objects": 2,
        "active_alarms": 0,
        "counters": {},
    }


def happened(change: FeedChange, view: TerminalView) -> Document:
    document = change_document(change, view, START)
    assert json.loads(json.dumps(document)) == document
    assert document.pop("time") == AT
    return document


def test_what_happens() -> None:
    view = known_shop()
    (created,) = publish(view, till(1))
    (changed,) = publish(view, update(1, {2: 0}, absent=(1,)))
    (event,) = publish(view, rang(3))

    assert happened(created, view)["kind"] == "created"
    assert happened(created, view)["values"]["mood"] == "busy"
    assert happened(changed, view) == {
        "kind": "changed",
        "object": TILL_PATH,
        "source": "shop1",
        "class": "shop:till",
        "name": "hall1|till1",
        "sampled": LATER,
        "changes": {"limit": {"former": 10, "value": None}, "mood": {"former": "busy", "value": "calm"}},
    }
    assert happened(event, view) == {
        "kind": "event",
        "event_id": "7b0c.1.3",
        "event": "shop:rang",
        "source": "shop1",
        "severity": "info",
        "state": "oneShot",
        "condition": "",
        "object": TILL_PATH,
        "text": "it rang",
        "occurred": AT,
        "heard": AT,
        "values": {"till": TILL_PATH},
    }
    assert happened(CoreChanged("gone"), view) == {"kind": "core", "connected": False, "detail": "gone"}


def operation(view: TerminalView) -> OperationRecord:
    record = OperationRecord(
        number=1,
        operation_id="7b0c.1.o1",
        kind=OperationKind.SET,
        state=OperationState.ENDED,
        principal=Principal("cli", "alice", "process 7"),
        source=1,
        class_name="shop:till",
        row=1,
        stable_name="hall1|till1",
        leaf_name="till1",
        values={"mood": 0},
        absent=("limit",),
        previous={"mood": 1},
        found={"mood": 1},
        outcome=Outcome.NOT_APPLIED,
        element="mood",
        code=0,
        text="it is busy still",
        began=START,
        ended=START,
    )
    publish(view, record)
    return record


def test_an_operation() -> None:
    view = known_shop(till(1))
    record = operation(view)
    assert operation_document(record, view) == {
        "operation_id": "7b0c.1.o1",
        "operation": "set",
        "state": "ended",
        "attempts": 1,
        "principal": "cli:alice",
        "origin": "process 7",
        "object": TILL_PATH,
        "method": "",
        "values": {"mood": "calm"},
        "absent": ["limit"],
        "former": {"mood": "busy"},
        "found": {"mood": "busy"},
        "outcome": "not-applied",
        "element": "mood",
        "code": 0,
        "text": "it is busy still",
        "began": AT,
        "ended": AT,
    }
    assert operation_line(record, view) == (
        f"ended set {TILL_PATH} by cli:alice mood=calm limit=(absent): not-applied (it is busy still)"
    )


def test_an_answer() -> None:
    view = known_shop()
    answer = OperationAnswer(5, "7b0c.1.o2", Outcome.APPLIED, "done", values={"taken": 3, "more": b"\xff"})
    assert answer_document(answer, descriptions(view, "shop:till", "empty"), "shop1") == {
        "outcome": "applied",
        "operation_id": "7b0c.1.o2",
        "text": "done",
        "element": "",
        "code": None,
        "values": {"taken": 3, "more": "ff"},
    }


def test_lines_for_people() -> None:
    view = known_shop(till(1), till(2))
    assert object_lines(view.objects[FIRST], view) == [
        TILL_PATH,
        "  class     shop:till",
        "  lifetime  transient",
        f"  created   {AT}",
        "  sampled   2023-11-14T22:13:21.000000000Z",
        "  parent    shop1/shop:hall/hall1",
        "properties",
        "  hall   shop1/shop:hall/hall1",
        "  limit  10 coins",
        "  mood   busy",
        "statistics",
        "  sales   7",
        "  opened  (absent)",
    ]
    assert list(tree_lines(view, Pattern.of(""))) == [
        "shop1  synchronised",
        "  shop:hall  hall1",
        "    shop:till  hall1|till1",
        "    shop:till  hall1|till2",
    ]
    assert list(tree_lines(view, Pattern.of("shop1/till/*1"))) == [
        "shop1  synchronised",
        "  shop:till  hall1|till1",
    ]
    assert list(tree_lines(view, Pattern.of("else"))) == []
    assert list(summary_rows(view, Pattern.of(""))) == [
        ("shop1", "shop:hall", "1"),
        ("shop1", "shop:till", "2"),
    ]
    assert aligned([]) == []


def test_each_happening_has_a_line() -> None:
    view = known_shop(till(1))
    (changed,) = publish(view, update(1, {3: 9}, absent=(1,)))
    (event,) = publish(view, rang(3))
    lines = [change_line(one, view, START) for one in (changed, event, CoreChanged())]
    assert lines == [
        f"22:13:20.000  changed    {TILL_PATH}  limit: 10 coins -> (absent); sales: 7 -> 9;",
        "22:13:20.000  event      shop1  info shop:rang  it rang  7b0c.1.3",
        "22:13:20.000  core       is back",
    ]


@pytest.mark.parametrize(
    ("pattern", "reported"),
    [("", True), ("shop1", True), ("other", False), ("shop1/till", True), ("//*2", False), ("/hall", False)],
)
def test_a_subscriber_to_a_part_receives_that_part(pattern: str, reported: bool) -> None:  # noqa: FBT001  a parameter
    view = known_shop(till(1))
    for change in (*publish(view, update(1, {3: 9})), *publish(view, rang(3))):
        assert concerns(Pattern.of(pattern), change, view) is reported
    assert concerns(Pattern.of(pattern), CoreChanged("gone"), view)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (ValueType.BOOL, True, "true"),
        (ValueType.U64, 2**64 - 1, "18446744073709551615"),
        (ValueType.STRING, "a b", "a b"),
        (ValueType.BYTES, b"\x00\xff", "00ff"),
        (ValueType.UUID, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (ValueType.TIME, START, AT),
        (ValueType.TIME, 0, "1970-01-01T00:00:00.000000000Z"),
        (ValueType.TIME, -1, "1969-12-31T23:59:59.999999999Z"),
        (ValueType.DURATION, 0, "0 ns"),
        (ValueType.DURATION, 90 * 10**9, "90 s"),
        (ValueType.MAP, {"b": (1, b"\x01")}, '{"b": [1, "01"]}'),
        (ValueType.F64, float("inf"), "inf"),
        (ValueType.REFERENCE, ObjectLink("shop:hall", 1, "hall1"), "shop1/shop:hall/hall1"),
    ],
)
def test_values_as_text(kind: ValueType, value: FeedValue, text: str) -> None:
    element = Element("element", kind)
    assert text_form(element, value, "shop1") == text
    json.dumps(json_form(element, value, "shop1"), allow_nan=False)


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (ValueType.U64, 3, "3 seconds"),
        (ValueType.DURATION, 90 * 10**9, "90 s"),  # its text has a unit
        (ValueType.STRING, "three", "three"),
        (ValueType.U64, None, ABSENT),
    ],
)
def test_values_have_one_unit(kind: ValueType, value: FeedValue | None, shown: str) -> None:
    assert value_with_unit(Element("element", kind, unit="seconds"), value, "shop1") == shown


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        *[(0, "0 ns"), (1, "1 ns"), (1500, "1.5 us"), (250_000_000, "250 ms"), (1_500_000_000, "1.5 s")],
        *[(-2_000_000_000, "-2 s"), (1_000_000_001, "1000000.001 us")],
    ],
)
def test_durations_are_exact(nanoseconds: int, text: str) -> None:
    assert duration_text(nanoseconds) == text


def test_a_time_that_no_calendar_has_is_none() -> None:
    assert time_text(0) is None
    assert time_text(2**63 - 1) == "2262-04-11T23:47:16.854775807Z"
    assert time_text(2**80) is None


def test_an_object_whose_parent_is_gone_stands_below_its_source() -> None:
    view = known_shop(msgspec.structs.replace(till(1), parent=ObjectLink("shop:hall", 9, "hall9")))
    assert list(tree_lines(view, Pattern.of("//*till1"))) == [
        "shop1  synchronised",
        "  shop:till  hall1|till1",
    ]
