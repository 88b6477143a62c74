"""Conditions that last, of one source: what its objects show and its events tell, as one alarm each.

The first that sees a condition raises its alarm, and whoever says the same later confirms it. What an object
shows (a predicate of the mapping on its elements) decides in the end, because an event may be lost. But what
is shown may lag behind an event (RabbitMQ's HTTP statistics do, by seconds): so for `HOLD` after an event a
predicate that contradicts it is not believed, and then looked at again. Where no predicate has the alarm's
name, only an event ends it, or the end of its object.

Alarms stand over a restart of the gateway: the first complete resync shows which of them are over.

An event says ``raised`` only if an alarm stands after it, and ``cleared`` has the severity ``CLEARED``
(ITU-T X.733, 8.1.2.3), whatever was told before: both may be told again, with the same condition.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator

import msgspec

from gateway.feed.records import EventRecord, Record
from gateway.feed.values import ObjectLink
from gateway.inventory.alarms import AlarmKey, AlarmTable
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.event_texts import duration_text, one_line
from gateway.inventory.events import EventRecorder
from gateway.inventory.objects import Entry, Touched
from gateway.inventory.own_events import ALARM_CLEARED, ALARM_RAISED, SOURCE_DOWN_ALARM
from gateway.inventory.predicates import Predicate
from gateway.mapping.rules import EventRule
from gateway.model.events import EventState, Severity

HOLD = 15 * 10**9
"""Nanoseconds for which an event is believed more than what contradicts it."""

MAX_HOLDS = 10_000

_GONE = "its object is gone"
_SOURCE_DOWN = AlarmKey(SOURCE_DOWN_ALARM)


class AlarmEvaluator:
    """Raises and clears the alarms of one source, appending records to ``out``.

    Args:
        classes: for the mappings' rules.
        alarms: the table to keep.
        recorder: makes the events of those transitions that no event of an agent told.
        living: the object behind a link, while it lives.
        is_fresh: whether an agent's objects are current.
        out: where records go, in order.
        counters: ``alarms_refused`` is counted.
    """

    def __init__(
        self,
        classes: ClassRegistry,
        alarms: AlarmTable,
        recorder: EventRecorder,
        living: Callable[[ObjectLink], Entry | None],
        is_fresh: Callable[[str], bool],
        out: list[Record],
        counters: Counter[str],
    ) -> None:
        self._classes = classes
        self._alarms = alarms
        self._recorder = recorder
        self._living = living
        self._is_fresh = is_fresh
        self._out = out
        self._counters = counters
        self._held: OrderedDict[AlarmKey, tuple[int, Entry]] = OrderedDict()

    def told_by(self, event: EventRecord, rule: EventRule | None, now: int) -> None:
        """Tell an agent's event, with what it does to the condition that its rule names."""
        name = (rule.raises or rule.clears) if rule is not None else ""
        if rule is None or not name or (rule.subject is not None and event.subject is None):
            self._out.append(event)
        elif rule.raises:
            self.raised_by(event, AlarmKey(name, event.subject), now)
        else:
            self.cleared_by(event, AlarmKey(name, event.subject), now)

    def raised_by(self, event: EventRecord, key: AlarmKey, now: int) -> None:
        """Tell an event that says that a condition began.

        Of an object that is gone nothing can last, and an alarm that is refused cannot be ended: such an
        event stands for itself.
        """
        if key.subject is not None and self._living(key.subject) is None:
            self._out.append(event)
            return
        if not self._alarms.has_room_for(key):
            self._counters["alarms_refused"] += 1
            self._out.append(event)
            return
        event = msgspec.structs.replace(event, state=EventState.RAISED, condition=key.condition)
        self._out.append(event)
        if key not in self._alarms:
            self._out.append(self._alarms.add(key, event))
        self._hold(key, now)

    def cleared_by(self, event: EventRecord, key: AlarmKey, now: int) -> None:
        """Tell an event that says that a condition ended."""
        self._out.append(
            msgspec.structs.replace(
                event, state=EventState.CLEARED, severity=Severity.CLEARED, condition=key.condition
            )
        )
        if key in self._alarms:
            self._out.append(self._alarms.remove(key, now))
        self._hold(key, now)

    def settle(self, touched: Touched, now: int) -> None:
        """Look at the objects that a message body told or ended, once it is applied as a whole."""
        for link in touched.ended:
            self._ended(link, now)
        for entry in touched.reported.values():
            if self._alarms.inherited:
                self._recognise(entry, now)
            predicates = self._classes.predicates(entry.class_record)
            if predicates and self._living(link := entry.link()) is entry:
                for predicate in predicates:
                    self._look(predicate, entry, link, now)
        touched.clear()

    def resynchronised(self, now: int) -> Iterator[None]:
        """All objects of the source were told: an alarm whose object or whose rule is no more is over.

        One alarm at a time.
        """
        for key in self._alarms:
            yield
            if key not in self._alarms:
                continue
            subject = key.subject
            if subject is not None and self._living(subject) is None:
                self._clear(key, _GONE, now)
            elif key != _SOURCE_DOWN and not self._classes.tells_of(
                key.name, subject.class_name if subject is not None else ""
            ):
                self._clear(key, "nothing tells of it any more", now)
        self._alarms.inherited.clear()

    def tick(self, now: int) -> None:
        """Look again at what was not believed, once its time is over and its object is current."""
        for key, (since, entry) in list(self._held.items()):
            # A clock that was set back must not make it longer.
            is_over = not 0 <= now - since < HOLD
            if is_over and (self._is_fresh(entry.record.agent) or not self._lives(key, entry)):
                self._release(key, now)

    def clear_all(self, why: str, now: int) -> None:
        """Nothing of this source is known any more."""
        for key in self._alarms:
            self._clear(key, why, now)
        self._held.clear()

    def _recognise(self, entry: Entry, now: int) -> None:
        """An object is told for the first time since the gateway began: is it one that had alarms before?"""
        link = entry.link()
        former = self._alarms.inherited.pop((link.class_name, link.stable_name), link)
        if former != link:
            for key in self._alarms.of(former):
                self._clear(key, _GONE, now)

    def _ended(self, link: ObjectLink, now: int) -> None:
        keys = self._alarms.of(link)
        if not keys:
            return
        # Told again in the same body, under another version of its class: what can be tested stands.
        again = self._living(link)
        tested = (
            {p.name for p in self._classes.predicates(again.class_record)} if again is not None else set()
        )
        for key in keys:
            if key.name not in tested:
                self._clear(key, _GONE, now)

    def _look(self, predicate: Predicate, entry: Entry, link: ObjectLink, now: int) -> None:
        key = AlarmKey(predicate.name, link)
        standing = key in self._alarms
        holds = predicate.holds(entry.record.values, standing=standing)
        if holds == standing or self._is_held(key, entry):
            return
        if holds:
            self._raise(key, predicate, entry, now)
        else:
            self._clear(key, "", now)

    def _raise(self, key: AlarmKey, predicate: Predicate, entry: Entry, now: int) -> None:
        if not self._alarms.has_room_for(key):
            self._counters["alarms_refused"] += 1
            return
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
        self._out += (event, self._alarms.add(key, event))

    def _clear(self, key: AlarmKey, why: str, now: int) -> None:
        alarm = self._alarms.remove(key, now)
        lasted = duration_text(max(0, now - alarm.raised))
        reason = f", {why}" if why else ""
        event = self._recorder.own(
            ALARM_CLEARED,
            (key.name,),
            Severity.CLEARED,
            one_line(f"cleared after {lasted}{reason}: {alarm.text}"),
            now,
            subject=key.subject,
            state=EventState.CLEARED,
            condition=key.condition,
        )
        self._out += (event, alarm)

    def _hold(self, key: AlarmKey, now: int) -> None:
        """From here on the event is believed, if there is a predicate that could contradict it."""
        entry = self._living(key.subject) if key.subject is not None else None
        if entry is None or self._predicate(key, entry) is None:
            return
        self._held.pop(key, None)
        self._held[key] = now, entry
        if len(self._held) > MAX_HOLDS:
            self._release(next(iter(self._held)), now)

    def _is_held(self, key: AlarmKey, entry: Entry) -> bool:
        """Whether an event about this very object, not a former one of its name, is believed."""
        held = self._held.get(key)
        return held is not None and held[1] is entry

    def _release(self, key: AlarmKey, now: int) -> None:
        _, entry = self._held.pop(key)
        predicate = self._predicate(key, entry)
        if predicate is not None and self._lives(key, entry):
            self._look(predicate, entry, entry.link(), now)

    def _lives(self, key: AlarmKey, entry: Entry) -> bool:
        return key.subject is not None and self._living(key.subject) is entry

    def _predicate(self, key: AlarmKey, entry: Entry) -> Predicate | None:
        for predicate in self._classes.predicates(entry.class_record):
            if predicate.name == key.name:
                return predicate
        return None
