"""Actions that strangers and clients cannot carry out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

import gateway.jmx.virtual_machine
from gateway.jmx.commands import Attribute, AttributeType, DefineClass, NotificationType, Register
from gateway.jmx.virtual_machine import JavaMachine
from tests.jmx_java.conftest import (
    PASSWORD,
    USER,
    AsyncClient,
    Connect,
    JavaStrings,
    authenticate,
    emptied,
    publish_well,
    settings,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("security of Java")]

QUEUE = DefineClass(
    1,
    "rabbitmq:queue",
    "A queue",
    (Attribute("messages", AttributeType.LONG, "d"),),
    (NotificationType("some.type", "d"),),
)
ORDERS = "amqp.gateway:type=queue,name=orders"
MEMORY = "java.lang:type=Memory"
DELEGATE = "JMImplementation:type=MBeanServerDelegate"
REFUSED = "java.lang.SecurityException"


@pytest_asyncio.fixture(loop_scope="module")
async def machine(shared_machine: JavaMachine) -> JavaMachine:
    return await emptied(shared_machine)


@pytest_asyncio.fixture(loop_scope="module")
async def client(machine: JavaMachine, connect: Connect) -> AsyncIterator[AsyncClient]:
    async with connect(machine) as connected:
        yield connected


@pytest.mark.parametrize(
    "credentials",
    [
        None,
        [USER, "wrong"],
        ["nobody", PASSWORD],
        [USER],
        [USER, PASSWORD, "more"],
        ["", ""],
        [USER, None],
        ["x" * 2000, "y"],
    ],
)
async def test_no_login_succeeds_without_user_and_password(
    machine: JavaMachine,
    stranger: AsyncClient,
    java_strings: JavaStrings,
    credentials: list[str | None] | None,
) -> None:
    java = None if credentials is None else java_strings(credentials)
    assert REFUSED in await stranger("tryConnectWith", machine.port, java)


async def test_a_refused_login_is_logged_without_the_password(
    stranger: AsyncClient, java_strings: JavaStrings
) -> None:
    # So many lines a minute are logged: it is a machine of its own.
    async with JavaMachine(settings(), authenticate) as machine:
        await machine.open()
        with capture_logs() as logs:
            await stranger("tryConnectWith", machine.port, java_strings([USER, "guessed"]))
    assert logs == [
        {
            "event": "jmx-login-refused",
            "log_level": "warning",
            "user": USER,
            "client": "127.0.0.1",
            "reason": "user or password is wrong",
            "left_out": 0,
        }
    ]


async def test_no_login_succeeds_when_python_fails(stranger: AsyncClient, java_strings: JavaStrings) -> None:
    async def fail(_user: str, _password: str) -> bool:
        raise RuntimeError("some secret inside")

    async with JavaMachine(settings(), fail) as machine:
        await machine.open()
        failure = await stranger("tryConnectWith", machine.port, java_strings([USER, PASSWORD]))
    assert "the gateway could not say whether the password is right" in failure
    assert "some secret inside" not in failure


async def test_no_login_succeeds_when_python_does_not_answer(
    stranger: AsyncClient, java_strings: JavaStrings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_user: str, _password: str) -> bool:
        await asyncio.get_running_loop().create_future()
        return True

    monkeypatch.setattr(gateway.jmx.virtual_machine, "_ANSWER_SECONDS", 0.1)
    async with JavaMachine(settings(), never) as machine:
        await machine.open()
        failure = await stranger("tryConnectWith", machine.port, java_strings([USER, PASSWORD]))
        assert "java.io.IOException: time-out: the gateway did not say within 0.1 s" in failure
        assert REFUSED not in failure


async def test_the_answer_to_a_wrong_password_is_kept_back(
    machine: JavaMachine, stranger: AsyncClient, java_strings: JavaStrings
) -> None:
    began = time.monotonic()
    assert REFUSED in await stranger("tryConnectWith", machine.port, java_strings([USER, "guessed"]))
    assert time.monotonic() - began >= 0.5


async def test_objects_as_credentials_are_refused_unread(machine: JavaMachine, stranger: AsyncClient) -> None:
    for attack in (
        await asyncio.to_thread(stranger.java.file, "some/file"),
        await asyncio.to_thread(stranger.java.nested, 50),
        await asyncio.to_thread(stranger.java.longTexts, 1000, 1),
    ):
        assert "REJECTED" in await stranger("tryConnectWith", machine.port, attack)


async def test_credentials_of_any_size_do_not_fill_the_memory(
    machine: JavaMachine, stranger: AsyncClient, connect: Connect
) -> None:
    attack = await asyncio.to_thread(stranger.java.longTexts, 2, 100_000_000)
    assert await stranger("tryConnectWith", machine.port, attack)
    async with connect(machine) as client:
        assert await client("names", "java.lang:type=Memory") == ["java.lang:type=Memory"]


@pytest.mark.parametrize("attempt", ["tryBind", "tryRebind", "tryUnbind"])
async def test_the_registry_can_only_be_read(
    machine: JavaMachine, stranger: AsyncClient, connect: Connect, attempt: str
) -> None:
    assert "AccessException" in await stranger(attempt, machine.port)
    async with connect(machine):
        pass


async def test_a_client_makes_removes_and_loads_nothing(machine: JavaMachine, client: AsyncClient) -> None:
    await publish_well(machine, QUEUE, Register(1, 1, 1, ORDERS, (1,)))
    for attempt in (
        ("tryCreate", "javax.management.loading.MLet", "x:type=MLet"),
        ("tryCreate", "javax.management.timer.Timer", "amqp.gateway:type=timer"),
        ("tryUnregister", ORDERS),
        ("tryUnregister", "java.util.logging:type=Logging"),
        ("tryListenerMBean", ORDERS, DELEGATE),
    ):
        assert REFUSED in await client(*attempt)
    assert await client("names", ORDERS) != []


async def test_the_virtual_machines_own_mbeans_are_only_read(client: AsyncClient, tmp_path: Path) -> None:
    dump = tmp_path / "heap.hprof"
    for attempt in (
        ("tryDumpHeap", str(dump)),
        ("tryInvoke", MEMORY, "gc", "", None),
        ("trySetAttribute", MEMORY, "Verbose", True),
        ("trySetAttributes", MEMORY, "Verbose", True),
    ):
        assert REFUSED in await client(*attempt)
    assert not dump.exists()
    assert await client("attribute", MEMORY, "Verbose") == "java.lang.Boolean false"


async def test_our_mbeans_say_in_the_standard_way_that_they_cannot_be_changed(
    machine: JavaMachine, client: AsyncClient
) -> None:
    await publish_well(machine, QUEUE, Register(1, 1, 1, ORDERS, (1,)))
    no_attribute = "javax.management.AttributeNotFoundException"
    assert (await client("trySetAttribute", ORDERS, "messages", 5)).startswith(no_attribute)
    assert (await client("trySetAttribute", ORDERS, "none", 5)).startswith(no_attribute)
    assert await client("trySetAttributes", ORDERS, "messages", 5) == ""
    failure = await client("tryInvoke", ORDERS, "purge", "", None)
    assert failure.startswith("javax.management.ReflectionException")
    missing = "amqp.gateway:type=queue,name=none"
    assert "javax.management.InstanceNotFoundException" in await client(
        "tryInvoke", missing, "purge", "", None
    )


async def test_objects_of_other_classes_in_a_request_are_refused_unread(
    machine: JavaMachine, client: AsyncClient, stranger: AsyncClient
) -> None:
    await publish_well(machine, QUEUE, Register(1, 1, 1, ORDERS, (1,)))
    attack = await asyncio.to_thread(stranger.java.file, "some/file")
    for attempt in (
        ("trySetAttribute", ORDERS, "messages", attack),
        ("trySetAttributes", ORDERS, "messages", attack),
        ("tryInvoke", ORDERS, "purge", "java.io.File", attack),
    ):
        assert "REJECTED" in await client(*attempt)


async def test_no_class_of_a_client_is_loaded(machine: JavaMachine, client: AsyncClient) -> None:
    await publish_well(machine, QUEUE, Register(1, 1, 1, ORDERS, (1,)))
    assert "java.lang.ClassNotFoundException: Client$OwnFilter" in await client("tryFilterOfOurs", ORDERS)


async def test_the_port_of_the_bridge_closes_behind_python(machine: JavaMachine) -> None:
    ports = await asyncio.to_thread(listening_ports, machine.pid)
    assert ports == {machine.port}


def listening_ports(pid: int) -> set[int]:
    """The TCP ports that the process listens on (proc(5))."""
    sockets = {
        path.readlink().name.removeprefix("socket:[").rstrip("]")
        for path in Path(f"/proc/{pid}/fd").iterdir()
        if str(path.readlink()).startswith("socket:")
    }
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


async def test_nothing_secret_stands_on_the_command_line_or_in_the_environment(machine: JavaMachine) -> None:
    process = Path(f"/proc/{machine.pid}")
    command_line = process.joinpath("cmdline").read_bytes().split(b"\0")
    assert command_line[-2] == b"amqp.gateway.jmx.Main"
    assert b"-XX:+DisableAttachMechanism" in command_line
    names = {entry.split(b"=")[0] for entry in process.joinpath("environ").read_bytes().split(b"\0") if entry}
    assert names <= {b"PATH", b"HOME", b"TZ", b"LD_LIBRARY_PATH", b"LANG", b"LC_ALL"}


async def test_clients_come_in_only_after_the_machine_is_opened(
    stranger: AsyncClient, java_strings: JavaStrings
) -> None:
    async with JavaMachine(settings(), authenticate) as machine:
        credentials = java_strings([USER, PASSWORD])
        assert "NameNotFoundException" in await stranger("tryConnectWith", machine.port, credentials)
        await machine.open()
        await machine.open()
        assert await stranger("tryConnectWith", machine.port, credentials) == ""
