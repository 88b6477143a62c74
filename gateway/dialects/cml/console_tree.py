"""The objects of a broker as their parents list them, and what they are in the model.

`Tree` knows what is new, what is gone and what is left alone. `Views` turns schemas and objects into
observations; elements that hold secrets are dropped there, and nothing behind a session sees them.
"""

from __future__ import annotations

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
from gateway.dialects.cml.schema import Children, ClassDescription, ObjectRead, package_of, read_classes
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
        parent: who lists it; ``None`` of the root.
        class_name: as its parent says it, later as it says itself; empty where nobody said.
        body: of the request to inspect it; empty before the first one.
        children: by number, as they were listed last; ``None`` for those that are not inspected, or not yet.
        left_out: how many more it lists that are none of these.
        native_id: as it was observed; empty before.
        name: as it was told last.
        round: in which it was answered last.
        attempts: to inspect it, since it was answered last.
        busy: a request about it has no answer yet.
        private: it ends when somebody's connection does, as it says itself.
        shut: it is there, and not shown: why.
        view: of its class, where it is shown.
    """

    number: int
    parent: Known | None
    class_name: str
    body: bytes = b""
    children: dict[int, Known | None] = field(default_factory=dict)
    left_out: int = 0
    native_id: str = ""
    name: str = ""
    round: int = -1
    attempts: int = 0
    busy: bool = False
    private: bool = False
    shut: str = ""
    view: ClassView | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """What a listing changes.

    Attributes:
        new: to be inspected from now on.
        gone: not listed any more, each behind those in it.
        seen_once: whether there are some to be inspected when they are listed once more.
    """

    new: tuple[Known, ...]
    gone: tuple[Known, ...]
    seen_once: bool


class Tree:
    """The objects of one run of a broker.

    Args:
        config: what is inspected, and how much.
        former: class and name (empty where it was not told) of what an earlier tree had, by number: it counts
            as listed once.

    Attributes:
        left_out: how many are listed beyond `ConsoleConfig.object_limit`.
        passed_over: how many are listed and not inspected, because they come and go.
    """

    def __init__(self, config: ConsoleConfig, former: Mapping[int, tuple[str, str]] | None = None) -> None:
        self._config = config
        self._former = former or {}
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
        """How many may be inspected, and were not answered yet; looks at all of them."""
        return sum(1 for one in self._objects.values() if not one.native_id and not one.shut)

    @property
    def leaves_private_alone(self) -> bool:
        """Whether what ends with connections is not inspected."""
        return self._config.short_lived is ShortLived.NO

    def find(self, number: int) -> Known | None:
        """The object of this number that may be inspected."""
        return self._objects.get(number)

    def may_end(self, known: Known) -> bool:
        """Whether an object ends when somebody's connection does."""
        return known.private or known.class_name in self._config.short_lived_classes

    def inspection(self, known: Known) -> bytes:
        """The request to inspect an object.

        Nobody needs the class in it: one whose name no request can carry is left out.
        """
        if not known.body:
            spelling = self._config.spelling
            try:
                known.body = write_message(InspectRequest(known.number, known.class_name), spelling)
            except LocalProtocolError:
                known.body = write_message(InspectRequest(known.number), spelling)
        return known.body

    def numbers(self) -> dict[int, tuple[str, str]]:
        """All that were listed, for the tree that follows; of a tree that was not read, those before it."""
        if not self.root.native_id:
            return dict(self._former)
        listed = {number: ("", "") for known in self._objects.values() for number in known.children}
        shown = {one.number: (one.class_name, one.name) for one in self._objects.values() if one.native_id}
        return {**listed, **shown}

    def forget_former(self) -> None:
        """Numbers of before mean nothing: the broker was restarted."""
        self._former = {}

    def is_another(self, known: Known) -> bool:
        """Whether the number meant another object in the tree before this one."""
        class_name, name = self._former.get(known.number, ("", ""))
        return bool(class_name) and (class_name, name) != (known.class_name, known.name)

    def list_children(self, parent: Known, listed: Iterable[tuple[Children, int]]) -> Listing:
        """Compare what ``parent`` lists with what it listed before."""
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
        """Remove an object and all in it; returns them, each behind those in it."""
        removed = [known]
        for one in removed:  # which grows meanwhile
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
        """Do not inspect it any more, although it is listed; returns what is removed, as `remove`."""
        removed = self.remove(known)
        assert known.parent is not None  # the root is nobody's
        known.parent.children[known.number] = None
        self._entries += 1
        self.passed_over += 1
        self._private.add(known.number)
        return removed

    def _adopted(self, parent: Known, class_name: str, number: int, *, listed_before: bool) -> Known | None:
        """The object, if it may be inspected now."""
        if not self._is_candidate(class_name, number):
            return None
        if self._is_careful(parent, class_name) and not (listed_before or number in self._former):
            return None
        known = self._objects[number] = Known(number, parent, class_name)
        return known

    def _is_candidate(self, class_name: str, number: int) -> bool:
        """Whether it may be inspected one day. What two objects list belongs to the first."""
        if number in self._objects or number in self._private or not self._can_be_asked_for(number):
            return False
        return not (self.leaves_private_alone and class_name in self._config.short_lived_classes)

    def _is_careful(self, parent: Known, class_name: str) -> bool:
        """Whether an object may end at any time, with somebody's connection, as far as is known."""
        config = self._config
        if config.short_lived is ShortLived.YES:
            return False
        of_its_class = class_name in config.short_lived_classes or class_name in config.doubtful_classes
        return of_its_class or self.may_end(parent)

    def _can_be_asked_for(self, number: int) -> bool:
        return self._config.spelling is not Spelling.OPENAMQ or number < OPENAMQ_LIMIT

    def _passed_over_in(self, children: Mapping[int, Known | None]) -> int:
        if not self.leaves_private_alone:
            return 0
        return sum(1 for one in children.values() if one is None)


