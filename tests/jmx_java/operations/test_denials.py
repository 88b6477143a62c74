"""Logins and requests that are denied are logged and recorded, with user, address and reason."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from gateway.feed.operations import InvokeMethod
from gateway.jmx.backend import UNKNOWN, Backend, RefusedAttempt
from gateway.jmx.virtual_machine import JavaMachine
from gateway.model.operations import Outcome, Principal
from tests.jmx_java.conftest import PASSWORD, USER, AsyncClient, JavaStrings, authenticate, settings
from tests.jmx_java.operations.queues import ORDERS
from tests.jmx_java.scripted_operator import ScriptedOperator
from tests.jmx_java.test_backend import request


def denied(user: str, kind: str, reason: str) -> RefusedAttempt:
    principal = Principal("jmx", user, "127.0.0.1")
    return RefusedAttempt(principal, 0, InvokeMethod(kind), Outcome.REFUSED, f"{kind}: {reason}")


async def test_logins_are_recorded(
    stranger: AsyncClient, java_strings: JavaStrings, operator: ScriptedOperator
) -> None:
    def is_user(user: str) -> bool:
        return user == USER

    wrong, missing = "user or password is wrong", "user or password is missing, or too long"
    async with JavaMachine(settings(), authenticate, is_user=is_user) as machine:
        await machine.open(operator)
        with capture_logs() as logs:
            for credentials in ([USER, "guess"], ["my secret", PASSWORD], [USER], [USER, PASSWORD]):
                await stranger("tryConnectWith", machine.port, java_strings(credentials))
    assert operator.attempts == [
        denied(USER, "login", wrong),
        denied(UNKNOWN, "login", wrong),
        denied(UNKNOWN, "login", missing),
    ]
    seen = [(entry["event"], entry["user"], entry["client"], entry.get("reason")) for entry in logs]
    assert seen == [
        ("jmx-login-refused", USER, "127.0.0.1", wrong),
        ("jmx-login-refused", "my secret", "127.0.0.1", wrong),
        ("jmx-login-refused", "", "127.0.0.1", missing),
        ("jmx-login", USER, "127.0.0.1", None),
    ]


async def test_logins_without_a_place_are_recorded(
    machine: JavaMachine, stranger: AsyncClient, operator: ScriptedOperator
) -> None:
    clients = []
    for _ in range(30):
        java = await asyncio.to_thread(stranger.java.connect, machine.port, USER, PASSWORD)
        clients.append(AsyncClient(java))
    assert "30 clients of the user" in await stranger(
        "tryConnectWith", machine.port, stranger.java.strings([USER, PASSWORD])
    )
    reason = f"30 clients of the user {USER} are connected, which is the most there may be of one user"
    assert operator.attempts == [denied(USER, "login", reason)]
    for client in clients:
        await client("close")


async def test_classes_that_are_not_permitted_are_recorded(
    client: AsyncClient, stranger: AsyncClient, operator: ScriptedOperator
) -> None:
    attack = await asyncio.to_thread(stranger.java.file, "some/file")
    assert "REJECTED" in await client("trySetAttribute", ORDERS, "limit", attack)
    reason = "the class java.io.File is not permitted, or the request is too large"
    assert operator.attempts[0] == denied(USER, "request", reason)


@pytest.mark.parametrize(
    ("kind", "event"), [("login", "jmx-login-refused"), ("request", "jmx-request-refused")]
)
async def test_a_flood_makes_a_bounded_log(kind: str, event: str) -> None:
    backend = Backend(authenticate, 60)
    with capture_logs() as logs:
        for _ in range(1000):
            await backend.answer(request("denied", kind, USER, "192.0.2.1", "why"))
    assert [entry["event"] for entry in logs] == [event] * 20


async def test_a_flood_of_right_logins_makes_a_bounded_log() -> None:
    backend = Backend(authenticate, 60)
    with capture_logs() as logs:
        for _ in range(1000):
            await backend.answer(request("authenticate", USER, PASSWORD, "192.0.2.1"))
    assert [entry["event"] for entry in logs] == ["jmx-login"] * 60
