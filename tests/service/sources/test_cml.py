"""The settings of a console session of a source of kind cml."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import SystemClock
from gateway.config.sources import CmlSource
from gateway.dialects.cml.console_config import ConsoleConfig, Matching, ShortLived
from gateway.dialects.cml.messages import Spelling
from gateway.dialects.cml.safety import Assurance
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.model.secrets import SecretRules
from gateway.model.times import SECOND
from gateway.service.sources.cml import console_config
from gateway.service.sources.source_context import SourceContext
from tests.components.open_amq import recorded_schema
from tests.components.shipped_mappings import shipped_mappings

_AMQP = {"url": "amqp://broker", "user": "super", "password": {"env": "P"}}


@pytest.fixture
def around(tmp_path: Path) -> Iterator[SourceContext]:
    with closing(InstanceIndex(tmp_path / "index")) as index:
        inventory = Inventory("gw", 1, ClassRegistry({}), index, lambda _: None)
        yield SourceContext(inventory, shipped_mappings(), SecretRules(), SystemClock(), tmp_path, 1)


def _config(around: SourceContext, **settings: Any) -> ConsoleConfig:  # noqa: ANN401  of a configuration
    source = CmlSource.model_validate({"kind": "cml", "amqp": _AMQP, **settings})
    return console_config(source, around, recorded_schema())


def test_what_is_not_said_is_as_an_openamq_needs_it(around: SourceContext) -> None:
    config = _config(around)
    assert (config.spelling, config.matching) == (Spelling.OPENAMQ, Matching.FIND_OUT)
    assert (config.short_lived, config.assured, config.trusted_users) == (ShortLived.NO, frozenset(), None)
    assert config.schema == recorded_schema()
    assert config.intervals.of("queue") == 10 * SECOND
    assert config.is_statistic("openamq.org.server", "queue", "pending")
    assert not config.is_statistic("openamq.org.server", "queue", "name")


def test_what_is_said_is_reported(around: SourceContext) -> None:
    config = _config(
        around,
        system_exchange="shop.system",
        notify_exchange=None,
        trusted_users=["server"],
        intervals={"queue": "1s"},
        interval="2s",
        budget={"rate": 5, "in_flight": 2, "share": 0.1},
        assured=["config-file", "empty-values", "heartbeats"],
        short_lived=True,
    )
    assert (config.system_exchange, config.notify_exchange) == ("shop.system", "")
    assert config.trusted_users == frozenset({"server"})
    assert [config.intervals.of(name) // SECOND for name in ("queue", "binding", "config")] == [1, 2, 300]
    assert (config.budget.rate, config.budget.in_flight, config.budget.share) == (5, 2, 0.1)
    assert (config.assured, config.short_lived) == (frozenset(Assurance), ShortLived.YES)


def test_numbers_of_requests_cannot_be_guessed(around: SourceContext) -> None:
    prefixes = {_config(around).message_id_prefix for _ in range(10)}
    assert len(prefixes) == 10
    assert all(len(prefix) >= 24 for prefix in prefixes)
