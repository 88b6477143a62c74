"""Classes and events as the log needs them: names, forms of values, what is a counter, and their record."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Final, NamedTuple

from gateway.eventlog.record import Convert, LogRecord, RecordKind, converter
from gateway.feed.records import ClassRecord, EventClassRecord
from gateway.feed.text_values import as_json
from gateway.feed.values import FeedValue
from gateway.model.schema import Argument, Element, Kind

_PROPERTY, _STATISTIC = "property", "statistic"


class LoggedElement(NamedTuple):
    """An element of a class; a tuple, because it is taken apart for each recorded value.

    Attributes:
        name: of the element.
        convert: its values to JSON; ``None`` where they are what JSON can hold.
        counter: which of the object's counters it is; -1 for none of them.
    """

    name: str
    convert: Convert | None
    counter: int


class LoggedClass:
    """One version of a class.

    Args:
        record: of the feed.
        interval: nanoseconds between two records of one object's statistics, at least.

    Attributes:
        number: of the feed.
        name: ``package:class``.
        elements: by position.
        properties: the bits of the positions of properties.
        counter_bits: the bits of the positions of counters.
    """

    __slots__ = (
        "class_name",
        "counter_bits",
        "elements",
        "interval",
        "name",
        "number",
        "package",
        "properties",
        "record",
    )

    def __init__(self, record: ClassRecord, interval: int) -> None:
        schema = record.schema
        elements = schema.elements
        self.record: Final = record
        self.number: Final = record.number
        self.package: Final = schema.key.package
        self.class_name: Final = schema.key.name
        self.name: Final = str(schema.key)
        self.interval: Final = interval
        places = count()
        self.elements: Final = tuple(
            LoggedElement(e.name, converter(e.type), next(places) if e.kind is Kind.COUNTER else -1)
            for e in elements
        )
        self.properties: Final = (1 << len(schema.properties)) - 1
        self.counter_bits: Final = sum(1 << p for p, e in enumerate(self.elements) if e.counter >= 0)

    def schema_record(self, ingest_ts: str) -> LogRecord:
        """The class as it is known."""
        schema = self.record.schema
        elements = [_element(e, _PROPERTY) for e in schema.properties]
        elements += [_element(e, _STATISTIC) for e in schema.statistics]
        values: dict[str, object] = {
            "hash": schema.key.hash.hex(),
            "label": schema.label,
            "description": schema.description,
            "name_element": self.record.name_element,
            "parent_element": self.record.parent_element,
        }
        return LogRecord(
            kind=RecordKind.SCHEMA,
            ingest_ts=ingest_ts,
            package=self.package,
            class_name=self.class_name,
            values=_recorded(values) | {"elements": elements},
        )


class LoggedEvent:
    """One version of an event.

    Args:
        record: of the feed.

    Attributes:
        names: of its arguments, by position.
        converters: likewise, ``None`` where values are what JSON can hold.
    """

    __slots__ = ("converters", "name", "names", "package", "record")

    def __init__(self, record: EventClassRecord) -> None:
        schema = record.schema
        self.record: Final = record
        self.package: Final = schema.key.package
        self.name: Final = schema.key.name
        self.names: Final = tuple(argument.name for argument in schema.arguments)
        self.converters: Final[tuple[Convert | None, ...]] = tuple(
            converter(a.type) for a in schema.arguments
        )

    def values(self, found: Mapping[int, FeedValue], source: str) -> dict[str, object]:
        """Arguments by name; those without a value are left out."""
        values = {}
        for position, value in found.items():
            convert = self.converters[position]
            shown = value if convert is None else convert(value, source)
            if shown is not None:
                values[self.names[position]] = shown
        return values

    def schema_record(self, ingest_ts: str) -> LogRecord:
        """The event as it is known."""
        schema = self.record.schema
        values: dict[str, object] = {
            "hash": schema.key.hash.hex(),
            "label": schema.label,
            "description": schema.description,
        }
        arguments = [_argument(argument) for argument in schema.arguments]
        return LogRecord(
            kind=RecordKind.SCHEMA,
            ingest_ts=ingest_ts,
            package=self.package,
            event=self.name,
            values=_recorded(values) | {"arguments": arguments},
        )


def _element(element: Element, group: str) -> dict[str, object]:
    return {"name": element.name, "group": group, "type": element.type.value} | _recorded(
        {
            "kind": element.kind.value if group == _STATISTIC or element.kind is not Kind.GAUGE else "",
            "index": element.index,
            "optional": element.optional,
            "access": element.access.value,
            **_described(element),
        }
    )


def _argument(argument: Argument) -> dict[str, object]:
    return {"name": argument.name, "type": argument.type.value} | _recorded(
        {"optional": argument.optional, **_described(argument)}
    )


def _described(element: Element | Argument) -> dict[str, object]:
    return {
        "unit": element.unit,
        "references": element.references,
        "label": element.label,
        "description": element.description,
        "minimum": as_json(element.minimum),
        "maximum": as_json(element.maximum),
        "values": [{"label": named.label, "value": named.value} for named in element.values],
    }


def _recorded(values: Mapping[str, object]) -> dict[str, object]:
    """What says something: not empty, not false; zero is something."""
    return {name: value for name, value in values.items() if value or (value == 0 and value is not False)}
