"""The limits of Python 3.11.2, which is Debian 12's."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{\d*,?\d*\})\+")
"""A possessive group: in it, Python before 3.11.5 keeps the position of a last, failed repetition."""

FILES = sorted((Path(__file__).parents[1] / "gateway").rglob("*.py"))


def texts(path: Path) -> Iterator[str]:
    """Yield all literals of a module."""
    gc.disable()  # a finalizer that runs meanwhile fails Python 3.11's parser ("recursion depth mismatch")
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            value = node.value
            yield value if isinstance(value, str) else value.decode("latin-1")


@pytest.mark.parametrize("text", ["(a|b)*+", "(?:x)++", "(y)?+", "(z){1,2}+"])
def test_possessive_groups_are_found(text: str) -> None:
    assert POSSESSIVE_GROUP.search(text)


def test_no_expression_has_a_possessive_group() -> None:
    assert [
        (str(path), text) for path in FILES for text in texts(path) if POSSESSIVE_GROUP.search(text)
    ] == []
