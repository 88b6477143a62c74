"""The tables by which front ends decide what each principal reads; the core compiles them from the roles.

Principals with the same rules share a *clearance*, a number that is valid until the next `PolicyRecord`. For
each version of a class, a `ClassAccessRecord` has what each clearance reads of it, as grants whose elements
are a bitmap. A front end evaluates the grants once for an object, when it is shown, to one integer for each
clearance: bit *n* says that the element at position *n* is read. An object with no bit does not exist for
that clearance.

Everything that is not granted is denied, also what no table has. A clearance that is not restricted needs no
tables: it reads every bit.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

import msgspec

from gateway.feed.values import FeedStruct, ObjectLink
from gateway.model.stable_names import without_distinction

Patterns: TypeAlias = tuple[str, ...]

Vector: TypeAlias = tuple[int, ...]
"""What each clearance reads of an object: bit *n* stands for the element at position *n*.

Equal vectors of one class are the same tuple.
"""

EVERYTHING: Final = -1
"""What a clearance reads that is not restricted: every bit."""

GATEWAY_NAME: Final = "gateway"
"""The name of the gateway itself where rules name sources."""

_ALL: Final = ("*",)


class ReadGrant(FeedStruct, frozen=True):
    """A grant, or denial, of elements of a class.

    ``elements`` is a bitmap, least significant byte first.
    """

    sources: Patterns
    objects: Patterns
    elements: bytes
    denies: bool = False


class NameGrant(FeedStruct, frozen=True):
    """A grant, or denial, of what has a name: events, alarms, others' operations, sources (without classes).

    ``classes`` and ``objects`` are those of the object concerned.
    """

    sources: Patterns
    classes: Patterns = _ALL
    objects: Patterns = _ALL
    names: Patterns = _ALL
    denies: bool = False


class Clearance(FeedStruct, frozen=True):
    """What principals with the same rules read, as far as it does not depend on a class.

    Attributes:
        roles: the names of their roles, for people.
        unrestricted: they read everything.
        counts: they read everything but what is private, and so are shown counts of all objects and events.
        sources: the sources that they see.
        alarms: the alarms, by ``package:alarm`` of the object's package; ``gateway`` without an object.
        operations: the operations of other principals.
        changes: they may set or call something, or have it read again.
        digest: of all the rules: another one is another clearance, also where only the tables of classes and
            events differ.
    """

    roles: tuple[str, ...]
    unrestricted: bool
    sources: tuple[NameGrant, ...]
    alarms: tuple[NameGrant, ...]
    operations: tuple[NameGrant, ...]
    changes: bool = False
    digest: bytes = b""
    counts: bool = False


class PolicyRecord(FeedStruct, frozen=True, tag="policy"):
    """The clearances of all principals. It begins every snapshot; a new policy begins a new snapshot.

    Attributes:
        principals: the number of the clearance of each principal that the configuration names.
        others: that of the other principals of a front end, by its name (``snmp``).
        clearances: the clearances in the order of their numbers.
    """

    principals: Mapping[str, int]
    others: Mapping[str, int]
    clearances: tuple[Clearance, ...]


class Quoted(FeedStruct, frozen=True):
    """What the text of an alarm, or of its beginning or end, quotes.

    Attributes:
        elements: names of elements of the object that it is about.
        links: objects, of the same source, that the values name.
        event: the event, ``package:name``, whose text it is; empty where it is of no event.
    """

    elements: tuple[str, ...] = ()
    links: tuple[ObjectLink, ...] = ()
    event: str = ""


class ClassAccessRecord(FeedStruct, frozen=True, tag="class-access"):
    """What each clearance reads of a version of a class, whose record it follows.

    Attributes:
        class_number: the number of the class.
        class_name: ``package:class``.
        name: the elements that an object's name is made of, a bitmap.
        reads: by clearance.
        writes: likewise, the elements that may be set; those who read everything have no more than others.
        invokes: likewise, the methods that may be called: bit *n* stands for the method at position *n*, and
            the bit behind them for reading the object again.
        elements: the names of the elements, by position.
        parent: the elements that may refer to an object's parent, a bitmap.
    """

    class_number: int
    class_name: str
    name: bytes
    reads: tuple[tuple[ReadGrant, ...], ...]
    writes: tuple[tuple[ReadGrant, ...], ...] = ()
    invokes: tuple[tuple[ReadGrant, ...], ...] = ()
    elements: tuple[str, ...] = ()
    parent: bytes = b""


class EventAccessRecord(FeedStruct, frozen=True, tag="event-access"):
    """What each clearance receives of an event, whose class record it follows.

    Attributes:
        class_number: the number of the event's class.
        package: the package of the event.
        private: the arguments that are private, a bitmap.
        receives: who receives the event, by clearance; ``names`` are unused.
        reveals: who receives its private arguments, too; likewise.
        name: the name of the event in its package.
    """

    class_number: int
    package: str
    private: bytes
    receives: tuple[tuple[NameGrant, ...], ...]
    reveals: tuple[tuple[NameGrant, ...], ...]
    name: str = ""


class OperationShown(enum.Enum):
    """How much of an operation a principal is shown."""

    NOTHING = 0
    WITHOUT_OBJECT = 1
    """As an attempt on an object that there is not (`OperationRecord.without_object`)."""
    WHOLE = 2


class Received(enum.Enum):
    """How much of an event a clearance receives."""

    NOTHING = 0
    WITHOUT_PRIVATE = 1
    """Private arguments are absent, and the text, which may contain them, is the event's label."""
    WITHOUT_TEXT = 2
    """The text, which quotes elements that are not read, is the event's label."""
    WHOLE = 3


