"""Statistics of queues from Prometheus' metrics: the nodes to ask, the times, and the answers' meaning."""

from __future__ import annotations

import pytest

from gateway.dialects.errors import ProtocolError
from gateway.mapping.paths import Json
from gateway.model.observations import Counting
from gateway.model.times import MILLISECOND, MINUTE, SECOND
from gateway.model.values import Value
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.object_lives import Change, KnownObject, Put
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.prometheus_samples import NodeSheet, NotScraped, ScrapeRequest
from gateway.sources.rabbitmq.prometheus_statistics import PrometheusStatistics, ScrapePace, listener_url
from gateway.sources.rabbitmq.reading import Reading, class_readers
from gateway.sources.rabbitmq.source_config import StatisticsConfig
from tests.components.shipped_mappings import shipped_mappings

READERS = class_readers(shipped_mappings()["rabbitmq"])
T0 = 1_700_000_000 * SECOND
ORDERS = ObjectName("queue", ("/", "orders"))
TYPES = (
    "queue_messages",
    "queue_get_ack_total",
    "queue_get_total",
    "queue_messages_delivered_ack_total",
    "queue_messages_delivered_total",
    "queue_messages_redelivered_total",
    "queue_messages_acked_total",
    "queue_get_empty_total",
    "queue_exchange_messages_published_total",
)
"""The metrics that a node of RabbitMQ 4.x names, with or without samples."""


def body(node: str, *samples: str, types: tuple[str, ...] = TYPES) -> bytes:
    """Return the answer of a node; a sample is written ``queue_messages 7`` for the queue ``orders``."""
    lines = []
    for name in types:
        lines.append(f"# TYPE rabbitmq_detailed_{name} gauge")
        for sample in samples:
            metric, value = sample.split()
            if metric.partition("@")[0] == name:
                exchange = f',exchange="{metric.partition("@")[2]}"' if "@" in metric else ""
                lines.append(f'rabbitmq_detailed_{name}{{vhost="/"{exchange},queue="orders"}} {value}')
    lines += ["# TYPE rabbitmq_identity_info untyped", f'rabbitmq_identity_info{{rabbitmq_node="{node}"}} 1']
    return "".join(f"{line}\n" for line in lines).encode()


class Broker:
    """The statistics of a broker of two nodes, and its known queues."""

    def __init__(self, *nodes: str) -> None:
        self.now = T0
        self.statistics = PrometheusStatistics(
            READERS["queue"], StatisticsConfig(management="http://127.0.0.1:15672")
        )
        self.known = KnownObjects(READERS)
        self.changes: list[Change] = []
        self.nodes = nodes or ("rabbit@a", "rabbit@b")
        self.listens(*self.nodes)

    def listens(self, *nodes: str, others: tuple[str, ...] = ()) -> None:
        listeners: list[Json] = [
            {"node": node, "protocol": "http/prometheus", "ip_address": "127.0.0.1", "port": 15692 + number}
            for number, node in enumerate(nodes)
        ]
        listeners += [
            {"node": node, "protocol": "amqp", "ip_address": "::", "port": 5672} for node in (*nodes, *others)
        ]
        self.statistics.learn_listeners({"listeners": listeners})

    def declared(self, created: int = T0, **more: Json) -> KnownObject:
        """Add the queue ``orders`` by its event and a listing, and return it."""
        reading = self.reading(node="rabbit@a", **more)
        self.known.created(reading, created, self.now)
        self.known.listed(reading, self.now, self.now, self.now)
        return self.queue

    def reading(self, **more: Json) -> Reading:
        reading = READERS["queue"].read(
            {
                "vhost": "/",
                "name": "orders",
                "durable": True,
                "auto_delete": False,
                "exclusive": False,
                **more,
            }
        )
        assert reading is not None
        return reading

    @property
    def queue(self) -> KnownObject:
        known = self.known.get(ORDERS)
        assert known is not None
        return known

    def value(self, element: str, statistics: tuple[Value | None, ...] | None = None) -> Value | None:
        names = [one.name for one in READERS["queue"].schema.statistics]
        return (statistics or self.queue.statistics)[names.index(element)]

    def request(self) -> ScrapeRequest:
        self.now = max(self.now, self.statistics.due)
        request = self.statistics.next_request(self.now)
        assert request is not None
        return request

    def answers(self, *samples: str, seconds: float = 0.1, types: tuple[str, ...] = TYPES) -> None:
        """Answer for the node that is to be asked next; as ``rabbit@a`` if any node may be asked."""
        request = self.request()
        sheet = NodeSheet(self.statistics.columns)
        sheet.feed(body(request.node or "rabbit@a", *samples, types=types))
        sheet.finish()
        list(sheet.resolve(self.statistics.names))
        began, self.now = self.now, self.now + int(seconds * SECOND)
        self.statistics.scraped(request, sheet, began, self.now, self.now - began)
        self.changes = []
        while self.statistics.busy:
            self.changes += self.statistics.advance(self.known, frozenset())

    @property
    def countings(self) -> list[Counting]:
        """How counters go on, by the changes of the last reading."""
        return [change.counting for change in self.changes if isinstance(change, Put)]


