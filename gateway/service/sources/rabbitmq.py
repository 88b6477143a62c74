"""A source that reads a RabbitMQ itself, from its management API and its event exchange."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import structlog

from gateway.clock import Clock
from gateway.config.sources import RabbitMqSource as RabbitMqSettings
from gateway.dialects.session import Answered, Effect, Note, Observed, WakeAt
from gateway.inventory.source import SourceInventory
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.session_driver import SessionNotes, WakeUp
from gateway.model.observations import Observation, SourceState, SourceStateSeen
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.service.metrics.core import MeasuredReader
from gateway.service.sources.endpoints import source_config
from gateway.service.sources.source_context import BrokerWatcher, SourceContext, remarked
from gateway.service.state.restored_objects import restored_rabbitmq_objects
from gateway.sources.rabbitmq.event_consumer import KeptEvents
from gateway.sources.rabbitmq.http_reader import HttpReader, PrometheusReader
from gateway.sources.rabbitmq.http_writer import HttpWriter
from gateway.sources.rabbitmq.runner import Reader, SourceRunner
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

RESTART_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """The ways to one broker.

    Attributes:
        reader: reads it.
        writer: carries out operations.
        events: where its event exchange is, if that is configured.
        scraper: reads its nodes' metrics.
    """

    reader: HttpReader
    writer: HttpWriter
    events: AmqpEndpoint | None
    scraper: PrometheusReader


async def run_rabbitmq(
    name: str,
    settings: RabbitMqSettings,
    broker: BrokerAccess,
    source: SourceInventory,
    around: SourceContext,
) -> None:
    """Run the source until it is cancelled; an internal error in it restarts it, and no other source."""
    measured = MeasuredReader(broker.reader, name)
    around.metrics.add(f"agent of {name}", measured.readings)
    async with broker.reader, broker.writer, broker.scraper:
        while True:
            try:
                await _observe(name, settings, measured, broker, source, around)
            except Exception as error:
                log.exception("source-failed", name=name)
                detail = f"internal error {type(error).__name__}: see the log; the source restarts"
                down = SourceStateSeen(SourceState.DOWN, detail)
                around.inventory.observed(source, [down], around.clock.now())
            await asyncio.sleep(RESTART_SECONDS)


async def _observe(
    name: str,
    settings: RabbitMqSettings,
    reader: Reader,
    broker: BrokerAccess,
    source: SourceInventory,
    around: SourceContext,
) -> None:
    subscription = around.subscription("events", name, settings.durable)
    watcher = around.watchers.get(name)
    publishing = None if watcher is None else watcher.publishing
    config = replace(source_config(settings, publishing), awaits_events=broker.events is not None)
    rabbitmq = around.rabbitmq(name, config)
    driver = SourceDriver(
        name,
        rabbitmq,
        lambda observations: around.inventory.observed(
            source, remarked(observations, subscription), around.clock.now()
        ),
        around.behind_what_was_told(source),
        around.clock,
        source.counters,
    )
    lasting = around.usable_lasting
    if lasting is not None:
        former = restored_rabbitmq_objects(around.mappings["rabbitmq"], lasting.last, name)
        heard_until = lasting.last.heard_until.get(name, 0)
        kept = subscription is not None
        rabbitmq.remember(former, around.clock.now(), events_kept=kept, heard_until=heard_until)
        if kept:
            driver.received_until = heard_until
    runner = SourceRunner(
        rabbitmq,
        reader,
        driver.perform,
        around.clock,
        events=broker.events,
        writer=broker.writer,
        scraper=broker.scraper,
        kept=None
        if subscription is None
        else KeptEvents(subscription, lambda: rabbitmq.understands_events, driver.event_taken),
        on_missed=driver.missed,
        counters=source.counters,
        on_status=None if watcher is None else watcher.status_changed,
        on_event=None if watcher is None else watcher.event_received,
    )
    around.operations.connect(source.identity.number, RabbitMqPort(rabbitmq, driver.perform, around.clock))
    try:
        blocked = () if watcher is None else (_watch_for_blocked(watcher, runner),)
        await until_one_ends(runner.run(), driver.failed(), *blocked)
    except Exception:
        driver.perform(rabbitmq.abandon("the source restarts after an internal error"))
        raise
    finally:
        driver.stop()


async def _watch_for_blocked(watcher: BrokerWatcher, runner: SourceRunner) -> None:
    """Tell the source when the broker seems to take no messages: it looks for an alarm at once."""
    while True:
        await watcher.blocked()
        runner.connection_blocked()


class SourceDriver:
    """Carries the effects of a `RabbitMqSource` out, and wakes it.

    Args:
        name: of the source, for the log.
        rabbitmq: whose effects these are.
        observe: takes the observations of one answer or event, whole.
        answered: takes what came of operations, behind what they led to.
        clock: the gateway's.
        counters: of the source.

    Attributes:
        received_until: when the last event of a durable subscription was taken, nanoseconds of the gateway's
            clock; 0 for never.
    """

    def __init__(
        self,
        name: str,
        rabbitmq: RabbitMqSource,
        observe: Callable[[Iterable[Observation]], None],
        answered: Callable[[Answer], None],
        clock: Clock,
        counters: Counter[str],
    ) -> None:
        self.received_until = 0
        self._rabbitmq = rabbitmq
        self._observe = observe
        self._answered = answered
        self._clock = clock
        self._notes = SessionNotes(name, clock, counters)
        self._wake_up = WakeUp(clock, self._woken)
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def perform(self, effects: Iterable[Effect]) -> None:
        """Carry the effects out, in order."""
        for effect in effects:
            match effect:
                case Observed(observations):
                    self._observe(observations)
                case Answered(answer):
                    self._answered(answer)
                case WakeAt(time):
                    self._wake_up.at(time)
                case Note():
                    self._notes.take(effect)

    def event_taken(self) -> None:
        """An event of a durable subscription was taken, and what it led to was observed."""
        self.received_until = self._clock.now()

    def missed(self, reason: str, until: int) -> None:
        """The broker's events are missing from the last one that was taken ``until`` then (ns)."""
        if self.received_until:
            self.perform(self._rabbitmq.events_dropped(self.received_until, until, reason))
            self.received_until = until

    async def failed(self) -> None:
        """Wait for an error of the source where nothing else awaits it.

        Raises:
            Exception: that error.
        """
        await self._failure

    def stop(self) -> None:
        """Do not wake the source any more."""
        self._wake_up.stop()

    def _woken(self) -> None:
        try:
            self.perform(self._rabbitmq.tick(self._clock.now()))
        except Exception as error:  # noqa: BLE001  the event loop would only log it, and the source would stand still
            if not self._failure.done():
                self._failure.set_exception(error)


