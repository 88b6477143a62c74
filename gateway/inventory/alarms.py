"""The alarms of one source: lasting conditions, shown by objects and reported by events, one alarm each.

The first report of a condition raises its alarm, and later reports confirm it. The values of an object (a
predicate of the mapping on its elements) decide in the end, because an event may be lost. But values may lag
behind an event (RabbitMQ's HTTP statistics do, by seconds): so for `HOLD` after an event a predicate that
contradicts it is not evaluated, and afterwards it is. A rule with ``hold_down`` is for conditions that pass
by themselves, as while a node starts: its predicate must hold for as long before it raises. One with
``absent_is_unknown`` is for elements of a reading that may fail: an absent value decides nothing. Where no
predicate has the alarm's name, only an event clears it, or the end of its object.

Active alarms are kept in the instance index over a restart of the gateway: the first complete resync shows
which of them are over. The index is on the disk before the event log: if a core is killed in between, an
alarm may be cleared without an event in the log. The next core reports it (`expect_clearings`).

An event is ``raised`` only if an alarm is active after it, and ``cleared`` has the severity ``CLEARED``
(ITU-T X.733, 8.1.2.3), whatever was reported before: both may be sent again, with the same condition.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

import msgspec

from gateway.escapes import escaped
from gateway.feed.access import Quoted
from gateway.feed.records import AlarmRecord, ClassRecord, EventRecord, ObjectRecord
from gateway.feed.values import FeedValue, ObjectLink, links_in
from gateway.inventory.agents import AgentTable
from gateway.inventory.events import ABSENT, EventRecorder, duration_text, line_from, one_line, value_text
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.lifecycle import ObjectLifecycle
from gateway.inventory.objects import Entry, Touched
from gateway.inventory.own_events import ALARM_CLEARED, ALARM_RAISED, OF_SOURCES
from gateway.inventory.scope import SourceScope
from gateway.mapping.rules import AlarmRule, EventRule, names_in
from gateway.model.observations import EventState, Severity
from gateway.model.schema import ClassSchema
from gateway.model.times import SECOND

HOLD = 15 * SECOND
"""Nanoseconds for which an event has precedence over values that contradict it."""

MAX_HOLDS = 10_000

MAX_ALARMS = 10_000
"""The maximum number of active alarms of objects of one source; more are refused."""

MAX_LINKS = 16
"""The maximum number of references that are known of a text; what has more is shown as of unknown content."""

MAX_CONDITION_OCTETS = 255
"""The maximum size of a condition in UTF-8: that of ``SnmpAdminString`` (RFC 3411)."""

_DIGEST_OCTETS = 8

_LEAF_NAME = "name"
"""What a text of a rule calls the leaf name of the object."""


class AlarmKey(msgspec.Struct, frozen=True):
    """The key of an alarm, unique in a source: a name and an object, or a name alone.

    ``about``: what it is about where that is no object: part of the condition.
    """

    name: str
    subject: ObjectLink | None = None
    about: str = ""

    @property
    def condition(self) -> str:
        r"""The text common to a raising and a clearing event: ``memoryAlarm shop:node "a@b"``.

        A text that would be longer than 255 bytes is cut, and ends in ``~`` and the BLAKE2b-64 of the
        whole in hexadecimal digits. Receivers keep it: its form must never change.
        """
        if self.subject is None:
            return shortened_condition(f'{self.name} "{self.about}"') if self.about else self.name
        return shortened_condition(f'{self.name} {self.subject.class_name} "{self.subject.stable_name}"')


def shortened_condition(whole: str) -> str:
    """Return the condition for a text of any length, as `AlarmKey.condition` describes it."""
    octets = whole.encode(errors="replace")
    if len(octets) <= MAX_CONDITION_OCTETS:
        return whole
    digest = hashlib.blake2b(octets, digest_size=_DIGEST_OCTETS).hexdigest()
    return octets[: MAX_CONDITION_OCTETS - len(digest) - 1].decode(errors="ignore") + "~" + digest


class AlarmTable:
    """The active alarms; at first those that were active when the gateway ended.

    Args:
        scope: the scope of the source.
        limit: the maximum number of alarms of objects. Those without an object are as many as the mappings'
            rules name, and are not counted.

    Attributes:
        inherited: subjects of alarms that were active when the gateway ended, by class and stable name, until
            it is known whether they still live.
    """

    def __init__(self, scope: SourceScope, limit: int = MAX_ALARMS) -> None:
        self._source = scope.number
        self._ids = scope.ids
        self._index = scope.index
        self._limit = limit
        self._alarms: dict[AlarmKey, AlarmRecord] = {}
        self._of_subject: dict[ObjectLink, dict[str, AlarmKey]] = {}
        self._with_subject = 0
        self.inherited: dict[tuple[str, str], ObjectLink] = {}
        for record in restored_alarms(scope.index, scope.number):
            scope.ids.alarm_stands(record.number)
            about = record.condition[len(record.name) + 2 : -1] if record.subject is None else ""
            self._put(AlarmKey(record.name, record.subject, about), record)
        for link in self._of_subject:
            self.inherited[link.class_name, link.stable_name] = link

    def __len__(self) -> int:
        return len(self._alarms)

    def __contains__(self, key: AlarmKey) -> bool:
        return key in self._alarms

    def __iter__(self) -> Iterator[AlarmKey]:
        return iter(list(self._alarms))

    def __getitem__(self, key: AlarmKey) -> AlarmRecord:
        return self._alarms[key]

    def records(self) -> Iterator[AlarmRecord]:
        """Return the records of all alarms, in the order in which they were raised."""
        return iter(list(self._alarms.values()))

    def of(self, subject: ObjectLink) -> tuple[AlarmKey, ...]:
        """Return the alarms of one object."""
        return tuple(self._of_subject.get(subject, {}).values())

    def has_room_for(self, key: AlarmKey) -> bool:
        """Return whether one more alarm may be active, or this one already is."""
        return key in self._alarms or key.subject is None or self._with_subject < self._limit

    def add(self, key: AlarmKey, event: EventRecord, quoted: Quoted | None) -> AlarmRecord:
        """Raise an alarm by ``event``, whose subject is the key's; return its record."""
        record = AlarmRecord(
            number=self._ids.alarm(),
            source=self._source,
            name=key.name,
            condition=key.condition,
            severity=event.severity,
            subject=key.subject,
            text=event.text,
            event_id=event.event_id,
            raised=event.received,
            quoted=quoted,
        )
        self._put(key, record)
        store_alarm(self._index, record)
        return record

    def remove(self, key: AlarmKey, now: int) -> AlarmRecord:
        """Clear an active alarm; return its last record."""
        record = self._alarms.pop(key)
        self._ids.alarm_over(record.number)
        self._index.drop_alarm(record.number)
        if key.subject is not None:
            self._with_subject -= 1
            of_subject = self._of_subject[key.subject]
            del of_subject[key.name]
            if not of_subject:
                del self._of_subject[key.subject]
        return msgspec.structs.replace(record, cleared=now)

    def _put(self, key: AlarmKey, record: AlarmRecord) -> None:
        self._alarms[key] = record
        if key.subject is not None:
            self._of_subject.setdefault(key.subject, {})[key.name] = key
            self._with_subject += 1