def test_gauges_are_of_the_node_that_holds_the_queue_and_counters_of_all_nodes_together() -> None:
    broker = Broker()
    broker.declared()
    broker.answers("queue_messages 7", "queue_exchange_messages_published_total@x1 10")
    asked = broker.now
    broker.answers(
        "queue_messages 3",  # left from when it led
        "queue_exchange_messages_published_total@x1 1",
        "queue_exchange_messages_published_total@x2 2",
        "queue_get_total 4",
    )
    assert broker.statistics.active
    assert broker.value("messages") == 7
    assert broker.value("messagesPublished") == 13
    assert broker.value("messagesDeliveredOrGot") == 4
    assert broker.value("messagesAcknowledged") is None, "of what sort the queue is, is not known"
    assert broker.queue.sampled == asked - 50 * MILLISECOND


def test_a_sum_over_other_nodes_than_before_does_not_go_on_from_it() -> None:
    """A node that is back may have what it had, and no counter says so."""
    broker = Broker()
    broker.declared()

    def read(*published: int) -> None:
        for count in published:
            broker.answers(f"queue_exchange_messages_published_total@x1 {count}")

    read(10, 5)
    read(11, 5)
    assert broker.countings == [Counting.GO_ON]
    broker.listens("rabbit@a")
    read(12)
    assert (broker.value("messagesPublished"), broker.countings) == (12, [Counting.UNKNOWN])
    read(13)
    assert broker.countings == [Counting.GO_ON]
    broker.listens("rabbit@a", "rabbit@b")
    read(14, 5)
    assert (broker.value("messagesPublished"), broker.countings) == (19, [Counting.UNKNOWN])


def test_counters_of_a_classic_queue_without_traffic_are_zero_and_those_of_a_stream_are_absent() -> None:
    for kind, count in (("classic", 0), ("quorum", 0), ("stream", None)):
        broker = Broker("rabbit@a")
        broker.declared(type=kind)
        broker.answers("queue_messages 0")
        assert broker.value("messagesAcknowledged") == count


def test_what_has_no_metric_stays_until_something_changes_in_the_queue() -> None:
    broker = Broker("rabbit@a")
    broker.declared(idle_since="2026-11-21T13:52:27.099+00:00", memory=100)
    broker.answers("queue_messages 7")
    broker.answers("queue_messages 7")
    assert broker.value("idleSince") is not None
    broker.answers("queue_messages 8")
    assert broker.value("idleSince") is None
    assert broker.value("memory") == 100


def test_counters_of_a_former_queue_of_the_same_name_are_subtracted() -> None:
    broker = Broker("rabbit@a")
    broker.declared(created=T0)
    broker.answers("queue_get_total 10", "queue_exchange_messages_published_total@x1 5")
    broker.known.deleted(ORDERS, broker.now, broker.now)
    broker.answers("queue_get_total 10", "queue_exchange_messages_published_total@x1 5")
    broker.declared(created=broker.now)
    broker.answers("queue_get_total 10", "queue_exchange_messages_published_total@x1 6")
    assert (broker.value("messagesGotWithoutAck"), broker.value("messagesPublished")) == (0, 1)
    broker.answers("queue_get_total 12", "queue_exchange_messages_published_total@x1 7")
    assert (broker.value("messagesGotWithoutAck"), broker.value("messagesPublished")) == (2, 2)
    broker.answers("queue_get_total 3")
    assert broker.value("messagesGotWithoutAck") == 3, "the node was started again"


