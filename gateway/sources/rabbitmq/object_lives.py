"""The lives of a broker's objects: an object as it is known, its changes, and objects that ended lately."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from gateway.model.observations import Counting
from gateway.model.values import Values
from gateway.sources.rabbitmq.object_names import ObjectName, is_anonymous, object_number, without_place
from gateway.sources.rabbitmq.reading import ClassReader, Dependencies, Reading

LISTING_LAG = 10_000_000_000
"""Nanoseconds by which a listing may lag behind events (connections take up to 5 s).

Virtual hosts and nodes are listed from the broker's metadata without delay: only an event of them may be
`EVENT_DELAY`.
"""
_SHOWN_ALONE = 15_000_000_000
"""Nanoseconds for which listings show a consumer without channel and connection before it counts as such."""
_SHOWN_ALONE_AT_LONGEST = 60_000_000_000
"""The same for a tag that is no number, as those of links of AMQP 1.0 are."""
EVENT_DELAY = 2_000_000_000
"""Nanoseconds that an event may take from the broker to the gateway, from before it is published."""
WITHOUT_TIME = frozenset({"vhost", "node"})
"""Classes whose listings have no creation time, and to which other objects refer before they are known."""
SUMMED: Final = frozenset({"vhost", "exchange", "queue"})
"""Classes whose counters are sums over all nodes."""
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
        unread_since: since when it cannot be read, and nothing shows that it ended (ns); 0 while it can.
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
    unread_since: int = 0


@dataclass(frozen=True, slots=True)
class Put:
    """An object is ``new``, or has changed; ``previous`` is its state before the change.

    ``counting``: how its counters relate to the earlier ones, if that has changed.
    """

    object: KnownObject
    new: bool = False
    previous: KnownObject | None = None
    counting: Counting = Counting.GO_ON


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


OVERTAKEN: Final = "an object was read before the events of an earlier one of its name"
WITHOUT_OWNER: Final = "an object came and went before that was read to which it belongs"


@dataclass(frozen=True, slots=True)
class Overtaken:
    """An object came and went and was not published, as the events say.

    Attributes:
        since: when it was created (ns).
        until: when it ended, or its successor was created, or seen.
        reason: why it was not published.
    """

    since: int
    until: int
    reason: str = OVERTAKEN


@dataclass(frozen=True, slots=True)
class End:
    """The end of an object.

    Attributes:
        noticed: when the source noticed it (ns).
        created: when the object was created (ns); 0 if unknown.
        unreported: the object, if no event has reported its end; otherwise ``None``.
        number: the object's number; 0 if the object was not known.
        sampled: when its counters were read last (ns); 0 if unknown.
    """

    noticed: int
    created: int
    unreported: KnownObject | None = None
    number: int = 0
    sampled: int = 0


class EndedObjects:
    """The objects that ended lately, and the numbers that new objects must not get.

    A listing may be older than the end of an object that it shows. So each end is kept until no listing can
    be older, or until a new object of the name is known to exist.

    Attributes:
        counted_since: since when the broker counts from zero (ns): nothing of before is left; 0 if unknown.
    """

    def __init__(self) -> None:
        self.counted_since = 0
        self._ends: OrderedDict[ObjectName, End] = OrderedDict()
        self._used: OrderedDict[int, None] = OrderedDict()

    def get(self, name: ObjectName) -> End | None:
        """Return the last end of an object of this name, if it is kept."""
        return self._ends.get(name)

    def left_counters(self, name: ObjectName) -> bool:
        """Return whether a new object of this name may go on with the counters of one that ended.

        RabbitMQ keeps the counters of a deleted object for about as long as its end is kept here.
        """
        end = self._ends.get(name)
        if end is None or name.class_name not in SUMMED:
            return False
        return (end.sampled or end.noticed) > self.counted_since

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


class ObjectTable:
    """The objects that are known to exist, and their dependencies.

    Args:
        readers: the reader of each class.

    Attributes:
        ends: the objects that ended lately.
        unlistable: classes that cannot be listed; objects are shown without one of `WITHOUT_TIME` among them.
    """

    def __init__(self, readers: Mapping[str, ClassReader]) -> None:
        self.ends = EndedObjects()
        self.unlistable: set[str] = set()
        self._readers = readers
        self._objects: dict[str, dict[ObjectName, KnownObject]] = {name: {} for name in readers}
        self._dependencies = Dependencies(readers)
        self._unconfirmed: set[ObjectName] = set()
        self._unpublished: set[ObjectName] = set()
        self._contradicted: dict[ObjectName, int] = {}
        self._shared_numbers: dict[int, ObjectName] = {}  # of objects that are distinguished (`SameNames`)

    def get(self, name: ObjectName) -> KnownObject | None:
        """Return the object of this name, if it exists."""
        return self._objects[name.class_name].get(name)

    def is_unconfirmed(self, name: ObjectName) -> bool:
        """Return whether an object may have ended without an event, because some were missed."""
        return name in self._unconfirmed

    def of_class(self, class_name: str) -> Iterable[KnownObject]:
        """Return a view of all objects of a class; it must not be used after a change."""
        return self._objects[class_name].values()

    def dependencies(self, reading: Reading, *, listed: bool) -> list[KnownObject] | None:
        """Return the objects on which an object depends; ``None`` if one of them is not known.

        An event, unlike a listing, may be late: it may turn out earlier that one of the objects has ended, of
        which another event is still to come.

        Args:
            reading: the values of the object.
            listed: they are from a listing, not from an event.
        """
        needed = [
            self.get(name) or (None if listed else self.ends.unreported(name))
            for name in self._dependencies.of(reading.name, reading.properties)
            if self.get(name) is not None or name.class_name not in WITHOUT_TIME & self.unlistable
        ]
        found = [one for one in needed if one is not None]
        return found if len(found) == len(needed) else None

    def dependents(self, name: ObjectName, class_name: str) -> list[KnownObject]:
        """Return the objects of a class that depend on another object."""
        objects = self._objects[class_name]
        return [objects[one] for one in self._dependencies.dependents(name) if one.class_name == class_name]

    def ended(self, name: ObjectName, now: int) -> list[Change]:
        """End an object that cannot exist any more; a listing that shows its name shows another object."""
        return self._forgotten(self._objects[name.class_name][name], now)

    def _kept(self, updated: KnownObject, previous: KnownObject) -> list[Change]:
        self._objects[updated.name.class_name][updated.name] = updated
        if updated.name in self._unpublished:
            self._unpublished.discard(updated.name)
            return [Put(updated, new=True)]
        alike = replace(updated, missed=previous.missed, listed=previous.listed, reported=previous.reported)
        return [] if alike == previous else [Put(updated, previous=previous)]

    def _removed(
        self,
        known: KnownObject,
        time: int,
        now: int,
        *,
        reported: bool = False,
        implied: bool = False,
        successor: int = 0,
    ) -> list[Change]:
        """Remove an object, and those that depend on it.

        ``reported``: an event reported its end; ``implied``: that of one it depends on. ``successor``: when
        the next one of its name was created, whose are those that are not older.
        """
        implied = implied or reported
        changes = self._end_dependents(known.name, time, now, implied=implied, successor=successor)
        del self._objects[known.name.class_name][known.name]
        self._contradicted.pop(known.name, None)
        self._shared_numbers.pop(known.number, None)
        self._dependencies.remove(known.name, known.properties)
        self._unconfirmed.discard(known.name)
        self._unpublished.discard(known.name)
        unreported = None if reported else known
        self.ends.add(known.name, End(now, known.created, unreported, known.number, known.sampled))
        # What could not be read may have ended before the one that it depends on.
        is_certain = reported or (implied and not known.unread_since)
        return [*changes, Gone(known, time, inferred=not is_certain)]

    def _end_dependents(
        self, name: ObjectName, time: int, now: int, *, implied: bool = False, successor: int = 0
    ) -> list[Change]:
        """Remove the objects that depend on an object of this name, which ended at ``time`` (ns).

        Where its end is reported late, a listing may have shown objects that depend on its successor.
        """
        changes: list[Change] = []
        for dependent in filter(None, map(self.get, self._dependencies.dependents(name))):
            later = 0 < successor <= dependent.created or _is_listed_after(dependent, successor or time)
            if not later:
                changes += self._removed(dependent, time, now, implied=implied)
        return changes

    def _forgotten(self, known: KnownObject, now: int) -> list[Change]:
        """Remove an object as `_removed` does, and accept a listing that shows its name at once."""
        changes = self._removed(known, now, now)
        self.ends.forget(known.name)
        self.ends.reserve(known.number)
        return changes


class ListingDoubts:
    """Whether what listings lack has ended: objects that are asked for decide, and outweigh listings."""

    def __init__(self) -> None:
        self._asked: dict[ObjectName, int] = {}
        self._existing: dict[str, set[ObjectName]] = {}  # by class
        self._lacking: Counter[str] = Counter()

    def asked(self, name: ObjectName, began: int) -> None:
        """Note that an object is asked for by itself that a listing lacks, which began then (ns)."""
        self._asked.setdefault(name, began)

    def asks_for_all(self, class_name: str) -> bool:
        """Return whether it is asked whether the reader may see all objects of a class."""
        return ObjectName(class_name, ()) in self._asked

    def answered(self, name: ObjectName, *, contradicts: bool) -> None:
        """Note an answer about an object; ``contradicts``: it exists or may exist, and a listing lacks it."""
        self._asked.pop(name, None)
        if contradicts:
            self._existing.setdefault(name.class_name, set()).add(name)

    def unanswered_since(self, class_name: str) -> int | None:
        """Return when the first listing began (ns) about which a question is unanswered; ``None`` for none.

        Only some of the objects that a listing lacks are asked for: their answers decide about the others.
        """
        return min(
            (began for name, began in self._asked.items() if name.class_name == class_name), default=None
        )

    def awaits(self, class_name: str) -> bool:
        """Return whether an answer is to come that may show that listings of a class are partial."""
        return not self.are_partial(class_name) and self.unanswered_since(class_name) is not None

    def are_partial(self, class_name: str) -> bool:
        """Return whether the listings of a class lack objects that exist: then they prove no end."""
        return class_name in self._existing

    def lacks_again(self, known: KnownObject) -> bool:
        """Return whether it is not the first listing that lacks an object, and listings are partial."""
        existing = self._existing.get(known.name.class_name)
        return existing is not None and (known.missed > 0 or known.name in existing)

    def swept(self, class_name: str, lacking: int, again: int) -> None:
        """Take the numbers of objects that a listing lacks, and that it is not the first one to lack."""
        self._lacking[class_name] = again
        if not lacking:
            self._existing.pop(class_name, None)

    def lacking(self, class_name: str) -> int:
        """Return how many objects the last listing of a class lacked that may exist, as others do."""
        return self._lacking[class_name]


class UnresolvedObjects:
    """Listed objects that depend on an object that is not known, each with that one.

    Args:
        class_names: all classes.
        limit: the maximum number of objects of a class.
    """

    def __init__(self, class_names: Iterable[str], limit: int) -> None:
        self._objects: dict[str, dict[ObjectName, ObjectName]] = {name: {} for name in class_names}
        self._limit = limit

    def add(self, name: ObjectName, owner: ObjectName) -> None:
        """Take an object, and the one on which it depends."""
        objects = self._objects[name.class_name]
        if len(objects) < self._limit:
            objects[name] = owner

    def discard(self, name: ObjectName) -> None:
        """Forget an object, which is known now."""
        self._objects[name.class_name].pop(name, None)

    def clear(self, but_for: Callable[[str], bool] = lambda _: False) -> None:
        """Forget all, ``but_for`` those that depend on an object of such a class."""
        for objects in self._objects.values():
            for name in [name for name, owner in objects.items() if not but_for(owner.class_name)]:
                del objects[name]

    def swept(self, class_name: str, seen: set[ObjectName]) -> None:
        """Forget the objects of a class that a complete listing lacks."""
        objects = self._objects[class_name]
        for name in objects.keys() - seen:
            del objects[name]

    def any_resolved(self, class_name: str, get: Callable[[ObjectName], KnownObject | None]) -> bool:
        """Return whether one of a class depends on an object that is known now."""
        return any(get(owner) is not None for owner in self._objects[class_name].values())

    def owners(self, class_name: str) -> list[ObjectName]:
        """Return the objects of a class on which others depend."""
        owners = (owner for objects in self._objects.values() for owner in objects.values())
        return [owner for owner in owners if owner.class_name == class_name]


class UnplacedConsumers:
    """Consumers of processes that are not known, as events report them: only listings name their channels.

    The next listing shows those that still exist. Those whose end is reported before were never published.

    Args:
        limit: the maximum number of them.
    """

    def __init__(self, limit: int) -> None:
        self._began: dict[tuple[str, ...], tuple[int, int]] = {}
        self._limit = limit

    def began(self, which: tuple[str, ...], time: int, now: int) -> None:
        """Take a consumer, which began at ``time`` (ns); ``which``: what the event of its end says, too."""
        if len(self._began) < self._limit:
            self._began[which] = time, now

    def ended(self, which: tuple[str, ...]) -> int | None:
        """Forget a consumer, and return when it began (ns); ``None`` if a listing may have shown it."""
        time, _ = self._began.pop(which, (None, 0))
        return time

    def ended_with(self, process: str) -> int | None:
        """Forget the consumers of a process that ended; return when the first began (ns), ``None`` for none.

        Since 3.12.5 RabbitMQ reports the end of a consumer only where the client cancels it.
        """
        gone = [which for which in self._began if which[-1] == process]
        return min((self._began.pop(which)[0] for which in gone), default=None)

    def listed(self, until: int, waiting: set[tuple[str, ...]]) -> None:
        """Forget those reported until a time (ns): a complete listing shows them if they exist.

        Args:
            until: the time.
            waiting: virtual host, queue and tag of listed consumers that are not known yet.
        """
        kept = {which: at for which, at in self._began.items() if at[1] > until or which[:-1] in waiting}
        self._began = kept

    def clear(self) -> None:
        """Forget all."""
        self._began.clear()


@dataclass(frozen=True, slots=True)
class Unreported:
    """An object that a listing shows, and that is not known yet.

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
    """Objects of which a listing does not show all yet that makes them what they are.

    The creation of a queue or an exchange may be listed before its event, which has the time, arrives. Such
    an object is new: a complete listing of its class, which began when events arrived already, lacks it. It
    waits for the event, for `EVENT_DELAY` and until the next listing.

    The broker collects consumers and channels each by itself, every 5 s (``collect_statistics_interval``). A
    consumer that is listed before its channel looks like one of AMQP 1.0, which has none. So each consumer
    without channel and connection waits until it has been listed for longer than that, or under the name of
    its channel.
    """

    def __init__(self) -> None:
        self._waiting: dict[ObjectName, Unreported] = {}
        self._complete: dict[str, int] = {}

    def waits(self, reading: Reading, began: int, sampled: int, events_since: int | None) -> bool:
        """Return whether more of an object that a listing shows may be on its way; it is kept then.

        Args:
            reading: the listed object, without a creation time.
            began: when the listing began (ns).
            sampled: when its values were read (ns).
            events_since: the time since which every event has arrived (ns); ``None`` if none arrive now.
        """
        name = reading.name
        delay = self._delay(name, events_since)
        former = self._waiting.get(name)
        since = began if former is None else former.since
        if not delay or began >= since + delay:  # there is nothing to wait for, or it was lost
            self._waiting.pop(name, None)
            return False
        self._waiting[name] = Unreported(reading, since, began, sampled)
        return True

    def _delay(self, name: ObjectName, events_since: int | None) -> int:
        if is_anonymous(name):
            return _SHOWN_ALONE if name.leaf.isdecimal() else _SHOWN_ALONE_AT_LONGEST
        if events_since is None or not has_creation_event(name):
            return 0
        return EVENT_DELAY if self._complete.get(name.class_name, -1) >= events_since else 0

    def take(self, name: ObjectName) -> Unreported | None:
        """Remove and return the listed state of an object."""
        return self._waiting.pop(name, None)

    def consumers(self) -> set[tuple[str, ...]]:
        """Return virtual host, queue and tag of the consumers that wait."""
        return {without_place(name) for name in self._waiting if is_anonymous(name)}

    def swept(self, class_name: str, seen: set[ObjectName], began: int) -> None:
        """Take note of a complete listing that began at ``began`` (ns) and showed ``seen``."""
        self._complete[class_name] = began
        for name in [one for one in self._waiting if one.class_name == class_name and one not in seen]:
            del self._waiting[name]


def _is_listed_after(known: KnownObject, time: int) -> bool:
    """Return whether an object is known from listings alone, the first of which came after a time (ns)."""
    only_listed = known.listed and not known.reported and not known.created
    return only_listed and known.first_seen > time + EVENT_DELAY


def has_creation_event(name: ObjectName) -> bool:
    """Return whether events alone say when an object of this name was created.

    The broker reports no exchange that it makes itself.
    """
    if name.class_name == "exchange":
        return bool(name.leaf) and not name.leaf.startswith("amq.")
    return name.class_name == "queue"


def listing_lag(class_name: str) -> int:
    """Return by how many nanoseconds a listing of a class may lag behind events."""
    return EVENT_DELAY if class_name in WITHOUT_TIME else LISTING_LAG
