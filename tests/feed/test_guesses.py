"""What proves no identity is counted by address and reported; an address that guesses is known a while."""

from __future__ import annotations

import pytest

from gateway.feed.guesses import MAX_ADDRESSES, MAX_ANSWERED, OTHERS, PERIOD, UNKNOWN
from gateway.feed.operations import FrontEndRefusal, ReadFresh
from gateway.model.operations import Outcome, Principal
from tests.feed.guessed import Reported


@pytest.fixture
def reported() -> Reported:
    return Reported()


def test_the_first_guess_is_reported_at_once_and_further_ones_as_a_number(reported: Reported) -> None:
    for _ in range(5):
        reported.guesses.guessed("192.0.2.7", "wrong")
    (report,) = reported.reports
    assert (report.address, report.reason, report.attempts, report.user) == ("192.0.2.7", "wrong", 1, "")
    request = report.request("ami")
    assert (request.principal, request.action) == (Principal("ami", UNKNOWN, "192.0.2.7"), ReadFresh())
    assert request.refusal == FrontEndRefusal(Outcome.REFUSED, "wrong")
    assert reported.taken() == [("snmp:(unknown)", "192.0.2.7", 1)]
    reported.now = PERIOD - 1
    reported.guesses.tick()
    assert reported.taken() == []
    reported.now = PERIOD
    reported.guesses.tick()
    assert reported.taken() == [("snmp:(unknown)", "192.0.2.7", 4)]
    reported.now = 2 * PERIOD
    reported.guesses.tick()
    reported.guesses.guessed("192.0.2.7", "wrong")
    assert reported.taken() == [("snmp:(unknown)", "192.0.2.7", 1)], "after a quiet period it is a new one"


def test_users_and_addresses_are_counted_by_themselves(reported: Reported) -> None:
    for address, user in (("a", ""), ("a", "monitor"), ("b", "monitor"), ("a", "monitor")):
        reported.guesses.guessed(address, "wrong", user)
    assert reported.taken() == [
        ("snmp:(unknown)", "a", 1),
        ("snmp:monitor", "a", 1),
        ("snmp:monitor", "b", 1),
    ]
    reported.guesses.close()
    assert reported.taken() == [("snmp:monitor", "a", 1)]


def test_only_some_guesses_are_answered_in_a_period(reported: Reported) -> None:
    answered = [reported.guesses.guessed("a", "wrong") for _ in range(MAX_ANSWERED + 5)]
    assert answered == [True] * MAX_ANSWERED + [False] * 5
    assert reported.guesses.guessed("b", "wrong"), "another address is not slowed"
    reported.now = PERIOD
    reported.guesses.tick()
    assert reported.guesses.guessed("a", "wrong")


def test_forged_addresses_take_a_bounded_memory_and_few_reports(reported: Reported) -> None:
    for number in range(MAX_ADDRESSES + 500):
        reported.guesses.guessed(f"address {number}", "wrong")
    found = reported.taken()
    assert len(found) == MAX_ADDRESSES + 1
    assert found[-1] == ("snmp:(unknown)", OTHERS, 1)
    reported.guesses.close()
    assert reported.taken() == [("snmp:(unknown)", OTHERS, 499)]


def test_an_address_has_guessed_until_it_is_quiet(reported: Reported) -> None:
    reported.guesses.guessed("a", "wrong")
    reported.guesses.guessed("b", "wrong", "monitor")
    assert reported.guesses.has_guessed("a")
    assert not reported.guesses.has_guessed("b"), "who guesses the password of a user"
    reported.now = PERIOD
    reported.guesses.tick()
    assert not reported.guesses.has_guessed("a")