def test_a_listing_changes_no_statistics_that_are_metrics() -> None:
    broker = Broker("rabbit@a")
    broker.declared()
    broker.answers("queue_messages 7", "queue_get_total 10")
    sampled = broker.queue.sampled
    listed = broker.reading(messages=9, memory=100, message_stats={"get_no_ack": 8})
    joined, when = broker.statistics.joined(listed, broker.queue, broker.now, single=False)
    assert broker.value("messages", joined.statistics) == 7
    assert broker.value("messagesGotWithoutAck", joined.statistics) == 10
    assert broker.value("memory", joined.statistics) == 100
    assert when == sampled


def test_a_queue_that_is_read_by_itself_after_a_purge_shows_it() -> None:
    broker = Broker("rabbit@a")
    broker.declared()
    broker.answers("queue_messages 7", "queue_get_total 10")
    read = broker.reading(messages=0, message_stats={"get_no_ack": 8})
    joined, when = broker.statistics.joined(read, broker.queue, broker.now, single=True)
    assert broker.value("messages", joined.statistics) == 0
    assert broker.value("messagesGotWithoutAck", joined.statistics) == 10, "the API counts later"
    assert when == broker.now


def test_a_queue_that_is_read_by_itself_before_the_broker_measured_it_keeps_its_metrics() -> None:
    broker = Broker("rabbit@a")
    broker.declared()
    broker.answers("queue_messages 7", "queue_get_total 10")
    sampled = broker.queue.sampled
    joined, when = broker.statistics.joined(broker.reading(), broker.queue, broker.now, single=True)
    assert broker.value("messages", joined.statistics) == 7
    assert broker.value("messagesGotWithoutAck", joined.statistics) == 10
    assert when == sampled


def test_without_metrics_counters_of_listings_do_not_go_backwards() -> None:
    broker = Broker("rabbit@a")
    broker.declared()
    broker.answers("queue_get_total 10")
    broker.statistics.failed(broker.request(), NotScraped("connection refused"), broker.now)
    assert not broker.statistics.active
    assert broker.statistics.trouble == (
        "statistics are read from listings: no metrics of rabbit@a (connection refused)"
    )
    listed = broker.reading(message_stats={"get_no_ack": 8})
    shown = []
    for _ in range(14):
        joined, sampled = broker.statistics.joined(listed, broker.queue, broker.now, single=False)
        broker.known.listed(joined, broker.now, sampled, broker.now)
        shown.append(broker.value("messagesGotWithoutAck"))
        broker.now += 5 * SECOND
    assert shown == [10] * 11 + [8] * 3, "it began again: it lags no longer than a minute after the metrics"


