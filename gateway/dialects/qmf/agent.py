"""The agent session: serves managed objects to consoles, in the roles of agent and management broker.

A Qpid broker stands between consoles and agents. Where nothing intercepts the management exchange (plain
RabbitMQ), the agent answers for the broker, too: it binds ``broker``, ``agent.1.0`` and ``schema.#``
itself. Sources: QMF AM2 protocol; behaviour of qpidd where the protocol is silent.

The agent's program puts and deletes objects (`AgentSession.put`, `delete`), calls `flush` soon after
creations and deletions, and sends what is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf import addresses, agent_calls
from gateway.dialects.qmf.agent_calls import AgentCalls
from gateway.dialects.qmf.agent_objects import (
    MAX_BODY,
    AgentObjects,
    AgentQueries,
    ManagedObject,
)
from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    AttachRequest,
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    EventIndication,
    GetQuery,
    Heartbeat,
    Message,
    MethodRequest,
    PackageIndication,
    PackageQuery,
    Received,
    SchemaRequest,
)
from gateway.dialects.qmf.model_values import wire_severity, wire_values
from gateway.dialects.qmf.schema_records import described_event
from gateway.dialects.qmf.statuses import FAILED
from gateway.dialects.session import (
    Binding,
    Called,
    CalledUnseen,
    Delivery,
    Effect,
    Event,
    EventNotTakenError,
    Note,
    ReadAsked,
    Send,
    TimerExpired,
    WakeAt,
)
from gateway.model.observations import Severity
from gateway.model.schema import ClassKey, ClassSchema, EventSchema
from gateway.model.times import SECOND
from gateway.model.values import Values

__all__ = ["AgentConfig", "AgentSession", "ManagedObject"]


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The configuration of an agent session. Durations are nanoseconds.

    Attributes:
        broker: identifies this incarnation; it must change at each start, or consoles miss the restart.
        boot: the number of this start of the agent, which is part of object ids. 0 where a number means the
            same object after a restart of the agent: such ids outlive restarts.
        allowed_users: the users whose requests are answered, as the broker checked them.
        publish_interval: the time between two publications of changes, each of which ends with a heartbeat.
        request_deadline: the age beyond which a request is refused, if it has a time.
        deletion_limit: deletions that are kept while nothing can be published; beyond it the oldest are lost,
            and consoles find out by the resynchronisation that the next start causes.
        call_deadline: the time after its arrival by which a call must begin, if it has no deadline of its
            own.
        rereads: whether the program reads an object again when a console requests it by its id.
    """

    broker: UUID
    boot: int
    allowed_users: frozenset[str] = field(default_factory=frozenset)
    management_exchange: str = addresses.MANAGEMENT_EXCHANGE
    direct_exchange: str = addresses.DIRECT_EXCHANGE
    publish_interval: int = 10 * SECOND
    request_deadline: int = 30 * SECOND
    deletion_limit: int = 100_000
    call_deadline: int = 30 * SECOND
    rereads: bool = False


SeesObject: TypeAlias = Callable[[str, ClassKey, int | None], bool]
"""Returns whether an object exists for a user: its class as the user named it, and its number.

It is also asked for an object that is not there (``None``), so that both take the same time.
"""


