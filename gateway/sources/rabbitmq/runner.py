"""The driver of a RabbitMQ source: sends its requests, passes in answers and events, carries out effects."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from gateway.clock import Clock
from gateway.dialects.session import (
    BacklogFollows,
    Effect,
    LinkDown,
    LinkUp,
    LossSuspected,
    TimerExpired,
    WakeAt,
)
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.durable_queue import DurableSubscription
from gateway.model.observations import SourceState
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.event_consumer import MAX_QUEUE_LENGTH, EventConsumer, KeptEvents, Received
from gateway.sources.rabbitmq.event_gaps import BacklogGap
from gateway.sources.rabbitmq.management_api import (
    LISTING_PATIENCE,
    Answer,
    Document,
    ListingRequest,
    ManagementRequest,
    OverviewRequest,
    OwnerRequest,
    Unavailable,
)
from gateway.sources.rabbitmq.management_changes import BrokerAnswer, BrokerRequest, Purge
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.prometheus_samples import NotScraped, Scraped, ScrapeRequest, Sheet
from gateway.sources.rabbitmq.prometheus_statistics import PrometheusStatistics
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_events import (
    AnswerReceived,
    BrokerEventReceived,
    BrokerReached,
    CallAnswered,
    ConnectionBlocked,
    EventsReceived,
    MetricsReceived,
    PauseDemanded,
    RequestSent,
    SourceEvent,
    Work,
    WorkContinues,
)
from gateway.sources.rabbitmq.status import SourceStatus

LONGEST_WAIT_SECONDS = 1.0
"""Longest time between two checks whether a request is due: the clock may have been set."""

_NO_EVENTS = "none are configured: write `events: { url: amqp://HOST:5672 }` under the source"
_URGENT = (LinkUp, BacklogFollows, BrokerReached, LossSuspected, ConnectionBlocked)
"""Events after which a request may be due at once."""


class Reader(Protocol):
    """Sends requests to the management API (`gateway.sources.rabbitmq.http_reader.HttpReader`)."""

    async def read(self, request: ManagementRequest) -> Answer:
        """Send ``request``; any failure is an answer, too."""
        ...


class Writer(Protocol):
    """Sends the requests of calls (`gateway.sources.rabbitmq.http_writer.HttpWriter`)."""

    async def make(self, request: BrokerRequest) -> BrokerAnswer:
        """Send ``request``, once; any failure is an answer, too."""
        ...


class Scraper(Protocol):
    """Reads metrics (`gateway.sources.rabbitmq.http_reader.PrometheusReader`)."""

    async def scrape(
        self, request: ScrapeRequest, sheet: Sheet, names: dict[bytes, ObjectName | None]
    ) -> Scraped | NotScraped:
        """Read a node's metrics; any failure is an answer, too."""
        ...


