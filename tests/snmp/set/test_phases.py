"""SET in two phases: the requests to the core, and the reports of their outcomes."""

from __future__ import annotations

import pytest

from gateway.feed.operations import OperationAnswer, OperationRequest, SetElements
from gateway.model.operations import Outcome, Principal
from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.message import VERSION_1
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.written_values import SNMP_SET_SERIAL_NO
from tests.snmp.set.shop import (
    LIMIT,
    NOTE,
    NOTE_AT,
    NOTE_LENGTH,
    OPTIONS,
    READER,
    SERIAL,
    STATE,
    TIMEOUT,
    Shop,
    applied,
    at,
    integer,
    outcome,
    set_request,
    settable_till,
    text,
)

NO_ERROR = (message.NO_ERROR, 0)


async def test_a_set_of_one_object_is_one_request_that_tests_and_changes() -> None:
    shop = Shop()
    assert await shop.set((at(LIMIT), integer(7)), (at(NOTE), text("at the back"))) == NO_ERROR
    (request,) = shop.requests
    assert (request.check_only, request.reports_failed_check) == (False, True)
    assert request.principal == Principal("snmp", "operator", "192.0.2.1:40000")
    assert (request.source, request.class_name, request.row) == (1, "market:till", 1)
    assert request.action == SetElements({"limit": 7, "note": "at the back"})
    assert request.timeout == TIMEOUT
    assert shop.counters.set_variables == 2


async def test_beside_the_advisory_lock_an_object_is_checked_and_then_changed() -> None:
    shop = Shop()
    assert await shop.set(((*SNMP_SET_SERIAL_NO, 0), integer(SERIAL)), (at(LIMIT), integer(7))) == NO_ERROR
    assert [request.check_only for request in shop.requests] == [True, False]
    check, change = shop.requests
    assert (check.action, check.timeout, check.reference) == (change.action, change.timeout, change.reference)


async def test_a_variable_without_a_value_can_be_given_one() -> None:
    shop = Shop()
    shop.gateway.publish(settable_till(3, {NOTE_AT: "x"}))
    assert await shop.set((at(OPTIONS, 3), text('{"a": [1, "b"]}'))) == NO_ERROR
    assert shop.done == [{"options": {"a": (1, "b")}}]


async def test_an_optional_value_can_be_taken_away_where_the_syntax_has_a_form_for_that() -> None:
    shop = Shop()
    assert await shop.set((at(OPTIONS), text("null"))) == NO_ERROR
    assert shop.done == [{"options": None}]
    shop.script = outcome(Outcome.REMOTE_FAILURE, "limit", note="by the door")
    both = (at(OPTIONS), text("null")), (at(LIMIT), integer(1))
    assert await shop.set(*both, request_id=2) == (message.UNDO_FAILED, 0)
    shop.script = outcome(Outcome.REMOTE_FAILURE, "limit", options={"key": 1})
    assert await shop.set(*both, request_id=3) == (message.COMMIT_FAILED, 2)


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ((1, 3, 6, 1, 2, 1, 1, 4, 0), text("me"), message.NOT_WRITABLE),
        (at(999), integer(1), message.NOT_WRITABLE),
        (at(RowColumn.NAME), text("x"), message.NOT_WRITABLE),
        (at(NOTE_LENGTH), ber.encode_gauge32(1), message.NOT_WRITABLE),
        (at(STATE), integer(2), message.NOT_WRITABLE),
        (at(LIMIT, 9), integer(1), message.INCONSISTENT_NAME),
        (at(LIMIT), text("7"), message.WRONG_TYPE),
        (at(NOTE), text("x" * 256), message.WRONG_LENGTH),
        (at(NOTE), ber.encode_octets(b"\xff"), message.WRONG_VALUE),
        (at(OPTIONS), text("{"), message.WRONG_VALUE),
    ],
)
async def test_what_the_syntax_excludes_is_refused_without_the_core(
    name: Oid, value: bytes, status: int
) -> None:
    shop = Shop()
    assert await shop.set((at(LIMIT), integer(1)), (name, value)) == (status, 2)
    assert shop.requests == []


