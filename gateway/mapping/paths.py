"""The ``read`` paths of a mapping: the place of a value inside a JSON object.

Grammar::

    read        = path *( " | " path )             the first path that leads to a value counts
    path        = word *( "." word )
    word        = key [ "[" key "=" text "]" ]     of a list: its first object in which key equals text

Examples: ``messages``, ``message_stats.publish``, ``applications[name=rabbit].version``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | int | float | bool | None"
"""A decoded JSON document."""


def text_at(document: Mapping[str, Json], key: str) -> str:
    """Return the text under a key; empty for anything else, which may have no hash."""
    value = document.get(key)
    return value if isinstance(value, str) else ""


def integer_at(document: Mapping[str, Json], key: str) -> int | None:
    """Return the integer under a key; ``None`` for anything else, also for a boolean."""
    value = document.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


_WORD = re.compile(r"(?P<key>[A-Za-z0-9_-]+)(?:\[(?P<test>[A-Za-z0-9_-]+)=(?P<text>[^\]]*)\])?")


@dataclass(frozen=True, slots=True)
class Step:
    """One word of a path; ``test`` and ``text`` choose an object out of a list, empty otherwise."""

    key: str
    test: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class ReadPath:
    """A compiled ``read``: alternatives, each a row of steps."""

    alternatives: tuple[tuple[Step, ...], ...]

    def find(self, document: Json) -> Json:
        """Return the value in ``document``, ``None`` where nothing (or null) stands there. Never raises."""
        for steps in self.alternatives:
            found = _follow(document, steps)
            if found is not None:
                return found
        return None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to request of an API that limits answers to columns (dotted, lists looked through)."""
        asked: dict[str, None] = {}
        for steps in self.alternatives:
            before = ""
            for step in steps:
                before = f"{before}.{step.key}" if before else step.key
                if step.test:
                    asked[f"{before}.{step.test}"] = None
            asked[before] = None
        return tuple(asked)


@functools.cache
def compile_path(text: str) -> ReadPath:
    """Compile ``text``; each source compiles those of its mapping when it starts.

    Raises:
        ValueError: it does not follow the grammar.
    """
    return ReadPath(tuple(_compile_one(alternative) for alternative in text.split(" | ")))


def _compile_one(text: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    position = 0
    while True:
        word = _WORD.match(text, position)
        if word is None:
            raise ValueError(f"{text!r} is not a path: a word is missing at character {position + 1}")
        steps.append(Step(word["key"], word["test"] or "", word["text"] or ""))
        position = word.end()
        if position == len(text):
            return tuple(steps)
        if text[position] != ".":
            raise ValueError(f"{text!r} is not a path: {text[position]!r} at character {position + 1}")
        position += 1


def _follow(document: Json, steps: tuple[Step, ...]) -> Json:
    here = document
    for step in steps:
        # What JSON decodes to is a dict; to ask the abstract class takes ten times longer.
        if type(here) is not dict and not isinstance(here, Mapping):
            return None
        here = here.get(step.key)
        if step.test:
            here = _chosen(here, step)
    return here


def _chosen(candidates: Json, step: Step) -> Json:
    if not isinstance(candidates, list):
        return None
    for candidate in candidates:
        if isinstance(candidate, Mapping) and candidate.get(step.test) == step.text:
            return candidate
    return None
