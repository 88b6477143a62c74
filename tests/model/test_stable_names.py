"""The parts of a stable name, written and read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.stable_names import escaped, joined, parts, without_distinction


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("",)),
        ("orders", ("orders",)),
        ("/|orders", ("/", "orders")),
        ("/|", ("/", "")),
        (r"a\|b\#c\\|d", ("a|b#c\\", "d")),
        ("/|orders#1700000000", ("/", "orders")),
        (r"/|a\|b#0-1|2", ("/", "a|b")),
        (r"\-|key", (None, "key")),
        (r"\?0-1-1-0-9|key", (None, "key")),
        ("#0-1-1-0-9", ("",)),
        ("two\nlines|x", ("two\nlines", "x")),
    ],
)
def test_parts(text: str, expected: tuple[str | None, ...]) -> None:
    assert parts(text) == expected


@given(st.lists(st.text("ab|#\\-?\n") | st.text(), min_size=1))
def test_what_is_written_is_read(texts: list[str]) -> None:
    assert parts(joined(map(escaped, texts))) == tuple(texts)


@given(st.text("ab|#\\-?"))
def test_any_text_has_parts(text: str) -> None:
    assert all(part is None or isinstance(part, str) for part in parts(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shop|q003#7db6", "shop|q003"),
        ("shop|q003", "shop|q003"),
        (r"shop|a\#b#7db6", r"shop|a\#b"),
        (r"shop|a\#b", r"shop|a\#b"),
        ("#7db6", "#7db6"),
        ("", ""),
    ],
)
def test_the_distinction_is_left_out(text: str, expected: str) -> None:
    assert without_distinction(text) == expected
