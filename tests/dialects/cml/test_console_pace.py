"""The budget of a console and the order of its requests: in simulated time, with brokers of any speed."""

from __future__ import annotations

import heapq
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.cml.console_config import Budget, Intervals
from gateway.dialects.cml.console_pace import Pace, Schedule
from gateway.dialects.session import NEVER
from gateway.model.times import MILLISECOND, SECOND
from tests.dialects.cml.playbook import START


def polled(budget: Budget, latency: int, seconds: int, busy_after: int = 1 << 62) -> tuple[int, int]:
    """Ask as fast as the budget allows a broker that does one request after the other.

    Returns:
        the number of answers, and the highest number of requests under way at once.
    """
    pace, now = Pace(budget), START
    answers: list[tuple[int, int, int]] = []  # when, asked, alongside
    free_at, count, most = START, 0, 0
    while now < START + seconds * SECOND:
        while pace.may_ask(now):
            alongside = pace.asked()
            free_at = max(free_at, now) + (latency if now < START + busy_after else 100 * latency)
            heapq.heappush(answers, (free_at, now, alongside))
            most = max(most, alongside)
        now = min(answers[0][0] if answers else NEVER, pace.next_time(now))
        while answers and answers[0][0] <= now:
            _, asked, alongside = heapq.heappop(answers)
            pace.answered(now - asked, alongside)
            count += 1
    return count, most


def test_a_quick_broker_is_asked_at_the_rate() -> None:
    count, _ = polled(Budget(rate=100, in_flight=8, share=0.25), MILLISECOND, 20)
    assert 1_900 <= count <= 2_020


def test_a_slow_broker_is_asked_for_its_share_of_time_only() -> None:
    count, _ = polled(Budget(rate=100, in_flight=8, share=0.25), 50 * MILLISECOND, 20)
    assert 60 <= count <= 130  # 5 s of its time, and what may be used up at the beginning


def test_never_more_than_so_many_are_under_way() -> None:
    _, most = polled(Budget(rate=10_000, in_flight=4, share=1), 5 * MILLISECOND, 5)
    assert 2 <= most <= 4


def test_answers_that_become_slower_make_requests_rare() -> None:
    steady, _ = polled(Budget(rate=1_000, in_flight=8, share=1), MILLISECOND, 20)
    slowed, _ = polled(Budget(rate=1_000, in_flight=8, share=1), MILLISECOND, 20, busy_after=10 * SECOND)
    assert slowed < 0.6 * steady


class Asking:
    """A client that asks one after the other; `room` returns how many more requests the pace allows."""

    def __init__(self, share: float) -> None:
        self.pace, self.now = Pace(Budget(rate=10_000, in_flight=8, share=share)), START

    def answers(self, count: int, latency: int) -> None:
        for _ in range(count):
            self.now += SECOND
            assert self.pace.may_ask(self.now)
            self.pace.answered(latency, self.pace.asked())

    def room(self) -> int:
        count = 0
        self.now += SECOND
        while self.pace.may_ask(self.now):
            count = self.pace.asked()
        for _ in range(count):
            self.pace.in_flight -= 1
        return count


def test_as_long_as_answers_are_quick_more_are_under_way() -> None:
    asking = Asking(share=1)
    assert asking.room() == 1
    asking.answers(100, MILLISECOND)
    assert asking.room() == 8
    asking.answers(100, 100 * MILLISECOND)  # the broker has much to do
    assert asking.room() == 1
    asking.answers(5_000, 100 * MILLISECOND)  # no: it is so slow by now
    assert asking.room() == 8


def test_who_may_have_all_of_a_broker_s_time_is_not_held_up_by_long_answers() -> None:
    all_of_it, half = Asking(share=1), Asking(share=0.5)
    for asking in (all_of_it, half):
        asking.answers(1, 10 * SECOND)
    assert all_of_it.pace.may_ask(all_of_it.now + MILLISECOND)
    assert not half.pace.may_ask(half.now + SECOND)
    assert half.pace.next_time(half.now + SECOND) == half.now + 2 * SECOND + 1
    assert half.pace.may_ask(half.now + 2 * SECOND + 1)


