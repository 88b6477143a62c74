"""The broker's objects as far as they are known, from events and listings that arrive in any order.

Events are immediate and report creations and ends. Listings show values, lag behind (RabbitMQ caches them,
and shows a connection only after seconds), and are read page by page while objects come and go. So:

- an object that a listing lacks is gone only if a second listing lacks it too, or it answers 404, and the
  event of its end, if one is awaited, has not arrived in time;
- a listing does not miss an object that an event reported during the listing, or shortly before it;
- an object whose end was reported is not added again by a listing that may be older than that end, and the
  values of such a listing are not those of its successor;
- values that are fixed at creation stay known although a later answer lacks them; if two listings show them
  differently, they show two objects;
- an object exists only while all objects exist on which it depends: it ends with the first of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gateway.model.values import Value, Values
from gateway.sources.rabbitmq.object_lives import (
    EVENT_DELAY,
    LISTING_LAG,
    WITHOUT_TIME,
    Change,
    End,
    EndedObjects,
    Gone,
    KnownObject,
    Overtaken,
    Put,
    RememberedObjects,
    UnreportedCreations,
    listing_lag,
)
from gateway.sources.rabbitmq.object_names import ObjectName, object_number
from gateway.sources.rabbitmq.reading import ClassReader, Dependencies, Reading, contradicts, preferred

MERGE_WINDOW = 10_000_000_000
"""Nanoseconds after the first sight of an object within which a creation event of its name is about it."""
_REPORTED_BY_EVENTS = frozenset({"queue", "exchange", "connection", "channel"})
"""Classes of which events report every end."""


class KnownObjects:
    """The known objects of all classes.

    Args:
        readers: the reader of each class, which knows what is fixed at creation.
        limit: the most objects of one class; further ones are refused and counted.

    Attributes:
        ends: the objects that ended lately.
        refused: the number of times that an object was not taken because its class was full.
        events_since: the time since which every event has arrived (ns), as far as is known; 0 if those from
            before the start arrive, too.
        events_arrive: events report the ends of objects now.
    """

    def __init__(self, readers: Mapping[str, ClassReader], limit: int = 500_000) -> None:
        self._readers = readers
        self._limit = limit
        self._objects: dict[str, dict[ObjectName, KnownObject]] = {name: {} for name in readers}
        self._dependencies = Dependencies(readers)
        self.ends = EndedObjects()
        self._unconfirmed: set[ObjectName] = set()
        self._remembered = RememberedObjects()
        self._restored_at = self._restored_until = 0
        self._unpublished: set[ObjectName] = set()
        self._overtaken: list[Overtaken] = []
        self.refused = 0
        self.events_since = 0
        self.events_arrive = False
        self._contradicted: dict[ObjectName, int] = {}
        self._unreported = UnreportedCreations()
        self._unresolved: dict[str, dict[ObjectName, ObjectName]] = {name: {} for name in readers}
        """By class, the listed objects that depend on an unknown object, each with that object."""

    def get(self, name: ObjectName) -> KnownObject | None:
        """Return the object of this name, if it exists."""
        return self._objects[name.class_name].get(name)

    def remembered(self, name: ObjectName) -> KnownObject | None:
        """Return the object that had this name before the start, if it is unknown whether it still exists."""
        return self._remembered.get(name)

    def remember(self, objects: Iterable[KnownObject], now: int) -> None:
        """Take objects that existed before the start; no event reports whether they have ended.

        If a listing shows one of them, it is the same object, unless what is fixed at creation differs. An
        event of an end may be about another object of the name.

        Args:
            objects: all these objects.
            now: the time (ns).
        """
        self._remembered.take(objects, now)

    def forget_remembered(self, ended: Callable[[KnownObject], bool], now: int) -> list[Change]:
        """End those objects from before the start of which ``ended`` says that they cannot exist any more."""
        gone = self._remembered.remove(ended)
        for known in gone:
            self.ends.reserve(known.number)
        return [Gone(known, now, inferred=True) for known in gone]

    def restore(self, objects: Iterable[KnownObject], now: int, until: int = 0) -> None:
        """Take objects that existed before the start; events are about to report which have ended.

        They are known from now on, and are published when they have been confirmed, or have ended.

        Args:
            objects: all these objects.
            now: the time (ns).
            until: when the previous run last received events (ns); 0 if unknown.
        """
        self._restored_at, self._restored_until = now, until
        for known in objects:
            self._objects[known.name.class_name][known.name] = known
            self._dependencies.add(known.name, known.properties)
            self._unconfirmed.add(known.name)
            self._unpublished.add(known.name)

    def events_of_meanwhile_missed(self) -> None:
        """Treat restored objects as remembered ones: not every event since the previous run has arrived."""
        for name in self._unpublished:
            known = self._objects[name.class_name].pop(name)
            self._dependencies.remove(name, known.properties)
            self._remembered.add(known)
        self._unconfirmed -= self._unpublished
        self._unpublished.clear()

    def everything_shown(self) -> list[Change]:
        """Publish the restored objects: whatever exists has been listed, or is reported by events alone."""
        self._remembered.clear()
        for objects in self._unresolved.values():
            objects.clear()
        every = (known for objects in self._objects.values() for known in objects.values())
        permanent = [known for known in every if known.name in self._unpublished]
        self._unpublished.clear()
        return [Put(known, new=True) for known in permanent]

    @property
    def any_known(self) -> bool:
        """Whether an object is known, or remembered from before the start."""
        return bool(self._remembered.count) or any(self._objects.values())

    def ending(self, name: ObjectName) -> KnownObject | None:
        """Return the object whose end an event with this name reports, even if a listing has lacked it."""
        return self.get(name) or self._remembered.get(name) or self.ends.unreported(name)

    def number_of(self, name: ObjectName, *, ended: bool) -> int:
        """Return the number of the object to which another one refers, or refers as soon as it is known.

        Args:
            name: the name of the object.
            ended: the other one has ended, so that this object may have ended with it.
        """
        known = self.get(name) or self._remembered.get(name)
        if known is None and name.class_name not in WITHOUT_TIME:
            known = self.ends.unreported(name)
        if known is not None:
            return known.number
        end = self.ends.get(name) if ended else None
        return end.number if end is not None and end.number else self.ends.next_number(name)

    def has_ended(self, name: ObjectName) -> bool:
        """Return whether an object of this name ended lately and no other has been added since."""
        return self.ends.get(name) is not None and self.get(name) is None

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
        ]
        found = [one for one in needed if one is not None]
        return found if len(found) == len(needed) else None

    def dependents(self, name: ObjectName, class_name: str) -> list[KnownObject]:
        """Return the objects of a class that depend on another object."""
        objects = self._objects[class_name]
        return [objects[one] for one in self._dependencies.dependents(name) if one.class_name == class_name]

    def listed_too_early(self) -> set[str]:
        """Return the classes that were listed before an object on which one of their objects depends.

        Such an object could not be added. Now that the other one is known, its class has to be listed again.
        If no listing shows the other object, the first one is not awaited.
        """
        return {class_name for class_name in self._unresolved if self._listed_too_early(class_name)}

    def _listed_too_early(self, class_name: str) -> bool:
        return any(self.get(missing) is not None for missing in self._unresolved[class_name].values())

    def mark_unconfirmed(self, names: Iterable[ObjectName] | None = None) -> None:
        """Take note that events were missed: these objects, or all of them, may have ended meanwhile."""
        every = (name for objects in self._objects.values() for name in objects)
        self._unconfirmed.update(every if names is None else names)

    def unconfirmed(self, class_name: str, hidden: Callable[[KnownObject], bool]) -> bool:
        """Return whether a class has objects that no listing has confirmed, or finally lacked, since a gap.

        Args:
            class_name: the class.
            hidden: says whether an object may exist although listings do not show it.
        """
        unconfirmed = (self.get(name) for name in self._unconfirmed if name.class_name == class_name)
        suspected = itertools.chain(unconfirmed, self._remembered.lagging(class_name))
        return self._listed_too_early(class_name) or any(
            known is not None and not hidden(known) for known in suspected
        )

    def created(
        self, reading: Reading, time: int, now: int, *, lasts: bool = False, recovered: bool = False
    ) -> list[Change]:
        """Apply an event that reports that an object was created.

        Args:
            reading: the values in the event.
            time: the time of the event (ns); 0 if unknown.
            now: the time.
            lasts: the object outlives its node, which reports the same when it is started again.
            recovered: the event was certainly published because of such a start.
        """
        created = self._readers[reading.name.class_name].created(reading) or (0 if recovered else time)
        known = self.get(reading.name)
        if known is None:
            if self._is_of_ended(reading, created):
                return []
            earlier = self._remembered.pop(reading.name)
            replaced = earlier is not None and earlier.created != created
            # The earlier object ended while the gateway was not running.
            ends = [Gone(earlier, now, inferred=True)] if earlier is not None and replaced else []
            return [*ends, *self._added(reading, created, now, now), *self._listed_before(reading.name, now)]
        another = self._differs(known, reading, listed=False)
        if another and self._is_of_ended(reading, created):
            return []
        same = not another and self._is_its_creation(known, created, time, now)
        if lasts and self._lived_on(known, reading, time, now):
            same, created = True, known.created
        if same:
            self._unconfirmed.discard(reading.name)
            properties = self._merged(known, reading.properties, keep_all=True)
            updated = replace(known, created=created, properties=properties, missed=0, reported=True)
            return self._kept(updated, known)
        if 0 < created < known.created:
            # Of an object that ended before: a broker that was killed delivers events again. If those of the
            # successor did not arrive yet, it was never published. The broker's clock may be wrong; when the
            # successor was seen is by the gateway's.
            if not known.reported and not self._is_of_ended(reading, created):
                self._overtaken.append(Overtaken(created, max(known.created, known.first_seen)))
            return []
        # The event that reported its end was lost.
        return [*self._removed(known, created or now, now), *self._added(reading, created, now, now)]

    def take_overtaken(self) -> list[Overtaken]:
        """Return the objects that came and went unseen, of which events said so since the last call."""
        taken, self._overtaken = self._overtaken, []
        return taken

    def _is_of_ended(self, reading: Reading, created: int) -> bool:
        """Return whether a late event reports the creation of an object that was found to have ended."""
        ended = self.ends.unreported(reading.name)
        if ended is None:
            return False
        if ended.created:
            return ended.created == created
        needed = self._dependencies.of(reading.name, reading.properties)
        # A successor is known already, or the object ended with another one.
        is_late = self.get(reading.name) is not None or any(self.get(one) is None for one in needed)
        return is_late and not self._differs(ended, reading, listed=False)

    def _listed_before(self, name: ObjectName, now: int) -> list[Change]:
        """Apply listed values of an object from before the event of its creation arrived."""
        shown = self._unreported.take(name)
        if shown is None or self.get(name) is None:
            return []
        return self.listed(shown.reading, shown.began, shown.sampled, now)

    def is_known_otherwise(self, reading: Reading, time: int, now: int) -> bool:
        """Return whether the known object is not the one whose creation an event at ``time`` reports."""
        known = self.get(reading.name)
        return known is not None and self._lived_on(known, reading, time, now)

    def _lived_on(self, known: KnownObject, reading: Reading, time: int, now: int) -> bool:
        """Return whether an event at ``time`` reports an object that was created before, and has not ended.

        It has not ended if no event has reported that, and none was missed.
        """
        if known.first_seen < self.events_since or self._differs(known, reading, listed=False):
            return False
        created = self._readers[reading.name.class_name].created(reading) or time
        listed_before = not (known.created or known.first_seen) and 0 < self._restored_until < time
        return listed_before or not self._is_its_creation(known, created, time, now)

    def _is_its_creation(self, known: KnownObject, created: int, time: int, now: int) -> bool:
        # An event from before the first sight of an object can only be about it, however late it arrives. An
        # object from before the start has no time of first sight (0), and has not ended since. One that was
        # seen just before events arrived may have ended without one: a later event is about the next.
        earliest = self.events_since if time else self.events_since - EVENT_DELAY
        recent = now - known.first_seen <= MERGE_WINDOW and known.first_seen >= earliest
        early = recent or 0 < time <= known.first_seen or known.first_seen == 0
        return known.created == created or (known.created == 0 and early)

    def deleted(self, name: ObjectName, time: int, now: int, *, by_event: bool = True) -> list[Change]:
        """Apply that an object certainly ended at ``time`` (ns; 0 if unknown).

        If no event says so, but the answer to an operation, earlier events about the object may be to come.
        """
        known = self.get(name)
        if known is not None:
            if self._is_of_predecessor(known, time):
                return []
            return self._removed(known, time or now, now, reported=by_event, implied=not by_event)
        self._remembered.pop(name)
        self._unreported.take(name)
        changes = self._end_dependents(name, time or now, now, implied=True)
        self.ends.add(name, End(now, 0))
        return changes

    def _is_of_predecessor(self, known: KnownObject, time: int) -> bool:
        """Return whether an end at ``time`` is that of an earlier object of the name.

        Such an event is late: a broker that was killed delivers it again, or a listing that was read after it
        was published showed the successor.
        """
        if 0 < time < known.created:
            return True
        # An event reports the creation of an object before its end.
        is_unreported = known.listed and not known.created and self.ends.unreported(known.name) is not None
        return is_unreported and 0 < time <= known.first_seen

    def listed(self, reading: Reading, began: int, sampled: int, now: int) -> list[Change]:
        """Apply an object of a listing that began at ``began``, with values that were read at ``sampled``."""
        created = self._readers[reading.name.class_name].created(reading)
        known = self.get(reading.name)
        if known is None:
            return self._listed_first(reading, created, began, sampled, now)
        if self._predates(known, created, began):
            return []
        another = created and known.created and created != known.created
        if another or self._differs(known, reading, listed=known.listed):
            if (
                self._ends_are_reported(known)
                and began < self._contradicted.setdefault(known.name, began) + EVENT_DELAY
            ):
                if known.first_seen < self.events_since:
                    self._unconfirmed.add(known.name)  # that event may have been lost
                return []  # the event of the end, which has its time, is on its way
            # The event that reported its end was lost.
            ended = self._removed(known, now, now)
            return [*ended, *self._added(reading, created, sampled, now, listed=True)]
        self._unconfirmed.discard(reading.name)
        updated = replace(
            known,
            created=known.created or created,
            properties=self._merged(known, reading.properties),
            statistics=self._readers[reading.name.class_name].beside(
                reading, known.properties, known.statistics
            ),
            sampled=sampled,
            missed=0,
            listed=True,
        )
        return self._kept(updated, known)

    def _listed_first(
        self, reading: Reading, created: int, began: int, sampled: int, now: int
    ) -> list[Change]:
        """Apply an object of a listing that is not known."""
        if self.ends.includes(reading.name, created, began):
            return []
        if not created and self._expects_creation(reading, began, sampled):
            return []
        restored = self._restored(reading, created)
        if restored is not None:
            reading = replace(reading, properties=self._merged(restored, reading.properties))
        return self._added(reading, created, sampled, now, listed=True, restored=restored)

    def swept(
        self,
        class_name: str,
        seen: set[ObjectName],
        began: int,
        lag: int,
        now: int,
        hidden: Callable[[KnownObject], bool],
    ) -> tuple[list[Change], list[ObjectName]]:
        """Apply the end of a complete listing of a class to the objects that it did not show.

        Args:
            class_name: the class listed.
            seen: the objects that it showed.
            began: when it began (ns).
            lag: nanoseconds by which it may lag behind events.
            now: the time (ns).
            hidden: says whether an object may exist although listings do not show it.

        Returns:
            The ends of objects that an earlier listing lacked, too, and the names of objects that this
            listing is the first to lack.
        """
        changes: list[Change] = []
        suspects: list[ObjectName] = []
        self._remembered.listed(class_name, began - lag)
        self._unreported.swept(class_name, seen, began)
        unresolved = self._unresolved[class_name]
        for name in unresolved.keys() - seen:
            del unresolved[name]
        objects = self._objects[class_name]
        for known in [o for name, o in objects.items() if name not in seen]:
            # A restored object may be younger than any listing. Its end, if it has one, is in an event.
            first_seen = self._restored_at if known.name in self._unpublished else known.first_seen
            if first_seen > began - lag or hidden(known):
                continue
            if not known.missed:
                objects[known.name] = replace(known, missed=began)
                suspects.append(known.name)
            elif not self._awaits_end(known, began):
                changes += self._removed(known, now, now)
        return changes, suspects

    def not_found(self, name: ObjectName, asked: int, now: int) -> list[Change]:
        """Apply that the object answered 404 to a request that was sent at ``asked``."""
        known = self.get(name)
        if known is None or known.first_seen > asked - LISTING_LAG:
            return []
        return [] if self._awaits_end(known, asked) else self._removed(known, now, now)

    def _awaits_end(self, known: KnownObject, at: int) -> bool:
        """Return whether the event of an end, which has its time, may be on its way at ``at`` (ns)."""
        may_be_lost = known.name in self._unconfirmed
        return self._ends_are_reported(known) and not may_be_lost and at < known.missed + EVENT_DELAY

    def _ends_are_reported(self, known: KnownObject) -> bool:
        """Return whether events report now how objects of this kind end."""
        return self.events_arrive and known.name.class_name in _REPORTED_BY_EVENTS

    def ended(self, name: ObjectName, now: int) -> list[Change]:
        """End an object that cannot exist any more; a listing that shows its name shows another object."""
        return self._forgotten(self._objects[name.class_name][name], now)

    def confirmed(self, name: ObjectName) -> None:
        """Apply that the object answered, so that a listing that lacked it was wrong."""
        known = self.get(name)
        if known is not None:
            self._unconfirmed.discard(name)
            self._objects[name.class_name][name] = replace(known, missed=0)

    def out_of_sight(self, name: ObjectName, now: int) -> list[Change]:
        """Remove the object's statistics: it may not be read any more. It ends if it was never listed."""
        known = self._objects[name.class_name][name]
        if not known.listed:
            return self._forgotten(known, now)
        return self.without_statistics(name, now)

    def without_statistics(self, name: ObjectName, now: int) -> list[Change]:
        """Remove the object's statistics, which are not known any more."""
        known = self._objects[name.class_name][name]
        if all(value is None for value in known.statistics):
            return []
        return self._kept(replace(known, statistics=(None,) * len(known.statistics), sampled=now), known)

    def measured(self, known: KnownObject, statistics: Values, sampled: int) -> list[Change]:
        """Set the object's statistics, which were read at ``sampled`` (ns)."""
        return self._kept(replace(known, statistics=statistics, sampled=sampled), known)

    def unread(self, class_name: str, now: int) -> list[Change]:
        """Apply that a class cannot be listed any more: its objects keep only what events report."""
        names = list(self._objects[class_name])
        return [change for name in names for change in self.without_statistics(name, now)]

    def with_property(self, known: KnownObject, element: str, value: Value | None) -> list[Change]:
        """Set one property of the object."""
        position = self._readers[known.name.class_name].schema.positions[element]
        properties = (*known.properties[:position], value, *known.properties[position + 1 :])
        return self._kept(replace(known, properties=properties), known)

    def _restored(self, reading: Reading, created: int) -> KnownObject | None:
        """Return the remembered object of a listing without creation times, if the listing shows the same.

        If another object has taken the name, the events of the meantime arrive later and report that.
        """
        earlier = self._remembered.get(reading.name)
        if earlier is None or created or self._differs(earlier, reading, listed=earlier.listed):
            return None
        return earlier

    def _expects_creation(self, reading: Reading, began: int, sampled: int) -> bool:
        """Return whether the event of the creation of a listed object, which has its time, is on its way."""
        if not self.events_arrive or self._remembered.get(reading.name) is not None:
            return False
        return self._unreported.waits(reading, began, sampled, self.events_since)

    def _predates(self, known: KnownObject, created: int, began: int) -> bool:
        """Return whether listed values may be from before ``known`` took the name."""
        if created and known.created and created < known.created:
            return True
        end = self.ends.get(known.name)
        return (
            not known.listed
            and not created
            and end is not None
            and end.noticed > began - listing_lag(known.name.class_name)
        )

    def _differs(self, known: KnownObject, reading: Reading, *, listed: bool) -> bool:
        """Return whether a reading is of another object, because what is fixed at creation differs.

        ``listed``: listings have shown both.
        """
        reader = self._readers[known.name.class_name]
        if reader.rule.created is not None:
            return False  # the time of its creation distinguishes them
        return any(
            kept and contradicts(new, old, listed=listed)
            for old, new, kept in zip(known.properties, reading.properties, reader.keeps, strict=True)
        )

    def _merged(self, known: KnownObject, values: Values, *, keep_all: bool = False) -> Values:
        """Return ``values``, completed by known values that a report may omit.

        ``keep_all``: an event about an object that a listing has shown adds only what is unknown.
        """
        keeps = self._readers[known.name.class_name].keeps
        return tuple(
            preferred(old, new, keep=kept, old_first=keep_all)
            for old, new, kept in zip(known.properties, values, keeps, strict=True)
        )

    def _added(
        self,
        reading: Reading,
        created: int,
        sampled: int,
        now: int,
        *,
        listed: bool = False,
        restored: KnownObject | None = None,
    ) -> list[Change]:
        """Add an object; ``restored`` is the same object as it was known before a restart."""
        objects = self._objects[reading.name.class_name]
        needed = self.dependencies(reading, listed=listed)
        if needed is None:
            unresolved = self._unresolved[reading.name.class_name]
            if listed and len(unresolved) < self._limit:
                depends_on = self._dependencies.of(reading.name, reading.properties)
                unresolved[reading.name] = next(one for one in depends_on if self.get(one) is None)
            return []
        if len(objects) >= self._limit:
            self.refused += 1
            return []
        # No creation time distinguishes this object from an ended one, whose end a console may miss.
        distinction = now if not created and self.ends.get(reading.name) is not None else created
        on = () if distinction else [one.number for one in needed]
        if reading.name.class_name in WITHOUT_TIME:
            number = self.ends.next_number(reading.name)
        else:
            number = object_number(reading.name, distinction, on)
            if not distinction and self.ends.has_used(number):
                number = object_number(reading.name, now)
        changes = self._end_dependents(reading.name, now, now, implied=False)  # of its predecessor
        belated = any(self.get(one.name) is None for one in needed)
        known = KnownObject(
            name=reading.name,
            number=number if restored is None else restored.number,
            created=created if restored is None else restored.created,
            first_seen=now,
            properties=reading.properties,
            statistics=reading.statistics,
            sampled=sampled,
            listed=listed,
            missed=now if belated else 0,
            presumed=restored is not None,
            reported=not listed,
        )
        objects[known.name] = known
        if belated:
            self._unconfirmed.add(known.name)
        self._dependencies.add(known.name, known.properties)
        self._remembered.pop(known.name)
        self._unresolved[known.name.class_name].pop(known.name, None)
        return [*changes, Put(known, new=True)]

    def _kept(self, updated: KnownObject, previous: KnownObject) -> list[Change]:
        self._objects[updated.name.class_name][updated.name] = updated
        if updated.name in self._unpublished:
            self._unpublished.discard(updated.name)
            return [Put(updated, new=True)]
        same = (
            replace(updated, missed=previous.missed, listed=previous.listed, reported=previous.reported)
            == previous
        )
        return [] if same else [Put(updated, previous=previous)]

    def _removed(
        self, known: KnownObject, time: int, now: int, *, reported: bool = False, implied: bool = False
    ) -> list[Change]:
        """Remove an object, and those that depend on it.

        ``reported``: an event reported its end; ``implied``: an event reported the end of one it depends on.
        """
        changes = self._end_dependents(known.name, time, now, implied=reported or implied)
        del self._objects[known.name.class_name][known.name]
        self._contradicted.pop(known.name, None)
        self._dependencies.remove(known.name, known.properties)
        self._unconfirmed.discard(known.name)
        self._unpublished.discard(known.name)
        self.ends.add(known.name, End(now, known.created, None if reported else known, known.number))
        return [*changes, Gone(known, time, inferred=not (reported or implied))]

    def _end_dependents(self, name: ObjectName, time: int, now: int, *, implied: bool) -> list[Change]:
        """Remove the objects that depend on an object of this name, which ended at ``time`` (ns)."""
        changes: list[Change] = []
        for one in self._dependencies.dependents(name):
            dependent = self.get(one)  # None if it ended with another dependent
            if dependent is not None:
                changes += self._removed(dependent, time, now, implied=implied)
        return changes

    def _forgotten(self, known: KnownObject, now: int) -> list[Change]:
        """Remove an object as `_removed` does, and accept a listing that shows its name at once."""
        changes = self._removed(known, now, now)
        self.ends.forget(known.name)
        self.ends.reserve(known.number)
        return changes