class AgentSession:
    """An AM2 agent and management broker, without I/O.

    Args:
        config: see `AgentConfig`.
        classes: the classes to serve. Their hashes are computed, `with_marks` is applied.
        events: the events to serve.
        sees: decides whose calls reach which objects. Whatever is called of an object that a user does not
            see is answered as for one that does not exist, and both leave a `CalledUnseen`. Without it, all
            objects exist for all users.

    Raises:
        LocalProtocolError: AM2 cannot express one of the classes or events.
    """

    def __init__(
        self,
        config: AgentConfig,
        classes: Iterable[ClassSchema],
        events: Iterable[EventSchema] = (),
        sees: SeesObject | None = None,
    ) -> None:
        self._config = config
        # Sequence 0 marks ids that outlive restarts, so no boot may lead to it.
        self._sequence = config.boot % 4095 + 1 if config.boot else 0
        object_id = ObjectId.of(sequence=self._sequence, number=0)
        self._objects = AgentObjects(classes, object_id, config.deletion_limit)
        self._events: dict[tuple[str, str], EventDefinition] = {}
        self._queries = AgentQueries(self._objects)
        for agent_class in self._objects.classes.values():
            self._queries.serve(agent_class.definition)
        self._definitions = self._queries.definitions
        self._has_announced = False
        self._started = False
        self._republish = False
        self._next_publication = 0
        for schema in events:
            self.learn_event(schema)
        self._distrust = ""
        self._calls = AgentCalls(config.call_deadline)
        self._sees = sees
        self._late_answers: list[Send] = []

    def bindings(self) -> tuple[Binding, ...]:
        """Return the bindings that the agent's queue needs before `start`."""
        keys = (addresses.BROKER_KEY, addresses.agent_key(addresses.BROKER_AGENT), "schema.#")
        return tuple(Binding(self._config.management_exchange, key) for key in keys)

    # Calls of the program: classes, events and objects.

    def learn_class(self, schema: ClassSchema) -> list[Effect]:
        """Serve a class from now on, and announce it if the session is started.

        It replaces a class of the same package and name, whose objects have to be put again.

        Raises:
            LocalProtocolError: AM2 cannot express the class.
        """
        definition = self._objects.serve(schema)
        return [] if definition is None else self._announced(ClassKind.OBJECT, definition)

    def learn_event(self, schema: EventSchema) -> list[Effect]:
        """Serve an event from now on, and announce it if the session is started.

        Raises:
            LocalProtocolError: AM2 cannot express the event.
        """
        event = described_event(schema)
        served = self._events.get((schema.key.package, schema.key.name))
        if served is not None and served.key == event.key:
            return []
        self._events[schema.key.package, schema.key.name] = event
        return self._announced(ClassKind.EVENT, event)

    def _announced(self, kind: ClassKind, definition: ClassDefinition | EventDefinition) -> list[Effect]:
        package = definition.key.package
        is_new_package = package not in self._queries.packages
        self._queries.serve(definition)
        if not self._started:
            return []
        body = write(PackageIndication(0, package)) if is_new_package else b""
        body += write(ClassIndication(0, kind, definition.key))
        return [self._message(addresses.PACKAGE_KEY, body)]

    def put(self, managed: ManagedObject) -> None:
        """Add an object, or change its values; they are published by `flush` or with the timer.

        Raises:
            LocalProtocolError: the class is not served, or a value does not fit; then nothing has changed.
        """
        self._objects.put(managed)

    def delete(self, number: int, deleted_at: int) -> bool:
        """Remove an object, deleted at ``deleted_at`` (nanoseconds); return False if it does not exist."""
        return self._objects.delete(number, deleted_at)

    def forget(self, number: int) -> None:
        """Remove an object without publishing a deletion, before it is put in another class."""
        self._objects.forget(number)

    @property
    def objects(self) -> AgentObjects:
        """The objects; the value supports ``number in``, ``len`` and iteration over numbers."""
        return self._objects

    @property
    def definitions(self) -> Definitions:
        """The classes and events, in the form in which consoles receive them."""
        return self._definitions

    def class_key(self, package: str, name: str) -> ClassKey:
        """Return the full key of a served class; raise `LocalProtocolError` if it is not served."""
        agent_class = self._objects.classes.get((package, name))
        if agent_class is None:
            raise LocalProtocolError(f"class {package}:{name} is not served")
        return agent_class.definition.key

    def event_key(self, package: str, name: str) -> ClassKey:
        """Return the full key of a served event; raise `LocalProtocolError` if it is not served."""
        event = self._events.get((package, name))
        if event is None:
            raise LocalProtocolError(f"event {package}:{name} is not served")
        return event.key

    def object_id(self, number: int) -> ObjectId:
        """Return the object id of the object with this number, for references to it."""
        return ObjectId.of(sequence=self._sequence, number=number)

    # Calls of the link.

    def start(self, now: int) -> list[Effect]:
        """Announce the packages and publish from now on: the link is up and the objects are known.

        Must be called once the first complete reading of the managed product has been put, and after each
        `suspend`: a console that queries an agent without its objects deletes all of them.
        """
        if not self._started:
            if not self._has_announced:
                self._objects.forget_unpublished()
            self._started = self._has_announced = self._republish = True
            self._next_publication = now + self._config.publish_interval
        effects: list[Effect] = [WakeAt(self._next_publication)]
        packages = b"".join(write(PackageIndication(0, package)) for package in self._queries.packages)
        if packages:
            effects.insert(0, self._message(addresses.PACKAGE_KEY, packages))
        late_answers, self._late_answers = self._late_answers, []
        return [*effects, *late_answers]

    def suspend(self) -> None:
        """Publish nothing until `start`: the link is down, or the managed product cannot be read.

        Changes are kept until then.
        """
        self._started = False

    def stand_by(self) -> None:
        """Leave the publication of all changes until the next `start` to another agent."""
        self._has_announced = False

    def console_bound(self, now: int) -> list[Effect]:
        """Publish everything again, because a console bound its queue (RabbitMQ: ``binding.created``).

        It happens at the next interval, as in qpidd, so that many consoles cost no more than one.
        """
        self._republish = True
        return [WakeAt(max(now, self._next_publication))] if self._started else []

    def flush(self, now: int) -> list[Effect]:  # noqa: ARG002  as all calls of the program
        """Publish deletions and creations now. An object that was created and deleted since is one record."""
        return self._changes() if self._started else []

    def publish(self, number: int, now: int) -> list[Effect]:  # noqa: ARG002  as `flush`
        """Publish the changes of one object now, after all creations and deletions."""
        if not self._started:
            return []
        return [*self._changes(), *self._contents(self._objects.take_change(number))]

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Process an event; as `Session.handle`, for requests and the timer.

        Requests are answered; one that is refused leaves a note. In each interval the timer publishes
        deletions, then changes, then a heartbeat.
        """
        match event:
            case Delivery():
                return self._receive(event, now)
            case TimerExpired():
                return self._publish_due(now) if self._started else []
            case _:
                raise EventNotTakenError(self, event)

    def distrust(self, reason: str) -> None:
        """Refuse every request, with ``reason``, until called with an empty one; publications go on.

        It is used where the sender that a broker reports can be forged.
        """
        self._distrust = reason

    def raise_event(self, key: ClassKey, time: int, severity: Severity, arguments: Values) -> list[Effect]:
        """Publish an event at once, or nothing while the session is not started; raise as `event_message`."""
        message = self.event_message(key, time, severity, arguments)
        return [message] if self._started else []

    def event_message(self, key: ClassKey, time: int, severity: Severity, arguments: Values) -> Send:
        """Return the message of an event, for a caller that sends it itself.

        Args:
            key: package and name of the event; the hash is ignored.
            time: the time of the event, nanoseconds since 1970-01-01 UTC.
            severity: it is sent as the corresponding level of syslog.
            arguments: in schema order; an absent one (``None``) is sent as empty text, zero or null.

        Raises:
            LocalProtocolError: the event is not served, or an argument does not fit.
        """
        full_key = self.event_key(key.package, key.name)
        wire = EventIndication(0, full_key, time, wire_severity(severity), wire_values(arguments))
        octets = write(wire, self._definitions)
        routing_key = addresses.event_key(addresses.BROKER_AGENT, full_key)
        return self._message(routing_key, octets, persistent=True)

    # Publications.

    def _publish_due(self, now: int) -> list[Effect]:
        if now < self._next_publication:
            return [WakeAt(self._next_publication)]
        effects = list(self._deletions())
        if self._republish:
            self._republish = False
            effects.extend(self._contents(self._objects.take_all()))
        else:
            effects.extend(self._contents(self._objects.take_creations(), persistent=True))
            effects.extend(self._contents(self._objects.take_changes()))
        heartbeat = addresses.heartbeat_key(addresses.BROKER_AGENT)
        effects.append(self._message(heartbeat, write(Heartbeat(0, now))))
        # The next interval counts from now, so that late ticks do not add up.
        self._next_publication = now + self._config.publish_interval
        effects.append(WakeAt(self._next_publication))
        return effects

    def _changes(self) -> list[Effect]:
        return [*self._deletions(), *self._contents(self._objects.take_creations(), persistent=True)]

    def _deletions(self) -> Iterator[Effect]:
        """Yield the unpublished deletions; nothing while the session is not started."""
        if self._started:
            yield from self._contents(self._objects.take_deletions(), persistent=True)

    def _contents(
        self, bodies: Iterable[tuple[ClassKey, bytes]], *, persistent: bool = False
    ) -> Iterator[Effect]:
        for key, body in bodies:
            routing_key = addresses.object_key(addresses.BROKER_AGENT, key)
            yield self._message(routing_key, body, persistent=persistent)

    def _message(self, routing_key: str, body: bytes, *, persistent: bool = False) -> Send:
        return Send(self._config.management_exchange, routing_key, body, persistent=persistent)

    # Requests.

    def _receive(self, delivery: Delivery, now: int) -> list[Effect]:
        if delivery.routing_key.startswith("schema."):
            return []  # announcements of agents: our own return by our own binding, others cannot attach
        refusal = self._refusal(delivery)
        if refusal is not None:
            return [refusal]
        effects: list[Effect] = []
        # An AMQP 0-9-1 timestamp has whole seconds. Requests without one are served.
        age = now - delivery.timestamp if delivery.timestamp else 0
        is_late = age > self._config.request_deadline + SECOND
        if is_late:
            effects.append(Note("late-request", f"request from {delivery.user_id!r}: {age // SECOND} s old"))
        try:
            for message in read_body(delivery.body, self._definitions):
                # The caller of a method needs an answer even if it is not carried out.
                if not is_late or isinstance(message, MethodRequest):
                    effects.extend(self._answer(message, delivery, now))
        except ProtocolError as error:
            effects.append(Note("protocol-error", f"request from {delivery.user_id!r}: {error}"))
        return effects

    def _refusal(self, delivery: Delivery) -> Note | None:
        size = len(delivery.body)
        checks = (
            (delivery.user_id not in self._config.allowed_users, "refused-sender", "not an allowed user"),
            (bool(self._distrust), "distrusted-sender", self._distrust),
            (not self._started, "not-ready", "the objects are not known yet"),
            (size > MAX_BODY, "protocol-error", f"{size} octets, {MAX_BODY} are taken"),
            (not delivery.reply_to, "protocol-error", "no reply-to"),
        )
        for refused, event, detail in checks:
            if refused:
                return Note(event, f"request from {delivery.user_id!r}: {detail}")
        return None

    # Later answers of the program.

    def method_done(self, handle: int, status: int, text: str, outputs: Values = ()) -> list[Effect]:
        """Answer a call, after the changes that it caused (`publish`); return nothing if no call waits.

        Args:
            handle: the handle of the `Called`.
            status: a `Status`, or 0x10000 and up for a status of the program itself.
            text: one line for people.
            outputs: the ``OUT`` and ``INOUT`` arguments in schema order; they may be missing after a failure.

        Raises:
            LocalProtocolError: the outputs do not fit the method.
        """
        waiting = self._calls.ended(handle)
        if waiting is None:
            return []
        answer = agent_calls.response(waiting, status, text, outputs)
        return self._answered([self._reply(waiting.reply_to, answer)])

    def read_done(self, handle: int, failure: str = "") -> list[Effect]:
        """Answer a request for an object with its values; ``failure``: why it was not read again."""
        waiting = self._calls.ended(handle)
        if waiting is None:
            return []
        found = None if failure else self._objects.find(waiting.object_id)
        records = (
            [self._reply_octets(waiting.reply_to, found.object_record(waiting.sequence))] if found else []
        )
        # A console takes an object that an answer lacks for gone: a later deletion would end it twice.
        deletions = self._deletions()
        end = self._reply(waiting.reply_to, agent_calls.completion(waiting, failure))
        return [*deletions, *self._answered([*records, end])]

    def _answered(self, replies: list[Send]) -> list[Effect]:
        """Return ``replies`` now, or after the next `start`: a late answer still has its outcome."""
        if self._started:
            return [*replies]
        self._late_answers += replies
        return []

    def _answer(self, message: Received, delivery: Delivery, now: int) -> Iterator[Effect]:
        reply_to = delivery.reply_to
        if isinstance(message, BrokerRequest):
            self._republish = True
            yield self._reply(reply_to, BrokerResponse(message.sequence, self._config.broker))
        elif isinstance(message, PackageQuery | ClassQuery):
            for body in self._queries.names(message):
                yield self._reply_octets(reply_to, body)
            yield self._reply(reply_to, CommandComplete(message.sequence))
        elif isinstance(message, SchemaRequest):
            yield self._reply(reply_to, self._queries.schema(message))
        elif isinstance(message, GetQuery):
            single = self._queries.single(message) if self._config.rereads else None
            if single is None:
                yield from self._get(message, reply_to)
            else:
                asked = self._calls.asked(message, single, delivery, now)
                yield asked if isinstance(asked, ReadAsked) else self._reply(reply_to, asked)
        elif isinstance(message, MethodRequest):
            yield from self._call(message, delivery, now)
        elif isinstance(message, AttachRequest):
            yield self._reply(
                reply_to, CommandComplete(message.sequence, FAILED, "Remote agents are not served here")
            )
        else:
            yield Note("unserved-message", f"{type(message).__name__} is not a request to an agent")

    def _get(self, query: GetQuery, reply_to: str) -> Iterator[Effect]:
        try:
            bodies = self._queries.objects(query)
        except ProtocolError as error:
            # qpidd sends no reply here, and consoles wait in vain.
            text = str(error).encode("ascii", "replace")[:200].decode()
            yield self._reply(reply_to, CommandComplete(query.sequence, FAILED, text))
            return
        # A console takes an object that an answer lacks for gone: a later deletion would end it twice.
        yield from self._deletions()
        for body in bodies:
            yield self._reply_octets(reply_to, body)
        yield self._reply(reply_to, CommandComplete(query.sequence))

    def _call(self, request: MethodRequest, delivery: Delivery, now: int) -> Iterator[Effect]:
        target, user = self._objects.find(request.object_id), delivery.user_id
        if self._sees is not None:
            number = None if target is None else target.object_id.number
            if not self._sees(user, request.key, number) or number is None:
                # Before anything is checked: a refusal of the method or its arguments shows the object.
                yield self._reply(delivery.reply_to, agent_calls.unknown_object(request))
                yield CalledUnseen(request.key, number, request.method, user)
                return
        called = self._calls.called(request, target, delivery, now)
        yield called if isinstance(called, Called | Note) else self._reply(delivery.reply_to, called)

    def _reply(self, reply_to: str, message: Message) -> Send:
        return self._reply_octets(reply_to, write(message, self._definitions))

    def _reply_octets(self, reply_to: str, body: bytes) -> Send:
        return Send(self._config.direct_exchange, reply_to, body)