def test_time_that_is_used_up_to_the_end_is_used_up() -> None:
    asking = Asking(share=0.5)
    asking.answers(1, SECOND // 2)
    assert not asking.pace.may_ask(asking.now)
    assert asking.pace.may_ask(asking.pace.next_time(asking.now))


def test_a_missed_answer_leaves_one_request_under_way() -> None:
    pace, now = Pace(Budget(rate=1_000, in_flight=8, share=1)), START
    for _ in range(100):
        now += MILLISECOND
        assert pace.may_ask(now)
        pace.answered(MILLISECOND, pace.asked())
    now += SECOND
    assert pace.may_ask(now)
    pace.asked()
    assert pace.may_ask(now)
    pace.asked()
    pace.missed()
    assert not pace.may_ask(now)
    assert pace.next_time(now) == NEVER
    pace.missed()
    assert pace.may_ask(now)


def test_a_clock_that_is_set_back_gives_nothing_and_takes_nothing() -> None:
    pace = Pace(Budget(rate=10, in_flight=100, share=1))
    assert pace.may_ask(START)
    pace.answered(-SECOND, pace.asked())
    assert not pace.may_ask(START - 3600 * SECOND)
    assert pace.next_time(START - 3600 * SECOND) <= START - 3599 * SECOND
    assert pace.may_ask(START - 3598 * SECOND)


def test_operations_do_not_wait_but_what_follows_does() -> None:
    pace = Pace(Budget(rate=10, in_flight=8, share=1))
    assert pace.may_ask(START)
    for _ in range(100):
        pace.charge()
    assert not pace.may_ask(START)
    assert pace.may_ask(START + SECOND // 4)


# Whose turn it is.


CLASSES = ("a", "b", "c")


@given(
    st.tuples(*(st.integers(1, 60) for _ in CLASSES)),
    st.tuples(*(st.integers(0, 30) for _ in CLASSES)).filter(any),
    st.integers(1, 40),
)
def test_no_listing_waits_longer_than_the_budget_makes_necessary(
    intervals: tuple[int, ...], counts: tuple[int, ...], rate: int
) -> None:
    """With too little budget the intervals of all classes grow by the same factor."""
    seconds = dict(zip(CLASSES, intervals, strict=True))
    schedule = Schedule(Intervals({name: each * SECOND for name, each in seconds.items()}))
    class_of: dict[int, str] = {}
    for name, count in zip(CLASSES, counts, strict=True):
        for _ in range(count):
            class_of[len(class_of)] = name
            schedule.soon(len(class_of) - 1, START)
    factor = max(1.0, sum(count / seconds[name] for name, count in zip(CLASSES, counts, strict=True)) / rate)
    last: dict[int, int] = {}
    longest: dict[str, float] = defaultdict(float)
    step = SECOND // rate
    # At the beginning all are due at once; what is measured is what it comes to.
    settled, end = 4 * len(class_of) * step + int(2 * factor * 60 * SECOND), 0
    end = settled + int(4 * factor * 60 * SECOND)
    for now in range(START, START + end, step):
        number = schedule.take(now)
        if number is None:
            continue
        name = class_of[number]
        if now - START > settled and number in last:
            longest[name] = max(longest[name], (now - last[number]) / SECOND)
        last[number] = now
        schedule.again(number, name, now)
    assert set(last) == set(class_of)
    for name, waited in longest.items():
        assert waited <= 2 * factor * seconds[name] + len(class_of) / rate + 1


def test_what_is_new_has_its_turn_among_others() -> None:
    schedule = Schedule(Intervals({"hot": SECOND}))
    for number in range(10):
        schedule.again(number, "hot", START)
    schedule.soon(99, START + 2 * SECOND)
    taken = [schedule.take(START + 3 * SECOND) for _ in range(11)]
    assert 99 in taken
    assert schedule.take(START + 3 * SECOND) is None


def test_while_all_is_read_again_what_is_new_does_not_take_turns() -> None:
    def taken(*, in_turns: bool) -> list[int | None]:
        schedule = Schedule(Intervals({"hot": SECOND}))
        for number in range(3):
            schedule.again(number, "hot", START)
            schedule.soon(90 + number, START)
        return [schedule.take(START + 10 * SECOND, in_turns=in_turns) for _ in range(7)]

    assert taken(in_turns=True) == [90, 0, 91, 1, 92, 2, None]
    assert taken(in_turns=False) == [90, 91, 92, 0, 1, 2, None]


def test_an_object_waits_for_the_last_time_that_was_said() -> None:
    schedule = Schedule(Intervals({}, others=10 * SECOND))
    schedule.again(1, "x", START)
    schedule.at(1, START + 3 * SECOND)
    assert len(schedule) == 1
    assert schedule.next_due == START + 3 * SECOND
    assert schedule.take(START + 2 * SECOND) is None
    assert schedule.take(START + 3 * SECOND) == 1
    assert schedule.take(START + 20 * SECOND) is None
    schedule.soon(1, START)
    schedule.drop(1)
    schedule.drop(2)
    assert schedule.take(START + 20 * SECOND) is None
    assert schedule.next_due == NEVER
