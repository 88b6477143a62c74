"""Messages of the event exchange ``amq.rabbitmq.event``: which object came, and which went.

All data are in the headers, nested ones as Erlang text. A creation event is turned into the JSON object that
the management API would show, so that one reader reads both; the API's own answer, once it is there,
is preferred. Implicit deletions of bindings, policies and the rest are nobody's birth or end: `Other`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from gateway.agents.rabbitmq.erlang_terms import (
    address_of_text,
    list_of_text,
    protocol_of_text,
    table_of_texts,
)
from gateway.agents.rabbitmq.headers import event_time, plain_headers
from gateway.agents.rabbitmq.object_names import ObjectName
from gateway.agents.rabbitmq.reading import ClassReader, Reading
from gateway.dialects.errors import ProtocolError
from gateway.mapping.paths import Json, Step, compile_path
from gateway.model.values import ValueType

EVENT_EXCHANGE = "amq.rabbitmq.event"
_QUEUE_TYPES = {
    "": "classic",
    "rabbit_classic_queue": "classic",
    "rabbit_quorum_queue": "quorum",
    "rabbit_stream_queue": "stream",
}
"""A classic queue's creation event carries no type at all."""


@dataclass(frozen=True, slots=True)
class Created:
    """An object came into being at ``time`` (ns, the broker's clock; 0 unknown).

    ``document`` is what its listing would show; ``process`` the Erlang process that events know it by.
    """

    reading: Reading
    time: int
    process: str
    document: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object came to its end at ``time`` (ns, the broker's clock; 0 unknown)."""

    name: ObjectName
    time: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A queue was bound to ``exchange`` with ``routing_key``: perhaps a management console."""

    virtual_host: str
    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class Other:
    """Something else happened, or the event could not be read."""

    event: str


BrokerEvent: TypeAlias = Created | Deleted | Bound | Other

Decode: TypeAlias = "Callable[[Json], Json]"


class EventReader:
    """Reads events of the classes of a mapping.

    Args:
        readers: the readers of JSON objects, by class.
        connection_of: the name of the connection that an Erlang process serves, ``None`` if not known.

    Attributes:
        unreadable: how many events of each name lacked what they must have.
    """

    def __init__(
        self, readers: Mapping[str, ClassReader], connection_of: Callable[[str], str | None]
    ) -> None:
        self._connection_of = connection_of
        self._created = {reader.rule.created_event: reader for reader in readers.values()}
        self._deleted = {reader.rule.deleted_event: reader for reader in readers.values()}
        self._created.pop("", None)
        self._deleted.pop("", None)
        self._headers = {event: self._header_plan(reader) for event, reader in self._created.items()}
        self.unreadable: Counter[str] = Counter()

    @property
    def routing_keys(self) -> tuple[str, ...]:
        """What to bind: the event names that tell of objects, and of consoles that bind."""
        return (*sorted({*self._created, *self._deleted}), "binding.created")

    def read(self, event: str, headers: Mapping[str, object], timestamp: datetime | None) -> BrokerEvent:
        """Read one message; ``event`` is its routing key, ``timestamp`` its AMQP property. Never raises."""
        if event == "binding.created":
            exchange, key, virtual_host = (
                headers.get(name) for name in ("source_name", "routing_key", "vhost")
            )
            if isinstance(exchange, str) and isinstance(key, str) and isinstance(virtual_host, str):
                return Bound(virtual_host, exchange, key)
        elif event in self._created:
            return self._read_created(event, headers, timestamp)
        elif event in self._deleted:
            name = self._deleted[event].name_of(plain_headers(headers))
            if name is not None:
                return Deleted(name, event_time(headers, timestamp))
            self.unreadable[event] += 1
        return Other(event)

    def _read_created(
        self, event: str, headers: Mapping[str, object], timestamp: datetime | None
    ) -> BrokerEvent:
        plain = plain_headers(headers)
        document: dict[str, Json] = {}
        for header, steps, decode in self._headers[event]:
            try:
                value = decode(plain.get(header))
            except ProtocolError:
                self.unreadable[event] += 1
                continue
            if value is not None:
                _place(document, steps, value)
        reading = self._created[event].read(document)
        if reading is None:
            self.unreadable[event] += 1
            return Other(event)
        process = plain.get("pid")
        return Created(
            reading, event_time(headers, timestamp), process if isinstance(process, str) else "", document
        )

    def _header_plan(self, reader: ClassReader) -> tuple[tuple[str, tuple[Step, ...], Decode], ...]:
        """Which header goes where in the JSON object, and how its text is understood."""
        plan = []
        for element in reader.schema.properties:
            rule = reader.rule.properties[element.name]
            steps = compile_path(rule.read or element.name).alternatives[0]
            header = steps[-1].key if rule.event is None else rule.event
            if header:
                plan.append((header, steps, self._decoder(reader.schema.key.name, header, element.type)))
        return tuple(plan)

    def _decoder(  # noqa: PLR0911  one return for each way of writing
        self, class_name: str, header: str, type_: ValueType
    ) -> Decode:
        match class_name, header:
            case "queue", "type":
                return lambda value: _QUEUE_TYPES.get(value or "") if isinstance(value, str | None) else None
            case _, "owner_pid":
                return lambda value: self._connection_of(value) if isinstance(value, str) else None
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

    def _table(self, value: Json) -> Json:
        if not isinstance(value, list):
            return value
        table, unread = table_of_texts(value)
        if unread:
            self.unreadable["entry"] += unread
        return table


def _place(document: dict[str, Json], steps: tuple[Step, ...], value: Json) -> None:
    """Put ``value`` where ``steps`` (which choose out of no list) will find it."""
    here = document
    for step in steps[:-1]:
        inner = here.setdefault(step.key, {})
        if not isinstance(inner, dict):
            return
        here = inner
    here[steps[-1].key] = value
