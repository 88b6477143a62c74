"""Statistics from rabbitmq_prometheus: the schedule of requests, and the processing of answers. No I/O.

Every node has gauges of its own queues, and counts the messages that pass through it: gauges of a queue are
those of the node that holds it, counters are added up over all nodes, as the management API does. So the
metrics count only while every running node gives them; otherwise statistics are read from the listings, which
cost more.

A counter does not decrease by a change between metrics and listings. RabbitMQ keeps the counters of a queue
that was deleted for up to two minutes, and continues them if a queue of that name is declared meanwhile; the
counts of the earlier queue are subtracted.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from gateway.mapping.paths import Json
from gateway.model.observations import SETTLED_AFTER
from gateway.model.times import SECOND
from gateway.model.values import Value
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.listing import MEASURED_TYPES
from gateway.sources.rabbitmq.object_lives import Change, KnownObject
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.polling import PlannedReading
from gateway.sources.rabbitmq.prometheus_samples import (
    Columns,
    NodeSheet,
    NotScraped,
    Row,
    ScrapeRequest,
)
from gateway.sources.rabbitmq.reading import ClassReader, Reading
from gateway.sources.rabbitmq.source_config import LONGEST_INTERVAL, StatisticsConfig

_APPLIED: Final = 200
"""Number of objects that are processed at a time, in about a millisecond."""
_PROTOCOLS: Final = {"http/prometheus": "http", "https/prometheus": "https"}


@dataclass(slots=True)
class _Counted:
    """The last reading of an object: its number and values, and the counts of its predecessor to subtract."""

    number: int
    row: Row
    base: Row | None = None


@dataclass(frozen=True, slots=True)
class _Sheet:
    values: Mapping[ObjectName, Row]
    sampled: int


class PrometheusStatistics:
    """Keeps the statistics of one class in step with its metrics.

    Args:
        reader: the reader of the class, whose rule has ``metrics``.
        config: see `StatisticsConfig`.

    Attributes:
        active: the statistics that have a metric are those of the last reading.
        trouble: why they are not, in one line for people; empty if they are, or if no metrics are to be read.
        pace: the pace of the readings.
        applied: when the last reading began whose values were all applied (ns); 0 for none.
        whole_applied: the same of readings that leave nothing out.
    """

    def __init__(self, reader: ClassReader, config: StatisticsConfig) -> None:
        self._config = config
        self.columns = Columns(reader)
        rule = reader.rule.metrics
        self._families = rule.families if rule else ()
        self._dear_families = rule.dear.families if rule and rule.dear else ()
        self._holder = reader.schema.positions[reader.rule.metrics.holder] if reader.rule.metrics else 0
        self._type = reader.schema.positions["type"]
        self._depth = [element.name for element in reader.schema.statistics].index("messages")
        self.active = False
        self.trouble = ""
        self.pace = ScrapePace(
            config.interval,
            config.share,
            dear=bool(self._dear_families),
            longest_interval=config.longest_interval,
        )
        self.applied = self.whole_applied = 0
        self.names: dict[bytes, ObjectName | None] = {}
        urls = config.urls if config.enabled else ()
        self._requests = tuple(self._whole_request(url) for url in urls)
        self._nodes: set[str] = set()
        self._unlisted = False
        self._step = 0
        self._began = 0
        self._cost = 0
        self._is_whole = True
        self._terms = self.columns.terms
        self._due = 0
        self._failures = 0
        self._sheets: dict[str, _Sheet] = {}
        self._counted: dict[ObjectName, _Counted] = {}
        self._summed: frozenset[str] = frozenset()  # the nodes of the last reading
        self._of_others = False
        self._applying: Iterator[list[Change]] | None = None

    # Whom to ask.

    def learn_listeners(self, overview: Json) -> None:
        """Take the nodes, and the addresses of their metrics, from the overview."""
        listeners = overview.get("listeners") if isinstance(overview, Mapping) else None
        self._unlisted = not isinstance(listeners, list)
        if not isinstance(listeners, list) or not self._config.enabled:
            return
        nodes: set[str] = set()
        found: dict[str, str] = {}
        for listener in listeners:
            node = listener.get("node") if isinstance(listener, Mapping) else None
            if isinstance(node, str) and isinstance(listener, Mapping):
                nodes.add(node)
                url = listener_url(listener, node, self._config.management, has_login=self._config.has_login)
                # A node may have one with TLS and one without.
                if url and not found.get(node, "").startswith("https"):
                    found[node] = url
        if self._config.urls:
            self._nodes = nodes
        elif found.keys() == nodes:
            requests = tuple(self._whole_request(found[node], node) for node in sorted(found))
            self._learn_requests(requests, nodes)
        else:
            self._learn_requests((), nodes)
            missing = sorted(nodes - found.keys())
            if found:
                self.trouble = f"{', '.join(missing)} has no Prometheus metrics that may be read"

    def learn_running(self, nodes: Iterable[str]) -> None:
        """Set the running nodes, if the overview shows no listeners because its statistics are off."""
        if self._unlisted:
            self._nodes = set(nodes)

    @property
    def nodes(self) -> frozenset[str]:
        """The names of the running nodes; empty if they are unknown."""
        return frozenset(self._nodes)

    @property
    def urls(self) -> dict[str, str]:
        """The URL of each node's metrics, by its name, or by the URL itself if the name is unknown."""
        return {request.node or request.url: request.url for request in self._requests}

    def _whole_request(self, url: str, node: str = "") -> ScrapeRequest:
        return ScrapeRequest(url, (*self._families, *self._dear_families), node)

    def _learn_requests(self, requests: tuple[ScrapeRequest, ...], nodes: set[str]) -> None:
        if requests == self._requests:
            return
        self._requests, self._nodes = requests, nodes
        self._due = self._failures = 0
        self.pace.restart()
        self._restart()
        self.active = self.active and bool(requests)
        self.trouble = ""

    def _restart(self) -> None:
        self._step = self._cost = 0
        self._sheets = {}

    # When, and what came of it.

    @property
    def share(self) -> float:
        """The share of time that reading the metrics takes at most."""
        return self.pace.share

    @property
    def intervals(self) -> dict[str, int]:
        """The nanoseconds between two readings of each kind of metrics, by its name for people."""
        return {one.what: one.interval for one in self.readings()}

    def readings(self) -> Iterator[PlannedReading]:
        """Yield what metrics show, and when they were read."""
        class_name, pace = self.columns.class_name, self.pace
        yield PlannedReading(class_name, "depths and counters of queues", pace.interval, self.applied)
        if pace.whole_interval > pace.interval:
            what = "numbers of consumers of queues"
            yield PlannedReading(class_name, what, pace.whole_interval, self.whole_applied)

    @property
    def due(self) -> int:
        """The time at which to call `next_request` (ns); 0 if there is nothing to request."""
        return max(1, self._due) if self._requests else 0

    def next_request(self, now: int) -> ScrapeRequest | None:
        """Return the request to send now; ``None`` while none is due."""
        if not self._requests or now < self._due or self.busy:
            return None
        if self._step == 0:
            self._began = now
            self._is_whole = self.pace.is_whole(now)
        return self._asked

    @property
    def _asked(self) -> ScrapeRequest:
        request = self._requests[self._step]
        return request if self._is_whole else replace(request, families=self._families, whole=False)

    def scraped(self, request: ScrapeRequest, sheet: NodeSheet, began: int, ended: int, spent: int) -> None:
        """Take the answer of a node.

        Args:
            request: the request.
            sheet: the node's metrics, resolved.
            began: when the request was sent (ns).
            ended: when the answer began (ns); the time of the values lies between the two.
            spent: nanoseconds for which the node was busy.
        """
        if self._step >= len(self._requests) or request != self._asked:
            return
        if not request.accepts(sheet.node):
            self.failed(request, NotScraped(f"it says that it is {sheet.node}"), ended)
            return
        self._sheets[sheet.node] = _Sheet(sheet.values, (began + ended) // 2)
        self._cost += spent
        self._step += 1
        if self._step < len(self._requests):
            return
        missing = self._nodes - self._sheets.keys()
        if missing:
            reason = f"no answer is from {', '.join(sorted(missing))}"
            self.failed(request, NotScraped(reason), ended)
            return
        self._failures = 0
        self.pace.read(self._began, self._cost, whole=self._is_whole)
        self.trouble = ""
        self.active = True
        self._due = max(self._began + self.pace.interval, ended)
        self._applying = None

    def failed(self, request: ScrapeRequest, why: NotScraped, ended: int) -> None:
        """Note that a node gave no metrics: statistics are read from listings until all nodes give them."""
        self.active = False
        place = request.node or request.url
        self.trouble = f"statistics are read from listings: no metrics of {place} ({why.reason})"
        pause = self._config.first_pause << min(self._failures, 30)
        self._due = ended + min(pause, self._config.longest_pause)
        self._failures += 1
        self.pace.restart()
        self._restart()

    # What it says of the objects.

    @property
    def busy(self) -> bool:
        """Whether `advance` has something to do."""
        return self.active and 0 < len(self._requests) == self._step

    def advance(self, known: KnownObjects, hidden: frozenset[str]) -> list[Change]:
        """Apply the values of some more objects; call it while `busy`.

        Args:
            known: the objects.
            hidden: virtual hosts whose contents may not be read.
        """
        if self._applying is None:
            self._applying = self._applied(known, hidden)
        changes = next(self._applying, None)
        if changes is None:
            self._applying = None
            self.applied = self._began
            self.whole_applied = self._began if self._is_whole else self.whole_applied
            self._restart()
            return []
        return changes

    def _applied(self, known: KnownObjects, hidden: frozenset[str]) -> Iterator[list[Change]]:
        sheets = self._sheets
        # Whether these nodes came, left, or came back is in no counter.
        former_nodes, self._summed = self._summed, frozenset(sheets)
        self._of_others = bool(former_nodes) and former_nodes != self._summed
        unread: frozenset[int] = frozenset() if self._is_whole else self.columns.dear
        self._terms = tuple(term for term in self.columns.terms if unread.isdisjoint(term[1]))
        changes: list[Change] = []
        former, self._counted = self._counted, {}
        for number, name in enumerate(
            dict.fromkeys(name for sheet in sheets.values() for name in sheet.values)
        ):
            one = known.get(name)
            if one is not None and name.parts[0] not in hidden:
                changes += self._updated(known, one, former.get(name), unread)
            elif name in former:
                # It has ended. Its counters are subtracted from those of a successor that comes before the
                # broker forgets them.
                self._counted[name] = former[name]
            if number % _APPLIED == _APPLIED - 1:
                yield changes
                changes = []
        if len(self.names) > 2 * len(self._counted) + 10_000:
            self.names.clear()
        yield changes

    def _updated(
        self, known: KnownObjects, one: KnownObject, former: _Counted | None, unread: frozenset[int]
    ) -> list[Change]:
        row, sampled = self._row(one)
        if former is not None and former.number == one.number:
            for column in unread:
                row[column] = former.row[column]
        base = former.base if former is not None else None
        if former is not None and former.number != one.number:
            base = former.row
        if base is not None and self._began_again(row, base):
            base = None
        self._counted[one.name] = _Counted(one.number, row, base)
        statistics = list(one.statistics)
        changed = former is None or former.number != one.number or former.row != row
        # What this reading left out stays as it was known.
        for position, columns in self._terms:
            statistics[position] = self._value(position, columns, row, base)
        if one.properties[self._type] in MEASURED_TYPES and statistics[self._depth] is not None:
            for position, unused in self.columns.unused.items():
                statistics[position] = unused if statistics[position] is None else statistics[position]
        if changed and former is not None:
            for position in self.columns.lapsing:
                statistics[position] = None
        overtaken = known.is_overtaken(one.name, self._began)
        of_others = self._of_others
        return [] if overtaken else known.measured(one, tuple(statistics), sampled, of_others=of_others)

    def _row(self, one: KnownObject) -> tuple[Row, int]:
        """Return the values that all nodes together have of an object, and their time (ns)."""
        there = {node: sheet for node, sheet in self._sheets.items() if one.name in sheet.values}
        holder = one.properties[self._holder]
        node = holder if holder in there else next(iter(there))
        main = there[str(node)]
        row = main.values[one.name]
        if len(there) > 1:
            rows = [sheet.values[one.name] for sheet in there.values()]
            row = [
                _sum([other[column] for other in rows]) if column in self.columns.summed else value
                for column, value in enumerate(row)
            ]
        return row, main.sampled

    def _began_again(self, row: Row, base: Row) -> bool:
        return any((row[column] or 0) < (base[column] or 0) for column in self.columns.summed)

    def _value(self, position: int, columns: tuple[int, ...], row: Row, base: Row | None) -> Value | None:
        values = [value for value in (row[column] for column in columns) if value is not None]
        if not values:
            return None
        total = sum(values)
        if base is not None and position in self.columns.counters:
            total -= sum(base[column] or 0 for column in columns)
        return total if isinstance(total, int) and total >= 0 else None

    # Beside what listings say.

    def joined(
        self, reading: Reading, known: KnownObject | None, sampled: int, *, single: bool
    ) -> tuple[Reading, int]:
        """Return a listed object with the statistics that count, and their time (ns).

        Args:
            reading: the object as the listing shows it.
            known: the object as it was known.
            sampled: when it was listed (ns).
            single: it was requested by itself, after an operation on it.
        """
        last = self._counted.get(reading.name)
        if known is None or last is None or last.number != known.number:
            return reading, sampled
        statistics = list(reading.statistics)
        if self.active:
            # The broker shows a single queue without depth and counters until it has measured it.
            if single and statistics[self._depth] is None:
                sampled = known.sampled
            for position, _ in self.columns.terms:
                if not single or statistics[position] is None:
                    statistics[position] = known.statistics[position]
            if not single:
                return replace(reading, statistics=tuple(statistics)), known.sampled
        elif self._unlisted:
            return reading, sampled  # no listing will have them
        for position in self.columns.counters:
            before, value = known.statistics[position], statistics[position]
            behind = isinstance(before, int) and (not isinstance(value, int) or value < before)
            # Not since the object was read: each listing that lags behind would let it lag as long again.
            if behind and sampled - self.applied < SETTLED_AFTER:
                statistics[position] = before
        return replace(reading, statistics=tuple(statistics)), sampled

    def read_soon(self, now: int, *, known: int) -> None:
        """Read statistics soon, if most of the ``known`` listed objects are new."""
        if not self._failures and not self._step and known > 2 * len(self._counted):
            self._due = min(self._due, now)


def listener_url(listener: Mapping[str, Json], node: str, management: str, *, has_login: bool = False) -> str:
    """Return the URL of a node's metrics from a listener in the overview; empty if the listener has none.

    A server without a certificate is not authenticated: if the management API is read over TLS, metrics
    without TLS are read from this machine only. So is what a login is sent for, where that of the management
    API goes to this machine: no login leaves it in plain text only because the broker names an address.
    """
    scheme = _PROTOCOLS.get(str(listener.get("protocol")), "")
    address, port = listener.get("ip_address"), listener.get("port")
    if not scheme or not isinstance(address, str) or not isinstance(port, int):
        return ""
    parts = urlsplit(management)
    own = parts.hostname or ""
    host = address if _is_specific(address) else node.rpartition("@")[2]
    if _is_loopback(own):
        # A node that is asked on this machine is here with all its listeners.
        host = address if _is_specific(address) else own
    elif _is_loopback(host):
        return ""
    stays_here = parts.scheme == "https" or (has_login and _is_loopback(own))
    if stays_here and scheme == "http" and not _is_loopback(host):
        return ""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _is_specific(address: str) -> bool:
    try:
        return not ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _sum(values: list[int | float | None]) -> int | float | None:
    present = [value for value in values if value is not None]
    return sum(present) if present else None


def statistics_of(
    readers: Mapping[str, ClassReader], config: StatisticsConfig
) -> PrometheusStatistics | None:
    """Return the statistics that are read as metrics; ``None`` if there are none."""
    if not config.enabled:
        return None
    measured = [reader for reader in readers.values() if reader.rule.metrics is not None]
    return PrometheusStatistics(measured[0], config) if measured else None


_COSTS: Final = 8
"""Number of readings of a kind by whose costs its pace is known."""
_FIRST_INTERVAL: Final = 12 * SECOND
"""The longest interval of readings until their pace is known."""
_FIRST_WHOLE_INTERVAL: Final = 60 * SECOND
"""The longest interval of whole readings until their pace is known."""
_LEAN_PART: Final = 3 / 4
"""Share of the time for metrics that every reading has; the rest is for those of whole readings only."""


class ScrapePace:
    """The pace of readings by what they cost. Times and durations are nanoseconds.

    To count the consumers of its queues RabbitMQ copies all that it knows of each: with 20,000 queues that
    costs three times as much processor time as all other metrics of queues together. Where a whole reading at
    each interval is too dear, most readings leave these metrics out, and take three quarters of the available
    time.

    Args:
        interval: the time between two readings, if their cost allows.
        share: share of time that they may take.
        dear: whether there are metrics that a reading may leave out.
        longest_interval: the longest time between two readings, and between two that leave nothing out.

    Attributes:
        interval: the current time from the beginning of one reading to that of the next.
        whole_interval: the same of readings that leave nothing out.
    """

    def __init__(
        self, interval: int, share: float, *, dear: bool, longest_interval: int = LONGEST_INTERVAL
    ) -> None:
        self._least = interval
        self._longest = longest_interval
        self._share = share
        self._dear = dear
        self._whole: deque[int] = deque(maxlen=_COSTS)
        self._lean: deque[int] = deque(maxlen=_COSTS)
        self._whole_due = 0
        self.interval = self.whole_interval = interval

    @property
    def share(self) -> float:
        """The current share of time that readings take at most."""
        whole = min(self._whole, default=0)
        lean = min(self._lean, default=whole) if self.whole_interval > self.interval else whole
        return min(self._share, lean / self.interval + max(0, whole - lean) / self.whole_interval)

    def is_whole(self, now: int) -> bool:
        """Return whether a reading that begins at ``now`` includes all metrics."""
        return not self._dear or now >= self._whole_due

    def restart(self) -> None:
        """Make the next reading include all metrics, because earlier values do not count any more."""
        self._whole_due = 0

    def read(self, began: int, cost: int, *, whole: bool) -> None:
        """Note that a reading that began at ``began`` kept the broker busy for ``cost``."""
        (self._whole if whole else self._lean).append(cost)
        # Others who keep the machine busy make a reading longer, never shorter.
        dearest = min(self._whole, default=cost)
        if not self._dear or dearest <= self._share * self._least:
            self.interval = self._bearable(self._whole, self._share)
            self.whole_interval = self.interval
        elif not self._lean:
            self.interval = min(int(dearest / self._share), _FIRST_INTERVAL)
            self.whole_interval = _FIRST_WHOLE_INTERVAL
        else:
            self.interval = self._bearable(self._lean, self._share * _LEAN_PART)
            more = max(0, dearest - min(self._lean)) / (self._share * (1 - _LEAN_PART))
            most = more if len(self._whole) == _COSTS else min(more, _FIRST_WHOLE_INTERVAL)
            self.whole_interval = max(self.interval, min(int(most), self._longest))
        if whole:
            self._whole_due = began + self.whole_interval
        elif self.whole_interval == self.interval:
            self._whole_due = 0

    def _bearable(self, costs: deque[int], share: float) -> int:
        bearable = min(costs) / share
        longest = self._longest if len(costs) == _COSTS else min(self._longest, _FIRST_INTERVAL)
        return max(self._least, int(min(bearable, longest)))
