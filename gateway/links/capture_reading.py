"""Reads the file of a capture, which is not trusted: a line has the documented form, or raises an error."""

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
"""Octets of a line; a body of 128 MiB fits."""
_LARGEST_INTEGER: Final = 2**63

_Value = TypeVar("_Value", str, int, bool)


class CaptureError(Exception):
    """A capture cannot be read; the text has the line and the error."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a capture.

    Attributes:
        line: its number, from 1.
        fields: the fields of the line.
    """

    line: int
    fields: Mapping[str, Any]

    @property
    def time(self) -> int:
        """The time of the record, nanoseconds since 1970."""
        return self.value("ns", int)

    @property
    def event(self) -> str:
        """The name of the event; empty for a message that was received or sent."""
        return self.value("event", str, "")

    @property
    def body(self) -> bytes:
        """The body that was received or sent; raises `CaptureError` where it is missing or invalid."""
        if self.value("omitted", bool, False):
            raise CaptureError(f"line {self.line}: its body was too large to be captured")
        try:
            return base64.b64decode(self.value("body_b64", str), validate=True)
        except (binascii.Error, ValueError) as error:
            raise CaptureError(f"line {self.line}: 'body_b64' is not base64") from error

    def value(self, name: str, kind: type[_Value], default: _Value | None = None) -> _Value:
        """Return a field.

        Raises:
            CaptureError: it is missing and has no default, or is of another type.
        """
        value: object = self.fields.get(name, default)
        bounded = 0 <= value < _LARGEST_INTEGER if isinstance(value, int) else True
        if type(value) is kind and bounded:
            return value
        raise CaptureError(f"line {self.line}: '{name}' is not {_NAMES[kind]}")

    def records(self, name: str) -> Iterator[Record]:
        """Return a field that is a list of records, empty if it is missing.

        Raises:
            CaptureError: it is not such a list.
        """
        values = self.fields.get(name, [])
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise CaptureError(f"line {self.line}: '{name}' is not a list of objects")
        return (Record(self.line, value) for value in values)

    def delivery(self) -> Delivery:
        """Return the message that was received.

        Raises:
            CaptureError: it is not a message.
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
        """Return the message that was sent, or was to be sent.

        Raises:
            CaptureError: it is not a message.
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
    """An open capture.

    Attributes:
        head: the contents of its first line.
        first: the first line.
        records: the other lines, read on demand; an unfinished last line is left out.
    """

    head: CaptureHead
    first: Record
    records: Iterator[Record]


def read_capture(file: BinaryIO) -> Capture:
    """Return the contents of a file of a capture.

    Raises:
        CaptureError: it is not one. Reading further records may raise it, too.
    """
    lines = _records(file)
    first = next(lines, None)
    if first is None:
        raise CaptureError("there is no whole line in it: it is empty, or was cut off")
    if first.fields.get("capture") != VERSION:
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
    """Return the capture with this newest file, from the beginning of its session if that is kept.

    Lines are counted over all its files, the oldest first.

    Raises:
        CaptureError: it is not a capture.
        OSError: a file cannot be read.
    """
    with ExitStack() as files:
        parts: list[Capture] = []
        for older in reversed(captured_files(path)):
            try:
                part = read_capture(files.enter_context(older.open("rb")))
            except CaptureError:
                if parts:
                    break  # another file with such a name
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
            yield Record(before + number, record.fields)
        before += number


def captured_files(path: Path) -> list[Path]:
    """Return the existing files of one capture, the oldest first."""
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
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CaptureError(f"line {number}: it is not JSON") from error
        if not isinstance(fields, dict):
            raise CaptureError(f"line {number}: it is not a JSON object")
        yield Record(number, fields)
