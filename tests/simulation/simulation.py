"""One simulation: everything put together, run through a time of faults and a time of calm."""

from __future__ import annotations

import datetime as dt
import itertools
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.console_agents import HeartbeatRules
from gateway.inventory.source import SourceInventory
from gateway.snmp.lock import Lock
from gateway.snmp.lock_growth import new_lock
from gateway.snmp.projection import Projection
from gateway.snmp.schema_locks import SeenSchemas
from tests.simulation import plant as plants
from tests.simulation.amqp import AmqpBroker, AmqpClient
from tests.simulation.conversation import Conversation
from tests.simulation.core import Core, Parts, SourceRun, Surroundings
from tests.simulation.faults import FaultPlan
from tests.simulation.invariants import Invariants, ViolationError
from tests.simulation.pipes import QUICK
from tests.simulation.plant import Plant, PlantAgent
from tests.simulation.scheduler import BEGINNING, MILLISECOND, SECOND, Clock, Scheduler
from tests.simulation.snmp import SnmpProcess, TableReader
from tests.simulation.truth import Truth

STORM = 120 * SECOND
"""How long things go wrong."""

CALM = 400 * SECOND
"""How long it may take until all is well again: a console tries again after 300 s at the latest."""

STEADY = 20 * SECOND
"""How long it must stay well."""

OUTAGE = 120 * SECOND
"""The longest time for which something is away."""

_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108  a folder of a random name is made in it
_SLOW = (50 * MILLISECOND, 500 * MILLISECOND)
_SLOWER = (100 * MILLISECOND, 2 * SECOND)


@dataclass(frozen=True)
class Made:
    """What a simulation is made of: the real parts, unless a test replaces one."""

    core: Parts = field(default_factory=Parts)
    projection: type[Projection] = Projection
    console: type[ConsoleSession] = ConsoleSession


