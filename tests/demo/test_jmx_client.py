"""The plain Java client, compared with the requests to a machine behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.jmx.backend import Reply, Status
from gateway.jmx.commands import AttributeType
from gateway.jmx.names import quoted
from gateway.jmx.types import Written
from gateway.jmx.virtual_machine import JavaMachine
from tests.components.jmx_client import JavaName, JmxClient, JmxClientError, ReadAttribute, Thrown
from tests.jmx_java.conftest import PASSWORD, USER, authenticate, publish_well, settings
from tests.jmx_java.operations.queues import BILLS, FULL, ORDERS
from tests.jmx_java.scripted_operator import ScriptedOperator

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("plain JMX client")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def logged_in(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[JmxClient, ScriptedOperator]]:
    """Provide a client that is logged in to a machine with two queues, and the operator behind it."""
    jar, operator = tmp_path_factory.mktemp("client") / "jmx-client.jar", ScriptedOperator()
    async with JavaMachine(settings(), authenticate) as machine:
        await publish_well(machine, *FULL)
        await machine.open(operator)
        async with await JmxClient.connect(jar, f"127.0.0.1:{machine.port}", USER, PASSWORD) as connected:
            yield connected, operator


@pytest.fixture
def client(logged_in: tuple[JmxClient, ScriptedOperator]) -> JmxClient:
    """Return the client that all tests share."""
    return logged_in[0]


@pytest.fixture
def operator(logged_in: tuple[JmxClient, ScriptedOperator]) -> ScriptedOperator:
    """Return the operator, which applies everything, unless a test says otherwise, and was asked nothing."""
    operator = logged_in[1]
    operator.reply = Reply(Status.APPLIED)
    operator.asked.clear()
    return operator


async def test_attributes_are_set_one_by_one_and_at_once(
    client: JmxClient, operator: ScriptedOperator
) -> None:
    await client.set(ORDERS, "limit", 5)
    assert operator.values() == [("limit", Written(AttributeType.LONG, 5))]

    operator.reply = Reply(Status.APPLIED, "", ("limit",))
    assert await client.set_all(ORDERS, {"limit": 2**63, "secret": None}) == ["limit"]
    assert operator.values() == [
        ("limit", Written(AttributeType.BIG_INTEGER, str(2**63))),
        ("secret", None),
    ]


async def test_operations_are_called_with_typed_values(client: JmxClient, operator: ScriptedOperator) -> None:
    operator.reply = Reply(Status.APPLIED, "", (2**64 - 1,))

    returned = await client.invoke(ORDERS, "move", JavaName(BILLS), 5, "slow and quoted: \"'")

    assert returned == ReadAttribute("java.math.BigInteger", 2**64 - 1)
    *_, arguments = operator.asked[-1]
    assert arguments == [
        Written(AttributeType.OBJECT_NAME, [8, "/|bills"]),
        Written(AttributeType.LONG, 5),
        Written(AttributeType.STRING, "slow and quoted: \"'"),
    ]


async def test_what_java_throws_is_reported_with_its_causes(
    client: JmxClient, operator: ScriptedOperator
) -> None:
    operator.reply = Reply(Status.OUTCOME_UNKNOWN, "no answer came in time")

    with pytest.raises(JmxClientError) as raised:
        await client.invoke(ORDERS, "purge")

    outer, cause = raised.value.thrown
    assert outer.java_class == "javax.management.MBeanException"
    assert cause.java_class == "java.util.concurrent.TimeoutException"
    assert "no answer came in time" in cause.message
    with pytest.raises(JmxClientError) as raised:
        await client.invoke(ORDERS, "burn")
    # What is not described is requested all the same: a user may not do everything that there is.
    message = "unknown-element: amqp.gateway:type=queue,name=orders has no operation burn"
    assert raised.value.thrown == (
        Thrown("javax.management.ReflectionException", message),
        Thrown("java.lang.NoSuchMethodException", message),
    )


async def test_a_text_with_the_marks_of_requests_arrives_as_it_is(
    client: JmxClient, operator: ScriptedOperator
) -> None:
    text = "\ttwo\r\nlines\0 %09+\\t\u2028\U0001f407"
    operator.reply = Reply(Status.APPLIED, "", ("secret",))
    await client.set(ORDERS, "secret", text)
    assert operator.values() == [("secret", Written(AttributeType.STRING, text))]
    name = f"amqp.gateway:name={quoted(text)}"
    with pytest.raises(JmxClientError) as raised:
        await client.read(name)
    assert raised.value.thrown == (Thrown("javax.management.InstanceNotFoundException", name),)
