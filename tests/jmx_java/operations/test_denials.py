"""Logins and requests that are denied are logged and recorded, with user, address and reason."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from gateway.feed.operations import InvokeMethod
from gateway.jmx.backend import UNKNOWN, Backend, RefusedAttempt
from gateway.jmx.virtual_machine import JavaMachine
from gateway.model.operations import Outcome, Principal
from tests.components.waiting import eventually, until
from tests.jmx_java.attacks import jrmp
from tests.jmx_java.conftest import PASSWORD, USER, AsyncClient, JavaStrings, authenticate, settings
from tests.jmx_java.operations.queues import ORDERS
from tests.jmx_java.scripted_operator import ScriptedOperator
from tests.jmx_java.test_backend import request

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("denials to Java")]


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
    assert operator.logins == [Principal("jmx", USER, "127.0.0.1")]
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
    async def all_have_gone() -> bool:
        return (await machine.usage()).clients == 0

    await eventually(all_have_gone, "the clients of other tests have gone")
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


async def test_credentials_that_are_not_permitted_are_recorded(
    stranger: AsyncClient, operator: ScriptedOperator
) -> None:
    # A machine of its own: RMI would use a connection again by which another test has logged in.
    async with JavaMachine(settings(), authenticate) as machine:
        await machine.open(operator)
        for make, arguments, failure, reason in (
            ("file", ["a"], "REJECTED", "the class java.io.File is not permitted, or the login is too large"),
            ("longTexts", [1000, 1], "REJECTED", "a login is too large, or too deeply nested"),
            ("ours", [], "ClassNotFound", "the gateway refused it: there is no class Client$OwnFilter"),
        ):
            operator.attempts.clear()
            attack = await asyncio.to_thread(getattr(stranger.java, make), *arguments)
            with capture_logs() as logs:
                assert failure in await stranger("tryConnectWith", machine.port, attack)
            assert operator.attempts == [denied("", "login", reason)]
            (line,) = logs
            place = (line["event"], line["client"], line["reason"])
            assert place == ("jmx-login-refused", "127.0.0.1", reason)


async def test_attempts_to_change_the_registry_are_recorded(
    stranger: AsyncClient, operator: ScriptedOperator
) -> None:
    # A machine of its own: RMI would use a connection again by which another test has logged in.
    async with JavaMachine(settings(), authenticate) as machine:
        await machine.open(operator)
        for method in ("bind", "rebind", "unbind"):
            operator.attempts.clear()
            with capture_logs() as logs:
                assert "AccessException" in await stranger(f"try{method.capitalize()}", machine.port)
            reason = f"the registry refused it: Registry.{method} disallowed; origin unknown"
            assert operator.attempts == [denied("", "request", reason)]
            (line,) = logs
            place = (line["event"], line["client"], line["reason"])
            assert place == ("jmx-request-refused", "127.0.0.1", reason)


async def test_objects_sent_to_the_registry_are_recorded(
    machine: JavaMachine, operator: ScriptedOperator
) -> None:
    stream, _ = await asyncio.to_thread(jrmp.greeted, machine.port)
    with jrmp.all_closed([stream]):
        stream.sendall(jrmp.lookup_of_an_object())
        await until(lambda: operator.attempts, "the attempt is recorded")
    (attempt,) = operator.attempts
    assert attempt.text.startswith("request: the registry refused it: java.lang.ClassCastException: ")


async def test_what_is_usual_at_the_registry_is_not_recorded(
    stranger: AsyncClient, java_strings: JavaStrings, operator: ScriptedOperator
) -> None:
    async with JavaMachine(settings(), authenticate) as machine:
        credentials = java_strings([USER, PASSWORD])
        # No name is bound yet.
        assert "NameNotFound" in await stranger("tryConnectWith", machine.port, credentials)
        stream, _ = await asyncio.to_thread(jrmp.greeted, machine.port)
        stream.sendall(jrmp.lookup(1000, 10))
        stream.close()
        await machine.open(operator)
        assert await stranger("tryConnectWith", machine.port, credentials) == ""
    assert operator.attempts == []


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
            await backend.answer(request("authenticate", USER, PASSWORD, None, "192.0.2.1"))
    assert [entry["event"] for entry in logs] == ["jmx-login"] * 60
