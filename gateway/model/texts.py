"""Texts of peers and of errors, fit for one line of a log, a record or a terminal."""

from __future__ import annotations

from typing import Final

from gateway.model.secrets import mask_uris

MAX_PEER_TEXT: Final = 500
"""Characters that are kept of what a peer says."""

MAX_ERROR_TEXT: Final = 200
"""Characters that are kept of what an error of a library says."""


def one_line(text: str, most: int = MAX_PEER_TEXT) -> str:
    """Return ``text`` on one line: white space, and what cannot be printed, is one space.

    Args:
        text: any text.
        most: characters; a longer text ends with an ellipsis.
    """
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def peer_line(text: str) -> str:
    """Return what a peer says on one line, without passwords in URIs."""
    return one_line(mask_uris(text))


def error_line(error: BaseException) -> str:
    """Return what an error says on one line; its class where it says nothing."""
    return one_line(str(error), MAX_ERROR_TEXT) or type(error).__name__
