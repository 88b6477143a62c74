"""A gateway to which applications report, for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.applications.plant import Plant, new_plant
from tests.components.waiting import wait_until


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    """Provide a running plant with JMX."""
    plant = new_plant(tmp_path_factory.mktemp("plant"), jmx=True)
    with plant.running():
        wait_until(lambda: plant.source().get("state") == "synchronised", "it listens")
        yield plant
