"""The SNMP process: the real projection and store, fed by the core, until it is killed."""

from __future__ import annotations

from collections.abc import Callable

from gateway.feed.records import FeedMessage
from gateway.snmp.lock import Lock
from gateway.snmp.projection import Projection, ProjectionSettings
from gateway.snmp.schema_locks import SeenSchemas
from gateway.snmp.store import Store
from tests.simulation.core import Core, Feed
from tests.simulation.receivers import Receivers, Sending
from tests.simulation.scheduler import MILLISECOND, SECOND, Clock, Scheduler, Timer
from tests.simulation.table_reader import ROOT

SERVE_STALE_FOR = 60 * SECOND
RETRY = 250 * MILLISECOND
BUSY_TICK = 2 * MILLISECOND


class SnmpProcess:
    """One run of the SNMP process.

    Args:
        scheduler: time and chance.
        clock: the gateway's.
        core: the core that runs now, or ``None``.
        locks: the shipped locks.
        provisional: the site's own, as it was kept.
        save: keeps it.
        projection: what it is made of.
        receivers: of notifications.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        core: Callable[[], Core | None],
        locks: tuple[Lock, ...],
        provisional: Lock,
        save: Callable[[Lock, SeenSchemas], None],
        projection: type[Projection],
        receivers: Receivers,
    ) -> None:
        self.store = Store()
        self._scheduler = scheduler
        self._core = core
        running = core()
        boot = running.epoch if running is not None else 0
        self._sending = Sending(scheduler, clock, receivers, boot, lambda: self.projection)
        self.projection = projection(
            self.store,
            ProjectionSettings(ROOT, locks, SERVE_STALE_FOR, "1.2.3"),
            provisional=provisional,
            save=save,
            clock=clock.now,
            log=lambda event, detail: scheduler.tell("snmp", f"{event}: {detail}"),
            notify=self._sending.notify,
        )
        self.feed: Feed | None = None
        self._timers: list[Timer] = []
        self._connect()
        self._tick()

    def received(self, message: FeedMessage) -> None:
        """A message of the feed."""
        self._scheduler.tell("snmp", f"<- {type(message).__name__} {len(getattr(message, 'records', ()))}")
        self.projection.received(message)

    def ended(self) -> None:
        """The core is gone."""
        self.feed = None
        self._scheduler.tell("snmp", "feed down")
        self.projection.disconnected("the core closed the feed")
        self._later(RETRY, self._connect)

    def kill(self) -> None:
        """Everything that it showed is gone."""
        if self.feed is not None:
            self.feed.hang_up()
            core = self._core()
            if core is not None and self.feed in core.feeds:
                core.feeds.remove(self.feed)
        for timer in self._timers:
            timer.cancel()
        self._sending.stop()

    def _connect(self) -> None:
        core = self._core()
        if core is None:
            self.projection.disconnected("no core")
            self._later(RETRY, self._connect)
        else:
            self.feed = core.subscribe(self)

    def _tick(self) -> None:
        busy = self.projection.tick()
        self._later(BUSY_TICK if busy else SECOND, self._tick)

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        self._timers = [timer for timer in self._timers if timer.time >= self._scheduler.now]
        self._timers.append(self._scheduler.after(delay, action))
