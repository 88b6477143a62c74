"""Schemas: from documents to the model's classes, and back."""

from __future__ import annotations

import pytest

from gateway.dialects.cml.messages import (
    Field,
    NamedText,
    SchemaClass,
    SchemaField,
    SchemaGroup,
    SchemaMethod,
    SchemaReply,
    Spelling,
    Status,
)
from gateway.dialects.cml.reader import read_message
from gateway.dialects.cml.schema import ClassDescription, package_of, read_classes
from gateway.dialects.cml.schema_writing import write_classes
from gateway.dialects.cml.writer import write_message
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.model.schema import Access, Argument, ClassKey, ClassSchema, Element, Method, NamedValue
from gateway.model.values import Reference, ValueType
from tests.dialects.cml.recordings import exchange

# The document's own example, with its slip at the end, and what its grammar has besides.
OF_THE_SPECIFICATION = b"""
<cml version = "1.0">
  <schema-reply name = "www.openamq.org/kernel" version = "0.1" status = "ok">
     <class name = "server" label = "Server">
        What serves.
        <field name = "ip-address" label = "Server IP address" />
        <field name = "status" type = "int" label = "Operational status">
            As operators see it.
            <value name = "not ready"    >0</value>
            <value name = "shutting down">2</value>
        </field>
        <group name = "limits" modify = "1" label = "Limits">
            Of everything.
            <field name = "depth" type = "int" />
            <group name = "inner" inspect = "0"><field name = "secret" modify = "0" inspect = "1" /></group>
        </group>
        <field name = "since" type = "time" repeat = "0" />
        <field name = "vhost" type = "object" repeat = "1" />
        <later />
        <method name = "lock" label = "Lock">
            Keeps clients out.
            <field name = "setting" type = "bool" />
        </method>
     </class>
     <class name = "vhost" />
     <unknown />
  </schema>
</cml>
"""

SERVER = SchemaClass(
    "server",
    "Server",
    "What serves.",
    (
        SchemaField("ip-address", label="Server IP address"),
        SchemaField(
            "status",
            "int",
            label="Operational status",
            description="As operators see it.",
            values=(NamedText("not ready", "0"), NamedText("shutting down", "2")),
        ),
        SchemaGroup(
            "limits",
            (SchemaField("depth", "int"), SchemaGroup("inner", (SchemaField("secret"),), inspect=False)),
            modify=True,
            label="Limits",
            description="Of everything.",
        ),
        SchemaField("since", "time"),
        SchemaField("vhost", "object", repeat=True),
    ),
    (SchemaMethod("lock", "Lock", "Keeps clients out.", (SchemaField("setting", "bool"),)),),
)
REPLY = SchemaReply(Status.OK, "www.openamq.org/kernel", "0.1", (SERVER, SchemaClass("vhost")))


def test_a_schema_as_the_specification_writes_it() -> None:
    assert read_message(OF_THE_SPECIFICATION) == REPLY


@pytest.mark.parametrize("spelling", Spelling)
def test_a_schema_comes_back(spelling: Spelling) -> None:
    assert read_message(write_message(REPLY, spelling)) == REPLY


@pytest.mark.parametrize(
    "inside",
    [
        "<class/>",
        "<class name='a'><field/></class>",
        "<class name='a'><field name='b' modify='yes'/></class>",
        "<class name='a'><field name='b'><value>1</value></field></class>",
    ],
)
def test_what_is_no_schema(inside: str) -> None:
    with pytest.raises(ProtocolError):
        read_message(f"<cml><schema-reply status='ok'>{inside}</schema-reply></cml>".encode())


def test_the_specifications_classes_in_the_model() -> None:
    server, vhost = (each.schema for each in read_classes(REPLY))
    assert server.key == ClassKey("www.openamq.org.kernel", "server")
    assert (server.label, server.description) == ("Server", "What serves.")
    assert server.properties == (
        Element("ip-address", ValueType.STRING, label="Server IP address"),
        Element(
            "status",
            ValueType.U32,
            label="Operational status",
            description="As operators see it.",
            values=(NamedValue("not ready", 0), NamedValue("shutting down", 2)),
        ),
        Element("limits.depth", ValueType.U32, Access.READ_WRITE, group=("limits",)),
        Element(
            "limits.inner.secret",
            ValueType.STRING,
            Access.READ_WRITE,
            max_length=255,
            readable=False,
            group=("limits", "inner"),
        ),
        Element("since", ValueType.TIME),
    )
    assert server.methods == (
        Method("lock", (Argument("setting", ValueType.BOOL),), "Lock", "Keeps clients out."),
    )
    assert vhost.properties == (
        Element("parentRef", ValueType.REFERENCE, index=True, references="server", label="Parent"),
    )


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
    assert found.doubts == ()


def test_a_child_knows_its_parent() -> None:
    binding = _openamq()["binding"]
    fields = (Field("name", "q"), Field("arguments", ""), Field("queues", ""), Field("exclusive", "1"))
    assert binding.read_object(fields, parent=2).values == (Reference("2"), "q", "", None, True)
    assert binding.read_object(fields).values == (None, "q", "", None, True)
    assert binding.wire_names == ("", "name", "arguments", "queues", "exclusive")


MANY = SchemaReply(
    Status.OK,
    "a/b",
    "1",
    (
        SchemaClass(
            "node",
            fields=(
                SchemaField("name"),
                SchemaGroup("in", (SchemaField("rate", "int"), SchemaField("peak", "int"))),
                SchemaGroup("out", (SchemaField("rate", "int"),)),
                SchemaField("tag", repeat=True),
                SchemaField("twin", "objref"),
                SchemaField("node", "objref", repeat=True),
            ),
        ),
    ),
)


