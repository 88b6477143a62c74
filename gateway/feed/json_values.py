"""Values that JSON has no form for, as text: how maps and lists are shown where one text stands for them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gateway.feed.values import ObjectLink
from gateway.model.values import Reference


def as_json(value: object) -> object:
    """``value`` with what JSON lacks as text: bytes in hexadecimal, UUIDs and references by name, NaN.

    Raises:
        RecursionError: it is nested too deeply.
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if isinstance(value, str | int | None) else _as_text(value)


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Reference):
        return value.native_id
    return value.stable_name if isinstance(value, ObjectLink) else str(value)
