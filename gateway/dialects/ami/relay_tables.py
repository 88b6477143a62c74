"""Tables of a relay: a class each, whose elements grow with the keys that applications use.

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

A long of more than 53 bits has no f64 that is the same number: with decimals beside it, both are text.
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
"""Octets that a value takes beside its own."""
_HASH: Final = 16
"""Octets that tell versions of a class apart."""


def class_name(kind: str) -> str:
    """The name of the class that a type of objects (T) becomes.

    Types may be any text. One that norths could not show, or tell from another, is named by what can be
    shown of it and a hash.
    """
    if _PLAIN_NAME.fullmatch(kind):
        return kind
    digest = hashlib.sha256(kind.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    plain = _OTHERS.sub("_", kind)[:40].strip("_")
    return f"{plain if plain[:1].isalpha() else f'T{plain}'}_{digest}"


@dataclass(frozen=True, slots=True)
class Fixed:
    """What a class has before any key: elements whose values the relay knows."""

    properties: tuple[Element, ...]
    statistics: tuple[Element, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Of all of them."""
        return frozenset(element.name for element in (*self.properties, *self.statistics))


@dataclass(frozen=True, slots=True)
class Version:
    """A class as it was told: its schema, and the columns behind the fixed elements of both groups."""

    schema: ClassSchema
    properties: tuple[Column, ...]
    statistics: tuple[Column, ...]
    size: int
    """Characters that describe it."""


@dataclass(slots=True, eq=False)
class Row:
    """An object.

    Attributes:
        table: that it stands in.
        agent: the application's name.
        native_id: unique within the relay.
        created: nanoseconds.
        sampled: when its values were told last, nanoseconds.
        properties: values of the fixed elements; statistics as well.
        values: by key; those that hold secrets are not kept.
        expires: nanoseconds; 0 for never.
        size: octets that its values take, about.
        methods: that can be called on it; they are part of its class.
        version: of its class, as it was told last.
        transient: whether it never comes back as the same one.
        waits: whether it is to be told under the latest version, soon.
        doubtful: keys whose values were known before a restart, and may not be the last that were told.
        shown_methods: the last ones that it was shown with, by name.
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
    doubtful: frozenset[str] = frozenset()
    shown_methods: Mapping[str, Method] = field(default_factory=dict)

    @property
    def is_there(self) -> bool:
        """Whether it has not ended."""
        return self.table.rows.get(self.native_id) is self

    def whole(self) -> ObjectSeen:
        """What there is to tell of it."""
        values = self.values
        told = [column.told(values.get(column.key)) for column in self._version.properties]
        return self._seen((*self.properties, *told))

    def measured(self) -> ObjectSeen:
        """Its statistics only."""
        return self._seen(None)

    def _seen(self, properties: Values | None) -> ObjectSeen:
        version, values = self._version, self.values
        measured = [column.told(values.get(column.key)) for column in version.statistics]
        key, told = version.schema.key, (*self.statistics, *measured)
        agent, native_id, transient = self.agent, self.native_id, self.transient
        return ObjectSeen(key, agent, native_id, self.sampled, self.created, 0, properties, told, transient)

    def end(self, now: int) -> ObjectSeen:
        """That it is no more."""
        return ObjectSeen(self._version.schema.key, self.agent, self.native_id, now, self.created, now)

    @property
    def _version(self) -> Version:
        assert self.version is not None  # set when it is told first
        return self.version


@dataclass(frozen=True, slots=True)
class Sifted:
    """Values that were told of a row, before it has them.

    Attributes:
        row: ``None`` for a new one.
        gained: columns that they add or widen, by key.
        kept: without those that hold secrets.
        size: octets that the row takes more.
    """

    row: Row | None
    gained: Mapping[str, Column]
    kept: Mapping[str, AmiValue]
    size: int


@dataclass(slots=True)
class Pace:
    """How long a class that gains elements waits for more of them.

    Attributes:
        shortest: nanoseconds; so are the others.
        longest: up to which the wait is doubled while the class goes on gaining.
    """

    shortest: int
    longest: int
    wait: int = 0
    last: int = 0

    def due(self, now: int) -> int:
        """When what is gained now is to be told."""
        quiet = now - self.last > 4 * self.wait
        self.wait = self.shortest if not self.wait or quiet else min(2 * self.wait, self.longest)
        return now + self.wait


class Table:
    """One class, its columns and its rows.

    Args:
        package: of the class.
        name: of the class.
        fixed: elements that it always has.
        pace: of its growth.
        label: as applications call it.
        description: of the class.

    Attributes:
        columns: by key, in the order in which they were told first.
        rows: by native id.
        due: when it is to be told again, nanoseconds; 0 where there is nothing new.
        label: as given.
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

    def learn(self, schema: ClassSchema, secrets: SecretRules) -> None:
        """Take over the elements of a version known from before."""
        known = (column_of(one, secrets) for one in schema.elements if one.name not in self._names)
        self.columns = {column.key: column for column in known}
        self._shown = self._visible()

    def sift(self, native_id: str, values: Mapping[str, AmiValue], secrets: SecretRules) -> Sifted:
        """What these values would change of a row, and of the columns; nothing is changed yet."""
        row = self.rows.get(native_id)
        former: Mapping[str, AmiValue] = row.values if row is not None else {}
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
                size += _size(kept[key]) - _size(former.get(key))
        return Sifted(row, gained, kept, size)

    def grow(self, columns: Mapping[str, Column], now: int) -> None:
        """Have these columns; `settle` tells them, unless nobody can see a difference.

        Without rows nobody can, either: it is settled for the first one at once.
        """
        seen = self.would_change(columns)
        self.columns |= columns
        if seen and self.rows:
            self.changed(now)

    def unknown(self, keys: Iterable[str]) -> list[str]:
        """Those of these keys that it has no column for."""
        return [key for key in keys if key not in self.columns]

    def would_change(self, columns: Mapping[str, Column]) -> bool:
        """Whether anybody could see that it has these columns."""
        return any(
            not column.hidden
            and ((before := self.columns.get(key)) is None or before.type is not column.type)
            for key, column in columns.items()
        )

    @property
    def is_settled(self) -> bool:
        """Whether it has gained nothing since it was settled last."""
        shown = self._visible()
        return [(one.key, one.type) for one in shown] == [(one.key, one.type) for one in self._shown]

    def changed(self, now: int) -> None:
        """Its class is another one now; that is told when it is due."""
        self.due = self.due or self._pace.due(now)

    def settle(self, now: int) -> list[Row]:
        """What it gained holds from now on; returns the rows to be told again, whole."""
        self.due = 0
        self._pace.last = now
        if not self.is_settled:
            self._versions.clear()
        self._shown = self._visible()
        used = {row.methods for row in self.rows.values()}
        self._versions = {methods: one for methods, one in self._versions.items() if methods in used}
        return [row for row in self.rows.values() if row.version is not self.version(row.methods)]

    def version(self, methods: tuple[Method, ...] = ()) -> Version:
        """The class as it was settled last, with these methods."""
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
"""A long of more bits than a double has digits for."""
FLOAT: Final = 16
DOUBLE: Final = 32
TEXT: Final = 64
OCTETS: Final = 128
TIME: Final = 256

