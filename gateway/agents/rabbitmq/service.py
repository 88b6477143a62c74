"""What is known of the broker, served to consoles through a QMF agent session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.agents.rabbitmq.known_objects import Change, Gone, KnownObject, KnownObjects
from gateway.agents.rabbitmq.object_names import ObjectName, object_number
from gateway.agents.rabbitmq.reading import ClassReader, reference_positions
from gateway.dialects.effects import Delivery, Effect, Note, WakeAt
from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.model.values import Reference, Value


class ConsoleService:
    """Keeps an agent session in step with what is known.

    Args:
        session: configuration of the QMF agent session.
        readers: the reader of each class, for its schema.
        known: where the objects are that others refer to.
        flush_delay: nanoseconds from a creation or deletion to its publication.

    Raises:
        LocalProtocolError: AM2 cannot carry one of the classes.
    """

    def __init__(
        self,
        session: AgentConfig,
        readers: Mapping[str, ClassReader],
        known: KnownObjects,
        flush_delay: int,
    ) -> None:
        self.session = AgentSession(session, (reader.schema for reader in readers.values()))
        self.serving = False
        self._readers = readers
        self._references = {name: reference_positions(reader.schema) for name, reader in readers.items()}
        self._known = known
        self._flush_delay = flush_delay
        self._flush_at = 0
        self._session_wake = 0

    @property
    def wake_at(self) -> int:
        """When to call `tick` (ns); 0 for no need."""
        return min((time for time in (self._flush_at, self._session_wake) if time), default=0)

    def begin(self, now: int) -> list[Effect]:
        """Speak from now on; nothing happens where it already does."""
        if self.serving:
            return []
        self.serving = True
        return self._passed_on(self.session.start(now))

    def suspend(self) -> bool:
        """Fall silent until `begin`; whether it was speaking."""
        if not self.serving:
            return False
        self.serving = False
        self.session.suspend()
        self._flush_at = self._session_wake = 0
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
            effects += self.session.flush(now)
        if self._session_wake and now >= self._session_wake:
            self._session_wake = 0
            effects += self._passed_on(self.session.tick(now))
        return effects

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
        return effects

    def _put(self, known: KnownObject) -> list[Effect]:
        properties = list(known.properties)
        for position, class_name in self._references[known.name.class_name]:
            properties[position] = self._reference(class_name, properties[position])
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

    def _reference(self, class_name: str, target: Value | None) -> Value | None:
        """The object id of what is referred to by name; of one not known yet, the id that it will have."""
        if not isinstance(target, str):
            return None
        name = ObjectName(class_name, (target,))
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
