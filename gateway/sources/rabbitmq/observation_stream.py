"""The broker's objects and their changes as observations of the model. Without I/O.

Objects are published as they are read. Afterwards only groups of values that changed are published, and a
heartbeat confirms the rest. Counters that rose are published until `SETTLED_BY` readings showed that: of an
object that is idle since, the log would have one reading only, and the rise would be in doubt for ever.
Native ids are made of the broker's own facts (`object_number`): the same object has the same native id after
a restart of the gateway, and in AM2, where the number is part of the object id. Events wait until everything
has been read once, so that the objects are known to which they refer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from gateway.dialects.event_backlog import EventBacklog, Loss
from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.model_values import with_marks
from gateway.dialects.qmf.schema_records import described_class, described_event
from gateway.dialects.session import Effect, Note, Observed
from gateway.model.observations import (
    SETTLED_BY,
    AgentLost,
    ClassLearned,
    Counting,
    EventLearned,
    EventSeen,
    HeartbeatSeen,
    ObjectSeen,
    Observation,
    ResyncBegan,
    ResyncEnded,
    Severity,
)
from gateway.model.schema import ClassKey, ClassSchema, EventSchema
from gateway.model.secrets import SecretRules
from gateway.model.stable_names import escaped
from gateway.model.times import SECOND
from gateway.model.values import Reference, Value, Values
from gateway.sources.rabbitmq.event_making import RaisedEvent
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.object_lives import Change, Gone, KnownObject, Put
from gateway.sources.rabbitmq.object_names import ObjectName, native_id, object_number
from gateway.sources.rabbitmq.reading import ClassReader, reference_positions, shown_text, target_of

HEARTBEAT_INTERVAL: Final = SECOND
EVENTS_LOST: Final = "eventsLost"
_OUTLIVED: Final = frozenset({"vhost", "node"})
"""Classes whose objects may be missed while those that refer to them are listed."""


class CountingOf(Protocol):
    """Returns how the counters of an object go on; ``new``: it is published for the first time."""

    def __call__(self, known: KnownObject, *, new: bool) -> Counting:
        """Return it."""


@dataclass(slots=True)
class _Rise:
    """The counters of an object that rose, by position, and the number of readings that showed that."""

    positions: frozenset[int]
    readings: int


class _Rises:
    """The rises of objects of one class that fewer than `SETTLED_BY` readings showed.

    Args:
        counters: the positions of the counters among the values.
    """

    def __init__(self, counters: Collection[int]) -> None:
        self._counters = counters
        self._rises: dict[int, _Rise] = {}  # by the number of the object

    def forget(self, number: int) -> None:
        """Forget an object, because it ended, or its counters did not go on."""
        self._rises.pop(number, None)

    def read(self, number: int, former: Values, values: Values, *, is_sample: bool) -> bool:
        """Take the values of an object; return whether they are to be published also if none changed.

        Args:
            number: the number of the object.
            former: its values before.
            values: its values now.
            is_sample: they were read since; else they are known from elsewhere.
        """
        rise = self._rises.get(number)
        if values != former:
            rose = frozenset(p for p in self._counters if _rose(former[p], values[p]))
            if rose:
                earlier = frozenset() if rise is None else rise.positions
                self._rises[number] = _Rise(rose | earlier, int(is_sample))
                return True
        if rise is None or not is_sample or all(values[p] is None for p in rise.positions):
            return False
        rise.readings += 1
        if rise.readings >= SETTLED_BY:
            del self._rises[number]
        return True


def _rose(former: Value | None, value: Value | None) -> bool:
    """Return whether a counter is more than before; one without a value may have been 0."""
    return type(value) is int and value > (former if type(former) is int else 0)


class _ObservedClass:
    """The form of one class in observations.

    Elements whose names are secret are left out of the schema and of every observation.
    """

    def __init__(self, schema: ClassSchema, secrets: SecretRules) -> None:
        # The key that AM2 gives the class, so that an object has the same class by either way.
        self.key: Final[ClassKey] = described_class(with_marks(schema)).key
        self._properties = _shown([element.name for element in schema.properties], secrets)
        self._statistics = _shown([element.name for element in schema.statistics], secrets)
        counters, count = schema.counters, len(schema.properties)
        self._property_rises = _Rises([p for p in self._properties if p in counters])
        self._statistic_rises = _Rises([p for p in self._statistics if p + count in counters])
        self.learned: Final = ClassLearned(
            ClassSchema(
                self.key,
                tuple(schema.properties[position] for position in self._properties),
                tuple(schema.statistics[position] for position in self._statistics),
                schema.methods,
            )
        )

    def properties(self, values: Values) -> Values:
        return tuple(values[position] for position in self._properties)

    def statistics(self, values: Values) -> Values:
        return tuple(values[position] for position in self._statistics)

    def show_rises(self, known: KnownObject, previous: KnownObject) -> tuple[bool, bool]:
        """Return whether properties, and statistics, show a rise that too few readings have shown before."""
        is_sample = known.sampled != previous.sampled
        return (
            self._property_rises.read(
                known.number, previous.properties, known.properties, is_sample=is_sample
            ),
            self._statistic_rises.read(
                known.number, previous.statistics, known.statistics, is_sample=is_sample
            ),
        )

    def forget_rises(self, number: int) -> None:
        """Forget the rises of an object that ended, or whose counters did not go on."""
        self._property_rises.forget(number)
        self._statistic_rises.forget(number)


def _name_of(target: ObjectName) -> str:
    """Return the stable name of an object that is named by its own name alone, and lives durably."""
    return escaped(shown_text(target.leaf)) if target.class_name in _OUTLIVED else ""


def _shown(names: list[str], secrets: SecretRules) -> tuple[int, ...]:
    return tuple(position for position, name in enumerate(names) if not secrets.hides(name))


class ObservationStream:
    """Publishes one broker's objects and events.

    Args:
        readers: the reader of each class.
        known: the objects, to which references lead.
        events: the schemas of the events that may be raised, by name.
        secrets: the rules of the elements that are left out.
        counting: how counters go on.

    Attributes:
        synchronised: everything has been read and the broker answers, so that what was published is current.

    Raises:
        LocalProtocolError: AM2 cannot carry one of the classes or events.
    """

    def __init__(
        self,
        readers: Mapping[str, ClassReader],
        known: KnownObjects,
        events: Mapping[str, EventSchema],
        secrets: SecretRules,
        counting: CountingOf,
    ) -> None:
        self.synchronised = False
        self._counting = counting
        self._readers = readers
        self._known = known
        self._classes = {name: _ObservedClass(reader.schema, secrets) for name, reader in readers.items()}
        self._events = {name: described_event(schema) for name, schema in events.items()}
        self._lost_event = events[EVENTS_LOST].key if EVENTS_LOST in events else None
        self._references = {name: reference_positions(reader.schema) for name, reader in readers.items()}
        self._awaited: dict[ObjectName, dict[ObjectName, None]] = {}
        self._waiting: EventBacklog[RaisedEvent] = EventBacklog()
        self._numbered = 0
        self._began = False
        self._was_synchronised = False
        self._heartbeat_at = 0

    @property
    def wake_at(self) -> int:
        """The time at which `tick` must be called (ns); 0 if it need not."""
        return self._heartbeat_at

    # Objects.

    def apply(self, changes: Iterable[Change]) -> list[Effect]:
        """Publish changes, in order."""
        batch = list(changes)
        # Of an object that ended while the gateway was down only the end is published: it is known to others.
        ended = {change.object.number for change in batch if isinstance(change, Gone)}
        seen: list[Observation] = []
        for change in batch:
            if isinstance(change, Gone):
                seen.append(self._gone(change))
                continue
            if change.new and change.object.number in ended:
                continue
            seen += self._changed(change)
            if change.new:
                seen += self._referring_to(change.object)
        return self._observed(seen)

    def _changed(self, change: Put) -> list[Observation]:
        """Return an object with the groups of its values that changed, or show a rise that may be wrong."""
        known, previous = change.object, change.previous
        observed = self._classes[known.name.class_name]
        recounted = change.counting is not Counting.GO_ON
        if change.new or recounted:
            observed.forget_rises(known.number)
        properties, statistics = (True, True) if previous is None else observed.show_rises(known, previous)
        if previous is not None:
            properties |= (
                known.properties != previous.properties
                or known.created != previous.created
                or known.unread_since != previous.unread_since
            )
            statistics |= recounted or known.statistics != previous.statistics
        if not (properties or statistics):
            return []
        seen = self._seen(known, properties=properties, statistics=statistics)
        counting = change.counting if recounted else self._counting(known, new=change.new)
        return [replace(seen, counting=counting) if counting is not Counting.GO_ON else seen]

    def current(self, known: KnownObject) -> list[Effect]:
        """Publish all of an object again, because a user requested it."""
        seen = self._seen(known, properties=True, statistics=True)
        return self._observed([replace(seen, counting=self._counting(known, new=False))])

    def _seen(self, known: KnownObject, *, properties: bool, statistics: bool) -> ObjectSeen:
        observed = self._classes[known.name.class_name]
        return ObjectSeen(
            observed.key,
            BROKER_AGENT,
            native_id(known.number),
            known.sampled,
            known.created,
            0,
            observed.properties(self._resolved(known)) if properties else None,
            observed.statistics(known.statistics) if statistics and known.statistics else None,
            presumed=known.presumed,
            unread_since=known.unread_since,
        )

    def _gone(self, gone: Gone) -> ObjectSeen:
        known = gone.object
        observed = self._classes[known.name.class_name]
        observed.forget_rises(known.number)
        return ObjectSeen(
            observed.key,
            BROKER_AGENT,
            native_id(known.number),
            known.sampled,
            known.created,
            gone.time,
            observed.properties(self._resolved(known, awaits=False)),
            inferred=gone.inferred,
        )

    def _resolved(self, known: KnownObject, *, awaits: bool = True) -> Values:
        """Return the properties with references in place of names."""
        properties = list(known.properties)
        for position, class_name in self._references[known.name.class_name]:
            target = target_of(self._readers, known.name, class_name, properties[position])
            properties[position] = self._reference(target, known.name if awaits else None)
        return tuple(properties)

    def _reference(self, target: ObjectName | None, referrer: ObjectName | None) -> Value | None:
        if target is None:
            return None
        if referrer is not None and self._known.get(target) is None:
            self._awaited.setdefault(target, {})[referrer] = None
        number = self._known.number_of(target, ended=referrer is None)
        return Reference(native_id(number), _name_of(target))

    def awaited(self, class_name: str) -> list[ObjectName]:
        """Return the objects of a class that are not known, and to which published ones refer."""
        return [name for name in self._awaited if name.class_name == class_name]

    def _referring_to(self, target: KnownObject) -> list[Observation]:
        """Publish again the objects that refer to ``target`` and were published before it was known.

        Objects that outlived a virtual host or node refer to its new number.
        """
        names = self._awaited.pop(target.name, {})
        if target.name.class_name in _OUTLIVED and target.number != object_number(target.name, 0):
            names |= dict.fromkeys(self._naming(target.name))
        referrers = (self._known.get(name) for name in names)
        return [
            self._seen(referrer, properties=True, statistics=False)
            for referrer in referrers
            if referrer is not None
        ]

    def _naming(self, target: ObjectName) -> Iterator[ObjectName]:
        """Yield the names of all objects that refer to one."""
        for class_name, references in self._references.items():
            positions = [position for position, of in references if of == target.class_name]
            for known in self._known.of_class(class_name) if positions else ():
                named = (known.properties[position] for position in positions)
                if any(
                    target_of(self._readers, known.name, target.class_name, name) == target for name in named
                ):
                    yield known.name

    # Events.

    def raise_events(self, events: Iterable[RaisedEvent], now: int, *, at_once: bool = False) -> list[Effect]:
        """Publish events, or keep them until everything has been read once, unless ``at_once``."""
        if self._was_synchronised or at_once:
            return self._observed([self._event(event) for event in events])
        for event in events:
            self._numbered += 1
            self._waiting.add(event, str(self._numbered), event.time, event.severity)
        return self._lost_in_waiting(now)

    def events_lost(self, loss: Loss, reason: str, now: int) -> list[Effect]:
        """Publish an event that reports that events are missing."""
        effects: list[Effect] = [Note("events-lost", reason)]
        if self._lost_event is None:
            return effects
        arguments = (loss.first or None, loss.last or None, loss.count or None, reason)
        lost = RaisedEvent(self._lost_event, now, Severity.WARNING, arguments)
        return effects + self.raise_events([lost], now)

    def _lost_in_waiting(self, now: int) -> list[Effect]:
        if not self._was_synchronised:
            return []
        loss = self._waiting.take_loss()
        if loss is None:
            return []
        return self.events_lost(loss, f"{loss.count} waited too long until all objects had been read", now)

    def _event(self, event: RaisedEvent) -> EventSeen:
        arguments = tuple(
            self._event_reference(value, event) if isinstance(value, ObjectName) else value
            for value in event.arguments
        )
        key = self._events[event.key.name].key
        return EventSeen(key, BROKER_AGENT, event.time, event.severity, arguments, event.cause)

    def _event_reference(self, name: ObjectName, event: RaisedEvent) -> Reference | None:
        subject = event.subject
        known = subject if subject is not None and subject.name == name else self._known.get(name)
        return None if known is None else Reference(native_id(known.number))

    # Freshness.

    def complete(self, now: int, current_until: Callable[[], Mapping[str, int]]) -> list[Effect]:
        """Publish that everything has been read and is current, by class until then (ns)."""
        if self.synchronised:
            return []
        observations: list[Observation] = []
        waited: list[RaisedEvent] = [] if self._was_synchronised else self._waiting.take(now)
        observations += [self._heartbeat(now, current_until()), ResyncEnded(complete=True)]
        observations += [self._event(event) for event in waited]
        self.synchronised = self._was_synchronised = True
        self._heartbeat_at = now + HEARTBEAT_INTERVAL
        return [*self._observed(observations), *self._lost_in_waiting(now)]

    def answers_again(self) -> list[Effect]:
        """Resume heartbeats: the broker was out of reach for less than the time after which all is stale."""
        return self._observed([ResyncEnded(complete=True)]) if self.synchronised else []

    def mark_stale(self, detail: str) -> list[Effect]:
        """Publish that everything is stale until `complete`."""
        if not self.synchronised:
            return []
        self.synchronised = False
        self._heartbeat_at = 0
        return self._observed([AgentLost(BROKER_AGENT, detail)])

    def tick(
        self, now: int, current_until: Callable[[], Mapping[str, int]], *, answers: bool
    ) -> list[Effect]:
        """Publish a heartbeat when it is due, unless the broker does not answer."""
        if not self._heartbeat_at or now < self._heartbeat_at:
            return []
        self._heartbeat_at = now + HEARTBEAT_INTERVAL
        return self._observed([self._heartbeat(now, current_until())]) if answers else []

    def _heartbeat(self, now: int, current_until: Mapping[str, int]) -> HeartbeatSeen:
        until = {str(self._classes[name].key): time for name, time in current_until.items()}
        return HeartbeatSeen(BROKER_AGENT, now, until)

    def _observed(self, observations: list[Observation]) -> list[Effect]:
        if not observations:
            return []
        if not self._began:
            self._began = True
            learned = (one.learned for one in self._classes.values())
            events = (EventLearned(one.schema) for one in self._events.values())
            observations = [*learned, *events, ResyncBegan(), *observations]
        return [Observed(tuple(observations))]
