"""Values of lines to the model's, and back."""

from __future__ import annotations

from typing import Final

from gateway.dialects.ami.values import AmiValue, Double, Enum, Json, Long, Utc
from gateway.dialects.errors import LocalProtocolError
from gateway.model.values import Value, ValueType

_MILLISECOND: Final = 1_000_000

_TYPES: Final[dict[type, ValueType]] = {
    bool: ValueType.BOOL,
    int: ValueType.S32,
    Long: ValueType.S64,
    float: ValueType.F32,
    Double: ValueType.F64,
    str: ValueType.STRING,
    Enum: ValueType.STRING,
    Json: ValueType.STRING,  # its shape may differ from value to value
    bytes: ValueType.BYTES,
    Utc: ValueType.TIME,
}


def value_type(value: AmiValue) -> ValueType | None:
    """Return what the model calls a value's type; ``None`` for null, which has none."""
    return _TYPES.get(type(value))


def to_model(value: AmiValue) -> Value | None:
    """Return the model's value, a time in nanoseconds; ``None`` is absent."""
    if isinstance(value, Utc):
        return int(value) * _MILLISECOND
    if value is None or isinstance(value, bool | bytes):
        return value
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else str(value)


def from_model(value: Value | None, value_type: ValueType) -> AmiValue:
    """Return the value that a line can hold for one of the model's; integers beyond 32 bits are longs.

    Raises:
        LocalProtocolError: AMI has no such type, a number does not fit, or a time has no whole milliseconds.
    """
    if value is None or isinstance(value, bool | bytes):
        return value
    if isinstance(value, int) and value_type is ValueType.TIME:
        if value % _MILLISECOND:
            raise LocalProtocolError("a time must be of whole milliseconds")
        return Utc(value // _MILLISECOND)
    if isinstance(value, int) and value_type.integer_bits:
        return value if value_type in _OF_32_BITS else Long(value)
    if isinstance(value, int | float) and value_type in (ValueType.F32, ValueType.F64):
        return float(value) if value_type is ValueType.F32 else Double(value)
    if isinstance(value, str):
        return str(value)
    raise LocalProtocolError(f"AMI has no {value_type.value}")


_OF_32_BITS: Final = frozenset((ValueType.U8, ValueType.U16, ValueType.S8, ValueType.S16, ValueType.S32))
