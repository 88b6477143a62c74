"""Absent statistics: AM2 can leave out optional properties but not statistics, and absent is not zero.

A class of our agents carries one more statistic at its end, ``absentStatistics`` (u64): bit n is set if
statistic n is absent, and then its value is a zero that means nothing. Our console applies it and hides
it; other consoles show it and the zeros. Both directions are here and nowhere else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.typed_values import QmfValues
from gateway.model.schema import ClassSchema, Element
from gateway.model.values import ValueType

NAME: Final = "absentStatistics"
_BITS: Final = 64
_ELEMENT: Final = Element(
    NAME,
    ValueType.U64,
    description="Bit n is set if statistic n (from 0) has no value; its zero means nothing",
)


def with_absence(schema: ClassSchema) -> ClassSchema:
    """Return ``schema`` with the additional statistic, or as it is if it has no statistics at all.

    Raises:
        LocalProtocolError: there are more statistics than bits.
    """
    if not schema.statistics:
        return schema
    if len(schema.statistics) > _BITS:
        raise LocalProtocolError(f"class {schema.key} has more than {_BITS} statistics")
    return replace(schema, statistics=(*schema.statistics, _ELEMENT))


def tells_absence(schema: ClassSchema) -> bool:
    """Whether the last statistic of a class is this one."""
    if not schema.statistics:
        return False
    last = schema.statistics[-1]
    return last.name == NAME and last.type is ValueType.U64


def without_absence(schema: ClassSchema) -> ClassSchema:
    """Return ``schema`` as it was before `with_absence`; another schema as it is."""
    return replace(schema, statistics=schema.statistics[:-1]) if tells_absence(schema) else schema


def marked(statistics: QmfValues) -> QmfValues:
    """Return ``statistics`` with the additional one; absent ones stay ``None``, which travels as zero."""
    if None not in statistics:
        return (*statistics, 0)
    bits = sum(1 << position for position, value in enumerate(statistics) if value is None)
    return (*statistics, bits)


def applied(statistics: QmfValues) -> QmfValues:
    """Return what was given to `marked`, from statistics whose last one tells absence."""
    bits = statistics[-1]
    if not bits or not isinstance(bits, int):
        return statistics[:-1]
    shown = list(statistics[:-1])
    bits &= (1 << len(shown)) - 1
    while bits:
        lowest = bits & -bits
        shown[lowest.bit_length() - 1] = None
        bits ^= lowest
    return tuple(shown)
