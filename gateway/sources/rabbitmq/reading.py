"""JSON objects of the management API as objects of the model, by the mapping.

The broker's answers are input like any other. Nothing here raises: a value that is not what the schema says
is `UNREADABLE`, which the reader counts and shows as absent.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias, cast

from gateway.mapping.files import class_schemas, secret_patterns
from gateway.mapping.paths import Json, ReadPath, compile_path
from gateway.mapping.rules import ClassRule, ElementRule
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.schema import Access, Argument, ClassSchema, Element
from gateway.model.secrets import SecretRules, mask_uris
from gateway.model.times import since_epoch
from gateway.model.values import Value, Values, ValueType
from gateway.sources.rabbitmq.object_names import ObjectName

_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,7}")


@dataclass(frozen=True, slots=True)
class Reading:
    """The values of one object, read from one JSON object.

    ``properties`` and ``statistics`` are in schema order. A reference is the name (text) of the other object,
    whose class is the element's ``references``. ``supposed`` are the positions of properties that are
    fixed at creation and are not reported: a rule says what they are of an object of which no more is known.
    """

    name: ObjectName
    properties: Values
    statistics: Values
    supposed: frozenset[int] = frozenset()

    @property
    def reported(self) -> Values:
        """The properties without those that are supposed."""
        if not self.supposed:
            return self.properties
        return tuple(None if at in self.supposed else value for at, value in enumerate(self.properties))


@dataclass(frozen=True, slots=True)
class _Column:
    element: Element
    path: ReadPath
    convert: Conversion
    otherwise: Value | None
    unused: int | None
    until: tuple[int, ...]
    """The version from which on the value is absent; empty for none."""

    def holds_in(self, version: tuple[int, ...]) -> bool:
        """Return whether the value is a measurement in a version; an empty version is unknown."""
        return not self.until or bool(version and version < self.until)


class ClassReader:
    """Reads objects of one class.

    Args:
        schema: the class as its mapping defines it.
        rule: the mapping's rule of the class.
        secrets: the rules of values that must not be passed on.

    Attributes:
        unreadable: the number of present values that could not be read, by ``class.element``; an object that
            lacks its index or a property that is not optional counts as ``class``.
    """

    def __init__(self, schema: ClassSchema, rule: ClassRule, secrets: SecretRules) -> None:
        self.schema = schema
        self.rule = rule
        self.unreadable: Counter[str] = Counter()
        self._properties = _columns(schema.properties, rule.properties, secrets)
        self._statistics = _columns(schema.statistics, rule.statistics, secrets)
        self._version = compile_path(rule.properties[rule.version].read) if rule.version else None
        self._index = tuple(
            (column.path, bool(column.element.type.integer_bits))
            for column in self._properties
            if column.element.index
        )
        first = next((element for element in schema.properties if element.index), None)
        self.in_virtual_host = first is not None and first.references == "vhost"
        """Whether objects of the class are named by their virtual host first."""
        of_connection = rule.parent is not None and rule.properties[rule.parent].references == "connection"
        self._owner = rule.parent if of_connection and not rule.fallback_parents else None
        """The connection that every document names; an object is without it where it may be of several."""
        self.keeps = tuple(e.access is Access.READ_CREATE for e in schema.properties)
        """For each property, whether it is fixed at creation: a known value stays if an answer lacks it."""
        self._supposable = tuple(
            position
            for position, column in enumerate(self._properties)
            if column.otherwise is not None and self.keeps[position]
        )
        self.classes_needed = frozenset(rule.properties[name].references for name in rule.ends_with)
        """Classes on whose objects those of this class depend."""
        self.led = tuple(
            position
            for position, element in enumerate(schema.statistics)
            if rule.statistics[element.name].leader_metric
        )
        """Positions of the statistics that are the leader's figures, which no listing shows."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The dotted columns to request from the management API, without those that the source computes."""
        asked: dict[str, None] = {}
        for column in (*self._properties, *self._statistics):
            asked.update(dict.fromkeys(column.path.columns))
        return tuple(name for name in asked if not name.startswith("gateway."))

    def name_of(self, document: Json) -> ObjectName | None:
        """Return the name of the object in ``document``; ``None`` if it lacks the name."""
        parts = [_index_text(path.find(document), number=number) for path, number in self._index]
        texts = tuple(text for text in parts if text is not None)
        return ObjectName(self.schema.key.name, texts) if len(texts) == len(parts) else None

    def property_of(self, document: Json, element: str) -> Value | None:
        """Return the value of one property in ``document``."""
        column = next(column for column in self._properties if column.element.name == element)
        return self._value(column, document, measured=False)

    def read(self, document: Json, *, measured: bool = False, lean: bool = False) -> Reading | None:
        """Return the values in ``document``; ``None`` if it lacks one that every object must have.

        Args:
            document: the JSON object.
            measured: whether the broker measures the object, so that an absent counter has counted nothing.
            lean: it is known to have no statistics, so none are read.
        """
        name = self.name_of(document)
        if name is None:
            self.unreadable[self.schema.key.name] += 1
            return None
        version = version_of(self._version.find(document)) if self._version else ()
        properties = self._values(self._properties, document, version, measured=measured)
        for element, value in zip(self.schema.properties, properties, strict=True):
            if value is None and (not element.optional or element.name == self._owner):
                self.unreadable[self.schema.key.name] += 1
                return None
        absent = (at for at in self._supposable if self._properties[at].path.find(document) is None)
        statistics = (
            (None,) * len(self._statistics)
            if lean
            else self._values(self._statistics, document, version, measured=measured)
        )
        return Reading(name, properties, statistics, frozenset(absent))

    def statistic(self, position: int, listed: Json) -> Value | None:
        """Return a value from elsewhere as a value of one statistic; ``None`` if it is none."""
        value = self._statistics[position].convert(listed)
        return None if isinstance(value, Unreadable) else value

    def created(self, reading: Reading) -> int:
        """Return when the object of a reading was created (ns); 0 if the reading does not say."""
        if self.rule.created is None:
            return 0
        time = reading.properties[self.schema.positions[self.rule.created]]
        return time if isinstance(time, int) else 0

    def differs(self, known: Values, reading: Reading, *, listed: bool) -> bool:
        """Return whether a reading is not of the object with ``known`` properties.

        What is fixed at creation differs then. ``listed``: listings have shown both.
        """
        if self.rule.created is not None:
            return False  # the time of its creation distinguishes them
        return any(
            kept and contradicts(new, old, listed=listed)
            for old, new, kept in zip(known, reading.reported, self.keeps, strict=True)
        )

    def merged(self, known: Values, reading: Reading, *, keep_all: bool) -> Values:
        """Return the properties of a reading, completed by ``known`` ones that a report may omit.

        ``keep_all``: an event about an object that a listing has shown adds only what is unknown.
        """
        found = tuple(
            preferred(old, new, keep=kept, old_first=keep_all)
            for old, new, kept in zip(known, reading.reported, self.keeps, strict=True)
        )
        if not reading.supposed:
            return found
        pairs = zip(found, reading.properties, strict=True)
        return tuple(supposed if value is None else value for value, supposed in pairs)

    def beside(self, listed: Reading, properties: Values, statistics: Values) -> Values:
        """Return the statistics of ``listed`` with the known figures of the leader, if it is the same.

        Args:
            listed: an object as a listing shows it.
            properties: the known properties of the object.
            statistics: the known statistics of the object.
        """
        if not self.led or self.rule.metrics is None:
            return listed.statistics
        holder = self.schema.positions[self.rule.metrics.holder]
        same = listed.properties[holder] == properties[holder]
        values = list(listed.statistics)
        for position in self.led:
            values[position] = statistics[position] if same else None
        return tuple(values)

    def _values(
        self, columns: tuple[_Column, ...], document: Json, version: tuple[int, ...], *, measured: bool
    ) -> Values:
        return tuple(
            self._value(column, document, measured=measured) if column.holds_in(version) else None
            for column in columns
        )

    def _value(self, column: _Column, document: Json, *, measured: bool) -> Value | None:
        found = column.path.find(document)
        # Most of what a listing could say it does not say, and null converts to nothing.
        if found is not None:
            value = column.convert(found)
            if isinstance(value, Unreadable):
                self.unreadable[f"{self.schema.key.name}.{column.element.name}"] += 1
                return None
            if value is not None:
                return value
        return column.unused if measured and column.unused is not None else column.otherwise


