"""Drives a RabbitMQ source: makes the requests it asks for, hands it events, has its effects carried out."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Protocol

from gateway.clock import Clock
from gateway.dialects.session import Effect
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.sources.rabbitmq.event_consumer import EventConsumer, KeptEvents
from gateway.sources.rabbitmq.event_headers import event_time, plain_headers
from gateway.sources.rabbitmq.management_api import Answer, Document, ManagementRequest
from gateway.sources.rabbitmq.management_changes import BrokerAnswer, BrokerRequest
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.prometheus_samples import NotScraped, Scraped, ScrapeRequest, Sheet
from gateway.sources.rabbitmq.prometheus_statistics import PrometheusStatistics
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.status import SourceStatus

LONGEST_WAIT_SECONDS = 1.0
"""The source is asked at least so often whether a request is due: the clock may have been set."""


class Reader(Protocol):
    """Makes requests to the management API (`gateway.sources.rabbitmq.http_reader.HttpReader`)."""

    async def read(self, request: ManagementRequest) -> Answer:
        """Make ``request``; whatever goes wrong is an answer too."""
        ...


class Writer(Protocol):
    """Makes the requests of calls (`gateway.sources.rabbitmq.http_writer.HttpWriter`)."""

    async def make(self, request: BrokerRequest) -> BrokerAnswer:
        """Make ``request``, once; whatever goes wrong is an answer too."""
        ...


class Scraper(Protocol):
    """Reads metrics (`gateway.sources.rabbitmq.http_reader.PrometheusReader`)."""

    async def scrape(
        self, request: ScrapeRequest, sheet: Sheet, names: dict[bytes, ObjectName | None]
    ) -> Scraped | NotScraped:
        """Ask a node; whatever goes wrong is an answer too."""
        ...


class SourceRunner:
    """Runs a RabbitMQ source.

    Args:
        source: what to run.
        reader: makes its requests.
        perform: carries its effects out.
        clock: the gateway's.
        events: where the broker's event exchange is; ``None`` for a source without events.
        on_status: called with each change of what can be seen of the broker.
        on_event: called with each event of the broker, after the source has taken it.
        kept: a durable subscription to the events.
        on_missed: called where events are missing before those of a durable subscription: why, and until when
            (ns).
        writer: makes the requests of calls; without it no call is carried out and nothing is read again.
        scraper: reads metrics; without it statistics come from listings.
        counters: ``messages`` and ``octets`` of answers and events are counted here.
    """

    def __init__(  # noqa: PLR0913  the parts of one source, joined once
        self,
        source: RabbitMqSource,
        reader: Reader,
        perform: Callable[[Iterable[Effect]], None],
        clock: Clock,
        *,
        events: AmqpEndpoint | None = None,
        on_status: Callable[[SourceStatus], None] | None = None,
        on_event: Callable[[str, Mapping[str, object], int], None] | None = None,
        kept: KeptEvents | None = None,
        on_missed: Callable[[str, int], None] = lambda _reason, _until: None,
        writer: Writer | None = None,
        scraper: Scraper | None = None,
        counters: Counter[str] | None = None,
    ) -> None:
        self._writer = writer
        self._scraper = scraper
        self._scrape_wanted = asyncio.Event()
        self._called = asyncio.Event()
        source.on_call = self._called.set
        self._source = source
        self._reader = reader
        self._perform_effects = perform
        self._clock = clock
        self._on_status = on_status
        self._on_event = on_event
        self._counters = Counter() if counters is None else counters
        self._status: SourceStatus | None = None
        self._sooner = asyncio.Event()
        self._missed = ""
        self._on_missed = on_missed
        self._consumer: EventConsumer | None = None
        if events is not None:
            self._consumer = EventConsumer(
                events, source.event_keys, self, kept, lambda: source.knows_what_others_hang_on
            )

    def connection_blocked(self) -> None:
        """The broker seems to take no messages from our link."""
        self._source.connection_blocked(self._clock.now())
        self._perform([])
        self._sooner.set()

    async def run(self) -> None:
        """Read and listen; ends by cancellation only."""
        async with asyncio.TaskGroup() as parts:
            if self._consumer is None:
                self._perform(
                    self._source.events_missing(
                        "none are configured: write `events: { url: amqp://HOST:5672 }` under the source",
                        self._clock.now(),
                    )
                )
            else:
                parts.create_task(self._consumer.run())
            parts.create_task(self._read())
            if self._writer is not None:
                parts.create_task(self._carry_out(self._writer))
            if self._scraper is not None and self._source.statistics is not None:
                parts.create_task(self._scrape(self._scraper, self._source.statistics))

    async def _read(self) -> None:
        while True:
            now = self._clock.now()
            request = self._source.next_request(now)
            if request is None:
                await self._wait(self._sooner, (self._source.request_at - now) / 1e9)
                continue
            began = self._clock.now()
            self._perform(self._source.asked(began))
            answer = await self._reader.read(request)
            self._counters["messages"] += 1
            self._counters["octets"] += answer.size if isinstance(answer, Document) else 0
            self._perform(self._source.answered(request, answer, began, self._clock.now()))
            while self._source.busy:
                # Few objects at a time, giving way in between: a page must not hold the loop.
                self._perform(self._source.advance(self._clock.now()))
                await asyncio.sleep(0)

    async def _scrape(self, scraper: Scraper, statistics: PrometheusStatistics) -> None:
        """Read metrics, beside the listings: a long listing does not make them old."""
        while True:
            while self._source.takes_metrics:
                self._perform(self._source.advance_statistics(self._clock.now()))
                await asyncio.sleep(0)
            now = self._clock.now()
            request = self._source.next_scrape(now)
            if request is None:
                await self._wait(self._scrape_wanted, LONGEST_WAIT_SECONDS)
                continue
            outcome = await scraper.scrape(request, self._source.sheet_for(request), statistics.names)
            self._counters["messages"] += 1
            self._counters["octets"] += outcome.size if isinstance(outcome, Scraped) else 0
            self._perform(self._source.scraped(request, outcome, now, self._clock.now()))

    async def _carry_out(self, writer: Writer) -> None:
        """Make the requests of calls, beside the listings: nobody who waits for one waits for these."""
        while True:
            now = self._clock.now()
            self._perform(self._source.advance_calls(now))
            request = self._source.next_call_request()
            if request is None:
                await self._wait(self._called, (self._source.call_at - now) / 1e9)
                continue
            answer = await writer.make(request)
            self._perform(self._source.call_answered(answer, self._clock.now()))

    @staticmethod
    async def _wait(sooner: asyncio.Event, seconds: float) -> None:
        # Not wait_for: in Python 3.11 it ignores a cancellation that comes just when the event was set.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.001, min(seconds, LONGEST_WAIT_SECONDS))):
                await sooner.wait()
        sooner.clear()

    def _perform(self, effects: list[Effect]) -> None:
        self._perform_effects(effects)
        status = self._source.status
        if status != self._status:
            self._status = status
            if self._on_status is not None:
                self._on_status(status)

    # The consumer's sink.

    def events_connected(self) -> None:
        """From now on events arrive."""
        self._perform(self._source.events_connected(self._clock.now()))
        self._sooner.set()

    def events_resumed(self, missed: str, waiting: int) -> None:
        """From now on events arrive, first those of meanwhile."""
        now = self._clock.now()
        self._missed = self._missed or missed
        if not waiting:
            self._tell_missed(now)
        self._perform(self._source.events_resumed(missed, now))
        self._sooner.set()

    def events_caught_up(self) -> None:
        """Those of meanwhile have been told."""
        self._tell_missed(self._clock.now())
        self._perform(self._source.events_caught_up(self._clock.now()))

    def _tell_missed(self, until: int) -> None:
        missed, self._missed = self._missed, ""
        if missed:
            self._on_missed(missed, until)

    def events_missing(self, reason: str) -> None:
        """No events arrive."""
        self._perform(self._source.events_missing(reason, self._clock.now()))

    def events_lost(self, reason: str, seconds: float) -> None:
        """Some events may have been lost."""
        now = self._clock.now()
        self._perform(self._source.events_lost(reason, now, now - int(seconds * 10**9)))
        self._sooner.set()

    def event(self, key: str, headers: Mapping[str, object], timestamp: datetime | None) -> None:
        """An event arrived."""
        now = self._clock.now()
        self._tell_missed(min(event_time(plain_headers(headers), timestamp) or now, now))
        self._counters["messages"] += 1
        self._perform(self._source.event(key, headers, timestamp, now))
        if self._on_event is not None:
            self._on_event(key, headers, now)
