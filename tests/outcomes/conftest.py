"""One scene for all tests of this folder, which share a worker; each test restores its state.

It ends with the last of them, not with the session: its gateway reads its broker all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.demo.broker import BrokerSettings
from tests.components.operated_gateway import OPERATOR
from tests.jmx_java.client_machine import SharedMachine
from tests.outcomes.attempts import Attempts, JavaClient
from tests.outcomes.manager import Manager
from tests.outcomes.scene import Scene, scene


@pytest.fixture(scope="package")
def there(tmp_path_factory: pytest.TempPathFactory, rabbitmq_settings: BrokerSettings) -> Iterator[Scene]:
    """Provide the scene; see `tests.outcomes.scene`."""
    with scene(tmp_path_factory.mktemp("outcomes"), rabbitmq_settings) as running:
        yield running


@pytest.fixture(scope="module")
def java(there: Scene, java_machine: SharedMachine) -> Iterator[JavaClient]:
    """Provide a Java client that has logged in as the operator."""
    password = there.site.state.secret(f"jmx-{OPERATOR}")
    connected = java_machine.clients().connect(there.jmx_port, OPERATOR, password)
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
