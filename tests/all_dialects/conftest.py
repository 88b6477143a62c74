"""All peers and the gateway once for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.demo.broker import PrivateBroker
from tests.all_dialects.scene import Scene, scene


@pytest.fixture(scope="module")
def there(rabbitmq: PrivateBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Provide all peers and the gateway, running."""
    with scene(rabbitmq, tmp_path_factory.mktemp("all")) as running:
        yield running