def version_of(text: Json) -> tuple[int, ...]:
    """Return the leading numbers of a version: ``(4, 0, 5)`` of ``4.0.5-rc.1``; empty for no version."""
    found = _VERSION.match(text) if isinstance(text, str) else None
    return tuple(map(int, found[0].split("."))) if found else ()


def _index_text(value: Json, *, number: bool) -> str | None:
    if number:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else None
    return value if isinstance(value, str) else None


def _columns(
    elements: tuple[Element, ...], rules: Mapping[str, ElementRule], secrets: SecretRules
) -> tuple[_Column, ...]:
    return tuple(_column(element, rules[element.name], secrets) for element in elements)


def _column(element: Element, rule: ElementRule, secrets: SecretRules) -> _Column:
    # Nothing is found of what no listing shows, nor is it asked for.
    path = compile_path("gateway.leader" if rule.leader_metric else rule.read or element.name)
    convert = conversion(element, secrets, scale=rule.scale, absent=rule.absent, words=rule.words)
    return _Column(element, path, convert, rule.otherwise, rule.unused, version_of(rule.until))


def class_readers(mapping: MappingFile) -> dict[str, ClassReader]:
    """Return a reader for each class of ``mapping``, by name, in the file's order.

    Raises:
        MappingError: an element has no type.
    """
    secrets = SecretRules(secret_patterns(mapping))
    return {
        name: ClassReader(schema, mapping.classes[name], secrets)
        for name, schema in class_schemas(mapping).items()
    }


