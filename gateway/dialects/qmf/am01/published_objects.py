"""The objects of an agent before AM2 by what it publishes of them. Without I/O.

Two things no message says. An agent that publishes everything at intervals may leave an object out, because
it has ended. And an agent that was started again may number its objects as before: its records are then of
other objects, or of the same ones under other numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.dialects.qmf.messages import Content
from gateway.dialects.qmf.typed_values import QmfValue
from gateway.model.observations import ObjectSeen
from gateway.model.schema import ClassKey, ClassSchema
from gateway.model.times import SECOND

MAX_OBJECTS: Final = 200_000
"""Maximum number of objects that are known here; of further ones nothing is concluded."""
MISSED: Final = 3
"""Number of intervals in which an object is published at least once if it lives."""
_ENDED_NAMES: Final = 100
"""Number of names of ended objects that are kept beside those of living ones."""
_TOGETHER: Final = 2 * SECOND
"""Nanoseconds within which two objects of one name are first published that both live."""

Name = tuple[ClassKey, tuple[QmfValue, ...]]


@dataclass(slots=True)
class _Published:
    """The last record of an object, and what became of it.

    Attributes:
        key: its class.
        created: when the agent created the object (ns, its clock); 0 if unknown.
        sampled: when the agent published it last (ns, its clock); 0 if unknown.
        received: when that arrived (ns).
        since: when the first record of it arrived (ns).
        configured: when the agent sampled its properties that it published last (ns, its clock).
        round: the number of the round in which that arrived.
        seen: its last observation; ``None`` before the first.
    """

    key: ClassKey
    created: int
    sampled: int
    received: int
    since: int
    configured: int = 0
    round: int = 0
    seen: ObjectSeen | None = None


class PublishedObjects:
    """The objects that an agent has published and not ended, by their numbers."""

    def __init__(self) -> None:
        self._known: dict[int, _Published] = {}
        self._numbers: dict[Name, int] = {}
        self._shared: set[Name] = set()  # names that several living objects have
        self._latest = 0
        self._judged = 0
        self._round = 0
        self._repeated: set[int] = set()  # objects that were published again in this round

    def forget(self) -> None:
        """Forget all objects."""
        self._known.clear()
        self._numbers.clear()
        self._repeated.clear()
        self._latest = 0

    def show_restart(self, message: Content, schema: ClassSchema | None, now: int) -> bool:
        """Return whether a record shows that the agent was started again.

        Its number was that of an object of its class with an earlier time of creation, or its name that of an
        object with another number, which has not ended. Objects of one name that are first published together
        both live. The last record of the other one shows nothing: an agent that is started again at once may
        have published it a moment ago.
        """
        number = message.object_id.number
        known = self._known.get(number)
        if known is not None and known.key == message.key and 0 < known.created < message.created:
            return True
        name = _name_of(message, schema)
        if name is None or message.deleted or name in self._shared:
            return False
        other = self._numbers.get(name, number)
        former = self._known.get(other) if other != number else None
        if former is None:
            return False
        if now - former.since > _TOGETHER:
            return True
        self._shared.add(name)
        return False

    def published(self, message: Content, seen: ObjectSeen, schema: ClassSchema | None, now: int) -> None:
        """Note a record and its observation."""
        number, name = message.object_id.number, _name_of(message, schema)
        if message.deleted:
            self._known.pop(number, None)
            self._repeated.discard(number)
            return
        if number not in self._known and len(self._known) >= MAX_OBJECTS:
            return
        known = self._known.get(number)
        configured, since = (0, now) if known is None else (known.configured, known.since)
        if message.properties is not None:
            if configured == message.sampled:
                self._published_again(number)
            configured = message.sampled
        times = (message.created, message.sampled, now, since, configured)
        self._known[number] = _Published(message.key, *times, self._round, seen)
        self._latest = max(self._latest, message.sampled)
        if name is not None:
            self._numbers[name] = number
            if len(self._numbers) > 2 * len(self._known) + _ENDED_NAMES:
                self._forget_names()

    def _forget_names(self) -> None:
        """Forget the names of objects that ended."""
        self._numbers = {name: number for name, number in self._numbers.items() if number in self._known}

    def _published_again(self, number: int) -> None:
        """Note an object whose properties were published again as they were sampled before.

        That is no change of it, but part of a round in which everything is published.
        """
        if number in self._repeated:
            self._repeated.clear()
            self._round += 1
        self._repeated.add(number)

    def missing(self, interval: int, now: int) -> list[ObjectSeen]:
        """Return the ends of objects that an agent has left out, at most once in an ``interval`` (ns).

        The agent publishes everything in each interval, and others were published since: the times of their
        records show that, or that they came again with the same times. Both clocks count: records may wait
        until the gateway takes them, and the agent's clock may be set.
        """
        if now - self._judged < interval:
            return []
        self._judged = now
        longest = MISSED * interval
        left_out = [
            number
            for number, one in self._known.items()
            if one.sampled
            and (self._latest - one.sampled > longest or self._round - one.round > MISSED)
            and now - one.received > longest
        ]
        ended = [self._known.pop(number).seen for number in left_out]
        return [
            ObjectSeen(seen.key, seen.agent, seen.native_id, now, seen.created, now, inferred=True)
            for seen in ended
            if seen is not None
        ]


def _name_of(message: Content, schema: ClassSchema | None) -> Name | None:
    """Return the class and the values of the index of an object; ``None`` where the record has none."""
    if message.properties is None or schema is None:
        return None
    values = zip(schema.properties, message.properties, strict=False)
    index = tuple(value for element, value in values if element.index)
    try:
        hash(index)
    except TypeError:  # a map or a list
        return None
    return (message.key, index) if index else None
