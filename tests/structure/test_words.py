"""README, documentation and command line use the words of the glossary, not those that it replaces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from gateway.cli.main import COMMANDS, main

ROOT: Final = Path(__file__).parent.parent.parent
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

UNUSED: Final = re.compile(
    r"\b(tell|tells|telling|told|hear|hears|hearing|heard|anew|norths?|souths?|vouch(?:es|ed)?|believ(?:e|es|ed|ing)"
    r"|belief|obeys?|obeyed|nobody|somebody|whoever)\b",
    re.IGNORECASE,
)
OCTETS: Final = re.compile(r"\boctets?\b", re.IGNORECASE)
CODE: Final = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", re.DOTALL)
"""Names that are published, commands with their output, and targets of links stay as they are."""

UNITS_OF_PROTOCOLS: Final = frozenset(
    {"benchmarks", "conformance-ami", "conformance-cml", "conformance-qmf", "model-check", "types"}
)
"""Pages that describe protocols, or their speed, byte by byte, as their specifications do: in octets."""

PACKAGES_OF_PROTOCOLS: Final = frozenset(
    {"dialects", "eventlog", "feed", "jmx", "links", "prometheus", "serving", "snmp"}
)
"""Packages that count octets in the forms of protocols and files."""

PACKAGES: Final = (
    *("cli", "config", "dialects", "eventlog", "feed", "inventory", "jmx", "links", "mapping", "model"),
    *("operations", "prometheus", "protection", "service", "serving", "snmp", "sources", "terminal"),
)
"""Packages whose docstrings and messages use the words of the glossary."""

FIELDS: Final = re.compile(r"^ *[a-z_]+:(?= )", re.MULTILINE)
"""Names of arguments and attributes in docstrings, some of which are published."""


def unused_words(text: str, *, octets: bool = False) -> list[str]:
    """Return the words of ``text`` that the glossary replaces, with what stands around them."""
    found = [*UNUSED.finditer(text), *([] if octets else OCTETS.finditer(text))]
    return [text[max(0, one.start() - 30) : one.end() + 30].replace("\n", " ") for one in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_use_the_words_of_the_glossary(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.stem == "glossary":
        text = text.partition("## Words that are not used")[0]
    words = unused_words(CODE.sub("", text), octets=page.stem in UNITS_OF_PROTOCOLS)
    assert words == []


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and those below it, by what is typed."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from commands(found, f"{name} {below}")


@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
def test_help_uses_the_words_of_the_glossary() -> None:
    helps = {
        name: "\n".join([command.help or "", *(getattr(each, "help", None) or "" for each in command.params)])
        for name, command in commands(main, "amqp-gateway")
    }
    assert {f"amqp-gateway {name}" for name in COMMANDS} <= helps.keys()
    assert {name: words for name, text in helps.items() if (words := unused_words(text))} == {}


def nodes(file: Path, *words: re.Pattern[str]) -> Iterator[ast.AST]:
    """Yield the nodes of a module; none if no part of its text is one of the words: parsing takes long."""
    text = file.read_text(encoding="utf-8")
    if any(re.search(one.pattern.replace(r"\b", ""), text, re.IGNORECASE) for one in words):
        yield from ast.walk(ast.parse(text))


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_and_messages_use_the_words_of_the_glossary(package: str) -> None:
    octets = package in PACKAGES_OF_PROTOCOLS
    texts = {
        f"{file.name}:{node.lineno}": node.value
        for file in (ROOT / "gateway" / package).rglob("*.py")
        for node in nodes(file, UNUSED, *([] if octets else [OCTETS]))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    sentences = {place: FIELDS.sub("", text) for place, text in texts.items() if " " in text}
    found = {place: unused_words(text, octets=octets) for place, text in sentences.items()}
    assert {place: words for place, words in found.items() if words} == {}


PUBLISHED: Final = {"gateway/snmp/fixed_mib.py": {"HEARD", "LAST_HEARD", "TOLD"}}
"""By module, names that are those of objects in a published MIB."""

PARTS_OF_NAMES: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def identifiers(file: Path) -> Iterator[str]:
    """Yield the names that a module defines: of functions, classes, arguments, variables and attributes."""
    for node in nodes(file, UNUSED):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


@pytest.mark.parametrize("folder", ["gateway", "tests"])
def test_names_use_the_words_of_the_glossary(folder: str) -> None:
    found = {
        (file.relative_to(ROOT).as_posix(), name)
        for file in (ROOT / folder).rglob("*.py")
        for name in set(identifiers(file)) - PUBLISHED.get(file.relative_to(ROOT).as_posix(), set())
        if any(UNUSED.fullmatch(part) for part in PARTS_OF_NAMES.findall(name))
    }
    assert found == set()