def target_of(
    readers: Mapping[str, ClassReader], name: ObjectName, class_name: str, text: Value | None
) -> ObjectName | None:
    """Return the object to which ``text`` refers, in the virtual host of ``name`` if its class lives in one.

    Args:
        readers: the reader of each class.
        name: the name of the object that refers.
        class_name: the class of the other object.
        text: the other's own name; anything else refers to nothing.
    """
    reader = readers.get(class_name)
    if reader is None or not isinstance(text, str):
        return None
    if not reader.in_virtual_host:
        return ObjectName(class_name, (text,))
    within = readers[name.class_name].in_virtual_host
    return ObjectName(class_name, (name.parts[0], text)) if within else None


class Dependencies:
    """The dependencies of objects: an object ends with the first of those on which it depends.

    Args:
        readers: the reader of each class, whose rule names the references that matter (``ends_with``).
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
        """Return the names of the objects on which an object with these properties depends."""
        found = (
            target_of(self._readers, name, class_name, properties[position])
            for position, class_name in self._references[name.class_name]
        )
        return tuple(ground for ground in found if ground is not None)

    def add(self, name: ObjectName, properties: Values) -> None:
        """Add an object that exists now."""
        for ground in self.of(name, properties):
            self._dependents.setdefault(ground, {})[name] = None

    def remove(self, name: ObjectName, properties: Values) -> None:
        """Remove an object that exists no longer."""
        for ground in self.of(name, properties):
            hanging = self._dependents.get(ground)
            if hanging is not None:
                hanging.pop(name, None)
                if not hanging:
                    del self._dependents[ground]

    def dependents(self, name: ObjectName) -> tuple[ObjectName, ...]:
        """Return the objects that depend on an object, in the order in which they were added."""
        return tuple(self._dependents.get(name, ()))


def contradicts(new: Value | None, old: Value | None, *, listed: bool) -> bool:
    """Return whether one object cannot have had both values; an event may lack entries of a table."""
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
    """Return the valid one of two values of an element: with ``old_first`` the old one, else the new.

    ``keep``: the value is fixed at creation, so that an answer that lacks it, or has it empty, changes
    nothing. RabbitMQ 4.3 lists connections of STOMP with empty client properties, and shows each with them.
    """
    first, second = (old, new) if old_first else (new, old)
    if keep and not first and isinstance(first, Mapping | tuple) and second is not None:
        return second
    return second if first is None and (keep or old_first) else first


def reference_positions(schema: ClassSchema) -> tuple[tuple[int, str], ...]:
    """Return the positions of a class's properties that are references, each with the class it refers to."""
    return tuple(
        (position, element.references)
        for position, element in enumerate(schema.properties)
        if element.type is ValueType.REFERENCE
    )


