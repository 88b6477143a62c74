"""Metric families of the elements of a class: their names, and the conversion of values.

Names, base units and types follow Prometheus' "Metric and label naming"
(https://prometheus.io/docs/practices/naming/): ``amqp_PACKAGE_CLASS_ELEMENT``, with the base unit where the
element's unit is one of time or octets, and ``_total`` for a counter.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from gateway.feed.values import FeedValue
from gateway.model.schema import ClassSchema, Element, Kind
from gateway.model.values import ValueType

DEFAULT_CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "rabbitmq:node": (
        "running",
        "memoryAlarm",
        "diskFreeAlarm",
        "memoryUsed",
        "memoryLimit",
        "diskFree",
        "diskFreeLimit",
        "fileDescriptorsUsed",
        "fileDescriptorLimit",
        "processesUsed",
        "processLimit",
        "startTime",
    ),
    "rabbitmq:queue": (
        "messages",
        "messagesReady",
        "messagesUnacknowledged",
        "messageOctets",
        "consumers",
        "messagesPublished",
        "messagesDeliveredOrGot",
        "messagesAcknowledged",
        "messagesRedelivered",
        "state",
    ),
    "rabbitmq:vhost": ("state", "messagesPublished", "messagesDeliveredOrGot"),
    "org.apache.qpid.broker:broker": ("uptime", "queueCount", "msgDepth", "byteDepth"),
    "org.apache.qpid.broker:queue": (
        "msgDepth",
        "byteDepth",
        "consumerCount",
        "unackedMessages",
        "msgTotalEnqueues",
        "msgTotalDequeues",
        "flowStopped",
    ),
    "openamq.org.server:broker": ("locked", "messages", "consumers"),
    "openamq.org.server:queue": ("pending", "consumers", "messages_in", "messages_out", "drop_count"),
}
"""The elements shown where nothing else is configured: depths, consumers, counters for rates, and alarms."""

_UNITS: Final[Mapping[str, tuple[str, float]]] = {
    "octets": ("bytes", 1.0),
    "bytes": ("bytes", 1.0),
    "kilobytes": ("bytes", 1024.0),
    "megabytes": ("bytes", 1024.0 * 1024.0),
    "seconds": ("seconds", 1.0),
    "milliseconds": ("seconds", 1e-3),
    "microseconds": ("seconds", 1e-6),
    "nanoseconds": ("seconds", 1e-9),
}
"""Units that Prometheus has a base unit for: the base unit, and the factor of values."""

_NANOSECOND: Final = 1e-9
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ODD: Final = re.compile(r"[^a-zA-Z0-9]+")


class Family(msgspec.Struct, frozen=True):
    """A metric family made of one element of a class.

    Attributes:
        name: its name, without the ``_total`` of a counter.
        element: the name of the element.
        kind: ``counter`` or ``gauge``.
        help: its description for people.
        factor: the factor of values.
        states: for an enumeration, each encoded value and its label: the label ``state`` of a series whose
            value is 1. Empty for numbers.
    """

    name: str
    element: str
    kind: str
    help: str
    factor: float = 1.0
    states: tuple[tuple[int | str, str], ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names that no other family of a page may have: its own, and those of its samples.

        OpenMetrics reserves ``_created`` for the time at which a counter began, which is not sent here.
        """
        suffixes = ("", "_total", "_created") if self.kind == "counter" else ("",)
        return frozenset(self.name + suffix for suffix in suffixes)

    def is_shown_by(self, families: Mapping[str, Family]) -> bool:
        """Return whether its samples belong to one of these, by their names."""
        shown = families.get(self.name)
        return shown is not None and shown.kind == self.kind


def without_collisions(families: Iterable[Family]) -> dict[str, Family]:
    """Return by name, in their order, the families that a page may have together: no two share a name.

    Several of one name and type, as of two versions of a class, are one.
    """
    families = list(families)
    found: dict[str, Family] = {}
    taken: set[str] = set()
    for family in sorted(families, key=lambda one: (priority(one.element), one.kind)):
        if taken.isdisjoint(family.names):
            taken |= family.names
            found[family.name] = family
    return {family.name: family for family in families if found.get(family.name) is family}


