"""The objects of a broker as their parents list them, and their form in the model.

`Tree` tracks which objects are new, gone or not to be inspected. `Views` converts schemas and objects to
observations, and drops elements that hold secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.dialects.cml.codec import write_message
from gateway.dialects.cml.console_config import ConsoleConfig, ShortLived
from gateway.dialects.cml.messages import (
    OPENAMQ_LIMIT,
    Field,
    InspectRequest,
    SchemaReply,
    Spelling,
    object_number,
)
from gateway.dialects.cml.schema import (
    Children,
    ClassDescription,
    ObjectRead,
    listed_names,
    package_of,
    read_classes,
)
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.model.observations import ClassLearned, EventLearned, ObjectSeen
from gateway.model.schema import Argument, ClassKey, ClassSchema, EventSchema
from gateway.model.secrets import SecretRules
from gateway.model.values import Reference, Value, ValueType

ROOT: Final = 0


@dataclass(slots=True, eq=False)
class Known:
    """An object that may be inspected.

    Attributes:
        parent: the object that lists it; ``None`` for the root.
        class_name: the class that its parent reports, later that of its own reply; empty while unknown.
        body: the encoded request to inspect it; empty before the first one.
        children: the listed objects by number; ``None`` for those that are not (yet) inspected.
        left_out: the number of further ones that it lists.
        native_id: its native id in observations; empty before the first.
        name: its last name.
        attempts: the inspections since its last answer.
        busy: whether a request about it is open.
        private: whether it ends with a user's connection, by its own reply.
        shut: the reason why it is not shown; empty where it is.
        view: its class, where it is shown.
    """

    number: int
    parent: Known | None
    class_name: str
    body: bytes = b""
    children: dict[int, Known | None] = field(default_factory=dict)
    left_out: int = 0
    native_id: str = ""
    name: str = ""
    attempts: int = 0
    busy: bool = False
    private: bool = False
    shut: str = ""
    view: ClassView | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The changes of a listing.

    Attributes:
        new: objects to inspect from now on.
        gone: objects that are listed no longer, each after those in it.
        seen_once: whether some are to be inspected when they are listed once more.
    """

    new: tuple[Known, ...]
    gone: tuple[Known, ...]
    seen_once: bool


