"""Documents that commands print with ``--json``, described in ``docs/cli.md``, and forms of values and times.

Absent values are left out. Times are RFC 3339 in UTC with nine digits of a second; one that is not known is
null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from gateway.escapes import escaped, printable_json
from gateway.feed.operations import OperationAnswer, OperationRecord
from gateway.feed.records import AlarmRecord, SourceRecord
from gateway.feed.values import FeedValue, ObjectLink, as_json
from gateway.model.operations import Outcome
from gateway.model.schema import Argument, Element
from gateway.model.times import MICROSECOND, MILLISECOND, SECOND, utc_time
from gateway.model.values import ValueType
from gateway.terminal.view import (
    KINDS,
    AlarmChanged,
    Changed,
    CoreChanged,
    Created,
    Deleted,
    EventLogChanged,
    EventOccurred,
    FeedChange,
    GapFound,
    KnownObject,
    OperationChanged,
    SourceChanged,
    TerminalView,
    ValueChange,
    path_of,
)

Document = dict[str, Any]
"""A JSON object, as `json` writes it."""


def values_document(known: KnownObject, elements: Iterable[Element]) -> Document:
    """Return values by name; absent ones are left out."""
    values = ((element, known.value(element.name)) for element in elements)
    return {
        element.name: json_form(element, value, known.source)
        for element, value in values
        if value is not None
    }


def brief_document(known: KnownObject, view: TerminalView) -> Document:
    """Return the document of an object without its values."""
    record = known.record
    return {
        "object": known.path,
        "source": known.source,
        "class": known.class_name,
        "name": record.stable_name,
        "leaf_name": record.leaf_name,
        "row": record.row,
        "parent": None if record.parent is None else link_path(record.parent, known.source),
        "lifetime": record.lifetime.value,
        "stale_since": time_text(view.stale_since(known)),
    }


def object_document(known: KnownObject, view: TerminalView, elements: Iterable[Element]) -> Document:
    """Return the document of an object with the values of these elements."""
    record = known.record
    # Gone through twice.
    elements = tuple(elements)
    return {
        **brief_document(known, view),
        "native_id": record.native_id,
        "agent": record.agent,
        "created": time_text(record.created),
        "properties_sampled": time_text(record.properties_sampled),
        "statistics_sampled": time_text(record.statistics_sampled),
        "changed": time_text(record.changed),
        "reset": time_text(record.reset),
        "values": values_document(known, elements),
        "absent": [element.name for element in elements if known.value(element.name) is None],
    }


ACCEPTED = "accepted"
"""The outcome of a check that found no reason to refuse a request; nothing was applied."""


def answer_document(
    answer: OperationAnswer, described: Mapping[str, Element | Argument], source: str, *, check: bool = False
) -> Document:
    """Make the document of an answer.

    Args:
        answer: the answer.
        described: the elements or arguments of its values by name.
        source: name of the source, for references.
        check: whether the request was to be checked only.
    """
    accepted = check and answer.outcome is Outcome.APPLIED
    return {
        "outcome": ACCEPTED if accepted else answer.outcome.value,
        "operation_id": answer.operation_id,
        "text": answer.text,
        "element": answer.element,
        "code": answer.code,
        "values": named_values(answer.values, described, source),
    }


def operation_document(record: OperationRecord, view: TerminalView) -> Document:
    """Return the document of an operation."""
    source = view.source_name(record.source)
    described = descriptions(view, record.class_name, record.method)
    return {
        "operation_id": record.operation_id,
        "operation": record.kind.value,
        "state": record.state.value,
        "principal": str(record.principal),
        "origin": record.principal.origin,
        "object": f"{source}/{record.class_name}/{record.stable_name}" if record.class_name else "",
        "method": record.method,
        "values": named_values(record.values, described, source),
        "absent": list(record.absent),
        "former": named_values(record.previous, described, source),
        "found": named_values(record.found, described, source),
        "outcome": None if record.outcome is None else record.outcome.value,
        "element": record.element,
        "code": record.code,
        "text": record.text,
        "began": time_text(record.began),
        "ended": time_text(record.ended),
        "attempts": record.attempts,
    }


def descriptions(view: TerminalView, class_name: str, method: str = "") -> dict[str, Element | Argument]:
    """Return the descriptions of values, by name: a method's arguments, or a class's elements."""
    in_class = view.classes.get(class_name)
    if in_class is None:
        return {}
    for known in in_class.schema.methods if method else ():
        if known.name == method:
            return {argument.name: argument for argument in known.arguments}
    return {} if method else {element.name: element for element in in_class.schema.elements}


def named_values(
    values: Mapping[str, FeedValue], described: Mapping[str, Element | Argument], source: str
) -> Document:
    """Make a document of values by name, some of which may belong to no known element."""
    unknown = Element("", ValueType.STRING)
    return {name: json_form(described.get(name, unknown), value, source) for name, value in values.items()}


def source_document(record: SourceRecord, view: TerminalView) -> Document:
    """Return the document of a source."""
    objects = sum(key.source == record.number for key in view.objects)
    return {
        "source": record.name,
        "number": record.number,
        "source_kind": record.kind,
        "state": record.state.value,
        "detail": record.detail,
        "since": time_text(record.since),
        "last_heard": time_text(record.last_received),
        "objects": objects,
        "active_alarms": sum(alarm.source == record.number for alarm in view.alarms.values()),
        "counters": dict(record.counters),
    }


def event_document(event: EventOccurred) -> Document:
    """Return the document of an event."""
    record = event.record
    described = event.in_class.schema.arguments
    return {
        "event_id": record.event_id,
        "event": str(event.in_class.schema.key),
        "source": event.source,
        "severity": record.severity.name.lower(),
        "state": record.state.value,
        "condition": record.condition,
        "object": None if record.subject is None else link_path(record.subject, event.source),
        "text": record.text,
        "occurred": time_text(record.time),
        "heard": time_text(record.received),
        "values": {
            described[position].name: json_form(described[position], value, event.source)
            for position, value in sorted(record.values.items())
            if 0 <= position < len(described)
        },
    }


def change_document(change: FeedChange, view: TerminalView, now: int) -> Document:
    """Make one line of ``watch --json``; ``time`` is the time of receipt."""
    return {"time": time_text(now), "kind": KINDS[type(change)], **_details(change, view)}


def _details(change: FeedChange, view: TerminalView) -> Document:  # noqa: C901, PLR0911  one case for each kind
    match change:
        case Created(known):
            values = values_document(known, known.elements)
            return {**brief_document(known, view), "values": values}
        case Changed(known, changes):
            return _changed_document(known, changes)
        case Deleted():
            return _deleted_document(change)
        case EventOccurred():
            return event_document(change)
        case AlarmChanged(source, record):
            return _alarm_document(source, record)
        case SourceChanged(record):
            return {
                "source": record.name,
                "source_kind": record.kind,
                "state": record.state.value,
                "detail": record.detail,
                "since": time_text(record.since),
            }
        case GapFound(source, record):
            start, end = time_text(record.start), time_text(record.end)
            return {"source": source, "from": start, "to": end, "reason": record.reason}
        case OperationChanged(source, record):
            return {"source": source, **operation_document(record, view)}
        case EventLogChanged(record):
            return {"state": record.state.value, "detail": record.detail}
        case CoreChanged(reason):
            return {"connected": not reason, "detail": reason}


def _changed_document(known: KnownObject, changes: Iterable[ValueChange]) -> Document:
    return {
        "object": known.path,
        "source": known.source,
        "class": known.class_name,
        "name": known.record.stable_name,
        "sampled": time_text(known.record.statistics_sampled or known.record.properties_sampled),
        "changes": {
            change.element.name: {
                "former": _or_null(change.element, change.former, known.source),
                "value": _or_null(change.element, change.value, known.source),
            }
            for change in changes
        },
    }


def _or_null(element: Element, value: FeedValue | None, source: str) -> object:
    return None if value is None else json_form(element, value, source)


def _deleted_document(deleted: Deleted) -> Document:
    return {
        "object": deleted.path,
        "source": deleted.source,
        "class": deleted.class_name,
        "name": deleted.stable_name,
        "deleted": None if deleted.record is None else time_text(deleted.record.deleted),
        "inferred": deleted.record is None or deleted.record.inferred,
    }


def _alarm_document(source: str, record: AlarmRecord) -> Document:
    return {
        "alarm": record.name,
        "source": source,
        "condition": record.condition,
        "active": not record.cleared,
        "severity": record.severity.name.lower(),
        "object": None if record.subject is None else link_path(record.subject, source),
        "text": record.text,
        "event_id": record.event_id,
        "raised": time_text(record.raised),
        "cleared": time_text(record.cleared),
    }


def time_text(time: int) -> str | None:
    """Return nanoseconds since 1970 with nine digits of a second; ``None`` for 0, which is not known."""
    return utc_time(time) if time else None


def json_form(described: Element | Argument, value: FeedValue, source: str) -> object:
    """Return a value for JSON: labels of enumerations, RFC 3339, integer nanoseconds, hexadecimal, paths.

    Args:
        described: the element or argument of the value.
        value: the value.
        source: name of the source, for references.
    """
    if isinstance(value, ObjectLink):
        return link_path(value, source)
    for named in described.values:
        # In Python True == 1 == 1.0, and an enumeration may be of numbers.
        if type(named.value) is type(value) and named.value == value:
            return named.label
    if described.type is ValueType.TIME and type(value) is int:
        return utc_time(value) or value  # a time beyond all calendars has no text
    if isinstance(value, Mapping):
        return {str(key): _inner(inner, source) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_inner(inner, source) for inner in value]
    return as_json(value)


def text_form(described: Element | Argument, value: FeedValue, source: str) -> str:
    """Return a value in one text for people: as in JSON, but a text is escaped, without quotation marks."""
    if described.type is ValueType.DURATION and type(value) is int:
        return duration_text(value)
    plain = json_form(described, value, source)
    return escaped(plain) if isinstance(plain, str) else printable_json(json.dumps(plain, ensure_ascii=False))


def duration_text(nanoseconds: int) -> str:
    """Return ``90 s``, ``1.5 s`` or ``250 ms``: exact, and as `gateway.feed.values` reads it."""
    for unit, size in (("s", SECOND), ("ms", MILLISECOND), ("us", MICROSECOND)):
        # Three digits behind the point at most, so that the text is exact.
        if nanoseconds % (size // 1000 or 1) == 0 and abs(nanoseconds) >= size:
            text = f"{nanoseconds / size:.3f}".rstrip("0").rstrip(".")
            return f"{text} {unit}"
    return f"{nanoseconds} ns"


def link_path(link: ObjectLink, source: str) -> str:
    """Return the path of the object that a reference leads to, as at the command line."""
    return path_of(source, link.class_name, link.stable_name)


def _inner(value: object, source: str) -> object:
    """Convert a value inside a map or list, whose type is in no schema."""
    if isinstance(value, ObjectLink):
        return link_path(value, source)
    if isinstance(value, Mapping):
        return {str(key): _inner(inner, source) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_inner(inner, source) for inner in value]
    # JSON has no NaN and no infinity.
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return as_json(value)
