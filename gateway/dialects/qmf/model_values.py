"""The encoding of the model's values: references, absent statistics, stale objects, severities.

AM2 can leave out optional properties but not statistics, and absent is not zero. So a class of this gateway's
agents has an additional statistic at its end, ``absentStatistics`` (u64): bit n is set if statistic n is
absent, and its value is then a meaningless zero. This gateway's console applies and hides it; other consoles
show it and the zeros.

Nor can AM2 say that a new object may count on where another one ended, as queues of a RabbitMQ do. The
highest bit of ``absentStatistics`` says so, as long as the object lives: a console that sees the object first
must not take its values for counted. Agents of others have no such bit; their new objects count from zero.

AM2 has no sign that one object is stale either. So each class has an additional optional property at its
end, ``staleSince`` (absTime), which only stale objects have. This gateway's console applies and hides it,
too. For other consoles, the statistics of stale objects are absent.

QMF's severities are those of syslog (RFC 5424, section 6.2.1).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, cast

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.fields import NULL, ObjectId
from gateway.dialects.qmf.typed_values import QmfValue, QmfValues
from gateway.model.observations import Severity
from gateway.model.schema import ClassSchema, Element
from gateway.model.values import Reference, Values, ValueType


def wire_values(values: Values) -> QmfValues:
    """Return wire values of the model's; a reference is the text of an object id, or empty for none.

    Raises:
        LocalProtocolError: a reference is not an object id.
    """
    # Maps and lists contain references only if the agent's program puts them there, and then the
    # encoder refuses them.
    wire = cast("list[QmfValue]", list(values))
    for position, value in enumerate(values):
        if value.__class__ is Reference:
            wire[position] = _object_id(value)
    return tuple(wire)


def _object_id(reference: Reference) -> ObjectId:
    if not reference.native_id:
        return NULL
    try:
        return ObjectId.parse(reference.native_id)
    except ProtocolError as error:
        raise LocalProtocolError(f"a reference must be an object id: {error}") from error


ABSENT_STATISTICS: Final = "absentStatistics"
_BITS: Final = 63
_INHERITED: Final = 1 << _BITS
"""The bit of an object whose counters may have begun with the counts of another one."""
_ELEMENT: Final = Element(
    ABSENT_STATISTICS,
    ValueType.U64,
    description="Bit n is set if statistic n (from 0) has no value; its zero means nothing",
)


STALE_SINCE: Final = "staleSince"
_STALE_SINCE: Final = Element(
    STALE_SINCE,
    ValueType.TIME,
    optional=True,
    description="The time since which the agent cannot confirm what it reports of the object",
)


def with_marks(schema: ClassSchema) -> ClassSchema:
    """Return ``schema`` with the additional property, and the additional statistic if it has statistics.

    Raises:
        LocalProtocolError: there are more statistics than bits.
    """
    schema = replace(schema, properties=(*schema.properties, _STALE_SINCE))
    if not schema.statistics:
        return schema
    if len(schema.statistics) > _BITS:
        raise LocalProtocolError(f"class {schema.key} has more than {_BITS} statistics")
    return replace(schema, statistics=(*schema.statistics, _ELEMENT))


def has_absence_marks(schema: ClassSchema) -> bool:
    """Return whether the last statistic of a class is the additional one."""
    if not schema.statistics:
        return False
    last = schema.statistics[-1]
    return last.name == ABSENT_STATISTICS and last.type is ValueType.U64


def has_stale_marks(schema: ClassSchema) -> bool:
    """Return whether the last property of a class is the additional one."""
    if not schema.properties:
        return False
    last = schema.properties[-1]
    return last.name == STALE_SINCE and last.type is ValueType.TIME and last.optional


def without_marks(schema: ClassSchema) -> ClassSchema:
    """Return ``schema`` without the additional elements of `with_marks`, as far as it has them."""
    return replace(
        schema,
        properties=schema.properties[:-1] if has_stale_marks(schema) else schema.properties,
        statistics=schema.statistics[:-1] if has_absence_marks(schema) else schema.statistics,
    )


def with_absence_marked(statistics: QmfValues, *, inherited: bool = False) -> QmfValues:
    """Return ``statistics`` with the additional one; absent ones stay ``None``, which is encoded as zero.

    ``inherited``: the counters may have begun with the counts of another object.
    """
    bits = _INHERITED if inherited else 0
    if None in statistics:
        bits |= sum(1 << position for position, value in enumerate(statistics) if value is None)
    return (*statistics, bits)


def counts_inherited(statistics: QmfValues) -> bool:
    """Return whether the additional statistic says that counters may have begun with those of another."""
    bits = statistics[-1]
    return isinstance(bits, int) and bits >= _INHERITED


def absence_applied(statistics: QmfValues) -> QmfValues:
    """Return the statistics without the additional last one, which is applied to them."""
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


def staleness_applied(properties: QmfValues | None, now: int) -> tuple[QmfValues | None, int | None]:
    """Return the properties without the additional last one, and the time since which the object is stale.

    The clock of the agent may be ahead of the gateway's.
    """
    if properties is None:
        return None, None
    since = properties[-1]
    return properties[:-1], min(since, now) if isinstance(since, int) else 0


_TO_MODEL: Final = (
    Severity.CRITICAL,  # emergency
    Severity.CRITICAL,  # alert
    Severity.CRITICAL,  # critical
    Severity.MAJOR,  # error
    Severity.WARNING,  # warning
    Severity.INFO,  # notice
    Severity.INFO,  # informational
    Severity.INFO,  # debug
)
_FROM_MODEL: Final = {
    Severity.CRITICAL: 2,
    Severity.MAJOR: 3,
    Severity.MINOR: 4,
    Severity.WARNING: 4,
    Severity.CLEARED: 5,
    Severity.INFO: 6,
}


def model_severity(code: int) -> Severity:
    """Return the model's severity; a code beyond debug is INFO."""
    return _TO_MODEL[code] if 0 <= code < len(_TO_MODEL) else Severity.INFO


def wire_severity(severity: Severity) -> int:
    """Return the code of a severity."""
    return _FROM_MODEL[severity]
