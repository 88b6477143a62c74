"""Events of one source as records: those that its agents report, and those that the gateway makes."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.feed.records import EventClassRecord, EventRecord
from gateway.feed.values import FeedValue, ObjectLink
from gateway.inventory.classes import class_referred_to
from gateway.inventory.event_texts import ABSENT, event_text, line_from, value_text
from gateway.inventory.lifecycle import ObjectLifecycle
from gateway.inventory.scope import SourceScope
from gateway.mapping.rules import EventRule
from gateway.model.observations import EventSeen, EventState, Severity
from gateway.model.schema import Argument, EventSchema
from gateway.model.values import Reference, Value, Values

OWN_AGENT = ""
"""Agent of the events that the gateway makes itself."""


class EventRecorder:
    """Numbers events, resolves what they refer to, and makes their one line of text.

    Args:
        scope: of the source; ``events`` are counted.
        objects: to which events may refer, by native id or by leaf name; ``None`` where there are none.
    """

    def __init__(self, scope: SourceScope, objects: ObjectLifecycle | None) -> None:
        self._source = scope.number
        self._classes = scope.classes
        self._ids = scope.ids
        self._counters = scope.counters
        self._objects = objects

    def of_agent(
        self, seen: EventSeen, event_class: EventClassRecord, rule: EventRule | None, now: int
    ) -> EventRecord:
        """An event of an agent, standing for itself: what it does to a condition is decided elsewhere."""
        schema = event_class.schema
        values = self._values(schema, seen.arguments)
        number, event_id = self._next()
        return EventRecord(
            event_id=event_id,
            source=self._source,
            class_number=event_class.number,
            agent=seen.agent,
            time=seen.time,
            severity=_severity(seen, rule),
            values=values,
            number=number,
            received=now,
            subject=self._subject(schema, values, rule),
            text=_text(schema, values, rule),
            cause=seen.cause,
        )

    def own(
        self,
        schema: EventSchema,
        arguments: Values,
        severity: Severity,
        text: str,
        now: int,
        *,
        subject: ObjectLink | None = None,
        state: EventState = EventState.ONE_SHOT,
        condition: str = "",
    ) -> EventRecord:
        """An event that the gateway makes itself; ``text`` is one line already."""
        number, event_id = self._next()
        return EventRecord(
            event_id=event_id,
            source=self._source,
            class_number=self._classes.event_record(schema).number,
            agent=OWN_AGENT,
            time=now,
            severity=severity,
            values=self._values(schema, arguments),
            number=number,
            received=now,
            subject=subject,
            text=text,
            state=state,
            condition=condition,
        )

    def _subject(
        self, schema: EventSchema, values: Mapping[int, FeedValue], rule: EventRule | None
    ) -> ObjectLink | None:
        if rule is None or rule.subject is None:
            return None
        for position, argument in enumerate(schema.arguments):
            if argument.name == rule.subject:
                value = values.get(position)
                if isinstance(value, str) and argument.references:
                    class_name = class_referred_to(schema.key.package, argument.references)
                    return self._objects.only_called(class_name, value) if self._objects is not None else None
                return value if isinstance(value, ObjectLink) else None
        return None

    def _next(self) -> tuple[int, str]:
        self._counters["events"] += 1
        return self._ids.event()

    def _values(self, schema: EventSchema, arguments: Values) -> dict[int, FeedValue]:
        values: dict[int, FeedValue] = {}
        for position, (argument, value) in enumerate(zip(schema.arguments, arguments, strict=False)):
            shown = self._shown(argument, value)
            if shown is not None:
                values[position] = shown
        return values

    def _shown(self, argument: Argument, value: Value | None) -> FeedValue | None:
        if isinstance(value, Reference):
            return self._objects.link(value.native_id) if self._objects is not None else None
        if argument.optional and not isinstance(value, bool) and value in ("", b"", 0):
            return None
        return value


def _severity(seen: EventSeen, rule: EventRule | None) -> Severity:
    """A rule's, which is about what begins: where an agent takes something back, nothing is urgent."""
    if seen.severity is Severity.CLEARED:
        return Severity.INFO
    return seen.severity if rule is None or rule.severity is None else rule.severity


def _text(schema: EventSchema, values: Mapping[int, FeedValue], rule: EventRule | None) -> str:
    if rule is None or not rule.text:
        return event_text(schema, values)
    texts = {a.name: value_text(values.get(p), a) for p, a in enumerate(schema.arguments)}
    return line_from(rule.text, lambda name: texts.get(name, ABSENT))
