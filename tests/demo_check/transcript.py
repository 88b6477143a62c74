"""Commands as they are typed, and their output."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


class Transcript:
    """A session at a terminal, one command after the other."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """The whole session so far."""
        return "".join(self._parts)

    def add(self, words: Sequence[str], printed: str) -> str:
        """Add a command and its output; return the output."""
        self._parts.append(f"$ {' '.join(map(_typed, words))}\n{printed.rstrip()}\n")
        return printed


def _typed(word: str) -> str:
    """Return a word as a shell reads it."""
    return f'"{word}"' if "'" in word else shlex.quote(word)