class SourceRunner:
    """Runs a RabbitMQ source.

    Args:
        source: the source to run.
        reader: sends its requests.
        perform: carries out its effects.
        clock: the gateway's clock.
        events: the broker's event exchange; ``None`` for a source without events.
        on_status: called with each change of the source's status.
        on_event: called with each event of the broker, after the source has taken it.
        max_events: the largest number of events that wait.
        subscription: a durable subscription to the events.
        received_until: until when all events of the subscription were received, before the start (ns); 0 for
            never.
        writer: sends the requests of operations; without it none is carried out.
        scraper: reads metrics; without it statistics come from listings.
        counters: counts answers and events, and their bytes.
    """

    def __init__(  # noqa: PLR0913  the parts of one source, joined once
        self,
        source: RabbitMqSource,
        reader: Reader,
        perform: Callable[[Iterable[Effect]], None],
        clock: Clock,
        *,
        events: AmqpEndpoint | None = None,
        max_events: int = MAX_QUEUE_LENGTH,
        on_status: Callable[[SourceStatus], None] | None = None,
        on_event: Callable[[str, Mapping[str, object], int], None] | None = None,
        subscription: DurableSubscription | None = None,
        received_until: int = 0,
        writer: Writer | None = None,
        scraper: Scraper | None = None,
        counters: Counter[str] | None = None,
    ) -> None:
        self._source = source
        self._reader = reader
        self._writer = writer
        self._scraper = scraper
        self._perform_effects = perform
        self._clock = clock
        self._on_status = on_status
        self._on_event = on_event
        self._counters = Counter() if counters is None else counters
        self._status: SourceStatus | None = None
        self._request_due = asyncio.Event()
        self._call_due = asyncio.Event()
        self._scrape_due = asyncio.Event()
        self._woken_sooner = asyncio.Event()
        self._wake_at = 0
        self._gap = BacklogGap(received_until)
        self._consumer: EventConsumer | None = None
        if events is not None:
            kept = None
            if subscription is not None:
                kept = KeptEvents(subscription, lambda: source.understands_events)
            self._consumer = EventConsumer(
                *(events, source.event_keys, self._received, clock, kept),
                lambda: source.knows_dependencies,
                lambda: source.cluster_names,
                self._has_queue,
                ask=self._ask,
                max_length=max_events,
            )

    def handle(self, event: SourceEvent) -> None:
        """Pass an event to the source, and carry out its effects."""
        now = self._clock.now()
        self._perform(self._source.handle(event, now))
        if isinstance(event, _URGENT):
            self._request_due.set()
        if self._source.call_at <= now:
            self._call_due.set()

    async def run(self) -> None:
        """Read and receive; this ends by cancellation only."""
        async with asyncio.TaskGroup() as parts:
            if self._consumer is None:
                self.handle(LinkDown(_NO_EVENTS))
            else:
                parts.create_task(self._consumer.run())
            parts.create_task(self._read())
            parts.create_task(self._keep_time())
            if self._writer is not None:
                parts.create_task(self._carry_out(self._writer))
            if self._scraper is not None and self._source.statistics is not None:
                parts.create_task(self._scrape(self._scraper, self._source.statistics))

    async def _keep_time(self) -> None:
        """Pass the end of the source's timer to it, as every other event."""
        while True:
            now = self._clock.now()
            if 0 < self._wake_at <= now:
                self._wake_at = 0
                self.handle(TimerExpired())
            else:
                due = self._wake_at - now if self._wake_at else LONGEST_WAIT_SECONDS * SECOND
                await self._wait(self._woken_sooner, due / SECOND)

    async def _read(self) -> None:
        while True:
            now = self._clock.now()
            request = self._source.next_request(now)
            if request is None:
                await self._wait(self._request_due, (self._source.request_at - now) / SECOND)
                continue
            began = self._clock.now()
            self.handle(RequestSent())
            answer = await self._answer(request)
            self._counters["messages"] += 1
            self._counters["octets"] += answer.size if isinstance(answer, Document) else 0
            self.handle(AnswerReceived(request, answer, began))
            while self._source.busy:
                # Few objects at a time, with other tasks in between: a page must not block the loop.
                self.handle(WorkContinues(Work.LISTING))
                await asyncio.sleep(0)

    async def _has_queue(self, virtual_host: str, name: str) -> bool:
        answer = await self._reader.read(OwnerRequest(ObjectName("queue", (virtual_host, name))))
        return isinstance(answer, Document)

    async def _ask(self, request: ManagementRequest) -> Answer | None:
        """Ask beside the listings, unless nothing is to be asked now; ``None`` if its path cannot be used."""
        if not self._source.can_ask(request):
            return None
        reason = self._source.pauses(self._clock.now())
        if reason:
            return Unavailable(reason)
        answer = await self._reader.read(request)
        if isinstance(answer, Unavailable) and answer.pause:
            self.handle(PauseDemanded(answer.pause))
        return answer

    async def _answer(self, request: ManagementRequest) -> Answer:
        """Return the answer to a request; a long listing is waited for while the broker answers others."""
        if not isinstance(request, ListingRequest) or request.patience <= LISTING_PATIENCE:
            return await self._reader.read(request)
        reading = asyncio.ensure_future(self._reader.read(request))
        try:
            while not (await asyncio.wait({reading}, timeout=LISTING_PATIENCE / SECOND))[0]:
                probe = await self._reader.read(OverviewRequest())
                if not isinstance(probe, Document):
                    return Unavailable("no answer, nor to another request", late=True)
                self.handle(RequestSent())
            return reading.result()
        finally:
            reading.cancel()
            await asyncio.wait({reading})

    async def _scrape(self, scraper: Scraper, statistics: PrometheusStatistics) -> None:
        """Read metrics, independently of listings: a long listing does not delay them."""
        while True:
            while self._source.takes_metrics:
                self.handle(WorkContinues(Work.METRICS))
                await asyncio.sleep(0)
            now = self._clock.now()
            request = self._source.next_scrape(now)
            if request is None:
                await self._wait(self._scrape_due, LONGEST_WAIT_SECONDS)
                continue
            outcome = await scraper.scrape(request, self._source.sheet_for(request), statistics.names)
            self._counters["messages"] += 1
            self._counters["octets"] += outcome.size if isinstance(outcome, Scraped) else 0
            self.handle(MetricsReceived(request, outcome, now))

    async def _carry_out(self, writer: Writer) -> None:
        """Send the requests of calls, independently of listings: an operation does not wait for a listing."""
        while True:
            now = self._clock.now()
            self._perform(self._source.handle(WorkContinues(Work.CALLS), now))
            request = self._source.next_call_request()
            if request is None:
                await self._wait(self._call_due, (self._source.call_at - now) / SECOND)
                continue
            if isinstance(request, Purge):
                request = replace(request, clusters=self._source.cluster_names)
            answer = await writer.make(request)
            self._perform(self._source.handle(CallAnswered(answer), self._clock.now()))

    @staticmethod
    async def _wait(sooner: asyncio.Event, seconds: float) -> None:
        # Not wait_for: in Python 3.11 it ignores a cancellation that comes just when the event was set.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.001, min(seconds, LONGEST_WAIT_SECONDS))):
                await sooner.wait()
        sooner.clear()

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, WakeAt):
                self._wake_at = effect.time
                self._woken_sooner.set()
        self._perform_effects([effect for effect in effects if not isinstance(effect, WakeAt)])
        if (reason := self._source.take_rebind_reason()) and self._consumer is not None:
            self._consumer.bind_again(reason)
        status, former = self._source.status, self._status
        if status != former:
            self._status = status
            was_down = former is not None and former.state is SourceState.DOWN
            if was_down and status.state is not SourceState.DOWN and self._consumer is not None:
                self._consumer.try_again()
            if self._on_status is not None:
                self._on_status(status)

    def _received(self, event: Received) -> None:
        """Take a report of the consumer of events."""
        now = self._clock.now()
        if isinstance(event, BrokerEventReceived):
            self._counters["messages"] += 1
        if isinstance(event, EventsReceived) and event.until:
            self._gap.received(event.until)
        dropped = self._gap.before(event, now)
        if dropped is not None:
            self.handle(dropped)
        self.handle(event)
        if isinstance(event, BrokerEventReceived) and self._on_event is not None:
            self._on_event(event.key, event.headers, now)