def families_of(schema: ClassSchema, classes: Mapping[str, Sequence[str]]) -> dict[int, Family]:
    """Return the families of a class, by the positions of their elements.

    Args:
        schema: the schema of the class.
        classes: by patterns of ``package:class``, of which the first that fits counts, the patterns of the
            elements; all as of a shell. Elements that have no number for a value are passed over.
    """
    wanted = dict(_wanted(schema, classes))
    # Two elements may differ only in what `snake_case` drops, and one may have the name of another's samples.
    shown = without_collisions(wanted.values())
    return {position: family for position, family in wanted.items() if shown.get(family.name) is family}


def priority(name: str) -> str:
    """Return the place of a name among those that get the same name of a metric: small letters come first.

    It does not depend on which of them was met first, so that no restart or other version changes a meaning.
    """
    return name.swapcase()


def without_family(
    schema: ClassSchema, classes: Mapping[str, Sequence[str]], families: Container[int]
) -> frozenset[str]:
    """Return the elements that are not among the ``families`` of `families_of`: others have their names."""
    return frozenset(schema.elements[p].name for p, _ in _wanted(schema, classes) if p not in families)


def _wanted(schema: ClassSchema, classes: Mapping[str, Sequence[str]]) -> Iterator[tuple[int, Family]]:
    """Yield position and family of each element that is chosen, and has a number."""
    key = str(schema.key)
    wanted = next((elements for pattern, elements in classes.items() if fnmatchcase(key, pattern)), ())
    for position, element in enumerate(schema.elements):
        if any(fnmatchcase(element.name, pattern) for pattern in wanted):
            family = family_of(schema, element)
            if family is not None:
                yield position, family


def family_of(schema: ClassSchema, element: Element) -> Family | None:
    """Return the metric family of an element; ``None`` where its values are no numbers."""
    of = element.name
    name = f"amqp_{snake_case(schema.key.package)}_{snake_case(schema.key.name)}_{snake_case(of)}"
    text = f"{element.description or element.label or of} ({schema.key} {of})"
    if element.values:
        states = tuple((one.value, one.label) for one in element.values)
        return Family(name, of, "gauge", text, states=states)
    match element.type:
        case ValueType.BOOL:
            return Family(name, of, "gauge", text)
        case ValueType.TIME:
            return Family(_ending(name, "timestamp_seconds"), of, "gauge", text, _NANOSECOND)
        case ValueType.DURATION if _UNITS.get(element.unit or "nanoseconds", ("", 1.0))[0] == "seconds":
            return Family(_ending(name, "seconds"), of, "gauge", text, _NANOSECOND)
        case ValueType.F32 | ValueType.F64 | ValueType.DURATION:
            pass  # qpidd counts samples of a latency in the type of a duration
        case _ if not element.type.integer_bits:
            return None
    unit, factor = _UNITS.get(element.unit, ("", 1.0))
    kind = "counter" if element.kind is Kind.COUNTER else "gauge"
    # A counter's family is named without it, its samples with it (OpenMetrics).
    name = name.removesuffix("_total") if kind == "counter" else name
    return Family(_ending(name, unit) if unit else name, of, kind, text, factor)


def snake_case(name: str) -> str:
    """Return a name as part of a metric's or a label's name: ``messagesReady`` as ``messages_ready``."""
    words = _ODD.sub("_", _WORDS.sub("_", name)).strip("_").lower()
    return words or "unnamed"


def number_of(value: FeedValue | None) -> float | None:
    """Return a value as a number: a boolean is 0 or 1; ``None`` for any other value."""
    return float(value) if isinstance(value, bool | int | float) else None


def _ending(name: str, unit: str) -> str:
    """Return ``name`` with its unit at the end, once, and without another word for the unit."""
    stem = name.removesuffix("_octets") if unit == "bytes" else name
    return stem if stem.endswith(f"_{unit}") else f"{stem}_{unit}"
