"""A RabbitMQ as a source: our agent reads it, inside the core over the loopback or in a process over AMQP."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

from gateway.agents.rabbitmq.agent import RabbitMqAgent
from gateway.agents.rabbitmq.agent_config import RabbitMqAgentConfig
from gateway.agents.rabbitmq.management_api import ManagementRequest
from gateway.agents.rabbitmq.status import AgentStatus
from gateway.dialects.effects import Effect, Send
from gateway.dialects.qmf.agent import AgentConfig
from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.console_agents import HeartbeatRules
from gateway.inventory.source import SourceInventory
from gateway.links.loopback import USER_ID, delivered
from gateway.mapping.files import load_shipped_mappings
from gateway.service.rabbitmq_source import LOOPBACK_INTERVAL, REPLY_KEY, Sight
from gateway.snmp.lock_files import load_shipped_locks
from tests.simulation.amqp import AmqpBroker, AmqpClient
from tests.simulation.conversation import Conversation
from tests.simulation.core import Core, SourceRun
from tests.simulation.pipes import Pipe
from tests.simulation.rabbitmq import NODE, SHOWN, RabbitMq, broken, unavailable
from tests.simulation.scheduler import MILLISECOND, SECOND, Clock, Timer
from tests.simulation.site import (
    AGENT_USER,
    CONSOLE_USER,
    OUTAGE,
    ConsoleOverAmqp,
    Fault,
    Stage,
    fall_silent,
    lose,
)

MAPPING = load_shipped_mappings()["rabbitmq"]
LOCK = next(lock for lock in load_shipped_locks() if lock.package == "rabbitmq")
MANAGEMENT_HOST = "amqp-gateway"

_LOOP = (10_000, 2 * MILLISECOND)
_REQUEST = (2 * MILLISECOND, 200 * MILLISECOND)
_LONGEST_WAIT = SECOND
_WATCH = 5 * SECOND


class RabbitMqSite:
    """See `tests.simulation.site.Site`."""

    name = "rabbitmq"
    mapping = MAPPING
    lock = LOCK
    shown = SHOWN

    def __init__(self, stage: Stage) -> None:
        random = stage.scheduler.random
        self._stage = stage
        self._clock = Clock(stage.scheduler, random.randrange(-5 * SECOND, 5 * SECOND))
        self._rabbitmq = RabbitMq(stage.scheduler, stage.truth, self.name, self._clock)
        self._over_amqp = random.random() < 0.4
        self._event_limit = random.choice((20, 10_000))
        self._amqp = AmqpBroker(stage.scheduler)
        self._console = ConsoleOverAmqp(stage, self._amqp, random.choice((40, 1000)))
        self._boots = itertools.count(1)
        self._run: AgentRun | None = None
        self._link: AmqpClient | None = None

    def begin(self) -> None:
        """Start the agent's process, if there is one."""
        if not self._over_amqp:
            return
        boot = next(self._boots)
        self._stage.scheduler.tell("rabbitmq-agent", f"starts, boot {boot}")
        config = AgentConfig(self._uuid(), boot, frozenset({CONSOLE_USER}), publish_interval=5 * SECOND)
        run = AgentRun(self._stage, self._rabbitmq, self._clock, config, self._event_limit, MANAGEMENT_HOST)
        bindings = run.agent.bindings
        self._link = AmqpClient(
            self._stage.scheduler,
            self._amqp,
            run.conversation,
            AGENT_USER,
            self._clock,
            lambda _: bindings,
            1000,
            run.agent.unsent,
        )
        self._run = run
        run.begin()

    def source(self, core: Core, source: SourceInventory) -> SourceRun:
        """A core begins to watch it."""
        return self._console.source(core, source) if self._over_amqp else self._loopback(core, source)

    def live(self) -> None:
        """Something happens in the broker."""
        self._rabbitmq.live()

    def faults(self) -> dict[str, Fault]:
        """What can go wrong, by name."""
        faults: dict[str, Fault] = {
            "restarted": self._restart,
            "events' link lost": self._lose_events,
            "events slow": self._slow_events,
            "management fails": self._fail,
            "rights revoked": self._revoke,
            "alarm": lambda: self._rabbitmq.set_alarm(raised=not self._rabbitmq.alarm),
            "broker's clock set": lambda: self._clock.set(2 * SECOND),
        }
        if self._over_amqp:
            faults |= self._console.faults()
            faults["agent killed"] = self._kill_agent
            faults["agent's link lost"] = lambda: lose(self._link)
            faults["agent's link half-open"] = lambda: fall_silent(self._stage, self._link)
        return faults

    def alarms(self) -> set[str]:
        """The node's."""
        return {f'memoryAlarm rabbitmq:node "{NODE}"'} if self._rabbitmq.alarm else set()

    def heal(self) -> None:
        """Rights do not come back by themselves."""
        self._rabbitmq.permit()

    # ---- the agent inside the core --------------------------------------------------------------------

    def _loopback(self, core: Core, source: SourceInventory) -> SourceRun:
        """As `gateway.service.rabbitmq_source` puts agent and console together."""
        stage = self._stage
        session = stage.console(
            ConsoleConfig(
                believed=frozenset({USER_ID}), heartbeats=HeartbeatRules(interval=LOOPBACK_INTERVAL)
            )
        )
        sight = Sight(source, core.inventory, core.clock)
        console = Conversation(
            stage.scheduler,
            core.clock,
            "rabbitmq-console",
            session,
            sight.observed,
            lambda: stage.heard(self.name),
        )
        sight.resync = console.doubted
        config = AgentConfig(
            self._uuid(), core.epoch, frozenset({USER_ID}), publish_interval=LOOPBACK_INTERVAL
        )
        run = AgentRun(stage, self._rabbitmq, core.clock, config, self._event_limit, "", sight.agent_saw)
        _carry(stage, core.clock, console, run.conversation)
        _carry(stage, core.clock, run.conversation, console)
        console.connected(REPLY_KEY)
        run.conversation.connected("")
        run.begin()
        self._run = run
        return _Loopback(console, run)

    # ---- faults ---------------------------------------------------------------------------------------

    def _restart(self) -> None:
        if self._rabbitmq.up:
            self._rabbitmq.stop()
            self._amqp.stop()
            self._stage.soon(self._start, longest=OUTAGE)

    def _start(self) -> None:
        self._rabbitmq.start()
        self._amqp.start()

    def _lose_events(self) -> None:
        if self._run is not None:
            self._run.events.lose("the connection was reset")

    def _kill_agent(self) -> None:
        if self._run is not None and self._link is not None:
            self._stage.scheduler.tell("rabbitmq-agent", "killed")
            self._link.close()
            self._run.stop()
            self._run = self._link = None
            self._stage.soon(self.begin, longest=OUTAGE)

    def _slow_events(self) -> None:
        events = self._run.events if self._run is not None else None
        if events is not None:
            events.delay = (100 * MILLISECOND, 2 * SECOND)
            self._stage.soon(events.hurry, longest=30 * SECOND)

    def _fail(self) -> None:
        answer = self._stage.scheduler.random.choice((broken, unavailable))
        self._rabbitmq.failing = answer
        blind_since, blind_until = self._stage.truth.blind.get(self.name, (0, 1))
        still = not blind_until or blind_until > self._stage.scheduler.now - 60 * SECOND
        since = blind_since if still else self._stage.scheduler.now
        self._stage.truth.blind[self.name] = since, 0
        self._stage.soon(self._work_again, longest=OUTAGE)

    def _work_again(self) -> None:
        self._rabbitmq.failing = lambda: None
        blind_since, _ = self._stage.truth.blind[self.name]
        self._stage.truth.blind[self.name] = blind_since, self._stage.scheduler.now

    def _revoke(self) -> None:
        self._rabbitmq.forbid()
        self._stage.soon(self._rabbitmq.permit, longest=60 * SECOND)

    def _uuid(self) -> UUID:
        return UUID(int=self._stage.scheduler.random.getrandbits(128))


