"""Explains a name: its kind, and all other names (path, OID, ObjectName, native id, event id)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from gateway.escapes import escaped, printable, unescaped
from gateway.eventlog.query import TABLE, LogReadError, QueryError, ask, line_of_row
from gateway.eventlog.record import object_id
from gateway.feed.records import ObjectRecord
from gateway.feed.values import ObjectLink
from gateway.file_owners import reason_of
from gateway.model.schema import Access, Argument, ClassKey, ClassSchema, Element, EventSchema
from gateway.model.stable_names import escaped as escaped_part
from gateway.model.stable_names import joined, parts
from gateway.service.diagnostics.cleared_log import ClearedLog
from gateway.service.diagnostics.published_names import PublishedNames, by_published_name
from gateway.service.diagnostics.snmp_meaning import SnmpMeaning
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.terminal.documents import (
    Document,
    brief_document,
    event_document,
    json_form,
    operation_document,
    time_text,
)
from gateway.terminal.selection import by_native_id, find_objects
from gateway.terminal.view import Deleted, KnownObject, ObjectKey, TerminalView

MAX_MEANINGS: Final = 20
"""The largest number of meanings of one text; a short name may be the name of thousands."""

EVENT_ID: Final = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[0-9]{1,20}\.[0-9]{1,20}", re.ASCII
)


class Explainer:
    """Explains names.

    Args:
        view: the objects.
        names: the published names of the objects.
    """

    def __init__(self, view: TerminalView, names: PublishedNames) -> None:
        self._view = view
        self._names = names

    def meanings(self, text: str) -> list[Document]:
        """Return all meanings of ``text``, escaped or not, each with a ``kind`` and its details."""
        found: list[Document] = []
        for document in chain.from_iterable(map(self._meanings, dict.fromkeys((unescaped(text), text)))):
            if document not in found:
                found.append(document)
            if len(found) == MAX_MEANINGS:
                break
        return found

    def _meanings(self, text: str) -> Iterator[Document]:
        view = self._view
        if text in view.events:
            yield self._event(text)
        if text in view.operations:
            yield {"kind": "operation", **operation_document(view.operations[text], view)}
        known = by_published_name(view, self._names, text)
        if known is not None:
            yield self.object(known)
        oid = self._names.oid_of(text)
        meaning = None if oid is None else self._names.meaning(oid)
        if meaning is not None:
            yield from self._snmp(meaning, known)
        yield from map(self.object, by_native_id(view, text))
        yield from map(self.object, find_objects(view, text))
        yield from self._ended(text)
        yield from self._schema(text)

    def object(self, known: KnownObject, *, is_gone: bool = False) -> Document:
        """Return an object under all its names."""
        record = known.record
        row = self._names.row(known)
        return {
            "kind": "object",
            **brief_document(known, self._view),
            "is_gone": is_gone,
            "native_id": record.native_id,
            "agent": record.agent,
            "created": time_text(record.created),
            "log_id": f"{known.source}/{known.class_name}/{record.row}",
            "oid": None if row is None else row.oid,
            "descriptor": None if row is None else row.descriptor,
            "object_name": self._names.object_name(known) or None,
            "what": _described(known.in_class.schema),
        }

    # ---- what is not an object --------------------------------------------------------------------------

    def _event(self, event_id: str) -> Document:
        shown = self._view.events[event_id]
        notification = self._names.notification(shown.in_class.schema.key)
        return {
            "kind": "event",
            **event_document(shown),
            "oid": None if notification is None else notification.oid,
            "descriptor": None if notification is None else notification.descriptor,
            "subject": self._linked(shown.record.subject, shown.record.source),
            "what": _described(shown.in_class.schema),
        }

    def _linked(self, link: ObjectLink | None, source: int) -> Document | None:
        """Return the object that an event is about, which is often gone."""
        if link is None:
            return None
        known = self._view.linked(link, source)
        if known is not None:
            return self.object(known)
        for deleted in self._view.ends.values():
            record = deleted.record
            if record is not None and (record.source, deleted.class_name, record.row) == (
                source,
                link.class_name,
                link.row,
            ):
                return self._gone(deleted)
        return None

    def _snmp(self, meaning: SnmpMeaning, known: KnownObject | None) -> Iterator[Document]:
        """Yield the meanings of an OID beside the object: a cell, column, table, notification or module."""
        if meaning.is_event and meaning.key is not None:
            event_class = self._view.event_classes.get(str(meaning.key))
            yield self._event_type(
                event_class.schema if event_class is not None else EventSchema(meaning.key)
            )
            return
        if meaning.key is None or not meaning.element:
            shown = self._view.classes.get(str(meaning.key))
            if shown is not None:
                yield self._class(shown.schema)
            yield {
                "kind": "oid",
                "oid": meaning.oid,
                "descriptor": meaning.descriptor,
                "element": meaning.element or None,
                "class": None if meaning.key is None else str(meaning.key),
                "what": meaning.description,
            }
            return
        if known is None and meaning.row is not None:
            yield from self._ended_row(meaning.row)
        yield self._column(meaning, known)

    def _column(self, meaning: SnmpMeaning, known: KnownObject | None) -> Document:
        record = self._view.classes.get(str(meaning.key))
        elements = {} if record is None else {element.name: element for element in record.schema.elements}
        element = elements.get(meaning.element)
        names = {"oid": meaning.oid, "descriptor": meaning.descriptor}
        if element is None or meaning.key is None:
            return {
                "kind": "column",
                "column": meaning.element,
                "class": str(meaning.key),
                **names,
                "what": " ".join(meaning.description.split()),
            }
        document = {**self._element(meaning.key, element), **names}
        if known is not None:
            value = known.value(element.name) if element.name in known.in_class.schema.positions else None
            shown = None if value is None else json_form(element, value, known.source)
            document |= {"object": known.path, "value": shown}
        return document

    def _element(self, key: ClassKey, element: Element) -> Document:
        column = self._names.element(key, element.name)
        return {
            "kind": "element",
            "element": element.name,
            "class": str(key),
            **_type_document(element),
            "element_kind": element.kind.value,
            "access": element.access.value,
            "is_index": element.index,
            "is_optional": element.optional,
            "oid": None if column is None else column.oid,
            "descriptor": None if column is None else column.descriptor,
            "what": element.description or element.label,
        }

    def _class(self, schema: ClassSchema) -> Document:
        name = str(schema.key)
        table = self._names.table(schema.key)
        return {
            "kind": "class",
            "class": name,
            "objects": sum(known.class_name == name for known in self._view.objects.values()),
            "properties": [element.name for element in schema.properties],
            "statistics": [element.name for element in schema.statistics],
            "settable": [
                element.name for element in schema.properties if element.access is Access.READ_WRITE
            ],
            "methods": {
                method.name: [
                    {"name": argument.name, "direction": argument.direction.value, **_type_document(argument)}
                    for argument in method.arguments
                ]
                for method in schema.methods
            },
            "oid": None if table is None else table.oid,
            "descriptor": None if table is None else table.descriptor,
            "what": _described(schema),
        }

    def _event_type(self, schema: EventSchema) -> Document:
        notification = self._names.notification(schema.key)
        return {
            "kind": "event-type",
            "event": str(schema.key),
            "arguments": [argument.name for argument in schema.arguments],
            "oid": None if notification is None else notification.oid,
            "descriptor": None if notification is None else notification.descriptor,
            "what": _described(schema),
        }

    def _schema(self, text: str) -> Iterator[Document]:
        """Yield the sources, classes, event types and elements of this name."""
        for record in self._view.sources.values():
            if record.name == text:
                yield {
                    "kind": "source",
                    "source": record.name,
                    "number": record.number,
                    "source_kind": record.kind,
                    "state": record.state.value,
                    "detail": record.detail,
                    "since": time_text(record.since),
                }
        for in_class in self._view.classes.values():
            key = in_class.schema.key
            if text in {str(key), key.name}:
                yield self._class(in_class.schema)
            for element in in_class.schema.elements:
                if text in {element.name, f"{key.name}.{element.name}", f"{key}.{element.name}"}:
                    yield self._element(key, element)
        for event_class in self._view.event_classes.values():
            key = event_class.schema.key
            if text in {str(key), key.name}:
                yield self._event_type(event_class.schema)

    # ---- what is gone -----------------------------------------------------------------------------------

    def _ended(self, text: str) -> Iterator[Document]:
        for deleted in reversed(self._view.ends.values()):
            record = deleted.record
            if record is not None and text in {deleted.path, record.stable_name, record.native_id}:
                yield self._gone(deleted)

    def _ended_row(self, row: ObjectKey) -> Iterator[Document]:
        for deleted in reversed(self._view.ends.values()):
            record = deleted.record
            if record is not None and ObjectKey(record.source, deleted.class_name, record.row) == row:
                yield self._gone(deleted)

    def _gone(self, deleted: Deleted) -> Document:
        """Return an object that no longer exists, under the names that it had."""
        record = deleted.record
        assert record is not None
        known = KnownObject(
            deleted.source,
            self._view.classes[deleted.class_name],
            ObjectRecord(
                source=record.source,
                class_number=record.class_number,
                row=record.row,
                stable_name=record.stable_name,
                leaf_name=record.leaf_name,
                parent=None,
                native_id=record.native_id,
                agent=record.agent,
                lifetime=record.lifetime,
                created=record.created,
                properties_sampled=0,
                statistics_sampled=0,
                reset=0,
                changed=0,
                values={},
            ),
        )
        return {
            **self.object(known, is_gone=True),
            "deleted": time_text(record.deleted),
            "is_end_inferred": record.inferred,
        }


def _type_document(described: Element | Argument) -> Document:
    limits = {
        "minimum": described.minimum,
        "maximum": described.maximum,
        "max_length": described.max_length,
        "values": [named.label for named in described.values] or None,
        "unit": described.unit or None,
    }
    return {
        "type": described.type.value,
        **{name: limit for name, limit in limits.items() if limit is not None},
    }


def _described(schema: ClassSchema | EventSchema) -> str:
    return schema.description or schema.label or str(schema.key)


def lines_of(document: Document, indent: str = "") -> Iterator[str]:
    """Yield a meaning as lines for people: its kind, and below it details by the names of their fields."""
    shown = {name: value for name, value in document.items() if value not in (None, "", [], {}, False)}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        label = f"{indent}{name.replace('_', ' '):<{width}}  "
        if name == "kind":
            yield f"{indent}{value}"
        elif isinstance(value, dict):
            yield f"{indent}{name.replace('_', ' ')}"
            yield from lines_of(value, f"{indent}    ")
        elif isinstance(value, list):
            yield f"{label}{_listed(value)}"
        elif name == "text":
            yield f"{label}{printable(str(value))}"  # a line, made of escaped names already
        else:
            yield f"{label}{_word(value)}"


def _listed(items: Iterable[object]) -> str:
    return ", ".join(_argument(item) if isinstance(item, dict) else _word(item) for item in items)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else escaped(str(value))


def _argument(argument: Document) -> str:
    return f"{argument.get('direction', '')} {argument.get('name', '')}: {argument.get('type', '')}".strip()


MAX_RECORDS: Final = 20
_NAMING: Final = ("event_id", "operation_id", "object_id", "native_id", "object_name", "event")

_LEAF: Final = """
    (ends_with(concat('|', object_name), $tail) OR contains(concat('|', object_name), $tail || '#'))
