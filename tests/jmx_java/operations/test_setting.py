"""Attributes that clients set, one or several at once."""

from __future__ import annotations

import pytest

from gateway.jmx.backend import Reply, Status
from gateway.jmx.commands import AttributeType
from gateway.jmx.types import Written
from gateway.model.operations import Principal
from tests.jmx_java.conftest import USER, AsyncClient
from tests.jmx_java.operations.queues import ORDERS
from tests.jmx_java.scripted_operator import ScriptedOperator

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("settings by Java")]


async def test_what_can_only_be_written_is_not_read(client: AsyncClient) -> None:
    with pytest.raises(Exception, match=r"AttributeNotFoundException.* that can be read"):
        await client("attribute", ORDERS, "secret")
    assert await client("attributes", ORDERS, ["secret", "limit"]) == ["limit=java.lang.Long 5"]


async def test_who_asks_is_who_logged_in_from_where_they_are(
    client: AsyncClient, operator: ScriptedOperator
) -> None:
    assert await client("trySetAttribute", ORDERS, "limit", 4) == ""
    principal = Principal("jmx", USER, "127.0.0.1")
    assert operator.asked == [(7, principal, [("limit", Written(AttributeType.LONG, 4))])]


async def test_no_principal_asks_in_the_name_of_another(
    client: AsyncClient, operator: ScriptedOperator
) -> None:
    assert await client("tryAs", "somebody", ORDERS, "limit", 4) != ""
    assert operator.asked == []


async def test_what_is_not_writable_is_no_attribute_that_can_be_set(
    client: AsyncClient, operator: ScriptedOperator
) -> None:
    for name in ("messages", "StableName", "Stale", "none", ""):
        failure = await client("trySetAttribute", ORDERS, name, 1)
        outcome = "unknown-element" if name in {"none", ""} else "read-only"
        assert failure.startswith(f"javax.management.AttributeNotFoundException: {outcome}: "), name
    missing = await client("trySetAttribute", "amqp.gateway:type=queue,name=none", "limit", 1)
    assert missing.startswith("javax.management.InstanceNotFoundException: ")
    assert operator.asked == []


async def test_several_attributes_are_one_request_and_what_was_set_comes_back(
    client: AsyncClient, operator: ScriptedOperator
) -> None:
    operator.reply = Reply(Status.FAILED, "the second one failed", ("limit", "no attribute of theirs"))
    given = ["limit", 4, "messages", 1, "secret", "x", "none", 1, "limit", 5]
    assert await client("setAll", ORDERS, given) == ["limit"]
    ((_, _, values),) = operator.asked
    assert values == [
        ("limit", Written(AttributeType.LONG, 5)),
        ("secret", Written(AttributeType.STRING, "x")),
    ]


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.GONE])
async def test_setting_several_attributes_never_throws(
    client: AsyncClient, operator: ScriptedOperator, status: Status
) -> None:
    operator.reply = Reply(status, "a text")
    assert await client("setAll", ORDERS, ["limit", 4]) == []


async def test_nothing_is_asked_where_nothing_can_be_set(
    client: AsyncClient, operator: ScriptedOperator
) -> None:
    assert await client("setAll", ORDERS, ["messages", 4]) == []
    assert await client("setAll", ORDERS, []) == []
    assert operator.asked == []
