"""Totals of each protocol on each node, from ``/metrics`` of rabbitmq_prometheus. Without I/O.

RabbitMQ counts messages of all protocols by node only. A sample has the label ``protocol``, and some have
``queue_type`` besides, over which they are added up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.dialects.errors import ProtocolError
from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.exposition import ExpositionReader, Number, Samples, labels_of, value_of
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.prometheus_samples import IDENTITY, NotScraped, ScrapeRequest
from gateway.sources.rabbitmq.reading import ClassReader

PROTOCOL: Final = "protocol"
"""The class of these totals; its elements read the metrics by their names without `_PREFIX`."""
_PREFIX: Final = "rabbitmq_global_"
_MAX_PROTOCOLS: Final = 100
_SECOND: Final = 1_000_000_000
_INTERVAL: Final = 30 * _SECOND
"""Between two readings of one node, where the cost allows."""
_SHARE: Final = 0.004
"""Share of time that reading all nodes may take."""
_RETRY: Final = 60 * _SECOND


class TotalsSheet:
    """The totals of one node, as they arrive.

    Args:
        reader: the class.

    Attributes:
        node: the name of the node that answered; empty until it was received.
        totals: by protocol and metric.
    """

    def __init__(self, reader: ClassReader) -> None:
        self._metrics = {
            f"{_PREFIX}{name}": name for name in reader.columns if name not in {"node", PROTOCOL}
        }
        self._reader = ExpositionReader([*self._metrics, IDENTITY])
        self.node = ""
        self.totals: dict[str, dict[str, Number]] = {}

    def feed(self, part: bytes) -> None:
        """Take some bytes of the body.

        Raises:
            ProtocolError: they are no exposition, or have too many protocols.
        """
        for samples in self._reader.feed(part):
            if samples.metric == IDENTITY:
                for labels, _ in samples.samples:
                    self.node = labels_of(labels).get("rabbitmq_node", "")
            else:
                self._take(self._metrics[samples.metric], samples)

    def finish(self) -> None:
        """The body has ended.

        Raises:
            ProtocolError: it is incomplete.
        """
        self._reader.finish()
        if not self.node:
            raise ProtocolError("the name of the node", f"no {IDENTITY}")

    def resolve(self, names: dict[bytes, ObjectName | None]) -> Iterator[None]:  # noqa: ARG002  as of others
        """Nothing is left to be put together."""
        return iter(())

    def items(self) -> list[Json]:
        """The totals as a listing would have them: an object for each protocol."""
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
    """Decides which node is asked for its totals, and when; one after the other.

    Args:
        reader: the class.
    """

    def __init__(self, reader: ClassReader) -> None:
        self.reader = reader
        self._due: dict[ScrapeRequest, int] = {}

    def learn_nodes(self, nodes: dict[str, str]) -> None:
        """Take the URL of each node; an empty name where that is not known."""
        requests = [ScrapeRequest(url, (), node) for node, url in nodes.items()]
        self._due = {request: self._due.get(request, 0) for request in requests}

    @property
    def due(self) -> int:
        """When to make `next_request` (ns); 0 where there is nothing to ask."""
        return max(1, min(self._due.values())) if self._due else 0

    def next_request(self, now: int) -> ScrapeRequest | None:
        """The request to make now; ``None`` while none is due."""
        request = min(self._due, key=self._due.__getitem__, default=None)
        return request if request is not None and self._due[request] <= now else None

    def scraped(self, request: ScrapeRequest, sheet: TotalsSheet, ended: int, spent: int) -> list[Json]:
        """A node answered, for which it was busy ``spent`` nanoseconds: its totals."""
        if request.node and sheet.node != request.node:
            self.failed(request, NotScraped("another node"), ended)
            return []
        if request in self._due:
            self._due[request] = ended + max(_INTERVAL, int(spent * len(self._due) / _SHARE))
        return sheet.items()

    def failed(self, request: ScrapeRequest, why: NotScraped, ended: int) -> None:  # noqa: ARG002  said elsewhere
        """A node gave none."""
        if request in self._due:
            self._due[request] = ended + _RETRY
