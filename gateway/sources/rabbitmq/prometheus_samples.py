"""Reads Prometheus' text exposition format as it arrives, and puts its samples together by object.

Without I/O.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format. RabbitMQ writes all
samples of a metric in one block after its ``# TYPE`` line. A block that is not wanted is skipped without a
look at its lines, and a wanted one is split by one regular expression: a broker with 20,000 queues answers
with hundreds of thousands of lines.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlencode

from gateway.dialects.errors import ProtocolError
from gateway.model.schema import Kind
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.reading import ClassReader
from gateway.sources.rabbitmq.source_config import LONGEST_INTERVAL

MAX_LINE_BYTES: Final = 64 * 1024
"""Maximum length of a line; it has two or three of RabbitMQ's names of at most 255 bytes, escaped."""
MAX_LABELS: Final = 16

_INTERVAL: Final = 30 * SECOND
"""Nanoseconds between two readings of one node that are not urgent, if the cost allows."""
_RETRY: Final = 60 * SECOND

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
        wanted: the names of the metrics whose samples are wanted.

    Attributes:
        metrics: the names of those whose ``# TYPE`` line was read, with samples or without.
    """

    def __init__(self, wanted: Collection[str]) -> None:
        self._wanted = {name.encode(): name for name in wanted}
        # A line break before the first line makes all lines alike.
        self._rest = b"\n"
        self.metrics: set[str] = set()
        self._metric = b""
        self._read = 0

    def feed(self, part: bytes) -> list[Samples]:
        """Return the samples of the lines that ``part`` completes.

        Raises:
            ProtocolError: a line does not have the format, or longer than `MAX_LINE_BYTES`.
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
        """Take the end of the body.

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
    """Return the number in a sample's text; ``None`` for NaN and infinities, which are no measurements.

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
    """Return the labels of a sample, by name.

    Raises:
        ProtocolError: they do not have the format, are too many, or are not UTF-8.
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


PREFIX: Final = "rabbitmq_detailed_"
IDENTITY: Final = "rabbitmq_identity_info"
"""The metric whose labels name the node that answers, and its cluster."""
MAX_ROWS: Final = 1_000_000
"""Maximum number of sets of labels in one answer; 500,000 queues have two each."""
_SLICE: Final = 500
"""Number of rows that are processed at a time, in about a millisecond."""

Row: TypeAlias = list[Number | None]
"""The values of an object by column; ``None`` if the node has no sample."""


def identity_of(samples: Samples) -> tuple[str, str]:
    """Return the names of the node that answers and of its cluster; each is empty if it is missing.

    Raises:
        ProtocolError: the labels are invalid.
    """
    labels = labels_of(samples.samples[-1][0]) if samples.samples else {}
    return labels.get("rabbitmq_node", ""), labels.get("rabbitmq_cluster", "")


class LabelledColumns:
    """Metrics of objects of a class, each of which is a column.

    Args:
        reader: the reader of the class, whose rule has ``metrics``.
        names: the full names of the metrics.

    Attributes:
        numbers: the column of each metric, by its full name.
        summed: the columns that every node must have, and that are added up over the nodes.
    """

    def __init__(self, reader: ClassReader, names: Iterable[str]) -> None:
        self.class_name = reader.schema.key.name
        self.labels = reader.rule.metrics.labels if reader.rule.metrics else ()
        self.numbers: Mapping[str, int] = {name: number for number, name in enumerate(names)}
        self.summed: frozenset[int] = frozenset()

    def name_of(self, labels: bytes) -> ObjectName | None:
        """Return the name of the object in a sample's labels; ``None`` if they have none.

        Raises:
            ProtocolError: the labels are invalid.
        """
        found = labels_of(labels)
        parts = tuple(found[label] for label in self.labels if label in found)
        return ObjectName(self.class_name, parts) if len(parts) == len(self.labels) else None


class Columns(LabelledColumns):
    """The metrics that are read for a class, and the statistics that are computed from them.

    Args:
        reader: the reader of the class, whose rule has ``metrics``.

    Attributes:
        terms: the position of each statistic, and the columns whose sum is its value.
        counters: the positions of those that are counters.
        unused: by position, the value of a counter without a sample, which has counted nothing.
        lapsing: the positions of the statistics that are removed when a metric changes.
        dear: the columns that an answer without the dear families lacks.
    """

    def __init__(self, reader: ClassReader) -> None:
        rules, elements = reader.rule.statistics, reader.schema.statistics
        metrics = {
            position: tuple(f"{PREFIX}{name}" for name in rules[element.name].metric.split(" + "))
            for position, element in enumerate(elements)
            if rules[element.name].metric
        }
        super().__init__(reader, dict.fromkeys(name for group in metrics.values() for name in group))
        self.terms = tuple(
            (position, tuple(self.numbers[name] for name in group)) for position, group in metrics.items()
        )
        self.counters = frozenset(position for position in metrics if elements[position].kind is Kind.COUNTER)
        self.summed = frozenset(
            column for position, columns in self.terms if position in self.counters for column in columns
        )
        """Columns of counters, which every node counts for itself."""
        self.unused = {position: rules[elements[position].name].unused for position in self.counters}
        self.lapsing = tuple(
            position for position, element in enumerate(elements) if rules[element.name].lapses
        )
        dear = reader.rule.metrics.dear if reader.rule.metrics else None
        self.dear = frozenset(
            column
            for name, column in self.numbers.items()
            if dear is not None and name.removeprefix(PREFIX) in dear.metrics
        )


@dataclass(frozen=True, slots=True)
class ScrapeRequest:
    """A request for metrics of a node: those of the objects of one class, or its totals.

    Attributes:
        url: the URL at which the node answers: ``http://host:15692``.
        families: the families that are wanted of each object; none for the totals.
        node: the name of the node, which its answer must contain; empty if any name is accepted.
        whole: the dear families are requested, too.
    """

    url: str
    families: tuple[str, ...]
    node: str = ""
    whole: bool = True

    @property
    def address(self) -> str:
        """The complete URL."""
        base = f"{self.url.rstrip('/')}/metrics"
        query = urlencode([("family", family) for family in self.families])
        return f"{base}/detailed?{query}" if query else base

    def accepts(self, node: str) -> bool:
        """Return whether an answer of the node of this name answers the request."""
        return not self.node or node == self.node


class NodePace:
    """The schedule of one kind of metrics that are not urgent: each node as often as a share of time allows.

    Args:
        families: the families that are requested of each node; none for the totals.
        share: share of time that reading all nodes may take.
        longest_interval: the longest nanoseconds between two readings of a node.

    Attributes:
        families: the families that are requested.
        due: when each request is due (ns).
        bearable: the shortest interval of one node within the share (ns); 0 before the first answer.
        interval: current nanoseconds from one reading of a node to the next; 0 before the first.
        spent: share of time that reading all nodes takes.
    """

    def __init__(
        self, families: tuple[str, ...], share: float, longest_interval: int = LONGEST_INTERVAL
    ) -> None:
        self.due: dict[ScrapeRequest, int] = {}
        self.bearable = 0
        self.interval = 0
        self.spent = 0.0
        self.families = families
        self._share = share
        self._longest_interval = longest_interval
        self._answered: dict[ScrapeRequest, str] = {}
        self._read: dict[ScrapeRequest, int] = {}

    def read_at(self, wanted: Collection[ScrapeRequest] | None = None) -> int:
        """Return when the node among ``wanted`` answered whose answer is the oldest (ns); 0 for none."""
        asked = self._answered if wanted is None else self._answered.keys() & set(wanted)
        return min((self._read[request] for request in asked), default=0)

    def learn(self, nodes: Mapping[str, str]) -> bool:
        """Set the nodes that can be asked now; known ones keep their time, new ones are due.

        Args:
            nodes: the URL of each node by its name, or by the URL itself if the name is unknown.

        Returns:
            Whether a node that had answered is not among them any more.
        """
        requests = [
            ScrapeRequest(url, self.families, "" if node == url else node) for node, url in nodes.items()
        ]
        self.due = {request: self.due.get(request, 0) for request in requests}
        if not self.due:
            self.interval, self.spent = 0, 0.0
        lost = self._answered.keys() - self.due.keys()
        for request in lost:
            del self._answered[request], self._read[request]
        return bool(lost)

    @property
    def nodes(self) -> frozenset[str]:
        """The names of the nodes of which the last request was answered."""
        return frozenset(self._answered.values())

    def node_of(self, request: ScrapeRequest) -> str:
        """Return the name of the node that answers a request; empty if that is unknown."""
        return request.node or self._answered.get(request, "")

    def next_request(self, now: int, wanted: Collection[ScrapeRequest] | None = None) -> ScrapeRequest | None:
        """Return the request among ``wanted`` (all by default) to send now; ``None`` while none is due."""
        request = min(self.due if wanted is None else wanted, key=self.due.__getitem__, default=None)
        return request if request is not None and self.due[request] <= now else None

    def answered(self, request: ScrapeRequest, node: str, ended: int, spent: int) -> bool:
        """Take note of an answer.

        Args:
            request: the request.
            node: the name of the node that answered.
            ended: when the answer had arrived (ns).
            spent: nanoseconds for which the node was busy.

        Returns:
            Whether the request is still wanted.
        """
        if request not in self.due:
            return False
        cost = spent * len(self.due)
        self.bearable = min(int(cost / self._share), self._longest_interval)
        self.interval = max(_INTERVAL, self.bearable)
        self.spent = cost / self.interval
        self.due[request] = ended + self.interval
        self._answered[request], self._read[request] = node, ended
        return True

    def failed(self, request: ScrapeRequest, ended: int) -> bool:
        """Take note that a node gave no metrics; return whether it had answered the last time."""
        if request in self.due:
            self.due[request] = ended + _RETRY
        self._read.pop(request, None)
        return self._answered.pop(request, None) is not None


@dataclass(frozen=True, slots=True)
class NotScraped:
    """The failure of a request for metrics; ``reason`` is one line for people."""

    reason: str


class NodeSheet:
    """The metrics of one node, as they arrive.

    Args:
        columns: the metrics that are wanted.

    Attributes:
        columns: the same.
        node: the name of the node that answered; empty until it was received.
        cluster: the name of its cluster; empty if it has not named it.
        values: the node's values of each object; filled by `resolve`.
    """

    def __init__(self, columns: LabelledColumns) -> None:
        self.columns = columns
        self._reader = ExpositionReader([*columns.numbers, IDENTITY])
        self._rows: dict[bytes, Row] = {}
        self.node = self.cluster = ""
        self.values: dict[ObjectName, Row] = {}

    def feed(self, part: bytes) -> None:
        """Take some bytes of the body.

        Raises:
            ProtocolError: they do not have the exposition format, or too many sets of labels.
        """
        for samples in self._reader.feed(part):
            if samples.metric == IDENTITY:
                self.node, self.cluster = identity_of(samples)
            else:
                self._take(self.columns.numbers[samples.metric], samples)

    def finish(self) -> None:
        """Take the end of the body.

        Raises:
            ProtocolError: it is incomplete, or lacks metrics that are counters in the mapping.
        """
        self._reader.finish()
        if not self.node:
            raise ProtocolError("the name of the node", f"no {IDENTITY}")
        for name, column in self.columns.numbers.items():
            if column in self.columns.summed and name not in self._reader.metrics:
                missing = f"no {name.removeprefix(PREFIX)}"
                raise ProtocolError("counters of queues, which RabbitMQ has since 4.0", missing)

    def resolve(self, names: dict[bytes, ObjectName | None]) -> Iterator[None]:
        """Put the values together by object, in steps of about a millisecond.

        Args:
            names: the objects by their labels, as far as they are known; new ones are added.

        Raises:
            ProtocolError: labels are invalid.
        """
        for number, (labels, row) in enumerate(self._rows.items()):
            if labels not in names:
                names[labels] = self.columns.name_of(labels)
            name = names[labels]
            if name is not None:
                known = self.values.get(name)
                self.values[name] = row if known is None else list(map(_added, known, row))
            if number % _SLICE == _SLICE - 1:
                yield
        self._rows = {}

    def _take(self, column: int, samples: Samples) -> None:
        rows, width = self._rows, len(self.columns.numbers)
        for labels, text in samples.samples:
            row = rows.get(labels)
            if row is None:
                row = rows[labels] = [None] * width
            # Most values are plain digits; this runs hundreds of thousands of times for one answer.
            row[column] = int(text) if text.isdigit() else value_of(text)
        if len(rows) > MAX_ROWS:
            raise ProtocolError(f"at most {MAX_ROWS} sets of labels", "more")


class Sheet(Protocol):
    """An object that takes a node's metrics as they arrive, and puts them together.

    Attributes:
        node: the name of the node that answered; empty until it was received.
        cluster: the name of its cluster; empty if it has not named it.
    """

    node: str
    cluster: str

    def feed(self, part: bytes) -> None:
        """Take some bytes of the body."""
        ...

    def finish(self) -> None:
        """Take the end of the body."""
        ...

    def resolve(self, names: dict[bytes, ObjectName | None]) -> Iterator[None]:
        """Put the values together, in steps of about a millisecond."""
        ...


@dataclass(frozen=True, slots=True)
class Scraped:
    """The metrics of a node.

    Attributes:
        sheet: the values, resolved.
        waited: nanoseconds until the answer began.
        busy: nanoseconds for which the broker may have been busy, without our own time to read the answer.
        size: bytes of the answer.
    """

    sheet: Sheet
    waited: int
    busy: int
    size: int


def _added(one: Number | None, other: Number | None) -> Number | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other
