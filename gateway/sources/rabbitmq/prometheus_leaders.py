"""Figures of the leaders of replicated queues from rabbitmq_prometheus, and their schedule. Without I/O.

A node has figures of the Raft log (family ``ra_metrics``) for each replica of a quorum queue that it holds.
Those of the leader count; a stream is no Raft log, and has none. RabbitMQ 3.10 and 4.0 show six figures of
each replica, 4.3 shows sixty, under other names, and takes ten times as long. So they are requested apart
from other statistics, rarely, and only from nodes that lead a quorum queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from gateway.mapping.rules import LeaderMetricsRule
from gateway.model.times import SECOND
from gateway.model.values import Value
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.object_lives import Change, KnownObject
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.prometheus_samples import (
    PREFIX,
    LabelledColumns,
    NodePace,
    NodeSheet,
    Row,
    ScrapeRequest,
)
from gateway.sources.rabbitmq.reading import ClassReader
from gateway.sources.rabbitmq.source_config import LONGEST_INTERVAL

_SETTLING: Final = 6 * SECOND
"""Nanoseconds until a new leader's figures are read: RabbitMQ 3.10 and 4.0 renew figures every 5 s."""
_APPLIED: Final = 200
"""Number of objects that are processed at a time, in about a millisecond."""


class LeaderColumns(LabelledColumns):
    """The metrics that are read for the leader's figures of a class, and the formulas of these.

    Args:
        reader: the reader of the class, whose rule has ``metrics`` with ``leader``.
    """

    def __init__(self, reader: ClassReader) -> None:
        rules, elements = reader.rule.statistics, reader.schema.statistics
        formulas = {
            position: [
                tuple(f"{PREFIX}{name}" for name in version.split(" - "))
                for version in rules[elements[position].name].leader_metric.split(" | ")
            ]
            for position in reader.led
        }
        names = dict.fromkeys(
            name for versions in formulas.values() for version in versions for name in version
        )
        super().__init__(reader, names)
        self._reader = reader
        self._formulas = {
            position: [tuple(self.numbers[name] for name in version) for version in versions]
            for position, versions in formulas.items()
        }

    def figures(self, row: Row | None) -> dict[int, Value | None]:
        """Return the value of each figure, by its position among the statistics; ``None`` if it has none.

        The figures of a new replica are zero until RabbitMQ renews them, every 5 s.
        """
        known = row if row is not None and any(value is not None and value > 0 for value in row) else None
        return {
            position: self._figure(position, versions, known) if known is not None else None
            for position, versions in self._formulas.items()
        }

    def _figure(self, position: int, versions: list[tuple[int, ...]], row: Row) -> Value | None:
        for version in versions:
            first, *others = (row[column] for column in version)
            if first is None or None in others:
                continue
            # RabbitMQ 4.3 shows one number after the other while they grow.
            value = max(0, first - sum(one or 0 for one in others)) if others else first
            return self._reader.statistic(position, value)
        return None


class LeaderSheet(NodeSheet):
    """The figures of the replicas that one node holds, as they arrive."""

    def resolve(self, names: dict[bytes, ObjectName | None]) -> Iterator[None]:  # noqa: ARG002  not worth keeping
        """Put the values together; no names are kept, because an object has only one set of labels here."""
        return super().resolve({})


