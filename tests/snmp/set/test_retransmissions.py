"""A retransmitted SET is not carried out again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.model.operations import Outcome
from gateway.operations.audit import MAX_REFERENCE
from gateway.snmp import message
from gateway.snmp.set_requests import KEEP, MAX_RUNNING, Retransmissions
from gateway.snmp.written_values import Rejected
from tests.snmp.datagrams import read_answer
from tests.snmp.set.shop import LIMIT, SENDER, Shop, at, integer, outcome, set_request

ASKED = set_request([(at(LIMIT), integer(7))])


async def test_a_set_that_comes_again_gets_the_same_answer() -> None:
    shop = Shop()
    shop.script = outcome(Outcome.REMOTE_FAILURE, "limit")
    first = await shop.answer(ASKED)
    shop.now += KEEP - 1
    assert await shop.answer(ASKED) == first
    assert (len(shop.done), shop.counters.set_retransmissions) == (1, 1)


async def test_after_a_minute_it_is_another_one() -> None:
    shop = Shop()
    await shop.answer(ASKED)
    shop.now += KEEP
    await shop.answer(ASKED)
    assert len(shop.done) == 2


async def test_another_sender_port_request_id_or_value_is_another_one() -> None:
    shop = Shop()
    await shop.answer(ASKED)
    await shop.answer(ASKED, ("192.0.2.2", SENDER[1]))
    await shop.answer(ASKED, (SENDER[0], SENDER[1] + 1))
    await shop.answer(set_request([(at(LIMIT), integer(7))], request_id=2))
    await shop.answer(set_request([(at(LIMIT), integer(8))]))
    assert len(shop.done) == 5


async def test_the_core_recognises_it_where_the_agent_restarted() -> None:
    other = set_request([(at(LIMIT), integer(7))], request_id=2)
    asked: list[str] = []
    for datagram in (ASKED, ASKED, other):
        shop = Shop()
        await shop.answer(datagram)
        asked += [request.reference for request in shop.requests if not request.check_only]
    assert asked[0] == asked[1] != asked[2]
    assert all(len(reference) <= MAX_REFERENCE for reference in asked)


async def test_while_it_is_carried_out_its_answer_is_waited_for() -> None:
    shop = Shop()
    shop.released.clear()
    first = _task(shop, ASKED)
    await asyncio.sleep(0)
    assert shop.responder.answer(ASKED, SENDER) is None
    shop.released.set()
    assert read_answer(await first).status == message.NO_ERROR
    assert len(shop.done) == 1


async def test_no_more_than_so_many_wait_for_the_core() -> None:
    shop = Shop()
    shop.released.clear()
    requests = [set_request([(at(LIMIT), integer(1))], request_id=number) for number in range(MAX_RUNNING)]
    waiting = [_task(shop, request) for request in requests]
    assert shop.sets.running == MAX_RUNNING
    refused = await shop.set((at(LIMIT), integer(2)), request_id=MAX_RUNNING)
    assert refused == (message.RESOURCE_UNAVAILABLE, 1)
    shop.released.set()
    assert [read_answer(answer).status for answer in await asyncio.gather(*waiting)] == [0] * MAX_RUNNING
    assert await shop.set((at(LIMIT), integer(2)), request_id=MAX_RUNNING) == (message.NO_ERROR, 0)
    assert shop.sets.running == 0


def _task(shop: Shop, datagram: bytes) -> asyncio.Task[bytes | None]:
    response = shop.responder.answer(datagram, SENDER)
    assert isinstance(response, Coroutine)
    return asyncio.create_task(response)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(0, 5)),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.integers(0, 2 * KEEP)),
    ),
    max_size=60,
)


@given(STEPS, st.integers(1, 4))
def test_any_history_carries_each_out_once_in_its_time(steps: list[tuple[str, Any]], limit: int) -> None:
    lately, now = Retransmissions(limit), 0
    running: set[int] = set()
    ended: dict[int, tuple[Rejected | None, int]] = {}  # a plain model: never forgets but by time
    for step, number in steps:
        key = bytes((number,)) if step != "wait" else b""
        if step == "wait":
            now += number
        elif step == "end" and number in running:
            running.remove(number)
            ended[number] = Rejected(5, number) if number % 2 else None, now
            lately.end(key, ended[number][0], now)
        elif step == "arrive":
            remembered = {each: reported for each, (reported, when) in ended.items() if now - when < KEEP}
            assert lately.is_running(key) == (number in running)
            found = lately.ended(key, now)
            assert (found is not None) == (number in remembered)
            if found is not None:
                assert found.refusal == remembered[number]
            elif number not in running:
                has_begun = lately.begin(key, now)
                assert has_begun == (len(running) + len(remembered) < limit)
                if has_begun:
                    running.add(number)
                    ended.pop(number, None)
