r"""Stable names: the text that identifies an object within its class, over restarts of everything.

A name is made of parts, one per index property in schema order, joined by ``|``. Inside a part ``\``, ``|``
and ``#`` are escaped by ``\``; an absent part is ``\-``; a part that is a reference holds the stable name of
its target (escaped again), and ``\?`` with the native id where neither the target nor its name is known.
Behind ``#`` stands the distinction of objects that would have the same name: the creation time of an
incarnation, or a native id. So no two objects of a class can share a text, and no part's content can imitate
the structure. Published names depend on this form: it must never change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

import msgspec

from gateway.model.schema import ClassSchema
from gateway.model.values import Reference, Value, Values

ABSENT = r"\-"
UNKNOWN = r"\?"

_ESCAPES = str.maketrans({"\\": "\\\\", "|": "\\|", "#": "\\#"})
_PIECES = re.compile(r"\\.|[^\\|#]+|[|#]", re.DOTALL)


def escaped(part: str) -> str:
    """Escape ``part``, so that nothing in it can be taken for the structure of a name."""
    if "\\" in part or "|" in part or "#" in part:
        return part.translate(_ESCAPES)
    return part  # the same object, as for most parts: it is in memory once


def joined(parts: Iterable[str]) -> str:
    """Join parts that are escaped."""
    return "|".join(parts)


def parts(text: str) -> tuple[str | None, ...]:
    """Return the parts of a stable name, without the part after ``#``; ``None`` for an unknown one."""
    if "\\" not in text:
        return tuple(text.partition("#")[0].split("|"))
    found: list[str | None] = [""]
    for piece in _PIECES.findall(text):
        known = found[-1]
        if piece == "#":
            break
        if piece == "|":
            found.append("")
        elif piece in {ABSENT, UNKNOWN}:
            found[-1] = None
        elif known is not None:
            found[-1] = known + (piece[1] if piece[0] == "\\" else piece)
    return tuple(found)


class StableName(msgspec.Struct, frozen=True):
    """The stable name of one object.

    ``unresolved`` holds the native ids of index references whose targets are not known: the name is then
    provisional.
    """

    text: str
    unresolved: tuple[str, ...] = ()


def stable_name(
    schema: ClassSchema,
    properties: Values,
    native_id: str,
    target_name: Callable[[str], str | None],
    name_element: str = "",
) -> StableName:
    """Return the stable name of an object with these ``properties`` (in schema order).

    Args:
        schema: the object's class.
        properties: all properties, ``None`` where absent.
        native_id: used where the class has neither an index nor a name, or the whole name is empty.
        target_name: returns the stable name of the object with a native id, or ``None`` where it is unknown:
            then the name in the reference counts.
        name_element: the element that names objects of a class without index properties.
    """
    positions = schema.index_positions
    if not positions:
        wanted = name_element or "name"
        positions = tuple(p for p, element in enumerate(schema.properties) if element.name == wanted)
    parts: list[str] = []
    unresolved: list[str] = []
    for position in positions:
        value = properties[position] if position < len(properties) else None
        if isinstance(value, Reference):
            target = target_name(value.native_id) or value.name
            if not target:
                unresolved.append(value.native_id)
                parts.append(UNKNOWN + escaped(value.native_id))
            else:
                parts.append(escaped(target))
        else:
            parts.append(ABSENT if value is None else escaped(part_text(value)))
    if not any(part not in {"", ABSENT} for part in parts):
        return StableName(f"#{escaped(native_id)}")
    return StableName(joined(parts), tuple(unresolved))


def duplicate_name(name: str, native_id: str) -> str:
    """Return the name of an object that was created while another one has the name."""
    return f"{name}#{escaped(native_id)}"


def incarnation_name(name: str, created: int, native_id: str) -> str:
    """Return the name of one incarnation: with its creation time where that is known, else its native id."""
    return f"{name}#{created}" if created else duplicate_name(name, native_id)


def without_distinction(text: str) -> str:
    """Return a stable name without what distinguishes objects of that name, unless it is nothing else."""
    if "#" not in text:
        return text
    if "\\" not in text:
        return text.partition("#")[0] or text
    place = 0
    for piece in _PIECES.findall(text):
        if piece == "#":
            break
        place += len(piece)
    return text[:place] or text


def part_text(value: Value) -> str:
    """Return the text of one index value; equal texts mean equal values within one element."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int | float | UUID):
        return str(value)
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def leaf_name(schema: ClassSchema, properties: Values, name_element: str, fallback: str) -> str:
    """Return the short name of an object: its name element, else its last index that is no reference."""
    position = schema.property_positions.get(name_element, schema.leaf_position)
    value = properties[position] if position is not None and position < len(properties) else None
    return fallback if value is None else part_text(value)


def _plain(value: Value) -> object:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, Reference):
        return value.native_id
    if isinstance(value, bytes | UUID):
        return part_text(value)
    return value
