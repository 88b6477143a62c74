"""The first reading of a broker with many queues: the order of its results, and the status meanwhile."""

from __future__ import annotations

from gateway.dialects.session import Effect, LinkUp, Observed
from gateway.model.observations import ObjectSeen, SourceState
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.management_api import (
    Answer,
    Broken,
    ListingRequest,
    ManagementRequest,
    Refused,
    Unavailable,
)
from gateway.sources.rabbitmq.prometheus_samples import NodeSheet, Scraped
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig, StatisticsConfig
from gateway.sources.rabbitmq.source_events import AnswerReceived, MetricsReceived, Work, WorkContinues
from tests.components.shipped_mappings import shipped_mappings
from tests.sources.rabbitmq.imitation import EPOCH, NODE, ImitatedBroker

QUEUES = 2_000
COUNTERS = (
    "get_ack_total",
    "get_total",
    "messages_delivered_ack_total",
    "messages_delivered_total",
    "messages_redelivered_total",
    "messages_acked_total",
    "get_empty_total",
    "exchange_messages_published_total",
)


class Reading:
    """A source that reads a broker with many queues, one request after the other."""

    def __init__(self) -> None:
        self.broker = ImitatedBroker()
        for number in range(QUEUES):
            self.broker.add_queue(f"q{number}", messages=number, memory=1000, state="running")
        config = RabbitMqSourceConfig(
            user="gateway", statistics=StatisticsConfig(urls=("http://127.0.0.1:15692",))
        )
        self.source = RabbitMqSource(config, shipped_mappings()["rabbitmq"])
        self.source.handle(LinkUp(""), EPOCH)
        self.now = EPOCH
        self.seen: list[ObjectSeen] = []

    def _done(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Observed):
                self.seen += [one for one in effect.observations if isinstance(one, ObjectSeen)]

    def step(self) -> ManagementRequest:
        """Answer the next request, and return it."""
        self.now = max(self.now, self.source.request_at)
        request = self.source.next_request(self.now)
        assert request is not None
        began, self.now = self.now, self.now + MILLISECOND
        self._done(self.source.handle(AnswerReceived(request, self.broker.answer(request), began), self.now))
        while self.source.busy:
            self._done(self.source.handle(WorkContinues(Work.LISTING), self.now))
        return request

    def until_whole_page(self, page: int) -> None:
        """Answer requests until this page of the queues with their statistics was read."""
        whole = (False, "queue", page)
        request = self.step()
        while not isinstance(request, ListingRequest) or whole != (
            request.lean,
            request.class_name,
            request.page,
        ):
            request = self.step()

    def until_names(self) -> None:
        """Answer requests until the names of all queues were read."""
        request = self.step()
        while not (isinstance(request, ListingRequest) and request.lean):
            request = self.step()

    def scrape(self, node: str = NODE, cluster: str = "shop") -> bool:
        """Answer a scrape with the metrics of a node. Return whether one was requested."""
        request = self.source.next_scrape(self.now)
        statistics = self.source.statistics
        if request is None or statistics is None:
            return False
        sheet = self.source.sheet_for(request)
        assert isinstance(sheet, NodeSheet)
        sheet.feed(metrics(node, cluster))
        sheet.finish()
        list(sheet.resolve(statistics.names))
        began, self.now = self.now, self.now + MILLISECOND
        self._done(
            self.source.handle(
                MetricsReceived(request, Scraped(sheet, MILLISECOND, MILLISECOND, 1), began), self.now
            )
        )
        while statistics.busy:
            self._done(self.source.handle(WorkContinues(Work.METRICS), self.now))
        return True

    def state(self) -> SourceState:
        return self.source.status.state

    def value(self, element: str, queue: str = "q7") -> object:
        names = [one.name for one in self.source.readers["queue"].schema.statistics]
        (known,) = [one for one in self.source.known("queue") if one.name.leaf == queue]
        return known.statistics[names.index(element)]


def metrics(node: str, cluster: str) -> bytes:
    lines = ["# TYPE rabbitmq_detailed_queue_messages gauge"]
    lines += [
        f'rabbitmq_detailed_queue_messages{{vhost="/",queue="q{number}"}} {number}'
        for number in range(QUEUES)
    ]
    lines += [f"# TYPE rabbitmq_detailed_queue_{name} counter" for name in COUNTERS]
    identity = f'rabbitmq_node="{node}",rabbitmq_cluster="{cluster}"'
    lines += ["# TYPE rabbitmq_identity_info untyped", f"rabbitmq_identity_info{{{identity}}} 1"]
    return "".join(f"{line}\n" for line in lines).encode()


