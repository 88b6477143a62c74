"""Keys of a type of objects as elements of a class: what type one has after all that was told under it.

A key has no declared type. Its element has the smallest type that holds each value that was told under it,
so that it only ever widens, and at most three times:

| told so far | type |
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
import json
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.dialects.ami.model_values import to_model
from gateway.dialects.ami.values import AmiValue, Double, Enum, Json, Long, Utc
from gateway.model.schema import Element
from gateway.model.secrets import SecretRules
from gateway.model.values import Value, ValueType

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
