"""A boiler that is operated through a gateway, while links, broker, agent and core die at any point.

The real manager, inventory, console session and agent session run on virtual time. The boiler records every
change; the event log keeps the committed records over all cores.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gateway.dialects.qmf.am01.messages import Revision
from gateway.dialects.session import Binding, ConsoleSession
from gateway.feed.operations import (
    Action,
    OperationAnswer,
    OperationRecord,
    OperationRequest,
    OperationState,
)
from gateway.feed.records import Batch
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify
from gateway.model.secrets import SecretRules
from gateway.model.times import MILLISECOND, SECOND
from gateway.operations.audit import Audit, Redaction
from gateway.operations.manager import ManagerSettings, OperationManager
from gateway.operations.operation import Effect as Wanted
from gateway.operations.operation import Publish, Reply, Send
from gateway.policy.marks import Marks
from tests.components.opened_index import opened_index
from tests.components.permissions import policy_of
from tests.operations.works import ANYTHING, BOILER_CLASS, MAPPING, OPERATOR
from tests.simulation.am01_boiler import am01_agent, am01_console
from tests.simulation.amqp import AmqpBroker, AmqpClient
from tests.simulation.boiler import Boiler, BoilerAgent, am2_console
from tests.simulation.cml_boiler import CmlBoilerServer, cml_console
from tests.simulation.half_open import Silence
from tests.simulation.scheduler import Clock, Scheduler, Timer
from tests.simulation.session_driver import SimulatedDriver
from tests.simulation.site import CONSOLE_USER, OUTAGE

DEADLINE = 10 * SECOND
_QUICK = (1 * MILLISECOND, 100 * MILLISECOND)
_SLOW = (1 * SECOND, 30 * SECOND)


class Console(ConsoleSession, Protocol):
    """A console session of a dialect that sets by a request of its own."""

    def bindings(self, queue: str) -> Sequence[Binding]:
        """Return the bindings of its queue."""


class Agent(Protocol):
    """One run of the process that manages the boiler."""

    client: AmqpClient

    def die(self) -> None:
        """Kill the process."""


@dataclass(frozen=True)
class Dialect:
    """The dialect between gateway and boiler.

    Attributes:
        console: makes the session of a core, by its epoch.
        agent: makes the process that manages the boiler, by its boot.
    """

    console: Callable[[int], Console]
    agent: Callable[[Scheduler, AmqpBroker, Boiler, int], Agent]


AM2 = Dialect(am2_console, BoilerAgent)
CML = Dialect(cml_console, CmlBoilerServer)
BEFORE_AM2 = {one: Dialect(am01_console(one), am01_agent(one)) for one in Revision}


class OperatedCore:
    """One run of the core.

    Args:
        scheduler: time and chance.
        broker: the broker of the agent.
        folder: the folder of the instance index.
        disk: the records in the log, of all cores.
        epoch: its epoch.
        console: makes its session.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        broker: AmqpBroker,
        folder: Path,
        disk: list[OperationRecord],
        epoch: int,
        console: Callable[[int], Console],
    ) -> None:
        self._scheduler = scheduler
        self._clock = Clock(scheduler)
        self._disk = disk
        self._is_alive = True
        self._is_slow = False
        self._committed_at = scheduler.now
        self._timer: Timer | None = None
        self._index = opened_index(folder / "instances.sqlite3")
        classes = ClassRegistry({"works": MAPPING})
        self._inventory = Inventory("gw", epoch, classes, self._index, self._published)
        self._source = self._inventory.add_source("works", "any", 1000, sets_natively=True)
        audit = Audit("gw", epoch, Redaction(SecretRules()))
        self.manager = OperationManager(
            self._inventory,
            classes,
            policy_of([ANYTHING]),
            Marks({"works": MAPPING}),
            audit,
            ManagerSettings(DEADLINE, 4),
        )
        self._session = session = console(epoch)
        self.manager.connect(
            self._source.identity.number, lambda message: session.precheck(message, self._clock.now())
        )
        self._perform(self.manager.recover(unfinished(disk), self._clock.now()))
        self._conversation = SimulatedDriver(
            scheduler,
            self._clock,
            f"console-{epoch}",  # part of its queues' names, which no other core ever has
            self._session,
            lambda observations: self._inventory.observed(self._source, observations, self._clock.now()),
            answered=self._took,
        )
        self.client = AmqpClient(
            scheduler,
            broker,
            self._conversation,
            CONSOLE_USER,
            self._clock,
            self._session.bindings,
            1000,
        )

    def ask(self, action: Action, reply: Callable[[OperationAnswer], None]) -> None:
        """Submit an operation of a front end."""
        request = OperationRequest(
            1, OPERATOR, self._source.identity.number, BOILER_CLASS, 1, action, DEADLINE
        )
        self._perform(self.manager.submit(request, reply, self._clock.now()))

    def slow_disk(self, *, is_slow: bool) -> None:
        """Set whether commits take long."""
        self._is_slow = is_slow

    def kill(self) -> None:
        """Kill the core as with kill -9: uncommitted records are lost."""
        self._is_alive = False
        self.client.close()
        self._index._database.close()  # noqa: SLF001  nothing but a kill ends like this

    def _perform(self, effects: Iterable[Wanted]) -> None:
        for effect in effects:
            match effect:
                case Publish(record, lasting):
                    self._inventory.publish_operation(record)
                    self._commit(record, lasting=lasting)
                case Send(_, message):
                    self._later(0, lambda message=message: self._send(message))  # type: ignore[misc]  # bound now
                case Reply(to, answer):
                    to(answer)
        self._set_timer()

    def _commit(self, record: OperationRecord, *, lasting: bool) -> None:
        """Commit a record after a while, in order."""
        delay = self._scheduler.between(*(_SLOW if self._is_slow else _QUICK))
        self._committed_at = max(self._committed_at, self._scheduler.now + delay)

        def commit() -> None:
            self._disk.append(record)
            if lasting:
                self._perform(self.manager.recorded(record.number, self._clock.now()))

        self._later(self._committed_at - self._scheduler.now, commit)

    def _send(self, message: MethodCall | ObjectModify | ObjectFetch) -> None:
        self._conversation.handle(message)

    def _took(self, answer: Answer) -> None:
        self._perform(self.manager.answered(answer, self._clock.now()))

    def _published(self, batch: Batch) -> None:
        if hasattr(self, "manager"):
            self._perform(self.manager.noticed(batch.records, self._clock.now()))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wake_at = self.manager.wake_at
        if wake_at is not None:
            self._timer = self._later(wake_at - self._clock.now(), self._tick)

    def _tick(self) -> None:
        self._perform(self.manager.tick(self._clock.now()))

    def _later(self, delay: int, action: Callable[[], None]) -> Timer:
        return self._scheduler.after(delay, lambda: action() if self._is_alive else None)


