"""The view of a Java client: names, classes of values, descriptions, and values that are withheld."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.feed.freshness import Freshness
from gateway.jmx.commands import (
    Attribute,
    AttributeType,
    Change,
    DefineClass,
    JmxValue,
    Register,
    SetGroup,
    Unregister,
)
from gateway.jmx.virtual_machine import JavaMachine
from tests.components.waiting import eventually
from tests.jmx_java.conftest import (
    AsyncClient,
    Connect,
    authenticate,
    emptied,
    opened,
    publish,
    publish_well,
    settings,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("reading by Java")]

QUEUE = DefineClass(
    1,
    "rabbitmq:queue",
    "A queue",
    (
        Attribute("name", AttributeType.STRING, "Its name", always=True),
        Attribute(
            "messages",
            AttributeType.LONG,
            "In it",
            minimum=0,
            descriptor={"units": "messages", "oid": "1.3.6"},
        ),
    ),
)
ORDERS = 'amqp.gateway:source=r1,package=rabbitmq,type=queue,parent="/",name=orders'
PARCELS = 'amqp.gateway:source=r1,package=rabbitmq,type=queue,parent="/",name=parcels'
CANONICAL_ORDERS = 'amqp.gateway:name=orders,package=rabbitmq,parent="/",source=r1,type=queue'
FRESH = SetGroup(1, Freshness.FRESH)


@pytest_asyncio.fixture(loop_scope="module")
async def machine(shared_machine: JavaMachine) -> JavaMachine:
    return await emptied(shared_machine)


@pytest_asyncio.fixture(loop_scope="module")
async def client(machine: JavaMachine, connect: Connect) -> AsyncIterator[AsyncClient]:
    async with connect(machine) as connected:
        yield connected


VALUES: tuple[tuple[AttributeType, JmxValue, str], ...] = (
    (AttributeType.BOOLEAN, True, "java.lang.Boolean true"),
    (AttributeType.LONG, 5, "java.lang.Long 5"),
    (AttributeType.LONG, 2**63 - 1, "java.lang.Long 9223372036854775807"),
    (AttributeType.LONG, -(2**63), "java.lang.Long -9223372036854775808"),
    (AttributeType.BIG_INTEGER, 2**64 - 1, "java.math.BigInteger 18446744073709551615"),
    (AttributeType.BIG_INTEGER, -7, "java.math.BigInteger -7"),
    (AttributeType.DOUBLE, 0.5, "java.lang.Double 0.5"),
    (AttributeType.DOUBLE, float("inf"), "java.lang.Double Infinity"),
    (AttributeType.DOUBLE, 3, "java.lang.Double 3.0"),
    (AttributeType.STRING, "Grüße 🐇", "java.lang.String Grüße 🐇"),
    (AttributeType.STRING, "", "java.lang.String "),
    (AttributeType.DATE, 1_700_000_000_123_456_789, "java.util.Date 1700000000123"),
    (AttributeType.DATE, -1, "java.util.Date -1"),
    (AttributeType.BYTES, b"\x00\xff", "byte[] [0, -1]"),
    (AttributeType.OBJECT_NAME, ORDERS, f"javax.management.ObjectName {ORDERS}"),
    (AttributeType.MAP, (("b", "2"), ("a", "1")), "TabularData {a=1, b=2}"),
    (AttributeType.MAP, (("a", "1"), ("a", "2")), "TabularData {a=2}"),
    (AttributeType.MAP, (), "TabularData {}"),
    (AttributeType.LIST, ("x", "y"), "String[] [x, y]"),
    *((kind, None, "null") for kind in AttributeType),
)


INFO_CHANGED = (
    "! [jmx.mbean.info.changed] javax.management.Notification "
    "(Attributes, operations or notifications have changed)"
)


async def test_nothing_is_trusted_without_a_sign_of_life(connect: Connect) -> None:
    state = Attribute("state", AttributeType.STRING, "d", always=True, when_abandoned="unknown")
    reported = (
        DefineClass(1, "test:source", "d", (state,)),
        FRESH,
        Register(1, 1, 1, ORDERS, ("synchronised",)),
    )
    async with JavaMachine(settings(silence=2.0), authenticate) as machine:
        await publish_well(machine, *reported)
        await machine.open()
        async with connect(machine) as client:

            async def shows(text: str, stale: str) -> bool:
                found = await client("attributes", ORDERS, ["state", "Stale"])
                return bool(found == [f"state=java.lang.String {text}", f"Stale=java.lang.Boolean {stale}"])

            async def is_trusted_again() -> bool:
                await publish_well(machine)  # an empty batch
                return await shows("synchronised", "false")

            await eventually(lambda: shows("unknown", "true"), "it is doubted")
            await eventually(is_trusted_again, "it is believed again")


async def test_a_value_has_the_class_of_its_attribute(machine: JavaMachine, client: AsyncClient) -> None:
    names = [f"value{position}" for position in range(len(VALUES))]
    attributes = tuple(Attribute(name, kind, "d") for name, (kind, _, _) in zip(names, VALUES, strict=True))
    values = tuple(value for _, value, _ in VALUES)
    name = "amqp.gateway:type=all"
    await publish_well(
        machine,
        DefineClass(1, "test:all", "d", attributes),
        FRESH,
        Register(1, 1, 1, name, values),
        Register(2, 1, 1, ORDERS, values),  # a reference to what there is not would be null
    )
    assert await client("attributes", name, names) == [
        f"{name}={seen}" for name, (_, _, seen) in zip(names, VALUES, strict=True)
    ]


async def test_clients_find_what_was_registered_and_no_more_what_was_unregistered(
    machine: JavaMachine, client: AsyncClient
) -> None:
    await publish_well(
        machine, QUEUE, Register(1, 1, 1, ORDERS, ("orders", 1)), Register(2, 1, 1, PARCELS, ("parcels", 2))
    )
    await publish_well(machine, Unregister(2), Unregister(2), Unregister(77))
    assert await client("names", "amqp.gateway:*") == [CANONICAL_ORDERS]


async def test_a_change_replaces_the_values_it_reports(machine: JavaMachine, client: AsyncClient) -> None:
    await publish_well(machine, QUEUE, FRESH, Register(1, 1, 1, ORDERS, ("orders", 1)), Change.of(1, {1: 20}))
    found = await client("attributes", ORDERS, ["name", "messages", "Stale", "unknown"])
    assert found == [
        "name=java.lang.String orders",
        "messages=java.lang.Long 20",
        "Stale=java.lang.Boolean false",
    ]


async def test_an_object_reported_again_is_the_same_mbean_with_new_values(connect: Connect) -> None:
    async with opened() as machine, connect(machine) as client:
        await publish_well(machine, QUEUE, FRESH, Register(1, 1, 1, ORDERS, ("orders", 1)))
        await client("listen", "JMImplementation:type=MBeanServerDelegate")
        await publish_well(
            machine, QUEUE, Register(1, 1, 1, ORDERS, ("orders", 2)), Register(9, 1, 1, PARCELS, ("", 0))
        )
        assert await client("attribute", ORDERS, "messages") == "java.lang.Long 2"
        assert PARCELS in await client("received", 60_000)  # the first that was registered since


async def test_a_name_belongs_to_the_object_that_had_it_last(
    machine: JavaMachine, client: AsyncClient
) -> None:
    await publish_well(machine, QUEUE, FRESH, Register(1, 1, 1, ORDERS, ("first", 1)))
    await publish_well(machine, Register(2, 1, 1, ORDERS, ("second", 2)), Unregister(1))
    assert await client("attribute", ORDERS, "name") == "java.lang.String second"


async def test_an_object_can_change_its_name(machine: JavaMachine, client: AsyncClient) -> None:
    await publish_well(
        machine, QUEUE, Register(1, 1, 1, PARCELS, ("", 1)), Register(1, 1, 1, ORDERS, ("", 1))
    )
    assert await client("names", "amqp.gateway:*") == [CANONICAL_ORDERS]


async def test_a_class_reported_again_is_that_of_objects_reported_later(
    machine: JavaMachine, client: AsyncClient
) -> None:
    await publish_well(machine, QUEUE, FRESH, Register(1, 1, 1, ORDERS, ("orders", 1)))
    narrow = DefineClass(1, "rabbitmq:queue", "A queue", QUEUE.attributes[:1])
    await publish_well(machine, narrow, Register(2, 1, 1, PARCELS, ("parcels",)), Change.of(1, {1: 5}))
    assert await client("attribute", ORDERS, "messages") == "java.lang.Long 5"
    assert await client("attributes", PARCELS, ["name", "messages"]) == ["name=java.lang.String parcels"]


@pytest.mark.parametrize(
    ("freshness", "messages", "stale"),
    [
        (Freshness.FRESH, "java.lang.Long 3", "false"),
        (Freshness.STALE, "java.lang.Long 3", "true"),
        (Freshness.WITHHELD, "null", "true"),
    ],
)
async def test_freshness_is_reported_for_a_group_at_once(
    machine: JavaMachine, client: AsyncClient, freshness: Freshness, messages: str, stale: str
) -> None:
    await publish_well(machine, QUEUE, Register(1, 1, 1, ORDERS, ("orders", 3)), SetGroup(1, freshness))
    assert await client("attribute", ORDERS, "messages") == messages
    assert await client("attribute", ORDERS, "name") == "java.lang.String orders"  # always
    assert await client("attribute", ORDERS, "Stale") == f"java.lang.Boolean {stale}"


async def test_a_group_of_which_nothing_was_reported_is_stale(
    machine: JavaMachine, client: AsyncClient
) -> None:
    await publish_well(machine, QUEUE, Register(1, 1, 42, ORDERS, ("orders", 3)))
    assert await client("attribute", ORDERS, "Stale") == "java.lang.Boolean true"


async def test_the_description_reports_types_ranges_units_and_that_it_may_change(
    machine: JavaMachine, client: AsyncClient
) -> None:
    await publish_well(machine, QUEUE, Register(1, 1, 1, ORDERS, ("orders", 3)))
    assert await client("info", ORDERS) == [
        "rabbitmq:queue: A queue {immutableInfo=false}",
        "name java.lang.String (Its name) r {}",
        "messages java.lang.Long (In it) r min java.lang.Long 0 {oid=1.3.6, units=messages}",
        "Stale java.lang.Boolean (Whether the values may be out of date.) r {}",
        INFO_CHANGED,
    ]


ODD = (
    (Attribute("a", AttributeType.STRING, "d", legal=("x", "y")), "java.lang.String (d) r legal [x, y] {}"),
    (
        Attribute("b", AttributeType.STRING, "d", minimum=1, legal=("x",)),
        "java.lang.String (d) r legal [x] {}",
    ),
    (
        Attribute("c", AttributeType.LONG, "d", minimum=1, legal=("x",)),
        "java.lang.Long (d) r min java.lang.Long 1 {}",
    ),
    (Attribute("d", AttributeType.LONG, "d", minimum=5, maximum=1), "java.lang.Long (d) r {}"),
    (Attribute("e", AttributeType.LONG, "d", maximum=2**64 - 1), "java.lang.Long (d) r {}"),
    (
        Attribute("f", AttributeType.BIG_INTEGER, "d", maximum=2**64 - 1),
        "java.math.BigInteger (d) r max java.math.BigInteger 18446744073709551615 {}",
    ),
    (
        Attribute("g", AttributeType.DOUBLE, "d", minimum=0, maximum=0.5),
        "java.lang.Double (d) r min java.lang.Double 0.0 max java.lang.Double 0.5 {}",
    ),
    (Attribute("h", AttributeType.BOOLEAN, "d", minimum=0, maximum=1), "java.lang.Boolean (d) r {}"),
    (Attribute("i", AttributeType.LIST, "d", legal=("x",)), "[Ljava.lang.String; (d) r {}"),
    (Attribute("j", AttributeType.STRING, " "), "java.lang.String (j) r {}"),
    (
        Attribute(
            "k", AttributeType.LONG, "d", descriptor={"minValue": "x", "openType": "y", "": "z", "u": "v"}
        ),
        "java.lang.Long (d) r {u=v}",
    ),
)


async def test_no_attribute_is_lost_for_a_description_that_java_refuses(
    machine: JavaMachine, client: AsyncClient
) -> None:
    name = "amqp.gateway:type=odd"
    definition = DefineClass(1, "test:odd", "", tuple(attribute for attribute, _ in ODD))
    await publish_well(machine, definition, Register(1, 1, 1, name, (None,) * len(ODD)))
    lines = await client("info", name)
    assert lines[1:-2] == [f"{attribute.name} {seen}" for attribute, seen in ODD]


async def test_the_second_attribute_of_a_name_is_not_shown_and_reported(
    machine: JavaMachine, client: AsyncClient
) -> None:
    name = "amqp.gateway:type=twice"
    twice = tuple(
        Attribute(name, AttributeType.LONG, "d", notifies=True) for name in ("a", "a", "Stale", "", "b")
    )
    result = await publish(
        machine, DefineClass(1, "test:twice", "", twice), FRESH, Register(1, 1, 1, name, (1, 2, 3, 4, 5))
    )
    assert result.errors == 3
    assert "'a', which is not shown" in result.texts[0]
    found = await client("attributes", name, ["a", "b", "Stale"])
    assert found == ["a=java.lang.Long 1", "b=java.lang.Long 5", "Stale=java.lang.Boolean false"]


async def test_queries_are_answered_by_the_server(machine: JavaMachine, client: AsyncClient) -> None:
    await publish_well(
        machine,
        QUEUE,
        FRESH,
        Register(1, 1, 1, ORDERS, ("orders", 10)),
        Register(2, 1, 1, PARCELS, ("parcels", 2)),
    )
    assert await client("namesWhere", "amqp.gateway:*", "rabbitmq:queue", "messages", 5) == [CANONICAL_ORDERS]


async def test_the_virtual_machines_own_state_can_be_read(client: AsyncClient) -> None:
    assert (await client("attribute", "java.lang:type=Runtime", "VmName")).startswith("java.lang.String ")
