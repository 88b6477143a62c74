"""The types of managed elements, and the Python values of each type."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID


class ValueType(enum.Enum):
    """The type of an element or argument.

    An enumeration is a property of the element (its ``values``), not a type: its numbers or texts keep their
    type. The Python type of the values stands behind each type.
    """

    BOOL = "bool"  # bool
    U8 = "u8"  # int
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    S8 = "s8"
    S16 = "s16"
    S32 = "s32"
    S64 = "s64"
    F32 = "f32"  # float
    F64 = "f64"
    STRING = "string"  # str
    BYTES = "bytes"  # bytes
    UUID = "uuid"  # uuid.UUID
    TIME = "time"  # int, nanoseconds since 1970-01-01 UTC
    DURATION = "duration"  # int, nanoseconds
    REFERENCE = "reference"  # Reference
    MAP = "map"  # Mapping[str, Value]
    LIST = "list"  # tuple[Value, ...]

    @property
    def integer_bits(self) -> int:
        """Width of an integer type in bits; 0 for every other type."""
        return int(self.value[1:]) if self.value[0] in "us" and self.value[1:].isdigit() else 0

    @property
    def is_number(self) -> bool:
        """Whether values are numbers, of which one may ask what kind they are."""
        return self.integer_bits > 0 or self in (ValueType.F32, ValueType.F64, ValueType.DURATION)

    @property
    def signed(self) -> bool:
        """Whether this is a signed integer type."""
        return self.integer_bits > 0 and self.value[0] == "s"


@dataclass(frozen=True, slots=True)
class Reference:
    """A pointer to another object of the same source, by its native id.

    ``name`` is the stable name of that object, where what refers to it says so; otherwise empty.
    """

    native_id: str
    name: str = field(default="", compare=False)


Scalar: TypeAlias = bool | int | float | str
"""A value that contains no others, and has a type of JSON."""

Value: TypeAlias = (
    "bool | int | float | str | bytes | UUID | Reference | Mapping[str, Value] | tuple[Value, ...]"
)

Values: TypeAlias = "tuple[Value | None, ...]"
"""One value for each element in schema order; ``None`` is absent, which never equals zero or empty."""
