"""A RabbitMQ source served to consoles as a QMF agent. Without I/O.

The agent is the session of the link to the management exchange. What the source observes is published by AM2,
and what consoles ask for is asked of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gateway.agents.rabbitmq.agent_config import RabbitMqAgentConfig
from gateway.agents.rabbitmq.events import BINDING_CREATED, QUEUE_DELETED, bound
from gateway.agents.rabbitmq.object_names import native_id
from gateway.agents.rabbitmq.publishing import ConsolePublisher
from gateway.agents.rabbitmq.source import RabbitMqSource
from gateway.dialects.qmf.agent import AgentConfig
from gateway.dialects.qmf.messages import Status
from gateway.dialects.session import (
    Answered,
    Binding,
    Called,
    Delivery,
    Effect,
    Event,
    EventNotTakenError,
    LinkDown,
    LinkUp,
    LossSuspected,
    NotSent,
    Observed,
    ReadAsked,
    Send,
    TimerExpired,
    WakeAt,
)
from gateway.links.election import manager_queue
from gateway.model.operations import Answer, MethodCall, ObjectFetch, Outcome

_STATUSES = {
    Outcome.OBJECT_GONE: Status.UNKNOWN_OBJECT,
    Outcome.UNKNOWN_ELEMENT: Status.UNKNOWN_METHOD,
    Outcome.WRONG_TYPE: Status.INVALID_PARAMETER,
    Outcome.WRONG_LENGTH: Status.INVALID_PARAMETER,
    Outcome.WRONG_VALUE: Status.INVALID_PARAMETER,
}
"""The status of an answer that has no code of its own; of every other outcome it is `Status.EXCEPTION`."""


class RabbitMqAgent:
    """Serves a RabbitMQ source as a QMF agent.

    Args:
        source: whose effects are given to `publish`.
        config: that the source was made of.
        session: configuration of the QMF agent session.

    Raises:
        LocalProtocolError: AM2 cannot carry one of the source's classes or events.
    """

    def __init__(self, source: RabbitMqSource, config: RabbitMqAgentConfig, session: AgentConfig) -> None:
        self._source = source
        self._exchange = (config.management_virtual_host, config.management_exchange)
        self._manager = (config.management_virtual_host, manager_queue(config.management_exchange))
        self._publisher = ConsolePublisher(
            session,
            [reader.schema for reader in source.readers.values()],
            source.event_schemas.values(),
            config.flush_delay,
        )
        self._calls: dict[int, int] = {}
        self._source_wake = 0
        self._woken_at = 0
        self.on_vacancy: Callable[[], None] = lambda: None
        """Called when the agent that served in place of this one may have ended."""

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """What the link binds the agent's queue to."""
        return self._publisher.session.bindings()

    # The source's side.

    def publish(self, effects: Iterable[Effect], now: int) -> list[Effect]:
        """Publish what the source observed and answered; return what the link is to do."""
        published: list[Effect] = []
        for effect in effects:
            match effect:
                case Observed(observations):
                    published += self._publisher.observe(observations, now)
                case Answered(answer):
                    published += self._answer(answer, now)
                case WakeAt(time):
                    self._source_wake = time
                case _:
                    published.append(effect)
        self._publisher.session.distrust(self._source.distrust)
        return self._awake([*published, *self._begin_or_suspend(now)])

    def event(self, key: str, headers: Mapping[str, object], now: int) -> list[Effect]:
        """An event of the broker, after the source has taken it: consoles come, and other agents go."""
        if key == BINDING_CREATED:
            event = bound(headers)
            if event is None or not event.routing_key.startswith(("#", "console")):
                return []
            if (event.virtual_host, event.exchange) == self._exchange:
                return self._awake(self._publisher.console_bound(now))
        elif key == QUEUE_DELETED and (headers.get("vhost"), headers.get("name")) == self._manager:
            self.on_vacancy()
        return []

    def _begin_or_suspend(self, now: int) -> list[Effect]:
        """Follow the source: a console deletes the objects that an agent's answer lacks."""
        if self._source.synchronised:
            # A console takes all that an agent publishes at first for what there is now.
            if not self._publisher.serving and not self._source.confirmed:
                return []
            return self._publisher.begin(now)
        self._publisher.suspend()
        return []

    def _answer(self, answer: Answer, now: int) -> list[Effect]:
        session = self._publisher.session
        if answer.outcome is Outcome.UNKNOWN and answer.code is None:
            return []  # the console has a deadline of its own, and takes the real answer later
        number = self._calls.pop(answer.token, None)
        if number is None:
            failure = answer.text if answer.outcome is not Outcome.OBJECT_GONE else ""
            return session.read_done(answer.token, failure)
        code = _STATUSES.get(answer.outcome, Status.EXCEPTION) if answer.code is None else answer.code
        done = session.method_done(answer.token, code, answer.text, answer.outputs)
        return [*session.tell(number, now), *done]

    # The link's side.

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Take in what happened; as `Session.handle`, for all events of a link to a broker."""
        match event:
            case Delivery():
                return self._receive(event, now)
            case TimerExpired():
                return self._pass_time(now)
            case LinkUp():
                self._publisher.connected()
                return self._awake(self._begin_or_suspend(now))
            case LinkDown():
                self._publisher.disconnected()
                return []
            case NotSent():
                return []  # `unsent` gets all messages that were not sent
            case LossSuspected():
                # Requests may have been lost: everything is published again for who sent one.
                return self._awake(self._publisher.console_bound(now))
            case _:
                raise EventNotTakenError(self, event)

    def stand_by(self, now: int) -> None:
        """Another agent serves this broker's consoles now."""
        self._publisher.stand_by(now)

    def _receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """Answer a console's request, or ask the source for what it wants."""
        effects: list[Effect] = []
        for effect in self._publisher.receive(delivery, now):
            match effect:
                case Called():
                    self._calls[effect.handle] = effect.number
                    effects += self.publish(self._source.call(_call(effect), now), now)
                case ReadAsked():
                    effects += self.publish(self._source.fetch(_fetch(effect), now), now)
                case _:
                    effects.append(effect)
        return self._awake(effects)

    def unsent(self, messages: Iterable[Send]) -> None:
        """The link went down before these were sent: the events among them are published later."""
        self._publisher.unsent(messages)

    def _pass_time(self, now: int) -> list[Effect]:
        """Do what is due, of the source and of the session."""
        self._woken_at = 0
        effects: list[Effect] = []
        if self._source_wake and now >= self._source_wake:
            self._source_wake = 0
            effects = self.publish(self._source.tick(now), now)
            self._woken_at = 0
        return self._awake([*effects, *self._publisher.tick(now)])

    def _awake(self, effects: list[Effect]) -> list[Effect]:
        """``effects`` and the wish to be woken when something is due."""
        wake = min((time for time in (self._source_wake, self._publisher.wake_at) if time), default=0)
        if wake and wake != self._woken_at:
            self._woken_at = wake
            effects.append(WakeAt(wake))
        return effects


def _call(called: Called) -> MethodCall:
    native = native_id(called.number)
    return MethodCall(called.handle, called.key, "", native, called.method, called.arguments, called.deadline)


def _fetch(asked: ReadAsked) -> ObjectFetch:
    return ObjectFetch(asked.handle, asked.key, "", native_id(asked.number), asked.deadline)
