"""Tables of a relay: one for each class, whose elements grow with the keys that applications use.

A key has no declared type. Its element has the smallest type that holds each value that was reported under
it, so that it only ever widens, and at most three times:

| reported so far | type |
| --- | --- |
| int | s32 |
| long, or int and long | s64 |
| float | f32 |
| double, or any mixture of numbers | f64 |
| true and false | bool |
| UTC from 1970 to 2262 | time |
| octets | bytes |
| string, enum, JSON, any other time, any other mixture | string |

A long of more than 53 bits has no equal f64: where decimals occur beside it, both are text.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gateway.dialects.ami.values import AmiValue, Double, Enum, Json, Long, Utc, to_model
from gateway.model.observations import ObjectSeen
from gateway.model.schema import ClassKey, ClassSchema, Element, Method
from gateway.model.secrets import SecretRules
from gateway.model.values import Value, Values, ValueType

_PLAIN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
_OTHERS: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_VALUE: Final = 64
"""Octets of a value in addition to its own."""
_HASH: Final = 16
"""Octets of the hash that distinguishes versions of a class."""


def class_name(kind: str) -> str:
    """Return the name of the class for a type of objects (T).

    Types may be any text. The name of one that front ends could not show, or not distinguish from another, is
    made of its plain characters and a hash.
    """
    if _PLAIN_NAME.fullmatch(kind):
        return kind
    digest = hashlib.sha256(kind.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    plain = _OTHERS.sub("_", kind)[:40].strip("_")
    return f"{plain if plain[:1].isalpha() else f'T{plain}'}_{digest}"


@dataclass(frozen=True, slots=True)
class Fixed:
    """The fixed elements of a class, whose values the relay sets."""

    properties: tuple[Element, ...]
    statistics: tuple[Element, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names of all of them."""
        return frozenset(element.name for element in (*self.properties, *self.statistics))


@dataclass(frozen=True, slots=True)
class Version:
    """A reported version of a class: its schema, and the columns after the fixed elements of both groups."""

    schema: ClassSchema
    properties: tuple[Column, ...]
    statistics: tuple[Column, ...]
    size: int
    """Characters of its description."""


@dataclass(slots=True, eq=False)
class Row:
    """An object.

    Attributes:
        table: its table.
        agent: the name of its application.
        native_id: unique within the relay.
        created: nanoseconds.
        sampled: the time of its last values, nanoseconds.
        properties: values of the fixed properties; ``statistics`` likewise.
        values: values by key, without secrets.
        expires: nanoseconds; 0 for never.
        size: approximate octets of its values.
        methods: methods that can be called on it; they are part of its class.
        version: the version of its class in the last report.
        transient: whether it can never return as the same object.
        waits: whether it is about to be reported in the latest version.
        unconfirmed: keys whose values are from before a restart, and may not be the last reported ones.
        shown_methods: the last methods that it was shown with, by name.
    """

    table: Table
    agent: str
    native_id: str
    created: int
    sampled: int
    properties: Values
    statistics: Values = ()
    values: dict[str, AmiValue] = field(default_factory=dict)
    expires: int = 0
    size: int = 0
    methods: tuple[Method, ...] = ()
    version: Version | None = None
    transient: bool = False
    waits: bool = False
    unconfirmed: frozenset[str] = frozenset()
    shown_methods: Mapping[str, Method] = field(default_factory=dict)

    @property
    def is_there(self) -> bool:
        """Whether the object has not ended."""
        return self.table.rows.get(self.native_id) is self

    def whole(self) -> ObjectSeen:
        """Return the observation of all its values."""
        values = self.values
        shown = [column.shown_value(values.get(column.key)) for column in self._version.properties]
        return self._seen((*self.properties, *shown))

    def measured(self) -> ObjectSeen:
        """Return the observation of its statistics only."""
        return self._seen(None)

    def _seen(self, properties: Values | None) -> ObjectSeen:
        version, values = self._version, self.values
        measured = [column.shown_value(values.get(column.key)) for column in version.statistics]
        key, shown = version.schema.key, (*self.statistics, *measured)
        agent, native_id, transient = self.agent, self.native_id, self.transient
        return ObjectSeen(key, agent, native_id, self.sampled, self.created, 0, properties, shown, transient)

    def end(self, now: int) -> ObjectSeen:
        """Return the observation of its end."""
        return ObjectSeen(self._version.schema.key, self.agent, self.native_id, now, self.created, now)

    @property
    def _version(self) -> Version:
        assert self.version is not None  # set by the first report
        return self.version


