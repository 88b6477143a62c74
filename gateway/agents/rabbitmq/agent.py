"""The RabbitMQ agent: answers and events in, what consoles are to hear out. Without I/O.

Whoever drives it makes the requests that `RabbitMqAgent.next_request` asks for, one at a time, tells what
came of them, hands over events and deliveries, and carries out the effects. What events mean stands in
`BrokerEvents`, what answers mean in `ManagementAnswers`; `BrokerView` says what changes by either, and
`ConsoleService` tells consoles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from gateway.agents.rabbitmq.agent_config import RabbitMqAgentConfig
from gateway.agents.rabbitmq.broker_events import BrokerEvents
from gateway.agents.rabbitmq.broker_view import BrokerView
from gateway.agents.rabbitmq.event_backlog import Loss
from gateway.agents.rabbitmq.events import BINDING_CREATED, QUEUE_DELETED, Changed, Created, bound
from gateway.agents.rabbitmq.impersonators import TAGS_EVENT, ImpersonatorCheck
from gateway.agents.rabbitmq.known_objects import KnownObject
from gateway.agents.rabbitmq.management_answers import ManagementAnswers
from gateway.agents.rabbitmq.management_api import Answer, ManagementRequest
from gateway.agents.rabbitmq.management_changes import BrokerAnswer, BrokerRequest
from gateway.agents.rabbitmq.method_calls import MethodCalls
from gateway.agents.rabbitmq.reading import class_readers
from gateway.agents.rabbitmq.service import ConsoleService
from gateway.agents.rabbitmq.status import AgentStatus
from gateway.dialects.effects import Binding, Called, Delivery, Effect, Note, ReadAsked, Send, WakeAt
from gateway.dialects.qmf.agent import AgentConfig
from gateway.links.election import manager_queue
from gateway.mapping.rules import Mapping as MappingFile

_HURRIED = {"alarm.set": "node", "alarm.cleared": "node", "vhost.down": "vhost"}
"""Events that change values of objects: the class to be listed soon."""


class RabbitMqAgent:
    """Serves a RabbitMQ as a QMF agent.

    Args:
        config: see `RabbitMqAgentConfig`.
        mapping: what is read and how it is shown.
        session: configuration of the QMF agent session.

    Raises:
        LocalProtocolError: AM2 cannot carry one of the mapping's classes or events.
        MappingError: an element of the mapping has no type, or an event refers to what there is not.
    """

    def __init__(self, config: RabbitMqAgentConfig, mapping: MappingFile, session: AgentConfig) -> None:
        self._config = config
        self._readers = class_readers(mapping)
        self._view = BrokerView(
            self._readers,
            show_own=config.show_own,
            own_users=config.own_users | {config.user},
            management_virtual_host=config.management_virtual_host,
        )
        self._events = BrokerEvents(mapping, self._readers, self._view)
        self._service = ConsoleService(
            session, self._readers, self._view.known, self._events.maker.schemas, config.flush_delay
        )
        self._impersonators = ImpersonatorCheck(session.obey, config.user)
        self._answers = ManagementAnswers(
            config, self._readers, self._view, self._events.alarms, self._service, self._impersonators
        )
        self._calls = MethodCalls(
            self._readers, self._view, self._answers, self._service, config.writer, config.lockout
        )
        self.on_call: Callable[[], None] = lambda: None
        """Called when `advance_calls` has something new to do."""
        self.on_vacancy: Callable[[], None] = lambda: None
        """Called when the agent that served in place of this one may have ended."""
        self._manager = (config.management_virtual_host, manager_queue(config.management_exchange))
        self._plan = self._answers.plan
        self._visibility = self._answers.visibility
        self._woken_at = 0

    # What the driver asks.

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """What the link binds the agent's queue to."""
        return self._service.session.bindings()

    @property
    def event_keys(self) -> tuple[str, ...]:
        """Routing keys of the events that matter here."""
        return tuple(dict.fromkeys((*self._events.routing_keys, TAGS_EVENT)))

    @property
    def status(self) -> AgentStatus:
        """How far the agent can see the broker now."""
        return self._visibility.status(
            self._view.hosts.not_permitted,
            self._impersonators.distrust,
            self._plan.intervals,
            blocked=self._events.alarms.blocked,
        )

    @property
    def unreadable(self) -> Mapping[str, int]:
        """How often a value or event was not what it should be, by place."""
        counts: dict[str, int] = {**self._events.reader.unreadable, **self._events.maker.unreadable}
        for reader in self._readers.values():
            counts.update(reader.unreadable)
        return counts

    @property
    def request_at(self) -> int:
        """When to ask for the next request (ns)."""
        return self._plan.due()

    @property
    def busy(self) -> bool:
        """Whether `advance` has something to do."""
        return self._answers.busy

    def known(self, class_name: str) -> Iterable[KnownObject]:
        """The objects of a class as the agent knows them."""
        return self._view.known.of_class(class_name)

    # The link's side, in the form that every session has.

    def connected(self, reply_to: str, now: int) -> list[Effect]:  # noqa: ARG002  agents await no replies
        """The link carries messages, and the agent's queue is bound."""
        self._service.connected()
        return self._awake(self._answers.serve(now))

    def disconnected(self, detail: str, now: int) -> list[Effect]:  # noqa: ARG002  as every session's
        """The link carries nothing: what changes meanwhile is told when it is up again."""
        self._service.disconnected()
        return []

    def stand_by(self, now: int) -> None:
        """Another agent serves this broker's consoles now."""
        self._service.stand_by(now)

    def resync(self, reason: str, now: int, since: int) -> list[Effect]:  # noqa: ARG002  as every session's
        """Requests may have been lost on the way: whoever sent them is told everything anew."""
        return self._awake(self._service.console_bound(now))

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """Answer a console's request, or begin what it asks for (`advance_calls`)."""
        effects: list[Effect] = []
        for effect in self._service.receive(delivery, now):
            match effect:
                case Called():
                    effects += self._calls.called(effect, now)
                    self.on_call()
                case ReadAsked():
                    effects += self._calls.asked(effect, now)
                    self.on_call()
                case _:
                    effects.append(effect)
        return self._awake(effects)

    def unsent(self, messages: Iterable[Send]) -> None:
        """The link went down before these were sent: of them events are told when it is up again."""
        self._service.unsent(messages)

    def connection_blocked(self, now: int) -> None:
        """The broker takes nothing from a connection of ours, although no alarm was heard of."""
        self._events.alarms.connection_blocked(now)
        self._plan.hurry(now, "node")

    def tick(self, now: int) -> list[Effect]:
        """Do what is due: publish what changed, or fall silent when the broker has been so too long."""
        self._woken_at = 0
        self._view.known.forget_old_ends(now)
        silent_since = self._visibility.silent_since
        if not silent_since or now - silent_since < self._config.silence_limit:
            return self._awake([*self._answers.forget_unread(now), *self._service.tick(now)])
        effects = self._answers.silent(silent_since)
        return (
            [*effects, Note("agent-silent", self._visibility.failure)] if self._service.suspend() else effects
        )

    def _awake(self, effects: list[Effect]) -> list[Effect]:
        """``effects`` and the wish to be woken when something is due."""
        times = [self._service.wake_at, self._visibility.unread_until(self._config.silence_limit)]
        if self._visibility.silent_since and self._service.serving:
            times.append(self._visibility.silent_since + self._config.silence_limit)
        wake = min((time for time in times if time), default=0)
        if wake and wake != self._woken_at:
            self._woken_at = wake
            effects.append(WakeAt(wake))
        return effects

    # Events.

    def events_connected(self, now: int) -> list[Effect]:
        """Events arrive from now on; what happened before is in doubt."""
        again = bool(self._visibility.last_event)
        self._visibility.events_missing = ""
        self._events.lost()
        effects = self._answers.doubted("events are connected", now)
        if again:
            effects += self._missed("they were not connected", now, now)
        self._visibility.last_event = now
        return effects

    def events_resumed(self, missed: str, now: int) -> list[Effect]:
        """Events arrive from now on, first those of meanwhile; ``missed``: why some before them may be lost.

        Until `events_caught_up` nobody is told that all is known.
        """
        self._visibility.events_missing = ""
        self._visibility.catching_up = True
        self._visibility.last_event = now
        if missed:
            self._events.lost()
            self._view.known.remember(())  # nobody will tell what became of these
        return self._awake(self._answers.doubted(missed or "events are connected again", now))

    def events_caught_up(self) -> list[Effect]:
        """The events of meanwhile have all been told."""
        self._visibility.catching_up = False
        self._view.known.remember(())
        return []

    def events_lost(self, reason: str, now: int, since: int) -> list[Effect]:
        """Some events may have been lost since ``since``, although others arrive: list everything again."""
        self._events.lost()
        return [*self._answers.doubted(reason, now), *self._missed(reason, now, since)]

    def tells_at_once(self, now: int) -> bool:
        """Whether consoles hear of an event at once when `tell_now` is called after it."""
        return self._service.tells_at_once(now)

    def tell_now(self, now: int) -> list[Effect]:
        """Tell what waits to be told together with what may follow."""
        return self._awake(self._service.tell_now(now))

    def remember(self, objects: Iterable[KnownObject]) -> None:
        """These existed when an agent before this one ended: should an event tell their end, it is told."""
        self._view.known.remember(objects)

    def _missed(self, reason: str, now: int, since: int) -> list[Effect]:
        since = min(since, self._visibility.last_event)
        self._visibility.last_event = now
        return self._awake(self._service.events_lost(Loss(0, since, now), reason, now))

    def events_missing(self, reason: str) -> list[Effect]:
        """No events arrive, for ``reason``, which people are told."""
        news = reason != self._visibility.events_missing
        self._visibility.events_missing = reason
        return [Note("events-missing", reason)] if news else []

    def event(
        self, key: str, headers: Mapping[str, object], timestamp: datetime | None, now: int
    ) -> list[Effect]:
        """An event arrived: its routing key, its headers and its AMQP timestamp."""
        self._visibility.last_event = now
        heard = self._events.take(key, headers, timestamp, now)
        effects = self._service.apply(heard.changes, now)
        effects += self._service.raise_events(heard.raised, now)
        match heard.event:
            case Created(reading) if reading.name.class_name == "vhost":
                self._answers.ask_permission(reading.name.leaf)
            case Changed(class_name):
                self._plan.hurry(now, class_name)
        if key == BINDING_CREATED:
            effects += self._console_bound(headers, now)
        elif key == QUEUE_DELETED and (headers.get("vhost"), headers.get("name")) == self._manager:
            self.on_vacancy()
        if key == TAGS_EVENT:
            self._plan.hurry_users(now)
            if self._visibility.refused:  # perhaps by ourselves, and perhaps not any more
                self._plan.hurry(now)
                self._plan.retry(now, at_once=True)
        elif key in _HURRIED:
            self._plan.hurry(now, _HURRIED[key])
        self._calls.heard(key, headers, now)
        return self._awake(effects)

    def _console_bound(self, headers: Mapping[str, object], now: int) -> list[Effect]:
        event = bound(headers)
        if event is None or not event.routing_key.startswith(("#", "console")):
            return []
        where = (self._config.management_virtual_host, self._config.management_exchange)
        return self._service.console_bound(now) if (event.virtual_host, event.exchange) == where else []

    # Requests to the management API.

    def next_request(self, now: int) -> ManagementRequest | None:
        """The request to make now, if one is due and the last answer has been taken whole."""
        return None if self.busy else self._plan.next_request(now)

    def asked(self, now: int) -> list[Effect]:
        """The request is made now: silence counts from here, long before the request's own deadline."""
        self._visibility.asked_at = now
        return self._awake([])

    def answered(self, request: ManagementRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        """What came of ``request``, made at ``began`` and over at ``ended`` (ns). `advance` may follow."""
        failed = self._visibility.failure
        effects = self._answers.take(request, answer, began, ended)
        if failed and not self._visibility.failure:
            self._calls.answers_again(ended)
        return self._awake(effects)

    def advance(self, now: int) -> list[Effect]:
        """Take some more objects of the page that arrived; call it while `busy`."""
        return self._awake(self._answers.advance(now))

    # Calls of methods, and objects to be read anew.

    @property
    def call_at(self) -> int:
        """When to call `advance_calls` (ns)."""
        return self._calls.due

    def advance_calls(self, now: int) -> list[Effect]:
        """Go on with calls and fresh reads, until `next_call_request` gives a request or nothing is due."""
        return self._awake(self._calls.advance(now))

    def next_call_request(self) -> BrokerRequest | None:
        """The request that a call or fresh read wants made now; beside those of `next_request`."""
        return self._calls.next_request()

    def call_answered(self, answer: BrokerAnswer, now: int) -> list[Effect]:
        """What came of the request of `next_call_request`."""
        return self._awake(self._calls.answered(answer, now))
