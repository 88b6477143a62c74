"""Sets by a request of the dialect's own: one request for all elements, read back like any other set."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.feed.operations import OperationState, SetElements
from gateway.feed.values import FeedValue
from gateway.model.observations import ObjectSeen
from gateway.model.operations import MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.times import SECOND
from tests.operations.works import DEADLINE, NOW, Works, boiler

NOTICE = "To activate the new speed setting, restart the broker"


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(tmp_path, sets_natively=True)


def steps(works: Works) -> list[object]:
    """Return the changes that were sent, in order."""
    return [
        dict(one.values) if isinstance(one, ObjectModify) else one.method
        for one in works.sent
        if not isinstance(one, ObjectFetch)
    ]


def test_it_is_recorded_read_sent_read_back_reported_and_answered(works: Works) -> None:
    request = works.set(speed=30)
    works.answer(found=boiler())
    works.answer()
    works.answer(found=boiler(speed=30))
    assert works.order == [
        *("begun 1", "ObjectFetch", "ObjectModify", "ObjectFetch", "ended 1", f"answer {request}")
    ]
    (modify,) = works.modifications
    assert (modify.agent, modify.native_id, modify.values, modify.deadline) == (
        "1.0",
        "id-north",
        {"speed": 30},
        NOW + DEADLINE,
    )
    answer = works.answers[request]
    assert (answer.outcome, answer.text, answer.values) == (Outcome.APPLIED, "", {"speed": 30})
    assert (works.record.values, works.record.previous, works.record.found) == (
        {"speed": 30},
        {"speed": 20},
        {"speed": 30},
    )


def test_several_elements_are_one_request_with_only_what_differs(works: Works) -> None:
    works.set(tag="east", speed=30)
    works.answer(found=boiler(tag="east"))
    works.answer()
    works.answer(found=boiler(tag="east", speed=30))
    works.set(tag="west", speed=40)
    works.answer(found=boiler(tag="east", speed=30))
    works.answer()
    works.answer(found=boiler(tag="west", speed=40))
    assert steps(works) == [{"speed": 30}, {"tag": "west", "speed": 40}]
    assert works.record.outcome is Outcome.APPLIED


def test_what_methods_set_keeps_its_place_around_the_request(works: Works) -> None:
    works.set(mode="cold", speed=30, limit=7, tag="east")
    works.answer(found=boiler())
    for _ in range(3):
        works.answer()
    works.answer(found=boiler(mode="cold", speed=30, limit=7, tag="east"))
    assert steps(works) == ["setMode", {"speed": 30, "tag": "east"}, "setLimit"]
    assert works.record.outcome is Outcome.APPLIED


def test_who_sets_what_is_there_already_changes_nothing(works: Works) -> None:
    request = works.set(speed=20)
    works.answer(found=boiler())
    assert steps(works) == []
    assert "nothing was sent" in works.answers[request].text


@pytest.mark.parametrize(
    ("values", "outcome", "element"),
    [
        ({"speed": 30, "heat": 1}, Outcome.READ_ONLY, "heat"),
        ({"speed": 30, "colour": 1}, Outcome.UNKNOWN_ELEMENT, "colour"),
        ({"tag": "east", "speed": 0}, Outcome.WRONG_VALUE, "speed"),
        ({"tag": "east", "speed": 900_001}, Outcome.WRONG_VALUE, "speed"),
        ({"tag": "east", "speed": 2**32}, Outcome.WRONG_VALUE, "speed"),
        ({"tag": "east", "speed": "fast"}, Outcome.WRONG_TYPE, "speed"),
        ({"speed": 30, "tag": "äääää"}, Outcome.WRONG_LENGTH, "tag"),
        ({"speed": 30, "seal": "tape"}, Outcome.WRONG_VALUE, "seal"),
        ({"tag": "east", "speed": None}, Outcome.WRONG_VALUE, "speed"),
    ],
)
def test_one_that_cannot_be_set_refuses_all_before_anything_is_sent(
    works: Works, values: dict[str, FeedValue | None], outcome: Outcome, element: str
) -> None:
    answer = works.answers[works.ask(SetElements(values))]
    assert (answer.outcome, answer.element, works.sent) == (outcome, element, [])
    assert works.check(SetElements(values)).outcome is outcome


def test_where_the_dialect_has_no_such_request_only_methods_set(tmp_path: Path) -> None:
    works = Works(tmp_path)
    assert works.check(SetElements({"speed": 30})).outcome is Outcome.READ_ONLY
    assert works.check(SetElements({"limit": 30})).outcome is Outcome.APPLIED


def test_a_value_can_be_taken_away_where_it_may_be_absent(works: Works) -> None:
    works.publish(boiler(tag="east"))
    request = works.ask(SetElements({"tag": None}))
    works.answer(found=boiler(tag="east"))
    works.answer()
    works.answer(found=boiler(tag=None))
    assert (steps(works), works.answers[request].outcome) == ([{"tag": None}], Outcome.APPLIED)


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (boiler(speed=30), Outcome.APPLIED),
        (boiler(speed=25), Outcome.APPLIED_DIFFERENTLY),
        (boiler(speed=20), Outcome.NOT_APPLIED),
        (boiler(deleted=NOW), Outcome.UNKNOWN),
    ],
)
def test_what_is_read_back_counts_and_what_was_noted_is_reported(
    works: Works, found: ObjectSeen, outcome: Outcome
) -> None:
    request = works.set(speed=30)
    works.answer(found=boiler())
    works.answer(text=NOTICE)
    works.answer(found=found)
    answer = works.answers[request]
    assert answer.outcome is outcome
    assert answer.text.endswith(NOTICE)
    assert works.record.text == answer.text


def test_what_methods_and_the_request_noted_is_reported_together(works: Works) -> None:
    request = works.set(limit=7, mode="cold", speed=30)
    works.answer(found=boiler())
    works.answer(text="OK")
    works.answer(text="after a restart")
    works.answer(text=NOTICE)
    works.answer(found=boiler(limit=7, mode="cold", speed=30))
    assert works.answers[request].text == f"after a restart; {NOTICE}"


def test_what_cannot_be_read_back_is_recorded_as_answered(works: Works) -> None:
    request = works.set(seal="lead", speed=30)
    works.answer(found=boiler())
    works.answer(text=NOTICE)
    works.answer(found=boiler(speed=30))
    answer = works.answers[request]
    assert (answer.outcome, answer.values) == (Outcome.APPLIED, {"speed": 30})
    assert answer.text == f"seal cannot be read back: reported as done; {NOTICE}"


def test_a_request_that_failed_is_read_back(works: Works) -> None:
    request = works.set(speed=30, tag="east")
    works.answer(found=boiler())
    works.answer(Outcome.REMOTE_FAILURE, "noaccess", code=None)
    works.answer(found=boiler(speed=30))
    answer = works.answers[request]
    assert (answer.outcome, answer.element, answer.text) == (Outcome.REMOTE_FAILURE, "", "noaccess")
    assert answer.values == {"speed": 30}


def test_one_of_several_that_the_peer_refuses_may_have_left_others_set(works: Works) -> None:
    request = works.set(speed=30, tag="east")
    works.answer(found=boiler())
    works.answer(Outcome.WRONG_VALUE, "tag: no such place", code=4)
    works.answer(found=boiler(speed=30))
    answer = works.answers[request]
    assert (answer.outcome, answer.values) == (Outcome.WRONG_VALUE, {"speed": 30})


@pytest.mark.parametrize("answered", [True, False])
def test_a_failure_of_several_that_cannot_be_read_back_is_unknown_until_an_operator_looks(
    works: Works,
    answered: bool,  # noqa: FBT001  expected
) -> None:
    request = works.set(speed=30, tag="east")
    works.answer(found=boiler())
    works.answer(Outcome.REMOTE_FAILURE, "invalid", code=3)
    if answered:
        works.answer(Outcome.SOURCE_DOWN, "the link is lost", code=None)
    else:
        works.wait(DEADLINE)
    answer = works.answers[request]
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, 3)
    assert "perhaps in part only" in answer.text
    works.wait(2 * SECOND)
    works.answer(found=boiler(speed=30))
    assert_settled(works, Outcome.NOT_APPLIED)
    assert (works.record.element, works.record.found) == ("tag", {"speed": 30})


def test_a_failure_of_one_that_cannot_be_read_back_is_what_was_reported(works: Works) -> None:
    request = works.set(speed=30)
    works.answer(found=boiler())
    works.answer(Outcome.REMOTE_FAILURE, "noaccess", code=2)
    works.wait(DEADLINE)
    assert works.answers[request].outcome is Outcome.REMOTE_FAILURE


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome.SOURCE_DOWN, None),
        (Outcome.NOT_NOW, None),
        (Outcome.WRONG_LENGTH, None),
        (Outcome.OBJECT_GONE, 1),
    ],
)
def test_what_was_certainly_not_sent_or_not_set_is_not_read_back(
    works: Works, outcome: Outcome, code: int | None
) -> None:
    request = works.set(speed=30, tag="east")
    works.answer(found=boiler())
    works.answer(outcome, "not sent", code=code)
    assert works.answers[request].outcome is outcome
    assert isinstance(works.sent[-1], ObjectModify)


def test_the_time_may_be_up_between_a_method_and_the_request(works: Works) -> None:
    request = works.set(limit=7, speed=30, tag="east")
    works.answer(found=boiler())
    works.now += DEADLINE
    works.answer()
    answer = works.answers[request]
    assert (answer.outcome, answer.element) == (Outcome.NOT_NOW, "")
    assert answer.text == "the time was up before speed, tag was set; limit was set before"


@pytest.fixture
def unanswered(works: Works) -> Works:
    """A set of two elements whose request got no answer."""
    works.set(speed=30, tag="east")
    works.answer(found=boiler())
    works.wait(DEADLINE)
    assert (works.record.outcome, works.record.element) == (Outcome.UNKNOWN, "")
    assert "may have been carried out" in works.record.text
    return works


def assert_settled(works: Works, outcome: Outcome) -> None:
    assert (works.record.state, works.record.outcome) == (OperationState.SETTLED, outcome)
    assert len(works.modifications) == 1
    assert len(works.answers) == 1


def test_a_late_answer_is_verified_and_its_notice_reported(unanswered: Works) -> None:
    unanswered.answer(text=NOTICE, to=unanswered.modifications[0])
    unanswered.answer(found=boiler(speed=30, tag="east"))
    assert_settled(unanswered, Outcome.APPLIED)
    assert unanswered.record.text == f"it has the values asked for now; {NOTICE}"


def test_a_late_answer_that_is_half_true(unanswered: Works) -> None:
    unanswered.answer(to=unanswered.modifications[0])
    unanswered.answer(found=boiler(speed=30))
    assert_settled(unanswered, Outcome.NOT_APPLIED)
    assert unanswered.record.element == "tag"


def test_the_object_reports_what_came_of_it(unanswered: Works) -> None:
    unanswered.wait(2 * SECOND)
    unanswered.answer(found=boiler(speed=30, tag="east"))
    assert_settled(unanswered, Outcome.APPLIED)


def test_it_was_not_applied_when_that_was_seen_for_long(unanswered: Works) -> None:
    unanswered.publish(boiler(sampled=NOW + 11 * SECOND))
    unanswered.wait(31 * SECOND)
    unanswered.publish(boiler(sampled=NOW + 60 * SECOND))
    assert_settled(unanswered, Outcome.NOT_APPLIED)


def test_a_late_answer_says_nothing_of_what_was_not_sent_any_more(works: Works) -> None:
    works.set(seal="lead", limit=7)
    works.answer(found=boiler())
    works.wait(DEADLINE)
    works.answer(to=works.modifications[0])
    assert_settled(works, Outcome.NOT_NOW)
    assert (works.record.element, works.calls) == ("limit", [])
    assert works.record.text == "answered late; the time was up before limit was set"


def test_passwords_in_values_are_sent_and_never_reported(works: Works) -> None:
    works.set(tag="a://n@b")
    works.answer(found=boiler(tag="a://o@b"))
    works.answer(text="a://n@b is taken")
    works.answer(found=boiler(tag="a://***@b"))
    assert steps(works) == [{"tag": "a://n@b"}]
    assert works.record.outcome is Outcome.APPLIED
    assert "n@b" not in repr(works.reported)


def test_a_hidden_password_is_not_sent_as_what_hides_it(works: Works) -> None:
    works.publish(boiler(tag="a://***@b"))
    answer = works.check(SetElements({"speed": 30, "tag": "a://***@c"}))
    assert (answer.outcome, answer.element) == (Outcome.WRONG_VALUE, "tag")
    request = works.set(tag="a://***@b")
    works.answer(found=boiler(tag="a://***@b"))
    assert works.answers[request].outcome is Outcome.APPLIED
    assert steps(works) == []


def test_a_hidden_password_of_before_is_not_sent_where_the_value_was_changed_meanwhile(works: Works) -> None:
    works.publish(boiler(tag="a://***@b"))
    request = works.set(tag="a://***@b")
    works.answer(found=boiler(tag="a://b"))
    assert works.answers[request].outcome is Outcome.WRONG_VALUE
    assert steps(works) == []


def test_sets_of_one_object_come_one_after_the_other_however_they_are_sent(works: Works) -> None:
    works.set(limit=7)
    works.set(speed=30)
    assert len(works.sent) == 1
    works.answer(Outcome.REMOTE_FAILURE)
    assert [type(one) for one in works.sent] == [ObjectFetch, ObjectFetch]
    assert not any(isinstance(one, MethodCall) for one in works.sent)
