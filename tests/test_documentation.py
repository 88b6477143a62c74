"""What the documents promise: sample configurations are valid, commands exist, files named are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.config.model import Configuration
from gateway.yaml_documents import parse_document

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))

SAMPLE = re.compile(r"```yaml\n(version: 1\n.*?)```", re.DOTALL)
COMMAND = re.compile(r"\bmake ([a-z]+(?:-[a-z]+)*)")
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def name(page: Path) -> str:
    return page.name


def samples() -> list[tuple[str, str]]:
    return [(page.name, text) for page in PAGES for text in SAMPLE.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "text"), samples())
def test_sample_configurations_are_read(page: str, text: str) -> None:
    assert parse_document(text, Configuration, Path(page)).sources


def test_the_readme_shows_a_configuration() -> None:
    assert "README.md" in {page for page, _ in samples()}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_in_code_are_targets_of_the_makefile(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+(?:-[a-z]+)*):", makefile, re.MULTILINE))
    code = re.findall(r"`([^`\n]*)`|^(make .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    named = {target for pair in code for text in pair for target in COMMAND.findall(text)}
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_linked_are_there(page: Path) -> None:
    missing = [
        target
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert missing == []
