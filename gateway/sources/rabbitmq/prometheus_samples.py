"""What one node answers to a request for Prometheus' metrics, put together by object. Without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlencode

from gateway.dialects.errors import ProtocolError
from gateway.model.schema import Kind
from gateway.sources.rabbitmq.exposition import ExpositionReader, Number, Samples, labels_of, value_of
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.reading import ClassReader

PREFIX: Final = "rabbitmq_detailed_"
IDENTITY: Final = "rabbitmq_identity_info"
"""The metric whose labels name the node that answers."""
MAX_ROWS: Final = 1_000_000
"""Sets of labels in one answer; 500,000 queues have two each."""
_SLICE: Final = 500
"""Rows taken together, in about a millisecond."""

Row: TypeAlias = list[Number | None]
"""Values by column; ``None`` where the node has no sample."""


class LabelledColumns:
    """Metrics of objects of a class, each of which is a column.

    Args:
        reader: the class, whose rule has ``metrics``.
        names: the full names of the metrics.

    Attributes:
        numbers: the column of each metric, by its full name.
        summed: the columns that every node has to have.
    """

    def __init__(self, reader: ClassReader, names: Iterable[str]) -> None:
        self.class_name = reader.schema.key.name
        self.labels = reader.rule.metrics.labels if reader.rule.metrics else ()
        self.numbers: Mapping[str, int] = {name: number for number, name in enumerate(names)}
        self.summed: frozenset[int] = frozenset()

    def name_of(self, labels: bytes) -> ObjectName | None:
        """The object that a sample's labels name; ``None`` where they name none.

        Raises:
            ProtocolError: they are no labels.
        """
        found = labels_of(labels)
        parts = tuple(found[label] for label in self.labels if label in found)
        return ObjectName(self.class_name, parts) if len(parts) == len(self.labels) else None


class Columns(LabelledColumns):
    """Which metrics are read for a class, and which of its statistics are made of them.

    Args:
        reader: the class, whose rule has ``metrics``.

    Attributes:
        terms: position of a statistic, and the columns whose sum is its value.
        counters: the positions of those that are counters.
        unused: what stands for a counter that has no sample, because there was nothing to count.
        lapsing: positions of the statistics that are given up when a metric changes.
        dear: the columns that an answer without the dear families does not have.
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
        """Columns of counters: every node counts what passed through it."""
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
    """Metrics of a node: of the objects of one class, or its totals.

    Attributes:
        url: where the node answers: ``http://host:15692``.
        families: those that are wanted of each object; none for the totals.
        node: its name, which its answer has to repeat; empty where any name will do.
        whole: it asks for the families too that are dear.
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


@dataclass(frozen=True, slots=True)
class NotScraped:
    """The node gave no metrics, for ``reason``, one line for people."""

    reason: str


class NodeSheet:
    """The metrics of one node, as they arrive.

    Args:
        columns: the metrics of interest.

    Attributes:
        columns: the same.
        node: the name of the node that answered; empty until it was received.
        values: what the node knows of each object; filled by `resolve`.
    """

    def __init__(self, columns: LabelledColumns) -> None:
        self.columns = columns
        self._reader = ExpositionReader([*columns.numbers, IDENTITY])
        self._rows: dict[bytes, Row] = {}
        self.node = ""
        self.values: dict[ObjectName, Row] = {}

    def feed(self, part: bytes) -> None:
        """Take some bytes of the body.

        Raises:
            ProtocolError: they are no exposition, or too much of one.
        """
        for samples in self._reader.feed(part):
            if samples.metric == IDENTITY:
                self._identify(samples)
            else:
                self._take(self.columns.numbers[samples.metric], samples)

    def finish(self) -> None:
        """The body has ended.

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
            names: the objects that labels name, as far as that is known; added to.

        Raises:
            ProtocolError: labels are not as they have to be.
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

    def _identify(self, samples: Samples) -> None:
        for labels, _ in samples.samples:
            self.node = labels_of(labels).get("rabbitmq_node", "")

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
    """What a node's metrics are put together in, as they arrive."""

    def feed(self, part: bytes) -> None:
        """Take some bytes of the body."""
        ...

    def finish(self) -> None:
        """The body has ended."""
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
        busy: nanoseconds that the broker may have been busy with it: all but what we took to read it.
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
