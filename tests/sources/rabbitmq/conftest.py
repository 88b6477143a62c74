"""Brokers that several tests share; the tests of each are in one `xdist_group`, so that one worker has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gateway.demo.broker import BrokerSettings, PrivateBroker
from tests.components.rabbitmq import VirtualHost, keep_events_published, new_virtual_host

FORWARDERS = ("rabbitmq_shovel_management", "rabbitmq_federation_management")


@pytest.fixture(scope="package")
def disturbed(rabbitmq_settings: BrokerSettings) -> Iterator[PrivateBroker]:
    """Provide a RabbitMQ whose alarms and connections tests disturb; each test restores them."""
    with PrivateBroker(settings=rabbitmq_settings) as broker:
        keep_events_published(broker)
        yield broker


@pytest.fixture(scope="package")
def forwarding(rabbitmq_settings: BrokerSettings) -> Iterator[PrivateBroker]:
    """Provide a RabbitMQ with the plugins of shovels and federation links, and of their management."""
    with PrivateBroker(settings=replace(rabbitmq_settings, plugins=FORWARDERS)) as broker:
        keep_events_published(broker)
        yield broker


@pytest.fixture
def forwarding_host(forwarding: PrivateBroker) -> Iterator[VirtualHost]:
    """Provide a virtual host of that RabbitMQ for one test: its shovels, links and policies end with it."""
    with new_virtual_host(forwarding) as vhost:
        yield vhost
