"""What is known of the broker's objects, from events and listings that come in any order.

Events are immediate and report creations and ends. Listings show values, lag behind (RabbitMQ caches them,
and shows a connection only after seconds), and are read page by page while objects come and go. So:

- an object that a listing lacks is gone only if a second listing lacks it too, or it answers 404;
- an object of which an event reported at, or shortly before, the beginning of a listing is not missed in it;
- an object whose end was reported is not brought back by a listing that may be older than that, nor are the
  values of such a listing those of its successor;
- what was settled at creation and once known stays, although a later answer does not repeat it; where one
  listing shows it otherwise than another, these are two objects;
- what depends on others is there only while all of them are: it ends with the first of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from gateway.model.values import Value, Values
from gateway.sources.rabbitmq.object_names import ObjectName, object_number
from gateway.sources.rabbitmq.reading import ClassReader, Reading, target_of

LISTING_LAG = 10_000_000_000
"""Nanoseconds by which a listing may at least lag behind events (connections take up to 5 s).

Virtual hosts and nodes are listed from the broker's metadata, which needs no collecting: only an event of
them may be `UNDER_WAY`.
"""
MERGE_WINDOW = 10_000_000_000
"""A creation event this soon after the first sight of an object is about that object."""
UNDER_WAY = 2_000_000_000
"""Nanoseconds that an event may take from its broker to us, before it was published too."""
_REPORTED_BY_EVENTS = frozenset({"queue", "exchange", "connection", "channel"})
"""Classes of which events report each end."""
WITHOUT_TIME = frozenset({"vhost", "node"})
"""Classes of which no listing has a creation time, and to which others refer before they are known."""
REMEMBERED_ENDS = 100_000
REMEMBERED_FOR = 120_000_000_000


@dataclass(frozen=True, slots=True)
class KnownObject:
    """An object that exists, as far as it is known.

    ``created`` is 0 where unknown; ``first_seen`` is when it was first known and ``missed`` when the listing
    began that first lacked it (0 = none did). ``number`` never changes in the object's life. ``listed``:
    a listing has shown it, so that its properties are as listings write them.
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


@dataclass(frozen=True, slots=True)
class Put:
    """The object is ``new``, or some of it changed; ``former`` is how it was known until now."""

    object: KnownObject
    new: bool = False
    former: KnownObject | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """The object came to its end.

    Attributes:
        object: as it was known last.
        time: of its end (ns).
        inferred: no event reported that, or the end of what it hangs on; ``time`` is when it was noticed.
    """

    object: KnownObject
    time: int
    inferred: bool = False


Change = Put | Gone


@dataclass(frozen=True, slots=True)
class _End:
    """The end of an object.

    Attributes:
        noticed: when it was noticed (ns).
        created: when the object was created (ns); 0 where that is not known.
        unreported: the object, where no event has reported its end; otherwise ``None``.
    """

    noticed: int
    created: int
    unreported: KnownObject | None = None


