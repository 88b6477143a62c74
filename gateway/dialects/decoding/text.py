"""Bodies of CML and of AMI, which need nothing that was said before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.dialects.ami.instructions import Comment, Instruction
from gateway.dialects.ami.lines import Lines
from gateway.dialects.ami.reader import read_line
from gateway.dialects.ami.writer import LineEnd, write_instruction
from gateway.dialects.cml.messages import Spelling, UnknownCommand
from gateway.dialects.cml.reader import read_message
from gateway.dialects.cml.safety import Assurance
from gateway.dialects.cml.writer import write_message
from gateway.dialects.decoding.body import Body, Decoded
from gateway.dialects.decoding.plain import Plain, message, plain
from gateway.dialects.errors import LocalProtocolError, ProtocolError

_ASSURED: Final = frozenset(Assurance)


class CmlDecoder:
    """See `Decoder`."""

    def decode(self, body: Body) -> Decoded:
        """See `Decoder.decode`."""
        told = read_message(body.octets)
        shown = [message(told)]
        if isinstance(told, UnknownCommand):
            return Decoded(shown, None)
        written: list[bytes] = []
        for spelling in Spelling:
            try:
                written.append(write_message(told, spelling, _ASSURED))
            except LocalProtocolError:
                continue
        # Some end a request with a NUL, and some do not.
        same = body.octets in written or body.octets.removesuffix(b"\0") in written
        return Decoded(shown, same if written else None)


class AmiDecoder:
    """See `Decoder`; a body is any number of whole lines. Each is read as relays read it."""

    def decode(self, body: Body) -> Decoded:
        """See `Decoder.decode`."""
        lines = Lines()
        pieces = lines.feed(body.octets)
        if not body.octets.endswith(b"\n"):
            pieces += lines.feed(b"\n")
        shown: list[dict[str, Plain]] = []
        results: list[bool | None] = []
        for number, piece in enumerate(pieces, 1):
            if isinstance(piece, ProtocolError):
                raise piece
            try:
                received = read_line(piece)
            except ProtocolError as error:
                where = f"{error.expected} in line {number}"
                raise ProtocolError(where, error.found, error.offset) from error
            found = message(received.instruction)
            if received.deviations:
                found["deviations"] = plain(received.deviations)
            shown.append(found)
            results.append(_is_written_again(received.instruction, piece))
        return Decoded(shown, _all(results))


def _is_written_again(instruction: Instruction | Comment, line: bytes) -> bool | None:
    if isinstance(instruction, Comment):
        return None
    try:
        return write_instruction(instruction, LineEnd.UNIX) == line + b"\n"
    except LocalProtocolError:
        return None


def _all(results: Iterable[bool | None]) -> bool | None:
    """Of several lines: false if one is, else unknown if one is."""
    known = list(results)
    if False in known:
        return False
    return None if None in known or not known else True
