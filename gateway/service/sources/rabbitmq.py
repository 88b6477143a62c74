"""A source that reads a RabbitMQ itself, from its management API and its event exchange."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import structlog

from gateway.config.sources import RabbitMqSource as RabbitMqSettings
from gateway.inventory.source import SourceInventory
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.session_driver import SessionDriver
from gateway.model.observations import SourceState, SourceStateSeen
from gateway.service.metrics import families
from gateway.service.metrics.families import Histogram, Reading
from gateway.service.sources.rabbitmq_endpoints import (
    event_endpoint,
    http_reader,
    http_writer,
    prometheus_reader,
    source_config,
)
from gateway.service.sources.source_context import BrokerWatcher, ConsolePort, SourceContext, remarked
from gateway.service.state.restored_objects import restored_rabbitmq_objects
from gateway.sources.rabbitmq.event_consumer import MAX_QUEUE_LENGTH
from gateway.sources.rabbitmq.http_reader import HttpReader, PrometheusReader
from gateway.sources.rabbitmq.http_writer import HttpWriter
from gateway.sources.rabbitmq.management_api import Answer, Document, ListingRequest, ManagementRequest
from gateway.sources.rabbitmq.runner import Reader, SourceRunner
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_events import ConnectionBlocked
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

RESTART_SECONDS = 5.0

_REQUEST_BOUNDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """The connections to one broker.

    Attributes:
        reader: reads it.
        writer: carries out operations.
        events: its event exchange, if that is configured.
        scraper: reads its nodes' metrics.
    """

    reader: HttpReader
    writer: HttpWriter
    events: AmqpEndpoint | None
    scraper: PrometheusReader


def broker_access(name: str, settings: RabbitMqSettings, around: SourceContext) -> BrokerAccess:
    """Return the connections to the broker of a source; none is open yet.

    Raises:
        SecretError: a secret of the source cannot be read.
        CommandError: its certificates cannot be read.
    """
    return BrokerAccess(
        http_reader(settings, around.folder, name, around.presented, around.logins),
        http_writer(settings, around.folder, name, around.patience, around.logins),
        event_endpoint(settings, around.folder, name, around.presented, around.logins),
        prometheus_reader(settings, around.folder, name, around.logins),
    )


class MeasuredReader:
    """Makes the requests of a RabbitMQ agent, and counts them (`gateway.sources.rabbitmq.runner.Reader`).

    Args:
        reader: makes them.
        source: the name of the source, a label.
    """

    def __init__(self, reader: Reader, source: str) -> None:
        self._reader = reader
        self._source = source
        self._ended: Counter[tuple[str, str]] = Counter()
        self._seconds = Histogram(families.AGENT_REQUEST_SECONDS, _REQUEST_BOUNDS, source)

    async def read(self, request: ManagementRequest) -> Answer:
        """Make ``request``, and return the answer; every failure is an answer, too."""
        began = time.monotonic()
        answer = await self._reader.read(request)
        self._seconds.observe(time.monotonic() - began)
        outcome = "answered" if isinstance(answer, Document) else _in_words(type(answer).__name__)
        self._ended[_kind(request), outcome] += 1
        return answer

    def readings(self) -> Iterator[Reading]:
        """Yield the readings of the requests."""
        for (request, outcome), count in self._ended.items():
            yield families.AGENT_REQUESTS.at(count, self._source, request, outcome)
        yield from self._seconds.readings()


def _kind(request: ManagementRequest) -> str:
    if isinstance(request, ListingRequest):
        return f"list_{request.class_name}"
    return _in_words(type(request).__name__.removesuffix("Request"))


def _in_words(name: str) -> str:
    """Return ``NotFound`` as ``not_found``."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