def test_what_queues_refer_to_is_read_first_and_their_names_at_once() -> None:
    reading = Reading()
    reading.step()
    assert "queues: 0 of 2,000 read" in reading.source.status.detail
    assert not reading.scrape(), "metrics wait until names are known"
    reading.until_names()
    classes = list(dict.fromkeys(one.key.name for one in reading.seen))
    assert classes == ["node", "vhost", "queue"]
    queues = [one for one in reading.seen if one.key.name == "queue"]
    assert len(queues) == QUEUES, "each is published once"
    assert "values of queues: 0 of 2,000 read" in reading.source.status.detail


def test_names_and_metrics_are_enough_to_be_synchronised_and_the_rest_is_said_to_come() -> None:
    reading = Reading()
    reading.until_names()
    assert reading.scrape()
    assert reading.value("messages") == 7
    assert reading.value("memory") is None
    reading.until_whole_page(1)
    assert reading.state() is SourceState.SYNCHRONISED
    assert "values of queues: 500 of 2,000 read" in reading.source.status.detail
    reading.until_whole_page(4)
    assert reading.value("memory", "q1999") == 1000
    assert "values of queues" not in reading.source.status.detail


def test_without_metrics_all_pages_are_waited_for() -> None:
    reading = Reading()
    reading.until_names()
    reading.until_whole_page(3)
    assert reading.state() is SourceState.SYNCHRONISING
    assert "values of queues: 1,500 of 2,000 read" in reading.source.status.detail
    reading.until_whole_page(4)
    assert reading.state() is SourceState.SYNCHRONISED


def test_after_an_outage_metrics_of_before_are_not_enough() -> None:
    assert ("queue", 4) in pages_until_synchronised(after_outage())


def test_after_an_outage_names_and_new_metrics_are_enough() -> None:
    reading = after_outage()
    reading.until_names()
    reading.now += 20 * SECOND
    assert reading.scrape()
    assert ("queue", 4) not in pages_until_synchronised(reading)


def after_outage() -> Reading:
    """Return a reading after an outage: all was read once, then the broker failed, and it answers again."""
    reading = Reading()
    reading.until_names()
    reading.scrape()
    reading.until_whole_page(4)
    reading.broker.failure = lambda _: Unavailable("connection refused")
    reading.step()
    assert reading.state() is SourceState.DOWN
    reading.broker.failure = lambda _: None
    reading.step()
    assert reading.state() is SourceState.SYNCHRONISING
    return reading


def pages_until_synchronised(reading: Reading) -> list[tuple[str, int]]:
    """Return the pages of listings with statistics that are read until the source is synchronised."""
    pages = []
    while reading.state() is not SourceState.SYNCHRONISED:
        request = reading.step()
        if isinstance(request, ListingRequest) and not request.lean:
            pages.append((request.class_name, request.page))
    return pages


def test_names_that_are_too_many_for_one_answer_come_with_the_pages() -> None:
    def too_long(request: ManagementRequest) -> Answer | None:
        is_lean = isinstance(request, ListingRequest) and request.lean
        return Broken("an answer of more than 16777216 bytes", permanent=True) if is_lean else None

    reading = Reading()
    reading.broker.failure = too_long
    reading.until_names()
    assert "not shown" not in reading.source.status.detail
    reading.until_whole_page(1)
    assert "queues: 500 of 2,000 read" in reading.source.status.detail
    assert reading.scrape(), "names are not waited for"
    reading.until_whole_page(4)
    assert len(list(reading.source.known("queue"))) == QUEUES
    assert reading.state() is SourceState.SYNCHRONISED


def test_what_may_not_be_listed_is_not_said_to_be_read_some_time() -> None:
    def refuses(request: ManagementRequest) -> Answer | None:
        is_queues = isinstance(request, ListingRequest) and request.class_name == "queue"
        return Refused(login=False, reason="no") if is_queues else None

    reading = Reading()
    reading.broker.failure = refuses
    reading.step()
    assert "queues: 0 of 2,000 read" in reading.source.status.detail
    for _ in range(20):
        reading.step()
    assert "of 2,000 read" not in reading.source.status.detail
