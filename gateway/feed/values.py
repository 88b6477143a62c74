"""Values as a feed carries them: those of the model, with references resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gateway.model.values import Value


@dataclass(frozen=True, slots=True)
class ObjectLink:
    """Where a reference leads: the target's class (``package:name``), row number and stable name."""

    class_name: str
    row: int
    stable_name: str


FeedValue: TypeAlias = "Value | ObjectLink"