def unfinished(disk: Iterable[OperationRecord]) -> list[OperationRecord]:
    """Return the operations that have a begin and no end in the log."""
    begun: dict[str, OperationRecord] = {}
    for record in disk:
        if record.state is OperationState.BEGUN:
            begun[record.operation_id] = record
        else:
            begun.pop(record.operation_id, None)
    return list(begun.values())


class OperatedBoiler:
    """A whole run from one seed: some minutes of operations and faults, then quiet.

    Args:
        seed: the seed of all chance.
        folder: the folder of the instance index.
        dialect: the dialect between gateway and boiler.

    Attributes:
        disk: the records in the log at the end.
        asked: the answer to each requested value; ``None`` while it is not answered.
    """

    def __init__(self, seed: int, folder: Path, dialect: Dialect = AM2) -> None:
        self.scheduler = Scheduler(seed)
        self._dialect = dialect
        self.boiler = Boiler()
        self.disk: list[OperationRecord] = []
        self.asked: dict[int, OperationAnswer | None] = {}
        self._folder = folder
        self._broker = AmqpBroker(self.scheduler)
        self._boots, self._epochs = itertools.count(1), itertools.count(1)
        self._values = itertools.count(2)
        self._core: OperatedCore | None = None
        self._agent: Agent | None = None
        self._is_quiet = False
        self._start_agent()
        self._start_core()

    def run(self, make: Callable[[int], Action]) -> None:
        """Run the simulation.

        Args:
            make: makes a request that sets the boiler to the given value.
        """
        self._make = make
        self._again(200 * MILLISECOND, 3 * SECOND, self._ask)
        self._again(2 * SECOND, 40 * SECOND, self._fail)
        self.scheduler.run_until(self.scheduler.now + 240 * SECOND)
        self._is_quiet = True
        self.scheduler.run_until(self.scheduler.now + 3 * OUTAGE)
        if self._core is not None:
            self._core.kill()  # so that what it could not settle is found by the next one
            self._core = None
        self._start_core()
        self.scheduler.run_until(self.scheduler.now + 60 * SECOND)
        self.close()

    def close(self) -> None:
        """Kill the core, so that nothing goes on."""
        if self._core is not None:
            self._core.kill()
            self._core = None

    def _ask(self) -> None:
        if self._core is None:
            return
        value = next(self._values)
        self.asked[value] = None

        def reply(answer: OperationAnswer) -> None:
            assert self.asked[value] is None, "answered twice"
            self.asked[value] = answer

        self._core.ask(self._make(value), reply)

    def _fail(self) -> None:
        random = self.scheduler.random
        random.choice(
            (self._kill_core, self._kill_agent, self._lose, self._silence, self._stop_broker, self._slow_disk)
        )()

    def _kill_core(self) -> None:
        if self._core is not None:
            self._core.kill()
            self._core = None
            self._soon(self._start_core)

    def _kill_agent(self) -> None:
        if self._agent is not None:
            self._agent.die()
            self._agent = None
            self._soon(self._start_agent)

    def _lose(self) -> None:
        self._any_client(lambda client: client.lose("the connection was reset"))

    def _silence(self) -> None:
        silence = Silence.chosen(self.scheduler, 30 * SECOND)
        self._any_client(lambda client: client.fall_silent(silence))

    def _stop_broker(self) -> None:
        if self._broker.up:
            self._broker.stop()
            self._soon(self._broker.start)

    def _slow_disk(self) -> None:
        core = self._core
        if core is not None:
            core.slow_disk(is_slow=True)
            self._soon(lambda: core.slow_disk(is_slow=False))

    def _any_client(self, fault: Callable[[AmqpClient], None]) -> None:
        clients = [process.client for process in (self._core, self._agent) if process is not None]
        if clients:
            fault(self.scheduler.random.choice(clients))

    def _start_core(self) -> None:
        epoch = next(self._epochs)
        self._core = OperatedCore(
            self.scheduler, self._broker, self._folder, self.disk, epoch, self._dialect.console
        )

    def _start_agent(self) -> None:
        self._agent = self._dialect.agent(self.scheduler, self._broker, self.boiler, next(self._boots))

    def _soon(self, action: Callable[[], None]) -> None:
        self.scheduler.after(self.scheduler.between(50 * MILLISECOND, 30 * SECOND), action)

    def _again(self, shortest: int, longest: int, action: Callable[[], None]) -> None:
        def turn() -> None:
            if not self._is_quiet:
                action()
                self._again(shortest, longest, action)

        self.scheduler.after(self.scheduler.between(shortest, longest), turn)
