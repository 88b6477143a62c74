"""Fresh and stale values."""

from __future__ import annotations

import msgspec
import pytest

from gateway.feed.freshness import Freshness
from gateway.feed.records import SnapshotBegan
from gateway.jmx.classes import Own
from gateway.model.observations import SourceState
from gateway.model.times import SECOND
from tests.components.shop import START, agent, agent_gone, source, update
from tests.jmx.shop import GATEWAY, SALES, SOURCE, Gateway, delete, hall, till


def test_the_objects_of_a_silent_agent_turn_stale_and_those_of_others_do_not(gateway: Gateway) -> None:
    gateway.publish(till(3, agent_name="2.0"))
    gateway.publish(agent(fresh=False))
    assert [gateway.till(row)["Stale"] for row in (1, 2, 3)] == [True, True, False]
    assert gateway.till()["sales"] == 10
    gateway.settle()
    assert gateway.machine.read(GATEWAY)["StaleObjects"] == 3
    assert gateway.machine.read(SOURCE)["StaleObjects"] == 3
    gateway.publish(agent(fresh=True))
    assert gateway.till()["Stale"] is False


def test_values_that_are_stale_for_too_long_are_withheld_until_they_are_fresh_again(gateway: Gateway) -> None:
    before = gateway.till()
    gateway.publish(agent(fresh=False, since=gateway.now))
    gateway.wait(59)
    assert gateway.till() == before | {"Stale": True}
    gateway.wait(1)
    assert gateway.till() == {
        key: value if position < len(Own) else None for position, (key, value) in enumerate(before.items())
    } | {"Stale": True}
    assert gateway.machine.read(GATEWAY)["WithheldObjects"] == 3
    gateway.publish(update(1, {SALES: 12}), agent(fresh=True))
    assert gateway.till() == before | {"sales": 12, "SampleTime": START + 9 * SECOND}


def test_an_object_that_comes_while_its_agent_is_stale_is_stale(gateway: Gateway) -> None:
    gateway.publish(agent(fresh=False))
    gateway.publish(till(3))
    assert gateway.till(3)["Stale"] is True


def test_an_object_that_its_source_cannot_read_is_stale_by_itself(gateway: Gateway) -> None:
    gateway.publish(till(3))
    gateway.publish(msgspec.structs.replace(till(3), unread_since=START))
    assert [gateway.till(row)["Stale"] for row in (1, 3)] == [False, True]
    gateway.publish(till(3))
    assert gateway.till(3)["Stale"] is False


def test_what_is_left_of_an_agent_that_is_gone_is_stale(gateway: Gateway) -> None:
    gateway.publish(agent_gone())
    assert gateway.till()["Stale"] is True
    gateway.publish(delete(1), delete(2), delete(1, class_number=10))
    gateway.wait(1)
    gateway.publish(agent(fresh=True), hall(), till(1))
    assert gateway.till()["Stale"] is False, "another one of this name"


@pytest.mark.parametrize("state", [SourceState.DOWN, SourceState.CONNECTING])
def test_a_source_that_is_not_reached_makes_its_objects_stale(gateway: Gateway, state: SourceState) -> None:
    gateway.publish(source(state))
    assert gateway.till()["Stale"] is True
    assert gateway.machine.read(SOURCE)["Stale"] is True
    gateway.publish(source(SourceState.SYNCHRONISING))
    assert gateway.till()["Stale"] is True
    gateway.publish(source(SourceState.DEGRADED))
    assert gateway.till()["Stale"] is False
    assert gateway.machine.read(SOURCE)["Stale"] is False


def test_everything_is_stale_while_the_core_is_gone(gateway: Gateway) -> None:
    gateway.disconnect()
    gateway.disconnect()
    assert gateway.till()["Stale"] is True
    shown = gateway.machine.read(SOURCE)
    assert (shown["State"], shown["Since"], shown["Stale"]) == ("unknown", START, True)
    assert shown["Detail"] == "the core of the gateway cannot be reached: connection reset"
    whole = gateway.machine.read(GATEWAY)
    assert (whole["FeedConnected"], whole["FeedStaleSince"], whole["SourcesSynchronised"]) == (
        False,
        START,
        0,
    )
    gateway.wait(61)
    assert gateway.till()["sales"] is None


def test_before_the_first_word_of_a_core_nothing_is_claimed() -> None:
    gateway = Gateway()
    assert gateway.machine.everything().keys() == {GATEWAY}
    shown = gateway.machine.read(GATEWAY)
    assert (shown["Version"], shown["FeedConnected"], shown["Epoch"]) == ("1.2.3", False, None)


def test_however_many_objects_of_a_class_turn_stale_it_is_one_command(gateway: Gateway) -> None:
    gateway.publish(*(till(row) for row in range(1, 500)))
    gateway.projection.received(SnapshotBegan(1, 2))  # no message of its own
    gateway.projection.tick()
    gateway.push()
    before = gateway.projection.waiting
    gateway.projection.disconnected("connection reset")
    groups = [c for c in gateway.projection.take(1000) if getattr(c, "freshness", 0) is Freshness.STALE]
    assert (before, len(groups)) == (0, 3), "the source, and the classes hall and till"