@dataclass(frozen=True, slots=True)
class Sifted:
    """The changes of a report, before they are applied to a row.

    Attributes:
        row: the row; ``None`` for a new one.
        gained: columns that are added or widened, by key.
        kept: the values without secrets.
        size: the growth of the row in octets.
    """

    row: Row | None
    gained: Mapping[str, Column]
    kept: Mapping[str, AmiValue]
    size: int


@dataclass(slots=True)
class Pace:
    """The time for which a class with new elements waits for more of them.

    Attributes:
        shortest: nanoseconds, as all times here.
        longest: the largest wait; waits are doubled as long as the class keeps growing.
    """

    shortest: int
    longest: int
    wait: int = 0
    last: int = 0

    def due(self, now: int) -> int:
        """Return when a change of now is to be reported."""
        quiet = now - self.last > 4 * self.wait
        self.wait = self.shortest if not self.wait or quiet else min(2 * self.wait, self.longest)
        return now + self.wait


class Table:
    """One class, its columns and its rows.

    Args:
        package: the package of the class.
        name: the name of the class.
        fixed: its fixed elements.
        pace: the pace of its reports as it grows.
        label: the name that applications use.
        description: the description of the class.

    Attributes:
        columns: the columns by key, in the order in which they were first reported.
        rows: the rows by native id.
        due: when its new version is to be reported, nanoseconds; 0 where it has not changed.
        label: the label that was passed.
    """

    def __init__(
        self, package: str, name: str, fixed: Fixed, pace: Pace, label: str = "", description: str = ""
    ) -> None:
        self.columns: dict[str, Column] = {}
        self.rows: dict[str, Row] = {}
        self.due = 0
        self._key = ClassKey(package, name)
        self._fixed = fixed
        self._names = fixed.names
        self.label = label
        self._description = description
        self._pace = pace
        self._versions: dict[tuple[Method, ...], Version] = {}
        self._shown: tuple[Column, ...] = ()

    @property
    def class_name(self) -> str:
        """Its class, ``package:class``."""
        return str(self._key)

    def learn(self, schema: ClassSchema, secrets: SecretRules) -> None:
        """Add the elements of a version from before the restart."""
        known = (column_of(one, secrets) for one in schema.elements if one.name not in self._names)
        self.columns = {column.key: column for column in known}
        self._shown = self._visible()

    def sift(self, native_id: str, values: Mapping[str, AmiValue], secrets: SecretRules) -> Sifted:
        """Return the changes that values would make to a row and to the columns, without making them."""
        row = self.rows.get(native_id)
        previous: Mapping[str, AmiValue] = row.values if row is not None else {}
        gained: dict[str, Column] = {}
        kept: dict[str, AmiValue] = {}
        size = 0
        for key, value in values.items():
            column, sort = self.columns.get(key), sort_of(value)
            if column is None:
                column = Column(key, element_name(key, self._names), sort, secrets.hides(key))
                if sort:
                    gained[key] = column
            elif sort & ~column.sorts:
                gained[key] = replace(column, sorts=column.sorts | sort)
            if not column.hidden:
                kept[key] = without_secrets(value, secrets)
                size += _size(kept[key]) - _size(previous.get(key))
        return Sifted(row, gained, kept, size)

    def grow(self, columns: Mapping[str, Column], now: int) -> None:
        """Add columns; `settle` makes them visible.

        A table without rows needs no settling: the first row does that at once.
        """
        seen = self.would_change(columns)
        self.columns |= columns
        if seen and self.rows:
            self.changed(now)

    def unknown(self, keys: Iterable[str]) -> list[str]:
        """Return those of these keys that have no column."""
        return [key for key in keys if key not in self.columns]

    def would_change(self, columns: Mapping[str, Column]) -> bool:
        """Return whether the addition of these columns would change the class."""
        return any(
            not column.hidden
            and ((before := self.columns.get(key)) is None or before.type is not column.type)
            for key, column in columns.items()
        )

    @property
    def is_settled(self) -> bool:
        """Whether no column has been added since the last `settle`."""
        shown = self._visible()
        return [(one.key, one.type) for one in shown] == [(one.key, one.type) for one in self._shown]

    def changed(self, now: int) -> None:
        """Note that the class has changed, which is reported when it is due."""
        self.due = self.due or self._pace.due(now)

    def settle(self, now: int) -> list[Row]:
        """Make added columns visible; return the rows that must be reported again, with all values."""
        self.due = 0
        self._pace.last = now
        if not self.is_settled:
            self._versions.clear()
        self._shown = self._visible()
        used = {row.methods for row in self.rows.values()}
        self._versions = {methods: one for methods, one in self._versions.items() if methods in used}
        return [row for row in self.rows.values() if row.version is not self.version(row.methods)]

    def version(self, methods: tuple[Method, ...] = ()) -> Version:
        """Return the settled version of the class with these methods."""
        known = self._versions.get(methods)
        if known is None:
            known = self._versions[methods] = self._made(methods)
        return known

    def _visible(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns.values() if not column.hidden)

    def _made(self, methods: tuple[Method, ...]) -> Version:
        measured = tuple(column for column in self._shown if column.is_measured)
        others = tuple(column for column in self._shown if not column.is_measured)
        schema = ClassSchema(
            self._key,
            (*self._fixed.properties, *(column.element() for column in others)),
            (*self._fixed.statistics, *(column.element() for column in measured)),
            methods,
            self.label,
            self._description,
        )
        content = repr(schema)
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()[:_HASH]
        key = replace(self._key, hash=digest)
        return Version(replace(schema, key=key), others, measured, len(content))


