"""The text exposition format of Prometheus, read piece by piece as it arrives. Without I/O.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format. RabbitMQ writes all
samples of a metric in one block after its ``# TYPE`` line. A block that is not wanted is passed over without
a look at its lines, and a wanted one is split by one regular expression: a broker with 20,000 queues answers
with hundreds of thousands of lines.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gateway.dialects.errors import ProtocolError

MAX_LINE_BYTES: Final = 64 * 1024
"""RabbitMQ's names have at most 255 bytes; a line has two or three of them, escaped."""
MAX_LABELS: Final = 16

_TYPE: Final = b"\n# TYPE "
_PLAIN_LINE: Final = re.compile(
    rb"[ \t]*(?:#.*|([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?[ \t]+([^\s{}]+)(?:[ \t]+-?\d+)?[ \t\r]*)?"
)
_LABEL: Final = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(,|$)', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)

Number = int | float


@dataclass(frozen=True, slots=True)
class Samples:
    """Some samples of one metric, in the order of their lines: labels as written, and the value's text."""

    metric: str
    samples: list[tuple[bytes, bytes]]


class ExpositionReader:
    """Splits an exposition into samples.

    Args:
        wanted: names of the metrics whose samples are of interest.

    Attributes:
        metrics: the names of those whose ``# TYPE`` was read, with samples or without.
    """

    def __init__(self, wanted: Collection[str]) -> None:
        self._wanted = {name.encode(): name for name in wanted}
        # A line break before the first line makes all lines alike.
        self._rest = b"\n"
        self.metrics: set[str] = set()
        self._metric = b""
        self._read = 0

    def feed(self, part: bytes) -> list[Samples]:
        """The samples of the lines that ``part`` completes.

        Raises:
            ProtocolError: a line is none of the format, or longer than `MAX_LINE_BYTES`.
        """
        text = self._rest + part
        self._read += len(part)
        end = text.rfind(b"\n")
        if len(text) - end > MAX_LINE_BYTES:
            raise ProtocolError(f"a line of at most {MAX_LINE_BYTES} bytes", "more", self._read)
        # The last line break stays: it begins the next line.
        self._rest = text[end:]
        found: list[Samples] = []
        first, *blocks = text[:end].split(_TYPE)
        self._take(first, found)
        for block in blocks:
            heading, separator, lines = block.partition(b"\n")
            self._metric = heading.partition(b" ")[0]
            if self._metric in self._wanted:
                self.metrics.add(self._wanted[self._metric])
            if lines.startswith(b"# HELP "):
                _, separator, lines = lines.partition(b"\n")
            self._take(separator + lines, found)
        return found

    def finish(self) -> None:
        """The body has ended.

        Raises:
            ProtocolError: it ended within a line.
        """
        if len(self._rest) > 1:
            raise ProtocolError("the end of a line", "the end of the body", self._read)

    def _take(self, lines: bytes, found: list[Samples]) -> None:
        """Take the lines of a block, each with a line break before it."""
        if not lines or (self._metric and self._metric not in self._wanted):
            return
        samples: list[tuple[bytes, bytes]] = []
        if self._metric:
            samples = _block_pattern(self._metric).findall(lines)
            if len(samples) == lines.count(b"\n"):
                found.append(Samples(self._wanted[self._metric], samples))
                return
        self._take_singly(lines, found)

    def _take_singly(self, lines: bytes, found: list[Samples]) -> None:
        """Take lines of any sort: comments, other metrics, samples without labels or with a time."""
        for line in lines[1:].split(b"\n"):
            match = _PLAIN_LINE.fullmatch(line)
            if match is None:
                raise ProtocolError("a line of the exposition format", repr(line[:80]), self._read)
            name, labels, value = match.groups()
            if name not in self._wanted:
                continue
            if not found or found[-1].metric != self._wanted[name]:
                found.append(Samples(self._wanted[name], []))
            found[-1].samples.append((labels or b"", value))


@lru_cache(maxsize=256)
def _block_pattern(metric: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"\n" + re.escape(metric) + rb"\{(.*)\} ([^\s{}]+)(?=\n|\Z)")


def value_of(text: bytes) -> Number | None:
    """The number that a sample's text stands for; ``None`` for NaN and infinities, which say nothing.

    Raises:
        ProtocolError: it is no number.
    """
    try:
        # Digits only: int() would take underscores, too.
        if text.isdigit():
            return int(text)
        number = float(text)
    except ValueError:
        number = None
    if number is None or b"_" in text:
        raise ProtocolError("a number", repr(text[:40]))
    if number != number or number in {float("inf"), float("-inf")}:  # noqa: PLR0124  NaN differs from itself
        return None
    return int(number) if number.is_integer() else number


def labels_of(text: bytes) -> dict[str, str]:
    """The labels of a sample, by name.

    Raises:
        ProtocolError: they are not as the format has them, or not UTF-8.
    """
    labels: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _LABEL.match(text, position)
        if match is None or len(labels) >= MAX_LABELS:
            raise ProtocolError("labels", repr(text[:80]))
        try:
            value = match[2].decode()
        except UnicodeDecodeError:
            raise ProtocolError("labels in UTF-8", repr(text[:80])) from None
        labels[match[1].decode()] = _ESCAPE.sub(_unescaped, value) if "\\" in value else value
        position = match.end()
    return labels


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
