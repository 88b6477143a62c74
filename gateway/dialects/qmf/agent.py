"""The agent session: serves managed objects to consoles, in the roles of agent and management broker.

A Qpid broker stands between consoles and agents; where nothing intercepts the management exchange (plain
RabbitMQ) the agent answers for the broker too: it binds ``broker``, ``agent.1.0`` and ``schema.#``
itself. Sources: QMF AM2 protocol; behaviour of qpidd where that says nothing.

The program behind it tells objects (`AgentSession.put`, `delete`), calls `flush` soon after creations and
deletions, `tick` when told to wake, and sends what is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from gateway.dialects.effects import Binding, Delivery, Effect, Note, Send, WakeAt
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf import addresses, severities
from gateway.dialects.qmf.agent_objects import (
    MAX_BODY,
    MAX_OBJECTS,
    AgentObjects,
    ManagedObject,
    join_records,
    wire_values,
)
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
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
    MethodResponse,
    PackageIndication,
    PackageQuery,
    Received,
    SchemaRequest,
    SchemaResponse,
    Status,
)
from gateway.dialects.qmf.object_id import ObjectId
from gateway.dialects.qmf.reader import read_body
from gateway.dialects.qmf.schema_records import described_event
from gateway.dialects.qmf.writer import write
from gateway.model.events import Severity
from gateway.model.schema import ClassKey, ClassSchema, EventSchema
from gateway.model.values import Values

__all__ = ["AgentConfig", "AgentSession", "ManagedObject"]

SECOND: Final = 1_000_000_000

_FAILED: Final = 1
"""The completion code that peers use for every refusal."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """How an agent session behaves. Durations are nanoseconds.

    Attributes:
        broker: names this incarnation; a new one at each start of the agent, or consoles miss the restart.
        boot: how often the agent was started; goes into the object ids.
        obey: the users whose requests are served, as the broker checked them.
        publish_interval: between two publications of what changed, each closed by a heartbeat.
        request_deadline: a request older than this is refused, if it carries a time.
        deletion_limit: deletions kept while nothing can be published; beyond it the oldest are lost, and
            consoles find out by the resync that the next start asks them for.
    """

    broker: UUID
    boot: int
    obey: frozenset[str] = field(default_factory=frozenset)
    management_exchange: str = addresses.MANAGEMENT_EXCHANGE
    direct_exchange: str = addresses.DIRECT_EXCHANGE
    publish_interval: int = 10 * SECOND
    request_deadline: int = 30 * SECOND
    deletion_limit: int = 100_000


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
        # Sequence 0 is for ids that outlive restarts: it must never come out.
        object_id = ObjectId.of(sequence=config.boot % 4095 + 1, number=0)
        self._objects = AgentObjects(classes, object_id, config.deletion_limit)
        self._events: dict[tuple[str, str], EventDefinition] = {}
        self._definitions = Definitions()
        self._packages: dict[str, list[ClassDefinition | EventDefinition]] = {}
        for agent_class in self._objects.classes.values():
            self._serve(agent_class.definition)
        for schema in events:
            event = described_event(schema)
            self._events[schema.key.package, schema.key.name] = event
            self._serve(event)
        self._announced = False
        self._started = False
        self._republish = False
        self._next_publication = 0
        self._distrust = ""

    def _serve(self, definition: ClassDefinition | EventDefinition) -> None:
        self._definitions.add(definition)
        self._packages.setdefault(definition.key.package, []).append(definition)

    def bindings(self) -> tuple[Binding, ...]:
        """What the agent's queue must be bound to before `start`."""
        keys = (addresses.BROKER_KEY, addresses.agent_key(addresses.BROKER_AGENT), "schema.#")
        return tuple(Binding(self._config.management_exchange, key) for key in keys)

    # The program's side: objects.

    def put(self, managed: ManagedObject) -> None:
        """Add an object, or tell the values of a known one anew; consoles hear of it by `flush` or `tick`.

        Raises:
            LocalProtocolError: the class is not served, or a value does not fit: nothing has changed then.
        """
        self._objects.put(managed)

    def delete(self, number: int, deleted_at: int) -> bool:
        """Remove an object, deleted at ``deleted_at`` (nanoseconds); False if there is none."""
        return self._objects.delete(number, deleted_at)

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
        return ObjectId.of(sequence=self._config.boot % 4095 + 1, number=number)

    # The link's side.

    def start(self, now: int) -> list[Effect]:
        """The link is up and the objects are known: announce the packages, publish from now on.

        To be called once the first complete reading of what is managed has been put, and again after each
        `suspend`: a console that asks an agent which does not know its objects yet deletes them all.
        """
        if not self._started:
            if not self._announced:
                self._objects.forget_untold()
            self._started = self._announced = self._republish = True
            self._next_publication = now + self._config.publish_interval
        packages = b"".join(write(PackageIndication(0, package)) for package in self._packages)
        effects: list[Effect] = [WakeAt(self._next_publication)]
        if packages:
            effects.insert(0, self._publish(addresses.PACKAGE_KEY, packages))
        return effects

    def suspend(self) -> None:
        """The link is down, or what is managed cannot be read: say nothing until `start`.

        What changes meanwhile is kept, and told then.
        """
        self._started = False

    def console_bound(self, now: int) -> list[Effect]:
        """A console bound its queue (RabbitMQ tells by ``binding.created``): tell everything again.

        It happens at the next interval, as with qpidd, so that many consoles cost no more than one.
        """
        self._republish = True
        return [WakeAt(max(now, self._next_publication))] if self._started else []

    def flush(self, now: int) -> list[Effect]:  # noqa: ARG002  every session method is told the time
        """Publish deletions and creations now. What was created and deleted since then is one record."""
        if not self._started:
            return []
        return [
            *self._contents(self._objects.take_deletions(), persistent=True),
            *self._contents(self._objects.take_creations(), persistent=True),
        ]

    def tick(self, now: int) -> list[Effect]:
        """Publish what is due: each interval deletions, then what changed, then a heartbeat."""
        if not self._started:
            return []
        if now < self._next_publication:
            return [WakeAt(self._next_publication)]
        effects = list(self._contents(self._objects.take_deletions(), persistent=True))
        if self._republish:
            self._republish = False
            effects.extend(self._contents(self._objects.take_all()))
        else:
            effects.extend(self._contents(self._objects.take_creations(), persistent=True))
            effects.extend(self._contents(self._objects.take_changes()))
        heartbeat = addresses.heartbeat_key(addresses.BROKER_AGENT)
        effects.append(self._publish(heartbeat, write(Heartbeat(0, now))))
        # Late ticks do not add up: the next one counts from now.
        self._next_publication = now + self._config.publish_interval
        effects.append(WakeAt(self._next_publication))
        return effects

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
        wire = EventIndication(0, full_key, time, severities.from_model(severity), wire_values(arguments))
        octets = write(wire, self._definitions)
        return self._publish(addresses.event_key(addresses.BROKER_AGENT, full_key), octets, persistent=True)

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """Answer a request. Whatever arrives, nothing is raised; what is refused leaves a note."""
        if delivery.routing_key.startswith("schema."):
            return []  # announcements of agents: our own come back by our own binding, others do not join
        refusal = self._refusal(delivery, now)
        if refusal is not None:
            return [refusal]
        effects: list[Effect] = []
        try:
            for message in read_body(delivery.body, self._definitions):
                effects.extend(self._answer(message, delivery.reply_to))
        except ProtocolError as error:
            effects.append(Note("protocol-error", f"request from {delivery.user_id!r}: {error}"))
        return effects

    def _refusal(self, delivery: Delivery, now: int) -> Note | None:
        size = len(delivery.body)
        age = now - delivery.timestamp if delivery.timestamp else 0
        checks = (
            (delivery.user_id not in self._config.obey, "refused-sender", "only configured users are obeyed"),
            (bool(self._distrust), "distrusted-sender", self._distrust),
            (not self._started, "not-ready", "the objects are not known yet"),
            (size > MAX_BODY, "protocol-error", f"{size} octets, {MAX_BODY} are taken"),
            (not delivery.reply_to, "protocol-error", "no reply-to"),
            # An AMQP 0-9-1 time counts whole seconds. A console that sends none is served all the same.
            (age > self._config.request_deadline + SECOND, "late-request", f"{age // SECOND} s old"),
        )
        for refused, event, detail in checks:
            if refused:
                return Note(event, f"request from {delivery.user_id!r}: {detail}")
        return None

    def _answer(self, message: Received, reply_to: str) -> Iterator[Effect]:
        if isinstance(message, BrokerRequest):
            self._republish = True
            yield self._reply(reply_to, BrokerResponse(message.sequence, self._config.broker))
        elif isinstance(message, PackageQuery):
            yield from self._list_packages(message, reply_to)
        elif isinstance(message, ClassQuery):
            yield from self._list_classes(message, reply_to)
        elif isinstance(message, SchemaRequest):
            yield self._reply(reply_to, self._schema(message))
        elif isinstance(message, GetQuery):
            yield from self._get(message, reply_to)
        elif isinstance(message, MethodRequest):
            yield self._reply(reply_to, self._invoke(message))
        elif isinstance(message, AttachRequest):
            yield self._reply(
                reply_to, CommandComplete(message.sequence, _FAILED, "Remote agents are not served here")
            )
        else:
            yield Note("unserved-message", f"{type(message).__name__} is nothing that an agent answers")

    def _list_packages(self, query: PackageQuery, reply_to: str) -> Iterator[Effect]:
        body = b"".join(write(PackageIndication(query.sequence, package)) for package in self._packages)
        if body:
            yield self._reply_octets(reply_to, body)
        yield self._reply(reply_to, CommandComplete(query.sequence))

    def _list_classes(self, query: ClassQuery, reply_to: str) -> Iterator[Effect]:
        for definition in self._packages.get(query.package, ()):
            kind = ClassKind.OBJECT if isinstance(definition, ClassDefinition) else ClassKind.EVENT
            yield self._reply(reply_to, ClassIndication(query.sequence, kind, definition.key))
        yield self._reply(reply_to, CommandComplete(query.sequence))

    def _schema(self, request: SchemaRequest) -> Message:
        if request.key.package not in self._packages:
            return CommandComplete(request.sequence, _FAILED, "Package not found")
        definition = self._definitions.find_class(request.key) or self._definitions.find_event(request.key)
        if definition is None:
            return CommandComplete(request.sequence, _FAILED, "Class key not found")
        return SchemaResponse(request.sequence, definition)

    def _get(self, query: GetQuery, reply_to: str) -> Iterator[Effect]:
        try:
            records = self._select(query)
        except ProtocolError as error:
            # qpidd says nothing at all here, and consoles wait in vain.
            text = str(error).encode("ascii", "replace")[:200].decode()
            yield self._reply(reply_to, CommandComplete(query.sequence, _FAILED, text))
            return
        # What an answer lacks, a console takes for gone: who hears of its end afterwards would tell it twice.
        yield from self._contents(self._objects.take_deletions(), persistent=True)
        for body in join_records(records, limit=MAX_OBJECTS):
            yield self._reply_octets(reply_to, body)
        yield self._reply(reply_to, CommandComplete(query.sequence))

    def _select(self, query: GetQuery) -> Iterator[list[bytes]]:
        name, package, object_id = map(query.selector.get, ("_class", "_package", "_objectid"))
        if isinstance(name, str):
            found = [
                one
                for (of_package, of_name), agent_class in self._objects.classes.items()
                if of_name == name and package in (None, "", of_package)
                for one in agent_class.objects.values()
            ]
        elif isinstance(object_id, str):
            one_found = self._objects.find(ObjectId.parse(object_id))
            found = [] if one_found is None else [one_found]
        else:
            raise ProtocolError("a get query with _class or _objectid")
        return ([one.object_record(query.sequence)] for one in found)

    def _invoke(self, request: MethodRequest) -> MethodResponse:
        """Refuse a method as qpidd would. No class served so far has any: calls go in here."""
        target = self._objects.find(request.object_id)
        if target is None:
            return MethodResponse(request.sequence, Status.UNKNOWN_OBJECT, "UnknownObject")
        key = target.agent_class.definition.key
        if (key.package, key.name) != (request.key.package, request.key.name):
            return MethodResponse(request.sequence, Status.INVALID_PARAMETER, "InvalidParameter")
        if request.method not in target.agent_class.definition.inputs:
            return MethodResponse(request.sequence, Status.UNKNOWN_METHOD, "UnknownMethod")
        return MethodResponse(request.sequence, Status.NOT_IMPLEMENTED, "NotImplemented")

    def _contents(
        self, bodies: Iterable[tuple[ClassKey, bytes]], *, persistent: bool = False
    ) -> Iterator[Effect]:
        for key, body in bodies:
            routing_key = addresses.object_key(addresses.BROKER_AGENT, key)
            yield self._publish(routing_key, body, persistent=persistent)

    def _publish(self, routing_key: str, body: bytes, *, persistent: bool = False) -> Send:
        return Send(self._config.management_exchange, routing_key, body, persistent=persistent)

    def _reply(self, reply_to: str, message: Message) -> Send:
        return self._reply_octets(reply_to, write(message, self._definitions))

    def _reply_octets(self, reply_to: str, body: bytes) -> Send:
        return Send(self._config.direct_exchange, reply_to, body)