class LeaderFigures:
    """Decides which node's figures are requested, and when, and updates its objects with them.

    Args:
        reader: the reader of the class.
        rule: the mapping's rule of the figures.
        share: share of time that reading all nodes may take.
        longest_interval: the longest nanoseconds between two readings of a node.

    Attributes:
        columns: the metrics of interest.
        pace: the pace of these readings.
    """

    def __init__(
        self, reader: ClassReader, rule: LeaderMetricsRule, share: float, longest_interval: int
    ) -> None:
        self.columns = LeaderColumns(reader)
        self.pace = NodePace(rule.families, share, longest_interval)
        self._type = reader.schema.positions[rule.of.property]
        self._kind = rule.of.equals
        metrics = reader.rule.metrics
        self._holder = reader.schema.positions[metrics.holder] if metrics else 0
        self._asked: dict[ScrapeRequest, int] = {}
        self._leaders: dict[ObjectName, str] = {}
        self._leading: frozenset[str] = frozenset()
        self._taking: Iterator[list[Change]] | None = None
        self._taken: tuple[str, Mapping[ObjectName, Row], int] | None = None

    # Whom to ask, and when.

    def learn_nodes(self, nodes: Mapping[str, str]) -> None:
        """Take the URL of each node by its name, or by the URL itself if the name is unknown."""
        any_lost = self.pace.learn(nodes)
        self._asked = {request: when for request, when in self._asked.items() if request in self.pace.due}
        if any_lost:
            self._give_up()

    def learn_leaders(self, known: KnownObjects, now: int) -> None:
        """Take the leaders of objects from a complete listing; read nodes that lead further ones soon."""
        leaders = {
            one.name: str(one.properties[self._holder])
            for one in known.of_class(self.columns.class_name)
            if self._has(one)
        }
        new = {node for name, node in leaders.items() if self._leaders.get(name) != node}
        self._leaders, self._leading = leaders, frozenset(leaders.values())
        for request, due in self.pace.due.items():
            if self.pace.node_of(request) in {*new, ""} and new:
                earliest = max(now + _SETTLING, self._asked.get(request, 0) + self.pace.bearable)
                self.pace.due[request] = min(due, earliest) if due > now else earliest

    @property
    def read_at(self) -> int:
        """When that node's figures were read whose reading is the oldest (ns); 0 if none were."""
        return self.pace.read_at([request for request in self.pace.due if self._is_wanted(request)])

    def asks(self, request: ScrapeRequest) -> bool:
        """Return whether ``request`` is a request for figures."""
        return request.families == self.pace.families

    def next_request(self, now: int) -> ScrapeRequest | None:
        """Return the request to send now; ``None`` while none is due, or no node leads an object."""
        if self.busy:
            return None
        return self.pace.next_request(now, [request for request in self.pace.due if self._is_wanted(request)])

    def _is_wanted(self, request: ScrapeRequest) -> bool:
        node = self.pace.node_of(request)
        return node in self._leading if node else bool(self._leading)

    def _has(self, one: KnownObject) -> bool:
        return one.properties[self._type] == self._kind

    # What came of it.

    def scraped(self, request: ScrapeRequest, sheet: LeaderSheet, began: int, ended: int, spent: int) -> None:
        """Take the answer of a node.

        Args:
            request: the request.
            sheet: the node's figures, resolved.
            began: when the request was sent (ns).
            ended: when the answer had arrived (ns).
            spent: nanoseconds for which the node was busy.
        """
        if not request.accepts(sheet.node):
            self.failed(request, ended)
        elif self.pace.answered(request, sheet.node, ended, spent):
            self._asked[request] = ended
            self._taken, self._taking = (sheet.node, sheet.values, began), None

    def failed(self, request: ScrapeRequest, ended: int) -> None:
        """Note that a node gave no figures: its earlier figures are not valid any more."""
        if self.pace.failed(request, ended):
            self._give_up()

    # What it says of the objects.

    @property
    def busy(self) -> bool:
        """Whether `advance` has something to do."""
        return self._taken is not None

    def advance(self, known: KnownObjects, hidden: frozenset[str]) -> list[Change]:
        """Apply the figures of some more objects; call it while `busy`.

        Args:
            known: the objects.
            hidden: virtual hosts whose contents may not be read.
        """
        if self._taken is not None and self._taking is None:
            self._taking = self._applied(*self._taken, known, hidden)
        changes = next(self._taking, None) if self._taking is not None else None
        if changes is None:
            self._taken = self._taking = None
        return changes or []

    def _give_up(self) -> None:
        """Go through all objects, again if that has begun, to remove figures that no node gives any more."""
        self._taken, self._taking = self._taken or ("", {}, 0), None

    def _applied(
        self,
        node: str,
        values: Mapping[ObjectName, Row],
        began: int,
        known: KnownObjects,
        hidden: frozenset[str],
    ) -> Iterator[list[Change]]:
        """Yield changes of objects that ``node`` leads, and of those whose leader gives no more figures."""
        answering = self.pace.nodes
        changes: list[Change] = []
        names = [one.name for one in known.of_class(self.columns.class_name) if self._has(one)]
        for number, name in enumerate(names):
            one = known.get(name)
            holder = one.properties[self._holder] if one is not None else None
            if one is not None and (holder == node or holder not in answering):
                # What was asked for before an object came may be its predecessor's.
                usable = holder == node and one.first_seen <= began and name.parts[0] not in hidden
                changes += self._with_figures(known, one, values.get(name) if usable else None)
            if number % _APPLIED == _APPLIED - 1:
                yield changes
                changes = []
        yield changes

    def _with_figures(self, known: KnownObjects, one: KnownObject, row: Row | None) -> list[Change]:
        statistics = list(one.statistics)
        for position, figure in self.columns.figures(row).items():
            statistics[position] = figure
        return known.measured(one, tuple(statistics), one.sampled)


def leader_figures_of(
    readers: Mapping[str, ClassReader], share: float, longest_interval: int = LONGEST_INTERVAL
) -> LeaderFigures | None:
    """Return the figures of leaders to read in this share of time; ``None`` if the mapping has none."""
    for reader in readers.values():
        if reader.rule.metrics is not None and reader.rule.metrics.leader is not None:
            return LeaderFigures(reader, reader.rule.metrics.leader, share, longest_interval)
    return None