class Tree:
    """The objects of one run of a broker.

    Args:
        config: which objects are inspected, and how many.
        previous: class and name (empty where unknown) of the objects of an earlier tree, by number; each
            counts as listed once.

    Attributes:
        left_out: the number of listed objects beyond `ConsoleConfig.object_limit`.
        passed_over: the number of listed objects that are not inspected, because they are short-lived.
    """

    def __init__(self, config: ConsoleConfig, previous: Mapping[int, tuple[str, str]] | None = None) -> None:
        self._config = config
        self._previous = previous or {}
        self.root = Known(ROOT, None, "")
        self._objects = {ROOT: self.root}
        self._entries = 0
        self._private: set[int] = set()
        self.left_out = 0
        self.passed_over = 0

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def not_read_yet(self) -> int:
        """The number of objects that may be inspected, and have not answered; it examines all of them."""
        return sum(1 for one in self._objects.values() if not one.native_id and not one.shut)

    @property
    def leaves_private_alone(self) -> bool:
        """Whether objects that end with connections are not inspected."""
        return self._config.short_lived is ShortLived.NO

    def find(self, number: int) -> Known | None:
        """Return the object of this number if it may be inspected."""
        return self._objects.get(number)

    def may_end(self, known: Known) -> bool:
        """Return whether an object ends with a user's connection."""
        return known.private or known.class_name in self._config.short_lived_classes

    def inspection(self, known: Known) -> bytes:
        """Return the encoded request to inspect an object.

        The class is optional, and left out if its name cannot be sent.
        """
        if not known.body:
            spelling = self._config.spelling
            try:
                known.body = write_message(InspectRequest(known.number, known.class_name), spelling)
            except LocalProtocolError:
                known.body = write_message(InspectRequest(known.number), spelling)
        return known.body

    def numbers(self) -> dict[int, tuple[str, str]]:
        """Return all listed objects for the next tree; those of the one before if this one was not read."""
        if not self.root.native_id:
            return dict(self._previous)
        listed = {number: ("", "") for known in self._objects.values() for number in known.children}
        shown = {one.number: (one.class_name, one.name) for one in self._objects.values() if one.native_id}
        return {**listed, **shown}

    def forget_previous(self) -> None:
        """Forget the previous tree, because the broker restarted."""
        self._previous = {}

    def is_another(self, known: Known) -> bool:
        """Return whether the number meant another object in the previous tree."""
        class_name, name = self._previous.get(known.number, ("", ""))
        # A reply may lack the name.
        return bool(class_name) and (class_name, known.name and name) != (known.class_name, known.name)

    def list_children(self, parent: Known, listed: Iterable[tuple[Children, int]]) -> Listing:
        """Compare the objects that ``parent`` lists with those that it listed before."""
        before = parent.children
        parent.children = children = {}
        self._entries -= len(before)
        self.left_out -= parent.left_out
        parent.left_out = 0
        self.passed_over -= self._passed_over_in(before)
        new: list[Known] = []
        seen_once = False
        for kind, number in listed:
            if number in children:
                continue
            if self._entries >= self._config.object_limit and not before.get(number):
                parent.left_out += 1
                continue
            self._entries += 1
            known = before.get(number)
            if known is None:
                known = self._adopted(parent, kind.class_name, number, listed_before=number in before)
                if known is not None:
                    new.append(known)
                elif self._is_candidate(kind.class_name, number):
                    seen_once = True
            children[number] = known
        self.left_out += parent.left_out
        self.passed_over += self._passed_over_in(children)
        ended = [number for number in before if number not in children]
        self._private.difference_update(ended)
        gone = [one for one in map(before.get, ended) if one is not None]
        return Listing(tuple(new), tuple(one for each in gone for one in self.remove(each)), seen_once)

    def remove(self, known: Known) -> list[Known]:
        """Remove an object and all in it; return them, each after those in it."""
        removed = [known]
        for one in removed:  # the list grows meanwhile
            removed += [child for child in one.children.values() if child is not None]
            self._entries -= len(one.children)
            self.left_out -= one.left_out
            self.passed_over -= self._passed_over_in(one.children)
            del self._objects[one.number]
            one.children, one.left_out = {}, 0
        if known.parent is not None and known.number in known.parent.children:
            del known.parent.children[known.number]
            self._entries -= 1
        return removed[::-1]

    def leave_alone(self, known: Known) -> list[Known]:
        """Do not inspect a listed object any more; return the removed objects as `remove` does."""
        removed = self.remove(known)
        assert known.parent is not None  # the root has none, and is never left alone
        known.parent.children[known.number] = None
        self._entries += 1
        self.passed_over += 1
        self._private.add(known.number)
        return removed

    def _adopted(self, parent: Known, class_name: str, number: int, *, listed_before: bool) -> Known | None:
        """Return the object, if it may be inspected now."""
        if not self._is_candidate(class_name, number):
            return None
        if self._is_careful(parent, class_name) and not (listed_before or number in self._previous):
            return None
        known = self._objects[number] = Known(number, parent, class_name)
        return known

    def _is_candidate(self, class_name: str, number: int) -> bool:
        """Return whether an object may ever be inspected. One that two objects list belongs to the first."""
        if number in self._objects or number in self._private or not self._can_be_asked_for(number):
            return False
        return not (self.leaves_private_alone and class_name in self._config.short_lived_classes)

    def _is_careful(self, parent: Known, class_name: str) -> bool:
        """Return whether an object may end at any time, with a user's connection, as far as is known."""
        config = self._config
        if config.short_lived is ShortLived.YES:
            return False
        of_its_class = (
            class_name in config.short_lived_classes or class_name in config.possibly_short_lived_classes
        )
        return of_its_class or self.may_end(parent)

    def _can_be_asked_for(self, number: int) -> bool:
        return self._config.spelling is not Spelling.OPENAMQ or number < OPENAMQ_LIMIT

    def _passed_over_in(self, children: Mapping[int, Known | None]) -> int:
        if not self.leaves_private_alone:
            return 0
        return sum(1 for one in children.values() if one is None)


