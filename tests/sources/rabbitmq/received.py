"""Events of ``amq.rabbitmq.event``, as aio-pika delivered them from a RabbitMQ 3.10.8."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.events import Created, EventReader
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.reading import class_readers
from gateway.sources.rabbitmq.source_events import BrokerEventReceived
from tests.components.shipped_mappings import shipped_mappings

READERS = class_readers(shipped_mappings()["rabbitmq"])
OWNER = "<rabbit@shop.1795163225.1211.0>"
CHANNEL = "<rabbit@shop.1795163225.1230.0>"
TIME = {"timestamp_in_ms": 1795163274583, "user_who_performed_action": "app"}
QUEUE_CREATED = {
    "exclusive": True,
    "owner_pid": OWNER,
    "arguments": ['{<<"x-max-priority">>,byte,3}', '{<<"x-message-ttl">>,unsignedshort,60000}'],
    "auto_delete": False,
    "durable": False,
    "name": "exq",
    "vhost": "seen",
    **TIME,
}
QUORUM_CREATED = {
    "arguments": ['{<<"x-queue-type">>,longstr,<<"quorum">>}'],
    "type": "rabbit_quorum_queue",
    "exclusive": False,
    "auto_delete": False,
    "durable": True,
    "name": "qq",
    "vhost": "seen",
    **TIME,
}
STREAM_CREATED = {
    "type": "rabbit_stream_queue",
    "arguments": ['{<<"x-queue-type">>,longstr,<<"stream">>}'],
    "auto_delete": False,
    "durable": True,
    "name": "log",
    "vhost": "seen",
    **TIME,
}
EXCHANGE_CREATED = {
    "policy": "",
    "arguments": ['{<<"alternate-exchange">>,longstr,<<"amq.fanout">>}'],
    "internal": False,
    "auto_delete": False,
    "durable": True,
    "type": "topic",
    "name": "xx",
    "vhost": "seen",
    **TIME,
}
CONNECTION_CREATED = {
    "node": "rabbit@shop",
    "connected_at": 1795163274577,
    "client_properties": [
        '{<<"capabilities">>,table,[{<<"basic.nack">>,bool,true}]}',
        '{<<"connection_name">>,longstr,<<"w2">>}',
        '{<<"password">>,longstr,<<"hush">>}',
        '{<<"x">>,array,[{byte,1},{table,[{<<"a">>,bool,true}]}]}',
    ],
    "channel_max": 2047,
    "frame_max": 131072,
    "timeout": 60,
    "vhost": "seen",
    "user": "admin",
    "protocol": "{0,9,1}",
    "ssl_protocol": "",
    "auth_mechanism": "PLAIN",
    "peer_cert_subject": "",
    "ssl": False,
    "peer_host": "{127,0,0,1}",
    "host": "{127,0,0,1}",
    "peer_port": 36472,
    "port": 35672,
    "name": "127.0.0.1:36472 -> 127.0.0.1:35672",
    "pid": OWNER,
    "type": "network",
    "user_provided_name": "w2",
    **TIME,
}
CHANNEL_CREATED = {
    "vhost": "seen",
    "user": "admin",
    "number": 1,
    "connection": OWNER,
    "name": "peer -> us (1)",
    "pid": CHANNEL,
    **TIME,
}
CONSUMER_CREATED = {
    "arguments": ['{<<"x-priority">>,byte,5}'],
    "prefetch_count": 10,
    "queue": "orders",
    "vhost": "seen",
    "channel": CHANNEL,
    "ack_required": True,
    "exclusive": False,
    "consumer_tag": "tag",
    **TIME,
}
BINDING_CREATED = {
    "vhost": "seen",
    "arguments": [],
    "routing_key": "a b/c.d*#é~",
    "destination_kind": "queue",
    "destination_name": "orders",
    "source_kind": "exchange",
    "source_name": "e1",
    **TIME,
}
WITH_ARGUMENTS = {"arguments": ['{<<"x-match">>,longstr,<<"all">>}']}


class KnownNames:
    """The names that a source has learnt from former events."""

    def connection_of(self, process: str) -> str | None:
        return {OWNER: "peer -> us"}.get(process)

    def channel_of(self, process: str) -> str | None:
        return {CHANNEL: "peer -> us (1)"}.get(process)

    def consumer_of(self, virtual_host: str, queue: str, tag: str) -> ObjectName | None:
        found = (virtual_host, queue, tag) == ("seen", "orders", "old")
        return ObjectName("consumer", (virtual_host, queue, "former (1)", tag)) if found else None

    def binding_of(self, headers: Mapping[str, Json]) -> ObjectName | None:
        found = headers.get("source_name") == "h1"
        return ObjectName("binding", ("seen", "h1", "queue", "orders", "~yOajQw")) if found else None


def message(
    event: str, headers: Mapping[str, object], timestamp: datetime | None = None
) -> tuple[str, Mapping[str, Json], int]:
    """Return the arguments with which an event reader reads a message."""
    received = BrokerEventReceived.of_message(event, headers, timestamp)
    return received.key, received.headers, received.time


def event_reader() -> EventReader:
    return EventReader(READERS, KnownNames())


def created(event: str, headers: dict[str, Any]) -> tuple[Created, dict[str, Any]]:
    """Return the event, and its properties by name."""
    read = event_reader().read(*message(event, headers))
    assert isinstance(read, Created)
    schema = READERS[read.reading.name.class_name].schema
    reported = zip(schema.properties, read.reading.properties, strict=True)
    return read, {element.name: value for element, value in reported if value is not None}
