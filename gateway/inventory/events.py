"""The events of one source as records, with their texts: of its agents, and of the gateway.

A text is made of a template and values, for people: one line, bounded, safe to show on any terminal. An
absent value is ``?``. Times are ISO 8601 in UTC, durations ``3 min 20 s``, enumerations their labels, links
stable names, maps and lists JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from uuid import UUID

from gateway.escapes import escaped, printable, printable_json, without_part
from gateway.feed.records import EventClassRecord, EventRecord
from gateway.feed.values import FeedValue, ObjectLink
from gateway.inventory.classes import class_referred_to
from gateway.inventory.lifecycle import ObjectLifecycle
from gateway.inventory.scope import SourceScope
from gateway.mapping.rules import EventRule, filled
from gateway.model.observations import EventSeen, EventState, Severity
from gateway.model.schema import Argument, Element, EventSchema
from gateway.model.source_kinds import source_kind
from gateway.model.times import MICROSECOND, MILLISECOND, SECOND, utc_time
from gateway.model.values import Reference, Value, Values, ValueType

OWN_AGENT = ""
"""The agent of the events that the gateway makes itself."""

ABSENT = "?"

MAX_TEXT_OCTETS = 255
"""The maximum size of a text in UTF-8, for all front ends: that of ``SnmpAdminString`` (RFC 3411)."""

MAX_VALUE_CHARACTERS = 100
"""The maximum length of one value in a text, so that a long one leaves room for the rest."""

_CUT = "\N{HORIZONTAL ELLIPSIS}"

_TENTHS_BELOW = 10 * SECOND

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


class EventRecorder:
    """Numbers events, resolves their references, and makes their one line of text.

    Args:
        scope: the scope of the source; ``events`` are counted.
        objects: the objects to which events may refer, by native id or by leaf name; ``None`` for none.
    """

    def __init__(self, scope: SourceScope, objects: ObjectLifecycle | None) -> None:
        self._source = scope.number
        self._classes = scope.classes
        self._ids = scope.ids
        self._counters = scope.counters
        self._nothing_is_absent = source_kind(scope.identity.kind).events_lack_absence
        self._objects = objects

    def of_agent(
        self, seen: EventSeen, event_class: EventClassRecord, rule: EventRule | None, now: int
    ) -> EventRecord:
        """Return the record of an agent's event by itself; its effect on a condition is decided elsewhere."""
        schema = event_class.schema
        values = self._values(schema, seen.arguments, nothing_is_absent=self._nothing_is_absent)
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
        """Return the record of an event that the gateway makes itself; ``text`` is one line already."""
        number, event_id = self._next()
        return EventRecord(
            event_id=event_id,
            source=self._source,
            class_number=self._classes.event_record(schema).number,
            agent=OWN_AGENT,
            time=now,
            severity=severity,
            values=self._values(schema, arguments, nothing_is_absent=True),
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

    def _values(
        self, schema: EventSchema, arguments: Values, *, nothing_is_absent: bool
    ) -> dict[int, FeedValue]:
        values: dict[int, FeedValue] = {}
        for position, (argument, value) in enumerate(zip(schema.arguments, arguments, strict=False)):
            is_nothing = not isinstance(value, bool) and value in ("", b"", 0)
            if is_nothing and argument.optional and nothing_is_absent:
                continue
            shown = self._shown(value)
            if shown is not None:
                values[position] = shown
        return values

    def _shown(self, value: Value | None) -> FeedValue | None:
        if isinstance(value, Reference):
            return self._objects.link(value.native_id) if self._objects is not None else None
        return value


def _severity(seen: EventSeen, rule: EventRule | None) -> Severity:
    """Return the severity: that of the rule, if any; ``INFO`` where the agent clears a condition."""
    if seen.severity is Severity.CLEARED:
        return Severity.INFO
    return seen.severity if rule is None or rule.severity is None else rule.severity


def _text(schema: EventSchema, values: Mapping[int, FeedValue], rule: EventRule | None) -> str:
    if rule is None or not rule.text:
        return event_text(schema, values)
    texts = {a.name: value_text(values.get(p), a) for p, a in enumerate(schema.arguments)}
    return line_from(rule.text, lambda name: texts.get(name, ABSENT))


def line_from(template: str, text_of: Callable[[str], str]) -> str:
    """Return the one line that ``template`` makes, where ``text_of`` returns the text of a name."""
    return one_line(filled(template, lambda name: shortened(text_of(name))))


def event_text(schema: EventSchema, values: Mapping[int, FeedValue]) -> str:
    """Return the line of an event without a template: its name and its arguments."""
    arguments = (
        f"{argument.name}={shortened(value_text(values[position], argument))}"
        for position, argument in enumerate(schema.arguments)
        if position in values
    )
    return one_line(f"{schema.key} {', '.join(arguments)}")


def value_text(value: FeedValue | None, of: Argument | Element) -> str:
    """Return the text of one value of an argument or element, escaped; ``?`` where it is absent."""
    if value is None:
        return ABSENT
    for named in of.values:
        if named.value == value:
            return named.label
    if isinstance(value, int) and not isinstance(value, bool):
        if of.type is ValueType.TIME:
            return time_text(value)
        if of.type is ValueType.DURATION:
            return duration_text(value)
    return _plain_text(value)


def _plain_text(value: FeedValue) -> str:
    if isinstance(value, Mapping | tuple):
        return printable_json(json.dumps(value, default=_json, ensure_ascii=False, separators=(",", ":")))
    if isinstance(value, ObjectLink):
        return escaped(value.stable_name)
    if isinstance(value, Reference):
        return escaped(value.native_id)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return "true" if value else "false"
    return escaped(value) if isinstance(value, str) else str(value)


def _json(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, ObjectLink):
        return value.stable_name
    if isinstance(value, Reference):
        return value.native_id
    if isinstance(value, bytes | UUID):
        return _plain_text(value)
    raise TypeError(f"{type(value).__name__} is no value of the model")


def time_text(time: int) -> str:
    """Return a time (nanoseconds since 1970) as text to the millisecond."""
    return utc_time(time, 3 if time % SECOND >= MILLISECOND else 0) or str(time)


def duration_text(duration: int) -> str:
    """Return the text of a duration (nanoseconds) in its two largest units: ``1 h 5 min``, ``1.5 s``."""
    sign, duration = ("-", -duration) if duration < 0 else ("", duration)
    if 0 < duration < MICROSECOND:
        return f"{sign}{duration} ns"
    if 0 < duration < MILLISECOND:
        return f"{sign}{duration // MICROSECOND} us"
    if 0 < duration < SECOND:
        return f"{sign}{duration // MILLISECOND} ms"
    if duration < _TENTHS_BELOW:
        tenths = duration * 10 // SECOND
        return f"{sign}{tenths // 10}.{tenths % 10} s" if tenths % 10 else f"{sign}{tenths // 10} s"
    seconds = duration // SECOND
    for (large, size), (small, part) in pairwise(_UNITS):
        if seconds >= size:
            rest = seconds % size // part
            return f"{sign}{seconds // size} {large}" + (f" {rest} {small}" if rest else "")
    return f"{sign}{seconds} s"


def shortened(text: str) -> str:
    """Return the escaped ``text``, cut to the length that one value may have."""
    if len(text) <= MAX_VALUE_CHARACTERS:
        return text
    return without_part(text[: MAX_VALUE_CHARACTERS - 1]) + _CUT


def one_line(text: str) -> str:
    """Return ``text``, which is made of escaped texts, on one line of at most 255 bytes."""
    line = printable(text.strip())
    octets = line.encode()
    if len(octets) <= MAX_TEXT_OCTETS:
        return line
    room = MAX_TEXT_OCTETS - len(_CUT.encode())
    return without_part(octets[:room].decode(errors="ignore")) + _CUT
