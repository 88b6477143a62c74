"""Reasons against an operation that are known here: reported once, at once, and nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.feed.audit_rate_limiter import PERIOD, RECORDED_IN_FULL
from gateway.feed.operations import (
    Action,
    FrontEndRefusal,
    InvokeMethod,
    OperationState,
    ReadFresh,
    SetElements,
)
from gateway.feed.records import DeleteRecord
from gateway.feed.values import ObjectLink
from gateway.model.observations import ResyncBegan, SourceState, SourceStateSeen
from gateway.model.operations import Outcome
from tests.components.permissions import Permission
from tests.operations.works import BOILER_CLASS, OPERATOR, VISITOR, Works, boiler

SOUTHBOUND = ObjectLink(BOILER_CLASS, 2, "south")
SET = SetElements({"limit": 7})
PURGE = InvokeMethod("purge")
MOVE = InvokeMethod("move", {"to": SOUTHBOUND, "litres": 1})


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(tmp_path)


CASES: list[tuple[Action, Outcome, str]] = [
    (SetElements({"size": 1}), Outcome.UNKNOWN_ELEMENT, "size"),
    (SetElements({"name": "x"}), Outcome.READ_ONLY, "name"),
    (SetElements({"heat": 1}), Outcome.READ_ONLY, "heat"),
    (SetElements({"limit": "x"}), Outcome.WRONG_TYPE, "limit"),
    (SetElements({"limit": True}), Outcome.WRONG_TYPE, "limit"),
    (SetElements({"limit": 1001}), Outcome.WRONG_VALUE, "limit"),
    (SetElements({"limit": -1}), Outcome.WRONG_VALUE, "limit"),
    (SetElements({"limit": None}), Outcome.WRONG_VALUE, "limit"),
    (SetElements({"mode": "warm"}), Outcome.WRONG_VALUE, "mode"),
    (SetElements({"label": "x" * 9}), Outcome.WRONG_LENGTH, "label"),
    (SetElements({}), Outcome.WRONG_VALUE, ""),
    (InvokeMethod("explode"), Outcome.UNKNOWN_ELEMENT, "explode"),
    (InvokeMethod("purge", {"all": True}), Outcome.WRONG_VALUE, "all"),
    (InvokeMethod("move", {"to": SOUTHBOUND}), Outcome.WRONG_VALUE, "litres"),
    (InvokeMethod("move", {"to": SOUTHBOUND, "litres": None}), Outcome.WRONG_VALUE, "litres"),
    (InvokeMethod("move", {"to": SOUTHBOUND, "litres": 0}), Outcome.WRONG_VALUE, "litres"),
    (InvokeMethod("move", {"to": SOUTHBOUND, "litres": 1, "left": 1}), Outcome.WRONG_VALUE, "left"),
    (InvokeMethod("move", {"to": "south", "litres": 1}), Outcome.WRONG_TYPE, "to"),
    (
        InvokeMethod("move", {"to": ObjectLink("works:tank", 2, "south"), "litres": 1}),
        Outcome.WRONG_TYPE,
        "to",
    ),
    (
        InvokeMethod("move", {"to": ObjectLink(BOILER_CLASS, 9, "east"), "litres": 1}),
        Outcome.WRONG_VALUE,
        "to",
    ),
]


def named() -> Iterator[str]:
    for action, outcome, element in CASES:
        yield f"{type(action).__name__}-{element}-{outcome.value}"


@pytest.mark.parametrize(("action", "outcome", "element"), CASES, ids=named())
def test_what_does_not_fit_the_schema_is_refused_before_anything_is_sent(
    works: Works, action: Action, outcome: Outcome, element: str
) -> None:
    answer = works.answers[works.ask(action)]
    assert (answer.outcome, answer.element, answer.operation_id) == (outcome, element, "")
    assert answer.text
    assert works.sent == []
    (record,) = works.reported
    assert (record.state, record.outcome, record.element) == (OperationState.ENDED, outcome, element)
    assert works.check(action).outcome is outcome
    assert len(works.reported) == 1


@pytest.mark.parametrize("action", [SET, MOVE, ReadFresh()])
def test_a_check_that_finds_nothing_does_nothing(works: Works, action: Action) -> None:
    answer = works.check(action)
    assert (answer.outcome, answer.operation_id) == (Outcome.APPLIED, "")
    assert (works.sent, works.reported, works.manager.running) == ([], [], 0)


@pytest.mark.parametrize(
    "where", [{"row": 3}, {"class_name": "works:tank"}, {"source": 2}], ids=["row", "class", "source"]
)
def test_an_object_that_is_not_there(works: Works, where: dict[str, int]) -> None:
    answer = works.answers[works.ask(SET, **where)]  # type: ignore[arg-type]  # one of them is a text
    assert answer.outcome is Outcome.OBJECT_GONE
    assert (works.record.row, works.record.stable_name) == (0, "")
    assert works.record.source == (0 if "source" in where else 1), "an invented source gets no history"


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (SourceState.CONNECTING, Outcome.SOURCE_DOWN),
        (SourceState.DOWN, Outcome.SOURCE_DOWN),
        (SourceState.SYNCHRONISING, Outcome.SOURCE_DOWN),
        (SourceState.DEGRADED, Outcome.OBJECT_GONE),
        (SourceState.SYNCHRONISED, Outcome.OBJECT_GONE),
    ],
)
def test_an_object_that_was_not_read_yet_is_not_said_to_be_gone(
    works: Works, state: SourceState, outcome: Outcome
) -> None:
    works.publish(SourceStateSeen(state, "a detail"))
    answer = works.answers[works.ask(SET, row=3, stable_name="attic")]
    assert answer.outcome is outcome
    assert works.sent == []
    # The front end shows it: its row shows the attempt, unless the object is another one by now.
    is_gone = outcome is Outcome.OBJECT_GONE
    assert (works.record.row, works.record.stable_name) == ((0, "") if is_gone else (3, "attic"))


@pytest.mark.parametrize("state", [one for one in SourceState if one is not SourceState.SYNCHRONISED])
def test_what_a_source_that_was_never_read_whole_lacks_is_not_said_to_be_gone(
    works: Works, state: SourceState
) -> None:
    other = works.inventory.add_source("other", "any")
    works.inventory.observed(other, [SourceStateSeen(state, "no answer")], works.now)
    answer = works.answers[works.ask(SET, source=other.identity.number)]
    assert (answer.outcome, works.sent) == (Outcome.SOURCE_DOWN, [])
    assert answer.text.endswith("row 1 of works:boiler is not known yet: no answer")


@pytest.mark.parametrize("action", [SET, PURGE, ReadFresh()])
@pytest.mark.parametrize("check_only", [True, False])
def test_a_request_is_for_the_life_that_the_object_had(
    works: Works, action: Action, *, check_only: bool
) -> None:
    for name in ("south", "north"):
        works.publish(boiler(name, deleted=works.now), boiler(name))
    records, _ = works.inventory.snapshot()
    first, second = [record.number for record in records if isinstance(record, DeleteRecord)]
    # The boiler of row 1 ended, and another one got its name, after the requester had chosen it.
    for known in (0, first):
        late = works.answers[works.ask_of_life(action, known, check_only=check_only)]
        assert (late.outcome, works.sent) == (Outcome.OBJECT_GONE, [])
        assert "has ended, and another one has its name now: row 1 of works:boiler" in late.text
    for row, last in ((1, None), (1, second), (1, second + 1), (2, first)):
        asked = works.ask_of_life(action, last, row, check_only=check_only)
        assert asked not in works.answers or works.answers[asked].outcome is Outcome.APPLIED


@pytest.mark.parametrize("action", [SET, PURGE, MOVE, ReadFresh()])
@pytest.mark.parametrize("check_only", [True, False])
def test_a_principal_without_a_rule_is_refused_and_that_is_recorded(
    works: Works,
    action: Action,
    check_only: bool,  # noqa: FBT001  a case
) -> None:
    answer = works.answers[works.ask(action, principal=VISITOR, check_only=check_only)]
    assert answer.outcome is Outcome.REFUSED
    assert answer.text.startswith("no rule lets snmp:visitor ")
    assert "snmp:visitor" in answer.text
    (record,) = works.reported
    assert (record.outcome, record.principal) == (Outcome.REFUSED, VISITOR)
    assert works.sent == []


def test_a_failed_check_that_the_front_end_reports_itself_is_not_recorded(works: Works) -> None:
    answer = works.answers[works.ask_of_snmp(SetElements({"limit": 2000}))]
    assert (answer.outcome, answer.element, answer.has_failed_check) == (Outcome.WRONG_VALUE, "limit", True)
    assert (works.reported, works.sent) == ([], [])


def test_what_the_policy_refuses_is_recorded_whichever_process_reports(works: Works) -> None:
    answer = works.answers[works.ask_of_snmp(SET, VISITOR)]
    assert answer.has_failed_check
    assert works.record.outcome is Outcome.REFUSED


def test_a_request_that_passes_its_check_is_carried_out_by_the_same_request(works: Works) -> None:
    number = works.ask_of_snmp(SET)
    works.answer()
    works.answer(Outcome.REMOTE_FAILURE)
    works.answer()
    answer = works.answers[number]
    assert (answer.outcome, answer.has_failed_check) == (Outcome.REMOTE_FAILURE, False)


def test_each_element_of_a_set_must_be_allowed(tmp_path: Path) -> None:
    works = Works(tmp_path, Permission(frozenset({str(OPERATOR)}), set=("limit",)))
    answer = works.check(SetElements({"limit": 7, "mode": "cold"}))
    assert (answer.outcome, answer.element) == (Outcome.REFUSED, "mode")
    assert works.check(SET).outcome is Outcome.APPLIED


def test_what_is_dangerous_or_not_known_to_any_mapping_is_allowed_by_name_only(tmp_path: Path) -> None:
    works = Works(tmp_path, Permission(frozenset({str(OPERATOR)}), invoke=("*", "p*")))
    assert works.check(PURGE).outcome is Outcome.REFUSED
    assert works.check(MOVE).outcome is Outcome.APPLIED


def test_what_cannot_be_reached_is_not_tried(works: Works) -> None:
    works.publish(SourceStateSeen(SourceState.DOWN, "connection refused"))
    answer = works.check(SET)
    assert answer.outcome is Outcome.SOURCE_DOWN
    assert "connection refused" in answer.text


def test_an_object_that_is_being_read_again_cannot_be_changed_now(works: Works) -> None:
    works.publish(ResyncBegan(restarted=True))
    assert works.check(SET).outcome is Outcome.NOT_NOW
    works.publish(boiler())
    assert works.check(SET).outcome is Outcome.APPLIED


def test_who_gives_no_time_gets_nothing(works: Works) -> None:
    assert works.answers[works.ask(SET, timeout=0)].outcome is Outcome.NOT_NOW
    assert works.sent == []


def test_secrets_of_what_is_refused_are_not_reported_either(works: Works) -> None:
    works.ask(SetElements({"lidPassword": "hush", "limit": 7}))
    assert works.record.values == {"lidPassword": "***", "limit": 7}
    works.ask(InvokeMethod("explode", {"pin": "1234"}))
    assert works.record.values == {"pin": "?"}


def test_what_is_no_value_is_not_reported(works: Works) -> None:
    deep: object = "x"
    for _ in range(100):
        deep = (deep,)
    strange: object = {"limit": {1: "x"}, "mode": deep, "label": object()}
    works.ask(SetElements(strange))  # type: ignore[arg-type]  # as msgpack may give it
    assert works.record.values == {"limit": "?", "mode": "?", "label": "?"}
    assert works.record.outcome is Outcome.WRONG_TYPE


def test_what_is_asked_of_a_source_without_a_port_is_not_tried(tmp_path: Path) -> None:
    works = Works(tmp_path)
    other = works.inventory.add_source("other", "qmf")
    works.inventory.observed(other, [SourceStateSeen(SourceState.SYNCHRONISED)], works.now)
    assert works.check(SET).outcome is Outcome.APPLIED
    answer = works.answers[works.ask(SET, source=other.identity.number)]
    assert answer.outcome is Outcome.OBJECT_GONE


def test_a_loop_of_refused_attempts_does_not_fill_the_log(works: Works) -> None:
    for _ in range(1000):
        assert works.answers[works.ask(SET, principal=VISITOR)].outcome is Outcome.REFUSED
    works.ask(SetElements({"size": 1}))
    in_full, others = works.reported[:RECORDED_IN_FULL], works.reported[RECORDED_IN_FULL:]
    assert {(record.principal, record.attempts) for record in in_full} == {(VISITOR, 1)}
    assert [record.outcome for record in others] == [Outcome.UNKNOWN_ELEMENT], "others are told as ever"
    assert works.manager.counters[Outcome.REFUSED] == 1000

    works.wait(PERIOD)
    counted = works.record
    assert (counted.principal, counted.attempts) == (VISITOR, 1000 - RECORDED_IN_FULL)
    assert (counted.state, counted.outcome) == (OperationState.ENDED, Outcome.REFUSED)
    assert counted.text.startswith(
        "980 more attempts within a minute, not recorded one by one: 980 refused; the last: no rule lets "
    )
    assert counted.operation_id == f"gw.3.o{counted.number}"
    assert works.manager.wake_at is None


def test_what_was_counted_is_reported_when_the_core_ends(works: Works) -> None:
    for _ in range(RECORDED_IN_FULL + 1):
        works.ask(SET, principal=VISITOR)
    works.perform(works.manager.close(works.now))
    assert works.record.attempts == 1


def test_what_a_front_end_has_refused_is_recorded_and_not_done(works: Works) -> None:
    refusal = FrontEndRefusal(Outcome.READ_ONLY, "name cannot be\nset", "name")
    answer = works.answers[works.ask(SetElements({"name": None}), refusal=refusal)]
    assert answer.outcome is Outcome.APPLIED, "it is recorded"
    record = works.record
    assert (record.outcome, record.element, record.text) == (Outcome.READ_ONLY, "name", "name cannot be set")
    assert (record.stable_name, record.values, record.principal) == ("north", {"name": "?"}, OPERATOR)
    assert works.sent == []

    asked = {
        "lidPassword": "hush",
        "limit": "much",
        "boiler:boiler south uri": "amqp://me:hush@host",
        "1.3.6": "***",
    }
    works.ask(SetElements(asked), refusal=refusal)
    assert works.record.values == {
        "lidPassword": "***",
        "limit": "much",
        "boiler:boiler south uri": "amqp://***@host",
        "1.3.6": "***",
    }

    works.ask(InvokeMethod("createMBean"), refusal=refusal, row=0, class_name="", source=0)
    assert (works.record.method, works.record.stable_name, works.record.row) == ("createMBean", "", 0)

    reported = len(works.reported)
    works.ask(SET, refusal=FrontEndRefusal(Outcome.REFUSED, "likewise", attempts=70))
    assert len(works.reported) == reported
    works.wait(PERIOD)
    assert works.record.attempts == 70
