"""The broker's objects as far as they are known, from events and listings that arrive in any order.

Events are immediate and report creations and ends. Listings show values, lag behind (RabbitMQ caches them,
and shows a connection only after seconds), and are read page by page while objects come and go. So:

- an object that a complete listing lacks is gone only if a second one lacks it too, or it answers 404, and
  the event of its end, if one is awaited, has not arrived in time;
- an object that cannot be read has not ended: it is shown as unread until it is read, or its end is proven;
- a listing does not miss an object that an event reported during the listing, or shortly before it;
- values of a page do not replace those of an object that was read singly after the page was requested;
- an object whose end was reported is not added again by a listing that may be older than that end, and the
  values of such a listing are not those of its successor;
- an object that took the name of an ended one, and whose creation is reported late, is unread until a listing
  shows it that cannot be about the ended one;
- values that are fixed at creation stay known although a later answer lacks them; if two listings show them
  differently, they show two objects;
- an object exists only while all objects exist on which it depends: it ends with the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Final

from gateway.model.observations import Counting
from gateway.model.values import Value, Values
from gateway.sources.rabbitmq.former_objects import FormerObjects
from gateway.sources.rabbitmq.object_lives import (
    EVENT_DELAY,
    LISTING_LAG,
    WITHOUT_OWNER,
    WITHOUT_TIME,
    Change,
    End,
    Gone,
    KnownObject,
    ListingDoubts,
    Overtaken,
    Put,
    UnplacedConsumers,
    UnreportedCreations,
    UnresolvedObjects,
    listing_lag,
)
from gateway.sources.rabbitmq.object_names import CONSUMER, ObjectName, object_number, without_place
from gateway.sources.rabbitmq.reading import ClassReader, Reading

MERGE_WINDOW = 10_000_000_000
"""Nanoseconds after the first sight of an object within which a creation event of its name is about it."""
_MANY_SINGLE = 1_000
"""Number of objects that were read singly from which on those of long ago are forgotten."""
_LONGEST_READING = 600_000_000_000
"""Nanoseconds after which the answer to a request has been applied."""
_UNREAD_STEP = 10_000_000_000
"""Nanoseconds between two times since which objects are unread."""
_REPORTED_BY_EVENTS = frozenset({"queue", "exchange", "connection", "channel"})
"""Classes of which events report every end."""


_MOST_LEFT_OUT: Final = 10_000
"""Maximum number of names of objects that are not shown; the oldest are forgotten."""
_OWNERS: Final = frozenset({"connection", "queue"})
"""Classes of objects that may not be shown although others of which events are received belong to them."""


class KnownObjects(FormerObjects):
    """The known objects of all classes.

    Args:
        readers: the reader of each class, which knows what is fixed at creation.
        limit: the most objects of one class; further ones are refused and counted.

    Attributes:
        refused: the number of times that an object was not taken because its class was full.
        events_since: the time since which every event has arrived (ns), as far as is known; 0 if those from
            before the start arrive, too.
        events_arrive: events report the ends of objects now.
        recovered_until: until when a node that was started may report objects that it recovered (ns); 0 for
            no node.
        listings: which listings lack objects that exist.
        unplaced: the consumers that are not known yet although an event has reported them.
    """

    def __init__(self, readers: Mapping[str, ClassReader], limit: int = 500_000) -> None:
        super().__init__(readers)
        self._limit = limit
        self._overtaken: list[Overtaken] = []
        self._without_owner: dict[ObjectName, int] = {}
        self._left_out: dict[ObjectName, None] = {}
        self.refused = 0
        self.events_since = 0
        self.events_arrive = False
        self.recovered_until = 0
        self.listings = ListingDoubts()
        self.unplaced = UnplacedConsumers(limit)
        self._unreported = UnreportedCreations()
        self._unresolved = UnresolvedObjects(readers, limit)
        self._read_singly: dict[ObjectName, int] = {}

    def end_all(self, now: int) -> list[Change]:
        """End all objects, also those from before the start: another broker is read in the place of theirs.

        Their ends are known until `EndedObjects.forget_all`, for references to them.
        """
        changes = self.forget_remembered(lambda _: True, now)
        for gone in changes:
            self.ends.add(gone.object.name, End(now, 0, None, gone.object.number))
        for name in [name for objects in self._objects.values() for name in objects]:
            known = self.get(name)  # None if it ended with another one
            changes += [] if known is None else self._removed(known, now, now)
        for gone in changes:
            self.ends.reserve(gone.object.number)
        self._unpublished.clear()
        self._unresolved.clear()
        self._without_owner.clear()
        self._left_out.clear()
        self.unplaced.clear()
        self._unreported = UnreportedCreations()
        return changes

    def everything_shown(
        self, unread: Callable[[KnownObject], bool], readable: Container[str], now: int
    ) -> list[Change]:
        """Publish the restored objects: whatever exists has been listed, or is reported by events alone.

        Args:
            unread: says whether an object cannot be read, so that it may exist although no listing shows it.
            readable: the classes that can be listed.
            now: the time (ns).
        """
        # An owner that cannot be listed is read by itself: then what depends on it is listed again.
        self._unresolved.clear(lambda class_name: class_name not in readable)
        self._remembered.remove(
            lambda known: (
                self._remembered.lacked(known)
                and not unread(known)
                and not self.listings.are_partial(known.name.class_name)
            )
        )
        every = (known for objects in self._objects.values() for known in objects.values())
        permanent = [known for known in every if known.name in self._unpublished]
        self._unpublished.clear()
        changes: list[Change] = []
        for known in permanent:
            shown = replace(known, unread_since=now if unread(known) else 0)
            self._objects[known.name.class_name][known.name] = shown
            changes.append(Put(shown, new=True))
        for class_name in self._readers:
            changes += self._remembered_as_unread(class_name, now)
        return changes

    @property
    def any_known(self) -> bool:
        """Whether an object is known, or remembered from before the start."""
        return bool(self._remembered.count) or any(self._objects.values())

    def names_of(self, class_name: str) -> set[ObjectName]:
        """Return the names of a class that are known, or remembered from before the start."""
        remembered = {known.name for known in self._remembered.of_class(class_name)}
        return remembered | self._objects[class_name].keys()

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

    def missing_owners(self, class_name: str) -> list[ObjectName]:
        """Return the objects of a class that are not known, and on which listed ones depend."""
        return self._unresolved.owners(class_name)

    def listed_too_early(self) -> set[str]:
        """Return the classes that were listed before an object on which one of their objects depends.

        Such an object could not be added; its class has to be listed again. It is not awaited if no listing
        shows the other one.
        """
        return {name for name in self._readers if self._unresolved.any_resolved(name, self.get)}

    def mark_unconfirmed(self, names: Iterable[ObjectName] | None = None) -> None:
        """Take note that events were missed: these objects, or all of them, may have ended meanwhile."""
        every = (name for objects in self._objects.values() for name in objects)
        self._unconfirmed.update(every if names is None else names)

    def unconfirmed(self, class_name: str, hidden: Callable[[KnownObject], bool]) -> bool:
        """Return whether a class has objects that no listing has confirmed, or finally lacked, since a gap.

        Args:
            class_name: the class.
            hidden: says whether an object may exist although listings do not show it; so may one that is
                unread because listings are partial.
        """
        unconfirmed = (self.get(name) for name in self._unconfirmed if name.class_name == class_name)
        is_asked = self.listings.awaits(class_name)
        remembered = self._remembered.of_class if is_asked else self._remembered.lagging
        suspected = chain(unconfirmed, remembered(class_name))
        is_partial = self.listings.are_partial(class_name)
        return self._unresolved.any_resolved(class_name, self.get) or any(
            known is not None and not (hidden(known) or (is_partial and known.unread_since))
            for known in suspected
        )

    def created(
        self, reading: Reading, time: int, now: int, *, lasts: bool = False, recovered: bool = False
    ) -> list[Change]:
        """Apply an event that reports that an object was created.

        Args:
            reading: the values in the event.
            time: the time of the event (ns); 0 if unknown.
            now: the time.
            lasts: the object outlives its node and its process, which report the same when they are started
                again.
            recovered: the event may have been published because of such a start, and no other event says
                whether the object ended before.
        """
        created = self._readers[reading.name.class_name].created(reading) or (0 if recovered else time)
        known = self.get(reading.name)
        if known is None:
            if self._is_of_ended(reading, created) or (recovered and self._remembered.get(reading.name)):
                return []  # a listing shows what was known before the start
            earlier = self._remembered.pop(reading.name)
            replaced = earlier is not None and earlier.created != created
            # The earlier object ended while the gateway was not running.
            ends = [Gone(earlier, now, inferred=True)] if earlier is not None and replaced else []
            return [*ends, *self._added(reading, created, now, now), *self._listed_before(reading.name, now)]
        another = self._differs(known, reading, listed=False)
        if another and self._is_of_ended(reading, created):
            return []
        same = not another and self._is_its_creation(known, created, time, now)
        if lasts and not another and (recovered or self._lived_on(known, reading, time, now)):
            same, created = True, known.created
        if same:
            self._unconfirmed.discard(reading.name)
            properties = self._merged(known, reading, keep_all=True)
            updated = replace(known, created=created, properties=properties, missed=0, reported=True)
            return self._kept(updated, known)
        is_listed = another and self._is_listed_since(known, created)
        if is_listed or 0 < created < known.created:
            # Of an object that ended before: a broker that was killed delivers events again, or a listing was
            # read after it was published. If the events of the successor did not arrive yet, it was never
            # published. The broker's clock may be wrong; when the successor was seen is by the gateway's.
            if not known.reported and not self._is_of_ended(reading, created):
                self._overtaken.append(Overtaken(created, max(known.created, known.first_seen)))
            if is_listed:  # its end is to come, before the creation of the successor
                earlier = replace(known, created=created, properties=reading.properties)
                self.ends.add(known.name, End(now, created, earlier))
            return []
        # The event that reported its end was lost.
        ended = self._removed(known, created or now, now, successor=created)
        return [*ended, *self._added(reading, created, now, now)]

    def leave_out(self, name: ObjectName) -> None:
        """Take note of an object that is not shown: what belongs to it is not shown, and is not missed."""
        if name.class_name in _OWNERS:
            self._left_out[name] = None
        if len(self._left_out) > _MOST_LEFT_OUT:
            del self._left_out[next(iter(self._left_out))]

    def came_and_went(self, since: int, until: int) -> None:
        """Take note of an object that was never published, with the times of its begin and end (ns)."""
        self._overtaken.append(Overtaken(since, max(since, until), WITHOUT_OWNER))

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
        # A successor is known already, or the object ended with another one, or it is the one that a listing
        # showed, which waited in vain for this event.
        waited = ended.listed and not ended.reported and 0 < created <= ended.first_seen - EVENT_DELAY
        known = self.get(reading.name)
        is_late = waited or known is not None or any(self.get(one) is None for one in needed)
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

        It has not ended if no event has reported that, and none was missed. Where one may be missed, no event
        proves the end of a binding, because RabbitMQ 4 reports one that is declared again, nor of anything
        that a node reports which was just started.
        """
        unproven = known.name.class_name == "binding" or now <= self.recovered_until
        if self._differs(known, reading, listed=False) or not (unproven or self._end_is_reported(known)):
            return False
        created = self._readers[reading.name.class_name].created(reading) or time
        listed_before = not (known.created or known.first_seen) and 0 < self._restored_until < time
        return listed_before or not self._is_its_creation(known, created, time, now)

    def _end_is_reported(self, known: KnownObject) -> bool:
        """Return whether an object was known to exist while events arrived already, which report its end."""
        if known.first_seen >= self.events_since:
            return True
        was_listed = known.listed and not known.missed and not known.unread_since
        return was_listed and known.sampled >= self.events_since + LISTING_LAG

    def _is_its_creation(self, known: KnownObject, created: int, time: int, now: int) -> bool:
        # An event from before the first sight of an object can only be about it, however late it arrives. An
        # object from before the start has no time of first sight (0), and has not ended since. One that was
        # seen just before events arrived may have ended without one: a later event is about the next.
        earliest = self.events_since if time else self.events_since - EVENT_DELAY
        recent = now - known.first_seen <= MERGE_WINDOW and known.first_seen >= earliest
        early = recent or 0 < time <= known.first_seen or known.first_seen == 0
        return known.created == created or (known.created == 0 and early)

    def _is_listed_since(self, known: KnownObject, time: int) -> bool:
        """Return whether listings alone show an object, none of which can be from before ``time`` (ns).

        Events arrived before the first one, so that the end of an object before that would be known.
        """
        only_listed = known.listed and not known.reported and not known.created
        return only_listed and 0 < time <= known.first_seen and self.events_since <= known.first_seen

    def deleted(self, name: ObjectName, time: int, now: int, *, by_event: bool = True) -> list[Change]:
        """Apply that an object certainly ended at ``time`` (ns; 0 if unknown).

        If no event says so, but the answer to an operation, earlier events about the object may be to come.
        """
        known = self.get(name)
        if known is not None:
            if self._is_of_predecessor(known, time):
                return []
            return self._removed(known, time or now, now, reported=by_event, implied=not by_event)
        self._left_out.pop(name, None)
        if since := self._without_owner.pop(name, 0):
            self.came_and_went(since, time or now)
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
            ended = self._removed(known, now, now, successor=created)
            return [*ended, *self._added(reading, created, sampled, now, listed=True)]
        self._unconfirmed.discard(reading.name)
        updated = replace(
            known,
            created=known.created or created,
            properties=self._merged(known, reading),
            statistics=self._readers[reading.name.class_name].beside(
                reading, known.properties, known.statistics
            ),
            sampled=sampled,
            missed=0,
            listed=True,
            unread_since=0,
        )
        return self._kept(updated, known)

    def _listed_first(
        self, reading: Reading, created: int, began: int, sampled: int, now: int
    ) -> list[Change]:
        """Apply an object of a listing that is not known."""
        if self.ends.includes(reading.name, created, began):
            return []
        if not created and self._awaits_more(reading, began, sampled):
            return []
        restored = self._restored(reading, created)
        if restored is not None:
            reading = replace(reading, properties=self._merged(restored, reading))
        return self._added(reading, created, sampled, now, listed=True, restored=restored)

    def swept(
        self,
        class_name: str,
        seen: set[ObjectName],
        began: int,
        lag: int,
        now: int,
        hidden: Callable[[KnownObject], bool],
        *,
        whole: bool = True,
    ) -> tuple[list[Change], list[ObjectName]]:
        """Apply the end of a complete listing of a class to the objects that it did not show.

        Args:
            class_name: the class listed.
            seen: the objects that it showed.
            began: when it began (ns).
            lag: nanoseconds by which it may lag behind events.
            now: the time (ns).
            hidden: says whether an object may exist although listings do not show it.
            whole: it had the names of all objects; otherwise those that it lacks are unread.

        Returns:
            The ends of objects that an earlier listing lacked, too, and the names of objects that this
            listing is the first to lack. If the listings of this class are partial, no object ends, and the
            names are those of all that it lacks.
        """
        proves = whole and not self.listings.are_partial(class_name)
        changes: list[Change] = [] if proves else self._remembered_as_unread(class_name, now)
        self._remembered.listed(class_name, began - lag)
        if whole:
            self._unreported.swept(class_name, seen, began)
        self._unresolved.swept(class_name, seen)
        objects = self._objects[class_name]
        # A restored object may be younger than any listing. Its end, if it has one, is in an event.
        every = [
            known
            for name, known in objects.items()
            if name not in seen
            and (self._restored_at if name in self._unpublished else known.first_seen) <= began - lag
        ]
        if class_name == CONSUMER:
            waiting = self._unreported.consumers()
            # One that waits may be one whose channel was shown before.
            every = [known for known in every if without_place(known.name) not in waiting]
            if whole:
                self.unplaced.listed(began - lag, waiting)
        lacking = [known for known in every if not hidden(known)]
        again = {known.name for known in lacking if self.listings.lacks_again(known)}
        unanswered = self.listings.unanswered_since(class_name)
        suspects = [*again, *(one.name for one in lacking if not one.missed and one.name not in again)]
        for known in lacking:
            if known.name in again or not whole:
                changes += self.unread_alone(known.name, now)
            if not known.missed:
                objects[known.name] = replace(objects[known.name], missed=began)
            elif proves and unanswered is not None and unanswered <= known.missed:
                changes += self.unread_alone(known.name, now)
            elif proves and not self._awaits_end(known, began):
                changes += self._removed(known, now, now)
        self.listings.swept(class_name, len(lacking), len(again))
        return changes, [*suspects, *(one.name for one in self._remembered.lacking(class_name, seen))]

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

    def lacked(self, name: ObjectName, began: int, now: int) -> list[Change]:
        """Apply that a reading lacked an object that no event is about: it ends at the second time."""
        known = self._objects[name.class_name][name]
        if known.missed:
            return self.ended(name, now)
        self._objects[name.class_name][name] = replace(known, missed=began)
        return []

    def was_read_singly(self, name: ObjectName, now: int) -> None:
        """Take note that an object was requested by itself, and answered at ``now`` (ns).

        Requests of operations are sent beside those of listings and metrics, whose answers take longer.
        """
        if len(self._read_singly) >= _MANY_SINGLE:
            kept = {one: at for one, at in self._read_singly.items() if now - at < _LONGEST_READING}
            self._read_singly = kept
        self._read_singly[name] = now

    def is_overtaken(self, name: ObjectName, asked: int) -> bool:
        """Return whether values of a request of ``asked`` (ns) may be older than those that are known."""
        return asked < self._read_singly.get(name, 0)

    def answered(self, name: ObjectName, now: int, *, exists: bool, failed: bool = False) -> list[Change]:
        """Apply the answer of an object itself, and whether it shows that the object exists.

        If it does, a listing that lacked the object was partial, as the next one may be. So it may have been
        if the request ``failed``: the answer was neither an object nor that there is none, and an object
        that a listing lacked is unread.
        """
        known = self.get(name)
        is_lacked = self._remembered.get(name) is not None or (known is not None and known.missed > 0)
        self.listings.answered(name, contradicts=(exists or failed) and is_lacked)
        if exists and known is not None:
            self._unconfirmed.discard(name)
            self._objects[name.class_name][name] = replace(known, missed=0)
        return self.unread_alone(name, now) if failed and is_lacked else []

    def out_of_sight(self, name: ObjectName, now: int) -> list[Change]:
        """Remove the object's statistics, and show it as unread: it may not be read any more."""
        known = self._objects[name.class_name][name]
        nothing = (None,) * len(known.statistics)
        return self._kept(replace(known, statistics=nothing, unread_since=known.unread_since or now), known)

    def unread_alone(self, name: ObjectName, now: int) -> list[Change]:
        """Show one object as unread, if it is known, or may be one from before the start."""
        known = self.get(name)
        if known is None:
            return self._remembered_as_unread(name.class_name, now, name)
        if known.unread_since:
            return []
        return self._kept(replace(known, unread_since=now), known)

    def shown_as_one_of(self, name: ObjectName, now: int) -> list[Change]:
        """Apply that a listing shows this object, or another one of its name: it lives on, but is unread.

        Whether it ended in a gap of the events cannot be said: it ends with its connection at the latest.
        """
        self._unconfirmed.discard(name)
        known = self._objects[name.class_name][name]
        self._objects[name.class_name][name] = replace(known, missed=0)
        return self.unread_alone(name, now)

    def without_statistics(self, name: ObjectName, now: int) -> list[Change]:
        """Remove the object's statistics, which are not known any more."""
        known = self._objects[name.class_name][name]
        if all(value is None for value in known.statistics):
            return []
        return self._kept(replace(known, statistics=(None,) * len(known.statistics), sampled=now), known)

    def counters_began(self, name: ObjectName, now: int) -> list[Change]:
        """Remove the object's statistics: its counters have begun again from zero."""
        known = self._objects[name.class_name][name]
        changed = replace(known, statistics=(None,) * len(known.statistics), sampled=now)
        self._objects[name.class_name][name] = changed
        return [Put(changed, previous=known, counting=Counting.BEGAN)]

    def measured(
        self, known: KnownObject, statistics: Values, sampled: int, *, of_others: bool = False
    ) -> list[Change]:
        """Set the object's statistics, which were read at ``sampled`` (ns).

        ``of_others``: its counters are sums over other nodes than those before.
        """
        changes = self._kept(replace(known, statistics=statistics, sampled=sampled), known)
        counting = Counting.UNKNOWN if of_others else Counting.GO_ON
        return [replace(one, counting=counting) if isinstance(one, Put) else one for one in changes]

    def unread(
        self, class_name: str, since: int, now: int, current: Container[ObjectName] = ()
    ) -> list[Change]:
        """Apply that a class could not be listed since a time (ns): no object ends, none is confirmed.

        Objects from before the start are shown as they were. Those that are ``current`` were read otherwise.
        """
        changes = self._remembered_as_unread(class_name, since)
        every = self._objects[class_name].values()
        for known in [one for one in every if not one.unread_since and one.name not in current]:
            # Those that events reported since are stale since then, roughly, so that there are few groups.
            later = known.first_seen - known.first_seen % _UNREAD_STEP
            changes += self._kept(replace(known, unread_since=min(max(since, later), now)), known)
        return changes

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

    def _awaits_more(self, reading: Reading, began: int, sampled: int) -> bool:
        """Return whether more of a listed object is on its way: the event of its creation, or its channel."""
        if self._remembered.get(reading.name) is not None:
            return False
        return self._unreported.waits(
            reading, began, sampled, self.events_since if self.events_arrive else None
        )

    def _predates(self, known: KnownObject, created: int, began: int) -> bool:
        """Return whether listed values may be from before ``known`` took the name."""
        if created and known.created and created < known.created:
            return True
        end, lag = self.ends.get(known.name), listing_lag(known.name.class_name)
        return not known.listed and not created and end is not None and end.noticed > began - lag

    def _differs(self, known: KnownObject, reading: Reading, *, listed: bool) -> bool:
        """Return whether a reading is of another object; ``listed``: listings have shown both."""
        return self._readers[known.name.class_name].differs(known.properties, reading, listed=listed)

    def _merged(self, known: KnownObject, reading: Reading, *, keep_all: bool = False) -> Values:
        return self._readers[known.name.class_name].merged(known.properties, reading, keep_all=keep_all)

    def _number(self, name: ObjectName, distinction: int, on: Iterable[int], now: int) -> int:
        """Return the number of a new object; ``distinction`` and ``on`` distinguish it from earlier ones."""
        # With times or owners of their own, objects of one name differ already. So a name that others had is
        # the same object's after a restart, when they are gone.
        grounds = tuple(on)
        number = object_number(name.plain, distinction, grounds)
        if self._is_of_another(number, name):
            number = object_number(name, distinction, grounds)
        if self._is_of_another(number, name) or (not distinction and self.ends.has_used(number)):
            number = object_number(name, now)
        if name.plain is not name:
            self._shared_numbers[number] = name
        return number

    def _is_of_another(self, number: int, name: ObjectName) -> bool:
        """Return whether another object has a number, with which it shares its name."""
        holder = self._shared_numbers.get(number, name.plain)
        known = None if holder == name else self.get(holder) or self._remembered.get(holder)
        return known is not None and known.number == number

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
            depends_on = self._dependencies.of(reading.name, reading.properties)
            if listed:
                self._unresolved.add(reading.name, next(one for one in depends_on if self.get(one) is None))
            elif len(self._without_owner) < self._limit and self._left_out.keys().isdisjoint(depends_on):
                self._without_owner[reading.name] = created or now
            return []
        if len(objects) >= self._limit:
            self.refused += 1
            return []
        # No creation time distinguishes this object from an ended one, whose end a console may miss.
        distinction = now if not created and self.ends.get(reading.name) is not None else created
        owners = self._dependencies.of(reading.name, reading.properties)
        on = () if distinction else [self.number_of(one, ended=False) for one in owners]
        if reading.name.class_name in WITHOUT_TIME:
            number = self.ends.next_number(reading.name)
        else:
            number = self._number(reading.name, distinction, on, now)
        is_next = self.ends.get(reading.name) is not None  # what depends on the name is its predecessor's
        changes = self._end_dependents(reading.name, now, now, successor=created) if is_next else []
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
            # Listings are not taken for a while, because they may show its predecessor. If it is so new that
            # the broker may have no values of it, it has none; otherwise its values are there, and unread.
            unread_since=now if is_next and not listed and created < now - LISTING_LAG else 0,
        )
        objects[known.name] = known
        if belated:
            self._unconfirmed.add(known.name)
        self._dependencies.add(known.name, known.properties)
        self._remembered.pop(known.name)
        self._unresolved.discard(known.name)
        self._without_owner.pop(known.name, None)
        self._left_out.pop(known.name, None)
        moved = filter(None, map(self.get, self._dependencies.dependents(known.name) if is_next else ()))
        counting = Counting.UNKNOWN if self.ends.left_counters(known.name) else Counting.GO_ON
        return [*changes, Put(known, new=True, counting=counting), *(Put(one) for one in moved)]