MAX_TEXT_OCTETS = 8_192
"""Maximum size of a text; no type or unit of RabbitMQ needs more, and longer texts are not passed on."""
MAX_COLLECTION_OCTETS = 16_384
"""Maximum size of a map or list: names and texts in bytes, every other value as eight."""
MAX_DEPTH = 16
"""Maximum depth of maps and lists; those nested deeper are not passed on."""
MAX_KEY_OCTETS = 255

_U64_MAX = 2**64 - 1
_S64_MIN = -(2**63)


class Unreadable:
    """The type of `UNREADABLE`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNREADABLE"


UNREADABLE: Final = Unreadable()
"""A value that is present, but that the element cannot have."""

Conversion: TypeAlias = Callable[[Json], "Value | Unreadable | None"]


def conversion(
    element: Element | Argument,
    secrets: SecretRules,
    *,
    scale: int = 1,
    absent: Collection[str] = (),
    words: Mapping[str, int] | None = None,
) -> Conversion:
    """Return a function that reads values of ``element``, compiled once.

    Null, the ``absent`` texts, and the numbers in these give ``None``. ``words`` are texts for numbers.
    """
    convert = _conversion(element, scale, secrets)
    absences = frozenset(absent) | {int(text) for text in absent if text.isascii() and text.isdigit()}
    numbers = dict(words or {})

    def checked(value: Json) -> Value | Unreadable | None:
        if value is None:
            return None
        if isinstance(value, str | int) and not isinstance(value, bool) and value in absences:
            return None
        return convert(numbers.get(value, value) if isinstance(value, str) else value)

    return checked


def _conversion(  # noqa: PLR0911  one return for each type
    element: Element | Argument, scale: int, secrets: SecretRules
) -> Conversion:
    type_ = element.type
    if type_.integer_bits:
        least, most = _integer_range(type_)
        return lambda value: _integer(value, scale, least, most)
    longest = element.max_length or MAX_TEXT_OCTETS
    match type_:
        case ValueType.BOOL:
            return lambda value: value if isinstance(value, bool) else UNREADABLE
        case ValueType.F32 | ValueType.F64:
            return lambda value: _float(value, scale)
        case ValueType.TIME:
            return lambda value: _time(value, scale)
        case ValueType.DURATION:
            return lambda value: _integer(value, scale, 0, _U64_MAX, rounded=True)
        case ValueType.STRING:
            return lambda value: _text(value, longest)
        case ValueType.REFERENCE:
            return lambda value: value if isinstance(value, str) else UNREADABLE
        case ValueType.MAP | ValueType.LIST:
            return lambda value: _collection(value, type_, secrets)
    # RabbitMQ shows neither octets nor UUIDs: a mapping that says so reads nothing.
    return lambda _: UNREADABLE


def _integer_range(type_: ValueType) -> tuple[int, int]:
    bits = type_.integer_bits
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type_.signed else (0, (1 << bits) - 1)


def _number(value: Json) -> int | float | None:
    """Return a number, also one written as text (``os_pid``); ``None`` if it is none or not finite."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) <= 20 else None  # noqa: PLR2004  u64
    if isinstance(value, int):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else None


