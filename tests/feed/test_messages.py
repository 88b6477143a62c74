"""The feed's octets: pinned by example, whole by round trip, safe with any bytes."""

from __future__ import annotations

import contextlib
import struct
from uuid import UUID

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.messages import MAX_FRAME_OCTETS, FeedError, FrameReader, encode
from gateway.feed.records import (
    AgentGoneRecord,
    AgentRecord,
    AlarmRecord,
    Batch,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventLogRecord,
    EventLogState,
    EventRecord,
    EventsMadeRecord,
    FeedMessage,
    GapRecord,
    Hello,
    Lifetime,
    ObjectRecord,
    Record,
    SnapshotBegan,
    SnapshotEnded,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import EventState, Severity, SourceState
from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Direction,
    Element,
    EventSchema,
    Kind,
    Method,
    NamedValue,
)
from gateway.model.values import Reference, Value, ValueType
from tests.feed.frames import EXTENDED, framed, message_of

SCHEMA = ClassSchema(
    ClassKey("shop", "queue", b"\x00\xff" * 8),
    properties=(
        Element(
            "type",
            ValueType.STRING,
            Access.READ_CREATE,
            index=True,
            optional=True,
            unit="messages",
            maximum=2**64 - 1,
            max_length=255,
            default="classic",
            references="vhost",
            label="Type",
            description="of the queue",
            values=(NamedValue("classic", "classic"), NamedValue("quorum", 2)),
            readable=False,
            group=("a", "b"),
        ),
    ),
    statistics=(Element("depth", ValueType.U64, kind=Kind.COUNTER, minimum=-1.5),),
    methods=(Method("purge", (Argument("limit", ValueType.U32, Direction.INOUT, default=1),), "Purge"),),
)
OBJECT = ObjectRecord(
    source=1,
    class_number=2,
    row=2**31 - 1,
    stable_name="/|orders",
    leaf_name="orders",
    parent=ObjectLink("shop:vhost", 1, "/"),
    native_id="0-1-1-0-15",
    agent="1.0",
    lifetime=Lifetime.TRANSIENT,
    created=1,
    properties_sampled=2,
    statistics_sampled=3,
    reset=4,
    changed=5,
    values={
        0: ObjectLink("shop:vhost", 1, "/"),
        1: 2**64 - 1,
        2: -(2**63),
        3: UUID(int=7),
        4: {"a": (1, {"b": b"\x00"}), "none": True},
        5: (1.5, "é", b"", ()),
        6: False,
    },
)
RECORDS: list[Record] = [
    EventsMadeRecord(7, 2**40),
    EventLogRecord(EventLogState.DISK_FULL, "no room", 1, 2**40, 3, 4, 2**41, 5, 6, 2**42),
    SourceRecord(1, "shop", "qmf", SourceState.DEGRADED, "no answer", 1, 2, {"messages": 2**63}),
    ClassRecord(2, SCHEMA, "name", "vhost"),
    EventClassRecord(
        3,
        EventSchema(
            ClassKey("shop", "closed"),
            (
                Argument("why", ValueType.STRING, optional=True),
                Argument("queue", ValueType.REFERENCE, references="queue"),
            ),
        ),
    ),
    OBJECT,
    UpdateRecord(1, 2, 3, 4, 5, 6, 7, {0: 1}, (3, 4)),
    DeleteRecord(1, 2, 3, "/|orders", 9, inferred=True),
    DeleteRecord(
        source=1,
        class_number=2,
        row=3,
        stable_name="/|orders",
        deleted=9,
        inferred=False,
        number=2**31 - 1,
        leaf_name="orders",
        native_id="0-1-1-0-15",
        agent="1.0",
        lifetime=Lifetime.TRANSIENT,
        created=8,
        received=10,
    ),
    AgentRecord(1, "1.0", fresh=False, since=5, confirmed=4),
    AgentGoneRecord(1, "1.10", 6),
    EventRecord("gw.1.1", 1, 3, "1.0", 8, Severity.MAJOR, {0: "x"}),
    EventRecord(
        event_id="gw.1.2",
        source=1,
        class_number=3,
        agent="1.0",
        time=8,
        severity=Severity.CLEARED,
        values={1: ObjectLink("shop:queue", 3, "/|orders")},
        number=2,
        received=9,
        subject=ObjectLink("shop:queue", 3, "/|orders"),
        text="orders is open",
        state=EventState.CLEARED,
        condition='closed shop:queue "/|orders"',
    ),
    AlarmRecord(
        number=7,
        source=1,
        name="closed",
        condition='closed shop:queue "/|orders"',
        severity=Severity.CRITICAL,
        subject=ObjectLink("shop:queue", 3, "/|orders"),
        text="orders is closed",
        event_id="gw.1.1",
        raised=5,
        cleared=9,
    ),
    AlarmRecord(8, 1, "sourceDown", "sourceDown", Severity.MAJOR, None, "down", "gw.1.3", 5),
    GapRecord(1, 2, 3, "overflow"),
]
MESSAGES: list[FeedMessage] = [
    Hello(1, 7, "gw", 5),
    SnapshotBegan(7, 1),
    SnapshotEnded(7, 1),
    Batch(7, 2, tuple(RECORDS)),
]


