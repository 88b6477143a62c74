"""Which notifications a receiver gets: by severity, by name, and the end of what it was told began."""

from __future__ import annotations

import fnmatch
import re
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, TypeAlias

from gateway.model.events import EventState, Severity
from gateway.snmp.notification import Notification

MAX_CONDITIONS: Final = 10_000
"""Conditions that are remembered for a receiver; beyond it the one told longest ago is forgotten."""

Condition: TypeAlias = tuple[str, str]
"""Source and condition, which together are unique."""


def condition_of(notification: Notification) -> Condition | None:
    """What ``notification`` begins or ends; ``None`` where it stands for itself."""
    if not notification.condition or notification.state is EventState.ONE_SHOT:
        return None
    return notification.source, notification.condition


class Selection:
    """The choice of one receiver.

    Args:
        severity: what is less severe is not for it. A clearing notification counts as `Severity.INFO`.
        patterns: see `Target.patterns`.
        told: conditions whose raising notification it was sent, with the severity of that.
        declined: conditions whose raising notification was not for it, with the event id of that.
    """

    def __init__(
        self,
        severity: Severity,
        patterns: Iterable[str],
        told: Iterable[tuple[Condition, Severity]] = (),
        declined: Iterable[tuple[Condition, str]] = (),
    ) -> None:
        self._severity = severity
        self._matches = re.compile("|".join(map(fnmatch.translate, patterns))).match
        self._told: OrderedDict[Condition, Severity] = OrderedDict(told)
        self._declined: OrderedDict[Condition, str] = OrderedDict(declined)
        self._doubtful: set[Condition] = set()

    @property
    def told(self) -> tuple[tuple[Condition, Severity], ...]:
        """Conditions that the receiver believes to last, with their severity, told longest ago first."""
        return tuple(self._told.items())

    @property
    def declined(self) -> tuple[tuple[Condition, str], ...]:
        """Conditions that are not for the receiver, and by which event they began; oldest first."""
        return tuple(self._declined.items())

    def is_unaware_of(self, condition: Condition, event_id: str) -> bool:
        """Whether the receiver was neither told for certain that a condition lasts, nor declined that."""
        untold = condition not in self._told or condition in self._doubtful
        return untold and self._declined.get(condition) != event_id

    def believes(self, condition: Condition) -> bool:
        """Whether the receiver was told, perhaps, that a condition began, and not that it ended."""
        return condition in self._told

    def urgency(self, notification: Notification) -> Severity | None:
        """How urgent ``notification`` is for this receiver; ``None`` if it is not for it.

        The end of a condition is as urgent as its beginning was, and goes wherever that went; so does what
        begins it again, perhaps less severe than before.
        """
        if self.ends_what_was_told(notification):
            condition = condition_of(notification)
            assert condition is not None
            return self._told[condition]
        urgency = max(notification.severity, Severity.INFO)
        if condition_of(notification) in self._told:
            return urgency
        return urgency if urgency >= self._severity and self._matches(notification.name) else None

    def ends_what_was_told(self, notification: Notification) -> bool:
        """Whether ``notification`` ends a condition that the receiver believes to last."""
        return notification.state is EventState.CLEARED and condition_of(notification) in self._told

    def tell(self, notification: Notification, *, perhaps: bool = False) -> None:
        """``notification`` is on its way to the receiver, or ``perhaps`` reached it before."""
        condition = condition_of(notification)
        if condition is None:
            return
        self._declined.pop(condition, None)
        self._doubtful.discard(condition)
        if notification.state is EventState.CLEARED:
            self._told.pop(condition, None)
            return
        self._told[condition] = max(notification.severity, Severity.INFO)
        self._told.move_to_end(condition)
        if perhaps:
            self._doubtful.add(condition)
        if len(self._told) > MAX_CONDITIONS:
            self._doubtful.discard(self._told.popitem(last=False)[0])

    def decline(self, notification: Notification) -> None:
        """``notification`` is not for the receiver."""
        condition = condition_of(notification)
        if condition is None or condition in self._told:
            return
        if notification.state is EventState.CLEARED:
            self._declined.pop(condition, None)
            return
        self._declined[condition] = notification.event_id
        self._declined.move_to_end(condition)
        if len(self._declined) > MAX_CONDITIONS:
            self._declined.popitem(last=False)

    def forget(self, ended: Iterable[Condition]) -> None:
        """These conditions have ended: forget that they were declined."""
        for condition in ended:
            self._declined.pop(condition, None)
