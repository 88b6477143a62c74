"""What each user of JMX sees, by the tables of the policy that the feed carries (`gateway.feed.access`).

The virtual machine knows users by numbers, the places of their names in a list. What exists of an object for
each of them is an *access*, which objects of a class share: it is decided here, once when an object is shown,
and the virtual machine only looks it up. An MBean exists for a user who reads the object's name; a reference
to an object that does not exist is null.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from gateway.feed.access import (
    EVERYTHING,
    GATEWAY_NAME,
    AccessTables,
    ClassAccess,
    OperationShown,
    Received,
    Vector,
    bitmap_of,
)
from gateway.feed.cleared import shown_alarm
from gateway.feed.operations import OperationKind, OperationRecord
from gateway.feed.records import AlarmRecord, EventRecord
from gateway.feed.values import FeedValue, ObjectLink, links_in
from gateway.jmx.classes import Own, ShownClass
from gateway.jmx.commands import NOTHING, ChangePolicy, Command, DefineAccess, Rights
from gateway.model.operations import Principal
from gateway.model.schema import ClassSchema

Answer = TypeVar("Answer")

Hidden = frozenset[int] | None
"""The positions of the arguments of an event that a user does not receive; ``None``: not the event."""

TEXT: Final = -1
"""Stands among those positions for the text of the event, where it quotes elements that are not read."""

WHOLE: Final = 0
"""An operation is shown with everything."""

WITHOUT_VALUES: Final = 1
"""It is shown without the names and values of elements, and without the text, which may contain them."""

WITHOUT_OBJECT: Final = 2
"""It is shown as an attempt on an object that there is not (`OperationRecord.without_object`)."""

_WHOLE: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class ObjectAccess:
    """What users see of an object; objects of a class that all see alike share it.

    Attributes:
        number: its number in the virtual machine.
        reads: by user, the elements that are read: bit *n* stands for the element at position *n*; 0 where
            the object does not exist for the user.
        seen_by: the users for whom the object exists: bit *n* stands for the user of number *n*.
    """

    number: int
    reads: tuple[int, ...]
    seen_by: int


class Audience:
    """The users, and the policy as the feed has it now.

    Args:
        users: the names of the users.
        tables: the tables of the feed.
        send: takes commands for the virtual machine.

    Attributes:
        users: the names of the users, in the order of their numbers.
        unrestricted: whether a user reads everything, by user.
        counts: whether a user is shown counts of all objects and events, by user.
    """

    def __init__(self, users: Iterable[str], tables: AccessTables, send: Callable[[Command], None]) -> None:
        self.users = tuple(users)
        self._principals = tuple(str(Principal("jmx", user)) for user in self.users)
        self._tables = tables
        self._send = send
        self._new_number = itertools.count(1).__next__
        self._clearances: tuple[int | None, ...] = (None,) * len(self.users)
        self.unrestricted = (False,) * len(self.users)
        self.counts = (False,) * len(self.users)
        self._of_classes: dict[int, tuple[ShownClass, dict[tuple[Vector, ...], ObjectAccess]]] = {}
        self._of_own: dict[tuple[int, tuple[bytes | None, ...]], int] = {}

    @property
    def everybody(self) -> int:
        """The users who are not restricted, as a bitmap."""
        return _bits(self.unrestricted)

    def policy_changed(self) -> None:
        """Use the clearances of another policy; no `ObjectAccess` is valid any more."""
        tables = self._tables
        self._clearances = tuple(tables.clearance(principal) for principal in self._principals)
        self.unrestricted = tuple(
            number is not None and tables.clearances[number].unrestricted for number in self._clearances
        )
        self.counts = tuple(
            number is not None and tables.clearances[number].counts for number in self._clearances
        )
        self._of_classes.clear()
        self._of_own.clear()
        changing = tuple(
            number is not None and tables.clearances[number].changes for number in self._clearances
        )
        self._send(ChangePolicy(self.unrestricted, changing))

    # ---- MBeans -------------------------------------------------------------------------------------------

    def of_object(self, shown: ShownClass, number: int, source: str, stable_name: str) -> ObjectAccess:
        """Return what users see of an object.

        Args:
            shown: its class, which the virtual machine knows.
            number: the number of its class in the feed.
            source: the name of its source.
            stable_name: its stable name.
        """
        table = self._tables.of_class(number)
        reads = self._tables.vector(number, source, stable_name)
        vectors = (
            reads,
            *((table.writes(source, stable_name), table.invokes(source, stable_name)) if table else ()),
        )
        known = self._of_classes.get(shown.number)
        if known is None or known[0] is not shown:
            # The virtual machine has another class of this number now.
            known = self._of_classes[shown.number] = (shown, {})
        access = known[1].get(vectors)
        if access is None:
            access = known[1][vectors] = self._new_access(shown, table, vectors)
        return access

    def _new_access(
        self, shown: ShownClass, table: ClassAccess | None, vectors: tuple[Vector, ...]
    ) -> ObjectAccess:
        def read(clearance: int) -> int:
            mask = vectors[0][clearance]
            return mask if mask == EVERYTHING or (table is not None and table.names(mask)) else 0

        def rights(clearance: int) -> Rights | None:
            masks = [vector[clearance] for vector in vectors[1:]] or (0, 0)
            mask = read(clearance)
            own = [one for one in Own if one is not Own.PARENT or table is None or table.shows_parent(mask)]
            return _rights(shown, own, mask, *masks) if mask else None

        reads = self._of_users(read, 0)
        access = self._define(shown.number, self._of_users(rights, None))
        return ObjectAccess(access, reads, _bits(reads))

    def of_own(self, class_number: int, rights: Sequence[Rights | None]) -> int:
        """Return the number of the access to an MBean of the gateway itself; ``None`` for nothing of it."""
        key = class_number, tuple(b"" if each is None else each.reads for each in rights)
        number = self._of_own.get(key)
        if number is None:
            number = self._of_own[key] = self._define(class_number, rights)
        return number

    def _define(self, class_number: int, rights: Sequence[Rights | None]) -> int:
        distinct = tuple(dict.fromkeys(each for each in rights if each is not None))
        choices = tuple(NOTHING if each is None else distinct.index(each) for each in rights)
        number = self._new_number()
        self._send(DefineAccess(number, class_number, distinct, choices))
        return number

    # ---- everything else ----------------------------------------------------------------------------------

    def sees_source(self, source: str) -> tuple[bool, ...]:
        """Return whether a source exists, by user; the gateway itself is `GATEWAY_NAME`."""
        return self._of_users(lambda clearance: self._tables.sees_source(clearance, source), default=False)

    def reads_named(self, source: str, link: ObjectLink) -> tuple[bool, ...]:
        """Return whether an object exists, or existed, by user."""
        return self._of_users(
            lambda clearance: self._tables.reads_named(clearance, source, link), default=False
        )

    def of_alarm(self, record: AlarmRecord, source: str) -> tuple[AlarmRecord | None, ...]:
        """Return an alarm as it is shown, by user; ``None`` for nothing (`shown_alarm`)."""
        return self._of_users(lambda clearance: shown_alarm(self._tables, clearance, record, source), None)

    def receives(self, record: EventRecord, source: str, references: Collection[int]) -> tuple[Hidden, ...]:
        """Return which arguments of an event are hidden, by user; ``None`` where it is not received.

        Args:
            record: the event.
            source: the name of its source.
            references: the positions of the arguments that refer to objects.
        """
        tables, number = self._tables, record.class_number
        links = [
            (position, link)
            for position, value in record.values.items()
            # A reference to no object that is known may be to any.
            for link in ((value,) if position in references else links_in(value))
        ]

        def receive(clearance: int) -> Hidden:
            received = tables.receives_event(
                clearance, number, source, record.subject, record.condition, record.quoted
            )
            if received is Received.NOTHING:
                return None
            if tables.clearances[clearance].unrestricted:
                return _WHOLE
            hidden = {
                position
                for position, link in links
                if not isinstance(link, ObjectLink) or not tables.reads_named(clearance, source, link)
            }
            if received is Received.WITHOUT_PRIVATE:
                hidden.update(_positions(tables.private_arguments(number)))
            if received is Received.WITHOUT_TEXT:
                hidden.add(TEXT)
            return frozenset(hidden)

        return self._of_users(receive, None)

    def _shown_operation(self, record: OperationRecord, source: str) -> tuple[OperationShown, ...]:
        """Return how much of an operation is shown, by user; own ones always are."""
        link = ObjectLink(record.class_name, record.row, record.stable_name)
        requester = str(record.principal)
        return tuple(
            OperationShown.NOTHING
            if clearance is None
            else self._tables.shown_operation(clearance, principal, requester, source, link)
            for clearance, principal in zip(self._clearances, self._principals, strict=True)
        )

    def sees_values(self, values: Iterable[FeedValue], source: str) -> tuple[bool, ...]:
        """Return whether all references among these values lead to objects that exist, by user."""
        seen = [True] * len(self.users)
        for value in values:
            if isinstance(value, ObjectLink):
                seen = [
                    so_far and named
                    for so_far, named in zip(seen, self.reads_named(source, value), strict=True)
                ]
        return tuple(seen)

    def of_operation(
        self, record: OperationRecord, source: str, access: ObjectAccess | None, schema: ClassSchema | None
    ) -> tuple[int, ...]:
        """Return how much of an operation is shown, by user.

        That is `WHOLE`, `WITHOUT_VALUES`, `WITHOUT_OBJECT`, or `NOTHING`.

        Args:
            record: the operation.
            source: the name of its source.
            access: what users see of the object; ``None`` if there is none.
            schema: the class of the object; likewise.
        """
        shown = self._shown_operation(record, source)
        values = (*record.values.values(), *record.previous.values(), *record.found.values())
        named = self.sees_values(values, source)
        elements = _elements_of(record, schema)

        def choose(user: int) -> int:
            if shown[user] is not OperationShown.WHOLE:
                return WITHOUT_OBJECT if shown[user] is OperationShown.WITHOUT_OBJECT else NOTHING
            if self.unrestricted[user]:
                return WHOLE
            is_read = not elements or (access is not None and elements & ~access.reads[user] == 0)
            return WHOLE if is_read and named[user] else WITHOUT_VALUES

        return tuple(map(choose, range(len(self.users))))

    def interim(self) -> ObjectAccess:
        """Return what is seen of each object between two policies."""
        reads = tuple(EVERYTHING if each else 0 for each in self.unrestricted)
        return ObjectAccess(0, reads, self.everybody)

    def number_of(self, user: str) -> int | None:
        """Return the number of a user; ``None`` for one who is not known."""
        return self.users.index(user) if user in self.users else None

    def spread(self, answer: Callable[[int], Answer]) -> tuple[Answer, ...]:
        """Return an answer by user; those who share a clearance share the answer of the first of them."""
        first: dict[int | None, Answer] = {}
        for user, clearance in enumerate(self._clearances):
            if clearance not in first:
                first[clearance] = answer(user)
        return tuple(first[clearance] for clearance in self._clearances)

    def _of_users(self, answer: Callable[[int], Answer], default: Answer) -> tuple[Answer, ...]:
        """Ask once for each clearance; ``default`` is the answer before the policy is known."""
        answers = {
            clearance: answer(clearance) for clearance in set(self._clearances) if clearance is not None
        }
        return tuple(default if clearance is None else answers[clearance] for clearance in self._clearances)


def source_name_of(name: str) -> str:
    """Return the name of a source as rules have it; an empty one is the gateway itself."""
    return name or GATEWAY_NAME


def _elements_of(record: OperationRecord, schema: ClassSchema | None) -> int:
    """Return the elements that a record names, as a bitmap; all of them where it cannot be said."""
    if record.kind is not OperationKind.SET:
        return 0
    names = {*record.values, *record.previous, *record.found, *record.absent}
    if schema is None or not names <= schema.positions.keys():
        return EVERYTHING
    return sum(1 << schema.positions[name] for name in names)


def _rights(shown: ShownClass, own: Iterable[Own], reads: int, writes: int, invokes: int) -> Rights:
    def attributes(mask: int) -> list[int]:
        return [place for element, place in shown.attribute_places.items() if mask >> element & 1]

    read = None if reads == EVERYTHING else bitmap_of((*own, *attributes(reads)))
    # The operations of an MBean are the methods in their order, and reading it again behind them.
    # Who sets an element must be allowed to read it, as the core demands.
    return Rights(read, bitmap_of(attributes(writes & reads)), bitmap_of(_positions(invokes)))


def _positions(mask: int) -> Iterable[int]:
    return (position for position in range(mask.bit_length()) if mask >> position & 1)


def _bits(of_users: Iterable[object]) -> int:
    """Return the users for whom a value is not false, as a bitmap."""
    return sum(1 << number for number, value in enumerate(of_users) if value)
