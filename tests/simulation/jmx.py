"""The JMX process: the real projection, and a model of the virtual machine that carries its commands out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from gateway.feed.freshness import Freshness
from gateway.feed.records import FeedMessage, Lifetime
from gateway.jmx.backend import Backend
from gateway.jmx.commands import JmxValue
from gateway.jmx.notifications import EventCursor, OperationCursor
from gateway.jmx.operations import Operations
from gateway.jmx.projection import Projection, ProjectionSettings
from gateway.model.times import MILLISECOND, SECOND
from gateway.snmp.row_columns import RowColumn, RowLifetime
from tests.components.jmx_client import attribute_of
from tests.jmx.model_machine import Bean, ModelMachine
from tests.simulation.asking import NorthboundSurroundings
from tests.simulation.core import DEADLINE, Feed
from tests.simulation.processes import RUNNING, Process
from tests.simulation.scheduler import Timer
from tests.simulation.table_reader import ShownRow
from tests.simulation.truth import Plain, plain

SERVE_STALE_FOR = 60 * SECOND
RETRY = 250 * MILLISECOND
_BUSY_TICK = 2 * MILLISECOND
_PUSH = (MILLISECOND, 50 * MILLISECOND)
_BATCH = 50
_ANSWERING = 2 * SECOND
_SIGNS = 5 * SECOND
"""The longest time without a sign of life, as in `SignsOfLife.java`."""


class JmxProcess:
    """One run of the JMX process, with one virtual machine after the other.

    Args:
        around: its surroundings.
        projection: the type of its projection.
    """

    def __init__(self, around: NorthboundSurroundings, projection: type[Projection]) -> None:
        self.process = RUNNING.get() or Process()
        self._around = around
        self._made_of = projection
        self._scheduler = around.scheduler
        self._clock = around.clock
        self._cursor = EventCursor()
        self._operations = OperationCursor()
        self._starts = 0
        self._life: _Life | None = None
        self._next: Timer | None = None
        self._begin()

    @property
    def machine(self) -> ModelMachine | None:
        """The virtual machine that runs now."""
        return self._life.machine if self._life is not None else None

    @property
    def is_silent(self) -> bool:
        """Whether the virtual machine has had no sign of life for too long, and shows all values as stale."""
        return self._life is not None and self._scheduler.now - self._life.signed_at > _SIGNS

    def ask(self, request: bytes, answer: Callable[[bytes], None]) -> None:
        """Deliver a client's request to the virtual machine; it may never be answered."""
        if self._life is not None:
            life = self._life
            self.process.run(lambda: life.ask(request, answer))

    def kill_machine(self) -> None:
        """Kill the virtual machine; another one is started later."""
        if self._life is not None:
            self._scheduler.note("jmx", "virtual machine killed")
            self._life.end()
            self._life = None
            delay = self._scheduler.between(100 * MILLISECOND, SECOND)
            self._next = self._scheduler.after_in(self.process, delay, self._begin)

    def kill(self) -> None:
        """Kill the process and its virtual machine."""
        if self._life is not None:
            self._life.end()
        if self._next is not None:
            self._next.cancel()
        self.process.end()

    def _begin(self) -> None:
        self._starts += 1
        settings = ProjectionSettings(SERVE_STALE_FOR, "1.2.3", {}, self._starts, users=("operator",))
        projection = self._made_of(
            settings,
            cursor=self._cursor,
            operations=self._operations,
            clock=self._clock.now,
            log=lambda event, detail: self._scheduler.note("jmx", f"{event}: {detail}"),
        )
        self._life = _Life(self._around, projection)


