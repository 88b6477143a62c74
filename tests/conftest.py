"""Fixtures that start real components; `tests.components` says how."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.service.garbage import tune_garbage_collection
from tests import hypothesis_profiles
from tests.components.rabbitmq import TEST_SETTINGS, VirtualHost, new_virtual_host, shared_broker

hypothesis_profiles.load()

LONGEST_NAME = 60
"""Characters of one parameter in a test's name."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with tests marked as ``long``: no worker is to be alone with one at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a long text or body by its beginning: names travel with each report, and are printed."""
    if not isinstance(val, str | bytes) or len(val) <= LONGEST_NAME:
        return None
    text = val.decode("latin-1") if isinstance(val, bytes) else val
    return f"{argname} of {len(val)} beginning with {text[:LONGEST_NAME]}"


def pytest_collection_finish() -> None:
    """Collect garbage as a process of the gateway does: not from all tests and modules again and again."""
    tune_garbage_collection()


def pytest_unconfigure() -> None:
    """Let all of it be collected: DuckDB complains at the end of a process of what is not."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder that all workers of this test session share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if hasattr(request.config, "workerinput") else base


@pytest.fixture(scope="session")
def rabbitmq(session_folder: Path) -> Iterator[PrivateBroker]:
    """The session's RabbitMQ, with the event exchange; leave it running, and as it was found."""
    with shared_broker(session_folder) as broker:
        yield broker


@pytest.fixture
def virtual_host(rabbitmq: PrivateBroker) -> Iterator[VirtualHost]:
    """A virtual host of the session's RabbitMQ for this test alone."""
    with new_virtual_host(rabbitmq) as vhost:
        yield vhost


@pytest.fixture
def start_rabbitmq() -> Iterator[Callable[[BrokerSettings], PrivateBroker]]:
    """Starts a RabbitMQ with the given settings; it ends with the test."""
    with ExitStack() as brokers:
        yield lambda settings: brokers.enter_context(PrivateBroker(settings=settings))


@pytest.fixture
def own_rabbitmq(start_rabbitmq: Callable[[BrokerSettings], PrivateBroker]) -> PrivateBroker:
    """A RabbitMQ for this test alone: to be killed, alarmed, or counted on."""
    return start_rabbitmq(TEST_SETTINGS)
