"""The records of the event log as one principal reads them, by the roles of the configuration.

The log has records as the core wrote them, for every principal. Here each record is decided by itself, with
the same tables as in the feed (`gateway.policy.tables`), compiled for the schemas that the log has. Where the
log has several versions of a class, all of them decide. What no rule or schema covers is left out: fields
that are not listed here, and records of classes whose schema was not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from gateway.eventlog.record import RecordKind
from gateway.feed.access import (
    GATEWAY_NAME,
    AccessTables,
    Clearance,
    OperationShown,
    Received,
    mask_of,
)
from gateway.feed.cleared import COUNTERS_OF_ALL
from gateway.feed.records import ClassRecord, EventClassRecord
from gateway.feed.values import ObjectLink
from gateway.model.schema import Argument, ClassKey, EventSchema
from gateway.model.values import ValueType
from gateway.policy.marks import Marks
from gateway.policy.rules import RoleSet
from gateway.policy.tables import PolicyTables
from gateway.service.state.restored_records import class_of

Record = Mapping[str, object]
"""A line of the log: its fields by name."""

MAX_VERSIONS: Final = 10_000
"""The maximum number of versions of classes and events that are known; objects of others are not shown."""

_OF_EVERY_RECORD: Final = ("log_id", "seq", "kind", "ingest_ts", "source", "dialect")
_OF_OBJECTS: Final = ("package", "class", "object_id", "object_name", "row")
_OF_OBJECT_RECORDS: Final = (
    *_OF_EVERY_RECORD,
    *_OF_OBJECTS,
    *("native_id", "agent", "lifetime", "sample_ts", "sample_ns", "create_ts", "delete_ts", "reset_ts"),
    "inferred",
)
_OF_EVENTS: Final = (
    *_OF_EVERY_RECORD,
    *_OF_OBJECTS,
    *("event", "event_id", "severity", "state", "condition", "text", "agent", "sample_ts", "sample_ns"),
)
_OF_OPERATIONS: Final = (
    *_OF_EVERY_RECORD,
    *_OF_OBJECTS,
    *("principal", "origin", "operation", "operation_id", "method", "state", "outcome", "element", "code"),
    *("text", "latency_ns", "attempts"),
)
_OF_ATTEMPTS: Final = (
    *("log_id", "seq", "kind", "ingest_ts", "principal", "origin", "operation", "operation_id", "method"),
    *("state", "outcome", "text", "latency_ns", "attempts"),
)
"""Those of an own operation on what has no name for the principal, or is not there."""
_OF_SCHEMAS: Final = (*_OF_EVERY_RECORD, "package", "class", "event", "values")
_OF_SOURCES: Final = (*_OF_EVERY_RECORD, "agent", "state", "text", "from_ts", "to_ts", "principal", "origin")
_FACTS_OF_SOURCES: Final = COUNTERS_OF_ALL | {
    "since",
    "last_heard",
    "heard_until",
    "read_whole",
    "read_whole_since",
    "confirmed",
    "stale_classes",
    "version",
    "gateway_version",
    "why",
}
_OF_ELEMENTS: Final = ("values", "former", "found", "deltas")

_OBJECT_ID: Final = re.compile(r"(?P<source>[^/]+)/(?P<class>[^/:]+:[^/]+)/[0-9]+")
_MAX_DEPTH: Final = 100


class _Version:
    """A version of a class in the log: the number of its table, and its elements by name."""

    def __init__(self, record: ClassRecord) -> None:
        self.number = record.number
        self.positions = record.schema.positions
        self.references = frozenset(
            element.name for element in record.schema.elements if element.type is ValueType.REFERENCE
        )


class _Event:
    """A version of an event in the log: the number of its table, its private arguments, and its label."""

    def __init__(self, record: EventClassRecord, private: int) -> None:
        arguments = record.schema.arguments
        self.number = record.number
        self.private = {a.name for position, a in enumerate(arguments) if private >> position & 1}
        self.references = {a.name for a in arguments if a.type is ValueType.REFERENCE}
        self.label = record.schema.label or record.schema.key.name


class ClearedLog:
    """Leaves out of records what a principal does not read.

    Args:
        principal: who reads (``front end:name``).
        roles: the roles, checked.
        marks: what mappings call private.
    """

    def __init__(self, principal: str, roles: RoleSet, marks: Marks) -> None:
        self._principal = principal
        # Rules of others could make a class look as if its objects were read differently.
        grants = roles.grants.get(principal, ())
        own = RoleSet(roles.roles, {principal: roles.roles_of(principal)}, {principal: grants})
        self._compiled = PolicyTables(own, marks)
        self._tables = AccessTables()
        self._tables.take(self._compiled.record)
        number = self._tables.clearance(principal)
        assert number is not None  # every front end has a clearance for those who are not named
        self._clearance = number
        self._versions: dict[str, list[_Version]] = {}
        self._events: dict[str, list[_Event]] = {}
        self._seen: set[tuple[object, ...]] = set()

    @property
    def clearance(self) -> Clearance:
        """What the principal reads, as far as it depends on no class."""
        return self._tables.clearances[self._clearance]

    def read(self, record: Record) -> dict[str, object] | None:
        """Return a record as the principal reads it; ``None`` where it reads nothing of it."""
        if record.get("kind") == RecordKind.SCHEMA:
            self._learn(record)
        return dict(record) if self.clearance.unrestricted else self._restricted(record)

    def _restricted(self, record: Record) -> dict[str, object] | None:
        match record.get("kind"):
            case RecordKind.SNAPSHOT | RecordKind.CREATE | RecordKind.UPDATE | RecordKind.DELETE:
                found = self._object(record)
            case RecordKind.EVENT:
                found = self._event(record)
            case RecordKind.OPERATION:
                found = self._operation(record)
            case RecordKind.SCHEMA:
                found = _fields(record, _OF_SCHEMAS)
            case RecordKind.LOGIN:
                found = self._login(record)
            case RecordKind.SOURCE | RecordKind.AGENT | RecordKind.GAP | RecordKind.START:
                found = self._source(record)
            case _:
                found = None
        return found

    # ---- schemas ------------------------------------------------------------------------------------------

    def _learn(self, record: Record) -> None:
        """Compile the tables of a schema; one that is not as the log writes it is none."""
        package, class_name, event = (record.get(name) for name in ("package", "class", "event"))
        values = record.get("values")
        seen = (package, class_name, event, msgspec.json.encode(values))
        if not isinstance(package, str) or not isinstance(values, Mapping):
            return
        if seen in self._seen or len(self._seen) >= MAX_VERSIONS:
            return
        number = len(self._seen)
        try:
            if isinstance(class_name, str):
                of_class = class_of(number, ClassKey(package, class_name), values)
                self._tables.take(self._compiled.class_access(of_class))
                self._versions.setdefault(str(of_class.schema.key), []).append(_Version(of_class))
            elif isinstance(event, str):
                of_event = _event_of(number, ClassKey(package, event), values)
                access = self._compiled.event_access(of_event)
                self._tables.take(access)
                known = _Event(of_event, mask_of(access.private))
                self._events.setdefault(str(of_event.schema.key), []).append(known)
        except (KeyError, TypeError, ValueError):
            return
        self._seen.add(seen)

    # ---- objects ------------------------------------------------------------------------------------------

    def _object(self, record: Record) -> dict[str, object] | None:
        source, link = _text(record, "source"), _link_of(record)
        if not source or link is None or not self._tables.sees_source(self._clearance, source):
            return None
        if not self._tables.reads_named(self._clearance, source, link):
            return None
        found = _fields(record, _OF_OBJECT_RECORDS)
        parent = record.get("parent_id")
        if isinstance(parent, str) and self._is_shown(parent, is_reference=True):
            found["parent_id"] = parent
        shown = self._elements(record, source, link)
        found |= shown
        # An update of elements that are not read is no change.
        return found if shown or record.get("kind") != RecordKind.UPDATE or "native_id" in found else None

    def _elements(self, record: Record, source: str, link: ObjectLink) -> dict[str, object]:
        """Return the fields that have elements by name, with those that are read."""
        found: dict[str, object] = {}
        for name in _OF_ELEMENTS:
            values = record.get(name)
            if isinstance(values, Mapping):
                read = {
                    element: value
                    for element, value in values.items()
                    if self._reads(source, link, element)
                    and self._is_shown(value, is_reference=self._is_reference(link.class_name, element))
                }
                if read:
                    found[name] = read
        absent = record.get("absent")
        if isinstance(absent, list):
            left = [element for element in absent if self._reads(source, link, element)]
            if left:
                found["absent"] = left
        return found

    def _reads(self, source: str, link: ObjectLink, element: object) -> bool:
        """Return whether every version of a class that has an element lets it be read."""
        masks = [
            self._tables.vector(version.number, source, link.stable_name)[self._clearance]
            >> version.positions[element]
            for version in self._versions.get(link.class_name, ())
            if isinstance(element, str) and element in version.positions
        ]
        return bool(masks) and all(mask & 1 for mask in masks)

    def _is_reference(self, class_name: str, element: str) -> bool:
        return any(element in version.references for version in self._versions.get(class_name, ()))

    def _is_shown(self, value: object, *, is_reference: bool = False, depth: int = 0) -> bool:
        """Return whether a value names no object that is not read.

        A reference is the ``object_id`` of its target. As it has no name, it is shown only where all objects
        of that class and source are read with their names.
        """
        if isinstance(value, str):
            match = _OBJECT_ID.fullmatch(value)
            return not is_reference if match is None else self._reads_all(match["class"], match["source"])
        if not isinstance(value, Mapping | list):
            return True
        inner = value.values() if isinstance(value, Mapping) else value
        return depth < _MAX_DEPTH and all(self._is_shown(one, depth=depth + 1) for one in inner)

    def _reads_all(self, class_name: str, source: str) -> bool:
        tables = [self._tables.of_class(version.number) for version in self._versions.get(class_name, ())]
        return bool(tables) and all(
            access is not None
            and access.is_uniform(source)
            and access.names(access.vector(source, "")[self._clearance])
            for access in tables
        )

    # ---- everything else ----------------------------------------------------------------------------------

    def _event(self, record: Record) -> dict[str, object] | None:
        source = _text(record, "source") or GATEWAY_NAME
        link = _link_of(record) if "object_name" in record else None
        versions = self._events.get(f"{_text(record, 'package')}:{_text(record, 'event')}", [])
        condition = _text(record, "condition")
        # The log does not have what the text of an alarm quotes.
        received = [
            self._tables.receives_event(self._clearance, version.number, source, link, condition)
            for version in versions
        ]
        if not received or Received.NOTHING in received or ("object_name" in record and link is None):
            return None
        found = _fields(record, _OF_EVENTS)
        values = record.get("values")
        arguments: dict[str, Any] = dict(values) if isinstance(values, Mapping) else {}
        private: set[str] = set()
        if Received.WITHOUT_PRIVATE in received:
            private = {name for version in versions for name in version.private}
        references = {name for version in versions for name in version.references}
        shown = {
            name: value
            for name, value in arguments.items()
            if name not in private and self._is_shown(value, is_reference=name in references)
        }
        if shown:
            found["values"] = shown
        if len(shown) < len(arguments) or any(each is not Received.WHOLE for each in received):
            found["text"] = versions[-1].label  # it may quote what is left out
        return found

    def _operation(self, record: Record) -> dict[str, object] | None:
        source = _text(record, "source") or GATEWAY_NAME
        link = _link_of(record) or ObjectLink(f"{_text(record, 'package')}:{_text(record, 'class')}", 0, "")
        match self._shown(record, link, source):
            case OperationShown.NOTHING:
                return None
            case OperationShown.WITHOUT_OBJECT:
                return _fields(record, _OF_ATTEMPTS)
        found = _fields(record, _OF_OPERATIONS)
        is_own = record.get("principal") == self._principal
        if is_own or record.get("operation") == "invoke":
            arguments = _fields(record, (*_OF_ELEMENTS, "absent"))
            return found | {name: value for name, value in arguments.items() if self._is_shown(value)}
        shown = self._elements(record, source, link)
        if shown != _fields(record, (*_OF_ELEMENTS, "absent")):
            found.pop("text", None)  # it may quote any value of the operation
        return found | shown

    def _login(self, record: Record) -> dict[str, object] | None:
        nothing = ObjectLink(f"{GATEWAY_NAME}:", 0, "")
        shown = self._shown(record, nothing) is not OperationShown.NOTHING
        return _fields(record, (*_OF_SOURCES, "attempts")) if shown else None

    def _shown(self, record: Record, link: ObjectLink, source: str = GATEWAY_NAME) -> OperationShown:
        requester = _text(record, "principal")
        return self._tables.shown_operation(self._clearance, self._principal, requester, source, link)

    def _source(self, record: Record) -> dict[str, object] | None:
        if not self._tables.sees_source(self._clearance, _text(record, "source") or GATEWAY_NAME):
            return None
        found = _fields(record, _OF_SOURCES)
        for name in ("values", "deltas"):
            values = record.get(name)
            if isinstance(values, Mapping):
                kept = {fact: value for fact, value in values.items() if fact in _FACTS_OF_SOURCES}
                if kept:
                    found[name] = kept
        return found


def _fields(record: Record, names: Iterable[str]) -> dict[str, object]:
    return {name: record[name] for name in names if name in record}


def _text(record: Record, name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""


def _link_of(record: Record) -> ObjectLink | None:
    """Return the object that a record is about; ``None`` where it has no name."""
    name, row = record.get("object_name"), record.get("row")
    package, class_name = _text(record, "package"), _text(record, "class")
    match = _OBJECT_ID.fullmatch(_text(record, "object_id"))
    if not isinstance(name, str):
        return None
    # The object of an event may be of another package than the event.
    key = match["class"] if match is not None else f"{package}:{class_name}"
    return ObjectLink(key, row if isinstance(row, int) else 0, name)


def _event_of(number: int, key: ClassKey, values: Record) -> EventClassRecord:
    """Return the event of a ``schema`` record; raises as `class_of` does."""
    arguments = values.get("arguments", [])
    if not isinstance(arguments, list):
        raise TypeError("arguments are a list")
    described = tuple(Argument(str(one["name"]), ValueType(one["type"])) for one in arguments)
    return EventClassRecord(number, EventSchema(key, described, label=_text(values, "label")))
