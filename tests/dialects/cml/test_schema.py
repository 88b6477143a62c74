"""Conversion of schemas from documents to the model's classes, and back."""

from __future__ import annotations

import pytest

from gateway.dialects.cml.codec import read_message, write_message
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
from gateway.dialects.cml.schema import left_out, listed_names, package_of, read_classes, write_classes
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.model.schema import Access, Argument, ClassKey, ClassSchema, Element, Method, NamedValue
from gateway.model.values import Reference, ValueType

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
        "<class name='a'><field name='b' modify='yes'/></class>",
        "<class name='a'><field name='b' repeat=''/></class>",
    ],
)
def test_what_is_no_schema(inside: str) -> None:
    with pytest.raises(ProtocolError):
        read_message(f"<cml><schema-reply status='ok'>{inside}</schema-reply></cml>".encode())


@pytest.mark.parametrize("without", ["", "name=''", 'name=" "'])
def test_what_has_no_name_is_left_out_and_all_beside_it_stays(without: str) -> None:
    reply = read_message(
        f"""<cml><schema-reply status="ok" name="shop" version="1">
          <class name="queue">
            <field name="name"/><field {without}/><field {without} type="int" repeat="1"/>
            <group {without} modify="1"><field name="pending" type="int"/><field {without}/></group>
            <field name="mode" type="int"><value {without}>1</value><value name="slow">2</value></field>
            <method {without}><field name="x"/></method>
            <method name="move"><field name="to"/><field {without}/></method>
          </class>
          <class {without}><field name="x"/></class>
        </schema-reply></cml>""".encode()
    )
    assert isinstance(reply, SchemaReply)
    (queue,) = (each.schema for each in read_classes(reply))
    assert [(one.name, one.access, one.group) for one in queue.elements] == [
        ("name", Access.READ_ONLY, ()),
        ("pending", Access.READ_WRITE, ()),
        ("mode", Access.READ_ONLY, ()),
    ]
    assert [one.label for one in queue.elements[2].values] == ["1", "slow"]
    assert [(one.name, [each.name for each in one.arguments]) for one in queue.methods] == [("move", ["to"])]
    assert left_out(reply) == 6


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
    assert [line.partition(":")[0] for line in found.anomalies] == ["name", "in.rate", "rate", "node"]


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


def test_what_several_have_as_their_name_is_left_out_and_all_beside_it_stays() -> None:
    """A message could mean any of them; also the field of a group with a short name that one of them has."""
    twice = (SchemaField("b", "int"), SchemaField("b"))
    server = SchemaClass(
        "server",
        fields=(
            SchemaField("name"),
            *twice,
            SchemaGroup("in", (SchemaField("b", "int"),)),
            SchemaField("in.rate"),
            SchemaGroup("in", (SchemaField("rate"),)),
            SchemaField("queue", "objref", repeat=True),
            SchemaField("queue", "int"),
        ),
        methods=(SchemaMethod("m", fields=twice), SchemaMethod("ok", fields=(SchemaField("b"),))),
    )
    classes = (
        SchemaClass("queue", fields=(SchemaField("name"), SchemaField("parentRef"))),
        server,
        SchemaClass("a"),
        SchemaClass("a", fields=(SchemaField("name"),)),
    )
    reply = SchemaReply(Status.OK, "p", "1", classes)
    queue, read = read_classes(reply)
    assert [one.name for one in queue.schema.elements] == ["parentRef", "name"]
    assert queue.schema.elements[0].type is ValueType.REFERENCE
    assert [one.name for one in read.schema.elements] == ["name", "in.b"]
    assert [one.name for one in read.schema.methods] == ["ok"]
    assert read.children == ()
    assert left_out(reply) == 10
    shown = read.read_object((Field("name", "n"), Field("b", "3"), Field("in.b", "4"), Field("rate", "5")))
    assert shown.values == ("n", 4)
    assert listed_names(reply) == {"queue"}, "which is no root"


@pytest.mark.parametrize(
    "classes",
    [
        (SchemaClass("a", fields=(SchemaField("b", "int", values=(NamedText("x", "y"),)),)),),
        (SchemaClass("a", fields=(SchemaField("b", "int", values=(NamedText("x", ""),)),)),),
    ],
)
def test_classes_that_contradict_themselves(classes: tuple[SchemaClass, ...]) -> None:
    with pytest.raises(ProtocolError):
        read_classes(SchemaReply(Status.OK, "p", "1", classes))


def test_a_type_that_is_not_known_is_a_string() -> None:
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