async def test_a_name_given_twice_with_two_values_cannot_be_both() -> None:
    shop = Shop()
    twice = await shop.set((at(LIMIT), integer(1)), (at(LIMIT), integer(2)))
    assert twice == (message.INCONSISTENT_VALUE, 2)
    assert await shop.set((at(LIMIT), integer(3)), (at(LIMIT), integer(3))) == NO_ERROR
    assert shop.done == [{"limit": 3}]


async def test_who_only_reads_has_no_access() -> None:
    shop = Shop()
    answer = await shop.answer(set_request([(at(LIMIT), integer(1))], community=READER))
    assert (answer.status, answer.index) == (message.NO_ACCESS, 1)
    assert (shop.requests, shop.counters.bad_community_uses) == ([], 1)


@pytest.mark.parametrize(
    ("checked", "status"),
    [
        (Outcome.OBJECT_GONE, message.INCONSISTENT_NAME),
        (Outcome.READ_ONLY, message.NOT_WRITABLE),
        (Outcome.REFUSED, message.NO_ACCESS),
        (Outcome.WRONG_VALUE, message.WRONG_VALUE),
        (Outcome.NOT_NOW, message.INCONSISTENT_VALUE),
        (Outcome.SOURCE_DOWN, message.RESOURCE_UNAVAILABLE),
    ],
)
async def test_what_a_check_finds_is_reported_with_its_variable_and_nothing_is_done(
    checked: Outcome, status: int
) -> None:
    shop = Shop()
    shop.script = outcome(checked, "note", checking=True)
    assert await shop.set((at(LIMIT), integer(1)), (at(NOTE), text("x"))) == (status, 2)
    assert (shop.done, shop.counters.set_variables) == ([], 0)


@pytest.mark.parametrize(
    ("checked", "status"),
    [
        (Outcome.OBJECT_GONE, message.INCONSISTENT_NAME),
        (Outcome.SOURCE_DOWN, message.RESOURCE_UNAVAILABLE),
        (Outcome.UNKNOWN, message.GEN_ERR),
    ],
)
async def test_a_check_by_itself_finds_the_same(checked: Outcome, status: int) -> None:
    shop = Shop(best_effort=True)
    shop.script = outcome(checked, "note", checking=True)
    two = (at(LIMIT), integer(1)), (at(NOTE), text("x")), (at(LIMIT, 2), integer(2))
    assert await shop.set(*two) == (status, 2)
    assert (shop.done, shop.counters.set_variables) == ([], 0)


@pytest.mark.parametrize("tried", [each for each in Outcome if each is not Outcome.APPLIED])
async def test_what_was_tried_in_vain_is_reported(tried: Outcome) -> None:
    shop = Shop()
    shop.script = outcome(tried, "limit")
    expected = (message.UNDO_FAILED, 0) if tried is Outcome.UNKNOWN else (message.COMMIT_FAILED, 1)
    assert await shop.set((at(LIMIT), integer(1))) == expected


async def test_commit_failed_promises_that_nothing_has_changed() -> None:
    shop = Shop()
    assignments = (at(LIMIT), integer(1)), (at(NOTE), text("x"))
    shop.script = outcome(Outcome.REMOTE_FAILURE, "note", limit=1)
    assert await shop.set(*assignments) == (message.UNDO_FAILED, 0)
    shop.script = outcome(Outcome.REMOTE_FAILURE, "note", limit=-1)
    assert await shop.set(*assignments, request_id=2) == (message.COMMIT_FAILED, 2)


@pytest.mark.parametrize(
    ("tried", "element", "note", "status"),
    [
        (Outcome.APPLIED_DIFFERENTLY, "limit", "x", (message.UNDO_FAILED, 0)),
        (Outcome.APPLIED_DIFFERENTLY, "limit", "by the door", (message.COMMIT_FAILED, 1)),
        (Outcome.REMOTE_FAILURE, "", "x", (message.UNDO_FAILED, 0)),
        (Outcome.REMOTE_FAILURE, "", "by the door", (message.COMMIT_FAILED, 1)),
        (Outcome.REMOTE_FAILURE, "limit", "x", (message.COMMIT_FAILED, 1)),  # nothing was sent behind it
    ],
)
async def test_what_was_sent_as_one_may_have_changed_behind_the_one_that_failed(
    tried: Outcome, element: str, note: str, status: tuple[int, int]
) -> None:
    shop = Shop()
    shop.script = outcome(tried, element, note=note, limit=2)
    assert await shop.set((at(LIMIT), integer(1)), (at(NOTE), text("x"))) == status


