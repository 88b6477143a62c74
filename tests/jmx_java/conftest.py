"""A machine to test, and a Java client for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import pytest
import pytest_asyncio

from gateway.feed.freshness import Freshness
from gateway.jmx.commands import Command, Register, RegisterTable, SetGroup, Unregister, encode_batch
from gateway.jmx.java_runtime import MachineEndedError
from gateway.jmx.virtual_machine import JavaMachine, MachineSettings, PushResult
from tests.process_state import SharedPartEndedError

USER, PASSWORD = "monitor", "correct horse"

JavaObject: TypeAlias = Any
"""An object in the clients' virtual machine."""

JavaStrings: TypeAlias = Callable[[Sequence[str | None]], JavaObject]

Connect: TypeAlias = Callable[[JavaMachine], contextlib.AbstractAsyncContextManager["AsyncClient"]]


async def authenticate(user: str, password: str) -> bool:
    return (user, password) == (USER, PASSWORD)


def settings(**changes: Any) -> MachineSettings:  # noqa: ANN401  fields of the settings
    """Return settings with which, unless changed, no commands are needed for as long as a test takes."""
    return MachineSettings(**{"address": "127.0.0.1", "port": 0, "heap": 128, "silence": 900.0, **changes})


_REGISTERED: WeakKeyDictionary[JavaMachine, set[int]] = WeakKeyDictionary()
"""The numbers of what was registered in a machine, for `emptied`."""


async def publish(machine: JavaMachine, *commands: Command) -> PushResult:
    registered = (each.number for each in commands if isinstance(each, Register | RegisterTable))
    _REGISTERED.setdefault(machine, set()).update(registered)
    return await machine.push(encode_batch(commands))


async def publish_well(machine: JavaMachine, *commands: Command) -> None:
    assert await publish(machine, *commands) == PushResult(0, ())


async def emptied(machine: JavaMachine) -> JavaMachine:
    """Return a machine that had another test before: without its MBeans, and what it said of the group 1.

    It remembers who saw the MBeans that are gone: for what tells that they come and go, take a new one.

    Raises:
        SharedPartEndedError: it has ended; the next test gets another one.
    """
    numbers = _REGISTERED.pop(machine, set())
    try:
        await publish_well(machine, *map(Unregister, numbers), SetGroup(1, Freshness.STALE))
    except MachineEndedError as error:
        raise SharedPartEndedError("the virtual machine that several tests share has ended") from error
    return machine


class AsyncClient:
    """A Java object, called on another thread, because the machine asks this loop about logins."""

    def __init__(self, java: JavaObject) -> None:
        self.java = java

    async def __call__(self, method: str, *arguments: object) -> JavaObject:
        result = await asyncio.to_thread(getattr(self.java, method), *arguments)
        return result if isinstance(result, str | int | bool | None) else list(result)


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[JavaMachine]:
    """Run a virtual machine that lets clients in."""
    async with JavaMachine(settings(), authenticate) as started:
        await started.open()
        yield started


@pytest.fixture
async def machine() -> AsyncIterator[JavaMachine]:
    """A virtual machine that lets clients in."""
    async with opened() as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_machine() -> AsyncIterator[JavaMachine]:
    """A virtual machine that lets clients in, for all tests of a module, which run on one event loop."""
    async with opened() as started:
        yield started


@pytest.fixture
def connect(java_client: JavaObject) -> Connect:
    @contextlib.asynccontextmanager
    async def connected(machine: JavaMachine) -> AsyncIterator[AsyncClient]:
        java = await asyncio.to_thread(java_client.connect, machine.port, USER, PASSWORD)
        client = AsyncClient(java)
        try:
            yield client
        finally:
            with contextlib.suppress(Exception):  # the machine may have ended, as the test wanted
                await client("close")

    return connected


@pytest.fixture
async def client(machine: JavaMachine, connect: Connect) -> AsyncIterator[AsyncClient]:
    """A Java client that has logged in to `machine`."""
    async with connect(machine) as connected:
        yield connected


@pytest.fixture
def java_strings(java_client: JavaObject) -> JavaStrings:
    """Return a function that makes a Java ``String[]``."""
    return lambda texts: java_client.strings(list(texts))


@pytest.fixture
def stranger(java_client: JavaObject) -> AsyncClient:
    """A Java client that has not logged in."""
    return AsyncClient(java_client)
