"""Telnet's commands, taken out of what an interactive client sends (RFC 854)."""

from __future__ import annotations

from typing import Final

IAC: Final = 0xFF
"""The octet that begins a command; at the begin of a connection it tells that the client is a terminal."""

MAX_COMMAND: Final = 256
"""Octets of one sub-negotiation; more than that are dropped without looking for its end."""

_BEGIN, _FIRST_OPTION, _LAST_OPTION = 0xFA, 0xFB, 0xFE
_END: Final = b"\xff\xf0"


class Telnet:
    """Takes the commands out, also those that come in pieces."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, octets: bytes) -> bytes:
        """Return what is left of ``octets``; an unfinished command is kept for the next call."""
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
    """Where the command ends that begins there; ``None`` if its end has not come."""
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
