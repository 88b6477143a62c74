"""The real RabbitMQ source in a simulation: in a core, or published by an agent of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from gateway.dialects.qmf.agent import AgentConfig
from gateway.dialects.session import Effect, LinkDown, LinkUp, LossSuspected
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.event_consumer import SUSPECTED_SHARE
from gateway.sources.rabbitmq.management_api import Answer, ManagementRequest
from gateway.sources.rabbitmq.management_changes import BrokerAnswer
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from gateway.sources.rabbitmq.source_events import (
    AnswerReceived,
    BrokerEventReceived,
    CallAnswered,
    EventsReceived,
    RequestSent,
    SourceEvent,
    Work,
    WorkContinues,
)
from gateway.sources.rabbitmq.status import SourceStatus
from tests.components.served_rabbitmq import ServedRabbitMq
from tests.components.shipped_mappings import shipped_mappings
from tests.simulation.half_open import Silence
from tests.simulation.management_api import ManagementLink
from tests.simulation.management_changes import ManagementChanges
from tests.simulation.pipes import Pipe
from tests.simulation.processes import RUNNING, Process
from tests.simulation.rabbitmq import RabbitMq
from tests.simulation.scheduler import Clock, Timer
from tests.simulation.session_driver import SimulatedDriver
from tests.simulation.site import Stage

MAPPING = shipped_mappings()["rabbitmq"]

_LONGEST_WAIT = SECOND
_WATCH = 2 * SECOND


class Events(Protocol):
    """A connection to the event exchange."""

    def connect(self) -> None:
        """Open the connection, now or later."""

    def lose(self, reason: str) -> None:
        """End the connection."""

    def fall_silent(self, silence: Silence) -> None:
        """Make the connection half-open until it heals or heartbeats are missed."""

    def close(self) -> None:
        """Close the connection at the end of the process."""

    def slow_down(self, delay: tuple[int, int]) -> None:
        """Set the time that each event takes."""

    def hurry(self) -> None:
        """Take events quickly again."""


class SourceRunInProcess:
    """One run of the source: makes its requests, receives events, as `gateway.sources.rabbitmq.runner` does.

    Args:
        stage: time and chance.
        changes: the API through which it reads and changes the broker.
        clock: the clock of its process.
        config: the configuration of the source.
        link: makes its connection to the event exchange.
        on_status: called with each change of the source's status.
        source: the type of the source under test.

    Attributes:
        source: the source.
        conversation: carries its effects out, as they are or as an agent publishes them.
    """

    def __init__(
        self,
        stage: Stage,
        changes: ManagementChanges,
        clock: Clock,
        config: RabbitMqSourceConfig,
        link: Callable[[SourceRunInProcess], Events],
        on_status: Callable[[SourceStatus], None] = lambda _: None,
        source: type[RabbitMqSource] = RabbitMqSource,
    ) -> None:
        self.source = source(config, MAPPING)
        self._changes = changes
        self.management = ManagementLink(stage.scheduler, changes.management)
        self._next_call: Timer | None = None
        self.conversation: SimulatedDriver
        self.events = link(self)
        self._scheduler = stage.scheduler
        self._clock = clock
        self._on_status = on_status
        self._seldom = stage.truth.seldom
        self._status: SourceStatus | None = None
        self._waiting: Timer | None = None
        self._stopped = False

    def begin(self) -> None:
        """Begin to make requests and to receive events."""
        self.events.connect()
        self._ask()
        self._call()

    def stop(self) -> None:
        """Kill the process."""
        self._stopped = True
        self.events.close()
        self.conversation.stop()
        for timer in (self._waiting, self._next_call):
            if timer is not None:
                timer.cancel()

    def perform(self, effects: Iterable[Effect], *, sooner: bool = False) -> None:
        """Carry out effects of the source; ``sooner``: a request may be due at once."""
        self.carry_out(effects)
        if self._next_call is not None and self.source.call_at <= self._clock.now():
            self._next_call.cancel()
            self._next_call = self._scheduler.after(0, self._call)
        status = self.source.status
        if status != self._status:
            self._status = status
            self._scheduler.note("rabbitmq-agent", f"sees {status}")
            self._note_seldom(status)
            self._on_status(status)
        if sooner and self._waiting is not None:
            self._waiting.cancel()
            self._waiting = self._scheduler.after(0, self._ask)

    def _note_seldom(self, status: SourceStatus) -> None:
        for listed, minutes in re.findall(r"([a-z/, -]+): read every ([0-9]+) min", status.detail):
            for collection in listed.strip().split(", "):
                class_name = f"rabbitmq:{re.sub('ies$', 'y', collection).removesuffix('s')}"
                longest = self._seldom.get(("rabbitmq", class_name), 0)
                self._seldom["rabbitmq", class_name] = max(longest, int(minutes) * 60 * SECOND)

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Carry out effects of the source."""
        self.conversation.perform(effects)

    def event(self, key: str, headers: Mapping[str, object]) -> None:
        """Process an event of the broker."""
        self.handle(BrokerEventReceived.of_message(key, headers))

    def handle(self, event: SourceEvent, *, sooner: bool = False) -> None:
        """Pass an event to the source; ``sooner``: a request may be due at once."""
        self.perform(self.source.handle(event, self._clock.now()), sooner=sooner)

    def now(self) -> int:
        """Return the time of the process's clock."""
        return self._clock.now()

    def _ask(self) -> None:
        self._waiting = None
        if self._stopped:
            return
        now = self._clock.now()
        request = self.source.next_request(now)
        if request is None:
            wait = min(max(MILLISECOND, self.source.request_at - now), _LONGEST_WAIT)
            self._waiting = self._scheduler.after(wait, self._ask)
            return
        self.handle(RequestSent())
        self.management.ask(request, lambda answer: self._answered(request, answer, now))

    def _call(self) -> None:
        self._next_call = None
        if self._stopped:
            return
        now = self._clock.now()
        self.handle(WorkContinues(Work.CALLS))
        request = self.source.next_call_request()
        if request is None:
            wait = min(max(MILLISECOND, self.source.call_at - now), _LONGEST_WAIT)
            self._next_call = self._scheduler.after(wait, self._call)
            return
        self._scheduler.note("rabbitmq-agent", f"makes {request}")
        self._changes.make(request, self._call_answered)

    def _call_answered(self, answer: BrokerAnswer) -> None:
        if self._stopped:
            return
        self._scheduler.note("rabbitmq-agent", f"is answered {answer}")
        self.handle(CallAnswered(answer))
        self._call()

    def _answered(self, request: ManagementRequest, answer: Answer, began: int) -> None:
        if self._stopped:
            return
        self._scheduler.note("rabbitmq-agent", f"{request.target[:40]} {type(answer).__name__}")
        self.handle(AnswerReceived(request, answer, began))
        self._advance()

    def _advance(self) -> None:
        if self._stopped:
            return
        if self.source.busy:
            self.handle(WorkContinues(Work.LISTING))
            self._scheduler.after(10_000, self._advance)
        else:
            self._ask()