def test_what_is_odd_is_absent_and_said() -> None:
    (node,) = read_classes(MANY)
    assert [each.name for each in node.schema.properties] == [
        "parentRef",
        "name",
        "in.rate",
        "in.peak",
        "out.rate",
        "tag",
        "twin",
    ]
    assert node.wire_names == ("", "name", "in.rate", "peak", "out.rate", "tag", "twin")
    found = node.read_object(
        (
            Field("name", "n"),
            Field("name", "again"),
            Field("in.rate", "-1"),
            Field("peak", "7"),
            Field("rate", "8"),
            Field("tag", "a"),
            Field("tag", "b"),
            Field("twin", object_id=9),
            Field("node", "x"),
            Field("node", ""),
            Field("node", object_id=5),
            Field("node", "6"),
        )
    )
    assert found.values == (None, "n", None, 7, None, ("a", "b"), Reference("9"))
    assert [(child.field, number) for child, number in found.children] == [
        ("twin", 9),
        ("node", 5),
        ("node", 6),
    ]
    assert [line.partition(":")[0] for line in found.doubts] == ["name", "in.rate", "rate", "node"]


def test_lists_leave_out_what_is_absent() -> None:
    times = SchemaReply(
        Status.OK, "p", "1", (SchemaClass("c", fields=(SchemaField("t", "int", repeat=True),)),)
    )
    (described,) = read_classes(times)
    assert described.read_object((Field("t", ""), Field("t", "2"))).values == ((2,),)


def test_the_mapping_says_what_is_a_statistic() -> None:
    def is_statistic(package: str, name: str, element: str) -> bool:
        return (package, name, element.split(".", maxsplit=1)[0]) == ("a.b", "node", "in")

    (node,) = read_classes(MANY, is_statistic)
    assert [each.name for each in node.schema.statistics] == ["in.rate", "in.peak"]
    assert node.read_object((Field("name", "n"), Field("in.peak", "3"))).values == (
        None,
        "n",
        None,
        None,
        None,
        None,
        3,
    )


def test_a_class_that_many_list_has_a_parent_of_no_class() -> None:
    listing = (SchemaField("c", "objref", repeat=True),)
    reply = SchemaReply(
        Status.OK,
        "p",
        "1",
        (SchemaClass("a", fields=listing), SchemaClass("b", fields=listing), SchemaClass("c")),
    )
    assert read_classes(reply)[2].schema.properties[0].references == ""


@pytest.mark.parametrize(
    "classes",
    [
        (SchemaClass("a"), SchemaClass("a")),
        (SchemaClass("a", fields=(SchemaField("b"), SchemaField("b"))),),
        (SchemaClass("a", fields=(SchemaField("b"), SchemaField("b", "objref", repeat=True))),),
        (SchemaClass("a", methods=(SchemaMethod("m", fields=(SchemaField("b"), SchemaField("b"))),)),),
        (SchemaClass("a", fields=(SchemaField("b", "int", values=(NamedText("x", "y"),)),)),),
        (SchemaClass("a", fields=(SchemaField("b", "int", values=(NamedText("x", ""),)),)),),
    ],
)
def test_classes_that_contradict_themselves(classes: tuple[SchemaClass, ...]) -> None:
    with pytest.raises(ProtocolError):
        read_classes(SchemaReply(Status.OK, "p", "1", classes))


def test_a_type_that_nobody_knows_is_a_string() -> None:
    reply = SchemaReply(Status.OK, "p", "1", (SchemaClass("c", fields=(SchemaField("x", "blob"),)),))
    assert read_classes(reply)[0].schema.properties == (Element("x", ValueType.STRING),)


def test_a_schemas_name_becomes_a_package_that_a_mapping_can_name() -> None:
    assert package_of("openamq.org/server") == "openamq.org.server"


SHOP = (
    ClassSchema(
        ClassKey("shop", "till"),
        properties=(
            Element("name", ValueType.STRING, index=True, label="Name"),
            Element("in.rate", ValueType.U32, Access.READ_WRITE, group=("in",)),
            Element("in.deep.peak", ValueType.U32, group=("in", "deep"), readable=False),
            Element("state", ValueType.U32, values=(NamedValue("open", 1), NamedValue("closed", 2))),
        ),
        methods=(Method("open", (Argument("float", ValueType.BOOL),), "Open", "Opens."),),
        label="Till",
        description="Takes money.",
    ),
    ClassSchema(
        ClassKey("shop", "drawer"),
        properties=(
            Element("parentRef", ValueType.REFERENCE, index=True, references="till", label="Parent"),
            Element("name", ValueType.STRING, index=True),
            Element("since", ValueType.TIME),
        ),
    ),
)


def test_the_models_classes_come_back_from_a_schema() -> None:
    reply = write_classes(SHOP, "shop", "1")
    assert read_message(write_message(reply, Spelling.SPECIFICATION)) == reply
    assert tuple(each.schema for each in read_classes(reply)) == SHOP
    assert reply.classes[0].fields[-1] == SchemaField("drawer", "objref", repeat=True)


def test_integers_beyond_32_bits_go_as_strings() -> None:
    wide = ClassSchema(ClassKey("p", "c"), (Element("n", ValueType.U64), Element("m", ValueType.U16)))
    assert write_classes((wide,), "p", "1").classes[0].fields == (SchemaField("n"), SchemaField("m", "int"))


@pytest.mark.parametrize(
    "element",
    [
        Element("x", ValueType.MAP),
        Element("parentRef", ValueType.REFERENCE, references="nobody"),
        Element("x", ValueType.U32, group=("g",)),
    ],
)
def test_what_no_schema_can_say_is_refused(element: Element) -> None:
    with pytest.raises(LocalProtocolError):
        write_classes((ClassSchema(ClassKey("p", "c"), (element,)),), "p", "1")
