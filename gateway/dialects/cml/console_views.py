"""What a console makes of schemas and objects: observations of the model, without secrets.

Elements that hold secrets are dropped from schemas and values here; nothing behind a session sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gateway.dialects.cml.console_config import ConsoleConfig
from gateway.dialects.cml.messages import Field, SchemaReply
from gateway.dialects.cml.object_ids import object_number
from gateway.dialects.cml.schema import ClassDescription, ObjectRead, package_of, read_classes
from gateway.dialects.errors import ProtocolError
from gateway.model.observations import ClassLearned, EventLearned, ObjectSeen
from gateway.model.schema import Argument, ClassKey, ClassSchema, EventSchema
from gateway.model.secrets import SecretRules
from gateway.model.values import Reference, Value, ValueType

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
    """Characters of a text, or of a list of them."""
    return sum(map(_length, value)) if isinstance(value, tuple) else len(str(value))


def _shown_schema(told: ClassSchema, rules: SecretRules) -> ClassSchema:
    return replace(
        told,
        properties=tuple(one for one in told.properties if not rules.hides(one.name)),
        statistics=tuple(one for one in told.statistics if not rules.hides(one.name)),
    )