class AgentRun:
    """One run of the agent: asks the management API, hears events, as `gateway.agents.rabbitmq.runner` does.

    Args:
        stage: time and chance.
        rabbitmq: what it reads.
        clock: of its process.
        config: of its session.
        event_limit: events that its queue holds.
        management_host: see `RabbitMqAgentConfig`.
        on_status: told each time the agent sees the broker differently.
    """

    def __init__(
        self,
        stage: Stage,
        rabbitmq: RabbitMq,
        clock: Clock,
        config: AgentConfig,
        event_limit: int,
        management_host: str,
        on_status: Callable[[AgentStatus], None] = lambda _: None,
    ) -> None:
        agent_config = RabbitMqAgentConfig(user="gateway", management_virtual_host=management_host)
        self.agent = RabbitMqAgent(agent_config, MAPPING, config)
        self.conversation = Conversation(stage.scheduler, clock, "rabbitmq-agent", self.agent, lambda _: None)
        self.events = EventLink(stage, rabbitmq, self, event_limit)
        self._scheduler = stage.scheduler
        self._rabbitmq = rabbitmq
        self._clock = clock
        self._on_status = on_status
        self._status: AgentStatus | None = None
        self._waiting: Timer | None = None
        self._stopped = False

    def begin(self) -> None:
        """Ask and listen from now on."""
        self.events.connect()
        self._ask()

    def stop(self) -> None:
        """The process is killed."""
        self._stopped = True
        self.events.close()
        self.conversation.stop()
        if self._waiting is not None:
            self._waiting.cancel()

    def perform(self, effects: Iterable[Effect], *, sooner: bool = False) -> None:
        """Carry out what the agent wants; ``sooner``: a request may be due at once."""
        self.conversation.perform(effects)
        status = self.agent.status
        if status != self._status:
            self._status = status
            self._scheduler.tell("rabbitmq-agent", f"sees {status}")
            self._on_status(status)
        if sooner and self._waiting is not None:
            self._waiting.cancel()
            self._waiting = self._scheduler.after(0, self._ask)

    def now(self) -> int:
        """The process's clock."""
        return self._clock.now()

    def _ask(self) -> None:
        self._waiting = None
        if self._stopped:
            return
        now = self._clock.now()
        request = self.agent.next_request(now)
        if request is None:
            wait = min(max(MILLISECOND, self.agent.request_at - now), _LONGEST_WAIT)
            self._waiting = self._scheduler.after(wait, self._ask)
            return
        self._scheduler.after(self._scheduler.between(*_REQUEST), lambda: self._answered(request, now))

    def _answered(self, request: ManagementRequest, began: int) -> None:
        if self._stopped:
            return
        answer = self._rabbitmq.answer(request)
        self._scheduler.tell("rabbitmq-agent", f"{request.target[:40]} {type(answer).__name__}")
        self.perform(self.agent.answered(request, answer, began, self._clock.now()))
        self._advance()

    def _advance(self) -> None:
        if self._stopped:
            return
        if self.agent.busy:
            self.perform(self.agent.advance(self._clock.now()))
            self._scheduler.after(10_000, self._advance)
        else:
            self._ask()