class AgentRun(SourceRunInProcess):
    """A `SourceRunInProcess` in a process of its own, whose agent publishes the observations.

    Args:
        stage, changes, clock, config: as there.
        rabbitmq: the broker whose events it receives.
        event_limit: the number of events that its queue holds.
        session: configuration of the agent's session.
    """

    def __init__(
        self,
        stage: Stage,
        rabbitmq: RabbitMq,
        changes: ManagementChanges,
        clock: Clock,
        config: RabbitMqSourceConfig,
        event_limit: int,
        session: AgentConfig,
    ) -> None:
        super().__init__(
            stage, changes, clock, config, lambda run: EventLink(stage, rabbitmq, run, event_limit)
        )
        self.agent = ServedRabbitMq(self.source, config, session)
        self.conversation = SimulatedDriver(
            stage.scheduler, clock, "rabbitmq-agent", self.agent, lambda _: None
        )

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Publish the observations and answers of the source."""
        self.conversation.perform(self.agent.publish(effects, self.now()))

    def event(self, key: str, headers: Mapping[str, object]) -> None:
        """Process an event of the broker."""
        super().event(key, headers)
        self.conversation.perform(self.agent.event(key, headers, self.now()))


class EventLink:
    """The agent's connection to the event exchange, as `gateway.sources.rabbitmq.event_consumer` keeps it."""

    def __init__(self, stage: Stage, rabbitmq: RabbitMq, run: SourceRunInProcess, limit: int) -> None:
        self._scheduler = stage.scheduler
        self._rabbitmq = rabbitmq
        self._run = run
        self._limit = limit
        self._timers: list[Timer] = []
        self._received_until = 0
        self._process = RUNNING.get() or Process()
        self._pipe: Pipe[tuple[str, Mapping[str, object]]] = Pipe(stage.scheduler, self._arrived)
        self._normal = self._pipe.delay
        self.delay = self._normal

    def connect(self) -> None:
        """Open the connection, now or later."""
        if self in self._rabbitmq.listeners:
            return
        if not self._rabbitmq.up:
            self._run.handle(LinkDown("connection refused"))
            self._later(self._scheduler.between(500 * MILLISECOND, 8 * SECOND), self.connect)
            return
        self._pipe = Pipe(self._scheduler, self._arrived, self.delay, self._limit)
        self._received_until = self._run.now()
        self._rabbitmq.listeners.append(self)
        self._run.handle(LinkUp(""), sooner=True)
        self._later(_WATCH, self._watch)

    def lose(self, reason: str) -> None:
        """End the connection, and discard the events in the queue."""
        if self in self._rabbitmq.listeners:
            self.close()
            self._process.run(lambda: self._lost(reason))

    def fall_silent(self, silence: Silence) -> None:
        """Make the connection half-open until it heals or heartbeats are missed."""
        if self in self._rabbitmq.listeners:
            self._scheduler.note("rabbitmq-agent", f"events {silence}")
            silence.falls([], [self._pipe], lambda: self.lose("no heartbeat of the peer"))

    def _lost(self, reason: str) -> None:
        self._run.handle(LinkDown(reason))
        self._later(self._scheduler.between(500 * MILLISECOND, 8 * SECOND), self.connect)

    def close(self) -> None:
        """Close the connection."""
        if self in self._rabbitmq.listeners:
            self._rabbitmq.listeners.remove(self)
        self._pipe.cut()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def slow_down(self, delay: tuple[int, int]) -> None:
        """Set the time that each event takes."""
        self.delay = delay

    def hurry(self) -> None:
        """Take events quickly again."""
        self.delay = self._pipe.delay = self._normal

    def event(self, key: str, headers: Mapping[str, object]) -> None:
        """Put an event of the broker into the queue."""
        self._pipe.delay = self.delay
        self._pipe.put((key, headers))

    def broker_stopped(self) -> None:
        """Process the end of the broker."""
        self.lose("the broker was stopped")

    def _arrived(self, event: tuple[str, Mapping[str, object]]) -> None:
        key, headers = event
        self._scheduler.note("rabbitmq-agent", f"event {key} {headers.get('name', '')}")
        self._run.event(key, headers)

    def _watch(self) -> None:
        suspected = int(self._limit * SUSPECTED_SHARE)
        if self._pipe.longest >= suspected and len(self._pipe) < suspected:
            self._pipe.longest = 0
            reason = f"{self._pipe.dropped} events were dropped"
            self._run.handle(LossSuspected(reason, self._received_until), sooner=True)
        if self._pipe.longest < suspected and self._pipe.is_quiet:
            self._received_until = self._run.now()
            self._run.handle(EventsReceived(self._received_until))
        self._later(_WATCH, self._watch)

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        self._timers = [timer for timer in self._timers if timer.time >= self._scheduler.now]
        self._timers.append(self._scheduler.after(delay, action))
