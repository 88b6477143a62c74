"""What exists for one user and not for another, asked for by Java clients of both at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
from collections.abc import AsyncIterator
from typing import Final

import msgspec
import pytest
import pytest_asyncio

from gateway.feed.access import bitmap_of
from gateway.feed.freshness import Freshness
from gateway.jmx.commands import (
    NOTHING,
    Attribute,
    AttributeType,
    Change,
    ChangePolicy,
    DefineAccess,
    DefineClass,
    Emit,
    NotificationType,
    Operation,
    Register,
    RegisterTable,
    Rights,
    SetGroup,
    Unregister,
    Varying,
    varying,
)
from gateway.jmx.virtual_machine import JavaMachine
from tests.components.waiting import DEADLINE
from tests.jmx_java.conftest import AsyncClient, JavaObject, publish, publish_well, settings

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("access by Java")]

PASSWORD: Final = "correct horse"
USERS: Final = ("visitor", "keeper")
"""The first is restricted, the second is not."""

LONG_ENOUGH: Final = int(DEADLINE * 1000)
DELEGATE: Final = "JMImplementation:type=MBeanServerDelegate"
QUEUE: Final = DefineClass(
    1,
    "rabbitmq:queue",
    "A queue",
    (
        Attribute("state", AttributeType.STRING, "d", notifies=True, writable=True),
        Attribute("messages", AttributeType.LONG, "d", writable=True),
        Attribute("next", AttributeType.OBJECT_NAME, "d", notifies=True),
        Attribute("last", AttributeType.STRING, "d", varies=True, notifies=True),
    ),
    (NotificationType("amqp.gateway.rabbitmq.queueCreated", "A queue was created"),),
    (Operation("purge", "Empties it"), Operation("readFresh", "Reads it", reads_only=True)),
)


def name(queue: str) -> str:
    return f"amqp.gateway:name={queue},type=queue"


OPEN, NARROW, HIDDEN = name("open"), name("narrow"), name("hidden")
TABLE, HIDDEN_TABLE = "amqp.gateway:class=queue,type=Table", "amqp.gateway:class=other,type=Table"
WHOLE, SOME, NONE = 1, 2, 3
"""The numbers of accesses: the visitor sees everything, the state alone, nothing."""

ACCESSES: Final = (
    DefineAccess(WHOLE, 1, (Rights(None),), (0, 0)),
    DefineAccess(SOME, 1, (Rights(bitmap_of([0]), b"", bitmap_of([1])), Rights(None)), (0, 1)),
    DefineAccess(NONE, 1, (Rights(None),), (NOTHING, 0)),
)
LAST: Final = Varying(("for the visitor", "for the keeper"), (0, 1))
QUEUES: Final = (
    ChangePolicy((False, True)),
    QUEUE,
    SetGroup(1, Freshness.FRESH),
    *ACCESSES,
    RegisterTable(8, TABLE, "r1", "rabbitmq:queue"),
    RegisterTable(9, HIDDEN_TABLE, "r1", "rabbitmq:other"),
    Register(3, 1, 1, HIDDEN, ("hidden", 30, None, LAST), 9, NONE),
    Register(4, 1, 1, name("also"), ("hidden", 40, None, LAST), 8, NONE),
    Register(1, 1, 1, OPEN, ("open", 10, HIDDEN, LAST), 8, WHOLE),
    Register(2, 1, 1, NARROW, ("narrow", 20, OPEN, LAST), 8, SOME),
)


@contextlib.asynccontextmanager
async def with_queues() -> AsyncIterator[JavaMachine]:
    """Run a virtual machine in which both users may change something, with the queues."""

    async def authenticate(user: str, password: str) -> bool:
        return user in USERS and password == PASSWORD

    async with JavaMachine(settings(), authenticate, number_of=USERS.index) as started:
        await started.open()
        await publish_well(started, *QUEUES)
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def read_only_machine() -> AsyncIterator[JavaMachine]:
    """The virtual machine of all tests that only read."""
    async with with_queues() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def machine(
    request: pytest.FixtureRequest, read_only_machine: JavaMachine
) -> AsyncIterator[JavaMachine]:
    """A virtual machine with the queues: of its own for a test that names it, which is to change it."""
    if "machine" not in inspect.signature(request.function).parameters:
        yield read_only_machine
        return
    async with with_queues() as started:
        yield started


@contextlib.asynccontextmanager
async def connected(java_client: JavaObject, machine: JavaMachine, user: str) -> AsyncIterator[AsyncClient]:
    client = AsyncClient(await asyncio.to_thread(java_client.connect, machine.port, user, PASSWORD))
    try:
        yield client
    finally:
        await client("close")


@pytest_asyncio.fixture(loop_scope="module")
async def visitor(machine: JavaMachine, java_client: JavaObject) -> AsyncIterator[AsyncClient]:
    """A client of the user who is restricted."""
    async with connected(java_client, machine, "visitor") as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def keeper(machine: JavaMachine, java_client: JavaObject) -> AsyncIterator[AsyncClient]:
    """A client of the user who is not."""
    async with connected(java_client, machine, "keeper") as client:
        yield client


async def test_what_is_hidden_is_found_by_no_search(visitor: AsyncClient, keeper: AsyncClient) -> None:
    assert await visitor("names", "amqp.gateway:*") == sorted([OPEN, NARROW, TABLE])
    assert await visitor("names", "*:name=h*,*") == []
    assert await visitor("names", HIDDEN) == []
    assert await visitor("names", HIDDEN.replace("hidden", "hidde?")) == []
    everything = await keeper("instances")
    assert HIDDEN in everything
    assert await visitor("instances") == [
        each for each in everything if each not in (HIDDEN, name("also"), HIDDEN_TABLE)
    ]
    assert await visitor("count") == await keeper("count") - 3


async def test_what_is_hidden_answers_as_what_never_was(visitor: AsyncClient, keeper: AsyncClient) -> None:
    for hidden, missing in (
        (HIDDEN, name("nobody")),
        (HIDDEN_TABLE, HIDDEN_TABLE.replace("other", "nobody")),
    ):
        for attribute in ("messages", "Objects"):
            reported = await visitor("tryEverything", hidden, attribute)
            expected = await visitor("tryEverything", missing, attribute)
            assert [line.replace(hidden, missing) for line in reported] == expected
            assert await keeper("tryEverything", hidden, attribute) != reported
    for trick in ("hidden ", "HIDDEN", '"hidden"'):
        assert not await visitor("names", name(trick))


async def test_a_hidden_attribute_is_none(visitor: AsyncClient, keeper: AsyncClient) -> None:
    assert await visitor("attributes", NARROW, ["state", "messages", "next", "Stale"]) == [
        "state=java.lang.String narrow",
        "Stale=java.lang.Boolean false",
    ]
    assert [line.split()[0] for line in await visitor("info", NARROW)] == [
        "rabbitmq:queue:",
        "state",
        "Stale",
        "!",
        "!",
        "!",
    ]
    assert "messages java.lang.Long (d) rw {}" in await keeper("info", NARROW)
    reported = (await visitor("tryEverything", NARROW, "messages"))[0]
    assert reported == (await visitor("tryEverything", NARROW, "nothing"))[0].replace("nothing", "messages")


async def test_what_a_user_may_not_do_is_not_described(visitor: AsyncClient, keeper: AsyncClient) -> None:
    assert [line.split()[0] for line in await visitor("operations", NARROW)] == ["readFresh"]
    assert [line.split()[0] for line in await keeper("operations", NARROW)] == ["purge", "readFresh"]
    assert "state java.lang.String (d) r {}" in await visitor("info", NARROW)
    assert "unknown-element" in await visitor("trySetAttribute", NARROW, "messages", 1)


async def test_a_reference_to_what_is_hidden_is_null(visitor: AsyncClient, keeper: AsyncClient) -> None:
    assert await visitor("attribute", OPEN, "next") == "null"
    assert await keeper("attribute", OPEN, "next") == f"javax.management.ObjectName {HIDDEN}"


async def test_a_value_may_differ(machine: JavaMachine, visitor: AsyncClient, keeper: AsyncClient) -> None:
    assert await visitor("attribute", OPEN, "last") == "java.lang.String for the visitor"
    assert await keeper("attribute", OPEN, "last") == "java.lang.String for the keeper"
    await publish_well(machine, Change.of(1, {3: varying(["the same", "the same"])}))
    assert await visitor("attribute", OPEN, "last") == "java.lang.String the same"
    await publish_well(machine, Change.of(1, {3: varying([None, "only here"])}))
    assert await visitor("attribute", OPEN, "last") == "null"
    assert await keeper("attribute", OPEN, "last") == "java.lang.String only here"


async def test_a_query_finds_out_nothing_of_what_is_hidden(visitor: AsyncClient, keeper: AsyncClient) -> None:
    queue = "rabbitmq:queue"
    assert await visitor("namesWhere", "amqp.gateway:*", queue, "messages", 0) == [OPEN]
    assert await visitor("namesWhere", "*:*", queue, "messages", 15) == []
    assert await keeper("namesWhere", "*:*", queue, "messages", 15) == sorted([HIDDEN, NARROW, name("also")])
    assert NARROW not in await visitor("namesUnlike", "last", "for the keeper")
    assert OPEN not in await keeper("namesUnlike", "last", "for the keeper")


async def test_a_table_has_what_exists(visitor: AsyncClient, keeper: AsyncClient) -> None:
    page = await visitor("page", TABLE, "messages,next", "", 0)
    assert page == [
        f"{NARROW} {{Stale=java.lang.Boolean false, messages=null, next=null}}",
        f"{OPEN} {{Stale=java.lang.Boolean false, messages=java.lang.Long 10, next=null}}",
        "null",
        "2",
    ]
    assert (await keeper("page", TABLE, "messages", "", 0))[-1] == "3"
    assert (await visitor("page", TABLE, "messages", "", 1))[1:] == [NARROW, "2"]
    assert await visitor("attribute", TABLE, "Objects") == "java.lang.Long 2"


async def test_a_table_in_which_an_attribute_is_always_hidden_has_none_of_that_name(
    machine: JavaMachine, visitor: AsyncClient
) -> None:
    await publish_well(machine, Unregister(1))
    assert await visitor("attribute", TABLE, "Attributes") == "String[] [state]"
    assert "unknown-element" in await visitor("tryPage", TABLE, "messages", "", 0)
    await publish_well(machine, Unregister(2))
    assert await visitor("names", "amqp.gateway:*") == []  # what is left is hidden


def event(*choices: int) -> Emit:
    data = (("user", AttributeType.STRING, "guest"),)
    reduced = (("Queue created", (("user", AttributeType.STRING, None),)),)
    return Emit(
        (1, 2, 3), "amqp.gateway.rabbitmq.queueCreated", "guest made it", 10**15, 7, data, reduced, choices
    )


async def test_an_event_is_received_whole_or_in_part_or_not(
    machine: JavaMachine, visitor: AsyncClient, keeper: AsyncClient
) -> None:
    for client in (visitor, keeper):
        await client("listen", OPEN)
    await publish_well(machine, event(NOTHING, 0), event(1, 0), event(0, 0))
    whole = f"amqp.gateway.rabbitmq.queueCreated of {OPEN}: guest made it; %d at 1000000000; "
    in_part = f"amqp.gateway.rabbitmq.queueCreated of {OPEN}: Queue created; %d at 1000000000; "
    received = [await visitor("received", LONG_ENOUGH) for _ in range(2)]
    assert [text.partition("CompositeData")[0] for text in received] == [in_part % 1, whole % 2]
    assert "guest" not in received[0]
    received = [await keeper("received", LONG_ENOUGH) for _ in range(3)]
    assert [text.partition("CompositeData")[0] for text in received] == [whole % 7] * 3


async def test_sequence_numbers_have_no_gaps_for_what_is_not_received(
    machine: JavaMachine, visitor: AsyncClient, keeper: AsyncClient
) -> None:
    for client in (visitor, keeper):
        for mbean in (OPEN, NARROW):
            await client("listen", mbean)
    for number in (1, 2, 3, 4):
        emitted = msgspec.structs.replace(event(0 if number % 2 else NOTHING, 0), sequence=number)
        await publish_well(machine, emitted)
    numbers = {
        client: [
            found[1]
            for _ in range(count)
            if (found := re.search(r"; (\d+) at ", await client("received", LONG_ENOUGH)))
        ]
        for client, count in ((visitor, 4), (keeper, 8))
    }
    # Each of two MBeans emits the same event.
    assert numbers[visitor] == ["1", "1", "2", "2"]
    assert numbers[keeper] == [f"{number}" for number in (1, 1, 2, 2, 3, 3, 4, 4)]


async def test_changes_of_hidden_attributes_are_not_reported(
    machine: JavaMachine, visitor: AsyncClient, keeper: AsyncClient
) -> None:
    for client in (visitor, keeper):
        await client("listen", NARROW)
        await client("listen", OPEN)
    await publish_well(
        machine,
        Change.of(2, {2: HIDDEN}),
        Change.of(1, {2: name("also")}),
        Change.of(1, {3: varying(["for the visitor", "other"])}),
        Change.of(2, {0: "wide"}),
    )
    assert "java.lang.String narrow -> java.lang.String wide" in await visitor("received", LONG_ENOUGH)
    reported = [await keeper("received", LONG_ENOUGH) for _ in range(4)]
    assert HIDDEN in reported[0]
    assert "for the keeper -> java.lang.String other" in reported[2]


async def test_what_is_hidden_comes_and_goes_unreported(
    machine: JavaMachine, visitor: AsyncClient, keeper: AsyncClient
) -> None:
    for client in (visitor, keeper):
        await client("listen", DELEGATE)
    values = ("x", 1, None, None)
    await publish_well(
        machine,
        Register(5, 1, 1, name("new"), values, 0, NONE),
        Unregister(5),
        Unregister(3),
        Register(6, 1, 1, name("seen"), values, 0, SOME),
        Unregister(6),
    )
    reported = [await visitor("received", LONG_ENOUGH) for _ in range(2)]
    assert reported == [
        f"JMX.mbean.{what} of {DELEGATE}: {name('seen')}" for what in ("registered", "unregistered")
    ]
    assert "new" in await keeper("received", LONG_ENOUGH)


async def test_another_policy_hides_everything_until_it_is_shown_again(
    machine: JavaMachine, visitor: AsyncClient, keeper: AsyncClient
) -> None:
    await visitor("listen", OPEN)
    await publish_well(machine, ChangePolicy((False, True)), event(NOTHING, 0))
    assert await visitor("names", "amqp.gateway:*") == []
    assert len(await keeper("names", "amqp.gateway:*")) == 6
    swapped = (
        DefineAccess(10, 1, (Rights(None),), (NOTHING, 0)),
        DefineAccess(11, 1, (Rights(None),), (0, NOTHING)),
        Register(1, 1, 1, OPEN, ("open", 10, HIDDEN, None), 8, 10),
        Register(3, 1, 1, HIDDEN, ("hidden", 30, None, None), 9, 11),
    )
    await publish_well(machine, *swapped)
    assert await visitor("names", "amqp.gateway:*") == sorted([HIDDEN, HIDDEN_TABLE])
    assert HIDDEN not in await keeper("names", "amqp.gateway:*")
    await visitor("listen", HIDDEN)
    await publish_well(machine, event(NOTHING, 0), event(0, NOTHING))
    assert f"of {HIDDEN}: guest made it" in await visitor("received", LONG_ENOUGH)


async def test_an_access_that_does_not_exist_registers_nothing(
    machine: JavaMachine, keeper: AsyncClient
) -> None:
    result = await publish(machine, Register(7, 1, 1, name("seventh"), (None,) * 4, 0, 99))
    assert result.texts == ("command 0: there is no access 99 to this class",)
    assert name("seventh") not in await keeper("names", "amqp.gateway:*")
