"""References inside one source, by native ids: links follow their targets, also past their end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from gateway.feed.values import ObjectLink
from gateway.model.observations import ObjectSeen
from gateway.model.schema import ClassSchema
from gateway.model.values import Reference


class References:
    """References of live objects in both directions."""

    def __init__(self) -> None:
        self._targets: dict[str, dict[int, str]] = {}
        self._referrers: dict[str, dict[tuple[str, int], None]] = {}

    def note(self, schema: ClassSchema, seen: ObjectSeen) -> None:
        """Note the references of a report, and drop those that it replaces."""
        properties, statistics = seen.properties or (), seen.statistics or ()
        targets = self._targets.get(seen.native_id)
        if targets is None:
            # Most reports have none, and each is looked at: in C.
            if Reference not in map(type, properties) and Reference not in map(type, statistics):
                return
            targets = {}
        for position, value in chain(enumerate(properties), enumerate(statistics, len(schema.properties))):
            former = targets.get(position)
            target = value.native_id if isinstance(value, Reference) else None
            if target == former:
                continue
            if former is not None:
                self._unlink(former, (seen.native_id, position))
                del targets[position]
            if target is not None:
                targets[position] = target
                self._referrers.setdefault(target, {})[seen.native_id, position] = None
        if targets:
            self._targets[seen.native_id] = targets

    def targets(self, native_id: str) -> Mapping[int, str]:
        """The native ids that an object refers to, by position."""
        return self._targets.get(native_id, {})

    def forget(self, native_id: str) -> None:
        """An object is gone, or has another native id now: it refers to nothing any more."""
        for position, target in self._targets.pop(native_id, {}).items():
            self._unlink(target, (native_id, position))

    def lead_to(self, native_id: str) -> bool:
        """Whether there are references to an object."""
        return native_id in self._referrers

    def referring_to(self, native_id: str) -> list[tuple[str, int]]:
        """Return native id and position of every reference to an object, in the order of the reports."""
        return list(self._referrers.get(native_id, ()))

    def _unlink(self, target: str, referrer: tuple[str, int]) -> None:
        referrers = self._referrers.get(target)
        if referrers is not None:
            referrers.pop(referrer, None)
            if not referrers:
                del self._referrers[target]


class EndedObjects:
    """Native ids of objects that ended lately, for events that are reported afterwards; bounded in number.

    Args:
        limit: ids that are kept; the oldest is forgotten when another comes.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._links: OrderedDict[str, tuple[str, ObjectLink]] = OrderedDict()

    def note(self, native_id: str, agent: str, link: ObjectLink) -> None:
        """An object of ``agent`` ended."""
        self._links.pop(native_id, None)
        self._links[native_id] = (agent, link)
        if len(self._links) > self._limit:
            self._links.popitem(last=False)

    def link(self, native_id: str) -> ObjectLink | None:
        """The object that had this native id last, if it is still known."""
        entry = self._links.get(native_id)
        return entry[1] if entry is not None else None

    def forget(self, agent: str) -> None:
        """An agent restarted (each, if empty): its former native ids mean nothing any more."""
        for native_id in [n for n, (owner, _) in self._links.items() if agent in {"", owner}]:
            del self._links[native_id]


@dataclass(frozen=True, slots=True)
class Waiting:
    """An object that waits: its report, in which resync (its generation), since when and for what."""

    seen: ObjectSeen
    generation: int
    since: int
    targets: tuple[str, ...]


class WaitingRoom:
    """Objects whose names need a target that was not reported yet; bounded in number and time.

    Args:
        limit: objects that may wait; the oldest must leave when another comes.
        patience: nanoseconds that one may wait.
    """

    def __init__(self, limit: int = 10_000, patience: int = 10 * 10**9) -> None:
        self._limit = limit
        self._patience = patience
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()
        self._waiters: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, waiting: Waiting) -> Waiting | None:
        """Let an object wait; returns one that must leave instead, where it is full."""
        native_id = waiting.seen.native_id
        self._waiting[native_id] = waiting
        for target in waiting.targets:
            self._waiters.setdefault(target, set()).add(native_id)
        if len(self._waiting) > self._limit:
            return self.leave(next(iter(self._waiting)))
        return None

    def leave(self, native_id: str) -> Waiting | None:
        """Take an object out; ``None`` if it does not wait here."""
        waiting = self._waiting.pop(native_id, None)
        if waiting is None:
            return None
        for target in waiting.targets:
            waiters = self._waiters.get(target, set())
            waiters.discard(native_id)
            if not waiters:
                self._waiters.pop(target, None)
        return waiting

    def awaits(self, target: str) -> bool:
        """Whether anybody waits for ``target``."""
        return target in self._waiters

    def waiting_for(self, target: str) -> list[str]:
        """The native ids of all that wait for ``target``."""
        return sorted(self._waiters.get(target, ()))

    def overdue(self, now: int) -> list[str]:
        """The native ids of all that have waited long enough, the oldest first."""
        return [n for n, one in self._waiting.items() if now - one.since >= self._patience]

    def everyone(self, agent: str = "", class_name: str = "") -> list[str]:
        """Those of an agent and class (``package:name``), the oldest first; empty does not narrow."""
        return [
            native_id
            for native_id, one in self._waiting.items()
            if agent in {"", one.seen.agent} and class_name in {"", str(one.seen.key)}
        ]
