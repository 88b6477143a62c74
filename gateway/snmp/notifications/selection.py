"""The filter of a receiver, and the conditions that were raised at it."""

from __future__ import annotations

import fnmatch
import re
from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from gateway.model.observations import EventState, Severity
from gateway.snmp.notifications.notification import MAX_CONDITIONS, Condition, Notification, condition_of

MAX_NAMES: Final = 100
"""The maximum number of names that are remembered, or counted separately."""


class Selection:
    """The filter of one receiver, and the conditions that were raised at it.

    Args:
        severity: the lowest severity that is for it. A clearing notification counts as `Severity.INFO`.
        patterns: see `Target.patterns`.
        raised: conditions whose raising notification was sent to it, with the notification's severity.
        declined: conditions whose raising notification was not for it, with the notification's event id.
        uncertain: those of ``raised`` whose raising notification was perhaps not sent to it.
    """

    def __init__(
        self,
        severity: Severity,
        patterns: Iterable[str],
        raised: Iterable[tuple[Condition, Severity]] = (),
        declined: Iterable[tuple[Condition, str]] = (),
        uncertain: Iterable[Condition] = (),
    ) -> None:
        self._severity = severity
        # One expression for all patterns: each notification is matched for each receiver.
        matches = re.compile("|".join(map(fnmatch.translate, patterns))).match
        # Of names there are few: most are matched once.
        self._matches = lru_cache(maxsize=MAX_NAMES)(lambda name: matches(name) is not None)
        self._raised: OrderedDict[Condition, Severity] = OrderedDict(raised)
        self._declined: OrderedDict[Condition, str] = OrderedDict(declined)
        self._uncertain: set[Condition] = set(uncertain)

    @property
    def raised(self) -> tuple[tuple[Condition, Severity], ...]:
        """Conditions that were raised at the receiver, with their severity, the oldest first."""
        return tuple(self._raised.items())

    @property
    def declined(self) -> tuple[tuple[Condition, str], ...]:
        """Conditions not for the receiver, with the ids of the events that began them; oldest first."""
        return tuple(self._declined.items())

    @property
    def uncertain(self) -> tuple[Condition, ...]:
        """Conditions that were perhaps not raised at the receiver, in a fixed order."""
        return tuple(sorted(self._uncertain))

    def is_unaware_of(self, condition: Condition, event_id: str) -> bool:
        """Return whether the receiver was neither sent for certain, nor declined, a condition's beginning."""
        unsent = condition not in self._raised or condition in self._uncertain
        # By the event, because a condition that ended and began again may be more severe, and so be for this
        # receiver.
        return unsent and self._declined.get(condition) != event_id

    def has_raised(self, condition: Condition) -> bool:
        """Return whether the receiver was sent, perhaps, the beginning of a condition, but not its end."""
        return condition in self._raised

    def urgency(self, notification: Notification) -> Severity | None:
        """Return the urgency of ``notification`` for this receiver; ``None`` if it is not for it.

        The end of a condition is as urgent as its beginning was, and is for every receiver of the beginning.
        So is a notification that begins the condition again, perhaps less severe than before.
        """
        urgency = max(notification.severity, Severity.INFO)
        condition = condition_of(notification)
        if condition is not None and condition in self._raised:
            return self._raised[condition] if notification.state is EventState.CLEARED else urgency
        return urgency if urgency >= self._severity and self._matches(notification.name) else None

    def ends_a_raised_condition(self, notification: Notification) -> bool:
        """Return whether ``notification`` ends a condition that was raised at the receiver."""
        return notification.state is EventState.CLEARED and condition_of(notification) in self._raised

    def note_sent(self, notification: Notification, *, perhaps: bool = False) -> None:
        """Record that ``notification`` is on its way to the receiver, or ``perhaps`` reached it before."""
        condition = condition_of(notification)
        if condition is None:
            return
        self._declined.pop(condition, None)
        self._uncertain.discard(condition)
        if notification.state is EventState.CLEARED:
            self._raised.pop(condition, None)
            return
        self._raised[condition] = max(notification.severity, Severity.INFO)
        self._raised.move_to_end(condition)
        if perhaps:
            self._uncertain.add(condition)
        self._forget_oldest()

    def decline(self, notification: Notification) -> None:
        """Record that ``notification`` is not for the receiver."""
        condition = condition_of(notification)
        if condition is None or (condition in self._raised and condition not in self._uncertain):
            return
        if condition in self._uncertain and notification.state is EventState.RAISED:
            del self._raised[condition]
            self._uncertain.discard(condition)
        if notification.state is EventState.CLEARED:
            self._declined.pop(condition, None)
            return
        self._declined[condition] = notification.event_id
        self._declined.move_to_end(condition)
        if len(self._declined) > MAX_CONDITIONS:
            self._declined.popitem(last=False)

    def doubt(self, condition: Condition, urgency: Severity) -> None:
        """Record that the receiver perhaps does not know whether a condition has begun, or has ended."""
        self._raised.setdefault(condition, urgency)
        self._uncertain.add(condition)
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        if len(self._raised) > MAX_CONDITIONS:
            self._uncertain.discard(self._raised.popitem(last=False)[0])

    def forget(self, ended: Iterable[Condition]) -> None:
        """Forget that conditions were declined, because they have ended."""
        for condition in ended:
            self._declined.pop(condition, None)
