"""The ObjectNames of objects, made of records."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.records import ClassRecord, Lifetime, ObjectRecord
from gateway.feed.values import ObjectLink
from gateway.jmx.names import begins_with_parent, name_of, object_name, quoted
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.stable_names import escaped, joined
from gateway.model.values import ValueType
from tests.components.java_classes import QUICKLY
from tests.hypothesis_profiles import examples
from tests.jmx.shop import hall

QUEUE = ClassKey("rabbitmq", "queue", b"")


def durable(name: str, parent: str | None = None, stable: str | None = None) -> ObjectRecord:
    """A durable object, by default with the stable name that its parent's and its own name make."""
    parts = (escaped(name),) if parent is None else (escaped(parent), escaped(name))
    return msgspec.structs.replace(
        hall(), leaf_name=name, stable_name=joined(parts) if stable is None else stable
    )


def transient(name: str, row: int, parent: str | None = None) -> ObjectRecord:
    record = durable(name, parent)
    stable = f"{record.stable_name}#1700000000"
    return msgspec.structs.replace(record, row=row, lifetime=Lifetime.TRANSIENT, stable_name=stable)


def test_a_durable_object_has_its_parents_and_its_own_name() -> None:
    assert name_of(durable("orders", "/"), "r1", QUEUE, has_parent=True) == (
        'amqp.gateway:source=r1,package=rabbitmq,type=queue,parent="/",name=orders'
    )


def test_one_without_parent_has_its_own_name() -> None:
    assert name_of(durable("rabbit@host"), "r1", ClassKey("rabbitmq", "node")) == (
        "amqp.gateway:source=r1,package=rabbitmq,type=node,name=rabbit@host"
    )


def test_an_empty_name_is_a_name() -> None:
    assert name_of(durable("", "/"), "r1", ClassKey("rabbitmq", "exchange"), has_parent=True) == (
        'amqp.gateway:source=r1,package=rabbitmq,type=exchange,parent="/",name=""'
    )


def test_a_transient_object_has_its_row_as_id() -> None:
    connection = transient("127.0.0.1:5 -> 127.0.0.1:5672", 17)
    assert name_of(connection, "r1", ClassKey("rabbitmq", "connection")) == (
        'amqp.gateway:source=r1,package=rabbitmq,type=connection,name="127.0.0.1:5 -> 127.0.0.1:5672",id=17'
    )


def test_a_parent_that_is_part_of_its_stable_name_is_reported_for_a_transient_object_too() -> None:
    assert name_of(transient("reply", 17, "/"), "r1", QUEUE, has_parent=True) == (
        'amqp.gateway:source=r1,package=rabbitmq,type=queue,parent="/",name=reply,id=17'
    )


def test_a_name_does_not_change_when_the_parent_is_found_or_lost() -> None:
    for record in (durable("orders", "/"), transient("reply", 17, "/")):
        found = msgspec.structs.replace(record, parent=ObjectLink("rabbitmq:vhost", 1, "/"))
        lost = msgspec.structs.replace(record, parent=None)
        names = {name_of(each, "r1", QUEUE, has_parent=True) for each in (found, lost)}
        assert len(names) == 1


def test_a_parent_that_is_not_known_yet_is_not_reported() -> None:
    provisional = msgspec.structs.replace(transient("reply", 17), stable_name=r"\?0-1-1-0-9|reply#1700000000")
    assert name_of(provisional, "r1", QUEUE, has_parent=True) == (
        "amqp.gateway:source=r1,package=rabbitmq,type=queue,name=reply,id=17"
    )


@pytest.mark.parametrize(
    ("stable", "shown"),
    [
        (r"/\|orders|amq.direct|key", r'"/\\|orders|amq.direct|key"'),
        (r"\-|key", r'"\\-|key"'),
        ("#0-1-1-0-7", '"#0-1-1-0-7"'),
    ],
)
def test_an_object_that_is_named_otherwise_has_its_whole_stable_name(stable: str, shown: str) -> None:
    binding = durable("key", stable=stable)
    assert name_of(binding, "r1", ClassKey("qpid", "binding"), has_parent=True) == (
        f"amqp.gateway:source=r1,package=qpid,type=binding,name={shown}"
    )


def test_what_a_child_calls_its_parent_is_what_the_parent_is_called() -> None:
    parent = durable("a|b#c")
    child = durable("child", parent.stable_name)
    assert name_of(parent, "r1", QUEUE).rpartition("name=")[2] == r'"a\\|b\\#c"'
    assert r',parent="a\\|b\\#c",' in name_of(child, "r1", QUEUE, has_parent=True)


@pytest.mark.parametrize(
    ("properties", "parent", "begins"),
    [
        (("vhost", "name"), "vhost", True),
        (("name", "vhost"), "vhost", False),
        (("name",), "", False),
        ((), "", False),
    ],
)
def test_whether_names_begin_with_the_parent(properties: tuple[str, ...], parent: str, begins: bool) -> None:  # noqa: FBT001  an expected value
    schema = ClassSchema(QUEUE, tuple(Element(name, ValueType.STRING, index=True) for name in properties))
    assert begins_with_parent(ClassRecord(1, schema, "name", parent)) is begins


