"""Numbers of objects: 64 bits in the specification, 32 in OpenAMQ, which takes any text for one."""

from __future__ import annotations

import re
from typing import Final

SPECIFICATION_LIMIT: Final = 1 << 64
OPENAMQ_LIMIT: Final = 1 << 32
"""One number for all classes, never used twice in one run of the broker; 0 is the broker."""

_NUMBER: Final = re.compile(r"[0-9]{1,20}")
_LEADING_NUMBER: Final = re.compile(r"[ \t\n\v\f\r]*+([+-]?[0-9]{1,40})")
_LONG_LIMIT: Final = 1 << 63


def object_number(text: str) -> int | None:
    """Return the number that ``text`` is in decimal digits; ``None`` where it is none of 64 bits."""
    if not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if number < SPECIFICATION_LIMIT else None


def as_openamq_takes_it(text: str) -> int:
    """Return the object that OpenAMQ takes ``text`` for, as C does: ``"abc"`` and ``"4294967296"`` are 0."""
    found = _LEADING_NUMBER.match(text)
    number = int(found[1]) if found is not None else 0
    return max(-_LONG_LIMIT, min(number, _LONG_LIMIT - 1)) % OPENAMQ_LIMIT
