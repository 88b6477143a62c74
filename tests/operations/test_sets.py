"""A set: read, compared, called, read back; the value that is read back counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.feed.operations import OperationKind, OperationState, SetElements
from gateway.model.observations import ObjectSeen
from gateway.model.operations import Outcome
from gateway.model.times import SECOND
from gateway.model.values import Values
from tests.operations.works import DEADLINE, NOW, OPERATOR, Works, boiler


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(tmp_path)


def calls(works: Works) -> list[tuple[str, Values]]:
    return [(call.method, call.arguments) for call in works.calls]


def test_a_set_is_recorded_read_sent_read_back_reported_and_answered(works: Works) -> None:
    request = works.set(limit=7)
    works.answer(found=boiler())
    works.answer()
    works.answer(found=boiler(limit=7))
    assert works.order == [
        "begun 1",
        "ObjectFetch",
        "MethodCall",
        "ObjectFetch",
        "ended 1",
        f"answer {request}",
    ]
    (call,) = works.calls
    assert (call.agent, call.native_id, call.method, call.arguments, call.deadline) == (
        "1.0",
        "id-north",
        "setLimit",
        (7,),
        NOW + DEADLINE,
    )
    answer = works.answers[request]
    assert (answer.outcome, answer.operation_id, answer.values) == (
        Outcome.APPLIED,
        "gw.3.o1",
        {"limit": 7},
    )
    begun, ended = works.reported
    assert (begun.state, begun.outcome, begun.values, begun.previous, begun.ended) == (
        OperationState.BEGUN,
        None,
        {"limit": 7},
        {"limit": 5},
        0,
    )
    assert (ended.kind, ended.state, ended.principal, ended.stable_name, ended.found) == (
        OperationKind.SET,
        OperationState.ENDED,
        OPERATOR,
        "north",
        {"limit": 7},
    )


def test_nothing_is_sent_before_the_log_has_the_begin(works: Works) -> None:
    works.auto_record = False
    works.set(limit=7)
    assert (works.order, works.sent) == (["begun 1"], [])
    works.recorded(1)
    assert len(works.sent) == 1


def test_where_the_log_is_in_trouble_the_operation_goes_on_and_says_so(works: Works) -> None:
    works.auto_record = False
    request = works.set(limit=5)
    works.recorded(1, "begun while the event log was in trouble (disk-full)")
    works.answer(found=boiler())
    assert works.answers[request].outcome is Outcome.APPLIED
    assert works.record.text.endswith("disk-full)")


def test_who_sets_what_is_there_already_changes_nothing(works: Works) -> None:
    works.publish(boiler(limit=1))
    request = works.set(limit=9, mode="hot")
    works.answer(found=boiler(limit=9))
    assert works.calls == []
    answer = works.answers[request]
    assert (answer.outcome, answer.values) == (Outcome.APPLIED, {"limit": 9, "mode": "hot"})
    assert "nothing was sent" in answer.text


def test_several_elements_are_one_operation_in_the_order_asked_for(works: Works) -> None:
    works.set(mode="cold", label="new", limit=5)
    works.answer(found=boiler())
    works.answer()
    works.answer()
    works.answer(found=boiler(mode="cold", label="new"))
    assert calls(works) == [("setMode", ("cold",)), ("setLabel", ("new", "set"))]
    assert works.record.outcome is Outcome.APPLIED
    assert works.record.previous == {"mode": "hot", "label": "old", "limit": 5}


@pytest.mark.parametrize("left", [None, ""])  # a dialect may have no other way to say that there is none
def test_a_value_can_be_taken_away_where_it_may_be_absent(works: Works, left: str | None) -> None:
    request = works.ask(SetElements({"label": None}))
    works.answer(found=boiler())
    works.answer()
    works.answer(found=boiler(label=left))
    assert calls(works) == [("setLabel", (None, "set"))]
    assert works.answers[request].outcome is Outcome.APPLIED
    assert (works.reported[-1].values, works.reported[-1].absent) == ({}, ("label",))


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (boiler(limit=7), Outcome.APPLIED),
        (boiler(limit=5), Outcome.NOT_APPLIED),
        (boiler(limit=6), Outcome.APPLIED_DIFFERENTLY),
        (boiler(limit=None), Outcome.APPLIED_DIFFERENTLY),
        (boiler(deleted=NOW), Outcome.UNKNOWN),
    ],
)
def test_what_is_read_back_counts(works: Works, found: ObjectSeen, outcome: Outcome) -> None:
    request = works.set(limit=7)
    works.answer(found=boiler())
    works.answer()
    works.answer(found=found)
    assert works.answers[request].outcome is outcome


def test_the_first_that_fails_ends_it_and_what_was_done_is_reported(works: Works) -> None:
    request = works.set(mode="cold", limit=7, label="new")
    works.answer(found=boiler())
    works.answer()
    works.answer(Outcome.REMOTE_FAILURE, "Forbidden", code=6)
    works.answer(found=boiler(mode="cold"))
    assert calls(works) == [("setMode", ("cold",)), ("setLimit", (7,))]
    answer = works.answers[request]
    assert (answer.outcome, answer.element, answer.code) == (Outcome.REMOTE_FAILURE, "limit", 6)
    assert answer.values == {"mode": "cold", "limit": 5, "label": "old"}
    assert answer.text == "Forbidden; mode was set before"


def test_what_was_reported_as_failed_and_is_there_all_the_same_was_applied(works: Works) -> None:
    request = works.set(limit=7)
    works.answer(found=boiler())
    works.answer(Outcome.REMOTE_FAILURE, "no answer of the broker", code=7)
    works.answer(found=boiler(limit=7))
    answer = works.answers[request]
    assert (answer.outcome, answer.values) == (Outcome.APPLIED, {"limit": 7})
    assert "no answer of the broker" in answer.text


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (Outcome.OBJECT_GONE, Outcome.OBJECT_GONE),
        (Outcome.SOURCE_DOWN, Outcome.SOURCE_DOWN),
        (Outcome.REMOTE_FAILURE, Outcome.REMOTE_FAILURE),
        (Outcome.UNKNOWN, Outcome.SOURCE_DOWN),
    ],
)
def test_what_cannot_be_read_to_begin_with_is_not_set(works: Works, said: Outcome, outcome: Outcome) -> None:
    request = works.set(limit=7)
    works.answer(said, "because")
    assert works.answers[request].outcome is outcome
    assert works.calls == []


def test_a_reading_without_an_answer_sets_nothing(works: Works) -> None:
    request = works.set(limit=7)
    works.wait(DEADLINE)
    answer = works.answers[request]
    assert (answer.outcome, works.calls) == (Outcome.SOURCE_DOWN, [])
    works.answer(found=boiler())
    assert works.calls == []
    assert works.record.state is OperationState.ENDED


@pytest.mark.parametrize(
    "outcome",
    [Outcome.SOURCE_DOWN, Outcome.OBJECT_GONE, Outcome.WRONG_VALUE, Outcome.NOT_NOW, Outcome.UNKNOWN],
)
def test_what_the_call_is_answered_is_what_came_of_it(works: Works, outcome: Outcome) -> None:
    request = works.set(limit=7)
    works.answer(found=boiler())
    works.answer(outcome, "because")
    answer = works.answers[request]
    assert (answer.outcome, answer.text, answer.element) == (outcome, "because", "limit")
    assert len(works.calls) == 1


def test_a_call_without_an_answer_is_unknown_at_the_deadline(works: Works) -> None:
    request = works.set(limit=7)
    works.answer(found=boiler())
    works.wait(DEADLINE - 1)
    assert request not in works.answers
    works.wait(1)
    answer = works.answers[request]
    assert (answer.outcome, answer.element) == (Outcome.UNKNOWN, "limit")
    assert "may have been carried out" in answer.text


@pytest.mark.parametrize("said", [Outcome.UNKNOWN, Outcome.SOURCE_DOWN, Outcome.REMOTE_FAILURE, None])
def test_what_is_reported_as_done_and_cannot_be_read_back_is_unknown(
    works: Works, said: Outcome | None
) -> None:
    request = works.set(limit=7)
    works.answer(found=boiler())
    works.answer()
    if said is None:
        works.wait(DEADLINE)
    else:
        works.answer(said)
    assert works.answers[request].outcome is Outcome.UNKNOWN
    assert "reported as done" in works.answers[request].text


def test_a_call_that_could_only_be_late_is_not_sent(works: Works) -> None:
    request = works.set(mode="cold", limit=7)
    works.answer(found=boiler())
    works.now += DEADLINE
    works.answer()
    answer = works.answers[request]
    assert (answer.outcome, answer.element) == (Outcome.NOT_NOW, "limit")
    assert len(works.calls) == 1
    assert answer.text.endswith("mode was set before")


def test_what_cannot_be_read_back_is_taken_as_answered(works: Works) -> None:
    request = works.set(code="1234")
    works.answer(found=boiler())
    works.answer()
    assert works.answers[request].outcome is Outcome.APPLIED
    assert len(works.sent) == 2


def test_sets_of_one_object_come_one_after_the_other_and_others_do_not_wait(works: Works) -> None:
    works.set(limit=7)
    works.set(limit=8)
    works.set(limit=9, row=2)
    works.invoke("purge")
    assert len(works.sent) == 3
    first, other, purge = works.sent
    works.answer(to=first, outcome=Outcome.REMOTE_FAILURE)
    assert len(works.sent) == 4
    assert (other.native_id, purge.native_id) == ("id-south", "id-north")


def test_an_object_whose_agent_restarted_meanwhile_is_sent_nothing(works: Works) -> None:
    request = works.set(limit=7)
    works.synchronise(restarted=True)  # nothing told of it yet: it is gone
    works.answer()
    assert works.answers[request].outcome is Outcome.OBJECT_GONE
    assert works.calls == []


def test_the_front_ends_time_limit_counts_where_it_is_shorter(works: Works) -> None:
    request = works.ask(SetElements({"limit": 7}), timeout=2 * SECOND)
    works.answer(found=boiler())
    works.wait(2 * SECOND)
    assert works.answers[request].outcome is Outcome.UNKNOWN
    assert works.calls[0].deadline == NOW + 2 * SECOND


SHOWN = "a://***@b"


def test_a_new_password_is_set_although_what_is_shown_stays_the_same(works: Works) -> None:
    request = works.set(label="a://n@b")
    works.answer(found=boiler(label=SHOWN))
    assert calls(works) == [("setLabel", ("a://n@b", "set"))]
    works.answer()
    works.answer(found=boiler(label=SHOWN))
    assert works.answers[request].outcome is Outcome.APPLIED
    assert "n@b" not in repr(works.reported)


def test_whether_a_new_password_was_set_cannot_be_seen(works: Works) -> None:
    works.set(label="a://n@b")
    works.answer(found=boiler(label=SHOWN))
    works.wait(DEADLINE)
    assert works.record.outcome is Outcome.UNKNOWN
    works.publish(boiler(label=SHOWN, sampled=NOW + 3600 * SECOND))
    works.wait(3600 * SECOND)
    assert works.record.outcome is Outcome.UNKNOWN
