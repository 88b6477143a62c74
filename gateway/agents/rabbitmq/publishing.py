"""Observations of a source, published to consoles through a QMF agent session. Without I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gateway.agents.rabbitmq.event_backlog import EventBacklog, Loss
from gateway.agents.rabbitmq.object_names import number_of
from gateway.agents.rabbitmq.observation_stream import EVENTS_LOST
from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.dialects.session import Delivery, Effect, Note, Send, TimerExpired, WakeAt
from gateway.model.events import Severity
from gateway.model.observations import EventSeen, ObjectSeen, Observation
from gateway.model.schema import ClassSchema, EventSchema
from gateway.model.values import Reference, Value, Values

SETTLING = 1_000_000_000
"""From the beginning of service to the first event: consoles ask for the objects first that events name."""
OVERLAP = 2_000_000_000
"""Events of so much time before another agent was last known to serve are published again (ns)."""


class ConsolePublisher:
    """Keeps an agent session in step with what is observed.

    Args:
        session: configuration of the QMF agent session.
        classes: that objects are of.
        events: that may be observed.
        flush_delay: nanoseconds from a creation or deletion to its publication, so that those that belong
            together leave together.

    Raises:
        LocalProtocolError: AM2 cannot carry one of the classes or events.
    """

    def __init__(
        self,
        session: AgentConfig,
        classes: Iterable[ClassSchema],
        events: Iterable[EventSchema],
        flush_delay: int,
    ) -> None:
        events = tuple(events)
        self.session = AgentSession(session, classes, events)
        self.serving = False
        self._linked = False
        self._incarnation = session.broker.hex
        self._lost_event = next((one.key for one in events if one.key.name == EVENTS_LOST), None)
        self._backlog: EventBacklog[Send] = EventBacklog()
        self._messages = 0
        self._settled_at = 0
        self._creations_wait = False
        self._values: dict[int, tuple[Values, Values]] = {}
        self._flush_delay = flush_delay
        self._flush_at = 0
        self._session_wake = 0

    @property
    def wake_at(self) -> int:
        """When to call `tick` (ns); 0 for no need."""
        telling = self._settled_at if self.serving and len(self._backlog) else 0
        return min((time for time in (self._flush_at, self._session_wake, telling) if time), default=0)

    def connected(self) -> None:
        """Messages reach consoles from now on."""
        self._linked = True

    def disconnected(self) -> None:
        """No message reaches consoles: fall silent, and do not `begin` before they can be reached again."""
        self._linked = False
        self.suspend()

    def stand_by(self, now: int) -> None:
        """Another agent serves now: what it published is not published again by this one."""
        self._backlog.forget_before(now - OVERLAP)
        self.session.stand_by()

    def begin(self, now: int) -> list[Effect]:
        """Publish from now on; nothing happens where that is so already, or no console can be reached."""
        if self.serving or not self._linked:
            return []
        self.serving = True
        self._settled_at = now + SETTLING
        return [*self._passed_on(self.session.start(now)), *self.session.flush(now)]

    def suspend(self) -> bool:
        """Publish nothing until `begin`; returns whether that is a change."""
        if not self.serving:
            return False
        self.serving = False
        self.session.suspend()
        self._flush_at = self._session_wake = 0
        self._creations_wait = False
        return True

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """Answer a console's request."""
        return self._passed_on(self.session.handle(delivery, now))

    def console_bound(self, now: int) -> list[Effect]:
        """A console bound its queue: everything is published again soon."""
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
            effects += self._passed_on(self.session.handle(TimerExpired(), now))
        return effects + self._publish_events(now)

    def observe(self, observations: Iterable[Observation], now: int) -> list[Effect]:
        """Take what was observed; creations and deletions leave together, a little later."""
        effects: list[Effect] = []
        for one in observations:
            if isinstance(one, ObjectSeen):
                effects += self._object_seen(one, now)
            elif isinstance(one, EventSeen):
                effects += self._event_seen(one, now)
        return effects

    def _object_seen(self, seen: ObjectSeen, now: int) -> list[Effect]:
        number = number_of(seen.native_id)
        if number is None:
            return [Note("unservable-object", f"native id {seen.native_id}")]
        is_new = number not in self.session.objects
        effects: list[Effect] = []
        if seen.deleted:
            self._values.pop(number, None)
            self.session.delete(number, seen.deleted)
        else:
            effects = self._put(number, seen)
        if self.serving and (seen.deleted or is_new):
            self._flush_at = self._flush_at or now + self._flush_delay
            self._creations_wait |= not seen.deleted
        return effects

    def _put(self, number: int, seen: ObjectSeen) -> list[Effect]:
        properties, statistics = self._values.get(number, ((), ()))
        if seen.properties is not None:
            properties = tuple(map(self._on_wire, seen.properties))
        if seen.statistics is not None:
            statistics = seen.statistics
        self._values[number] = properties, statistics
        managed = ManagedObject(seen.key, number, seen.created, properties, statistics, seen.sampled)
        try:
            self.session.put(managed)
        except LocalProtocolError as error:
            return [Note("unservable-object", f"{seen.key} {seen.native_id}: {error}")]
        return []

    def _on_wire(self, value: Value | None) -> Value | None:
        """``value`` with an object id in place of a native id."""
        if not isinstance(value, Reference):
            return value
        number = number_of(value.native_id)
        return None if number is None else Reference(str(self.session.object_id(number)))

    # Events.

    def _event_seen(self, seen: EventSeen, now: int) -> list[Effect]:
        """Publish an event: at once, or when its objects have been published, or consoles can be reached."""
        arguments = tuple(map(self._on_wire, seen.arguments))
        try:
            message = self.session.event_message(seen.key, seen.time, seen.severity, arguments)
        except LocalProtocolError as error:
            return [Note("unservable-event", f"{seen.key}: {error}")]
        # Consoles know an event again by this id, also if another agent publishes it.
        self._messages += 1
        identity = seen.cause or f"{self._incarnation}-{self._messages}"
        self._backlog.add(replace(message, message_id=identity), identity, seen.time, seen.severity)
        return self._publish_events(now)

    def _events_lost(self, loss: Loss, now: int) -> list[Effect]:
        """Events were dropped here: publish that, and leave a note."""
        reason = f"{loss.count} could not be published while no console could be reached"
        effects: list[Effect] = [Note("events-lost", reason)]
        if self._lost_event is None:
            return effects
        arguments = (loss.first or None, loss.last or None, loss.count or None, reason)
        lost = EventSeen(self._lost_event, "", now, Severity.WARNING, arguments)
        return effects + self._event_seen(lost, now)

    def unsent(self, messages: Iterable[Send]) -> None:
        """The link could not send these: the events among them are published again."""
        self._backlog.give_back(message.message_id for message in messages if message.message_id)

    def _publish_events(self, now: int) -> list[Effect]:
        """The events that wait, if it is their time."""
        if now >= self._settled_at:
            self._settled_at = 0
        if not self.serving or self._settled_at or self._creations_wait or not len(self._backlog):
            return []
        effects: list[Effect] = [*self._backlog.take(now)]
        loss = self._backlog.take_loss()
        if loss is not None:
            effects += self._events_lost(loss, now)
        return effects

    def _passed_on(self, effects: Iterable[Effect]) -> list[Effect]:
        """``effects`` without the session's wishes to be woken, which become part of `wake_at`."""
        passed: list[Effect] = []
        for effect in effects:
            if isinstance(effect, WakeAt):
                self._session_wake = effect.time
            else:
                passed.append(effect)
        return passed
