r"""How the parts of a stable name stand in its text.

Parts are joined by ``|``; inside a part ``\``, ``|`` and ``#`` are escaped by ``\``. Published names depend
on this form: it must never change.
"""

from __future__ import annotations

from collections.abc import Iterable

_ESCAPES = str.maketrans({"\\": "\\\\", "|": "\\|", "#": "\\#"})


def escaped(part: str) -> str:
    """``part`` so that nothing in it can be taken for the structure of a name."""
    return part.translate(_ESCAPES)


def joined(parts: Iterable[str]) -> str:
    """The text of parts that are escaped already."""
    return "|".join(parts)