def _size(value: AmiValue) -> int:
    if value is None:
        return 0
    return _VALUE + (len(value) if isinstance(value, str | bytes) else 0)


TRUTH: Final = 1
INT: Final = 2
LONG: Final = 4
WIDE: Final = 8
"""A long with more bits than a double's digits hold."""
FLOAT: Final = 16
DOUBLE: Final = 32
TEXT: Final = 64
OCTETS: Final = 128
TIME: Final = 256

_NUMBERS: Final = INT | LONG | WIDE | FLOAT | DOUBLE
_EXACT: Final = 1 << 53
_LAST_TIME: Final = ((1 << 63) - 1) // 1_000_000
_LARGEST_FLOAT: Final = (2 - 2**-23) * 2.0**127
"""Applications may write a slightly larger number, which a float rounds; as a double it keeps its digits."""
_SORTS: Final[dict[type, int]] = {
    bool: TRUTH,
    int: INT,
    Double: DOUBLE,
    str: TEXT,
    Enum: TEXT,
    Json: TEXT,
    bytes: OCTETS,
}
_ALONE: Final = {
    TRUTH: ValueType.BOOL,
    INT: ValueType.S32,
    FLOAT: ValueType.F32,
    OCTETS: ValueType.BYTES,
    TIME: ValueType.TIME,
}
_OF_TYPE: Final = {
    ValueType.BOOL: TRUTH,
    ValueType.S32: INT,
    ValueType.S64: LONG,
    ValueType.F32: FLOAT,
    ValueType.F64: DOUBLE,
    ValueType.BYTES: OCTETS,
    ValueType.TIME: TIME,
}
_MEASURED: Final = frozenset((ValueType.S32, ValueType.S64, ValueType.F32, ValueType.F64))
_DECIMAL: Final = frozenset((ValueType.F32, ValueType.F64))


def sort_of(value: AmiValue) -> int:
    """Return the sort of a value, one of the constants above; 0 for null."""
    sort = _SORTS.get(type(value), 0)
    if sort:
        return sort
    if isinstance(value, Long):
        return LONG if -_EXACT <= value <= _EXACT else WIDE
    if isinstance(value, float):
        return FLOAT if abs(value) <= _LARGEST_FLOAT else DOUBLE
    if isinstance(value, Utc):
        return TIME if 0 <= value <= _LAST_TIME else TEXT
    return 0


