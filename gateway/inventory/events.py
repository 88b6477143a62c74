"""Events of one source as records: those that its agents tell, and those that the gateway makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from gateway.feed.records import EventClassRecord, EventRecord
from gateway.feed.values import FeedValue, ObjectLink
from gateway.inventory.classes import ClassRegistry, class_referred_to
from gateway.inventory.event_texts import ABSENT, event_text, line_from, value_text
from gateway.inventory.id_allocator import IdAllocator
from gateway.mapping.rules import EventRule
from gateway.model.events import EventState, Severity
from gateway.model.observations import EventSeen
from gateway.model.schema import Argument, EventSchema
from gateway.model.values import Reference, Value, Values

OWN_AGENT = ""
"""Agent of the events that the gateway makes itself."""


class EventRecorder:
    """Numbers events, resolves what they refer to and says in one line what they tell.

    Args:
        source: its number.
        classes: for the mappings' rules.
        numbers: where events get theirs.
        link: where a native id leads; objects that ended lately are found too.
        counters: ``events`` are counted.
        only_called: which object of a class people call so.
    """

    def __init__(
        self,
        source: int,
        classes: ClassRegistry,
        numbers: IdAllocator,
        link: Callable[[str], ObjectLink | None],
        counters: Counter[str],
        *,
        only_called: Callable[[str, str], ObjectLink | None] = lambda _class_name, _leaf: None,
    ) -> None:
        self._source = source
        self._classes = classes
        self._numbers = numbers
        self._link = link
        self._counters = counters
        self._only_called = only_called

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
            heard=now,
            subject=self._subject(schema, values, rule),
            text=_text(schema, values, rule),
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
            heard=now,
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
                    return self._only_called(
                        class_referred_to(schema.key.package, argument.references), value
                    )
                return value if isinstance(value, ObjectLink) else None
        return None

    def _next(self) -> tuple[int, str]:
        self._counters["events"] += 1
        return self._numbers.event()

    def _values(self, schema: EventSchema, arguments: Values) -> dict[int, FeedValue]:
        values: dict[int, FeedValue] = {}
        for position, (argument, value) in enumerate(zip(schema.arguments, arguments, strict=False)):
            shown = self._shown(argument, value)
            if shown is not None:
                values[position] = shown
        return values

    def _shown(self, argument: Argument, value: Value | None) -> FeedValue | None:
        if isinstance(value, Reference):
            return self._link(value.native_id)
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