def own_alarm(
    name: str, event: EventRecord, former: AlarmRecord | None, number: Callable[[], int]
) -> AlarmRecord:
    """Return an alarm of the gateway itself, about no object.

    Args:
        name: the name of the alarm.
        event: the event that raises or changes it, which has its condition and text.
        former: the alarm as it was before; ``None`` for a new one.
        number: returns the number of a new one.
    """
    return AlarmRecord(
        number=number() if former is None else former.number,
        source=event.source,
        name=name,
        condition=event.condition,
        severity=event.severity,
        subject=None,
        text=event.text,
        event_id=event.event_id,
        raised=event.time if former is None else former.raised,
        quoted=Quoted(),
    )


def store_alarm(index: InstanceIndex, alarm: AlarmRecord) -> None:
    """Store an active alarm in the index; it is on the disk with its next commit."""
    subject = alarm.subject
    text = json.dumps(
        {
            "name": alarm.name,
            "condition": alarm.condition,
            "severity": alarm.severity.name,
            "subject": [subject.class_name, subject.row, subject.stable_name] if subject else None,
            "text": alarm.text,
            "event_id": alarm.event_id,
            "raised": alarm.raised,
            "quoted": None if alarm.quoted is None else msgspec.to_builtins(alarm.quoted),
        }
    )
    index.keep_alarm(alarm.source, alarm.number, text)