def test_a_node_that_fails_is_asked_again_after_pauses_that_grow() -> None:
    broker = Broker("rabbit@a")
    pauses = []
    for _ in range(8):
        request = broker.request()
        broker.statistics.failed(request, NotScraped("connection refused"), broker.now)
        pauses.append((broker.statistics.due - broker.now) // SECOND)
    assert pauses == [15, 30, 60, 120, 240, 480, 600, 600]
    broker.answers()
    assert (broker.statistics.active, broker.statistics.trouble) == (True, "")


def test_another_node_than_was_asked_is_not_trusted() -> None:
    broker = Broker("rabbit@a")
    request = broker.request()
    sheet = NodeSheet(broker.statistics.columns)
    sheet.feed(body("rabbit@elsewhere"))
    sheet.finish()
    broker.statistics.scraped(request, sheet, broker.now, broker.now, 0)
    assert not broker.statistics.active
    assert "it says that it is rabbit@elsewhere" in broker.statistics.trouble


def test_all_nodes_have_to_have_metrics() -> None:
    broker = Broker("rabbit@a")
    broker.listens("rabbit@a", others=("rabbit@b",))
    assert broker.statistics.next_request(broker.now) is None
    assert broker.statistics.trouble == "rabbit@b has no Prometheus metrics that may be read"
    broker.listens("rabbit@a")
    assert broker.statistics.next_request(broker.now) is not None
    assert broker.statistics.trouble == ""


def test_dear_metrics_are_asked_for_less_often_and_stay_as_they_were_meanwhile() -> None:
    broker = Broker("rabbit@a")
    broker.declared()
    assert "queue_consumer_count" in broker.request().families
    types = (*TYPES, "queue_consumers")
    broker.answers("queue_messages 7", "queue_consumers 2", seconds=0.6, types=types)
    request = broker.request()
    assert "queue_consumer_count" not in request.families
    broker.answers("queue_messages 8", seconds=0.1)
    assert (broker.value("messages"), broker.value("consumers")) == (8, 2)
    while not broker.request().whole:
        broker.answers("queue_messages 8", seconds=0.1)
    broker.answers("queue_messages 8", seconds=0.6, types=types)
    assert broker.value("consumers") is None, "the broker does not tell it any more"


def test_a_queue_declared_between_two_readings_of_dear_metrics_takes_nothing_from_its_predecessor() -> None:
    broker = Broker("rabbit@a")
    broker.declared()
    broker.answers("queue_consumers 2", seconds=0.6, types=(*TYPES, "queue_consumers"))
    broker.known.deleted(ORDERS, broker.now, broker.now)
    broker.declared(created=broker.now + SECOND)
    broker.answers("queue_messages 1", seconds=0.1)
    assert (broker.value("messages"), broker.value("consumers")) == (1, None)


def test_metrics_that_take_nodes_long_are_asked_of_all_nodes_alike() -> None:
    broker = Broker()
    for _ in range(2):
        broker.answers(seconds=0.6)
    asked = []
    for _ in range(2):
        asked.append(broker.request())
        broker.answers(seconds=0.1)
    assert [(request.node, request.whole) for request in asked] == [("rabbit@a", False), ("rabbit@b", False)]


def test_a_broker_that_does_not_count_by_queue_is_no_source_of_statistics() -> None:
    sheet = NodeSheet(Broker().statistics.columns)
    sheet.feed(body("rabbit@old", "queue_messages 7", types=("queue_messages",)))
    with pytest.raises(ProtocolError, match=r"counters of queues, which RabbitMQ has since 4\.0"):
        sheet.finish()


def test_what_does_not_say_which_node_it_is_is_no_source_of_statistics() -> None:
    sheet = NodeSheet(Broker().statistics.columns)
    sheet.feed(b"# TYPE up gauge\nup 1\n")
    with pytest.raises(ProtocolError, match="the name of the node"):
        sheet.finish()


@pytest.mark.parametrize(
    ("listener", "management", "url"),
    [
        (("http/prometheus", "::", 15692), "http://broker:15672", "http://a:15692"),
        (("http/prometheus", "10.0.0.1", 15692), "http://broker:15672", "http://10.0.0.1:15692"),
        (("http/prometheus", "fe80::1", 15692), "http://broker:15672", "http://[fe80::1]:15692"),
        (("https/prometheus", "::", 15691), "https://broker:15671", "https://a:15691"),
        (("http/prometheus", "::", 15692), "https://broker:15671", ""),
        (("http/prometheus", "127.0.0.1", 15692), "http://broker:15672", ""),
        (("http/prometheus", "127.0.0.1", 9), "http://localhost:15672", "http://127.0.0.1:9"),
        (("http/prometheus", "::", 9), "https://127.0.0.1:15671", "http://127.0.0.1:9"),
        (("http", "::", 15672), "http://broker:15672", ""),
        (("http/prometheus", None, 15692), "http://broker:15672", ""),
    ],
)
def test_where_a_listener_is_reached(listener: tuple[str, Json, int], management: str, url: str) -> None:
    protocol, address, port = listener
    found = {"protocol": protocol, "ip_address": address, "port": port}
    assert listener_url(found, "rabbit@a", management) == url


@pytest.mark.parametrize(
    ("protocol", "address", "management", "url"),
    [
        ("http/prometheus", "10.0.0.1", "http://localhost:15672", ""),
        ("https/prometheus", "10.0.0.1", "http://localhost:15672", "https://10.0.0.1:15692"),
        ("http/prometheus", "::", "http://localhost:15672", "http://localhost:15692"),
        ("http/prometheus", "10.0.0.1", "http://broker:15672", "http://10.0.0.1:15692"),
    ],
)
def test_no_login_leaves_this_machine_in_plain_text_because_a_broker_names_an_address(
    protocol: str, address: str, management: str, url: str
) -> None:
    """Where the management API is read on this machine, as through a tunnel, no line warns of plain text."""
    found: dict[str, Json] = {"protocol": protocol, "ip_address": address, "port": 15692}
    assert listener_url(found, "rabbit@a", management, has_login=True) == url


def pace(*, dear: bool = True) -> ScrapePace:
    return ScrapePace(5 * SECOND, 0.024, dear=dear)


def run(readings: ScrapePace, now: int, until: int, lean: int, whole: int) -> tuple[int, int, int]:
    """Read at the pace until a time; return the end, the busy time, and the number of whole readings."""
    busy = wholes = 0
    while now < until:
        is_whole = readings.is_whole(now)
        cost = whole if is_whole else lean
        readings.read(now, cost, whole=is_whole)
        busy, wholes = busy + cost, wholes + is_whole
        now += readings.interval
    return now, busy, wholes


def test_cheap_metrics_are_read_whole_at_the_least_interval() -> None:
    readings = pace()
    now, _, wholes = run(readings, 0, 10 * MINUTE, 20 * MILLISECOND, 100 * MILLISECOND)
    assert (readings.interval, readings.whole_interval) == (5 * SECOND, 5 * SECOND)
    assert wholes == now // (5 * SECOND)


def test_where_whole_readings_are_dear_the_others_stay_frequent() -> None:
    """The case is 20,000 queues on RabbitMQ 4.0: 0.12 s of a processor for most metrics, 0.43 s for all."""
    readings = pace()
    now, _, _ = run(readings, 0, 10 * MINUTE, 120 * MILLISECOND, 430 * MILLISECOND)
    begun = now
    now, busy, _ = run(readings, now, now + 60 * MINUTE, 120 * MILLISECOND, 430 * MILLISECOND)
    assert readings.interval == pytest.approx(6.667 * SECOND, rel=0.001)
    assert readings.whole_interval == pytest.approx(51.667 * SECOND, rel=0.001)
    assert busy / (now - begun) < 0.024
    assert readings.share == pytest.approx(0.024)


def test_one_slow_reading_at_the_start_does_not_make_the_next_ones_rare() -> None:
    readings = pace()
    readings.read(0, 9 * SECOND, whole=readings.is_whole(0))
    assert readings.interval == 12 * SECOND
    assert not readings.is_whole(12 * SECOND)
    assert readings.is_whole(60 * SECOND)


def test_nothing_is_left_out_where_nothing_may_be() -> None:
    readings = pace(dear=False)
    now, busy, _ = run(readings, 0, 60 * MINUTE, 0, SECOND)
    assert readings.interval == pytest.approx(SECOND / 0.024)
    assert busy / now < 0.03


def test_the_least_of_what_readings_took_counts() -> None:
    readings = pace(dear=False)
    for cost in (100, 600, 700, 800, 900, 600, 700, 800):
        readings.read(0, cost * MILLISECOND, whole=True)
        assert readings.interval == 5 * SECOND
    readings.read(0, 650 * MILLISECOND, whole=True)
    assert readings.interval == pytest.approx(25 * SECOND)


def test_after_a_restart_the_first_reading_is_whole() -> None:
    readings = pace()
    readings.read(0, SECOND, whole=True)
    assert not readings.is_whole(SECOND)
    readings.restart()
    assert readings.is_whole(SECOND)
