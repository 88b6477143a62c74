"""Events and unfinished operations of a core before this one, from the event log to the feed's form.

The events were committed, and that core may have died before all front ends had them. A front end knows by
their ids which it has published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import structlog

from gateway.config.files import LoadedConfiguration
from gateway.eventlog.last_state import LastEvents, LastState, last_events, unfinished_operations
from gateway.eventlog.logged_events import (
    CLASSES,
    NAMES,
    QUOTED,
    QUOTED_ELEMENTS,
    QUOTED_EVENT,
    QUOTED_LINKS,
    WITHHELD,
)
from gateway.eventlog.record import LogRecord, nanoseconds_of, time_value
from gateway.feed.access import Quoted
from gateway.feed.operations import OperationKind, OperationRecord, OperationState
from gateway.feed.records import ClassRecord, EventClassRecord, EventRecord
from gateway.feed.values import FeedValue, ObjectLink
from gateway.file_owners import reason_of
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.own_events import OWN_EVENTS
from gateway.model.observations import EventState, Severity
from gateway.model.operations import Principal
from gateway.model.schema import Argument, ClassKey, ClassSchema, Element, EventSchema, NamedValue
from gateway.model.stable_names import parts
from gateway.model.values import Value, ValueType
from gateway.service.state.restored_objects import plain_value

log = structlog.get_logger(__name__)

_OWN: Final[Mapping[str, EventSchema]] = {str(schema.key): schema for schema in OWN_EVENTS}
_STATES: Final[Mapping[str, EventState]] = {
    "one-shot": EventState.ONE_SHOT,
    "raised": EventState.RAISED,
    "cleared": EventState.CLEARED,
}


@dataclass(frozen=True, slots=True)
class RecordedBefore:
    """The contents of the event log from which a core continues.

    Attributes:
        unfinished: the operations that an earlier core left unfinished.
        events: the events that front ends may not have.
        names: the names of the objects to which these events refer, as far as sources need them.
    """

    unfinished: list[LogRecord] = field(default_factory=list)
    events: LastEvents = field(default_factory=LastEvents)
    names: Mapping[str, str] = field(default_factory=dict)


def recorded_before(loaded: LoadedConfiguration, gateway: str, last: LastState | None) -> RecordedBefore:
    """Return what the log has, if it is on and can be read.

    Args:
        loaded: the configuration.
        gateway: the gateway's uuid.
        last: the states of sources when the log ended; ``None`` if there are none.
    """
    if not loaded.settings.log.enabled:
        return RecordedBefore()
    folder = loaded.log_folder
    try:
        events = last_events(folder, loaded.settings.history.events, gateway)
        return RecordedBefore(unfinished_operations(folder), events, _names(last, events))
    except OSError as error:  # the error is reported when the log is opened
        log.warning("event-log-not-read", path=error.filename, reason=reason_of(error, folder))
        return RecordedBefore()


def _names(last: LastState | None, recorded: LastEvents) -> dict[str, str]:
    objects = {} if last is None else last.objects
    referred = {
        value
        for event in recorded.events
        for value in (event.values or {}).values()
        if isinstance(value, str) and value in objects
    }
    return {object_id: objects[object_id].object_name or "" for object_id in referred}


def restored_events(
    last: LastEvents,
    gateway: str,
    classes: ClassRegistry,
    sources: Mapping[str, int],
    names: Mapping[str, str],
) -> Iterator[EventRecord]:
    """Yield the events as they were, without those that cannot be read, and those of another gateway.

    Args:
        last: the events of the log.
        gateway: the gateway's uuid.
        classes: the registry, which knows the events' schemas from now on.
        sources: numbers of sources by name; events of others are left out.
        names: the names of the objects that events refer to, by ``object_id``, as far as they are known.
    """
    known: dict[str, EventClassRecord | None] = {}
    for record in last.events:
        name = f"{record.package}:{record.event}"
        if name not in known:
            known[name] = _event_class(name, last.schemas.get(name), classes)
        event_class, source = known[name], sources.get(record.source or "", 0)
        made_by, _, number = (record.event_id or "").rpartition(".")
        uuid, _, boot = made_by.rpartition(".")
        if event_class is None or uuid != gateway or (record.source and not source):
            continue
        if boot.isdecimal() and number.isdecimal():
            yield _event(record, event_class, source, (int(boot), int(number)), names)


def _event(
    record: LogRecord,
    event_class: EventClassRecord,
    source: int,
    place: tuple[int, int],
    names: Mapping[str, str],
) -> EventRecord:
    boot, number = place
    values, resend = record.values or {}, record.resend or {}
    links = _links(resend, record)
    logged = {
        position: _value(argument, values[argument.name], record.source or "", names, links)
        for position, argument in enumerate(event_class.schema.arguments)
        if argument.name in values
    }
    return EventRecord(
        event_id=record.event_id or "",
        source=source,
        class_number=event_class.number,
        agent=record.agent or "",
        time=record.sample_ns or 0,
        severity=_severity(record.severity),
        values={position: value for position, value in logged.items() if value is not None},
        number=number,
        received=nanoseconds_of(record.ingest_ts),
        subject=_subject(record, links),
        text=record.text or "",
        state=_STATES.get(record.state or "", EventState.ONE_SHOT),
        condition=record.condition or "",
        boot=boot,
        quoted=_quoted(resend.get(QUOTED), links),
        withheld=_texts(resend.get(WITHHELD)),
    )


def _links(resend: Mapping[str, object], record: LogRecord) -> dict[str, ObjectLink]:
    """Return the objects to which an event refers, by the text that stands for each in the log."""
    names, classes = resend.get(NAMES), resend.get(CLASSES)
    found: dict[str, ObjectLink] = {}
    for text, name in names.items() if isinstance(names, Mapping) else ():
        link = _link(str(text), record.source or "", name) if isinstance(name, str) else None
        if link is not None:
            found[str(text)] = link
    for name, class_name in classes.items() if isinstance(classes, Mapping) else ():
        if isinstance(class_name, str):
            found[str(name)] = ObjectLink(class_name, 0, str(name))
    if record.object_id is not None and record.object_name is not None:
        subject = _link(record.object_id, record.source or "", record.object_name)
        if subject is not None:
            found[record.object_id] = subject
    return found


def _quoted(quoted: object, links: Mapping[str, ObjectLink]) -> Quoted | None:
    """Return what a text quotes; ``None`` where that is not known."""
    if not isinstance(quoted, Mapping):
        return None
    texts, event = _texts(quoted.get(QUOTED_LINKS)), quoted.get(QUOTED_EVENT)
    if not all(text in links for text in texts):
        return None
    return Quoted(_texts(quoted.get(QUOTED_ELEMENTS)), tuple(links[text] for text in texts), _text(event))


def _texts(values: object) -> tuple[str, ...]:
    return tuple(each for each in values if isinstance(each, str)) if isinstance(values, list) else ()


def _severity(text: str | None) -> Severity:
    return Severity[text.upper()] if text and text.upper() in Severity.__members__ else Severity.INFO


def _subject(record: LogRecord, links: Mapping[str, ObjectLink]) -> ObjectLink | None:
    if record.object_name is None:
        return None
    link = links.get(record.object_id or record.object_name)
    return link or ObjectLink(f"{record.package}:{record.class_name}", 0, record.object_name)


def _link(object_id: str, source: str, name: str) -> ObjectLink | None:
    """Return the link to the object of an ``object_id``; ``None`` where it is none of this source."""
    if not object_id.startswith(f"{source}/"):
        return None
    class_name, _, row = object_id[len(source) + 1 :].rpartition("/")
    return ObjectLink(class_name, int(row), name) if ":" in class_name and row.isdecimal() else None


def _event_class(name: str, schema: LogRecord | None, classes: ClassRegistry) -> EventClassRecord | None:
    if name in _OWN:
        return classes.event_record(_OWN[name])
    try:
        shown = None if schema is None else classes.event_cut(_schema(schema))
        return None if shown is None else classes.event_record(shown)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # of a later gateway, or damaged


def _schema(record: LogRecord) -> EventSchema:
    """Return the schema of a record; raise any of the exceptions above where it has none."""
    values = record.values or {}
    key = ClassKey(record.package or "", record.event or "", bytes.fromhex(_text(values.get("hash"))))
    arguments = values.get("arguments") or []
    if not isinstance(arguments, list):
        raise TypeError("arguments are a list")
    return EventSchema(
        key, tuple(map(_argument, arguments)), _text(values.get("label")), _text(values.get("description"))
    )


def _argument(logged: dict[str, object]) -> Argument:
    named = logged.get("values") or []
    if not isinstance(named, list):
        raise TypeError("values are a list")
    return Argument(
        _text(logged["name"]),
        ValueType(logged["type"]),
        unit=_text(logged.get("unit")),
        minimum=_number(logged.get("minimum")),
        maximum=_number(logged.get("maximum")),
        references=_text(logged.get("references")),
        label=_text(logged.get("label")),
        description=_text(logged.get("description")),
        optional=logged.get("optional") is True,
        values=tuple(NamedValue(each["label"], each["value"]) for each in named),
    )


def restored_class(record: LogRecord, number: int = 0) -> ClassRecord | None:
    """Return the class of a ``schema`` record as far as roles need it; ``None`` where it has none."""
    try:
        return class_of(number, ClassKey(record.package or "", record.class_name or ""), record.values or {})
    except (KeyError, TypeError, ValueError):
        return None  # of a later gateway, or damaged


def class_of(number: int, key: ClassKey, values: Mapping[str, object]) -> ClassRecord:
    """Return the class of the values of a ``schema`` record as far as roles need it.

    Raises:
        KeyError, TypeError, ValueError: it is not as the log writes it.
    """
    elements = values["elements"]
    if not isinstance(elements, list):
        raise TypeError("elements are a list")
    described = tuple(
        Element(str(one["name"]), ValueType(one["type"]), index=one.get("index") is True) for one in elements
    )
    if len({element.name for element in described}) != len(described):
        raise ValueError("two elements have one name")
    return ClassRecord(number, ClassSchema(key, described), _text(values.get("name_element")), "")


def _number(value: object) -> int | float | None:
    return value if isinstance(value, int | float) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _value(
    argument: Argument,
    logged: object,
    source: str,
    names: Mapping[str, str],
    links: Mapping[str, ObjectLink],
) -> FeedValue | None:
    """Return a value as the feed has it; ``None`` where the log does not have it."""
    if not isinstance(logged, str):
        plain = plain_value(logged)
        return plain if plain is None else _linked(plain, links)
    if argument.type is ValueType.REFERENCE:
        return links.get(logged) or _link(logged, source, names.get(logged, ""))
    read = _OF_TEXT.get(argument.type, str)
    try:
        return read(logged)
    except ValueError:
        return None


def _linked(value: Any, links: Mapping[str, ObjectLink]) -> Any:  # noqa: ANN401  a value, and parts of one
    """Return a value with the references in its maps and lists, which are text in the log."""
    if isinstance(value, Mapping):
        return {name: _linked(inner, links) for name, inner in value.items()}
    if isinstance(value, tuple):
        return tuple(_linked(inner, links) for inner in value)
    return links.get(value, value) if isinstance(value, str) else value


_OF_TEXT: Final[Mapping[ValueType, Callable[[str], Value | None]]] = {
    ValueType.TIME: time_value,
    ValueType.BYTES: bytes.fromhex,
    ValueType.UUID: UUID,
    ValueType.F32: float,
    ValueType.F64: float,
}
"""Readers of the types whose values are text in the log only."""


def restored_operations(begun: Iterable[LogRecord], sources: Mapping[str, int]) -> Iterator[OperationRecord]:
    """Yield the operations as they were begun, without a number, which the next core gives.

    Args:
        begun: their records in the log.
        sources: numbers of sources by name; of a source that is not configured any more, the object is left
            out.
    """
    for record in begun:
        source = sources.get(record.source or "", 0)
        front_end, _, name = (record.principal or "").partition(":")
        stable_name = (record.object_name or "") if source else ""
        yield OperationRecord(
            number=0,
            operation_id=record.operation_id or "",
            kind=_operation_kind(record.operation),
            state=OperationState.BEGUN,
            principal=Principal(front_end, name, record.origin or ""),
            source=source,
            class_name=f"{record.package}:{record.class_name}" if record.class_name else "",
            row=(record.row or 0) if source else 0,
            stable_name=stable_name,
            leaf_name=(parts(stable_name)[-1] or "") if stable_name else "",
            method=record.method or "",
            values=_logged_values(record.values),
            previous=_logged_values(record.former),
            absent=tuple(record.absent or ()),
            began=nanoseconds_of(record.ingest_ts) - (record.latency_ns or 0),
        )


def _operation_kind(text: str | None) -> OperationKind:
    try:
        return OperationKind(text)
    except ValueError:
        return OperationKind.INVOKE


def _logged_values(values: Mapping[str, object] | None) -> dict[str, FeedValue]:
    """Return values of the log for the feed, where lists are tuples."""
    plain = {name: plain_value(value) for name, value in (values or {}).items()}
    return {name: value for name, value in plain.items() if value is not None}
