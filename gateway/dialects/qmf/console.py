"""The console session: reads all objects of the agents of one broker, and keeps them current.

It greets (B), lists packages and classes (P, Q), requests unknown schemas (S), then gets all
objects (G), class by class and agent by agent. From then on it processes what agents publish (c, i, e, h),
and reads everything again when values may be wrong. `session_state` has the table of states. Sources: QMF AM2
protocol; qpidd, Apache Qpid M4, agents of 0.6 and the Java broker where they deviate from it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from uuid import UUID

from gateway.dialects.console import sending_last
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.addresses import BROKER_AGENT, agent_of_key
from gateway.dialects.qmf.codec import read_body
from gateway.dialects.qmf.console_agents import agent_described
from gateway.dialects.qmf.console_calls import RpcClient
from gateway.dialects.qmf.console_config import ConsoleConfig
from gateway.dialects.qmf.console_content import ContentTranslator, joined
from gateway.dialects.qmf.console_requests import (
    FetchObjects,
    FetchSchema,
    Greeting,
    ListClasses,
    ListPackages,
)
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
    PackageIndication,
    Received,
    SchemaResponse,
    UnknownClass,
)
from gateway.dialects.qmf.session_state import SessionState, State
from gateway.dialects.session import (
    BacklogFollows,
    Binding,
    Delivery,
    Effect,
    Event,
    EventNotTakenError,
    LinkDown,
    LinkUp,
    LossSuspected,
    Note,
    NotSent,
    PropertiesMissing,
    ReceivedUntil,
    TimerExpired,
)
from gateway.model.observations import HeartbeatSeen, ObjectSeen, RecordLost
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify
from gateway.model.schema import ClassKey
from gateway.model.texts import peer_line

__all__ = ["ConsoleConfig", "ConsoleSession"]


class MessageHandler:
    """Processes the messages of agents for a console session.

    Attributes:
        client: processes the answers to calls and fetches.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._translator = ContentTranslator(state.config.secrets)
        self.client = RpcClient(state, self._translator)

    def learn(self, definitions: Iterable[ClassDefinition | EventDefinition]) -> None:
        """Add definitions as if an agent had sent them."""
        for definition in definitions:
            if self._state.config.includes(definition.key.package) and self._state.definitions.add(
                definition
            ):
                self._observe(definition)

    def _observe(self, definition: ClassDefinition | EventDefinition) -> None:
        """Observe a new definition, and count what it has that is not shown."""
        self._state.observations.append(self._translator.learn(definition))
        if isinstance(definition, ClassDefinition):
            count = len(definition.schema.methods) - len(definition.callable_methods)
            if count:
                text = f"methods of {definition.key} without a name, or with that of another one: {count}"
                self._state.note("schema-left-out", text)

    def take(self, message: object, sender: str) -> None:
        """Process a message of ``sender`` (an agent, by the routing key); unknown messages are ignored."""
        match message:
            # Messages that agents publish all the time.
            case Content():
                self._on_content(message)
            case EventIndication():
                self._on_event(message, sender)
            case Heartbeat():
                self._on_heartbeat(message, sender)
            case _:
                self._state.wake()
                self._on_other(message, sender)

    def _on_other(self, message: object, sender: str) -> None:
        match message:
            case BrokerResponse():
                self._on_broker(message)
            case PackageIndication():
                self._on_package(message)
            case ClassIndication():
                self._on_class(message)
            case SchemaResponse():
                self._on_schema(message)
            case CommandComplete():
                self._on_complete(message)
            case MethodResponse():
                self.client.on_response(message)
            case UnknownClass():
                self._on_unknown_class(message, sender)

    def _on_broker(self, message: BrokerResponse) -> None:
        # The specification has sequence 0 here, peers repeat that of the request.
        answers = isinstance(self._state.requests.subject(message.sequence), Greeting) or not message.sequence
        if self._state.state is not State.GREETING or not answers:
            return
        self._state.requests.drop(Greeting())
        self._state.broker_answered(message.broker)

    def _on_package(self, message: PackageIndication) -> None:
        if not self._state.config.includes(message.package):
            return
        if isinstance(self._state.requests.subject(message.sequence), ListPackages):
            self._state.requests.progress(message.sequence, self._state.now)
            self._state.ask(ListClasses(message.package))
        elif not message.sequence:
            # Agents of this gateway announce their packages at each start; qpidd announces new ones.
            self._state.announced(message.package)

    def _on_class(self, message: ClassIndication) -> None:
        key = message.key
        subject = self._state.requests.subject(message.sequence)
        if not self._state.config.includes(key.package):
            return
        if isinstance(subject, ListClasses):
            self._state.answered()
            self._state.requests.progress(message.sequence, self._state.now)
            if message.kind is ClassKind.OBJECT:
                self._list(key)
            # A class without a hash may have changed, which only its schema shows.
            if key not in self._state.definitions or key.hash == NO_HASH:
                self._state.ask_schema(key)
        elif not message.sequence and key not in self._state.definitions and self._state.ask_schema(key):
            self._miss(key, BROKER_AGENT)

    def _on_schema(self, message: SchemaResponse) -> None:
        definition = message.definition
        key = definition.key
        subject = self._state.requests.subject(message.sequence)
        if not isinstance(subject, FetchSchema) or subject.key != key:
            return
        self._state.answered()
        self._state.requests.complete(message.sequence)
        if self._known(definition) != definition and self._state.definitions.add(definition):
            self._observe(definition)
        agents = self._state.resync.missed.pop(key, None)
        if agents is not None and isinstance(definition, ClassDefinition):
            self._list(key)
            for agent in sorted(agents) if self._state.state is not State.LISTING else ():
                objects = FetchObjects(agent, key.package, key.name)
                # The answer in progress began with records that could not be read.
                self._state.requests.drop(objects)
                self._state.ask(objects)

    def _list(self, key: ClassKey) -> None:
        listed, limit = self._state.resync.listed, self._state.config.class_limit
        if len(listed) < limit:
            listed[key.package, key.name] = None
        elif (key.package, key.name) not in listed:
            self._state.fall_short("too many classes")

    def _miss(self, key: ClassKey, agent: str) -> None:
        agents = self._state.resync.missed.setdefault(key, set())
        if len(agents) < self._state.config.agent_limit:
            agents.add(agent)

    def _known(
        self, definition: ClassDefinition | EventDefinition
    ) -> ClassDefinition | EventDefinition | None:
        if isinstance(definition, ClassDefinition):
            return self._state.definitions.find_class(definition.key)
        return self._state.definitions.find_event(definition.key)

    def take_late(self, messages: Iterable[Received]) -> None:
        """Process the answers to calls; other answers to requests of an earlier link are ignored."""
        for message in messages:
            if isinstance(message, MethodResponse):
                self.client.on_response(message)

    def _on_complete(self, message: CommandComplete) -> None:
        self.client.on_complete(message)
        subject = self._state.requests.subject(message.sequence)
        # A Java broker ends every answer with z, but a greeting is answered by b.
        said = f"{peer_line(message.text)} ({message.code})"
        if subject is None or isinstance(subject, Greeting):
            if subject is not None and message.code:
                self._state.greeting_refused(said)
            return
        self._state.objects_answered(message.sequence)
        self._state.requests.complete(message.sequence)
        if isinstance(subject, FetchSchema):
            self._state.give_class_up(subject.key)
            self._state.note("no-schema", f"{subject.key}: {said}")
        elif message.code:
            agent = subject.agent if isinstance(subject, FetchObjects) else BROKER_AGENT
            self._state.fall_short(f"{type(subject).__name__} refused: {said}", agent)

    def _on_content(self, message: Content) -> bool:
        """Observe an object; return False if its record is ignored."""
        seen = self._translator.content(message, self._state.now)
        if not self._state.agent_spoke(seen.agent):
            return False
        if message.sequence:
            self._state.wake()
            self._state.requests.progress(message.sequence, self._state.now)
        else:
            self._published(seen.agent)
        if self._state.is_late(message) and self._joined(seen) is None:
            self._ignore_late(message)
            return False
        self._state.object_received(seen.agent, message)
        if message.deleted:
            self._state.object_ended(message)
        if message.sequence:
            self._state.objects_answered(message.sequence)
            self.client.on_content(message)
        together = self._joined(seen)
        if together is None:
            self._state.observations.append(seen)
        else:
            self._state.observations[-1] = together
        if message.properties is not None:
            self._notice_agent(message)
        return True

    def _joined(self, seen: ObjectSeen) -> ObjectSeen | None:
        """Return one observation for the last one and ``seen``, where they are of one object."""
        last = self._state.observations[-1] if self._state.observations else None
        return joined(last, seen) if isinstance(last, ObjectSeen) else None

    def _ignore_late(self, message: Content) -> None:
        """Ignore a record of an object whose end was reported before; a second end is ignored as well."""
        if not message.deleted:
            self._state.wake()
            self._state.read_the_revived()

    def _published(self, agent: str) -> None:
        """Note what an agent sent without a request."""
        if self._state.publishes_nothing and agent == BROKER_AGENT:
            self._state.publishes_nothing = False
            self._state.wake()

    def _notice_agent(self, message: Content) -> None:
        definition = self._state.definitions.find_class(message.key)
        agent = agent_described(definition, message) if definition else None
        if agent is None:
            return
        self._state.wake()
        if not message.deleted:
            self._state.agent_spoke(agent)
        else:
            self._state.remotes.depart(agent, f"agent {agent} left the broker", self._state.now)

    def _on_event(self, message: EventIndication, sender: str) -> None:
        self._published(sender)
        if self._state.agent_spoke(sender):
            self._state.observations.append(self._translator.event(message, sender))
        else:
            self._state.observations.append(RecordLost(message.key, BROKER_AGENT))

    def _on_heartbeat(self, message: Heartbeat, sender: str) -> None:
        if not self._state.agent_spoke(sender):
            return
        self._published(sender)
        if self._state.agents.beat(sender, message.time, self._state.now):
            self._state.wake()
        self._state.observations.append(HeartbeatSeen(sender, message.time))

    def _on_unknown_class(self, message: UnknownClass, sender: str) -> None:
        if not self._state.config.includes(message.key.package):
            return
        self.client.on_unknown_class(message)
        subject = self._state.requests.subject(message.sequence)
        agent = subject.agent if isinstance(subject, FetchObjects) else sender
        if self._state.ask_schema(message.key):
            self._miss(message.key, agent)
        if message.deleted or message.code == ord(EventIndication.opcode):
            known = agent if agent in self._state.agents else BROKER_AGENT
            self._state.observations.append(RecordLost(message.key, known))


