"""A RabbitMQ for tests that alarm the broker, or whose users and virtual host have the names of real life."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest

from gateway.demo.broker import BrokerSettings, PrivateBroker
from tests.components.rabbitmq import ALWAYS_BOUND, keep_events_published
from tests.components.waiting import wait_until


@pytest.fixture(scope="package")
def broker_of_all(rabbitmq_settings: BrokerSettings) -> Iterator[PrivateBroker]:
    """The broker itself; the start of one takes as much processor time as most of these tests."""
    with PrivateBroker(settings=rabbitmq_settings) as broker:
        keep_events_published(broker)
        yield broker


@pytest.fixture
def lent_rabbitmq(broker_of_all: PrivateBroker) -> Iterator[PrivateBroker]:
    """The RabbitMQ of the group ``lent broker``, for one test after the other."""
    yield broker_of_all
    with broker_of_all.http() as client:
        if not client.get("health/checks/alarms").is_success:
            broker_of_all.rabbitmqctl("set_vm_memory_high_watermark", "0.6")
            wait_until(lambda: client.get("health/checks/alarms").is_success, "the alarm is over")
        _empty(client, broker_of_all.administrator.name)


def _empty(client: httpx.Client, administrator: str) -> None:
    """Delete all that is not of a new broker; connections that are ending delete queues of their own."""
    kept = {"vhosts": {"/"}, "users": {administrator}, "exchanges/%2F": {""}}
    for collection, names in kept.items():
        for name in _names(client, collection):
            if name not in names and not name.startswith("amq."):
                client.delete(f"{collection}/{quote(name, safe='')}").raise_for_status()
    for limits in client.get("vhost-limits/%2F").raise_for_status().json():
        for name in limits["value"]:
            client.delete(f"vhost-limits/%2F/{name}").raise_for_status()

    def has_no_queues() -> bool:
        left = set(_names(client, "queues/%2F")) - {ALWAYS_BOUND}
        for name in left:
            client.delete(f"queues/%2F/{quote(name, safe='')}")
        return not left

    wait_until(has_no_queues, "no queue is left")


def _names(client: httpx.Client, collection: str) -> list[str]:
    return [one["name"] for one in client.get(f"{collection}?columns=name").raise_for_status().json()]
