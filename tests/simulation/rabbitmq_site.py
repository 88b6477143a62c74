"""A RabbitMQ as a source: read inside the core, or by an agent in a process of its own over AMQP."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from gateway.dialects.qmf.agent import AgentConfig
from gateway.feed.operations import InvokeMethod, SetElements
from gateway.inventory.source import SourceInventory
from gateway.model.observations import Observation
from gateway.model.times import MILLISECOND, SECOND
from gateway.service.sources.source_context import ConsolePort
from gateway.service.state.restored_objects import restore_source, restored_rabbitmq_objects
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from tests.components.shipped_mappings import shipped_registries
from tests.simulation.amqp import AmqpBroker, AmqpClient
from tests.simulation.core import Core, SourceRun
from tests.simulation.half_open import Silence
from tests.simulation.kept_events import KeptEventLink, KeptEventQueue
from tests.simulation.ledger import MARKED
from tests.simulation.management_api import ManagementApi, broken, unavailable
from tests.simulation.management_changes import WRITER, ManagementChanges
from tests.simulation.rabbitmq import RabbitMq
from tests.simulation.rabbitmq_agent import MAPPING, AgentRun, EventLink, Events, SourceRunInProcess
from tests.simulation.rabbitmq_documents import NODE, SHOWN
from tests.simulation.scheduler import Clock
from tests.simulation.session_driver import SimulatedDriver
from tests.simulation.site import (
    AGENT_USER,
    CONSOLE_USER,
    OUTAGE,
    ConsoleOverAmqp,
    Fault,
    Stage,
    Wish,
    fall_silent,
    lose,
)

REGISTRY = next(registry for registry in shipped_registries() if registry.package == "rabbitmq")
MANAGEMENT_HOST = "amqp-gateway"
DURABLE = 0.5
"""The probability that a source inside the core has a durable subscription."""
_STARTS = 2 * SECOND
"""The shortest downtime of a node; the silence of clients distinguishes recovered events from others."""
HEARTBEATS_MISSED = 30 * SECOND
"""The time after which a half-open connection for events is given up: three of its heartbeats."""


class RabbitMqSite:
    """The site of a RabbitMQ; see `tests.simulation.site.Site`."""

    name = "rabbitmq"
    mapping = MAPPING
    registry = REGISTRY
    shown = SHOWN
    sets_natively = False
    wishes: Mapping[str, Sequence[Wish]] = {
        "rabbitmq:vhost": (lambda mark: SetElements({"maxConnections": mark}),),
        "rabbitmq:policy": (lambda mark: SetElements({"priority": mark}),),
        "rabbitmq:connection": (lambda mark: InvokeMethod("close", {"reason": f"{MARKED}{mark}"}),),
        "rabbitmq:queue": (lambda _: InvokeMethod("purge"), lambda _: InvokeMethod("delete")),
    }

    def __init__(self, stage: Stage) -> None:
        random = stage.scheduler.random
        self._stage = stage
        self._clock = Clock(stage.scheduler, random.randrange(-5 * SECOND, 5 * SECOND))
        self._rabbitmq = RabbitMq(stage.scheduler, stage.truth, self.name, self._clock)
        self._management = ManagementApi(stage.scheduler, self._rabbitmq)
        self._changes = ManagementChanges(stage, self._rabbitmq, self._management)
        self._over_amqp = random.random() < 0.4
        self.kind = "qmf" if self._over_amqp else "rabbitmq"
        # The agent of `rabbitmq_agent.py` has no memory; that of `amqp-gateway agent` has a log.
        self.keeps_identities = not self._over_amqp
        self._boots = itertools.count(1)
        self._event_limit = random.choice((20, 10_000))
        self._amqp = AmqpBroker(stage.scheduler)
        self._console = ConsoleOverAmqp(stage, self._amqp, random.choice((40, 1000)))
        self._kept: KeptEventQueue | None = None
        self.durable = not self._over_amqp and stage.kept.random() < DURABLE
        if self.durable:
            self._kept = KeptEventQueue(stage, self.name)
            self._rabbitmq.listeners.append(self._kept)
        self._run: SourceRunInProcess | None = None
        self._link: AmqpClient | None = None

    def begin(self) -> None:
        """Start the agent's process, if there is one."""
        if not self._over_amqp:
            return
        boot = next(self._boots)
        self._stage.scheduler.note("rabbitmq-agent", f"starts, boot {boot}")
        session = AgentConfig(
            self._uuid(), boot, frozenset({CONSOLE_USER}), publish_interval=5 * SECOND, rereads=True
        )
        config = RabbitMqSourceConfig(
            user="gateway",
            management_virtual_host=MANAGEMENT_HOST,
            allowed_users=session.allowed_users,
            writer=WRITER,
        )
        run = AgentRun(
            self._stage,
            self._rabbitmq,
            self._changes,
            self._clock,
            config,
            self._event_limit,
            session,
        )
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
        """Begin to watch the source with a core."""
        return self._console.source(core, source) if self._over_amqp else self._in_core(core, source)

    def live(self) -> None:
        """Make one random change in the broker."""
        self._rabbitmq.live()

    def faults(self) -> dict[str, Fault]:
        """Return the faults of the site, by name."""
        faults: dict[str, Fault] = {
            "restarted": self._restart,
            "events' link lost": self._lose_events,
            "events' link half-open": self._silence_events,
            "management half-open": self._silence_management,
            "broker half-open": self._silence_both,
            "events slow": self._slow_events,
            "management fails": self._fail,
            "changes slow": self._slow_changes,
            "changes' answers lost": self._lose_answers,
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
        """Return the alarm of the node, if it is raised."""
        return {f'memoryAlarm rabbitmq:node "{NODE}"'} if self._rabbitmq.alarm else set()

    def end(self) -> None:
        """Close the connection for events, which may wait for something."""
        if self._run is not None:
            self._run.events.close()

    def heal(self) -> None:
        """Restore all permissions, which do not heal by themselves."""
        self._rabbitmq.permit()

    # ---- the source inside the core -------------------------------------------------------------------

    def _in_core(self, core: Core, source: SourceInventory) -> SourceRun:
        """Start the source inside the core, as `gateway.service.sources.rabbitmq` does."""
        stage = self._stage

        def observed(observations: Iterable[Observation]) -> None:
            stage.received(self.name)
            core.inventory.observed(source, observations, core.clock.now())

        complete_until = core.last.complete_until.get(self.name, 0)
        run = SourceRunInProcess(
            stage,
            self._changes,
            core.clock,
            RabbitMqSourceConfig(user="gateway", writer=WRITER),
            lambda run: self._events(core, run, complete_until),
            source=core.parts.rabbitmq,
        )
        restore_source(source, core.last, by_native_id=True)
        run.source.remember(
            restored_rabbitmq_objects(MAPPING, core.last, self.name),
            core.clock.now(),
            events_kept=self._kept is not None,
            complete_until=complete_until,
        )
        run.conversation = SimulatedDriver(
            stage.scheduler,
            core.clock,
            "rabbitmq-source",
            run.source,
            observed,
            answered=core.answered(source),
        )
        core.operations.connect(source.identity.number, ConsolePort(run.source, run, core.clock))
        run.begin()
        self._run = run
        return run

    def _events(self, core: Core, run: SourceRunInProcess, received_until: int) -> Events:
        if self._kept is None:
            return EventLink(self._stage, self._rabbitmq, run, self._event_limit)
        ledger = core.ledger(self.name)
        return KeptEventLink(self._stage, self._rabbitmq, self._kept, ledger, run, received_until)

    # ---- faults ---------------------------------------------------------------------------------------

    def _restart(self) -> None:
        if not self._rabbitmq.up:
            return
        if self._kept is not None and self._run is not None:
            self._run.events.lose("the broker was stopped")
        self._rabbitmq.stop()
        self._amqp.stop()
        if self._kept is None:
            self._stage.soon(self._start, longest=OUTAGE)
        else:
            scheduler = self._stage.scheduler
            scheduler.after_in(None, scheduler.between(_STARTS, OUTAGE), self._start)

    def _start(self) -> None:
        self._rabbitmq.start()
        if self._kept is not None:
            self._kept.broker_started()
        self._amqp.start()

    def _lose_events(self) -> None:
        if self._run is not None:
            self._run.events.lose("the connection was reset")

    def _silence_events(self) -> None:
        if self._run is not None:
            silence = Silence.chosen(self._stage.scheduler, HEARTBEATS_MISSED)
            self._run.events.fall_silent(silence)
            now = self._stage.scheduler.now
            since, until = self._stage.truth.unheard.get(self.name, (now, now))
            since = since if until >= now else now
            self._stage.truth.unheard[self.name] = since, max(until, now + silence.duration)

    def _silence_management(self) -> None:
        if self._run is not None:
            silence = Silence.chosen(self._stage.scheduler)
            self._stage.scheduler.note(self.name, f"management {silence}")
            self._run.management.fall_silent(silence)
            self._blind()
            self._stage.scheduler.after(silence.duration, self._sees)

    def _silence_both(self) -> None:
        """Make every connection to the broker half-open at once, as a firewall that loses its state does."""
        self._silence_events()
        self._silence_management()
        if self._over_amqp:
            fall_silent(self._stage, self._console.client)
            fall_silent(self._stage, self._link)

    def _kill_agent(self) -> None:
        if self._run is not None and self._link is not None:
            self._stage.scheduler.note("rabbitmq-agent", "killed")
            self._link.close()
            self._run.stop()
            self._run = self._link = None
            self._stage.soon(self.begin, longest=OUTAGE)

    def _slow_events(self) -> None:
        events = self._run.events if self._run is not None else None
        if events is not None:
            events.slow_down((100 * MILLISECOND, 2 * SECOND))
            self._stage.soon(events.hurry, longest=30 * SECOND)

    def _fail(self) -> None:
        answer = self._stage.scheduler.random.choice((broken, unavailable))
        self._management.failing = answer
        self._blind()
        self._stage.soon(self._work_again, longest=OUTAGE)

    def _slow_changes(self) -> None:
        self._changes.slow = True
        self._stage.soon(lambda: setattr(self._changes, "slow", False), longest=60 * SECOND)

    def _lose_answers(self) -> None:
        self._changes.mute = True
        self._stage.soon(lambda: setattr(self._changes, "mute", False), longest=60 * SECOND)

    def _work_again(self) -> None:
        self._management.failing = lambda: None
        self._sees()

    def _blind(self) -> None:
        """Record that readings fail from now on."""
        now = self._stage.scheduler.now
        since, until = self._stage.truth.blind.get(self.name, (0, 1))
        still = not until or until > now - 60 * SECOND
        self._stage.truth.blind[self.name] = since if still else now, 0

    def _sees(self) -> None:
        since, _ = self._stage.truth.blind[self.name]
        self._stage.truth.blind[self.name] = since, self._stage.scheduler.now

    def _revoke(self) -> None:
        self._rabbitmq.forbid()
        self._stage.soon(self._rabbitmq.permit, longest=60 * SECOND)

    def _uuid(self) -> UUID:
        return UUID(int=self._stage.scheduler.random.getrandbits(128))
