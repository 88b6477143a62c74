"""The lives of a broker's objects: an object as it is known, its changes, and objects that ended lately."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from gateway.model.values import Values
from gateway.sources.rabbitmq.object_names import ObjectName, object_number
from gateway.sources.rabbitmq.reading import Reading

LISTING_LAG = 10_000_000_000
"""Nanoseconds by which a listing may lag behind events (connections take up to 5 s).

Virtual hosts and nodes are listed from the broker's metadata without delay: only an event of them may be
`EVENT_DELAY`.
"""
EVENT_DELAY = 2_000_000_000
"""Nanoseconds that an event may take from the broker to the gateway, from before it is published."""
WITHOUT_TIME = frozenset({"vhost", "node"})
"""Classes whose listings have no creation time, and to which other objects refer before they are known."""
MAX_ENDS = 100_000
"""Number of ended objects, and of their numbers, that are kept."""
ENDS_KEPT_FOR = 120_000_000_000
"""Nanoseconds after which no listing is older than an end."""


@dataclass(frozen=True, slots=True)
class KnownObject:
    """An object that exists, as far as the source knows.

    Attributes:
        number: the number of the object, which never changes while it exists.
        created: when it was created (ns); 0 if unknown.
        first_seen: when the source first knew of it (ns).
        sampled: when its statistics were read (ns).
        missed: when the listing began that first lacked it (ns); 0 if none has.
        listed: a listing has shown it, so its properties have the form that listings give them.
        reported: an event has reported its creation: events that report an earlier one come again.
        announced: when an earlier run of the gateway first knew of it (ns, by the gateway's clock); 0 if that
            was long ago.
        presumed: it has the name of an object that was known before a restart, and nothing says that it is
            another one; whether it is the same is not known.
    """

    name: ObjectName
    number: int
    created: int
    first_seen: int
    properties: Values
    statistics: Values
    sampled: int
    missed: int = 0
    listed: bool = False
    presumed: bool = False
    announced: int = 0
    reported: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """An object is ``new``, or has changed; ``previous`` is its state before the change."""

    object: KnownObject
    new: bool = False
    previous: KnownObject | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """An object ended.

    Attributes:
        object: its last known state.
        time: when it ended (ns).
        inferred: no event reported the end, or that of an object on which it depended; ``time`` is when the
            source noticed.
    """

    object: KnownObject
    time: int
    inferred: bool = False


Change = Put | Gone


@dataclass(frozen=True, slots=True)
class Overtaken:
    """An object came and went, which an event reports only when its successor of the same name is known.

    Attributes:
        since: when it was created (ns).
        until: when its successor was created, or seen.
    """

    since: int
    until: int


@dataclass(frozen=True, slots=True)
class End:
    """The end of an object.

    Attributes:
        noticed: when the source noticed it (ns).
        created: when the object was created (ns); 0 if unknown.
        unreported: the object, if no event has reported its end; otherwise ``None``.
        number: the object's number; 0 if the object was not known.
    """

    noticed: int
    created: int
    unreported: KnownObject | None = None
    number: int = 0


class EndedObjects:
    """The objects that ended lately, and the numbers that new objects must not get.

    A listing may be older than the end of an object that it shows. So each end is kept until no listing can
    be older, or until a new object of the name is known to exist.
    """

    def __init__(self) -> None:
        self._ends: OrderedDict[ObjectName, End] = OrderedDict()
        self._used: OrderedDict[int, None] = OrderedDict()

    def get(self, name: ObjectName) -> End | None:
        """Return the last end of an object of this name, if it is kept."""
        return self._ends.get(name)

    def unreported(self, name: ObjectName) -> KnownObject | None:
        """Return the last object of this name that ended, if no event has reported its end."""
        end = self._ends.get(name)
        return None if end is None else end.unreported

    def add(self, name: ObjectName, end: End) -> None:
        """Keep an end, in place of an earlier one of the name."""
        self._ends[name] = end
        self._ends.move_to_end(name)
        if len(self._ends) > MAX_ENDS:
            self._ends.popitem(last=False)

    def arrived_late(self, names: Iterable[ObjectName], late_by: int) -> None:
        """Take note that the event which reported these ends happened ``late_by`` ns before it arrived."""
        for name in names:
            if (end := self._ends.get(name)) is not None:
                self._ends[name] = replace(end, noticed=end.noticed - late_by)

    def forget(self, name: ObjectName) -> None:
        """Drop the end: another object of the name exists, so a listing that has the name is not too old."""
        self._ends.pop(name, None)

    def forget_all(self, of: Callable[[ObjectName], bool]) -> None:
        """Do what `forget` does for all names for which ``of`` is true."""
        for name in [name for name in self._ends if of(name)]:
            del self._ends[name]

    def forget_old(self, now: int) -> None:
        """Drop all ends that every listing from now on includes."""
        while self._ends:
            name, end = next(iter(self._ends.items()))
            if now - end.noticed <= ENDS_KEPT_FOR:
                return
            del self._ends[name]

    def includes(self, name: ObjectName, created: int, began: int) -> bool:
        """Return whether an object that a listing shows may be the one that ended.

        Args:
            name: the name of the object.
            created: when the listed object was created (ns); 0 if unknown.
            began: when the listing began (ns).
        """
        end = self._ends.get(name)
        if end is None or (created and end.created and created > end.created):
            return False
        return end.noticed > began - listing_lag(name.class_name)

    def reserve(self, number: int) -> None:
        """Keep a number from new objects: nothing else distinguishes the next object of the name."""
        self._used[number] = None
        if len(self._used) > MAX_ENDS:
            self._used.popitem(last=False)

    def has_used(self, number: int) -> bool:
        """Return whether an ended object had this number."""
        return number in self._used

    def next_number(self, name: ObjectName) -> int:
        """Return the number of the next object of this name, whose class is in `WITHOUT_TIME`.

        The number stays the same until such an object was known and has ended. So a reference to a virtual
        host that is not known yet refers to the right one.
        """
        life = 0
        while self.has_used(number := object_number(name, life)):
            life += 1
        return number


class RememberedObjects:
    """Objects that existed before the start; it is unknown whether they still exist."""

    def __init__(self) -> None:
        self._objects: dict[ObjectName, KnownObject] = {}
        self._lagging: set[ObjectName] = set()
        self._started_at = 0

    @property
    def count(self) -> int:
        """The number of these objects."""
        return len(self._objects)

    def take(self, objects: Iterable[KnownObject], now: int) -> None:
        """Take all of them, at the start (ns)."""
        self._objects = {known.name: known for known in objects}
        self._started_at = now

    def add(self, known: KnownObject) -> None:
        """Take one more."""
        self._objects[known.name] = known

    def get(self, name: ObjectName) -> KnownObject | None:
        """Return the object of this name, if there is one."""
        return self._objects.get(name)

    def pop(self, name: ObjectName) -> KnownObject | None:
        """Remove and return the object of this name, if there is one: it was confirmed, or has ended."""
        return self._objects.pop(name, None)

    def remove(self, ended: Callable[[KnownObject], bool]) -> list[KnownObject]:
        """Remove and return the objects of which ``ended`` says that they cannot exist any more."""
        gone = [known for known in self._objects.values() if ended(known)]
        for known in gone:
            del self._objects[known.name]
        return gone

    def clear(self) -> None:
        """Forget all."""
        self._objects.clear()
        self._lagging.clear()

    def listed(self, class_name: str, until: int) -> None:
        """Take note of a listing that may lack objects that were created after ``until`` (ns)."""
        self._lagging = {name for name in self._lagging if name.class_name != class_name}
        # None of these objects was created after the start, whatever the broker's clock says.
        if until < self._started_at:
            self._lagging |= {
                name
                for name, known in self._objects.items()
                if name.class_name == class_name and max(known.created, known.announced) > until
            }

    def lagging(self, class_name: str) -> Iterator[KnownObject]:
        """Yield the objects of a class that its last listing may lack although they exist."""
        for name in self._lagging:
            if name.class_name == class_name and name in self._objects:
                yield self._objects[name]


@dataclass(frozen=True, slots=True)
class Unreported:
    """An object that a listing shows, and no event has reported yet.

    Attributes:
        since: when the first listing began that showed it (ns).
        began: when the last one began (ns).
        sampled: when its values were read (ns).
    """

    reading: Reading
    since: int
    began: int
    sampled: int


class UnreportedCreations:
    """Objects whose creation a listing shows before its event, which has the time, arrives.

    They are new: a complete listing of their class, which began when events arrived already, lacks them. They
    wait for the event, for `EVENT_DELAY` and until the next listing.
    """

    def __init__(self) -> None:
        self._waiting: dict[ObjectName, Unreported] = {}
        self._complete: dict[str, int] = {}

    def waits(self, reading: Reading, began: int, sampled: int, events_since: int) -> bool:
        """Return whether the event of an object that a listing shows may be on its way; it is kept then.

        Args:
            reading: the listed object, without a creation time.
            began: when the listing began (ns).
            sampled: when its values were read (ns).
            events_since: the time since which every event has arrived (ns).
        """
        name = reading.name
        if not _has_creation_event(name) or self._complete.get(name.class_name, -1) < events_since:
            self._waiting.pop(name, None)
            return False
        former = self._waiting.get(name)
        since = began if former is None else former.since
        if began >= since + EVENT_DELAY:
            del self._waiting[name]  # its event was lost
            return False
        self._waiting[name] = Unreported(reading, since, began, sampled)
        return True

    def take(self, name: ObjectName) -> Unreported | None:
        """Remove and return the listed state of an object."""
        return self._waiting.pop(name, None)

    def swept(self, class_name: str, seen: set[ObjectName], began: int) -> None:
        """Take note of a complete listing that began at ``began`` (ns) and showed ``seen``."""
        self._complete[class_name] = began
        for name in [one for one in self._waiting if one.class_name == class_name and one not in seen]:
            del self._waiting[name]


def _has_creation_event(name: ObjectName) -> bool:
    """Return whether events alone say when an object of this name was created.

    The broker reports no exchange that it makes itself.
    """
    if name.class_name == "exchange":
        return bool(name.leaf) and not name.leaf.startswith("amq.")
    return name.class_name == "queue"


def listing_lag(class_name: str) -> int:
    """Return by how many nanoseconds a listing of a class may lag behind events."""
    return EVENT_DELAY if class_name in WITHOUT_TIME else LISTING_LAG
