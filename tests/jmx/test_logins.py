"""Logins for the event log: the first of a user from an address at once, further ones as a count."""

from __future__ import annotations

from dataclasses import dataclass, field

from structlog.testing import capture_logs

from gateway.feed.operations import LoginReport
from gateway.jmx.logins import MAX_PAIRS, OTHERS, PERIOD, Logins
from gateway.model.operations import Principal
from gateway.model.times import SECOND

MONITOR = Principal("jmx", "monitor", "192.0.2.1")
ELSEWHERE = Principal("jmx", "monitor", "192.0.2.2")


@dataclass
class Site:
    """A clock that the test moves, and a core that may be away."""

    now: int = 0
    is_up: bool = True
    reports: list[LoginReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.logins = Logins(self._report, lambda: self.now)

    def _report(self, report: LoginReport) -> bool:
        if self.is_up:
            self.reports.append(report)
        return self.is_up

    def passes(self, nanoseconds: int) -> None:
        self.now += nanoseconds
        self.logins.tick()


def test_the_first_login_of_a_user_from_each_address_is_reported_at_once() -> None:
    site = Site()
    site.logins.accepted(MONITOR)
    site.logins.accepted(ELSEWHERE)
    site.logins.accepted(MONITOR)
    assert site.reports == [LoginReport(MONITOR), LoginReport(ELSEWHERE)]


def test_a_program_that_logs_in_every_few_seconds_makes_one_report_in_ten_minutes() -> None:
    site = Site()
    logins = 6 * 3600 // 5
    for _ in range(logins):
        site.logins.accepted(MONITOR)
        site.passes(5 * SECOND)
    assert len(site.reports) <= 6 * 6 + 1
    site.logins.close()
    assert sum(report.times for report in site.reports) == logins


def test_a_login_after_ten_minutes_without_one_is_reported_at_once() -> None:
    site = Site()
    site.logins.accepted(MONITOR)
    site.passes(PERIOD)
    site.logins.accepted(MONITOR)
    assert site.reports == [LoginReport(MONITOR)] * 2


def test_what_a_core_that_is_away_has_not_taken_is_reported_when_it_is_back() -> None:
    site = Site(is_up=False)
    site.logins.accepted(MONITOR)
    site.logins.accepted(MONITOR)
    site.passes(SECOND)
    site.is_up = True
    site.passes(SECOND)
    assert site.reports == [LoginReport(MONITOR, 2)]


def test_what_is_left_at_the_end_without_a_core_is_logged() -> None:
    site = Site()
    for _ in range(4):
        site.logins.accepted(MONITOR)
    site.is_up = False
    with capture_logs() as logs:
        site.logins.close()
    (line,) = logs
    assert (line["event"], line["user"], line["client"], line["logins"]) == (
        "logins-not-recorded",
        "monitor",
        "192.0.2.1",
        3,
    )


def test_very_many_addresses_of_a_user_are_counted_together() -> None:
    site = Site()
    for number in range(10_000):
        site.logins.accepted(Principal("jmx", "monitor", f"2001:db8::{number:x}"))
    assert len(site.reports) == MAX_PAIRS + 1
    assert site.reports[-1].principal.origin == OTHERS
    site.passes(PERIOD)
    assert site.reports[-1].times == 10_000 - MAX_PAIRS - 1
    assert len(site.reports) == MAX_PAIRS + 2
    site.passes(PERIOD)
    site.logins.accepted(ELSEWHERE)
    assert site.reports[-1] == LoginReport(ELSEWHERE)
