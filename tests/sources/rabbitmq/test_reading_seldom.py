"""The reports of the source on classes that its budget lets be read seldom."""

from __future__ import annotations

import itertools

import pytest

from gateway.model.observations import HeartbeatSeen, SourceState
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.source_config import PollingConfig
from gateway.sources.rabbitmq.status import WITHIN_BUDGET
from tests.hypothesis_profiles import PROVING
from tests.sources.rabbitmq.imitation import World
from tests.sources.rabbitmq.story import world


def test_what_is_read_seldom_is_said_because_values_may_be_as_old() -> None:
    shop = world(polling=PollingConfig(budget=0.04, longest_interval=86_400 * SECOND))
    shop.run(60)
    assert shop.source.status.detail == ""
    shop.request_takes = 3 * SECOND
    shop.run(1_200)
    texts = said_while_running(shop, 600)
    assert all(text.endswith(WITHIN_BUDGET) for text in texts)
    seldom = "queues, exchanges, connections, channels, consumers, stream/consumers, stream/publishers"
    assert f"{seldom}, shovels, federation-links: read every 15 min at the latest" in texts[-1]
    assert shop.source.status.state is SourceState.SYNCHRONISED
    shop.request_takes = 2 * MILLISECOND
    assert said_while_running(shop, 4_000)[-1] == ""


def test_a_gateway_without_processor_time_says_that_values_are_stale_and_plans_no_longer_intervals() -> None:
    shop = world()
    shop.run(60)
    shop.request_takes, shop.broker_takes = 8 * SECOND, 2 * MILLISECOND
    texts = said_while_running(shop, 600)
    assert shop.source.status.state is SourceState.DEGRADED
    assert not [text for text in texts if WITHIN_BUDGET in text]
    assert all(text.endswith("stale, because not read in time") for text in texts[-3:])
    assert [text for text in texts if "queues" in text]
    heartbeats = [one for one in shop.observed if isinstance(one, HeartbeatSeen)]
    assert [one for one in heartbeats if one.current_until["rabbitmq:queue"] <= one.time]
    assert "rabbitmq:channel" not in heartbeats[-1].current_until, "there is none that could be stale"
    shop.request_takes = 2 * MILLISECOND
    shop.run(60)
    assert (shop.source.status.state, shop.source.status.detail) == (SourceState.SYNCHRONISED, "")
    heartbeat = [one for one in shop.observed if isinstance(one, HeartbeatSeen)][-1]
    assert heartbeat.current_until["rabbitmq:queue"] > heartbeat.time + 50 * SECOND


def test_what_the_budget_lets_be_read_seldom_is_stale_after_three_such_intervals() -> None:
    shop = world(polling=PollingConfig(longest_interval=120 * SECOND))
    shop.request_takes = 3 * SECOND
    shop.run(1_800)
    texts = said_while_running(shop, 600)
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert "read every 2 min at the latest" in texts[-1]
    assert {minutes for minutes in ("5", "15") if f"every {minutes} min" in texts[-1]} == set()
    heartbeat = [one for one in shop.observed if isinstance(one, HeartbeatSeen)][-1]
    assert heartbeat.current_until["rabbitmq:queue"] > heartbeat.time + 240 * SECOND - 60 * SECOND


@pytest.mark.parametrize("takes", [100, 300, 1_000] if PROVING else [300])
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