class RabbitMqPort:
    """Carries operations to a source (`gateway.operations.effects`).

    Args:
        rabbitmq: the source.
        perform: carries its effects out.
        clock: the gateway's.
    """

    def __init__(
        self, rabbitmq: RabbitMqSource, perform: Callable[[Iterable[Effect]], None], clock: Clock
    ) -> None:
        self._rabbitmq = rabbitmq
        self._perform_effects = perform
        self._clock = clock

    def call(self, call: MethodCall) -> None:
        """Call a method."""
        refusal = self._unreachable(call.token)
        self._perform(refusal, lambda now: self._rabbitmq.call(call, now))

    def modify(self, modify: ObjectModify) -> None:
        """Refuse: properties of a RabbitMQ are set by methods."""
        self._perform_effects([Answered(_without_request(modify))])

    def fetch(self, fetch: ObjectFetch) -> None:
        """Read an object again."""
        refusal = self._unreachable(fetch.token)
        self._perform(refusal, lambda now: self._rabbitmq.fetch(fetch, now))

    def precheck(self, request: MethodCall | ObjectModify) -> Answer | None:
        """What `call` or `modify` would answer at once; ``None`` where it would be carried out."""
        if isinstance(request, ObjectModify):
            return _without_request(request)
        return self._unreachable(request.token) or self._rabbitmq.objection(request, self._clock.now())

    def _perform(self, refusal: Answer | None, begin: Callable[[int], list[Effect]]) -> None:
        self._perform_effects(begin(self._clock.now()) if refusal is None else [Answered(refusal)])

    def _unreachable(self, token: int) -> Answer | None:
        state = self._rabbitmq.status
        if state.state not in {SourceState.CONNECTING, SourceState.DOWN}:
            return None
        text = f"not sent: the broker is not reached: {state.detail or state.state.value}"
        return Answer(token, Outcome.SOURCE_DOWN, text)


def _without_request(modify: ObjectModify) -> Answer:
    text = "not sent: the source has no request of its own to set properties"
    return Answer(modify.token, Outcome.READ_ONLY, text)
