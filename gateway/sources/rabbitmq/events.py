"""Messages of the event exchange ``amq.rabbitmq.event``: which object was created, changed, or ended.

All data are in the headers, nested ones as Erlang text. A creation event is turned into the JSON object that
the management API would show, so that one reader reads both; the API's own answer is preferred once it is
there. Events name a channel by its Erlang process, and its end by nothing else.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from gateway.dialects.errors import ProtocolError
from gateway.mapping.paths import Json, Step, compile_path
from gateway.model.values import ValueType
from gateway.sources.rabbitmq.event_headers import (
    address_of_text,
    list_of_text,
    protocol_of_text,
    table_of_texts,
)
from gateway.sources.rabbitmq.listing import completed_binding
from gateway.sources.rabbitmq.object_names import (
    ObjectName,
    connection_of_channel,
    is_shown_component,
    plain_text,
)
from gateway.sources.rabbitmq.reading import ClassReader, Reading

EVENT_EXCHANGE = "amq.rabbitmq.event"
BINDING_CREATED = "binding.created"
BINDING_DELETED = "binding.deleted"
QUEUE_DELETED = "queue.deleted"
_QUEUE_TYPES = {
    "": "classic",
    "rabbit_classic_queue": "classic",
    "rabbit_quorum_queue": "quorum",
    "rabbit_stream_queue": "stream",
    "rabbit_mqtt_qos0_queue": "rabbit_mqtt_qos0_queue",
}
"""Queue types by their names in events; a classic queue's creation event carries none."""