def type_of(sorts: int) -> ValueType:
    """Return the smallest type for values of these sorts, which are combined by ``|``."""
    alone = _ALONE.get(sorts)
    if alone is not None:
        return alone
    if sorts & ~_NUMBERS:
        return ValueType.STRING
    if not sorts & (FLOAT | DOUBLE):
        return ValueType.S64
    return ValueType.STRING if sorts & WIDE else ValueType.F64


@dataclass(frozen=True, slots=True)
class Column:
    """The column of a key.

    Attributes:
        key: the key that applications use.
        name: the name of the element.
        sorts: the sorts of all values so far, combined by ``|``.
        hidden: whether it holds secrets, and is never reported.
        type: the type of the element.
    """

    key: str
    name: str
    sorts: int
    hidden: bool = False
    type: ValueType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", type_of(self.sorts))

    @property
    def is_measured(self) -> bool:
        """Whether it holds numbers, which are statistics; all others are properties."""
        return self.type in _MEASURED

    def element(self) -> Element:
        """Return the element of the schema. Its label is the key."""
        return Element(self.name, self.type, optional=True, label=self.key)

    def shown_value(self, value: AmiValue) -> Value | None:
        """Return the element's value; ``None`` where the element's type cannot hold it yet."""
        if value is None:
            return None
        sort = sort_of(value)
        if sort & ~self.sorts and type_of(self.sorts | sort) is not self.type:
            return None
        if self.type is ValueType.STRING:
            return text_of(value)
        found = to_model(value)
        return float(found) if self.type in _DECIMAL and isinstance(found, int) else found


def column_of(element: Element, secrets: SecretRules) -> Column:
    """Return the column of an element, as far as its type determines it."""
    key = element.label or element.name
    return Column(key, element.name, _OF_TYPE.get(element.type, TEXT), secrets.hides(key))


def element_name(key: str, fixed: frozenset[str]) -> str:
    """Return the element's name for a key: the key, unless a fixed element has that name.

    ``object`` then becomes ``object_key``, and ``object_key`` becomes ``object_key_key``: names stay unique.
    """
    stem = key
    while stem.endswith("_key"):
        stem = stem.removesuffix("_key")
    return f"{key}_key" if stem in fixed else key


def text_of(value: AmiValue) -> str:
    """Return the text of a value, for an element of type text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Utc):
        return _date(int(value))
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int):
        return str(int(value))
    return repr(float(value)) if isinstance(value, float) else str(value)


def _date(milliseconds: int) -> str:
    try:
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds}T"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def without_secrets(value: AmiValue, secrets: SecretRules) -> AmiValue:
    """Return a value with secrets in URIs masked, and without secret keys of JSON objects."""
    if isinstance(value, Json):
        return _json_without_secrets(value, secrets)
    if isinstance(value, str):
        return type(value)(secrets.masked_uris(value)) if "://" in value else value
    return value


def in_a_map(value: AmiValue, secrets: SecretRules) -> Value | None:
    """Return the model's value for use inside a map, where a time is text."""
    shown = without_secrets(value, secrets)
    return text_of(shown) if isinstance(shown, Utc) else to_model(shown)


def _json_without_secrets(text: Json, secrets: SecretRules) -> Json:
    """Return the text unchanged unless it contains secrets, so that numbers keep their digits."""
    if ":" not in text:
        return text  # it has no object with a key, and no URI
    try:
        document = json.loads(text)
        scrubbed = _scrubbed(document, secrets)
    except (ValueError, RecursionError):
        return Json("null")  # too many digits or levels to be examined: it may contain secrets
    return text if scrubbed == document else Json(json.dumps(scrubbed, separators=(",", ":")))


def _scrubbed(document: Any, secrets: SecretRules) -> Any:  # noqa: ANN401  any JSON
    if isinstance(document, dict):
        return {key: _scrubbed(one, secrets) for key, one in document.items() if not secrets.hides(key)}
    if isinstance(document, list):
        return [_scrubbed(one, secrets) for one in document]
    return secrets.masked_uris(document) if isinstance(document, str) else document