class KnownObjects:
    """The objects of all classes.

    Args:
        readers: the reader of each class, which knows what is settled at creation.
        limit: the most objects of one class; further ones are refused and counted.

    Attributes:
        refused: how many times an object was not taken because its class was full.
        events_since: since when every event has arrived (ns), as far as is known; 0 where those of the time
            before the start do too.
        events_arrive: whether events tell of the ends of objects, now.
    """

    def __init__(self, readers: Mapping[str, ClassReader], limit: int = 500_000) -> None:
        self._readers = readers
        self._limit = limit
        self._objects: dict[str, dict[ObjectName, KnownObject]] = {name: {} for name in readers}
        self._dependencies = Dependencies(readers)
        self._ends: OrderedDict[ObjectName, _End] = OrderedDict()
        self._unconfirmed: set[ObjectName] = set()
        self._remembered: dict[ObjectName, KnownObject] = {}
        self._remembered_at = 0
        self._lagging: set[ObjectName] = set()
        self._unpublished: set[ObjectName] = set()
        self._used: OrderedDict[int, None] = OrderedDict()
        self.refused = 0
        self.events_since = 0
        self.events_arrive = False
        self._contradicted: dict[ObjectName, int] = {}
        self._without_ground: dict[str, dict[ObjectName, ObjectName]] = {name: {} for name in readers}
        """By class: objects that a listing showed, and something unknown on which each of them depends."""

    def get(self, name: ObjectName) -> KnownObject | None:
        """The object of this name, if it exists."""
        return self._objects[name.class_name].get(name)

    def remembered(self, name: ObjectName) -> KnownObject | None:
        """The object of this name that existed before the start, while it is unknown what became of it."""
        return self._remembered.get(name)

    def remember(self, objects: Iterable[KnownObject], now: int) -> None:
        """These existed before the start, and nothing reports what became of them.

        One that a listing shows is the same as before, unless what is settled at creation differs. An event
        of an end may be about another of the name.

        Args:
            objects: all of them.
            now: the time (ns).
        """
        self._remembered = {known.name: known for known in objects}
        self._remembered_at = now

    def forget_remembered(self, ended: Callable[[KnownObject], bool], now: int) -> list[Change]:
        """Of what existed before the start, some cannot exist any more: that of which ``ended`` says so."""
        gone = [known for known in self._remembered.values() if ended(known)]
        for known in gone:
            del self._remembered[known.name]
            self._note_used(known)
        return [Gone(known, now, inferred=True) for known in gone]

    def restore(self, objects: Iterable[KnownObject]) -> None:
        """These existed before the start, and events are about to report what became of them.

        They are known, and published when they have been confirmed, or ended.
        """
        for known in objects:
            self._objects[known.name.class_name][known.name] = known
            self._dependencies.add(known.name, known.properties)
            self._unconfirmed.add(known.name)
            self._unpublished.add(known.name)

    def events_of_meanwhile_missed(self) -> None:
        """Not every event since the gateway before this one ended arrives after all."""
        for name in self._unpublished:
            known = self._objects[name.class_name].pop(name)
            self._dependencies.remove(name, known.properties)
            self._remembered[name] = known
        self._unconfirmed -= self._unpublished
        self._unpublished.clear()

    def everything_shown(self) -> list[Change]:
        """Everything that exists has been listed, or is reported by events alone."""
        self._remembered.clear()
        self._lagging.clear()
        for objects in self._without_ground.values():
            objects.clear()
        lasting = [self._objects[name.class_name][name] for name in self._unpublished]
        self._unpublished.clear()
        return [Put(known, new=True) for known in lasting]

    @property
    def any_known(self) -> bool:
        """Whether an object is known, or remembered from before the start."""
        return bool(self._remembered) or any(self._objects.values())

    def ending(self, name: ObjectName) -> KnownObject | None:
        """The object whose end an event with this name reports; a listing may have lacked it before."""
        end = self._ends.get(name)
        return self.get(name) or self._remembered.get(name) or (end.unreported if end is not None else None)

    def has_ended(self, name: ObjectName) -> bool:
        """Whether an object of this name came to its end lately and none has come since."""
        return name in self._ends and self.get(name) is None

    def of_class(self, class_name: str) -> Iterable[KnownObject]:
        """All objects of a class; do not change them while looking."""
        return self._objects[class_name].values()

    def dependencies(self, reading: Reading) -> list[KnownObject] | None:
        """What an object hangs on; ``None`` where some of that is not there."""
        grounds = [self.get(name) for name in self._dependencies.of(reading.name, reading.properties)]
        found = [ground for ground in grounds if ground is not None]
        return found if len(found) == len(grounds) else None

    def dependents(self, name: ObjectName, class_name: str) -> list[KnownObject]:
        """The objects of a class that end with another."""
        objects = self._objects[class_name]
        return [objects[one] for one in self._dependencies.dependents(name) if one.class_name == class_name]

    def listed_too_early(self) -> set[str]:
        """Return the classes that were listed before something on which an object of theirs depends.

        Such an object could not be added. Now that the other one is known, its class has to be listed again.
        One that depends on something that no listing shows is not waited for.
        """
        return {class_name for class_name in self._without_ground if self._listed_too_early(class_name)}

    def _listed_too_early(self, class_name: str) -> bool:
        return any(self.get(missing) is not None for missing in self._without_ground[class_name].values())

    def mark_unconfirmed(self) -> None:
        """The broker was out of sight: whatever is known may have ended unseen."""
        self._unconfirmed = {name for objects in self._objects.values() for name in objects}

    def unconfirmed(self, class_name: str, hidden: Callable[[KnownObject], bool]) -> bool:
        """Whether objects of the class are doubted that no listing has shown, or finally lacked, since.

        Args:
            class_name: the class.
            hidden: whether listings cannot show an object although it exists.
        """
        return self._listed_too_early(class_name) or any(
            known is not None and not hidden(known)
            for names, objects in (
                (self._unconfirmed, self._objects[class_name]),
                (self._lagging, self._remembered),
            )
            for known in (objects.get(name) for name in names if name.class_name == class_name)
        )

    def created(
        self, reading: Reading, time: int, now: int, *, lasts: bool = False, recovered: bool = False
    ) -> list[Change]:
        """An event reports that an object was created at ``time`` (ns, 0 unknown).

        Args:
            reading: what it says of the object.
            time: when that was.
            now: the time.
            lasts: the object outlives the end of its node, which reports the same when it is started again.
            recovered: it is certain that this was reported because of such a start.
        """
        created = self._creation_time(reading) or (0 if recovered else time)
        known = self.get(reading.name)
        if known is None:
            former = self._remembered.pop(reading.name, None)
            replaced = former is not None and former.created != created
            # What was there before the start ended while no events were received.
            ends = [Gone(former, now, inferred=True)] if former is not None and replaced else []
            return [*ends, *self._added(reading, created, now, now)]
        another = self._differs(known, reading, listed=False)
        same = not another and self._is_its_creation(known, created, time, now)
        if lasts and not (same or another) and known.first_seen >= self.events_since:
            same, created = True, known.created  # no event has reported its end
        if same:
            self._unconfirmed.discard(reading.name)
            properties = self._merged(known, reading.properties, keep_all=True)
            return self._kept(replace(known, created=created, properties=properties, missed=0), known)
        # The event that reported its end was lost.
        return [*self._removed(known, created or now, now), *self._added(reading, created, now, now)]

    def is_known_otherwise(self, reading: Reading, time: int, now: int) -> bool:
        """Whether an object is known of which an event at ``time`` (ns) reports neither creation nor end."""
        known = self.get(reading.name)
        if (
            known is None
            or known.first_seen < self.events_since
            or self._differs(known, reading, listed=False)
        ):
            return False
        return not self._is_its_creation(known, self._creation_time(reading) or time, time, now)

    def _is_its_creation(self, known: KnownObject, created: int, time: int, now: int) -> bool:
        # An event from before the first sight of an object, however late it comes, can only be about it. When
        # one was seen first that is known from before the start (0) is unknown; it has not ended since.
        recent = now - known.first_seen <= MERGE_WINDOW and known.first_seen >= self.events_since - UNDER_WAY
        early = recent or 0 < time <= known.first_seen or known.first_seen == 0
        return known.created == created or (known.created == 0 and early)

    def deleted(self, name: ObjectName, time: int, now: int) -> list[Change]:
        """An event reports that an object came to its end at ``time`` (ns, 0 unknown)."""
        known = self.get(name)
        if known is not None:
            if self._is_of_predecessor(known, time):
                return []
            return self._removed(known, time or now, now, reported=True)
        self._remembered.pop(name, None)
        self._remember_end(name, _End(now, 0))
        return []

    def _is_of_predecessor(self, known: KnownObject, time: int) -> bool:
        """Whether the end at ``time`` is that of the object whose place ``known`` took in a listing.

        Such an event is late: a listing that was read after it had been published showed the successor.
        """
        end = self._ends.get(known.name)
        if end is None or end.unreported is None or end.noticed != known.first_seen:
            return False
        return known.listed and 0 < time <= known.first_seen

    def listed(self, reading: Reading, began: int, sampled: int, now: int) -> list[Change]:
        """A listing that began at ``began`` shows an object, with values read at ``sampled``."""
        created = self._creation_time(reading)
        known = self.get(reading.name)
        if known is None:
            if self._is_stale(reading.name, created, began):
                return []
            former = self._former(reading, created)
            if former is not None:
                reading = replace(reading, properties=self._merged(former, reading.properties))
            return self._added(reading, created, sampled, now, listed=True, former=former)
        if self._is_of_former(known, created, began):
            return []
        another = created and known.created and created != known.created
        if another or self._differs(known, reading, listed=known.listed):
            told = self.events_arrive and known.name.class_name in _REPORTED_BY_EVENTS
            if told and began < self._contradicted.setdefault(known.name, began) + UNDER_WAY:
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

    def swept(
        self,
        class_name: str,
        seen: set[ObjectName],
        began: int,
        lag: int,
        now: int,
        hidden: Callable[[KnownObject], bool],
    ) -> tuple[list[Change], list[ObjectName]]:
        """A complete listing of a class has ended: what follows from what it did not show.

        Args:
            class_name: the class listed.
            seen: the objects that it showed.
            began: when it began (ns).
            lag: by how many nanoseconds it may lag behind events.
            now: the time (ns).
            hidden: whether the listing could not show an object although it exists.

        Returns:
            The ends of those that a former listing lacked too, and the names of those missed for the first
            time.
        """
        changes: list[Change] = []
        suspects: list[ObjectName] = []
        self._note_lagging(class_name, began - lag)
        without_ground = self._without_ground[class_name]
        for name in without_ground.keys() - seen:
            del without_ground[name]
        objects = self._objects[class_name]
        for known in [o for name, o in objects.items() if name not in seen]:
            if known.first_seen > began - lag or hidden(known):
                continue
            if known.missed:
                changes += self._removed(known, now, now)
            else:
                objects[known.name] = replace(known, missed=began)
                suspects.append(known.name)
        return changes, suspects

    def _note_lagging(self, class_name: str, until: int) -> None:
        """A listing knows of what was created ``until`` then: it may lack what existed before the start."""
        self._lagging = {name for name in self._lagging if name.class_name != class_name}
        # What was created later is not among the remembered, whatever the broker's clock says.
        if until < self._remembered_at:
            self._lagging |= {
                name
                for name, known in self._remembered.items()
                if name.class_name == class_name and known.created > until
            }

    def not_found(self, name: ObjectName, asked: int, now: int) -> list[Change]:
        """The object answered 404 to a request made at ``asked``."""
        known = self.get(name)
        if known is None or known.first_seen > asked - LISTING_LAG:
            return []
        return self._removed(known, now, now)

    def ended(self, name: ObjectName, now: int) -> list[Change]:
        """The object cannot exist any more; a listing that shows one of its name shows another."""
        return self._forgotten(self._objects[name.class_name][name], now)

    def confirmed(self, name: ObjectName) -> None:
        """The object answered: a listing that lacked it was wrong."""
        known = self.get(name)
        if known is not None:
            self._unconfirmed.discard(name)
            self._objects[name.class_name][name] = replace(known, missed=0)

    def out_of_sight(self, name: ObjectName, now: int) -> list[Change]:
        """The object may no longer be read: it stays, without statistics, unless it never was."""
        known = self._objects[name.class_name][name]
        if not known.listed:
            return self._forgotten(known, now)
        return self.without_statistics(name, now)

    def without_statistics(self, name: ObjectName, now: int) -> list[Change]:
        """The object's statistics are not known any more."""
        known = self._objects[name.class_name][name]
        if all(value is None for value in known.statistics):
            return []
        return self._kept(replace(known, statistics=(None,) * len(known.statistics), sampled=now), known)

    def measured(self, known: KnownObject, statistics: Values, sampled: int) -> list[Change]:
        """The object's statistics were ``statistics`` at ``sampled`` (ns)."""
        return self._kept(replace(known, statistics=statistics, sampled=sampled), known)

    def unread(self, class_name: str, now: int) -> list[Change]:
        """A class cannot be listed any more: of its objects only what events report is known."""
        names = list(self._objects[class_name])
        return [change for name in names for change in self.without_statistics(name, now)]

    def with_property(self, known: KnownObject, element: str, value: Value | None) -> list[Change]:
        """One property of the object is known again."""
        position = self._readers[known.name.class_name].schema.positions[element]
        properties = (*known.properties[:position], value, *known.properties[position + 1 :])
        return self._kept(replace(known, properties=properties), known)

    def forget_end(self, name: ObjectName) -> None:
        """Another of this name exists, but is not shown, or not yet: a listing that has it is no old one."""
        self._ends.pop(name, None)

    def forget_ends(self, of: Callable[[ObjectName], bool]) -> None:
        """The same of all whose names are such."""
        for name in [name for name in self._ends if of(name)]:
            del self._ends[name]

    def forget_old_ends(self, now: int) -> None:
        """Drop what was remembered of ends that no listing can be older than."""
        while self._ends:
            name, end = next(iter(self._ends.items()))
            if now - end.noticed <= REMEMBERED_FOR:
                return
            del self._ends[name]

    def _creation_time(self, reading: Reading) -> int:
        reader = self._readers[reading.name.class_name]
        if reader.rule.created is None:
            return 0
        time = reading.properties[reader.schema.positions[reader.rule.created]]
        return time if isinstance(time, int) else 0

    def _former(self, reading: Reading, created: int) -> KnownObject | None:
        """What was known before a restart of an object that a listing shows, which shows no time of creation.

        Where another has the name by now, the events of meanwhile, which come next, report that.
        """
        former = self._remembered.get(reading.name)
        if former is None or created or self._differs(former, reading, listed=former.listed):
            return None
        return former

    def _is_stale(self, name: ObjectName, created: int, began: int) -> bool:
        end = self._ends.get(name)
        if end is None or (created and end.created and created > end.created):
            return False
        return end.noticed > began - _listing_lag(name)

    def _is_of_former(self, known: KnownObject, created: int, began: int) -> bool:
        """Whether what a listing shows may be from before ``known`` took the name."""
        if created and known.created and created < known.created:
            return True
        end = self._ends.get(known.name)
        lag = _listing_lag(known.name)
        return not known.listed and not created and end is not None and end.noticed > began - lag

    def _differs(self, known: KnownObject, told: Reading, *, listed: bool) -> bool:
        """Whether what is settled at creation is reported otherwise, so that another object is meant.

        ``listed``: listings have shown both.
        """
        reader = self._readers[known.name.class_name]
        if reader.rule.created is not None:
            return False  # the time of its creation distinguishes them
        return any(
            kept and contradicts(new, old, listed=listed)
            for old, new, kept in zip(known.properties, told.properties, reader.keeps, strict=True)
        )

    def _merged(self, known: KnownObject, told: Values, *, keep_all: bool = False) -> Values:
        """``told`` over what is known: what stays known although it is not reported again.

        ``keep_all``: of an object that a listing has shown an event adds nothing but what is unknown.
        """
        keeps = self._readers[known.name.class_name].keeps
        return tuple(
            preferred(old, new, keep=kept, old_first=keep_all)
            for old, new, kept in zip(known.properties, told, keeps, strict=True)
        )

    def _added(
        self,
        reading: Reading,
        created: int,
        sampled: int,
        now: int,
        *,
        listed: bool = False,
        former: KnownObject | None = None,
    ) -> list[Change]:
        """``former``: it is this one, which was known before a restart."""
        objects = self._objects[reading.name.class_name]
        grounds = self.dependencies(reading)
        if grounds is None:
            without_ground = self._without_ground[reading.name.class_name]
            if listed and len(without_ground) < self._limit:
                depends_on = self._dependencies.of(reading.name, reading.properties)
                without_ground[reading.name] = next(one for one in depends_on if self.get(one) is None)
            return []
        if len(objects) >= self._limit:
            self.refused += 1
            return []
        # Where no creation was reported, and another had the name, the end of that one may not reach every
        # console.
        distinction = now if not created and reading.name in self._ends else created
        on = () if distinction else [ground.number for ground in grounds]
        if reading.name.class_name in WITHOUT_TIME:
            number = self.next_number(reading.name)
        else:
            number = object_number(reading.name, distinction, on)
            if not distinction and number in self._used:
                number = object_number(reading.name, now)
        known = KnownObject(
            name=reading.name,
            number=number if former is None else former.number,
            created=created if former is None else former.created,
            first_seen=now,
            properties=reading.properties,
            statistics=reading.statistics,
            sampled=sampled,
            listed=listed,
        )
        objects[known.name] = known
        self._dependencies.add(known.name, known.properties)
        self._remembered.pop(known.name, None)
        self._without_ground[known.name.class_name].pop(known.name, None)
        return [Put(known, new=True)]

    def next_number(self, name: ObjectName) -> int:
        """Return the number that an object of a class in `WITHOUT_TIME` gets which is not known yet.

        It is the same each time until such an object was known and has ended: what refers to a virtual host
        that was not seen yet refers to the right one.
        """
        life = 0
        while (number := object_number(name, life)) in self._used:
            life += 1
        return number

    def _kept(self, updated: KnownObject, former: KnownObject) -> list[Change]:
        self._objects[updated.name.class_name][updated.name] = updated
        if updated.name in self._unpublished:
            self._unpublished.discard(updated.name)
            return [Put(updated, new=True)]
        same = replace(updated, missed=former.missed, listed=former.listed) == former
        return [] if same else [Put(updated, former=former)]

    def _removed(
        self, known: KnownObject, time: int, now: int, *, reported: bool = False, implied: bool = False
    ) -> list[Change]:
        """``reported``: an event has reported its end; ``implied``: it has that of what this one hangs on."""
        changes: list[Change] = []
        for name in self._dependencies.dependents(known.name):
            hanging = self.get(name)  # unless it ended with another that hangs on this one
            if hanging is not None:
                changes += self._removed(hanging, time, now, implied=reported or implied)
        del self._objects[known.name.class_name][known.name]
        self._contradicted.pop(known.name, None)
        self._dependencies.remove(known.name, known.properties)
        self._unconfirmed.discard(known.name)
        self._unpublished.discard(known.name)
        self._remember_end(known.name, _End(now, known.created, None if reported else known))
        return [*changes, Gone(known, time, inferred=not (reported or implied))]

    def _forgotten(self, known: KnownObject, now: int) -> list[Change]:
        """As `_removed`, but a listing that shows one of its name is accepted at once."""
        changes = self._removed(known, now, now)
        self.forget_end(known.name)
        self._note_used(known)
        return changes

    def _note_used(self, known: KnownObject) -> None:
        """Give another of its name another number, although nothing reports when either was created."""
        self._used[known.number] = None
        if len(self._used) > REMEMBERED_ENDS:
            self._used.popitem(last=False)

    def _remember_end(self, name: ObjectName, end: _End) -> None:
        self._ends[name] = end
        self._ends.move_to_end(name)
        if len(self._ends) > REMEMBERED_ENDS:
            self._ends.popitem(last=False)


