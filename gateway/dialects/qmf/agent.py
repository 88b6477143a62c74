"""The agent session: serves managed objects to consoles, in the roles of agent and management broker.

A Qpid broker stands between consoles and agents; where nothing intercepts the management exchange (plain
RabbitMQ) the agent answers for the broker too: it binds ``broker``, ``agent.1.0`` and ``schema.#``
itself. Sources: QMF AM2 protocol; behaviour of qpidd where that says nothing.

The program behind it puts and deletes objects (`AgentSession.put`, `delete`), calls `flush` soon after
creations and deletions, and sends what is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
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
from gateway.dialects.qmf.console_config import SECOND
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    FAILED,
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
from gateway.dialects.session import (
    Binding,
    Called,
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
from gateway.model.values import Values

__all__ = ["AgentConfig", "AgentSession", "ManagedObject"]


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """How an agent session behaves. Durations are nanoseconds.

    Attributes:
        broker: names this incarnation; a new one at each start of the agent, or consoles miss the restart.
        boot: how often the agent was started; goes into the object ids. 0 where a number means the same
            object after a restart of the agent: its ids outlive restarts, and say so.
        obey: the users whose requests are served, as the broker checked them.
        publish_interval: between two publications of what changed, each closed by a heartbeat.
        request_deadline: a request older than this is refused, if it carries a time.
        deletion_limit: deletions kept while nothing can be published; beyond it the oldest are lost, and
            consoles find out by the resync that the next start asks them for.
        call_deadline: a call must be begun so soon after its arrival, if it names no time of its own.
        reads_anew: the program reads an object again when a console asks for it by its id.
    """

    broker: UUID
    boot: int
    obey: frozenset[str] = field(default_factory=frozenset)
    management_exchange: str = addresses.MANAGEMENT_EXCHANGE
    direct_exchange: str = addresses.DIRECT_EXCHANGE
    publish_interval: int = 10 * SECOND
    request_deadline: int = 30 * SECOND
    deletion_limit: int = 100_000
    call_deadline: int = 30 * SECOND
    reads_anew: bool = False


class AgentSession:
    """An AM2 agent and management broker, without I/O.

    Args:
        config: see `AgentConfig`.
        classes: the classes served. Their hashes are computed, and ``absentStatistics`` is added.
        events: the events that may be raised.

    Raises:
        LocalProtocolError: AM2 cannot carry one of the classes or events.
    """

    def __init__(
        self, config: AgentConfig, classes: Iterable[ClassSchema], events: Iterable[EventSchema] = ()
    ) -> None:
        self._config = config
        # Sequence 0 is for ids that outlive restarts: it must not come out of a boot by chance.
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
        self._late_answers: list[Send] = []

    def bindings(self) -> tuple[Binding, ...]:
        """What the agent's queue must be bound to before `start`."""
        keys = (addresses.BROKER_KEY, addresses.agent_key(addresses.BROKER_AGENT), "schema.#")
        return tuple(Binding(self._config.management_exchange, key) for key in keys)

    # The program's side: classes, events and objects.

    def learn_class(self, schema: ClassSchema) -> list[Effect]:
        """Serve a class from now on, and announce it where consoles are listening already.

        A class of the same package and name is replaced: its objects have to be put again.

        Raises:
            LocalProtocolError: AM2 cannot carry the class.
        """
        definition = self._objects.serve(schema)
        return [] if definition is None else self._announced(ClassKind.OBJECT, definition)

    def learn_event(self, schema: EventSchema) -> list[Effect]:
        """Serve an event from now on, and announce it where consoles are listening already.

        Raises:
            LocalProtocolError: AM2 cannot carry the event.
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
        """Add an object, or change the values of one; consoles get it by `flush` or with the timer.

        Raises:
            LocalProtocolError: the class is not served, or a value does not fit: nothing has changed then.
        """
        self._objects.put(managed)

    def delete(self, number: int, deleted_at: int) -> bool:
        """Remove an object, deleted at ``deleted_at`` (nanoseconds); False if there is none."""
        return self._objects.delete(number, deleted_at)

    def forget(self, number: int) -> None:
        """Remove an object of which no deletion is to be published: it is put again in another class."""
        self._objects.forget(number)

    @property
    def objects(self) -> AgentObjects:
        """What is known: supports ``number in``, ``len`` and iteration over numbers."""
        return self._objects

    @property
    def definitions(self) -> Definitions:
        """The classes and events served, as consoles are told of them."""
        return self._definitions

    def class_key(self, package: str, name: str) -> ClassKey:
        """Return the full key of a class that is served; `LocalProtocolError` if it is not."""
        agent_class = self._objects.classes.get((package, name))
        if agent_class is None:
            raise LocalProtocolError(f"class {package}:{name} is not served")
        return agent_class.definition.key

    def event_key(self, package: str, name: str) -> ClassKey:
        """Return the full key of an event that is served; `LocalProtocolError` if it is not."""
        event = self._events.get((package, name))
        if event is None:
            raise LocalProtocolError(f"event {package}:{name} is not served")
        return event.key

    def object_id(self, number: int) -> ObjectId:
        """Return the object id that the object of this number has; for references to it."""
        return ObjectId.of(sequence=self._sequence, number=number)

    # The link's side.

    def start(self, now: int) -> list[Effect]:
        """The link is up and the objects are known: announce the packages, publish from now on.

        To be called once the first complete reading of what is managed has been put, and again after each
        `suspend`: a console that asks an agent which does not know its objects yet deletes them all.
        """
        if not self._started:
            if not self._has_announced:
                self._objects.forget_untold()
            self._started = self._has_announced = self._republish = True
            self._next_publication = now + self._config.publish_interval
        effects: list[Effect] = [WakeAt(self._next_publication)]
        packages = b"".join(write(PackageIndication(0, package)) for package in self._queries.packages)
        if packages:
            effects.insert(0, self._message(addresses.PACKAGE_KEY, packages))
        late_answers, self._late_answers = self._late_answers, []
        return [*effects, *late_answers]

    def suspend(self) -> None:
        """The link is down, or what is managed cannot be read: say nothing until `start`.

        What changes meanwhile is kept, and told then.
        """
        self._started = False

    def stand_by(self) -> None:
        """Another agent serves: what comes and goes until the next `start` is that one's to tell."""
        self._has_announced = False

    def console_bound(self, now: int) -> list[Effect]:
        """A console bound its queue (RabbitMQ tells by ``binding.created``): tell everything again.

        It happens at the next interval, as with qpidd, so that many consoles cost no more than one.
        """
        self._republish = True
        return [WakeAt(max(now, self._next_publication))] if self._started else []

    def flush(self, now: int) -> list[Effect]:  # noqa: ARG002  as all that the program calls
        """Publish deletions and creations now. What was created and deleted since then is one record."""
        return self._changes() if self._started else []

    def tell(self, number: int, now: int) -> list[Effect]:  # noqa: ARG002  as `flush`
        """Publish now what consoles do not know yet of one object, behind all creations and deletions."""
        if not self._started:
            return []
        return [*self._changes(), *self._contents(self._objects.take_change(number))]

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Take in what happened; as `Session.handle`, for requests and the timer.

        Requests are answered; one that is refused leaves a note. The timer publishes what is due: each
        interval deletions, then what changed, then a heartbeat.
        """
        match event:
            case Delivery():
                return self._receive(event, now)
            case TimerExpired():
                return self._publish_due(now) if self._started else []
            case _:
                raise EventNotTakenError(self, event)

    def distrust(self, reason: str) -> None:
        """Refuse every request, for ``reason``, until called with an empty one; the rest goes on.

        For whoever finds out that the senders a broker tells can be forged there.
        """
        self._distrust = reason

    def raise_event(self, key: ClassKey, time: int, severity: Severity, arguments: Values) -> list[Effect]:
        """Publish an event at once; nothing while the session is not started. Raises as `event_message`."""
        message = self.event_message(key, time, severity, arguments)
        return [message] if self._started else []

    def event_message(self, key: ClassKey, time: int, severity: Severity, arguments: Values) -> Send:
        """The message that tells of an event, for whoever decides himself when to send it.

        Args:
            key: package and name of the event; the hash is not looked at.
            time: when it happened, nanoseconds since 1970-01-01 UTC.
            severity: travels as the level of syslog that stands for it.
            arguments: in schema order; an absent one (``None``) travels as empty text, zero or null.

        Raises:
            LocalProtocolError: the event is not served, or an argument does not fit.
        """
        full_key = self.event_key(key.package, key.name)
        wire = EventIndication(0, full_key, time, wire_severity(severity), wire_values(arguments))
        octets = write(wire, self._definitions)
        routing_key = addresses.event_key(addresses.BROKER_AGENT, full_key)
        return self._message(routing_key, octets, persistent=True)

    # What is published.

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
        # Late ticks do not add up: the next one counts from now.
        self._next_publication = now + self._config.publish_interval
        effects.append(WakeAt(self._next_publication))
        return effects

    def _changes(self) -> list[Effect]:
        return [*self._deletions(), *self._contents(self._objects.take_creations(), persistent=True)]

    def _deletions(self) -> Iterator[Effect]:
        """Yield the deletions that consoles do not know of yet; nothing while not started."""
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
            return []  # announcements of agents: our own come back by our own binding, others do not join
        refusal = self._refusal(delivery)
        if refusal is not None:
            return [refusal]
        effects: list[Effect] = []
        # An AMQP 0-9-1 time counts whole seconds. A console that sends none is served all the same.
        age = now - delivery.timestamp if delivery.timestamp else 0
        is_late = age > self._config.request_deadline + SECOND
        if is_late:
            effects.append(Note("late-request", f"request from {delivery.user_id!r}: {age // SECOND} s old"))
        try:
            for message in read_body(delivery.body, self._definitions):
                # Whoever called a method wants to know even then that it is not carried out.
                if not is_late or isinstance(message, MethodRequest):
                    effects.extend(self._answer(message, delivery, now))
        except ProtocolError as error:
            effects.append(Note("protocol-error", f"request from {delivery.user_id!r}: {error}"))
        return effects

    def _refusal(self, delivery: Delivery) -> Note | None:
        size = len(delivery.body)
        checks = (
            (delivery.user_id not in self._config.obey, "refused-sender", "only configured users are obeyed"),
            (bool(self._distrust), "distrusted-sender", self._distrust),
            (not self._started, "not-ready", "the objects are not known yet"),
            (size > MAX_BODY, "protocol-error", f"{size} octets, {MAX_BODY} are taken"),
            (not delivery.reply_to, "protocol-error", "no reply-to"),
        )
        for refused, event, detail in checks:
            if refused:
                return Note(event, f"request from {delivery.user_id!r}: {detail}")
        return None

    # What the program answers later.

    def method_done(self, handle: int, status: int, text: str, outputs: Values = ()) -> list[Effect]:
        """Tell what came of a call, behind what it led to (`tell`); nothing where nobody waits for it.

        Args:
            handle: of the `Called`.
            status: `Status`, or 0x10000 and up for one of the program's own.
            text: one line for people.
            outputs: the ``OUT`` and ``INOUT`` arguments in schema order; may be left out after a failure.

        Raises:
            LocalProtocolError: the outputs do not fit the method.
        """
        waiting = self._calls.ended(handle)
        if waiting is None:
            return []
        answer = agent_calls.response(waiting, status, text, outputs)
        return self._answered([self._reply(waiting.reply_to, answer)])

    def read_done(self, handle: int, failure: str = "") -> list[Effect]:
        """Answer a request for an object with what is known; ``failure``: why it was not read again."""
        waiting = self._calls.ended(handle)
        if waiting is None:
            return []
        found = None if failure else self._objects.find(waiting.object_id)
        records = (
            [self._reply_octets(waiting.reply_to, found.object_record(waiting.sequence))] if found else []
        )
        # What an answer lacks, a console takes for gone: who hears of its end afterwards would tell it twice.
        deletions = self._deletions()
        end = self._reply(waiting.reply_to, agent_calls.completion(waiting, failure))
        return [*deletions, *self._answered([*records, end])]

    def _answered(self, replies: list[Send]) -> list[Effect]:
        """``replies`` now, or as soon as anything is said again: also a late answer says what came of it."""
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
            single = self._queries.single(message) if self._config.reads_anew else None
            if single is None:
                yield from self._get(message, reply_to)
            else:
                asked = self._calls.asked(message, single, delivery, now)
                yield asked if isinstance(asked, ReadAsked) else self._reply(reply_to, asked)
        elif isinstance(message, MethodRequest):
            yield self._call(message, delivery, now)
        elif isinstance(message, AttachRequest):
            yield self._reply(
                reply_to, CommandComplete(message.sequence, FAILED, "Remote agents are not served here")
            )
        else:
            yield Note("unserved-message", f"{type(message).__name__} is nothing that an agent answers")

    def _get(self, query: GetQuery, reply_to: str) -> Iterator[Effect]:
        try:
            bodies = self._queries.objects(query)
        except ProtocolError as error:
            # qpidd says nothing at all here, and consoles wait in vain.
            text = str(error).encode("ascii", "replace")[:200].decode()
            yield self._reply(reply_to, CommandComplete(query.sequence, FAILED, text))
            return
        # What an answer lacks, a console takes for gone: who hears of its end afterwards would tell it twice.
        yield from self._deletions()
        for body in bodies:
            yield self._reply_octets(reply_to, body)
        yield self._reply(reply_to, CommandComplete(query.sequence))

    def _call(self, request: MethodRequest, delivery: Delivery, now: int) -> Effect:
        called = self._calls.called(request, self._objects.find(request.object_id), delivery, now)
        return called if isinstance(called, Called | Note) else self._reply(delivery.reply_to, called)

    def _reply(self, reply_to: str, message: Message) -> Send:
        return self._reply_octets(reply_to, write(message, self._definitions))

    def _reply_octets(self, reply_to: str, body: bytes) -> Send:
        return Send(self._config.direct_exchange, reply_to, body)
