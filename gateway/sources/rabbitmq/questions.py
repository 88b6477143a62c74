"""Questions that are asked once, when there is a reason: whose turn it is, and when. Without I/O.

Urgent are those for whose answers others wait: nothing is complete while it is not known whether a virtual
host may be read, and an object that a listing lacks is shown until it is known whether it has ended. They
come first, and may take more time. What a question costs puts off its own kind as long as the budget demands,
and others for a short while only: one that is not answered in time keeps no other from being asked.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.model.times import MINUTE
from gateway.sources.rabbitmq.amqp10_sessions import NEVER
from gateway.sources.rabbitmq.management_api import ExtraRequest, ObjectRequest, PermissionRequest
from gateway.sources.rabbitmq.source_config import PollingConfig

MAX_QUESTIONS: Final = 1_000
"""Maximum number of waiting questions; a listing answers the rest."""
_SINGLE_SHARE: Final = 1 / 4
"""Share of the budget for objects that are read one by one because their class cannot be listed."""
_LONGEST_PAUSE: Final = 5 * MINUTE
"""Nanoseconds for which questions of one kind are put off at most."""


class _Kind(NamedTuple):
    what: str
    urgent: bool = False


_SINGLE: Final = _Kind("object")


class Questions:
    """The questions that wait, by kind: urgent ones about each class, those about single objects, and others.

    Args:
        config: the budget and the pauses.
    """

    def __init__(self, config: PollingConfig) -> None:
        self._config = config
        self._waiting: dict[_Kind, dict[ExtraRequest, None]] = {}
        self._due: dict[_Kind, int] = {}
        self._all_due = {True: 0, False: 0}  # of urgent ones, and of all others

    def __len__(self) -> int:
        """Return how many questions wait."""
        return sum(map(len, self._waiting.values()))

    @property
    def reads_singly(self) -> bool:
        """Whether an object waits that is read by itself because its class cannot be listed."""
        return _SINGLE in self._waiting

    def add(self, request: ExtraRequest) -> bool:
        """Take a question that is to be asked soon; return ``False`` if too many wait."""
        if len(self) >= MAX_QUESTIONS:
            return False
        self._waiting.setdefault(_kind(request), {})[request] = None
        return True

    def due(self) -> int:
        """Return when the next question is due (ns)."""
        return min(map(self._due_of, self._waiting), default=NEVER)

    def next(self, now: int) -> ExtraRequest | None:
        """Return the question to ask now: an urgent one if one is due, of the kind that waits for longest."""
        ready = [kind for kind in self._waiting if self._due_of(kind) <= now]
        kind = min(ready, key=lambda one: (not one.urgent, self._due.get(one, 0)), default=None)
        return None if kind is None else next(iter(self._waiting[kind]))

    def answered(self, request: ExtraRequest, spent: int, ended: int) -> None:
        """Take the answer to a question, for which the broker took ``spent`` (ns)."""
        kind = self._without(request)
        share = self._config.urgent_share if kind.urgent else self._config.budget
        if kind == _SINGLE:
            share *= _SINGLE_SHARE
        self._put_off(kind, int(spent / share), ended)

    def failed(self, request: ExtraRequest, ended: int) -> None:
        """Ask again, after all others of its kind: nothing answers."""
        if request in self._waiting.get(_kind(request), ()):
            kind = self._without(request)
            self._waiting.setdefault(kind, {})[request] = None
            self._put_off(kind, self._config.refused_pause, ended)

    def _without(self, request: ExtraRequest) -> _Kind:
        kind = _kind(request)
        waiting = self._waiting.get(kind, {})
        waiting.pop(request, None)
        if not waiting:
            self._waiting.pop(kind, None)
        return kind

    def _put_off(self, kind: _Kind, pause: int, ended: int) -> None:
        self._due[kind] = ended + min(pause, _LONGEST_PAUSE)
        self._all_due[kind.urgent] = ended + min(pause, self._config.refused_pause)

    def _due_of(self, kind: _Kind) -> int:
        due = self._all_due[kind.urgent]
        return due if kind.urgent else max(due, self._due.get(kind, 0))


def _kind(request: ExtraRequest) -> _Kind:
    if isinstance(request, ObjectRequest):
        return _Kind(request.name.class_name, urgent=True) if request.urgent else _SINGLE
    return _Kind(type(request).__name__, isinstance(request, PermissionRequest))