AccessRecord: TypeAlias = PolicyRecord | ClassAccessRecord | EventAccessRecord


class _OfSource(msgspec.Struct, frozen=True):
    """The grants of a class for one source: those of all its objects added up, and those of some.

    ``whole`` is what each clearance reads of every object, whatever its name is.
    """

    whole: Vector
    allowed: Vector
    denied: Vector
    some: tuple[tuple[ReadGrant, ...], ...]
    is_uniform: bool


class ClassAccess:
    """What clearances read of a version of a class, and what they may change.

    Args:
        record: the table.
        unrestricted: by clearance, whether it reads everything.

    Attributes:
        class_name: ``package:class``.
        name: the elements that an object's name is made of.
        positions: the positions of the elements by their names.
    """

    def __init__(self, record: ClassAccessRecord, unrestricted: Sequence[bool]) -> None:
        self.class_name = record.class_name
        self.name = mask_of(record.name)
        self._parent = mask_of(record.parent)
        self.positions = {name: position for position, name in enumerate(record.elements)}
        self._reads = _GrantTable(record.reads, unrestricted)
        self._writes = _GrantTable(record.writes or ((),) * len(unrestricted))
        self._invokes = _GrantTable(record.invokes or ((),) * len(unrestricted))

    def vector(self, source: str, object_name: str) -> Vector:
        """Return what each clearance reads of an object of a source, both by name."""
        return self._reads.vector(source, object_name)

    def writes(self, source: str, object_name: str) -> Vector:
        """Return what each clearance may set of an object; as `vector`."""
        return self._writes.vector(source, object_name)

    def invokes(self, source: str, object_name: str) -> Vector:
        """Return which methods of an object each clearance may call, by position.

        The bit behind those of the methods stands for reading the object again.
        """
        return self._invokes.vector(source, object_name)

    def is_uniform(self, source: str) -> bool:
        """Return whether all objects of a source have the same vector."""
        return self._reads.is_uniform(source)

    def whole(self, source: str) -> Vector:
        """Return what each clearance reads of every object of a source, also of those to come."""
        return self._reads.whole(source)

    def names(self, mask: int) -> bool:
        """Return whether the name of an object is read by a clearance that reads these elements."""
        return mask != 0 and self.name & ~mask == 0

    def shows_parent(self, mask: int) -> bool:
        """Return whether a clearance that reads these elements may know the parent of an object."""
        return self._parent & ~mask == 0