_NUMBERS: Final = INT | LONG | WIDE | FLOAT | DOUBLE
_EXACT: Final = 1 << 53
_LAST_TIME: Final = ((1 << 63) - 1) // 1_000_000
_LARGEST_FLOAT: Final = (2 - 2**-23) * 2.0**127
"""Applications may write a little more, which is rounded to this; here it keeps its digits, as a double."""
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
    """What a value is, as one of the constants here; 0 for null."""
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
    """The smallest type for values of all these sorts, which are added up."""
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
    """A key of a type, as it stands.

    Attributes:
        key: as applications tell it.
        name: of the element.
        sorts: of all values told so far, added up.
        hidden: it holds secrets and is never told.
        type: of the element.
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
        """Whether it holds numbers, which are statistics; all else are properties."""
        return self.type in _MEASURED

    def element(self) -> Element:
        """As a schema has it. The label is the key."""
        return Element(self.name, self.type, optional=True, label=self.key)

    def told(self, value: AmiValue) -> Value | None:
        """What stands for a value in the element; ``None`` where its type does not hold it (yet)."""
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
    """The column that an element was made of, as far as its type tells."""
    key = element.label or element.name
    return Column(key, element.name, _OF_TYPE.get(element.type, TEXT), secrets.hides(key))


def element_name(key: str, fixed: frozenset[str]) -> str:
    """What the element of a key is called: as the key is, unless the class has one of that name anyway.

    ``object`` becomes ``object_key`` then, ``object_key`` becomes ``object_key_key``: no two keys meet.
    """
    stem = key
    while stem.endswith("_key"):
        stem = stem.removesuffix("_key")
    return f"{key}_key" if stem in fixed else key


def text_of(value: AmiValue) -> str:
    """A value where its element is text."""
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
    """A value with secrets in URIs masked, and secret keys of JSON objects left out."""
    if isinstance(value, Json):
        return _json_without_secrets(value, secrets)
    if isinstance(value, str):
        return type(value)(secrets.masked_uris(value)) if "://" in value else value
    return value


def in_a_map(value: AmiValue, secrets: SecretRules) -> Value | None:
    """What stands for a value where it has no element of its own: a time is text there."""
    shown = without_secrets(value, secrets)
    return text_of(shown) if isinstance(shown, Utc) else to_model(shown)


def _json_without_secrets(text: Json, secrets: SecretRules) -> Json:
    """The text stays as it is unless there is something to leave out: numbers keep their digits."""
    if ":" not in text:
        return text  # no object with a key, and no URI
    try:
        document = json.loads(text)
        scrubbed = _scrubbed(document, secrets)
    except (ValueError, RecursionError):
        return Json("null")  # digits or nesting beyond what can be looked through: nobody knows what it holds
    return text if scrubbed == document else Json(json.dumps(scrubbed, separators=(",", ":")))


def _scrubbed(document: Any, secrets: SecretRules) -> Any:  # noqa: ANN401  any JSON
    if isinstance(document, dict):
        return {key: _scrubbed(one, secrets) for key, one in document.items() if not secrets.hides(key)}
    if isinstance(document, list):
        return [_scrubbed(one, secrets) for one in document]
    return secrets.masked_uris(document) if isinstance(document, str) else document
