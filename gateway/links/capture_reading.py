"""Reads the file of a capture, which may come from any place: a line is what the format says, or an error."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from gateway.dialects.session import Delivery, Send
from gateway.links.capture_file import VERSION, CaptureHead

LONGEST_LINE: Final = 256 << 20
"""Octets; a body of 128 MiB fits."""
_LARGEST_INTEGER: Final = 2**63

_Value = TypeVar("_Value", str, int, bool)


class CaptureError(Exception):
    """A capture cannot be read; the text says which line, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line.

    Attributes:
        line: its number, from 1.
        told: what it says.
    """

    line: int
    told: Mapping[str, Any]

    @property
    def time(self) -> int:
        """Nanoseconds since 1970."""
        return self.value("ns", int)

    @property
    def event(self) -> str:
        """What happened, empty for something that was received or sent."""
        return self.value("event", str, "")

    @property
    def body(self) -> bytes:
        """What was received or sent."""
        if self.value("omitted", bool, False):
            raise CaptureError(f"line {self.line}: its body was too large to be captured")
        try:
            return base64.b64decode(self.value("body_b64", str), validate=True)
        except (binascii.Error, ValueError) as error:
            raise CaptureError(f"line {self.line}: 'body_b64' is not base64") from error

    def value(self, name: str, kind: type[_Value], default: _Value | None = None) -> _Value:
        """A field.

        Raises:
            CaptureError: it is missing and has no default, or is of another type.
        """
        value: object = self.told.get(name, default)
        bounded = 0 <= value < _LARGEST_INTEGER if isinstance(value, int) else True
        if type(value) is kind and bounded:
            return value
        raise CaptureError(f"line {self.line}: '{name}' is not {_NAMES[kind]}")

    def records(self, name: str) -> Iterator[Record]:
        """A field that is a list of records, empty if it is missing.

        Raises:
            CaptureError: it is something else.
        """
        values = self.told.get(name, [])
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise CaptureError(f"line {self.line}: '{name}' is not a list of objects")
        return (Record(self.line, value) for value in values)

    def delivery(self) -> Delivery:
        """A message that was received.

        Raises:
            CaptureError: it is none.
        """
        return Delivery(
            self.value("exchange", str),
            self.value("routing_key", str),
            self.body,
            **{name: self.value(name, str, "") for name in _DELIVERY_TEXTS},
            timestamp=self.value("timestamp", int, 0),
            expiration=self.value("expiration", int, 0),
        )

    def send(self) -> Send:
        """A message that was sent, or was to be.

        Raises:
            CaptureError: it is none.
        """
        return Send(
            self.value("exchange", str),
            self.value("routing_key", str),
            self.body,
            **{name: self.value(name, str, "") for name in _SEND_TEXTS},
            expiration=self.value("expiration", int, 0),
            not_after=self.value("not_after", int, 0),
            persistent=self.value("persistent", bool, False),
            mandatory=self.value("mandatory", bool, False),
        )


_NAMES: Final = {str: "a text", int: "a whole number below 2^63", bool: "true or false"}
_DELIVERY_TEXTS: Final = ("reply_to", "user_id", "content_type", "correlation_id", "message_id")
_SEND_TEXTS: Final = ("reply_to", "content_type", "correlation_id", "message_id")


@dataclass(frozen=True, slots=True)
class Capture:
    """A file that was opened.

    Attributes:
        head: what its first line says.
        first: the first line.
        records: the others, read as they are asked for; a last line that was not finished is left out.
    """

    head: CaptureHead
    first: Record
    records: Iterator[Record]


def read_capture(file: BinaryIO) -> Capture:
    """The content of a file of a capture.

    Raises:
        CaptureError: it is none. Reading further records may raise it too.
    """
    lines = _records(file)
    first = next(lines, None)
    if first is None:
        raise CaptureError("there is no whole line in it: it is empty, or was cut off")
    if first.told.get("capture") != VERSION:
        raise CaptureError(f"line 1: 'capture' is not {VERSION}: this is not a capture, or a newer one")
    head = CaptureHead(
        first.value("source", str),
        first.value("dialect", str),
        first.value("received", str),
        first.value("sent", str),
        first.value("part", int),
        first.time,
    )
    return Capture(head, first, lines)


@contextmanager
def opened_capture(path: Path) -> Iterator[Capture]:
    """The capture whose newest file this is, from the beginning of its session as far as that is kept.

    Lines are counted through all its files, the oldest first.

    Raises:
        CaptureError: it is none.
        OSError: a file cannot be read.
    """
    with ExitStack() as files:
        parts: list[Capture] = []
        for older in reversed(captured_files(path)):
            try:
                part = read_capture(files.enter_context(older.open("rb")))
            except CaptureError:
                if parts:
                    break  # something else of that name
                raise
            if parts and not _precedes(part.head, parts[0].head):
                break
            parts.insert(0, part)
            if part.head.part == 1:
                break
        yield Capture(parts[0].head, parts[0].first, _of_all(parts))


def _precedes(older: CaptureHead, newer: CaptureHead) -> bool:
    return (older.source, older.dialect, older.part) == (newer.source, newer.dialect, newer.part - 1)


def _of_all(parts: Sequence[Capture]) -> Iterator[Record]:
    before = 0
    for part in parts:
        number = 1
        for record in part.records:
            number = record.line
            yield Record(before + number, record.told)
        before += number


def captured_files(path: Path) -> list[Path]:
    """Those of one capture that are there, the oldest first."""
    older = [found for found in path.parent.glob(f"{path.name}.*") if found.suffix[1:].isdecimal()]
    return [*sorted(older, key=lambda found: -int(found.suffix[1:])), path]


def _records(file: BinaryIO) -> Iterator[Record]:
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if not line.endswith(b"\n"):
            if len(line) > LONGEST_LINE:
                raise CaptureError(f"line {number}: it is longer than {LONGEST_LINE} octets")
            return
        try:
            told = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CaptureError(f"line {number}: it is not JSON") from error
        if not isinstance(told, dict):
            raise CaptureError(f"line {number}: it is not a JSON object")
        yield Record(number, told)
