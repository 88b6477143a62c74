"""A step that takes long reports that it goes on, and reports nothing after its end."""

from __future__ import annotations

import re

import pytest

from gateway.demo.install import patiently
from tests.components.waiting import wait_until


def test_its_going_on_is_reported_again_and_again() -> None:
    reported: list[str] = []
    with patiently(reported.append, "installing", every=0.01):
        wait_until(lambda: len(reported) >= 3, "it was told three times")
    over = len(reported)
    assert all(re.fullmatch(r"installing: \d+ s so far", line) for line in reported)
    assert len(reported) == over


def test_what_fails_ends_it_too() -> None:
    reported: list[str] = []
    with pytest.raises(ValueError, match="no room"), patiently(reported.append, "installing", every=60):
        raise ValueError("no room")
    assert reported == []