class _GrantTable:
    """Grants of a class, by clearance.

    Args:
        grants: the grants of each clearance.
        unrestricted: by clearance, whether it has everything.
    """

    def __init__(self, grants: tuple[tuple[ReadGrant, ...], ...], unrestricted: Sequence[bool] = ()) -> None:
        self._grants = grants
        self._unrestricted = tuple(unrestricted) or (False,) * len(grants)
        self._sources: dict[str, _OfSource] = {}
        self._vectors: dict[Vector, Vector] = {}

    def vector(self, source: str, object_name: str) -> Vector:
        of_source = self._of_source(source)
        if of_source.is_uniform:
            return of_source.allowed
        vector = tuple(
            _read(allowed, denied, some, object_name)
            for allowed, denied, some in zip(of_source.allowed, of_source.denied, of_source.some, strict=True)
        )
        return self._vectors.setdefault(vector, vector)

    def is_uniform(self, source: str) -> bool:
        return self._of_source(source).is_uniform

    def whole(self, source: str) -> Vector:
        return self._of_source(source).whole

    def _of_source(self, source: str) -> _OfSource:
        of_source = self._sources.get(source)
        if of_source is None:
            of_source = self._sources[source] = self._added_up(source)
        return of_source

    def _added_up(self, source: str) -> _OfSource:
        allowed: list[int] = []
        denied: list[int] = []
        some: list[tuple[ReadGrant, ...]] = []
        for unrestricted, grants in zip(self._unrestricted, self._grants, strict=True):
            if unrestricted:
                allowed.append(EVERYTHING)
                denied.append(0)
                some.append(())
                continue
            of_source = [grant for grant in grants if fits(source, grant.sources)]
            of_all = [grant for grant in of_source if "*" in grant.objects]
            allowed.append(_sum(grant.elements for grant in of_all if not grant.denies))
            denied.append(_sum(grant.elements for grant in of_all if grant.denies))
            some.append(tuple(grant for grant in of_source if "*" not in grant.objects))
        denied_somewhere = [
            no | _sum(grant.elements for grant in grants if grant.denies)
            for no, grants in zip(denied, some, strict=True)
        ]
        whole = tuple(yes & ~no for yes, no in zip(allowed, denied_somewhere, strict=True))
        whole = self._vectors.setdefault(whole, whole)
        if any(some):
            return _OfSource(whole, tuple(allowed), tuple(denied), tuple(some), is_uniform=False)
        return _OfSource(whole, whole, (), (), is_uniform=True)


