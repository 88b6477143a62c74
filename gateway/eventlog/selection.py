"""Which records are meant: the same choice for records as they are on a line, and for rows in SQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gateway.eventlog.record import RecordKind

HOW_THINGS_STAND = frozenset({RecordKind.SNAPSHOT, RecordKind.SCHEMA})
"""Kinds of records at each segment's head that tell nothing new: thousands of them, each time."""

HAPPENINGS = frozenset(RecordKind) - HOW_THINGS_STAND
"""Kinds of records that tell that something happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A choice of records. An empty collection, and ``None``, choose all.

    Attributes:
        kinds: what records tell.
        sources: names of sources.
        classes: of objects: ``queue``, or ``rabbitmq:queue``.
        events: names of events.
        objects: an object's name, ``object_id`` or native id.
        severities: of events.
        after: ingested then or later; with a time zone.
        before: ingested before then; with a time zone.
    """

    kinds: Collection[str] = ()
    sources: Collection[str] = ()
    classes: Collection[str] = ()
    events: Collection[str] = ()
    objects: Collection[str] = ()
    severities: Collection[str] = ()
    after: dt.datetime | None = None
    before: dt.datetime | None = None

    def has(self, record: Mapping[str, object]) -> bool:
        """Whether ``record``, the fields of a line by name, is chosen. One without time lies at no time."""
        return (
            _one_of(self.kinds, record.get("kind"))
            and _one_of(self.sources, record.get("source"))
            and _one_of(self.events, record.get("event"))
            and _one_of(self.severities, record.get("severity"))
            and _one_of(self.classes, record.get("class"), f"{record.get('package')}:{record.get('class')}")
            and _one_of(self.objects, *map(record.get, ("object_name", "object_id", "native_id")))
            and self._in_time(record.get("ingest_ts"))
        )

    def condition(self) -> tuple[str, dict[str, object]]:
        """The same as a condition of SQL, and its parameters by name."""
        parts: list[str] = []
        parameters: dict[str, object] = {}

        def add(name: str, template: str, chosen: Collection[str]) -> None:
            if chosen:
                parts.append(template.format(f"${name}"))
                parameters[name] = sorted(chosen)

        add("kinds", "list_contains({}, kind)", self.kinds)
        add("sources", "list_contains({}, source)", self.sources)
        add("events", "list_contains({}, event)", self.events)
        add("severities", "list_contains({}, severity)", self.severities)
        add(
            "classes",
            "(list_contains({0}, class) OR list_contains({0}, package || ':' || class))",
            self.classes,
        )
        add("objects", "list_has_any({0}, [object_name, object_id, native_id])", self.objects)
        for name, comparison, time in (("after", ">=", self.after), ("before", "<", self.before)):
            if time is not None:
                parts.append(f"ingest_ts {comparison} ${name}")
                parameters[name] = time
        return " AND ".join(parts) or "true", parameters

    def _in_time(self, text: object) -> bool:
        if self.after is None and self.before is None:
            return True
        try:
            time = dt.datetime.fromisoformat(str(text))
        except ValueError:
            return False
        if time.tzinfo is None:
            return False
        return (self.after is None or time >= self.after) and (self.before is None or time < self.before)


def _one_of(chosen: Collection[str], *found: object) -> bool:
    return not chosen or any(isinstance(value, str) and value in chosen for value in found)
