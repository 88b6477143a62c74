"""The reports of the source on classes that its budget lets be read seldom."""

from __future__ import annotations

import itertools

import pytest

from gateway.model.observations import SourceState
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.source_config import PollingConfig
from gateway.sources.rabbitmq.status import WITHIN_BUDGET
from tests.sources.rabbitmq.imitation import World
from tests.sources.rabbitmq.story import world


def test_what_is_read_seldom_is_said_because_values_may_be_as_old() -> None:
    shop = world(polling=PollingConfig(budget=0.04))
    shop.run(60)
    assert shop.source.status.detail == ""
    shop.request_takes = 3 * SECOND
    shop.run(1_200)
    texts = said_while_running(shop, 600)
    assert all(text.endswith(WITHIN_BUDGET) for text in texts)
    seldom = "queues, exchanges, connections, channels, consumers, stream/consumers, stream/publishers"
    assert f"{seldom}: read every 15 min at the latest" in texts[-1]
    assert shop.source.status.state is SourceState.SYNCHRONISED
    shop.request_takes = 2 * MILLISECOND
    assert said_while_running(shop, 4_000)[-1] == ""


@pytest.mark.parametrize("takes", [100, 300, 1_000])
def test_what_is_said_of_it_stays_though_costs_waver(takes: int) -> None:
    shop = world()
    shop.request_takes = takes * MILLISECOND
    shop.run(3_000)
    texts = []
    for minute in range(60):
        shop.request_takes = (takes + takes // 3 * (-1) ** minute) * MILLISECOND
        texts += said_while_running(shop, 60)
    said = [text for text, _ in itertools.groupby(texts)]
    assert len(said) == len(set(said)), "it goes to and fro"


def said_while_running(shop: World, seconds: int) -> list[str]:
    """Return the texts of the source's status in turn, without immediate repetitions."""
    texts: list[str] = []
    for _ in range(seconds):
        shop.run(1)
        if texts[-1:] != [shop.source.status.detail]:
            texts.append(shop.source.status.detail)
    return texts
