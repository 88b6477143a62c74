"""The parts of a line: its head (type, number, time) and its parameters, in their order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from gateway.dialects.ami.dates import DateRules
from gateway.dialects.ami.deviations import Deviation, Leniency
from gateway.dialects.ami.values import (
    INT_LIMIT,
    LONG_LIMIT,
    AmiValue,
    Double,
    Enum,
    Json,
    Long,
    Utc,
    read_value,
)
from gateway.dialects.errors import ProtocolError

MAX_PARAMETERS: Final = 10_000
"""Largest number of parameters of an instruction."""

MAX_KEY: Final = 200
"""Largest number of characters of a key."""

_HEAD: Final = re.compile(r"([A-Z])(?:#([0-9]{1,18}))?(?:@([0-9]{1,18}))?(?=\||\Z)")
_TYPE: Final = re.compile(r"[A-Za-z]")
_MARK: Final = re.compile(r"([#@])([0-9]*)")
_MARKS: Final = {"#": "sequence", "@": "now"}
# Keys in the pages' examples contain "_"; the interface document says alphanumeric.
_KEY: Final = re.compile(r"\|([A-Za-z0-9_]*)")

# The form of most parameters: short numbers that fit their types, texts without escapes and controls. All
# others are read by `_read_parameter`, with the same result for these: the tests compare the two.
_PLAIN: Final = re.compile(
    r"""\|([A-Za-z0-9_]{1,100}+)=(?:
        "([ !#-\[\]-~]*+)"
      | ([-+]?[0-9]{1,9})
      | ([-+]?[0-9]{1,9}\.[0-9]{1,15})
      | ([-+]?[0-9]{1,18})L
      | ([-+]?[0-9]{1,15}(?:\.[0-9]{0,15})?)D
      | '([ -&(-\[\]-~]*+)'
      | ([0-9]{1,18})T
      | (true) | (false) | (null)
    )(?=\||\Z)""",
    re.VERBOSE,
)
_TEXT: Final = 2
_READERS: Final[tuple[Any, ...]] = (
    None,
    None,
    str,
    int,
    float,
    Long,
    Double,
    Enum,
    Utc,
    bool,
    lambda _: False,
    lambda _: None,
)
"""The constructor of the value of each group of `_PLAIN`."""


@dataclass(slots=True)
class Parts:
    """A line, split into its parts."""

    letter: str
    sequence: int | None
    now: int | None
    parameters: dict[str, AmiValue]


def read_parts(text: str, leniency: Leniency, dates: DateRules) -> Parts:
    """Split a line that is not a comment.

    Raises:
        ProtocolError: it does not follow the grammar.
    """
    head = _HEAD.match(text)
    if head is None:
        parts, position = _read_head(text, leniency)
    else:
        letter, sequence, now = head.groups()
        parts = Parts(
            letter, None if sequence is None else int(sequence), None if now is None else int(now), {}
        )
        position = head.end()
    while position < len(text):
        position = _read_plain(text, position, parts.parameters, leniency)
        if position < len(text):
            position = _read_parameter(text, position, parts, leniency, dates)
        if len(parts.parameters) > MAX_PARAMETERS:
            raise ProtocolError(f"at most {MAX_PARAMETERS} parameters", "more", position)
    return parts


def _read_plain(text: str, position: int, parameters: dict[str, AmiValue], leniency: Leniency) -> int:
    """Read plain parameters as long as they are plain; return the position behind them."""
    found, count, before = None, 0, len(parameters)
    for count, found in enumerate(iter(_PLAIN.scanner(text, position).match, None), 1):  # type: ignore[attr-defined]  # noqa: B007  used below
        group = found.lastindex
        if group == _TEXT:
            parameters[found[1]] = found[_TEXT]
        else:
            parameters[found[1]] = _READERS[group](found[group])
    if len(parameters) < before + count:
        leniency.forgive(Deviation.DUPLICATE_KEY, "one of them twice", position)
    return position if found is None else found.end()


def _read_head(text: str, leniency: Leniency) -> tuple[Parts, int]:
    found = _TYPE.match(text)
    if found is None:
        raise ProtocolError("the type of an instruction, a letter", "none")
    letter = found[0]
    if letter.islower():
        leniency.forgive(Deviation.LOWER_CASE_TYPE, letter, 0)
        letter = letter.upper()
    parts, position = Parts(letter, None, None, {}), 1
    while position < len(text) and text[position] != "|":
        position = _read_mark(text, position, parts, leniency)
    return parts, position


def _read_mark(text: str, position: int, parts: Parts, leniency: Leniency) -> int:
    """Read ``#5`` or ``@1700000000000``; a relay accepts them in any order, and behind parameters, too."""
    found = _MARK.match(text, position)
    if found is None:
        raise ProtocolError("|, # or @", "something else", position)
    mark, digits = found.groups()
    if not 0 < len(digits) < 20 or int(digits) >= LONG_LIMIT:  # noqa: PLR2004  the digits of 64 bits
        raise ProtocolError(f"a number of 64 bits behind {mark}", f"{len(digits)} digits", position)
    name = _MARKS[mark]
    if getattr(parts, name) is not None:
        raise ProtocolError(f"{mark} once", "twice", position)
    if parts.parameters or (mark == "#" and parts.now is not None):
        leniency.forgive(Deviation.HEAD_ORDER, mark, position)
    setattr(parts, name, int(digits))
    return found.end()


