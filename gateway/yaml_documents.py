"""YAML files that people write, read strictly: unknown keys, duplicates and wrong types are errors.

Every complaint carries file and line, so that whoever wrote the file can go there at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

MAX_DOCUMENT_OCTETS = 8 * 1024 * 1024
"""Larger files are refused before they are parsed."""


class StrictModel(BaseModel):
    """Base of every section of a document: frozen, no unknown keys, no silent conversions of text."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, populate_by_name=True)


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing wrong with a document, with the place where it stands (lines count from 1)."""

    line: int
    place: str
    message: str


class DocumentError(Exception):
    """A document cannot be used; the text lists each complaint as ``file:line: place: what``."""

    def __init__(self, path: Path, complaints: Sequence[Complaint]) -> None:
        self.path = path
        self.complaints = tuple(complaints)
        super().__init__(
            "\n".join(
                f"{path}:{c.line}: {c.place}: {c.message}" if c.place else f"{path}:{c.line}: {c.message}"
                for c in self.complaints
            )
        )


class _UniqueKeyLoader(yaml.SafeLoader):
    """Safe loader that refuses a key given twice, which plain YAML lets the last one win."""


def _mapping_without_duplicates(loader: _UniqueKeyLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} stands here for the second time", key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping_without_duplicates)

Model = TypeVar("Model", bound=BaseModel)


def read_document(path: Path, model: type[Model]) -> Model:
    """Read ``path`` as one YAML document of the shape ``model``.

    Raises:
        DocumentError: the file cannot be read, is not YAML, or does not have that shape.
    """
    try:
        if path.stat().st_size > MAX_DOCUMENT_OCTETS:
            raise DocumentError(path, [Complaint(1, "", f"larger than {MAX_DOCUMENT_OCTETS} octets")])
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise DocumentError(path, [Complaint(1, "", f"cannot be read: {reason}")]) from error
    return parse_document(text, model, path)


def parse_document(text: str, model: type[Model], path: Path) -> Model:
    """Like `read_document`, of text at hand; ``path`` only names it in complaints."""
    loader = _UniqueKeyLoader(text)
    try:
        node = loader.get_single_node()
        data = loader.construct_document(node) if node is not None else {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise DocumentError(path, [Complaint(line, "", error.problem or "is not YAML")]) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DocumentError(path, [Complaint(1, "", f"is not YAML: {error}")]) from error
    finally:
        loader.dispose()
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise DocumentError(path, [_complaint(node, dict(e)) for e in error.errors()]) from error


def _complaint(root: yaml.Node | None, error: dict[str, Any]) -> Complaint:
    line, trail = 1, []
    node = root
    for place, step in enumerate(error["loc"], start=1):
        found = _child(node, step)
        if found is None:  # a key that is missing, or the name of a union's branch, which no file has
            if error["type"] in {"missing", "extra_forbidden"} and place == len(error["loc"]):
                trail.append(str(step))
            continue
        line, node = found
        trail.append(str(step))
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        message = "unknown key"
    elif error["type"] == "missing":
        message = "is required"
    elif error["type"] == "union_tag_invalid":
        context = error["ctx"]
        message = f"{context['discriminator']} is {context['tag']!r}; it can be {context['expected_tags']}"
    return Complaint(line, ".".join(trail), message)


def _child(node: yaml.Node | None, step: str | int) -> tuple[int, yaml.Node] | None:
    """The line (from 1) and node of a key or list position below ``node``."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        value = node.value[step]
        return value.start_mark.line + 1, value
    return None