class AccessTables:
    """The tables of a front end, as the feed has sent them; without them nothing is read."""

    def __init__(self) -> None:
        self._policy = PolicyRecord({}, {}, ())
        self._unrestricted: tuple[bool, ...] = ()
        self._without_table: Vector = ()
        self._classes: dict[int, ClassAccess] = {}
        self._by_name: dict[str, list[ClassAccess]] = {}
        self._events: dict[int, EventAccessRecord] = {}
        self._events_by_name: dict[str, list[int]] = {}

    def take(self, record: AccessRecord) -> bool:
        """Take a table; return whether it is a policy with other clearances than before.

        Numbers of clearances, and vectors, are invalid then.
        """
        match record:
            case PolicyRecord():
                has_changed = record != self._policy
                self._policy = record
                self._unrestricted = tuple(clearance.unrestricted for clearance in record.clearances)
                self._without_table = tuple(EVERYTHING if every else 0 for every in self._unrestricted)
                self.core_restarted()
                return has_changed
            case ClassAccessRecord(class_number, class_name):
                access = self._classes[class_number] = ClassAccess(record, self._unrestricted)
                self._by_name.setdefault(class_name, []).append(access)
            case EventAccessRecord(class_number, package):
                self._events[class_number] = record
                self._events_by_name.setdefault(f"{package}:{record.name}", []).append(class_number)
        return False

    def core_restarted(self) -> None:
        """Forget the tables of classes and events, which have other numbers now."""
        self._classes.clear()
        self._by_name.clear()
        self._events.clear()
        self._events_by_name.clear()

    @property
    def clearances(self) -> tuple[Clearance, ...]:
        """All clearances, in the order of their numbers."""
        return self._policy.clearances

    @property
    def principals(self) -> Mapping[str, int]:
        """The numbers of the clearances of principals that the configuration names."""
        return self._policy.principals

    def clearance(self, principal: str) -> int | None:
        """Return the number of the clearance of a principal (``front end:name``); ``None`` for none."""
        number = self._policy.principals.get(principal)
        return self._policy.others.get(principal.partition(":")[0]) if number is None else number

    def vector(self, class_number: int, source: str, object_name: str) -> Vector:
        """Return what each clearance reads of an object.

        Args:
            class_number: the number of the version of its class.
            source: the name of its source.
            object_name: its stable name.
        """
        access = self._classes.get(class_number)
        return self._without_table if access is None else access.vector(source, object_name)

    def of_class(self, number: int) -> ClassAccess | None:
        """Return what clearances read of a version of a class; ``None`` without a table."""
        return self._classes.get(number)

    def reads_named(self, clearance: int, source: str, link: ObjectLink | None) -> bool:
        """Return whether an object exists for a clearance, with its name.

        In doubt, of several versions of its class, every one decides. Without an object it is the source.
        """
        if self._unrestricted[clearance]:
            return True
        if link is None:
            return self.sees_source(clearance, source)
        versions = self._by_name.get(link.class_name, ())
        return bool(versions) and all(
            access.names(access.vector(source, link.stable_name)[clearance]) for access in versions
        )

    def reads(self, clearance: int, source: str, link: ObjectLink) -> int:
        """Return what a clearance reads of an object, 0 for none; of several versions what all have."""
        versions = self._by_name.get(link.class_name, ())
        mask = EVERYTHING if versions else self._without_table[clearance]
        for access in versions:
            mask &= access.vector(source, link.stable_name)[clearance]
        return mask

    def sees_source(self, clearance: int, source: str) -> bool:
        """Return whether a source exists for a clearance."""
        clearances = self._policy.clearances
        return self._unrestricted[clearance] or _granted(clearances[clearance].sources, source, "", "", "")

    def receives_event(
        self,
        clearance: int,
        number: int,
        source: str,
        subject: ObjectLink | None,
        condition: str = "",
        quoted: Quoted | None = None,
    ) -> Received:
        """Return how much of an event a clearance receives.

        An event that begins or ends an alarm is only for those who see that alarm.

        Args:
            clearance: the number of the clearance.
            number: the number of the event's class.
            source: the name of the source.
            subject: the object concerned.
            condition: the condition of the alarm that it begins or ends; empty for none.
            quoted: what the text quotes beside arguments; ``None`` where it is not known.
        """
        if self._unrestricted[clearance]:
            return Received.WHOLE
        access = self._events.get(number)
        if access is None:
            return Received.NOTHING
        concerned = _object(subject, access.package)
        if (
            not _granted(access.receives[clearance], source, *concerned, "")
            or not self.reads_named(clearance, source, subject)
            or (condition and not self.sees_alarm(clearance, alarm_of(condition), source, subject))
        ):
            return Received.NOTHING
        if access.private and not _granted(access.reveals[clearance], source, *concerned, ""):
            return Received.WITHOUT_PRIVATE
        # The text of an agent's event quotes nothing but its arguments.
        is_of_values = subject is not None and access.package == GATEWAY_NAME
        if is_of_values and not self.reads_text(clearance, source, subject, quoted):
            return Received.WITHOUT_TEXT
        return Received.WHOLE

    def reads_text(
        self, clearance: int, source: str, subject: ObjectLink | None, quoted: Quoted | None
    ) -> bool:
        """Return whether a clearance that sees an alarm reads all that its text quotes.

        Args:
            clearance: the number of the clearance.
            source: the name of the source.
            subject: the object that the alarm is about.
            quoted: what the text quotes; ``None`` where it is not known.
        """
        if self._unrestricted[clearance]:
            return True
        if quoted is None or not all(self.reads_named(clearance, source, link) for link in quoted.links):
            return False
        if quoted.event:
            numbers = self._events_by_name.get(quoted.event, ())
            return bool(numbers) and all(
                self.receives_event(clearance, number, source, subject, quoted=Quoted()) is Received.WHOLE
                for number in numbers
            )
        return not quoted.elements or (
            subject is not None
            and all(self._reads_element(clearance, source, subject, name) for name in quoted.elements)
        )

    def _reads_element(self, clearance: int, source: str, link: ObjectLink, element: str) -> bool:
        """Return whether every version of a class that has an element lets a clearance read it."""
        masks = [
            access.vector(source, link.stable_name)[clearance] >> access.positions[element]
            for access in self._by_name.get(link.class_name, ())
            if element in access.positions
        ]
        return bool(masks) and all(mask & 1 for mask in masks)

    def event_named(self, name: str) -> int | None:
        """Return the number of an event, ``package:name``; ``None`` where its versions differ in privacy."""
        numbers = self._events_by_name.get(name, [])
        return numbers[0] if len({self._events[each].private for each in numbers}) == 1 else None

    def private_arguments(self, number: int) -> int:
        """Return the private arguments of an event: bit *n* stands for the argument at position *n*."""
        access = self._events.get(number)
        return 0 if access is None else mask_of(access.private)

    def sees_alarm(self, clearance: int, name: str, source: str, subject: ObjectLink | None) -> bool:
        """Return whether an alarm is for a clearance.

        Args:
            clearance: the number of the clearance.
            name: the kind of the alarm.
            source: the name of its source.
            subject: the object concerned.
        """
        if self._unrestricted[clearance]:
            return True
        package = subject.class_name.partition(":")[0] if subject is not None else GATEWAY_NAME
        grants = self._policy.clearances[clearance].alarms
        concerned = _object(subject, package)
        return _granted(grants, source, *concerned, f"{package}:{name}") and self.reads_named(
            clearance, source, subject
        )

    def shown_operation(
        self, clearance: int, principal: str, requester: str, source: str, link: ObjectLink
    ) -> OperationShown:
        """Return how much of the record of an operation is for a principal.

        What the principal tried itself is always shown, without the object if that has no name for it: so
        the record does not show whether there is one.

        Args:
            clearance: the number of the clearance of the principal.
            principal: the principal who reads.
            requester: the principal who requested it.
            source: the name of the source.
            link: the object; its row is 0, and its name empty, where there is none.
        """
        if self._unrestricted[clearance]:
            return OperationShown.WHOLE
        has_object = bool(link.row or link.stable_name)
        is_named = has_object and self.reads_named(clearance, source, link)
        if principal == requester:
            return OperationShown.WHOLE if is_named else OperationShown.WITHOUT_OBJECT
        grants = self._policy.clearances[clearance].operations
        is_granted = _granted(grants, source, link.class_name, link.stable_name, "")
        return OperationShown.WHOLE if is_granted and (is_named or not has_object) else OperationShown.NOTHING