async def run_rabbitmq(
    name: str,
    settings: RabbitMqSettings,
    broker: BrokerAccess,
    source: SourceInventory,
    around: SourceContext,
) -> None:
    """Run the source until it is cancelled; an internal error in it restarts it, and no other source.

    What happened in between is a gap, unless a durable subscription keeps it.
    """
    measured = MeasuredReader(broker.reader, name)
    around.metrics.add(f"agent of {name}", measured.readings)
    interruption = _Interruption()
    async with broker.reader, broker.writer, broker.scraper:
        while True:
            try:
                await _observe(name, settings, measured, broker, source, around, interruption)
            except Exception as error:
                log.exception("source-failed", name=name)
                detail = f"internal error {type(error).__name__}: see the log; the source restarts"
                down = SourceStateSeen(SourceState.DOWN, detail)
                around.inventory.observed(source, [down], around.clock.now())
            await asyncio.sleep(RESTART_SECONDS)


@dataclass(slots=True)
class _Interruption:
    """The time of which a source that an internal error has ended received nothing.

    Attributes:
        since: when that time began, nanoseconds since 1970 UTC; 0 for none.
    """

    since: int = 0


async def _observe(
    name: str,
    settings: RabbitMqSettings,
    reader: Reader,
    broker: BrokerAccess,
    source: SourceInventory,
    around: SourceContext,
    interruption: _Interruption,
) -> None:
    subscription = around.subscription("events", name, settings.durable)
    watcher = around.watchers.get(name)
    publishing = None if watcher is None else watcher.publishing
    config = replace(source_config(settings, publishing), awaits_events=broker.events is not None)
    rabbitmq = around.rabbitmq(name, config)
    driver = SessionDriver(
        name,
        rabbitmq,
        lambda observations: around.inventory.observed(
            source, remarked(observations, subscription), around.clock.now()
        ),
        around.clock,
        source.counters,
        around.after_observations(source),
    )
    proven_until = await _restore(rabbitmq, name, around, events_kept=subscription is not None)
    if interruption.since and subscription is None:
        rabbitmq.interrupted(interruption.since, around.clock.now())
    runner = SourceRunner(
        rabbitmq,
        reader,
        driver.perform,
        around.clock,
        events=broker.events,
        max_events=MAX_QUEUE_LENGTH if settings.events is None else settings.events.max_length,
        writer=broker.writer,
        scraper=broker.scraper,
        subscription=subscription,
        received_until=proven_until if subscription is not None else 0,
        counters=source.counters,
        on_status=None if watcher is None else watcher.status_changed,
        on_event=None if watcher is None else watcher.event_received,
    )
    around.operations.connect(source.identity.number, ConsolePort(rabbitmq, runner, around.clock))
    try:
        blocked = () if watcher is None else (_watch_for_blocked(watcher, runner),)
        await until_one_ends(runner.run(), driver.until_failed(), *blocked)
    except Exception:
        interruption.since = rabbitmq.received_until(around.clock.now()) or interruption.since
        driver.perform(rabbitmq.abandon("the source restarts after an internal error"))
        raise
    finally:
        driver.stop()


async def _restore(rabbitmq: RabbitMqSource, name: str, around: SourceContext, *, events_kept: bool) -> int:
    """Give a new source the objects that the event log has.

    Args:
        rabbitmq: the source, to which nothing was reported.
        name: the name of the source.
        around: the shared context of sources.
        events_kept: as `RabbitMqSource.remember` has it.

    Returns:
        The time until which all is proven to be recorded, nanoseconds; 0 where the log does not know it.
    """
    durable_context = around.usable_durable
    if durable_context is None:
        return 0
    last = await durable_context.last.take(name)
    complete_until = last.complete_until.get(name, 0)
    objects = restored_rabbitmq_objects(around.mappings["rabbitmq"], last, name)
    rabbitmq.remember(objects, around.clock.now(), events_kept=events_kept, complete_until=complete_until)
    return max(0, complete_until - last.unproven.get(name, 0))


async def _watch_for_blocked(watcher: BrokerWatcher, runner: SourceRunner) -> None:
    """Inform the source when the broker seems to take no messages, so that it reads alarms at once."""
    while True:
        await watcher.blocked()
        runner.handle(ConnectionBlocked())