@dataclass(frozen=True, slots=True)
class Created:
    """An object was created at ``time`` (ns, the broker's clock; 0 unknown).

    ``document`` is the object as a listing would show it. ``process`` is the Erlang process by which events
    name it.
    """

    reading: Reading
    time: int
    process: str
    document: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object ended at ``time`` (ns, the broker's clock; 0 unknown)."""

    name: ObjectName
    time: int


@dataclass(frozen=True, slots=True)
class Changed:
    """An object of a class has changed, which only a listing shows completely; ``name``: of the object."""

    class_name: str
    name: ObjectName | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """A queue was bound to ``exchange`` with ``routing_key``: it may be a management console's."""

    virtual_host: str
    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class Other:
    """Another event, or one that could not be read."""

    event: str


BrokerEvent: TypeAlias = Created | Deleted | Changed | Other

Decode: TypeAlias = "Callable[[Json], Json]"


_CHANGES = {
    "policy.set": "policy",
    "operator.policy.set": "operatorPolicy",
    "permission.created": "permission",
    "topic.permission.created": "topicPermission",
    "topic.permission.deleted": "topicPermission",
    "parameter.set": "parameter",
    "user.tags.set": "user",
    "user.limits.set": "user",
    "user.limits.cleared": "user",
}
"""Events of creations and changes of objects; an operator policy is set as if it were a policy."""


class Names(Protocol):
    """Finds objects by the names that events use."""

    def connection_of(self, process: str) -> str | None:
        """Return the name of the connection that an Erlang process serves, ``None`` if unknown."""
        ...

    def channel_of(self, process: str) -> str | None:
        """Return the name of the channel that an Erlang process serves, ``None`` if unknown."""
        ...

    def consumer_of(self, virtual_host: str, queue: str, tag: str) -> ObjectName | None:
        """Return the consumer of a queue with a tag, ``None`` if none or several are known."""
        ...

    def binding_of(self, headers: Mapping[str, Json]) -> ObjectName | None:
        """Return the binding with arguments that an event reports, ``None`` if none or several are known."""
        ...


class EventReader:
    """Reads events of the classes of a mapping.

    Args:
        readers: the readers of JSON objects, by class.
        names: finds objects by the names that events use.

    Attributes:
        unreadable: the number of events that lacked required headers, by name.
    """

    def __init__(self, readers: Mapping[str, ClassReader], names: Names) -> None:
        self._names = names
        self._readers = readers
        self._created = {reader.rule.created_event: reader for reader in readers.values()}
        self._deleted = {reader.rule.deleted_event: reader for reader in readers.values()}
        self._created.pop("", None)
        self._deleted.pop("", None)
        self._headers = {name: self._header_plan(reader) for name, reader in readers.items()}
        self.unreadable: Counter[str] = Counter()

    @property
    def routing_keys(self) -> tuple[str, ...]:
        """The routing keys to bind: events about objects, and about consoles that bind queues."""
        changes = (event for event, class_name in _CHANGES.items() if class_name in self._readers)
        # Binding events come last; an operator policy's setting has no event of its own.
        others = {*self._created, *self._deleted, *changes} - {BINDING_CREATED, OPERATOR_POLICY_SET}
        return (*sorted(others), BINDING_CREATED)

    def read(self, event: str, plain: Mapping[str, Json], time: int) -> BrokerEvent:
        """Read the message of a broker's event that happened at ``time`` (ns). Never raises."""
        if event in _CHANGES:
            return self._read_changed(event, plain)
        if event in {BINDING_CREATED, BINDING_DELETED} and "binding" in self._readers:
            if plain.get("arguments"):
                return self._read_with_arguments(event, plain, time)
            plain = completed_binding(plain)
        if event in self._created:
            return self._read_created(event, plain, time)
        if event in self._deleted:
            return self._read_deleted(event, plain, time)
        return Other(event)

    def _read_created(self, event: str, plain: Mapping[str, Json], time: int) -> BrokerEvent:
        reader = self._created[event]
        document = self._document(reader, plain)
        if event == "consumer.created" and reader.name_of(document) is None:
            # Its channel is not shown, or was opened unnoticed: the listing shows the consumer.
            return Other(event)
        reading = reader.read(document)
        if reading is None:
            self.unreadable[event] += 1
            return Other(event)
        process = plain.get("pid")
        return Created(reading, time, process if isinstance(process, str) else "", document)

    def _read_deleted(self, event: str, plain: Mapping[str, Json], time: int) -> BrokerEvent:
        reader = self._deleted[event]
        if event == "channel.closed":
            process = plain.get("pid")
            channel = self._names.channel_of(process) if isinstance(process, str) else None
            return Other(event) if channel is None else Deleted(ObjectName("channel", (channel,)), time)
        name = reader.name_of(self._document(reader, plain))
        if reader.schema.key.name == "parameter" and not is_shown_component(plain.get("component")):
            return Other(event)  # limits, operator policies and similar ones are no objects
        if name is None and event == "consumer.deleted":
            texts = [
                text for key in ("vhost", "queue", "consumer_tag") if isinstance(text := plain.get(key), str)
            ]
            name = self._names.consumer_of(*texts) if len(texts) == 3 else None  # noqa: PLR2004  as above
            return Other(event) if name is None else Deleted(name, time)
        if name is None:
            self.unreadable[event] += 1
            return Other(event)
        return Deleted(name, time)

    def _read_changed(self, event: str, plain: Mapping[str, Json]) -> BrokerEvent:
        class_name = _CHANGES[event]
        reader = self._readers.get(class_name)
        hidden = class_name == "parameter" and not is_shown_component(plain.get("component"))
        if reader is None or hidden:
            return Other(event)
        if "username" in plain:
            # These are limits of a user; the name of the limits themselves is always the same.
            plain = {**plain, "name": plain["username"]}
        return Changed(class_name, reader.name_of(plain))

    def _read_with_arguments(self, event: str, plain: Mapping[str, Json], time: int) -> BrokerEvent:
        """Read an event about a binding with arguments, which does not contain its name in listings."""
        name = self._names.binding_of(plain) if event == BINDING_DELETED else None
        return Changed("binding") if name is None else Deleted(name, time)

    def _document(self, reader: ClassReader, plain: Mapping[str, Json]) -> dict[str, Json]:
        """Return the object of an event with these headers in the form of a listing."""
        document: dict[str, Json] = {}
        for header, steps, decode in self._headers[reader.schema.key.name]:
            try:
                value = decode(plain.get(header))
            except ProtocolError:
                self.unreadable[reader.rule.created_event] += 1
                continue
            if value is not None:
                _place(document, steps, value)
        return document

    def _header_plan(self, reader: ClassReader) -> tuple[tuple[str, tuple[Step, ...], Decode], ...]:
        """Return which header goes where in the JSON object, and how its text is decoded."""
        plan = []
        for element in reader.schema.properties:
            rule = reader.rule.properties[element.name]
            steps = compile_path(rule.read or element.name).alternatives[0]
            header = steps[-1].key if rule.event is None else rule.event
            if header:
                decode = self._decoder(reader.schema.key.name, element.name, header, element.type)
                plan.append((header, steps, decode))
        return tuple(plan)

    def _decoder(  # noqa: PLR0911  one return for each way of writing
        self, class_name: str, element: str, header: str, type_: ValueType
    ) -> Decode:
        match class_name, header:
            case "channel", "name" if element == "connection":
                return lambda value: connection_of_channel(value) if isinstance(value, str) else None
            case "consumer", "channel":
                return self._consumer_decoder(element)
            case "queue", "type":
                return lambda value: _QUEUE_TYPES.get(value or "") if isinstance(value, str | None) else None
            case _, "owner_pid":
                return lambda value: (
                    _plain(self._names.connection_of(value)) if isinstance(value, str) else None
                )
            case _, "host" | "peer_host":
                return lambda value: address_of_text(value) if isinstance(value, str) else value
            case _, "protocol":
                return lambda value: protocol_of_text(value) if isinstance(value, str) else value
        match type_:
            case ValueType.MAP:
                return self._table
            case ValueType.LIST:
                return lambda value: list_of_text(value) if isinstance(value, str) else value
        return lambda value: value

    def _consumer_decoder(self, element: str) -> Decode:
        """Return the decoder of a consumer's process: of a channel, or of a connection without channels."""

        def channel(process: Json) -> str | None:
            return self._names.channel_of(process) if isinstance(process, str) else None

        def connection(process: Json) -> str | None:
            name = channel(process)
            if name is not None:
                return connection_of_channel(name)
            return self._names.connection_of(process) if isinstance(process, str) else None

        match element:
            case "channelObject":
                return channel
            case "connectionObject":
                return connection
        return lambda process: _plain(channel(process) or connection(process))

    def _table(self, value: Json) -> Json:
        if not isinstance(value, list):
            return value
        table, unread = table_of_texts(value)
        if unread:
            self.unreadable["entry"] += unread
        return table


def bound(headers: Mapping[str, object]) -> Bound | None:
    """Return the binding that an event ``binding.created`` reports."""
    exchange, key, virtual_host = (headers.get(name) for name in ("source_name", "routing_key", "vhost"))
    if isinstance(exchange, str) and isinstance(key, str) and isinstance(virtual_host, str):
        return Bound(virtual_host, exchange, key)
    return None


def _plain(name: str | None) -> str | None:
    return None if name is None else plain_text(name)


def _place(document: dict[str, Json], steps: tuple[Step, ...], value: Json) -> None:
    """Put ``value`` where ``steps``, none of which selects in a list, will find it."""
    here = document
    for step in steps[:-1]:
        inner = here.setdefault(step.key, {})
        if not isinstance(inner, dict):
            return
        here = inner
    here[steps[-1].key] = value


OPERATOR_POLICY_SET: Final = "operator.policy.set"
MAX_REMEMBERED: Final = 10_000
"""Maximum number of operator policies being set, and of shovels and links, that are kept."""

_OPERATOR_POLICY: Final = "operator_policy"
_VHOST_LIMITS: Final = "vhost-limits"
_GLOBAL: Final = "global"
_STATES: Final = {
    "shovel.worker.status": "shovel",
    "shovel.worker.removed": "shovel",
    "federation.link.status": "federation",
    "federation.link.removed": "federation",
}
REMOVALS: Final = frozenset(event for event in _STATES if event.endswith(".removed"))
"""Events that report the end of an object that a parameter made, after that of the parameter itself."""
_PASSING: Final = "starting"
_WHICH: Final = ("vhost", "name", "upstream", "exchange", "queue", "id")


class EventKinds:
    """Distinguishes kinds of events by those before them.

    - Setting an operator policy raises ``parameter.set`` and then ``policy.set``, which looks like that of a
      policy. It is ``operator.policy.set`` here.
    - Clearing the last limit of a virtual host raises ``parameter.set`` with an empty value. It is
      ``parameter.cleared`` here.
    - Clearing a global parameter of RabbitMQ 3.10 raises ``parameter.set`` without a value. It is
      ``parameter.cleared``, too.
    - A shovel or federation link that fails repeatedly reports it each time, and its removal is raised twice.
    """

    def __init__(self) -> None:
        self._operator_policies: OrderedDict[tuple[Json, ...], Json] = OrderedDict()
        self._states: OrderedDict[tuple[Json, ...], Json] = OrderedDict()

    def kind(self, event: str, headers: Mapping[str, Json]) -> str:
        """Return the kind of an event with this routing key; this is called once for each event, in order."""
        which = (_text(headers.get("vhost")), _text(headers.get("name")))
        if event == "parameter.set" and headers.get("component") == _OPERATOR_POLICY:
            value = headers.get("value")
            pattern = value.get("pattern") if isinstance(value, Mapping) else None
            _remember(self._operator_policies, which, _text(pattern))
        elif event == "parameter.set" and headers.get("component") == _VHOST_LIMITS:
            return event if headers.get("value") else "parameter.cleared"
        elif event == "parameter.set" and headers.get("component") == _GLOBAL:
            return event if "value" in headers else "parameter.cleared"
        elif event == "policy.set" and self._operator_policies.get(which, ...) == _text(
            headers.get("pattern")
        ):
            del self._operator_policies[which]
            return OPERATOR_POLICY_SET
        return event

    def repeats(self, event: str, headers: Mapping[str, Json]) -> bool:
        """Return whether an event repeats the last state of a shovel or federation link.

        A new start is no separate state: it follows each failure.
        """
        family = _STATES.get(event)
        if family is None:
            return False
        state = headers.get("status") if event.endswith(".status") else "removed"
        if state == _PASSING:
            return True
        which = (family, *(_text(headers.get(key)) for key in _WHICH))
        repeated = self._states.get(which) == _text(state)
        _remember(self._states, which, _text(state))
        return repeated

    def forget(self) -> None:
        """Drop the state, because events were lost."""
        self._operator_policies.clear()
        self._states.clear()


def completed_headers(event: str, headers: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return headers with the name of the runtime parameter that made a shovel or federation link."""
    match _STATES.get(event):
        case "shovel":
            return {**headers, "component": "shovel"}
        case "federation":
            return {**headers, "component": "federation-upstream", "name": headers.get("upstream")}
    return headers


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _remember(table: OrderedDict[tuple[Json, ...], Json], key: tuple[Json, ...], value: Json) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > MAX_REMEMBERED:
        table.popitem(last=False)
