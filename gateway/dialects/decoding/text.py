"""Decodes bodies of CML and AMI, which need no earlier ones, except for an unfinished line."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from typing import Final

from gateway.dialects.ami.codec import LineEnd, read_line, write_instruction
from gateway.dialects.ami.instructions import Comment, Instruction
from gateway.dialects.ami.lines import Lines, Piece
from gateway.dialects.cml.codec import read_message, write_message
from gateway.dialects.cml.messages import Message, Request, Spelling, UnknownCommand
from gateway.dialects.cml.safety import Assurance
from gateway.dialects.decoding.plain import Body, Decoded, Plain, message, plain
from gateway.dialects.errors import LocalProtocolError, ProtocolError

_ASSURED: Final = frozenset(Assurance)

MAX_OCTETS: Final = 8 << 20
"""Largest number of octets of an AMI body: the result may be a hundred times as large."""
MAX_LINES: Final = 100_000
"""Largest number of instructions and comments of an AMI body."""
MAX_STREAMS: Final = 64
"""Streams whose unfinished line is kept; beyond it the one that was read longest ago is forgotten."""


class CmlDecoder:
    """Decodes CML; see `Decoder`."""

    def decode(self, body: Body) -> Decoded:
        """Return the message of a body; see `Decoder.decode`."""
        received = read_message(body.octets)
        shown = [message(received)]
        if isinstance(received, UnknownCommand):
            return Decoded(shown, None)
        written: list[bytes] = []
        for spelling in Spelling:
            try:
                written.append(write_message(received, spelling, _ASSURED))
            except LocalProtocolError:
                continue
        return Decoded(shown, _is_among(written, body.octets, received) if written else None)


def _is_among(written: Iterable[bytes], octets: bytes, received: Message) -> bool:
    """Return whether ``octets`` were written; a request may end with a NUL (as OpenAMQ's do) or not."""
    if not isinstance(received, Request):
        return octets in written
    return octets.removesuffix(b"\0") in {one.removesuffix(b"\0") for one in written}


class AmiDecoder:
    """Decodes AMI; see `Decoder`. A body is whole lines, or a part of a stream, whose lines may continue.

    Lines are read leniently, as relays do.
    """

    def __init__(self) -> None:
        self._streams: OrderedDict[str, Lines] = OrderedDict()

    def decode(self, body: Body) -> Decoded:
        """Return the instructions of a body; see `Decoder.decode`."""
        if len(body.octets) > MAX_OCTETS:
            raise ProtocolError(f"at most {MAX_OCTETS} octets of lines", f"{len(body.octets)}")
        if not body.stream:
            return _read(_numbered(body.octets), body.octets)
        pieces = self._lines_of(body.stream).feed(body.octets)
        octets = b"".join(piece + b"\n" for piece in pieces if isinstance(piece, bytes))
        return _read(enumerate(pieces, 1), octets)

    def _lines_of(self, stream: str) -> Lines:
        lines = self._streams.setdefault(stream, Lines())
        self._streams.move_to_end(stream)
        if len(self._streams) > MAX_STREAMS:
            self._streams.popitem(last=False)
        return lines


def _read(pieces: Iterable[tuple[int, Piece]], octets: bytes) -> Decoded:
    shown: list[dict[str, Plain]] = []
    instructions: list[Instruction | Comment] = []
    for number, piece in pieces:
        if isinstance(piece, ProtocolError):
            raise piece
        if len(shown) == MAX_LINES:
            raise ProtocolError(f"at most {MAX_LINES} lines", "more")
        try:
            received = read_line(piece)
        except ProtocolError as error:
            where = f"{error.expected} in line {number}"
            raise ProtocolError(where, error.found, error.offset) from error
        found = message(received.instruction)
        if received.deviations:
            found["deviations"] = plain(received.deviations)
        shown.append(found)
        instructions.append(received.instruction)
    return Decoded(shown, _are_written_again(instructions, octets))


def _numbered(octets: bytes) -> Iterator[tuple[int, Piece]]:
    """Yield lines, each with the number of the body's line in which it ends."""
    lines = Lines()
    number = 0
    for number, line in enumerate(BytesIO(octets), 1):
        for piece in lines.feed(line):
            yield number, piece
    # The last line may lack its end, or end with a backslash.
    for piece in lines.feed(b"\n\n"):
        yield number, piece


def _are_written_again(instructions: Sequence[Instruction | Comment], octets: bytes) -> bool | None:
    """Return whether these are the written lines, with either line end; the last line may lack it."""
    if not instructions:
        return None
    for end in LineEnd:
        written: list[bytes] = []
        for instruction in instructions:
            if isinstance(instruction, Comment):
                return None
            try:
                written.append(write_instruction(instruction, end))
            except LocalProtocolError:
                return None
        whole = b"".join(written)
        if octets in {whole, whole.removesuffix(end.value)}:
            return True
    return False
