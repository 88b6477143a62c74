"""One simulation of the whole system, run through a time of faults and a time of calm."""

from __future__ import annotations

import datetime as dt
import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from structlog.testing import capture_logs

from gateway.dialects.qmf.console import ConsoleSession
from gateway.eventlog.recorder import LogRecorder
from gateway.feed.operations import OperationRecord
from gateway.feed.records import Batch
from gateway.inventory.source import SourceInventory
from gateway.jmx import projection as jmx
from gateway.model.source_kinds import SOURCE_KINDS
from gateway.model.times import MILLISECOND, SECOND
from gateway.snmp.oid_registry import OidRegistry
from gateway.snmp.projection import Projection
from gateway.snmp.registry_growth import new_registry
from gateway.snmp.registry_lookup import SeenSchemas
from tests.components.permissions import Permission
from tests.jmx.model_machine import ModelMachine
from tests.simulation.asking import NorthboundLink, NorthboundSurroundings
from tests.simulation.core import INDEX, Core, Parts, SourceRun, Surroundings
from tests.simulation.faults import FaultPlan
from tests.simulation.feed_invariants import FeedInvariants
from tests.simulation.index_disk import IndexDisk
from tests.simulation.jmx import JmxProcess, shown_rows
from tests.simulation.kept_lives import KeptLives
from tests.simulation.ledger import Ledger
from tests.simulation.log import SimulatedLog
from tests.simulation.log_bounds import LogBounds
from tests.simulation.log_lives import LogLives
from tests.simulation.loop import VirtualLoop
from tests.simulation.northbound_invariants import NorthboundInvariants
from tests.simulation.pipes import QUICK
from tests.simulation.plant_site import PlantSite
from tests.simulation.processes import Process
from tests.simulation.rabbitmq_site import RabbitMqSite
from tests.simulation.receivers import Receivers
from tests.simulation.recording import OperationDisk
from tests.simulation.scheduler import BEGINNING, Clock, Scheduler
from tests.simulation.shown_operations import check_jmx, check_snmp
from tests.simulation.site import Fault, Site, Stage
from tests.simulation.snmp import SnmpProcess
from tests.simulation.table_reader import ShownRow, TableReader
from tests.simulation.truth import Truth
from tests.simulation.users import Gateway, Users
from tests.simulation.violations import ViolationError

STORM = 120 * SECOND
"""The duration of the time of faults."""

CALM = 400 * SECOND
"""The longest time until all is well again; a console tries again after 300 s at the latest."""

STEADY = 20 * SECOND
"""The time for which all must stay well."""

_SITES: tuple[tuple[type[PlantSite | RabbitMqSite], ...], ...] = (
    (PlantSite,),
    (PlantSite,),
    (RabbitMqSite,),
    (PlantSite, RabbitMqSite),
)
_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108  a folder of a random name is made in it
LOOK = 4 * SECOND
"""The time between two checks whether all is well."""

_SLOW = (100 * MILLISECOND, 2 * SECOND)

_STANDS_STILL = (SECOND, 80 * SECOND)
"""The range of the time for which a process is stopped."""

_HANGS = 30 * SECOND
"""The time after which the supervisor kills a process that is stopped alone."""

_LOST_WITH_THE_POWER = 0.7
"""The probability that unsynced data is lost in a power failure."""

_OPERATES = (SECOND, 8 * SECOND)
"""The range of the mean time between two operations, from which a seed chooses."""

_POINTS = ("asked", "begun", "done", "ended")
"""The points of an operation at which a fault may be injected."""

_DEATHS = (
    "killed",
    "power failure",
    "lost",
    "half-open",
    "stopped",
    "restarted",
    "management fails",
    "stands still",
)
"""The suffixes of the names of these faults."""


_PRINCIPALS = frozenset({"snmp:operator", "jmx:operator", "cli:operator"})
_DANGEROUS = ("polish", "close", "purge", "delete", "setMaxConnections", "setMaxChannels")
ANYTHING = Permission(
    _PRINCIPALS, set=("*", "maxConnections", "maxChannels"), invoke=("*", *_DANGEROUS), read=True
)
"""The permission of users to do everything."""


