"""The records of refused attempts: the first of a principal and minute in full, then their number."""

from __future__ import annotations

from gateway.feed.audit_rate_limiter import MAX_PRINCIPALS, PERIOD, Attempt, AuditRateLimiter, CountedAttempts
from gateway.feed.operations import OperationKind
from gateway.model.operations import Outcome, Principal

NOW = 1_700_000_000 * 10**9
MALLORY = Principal("jmx", "mallory", "192.0.2.66")


def attempt(
    principal: Principal = MALLORY, outcome: Outcome = Outcome.REFUSED, text: str = "no rule", times: int = 1
) -> Attempt:
    return Attempt(principal, OperationKind.SET, outcome, text, times)


def test_what_exceeds_the_limit_is_counted_and_reported_when_the_minute_ends() -> None:
    limit = AuditRateLimiter(recorded_in_full=2)
    assert [limit.admit(attempt(), NOW + n) for n in range(4)] == [True, True, False, False]
    other = attempt(outcome=Outcome.READ_ONLY, text="name cannot be set")
    assert [limit.admit(other, NOW + 5) for _ in range(3)] == [True, True, False], "each outcome by itself"
    assert limit.admit(attempt(Principal("jmx", "operator")), NOW), "each principal by itself"
    assert limit.due(NOW + PERIOD - 1) == []
    assert limit.due_at == NOW + PERIOD
    assert limit.due(NOW + PERIOD) == [
        CountedAttempts(
            MALLORY,
            OperationKind.SET,
            3,
            ((Outcome.REFUSED, 2), (Outcome.READ_ONLY, 1)),
            "name cannot be set",
            NOW,
        )
    ]
    assert limit.due(NOW + 2 * PERIOD) == []
    assert limit.admit(attempt(), NOW + PERIOD), "a new minute"


def test_a_quiet_principal_begins_a_new_minute_with_the_next_attempt() -> None:
    limit = AuditRateLimiter(recorded_in_full=1)
    assert limit.admit(attempt(), NOW)
    assert limit.admit(attempt(), NOW + PERIOD)
    assert not limit.admit(attempt(), NOW + PERIOD + 1)


def test_what_stands_for_several_is_only_counted() -> None:
    limit = AuditRateLimiter()
    assert not limit.admit(attempt(times=70), NOW)
    limit.count(attempt(times=5), NOW)
    (counted,) = limit.due(NOW, ending=True)
    assert counted.attempts == 75


def test_a_few_of_many_origins_are_named() -> None:
    limit = AuditRateLimiter(recorded_in_full=0)
    for port in range(9):
        limit.admit(attempt(Principal("snmp", "visitor", f"192.0.2.9:{port}")), NOW)
    (counted,) = limit.due(NOW + PERIOD)
    assert counted.principal.origin == (
        "192.0.2.9:0, 192.0.2.9:1, 192.0.2.9:2, 192.0.2.9:3, 192.0.2.9:4 and others"
    )


def test_very_many_principals_are_counted_together() -> None:
    limit = AuditRateLimiter(recorded_in_full=1)
    assert all(limit.admit(attempt(Principal("cli", str(n))), NOW) for n in range(MAX_PRINCIPALS + 1))
    assert not limit.admit(attempt(Principal("cli", "one more")), NOW)
    (counted,) = limit.due(NOW + PERIOD)
    assert str(counted.principal) == "cli:(others)"
    for n in range(MAX_PRINCIPALS):
        limit.admit(attempt(Principal("cli", str(n))), NOW)
    assert limit.admit(attempt(Principal("cli", "later")), NOW + PERIOD), "who was quiet makes room"


def test_a_clock_that_was_set_back_holds_nothing_up() -> None:
    limit = AuditRateLimiter(recorded_in_full=0)
    limit.admit(attempt(), NOW)
    assert [counted.attempts for counted in limit.due(NOW - 10 * PERIOD)] == [1]