class _Life:
    """One life of a virtual machine."""

    def __init__(self, around: NorthboundSurroundings, projection: Projection) -> None:
        self._loop = around.loop
        self._link = around.link(projection)
        self._backend = Backend(_no_user, 1.0)
        self._backend.operator = Operations(
            *(projection.objects, self._link.ask, self._caught_up, DEADLINE - _ANSWERING),
            projection.last_end,
        )
        self._answering: list[asyncio.Task[object]] = []
        self._taken = self._pushed = 0
        self._waiters: list[asyncio.Future[None]] = []
        self.machine = ModelMachine()
        self._scheduler = around.scheduler
        self.signed_at = self._scheduler.now
        self._projection = projection
        self._core = around.core
        self._feed: Feed | None = None
        self._timers: list[Timer] = []
        self._pushing = False
        self._link.keep_turning()
        self._connect()
        self._tick()

    def received(self, message: FeedMessage) -> None:
        """Process a message of the feed."""
        if self._feed is not None:
            self._link.take(message, self._feed)
        self._push()

    def ask(self, request: bytes, answer: Callable[[bytes], None]) -> None:
        """Process a client's request."""

        async def answered() -> None:
            answer(await self._backend.answer(request))

        self._answering.append(self._loop.spawn(answered()))

    async def _caught_up(self) -> None:
        """Wait until all commands so far are carried out, as in `gateway.jmx.delivery.Delivery`."""
        reported = self._taken + self._projection.waiting
        while self._pushed < reported:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def ended(self) -> None:
        """Process the end of the core's feed."""
        self._feed = None
        self._link.lost("the core closed the feed")
        self._push()
        self._later(RETRY, self._connect)

    def end(self) -> None:
        """End this life of the virtual machine."""
        if self._feed is not None:
            self._feed.hang_up()
        for timer in self._timers:
            timer.cancel()
        for task in self._answering:
            task.cancel()

    def _connect(self) -> None:
        core = self._core()
        if core is None:
            self._later(RETRY, self._connect)
        else:
            self._feed = core.subscribe(self)

    def _tick(self) -> None:
        self._link.judge()
        if not self._pushing and not self._projection.waiting:
            self.signed_at = self._scheduler.now
        busy = self._projection.tick()
        self._push()
        self._later(_BUSY_TICK if busy else SECOND, self._tick)

    def _push(self) -> None:
        """Send one batch of commands at a time; later commands are collected for the next one."""
        if self._pushing or not self._projection.waiting:
            return
        self._link.judge()
        self._pushing = True
        commands = self._projection.take(_BATCH)
        self._taken += len(commands)

        def carried_out() -> None:
            self._pushing = False
            self.machine.carry_out(commands)
            self.signed_at = self._scheduler.now
            self._pushed += len(commands)
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._push()

        self._later(self._scheduler.between(*_PUSH), carried_out)

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        self._timers = [timer for timer in self._timers if timer.time >= self._scheduler.now]
        self._timers.append(self._scheduler.after(delay, action))


def shown_rows(
    machine: ModelMachine, sources: Mapping[str, int], elements: Mapping[str, frozenset[str]]
) -> dict[str, ShownRow]:
    """Return the managed objects as a client reads them, by name, in the form of SNMP rows for comparison.

    Args:
        machine: the virtual machine that clients read.
        sources: the numbers of the sources, by name.
        elements: the elements that are read, by class (``package:class``).
    """
    rows = {}
    for bean in machine.beans.values():
        keys = dict(pair.split("=", 1) for pair in bean.name.partition(":")[2].split(",") if "=" in pair)
        class_name = f"{keys.get('package')}:{keys.get('type')}"
        if class_name in elements:
            rows[bean.name] = _row(machine, bean, class_name, sources, elements[class_name])
    return rows


def _row(
    machine: ModelMachine,
    bean: Bean,
    class_name: str,
    sources: Mapping[str, int],
    elements: frozenset[str],
) -> ShownRow:
    shown = machine.read(bean.name)
    freshness = machine.groups.get(bean.group, Freshness.STALE)
    durable = shown["Lifetime"] == Lifetime.DURABLE.value
    fixed: dict[RowColumn, Plain] = {
        RowColumn.FULL_NAME: plain(shown["StableName"]),
        RowColumn.LIFETIME: RowLifetime.DURABLE if durable else RowLifetime.TRANSIENT,
        RowColumn.STATE: freshness,
    }
    values: dict[str, Plain] = {}
    for element in elements:
        value = _plain(machine, shown[attribute_of(element)])
        if value is not None:
            values[element] = value
    row = shown["Row"]
    assert isinstance(row, int)
    return ShownRow(class_name, sources[str(shown["Source"])], row, fixed, values, {})


def _plain(machine: ModelMachine, value: JmxValue) -> Plain:
    if isinstance(value, tuple):  # a map of texts
        pairs = ",".join(f'"{pair[0]}":{pair[1]}' for pair in value)
        return f"{{{pairs}}}".encode()
    if isinstance(value, str) and value.startswith("amqp.gateway:"):  # a reference
        return plain(machine.read(value)["StableName"]) if value in machine.names else None
    return plain(value)


async def _no_user(_user: str, _password: str) -> bool:
    return False