def test_a_group_is_a_hash_of_fixed_width_that_siblings_do_not_change() -> None:
    names = [
        name_of(durable(f"q{number}", "/"), "r1", QUEUE, has_parent=True, buckets=100)
        for number in range(500)
    ]
    groups = [re.search(r",type=queue,group=([0-9a-f]{2}),parent=", name) for name in names]
    assert len({group[1] for group in groups if group}) > 90
    assert all(groups)
    assert names[7] == name_of(durable("q7", "/"), "r1", QUEUE, has_parent=True, buckets=100)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("orders", "orders"),
        ("amq.gen-JzTY20_x$1@host", "amq.gen-JzTY20_x$1@host"),
        ("", '""'),
        ("/", '"/"'),
        ("two words", '"two words"'),
        ("a,b=c:d", '"a,b=c:d"'),
        ('"quoted"', '"\\"quoted\\""'),
        ("every*thing?", '"every\\*thing\\?"'),
        ("back\\slash", '"back\\\\slash"'),
        ("two\nlines", '"two\\nlines"'),
        ("schön", '"schön"'),
    ],
)
def test_values_are_quoted_where_java_or_a_tool_would_read_them_otherwise(value: str, shown: str) -> None:
    assert quoted(value) == shown


texts = st.text('ab/|#\\*?",:=\n -é', max_size=5) | st.text(max_size=5)
objects = st.one_of(
    st.builds(durable, texts, texts | st.none()),
    st.builds(durable, texts, texts | st.none(), st.text("ab|#\\", max_size=5)),
    st.builds(transient, texts, st.integers(1, 5), texts | st.none()),
)


def identity(record: ObjectRecord) -> tuple[Lifetime, str | int]:
    """Return the key that distinguishes two objects of a class."""
    is_durable = record.lifetime is Lifetime.DURABLE
    return record.lifetime, record.stable_name if is_durable else record.row


@given(records=st.lists(objects, max_size=20), has_parent=st.booleans(), buckets=st.sampled_from([0, 2, 16]))
def test_no_two_objects_share_a_name(*, records: list[ObjectRecord], has_parent: bool, buckets: int) -> None:
    owners: dict[str, tuple[Lifetime, str | int]] = {}
    for record in records:
        name = name_of(record, "r1", QUEUE, has_parent=has_parent, buckets=buckets)
        assert owners.setdefault(name, identity(record)) == identity(record)


@given(record=objects, has_parent=st.booleans())
def test_only_a_transient_object_has_an_id(*, record: ObjectRecord, has_parent: bool) -> None:
    has_id = bool(re.search(r",id=\d+\Z", name_of(record, "r1", QUEUE, has_parent=has_parent)))
    assert has_id == (record.lifetime is Lifetime.TRANSIENT)


READ_NAMES = """
import java.io.*;
import java.nio.charset.StandardCharsets;
import javax.management.ObjectName;

public class ReadNames {
    public static void main(String[] arguments) throws Exception {
        DataInputStream in = new DataInputStream(new FileInputStream(arguments[0]));
        for (int left = in.readInt(); left > 0; left--) {
            String text = read(in);
            ObjectName name = new ObjectName(text);
            String value = name.getKeyProperty("name");
            if (value.startsWith("\\"")) {
                value = ObjectName.unquote(value);
            }
            if (name.isPattern() || !value.equals(read(in)) || !name.getKeyPropertyListString().equals(
                    text.substring(text.indexOf(':') + 1))) {
                throw new AssertionError(text);
            }
        }
        System.out.print("all read");
    }

    private static String read(DataInputStream in) throws IOException {
        return new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8);
    }
}
"""


def test_java_reads_every_name_as_it_was_meant(tmp_path: Path) -> None:
    """All texts of up to two awkward characters, and many others, by a real ObjectName."""
    awkward = ["", *"a/|#\\*?\",:=\n\r\t\0 '%é日\u2028"]
    values = sorted({first + second for first in awkward for second in awkward})
    values += random_texts()
    reported = bytearray(len(values).to_bytes(4, "big"))
    for value in values:
        for part in (object_name([("source", "r1"), ("name", value), ("id", "1")]), value):
            octets = part.encode()
            reported += len(octets).to_bytes(4, "big") + octets
    (tmp_path / "names").write_bytes(reported)
    (tmp_path / "ReadNames.java").write_text(READ_NAMES, encoding="ascii")
    done = subprocess.run(  # noqa: S603  the machine's own
        ["java", "-Xmx64m", *QUICKLY, "ReadNames.java", "names"],  # noqa: S607
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("all read", "")


def random_texts() -> list[str]:
    """Return Hypothesis' own texts, with the characters that it finds awkward."""
    found: list[str] = []

    @given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
    def collect(text: str) -> None:
        found.append(text)

    collect()
    assert len(found) >= min(examples(), 20)
    return found