class ConsoleSession:
    """A console of one broker's agents, without I/O.

    The observations of one event are one `Observed`, so there is one for each message body.

    Args:
        config: the configuration.
        state: the state of a session of another version than AM2.
        handler: of the messages of that version; given together with ``state``.
    """

    def __init__(
        self,
        config: ConsoleConfig,
        state: SessionState | None = None,
        handler: MessageHandler | None = None,
    ) -> None:
        self._config = config
        self._state = state or SessionState(config)
        self._handler = handler or MessageHandler(self._state)
        self._refused = 0
        self._errors = 0
        self._handler.learn(config.definitions)

    @property
    def definitions(self) -> tuple[ClassDefinition | EventDefinition, ...]:
        """The known classes and events, to be kept for `ConsoleConfig.definitions`."""
        return tuple(self._state.definitions)

    @property
    def state(self) -> State:
        """The state of the session."""
        return self._state.state

    @property
    def broker(self) -> UUID | None:
        """The incarnation of the management broker that answered last; ``None`` before the first answer."""
        return self._state.restarts.broker

    def bindings(self, queue: str) -> tuple[Binding, ...]:
        """Return the bindings of the queue of this name before `LinkUp`; its name is the reply key."""
        objects = ["console.obj.#", "console.event.#"]
        if self._config.packages is not None:
            packages = sorted(self._config.packages)
            objects = [f"console.{sort}.*.*.{name}.#" for sort in ("obj", "event") for name in packages]
        keys = [*objects, "console.heartbeat.#", "schema.#"]
        exchange = self._config.management_exchange
        replies = Binding(self._config.direct_exchange, queue)
        return (replies, *(Binding(exchange, key) for key in keys))

    def handle(self, event: Event, now: int) -> list[Effect]:  # noqa: C901  a case for each event
        """Process an event; as `Session.handle`, for events of a link to a broker and for operations.

        After `BacklogFollows` nothing is requested until `LinkUp`, and answers to earlier requests are
        ignored. `PropertiesMissing` takes effect with the next event: an agent of Apache Qpid 0.6
        does not publish properties to a console if it has published them for another one.

        An operation is carried out once. After ``SOURCE_DOWN`` and the outcomes of a check, nothing was sent.
        ``UNKNOWN`` stands for no answer until the deadline, or until the link went down; a late answer may
        follow it. Values that were read are observed before the answer.
        """
        self._state.now = now
        if isinstance(event, Delivery):
            return self._receive(event)
        self._state.wake()
        match event:
            case TimerExpired():
                return self._pass_time()
            case MethodCall() | ObjectModify() | ObjectFetch():
                with sending_last():
                    self._handler.client.take(event)
            case LinkUp(reply_to):
                self._state.connect(reply_to)
            case LinkDown(detail, received_until):
                self._state.gaps.link_lost(received_until)
                self._state.disconnect(detail)
            case BacklogFollows(missed, waiting):
                self._state.resume(missed, waiting)
            case LossSuspected(reason, since):
                self._suspect_loss(reason, since)
            case ReceivedUntil(until):
                self._state.proved(until)
            case NotSent(sends, reason):
                self._handler.client.unsent(sends, reason)
            case PropertiesMissing():
                self._state.read_the_unnamed()
                return []
            case _:
                raise EventNotTakenError(self, event)
        return self._state.flush()

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """Return what `ConsoleSession.precheck` of every dialect documents."""
        self._state.now = now
        return self._handler.client.precheck(request)

    def _suspect_loss(self, reason: str, since: int) -> None:
        """Read everything again, because values may be wrong. While disconnected, that waits for the link."""
        if self._state.state is State.DISCONNECTED:
            return
        if since:
            self._state.miss(since, reason)
        if self._state.state is not State.CATCHING_UP:
            self._state.greet(reason)

    def _pass_time(self) -> list[Effect]:
        """Repeat requests, give them up, detect missing heartbeats, and retry."""
        if self._state.state in (State.DISCONNECTED, State.CATCHING_UP):
            return []
        self._state.pass_time()
        return self._state.flush()

    def _receive(self, delivery: Delivery) -> list[Effect]:
        if self._state.state is State.DISCONNECTED:
            return []
        if not self._config.trust_anyone and delivery.user_id not in self._config.trusted_users:
            self._refused += 1
            return [
                Note("refused-sender", f"message of {delivery.user_id!r} ignored, {self._refused} so far")
            ]
        if self._state.state is State.CATCHING_UP and delivery.exchange == self._config.direct_exchange:
            return self._receive_late(delivery)
        self._state.observations += self._state.gaps.arrived(delivery.timestamp, self._state.now)
        try:
            self._take(delivery)
        except (ProtocolError, LocalProtocolError) as error:
            self._note_error(delivery, error)
        return self._state.flush()

    def _take(self, delivery: Delivery) -> None:
        sender = agent_of_key(delivery.routing_key)
        for message in read_body(delivery.body, self._state.definitions):
            self._handler.take(message, sender)

    def _receive_late(self, delivery: Delivery) -> list[Effect]:
        """Process an answer to a request before the interruption: it has the outcome of a call."""
        self._state.wake()
        with contextlib.suppress(ProtocolError, LocalProtocolError):
            self._handler.take_late(read_body(delivery.body, self._state.definitions))
        return self._state.flush()

    def _note_error(self, delivery: Delivery, error: Exception) -> None:
        self._errors += 1
        self._state.wake()
        where = f"{delivery.exchange}/{delivery.routing_key} from {delivery.user_id!r}"
        self._state.note("protocol-error", f"{where}: {error}; {self._errors} so far")
        self._handler.client.unreadable(delivery.body, error)
        sequence = int.from_bytes(delivery.body[4:8], "big")
        subject = self._state.requests.subject(sequence)
        if delivery.body[:4] == b"AM2s" and isinstance(subject, FetchSchema):
            # The broker keeps broken schemas of other agents: only this class is incomplete.
            self._state.requests.complete(sequence)
            self._state.give_class_up(subject.key)
            return
        # Objects that an unreadable body lacks must not be taken for gone.
        publisher = agent_of_key(delivery.routing_key)
        agent = subject.agent if isinstance(subject, FetchObjects) else publisher
        self._state.fall_short("a message could not be read", agent)
        if delivery.exchange != self._config.direct_exchange:
            self._state.read_the_unread()