@dataclass(frozen=True)
class Made:
    """The parts of a simulation: the real ones, unless a test replaces one.

    Attributes:
        faults: suffixes of the names of the faults to use; empty where the seed chooses.
    """

    core: Parts = field(default_factory=Parts)
    projection: type[Projection] = Projection
    console: type[ConsoleSession] = ConsoleSession
    jmx: type[jmx.Projection] = jmx.Projection
    mirror: type[LogRecorder] = LogRecorder
    link: type[NorthboundLink] = NorthboundLink
    bounds: type[LogBounds] = LogBounds
    faults: tuple[str, ...] = ()


class Simulation:
    """One run of the simulation.

    Args:
        seed: the seed of every choice.
        made: the parts under test.
        keep_trace: whether the lines of the trace are kept.
    """

    def __init__(self, seed: int, made: Made | None = None, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.scheduler = Scheduler(seed, keep_trace=keep_trace)
        self._made = made or Made()
        self._resources = ExitStack()
        folder = self._resources.enter_context(
            tempfile.TemporaryDirectory(dir=_MEMORY_FOLDER if _MEMORY_FOLDER.is_dir() else None)
        )
        self._resources.enter_context(capture_logs())  # what is wrong is told by a violation
        random = self.scheduler.random
        self._clock = Clock(self.scheduler)
        truth = self._truth = Truth()
        self._loop = VirtualLoop(self.scheduler)  # type: ignore[abstract]  # what is not there raises
        self._northbound = NorthboundSurroundings(
            self.scheduler, self._loop, self._clock, lambda: self._core, self._made.link
        )
        self._disk = OperationDisk(self.scheduler)
        self.ledger = Ledger(self.scheduler, self._disk)
        self.ledger.at = self._at
        self._armed: tuple[str, Fault] | None = None
        stage = Stage(
            self.scheduler,
            truth,
            self._clock,
            self._made.console,
            self._received,
            self.ledger,
            Random(f"durable {seed}"),  # noqa: S311  repeatable on purpose
        )
        kinds = random.choice(_SITES)
        self._sites: tuple[Site, ...] = tuple(kind(stage) for kind in kinds)
        self._registries = tuple(site.registry for site in self._sites)
        self._provisional = new_registry("", 0, "AMQP-GATEWAY-SITE-MIB", "site", dt.date(2026, 5, 1))
        shown = {name: elements for site in self._sites for name, elements in site.shown.items()}
        self.reported = FeedInvariants(self.scheduler, truth)
        reader = TableReader(self._registries, shown)
        self.shown = NorthboundInvariants(self.scheduler, truth, self.reported, reader)
        durable = frozenset(site.name for site in self._sites if site.durable)
        self._log = SimulatedLog(
            seed, self._clock, self._made.mirror, self._disk, Path(folder) / "log", self._made.bounds, durable
        )
        self._index_disk = IndexDisk(Path(folder) / INDEX, Path(folder) / "disk")
        self._around = Surroundings(
            self.scheduler,
            self._clock,
            Path(folder),
            {site.mapping.package: site.mapping for site in self._sites},
            self._published,
            self._log.last_state,
            self._log.begins,
            self._log.last_events,
            lambda: self._log.event_records,
            self._disk.unfinished,
            (ANYTHING,),
            self._loop,
            self._index_disk,
            {site.name: self._starter(site) for site in self._sites},
            {site.name: site.kind for site in self._sites},
            frozenset(site.name for site in self._sites if site.sets_natively),
            durable,
            lambda: self._log.acks,
            feed_limit=random.choice((6, 40, 100_000)),
        )
        self._receivers = Receivers(self.scheduler)
        self._epochs = itertools.count(1)
        self._core: Core | None = None
        self._snmp: SnmpProcess | None = None
        self._jmx: JmxProcess | None = None
        self._with_jmx = random.random() < 0.3
        mean = self.scheduler.between(*_OPERATES)
        self._operates = mean // 10, mean * 2
        self._shown = shown
        self._lives = True
        self._users = Users(
            self.scheduler,
            self._loop,
            self.ledger,
            Gateway(lambda: self._snmp, lambda: self._jmx, lambda: self._core, reader, self._numbered_beans),
            {name: wishes for site in self._sites for name, wishes in site.wishes.items()},
        )

    def run(self) -> None:
        """Run the simulation from the start to the end.

        Raises:
            ViolationError: an invariant was violated.
        """
        with self._resources, self._index_disk.watched(), self._loop.running(), self._ending():
            self._start_core()
            for site in self._sites:
                site.begin()
            self._start_snmp()
            if self._with_jmx:
                self._start_jmx()
            self._live()
            self._operate()
            self._read()
            plan = FaultPlan(self.scheduler, self._faults(), self._made.faults)
            self.scheduler.run_until(BEGINNING + STORM)
            plan.cease()
            self._lives = False
            self.scheduler.note("simulation", "calm")
            for site in self._sites:
                site.heal()
            self._disk.clear()
            self._disk.slow = False
            self._come_right()

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """End all tasks after the block."""
        try:
            yield
        finally:
            for site in self._sites:
                site.end()
            if self._core is not None:
                self._core.process.end()
            self._loop.settle()

    def _come_right(self) -> None:
        """Check that everything is shown correctly soon after the last fault, and stays so."""
        deadline = self.scheduler.now + CALM
        well_since = 0
        while True:
            self.scheduler.run_until(self.scheduler.now + LOOK)
            differences = self._differences()
            if differences:
                well_since = 0
                if self.scheduler.now > deadline:
                    raise ViolationError(f"after {CALM // SECOND} s of calm: {'; '.join(differences)}")
            elif not well_since:
                well_since = self.scheduler.now
                self.scheduler.note("simulation", "all is well")
            elif self.scheduler.now - well_since >= STEADY:
                break
        self.reported.account()
        self.ledger.check()
        self._check_operations()
        self._check_log(is_calm=True)
        if differences := list(self._receivers.account.differences(self._log.events)):
            raise ViolationError("; ".join(differences[:5]))
        remembered = [
            one.name for one in self._sites if SOURCE_KINDS[one.kind].read_whole and one.keeps_identities
        ]
        if differences := list(LogLives(self._truth, remembered).differences(self._log.records)):
            raise ViolationError("; ".join(differences[:5]))
        kept = KeptLives(self._truth, self._log.reported_again)
        if differences := list(kept.differences(self._log.records)):
            raise ViolationError("; ".join(differences[:5]))

    def _check_operations(self) -> None:
        """Check that front ends show the operations that the core knows."""
        assert self._core is not None
        assert self._snmp is not None
        reported = self._last_operations(self._core)
        while max((r.ended for r in reported.values()), default=0) > self._clock.now() - 2 * SECOND:
            self.scheduler.run_until(self.scheduler.now + SECOND)  # what was settled just now is on its way
            reported = self._last_operations(self._core)
        machine = self._jmx.machine if self._jmx is not None else None
        check_snmp(reported, self.ledger.final, self._snmp)
        if machine is not None:
            check_jmx(reported, machine)

    @staticmethod
    def _last_operations(core: Core) -> dict[str, OperationRecord]:
        records, _ = core.inventory.snapshot()
        return {record.operation_id: record for record in records if isinstance(record, OperationRecord)}

    def _differences(self) -> list[str]:
        if self._snmp is None or self._core is None:
            return ["a process is down"]
        machine = self._jmx.machine if self._jmx is not None else None
        if self._with_jmx and machine is None:
            return ["the virtual machine is down"]
        front_ends = (self._snmp, self._jmx) if self._jmx is not None else (self._snmp,)
        if self._core.process.is_stopped or any(one.process.is_stopped for one in front_ends):
            return ["a process stands still"]
        alarms = {(site.name, condition) for site in self._sites for condition in site.alarms()}
        return [
            *self.shown.differences(self._snmp.store),
            *self.shown.alarm_differences(self._snmp.store, alarms, self._receivers),
            *(self.shown.object_differences("JMX", self._beans(machine).values()) if machine else ()),
        ]

    # ---- processes ------------------------------------------------------------------------------------

    def _start_core(self) -> None:
        epoch = next(self._epochs)
        self.scheduler.note("core", f"starts, epoch {epoch}")
        self._core = Core(self._around, epoch, self._made.core)
        self._note_core()

    def _starter(self, site: Site) -> Callable[[Core, SourceInventory], SourceRun]:
        def start(core: Core, source: SourceInventory) -> SourceRun:
            self.reported.watches(source.identity.number, site.name)
            return site.source(core, source)

        return start

    def _kill_core(self) -> None:
        if self._core is not None:
            self.scheduler.note("core", "killed")
            self._check_log(is_calm=False)
            killed, self._core = self._core, None
            self._note_core()
            killed.kill()
            for kept in self._truth.kept.values():
                kept.core_killed(self.scheduler.now)
            self._log.ends()
            self._soon(self._start_core)
            self.reported.core_killed()

    def _published(self, batch: Batch) -> None:
        self.reported.published(batch)
        self.ledger.published(batch)
        self._log.published(batch)

    def _check_log(self, *, is_calm: bool) -> None:
        """Check that the log agrees with its core, whenever that ends."""
        if self._core is None:
            return
        if differences := list(self._log.check(self._core.inventory, is_calm=is_calm)):
            raise ViolationError("; ".join(differences[:5]))

    def _start_snmp(self) -> None:
        self.scheduler.note("snmp", "starts")
        Process().run(self._new_snmp)

    def _new_snmp(self) -> None:
        self._snmp = SnmpProcess(
            self._northbound,
            self._registries,
            self._provisional,
            self._save_provisional,
            self._made.projection,
            self._receivers,
            [site.mapping for site in self._sites],
        )

    def _kill_snmp(self) -> None:
        if self._snmp is not None:
            self.scheduler.note("snmp", "killed")
            self._snmp.kill()
            self._snmp = None
            self._soon(self._start_snmp)

    def _start_jmx(self) -> None:
        self.scheduler.note("jmx", "starts")
        Process().run(self._new_jmx)

    def _new_jmx(self) -> None:
        self._jmx = JmxProcess(self._northbound, self._made.jmx)

    def _kill_jmx(self) -> None:
        if self._jmx is not None:
            self.scheduler.note("jmx", "killed")
            self._jmx.kill()
            self._jmx = None
            self._soon(self._start_jmx)

    def _kill_machine(self) -> None:
        if self._jmx is not None and not self._jmx.process.is_stopped:
            self._jmx.kill_machine()

    def _lose_power(self) -> None:
        """End all processes at one instant, with the machine; unsynced data is lost, by chance."""
        self.scheduler.note("simulation", "power failure")
        self._kill_jmx()
        self._kill_snmp()
        self._kill_core()
        for receiver in self._receivers.all.values():
            receiver.power_failed(self.scheduler.now)
        if self.scheduler.random.random() < _LOST_WITH_THE_POWER:
            self.reported.power_failed(self._index_disk.lose_power())

    def _stand_still(self, name: str) -> None:
        """Stop one process; the supervisor kills it if that lasts."""
        running = self._running()
        if name not in running:
            return
        process, kill = running[name]
        duration = self._stop({name: process})
        if duration > _HANGS:
            self.scheduler.after(_HANGS, lambda: kill() if process.is_stopped else None)

    def _all_stand_still(self) -> None:
        """Stop all processes at once, with the supervisor, as where the machine is suspended."""
        self._stop({name: process for name, (process, _) in self._running().items()})

    def _running(self) -> dict[str, tuple[Process, Fault]]:
        """Return the running processes by name, each with the function that kills it."""
        running: dict[str, tuple[Process, Fault]] = {}
        if self._core is not None:
            running["core"] = self._core.process, self._kill_core
        if self._snmp is not None:
            running["snmp"] = self._snmp.process, self._kill_snmp
        if self._jmx is not None:
            running["jmx"] = self._jmx.process, self._kill_jmx
        return {name: found for name, found in running.items() if not found[0].is_stopped}

    def _stop(self, processes: Mapping[str, Process]) -> int:
        duration = self.scheduler.between(*_STANDS_STILL)
        for process in processes.values():
            process.stop()
        self._note_core()
        stopped = ", ".join(processes)
        self.scheduler.note("simulation", f"{stopped}: stopped for {duration / SECOND:.1f} s")

        def go_on() -> None:
            self.scheduler.note("simulation", f"{stopped}: goes on")
            for process in processes.values():
                for action in process.go_on():
                    self.scheduler.after_in(process, 0, action)
            self._note_core()
            self.scheduler.after(0, self._look)

        self.scheduler.after(duration, go_on)
        return duration

    def _beans(self, machine: ModelMachine) -> dict[str, ShownRow]:
        numbers = {name: number for number, name in self.reported.sources.items()}
        return shown_rows(machine, numbers, self._shown)

    def _numbered_beans(self) -> dict[int, ShownRow]:
        machine = self._jmx.machine if self._jmx is not None else None
        if machine is None:
            return {}
        return {machine.names[name]: row for name, row in self._beans(machine).items()}

    def _save_provisional(self, registry: OidRegistry, _seen: SeenSchemas) -> None:
        self._provisional = registry

    def _received(self, source: str) -> None:
        self.reported.contact[source] = self.scheduler.now

    # ---- what happens ---------------------------------------------------------------------------------

    def _live(self) -> None:
        if self._lives:
            self.scheduler.random.choice(self._sites).live()
            pause = self.scheduler.between(5 * MILLISECOND, 5 * SECOND)
            self.scheduler.after(pause // len(self._sites), self._live)

    def _operate(self) -> None:
        if self._lives:
            self._users.act()
            self.scheduler.after(self.scheduler.between(*self._operates), self._operate)

    def _at(self, point: str) -> None:
        """Inject the armed fault, if an operation is at its point."""
        if self._armed is not None and self._armed[0] == point:
            _, fault = self._armed
            self._armed = None
            self.scheduler.note("fault", f"at {point}")
            self.scheduler.after_in(None, self.scheduler.between(1000, 20 * MILLISECOND), fault)

    def _note_core(self) -> None:
        runs = self._core is not None and not self._core.process.is_stopped
        if self._core is not None and not runs:
            self.reported.core_stopped()
        elif runs and self.reported.stopped_until > self.scheduler.now:
            self.reported.stopped_until = self.scheduler.now
        self.reported.no_core_since = 0 if runs else self.reported.no_core_since or self.scheduler.now

    def _look(self) -> None:
        """Read and check the front ends that can answer a management station or a Java client."""
        if self._snmp is not None and not self._snmp.process.is_stopped:
            self._snmp.process.run(self._snmp.judge)
            self.shown.read(self._snmp.store)
            self.shown.reported(self._receivers)
        jmx = self._jmx
        if jmx is not None and jmx.machine is not None and not jmx.is_silent:
            self.shown.read_beans(self._beans(jmx.machine))

    def _read(self) -> None:
        self._look()
        self.scheduler.after(self.scheduler.between(2 * SECOND, 12 * SECOND), self._read)

    def _faults(self) -> dict[str, Fault]:
        faults: dict[str, Fault] = {
            "core killed": self._kill_core,
            "power failure": self._lose_power,
            "snmp killed": self._kill_snmp,
            "snmp slow": self._slow_snmp,
            "informs get lost": self._deafen,
            "gateway's clock set": lambda: self._clock.set(2 * SECOND),
            "gateway stands still": self._all_stand_still,
        }
        names = ["core", "snmp", "jmx"] if self._with_jmx else ["core", "snmp"]
        faults |= {f"{name} stands still": partial(self._stand_still, name) for name in names}
        if self._with_jmx:
            faults |= {"jmx killed": self._kill_jmx, "virtual machine killed": self._kill_machine}
        faults |= {"disk full": self._fill_disk, "disk slow": self._slow_disk}
        for site in self._sites:
            faults |= {f"{site.name}: {name}": fault for name, fault in site.faults().items()}
        deaths = [faults[name] for name in sorted(faults) if name.endswith(_DEATHS)]
        return faults | {"death at an operation": lambda: self._arm(deaths)}

    def _arm(self, deaths: list[Fault]) -> None:
        random = self.scheduler.random
        self._armed = random.choice(_POINTS), random.choice(deaths)

    def _fill_disk(self) -> None:
        self._disk.fill()
        self._soon(self._disk.clear, longest=60 * SECOND)

    def _slow_disk(self) -> None:
        self._disk.slow = True
        self._soon(lambda: setattr(self._disk, "slow", False), longest=60 * SECOND)

    def _soon(self, action: Fault, longest: int = 10 * SECOND) -> None:
        self.scheduler.after_in(None, self.scheduler.between(50 * MILLISECOND, longest), action)

    def _deafen(self) -> None:
        *_, informs = self._receivers.all.values()
        informs.deaf = True
        self._soon(lambda: setattr(informs, "deaf", False), longest=60 * SECOND)

    def _slow_snmp(self) -> None:
        feed = self._snmp.feed if self._snmp is not None else None
        if feed is not None:
            feed.slow_down(_SLOW)
            self._soon(lambda: feed.slow_down(QUICK), longest=60 * SECOND)
