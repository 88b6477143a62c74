"""Zabbix' own reader of JMX finds queues by discovery, and reads items of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from gateway.feed.records import ClassRecord, Lifetime, ObjectRecord
from gateway.mapping.files import class_schemas
from gateway.model.schema import ClassSchema
from tests.components.shipped_mappings import shipped_mappings
from tests.components.shop import agent, source
from tests.components.zabbix import JmxLogin, ZabbixJavaGateway, zabbix_java_gateway
from tests.jmx.conftest import JmxSite
from tests.jmx.shop import hall

QUEUE: ClassSchema = class_schemas(shipped_mappings()["rabbitmq"])["queue"]
QUEUE_CLASS = 40
COUNTERS = ("messagesPublished", "messagesDelivered", "messagesAcknowledged")
QUEUES = "amqp.gateway:source=shop1,package=rabbitmq,type=queue,*"


def queue(row: int, name: str, **values: object) -> ObjectRecord:
    """A queue of the virtual host ``/``, whose counters were never used unless ``values`` has them."""
    everything = {"name": name, "messages": 0, **dict.fromkeys(COUNTERS, 0), **values}
    return msgspec.structs.replace(
        hall(),
        class_number=QUEUE_CLASS,
        row=row,
        stable_name=name,
        leaf_name=name,
        lifetime=Lifetime.DURABLE,
        values={QUEUE.positions[element]: value for element, value in everything.items()},
    )


@pytest.fixture
async def zabbix(jmx: JmxSite, tmp_path: Path) -> AsyncIterator[ZabbixJavaGateway]:
    """A reader of a gateway with two queues, as the user ``monitor``."""
    jmx.core.records = [
        source(),
        ClassRecord(QUEUE_CLASS, QUEUE, "name", ""),
        agent(fresh=True),
        queue(1, "orders", messages=7, messagesPublished=9),
        queue(2, "idle.queue"),
    ]
    async with jmx.running():
        with zabbix_java_gateway(
            JmxLogin(jmx.port, "monitor", jmx.password), tmp_path / "zabbix.log"
        ) as reader:
            yield reader


def name_of(name: str) -> str:
    return f"amqp.gateway:source=shop1,package=rabbitmq,type=queue,name={name}"


async def test_discovery_finds_queues_with_their_keys_and_attributes_with_values(
    zabbix: ZabbixJavaGateway,
) -> None:
    rows = await asyncio.to_thread(zabbix.discovered, f'jmx.discovery[beans,"{QUEUES}"]')
    assert {row["{#JMXOBJ}"] for row in rows} == {name_of("orders"), name_of("idle.queue")}
    assert {row["{#JMXNAME}"] for row in rows} == {"orders", "idle.queue"}
    assert {row["{#JMXSOURCE}"] for row in rows} == {"shop1"}
    rows = await asyncio.to_thread(zabbix.discovered, f'jmx.discovery[attributes,"{name_of("orders")}"]')
    values = {row["{#JMXATTR}"]: row["{#JMXVALUE}"] for row in rows}
    assert (values["Name"], values["messages"], values["messagesPublished"]) == ("orders", "7", "9")
    folded = [name.casefold() for name in values]
    assert len(folded) == len(set(folded))


async def test_items_have_values_and_counters_that_were_never_used_are_zero(
    zabbix: ZabbixJavaGateway,
) -> None:
    keys = [f'jmx["{name_of("idle.queue")}","{counter}"]' for counter in COUNTERS]
    assert await asyncio.to_thread(zabbix.read, *keys) == ["0"] * len(COUNTERS)
    keys = [f'jmx["{name_of("orders")}","{attribute}"]' for attribute in ("messages", "Stale", "Name")]
    assert await asyncio.to_thread(zabbix.read, *keys) == ["7", "false", "orders"]
    # What there is not is an error of its item alone.
    keys = [
        f'jmx["{name_of("none")}","messages"]',
        f'jmx["{name_of("orders")}","size"]',
        f'jmx["{name_of("orders")}","memory"]',
        f'jmx["{name_of("orders")}","messages"]',
    ]
    *errors, value = await asyncio.to_thread(zabbix.read, *keys)
    assert value == "7"
    assert all(error.startswith("error: ") for error in errors), errors