class Dependencies:
    """Knows of each object what it hangs on, and what hangs on it.

    Args:
        readers: the reader of each class, whose rule says which references these are (``ends_with``).
    """

    def __init__(self, readers: Mapping[str, ClassReader]) -> None:
        self._readers = readers
        self._references = {
            name: tuple(
                (reader.schema.positions[element], reader.rule.properties[element].references)
                for element in reader.rule.ends_with
            )
            for name, reader in readers.items()
        }
        self._dependents: dict[ObjectName, dict[ObjectName, None]] = {}

    def of(self, name: ObjectName, properties: Values) -> tuple[ObjectName, ...]:
        """What an object with these properties hangs on."""
        found = (
            target_of(self._readers, name, class_name, properties[position])
            for position, class_name in self._references[name.class_name]
        )
        return tuple(ground for ground in found if ground is not None)

    def add(self, name: ObjectName, properties: Values) -> None:
        """There is such an object now."""
        for ground in self.of(name, properties):
            self._dependents.setdefault(ground, {})[name] = None

    def remove(self, name: ObjectName, properties: Values) -> None:
        """There is no such object any more."""
        for ground in self.of(name, properties):
            hanging = self._dependents.get(ground)
            if hanging is not None:
                hanging.pop(name, None)
                if not hanging:
                    del self._dependents[ground]

    def dependents(self, name: ObjectName) -> tuple[ObjectName, ...]:
        """What hangs on an object, in the order in which it came."""
        return tuple(self._dependents.get(name, ()))


def _listing_lag(name: ObjectName) -> int:
    """By how many nanoseconds a listing of an object's class may lag behind what was noticed of it."""
    return UNDER_WAY if name.class_name in WITHOUT_TIME else LISTING_LAG


def contradicts(new: Value | None, old: Value | None, *, listed: bool) -> bool:
    """Whether one object cannot have had both values; what an event reports may lack entries of a table."""
    if old is None or new is None:
        return False
    if listed or not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return old != new
    common = [(value, new[key]) for key, value in old.items() if key in new]
    return any(
        isinstance(one, bool | int | str) and type(one) is type(other) and one != other
        for one, other in common
    )


def preferred(old: Value | None, new: Value | None, *, keep: bool, old_first: bool) -> Value | None:
    """Which of two values of one element holds: the ``old_first`` if there is one, else the new.

    ``keep``: it was settled at creation, so that an answer that lacks it says nothing.
    """
    if old_first:
        return new if old is None else old
    return old if new is None and keep else new
