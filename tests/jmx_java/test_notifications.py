"""Notifications to a Java client: changes, events, and objects that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from msgspec.structs import replace

from gateway.feed.freshness import Freshness
from gateway.jmx.commands import (
    Attribute,
    AttributeType,
    Change,
    DefineClass,
    Emit,
    NotificationType,
    Register,
    RegisterTable,
    SetGroup,
    Unregister,
)
from gateway.jmx.virtual_machine import JavaMachine
from tests.components.waiting import DEADLINE
from tests.jmx_java.conftest import (
    AsyncClient,
    Connect,
    authenticate,
    emptied,
    opened,
    publish_well,
    settings,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("notifications to Java")]

DELEGATE = "JMImplementation:type=MBeanServerDelegate"
ORDERS = "amqp.gateway:type=queue,name=orders"
PARCELS = "amqp.gateway:type=queue,name=parcels"
TABLE = RegisterTable(9, "amqp.gateway:type=Table,source=r1,class=rabbitmq.queue", "r1", "rabbitmq:queue")
FRESH = SetGroup(1, Freshness.FRESH)
QUEUE = DefineClass(
    1,
    "rabbitmq:queue",
    "A queue",
    (
        Attribute("state", AttributeType.STRING, "d", notifies=True),
        Attribute("messages", AttributeType.LONG, "d"),
        Attribute("arguments", AttributeType.MAP, "d", notifies=True),
        Attribute("policies", AttributeType.LIST, "d", notifies=True),
    ),
    (NotificationType("amqp.gateway.rabbitmq.queueCreated", "A queue was created"),),
)
VALUES = ("running", 1, (("a", "1"),), ("x",))
CREATED = Emit(
    (1,),
    "amqp.gateway.rabbitmq.queueCreated",
    "queue orders created",
    1_700_000_000_123_000_000,
    7,
    (
        ("eventId", AttributeType.STRING, "g.1.7"),
        ("messages", AttributeType.LONG, 5),
        ("time", AttributeType.DATE, 1_700_000_000_123_000_000),
        ("user", AttributeType.STRING, None),
    ),
)
LONG_ENOUGH = int(DEADLINE * 1000)


@pytest_asyncio.fixture(loop_scope="module")
async def machine(shared_machine: JavaMachine) -> JavaMachine:
    return await emptied(shared_machine)


@pytest_asyncio.fixture(loop_scope="module")
async def client(machine: JavaMachine, connect: Connect) -> AsyncIterator[AsyncClient]:
    async with connect(machine) as connected:
        yield connected


async def test_a_change_of_a_flagged_attribute_is_reported_with_both_values(
    machine: JavaMachine, client: AsyncClient
) -> None:
    await publish_well(machine, QUEUE, FRESH, Register(1, 1, 1, ORDERS, VALUES))
    await client("listen", ORDERS)
    await publish_well(machine, Change.of(1, {0: "idle", 1: 2}), Change.of(1, {3: ("x", "y")}))
    assert await client("received", LONG_ENOUGH) == (
        f"jmx.attribute.change of {ORDERS}: state (java.lang.String) "
        "java.lang.String running -> java.lang.String idle"
    )
    assert await client("received", LONG_ENOUGH) == (
        f"jmx.attribute.change of {ORDERS}: policies ([Ljava.lang.String;) String[] [x] -> String[] [x, y]"
    )


async def test_what_did_not_change_and_what_is_not_flagged_is_not_reported(
    machine: JavaMachine, client: AsyncClient
) -> None:
    await publish_well(machine, QUEUE, FRESH, Register(1, 1, 1, ORDERS, VALUES))
    await client("listen", ORDERS)
    await publish_well(
        machine,
        Change.of(1, dict(enumerate(VALUES))),
        Change.of(1, {1: 99}),
        Register(1, 1, 1, ORDERS, VALUES),
        Change.of(1, {0: None}),
    )
    assert "java.lang.String running -> null" in await client("received", LONG_ENOUGH)


async def test_an_object_reported_again_notifies_its_listeners_of_what_changed(
    machine: JavaMachine, client: AsyncClient
) -> None:
    await publish_well(machine, QUEUE, FRESH, Register(1, 1, 1, ORDERS, VALUES))
    await client("listen", ORDERS)
    await publish_well(machine, Register(1, 1, 1, ORDERS, ("idle", *VALUES[1:])))
    assert "state" in await client("received", LONG_ENOUGH)


async def test_a_withheld_value_is_not_reported_either(machine: JavaMachine, client: AsyncClient) -> None:
    await publish_well(machine, QUEUE, FRESH, Register(1, 1, 1, ORDERS, VALUES))
    await client("listen", ORDERS)
    await publish_well(machine, SetGroup(1, Freshness.WITHHELD), Change.of(1, {0: "idle"}))
    await publish_well(machine, FRESH, Change.of(1, {0: "flow"}))
    assert "java.lang.String idle -> java.lang.String flow" in await client("received", LONG_ENOUGH)


async def test_an_event_is_reported_by_its_emitters_with_its_data(
    machine: JavaMachine, client: AsyncClient
) -> None:
    await publish_well(machine, QUEUE, Register(1, 1, 1, ORDERS, VALUES), Register(2, 1, 1, PARCELS, VALUES))
    for name in (ORDERS, PARCELS):
        await client("listen", name)
    await publish_well(machine, replace(CREATED, emitters=(1, 77, 2)))
    received = [await client("received", LONG_ENOUGH) for _ in range(2)]
    assert received == [
        f"amqp.gateway.rabbitmq.queueCreated of {name}: queue orders created; 7 at 1700000000123; "
        "CompositeData amqp.gateway.rabbitmq.queueCreated {eventId=java.lang.String g.1.7, "
        "messages=java.lang.Long 5, time=java.util.Date 1700000000123, user=null}"
        for name in (ORDERS, PARCELS)
    ]


async def test_an_event_without_data_has_none(machine: JavaMachine, client: AsyncClient) -> None:
    await publish_well(machine, QUEUE, Register(1, 1, 1, ORDERS, VALUES))
    await client("listen", ORDERS)
    await publish_well(machine, replace(CREATED, data=()))
    assert (await client("received", LONG_ENOUGH)).endswith("; null")


async def test_a_client_can_filter_by_type_on_the_server(machine: JavaMachine, client: AsyncClient) -> None:
    await publish_well(machine, QUEUE, FRESH, Register(1, 1, 1, ORDERS, VALUES))
    await client("listenFor", ORDERS, "amqp.gateway.rabbitmq")
    await publish_well(machine, Change.of(1, {0: "idle"}), CREATED)
    assert "queueCreated" in await client("received", LONG_ENOUGH)


async def test_which_notifications_a_class_has_stands_in_its_description(
    machine: JavaMachine, client: AsyncClient
) -> None:
    await publish_well(machine, QUEUE, Register(1, 1, 1, ORDERS, VALUES))
    event, change, info = (await client("info", ORDERS))[-3:]
    assert event == (
        "! [amqp.gateway.rabbitmq.queueCreated] javax.management.Notification (A queue was created)"
    )
    assert change == (
        "! [jmx.attribute.change] javax.management.AttributeChangeNotification "
        "(An attribute flagged for it has changed)"
    )
    assert info == (
        "! [jmx.mbean.info.changed] javax.management.Notification "
        "(Attributes, operations or notifications have changed)"
    )


async def test_an_mbean_whose_class_grows_goes_on_with_its_listeners(connect: Connect) -> None:
    async with opened() as machine, connect(machine) as client:
        await class_grows(machine, client)


async def class_grows(machine: JavaMachine, client: AsyncClient) -> None:
    await publish_well(machine, TABLE, QUEUE, FRESH, Register(1, 1, 1, ORDERS, VALUES, 9))
    former = await client("info", ORDERS)
    await client("listen", DELEGATE)
    await client("listen", ORDERS)
    # The new attribute moves all others by one place.
    colour = Attribute("colour", AttributeType.STRING, "d", notifies=True)
    grown = replace(QUEUE, class_number=2, attributes=(colour, *QUEUE.attributes))
    await publish_well(
        machine,
        grown,
        Register(1, 2, 1, ORDERS, ("red", "idle", *VALUES[1:]), 9),
        Change.of(1, {0: "blue"}),
        Register(2, 2, 1, PARCELS, ("", *VALUES), 9),
    )
    received = [await client("received", LONG_ENOUGH) for _ in range(4)]
    info, state, colour, registered = received
    assert info.startswith(f"jmx.mbean.info.changed of {ORDERS}: the description of the MBean has changed; ")
    attributes = "[colour, state, messages, arguments, policies, Stale]"
    assert info.endswith(f"OpenMBeanInfoSupport {attributes}")
    assert "state (java.lang.String) java.lang.String running -> java.lang.String idle" in state
    assert "colour (java.lang.String) java.lang.String red -> java.lang.String blue" in colour
    assert registered == f"JMX.mbean.registered of {DELEGATE}: {PARCELS}"
    names = ["messages", "colour", "state"]
    values = ["messages=java.lang.Long 1", "colour=java.lang.String blue", "state=java.lang.String idle"]
    assert await client("attributes", ORDERS, names) == values
    assert await client("info", ORDERS) == [former[0], *(await client("info", PARCELS))[1:]]
    page = await client("page", TABLE.object_name, "messages,colour", "", 0)
    assert len(page) == 4


async def test_readers_never_see_a_class_and_the_values_of_another_version(
    machine: JavaMachine, client: AsyncClient
) -> None:
    wide = replace(QUEUE, class_number=2, attributes=QUEUE.attributes[::-1])
    await publish_well(machine, QUEUE, wide, FRESH, Register(1, 1, 1, ORDERS, VALUES))
    reading = asyncio.create_task(
        client("differentReads", ORDERS, [each.name for each in QUEUE.attributes], 3000)
    )
    while not reading.done():
        await publish_well(
            machine, Register(1, 2, 1, ORDERS, VALUES[::-1]), Register(1, 1, 1, ORDERS, VALUES)
        )
    expected = [
        "state=java.lang.String running",
        "messages=java.lang.Long 1",
        "arguments=TabularData {a=1}",
        "policies=String[] [x]",
    ]
    assert await reading == [f"[{', '.join(expected)}]"]


async def test_the_delegate_notifies_which_objects_come_and_go(connect: Connect) -> None:
    async with opened() as machine, connect(machine) as client:
        await client("listen", DELEGATE)
        await publish_well(machine, QUEUE, Register(1, 1, 1, ORDERS, VALUES), Unregister(1))
        assert await client("received", LONG_ENOUGH) == f"JMX.mbean.registered of {DELEGATE}: {ORDERS}"
        assert await client("received", LONG_ENOUGH) == f"JMX.mbean.unregistered of {DELEGATE}: {ORDERS}"


async def test_notifications_that_the_buffer_has_no_room_for_are_counted_for_the_client(
    connect: Connect,
) -> None:
    sent = 5000
    async with JavaMachine(settings(notification_buffer=10), authenticate) as machine:
        await machine.open()
        async with connect(machine) as client:
            await publish_well(machine, QUEUE, Register(1, 1, 1, ORDERS, VALUES))
            await client("listen", ORDERS)
            await publish_well(machine, *[CREATED] * sent)
            async with asyncio.timeout(DEADLINE):
                while (lost := await client("lostCount")) + await client("receivedCount") < sent:
                    await publish_well(machine, CREATED)
            assert lost > 0
