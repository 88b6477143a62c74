"""The console session for agents before AM2: AM01 in its four forms, and AM1.

`session_state` describes how each revision is greeted, listed and read again. Sources: Apache Qpid management
design notes; agents of November 2007 to March 2008.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.am01.codec import Reading, read
from gateway.dialects.qmf.am01.console_calls import Am01RpcClient, Am01Translator
from gateway.dialects.qmf.am01.messages import ALL, AgentIdentity, ClassDescription, Received, Revision
from gateway.dialects.qmf.am01.session_state import (
    NO_BROKER,
    PROBE_SEQUENCE,
    Am01ConsoleConfig,
    Am01SessionState,
)
from gateway.dialects.qmf.console import ConsoleSession, MessageHandler
from gateway.dialects.qmf.console_requests import (
    AwaitPublication,
    FetchSchema,
    Greeting,
    ListClasses,
    ListPackages,
    Subject,
)
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.messages import (
    BrokerResponse,
    ClassIndication,
    Content,
    EventIndication,
    MethodResponse,
    PackageIndication,
    SchemaResponse,
    UnknownClass,
    UnknownOpcode,
)
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import Binding, Delivery
from gateway.model.observations import ObjectSeen, RecordLost
from gateway.model.schema import ClassKey

__all__ = ["Am01ConsoleConfig", "Am01ConsoleSession"]


class Am01MessageHandler(MessageHandler):
    """Processes the messages of one agent before AM2; see `MessageHandler`."""

    def __init__(self, state: Am01SessionState) -> None:
        super().__init__(state)
        self._am01 = state
        self._named = Am01Translator(state.config.secrets, state.rules.package)
        self._translator = self._named
        self.am01_client = Am01RpcClient(state, self._named)
        self.client = self.am01_client
        self._is_answer = False

    def take_reading(self, reading: Reading, *, answers: bool) -> None:
        """Process the message of a body; ``answers``: it came to the reply queue."""
        message = reading.message
        if not isinstance(message, UnknownClass | UnknownOpcode):
            self._am01.speaks(reading.revisions)
        elif isinstance(message, UnknownClass) and self._am01.is_publishing_only:
            self._am01.speaks(ALL)  # it lives, and will publish its schemas with everything else
        if self._am01.state is not State.GREETING:
            self._am01.agent_spoke(BROKER_AGENT)
        self._is_answer = answers and self._am01.revision is Revision.FEBRUARY_2008
        if self._is_answer:
            message = self._numbered(message)
        match message:
            case AgentIdentity():
                self._on_identity()
            case ClassDescription():
                self._on_description(message)
            case MethodResponse(sequence=sequence) if sequence == PROBE_SEQUENCE:
                self._am01.lives()
            case _:
                self.take(message, BROKER_AGENT)

    def _numbered(self, message: Received) -> Received:
        """Return an answer with the number of its request, which agents of February 2008 leave out."""
        for subject in _subjects(message):
            sequence = self._am01.requests.sequence(subject)
            if sequence:
                return replace(message, sequence=sequence)
        return message

    # Greeting and listing.

    def _on_identity(self) -> None:
        if self._am01.state is State.GREETING:
            self._am01.identified(NO_BROKER)
        else:
            self._am01.lives()

    def _on_broker(self, message: BrokerResponse) -> None:
        session = self._am01
        if session.state is State.GREETING:
            super()._on_broker(message)
        elif session.restarts.broker not in (None, message.broker):
            session.greet_soon(f"agent {BROKER_AGENT} restarted")
        else:
            session.lives()

    def _on_package(self, message: PackageIndication) -> None:
        if message.sequence and self._am01.revision is Revision.FEBRUARY_2008:
            self._am01.listing(ListPackages())
        elif self._is_answer and self._am01.config.includes(message.package):
            # The listing seemed to be over: this is no announcement, and no reason to read everything again.
            self._am01.ask(ListClasses(message.package))
            return
        super()._on_package(message)

    def _on_class(self, message: ClassIndication) -> None:
        super()._on_class(message)
        if message.sequence and self._am01.revision is Revision.FEBRUARY_2008:
            self._am01.listing(ListClasses(message.key.package))
            if message.key in self._am01.definitions:
                self._am01.known_class = message.key

    def _on_description(self, message: ClassDescription) -> None:
        definition = message.definition
        if not self._is_wanted(definition.key):
            return
        if self._am01.is_publishing_only:
            self._on_broadcast(definition)
        else:
            self._on_schema(SchemaResponse(message.sequence, definition))
        if definition.key not in self._am01.definitions:
            return
        for event in message.events:
            self._learn(event)
        self._am01.known_class = self._named.named(definition.key)
        if not self._am01.is_publishing_only:
            self._am01.schema_answered(definition.key)
            self.am01_client.schema_answered(definition.key)
        else:
            self._am01.publication.schema_received(definition.key)
            self._am01.learn_form()

    def _is_wanted(self, key: ClassKey) -> bool:
        """Return whether a class is to be read: those without a package are, all of them."""
        return not key.package or self._am01.config.includes(key.package)

    def _on_broadcast(self, definition: ClassDefinition) -> None:
        key = definition.key
        if not self._learn(definition) and key not in self._am01.resync.unavailable:
            self._am01.fall_short("too many classes")
            self._am01.give_class_up(key)
            limit = self._am01.definitions.limit
            self._am01.note("too-many-classes", f"{key} is left out: {limit} are known")

    def _learn(self, definition: ClassDefinition | EventDefinition) -> bool:
        """Add a new or changed definition; return False where there is no room."""
        self._am01.described(definition.key)
        if self._known(definition) == definition:
            return True
        if not self._am01.definitions.add(definition):
            return False
        self._observe(definition)
        return True

    # Objects and events.

    def _on_content(self, message: Content) -> bool:
        if self._am01.outdates(message):
            unread = UnknownClass(message.sequence, ord(message.opcode), message.key, message.deleted)
            self._on_unknown_class(unread, BROKER_AGENT)
            return False
        if not super()._on_content(message):
            return False
        seen = self._am01.observations[-1] if self._am01.observations else None
        if isinstance(seen, ObjectSeen):
            self._am01.published(message, seen)
        self.am01_client.published(message)
        return True

    def _on_unknown_class(self, message: UnknownClass, sender: str) -> None:
        session = self._am01
        if not self._is_wanted(message.key):
            return
        if not session.is_publishing_only and session.state is not State.GREETING:
            super()._on_unknown_class(message, sender)
        elif message.deleted or message.code == ord(EventIndication.opcode):
            session.observations.append(RecordLost(self._named.named(message.key), BROKER_AGENT))


def _subjects(message: Received) -> tuple[Subject, ...]:
    """Return the requests that a message can be the answer to."""
    match message:
        case AgentIdentity():
            return (Greeting(),)
        case PackageIndication():
            return (ListPackages(),)
        case ClassIndication(key=key):
            return (ListClasses(key.package),)
        case ClassDescription(definition=definition):
            return (FetchSchema(definition.key), AwaitPublication(definition.key))
        case _:
            return ()


class Am01ConsoleSession(ConsoleSession):
    """A console of one agent before AM2, without I/O; as `ConsoleSession`, which does not catch up."""

    def __init__(self, config: Am01ConsoleConfig) -> None:
        self._am01 = Am01SessionState(config)
        self._messages = Am01MessageHandler(self._am01)
        super().__init__(config, self._am01, self._messages)

    @property
    def revisions(self) -> frozenset[Revision]:
        """The possible revisions of the agent, by all its messages since the link is up."""
        return self._am01.revisions

    def bindings(self, queue: str) -> tuple[Binding, ...]:
        """Return the bindings of the queue of this name before `LinkUp`; its name is the reply key."""
        config = self._am01.rules
        return (Binding(config.direct_exchange, queue), Binding(config.management_exchange, "mgmt.#"))

    def _take(self, delivery: Delivery) -> None:
        session = self._am01
        reading = read(
            delivery.routing_key,
            delivery.body,
            session.definitions,
            session.revisions,
            extended=session.rules.events,
        )
        self._messages.take_reading(reading, answers=delivery.routing_key == session.reply_to)
