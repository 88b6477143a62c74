"""Guesses whose reports are collected, under a clock that a test sets."""

from __future__ import annotations

from gateway.feed.guesses import Guess, Guesses


class Reported:
    """Guesses, what they reported, and a clock."""

    def __init__(self) -> None:
        self.now = 0
        self.reports: list[Guess] = []
        self.guesses = Guesses(self.reports.append, lambda: self.now)

    def taken(self) -> list[tuple[str, str, int]]:
        """Return principal, origin and number of each report as of SNMP, and forget them."""
        requests = [each.request("snmp") for each in self.reports]
        found = [
            (str(each.principal), each.principal.origin, each.refusal.attempts)
            for each in requests
            if each.refusal is not None
        ]
        self.reports.clear()
        return found
