"""The replay window: each body once, in its time, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.times import MILLISECOND
from gateway.protection.envelope import BodyRefusedError, Refusal
from gateway.protection.replay_window import EARLY, MAX_SENDERS, WINDOW, Acceptance, ReplayWindow
from tests.protection.parties import LATE
from tests.protection.parties import NOW as NANOSECONDS

NOW: Final = NANOSECONDS // MILLISECOND
FIRST: Final = Acceptance("sender0123456789", 7, 1, NOW)


def accepted(window: ReplayWindow, body: Acceptance, now: int = NOW) -> Refusal | None:
    """Accept a body; return the reason where it is refused."""
    try:
        window.check(body, now)
    except BodyRefusedError as error:
        return error.refusal
    window.add(body)
    return None


def test_a_body_is_accepted_once() -> None:
    window = ReplayWindow(LATE)
    assert accepted(window, FIRST) is None
    assert accepted(window, FIRST) is Refusal.REPLAYED


def test_bodies_may_overtake_each_other_within_the_window() -> None:
    window = ReplayWindow(LATE)
    assert accepted(window, replace(FIRST, number=WINDOW + 1)) is None
    assert accepted(window, replace(FIRST, number=2)) is None
    assert accepted(window, replace(FIRST, number=2)) is Refusal.REPLAYED
    assert accepted(window, FIRST) is Refusal.REPLAYED


def test_each_start_of_a_sender_counts_from_one() -> None:
    window = ReplayWindow(LATE)
    assert accepted(window, FIRST) is None
    assert accepted(window, replace(FIRST, boot=8)) is None
    assert accepted(window, replace(FIRST, sender="another012345678")) is None


@pytest.mark.parametrize(
    ("age", "refusal"),
    [
        (0, None),
        (LATE, None),
        (LATE + 1, Refusal.LATE),
        (-EARLY, None),
        (-EARLY - 1, Refusal.EARLY),
    ],
)
def test_a_body_is_accepted_in_its_time_only(age: int, refusal: Refusal | None) -> None:
    assert accepted(ReplayWindow(LATE), FIRST, NOW + age) is refusal


def test_nothing_from_before_the_floor_is_accepted() -> None:
    window = ReplayWindow(LATE, floor=NOW)
    assert accepted(window, FIRST) is Refusal.LATE
    assert accepted(window, replace(FIRST, issued=NOW + 1)) is None


WAITS: Final = 3_600_000
"""Milliseconds for which bodies may wait in a durable queue."""


def waited(window: ReplayWindow, body: Acceptance, now: int) -> Refusal | None:
    """Accept a body as one that waited in a durable queue."""
    try:
        window.check(body, now, waited=True)
    except BodyRefusedError as error:
        return error.refusal
    window.add(body)
    return None


def test_a_body_that_waited_may_be_as_old_as_the_queue_keeps_it() -> None:
    later = NOW + LATE + WAITS
    assert waited(ReplayWindow(LATE, waits=WAITS), FIRST, later) is None
    assert waited(ReplayWindow(LATE, waits=WAITS), FIRST, later + 1) is Refusal.LATE
    assert accepted(ReplayWindow(LATE, waits=WAITS), FIRST, later) is Refusal.LATE, "it did not wait"
    assert waited(ReplayWindow(LATE), FIRST, NOW + LATE + 1) is Refusal.LATE, "there is no such queue"
    assert waited(ReplayWindow(LATE, NOW, WAITS), FIRST, later) is Refusal.LATE, "from before the floor"


def test_a_body_that_waited_follows_what_was_accepted_of_its_sender() -> None:
    window, now = ReplayWindow(LATE, waits=WAITS), NOW + LATE + 60_000
    assert waited(window, replace(FIRST, number=5), now) is None
    assert waited(window, replace(FIRST, number=4), now) is Refusal.LATE, "it could be an old state"
    assert waited(window, replace(FIRST, number=5), now) is Refusal.REPLAYED
    assert waited(window, replace(FIRST, number=6), now) is None
    before = replace(FIRST, boot=6, issued=NOW - EARLY)
    assert waited(window, before, now) is Refusal.LATE, "of a start that was before"
    assert waited(window, replace(before, issued=NOW - EARLY + 1), now) is None
    assert waited(window, replace(before, sender="another012345678"), now) is None


def test_where_bodies_wait_for_long_the_sender_that_was_silent_longest_makes_room() -> None:
    window = ReplayWindow(LATE, waits=WAITS)
    for boot in range(MAX_SENDERS):
        assert accepted(window, replace(FIRST, boot=boot, issued=NOW + boot), NOW + boot) is None
    new = replace(FIRST, boot=MAX_SENDERS, issued=NOW + LATE + 1)
    assert accepted(window, new, NOW + LATE) is Refusal.TOO_MANY_SENDERS
    assert accepted(window, new, NOW + LATE + 1) is None
    assert window.floor == NOW, "nothing of that one is accepted again"
    assert len(list(window.rows(NOW + LATE + 1))) == MAX_SENDERS


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, LATE + WAITS + 10)), max_size=60))
def test_nothing_that_waited_is_accepted_twice_or_behind_a_later_number(
    bodies: Iterable[tuple[int, int]],
) -> None:
    window, now, taken = ReplayWindow(LATE, waits=WAITS), NOW + LATE + WAITS, list[int]()
    for number, age in bodies:
        if waited(window, replace(FIRST, number=number, issued=now - age), now) is None:
            assert number not in taken
            assert age <= LATE or not taken or number > max(taken)
            taken.append(number)


def test_a_forgotten_sender_stays_refused_also_when_the_clock_is_set_back() -> None:
    window = ReplayWindow(LATE)
    assert accepted(window, FIRST) is None
    assert list(window.rows(NOW + LATE + 1)) == []
    assert accepted(window, FIRST) is Refusal.LATE


def test_the_number_of_senders_is_bounded_and_the_oldest_make_room() -> None:
    window = ReplayWindow(LATE)
    for boot in range(MAX_SENDERS):
        assert accepted(window, replace(FIRST, boot=boot)) is None
    assert accepted(window, replace(FIRST, boot=MAX_SENDERS)) is Refusal.TOO_MANY_SENDERS
    later = NOW + LATE + 1
    assert accepted(window, replace(FIRST, boot=MAX_SENDERS, issued=later), later) is None
    assert len(list(window.rows(later))) == 1


@given(st.lists(st.integers(1, 3 * WINDOW), max_size=60))
def test_no_number_is_accepted_twice_in_any_order(numbers: Iterable[int]) -> None:
    window, seen, highest = ReplayWindow(LATE), set[int](), 0
    for number in numbers:
        may_be = number not in seen and number > highest - WINDOW
        assert (accepted(window, replace(FIRST, number=number)) is None) is may_be
        if may_be:
            seen.add(number)
            highest = max(highest, number)