NOTIFY: Final = "notify"
"""The event that stands for all that a broker notifies of; its only argument is `TEXT`."""
TEXT: Final = "text"

MAX_TEXT: Final = 65_536
"""Characters of a value that is shown; what has more is absent. OpenAMQ itself shows 255 octets."""
MAX_FIELDS: Final = 4_096
"""Of a class."""

_MAX_RUN: Final = 64
_SHOWN_CLASSES: Final = 10
_ENDS_WITH_CONNECTIONS: Final = ("exclusive", "auto_delete")


def difference(saved: SchemaReply, told: SchemaReply) -> str:
    """Say for people in what a schema that was saved and the one that the broker tells differ."""
    names = f"saved: {saved.name} {saved.version}; the broker's is used: {told.name} {told.version}"
    before, now = ({one.name: one for one in reply.classes} for reply in (saved, told))
    classes = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    shown = ", ".join(classes[:_SHOWN_CLASSES]) + (", ..." if len(classes) > _SHOWN_CLASSES else "")
    return f"{names}; classes that differ: {shown}" if classes else names


class ClassView:
    """A class, how its objects are read, and what of them is shown.

    Attributes:
        description: as the broker tells it.
        schema: what is shown of it.
        key: of the class.
    """

    def __init__(self, description: ClassDescription, rules: SecretRules) -> None:
        self.description = description
        told = description.schema
        self._kept = tuple(
            position for position, element in enumerate(told.elements) if not rules.hides(element.name)
        )
        self.schema = _shown_schema(told, rules)
        self._count = len(self.schema.properties)
        elements = self.schema.elements
        self._whole = len(self._kept) == len(told.elements)
        self._references = [at for at, one in enumerate(elements) if one.type is ValueType.REFERENCE]
        self._texts = [
            at for at, one in enumerate(elements) if one.type in (ValueType.STRING, ValueType.LIST)
        ]
        self._rules = rules
        self.key = self.schema.key

    def wire_name(self, element: str) -> str:
        """Return what an element of the class is called in messages."""
        return self.description.wire_names[self.description.schema.positions[element]]

    def read(self, fields: Sequence[Field], parent: int | None) -> ObjectRead:
        """Return what the fields of an object say; ``parent`` is the number of who lists it."""
        return self.description.read_object(fields, parent)

    def seen(
        self, read: ObjectRead, agent: str, number: int, native_id_of: Callable[[int], str]
    ) -> tuple[ObjectSeen, list[str]]:
        """Return what to observe of an object, and what is absent because it is too long, a line for each.

        Args:
            read: what was read of it.
            agent: that it belongs to.
            number: its own.
            native_id_of: what the inventory calls the object of a number.
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
        """Return what to observe of the end of an object, which was noticed at ``now``."""
        return ObjectSeen(self.key, agent, native_id, 0, 0, now)

    def text(self, read: ObjectRead, name: str) -> str:
        """Return a field that is text; empty where it is none, or absent."""
        value = self._value(read, name)
        return value if isinstance(value, str) else ""

    def is_private(self, read: ObjectRead) -> bool:
        """Whether the object ends when somebody's connection does, as it says itself."""
        return any(self._value(read, name) is True for name in _ENDS_WITH_CONNECTIONS)

    def _value(self, read: ObjectRead, name: str) -> Value | None:
        position = self.description.schema.positions.get(name)
        return None if position is None else read.values[position]


