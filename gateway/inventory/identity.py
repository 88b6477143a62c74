r"""Stable names: the text by which a durable object is the same over restarts of everything.

A name is made of parts, one per index property in schema order, joined by ``|``. Inside a part ``\``,
``|`` and ``#`` are escaped by ``\``; an absent part is ``\-``; a part that is a reference holds the stable
name of its target (escaped again), and ``\?`` with the native id where the target is not known. A later
duplicate of a name carries ``#`` and what tells it apart. So no two objects of a class can share a text,
and no part's content can imitate the structure. Published names depend on this form: it must never change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from gateway.model.schema import ClassSchema
from gateway.model.stable_names import escaped, joined
from gateway.model.values import Reference, Value, Values, ValueType

ABSENT = r"\-"


@dataclass(frozen=True, slots=True)
class StableName:
    """The name of one object.

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
    """The stable name of an object with these ``properties`` (in schema order).

    Args:
        schema: of its class.
        properties: all of them, ``None`` where absent.
        native_id: used where the class has neither an index nor a name, or the whole name is empty.
        target_name: the stable name of the object with a native id, or ``None`` where it is not known.
        name_element: the element that names objects of a class without index properties.
    """
    positions = [position for position, element in enumerate(schema.properties) if element.index]
    if not positions:
        wanted = name_element or "name"
        positions = [p for p, element in enumerate(schema.properties) if element.name == wanted]
    parts: list[str] = []
    unresolved: list[str] = []
    for position in positions:
        value = properties[position] if position < len(properties) else None
        if isinstance(value, Reference):
            target = target_name(value.native_id)
            if target is None:
                unresolved.append(value.native_id)
                parts.append(r"\?" + escaped(value.native_id))
            else:
                parts.append(escaped(target))
        else:
            parts.append(ABSENT if value is None else escaped(part_text(value)))
    if not any(part not in {"", ABSENT} for part in parts):
        return StableName(f"#{escaped(native_id)}")
    return StableName(joined(parts), tuple(unresolved))


def duplicate_name(name: str, native_id: str) -> str:
    """The name of an object that came later under a name already taken."""
    return f"{name}#{escaped(native_id)}"


def incarnation_name(name: str, created: int, native_id: str) -> str:
    """What tells incarnations of a transient name apart: creation time where known, else native id."""
    return f"{name}#{created}" if created else duplicate_name(name, native_id)


def part_text(value: Value) -> str:
    """The text of one index value; equal texts mean equal values within one element."""
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
    """What people call the object: its name element, else its last index that is no reference."""
    positions = {element.name: position for position, element in enumerate(schema.properties)}
    candidates: Iterable[int]
    if name_element in positions:
        candidates = (positions[name_element],)
    else:
        candidates = [
            p for p, e in enumerate(schema.properties) if e.index and e.type is not ValueType.REFERENCE
        ][-1:] or ([positions["name"]] if "name" in positions else [])
    for position in candidates:
        value = properties[position] if position < len(properties) else None
        if value is not None:
            return part_text(value)
    return fallback


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
