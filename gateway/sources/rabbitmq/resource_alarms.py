"""Whether the broker takes messages: it takes none while any node's memory or disk alarm is raised.

Without I/O. Events tell at once; listings, which lag behind, tell what was missed; a connection that the
broker blocks tells where neither did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.mapping.paths import Json

ALARM_EVENTS: Mapping[str, bool] = {"alarm.set": True, "alarm.cleared": False}
SECOND = 1_000_000_000
LAG = 15 * SECOND
"""A listing that says otherwise than an event, or than a blocked connection, is not believed sooner."""
_LISTED = {"mem_alarm": "memory", "disk_free_alarm": "disk"}

ELEMENTS: Mapping[str, str] = {"memory": "memoryAlarm", "disk": "diskFreeAlarm"}
"""The property of class ``node`` for each resource that alarms are about."""


@dataclass(frozen=True, slots=True)
class _Alarm:
    raised: bool
    heard: int


class ResourceAlarms:
    """The alarms of all nodes."""

    def __init__(self) -> None:
        self._alarms: dict[tuple[str, str], _Alarm] = {}
        self._blocked_at = 0

    @property
    def blocked(self) -> bool:
        """Whether what is published over AMQP waits until an alarm is cleared."""
        return bool(self._blocked_at) or any(alarm.raised for alarm in self._alarms.values())

    def event(self, event: str, headers: Mapping[str, Json], now: int) -> None:
        """An alarm was set or cleared."""
        node, resource = headers.get("node"), headers.get("source")
        if event in ALARM_EVENTS and isinstance(node, str) and isinstance(resource, str):
            self._alarms[node, resource] = _Alarm(ALARM_EVENTS[event], now)
            if not ALARM_EVENTS[event]:
                self._blocked_at = 0

    def completed(self, node: Mapping[str, Json], began: int) -> Mapping[str, Json]:
        """A node as a listing shows it that began at ``began``, with what events told since."""
        name = node.get("name")
        told: dict[str, Json] = {}
        for element, resource in _LISTED.items():
            known = self._alarms.get((name, resource)) if isinstance(name, str) else None
            if known is not None and known.heard > began - LAG:
                told[element] = known.raised
        return {**node, **told} if told else node

    def listed(self, node: Mapping[str, Json], began: int) -> None:
        """A listing that began at ``began`` shows a node."""
        name = node.get("name")
        if not isinstance(name, str):
            return
        for element, resource in _LISTED.items():
            raised, known = node.get(element), self._alarms.get((name, resource))
            if isinstance(raised, bool) and (known is None or known.heard <= began - LAG):
                self._alarms[name, resource] = _Alarm(raised, known.heard if known else 0)

    def finished(self, names: set[str], began: int) -> None:
        """A listing of all nodes has ended: others are gone, and a blocked connection is old news."""
        self._alarms = {key: alarm for key, alarm in self._alarms.items() if key[0] in names}
        if self._blocked_at <= began - LAG:
            self._blocked_at = 0

    def connection_blocked(self, now: int) -> None:
        """The broker says that it takes nothing from a connection of ours."""
        self._blocked_at = now
