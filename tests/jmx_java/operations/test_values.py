"""Values that clients give, of any class."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.jmx.backend import MAX_REQUEST_OCTETS
from gateway.jmx.commands import AttributeType
from gateway.jmx.types import Written
from tests.jmx_java.conftest import AsyncClient, JavaObject
from tests.jmx_java.operations.queues import BILLS, ORDERS
from tests.jmx_java.scripted_operator import ScriptedOperator

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("values of Java")]

VALUE = "javax.management.InvalidAttributeValueException"


def written_values(java: JavaObject) -> dict[str, tuple[Any, Written | None]]:
    """Return values as a client gives them, and as Python receives them."""
    return {
        "null": (None, None),
        "Boolean": (True, Written(AttributeType.BOOLEAN, value=True)),
        "Integer": (5, Written(AttributeType.LONG, 5)),
        "Long": (2**63 - 1, Written(AttributeType.LONG, 2**63 - 1)),
        "BigInteger": (java.bigInteger(str(2**64)), Written(AttributeType.BIG_INTEGER, str(2**64))),
        "Double": (0.5, Written(AttributeType.DOUBLE, 0.5)),
        "String": ("Grüße 🐇", Written(AttributeType.STRING, "Grüße 🐇")),
        "Date": (java.date(1_700_000_000_123), Written(AttributeType.DATE, 1_700_000_000_123)),
        "byte[]": (java.bytes("7f00ff"), Written(AttributeType.BYTES, b"\x7f\x00\xff")),
        "ObjectName": (java.objectName(BILLS), Written(AttributeType.OBJECT_NAME, [8, "/|bills"])),
        "String[]": (java.strings(["a", ""]), Written(AttributeType.LIST, ["a", ""])),
        "TabularData": (
            java.table("key", "value", {"a": "1"}),
            Written(AttributeType.MAP, [["a", "1"]]),
        ),
    }


async def test_values_arrive_as_what_they_are_by_themselves(
    client: AsyncClient, operator: ScriptedOperator, java_client: JavaObject
) -> None:
    values = await asyncio.to_thread(written_values, java_client)
    arrived: dict[str, Written | None] = {}
    for name, (value, _) in values.items():
        assert await client("trySetAttribute", ORDERS, "limit", value) == ""
        (arrived[name],) = (written for _, written in operator.values())
    assert arrived == {name: written for name, (_, written) in values.items()}


async def test_values_that_only_java_has_arrive_as_others_or_not_at_all(
    client: AsyncClient, operator: ScriptedOperator
) -> None:
    assert await client("trySetOdd", ORDERS, "limit", "Short") == ""
    assert operator.values() == [("limit", Written(AttributeType.LONG, -5))]
    assert await client("trySetOdd", ORDERS, "limit", "Float") == ""
    assert operator.values() == [("limit", Written(AttributeType.DOUBLE, 0.5))]
    failure = await client("trySetOdd", ORDERS, "limit", "half a character")
    assert failure.startswith(f"{VALUE}: ")


@pytest.mark.parametrize("kind", ["Character", "List.of", "Map.of", "long[]"])
async def test_classes_that_no_attribute_has_are_named(
    client: AsyncClient, operator: ScriptedOperator, kind: str
) -> None:
    failure = await client("trySetOdd", ORDERS, "limit", kind)
    assert failure.startswith(f"{VALUE}: wrong-type: limit: a value of ")
    assert "java.lang.Long is wanted" in failure
    assert operator.asked == []


@pytest.mark.parametrize("kind", ["Instant", "TimeUnit"])
async def test_what_is_refused_before_an_object_is_made_does_not_end_the_connection(
    client: AsyncClient, operator: ScriptedOperator, kind: str
) -> None:
    failure = await client("trySetOdd", ORDERS, "limit", kind)
    assert failure.startswith("java.io.InvalidClassException: ")
    assert await client("trySetAttribute", ORDERS, "limit", 4) == ""
    assert len(operator.asked) == 1


def impossible_values(java: JavaObject) -> dict[str, Any]:
    """Values that no attribute has."""
    return {
        "a class that no attribute has": java.bigDecimal("1.5"),
        "an MBean of somebody else": java.objectName("java.lang:type=Memory"),
        "an MBean that there is not": java.objectName("amqp.gateway:type=none"),
        "a list without an item": java.strings(["a", None]),
        "another table": java.table("name", "number", {"a": "1"}),
        "too much": java.longText(MAX_REQUEST_OCTETS),
    }


async def test_what_no_attribute_can_be_is_reported_at_once(
    client: AsyncClient, operator: ScriptedOperator, java_client: JavaObject
) -> None:
    for name, value in (await asyncio.to_thread(impossible_values, java_client)).items():
        outcome = "wrong-length: " if name == "too much" else "wrong-type: "
        failure = await client("trySetAttribute", ORDERS, "limit", value)
        assert failure.startswith(f"{VALUE}: {outcome}"), name
        failure = await client("tryInvokeWith", ORDERS, "move", [value, 1, "fast"])
        assert failure.startswith(f"javax.management.RuntimeOperationsException: {outcome}"), name
        assert await client("setAll", ORDERS, ["limit", value]) == [], name
    assert operator.asked == []


async def test_a_value_of_a_wrong_class_is_refused_with_the_right_one(
    client: AsyncClient, java_client: JavaObject
) -> None:
    value = await asyncio.to_thread(java_client.bigDecimal, "1.5")
    reported = "a value of java.math.BigDecimal cannot be taken; java.lang.Long is wanted"
    assert f"wrong-type: limit: {reported}" in await client("trySetAttribute", ORDERS, "limit", value)
    failure = await client("tryInvokeWith", ORDERS, "move", [None, value, None])
    assert f"wrong-type: parameter count of move: {reported}" in failure
