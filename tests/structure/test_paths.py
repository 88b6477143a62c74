"""Paths that the documentation names exist, and so do the names to which docstrings refer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent.parent
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

PATH: Final = re.compile(r"`((?:gateway|tests|mappings|mibs|docs)/[A-Za-z0-9_./-]+)`")
"""A file, module or folder in backquotes, from the root of the project; patterns are not matched."""

MADE: Final = frozenset({"docs/_build/html"})
"""Folders that a command of the Makefile makes."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_paths_that_a_page_names_exist(page: Path) -> None:
    named = set(PATH.findall(page.read_text(encoding="utf-8")))
    missing = {path for path in named if not (ROOT / path).exists() and not (ROOT / f"{path}.py").exists()}
    assert {path for path in missing - MADE if "NAME" not in path} == set()


def test_the_table_of_places_is_checked() -> None:
    page = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    table = page.partition("## Where is what\n")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ") and "?" in row]
    assert rows
    assert [row for row in rows if PATH.search(row) is None] == []


REFERENCE: Final = re.compile(r"`(gateway(?:\.[A-Za-z_][A-Za-z0-9_]*)+)`")
NOT_MODULES: Final = frozenset({"gateway.yaml", "gateway.channel"})
"""The configuration's file, and a class of objects in an example."""


def is_defined(reference: str) -> bool:
    """Return whether the module of ``reference`` exists, and what follows is a name in it."""
    parts = reference.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        module = next(
            (one for one in (place.with_suffix(".py"), place / "__init__.py") if one.is_file()), None
        )
        if module is not None:
            text = module.read_text(encoding="utf-8")
            return all(re.search(rf"\b{name}\b", text) for name in parts[length:])
    return False


def test_docstrings_refer_to_what_there_is() -> None:
    missing = {
        f"{file.relative_to(ROOT)}: {reference}"
        for folder in ("gateway", "tests")
        for file in (ROOT / folder).rglob("*.py")
        for reference in REFERENCE.findall(file.read_text(encoding="utf-8"))
        if reference not in NOT_MODULES and not is_defined(reference)
    }
    assert missing == set()
