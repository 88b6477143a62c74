"""Objects of a broker from before the gateway's start: it has to be found out which of them still exist.

Either the events of meanwhile are about to report which have ended: then they are restored. Or listings have
to show which exist: then they are remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain

from gateway.sources.rabbitmq.object_lives import Change, Gone, KnownObject, ObjectTable, Put
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.reading import ClassReader

_PROOF = 2
"""Number of complete listings that must lack an object: one alone may be incomplete, or from a cache."""


class RememberedObjects:
    """Objects that existed before the start; it is unknown whether they still exist."""

    def __init__(self) -> None:
        self._objects: dict[ObjectName, KnownObject] = {}
        self._lagging: set[ObjectName] = set()
        self._listings: Counter[str] = Counter()
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
        """Take one more, of which no listing has been evaluated."""
        self._objects[known.name] = known
        self._listings.pop(known.name.class_name, None)

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

    def listed(self, class_name: str, until: int) -> None:
        """Take note of a complete listing that may lack objects that were created after ``until`` (ns)."""
        self._listings[class_name] += 1
        self._lagging = {name for name in self._lagging if name.class_name != class_name}
        # None of these objects was created after the start, whatever the broker's clock says.
        if until < self._started_at:
            self._lagging |= {
                name
                for name, known in self._objects.items()
                if name.class_name == class_name and max(known.created, known.announced) > until
            }

    def of_class(self, class_name: str) -> Iterator[KnownObject]:
        """Yield the objects of a class."""
        return (known for known in self._objects.values() if known.name.class_name == class_name)

    def lagging(self, class_name: str) -> Iterator[KnownObject]:
        """Yield the objects of a class that its listings may lack although they exist."""
        is_proven = self._listings[class_name] >= _PROOF
        for known in self.of_class(class_name):
            if not is_proven or known.name in self._lagging:
                yield known

    def lacking(self, class_name: str, seen: Container[ObjectName]) -> Iterator[KnownObject]:
        """Yield the objects of a class that a listing lacks, which showed ``seen``, and is the first."""
        if self._listings[class_name] < _PROOF:
            yield from (known for known in self.of_class(class_name) if known.name not in seen)

    def lacked(self, known: KnownObject) -> bool:
        """Return whether listings have shown that an object has ended."""
        return self._listings[known.name.class_name] >= _PROOF and known.name not in self._lagging


class FormerObjects(ObjectTable):
    """The objects that are known, with those that are remembered or restored from before the start.

    Args:
        readers: the reader of each class.
    """

    def __init__(self, readers: Mapping[str, ClassReader]) -> None:
        super().__init__(readers)
        self._remembered = RememberedObjects()
        self._restored_at = self._restored_until = 0

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
        """End those objects from before the start of which ``ended`` says that they cannot exist any more.

        What depends on them ended with them.
        """
        gone = self._remembered.remove(ended)
        owners = {known.name for known in gone}
        while owners:
            newly = self._remembered.remove(partial(self._depends_on, owners))
            owners = {known.name for known in newly}
            gone += newly
        for known in gone:
            self.ends.reserve(known.number)
        changes: list[Change] = [Gone(known, now, inferred=True) for known in gone]
        # Those that could not be read since are known already.
        every = chain.from_iterable(objects.values() for objects in self._objects.values())
        for known in [one for one in every if one.unread_since and not one.first_seen and ended(one)]:
            changes += self.ended(known.name, now) if self.get(known.name) is not None else []
        return changes

    def _depends_on(self, owners: set[ObjectName], known: KnownObject) -> bool:
        return not owners.isdisjoint(self._dependencies.of(known.name, known.properties))

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

    def _remembered_as_unread(
        self, class_name: str, now: int, only: ObjectName | None = None
    ) -> list[Change]:
        """Show the objects of a class from before the start, or ``only`` one of them: they cannot be read."""
        if only is None:
            found = self._remembered.remove(lambda one: one.name.class_name == class_name)
        else:
            found = [one for one in (self._remembered.pop(only),) if one is not None]
        changes: list[Change] = []
        for known in found:
            shown = replace(known, unread_since=now, first_seen=0, presumed=True)
            self._objects[class_name][known.name] = shown
            self._dependencies.add(known.name, known.properties)
            changes.append(Put(shown, new=True))
        return changes

    def without_owner(self, readable: Container[str], now: int) -> list[Change]:
        """End unread objects that depend on one that does not exist, as listings of its class show."""
        changes: list[Change] = []
        for known in [one for objects in self._objects.values() for one in objects.values()]:
            if known.unread_since and self.get(known.name) is not None:  # it may have ended with another one
                owners = self._dependencies.of(known.name, known.properties)
                lacking = any(self.get(one) is None for one in owners if one.class_name in readable)
                changes += self._removed(known, now, now) if lacking else []
        return changes
