"""The agent session before AM2: serves managed objects to consoles, in any revision.

It is for peers that have no agent, and for tests. It behaves as the agents of 2008 did, except that it
carries out no request that it has not understood whole, and answers calls of unknown objects and methods
without ending a session. Sources: Apache Qpid management design notes; agents of November 2007 to March 2008.

The program behind it adds and removes objects (`Am01AgentSession.put`, `delete`), passes requests and timers
to `handle`, calls `console_bound` when it learns that a queue was bound, and sends the returned messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from uuid import UUID

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf import addresses, agent_calls
from gateway.dialects.qmf.agent_calls import AgentCalls, model_value
from gateway.dialects.qmf.agent_objects import ManagedObject
from gateway.dialects.qmf.am01.codec import MAX_BODY, read, write
from gateway.dialects.qmf.am01.forms import AM01, GET, SET, read_changes, write_object
from gateway.dialects.qmf.am01.keys import COMMAND_KEY, content_key, event_routing_key, package_key
from gateway.dialects.qmf.am01.messages import (
    ASKED,
    BROADCASTING,
    AgentHello,
    AgentIdentity,
    ClassDescription,
    Message,
    MethodRequest,
    Received,
    Revision,
)
from gateway.dialects.qmf.am01.schemas import described_class, event_key, event_name
from gateway.dialects.qmf.am01.session_state import DEFAULT_PACKAGE, NO_BROKER
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.fields import NO_HASH, ObjectId
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    EventIndication,
    GetQuery,
    MethodResponse,
    ObjectContent,
    PackageIndication,
    PackageQuery,
    PropertyContent,
    SchemaRequest,
    StatisticContent,
)
from gateway.dialects.qmf.messages import MethodRequest as Call
from gateway.dialects.qmf.model_values import wire_severity, wire_values
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.qmf.typed_values import QmfValues
from gateway.dialects.session import (
    Binding,
    Delivery,
    Effect,
    Event,
    EventNotTakenError,
    Note,
    Send,
    TimerExpired,
    WakeAt,
)
from gateway.model.observations import Severity
from gateway.model.schema import Access, ClassKey, ClassSchema, EventSchema
from gateway.model.times import SECOND
from gateway.model.validation import validate
from gateway.model.values import Value, Values

__all__ = ["Am01AgentConfig", "Am01AgentSession", "ManagedObject"]

IDENTITY = "Broker ID"
"""The identity of every agent of February 2008."""

_MAX_TEXT = 200
"""The maximum length of a status text in characters: its length has one octet."""


class Am01AgentSession:
    """An agent before AM2, without I/O.

    Args:
        config: the settings, see `Am01AgentConfig`.
        classes: the classes served; their hashes are computed.
        events: the events that may be raised, named ``<class>.<event>``.

    Raises:
        LocalProtocolError: the revision cannot carry one of them.
    """

    def __init__(
        self, config: Am01AgentConfig, classes: Iterable[ClassSchema], events: Iterable[EventSchema] = ()
    ) -> None:
        self._config = config
        self._revision = config.revision
        self._objects = ServedObjects(config.revision, classes, events, config.deletion_limit)
        self._calls = AgentCalls(config.call_deadline)
        self._started = False
        self._republish = False
        self._publish_at = 0
        self._republish_at = 0

    def bindings(self) -> tuple[Binding, ...]:
        """Return the bindings that the agent's queue must have before `start`."""
        asked = self._revision in ASKED
        keys = (COMMAND_KEY, "agent.method.#") if asked else ("method.#",)
        return tuple(Binding(self._config.management_exchange, key) for key in keys)

    # The program's side.

    def put(self, managed: ManagedObject) -> None:
        """Add an object, or update the values of a known one; consoles get it with the timer.

        Raises:
            LocalProtocolError: the class is not served, or a value does not fit: nothing has changed then.
        """
        self._objects.put(managed)

    def delete(self, number: int, deleted_at: int) -> bool:
        """Remove an object, deleted at ``deleted_at`` (nanoseconds); False if there is none."""
        return self._objects.delete(number, deleted_at)

    def leave_out(self, number: int) -> None:
        """Publish an object no more, without a word of its end."""
        self._objects.leave_out(number)

    @property
    def objects(self) -> ServedObjects:
        """The known objects: supports ``number in``, ``len`` and iteration over numbers."""
        return self._objects

    @property
    def definitions(self) -> Definitions:
        """The served classes and events, as they are sent to consoles."""
        return self._objects.definitions

    def raise_event(self, key: ClassKey, time: int, severity: Severity, arguments: Values) -> list[Effect]:
        """Publish an event at once; nothing while the session is not started.

        Args:
            key: package and ``<class>.<event>``; the hash is not looked at.
            time: the time of the event, nanoseconds since 1970-01-01 UTC.
            severity: travels as one of four words.
            arguments: in schema order.

        Raises:
            LocalProtocolError: the event is not served, events are not configured, or the revision has none.
        """
        owner, name = event_name(key)
        served = self._objects.classes.get((key.package, owner))
        if served is None:
            raise LocalProtocolError(f"event {key} is not served")
        full = event_key(served.definition.key, name)
        level = wire_severity(severity)
        message = EventIndication(0, full, time, level, wire_values(arguments))
        octets = write(message, self._revision, self.definitions, extended=self._config.events)
        return [self._publication(event_routing_key(full, level), octets)] if self._started else []

    # The link's side.

    def start(self, now: int) -> list[Effect]:
        """Announce the packages and publish from now on: the link is up and the objects are known."""
        self._started = self._republish = True
        self._publish_at = now + self._config.publish_interval
        self._republish_at = now
        return [*(self._announcements() if self._revision in ASKED else ()), WakeAt(self._publish_at)]

    def _announcements(self) -> Iterator[Send]:
        key = package_key(self._revision, self._config.broker)
        for package in self._packages():
            yield self._publication(key, write(PackageIndication(0, package), self._revision))

    def suspend(self) -> None:
        """Send nothing until `start`, because the link is down. Changes are kept until then."""
        self._started = False

    def console_bound(self, now: int) -> list[Effect]:
        """Publish everything again at the next interval, until February 2008: a queue was bound."""
        self._republish |= self._revision not in ASKED
        return [WakeAt(max(now, self._publish_at))] if self._started else []

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an event as `Session.handle`: a request, or the timer, which publishes."""
        match event:
            case Delivery():
                return self._receive(event, now)
            case TimerExpired():
                return self._publish_due(now)
            case _:
                raise EventNotTakenError(self, event)

    def _publish_due(self, now: int) -> list[Effect]:
        if not self._started:
            return []
        if now < self._publish_at:
            return [WakeAt(self._publish_at)]
        interval = self._config.republish_interval
        if interval is not None and now - self._republish_at >= interval:
            self._republish = True
        return [*self.flush(now), WakeAt(self._publish_at)]

    def flush(self, now: int) -> list[Effect]:
        """Publish all changes that consoles have not received."""
        if not self._started:
            return []
        if self._republish:
            self._republish, self._republish_at = False, now
            self._objects.publish_everything()
        # Late ticks do not add up: the next one counts from now.
        self._publish_at = now + self._config.publish_interval
        schemas = self._revision not in ASKED
        return [self._reported(one) for one in self._objects.take_news(schemas=schemas)]

    def _reported(self, message: News) -> Send:
        if isinstance(message, ClassDescription):
            kind, key = "schema", message.definition.key
        else:
            kind, key = ("config" if isinstance(message, PropertyContent) else "inst"), message.key
        routing_key = content_key(self._revision, kind, key, self._config.broker)
        return self._publication(routing_key, write(message, self._revision, self.definitions))

    def _publication(self, routing_key: str, body: bytes) -> Send:
        return Send(self._config.management_exchange, routing_key, body)

    # Requests.

    def _receive(self, delivery: Delivery, now: int) -> list[Effect]:
        who = f"request from {delivery.user_id!r}"
        if delivery.user_id not in self._config.allowed_users:
            return [Note("refused-sender", f"{who}: not an allowed user")]
        if not self._started:
            return [Note("not-ready", f"{who}: the objects are not known yet")]
        if not delivery.reply_to and self._revision is not Revision.NOVEMBER_2007:
            return [Note("protocol-error", f"{who}: no reply-to")]
        try:
            revisions = frozenset((self._revision,))
            reading = read(delivery.routing_key, delivery.body, self.definitions, revisions)
            return list(self._answer(reading.message, delivery, now))
        except ProtocolError as error:
            return [Note("protocol-error", f"{who}: {error}")]

    def _answer(self, message: Received, delivery: Delivery, now: int) -> Iterator[Effect]:
        reply_to = delivery.reply_to
        match message:
            case AgentHello():
                yield self._reply(reply_to, AgentIdentity(IDENTITY))
            case BrokerRequest(sequence):
                yield self._reply(reply_to, BrokerResponse(sequence, self._config.broker))
            case PackageQuery(sequence):
                indications = (PackageIndication(sequence, package) for package in self._packages())
                yield from self._listed(reply_to, sequence, indications)
            case ClassQuery(sequence, package):
                keys = (
                    one.definition.key for one in self._objects.classes.values() if one.package == package
                )
                classes = (ClassIndication(sequence, ClassKind.OBJECT, key) for key in keys)
                yield from self._listed(reply_to, sequence, classes)
            case SchemaRequest(sequence, key):
                yield from self._describe(reply_to, sequence, key)
            case GetQuery(sequence, selector):
                found = self._objects.of_class(str(selector.get("_class", "")))
                yield from self._listed(reply_to, sequence, (one.whole(sequence) for one in found))
            case MethodRequest():
                asked = replace(delivery, reply_to=message.reply_queue or reply_to)
                done = self._called(message, asked, now)
                yield self._reply(asked.reply_to, done) if isinstance(done, MethodResponse) else done
            case _:
                yield Note("unserved-message", f"{type(message).__name__} is not a request to an agent")

    def _listed(self, reply_to: str, sequence: int, messages: Iterable[Message]) -> Iterator[Effect]:
        for message in messages:
            yield self._reply(reply_to, message)
        if self._revision is Revision.MARCH_2008:
            yield self._reply(reply_to, CommandComplete(sequence))

    def _describe(self, reply_to: str, sequence: int, key: ClassKey) -> Iterator[Effect]:
        for served in self._objects.classes.values():
            if served.definition.key == key:
                self._republish = True
                yield self._reply(reply_to, replace(served.description, sequence=sequence))

    def _packages(self) -> Iterable[str]:
        return dict.fromkeys(package for package, _ in self._objects.classes)

    def _reply(self, reply_to: str, message: Message) -> Send:
        return Send(self._config.direct_exchange, reply_to, write(message, self._revision, self.definitions))

    # Calls.

    def method_done(self, handle: int, status: int, text: str, outputs: Values = ()) -> list[Effect]:
        """Send the result of a call or a set, if a console waits for it.

        Args:
            handle: the handle of the `Called` or `ModifyAsked`.
            status: `Status`, or 0x10000 and up for one of the program's own; November 2007 has 0 to 3 only,
                and gets 3 for all others.
            text: one line for people.
            outputs: the ``OUT`` and ``INOUT`` arguments in schema order; may be left out after a failure.

        Raises:
            LocalProtocolError: the outputs do not fit the method.
        """
        waiting = self._calls.ended(handle)
        if waiting is None:
            return []
        answer = agent_calls.response(waiting, status, text, outputs)
        return [self._reply(waiting.reply_to, self._carried(answer))]

    def _carried(self, answer: MethodResponse) -> MethodResponse:
        """Return an answer in the form that the revision can carry."""
        status = answer.status
        if self._revision is Revision.NOVEMBER_2007 and status > Status.NOT_IMPLEMENTED:
            status = int(Status.NOT_IMPLEMENTED)
        return replace(answer, status=status, text=answer.text[:_MAX_TEXT])

    def _called(self, request: MethodRequest, delivery: Delivery, now: int) -> Effect | MethodResponse:
        target = self._objects.find(request.object_id)
        key = self._class_reported(request)
        if self._config.get_and_set and target is not None and target.is_of(key):
            if request.method == GET:
                return self._got(request, target)
            if request.method == SET:
                return self._set(request, target, delivery, now)
        call = Call(request.sequence, request.object_id, key, request.method, request.arguments)
        done = self._calls.called(call, target, delivery, now)
        return self._carried(done) if isinstance(done, MethodResponse) else done

    def _class_reported(self, request: MethodRequest) -> ClassKey:
        """Return the class that the routing key names, without the hash, which keys do not have."""
        package, name = request.key.package, request.key.name
        unnamed = self._revision in BROADCASTING and package == self._config.package
        return ClassKey("" if unnamed else package, name, NO_HASH)

    def _got(self, request: MethodRequest, target: ServedObject) -> MethodResponse:
        if request.arguments:
            text = f"InvalidParameter: a get has no arguments, found {len(request.arguments)} octets"
            return self._carried(MethodResponse(request.sequence, Status.INVALID_PARAMETER, text))
        octets = write_object(target.definition, target.properties, target.statistics)
        return MethodResponse(request.sequence, Status.OK, "OK", octets)

    def _set(
        self, request: MethodRequest, target: ServedObject, delivery: Delivery, now: int
    ) -> Effect | MethodResponse:
        try:
            values = _settable(target, request.arguments)
        except ProtocolError as error:
            text = f"InvalidParameter: {error}".encode("ascii", "replace").decode()
            return self._carried(MethodResponse(request.sequence, Status.INVALID_PARAMETER, text))
        done = self._calls.modify_asked(request.sequence, target, values, delivery, now)
        return self._carried(done) if isinstance(done, MethodResponse) else done


def _settable(target: ServedObject, arguments: bytes) -> dict[str, Value]:
    """Return the values of a set request; raise `ProtocolError` if the schema does not allow them."""
    elements = {element.name: element for element in target.definition.schema.properties}
    values: dict[str, Value] = {}
    for name, wire in read_changes(target.definition, arguments).items():
        value = model_value(wire)
        if elements[name].access is not Access.READ_WRITE or value is None:
            raise ProtocolError("a property that can be set", name)
        wrong = validate(elements[name], value)
        if wrong is not None:
            raise ProtocolError(f"a value that fits {name}", wrong.text)
        values[name] = value
    return values


@dataclass(frozen=True, slots=True)
class Am01AgentConfig:
    """The settings of an agent session before AM2. Durations are nanoseconds.

    Attributes:
        revision: the protocol revision of the agent.
        allowed_users: the users whose requests are served, as the broker checked them.
        broker: the id of this incarnation for consoles of March 2008; a new one at each start.
        package: the package in keys of calls until January 2008, whose classes have none.
        publish_interval: the interval of publications of changes.
        republish_interval: the interval of publications of everything, for consoles whose queue bindings
            are not noticed; ``None``: only after `Am01AgentSession.console_bound`, or an answered S.
        get_and_set: whether get and set are served, in our layout (`get_and_set`).
        events: whether events are sent, in our layout (`records`).
        call_deadline: the time from a call's arrival to its latest start, if it names no time of its own.
        deletion_limit: deletions kept until they are published; beyond it the oldest are lost.
    """

    revision: Revision
    allowed_users: frozenset[str] = field(default_factory=frozenset)
    broker: UUID = NO_BROKER
    package: str = DEFAULT_PACKAGE
    management_exchange: str = addresses.MANAGEMENT_EXCHANGE
    direct_exchange: str = addresses.DIRECT_EXCHANGE
    publish_interval: int = 10 * SECOND
    republish_interval: int | None = None
    get_and_set: bool = False
    events: bool = False
    call_deadline: int = 30 * SECOND
    deletion_limit: int = 100_000


News: TypeAlias = ClassDescription | PropertyContent | StatisticContent
"""The messages that an agent sends without a request."""


class ServedClass:
    """A class in the form of a revision; ``untold`` while its schema is still to be sent to consoles."""

    def __init__(self, schema: ClassSchema, events: Iterable[EventSchema], revision: Revision) -> None:
        definition, described = described_class(schema, tuple(events))
        if revision in BROADCASTING:
            key = ClassKey("", schema.key.name)
            definition = ClassDefinition.of(replace(schema, key=key), AM01)
            described = tuple(
                EventDefinition.of(replace(one.schema, key=event_key(key, event_name(one.key)[1])), AM01)
                for one in described
            )
        self.package = schema.key.package
        self.definition = definition
        self.events = described
        self.untold = True

    @property
    def description(self) -> ClassDescription:
        """The schema message of the class."""
        return ClassDescription(0, self.definition, self.events)


class ServedObject:
    """One object; ``properties_changed`` and ``statistics_changed`` are since the last publication."""

    def __init__(self, served: ServedClass, managed: ManagedObject) -> None:
        self.served = served
        self.object_id = ObjectId(0, managed.number)
        self.created = managed.created
        self.sampled = 0
        self.properties: QmfValues = ()
        self.statistics: QmfValues = ()
        self.properties_changed = self.statistics_changed = True

    @property
    def definition(self) -> ClassDefinition:
        """The definition of the object's class."""
        return self.served.definition

    def is_of(self, key: ClassKey) -> bool:
        """Return whether its class has this package and name, which calls name."""
        own = self.definition.key
        return (own.package, own.name) == (key.package, key.name)

    def take(self, managed: ManagedObject) -> None:
        """Set the present values."""
        properties, statistics = wire_values(managed.properties), wire_values(managed.statistics)
        self.properties_changed |= properties != self.properties
        self.statistics_changed |= statistics != self.statistics
        self.properties, self.statistics, self.sampled = properties, statistics, managed.sampled

    def records(self, deleted: int = 0) -> Iterator[PropertyContent | StatisticContent]:
        """Yield the records of unpublished changes, and mark them as published."""
        key = self.definition.key
        head = (key, self.sampled, self.created, deleted, self.object_id)
        if self.properties_changed or deleted:
            yield PropertyContent(0, *head, self.properties)
        if self.statistics_changed and self.definition.schema.statistics:
            yield StatisticContent(0, *head, None, self.statistics)
        self.properties_changed = self.statistics_changed = False

    def whole(self, sequence: int) -> ObjectContent:
        """Return the answer to a get query."""
        head = (self.definition.key, self.sampled, self.created, 0, self.object_id)
        return ObjectContent(sequence, *head, self.properties, self.statistics)


