r"""How the parts of a stable name stand in its text.

Parts are joined by ``|``; inside a part ``\``, ``|`` and ``#`` are escaped by ``\``. A part that is absent is
``\-``, one that refers to what is not known begins with ``\?``. Behind ``#`` stands what tells objects apart
that would have the same name. Published names depend on this form: it must never change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_ESCAPES = str.maketrans({"\\": "\\\\", "|": "\\|", "#": "\\#"})
_PIECES = re.compile(r"\\.|[^\\|#]+|[|#]", re.DOTALL)


def escaped(part: str) -> str:
    """``part`` so that nothing in it can be taken for the structure of a name."""
    return part.translate(_ESCAPES)


def joined(parts: Iterable[str]) -> str:
    """The text of parts that are escaped already."""
    return "|".join(parts)


def parts(text: str) -> tuple[str | None, ...]:
    """What a stable name is made of, without what stands behind ``#``; ``None`` for what is not known."""
    if "\\" not in text:
        return tuple(text.partition("#")[0].split("|"))
    found: list[str | None] = [""]
    for piece in _PIECES.findall(text):
        known = found[-1]
        if piece == "#":
            break
        if piece == "|":
            found.append("")
        elif piece in {r"\-", r"\?"}:
            found[-1] = None
        elif known is not None:
            found[-1] = known + (piece[1] if piece[0] == "\\" else piece)
    return tuple(found)