@pytest.mark.parametrize(
    ("checked", "tried", "status"),
    [
        (Outcome.REFUSED, Outcome.APPLIED, message.NO_SUCH_NAME),
        (Outcome.OBJECT_GONE, Outcome.APPLIED, message.NO_SUCH_NAME),
        (Outcome.WRONG_TYPE, Outcome.APPLIED, message.BAD_VALUE),
        (Outcome.NOT_NOW, Outcome.APPLIED, message.BAD_VALUE),
        (Outcome.SOURCE_DOWN, Outcome.APPLIED, message.GEN_ERR),
        (Outcome.APPLIED, Outcome.REMOTE_FAILURE, message.GEN_ERR),
        (Outcome.APPLIED, Outcome.UNKNOWN, message.GEN_ERR),
        (Outcome.APPLIED, Outcome.APPLIED, message.NO_ERROR),
    ],
)
async def test_version_1_has_fewer_statuses(checked: Outcome, tried: Outcome, status: int) -> None:
    shop = Shop()
    is_tried = checked is Outcome.APPLIED
    shop.script = outcome(tried if is_tried else checked, checking=not is_tried)
    assert (await shop.set((at(LIMIT), integer(1)), version=VERSION_1))[0] == status


# ---- several objects ----------------------------------------------------------------------------------


async def test_a_set_of_two_objects_is_refused() -> None:
    shop = Shop()
    reported = await shop.set((at(LIMIT), integer(1)), (at(NOTE), text("x")), (at(LIMIT, 2), integer(2)))
    assert reported == (message.INCONSISTENT_VALUE, 3)
    assert shop.requests == []


async def test_by_best_effort_several_are_checked_first_and_then_set_one_after_the_other() -> None:
    shop = Shop(best_effort=True)
    two = (at(LIMIT), integer(1)), (at(LIMIT, 2), integer(2))
    assert await shop.set(*two) == NO_ERROR
    assert [(request.row, request.check_only) for request in shop.requests] == [
        (1, True),
        (2, True),
        (1, False),
        (2, False),
    ]


async def test_by_best_effort_the_first_that_fails_is_reported_and_ends_it() -> None:
    def second_fails(request: OperationRequest) -> OperationAnswer:
        fails = request.row == 2 and not request.check_only
        return OperationAnswer(0, "gw.1.o1", Outcome.REMOTE_FAILURE) if fails else applied(request)

    shop = Shop(best_effort=True)
    shop.gateway.publish(settable_till(3))
    shop.script = second_fails
    three = [(at(LIMIT, row), integer(row)) for row in (1, 2, 3)]
    assert await shop.set(*three) == (message.COMMIT_FAILED, 2)
    assert shop.done == [{"limit": 1}, {"limit": 2}]


# ---- who writes back what was read --------------------------------------------------------------------


async def test_a_text_that_was_cut_is_not_written_back() -> None:
    shop = Shop()
    shop.gateway.publish(settable_till(1, {NOTE_AT: "x" * 300}))
    shown = shop.gateway.store.get(at(NOTE))
    assert shown == text("x" * 255)
    assert await shop.set((at(NOTE), shown), (at(OPTIONS), text('{"key":1}'))) == NO_ERROR
    assert shop.requests == []
    assert await shop.set((at(NOTE), text("x" * 254)), request_id=2) == NO_ERROR
    assert shop.done == [{"note": "x" * 254}]


async def test_a_value_that_is_shown_as_it_is_goes_to_the_core_which_looks_afresh() -> None:
    shop = Shop()
    assert await shop.set((at(LIMIT), shop.gateway.store.get(at(LIMIT)))) == NO_ERROR
    assert shop.done == [{"limit": -1}]
