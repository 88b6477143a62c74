"""A step that takes long reports that it goes on, and reports nothing after its end."""

from __future__ import annotations

import re

import pytest

from gateway.demo.install import patiently
from tests.components.waiting import wait_until


def test_its_going_on_is_reported_again_and_again() -> None:
    told: list[str] = []
    with patiently(told.append, "installing", every=0.01):
        wait_until(lambda: len(told) >= 3, "it was told three times")
    over = len(told)
    assert all(re.fullmatch(r"installing: \d+ s so far", line) for line in told)
    assert len(told) == over


def test_what_fails_ends_it_too() -> None:
    told: list[str] = []
    with pytest.raises(ValueError, match="no room"), patiently(told.append, "installing", every=60):
        raise ValueError("no room")
    assert told == []
