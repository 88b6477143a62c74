"""Paths of the project that the documentation names exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent.parent
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

PATH: Final = re.compile(r"`((?:gateway|tests|mappings|mibs|docs)/[A-Za-z0-9_./-]+)`")
"""A file, module or folder in backquotes, from the root of the project; patterns are not matched."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_paths_that_a_page_names_exist(page: Path) -> None:
    named = set(PATH.findall(page.read_text(encoding="utf-8")))
    missing = {path for path in named if not (ROOT / path).exists() and not (ROOT / f"{path}.py").exists()}
    assert {path for path in missing if "NAME" not in path} == set()


def test_the_table_of_places_is_checked() -> None:
    page = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    table = page.partition("## Where is what\n")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ") and "?" in row]
    assert rows
    assert [row for row in rows if PATH.search(row) is None] == []