def alarm_of(condition: str) -> str:
    """Return the name of an alarm, with which each of its conditions begins."""
    return condition.split(" ", 1)[0]


def mask_of(bitmap: bytes) -> int:
    """Return a bitmap as an integer."""
    return int.from_bytes(bitmap, "little")


def bitmap_of(positions: Iterable[int]) -> bytes:
    """Return the bitmap of positions."""
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def _sum(bitmaps: Iterable[bytes]) -> int:
    mask = 0
    for bitmap in bitmaps:
        mask |= mask_of(bitmap)
    return mask


def _read(allowed: int, denied: int, some: Sequence[ReadGrant], object_name: str) -> int:
    for grant in some:
        if fits_object(object_name, grant.objects):
            if grant.denies:
                denied |= mask_of(grant.elements)
            else:
                allowed |= mask_of(grant.elements)
    return allowed & ~denied


def _granted(grants: Iterable[NameGrant], source: str, class_name: str, object_name: str, name: str) -> bool:
    granted = False
    for grant in grants:
        if (
            fits(source, grant.sources)
            and fits(class_name, grant.classes)
            and fits_object(object_name, grant.objects)
            and fits(name, grant.names)
        ):
            if grant.denies:
                return False
            granted = True
    return granted


def _object(subject: ObjectLink | None, package: str) -> tuple[str, str]:
    """Return class and name as rules name them; where there is no object, the class is the package alone."""
    return (f"{package}:", "") if subject is None else (subject.class_name, subject.stable_name)


def fits(text: str, patterns: Patterns) -> bool:
    """Return whether a text matches one of the patterns, which are those of a shell, with case."""
    return any(pattern == "*" or fnmatchcase(text, pattern) for pattern in patterns)


def fits_object(stable_name: str, patterns: Patterns) -> bool:
    """Return whether an object's name matches one of the patterns.

    They are for names without what distinguishes transient objects of one name; one that has a ``#`` is for
    the whole name, too.
    """
    plain = without_distinction(stable_name)
    if fits(plain, patterns):
        return True
    return plain is not stable_name and fits(stable_name, tuple(one for one in patterns if "#" in one))
