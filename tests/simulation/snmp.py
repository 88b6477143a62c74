"""The SNMP process: the real projection and store, fed by the core, until it is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NoReturn

from gateway.config.snmp import SnmpSettings, SnmpWriter
from gateway.feed.records import FeedMessage
from gateway.mapping.rules import Mapping
from gateway.model.times import MILLISECOND, SECOND
from gateway.service.processes.snmp import Commands
from gateway.service.processes.snmp_secrets import secret_arguments
from gateway.snmp.commands.command import Submission
from gateway.snmp.oid_registry import OidRegistry
from gateway.snmp.projection import Projection, ProjectionSettings
from gateway.snmp.registry_lookup import SeenSchemas
from gateway.snmp.requests import Access, Responder, Sender
from gateway.snmp.set_requests import SetRequests, SetSettings
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import Store
from tests.simulation.asking import NorthboundSurroundings
from tests.simulation.core import DEADLINE, Feed
from tests.simulation.processes import RUNNING, Process
from tests.simulation.receivers import Receivers, Sending
from tests.simulation.scheduler import Timer
from tests.simulation.table_reader import ROOT

SERVE_STALE_FOR = 60 * SECOND
RETRY = 250 * MILLISECOND
BUSY_TICK = 2 * MILLISECOND
_SLICE_RECORDS = 3  # so few that nearly every batch comes in slices
WRITER = "operator"
COMMUNITY = b"an operator's"


class SnmpProcess:
    """One run of the SNMP process.

    Args:
        around: its surroundings.
        registries: the shipped OID registries.
        provisional: the provisional registry of the site, as it was saved.
        save: saves the provisional registry.
        projection: the type of its projection.
        receivers: the receivers of notifications.
        mappings: define which arguments hold secrets.
    """

    def __init__(
        self,
        around: NorthboundSurroundings,
        registries: tuple[OidRegistry, ...],
        provisional: OidRegistry,
        save: Callable[[OidRegistry, SeenSchemas], None],
        projection: type[Projection],
        receivers: Receivers,
        mappings: Iterable[Mapping],
    ) -> None:
        scheduler, clock, core = around.scheduler, around.clock, around.core
        self._loop = around.loop
        self.process = RUNNING.get() or Process()
        self._answering: list[asyncio.Task[object]] = []
        self.store = Store()
        self._scheduler = scheduler
        self._core = core
        running = core()
        boot = running.epoch if running is not None else 0
        self.projection = projection(
            self.store,
            ProjectionSettings(ROOT, registries, SERVE_STALE_FOR, "1.2.3"),
            provisional=provisional,
            save=save,
            clock=clock.now,
            log=lambda event, detail: scheduler.note("snmp", f"{event}: {detail}"),
        )
        self.link = around.link(self.projection, _SLICE_RECORDS)
        self._sending = Sending(scheduler, clock, receivers, boot, self.projection, self.link.past_events)
        self.projection.notify_of_events(self._sending)
        self._fetching = self._loop.spawn(self._sending.fetch())
        settings = SnmpSettings(writers={WRITER: SnmpWriter()})
        submission = Submission(self.projection, secret_arguments(mappings), DEADLINE)
        self.commands = Commands(
            settings, ROOT, self.store, self.projection, submission, self.link.ask, clock.now
        )
        self.projection.notify_of_operations(self.commands.table.operation_changed)
        counters = SnmpCounters()
        sets = SetRequests(
            self.projection,
            [self.commands.table],
            self.link.ask,
            counters,
            SetSettings(DEADLINE),
            lambda: scheduler.now,
        )
        access = {COMMUNITY: Access(self.commands.view(WRITER), WRITER)}
        self._responder = Responder(access, counters, _fail, sets=sets)
        self.feed: Feed | None = None
        self._timers: list[Timer] = []
        self.link.keep_turning()
        self._connect()
        self._tick()

    def received(self, message: FeedMessage) -> None:
        """Process a message of the feed."""
        self._scheduler.note("snmp", f"<- {type(message).__name__} {len(getattr(message, 'records', ()))}")
        if self.feed is not None:
            self.link.take(message, self.feed)

    def ask(self, datagram: bytes, sender: Sender, answer: Callable[[bytes], None]) -> None:
        """Process a datagram; ``answer`` is called with the response."""
        self.process.run(self.judge)
        self.process.run(lambda: self._answer(datagram, sender, answer))

    def judge(self) -> None:
        """Update the freshness before an answer, as `gateway.service.processes.snmp` does."""
        if self.link.judge():
            while self.projection.tick():
                pass

    def _answer(self, datagram: bytes, sender: Sender, answer: Callable[[bytes], None]) -> None:
        response = self._responder.answer(datagram, sender)

        async def later(response: Coroutine[Any, Any, bytes | None]) -> None:
            octets = await response
            if octets is not None:
                answer(octets)

        if isinstance(response, bytes):
            answer(response)
        elif response is not None:
            self._answering.append(self._loop.spawn(later(response)))

    def ended(self) -> None:
        """Process the end of the core's feed."""
        self.feed = None
        self._scheduler.note("snmp", "feed down")
        self.link.lost("the core closed the feed")
        self._later(RETRY, self._connect)

    def kill(self) -> None:
        """Kill the process; its store is lost."""
        if self.feed is not None:
            self.feed.hang_up()
        for timer in self._timers:
            timer.cancel()
        for task in self._answering:
            task.cancel()
        self._loop.spawn(self.commands.close())
        self._sending.stop()
        self._fetching.cancel()
        self.process.end()

    def _connect(self) -> None:
        core = self._core()
        if core is None:
            self.projection.disconnected("no core")
            self._later(RETRY, self._connect)
        else:
            self.feed = core.subscribe(self)

    def _tick(self) -> None:
        busy = self.projection.tick()
        self.commands.table.tick()
        self._later(BUSY_TICK if busy else SECOND, self._tick)

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        self._timers = [timer for timer in self._timers if timer.time >= self._scheduler.now]
        self._timers.append(self._scheduler.after(delay, action))


def _fail(error: Exception) -> NoReturn:
    raise error
