"""Splits octets into lines, one instruction or comment each, however the octets are fragmented.

A line ends with LF. The interface document has LF CR, other software sends CR LF: one CR on either side of
a line belongs to its end. A backslash right before the end joins a line with the next one, in quotes and
outside (a relay does so; no document mentions it). Empty lines have no meaning and are dropped.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from gateway.dialects.errors import ProtocolError

IAC: Final = 0xFF
"""The octet that begins a Telnet command (RFC 854). First on a connection, it means a terminal client."""

MAX_COMMAND: Final = 256
"""Octets of one sub-negotiation; longer ones are dropped without a search for their end."""

_BEGIN, _FIRST_OPTION, _LAST_OPTION = 0xFA, 0xFB, 0xFE
_END: Final = b"\xff\xf0"


class Telnet:
    """Removes Telnet commands (RFC 854), also those that arrive in pieces."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, octets: bytes) -> bytes:
        """Return ``octets`` without commands; an unfinished command is kept for the next call."""
        octets = self._held + octets
        self._held = b""
        left = bytearray()
        position = 0
        while (begin := octets.find(IAC, position)) >= 0:
            left += octets[position:begin]
            end = _command_end(octets, begin)
            if end is None:
                self._held = octets[begin:]
                return bytes(left)
            if octets[begin + 1] == IAC:
                left.append(IAC)
            position = end
        return bytes(left + octets[position:])


def _command_end(octets: bytes, begin: int) -> int | None:
    """Return where the command that begins there ends; ``None`` if its end has not arrived."""
    if begin + 1 == len(octets):
        return None
    code = octets[begin + 1]
    if code == _BEGIN:
        end = octets.find(_END, begin + 2, begin + MAX_COMMAND)
        if end >= 0:
            return end + len(_END)
        return begin + MAX_COMMAND if len(octets) - begin >= MAX_COMMAND else None
    end = begin + (3 if _FIRST_OPTION <= code <= _LAST_OPTION else 2)
    return end if end <= len(octets) else None


MAX_LINE: Final = 1 << 20
"""Octets of a line, with all that is joined to it. No document has a bound; a relay's buffer grows."""

Piece: TypeAlias = bytes | ProtocolError
"""A line without its end, or an error in place of a line that was too long."""

_BACKSLASH, _CR = b"\\", b"\r"


class Lines:
    """Splits the octets of one connection into lines.

    Args:
        longest: octets of a line, as `MAX_LINE`. A longer line is not kept: an error takes its place, and the
            rest of it up to its end is dropped, with the lines that would have been joined to it.

    Attributes:
        interactive: whether the first octet was Telnet's, so that a person types (a relay decides the same
            way).
    """

    def __init__(self, longest: int = MAX_LINE) -> None:
        self.interactive = False
        self._longest = longest
        self._begun = False
        self._telnet = Telnet()
        self._joined = bytearray()
        self._partial = bytearray()
        self._skipping = False
        self._tail = b""

    def feed(self, octets: bytes) -> list[Piece]:
        """Return the lines that are complete now, in order. Takes time linear in ``octets``."""
        if not octets:
            return []
        if not self._begun:
            self._begun = True
            self.interactive = octets[0] == IAC
        if self.interactive:
            octets = self._telnet.feed(octets)
        *ended, rest = octets.split(b"\n")
        pieces: list[Piece] = []
        for part in ended:
            self._add(part, pieces)
            if self._skipping:
                self._skipping = self._tail.removesuffix(_CR).endswith(_BACKSLASH)
                self._tail = b""
            else:
                self._end_line(pieces)
        self._add(rest, pieces)
        return pieces

    def end(self) -> int:
        """End the connection; return the number of octets of an unfinished line, which are lost."""
        lost = len(self._joined) + len(self._partial.removeprefix(_CR))
        self._joined.clear()
        self._partial.clear()
        self._skipping = False
        return lost

    def _add(self, part: bytes, pieces: list[Piece]) -> None:
        """Add octets to the unfinished line."""
        if self._skipping:
            self._tail = (self._tail + part[-2:])[-2:]
            return
        self._partial += part
        length = len(self._joined) + len(self._partial)
        if length > self._longest + 2:  # both carriage returns that may belong to line ends
            self._skip(pieces)

    def _skip(self, pieces: list[Piece]) -> None:
        pieces.append(ProtocolError(f"a line of at most {self._longest} octets", "more", self._longest))
        self._skipping = True
        self._tail = bytes(self._partial[-2:])
        self._joined.clear()
        self._partial.clear()

    def _end_line(self, pieces: list[Piece]) -> None:
        line = bytes(self._partial).removeprefix(_CR).removesuffix(_CR)
        self._partial.clear()
        continued = line.endswith(_BACKSLASH)
        if continued or self._joined:
            self._joined += line.removesuffix(_BACKSLASH)
            if continued:
                return
            line = bytes(self._joined)
            self._joined.clear()
        if len(line) > self._longest:
            pieces.append(ProtocolError(f"a line of at most {self._longest} octets", "more", self._longest))
        elif line:
            pieces.append(line)