class Views:
    """All classes of one schema.

    Raises:
        ProtocolError: it is no schema of classes that can be told apart, or one of more classes than are
            kept.
    """

    def __init__(self, reply: SchemaReply, config: ConsoleConfig) -> None:
        if len(reply.classes) > config.class_limit:
            raise ProtocolError(f"at most {config.class_limit} classes", f"{len(reply.classes)}")
        named = reply if reply.name else replace(reply, name=config.package)
        self.schema = reply
        self.package = package_of(named.name)
        described = read_classes(named, config.is_statistic)
        most = max((len(each.schema.elements) for each in described), default=0)
        if most > MAX_FIELDS:
            raise ProtocolError(f"classes of at most {MAX_FIELDS} fields", f"one of {most}")
        self._by_name = {each.schema.key.name: ClassView(each, config.secrets) for each in described}
        listed = {each.class_name for one in described for each in one.children}
        self._root = next((name for name in self._by_name if name not in listed), "")
        text = Argument(TEXT, ValueType.STRING)
        self.event = EventSchema(ClassKey(self.package, NOTIFY), (text,))

    def learned(self) -> list[ClassLearned | EventLearned]:
        """What to observe of it."""
        classes = [ClassLearned(view.schema) for view in self._by_name.values()]
        return [*classes, EventLearned(self.event)]

    def find(self, class_name: str) -> ClassView | None:
        """The class of this name; of none the one that nobody lists, which is the root's."""
        return self._by_name.get(class_name or self._root)

    def find_key(self, key: ClassKey) -> ClassView | None:
        """The class that was observed under a key."""
        view = self._by_name.get(key.name)
        return view if view is not None and view.schema.key == key else None


class Runs:
    """Names the runs of a broker, whose object numbers begin again with each.

    A native id is the start time that the broker tells, and the object's number: so what was meant for an
    object of a former run reaches none of this one.

    Attributes:
        started: as the broker told it last; ``None`` where it was not heard yet.
    """

    def __init__(self) -> None:
        self.started: str | None = None
        self._count: Mapping[str, int] = {}
        self._prefix = ""

    def began(self, started: str, *, anew: bool) -> bool:
        """The root says when it was started; returns whether it is another run than before.

        ``again``: it is another one in any case, although two may begin in the same minute.
        """
        first, another = self.started is None, anew or self.started != started
        if not another:
            return False
        count = self._count.get(started, 0) + 1
        self._count = {started: count}
        self.started = started
        shown = "".join(one for one in started[:_MAX_RUN] if one.isprintable() and one not in "/ ")
        self._prefix = (f"{shown}~{count}/" if count > 1 else f"{shown}/") if shown or count > 1 else ""
        return not first

    def native_id(self, number: int) -> str:
        """What an object of this run is called."""
        return f"{self._prefix}{number}"

    def number(self, native_id: str) -> int | None:
        """The object of this run that is called so."""
        return object_number(native_id[len(self._prefix) :]) if native_id.startswith(self._prefix) else None


def _length(value: Value) -> int:
    return sum(map(_length, value)) if isinstance(value, tuple) else len(str(value))


def _shown_schema(told: ClassSchema, rules: SecretRules) -> ClassSchema:
    return replace(
        told,
        properties=tuple(one for one in told.properties if not rules.hides(one.name)),
        statistics=tuple(one for one in told.statistics if not rules.hides(one.name)),
    )
