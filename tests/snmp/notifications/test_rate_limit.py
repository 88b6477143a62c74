"""The token bucket, and its reserve for urgent notifications."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.observations import Severity
from gateway.model.times import SECOND
from gateway.snmp.notifications.delivery import SMALLEST_BURST, RateLimit

INFO, WARNING, MAJOR, CRITICAL = Severity.INFO, Severity.WARNING, Severity.MAJOR, Severity.CRITICAL


def passed(limit: RateLimit, urgency: Severity, count: int, now: int = 0) -> int:
    return sum(limit.take(urgency, now) for _ in range(count))


def test_as_many_at_once_as_a_second_has() -> None:
    assert passed(RateLimit(100, 0), CRITICAL, 1000) == 100


@pytest.mark.parametrize(("urgency", "share"), [(INFO, 50), (WARNING, 75), (MAJOR, 88), (CRITICAL, 100)])
def test_a_flood_leaves_a_share_for_what_is_more_urgent(urgency: Severity, share: int) -> None:
    assert passed(RateLimit(100, 0), urgency, 1000) == share


@pytest.mark.parametrize("rate", [1, 2, 3, 4, 10, 100, 1000])
def test_no_flood_of_less_urgent_ones_ever_holds_up_a_critical_one(rate: int) -> None:
    limit = RateLimit(rate, 0)
    for flood in (INFO, WARNING, MAJOR):
        passed(limit, flood, 10 * rate)
        assert limit.allows(CRITICAL, 0)


@pytest.mark.parametrize("urgency", [INFO, WARNING, MAJOR, CRITICAL])
@pytest.mark.parametrize("rate", [1, 7, 100])
def test_while_a_flood_lasts_the_whole_rate_is_used(rate: int, urgency: Severity) -> None:
    limit = RateLimit(rate, 0)
    passed(limit, urgency, 2 * rate + SMALLEST_BURST)
    milliseconds = range(0, 60_000, 5)
    assert sum(limit.take(urgency, 10**6 * now) for now in milliseconds) in (60 * rate - 1, 60 * rate)


def test_it_says_when_the_next_one_can_pass() -> None:
    limit = RateLimit(3, 0)
    passed(limit, CRITICAL, 10)
    due = limit.allowed_at(CRITICAL, 0)
    assert due == SECOND // 3 + 1
    assert not limit.take(CRITICAL, due - 1)
    assert limit.take(CRITICAL, due)


def test_what_may_not_be_held_up_passes_an_empty_bucket() -> None:
    limit = RateLimit(1, 0)
    for _ in range(100):
        limit.take_anyway(0)
    assert not limit.take(CRITICAL, SECOND - 1)
    assert limit.take(CRITICAL, SECOND)


@given(
    st.integers(1, 1000), st.lists(st.tuples(st.integers(0, SECOND), st.sampled_from(Severity)), max_size=200)
)
def test_never_more_than_a_bucket_and_what_was_refilled(rate: int, takes: list[tuple[int, Severity]]) -> None:
    limit = RateLimit(rate, 0)
    now = taken = 0
    for pause, urgency in takes:
        now += pause
        taken += limit.take(urgency, now)
        assert taken <= max(rate, SMALLEST_BURST) + now * rate // SECOND