"""
# The last of each object; every event and each state of an operation.
_QUERY: Final = f"""
    SELECT * FROM {TABLE}
    WHERE event_id = $name OR operation_id = $name OR native_id = $name OR object_name = $name
       OR $name IN (event, concat(package, ':', event)) OR object_id IN ($name, $object_id)
       OR ($source = '' AND {_LEAF})
       OR (source = $source AND class = $class AND package LIKE $package
           AND ($object_name IN (object_name, CAST("row" AS VARCHAR)) OR {_LEAF}))
       OR (kind = 'source' AND source = $name)
       OR (kind = 'schema' AND $name IN (class, concat(package, ':', class)))
    QUALIFY kind IN ('event', 'operation')
         OR row_number() OVER (
             PARTITION BY coalesce(object_id, concat_ws('/', kind, package, class, event, source))
             ORDER BY ingest_ts DESC, seq DESC
         ) = 1
    ORDER BY ingest_ts DESC
    LIMIT {MAX_RECORDS}
"""  # noqa: S608  nothing in it is from outside


@dataclass(frozen=True, slots=True)
class LoggedName:
    """What a name stands for in the log, beside the text itself.

    Attributes:
        object_id: the log's id of an object, of an OID, a descriptor or an ObjectName with a row.
        source: with the next three the name of an object, of a path or an ObjectName.
        package: of its class; empty for any.
        class_name: its class, without the package.
        object_name: its stable name, or its leaf name, the last part of it.
    """

    object_id: str = ""
    source: str = ""
    package: str = ""
    class_name: str = ""
    object_name: str = ""

    def parameters(self, name: str) -> dict[str, object]:
        """Return the parameters of the query for a text."""
        return {
            "name": name,
            "object_id": self.object_id,
            "source": self.source,
            "class": self.class_name,
            "package": self.package or "%",
            "object_name": self.object_name,
            "tail": f"|{escaped_part(self.object_name or name)}",
        }

    def is_of(self, row: Mapping[str, object], name: str) -> bool:
        """Return whether a row is named, also after parts of it were left out."""
        if {name, self.object_id} & {row.get(field) for field in _NAMING}:
            return True
        kind, package, class_name = row.get("kind"), row.get("package"), row.get("class")
        if kind == "source":
            return name == row.get("source")
        if name == f"{package}:{row.get('event')}":
            return True
        if kind == "schema":
            return name in {class_name, f"{package}:{class_name}"}
        whole = row.get("object_name")
        leaf = None if whole is None else parts(str(whole))[-1]
        if not self.source:
            return name == leaf
        is_of_class = (row.get("source"), class_name) == (self.source, self.class_name)
        return is_of_class and self.object_name in {whole, str(row.get("row")), leaf}


def logged_name(names: PublishedNames | None, sources: Mapping[int, str], text: str) -> LoggedName:
    """Return what a text may stand for in the log: a path, an OID, a descriptor or an ObjectName.

    Args:
        names: the published names; ``None`` where they cannot be read.
        sources: the names of sources by their numbers, also of former ones.
        text: the text.
    """
    properties = None if names is None else names.properties(text)
    if properties is not None:
        source, package, name = (properties.get(key, "") for key in ("source", "package", "type"))
        if "id" in properties:
            return LoggedName(object_id=object_id(source, f"{package}:{name}", int(properties["id"])))
        whole = joined(properties[key] for key in ("parent", "name") if key in properties)
        return LoggedName("", source, package, name, whole)
    oid = None if names is None else names.oid_of(text)
    meaning = None if oid is None or names is None else names.meaning(oid)
    if meaning is not None and meaning.row is not None:
        row = meaning.row
        return LoggedName(object_id=object_id(sources.get(int(row.source), ""), row.class_name, row.row))
    if text.count("/") > 1:  # a stable name may contain slashes
        source, class_name, name = text.split("/", 2)
        package, _, short = class_name.rpartition(":")
        return LoggedName("", source, package, short, name)
    return LoggedName()


def logged_meanings(
    folder: Path,
    name: str,
    cleared_log: Callable[[Path], ClearedLog | None],
    meant: LoggedName | None = None,
) -> list[Document]:
    """Return the records of a name, the newest first, in the log's own form beside ``kind: "record"``.

    Args:
        folder: of the log; it need not be there.
        name: an event id, operation id, native id, object id of the log, name of an object, event, source or
            class (``PACKAGE:CLASS``), or path.
        cleared_log: returns what leaves out of the log's records what the reader may not see, if anything.
        meant: what the name may stand for, beside itself (`logged_name`).

    Raises:
        CommandError: the log cannot be read.
    """
    meant = meant or logged_name(None, {}, name)
    try:
        if not folder.is_dir():
            return []
        cleared = cleared_log(folder)
        with ask(folder, _QUERY, meant.parameters(name)) as answer:
            rows = [json.loads(line_of_row(answer.columns, row)) for row in answer.rows]
        if cleared is not None:
            rows = [read for row in rows if (read := cleared.read(row)) is not None]
        rows = [row for row in rows if meant.is_of(row, name)]
    except (QueryError, LogReadError) as error:
        raise CommandError(ExitCode.STATE, f"the event log cannot be asked: {error}") from error
    except OSError as error:
        raise CommandError(
            ExitCode.STATE, f"{error.filename or folder}: cannot be read: {reason_of(error, folder)}"
        ) from error
    return [
        {"kind": "record", **{("record" if key == "kind" else key): value for key, value in row.items()}}
        for row in rows
    ]