def test_the_form_on_the_wire_is_length_and_msgpack_array() -> None:
    octets = encode(Hello(1, 7, "gw", 5))
    assert octets == b"\x00\x00\x00\x0e\x96\xa5hello\x01\x07\xa2gw\x05\xa0"


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_comes_back_equal(message: FeedMessage) -> None:
    assert message_of(encode(message)) == message


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_every_record_comes_back_equal(record: Record) -> None:
    batch = Batch(1, 1, (record,))
    assert message_of(encode(batch)) == batch


def test_a_frame_says_whether_values_may_be_extensions() -> None:
    update = UpdateRecord(1, 2, 3, 4, 5, 6, 7, {0: 1, 1: "a", 2: ObjectLink("shop:hall", 1, "/")})
    with_octets = msgspec.structs.replace(update, values={0: b"octets"})
    plain, extended = Batch(1, 1, (update,)), Batch(1, 1, (update, with_octets))
    heads = [struct.unpack_from(">I", encode(batch))[0] for batch in (plain, extended)]
    assert [head & EXTENDED for head in heads] == [0, EXTENDED]
    for batch in (plain, extended):
        (read,) = FrameReader().feed(encode(batch))
        assert repr(read) == repr(batch)


@given(st.lists(st.sampled_from(MESSAGES), max_size=5), st.integers(1, 40))
def test_messages_survive_any_cutting_of_the_stream(messages: list[FeedMessage], size: int) -> None:
    stream = b"".join(encode(message) for message in messages)
    reader = FrameReader()
    read = [m for at in range(0, len(stream), size) for m in reader.feed(stream[at : at + size])]
    assert read == messages


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_one_error(octets: bytes) -> None:
    with contextlib.suppress(FeedError):
        list(FrameReader().feed(octets))


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.text(max_size=5)
        | st.binary(max_size=5),
        lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=20,
    )
)
def test_any_msgpack_is_a_message_or_one_error(body: object) -> None:
    with contextlib.suppress(FeedError):
        message_of(framed(body))


def test_a_frame_announced_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(FeedError, match="at most 16777216 are allowed"):
        list(FrameReader().feed(struct.pack(">I", MAX_FRAME_OCTETS + 1)))


_SCALARS = (
    st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.uuids()
    | st.just(ObjectLink("shop:hall", 1, "/"))
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.integers(0, 200), _VALUES, max_size=4))
def test_every_value_comes_back_equal_and_of_its_type(values: dict[int, FeedValue]) -> None:
    batch = Batch(
        7, 1, (msgspec.structs.replace(OBJECT, values=values), UpdateRecord(1, 2, 3, 4, 5, 6, 7, values))
    )
    read = message_of(encode(batch))
    assert read == batch
    assert repr(read) == repr(batch)  # True is not 1, nor 1.0


def test_a_reference_that_stays_unresolved_travels_as_its_native_id() -> None:
    record = msgspec.structs.replace(OBJECT, values={1: (Reference("0-1-1-0-7"),), 2: {"a": Reference("b")}})
    found = message_of(encode(Batch(7, 1, (record,))))
    assert isinstance(found, Batch)
    assert found.records == (msgspec.structs.replace(OBJECT, values={1: ("0-1-1-0-7",), 2: {"a": "b"}}),)


@pytest.mark.parametrize(
    "record",
    [
        ["update", 1, 2, 3, 4, 5, 6, 7, {"depth": 1}],
        ["update", 1, 2, 3, 4, 5, 6, 7, {0: None}],
        ["update", 1, 2, 3, 4, 5, 6, 7, {0: 1}, [], "more"],
        ["update", 1, 2, "3", 4, 5, 6, 7, {0: 1}],
        ["update", 1, 2, 3],
        ["update", 1, 2, 3, 4, 5, 6, 7, {0: msgpack.ExtType(1, b"no uuid")}],
        ["update", 1, 2, 3, 4, 5, 6, 7, {0: msgpack.ExtType(3, b"\x92\x01")}],
        ["update", 1, 2, 3, 4, 5, 6, 7, {0: {"a": msgpack.ExtType(9, b"")}}],
        ["agent", 1, "1.0", 1, 5, 4],
        ["forget", 1],
        [],
    ],
)
def test_a_record_of_another_form_is_one_error(record: list[object]) -> None:
    with pytest.raises(FeedError, match="not a feed message"):
        message_of(framed(["batch", 7, 1, [record]]))


def test_a_number_of_more_than_64_bits_is_refused_and_not_repeated() -> None:
    record = msgspec.structs.replace(OBJECT, values={0: 2**64 + 12345})
    with pytest.raises(OverflowError, match=r"^a number has more than 64 bits$"):
        encode(Batch(7, 1, (record,)))


def test_values_that_are_nested_too_deeply_are_refused() -> None:
    deep: Value = 1
    for _ in range(100_000):
        deep = (deep,)
    with pytest.raises(ValueError, match="nested too deeply"):
        encode(Batch(7, 1, (msgspec.structs.replace(OBJECT, values={0: deep}),)))
