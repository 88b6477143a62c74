"""What a console makes of each message of an agent before AM2, where AM2 has no such, or another."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.am01.console_asking import PROBE_SEQUENCE
from gateway.dialects.qmf.am01.console_calls import Am01Caller
from gateway.dialects.qmf.am01.console_config import NO_BROKER
from gateway.dialects.qmf.am01.console_content import Am01Translator
from gateway.dialects.qmf.am01.console_conversation import Am01Conversation
from gateway.dialects.qmf.am01.messages import AgentIdentity, ClassDescription, Received
from gateway.dialects.qmf.am01.reader import Reading
from gateway.dialects.qmf.am01.revisions import ALL, Revision
from gateway.dialects.qmf.console_messages import Listener
from gateway.dialects.qmf.console_requests import (
    AwaitPublication,
    FetchSchema,
    Greeting,
    ListClasses,
    ListPackages,
    Subject,
)
from gateway.dialects.qmf.console_states import State
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.messages import (
    BrokerResponse,
    ClassIndication,
    Content,
    EventIndication,
    MethodResponse,
    ObjectContent,
    PackageIndication,
    PropertyContent,
    SchemaResponse,
    StatisticContent,
    UnknownClass,
    UnknownOpcode,
)
from gateway.model.observations import RecordLost
from gateway.model.schema import ClassKey


class Am01Listener(Listener):
    """As `Listener`, for one agent before AM2."""

    def __init__(self, conversation: Am01Conversation) -> None:
        super().__init__(conversation)
        self._am01 = conversation
        self._named = Am01Translator(conversation.config.secrets, conversation.rules.package)
        self._translator = self._named
        self.am01_caller = Am01Caller(conversation, self._named)
        self.caller = self.am01_caller
        self._is_answer = False
        self._handlers.update(
            {
                AgentIdentity: self._on_identity,
                BrokerResponse: self._on_broker,
                ClassDescription: self._on_description,
                MethodResponse: self._on_response,
                PropertyContent: self._on_told,
                StatisticContent: self._on_told,
                ObjectContent: self._on_told,
                UnknownClass: self._on_unknown_class,
            }
        )

    def take(self, reading: Reading, *, answers: bool) -> None:
        """Take in what a body says; ``answers``: it came to the reply queue."""
        message = reading.message
        if not isinstance(message, UnknownClass | UnknownOpcode):
            self._am01.speaks(reading.revisions)
        elif isinstance(message, UnknownClass) and self._am01.is_heard_only:
            self._am01.speaks(ALL)  # it lives, and tells its schemas when it tells everything
        if self._am01.state is not State.GREETING:
            self._am01.hear(BROKER_AGENT)
        self._is_answer = answers and self._am01.revision is Revision.FEBRUARY_2008
        if self._is_answer:
            message = self._numbered(message)
        self._sender = BROKER_AGENT
        handle = self._handlers.get(type(message))
        if handle is not None:
            handle(message)

    def _numbered(self, message: Received) -> Received:
        """Return an answer with the number of what it answers: agents of February 2008 do not tell it."""
        for subject in _subjects(message):
            sequence = self._am01.requests.sequence(subject)
            if sequence:
                return replace(message, sequence=sequence)
        return message

    # Greeting and listing.

    def _on_identity(self, _message: AgentIdentity) -> None:
        if self._am01.state is State.GREETING:
            self._am01.identified(NO_BROKER)
        else:
            self._am01.lives()

    def _on_broker(self, message: BrokerResponse) -> None:
        talk = self._am01
        if talk.state is State.GREETING:
            super()._on_broker(message)
        elif talk.restarts.broker not in (None, message.broker):
            talk.greet_soon(f"agent {BROKER_AGENT} restarted")
        else:
            talk.lives()

    def _on_package(self, message: PackageIndication) -> None:
        if message.sequence and self._am01.revision is Revision.FEBRUARY_2008:
            self._am01.listing(ListPackages())
        elif self._is_answer and self._am01.config.includes(message.package):
            # The listing was taken to be over: no announcement, and no reason to begin again.
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
        if self._am01.is_heard_only:
            self._on_broadcast(definition)
        else:
            self._on_schema(SchemaResponse(message.sequence, definition))
        if definition.key not in self._am01.definitions:
            return
        for event in message.events:
            self._learn_anew(event)
        self._am01.known_class = self._named.named(definition.key)
        if not self._am01.is_heard_only:
            self._am01.schema_answered(definition.key)
            self.am01_caller.schema_answered(definition.key)
        else:
            self._am01.publication.heard_schema(definition.key)
            self._am01.learn_form()

    def _is_wanted(self, key: ClassKey) -> bool:
        """Whether a class is to be learnt: those that are told without a package are, all of them."""
        return not key.package or self._am01.config.includes(key.package)

    def _on_broadcast(self, definition: ClassDefinition) -> None:
        key = definition.key
        if not self._learn_anew(definition) and key not in self._am01.resync.unavailable:
            self._am01.fall_short("too many classes")
            self._am01.give_class_up(key)
            limit = self._am01.definitions.limit
            self._am01.note("too-many-classes", f"{key} is left out: {limit} are known")

    def _learn_anew(self, definition: ClassDefinition | EventDefinition) -> bool:
        """Learn what is new or another than before; False where there is no room."""
        self._am01.described(definition.key)
        if self._known(definition) == definition:
            return True
        if not self._am01.definitions.add(definition):
            return False
        self._am01.observations.append(self._translator.learn(definition))
        return True

    # Objects and events.

    def _on_told(self, message: Content) -> None:
        if self._am01.outdates(message):
            unread = UnknownClass(message.sequence, ord(message.opcode), message.key, message.deleted)
            self._on_unknown_class(unread)
            return
        self._on_content(message)
        self.am01_caller.published(message)

    def _on_unknown_class(self, message: UnknownClass) -> None:
        talk = self._am01
        if not self._is_wanted(message.key):
            return
        if not talk.is_heard_only and talk.state is not State.GREETING:
            super()._on_unknown_class(message)
        elif message.deleted or message.code == ord(EventIndication.opcode):
            talk.observations.append(RecordLost(self._named.named(message.key), BROKER_AGENT))

    def _on_response(self, message: MethodResponse) -> None:
        if message.sequence == PROBE_SEQUENCE:
            self._am01.lives()
        else:
            self.am01_caller.on_response(message)


def _subjects(message: Received) -> tuple[Subject, ...]:
    """Return what a message can be the answer to."""
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
