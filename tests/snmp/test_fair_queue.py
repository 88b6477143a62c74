"""Turns of addresses: who waits for whom, and whose requests are dropped where there is no room."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gateway.snmp.fair_queue import (
    MAX_ADDRESSES,
    MAX_WAITING,
    MAX_WAITING_OF_ONE,
    OVERHEAD,
    QUANTUM,
    FairQueue,
)

LARGE = 60_000
BULK_SECONDS = 2 * QUANTUM
GET_SECONDS = QUANTUM / 40


def all_taken(queue: FairQueue[str], seconds: float) -> list[str]:
    """Return all requests in the order in which they are answered, each in so many seconds."""
    taken = []
    while (request := queue.take()) is not None:
        queue.charge(seconds)
        taken.append(request)
    return taken


def test_requests_of_one_address_stay_in_their_order() -> None:
    queue = FairQueue[str]()
    for request in "abc":
        assert queue.add("192.0.2.1", request, 45) == 0
    assert len(queue) == 3
    assert all_taken(queue, BULK_SECONDS) == ["a", "b", "c"]
    assert len(queue) == 0


def test_addresses_take_turns_where_each_answer_takes_the_whole_share() -> None:
    queue = FairQueue[str]()
    for number in range(3):
        for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
            queue.add(address, f"{address[-1]}{number}", 45)
    assert all_taken(queue, QUANTUM) == ["10", "20", "30", "11", "21", "31", "12", "22", "32"]


def test_a_flood_of_large_requests_waits_for_the_small_ones_of_another() -> None:
    queue = FairQueue[str]()
    for _ in range(200):
        queue.add("192.0.2.66", "bulk", 45)
    for _ in range(20):
        queue.add("192.0.2.1", "get", 45)
    order = []
    while (request := queue.take()) is not None:
        queue.charge(BULK_SECONDS if request == "bulk" else GET_SECONDS)
        order.append(request)
    assert order[: order.index("get")] == ["bulk"]
    assert order[1:21] == ["get"] * 20
    assert len(order) == 220


def test_an_address_with_too_much_loses_its_oldest_requests_and_no_other() -> None:
    queue = FairQueue[str]()
    queue.add("192.0.2.1", "mine", 45)
    fitting = MAX_WAITING_OF_ONE // (45 + OVERHEAD)
    dropped = sum(queue.add("192.0.2.66", f"{number}", 45) for number in range(fitting + 10))
    assert dropped == 10
    taken = all_taken(queue, GET_SECONDS)
    assert "mine" in taken
    assert [request for request in taken if request != "mine"] == [
        f"{number}" for number in range(10, fitting + 10)
    ]


def test_where_all_have_too_much_together_the_longest_lose() -> None:
    queue = FairQueue[str]()
    for number in range(40):
        for _ in range(4):
            queue.add(f"198.51.100.{number}", "flood", LARGE)
    assert queue.add("192.0.2.1", "mine", 45) <= 4
    assert queue.add("192.0.2.2", "mine too", 45) == 0
    assert {"mine", "mine too"} <= set(all_taken(queue, QUANTUM))


def test_a_flood_from_ever_new_addresses_is_bounded_and_who_waited_before_keeps_a_turn() -> None:
    queue = FairQueue[str]()
    queue.add("192.0.2.1", "mine", 45)
    dropped = sum(queue.add(f"2001:db8::{number:x}", "forged", 45) for number in range(20_000))
    assert len(queue) == 20_001 - dropped
    assert len(queue) * (45 + OVERHEAD) <= MAX_WAITING
    order = all_taken(queue, QUANTUM)
    assert order.index("mine") <= MAX_ADDRESSES


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from((45, 1_000, LARGE, 65_508)), st.booleans()), max_size=400
    )
)
def test_nothing_is_lost_uncounted_and_the_bounds_hold(steps: list[tuple[int, int, bool]]) -> None:
    queue = FairQueue[tuple[int, int]]()
    taken: list[tuple[int, int]] = []
    added = dropped = 0
    for number, (address, octets, takes) in enumerate(steps):
        for copy in range(8):
            dropped += queue.add(f"{address}", (address, 8 * number + copy), octets)
            added += 1
        if takes and (request := queue.take()) is not None:
            queue.charge(QUANTUM * (number % 50))
            taken.append(request)
        assert len(queue) == added - dropped - len(taken)
    while (request := queue.take()) is not None:
        taken.append(request)
    assert len(taken) == added - dropped
    assert max(Counter(taken).values(), default=1) == 1
    for address in range(6):
        numbers = [number for of, number in taken if of == address]
        assert numbers == sorted(numbers)
