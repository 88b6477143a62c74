"""A RabbitMQ is started again while the gateway is down: its counters begin again, though none is lower."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gateway.demo.broker import BrokerSettings, PrivateBroker
from tests.components.command_line import new_site
from tests.components.rabbitmq import TEST_SETTINGS
from tests.components.waiting import wait_until
from tests.durable.test_another_broker import watched
from tests.durable.test_clock_set import has_recorded, publish, read_every_second
from tests.durable.test_standstills import rows

GAINS = """SELECT CAST(json_extract(deltas, '$.messagesPublished.delta') AS BIGINT),
                  CAST(json_extract(deltas, '$.messagesPublished.reset') AS BOOLEAN)
           FROM log WHERE class = 'queue' AND object_name = $name AND deltas LIKE '%messagesPublished%'"""


@pytest.mark.long
def test_no_counter_goes_on_over_a_restart_of_the_broker(
    start_rabbitmq: Callable[[BrokerSettings], PrivateBroker], tmp_path: Path
) -> None:
    broker, queue = start_rabbitmq(TEST_SETTINGS), f"counted-{secrets.token_hex(4)}"
    site = new_site(tmp_path)
    source = read_every_second(broker, site)
    site.configure(sources={"orders": source}, log={"statistics_interval": "1s"}, snmp={"enabled": False})
    has = partial(has_recorded, site, queue)
    asyncio.run(publish(broker, queue, 3))
    with watched(site, site.folder / "first.txt"):
        wait_until(lambda: has(3), "the counter is recorded")
    broker.kill_node()
    broker.start()
    asyncio.run(publish(broker, queue, 30))
    with watched(site, site.folder / "second.txt"):
        # A listing may show the messages before the broker's nodes are known to measure.
        wait_until(lambda: rows(site, GAINS, name=f"/|{queue}"), "it is recorded again")
    assert rows(site, GAINS, name=f"/|{queue}") == [(30, True)]
