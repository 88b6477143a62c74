"""Texts of peers and errors on one line, for a log, a record or a terminal; and times as text."""

from __future__ import annotations

from typing import Final

from gateway.model.secrets import mask_uris

MAX_PEER_TEXT: Final = 500
"""Characters that are kept of a peer's text."""

MAX_ERROR_TEXT: Final = 200
"""Characters that are kept of the text of a library's error."""


def one_line(text: str, most: int = MAX_PEER_TEXT) -> str:
    """Return ``text`` on one line: each run of white space and unprintable characters becomes one space.

    Args:
        text: any text.
        most: the largest number of characters; a longer text ends with an ellipsis.
    """
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def peer_line(text: str) -> str:
    """Return a peer's text on one line, without passwords in URIs."""
    return one_line(mask_uris(text))


def error_line(error: BaseException) -> str:
    """Return the text of an error on one line; its class where it has no text."""
    return one_line(str(error), MAX_ERROR_TEXT) or type(error).__name__