def restored_alarms(index: InstanceIndex, source: int) -> Iterator[AlarmRecord]:
    """Yield the alarms of a source that were active when the index was last used, the oldest first.

    An alarm that cannot be read is dropped: if its condition lasts, it is raised again.
    """
    for number, text in index.alarms(source):
        try:
            alarm = _read(source, number, text)
        except (ValueError, KeyError, TypeError, msgspec.ValidationError):
            index.drop_alarm(number)
        else:
            yield alarm


def _read(source: int, number: int, text: str) -> AlarmRecord:
    fields = json.loads(text)
    subject = fields.pop("subject")
    severity = Severity[fields.pop("severity")]
    link = ObjectLink(*subject) if subject else None
    quoted = fields.pop("quoted", None)  # an earlier gateway did not store it
    return AlarmRecord(
        number=number,
        source=source,
        severity=severity,
        subject=link,
        quoted=None if quoted is None else msgspec.convert(quoted, Quoted),
        **fields,
    )


class Predicate(msgspec.Struct, frozen=True):
    """A rule and the position of the element that it tests in ``ClassSchema.elements``."""

    name: str
    rule: AlarmRule
    position: int
    schema: ClassSchema

    def holds(self, values: Mapping[int, FeedValue], *, active: bool) -> bool:
        """Return whether an object with these values has the condition; an absent value has none.

        Args:
            values: the values by position.
            active: the condition held before, which matters where a rule has a second threshold to end it.
        """
        value = values.get(self.position)
        if value is None:
            return False
        rule = self.rule
        if rule.not_empty:
            return isinstance(value, str | bytes | tuple | Mapping) and len(value) > 0
        if rule.at_least is not None:
            if isinstance(value, bool) or not isinstance(value, int | float):
                return False
            lasts_to = rule.clear_below if active and rule.clear_below is not None else rule.at_least
            return value >= lasts_to
        return self._equals(value)

    def decides(self, values: Mapping[int, FeedValue]) -> bool:
        """Return whether these values say if the condition lasts; an absent one may be unknown."""
        return not self.rule.absent_is_unknown or values.get(self.position) is not None

    def text(self, record: ObjectRecord) -> str:
        """Return the text of the alarm of an object that has the condition."""
        return line_from(self.rule.text, lambda name: self._text_of(name, record))

    def quoted(self, record: ObjectRecord) -> Quoted | None:
        """Return what this text quotes beside the object's name; ``None`` for too many references."""
        names = [name for name in dict.fromkeys(names_in(self.rule.text)) if name != _LEAF_NAME]
        elements = tuple(name for name in names if name in self.schema.positions)
        links = links_of(record.values.get(self.schema.positions[name]) for name in elements)
        return None if links is None else Quoted(elements, links)

    def _equals(self, value: FeedValue) -> bool:
        """Return whether a value or its label is that of the rule. In Python true is 1; here it is not."""
        wanted = self.rule.equals
        if isinstance(value, bool) or isinstance(wanted, bool):
            return value is wanted
        labels = self.schema.elements[self.position].values
        return value == wanted or any(n.label == wanted and n.value == value for n in labels)

    def _text_of(self, name: str, record: ObjectRecord) -> str:
        if name == _LEAF_NAME:
            return escaped(record.leaf_name)
        position = self.schema.positions.get(name)
        if position is None:
            return ABSENT
        return value_text(record.values.get(position), self.schema.elements[position])


