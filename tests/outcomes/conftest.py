"""One scene for all tests of this folder, which share a worker; each test restores its state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.demo.broker import BrokerSettings
from tests.components.operated_gateway import OPERATOR
from tests.jmx_java.client_machine import client_machine
from tests.outcomes.attempts import Attempts, JavaClient
from tests.outcomes.manager import Manager
from tests.outcomes.scene import Scene, scene


@pytest.fixture(scope="session")
def there(tmp_path_factory: pytest.TempPathFactory, rabbitmq_settings: BrokerSettings) -> Iterator[Scene]:
    """Provide the scene; see `tests.outcomes.scene`."""
    with scene(tmp_path_factory.mktemp("outcomes"), rabbitmq_settings) as running:
        yield running


@pytest.fixture(scope="session")
def java_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    """Provide the Java class of clients (``tests/jmx_java/java/Client.java``)."""
    with client_machine(tmp_path_factory.mktemp("outcomes-client")) as client:
        yield client


@pytest.fixture(scope="session")
def java(there: Scene, java_machine: JavaClient) -> Iterator[JavaClient]:
    """Provide a Java client that has logged in as the operator."""
    connected = java_machine.connect(there.jmx_port, OPERATOR, there.site.state.secret(f"jmx-{OPERATOR}"))
    yield connected
    connected.close()


@pytest.fixture
def manager(there: Scene, tmp_path: Path) -> Manager:
    """Return a manager with net-snmp's commands."""
    return Manager(there, tmp_path)


@pytest.fixture
def attempts(there: Scene, manager: Manager, java: JavaClient) -> Attempts:
    """Return the attempts of the operator."""
    return Attempts(there, manager, java)