class ServedObjects:
    """The objects of an agent session before AM2.

    Args:
        revision: the protocol revision.
        classes: the served classes; names are unique within a package, until January 2008 over all.
        events: the events, named ``<class>.<event>``, of classes among these.
        deletion_limit: deletions kept while they cannot be published.

    Raises:
        LocalProtocolError: the revision cannot carry one of them, or it is given twice.
    """

    def __init__(
        self,
        revision: Revision,
        classes: Iterable[ClassSchema],
        events: Iterable[EventSchema],
        deletion_limit: int,
    ) -> None:
        self.definitions = Definitions()
        self.classes: dict[tuple[str, str], ServedClass] = {}
        reported = tuple(events)
        self._revision = revision
        self._objects: dict[int, ServedObject] = {}
        self._deleted: deque[tuple[ServedObject, int]] = deque(maxlen=deletion_limit)
        for schema in classes:
            name = (schema.key.package, schema.key.name)
            own = [one for one in reported if (one.key.package, event_name(one.key)[0]) == name]
            served = ServedClass(schema, own, revision)
            if served.definition.key in self.definitions:
                raise LocalProtocolError(f"class {schema.key} is given twice")
            self.classes[name] = served
            self.definitions.add(served.definition)
            for event in served.events:
                self.definitions.add(event)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, number: int) -> bool:
        return number in self._objects

    def __iter__(self) -> Iterator[int]:
        return iter(self._objects)

    def find(self, object_id: ObjectId) -> ServedObject | None:
        """Return the object of this id."""
        return None if object_id.prefix else self._objects.get(object_id.number)

    def of_class(self, name: str) -> Iterator[ServedObject]:
        """Return the objects of all classes of this name, in any package."""
        return (one for one in self._objects.values() if one.definition.key.name == name)

    def put(self, managed: ManagedObject) -> None:
        """Add an object, or update its values.

        Raises:
            LocalProtocolError: its class is not served, or its values do not fit it or a message; nothing
                has changed then.
        """
        served = self.classes.get((managed.key.package, managed.key.name))
        if served is None:
            raise LocalProtocolError(f"class {managed.key} is not served")
        known = self._objects.get(managed.number)
        if known is not None and known.served is not served:
            raise LocalProtocolError(f"object {managed.number} is of another class than {managed.key}")
        tried = ServedObject(served, managed)
        tried.take(managed)
        # Together, as who asks for the object is told both at once.
        octets = sum(len(write(record, self._revision, self.definitions)) for record in tried.records())
        if octets > MAX_BODY:
            raise LocalProtocolError(f"an object of {managed.key} does not fit {MAX_BODY} octets")
        if known is None:
            known = self._objects[managed.number] = ServedObject(served, managed)
        known.take(managed)

    def delete(self, number: int, deleted: int) -> bool:
        """Remove an object; False if there is none of this number."""
        gone = self._objects.pop(number, None)
        if gone is None:
            return False
        self._deleted.append((gone, deleted))
        return True

    def leave_out(self, number: int) -> None:
        """Forget an object, as if it had never been."""
        del self._objects[number]

    def publish_everything(self) -> None:
        """Mark all schemas and objects as unpublished."""
        for served in self.classes.values():
            served.untold = True
        for one in self._objects.values():
            one.properties_changed = one.statistics_changed = True

    def take_news(self, *, schemas: bool) -> Iterator[News]:
        """Yield all unpublished records, with ``schemas`` those of classes, too; mark them as published."""
        deleted = list(self._deleted)
        self._deleted.clear()
        for gone, when in deleted:
            yield from self._records(gone, when, schemas=schemas)
        for number in sorted(self._objects):
            yield from self._records(self._objects[number], 0, schemas=schemas)

    def _records(self, served: ServedObject, deleted: int, *, schemas: bool) -> Iterator[News]:
        if schemas and served.served.untold:
            served.served.untold = False
            yield served.served.description
        yield from served.records(deleted)
