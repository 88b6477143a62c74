"""The notifications to systemd, received on a socket like its own."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.service.processes.systemd import ServiceManager
from tests.components.waiting import DEADLINE


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(os.fspath(tmp_path / "notify"))
        listening.settimeout(DEADLINE)
        yield listening


def said(systemd: socket.socket) -> list[str]:
    return systemd.recv(4096).decode().split("\n")


def test_it_is_reported_when_the_gateway_is_ready_and_when_it_stops(systemd: socket.socket) -> None:
    manager = ServiceManager(systemd.getsockname())
    manager.ready()
    manager.stopping()
    assert said(systemd) == ["READY=1", "STATUS=running"]
    assert said(systemd) == ["STOPPING=1", "STATUS=stopping"]


def test_an_abstract_address_begins_with_an_at() -> None:
    name = f"amqp-gateway-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.settimeout(DEADLINE)
        ServiceManager(f"@{name}").ready()
        assert said(listening)[0] == "READY=1"


async def test_signs_of_life_are_given_while_no_process_is_silent(systemd: socket.socket) -> None:
    answers = iter([[], ["snmp"], []])
    asked = asyncio.Event()

    async def silent() -> list[str]:
        try:
            return next(answers)
        except StopIteration:
            asked.set()
            await asyncio.get_running_loop().create_future()
            raise AssertionError from None

    watching = asyncio.create_task(ServiceManager(systemd.getsockname(), watchdog=0.01).watch(silent))
    await asked.wait()
    watching.cancel()
    assert [said(systemd) for _ in range(3)] == [
        ["WATCHDOG=1", "STATUS=running"],
        ["STATUS=silent: snmp"],
        ["WATCHDOG=1", "STATUS=running"],
    ]


async def test_without_a_watchdog_no_process_is_asked(systemd: socket.socket) -> None:
    async def silent() -> list[str]:
        raise AssertionError

    watching = asyncio.create_task(ServiceManager(systemd.getsockname()).watch(silent))
    done, _ = await asyncio.wait({watching}, timeout=0.05)
    assert not done
    watching.cancel()


def test_the_environment_is_read_once_and_not_handed_on(systemd: socket.socket) -> None:
    environment = {
        "NOTIFY_SOCKET": systemd.getsockname(),
        "WATCHDOG_USEC": "60000000",
        "WATCHDOG_PID": str(os.getpid()),
        "HOME": "/",
    }
    ServiceManager.of_environment(environment).ready()
    assert said(systemd)[0] == "READY=1"
    assert environment == {"HOME": "/"}


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "relative"])
def test_other_addresses_are_no_principal(address: str) -> None:
    manager = ServiceManager.of_environment({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "soon"})
    manager.ready()


def test_one_that_has_gone_is_no_reason_to_fail(tmp_path: Path) -> None:
    ServiceManager(os.fspath(tmp_path / "nobody")).stopping()
