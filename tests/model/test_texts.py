"""Texts on one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.texts import MAX_ERROR_TEXT, error_line, one_line, peer_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        (" two\r\n\tlines ", "two lines"),
        ("red \x1b[31m\u202e", "red [31m"),
        ("12345", "12345"),
        ("123456", "1234…"),
    ],
)
def test_a_text_on_one_line(text: str, line: str) -> None:
    assert one_line(text, 5 if text.isdigit() else 100) == line


@given(st.text(), st.integers(1, 20))
def test_a_line_can_be_printed_and_is_no_longer_than_allowed(text: str, most: int) -> None:
    line = one_line(text, most)
    assert line.isprintable()
    assert len(line) <= most
    assert line == line.strip()


def test_what_a_peer_says_holds_no_password() -> None:
    assert peer_line("no link to\namqp://me:secret@host/") == "no link to amqp://***@host/"


def test_an_error_says_what_it_is_where_it_has_no_text() -> None:
    assert error_line(TimeoutError()) == "TimeoutError"
    assert len(error_line(ValueError("x" * 1000))) == MAX_ERROR_TEXT
