"""A bound on lines of a log."""

from __future__ import annotations

from gateway.rate_limiter import RateLimiter


def test_so_many_lines_a_period_and_the_others_are_counted() -> None:
    now = 100.0
    limit = RateLimiter(lines=2, seconds=10, clock=lambda: now)
    assert [limit.admit() for _ in range(5)] == [0, 0, None, None, None]
    now = 109.9
    assert limit.admit() is None
    now = 110.0
    assert [limit.admit() for _ in range(3)] == [4, 0, None]