def _integer(value: Json, scale: int, least: int, most: int, *, rounded: bool = False) -> Value | Unreadable:
    number = _number(value)
    if number is None:
        return UNREADABLE
    scaled = number * scale
    if isinstance(scaled, float):
        if not math.isfinite(scaled) or not (rounded or scaled.is_integer()):
            return UNREADABLE
        scaled = round(scaled)
    return scaled if least <= scaled <= most else UNREADABLE


def _float(value: Json, scale: int) -> Value | Unreadable:
    number = _number(value)
    if number is None:
        return UNREADABLE
    try:
        scaled = float(number) * scale
    except OverflowError:
        return UNREADABLE
    return scaled if math.isfinite(scaled) else UNREADABLE


def _time(value: Json, scale: int) -> Value | Unreadable:
    """Convert a number of the rule's unit since 1970, or a date as text (ISO 8601, without zone UTC)."""
    if not isinstance(value, str) or value.isdigit():
        return _integer(value, scale, 0, _U64_MAX, rounded=True)
    try:
        date = datetime.fromisoformat(value)
    except ValueError:
        return UNREADABLE
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    nanoseconds = since_epoch(date)
    return nanoseconds if 0 <= nanoseconds <= _U64_MAX else UNREADABLE


def _text(value: Json, longest: int) -> Value | Unreadable:
    if not isinstance(value, str) or len(value) > longest:
        return UNREADABLE
    text = clean_text(value)
    return mask_uris(text) if len(text.encode()) <= longest else UNREADABLE


def shown_text(value: str) -> str:
    """Return a text as the values of its element have it."""
    return mask_uris(clean_text(value))


def clean_text(text: str) -> str:
    """Return ``text`` with U+FFFD in place of JSON's lone surrogates, which UTF-8 cannot encode."""
    text = str(text)  # a name that is no UTF-8 is a text like any other from here on
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _collection(value: Json, type_: ValueType, secrets: SecretRules) -> Value | Unreadable:
    if value == [] and type_ is ValueType.MAP:
        value = {}  # an empty Erlang property list, which RabbitMQ cannot distinguish from an empty object
    if not isinstance(value, Mapping if type_ is ValueType.MAP else list):
        return UNREADABLE
    room = _Room(MAX_COLLECTION_OCTETS)
    plain = _plain(value, 0, room)
    return UNREADABLE if plain is None or room.left < 0 else secrets.masked(plain)


class _Room:
    """The space left in a collection, in bytes."""

    __slots__ = ("left",)

    def __init__(self, octets: int) -> None:
        self.left = octets


def _plain(value: Json, depth: int, room: _Room) -> Value | None:
    """Return ``value`` in the model's types, without nulls, too deep values, and values that have no room."""
    room.left -= len(value) if isinstance(value, str) else 8
    if room.left < 0 or depth > MAX_DEPTH:
        return None
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return _plain_map(value, depth, room)
    if isinstance(value, list):
        items = (_plain(item, depth + 1, room) for item in value)
        return tuple(item for item in items if item is not None)
    if isinstance(value, int) and not isinstance(value, bool) and not _S64_MIN <= value <= _U64_MAX:
        return str(value) if abs(value) < 10**40 else None
    return value


def _plain_map(value: Mapping[str, Json], depth: int, room: _Room) -> Value:
    plain: dict[str, Value] = {}
    for key, inner in value.items():
        name = mask_uris(clean_text(key))
        room.left -= len(name)
        item = _plain(inner, depth + 1, room)
        if item is not None and len(name.encode()) <= MAX_KEY_OCTETS:
            plain[name] = item
    return cast("Value", plain)
