"""Templates of texts for people: ``{name}`` stands for a value, and nothing else means anything."""

from __future__ import annotations

import re
from collections.abc import Callable

_PLACE = re.compile(r"\{([A-Za-z][A-Za-z0-9_.-]*)\}")


def names_in(template: str) -> tuple[str, ...]:
    """The names that a template asks for, in its order."""
    return tuple(_PLACE.findall(template))


def filled(template: str, text_of: Callable[[str], str]) -> str:
    """``template`` with each place replaced by the text of its name."""
    return _PLACE.sub(lambda place: text_of(place.group(1)), template)
