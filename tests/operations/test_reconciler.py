"""An unknown outcome, until it is known: by a late answer, by reading, by a report of the source."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gateway.feed.operations import OperationState
from gateway.model.observations import SourceState, SourceStateSeen
from gateway.model.operations import MethodCall, ObjectFetch, Outcome
from gateway.model.times import SECOND
from gateway.operations.reconciler import CERTAIN_AFTER, MAX_PENDING
from tests.operations.works import DEADLINE, NOW, Works, boiler

LATER = NOW + 60 * SECOND


@pytest.fixture
def works(tmp_path: Path) -> Works:
    """A set whose call got no answer; it is the last that was sent."""
    works = Works(tmp_path)
    works.set(limit=7)
    works.answer(found=boiler())
    works.wait(DEADLINE)
    assert works.record.outcome is Outcome.UNKNOWN
    assert works.manager.pending_outcomes == 1
    return works


def call_of(works: Works) -> MethodCall:
    (call,) = works.calls
    return call


def assert_settled(works: Works, outcome: Outcome) -> None:
    assert (works.record.number, works.record.state, works.record.outcome) == (
        1,
        OperationState.SETTLED,
        outcome,
    )
    assert works.manager.pending_outcomes == 0
    assert len(works.answers) == 1
    assert len(works.calls) == 1


def test_a_late_report_is_verified_by_reading_back(works: Works) -> None:
    works.answer(to=call_of(works))
    assert isinstance(works.sent[-1], ObjectFetch)
    assert works.record.state is OperationState.ENDED
    works.answer(found=boiler(limit=7))
    assert_settled(works, Outcome.APPLIED)
    assert works.record.found == {"limit": 7}
    assert works.record.operation_id == "gw.3.o1"


@pytest.mark.parametrize(("limit", "outcome"), [(5, Outcome.NOT_APPLIED), (6, Outcome.APPLIED_DIFFERENTLY)])
def test_a_late_report_that_is_not_true(works: Works, limit: int, outcome: Outcome) -> None:
    works.answer(to=call_of(works))
    works.answer(found=boiler(limit=limit))
    assert_settled(works, outcome)


def test_a_late_report_that_cannot_be_verified_is_no_proof(works: Works) -> None:
    works.answer(to=call_of(works))
    works.answer(Outcome.SOURCE_DOWN)
    assert works.manager.pending_outcomes == 1
    works.wait(2 * SECOND)
    works.answer(found=boiler(limit=7))
    assert_settled(works, Outcome.APPLIED)


@pytest.mark.parametrize("outcome", [Outcome.REMOTE_FAILURE, Outcome.SOURCE_DOWN, Outcome.OBJECT_GONE])
def test_a_late_answer_that_it_failed_settles_it(works: Works, outcome: Outcome) -> None:
    works.answer(outcome, "too late", to=call_of(works))
    assert_settled(works, outcome)
    assert works.record.text == "answered late: too late"


def test_unknown_said_again_says_nothing(works: Works) -> None:
    works.answer(Outcome.UNKNOWN, to=call_of(works))
    assert works.manager.pending_outcomes == 1


def test_the_value_asked_for_settles_it_when_it_is_reported(works: Works) -> None:
    works.publish(boiler(limit=7))
    assert_settled(works, Outcome.APPLIED)


def test_the_object_is_read_soon_and_reports_that_it_was_applied(works: Works) -> None:
    works.wait(2 * SECOND)
    assert isinstance(works.sent[-1], ObjectFetch)
    works.answer(found=boiler(limit=7))
    assert_settled(works, Outcome.APPLIED)


def test_it_was_not_applied_only_when_that_was_seen_for_long(works: Works) -> None:
    works.wait(2 * SECOND)
    works.answer(found=boiler(sampled=LATER))
    assert works.record.state is OperationState.ENDED
    works.wait(CERTAIN_AFTER)
    works.publish(boiler(sampled=LATER))
    assert works.record.state is OperationState.ENDED
    works.wait(3 * SECOND)
    works.answer(found=boiler(sampled=LATER + CERTAIN_AFTER))
    assert_settled(works, Outcome.NOT_APPLIED)


def waiting(works: Works, *, changes_wait: bool) -> None:
    """Let changes wait in the source, or wait no more."""
    detail = "2 of 3 nodes do not run" if changes_wait else ""
    works.publish(SourceStateSeen(SourceState.SYNCHRONISED, detail, changes_wait))


def test_what_waits_for_a_majority_is_not_called_failed_and_applied_when_it_is_there(works: Works) -> None:
    waiting(works, changes_wait=True)
    sent = len(works.sent)
    for _ in range(100):
        works.wait(60 * SECOND)
        works.publish(boiler(sampled=works.now))
    assert len(works.sent) == sent, "reading would show nothing"
    assert works.record.state is OperationState.ENDED
    waiting(works, changes_wait=False)
    works.wait(3 * SECOND)
    assert isinstance(works.sent[-1], ObjectFetch)
    works.answer(found=boiler(limit=7, sampled=works.now))
    assert_settled(works, Outcome.APPLIED)
    assert works.record.operation_id == "gw.3.o1"


def test_what_was_not_applied_is_known_some_time_after_changes_do_not_wait_any_more(works: Works) -> None:
    waiting(works, changes_wait=True)
    works.wait(600 * SECOND)
    works.publish(boiler(sampled=works.now))
    waiting(works, changes_wait=False)
    works.wait(3 * SECOND)
    works.answer(found=boiler(sampled=works.now))
    assert works.record.state is OperationState.ENDED
    works.wait(35 * SECOND)
    works.answer(found=boiler(sampled=works.now))
    assert_settled(works, Outcome.NOT_APPLIED)


def test_the_value_asked_for_counts_also_while_changes_wait(works: Works) -> None:
    waiting(works, changes_wait=True)
    works.publish(boiler(limit=7, sampled=works.now))
    assert_settled(works, Outcome.APPLIED)


def test_a_late_report_is_not_disproved_while_changes_wait(works: Works) -> None:
    waiting(works, changes_wait=True)
    works.answer(to=call_of(works))
    works.answer(found=boiler(sampled=works.now))
    assert works.record.state is OperationState.ENDED
    works.wait(60 * SECOND)
    waiting(works, changes_wait=False)
    works.wait(3 * SECOND)
    works.answer(found=boiler(limit=7, sampled=works.now))
    assert_settled(works, Outcome.APPLIED)


def test_it_is_read_when_the_source_is_reached_again(works: Works) -> None:
    works.publish(SourceStateSeen(SourceState.DOWN, "it does not answer"))
    sent = len(works.sent)
    works.wait(3600 * SECOND)
    assert len(works.sent) == sent
    works.synchronise(boiler(sampled=works.now), boiler("south"))
    works.wait(3 * SECOND)
    works.answer(found=boiler(limit=7, sampled=works.now))
    assert_settled(works, Outcome.APPLIED)


def test_what_is_reported_again_without_the_value_counts_like_a_reading(works: Works) -> None:
    works.publish(boiler(sampled=NOW + 11 * SECOND))
    works.wait(CERTAIN_AFTER)
    works.publish(boiler(sampled=LATER))
    assert_settled(works, Outcome.NOT_APPLIED)


def test_what_another_user_set_since_will_never_be_known(works: Works) -> None:
    works.publish(boiler(limit=9, sampled=NOW + 11 * SECOND))
    works.wait(CERTAIN_AFTER)
    works.publish(boiler(limit=9, sampled=LATER))
    assert works.manager.pending_outcomes == 0
    assert works.record.state is OperationState.ENDED


def test_the_end_of_the_object_ends_all_hope(works: Works) -> None:
    works.publish(boiler(deleted=NOW))
    assert works.manager.pending_outcomes == 0
    works.answer(to=call_of(works))
    assert works.record.state is OperationState.ENDED


def test_it_is_read_a_few_times_and_then_no_more(works: Works) -> None:
    for _ in range(20):
        works.wait(60 * SECOND)
        if isinstance(works.sent[-1], ObjectFetch):
            works.answer(Outcome.SOURCE_DOWN)
    assert len(works.sent) == 2 + 4
    assert (works.manager.pending_outcomes, works.manager.wake_at) == (1, None)
    works.publish(boiler(limit=7))
    assert_settled(works, Outcome.APPLIED)


def test_another_set_may_come_meanwhile(works: Works) -> None:
    second = works.set(limit=8)
    works.answer(found=boiler())
    works.answer()
    works.answer(found=boiler(limit=8))
    assert works.answers[second].outcome is Outcome.APPLIED


def test_a_late_answer_to_a_call_settles_it_with_its_outputs(tmp_path: Path) -> None:
    works = Works(tmp_path)
    works.invoke("purge")
    works.wait(DEADLINE)
    works.answer(Outcome.APPLIED, "OK", to=call_of(works))
    assert_settled(works, Outcome.APPLIED)
    assert works.record.ended == NOW + DEADLINE
    assert works.manager.wake_at is None


def test_no_report_of_an_object_settles_a_call(tmp_path: Path) -> None:
    works = Works(tmp_path)
    works.invoke("purge")
    works.wait(DEADLINE)
    works.publish(boiler(sampled=LATER))
    works.wait(600 * SECOND)
    works.publish(boiler(limit=8, sampled=LATER + 600 * SECOND))
    assert works.manager.pending_outcomes == 1
    assert len(works.sent) == 1


def test_a_late_answer_to_what_cannot_be_read_back_settles_it(tmp_path: Path) -> None:
    works = Works(tmp_path)
    works.set(code="1234")
    works.answer(found=boiler())
    works.wait(DEADLINE)
    works.publish(boiler(limit=7, sampled=LATER))
    assert works.manager.pending_outcomes == 1
    works.answer(to=call_of(works))
    assert_settled(works, Outcome.APPLIED)


def test_the_oldest_stays_unknown_when_there_are_too_many(tmp_path: Path) -> None:
    works = Works(tmp_path, max_running=MAX_PENDING + 1)
    for _ in range(MAX_PENDING + 1):
        works.invoke("purge")
    works.wait(DEADLINE)
    assert works.manager.pending_outcomes == MAX_PENDING
    for message in works.sent[:2]:
        works.answer(to=message)
    settled = [record.number for record in works.reported if record.state is OperationState.SETTLED]
    assert settled == [2]


def test_what_a_core_that_died_left_is_ended_as_unknown(tmp_path: Path) -> None:
    before, after = Works(tmp_path / "a"), Works(tmp_path / "b")
    before.set(limit=7)
    begun = msgspec.structs.replace(before.record, number=0, operation_id="gw.2.o9")
    after.now = LATER
    after.perform(after.manager.recover([begun], after.now))
    record = after.record
    assert (record.number, record.operation_id, record.state, record.outcome) == (
        1,
        "gw.2.o9",
        OperationState.ENDED,
        Outcome.UNKNOWN,
    )
    assert (record.values, record.began, record.ended) == ({"limit": 7}, NOW, LATER)
    assert "core ended" in record.text
    after.invoke("purge")
    assert after.record.number == 2
