"""What is known of the broker, and what happens there, told to consoles through a QMF agent session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gateway.agents.rabbitmq.event_backlog import EventBacklog, Loss
from gateway.agents.rabbitmq.event_making import RaisedEvent
from gateway.agents.rabbitmq.known_objects import Change, Gone, KnownObject, KnownObjects
from gateway.agents.rabbitmq.object_names import ObjectName, object_number
from gateway.agents.rabbitmq.reading import ClassReader, reference_positions, target_of
from gateway.dialects.effects import Delivery, Effect, Note, Send, WakeAt
from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.model.events import Severity
from gateway.model.schema import EventSchema
from gateway.model.values import Reference, Value, Values

SETTLING = 1_000_000_000
"""From the beginning of service to the first event: consoles ask for the objects first that events name."""
EVENTS_LOST = "eventsLost"
OVERLAP = 2_000_000_000
"""Of so much time before another agent was last known to serve, events are told again: it may have not."""


class ConsoleService:
    """Keeps an agent session in step with what is known.

    Args:
        session: configuration of the QMF agent session.
        readers: the reader of each class, for its schema.
        known: where the objects are that others refer to.
        events: the schemas of the events that may be raised, by name.
        flush_delay: nanoseconds from a creation or deletion to its publication.

    Raises:
        LocalProtocolError: AM2 cannot carry one of the classes or events.
    """

    def __init__(
        self,
        session: AgentConfig,
        readers: Mapping[str, ClassReader],
        known: KnownObjects,
        events: Mapping[str, EventSchema],
        flush_delay: int,
    ) -> None:
        classes = (reader.schema for reader in readers.values())
        self.session = AgentSession(session, classes, events.values())
        self.serving = False
        self._linked = False
        self._incarnation = session.broker.hex
        self._lost_event = events[EVENTS_LOST].key if EVENTS_LOST in events else None
        self._backlog = EventBacklog()
        self._messages = 0
        self._settled_at = 0
        self._creations_wait = False
        self._readers = readers
        self._references = {name: reference_positions(reader.schema) for name, reader in readers.items()}
        self._known = known
        self._flush_delay = flush_delay
        self._flush_at = 0
        self._session_wake = 0

    @property
    def wake_at(self) -> int:
        """When to call `tick` (ns); 0 for no need."""
        telling = self._settled_at if self.serving and len(self._backlog) else 0
        return min((time for time in (self._flush_at, self._session_wake, telling) if time), default=0)

    def tells_at_once(self, now: int) -> bool:
        """Whether nothing but `tell_now` is needed for consoles to hear of what happens."""
        return self.serving and now >= self._settled_at

    def tell_now(self, now: int) -> list[Effect]:
        """Publish creations and deletions, and tell events, without waiting for others."""
        self._flush_at = 0
        self._creations_wait = False
        return self.session.flush(now) + self._told(now)

    def connected(self) -> None:
        """Messages reach consoles from now on."""
        self._linked = True

    def disconnected(self) -> None:
        """No message reaches consoles: fall silent, and do not `begin` before they can be reached again."""
        self._linked = False
        self.suspend()

    def stand_by(self, now: int) -> None:
        """Another agent serves now: what it told is not told again when this one serves in its place."""
        self._backlog.forget_before(now - OVERLAP)
        self.session.stand_by()

    def begin(self, now: int) -> list[Effect]:
        """Speak from now on; nothing happens where it already does, or nobody can be reached."""
        if self.serving or not self._linked:
            return []
        self.serving = True
        self._settled_at = now + SETTLING
        return [*self._passed_on(self.session.start(now)), *self.session.flush(now)]

    def suspend(self) -> bool:
        """Fall silent until `begin`; whether it was speaking."""
        if not self.serving:
            return False
        self.serving = False
        self.session.suspend()
        self._flush_at = self._session_wake = 0
        self._creations_wait = False
        return True

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """Answer a console's request."""
        return self._passed_on(self.session.receive(delivery, now))

    def console_bound(self, now: int) -> list[Effect]:
        """A console bound its queue: it is told everything soon."""
        return self._passed_on(self.session.console_bound(now))

    def tick(self, now: int) -> list[Effect]:
        """Publish what is due."""
        effects: list[Effect] = []
        if self._flush_at and now >= self._flush_at:
            self._flush_at = 0
            self._creations_wait = False
            effects += self.session.flush(now)
        if self._session_wake and now >= self._session_wake:
            self._session_wake = 0
            effects += self._passed_on(self.session.tick(now))
        return effects + self._told(now)

    def apply(self, changes: Iterable[Change], now: int) -> list[Effect]:
        """Take changes; creations and deletions leave together, a little later."""
        effects: list[Effect] = []
        for change in changes:
            if isinstance(change, Gone):
                self.session.delete(change.object.number, change.time)
            else:
                effects += self._put(change.object)
            if self.serving and (isinstance(change, Gone) or change.new):
                self._flush_at = self._flush_at or now + self._flush_delay
                self._creations_wait |= not isinstance(change, Gone)
        return effects

    # Events.

    def raise_events(self, events: Iterable[RaisedEvent], now: int) -> list[Effect]:
        """Tell events: at once, or when what they are about has been told, or consoles can be reached."""
        effects: list[Effect] = []
        for event in events:
            arguments = tuple(
                self._event_reference(value, event) if isinstance(value, ObjectName) else value
                for value in event.arguments
            )
            try:
                message = self._event_message(event, arguments)
            except LocalProtocolError as error:
                effects.append(Note("unservable-event", f"{event.key}: {error}"))
                continue
            self._backlog.add(message, event.time, event.severity)
        return effects + self._told(now)

    def events_lost(self, loss: Loss, reason: str, now: int) -> list[Effect]:
        """Events are missing: say so in the log, and to consoles."""
        effects: list[Effect] = [Note("events-lost", reason)]
        if self._lost_event is None:
            return effects
        arguments = (loss.first or None, loss.last or None, loss.count or None, reason)
        lost = RaisedEvent(self._lost_event, now, Severity.WARNING, arguments)
        return effects + self.raise_events([lost], now)

    def unsent(self, messages: Iterable[Send]) -> None:
        """The link could not send these: of them events are told again."""
        self._backlog.give_back(message for message in messages if message.message_id)

    def _told(self, now: int) -> list[Effect]:
        """The events that wait, if it is their time."""
        if now >= self._settled_at:
            self._settled_at = 0
        if not self.serving or self._settled_at or self._creations_wait or not len(self._backlog):
            return []
        effects: list[Effect] = [*self._backlog.take(now)]
        loss = self._backlog.take_loss()
        if loss is not None:
            effects += self.events_lost(loss, f"{loss.count} could not be told while nobody could hear", now)
        return effects

    def _event_message(self, event: RaisedEvent, arguments: Values) -> Send:
        """The message of an event, with an id by which consoles know it again, also from another agent."""
        self._messages += 1
        message = self.session.event_message(event.key, event.time, event.severity, arguments)
        return replace(message, message_id=event.cause or f"{self._incarnation}-{self._messages}")

    def _event_reference(self, name: ObjectName, event: RaisedEvent) -> Value | None:
        """The object id of what an event refers to; absent where nothing is known of it."""
        subject = event.subject
        known = subject if subject is not None and subject.name == name else self._known.get(name)
        return None if known is None else Reference(str(self.session.object_id(known.number)))

    def _put(self, known: KnownObject) -> list[Effect]:
        properties = list(known.properties)
        for position, class_name in self._references[known.name.class_name]:
            properties[position] = self._reference(known.name, class_name, properties[position])
        managed = ManagedObject(
            self._readers[known.name.class_name].schema.key,
            known.number,
            known.created,
            tuple(properties),
            known.statistics,
            known.sampled,
        )
        try:
            self.session.put(managed)
        except LocalProtocolError as error:
            return [Note("unservable-object", f"{known.name}: {error}")]
        return []

    def _reference(self, referring: ObjectName, class_name: str, target: Value | None) -> Value | None:
        """The object id of what is referred to by name; of one not known yet, the id that it will have."""
        name = target_of(self._readers, referring, class_name, target)
        if name is None:
            return None
        known = self._known.get(name)
        number = object_number(name, 0) if known is None else known.number
        return Reference(str(self.session.object_id(number)))

    def _passed_on(self, effects: Iterable[Effect]) -> list[Effect]:
        """``effects`` without the session's wishes to be woken, which become part of `wake_at`."""
        passed: list[Effect] = []
        for effect in effects:
            if isinstance(effect, WakeAt):
                self._session_wake = effect.time
            else:
                passed.append(effect)
        return passed