NOTIFY: Final = "notify"
"""The event for all notifications of a broker; its only argument is `TEXT`."""
TEXT: Final = "text"

MAX_TEXT: Final = 65_536
"""Characters of a value; longer ones are absent. OpenAMQ itself shows 255 octets."""
MAX_FIELDS: Final = 4_096
"""Largest number of fields of a class."""

_MAX_RUN: Final = 64
_SHOWN_CLASSES: Final = 10
_ENDS_WITH_CONNECTIONS: Final = ("exclusive", "auto_delete")
_OWN_QUEUE: Final = re.compile(r"amqp-gateway\.[a-z-]+\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Names of queues that end with a connection of a gateway, and of their bindings."""


def difference(saved: SchemaReply, described: SchemaReply) -> str:
    """Return the differences of a schema from before and the broker's, for people."""
    names = f"saved: {saved.name} {saved.version}; the broker's is used: {described.name} {described.version}"
    before, now = ({one.name: one for one in reply.classes} for reply in (saved, described))
    classes = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    shown = ", ".join(classes[:_SHOWN_CLASSES]) + (", ..." if len(classes) > _SHOWN_CLASSES else "")
    return f"{names}; classes that differ: {shown}" if classes else names


class ClassView:
    """The form of a class in the model: how its objects are read, and which elements are shown.

    Attributes:
        description: the class as the broker describes it.
        schema: the schema without hidden elements.
        key: the key of the class.
    """

    def __init__(self, description: ClassDescription, rules: SecretRules) -> None:
        self.description = description
        described = description.schema
        self._kept = tuple(
            position for position, element in enumerate(described.elements) if not rules.hides(element.name)
        )
        self.schema = _shown_schema(described, rules)
        self._count = len(self.schema.properties)
        elements = self.schema.elements
        self._whole = len(self._kept) == len(described.elements)
        self._references = [at for at, one in enumerate(elements) if one.type is ValueType.REFERENCE]
        self._texts = [
            at for at, one in enumerate(elements) if one.type in (ValueType.STRING, ValueType.LIST)
        ]
        self._rules = rules
        self.key = self.schema.key

    def wire_name(self, element: str) -> str:
        """Return the name of an element in messages."""
        return self.description.wire_names[self.description.schema.positions[element]]

    def read(self, fields: Sequence[Field], parent: int | None) -> ObjectRead:
        """Return the values of an object's fields; ``parent`` is the number of its parent."""
        return self.description.read_object(fields, parent)

    def seen(
        self, read: ObjectRead, agent: str, number: int, native_id_of: Callable[[int], str]
    ) -> tuple[ObjectSeen, list[str]]:
        """Return the observation of an object, and a line for each value that is too long and so absent.

        Args:
            read: the values of the object.
            agent: the agent that it belongs to.
            number: its number.
            native_id_of: returns the native id of an object by its number.
        """
        values: list[Value | None]
        values = list(read.values) if self._whole else [read.values[position] for position in self._kept]
        for position in self._references:
            reference = values[position]
            if isinstance(reference, Reference):
                values[position] = Reference(native_id_of(int(reference.native_id)))
        too_long = []
        for position in self._texts:
            value = values[position]
            if not value:
                continue
            if _length(value) > MAX_TEXT:
                too_long.append(f"{self.schema.elements[position].name}: more than {MAX_TEXT} characters")
                values[position] = None
            else:
                values[position] = self._rules.masked(value)
        properties, statistics = tuple(values[: self._count]), tuple(values[self._count :])
        native_id = native_id_of(number)
        seen = ObjectSeen(self.key, agent, native_id, 0, 0, 0, properties, statistics or None)
        return seen, too_long

    def gone(self, agent: str, native_id: str, now: int) -> ObjectSeen:
        """Return the observation of the end of an object, which was noticed at ``now``."""
        return ObjectSeen(self.key, agent, native_id, 0, 0, now)

    def text(self, read: ObjectRead, name: str) -> str:
        """Return a text field; empty where it is absent or no text."""
        value = self._value(read, name)
        return value if isinstance(value, str) else ""

    def is_private(self, read: ObjectRead) -> bool:
        """Return whether the object ends with a user's connection, or is a gateway's own, by its own fields.

        OpenAMQ keeps the bindings of a queue that has ended: each connection of a gateway would leave some.
        """
        own = _OWN_QUEUE.fullmatch(self.text(read, "name")) is not None
        return own or any(self._value(read, name) is True for name in _ENDS_WITH_CONNECTIONS)

    def _value(self, read: ObjectRead, name: str) -> Value | None:
        position = self.description.schema.positions.get(name)
        return None if position is None else read.values[position]


class Views:
    """All classes of one schema.

    Raises:
        ProtocolError: the schema has no class with a name of its own, or more classes than permitted.
    """

    def __init__(self, reply: SchemaReply, config: ConsoleConfig) -> None:
        if len(reply.classes) > config.class_limit:
            raise ProtocolError(f"at most {config.class_limit} classes", f"{len(reply.classes)}")
        named = reply if reply.name else replace(reply, name=config.package)
        self.schema = reply
        self.package = package_of(named.name)
        described = read_classes(named, config.is_statistic)
        if not described:
            raise ProtocolError("a class with a name of its own", "none")
        most = max((len(each.schema.elements) for each in described), default=0)
        if most > MAX_FIELDS:
            raise ProtocolError(f"classes of at most {MAX_FIELDS} fields", f"one of {most}")
        self._by_name = {each.schema.key.name: ClassView(each, config.secrets) for each in described}
        listed = listed_names(reply)
        self._root = next((name for name in self._by_name if name not in listed), "")
        text = Argument(TEXT, ValueType.STRING)
        self.event = EventSchema(ClassKey(self.package, NOTIFY), (text,))

    def learned(self) -> list[ClassLearned | EventLearned]:
        """Return the observations of all classes and the event."""
        classes = [ClassLearned(view.schema) for view in self._by_name.values()]
        return [*classes, EventLearned(self.event)]

    def find(self, class_name: str) -> ClassView | None:
        """Return the class of this name; for an empty name the root's, which no class lists."""
        return self._by_name.get(class_name or self._root)

    def find_key(self, key: ClassKey) -> ClassView | None:
        """Return the class that was observed under a key; ``None`` if it has changed."""
        view = self._by_name.get(key.name)
        return view if view is not None and view.schema.key == key else None


class Runs:
    """The runs of a broker, whose object numbers begin again with each.

    A native id is the start time that the broker reports, and the object's number: an operation on an
    object of an earlier run so never reaches one of this run.

    Attributes:
        started: the last reported start time; ``None`` before the first.
    """

    def __init__(self) -> None:
        self.started: str | None = None
        self._count: Mapping[str, int] = {}
        self._prefix = ""

    def compare(self, started: str) -> bool:
        """Return whether a reported start time is another one than before; none at all shows nothing.

        One that was not reported before is that of this run, whose native ids stay.
        """
        if self.started == "":
            self.started = started
        return bool(self.started and started) and self.started != started

    def began(self, started: str, *, restarted: bool) -> bool:
        """Note the reported start time; return whether it is another run than before.

        ``restarted``: it is another one in any case, although two may begin in the same minute.
        """
        first = self.started is None
        if not (first or restarted or self.compare(started)):
            return False
        count = self._count.get(started, 0) + 1
        self._count = {started: count}
        self.started = started
        shown = "".join(one for one in started[:_MAX_RUN] if one.isprintable() and one not in "/ ")
        self._prefix = (f"{shown}~{count}/" if count > 1 else f"{shown}/") if shown or count > 1 else ""
        return not first

    def native_id(self, number: int) -> str:
        """Return the native id of an object of this run."""
        return f"{self._prefix}{number}"

    def number(self, native_id: str) -> int | None:
        """Return the number of the object of this run with a native id; ``None`` for another run's."""
        return object_number(native_id[len(self._prefix) :]) if native_id.startswith(self._prefix) else None


def _length(value: Value) -> int:
    return sum(map(_length, value)) if isinstance(value, tuple) else len(str(value))


def _shown_schema(described: ClassSchema, rules: SecretRules) -> ClassSchema:
    return replace(
        described,
        properties=tuple(one for one in described.properties if not rules.hides(one.name)),
        statistics=tuple(one for one in described.statistics if not rules.hides(one.name)),
    )
