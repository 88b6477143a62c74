"""A broker that several tests share; they are of the group ``disturbed``, so that one worker has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.sources.rabbitmq.events import EVENT_EXCHANGE
from tests.components.rabbitmq import ALWAYS_BOUND, VirtualHost, keep_events_published, new_virtual_host
from tests.components.waiting import wait_until

FORWARDERS = ("rabbitmq_shovel_management", "rabbitmq_federation_management")


@pytest.fixture(scope="package")
def disturbed(rabbitmq_settings: BrokerSettings) -> Iterator[PrivateBroker]:
    """Provide a RabbitMQ that tests kill, and whose alarms, connections and plugins they disturb.

    Each test restores it. It has shovels and federation links.
    """
    with PrivateBroker(settings=replace(rabbitmq_settings, plugins=FORWARDERS)) as broker:
        keep_events_published(broker)
        yield broker


@pytest.fixture
def unbound(disturbed: PrivateBroker) -> Iterator[PrivateBroker]:
    """Provide it with an event exchange to which nothing is bound: the test's own binding is the first."""
    with disturbed.http() as client:
        client.delete(f"queues/%2F/{ALWAYS_BOUND}").raise_for_status()
    has_no_binding(disturbed)
    yield disturbed
    has_no_binding(disturbed)
    keep_events_published(disturbed)


def has_no_binding(broker: PrivateBroker) -> None:
    """Wait until the events of a broker go nowhere.

    A binding that ends while another begins may be the last one to the broker: see `keep_events_published`.
    """
    bindings = f"exchanges/%2F/{EVENT_EXCHANGE}/bindings/source"
    with broker.http() as client:
        wait_until(lambda: client.get(bindings).raise_for_status().json() == [], "no binding is left")


@pytest.fixture
def forwarding_host(disturbed: PrivateBroker) -> Iterator[VirtualHost]:
    """Provide a virtual host of that RabbitMQ for one test: its shovels, links and policies end with it."""
    with new_virtual_host(disturbed) as vhost:
        yield vhost
