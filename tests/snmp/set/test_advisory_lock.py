"""snmpSetSerialNo: a SET with the value from before another manager's SET is refused."""

from __future__ import annotations

import pytest

from gateway.feed.operations import OperationAnswer, OperationRequest
from gateway.model.operations import Outcome
from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.written_values import SNMP_SET_SERIAL_NO
from tests.snmp.set.shop import LIMIT, READER, SERIAL, Shop, at, integer, outcome, set_request, text

LOCK: Oid = (*SNMP_SET_SERIAL_NO, 0)
NO_ERROR = (message.NO_ERROR, 0)
MINE = (LOCK, integer(SERIAL))


def serial(shop: Shop) -> int:
    shown = shop.gateway.store.get(LOCK)
    return ber.read_integer(shown, 0, len(shown))[0]


async def test_it_is_set_to_what_it_is_and_has_the_next_value_then() -> None:
    shop = Shop()
    assert serial(shop) == SERIAL
    assert await shop.set(MINE) == NO_ERROR
    assert serial(shop) == 0  # after 2^31-1
    assert await shop.set((LOCK, integer(0)), request_id=2) == NO_ERROR
    assert serial(shop) == 1


async def test_who_was_slower_changes_nothing() -> None:
    shop = Shop()
    change = (at(LIMIT), integer(7))
    assert await shop.set(change, MINE) == NO_ERROR
    assert await shop.set(change, MINE, request_id=2) == (message.INCONSISTENT_VALUE, 2)
    assert (shop.done, serial(shop)) == ([{"limit": 7}], 0)


async def test_who_was_quicker_while_the_core_was_asked_wins() -> None:
    shop = Shop()

    def overtaken(request: OperationRequest) -> OperationAnswer:
        if request.check_only:
            shop.responder.answer(set_request([MINE], request_id=9), ("192.0.2.9", 9))
        return OperationAnswer(0, "", Outcome.APPLIED)

    shop.script = overtaken
    assert await shop.set(MINE, (at(LIMIT), integer(7))) == (message.INCONSISTENT_VALUE, 1)
    assert (shop.done, serial(shop)) == ([], 0)


async def test_a_retransmission_is_answered_as_before() -> None:
    shop = Shop()
    assert await shop.set(MINE) == NO_ERROR
    assert await shop.set(MINE) == NO_ERROR
    assert serial(shop) == 0


@pytest.mark.parametrize(
    ("tried", "value"),
    [(Outcome.REMOTE_FAILURE, SERIAL), (Outcome.UNKNOWN, 0), (Outcome.APPLIED, 0)],
)
async def test_it_is_as_before_where_nothing_was_changed(tried: Outcome, value: int) -> None:
    shop = Shop()
    shop.script = outcome(tried, "limit")
    await shop.set(MINE, (at(LIMIT), integer(7)))
    assert serial(shop) == value


async def test_it_does_not_go_back_behind_another_manager() -> None:
    shop = Shop()

    def overtaken(request: OperationRequest) -> OperationAnswer:
        if request.check_only:
            return OperationAnswer(0, "", Outcome.APPLIED)
        shop.responder.answer(set_request([(LOCK, integer(0))], request_id=9), ("192.0.2.9", 9))
        return OperationAnswer(0, "", Outcome.REMOTE_FAILURE)

    shop.script = overtaken
    await shop.set(MINE, (at(LIMIT), integer(7)))
    assert serial(shop) == 1


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        (LOCK, text("7"), message.WRONG_TYPE),
        (LOCK, integer(-1), message.WRONG_VALUE),
        (LOCK, integer(7), message.INCONSISTENT_VALUE),
        ((*SNMP_SET_SERIAL_NO, 1), integer(SERIAL), message.NO_CREATION),
        (SNMP_SET_SERIAL_NO, integer(SERIAL), message.NO_CREATION),
    ],
)
async def test_what_it_cannot_be_set_to(name: Oid, value: bytes, status: int) -> None:
    shop = Shop()
    assert await shop.set((name, value)) == (status, 1)
    assert serial(shop) == SERIAL


async def test_it_cannot_be_named_twice() -> None:
    shop = Shop()
    assert await shop.set(MINE, MINE) == (message.INCONSISTENT_VALUE, 2)
    assert serial(shop) == SERIAL


async def test_who_only_reads_cannot_set_it() -> None:
    shop = Shop()
    answer = await shop.answer(set_request([MINE], community=READER))
    assert (answer.status, serial(shop)) == (message.NO_ACCESS, SERIAL)
