"""Batches with mistakes in them: each mistake is reported, and all other commands are carried out."""

from __future__ import annotations

from collections.abc import Sequence

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.feed.freshness import Freshness
from gateway.jmx.commands import (
    Attribute,
    AttributeType,
    Change,
    Command,
    DefineClass,
    Emit,
    Register,
    SetGroup,
    encode_batch,
)
from gateway.jmx.virtual_machine import MAX_BATCH_OCTETS, JavaMachine, PushResult
from tests.jmx_java.conftest import AsyncClient, publish

ORDERS = "amqp.gateway:type=queue,name=orders"
QUEUE = DefineClass(
    1,
    "rabbitmq:queue",
    "A queue",
    (Attribute("name", AttributeType.STRING, "d"), Attribute("messages", AttributeType.LONG, "d")),
)
FRESH = SetGroup(1, Freshness.FRESH)
WELL = (QUEUE, FRESH, Register(1, 1, 1, ORDERS, ("orders", 1)))


MISTAKES: tuple[tuple[Command, str], ...] = (
    (Register(2, 9, 1, "amqp.gateway:type=x", ()), "command 3: there is no class 9"),
    (Register(2, 1, 1, "amqp.gateway:type=x", ("only one",)), "the array of values has 2 fields, not 1"),
    (Register(2, 1, 1, "no name", ("", 1)), "'no name' is no object name"),
    (Register(2, 1, 1, "amqp.gateway:type=*", ("", 1)), "is no name of one object in the domain"),
    (Register(2, 1, 1, "java.lang:type=Memory", ("", 1)), "is no name of one object in the domain"),
    (Change.of(77, {0: "x"}), "there is no object 77"),
    (Change.of(1, {2: "x"}), "2 is not from 0 to 1"),
    (Change.of(1, {-1: "x"}), "-1 is not from 0 to 1"),
    (Change(1, (0, 1), ("x",)), "the array of values has 2 fields, not 1"),
    (Change.of(1, {1: "text"}), f"{ORDERS} messages is absent: expected an integer"),
    (Change.of(1, {1: 2**63}), "messages is absent: 9223372036854775808 is above 2^63-1"),
    (Change.of(1, {0: 5}), f"{ORDERS} name is absent: expected a text"),
)


async def test_a_mistake_is_reported_and_what_follows_is_carried_out(
    machine: JavaMachine, client: AsyncClient
) -> None:
    for number, (wrong, text) in enumerate(MISTAKES):
        result = await publish(machine, *WELL, wrong, Register(3, 1, 1, ORDERS + "3", ("", number)))
        assert (text, result.errors) == (text, 1)
        assert text in result.texts[0]
        assert await client("attribute", ORDERS + "3", "messages") == f"java.lang.Long {number}"


async def test_a_value_that_is_wrong_is_absent_and_the_object_is_there(
    machine: JavaMachine, client: AsyncClient
) -> None:
    reference = (
        Attribute("at", AttributeType.OBJECT_NAME, "d"),
        Attribute("map", AttributeType.MAP, "d"),
        Attribute("n", AttributeType.LONG, "d"),
    )
    name = "amqp.gateway:type=link"
    result = await publish(
        machine,
        FRESH,
        DefineClass(2, "x:link", "d", reference),
        Register(1, 2, 1, name, ("nonsense", ("text", "text"), 7)),
    )
    assert result.errors == 2
    assert await client("attributes", name, ["at", "map", "n"]) == [
        "at=null",
        "map=null",
        "n=java.lang.Long 7",
    ]


async def test_data_of_an_event_that_cannot_be_is_reported(machine: JavaMachine) -> None:
    twice = (("a", AttributeType.LONG, 1), ("a", AttributeType.LONG, 2))
    result = await publish(machine, *WELL, Emit((1,), "t", "m", 1, 1, twice))
    assert result.errors == 1
    assert "the items of event t" in result.texts[0]


async def test_of_many_mistakes_the_first_are_reported_and_all_are_counted(machine: JavaMachine) -> None:
    result = await publish(machine, *(Change.of(number, {0: "x" * 2000}) for number in range(1000)))
    assert result.errors == 1000
    assert len(result.texts) == 20


def packed(commands: Sequence[object]) -> bytes:
    octets: bytes = msgpack.packb(commands)
    return octets


NO_BATCHES = (
    (b"", "batch: octet 0: 1 more octets expected, there are 0"),
    (b"\xc0", "batch: expected an array"),
    (packed([]) + b"\x00", "more octets behind the last command"),
    (b"\xdd\x7f\xff\xff\xff", "2147483647 more octets expected"),
    (b"\xdd\xff\xff\xff\xff", "a length above 2^31-1"),
    (b"\x91\xc1", "format 0xc1 is not used here"),
    (b"\x91\xdd\x00\x00\xff\xff", "65535 more octets expected"),
    (packed([[10, 1]]), "command 0: 10 is not from 1 to 9"),
    (packed([[5]]), "command 0: has 2 fields, not 1"),
    (packed([[2, 1, 4]]), "command 0: 4 is not from 1 to 3"),
    (packed([[1, 1, "n", "d", [["a", 99]], [], []]]), "command 0: an attribute has 13 fields, not 2"),
)


async def test_octets_that_are_no_batch_are_reported(machine: JavaMachine) -> None:
    for octets, text in NO_BATCHES:
        result = await machine.push(octets)
        assert result.errors >= 1
        assert text in result.texts[-1]


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.sampled_from([ORDERS, "amqp.gateway:type=*"])
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=7) | st.dictionaries(SCALARS, inner, max_size=3)
)
COMMANDS = st.lists(
    st.tuples(st.integers(1, 6), st.lists(st.integers(0, 3) | ANYTHING, max_size=7)).map(
        lambda command: [command[0], *command[1]]
    )
    | ANYTHING,
    max_size=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(octets=st.binary(max_size=100) | COMMANDS.map(packed))
async def test_any_octets_are_carried_out_or_reported(machine: JavaMachine, octets: bytes) -> None:
    await machine.push(octets)
    assert (await machine.push(encode_batch(WELL))) == PushResult(0, ())


async def test_a_batch_that_is_too_large_is_refused_before_it_is_sent(machine: JavaMachine) -> None:
    with pytest.raises(ValueError, match="there may be 4194304"):
        await machine.push(bytes(MAX_BATCH_OCTETS + 1))
