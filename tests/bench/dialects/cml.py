"""Inspect-replies as recorded from OpenAMQ; the yardstick is a bare XML parser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import process_time
from typing import Final, TypeVar
from xml.etree import ElementTree as ET

from gateway.dialects.cml.codec import read_message, write_message
from gateway.dialects.cml.messages import InspectReply, Spelling, Status
from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run
from tests.dialects.cml.recordings import replies

_DECODE: Final = Case("cml-decode", "replies/s", Reading.RATE)
_ENCODE: Final = Case("cml-encode", "replies/s", Reading.RATE)
_YARDSTICK: Final = "yardstick"

_Item = TypeVar("_Item")


class CmlPart:
    """The input of a poller and output of a server: the objects of a broker, 20 to 50 fields each."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._times = run.count(40, 1)
        self._bodies: list[bytes] = []
        self._messages: list[InspectReply] = []
        for body in replies():
            message = read_message(body)
            if isinstance(message, InspectReply) and message.status == Status.OK and _agrees(body, message):
                self._bodies.append(body)
                self._messages.append(message)
        # What a parser takes for XML at all ends without the NUL.
        self._xml = [body.removesuffix(b"\0") for body in self._bodies]
        assert len(self._bodies) > 400

    def measure(self) -> None:
        """Measure both rows beside the same parser, which is measured for each."""
        for case, ours in ((_DECODE, self._decode), (_ENCODE, self._encode)):
            self._run.record(case, OURS, ours())
            self._run.record(case, _YARDSTICK, self._rate(_parse, self._xml))

    def _decode(self) -> float:
        return self._rate(read_message, self._bodies)

    def _encode(self) -> float:
        return self._rate(_write, self._messages)

    def _rate(self, do: Callable[[_Item], object], items: Sequence[_Item]) -> float:
        """Return the number of items per second of processor time."""
        start = process_time()
        for _ in range(self._times):
            for item in items:
                do(item)
        return self._times * len(items) / (process_time() - start)


def _parse(body: bytes) -> object:
    return ET.fromstring(body)  # noqa: S314  recorded


def _write(message: InspectReply) -> bytes:
    return write_message(message, Spelling.OPENAMQ)


def _agrees(body: bytes, message: InspectReply) -> bool:
    """Return whether it is XML to a parser; assert equal fields, and that it is written to the octet."""
    try:
        root = ET.fromstring(body.removesuffix(b"\0"))  # noqa: S314  recorded
    except ET.ParseError:
        return False  # undeclared entities, which is why no parser of XML is used
    found = [(field.attrib["name"], (field.text or "").replace("\n", "\r")) for field in root[0]]
    assert found == [(field.name, str(field.text).replace("\n", "\r")) for field in message.fields]
    assert _write(message) == body
    return True
