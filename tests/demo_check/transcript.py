"""Commands as they are typed, and what they printed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


class Transcript:
    """A session at a terminal, one command after the other."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self._parts)

    def add(self, words: Sequence[str], printed: str) -> str:
        """A command and what it printed, which is returned."""
        self._parts.append(f"$ {' '.join(map(_typed, words))}\n{printed.rstrip()}\n")
        return printed


def _typed(word: str) -> str:
    """A word as a shell takes it."""
    return f'"{word}"' if "'" in word else shlex.quote(word)
