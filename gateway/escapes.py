"""How texts from strangers are displayed, wherever they leave the gateway for a person: with escapes.

Peers choose names, values and reasons. A line feed in one would be a line of its own to whatever reads lines,
an escape sequence moves the cursor of a terminal, and a mark of direction shows other names than there are.
The event log, JMX and JSON for programs keep the text itself.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from typing import Final

_TOKEN: Final = re.compile(r"\\\\|\\([tnr]|x[0-9a-f]{2}|u[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4})")
"""A pair of backslashes, which is no escape, or an escape, whose rest is the group."""

# Not begun within a run of backslashes, each of which would be read to the end of the run.
_NOT_PLAIN: Final = re.compile(r"(?<!\\)(\\*)([^ -\[\]-~\\])")
"""A character that is no printable ASCII, with the backslashes in front of it."""

_PARTIAL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:x[0-9a-f]?|u[0-9a-f]{0,3}|U[0-9a-f]{0,7})?\Z")
_BACKSLASH: Final = r"\x5c"
_LONGEST_ESCAPE: Final = 10


def escaped(text: str) -> str:
    r"""Return a text from a stranger as it is displayed: without a character that does not print.

    Control characters, separators of lines and paragraphs, marks of direction and all else that does not
    print become ``\t``, ``\n``, ``\r``, ``\xHH``, ``\uHHHH`` or ``\UHHHHHHHH``. In a text that has one of
    them, or that would read as if it had, a backslash is ``\x5c``; every other text is as it is, also one
    with backslashes. So `unescaped` always gives the text back. A text is escaped once: twice is another one.
    """
    if "\\" in text and (not text.isprintable() or any(found[1] for found in _TOKEN.finditer(text))):
        text = text.replace("\\", _BACKSLASH)
    return text if text.isprintable() else _NOT_PLAIN.sub(_displayed, text)


def unescaped(text: str) -> str:
    """Return the text that `escaped` displays so; a text without an escape is as it is."""
    return _TOKEN.sub(_original, text) if "\\" in text else text


def printable(line: str) -> str:
    """Return a line that is made of escaped texts, with all else in it that does not print escaped, too.

    `unescaped` gives for it what it gives for ``line``, and a line that prints is as it is.
    """
    return line if line.isprintable() else _NOT_PLAIN.sub(_displayed, line)


def _displayed(found: re.Match[str]) -> str:
    backslashes, character = found[1], found[2]
    if character.isprintable():
        return found[0]
    if len(backslashes) % 2:  # the last one and the escape would be a pair of backslashes
        backslashes = f"{backslashes[1:]}{_BACKSLASH}"
    return backslashes + character.encode("unicode_escape").decode("ascii")


def _original(found: re.Match[str]) -> str:
    return found[0].encode("ascii").decode("unicode_escape") if found[1] else found[0]


def shell_line(words: Iterable[str]) -> str:
    """Return a command on one line, as a person types it into bash: names in it may not print."""
    return " ".join(shlex.quote(word) if word.isprintable() else _ansi_quoted(word) for word in words)


def _ansi_quoted(word: str) -> str:
    """Return a word with bash's escapes, of which those with two digits stand for bytes."""
    return f"$'{''.join(map(_ansi_escaped, word))}'"


def _ansi_escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004  ASCII, and the first plane


def printable_json(text: str, encoding: str | None = None) -> str:
    """Return JSON of the same meaning that prints: white space is spaces, the rest is escaped.

    Args:
        text: the JSON.
        encoding: of where it goes, if that may be another than UTF-8; what it lacks is escaped, too.
    """
    if not text.isprintable():
        text = "".join(
            one if one.isprintable() else " " if one in "\t\n\r" else json.dumps(one)[1:-1] for one in text
        )
    if encoding is not None:
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            return "".join(one if one.isascii() else json.dumps(one)[1:-1] for one in text)
    return text


def without_part(text: str) -> str:
    """Return an escaped text that was cut, without a part of an escape at its end."""
    return _PARTIAL.sub(r"\1", text) if "\\" in text[-_LONGEST_ESCAPE:] else text


_EVALUATED: Final = re.compile(r"\s*[=+\-@\uff0b\uff0d\uff1d\uff20]")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def spreadsheet_text(text: str) -> str:
    """Return an escaped text as a cell of CSV that a spreadsheet shows, and does not evaluate as a formula.

    What begins like a formula, and is no number, has an apostrophe in front, as a person would write it.
    """
    return f"'{text}" if _EVALUATED.match(text) and not _NUMBER.fullmatch(text) else text
