"""agHealth: whether what is shown can be believed as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.feed.replica import FeedStatus
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import counter64, date_and_time, gauge32, gauge64, text, truth
from gateway.snmp.fixed_mib import HEALTH, Health
from gateway.snmp.store import Store

_TICK_NANOSECONDS = 10_000_000
_MAX_TICKS = 0xFFFF_FFFF


@dataclass(slots=True)
class ShownCounts:
    """How much is shown; the scalars have it as it is when they are read."""

    sources: int = 0
    synchronised: int = 0
    rows: int = 0
    stale: int = 0
    withheld: int = 0
    provisional_classes: int = 0
    classes_not_shown: int = 0
    elements_not_shown: int = 0
    provisional_events: int = 0
    events_not_shown: int = 0


class HealthScalars:
    """The scalars in the store.

    Args:
        store: where they are served.
        root: the configured root.
        version: of the gateway's software.
        status: of the connection to the core.
        clock: now, in nanoseconds since 1970-01-01 UTC.

    Attributes:
        counts: to be kept up to date.
    """

    def __init__(
        self, store: Store, root: Oid, version: str, status: FeedStatus, clock: Callable[[], int]
    ) -> None:
        self.counts = ShownCounts()
        self._status = status
        self._store = store
        self._base = (*root, *HEALTH)
        self._clock = clock
        feed, counts = status, self.counts
        self._store.scalar(self._oid(Health.VERSION), text(version))
        values: dict[Health, Callable[[], bytes]] = {
            Health.GATEWAY_UUID: lambda: text(feed.gateway),
            Health.CORE_EPOCH: lambda: gauge64(feed.epoch),
            Health.CORE_UPTIME: lambda: self._ticks_since(feed.started if feed.connected else 0),
            Health.FEED_CONNECTED: lambda: truth(feed.connected),
            Health.FEED_IDLE: lambda: self._ticks_since(feed.last_message),
            Health.FEED_MESSAGES: lambda: counter64(feed.messages),
            Health.FEED_SNAPSHOTS: lambda: counter64(feed.snapshots),
            Health.FEED_REFUSED: lambda: counter64(feed.refused),
            Health.SOURCES: lambda: gauge32(counts.sources),
            Health.SOURCES_SYNCHRONISED: lambda: gauge32(counts.synchronised),
            Health.ROWS: lambda: gauge32(counts.rows),
            Health.ROWS_STALE: lambda: gauge32(counts.stale),
            Health.ROWS_WITHHELD: lambda: gauge32(counts.withheld),
            Health.CLASSES_PROVISIONAL: lambda: gauge32(counts.provisional_classes),
            Health.CLASSES_NOT_SHOWN: lambda: gauge32(counts.classes_not_shown),
            Health.ELEMENTS_NOT_SHOWN: lambda: gauge32(counts.elements_not_shown),
            Health.EVENTS_PROVISIONAL: lambda: gauge32(counts.provisional_events),
            Health.EVENTS_NOT_SHOWN: lambda: gauge32(counts.events_not_shown),
        }
        for scalar, value in values.items():
            self._store.scalar(self._oid(scalar), value)
        self._shown_times: dict[Health, int] = {}

    def show_times(self) -> None:
        """Bring the times up to date: one that is not known has no instance."""
        times = {
            Health.CORE_STARTED: self._status.started,
            Health.FEED_STALE_SINCE: self._status.stale_since,
            Health.FEED_LAST_MESSAGE: self._status.last_message,
        }
        for scalar, time in times.items():
            if time == self._shown_times.get(scalar, 0):
                continue
            value = date_and_time(time) if time else None
            if value is not None:
                self._store.scalar(self._oid(scalar), value)
                self._shown_times[scalar] = time
            elif self._shown_times.pop(scalar, 0):
                self._store.remove_scalar(self._oid(scalar))

    def _oid(self, scalar: Health) -> Oid:
        return (*self._base, scalar, 0)

    def _ticks_since(self, time: int) -> bytes:
        """Hundredths of a second since ``time``; 0 where there is none or the clock was set back."""
        ticks = (self._clock() - time) // _TICK_NANOSECONDS if time else 0
        return ber.encode_time_ticks(min(max(ticks, 0), _MAX_TICKS))
