"""A request that a source would not send, as only its dialect knows, is refused before anything begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.feed.operations import InvokeMethod, OperationState, ReadFresh, SetElements
from gateway.model.operations import Answer, Outcome
from tests.operations.works import Works, boiler

EMPTY = Answer(0, Outcome.WRONG_VALUE, "not sent: tag: an empty value cannot be sent")


@pytest.fixture
def works(tmp_path: Path) -> Works:
    works = Works(tmp_path, sets_natively=True)
    works.objections[""] = EMPTY
    return works


def test_a_value_that_cannot_be_sent_is_refused_already_when_it_is_checked(works: Works) -> None:
    answer = works.check(SetElements({"speed": 30, "tag": ""}))
    assert (answer.outcome, answer.element, answer.text) == (Outcome.WRONG_VALUE, "tag", EMPTY.text)
    assert (works.reported, works.sent) == ([], [])


def test_it_is_recorded_as_refused_and_nothing_is_sent(works: Works) -> None:
    answer = works.answers[works.ask(SetElements({"speed": 30, "tag": ""}))]
    assert (answer.outcome, works.sent) == (Outcome.WRONG_VALUE, [])
    assert (works.record.state, works.record.outcome) == (OperationState.ENDED, Outcome.WRONG_VALUE)


def test_a_value_that_would_not_be_sent_is_accepted_where_it_is_unchanged(works: Works) -> None:
    works.publish(boiler(tag=""))
    request = works.ask(SetElements({"tag": ""}))
    works.answer(found=boiler(tag=""))
    assert works.answers[request].outcome is Outcome.APPLIED
    assert (works.examined, works.modifications) == ([], [])


def test_each_element_is_looked_at_and_then_the_request_of_all(works: Works) -> None:
    assert works.check(SetElements({"tag": "east", "limit": 7, "speed": 30})).outcome is Outcome.APPLIED
    assert works.examined == [
        {"tag": "east"},
        "setLimit",
        {"speed": 30},
        {"tag": "east", "speed": 30},
    ]


def test_a_method_that_would_not_be_called_is_refused(works: Works) -> None:
    works.objections["purge"] = Answer(0, Outcome.REFUSED, "not sent: this would end the broker")
    answer = works.check(InvokeMethod("purge", {}))
    assert (answer.outcome, answer.element) == (Outcome.REFUSED, "")


def test_a_reading_is_not_asked_about(works: Works) -> None:
    assert works.check(ReadFresh()).outcome is Outcome.APPLIED
    assert works.examined == []