class Simulation:
    """One run.

    Args:
        seed: of every choice.
        made: the parts under test.
        keep_trace: whether every step is kept in words.
    """

    def __init__(self, seed: int, made: Made | None = None, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.scheduler = Scheduler(seed, keep_trace=keep_trace)
        self._made = made or Made()
        self._resources = ExitStack()
        folder = self._resources.enter_context(
            tempfile.TemporaryDirectory(dir=_MEMORY_FOLDER if _MEMORY_FOLDER.is_dir() else None)
        )
        random = self.scheduler.random
        self._gateway_clock = Clock(self.scheduler)
        self._plant_clock = Clock(self.scheduler, random.randrange(-5 * SECOND, 5 * SECOND))
        self._truth = Truth()
        self._plant = Plant(self.scheduler, self._truth, "plant", self._plant_clock)
        self._amqp = AmqpBroker(self.scheduler)
        self._remembers_boots = random.random() < 0.5
        self._boots = itertools.count(1)
        self._queue_limit = random.choice((40, 200, 1000))
        self._consoles: dict[str, AmqpClient] = {}
        self._locks = (plants.LOCK,)
        self._provisional = new_lock("", 0, "AMQP-GATEWAY-SITE-MIB", "site", dt.date(2026, 5, 1))
        elements = {
            f"{plants.PACKAGE}:{schema.key.name}": frozenset(element.name for element in schema.elements)
            for schema in plants.SCHEMAS
        }
        self.invariants = Invariants(self.scheduler, self._truth, TableReader(self._locks, elements))
        self._around = Surroundings(
            self.scheduler,
            self._gateway_clock,
            Path(folder),
            {plants.PACKAGE: plants.MAPPING},
            self.invariants.published,
            {"plant": self._start_plant_source},
            feed_limit=random.choice((6, 40, 100_000)),
        )
        self._epochs = itertools.count(1)
        self.core: Core | None = None
        self.agent: PlantAgent | None = None
        self.snmp: SnmpProcess | None = None
        self._lives = True

    def run(self) -> None:
        """From the start to the end.

        Raises:
            ViolationError: something that must hold did not.
        """
        with self._resources:
            self._start_core()
            self._start_agent()
            self._start_snmp()
            self._world()
            self._read()
            plan = FaultPlan(self.scheduler, self._faults())
            self.scheduler.run_until(BEGINNING + STORM)
            plan.cease()
            self._lives = False
            self.scheduler.tell("simulation", "calm")
            self._come_right()

    def _come_right(self) -> None:
        """All faults have ceased: before long everything is shown as it is, and stays so."""
        deadline = self.scheduler.now + CALM
        well_since = 0
        while True:
            self.scheduler.run_until(self.scheduler.now + 2 * SECOND)
            differences = self._differences()
            if differences:
                well_since = 0
                if self.scheduler.now > deadline:
                    raise ViolationError(f"after {CALM // SECOND} s of calm: {'; '.join(differences)}")
            elif not well_since:
                well_since = self.scheduler.now
                self.scheduler.tell("simulation", "all is well")
            elif self.scheduler.now - well_since >= STEADY:
                break
        self.invariants.account()

    def _differences(self) -> list[str]:
        if self.snmp is None or self.core is None:
            return ["a process is down"]
        return list(self.invariants.differences(self.snmp.store))

    # ---- processes ------------------------------------------------------------------------------------

    def _start_core(self) -> None:
        epoch = next(self._epochs)
        self.scheduler.tell("core", f"starts, epoch {epoch}")
        self.core = Core(self._around, epoch, self._made.core)

    def _kill_core(self) -> None:
        if self.core is not None:
            self.scheduler.tell("core", "killed")
            killed, self.core = self.core, None
            killed.kill()
            self._soon(self._start_core)
            self.invariants.core_killed()

    def _start_agent(self) -> None:
        boot = next(self._boots) if self._remembers_boots else 1
        self.scheduler.tell("plant-agent", f"starts, boot {boot}")
        self.agent = PlantAgent(self.scheduler, self._amqp, self._plant, boot)
        self._plant.listener = self.agent

    def _kill_agent(self) -> None:
        if self.agent is not None:
            self.scheduler.tell("plant-agent", "killed")
            self.agent.die()
            self.agent = self._plant.listener = None
            self._soon(self._start_agent, longest=OUTAGE)

    def _start_snmp(self) -> None:
        self.scheduler.tell("snmp", "starts")
        self.snmp = SnmpProcess(
            self.scheduler,
            self._gateway_clock,
            lambda: self.core,
            self._locks,
            self._provisional,
            self._save_provisional,
            self._made.projection,
        )

    def _kill_snmp(self) -> None:
        if self.snmp is not None:
            self.scheduler.tell("snmp", "killed")
            self.snmp.kill()
            self.snmp = None
            self._soon(self._start_snmp)

    def _save_provisional(self, lock: Lock, _seen: SeenSchemas) -> None:
        self._provisional = lock

    def _start_plant_source(self, core: Core, source: SourceInventory) -> SourceRun:
        self.invariants.watches(source.identity.number, source.identity.name)
        config = ConsoleConfig(
            believed=frozenset({plants.AGENT_USER}),
            heartbeats=HeartbeatRules(interval=10 * SECOND),
            request_deadline=5 * SECOND,
        )
        session = self._made.console(config)
        conversation = _HeardConversation(
            self.scheduler,
            core.clock,
            "plant-console",
            session,
            lambda observations: core.observed(source, observations),
        )
        conversation.heard = lambda: self._heard("plant")
        client = AmqpClient(
            self.scheduler,
            self._amqp,
            conversation,
            plants.CONSOLE_USER,
            core.clock,
            session.bindings,
            self._queue_limit,
        )
        self._consoles["plant"] = client
        return _ClientRun(client)

    def _heard(self, source: str) -> None:
        self.invariants.contact[source] = self.scheduler.now

    # ---- the world ------------------------------------------------------------------------------------

    def _world(self) -> None:
        if self._lives:
            self._plant.live()
            self.scheduler.after(self.scheduler.between(5 * MILLISECOND, 5 * SECOND), self._world)

    def _read(self) -> None:
        if self.snmp is not None:
            self.invariants.read(self.snmp.store)
        self.scheduler.after(self.scheduler.between(SECOND, 10 * SECOND), self._read)

    # ---- faults ---------------------------------------------------------------------------------------

    def _faults(self) -> dict[str, Callable[[], None]]:
        return {
            "core killed": self._kill_core,
            "agent killed": self._kill_agent,
            "snmp killed": self._kill_snmp,
            "console's link lost": lambda: self._consoles["plant"].lose("the connection was reset"),
            "agent's link lost": lambda: self._of_agent(
                lambda client: client.lose("the connection was reset")
            ),
            "console's link half-open": lambda: self._silence(self._consoles["plant"]),
            "agent's link half-open": lambda: self._of_agent(self._silence),
            "broker stopped": self._stop_broker,
            "console slow": self._slow_console,
            "snmp slow": self._slow_snmp,
            "gateway's clock set": lambda: self._set_clock(self._gateway_clock),
            "plant's clock set": lambda: self._set_clock(self._plant_clock),
        }

    def _soon(self, action: Callable[[], None], longest: int = 10 * SECOND) -> None:
        self.scheduler.after(self.scheduler.between(50 * MILLISECOND, longest), action)

    def _of_agent(self, action: Callable[[AmqpClient], None]) -> None:
        if self.agent is not None:
            action(self.agent.client)

    def _silence(self, client: AmqpClient) -> None:
        random = self.scheduler.random
        client.fall_silent(self.scheduler.between(SECOND, OUTAGE), heals=random.random() < 0.5)

    def _stop_broker(self) -> None:
        if self._amqp.up:
            self._amqp.stop()
            self._soon(self._amqp.start, longest=OUTAGE)

    def _slow_console(self) -> None:
        client = self._consoles["plant"]
        normal = client.queue.delay
        client.slow_down(_SLOW)
        self._soon(lambda: client.slow_down(normal), longest=20 * SECOND)

    def _slow_snmp(self) -> None:
        feed = self.snmp.feed if self.snmp is not None else None
        if feed is not None:
            feed.slow_down(_SLOWER)
            self._soon(lambda: feed.slow_down(QUICK), longest=60 * SECOND)

    def _set_clock(self, clock: Clock) -> None:
        step = self.scheduler.random.randrange(-2 * SECOND, 2 * SECOND)
        if abs(clock.offset + step) < 10 * SECOND:
            clock.offset += step


class _HeardConversation(Conversation):
    """Says whenever something arrived."""

    heard: Callable[[], None]

    def deliver(self, delivery: object) -> None:
        self.heard()
        super().deliver(delivery)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _ClientRun:
    client: AmqpClient

    def stop(self) -> None:
        self.client.close()
