"""The evaluator's patterns are those of a shell: compared with the library that it does not use."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st

from tests.policy.evaluator import fits

PIECES = st.lists(
    st.sampled_from(["a", "b", "/", "|", "*", "?", "[ab]", "[!a]", "[a-c]", ":", "\n"]), max_size=6
)


@given(st.text("abc/|:*[]\n", max_size=6), PIECES.map("".join))
def test_patterns_are_those_of_a_shell(text: str, pattern: str) -> None:
    assert fits(text, pattern) is fnmatchcase(text, pattern)