class EventLink:
    """The agent's connection to the event exchange, as `gateway.agents.rabbitmq.event_consumer` keeps it."""

    def __init__(self, stage: Stage, rabbitmq: RabbitMq, run: AgentRun, limit: int) -> None:
        self._scheduler = stage.scheduler
        self._rabbitmq = rabbitmq
        self._run = run
        self._limit = limit
        self._timers: list[Timer] = []
        self._pipe: Pipe[tuple[str, Mapping[str, object]]] = Pipe(stage.scheduler, self._arrived)
        self._normal = self._pipe.delay
        self.delay = self._normal

    def connect(self) -> None:
        """Open the connection, now or later."""
        if self in self._rabbitmq.listeners:
            return
        if not self._rabbitmq.up:
            self._run.perform(self._run.agent.events_missing("connection refused"))
            self._later(self._scheduler.between(500 * MILLISECOND, 8 * SECOND), self.connect)
            return
        self._pipe = Pipe(self._scheduler, self._arrived, self.delay, self._limit)
        self._rabbitmq.listeners.append(self)
        self._run.perform(self._run.agent.events_connected(self._run.now()), sooner=True)
        self._later(_WATCH, self._watch)

    def lose(self, reason: str) -> None:
        """The connection ends; what waited in the queue is gone."""
        if self in self._rabbitmq.listeners:
            self.close()
            self._run.perform(self._run.agent.events_missing(reason))
            self._later(self._scheduler.between(500 * MILLISECOND, 8 * SECOND), self.connect)

    def close(self) -> None:
        """The process is gone, or the connection."""
        if self in self._rabbitmq.listeners:
            self._rabbitmq.listeners.remove(self)
        self._pipe.cut()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def hurry(self) -> None:
        """Events are taken quickly again."""
        self.delay = self._pipe.delay = self._normal

    def event(self, key: str, headers: Mapping[str, object]) -> None:
        """The broker publishes an event."""
        self._pipe.delay = self.delay
        self._pipe.put((key, headers))

    def broker_stopped(self) -> None:
        """The broker is gone."""
        self.lose("the broker was stopped")

    def _arrived(self, event: tuple[str, Mapping[str, object]]) -> None:
        key, headers = event
        self._scheduler.tell("rabbitmq-agent", f"event {key} {headers.get('name', '')}")
        self._run.perform(self._run.agent.event(key, headers, None, self._run.now()))

    def _watch(self) -> None:
        doubtful = self._limit // 10
        if self._pipe.longest >= doubtful and len(self._pipe) < doubtful:
            self._pipe.longest = 0
            reason = f"{self._pipe.dropped} events were dropped"
            self._run.perform(self._run.agent.events_lost(reason, self._run.now()), sooner=True)
        self._later(_WATCH, self._watch)

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        self._timers = [timer for timer in self._timers if timer.time >= self._scheduler.now]
        self._timers.append(self._scheduler.after(delay, action))


class _Loopback:
    """Agent and console of one core."""

    def __init__(self, console: Conversation, run: AgentRun) -> None:
        self._console = console
        self._run = run

    def stop(self) -> None:
        """The core is killed."""
        self._console.stop()
        self._run.stop()


def _carry(stage: Stage, clock: Clock, sender: Conversation, receiver: Conversation) -> None:
    """Move what ``sender`` sends to ``receiver``, in order."""

    def arrive(send: Send) -> None:
        receiver.deliver(delivered(send, clock.now()))

    pipe: Pipe[Send] = Pipe(stage.scheduler, arrive, _LOOP)
    sender.send = pipe.put