def links_of(values: Iterable[object]) -> tuple[ObjectLink, ...] | None:
    """Return the references in values, each once; ``None`` where there are more than `MAX_LINKS`."""
    found: dict[ObjectLink, None] = {}
    for link in chain.from_iterable(map(links_in, values)):
        found[link] = None
        if len(found) > MAX_LINKS:
            return None
    return tuple(found)


def predicates_of(record: ClassRecord, rules: Mapping[str, AlarmRule]) -> tuple[Predicate, ...]:
    """Return the predicates of the rules whose element a version of the class has."""
    schema = record.schema
    return tuple(
        Predicate(name, rule, schema.positions[rule.element], schema)
        for name, rule in rules.items()
        if rule.element in schema.positions
    )


_GONE = "its object is gone"


class _Held(msgspec.Struct, frozen=True):
    """An alarm that values do not decide for a while.

    Attributes:
        since: when that began (ns).
        entry: the object.
        by_event: an event has precedence; otherwise values must go on to show the condition.
    """

    since: int
    entry: Entry
    by_event: bool


class AlarmEvaluator:
    """Raises and clears the alarms of one source.

    Args:
        scope: the scope of the source; ``alarms_refused`` is counted.
        alarms: the active alarms.
        recorder: makes the events of those transitions that no agent reported.
        objects: the objects of the source.
        agents: the agents of the source, some of which are fresh.
    """

    def __init__(
        self,
        scope: SourceScope,
        alarms: AlarmTable,
        recorder: EventRecorder,
        objects: ObjectLifecycle,
        agents: AgentTable,
    ) -> None:
        self._classes = scope.classes
        self._alarms = alarms
        self._recorder = recorder
        self._living = objects.living
        self._is_fresh = agents.is_fresh
        self._out = scope.records
        self._counters = scope.counters
        self._predicates: dict[int, tuple[Predicate, ...]] = {}
        self._held: OrderedDict[AlarmKey, _Held] = OrderedDict()
        self._unended: dict[str, EventRecord] = {}

    def expect_clearings(self, raised: Iterable[EventRecord]) -> None:
        """Take the events that raised conditions which, by the event log, have not ended.

        Those whose alarm is not active have ended without a record. It is reported when all objects of the
        source were reported, unless an event on the condition comes first: an agent may send one again.
        """
        active = {alarm.condition for alarm in self._alarms.records()}
        self._unended = {event.condition: event for event in raised if event.condition not in active}

    def reported(self, event: EventRecord, rule: EventRule | None, now: int) -> None:
        """Publish an agent's event, and apply it to the condition that its rule names."""
        name = (rule.raises or rule.clears) if rule is not None else ""
        if rule is None or not name or (rule.subject is not None and event.subject is None):
            self._out.append(event)
        elif rule.raises:
            self.raised_by(event, AlarmKey(name, event.subject), now)
        else:
            self.cleared_by(event, AlarmKey(name, event.subject), now)

    def raised_by(self, event: EventRecord, key: AlarmKey, now: int) -> None:
        """Publish an event by which a condition began.

        For an object that is gone no condition can last, and a refused alarm cannot be ended: such an event
        is published by itself.
        """
        if key.subject is not None and self._living(key.subject) is None:
            self._out.append(event)
            return
        if not self._alarms.has_room_for(key):
            self._counters["alarms_refused"] += 1
            self._out.append(event)
            return
        event = msgspec.structs.replace(event, state=EventState.RAISED, condition=key.condition)
        self._unended.pop(key.condition, None)
        self._out.append(event)
        if key not in self._alarms:
            self._out.append(self._alarms.add(key, event, self._quoted_by(event)))
        self._hold(key, now)

    def cleared_by(self, event: EventRecord, key: AlarmKey, now: int) -> None:
        """Publish an event by which a condition ended."""
        self._unended.pop(key.condition, None)
        self._out.append(
            msgspec.structs.replace(
                event, state=EventState.CLEARED, severity=Severity.CLEARED, condition=key.condition
            )
        )
        if key in self._alarms:
            self._out.append(self._alarms.remove(key, now))
        self._hold(key, now)

    def evaluate(self, touched: Touched, now: int) -> None:
        """Evaluate the objects that a message body reported or ended, once it is applied as a whole."""
        for link in touched.ended:
            self._ended(link, now)
        for entry in touched.reported.values():
            if self._alarms.inherited:
                self._recognise(entry, now)
            predicates = self._predicates.get(entry.class_record.number)
            if predicates is None:
                predicates = self._predicates_of(entry)
            if predicates and self._living(link := entry.link()) is entry:
                for predicate in predicates:
                    self._look(predicate, entry, link, now)
        touched.reported.clear()
        touched.ended.clear()

    def resynchronised(self, now: int) -> Iterator[None]:
        """Clear the alarms whose object or rule is no more: all objects of the source were reported.

        Then report the conditions that ended without a record. One alarm at a time.
        """
        for key in self._alarms:
            yield
            if key not in self._alarms:
                continue
            subject = key.subject
            if subject is not None and self._living(subject) is None:
                self._clear(key, _GONE, now)
            elif key.name not in OF_SOURCES and not self._classes.can_clear(
                key.name, subject.class_name if subject is not None else ""
            ):
                self._clear(key, "nothing reports it any more", now)
        self._alarms.inherited.clear()
        for condition in tuple(self._unended):
            yield
            raised = self._unended.pop(condition, None)
            if raised is not None:
                self._report_clearing(raised, now)

    def tick(self, now: int) -> None:
        """Evaluate held predicates, once their time is over and their object is current."""
        for key, held in list(self._held.items()):
            # A clock that was set back must not make it longer.
            is_over = not 0 <= now - held.since < HOLD
            if is_over and (self._is_current(held.entry, now) or not self._lives(key, held.entry)):
                self._release(key, now)

    def _is_current(self, entry: Entry, now: int) -> bool:
        """Return whether the values of an object are fresh."""
        record, class_name = entry.record, entry.class_record.schema.class_name
        return not record.unread_since and self._is_fresh(record.agent, class_name, now)

    def clear_all(self, why: str, now: int) -> None:
        """Clear every alarm: the source is removed."""
        for key in self._alarms:
            self._clear(key, why, now)
        self._held.clear()

    def _recognise(self, entry: Entry, now: int) -> None:
        """Clear inherited alarms whose object's name belongs to another object now."""
        link = entry.link()
        former = self._alarms.inherited.pop((link.class_name, link.stable_name), link)
        if former != link:
            for key in self._alarms.of(former):
                self._clear(key, _GONE, now)

    def _ended(self, link: ObjectLink, now: int) -> None:
        keys = self._alarms.of(link)
        if not keys:
            return
        # Reported in the same body under another version of its class: what can be tested stays active.
        again = self._living(link)
        tested = {predicate.name for predicate in self._predicates_of(again)} if again is not None else set()
        for key in keys:
            if key.name not in tested:
                self._clear(key, _GONE, now)

    def _look(
        self, predicate: Predicate, entry: Entry, link: ObjectLink, now: int, *, waited: bool = False
    ) -> None:
        if not predicate.decides(entry.record.values):
            return
        key = AlarmKey(predicate.name, link)
        active = key in self._alarms
        holds = predicate.holds(entry.record.values, active=active)
        held = self._held.get(key)
        if held is not None and held.entry is not entry:  # of an earlier object
            held = None
        if held is not None and not held.by_event and not holds:
            del self._held[key]
        if holds == active or held is not None:
            return
        if holds and predicate.rule.hold_down and not waited:
            self._hold(key, now, by_event=False)
        elif holds:
            self._raise(key, predicate, entry, now)
        else:
            self._clear(key, "", now)

    def _raise(self, key: AlarmKey, predicate: Predicate, entry: Entry, now: int) -> None:
        if not self._alarms.has_room_for(key):
            self._counters["alarms_refused"] += 1
            return
        self._unended.pop(key.condition, None)
        event = self._recorder.own(
            ALARM_RAISED,
            (key.name,),
            predicate.rule.severity,
            predicate.text(entry.record),
            now,
            subject=key.subject,
            state=EventState.RAISED,
            condition=key.condition,
        )
        event = msgspec.structs.replace(event, quoted=predicate.quoted(entry.record))
        self._out += (event, self._alarms.add(key, event, event.quoted))

    def _clear(self, key: AlarmKey, why: str, now: int) -> None:
        alarm = self._alarms.remove(key, now)
        lasted = duration_text(max(0, now - alarm.raised))
        reason = f", {why}" if why else ""
        text = f"cleared after {lasted}{reason}: {alarm.text}"
        self._out += (self._clearing(alarm, key.name, text, now), alarm)

    def _report_clearing(self, raised: EventRecord, now: int) -> None:
        """Report the end of a condition whose alarm an earlier core has cleared."""
        name = raised.condition.partition(" ")[0]  # a condition begins with the alarm's name
        text = f"cleared before the gateway was started again: {raised.text}"
        self._out.append(self._clearing(raised, name, text, now))

    def _clearing(self, raised: AlarmRecord | EventRecord, name: str, text: str, now: int) -> EventRecord:
        """Return the event that reports that a condition has ended."""
        event = self._recorder.own(
            ALARM_CLEARED,
            (name,),
            Severity.CLEARED,
            one_line(text),
            now,
            subject=raised.subject,
            state=EventState.CLEARED,
            condition=raised.condition,
        )
        return msgspec.structs.replace(event, quoted=raised.quoted)

    def _quoted_by(self, event: EventRecord) -> Quoted | None:
        """Return what the text of an agent's event quotes, which is the text of the alarm that it begins."""
        links = links_of(event.values.values())
        return None if links is None else Quoted((), links, self._classes.event_name(event.class_number))

    def _hold(self, key: AlarmKey, now: int, *, by_event: bool = True) -> None:
        """Give an event precedence, if a predicate could contradict it; or wait whether a condition lasts."""
        entry = self._living(key.subject) if key.subject is not None else None
        if entry is None or self._predicate(key, entry) is None:
            return
        self._held.pop(key, None)
        self._held[key] = _Held(now, entry, by_event)
        if len(self._held) > MAX_HOLDS:
            self._release(next(iter(self._held)), now)

    def _release(self, key: AlarmKey, now: int) -> None:
        entry = self._held.pop(key).entry
        predicate = self._predicate(key, entry)
        if predicate is not None and self._lives(key, entry):
            self._look(predicate, entry, entry.link(), now, waited=True)

    def _lives(self, key: AlarmKey, entry: Entry) -> bool:
        return key.subject is not None and self._living(key.subject) is entry

    def _predicate(self, key: AlarmKey, entry: Entry) -> Predicate | None:
        return next((one for one in self._predicates_of(entry) if one.name == key.name), None)

    def _predicates_of(self, entry: Entry) -> tuple[Predicate, ...]:
        """Return the predicates for objects of this version of a class."""
        record = entry.class_record
        known = self._predicates.get(record.number)
        if known is None:
            rules = self._classes.alarm_rules(record.schema.key)
            known = self._predicates[record.number] = predicates_of(record, rules)
        return known
