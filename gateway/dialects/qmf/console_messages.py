"""What a console makes of each message: the handlers, one for each opcode that agents send."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.console_agents import agent_described
from gateway.dialects.qmf.console_calls import Caller
from gateway.dialects.qmf.console_content import ContentTranslator, joined
from gateway.dialects.qmf.console_conversation import Conversation
from gateway.dialects.qmf.console_requests import (
    FetchObjects,
    FetchSchema,
    Greeting,
    ListClasses,
    ListPackages,
)
from gateway.dialects.qmf.console_states import State
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.fields import NO_HASH
from gateway.dialects.qmf.messages import (
    BrokerResponse,
    ClassIndication,
    ClassKind,
    CommandComplete,
    Content,
    EventIndication,
    Heartbeat,
    MethodResponse,
    ObjectContent,
    PackageIndication,
    PropertyContent,
    Received,
    SchemaResponse,
    StatisticContent,
    UnknownClass,
)
from gateway.model.observations import HeartbeatSeen, ObjectSeen, RecordLost
from gateway.model.schema import ClassKey
from gateway.model.texts import peer_line

_PUBLISHED: Final = frozenset((PropertyContent, StatisticContent, ObjectContent, EventIndication, Heartbeat))
"""What agents publish of their own accord, all the time."""


class Listener:
    """Understands messages on behalf of a conversation.

    Attributes:
        caller: understands what answers calls and fetches.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._talk = conversation
        self._translator = ContentTranslator(conversation.config.secrets)
        self.caller = Caller(conversation, self._translator)
        self._sender = BROKER_AGENT
        self._handlers: Final[dict[type, Callable[[Any], None]]] = {
            BrokerResponse: self._on_broker,
            PackageIndication: self._on_package,
            ClassIndication: self._on_class,
            SchemaResponse: self._on_schema,
            CommandComplete: self._on_complete,
            PropertyContent: self._on_content,
            StatisticContent: self._on_content,
            ObjectContent: self._on_content,
            EventIndication: self._on_event,
            Heartbeat: self._on_heartbeat,
            MethodResponse: self.caller.on_response,
            UnknownClass: self._on_unknown_class,
        }

    def learn(self, definitions: Iterable[ClassDefinition | EventDefinition]) -> None:
        """Know these, as if an agent had told them."""
        for definition in definitions:
            if self._talk.config.includes(definition.key.package) and self._talk.definitions.add(definition):
                self._talk.observations.append(self._translator.learn(definition))

    def hear(self, message: Received, sender: str) -> None:
        """Take in a message that ``sender`` (an agent, by the routing key) sent; others are ignored."""
        self._sender = sender
        if type(message) not in _PUBLISHED:
            self._talk.stir()
        handle = self._handlers.get(type(message))
        if handle is not None:
            handle(message)

    def _on_broker(self, message: BrokerResponse) -> None:
        # The specification has sequence 0 here, peers repeat the request's.
        answers = isinstance(self._talk.requests.subject(message.sequence), Greeting) or not message.sequence
        if self._talk.state is not State.GREETING or not answers:
            return
        self._talk.requests.drop(Greeting())
        self._talk.broker_answered(message.broker)

    def _on_package(self, message: PackageIndication) -> None:
        if not self._talk.config.includes(message.package):
            return
        if isinstance(self._talk.requests.subject(message.sequence), ListPackages):
            self._talk.requests.progress(message.sequence, self._talk.now)
            self._talk.ask(ListClasses(message.package))
        elif not message.sequence:
            # Our own agents announce their packages whenever they start; qpidd announces new ones.
            self._talk.announced(message.package)

    def _on_class(self, message: ClassIndication) -> None:
        key = message.key
        subject = self._talk.requests.subject(message.sequence)
        if not self._talk.config.includes(key.package):
            return
        if isinstance(subject, ListClasses):
            self._talk.answered()
            self._talk.requests.progress(message.sequence, self._talk.now)
            if message.kind is ClassKind.OBJECT:
                self._list(key)
            # Without a hash only asking tells whether the class is still what it was.
            if key not in self._talk.definitions or key.hash == NO_HASH:
                self._talk.ask_schema(key)
        elif not message.sequence and key not in self._talk.definitions and self._talk.ask_schema(key):
            self._miss(key, BROKER_AGENT)

    def _on_schema(self, message: SchemaResponse) -> None:
        definition = message.definition
        key = definition.key
        subject = self._talk.requests.subject(message.sequence)
        if not isinstance(subject, FetchSchema) or subject.key != key:
            return
        self._talk.answered()
        self._talk.requests.complete(message.sequence)
        if self._known(definition) != definition and self._talk.definitions.add(definition):
            self._talk.observations.append(self._translator.learn(definition))
        agents = self._talk.resync.missed.pop(key, None)
        if agents is not None and isinstance(definition, ClassDefinition):
            self._list(key)
            for agent in sorted(agents) if self._talk.state is not State.LISTING else ():
                objects = FetchObjects(agent, key.package, key.name)
                # An answer that is still going on began with what could not be read.
                self._talk.requests.drop(objects)
                self._talk.ask(objects)

    def _list(self, key: ClassKey) -> None:
        listed, limit = self._talk.resync.listed, self._talk.config.class_limit
        if len(listed) < limit:
            listed[key.package, key.name] = None
        elif (key.package, key.name) not in listed:
            self._talk.fall_short("too many classes")

    def _miss(self, key: ClassKey, agent: str) -> None:
        agents = self._talk.resync.missed.setdefault(key, set())
        if len(agents) < self._talk.config.agent_limit:
            agents.add(agent)

    def _known(
        self, definition: ClassDefinition | EventDefinition
    ) -> ClassDefinition | EventDefinition | None:
        if isinstance(definition, ClassDefinition):
            return self._talk.definitions.find_class(definition.key)
        return self._talk.definitions.find_event(definition.key)

    def hear_answers(self, messages: Iterable[Received]) -> None:
        """Of messages that answer what was asked long ago, take in what became of calls."""
        for message in messages:
            if isinstance(message, MethodResponse):
                self.caller.on_response(message)

    def _on_complete(self, message: CommandComplete) -> None:
        self.caller.on_complete(message)
        subject = self._talk.requests.subject(message.sequence)
        # A Java broker ends everything with z, but it is b that answers a greeting.
        said = f"{peer_line(message.text)} ({message.code})"
        if subject is None or isinstance(subject, Greeting):
            if subject is not None and message.code:
                self._talk.greeting_refused(said)
            return
        self._talk.requests.complete(message.sequence)
        if isinstance(subject, FetchSchema):
            self._talk.give_class_up(subject.key)
            self._talk.note("no-schema", f"{subject.key}: {said}")
        elif message.code:
            agent = subject.agent if isinstance(subject, FetchObjects) else BROKER_AGENT
            self._talk.fall_short(f"{type(subject).__name__} refused: {said}", agent)

    def _on_content(self, message: Content) -> None:
        seen = self._translator.content(message)
        if not self._talk.hear(seen.agent):
            return
        self._talk.told(seen.agent, message)
        if message.sequence:
            self._talk.stir()
            self._talk.requests.progress(message.sequence, self._talk.now)
            self.caller.on_content(message)
        last = self._talk.observations[-1] if self._talk.observations else None
        together = joined(last, seen) if isinstance(last, ObjectSeen) else None
        if together is None:
            self._talk.observations.append(seen)
        else:
            self._talk.observations[-1] = together
        if message.properties is not None:
            self._notice_agent(message)

    def _notice_agent(self, message: Content) -> None:
        definition = self._talk.definitions.find_class(message.key)
        agent = agent_described(definition, message) if definition else None
        if agent is None:
            return
        self._talk.stir()
        if not message.deleted:
            self._talk.hear(agent)
        else:
            self._talk.remotes.depart(agent, f"agent {agent} left the broker", self._talk.now)

    def _on_event(self, message: EventIndication) -> None:
        if self._talk.hear(self._sender):
            self._talk.observations.append(self._translator.event(message, self._sender))
        else:
            self._talk.observations.append(RecordLost(message.key, BROKER_AGENT))

    def _on_heartbeat(self, message: Heartbeat) -> None:
        if not self._talk.hear(self._sender):
            return
        if self._talk.agents.beat(self._sender, message.time, self._talk.now):
            self._talk.stir()
        self._talk.observations.append(HeartbeatSeen(self._sender, message.time))

    def _on_unknown_class(self, message: UnknownClass) -> None:
        if not self._talk.config.includes(message.key.package):
            return
        self.caller.on_unknown_class(message)
        subject = self._talk.requests.subject(message.sequence)
        agent = subject.agent if isinstance(subject, FetchObjects) else self._sender
        if self._talk.ask_schema(message.key):
            self._miss(message.key, agent)
        if message.deleted or message.code == ord(EventIndication.opcode):
            known = agent if agent in self._talk.agents else BROKER_AGENT
            self._talk.observations.append(RecordLost(message.key, known))
