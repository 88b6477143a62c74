"""The choice of Prometheus' metrics to request next, and the processing of the answers. Without I/O.

Three kinds of metrics are read, one request at a time: statistics of queues, totals of protocols, and figures
of the leaders of quorum queues.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.session import Effect, Note
from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.broker_view import BrokerView
from gateway.sources.rabbitmq.listing import Listing
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.observation_stream import ObservationStream
from gateway.sources.rabbitmq.polling import PlannedReading, PollingPlan
from gateway.sources.rabbitmq.prometheus_leaders import LeaderSheet, leader_figures_of
from gateway.sources.rabbitmq.prometheus_samples import (
    IDENTITY,
    ExpositionReader,
    NodePace,
    NodeSheet,
    NotScraped,
    Number,
    Samples,
    Scraped,
    ScrapeRequest,
    Sheet,
    identity_of,
    labels_of,
    value_of,
)
from gateway.sources.rabbitmq.reading import ClassReader
from gateway.sources.rabbitmq.source_config import LEADERS_SHARE, LONGEST_INTERVAL, TOTALS_SHARE


class MetricsAnswers:
    """Processes answers, and decides the next request.

    Args:
        readers: the reader of each class.
        view: changed by answers.
        stream: publishes what changes.
        plan: the plan of the listings, which are fewer if metrics show the same.
    """

    def __init__(
        self,
        readers: Mapping[str, ClassReader],
        view: BrokerView,
        stream: ObservationStream,
        plan: PollingPlan,
    ) -> None:
        self._view = view
        self._stream = stream
        self._plan = plan
        protocol = readers.get(PROTOCOL)
        self._totals = (
            PrometheusTotals(protocol, TOTALS_SHARE * plan.budget, plan.longest_interval)
            if protocol is not None
            else None
        )
        self._leaders = leader_figures_of(readers, LEADERS_SHARE * plan.budget, plan.longest_interval)

    def learn_listeners(self, overview: Json) -> None:
        """Take the addresses of the metrics from the overview."""
        statistics = self._view.statistics
        if statistics is None:
            return
        statistics.learn_listeners(overview)
        for part in (self._totals, self._leaders):
            if part is not None:
                part.learn_nodes(statistics.urls)
        self._note_shares()

    def readings(self) -> Iterator[PlannedReading]:
        """Yield what metrics show of the objects, and when they were read."""
        statistics = self._view.statistics
        if statistics is None:
            return
        if statistics.active:
            yield from statistics.readings()
        if self._leaders is not None:
            class_name, pace = self._leaders.columns.class_name, self._leaders.pace
            yield PlannedReading(class_name, RAFT_FIGURES, pace.interval, self._leaders.read_at)
        if self._totals is not None:
            yield PlannedReading(PROTOCOL, TOTALS, self._totals.pace.interval, self._totals.pace.read_at())

    def listed(self, listing: Listing, now: int) -> None:
        """Apply the end of a complete listing."""
        statistics = self._view.statistics
        if statistics is not None and listing.class_name == "node":
            statistics.learn_running(self._view.nodes.running)
        if statistics is None or listing.class_name != statistics.columns.class_name:
            return
        statistics.read_soon(now, known=len(listing.seen))
        if self._leaders is not None:
            self._leaders.learn_leaders(self._view.known, now)

    def completed(self, named: Collection[str], since: int) -> str:
        """Return the class of which metrics and a listing without statistics have shown all; empty if none.

        Values that neither of them has are absent until a listing with statistics shows them.

        Args:
            named: the classes that were listed without statistics.
            since: metrics that were requested before this time (ns) do not count.
        """
        statistics = self._view.statistics
        if statistics is None or not statistics.active or statistics.applied < since:
            return ""
        return statistics.columns.class_name if statistics.columns.class_name in named else ""

    def next_request(self, now: int) -> ScrapeRequest | None:
        """Return the metrics to request now; ``None`` if none are due, or the objects are not known yet."""
        statistics = self._view.statistics
        # Before the names are known the values are of no use, and would take the broker's time from them.
        if statistics is not None and self._plan.awaits_names(statistics.columns.class_name):
            return None
        request = statistics.next_request(now) if statistics is not None else None
        for part in (self._totals, self._leaders):
            if request is None and part is not None:
                request = part.next_request(now)
        return request

    def sheet_for(self, request: ScrapeRequest) -> Sheet:
        """Return the object that takes the answer to ``request``."""
        if not request.families and self._totals is not None:
            return TotalsSheet(self._totals.reader)
        if self._leaders is not None and self._leaders.asks(request):
            return LeaderSheet(self._leaders.columns)
        if self._view.statistics is None:
            raise LocalProtocolError("no metrics were asked for")
        return NodeSheet(self._view.statistics.columns)

    def scraped(
        self, request: ScrapeRequest, outcome: Scraped | NotScraped, began: int, ended: int
    ) -> list[Effect]:
        """Take the outcome of ``request``, from ``began`` to ``ended`` (ns). `advance` may follow."""
        if isinstance(outcome, Scraped) and (foreign := self._foreign(outcome.sheet)):
            outcome = NotScraped(foreign)
            self._plan.poll_overview_soon(ended)  # a node may have been started, or the cluster renamed
        if not request.families:
            return self._totals_scraped(request, outcome, began, ended)
        if self._leaders is not None and self._leaders.asks(request):
            self._leaders_scraped(request, outcome, began, ended)
            return []
        return self._statistics_scraped(request, outcome, began, ended)

    def _foreign(self, sheet: Sheet) -> str:
        """Return why metrics are not of the broker whose management API is read; empty if they may be."""
        nodes = self._view.statistics.nodes if self._view.statistics is not None else frozenset()
        if nodes and sheet.node not in nodes:
            return f"it says that it is {sheet.node}, which is no running node of this broker"
        if not self._view.nodes.identity.may_be_named(sheet.node, sheet.cluster):
            return f"it says that it is {sheet.node} of another broker, cluster {sheet.cluster!r}"
        return ""

    def _statistics_scraped(
        self, request: ScrapeRequest, outcome: Scraped | NotScraped, began: int, ended: int
    ) -> list[Effect]:
        statistics = self._view.statistics
        if statistics is None:
            return []
        before, trouble = statistics.active, statistics.trouble
        if isinstance(outcome, NotScraped):
            statistics.failed(request, outcome, ended)
        elif isinstance(outcome.sheet, NodeSheet):
            statistics.scraped(request, outcome.sheet, began, began + outcome.waited, outcome.busy)
        class_name = statistics.columns.class_name
        if statistics.active:
            self._plan.list_without_statistics(
                class_name, ended, share=statistics.share, intervals=statistics.intervals
            )
        elif before:
            self._plan.list_with_statistics(class_name, ended)
        if statistics.trouble and statistics.trouble != trouble:
            return [Note("statistics-from-listings", statistics.trouble)]
        return [Note("statistics-from-metrics")] if statistics.active and not before else []

    def _totals_scraped(
        self, request: ScrapeRequest, outcome: Scraped | NotScraped, began: int, ended: int
    ) -> list[Effect]:
        effects: list[Effect] = []
        if self._totals is None:
            return effects
        node = self._totals.pace.node_of(request)
        if isinstance(outcome, NotScraped):
            self._totals.failed(request, ended)
            return self._without_totals(node, ended)
        if isinstance(outcome.sheet, TotalsSheet):
            if outcome.sheet.node != node:
                effects += self._without_totals(node, ended)
            listing = Listing(PROTOCOL, began, sampled=began + outcome.waited // 2, asked=began)
            for item in self._totals.scraped(request, outcome.sheet, ended, outcome.busy):
                effects += self._stream.apply(self._view.take(listing, item, ended).changes)
            self._note_shares()
        return effects

    def _without_totals(self, node: str, now: int) -> list[Effect]:
        """Remove the totals of a node that gives none any more."""
        changes = [
            change
            for known in list(self._view.known.of_class(PROTOCOL))
            if known.name.parts[0] == node
            for change in self._view.known.without_statistics(known.name, now)
        ]
        return self._stream.apply(changes)

    def _leaders_scraped(
        self, request: ScrapeRequest, outcome: Scraped | NotScraped, began: int, ended: int
    ) -> None:
        if self._leaders is None:
            return
        if isinstance(outcome, NotScraped):
            self._leaders.failed(request, ended)
        elif isinstance(outcome.sheet, LeaderSheet):
            self._leaders.scraped(request, outcome.sheet, began, ended, outcome.busy)
            self._note_shares()

    def _note_shares(self) -> None:
        """Pass the intervals and shares of time of these readings to the plan, which limits listings."""
        if self._leaders is not None:
            pace = self._leaders.pace
            self._plan.read_beside(RAFT_FIGURES, pace.interval, pace.spent)
        if self._totals is not None:
            pace = self._totals.pace
            self._plan.read_beside(TOTALS, pace.interval, pace.spent)

    @property
    def busy(self) -> bool:
        """Whether `advance` has something to do."""
        statistics, leaders = self._view.statistics, self._leaders
        return (statistics is not None and statistics.busy) or (leaders is not None and leaders.busy)

    def advance(self) -> list[Effect]:
        """Take the metrics of some more objects; call it while `busy`."""
        statistics, known, hidden = self._view.statistics, self._view.known, self._view.hosts.refused
        if statistics is not None and statistics.busy:
            return self._stream.apply(statistics.advance(known, hidden))
        return self._stream.apply(self._leaders.advance(known, hidden)) if self._leaders is not None else []


RAFT_FIGURES: Final = "Raft figures of queues"
TOTALS: Final = "totals by protocol"
PROTOCOL: Final = "protocol"
"""The class of these totals; its elements read the metrics by their names without prefix."""
_PREFIX: Final = "rabbitmq_global_"
_OF_LOGINS: Final = "auth_attempts_"
_LOGINS_PREFIX: Final = "rabbitmq_"
_MAX_PROTOCOLS: Final = 100


class TotalsSheet:
    """The totals of one node, as they arrive.

    Args:
        reader: the reader of the class.

    Attributes:
        node: the name of the node that answered; empty until it was received.
        cluster: the name of its cluster; empty if it has not named it.
        totals: the totals by protocol and metric.
    """

    def __init__(self, reader: ClassReader) -> None:
        self._metrics = {
            f"{_LOGINS_PREFIX if name.startswith(_OF_LOGINS) else _PREFIX}{name}": name
            for name in reader.columns
            if name not in {"node", PROTOCOL}
        }
        self._reader = ExpositionReader([*self._metrics, IDENTITY])
        self.node = self.cluster = ""
        self.totals: dict[str, dict[str, Number]] = {}

    def feed(self, part: bytes) -> None:
        """Take some bytes of the body.

        Raises:
            ProtocolError: they are no exposition, or have too many protocols.
        """
        for samples in self._reader.feed(part):
            if samples.metric == IDENTITY:
                self.node, self.cluster = identity_of(samples)
            else:
                self._take(self._metrics[samples.metric], samples)

    def finish(self) -> None:
        """Take the end of the body.

        Raises:
            ProtocolError: it is incomplete.
        """
        self._reader.finish()
        if not self.node:
            raise ProtocolError("the name of the node", f"no {IDENTITY}")

    def resolve(self, names: dict[bytes, ObjectName | None]) -> Iterator[None]:  # noqa: ARG002  as of others
        """Do nothing: the totals need no such step."""
        return iter(())

    def items(self) -> list[Json]:
        """Return the totals in the form of a listing: an object for each protocol."""
        return [{"node": self.node, PROTOCOL: name, **totals} for name, totals in self.totals.items()]

    def _take(self, name: str, samples: Samples) -> None:
        for labels, text in samples.samples:
            protocol, value = labels_of(labels).get(PROTOCOL, ""), value_of(text)
            if not protocol or value is None:
                continue
            if protocol not in self.totals and len(self.totals) >= _MAX_PROTOCOLS:
                raise ProtocolError(f"at most {_MAX_PROTOCOLS} protocols", "more")
            totals = self.totals.setdefault(protocol, {})
            totals[name] = totals.get(name, 0) + value


class PrometheusTotals:
    """Decides which node's totals are requested, and when; one node at a time.

    The totals of each protocol on each node come from ``/metrics`` of rabbitmq_prometheus: RabbitMQ counts
    messages of all protocols by node only. A sample has the label ``protocol``. Some also have
    ``queue_type``; they are added up over its values.

    Args:
        reader: the reader of the class.
        share: share of time that reading all nodes may take.
        longest_interval: the longest nanoseconds between two readings of a node.

    Attributes:
        pace: the pace of these readings.
    """

    def __init__(self, reader: ClassReader, share: float, longest_interval: int = LONGEST_INTERVAL) -> None:
        self.reader = reader
        self.pace = NodePace((), share, longest_interval)

    def learn_nodes(self, nodes: Mapping[str, str]) -> None:
        """Take the URL of each node by its name, or by the URL itself if the name is unknown."""
        self.pace.learn(nodes)

    def next_request(self, now: int) -> ScrapeRequest | None:
        """Return the request to send now; ``None`` while none is due."""
        return self.pace.next_request(now)

    def scraped(self, request: ScrapeRequest, sheet: TotalsSheet, ended: int, spent: int) -> list[Json]:
        """Take the answer of a node, which was busy for ``spent`` nanoseconds; return its totals."""
        if not request.accepts(sheet.node):
            self.failed(request, ended)
            return []
        return sheet.items() if self.pace.answered(request, sheet.node, ended, spent) else []

    def failed(self, request: ScrapeRequest, ended: int) -> None:
        """Note that a node gave no totals."""
        self.pace.failed(request, ended)