def _read_parameter(text: str, position: int, parts: Parts, leniency: Leniency, dates: DateRules) -> int:
    """Read one parameter of any form, or a mark; return the position behind it."""
    if text[position] != "|":
        return _read_mark(text, position, parts, leniency)
    found = _KEY.match(text, position)
    assert found is not None
    key, end = found[1], found.end()
    if not key or text[end : end + 1] != "=":
        # A relay accepts a key of one character without a value at the end of a line; this is not imitated.
        raise ProtocolError("a key (letters and digits), = and a value", "something else", position)
    if len(key) > MAX_KEY:
        raise ProtocolError(f"a key of at most {MAX_KEY} characters", f"{len(key)}", position)
    if key in parts.parameters:
        leniency.forgive(Deviation.DUPLICATE_KEY, key, position)
    parts.parameters[key], end = read_value(text, end + 1, leniency, dates)
    if end < len(text) and text[end] != "|" and text[end] not in _MARKS:
        raise ProtocolError("| behind a value", "something else", end)
    return end


def is_reserved(key: str) -> bool:
    """Return whether a key is reserved for instructions: one or two upper-case letters."""
    return len(key) <= 2 and key.isalpha() and key.isupper()  # noqa: PLR2004  that many


def is_key(key: str) -> bool:
    """Return whether a text is a valid key."""
    found = _KEY.fullmatch(f"|{key}")
    return found is not None and 0 < len(key) <= MAX_KEY


class Fields:
    """The parameters of an instruction; those that it defines are taken out by key and type.

    Args:
        parts: the parts of the line.
        leniency: whether reserved keys that the instruction does not define are accepted.
    """

    def __init__(self, parts: Parts, leniency: Leniency) -> None:
        self._letter = parts.letter
        self._left = parts.parameters
        self._leniency = leniency

    def text(self, key: str) -> str:
        """Take a required text. An enum is one: the two differ in how a relay stores them only."""
        value = self.optional_text(key)
        if value is None:
            raise self._misses(key, "a string")
        return value

    def optional_text(self, key: str) -> str | None:
        """Take a text; ``None`` where it is absent or null."""
        value = self._left.pop(key, None)
        if value is None:
            return None
        if not isinstance(value, str) or isinstance(value, Json):
            raise self._misses(key, "a string")
        return str(value)

    def integer(self, key: str) -> int:
        """Take a required int."""
        value = self.optional_integer(key)
        if value is None:
            raise self._misses(key, "an int")
        return value

    def optional_integer(self, key: str) -> int | None:
        """Take an int; ``None`` where it is absent or null."""
        return self._optional_number(key, int, "an int")

    def sequence(self, key: str) -> int:
        """Take the sequence number of an instruction, which may also be a long."""
        value = self._left.pop(key, None)
        if not isinstance(value, int) or isinstance(value, bool | Utc):
            raise self._misses(key, "a number")
        return int(value)

    def optional_long(self, key: str) -> int | None:
        """Take a long; ``None`` where it is absent or null. A relay rejects ints; documents are silent."""
        return self._optional_number(key, Long, "a long (with L)")

    def _optional_number(self, key: str, of_type: type[int], what: str) -> int | None:
        value = self._left.pop(key, None)
        if value is None:
            return None
        if type(value) is not of_type:
            raise self._misses(key, what)
        return int(value)

    def optional_json(self, key: str) -> Json | None:
        """Take a JSON document; ``None`` where it is absent or null."""
        value = self._left.pop(key, None)
        if value is not None and not isinstance(value, Json):
            raise self._misses(key, "JSON")
        return value

    def has(self, key: str, value: AmiValue) -> bool:
        """Return whether a key has exactly this value."""
        return type(self._left.get(key)) is type(value) and self._left[key] == value

    def forgive(self, deviation: Deviation) -> None:
        """Accept a deviation, as `Leniency.forgive` does."""
        self._leniency.forgive(deviation, self._letter, 0)

    def _misses(self, key: str, what: str) -> ProtocolError:
        return ProtocolError(f"{what} as {key} of {self._letter}", "something else, or nothing")

    def rest(self, passing: str = "") -> dict[str, AmiValue]:
        """Return the parameters that were not taken: those of the application.

        Args:
            passing: one-letter keys that a relay accepts without a definition.

        Raises:
            ProtocolError: one of them is reserved. A relay checks keys of one letter only.
        """
        for key in self._left:
            if len(key) <= 2 and is_reserved(key):  # noqa: PLR2004  cheap test of the length first
                if len(key) == 1 and key not in passing:
                    raise ProtocolError(
                        f"a key that {self._letter} defines, or one that is not reserved", key
                    )
                self._leniency.forgive(Deviation.RESERVED_KEY, key, 0)
        return self._left

    def nothing_left(self) -> None:
        """Raise `ProtocolError` if parameters were not taken."""
        if self._left:
            raise ProtocolError(f"no other key in {self._letter}", f"{len(self._left)}")


assert INT_LIMIT > 10**9  # an int of nine digits needs no check of its size
