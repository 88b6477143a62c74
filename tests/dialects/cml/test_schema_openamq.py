"""OpenAMQ's classes in the model, as its broker reports them."""

from __future__ import annotations

from gateway.dialects.cml.codec import read_message
from gateway.dialects.cml.messages import (
    Field,
    SchemaReply,
)
from gateway.dialects.cml.schema import ClassDescription, read_classes
from gateway.model.schema import Access
from gateway.model.values import Reference, ValueType
from tests.dialects.cml.recordings import exchange

# Section 9 of what was measured: s string, i int, b bool, r reference; * can be set.
OPENAMQ = {
    "broker": ("name:s started:s locked:b datamem:s bucketmem:s messages:i consumers:i bindings:i config:r"),
    "exchange": "name:s type:s bindings:i messages_in:i messages_out:i megabytes_in:i megabytes_out:i",
    "binding": "name:s arguments:s queues:i exclusive:b",
    "queue": (
        "name:s pending:i exclusive:b client:s exchange_name:s exchange_type:s routing_key:s "
        "binding_args:s auto_delete:b consumers:i messages_in:i messages_out:i megabytes_in:i "
        "megabytes_out:i drop_count:i"
    ),
    "queue_connection": (
        "name:s address:s user_name:s instance:s started:s messages_in:i messages_out:i "
        "megabytes_in:i megabytes_out:i product:s version:s platform:s information:s trace:i*"
    ),
    "queue_binding": "name:s exchange_name:s exchange_type:s binding_args:s exclusive:b",
    "connection": (
        "name:s pending:i address:s user_name:s instance:s started:s messages_in:i messages_out:i "
        "megabytes_in:i megabytes_out:i product:s version:s platform:s information:s trace:i*"
    ),
    "connection_queue": (
        "name:s enabled:s* exclusive:b exchange_name:s exchange_type:s routing_key:s binding_args:s "
        "auto_delete:b consumers:i pending:i messages_in:i messages_out:i megabytes_in:i "
        "megabytes_out:i dropped:i"
    ),
    "config": (
        "name:s port:s* listen:s* queue_timeout:i* vhost:s* user:s* group:s* monitor:i* "
        "dump_state:i* record_stats:b* log_path:s* keep_logs:b* archive_cmd:s* alert_log:s* "
        "daily_log:s* debug_log:s* debug_route:b* debug_queue:b* debug_peering:b* debug_console:b* "
        "trace:i* syslog:i* coremark_cycles:i* heartbeat:i* setup_timeout:i* close_timeout:i* "
        "accept_retry_timeout:i* polling_threads:i* working_threads:i* tcp_nodelay:b* tcp_rcvbuf:i* "
        "tcp_sndbuf:i* frame_max:i* direct:i* private_credit:i* shared_credit:i* backup:s* "
        "primary:s* failover_timeout:i* attach:s* attach_vhost:s* attach_login:s* attach_all:s* "
        "batching:i* direct_heartbeat:i* no_ack:b* auto_crash:i* auto_block:i* kernel_limit:i*"
    ),
}
PARENTS = {
    "exchange": "broker",
    "binding": "exchange",
    "queue": "broker",
    "queue_connection": "queue",
    "queue_binding": "queue",
    "connection": "broker",
    "connection_queue": "connection",
    "config": "broker",
}
METHODS = {
    "broker": "shutdown() lock(setting) verbose(setting)",
    "queue": "purge()",
    "queue_connection": "kill()",
    "connection": "kill()",
    "connection_queue": "purge() push()",
    "config": "commit() rollback()",
}
_LETTERS = {ValueType.STRING: "s", ValueType.U32: "i", ValueType.BOOL: "b", ValueType.REFERENCE: "r"}


def _openamq() -> dict[str, ClassDescription]:
    reply = read_message(exchange("schema-002").replies[0])
    assert isinstance(reply, SchemaReply)
    assert (reply.name, reply.version, reply.status) == ("openamq.org/server", "1.0", "ok")
    return {each.schema.key.name: each for each in read_classes(reply)}


def test_openamqs_classes_in_the_model() -> None:
    classes = {name: each.schema for name, each in _openamq().items()}
    elements = {
        name: " ".join(
            f"{each.name}:{_LETTERS[each.type]}{'*' * (each.access is Access.READ_WRITE)}"
            for each in schema.properties
            if each.name != "parentRef"
        )
        for name, schema in classes.items()
    }
    assert elements == OPENAMQ
    methods = {
        name: " ".join(
            f"{each.name}({', '.join(one.name for one in each.arguments)})" for each in schema.methods
        )
        for name, schema in classes.items()
        if schema.methods
    }
    assert methods == METHODS
    parents = {
        name: schema.properties[0].references
        for name, schema in classes.items()
        if schema.properties[0].name == "parentRef"
    }
    assert parents == PARENTS
    for schema in classes.values():
        assert schema.key.package == "openamq.org.server"
        assert [each.name for each in schema.properties if each.index] in (
            ["name"],
            ["parentRef", "name"],
        )


def test_a_broker_as_it_was_recorded() -> None:
    broker, reply = _openamq()["broker"], read_message(exchange("inspect-broker-001").replies[0])
    found = broker.read_object(reply.fields)  # type: ignore[union-attr]
    shown = dict(zip([each.name for each in broker.schema.properties], found.values, strict=True))
    assert (shown["name"], shown["started"], shown["locked"]) == (
        "OpenAMQ 1.4c1",
        "2026-11-20T07:01+00:00",
        False,
    )
    assert shown["config"] == Reference("1")
    assert [number for child, number in found.children if child.field == "config"] == [1]
    exchanges = [number for child, number in found.children if child.class_name == "exchange"]
    assert exchanges == [*range(2, 14), 38]  # its own, and one of the recording's
    assert found.anomalies == ()


def test_a_child_knows_its_parent() -> None:
    binding = _openamq()["binding"]
    fields = (Field("name", "q"), Field("arguments", ""), Field("queues", ""), Field("exclusive", "1"))
    assert binding.read_object(fields, parent=2).values == (Reference("2"), "q", "", None, True)
    assert binding.read_object(fields).values == (None, "q", "", None, True)
    assert binding.wire_names == ("", "name", "arguments", "queues", "exclusive")
