"""What an agent says by itself: which objects came, changed and went, and a heartbeat each interval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.dialects.qmf import addresses
from gateway.dialects.qmf.agent_config import AgentConfig
from gateway.dialects.qmf.agent_objects import AgentObjects
from gateway.dialects.qmf.messages import Heartbeat
from gateway.dialects.qmf.writer import write
from gateway.dialects.session import Effect, Send, WakeAt
from gateway.model.schema import ClassKey


class AgentPublishing:
    """When what is published; the session's methods of the same names say more.

    Args:
        config: see `AgentConfig`.
        objects: what the agent manages.

    Attributes:
        started: whether anything may be said at all.
    """

    def __init__(self, config: AgentConfig, objects: AgentObjects) -> None:
        self._config = config
        self._objects = objects
        self._announced = False
        self.started = False
        self._republish = False
        self._next_publication = 0

    def start(self, now: int) -> list[Effect]:
        """Publish from now on."""
        if not self.started:
            if not self._announced:
                self._objects.forget_untold()
            self.started = self._announced = self._republish = True
            self._next_publication = now + self._config.publish_interval
        return [WakeAt(self._next_publication)]

    def suspend(self) -> None:
        """Say nothing until `start`."""
        self.started = False

    def stand_by(self) -> None:
        """Another agent serves: what comes and goes until the next `start` is that one's to tell."""
        self._announced = False

    def republish(self) -> None:
        """Tell everything again at the next interval."""
        self._republish = True

    def console_bound(self, now: int) -> list[Effect]:
        """As `republish`, and see to it that the interval ends."""
        self.republish()
        return [WakeAt(max(now, self._next_publication))] if self.started else []

    def flush(self) -> list[Effect]:
        """Deletions and creations."""
        return [*self.deletions(), *self._contents(self._objects.take_creations(), persistent=True)]

    def tell(self, number: int) -> list[Effect]:
        """What consoles do not know yet of one object, behind all creations and deletions."""
        return [*self.flush(), *self._contents(self._objects.take_change(number))]

    def tick(self, now: int) -> list[Effect]:
        """What is due."""
        if now < self._next_publication:
            return [WakeAt(self._next_publication)]
        effects = list(self.deletions())
        if self._republish:
            self._republish = False
            effects.extend(self._contents(self._objects.take_all()))
        else:
            effects.extend(self._contents(self._objects.take_creations(), persistent=True))
            effects.extend(self._contents(self._objects.take_changes()))
        heartbeat = addresses.heartbeat_key(addresses.BROKER_AGENT)
        effects.append(self.message(heartbeat, write(Heartbeat(0, now))))
        # Late ticks do not add up: the next one counts from now.
        self._next_publication = now + self._config.publish_interval
        effects.append(WakeAt(self._next_publication))
        return effects

    def deletions(self) -> Iterator[Effect]:
        """The deletions that nobody has been told of yet; nothing while not started."""
        if self.started:
            yield from self._contents(self._objects.take_deletions(), persistent=True)

    def message(self, routing_key: str, body: bytes, *, persistent: bool = False) -> Send:
        """A message on the management exchange."""
        return Send(self._config.management_exchange, routing_key, body, persistent=persistent)

    def _contents(
        self, bodies: Iterable[tuple[ClassKey, bytes]], *, persistent: bool = False
    ) -> Iterator[Effect]:
        for key, body in bodies:
            routing_key = addresses.object_key(addresses.BROKER_AGENT, key)
            yield self.message(routing_key, body, persistent=persistent)
