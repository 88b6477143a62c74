"""A polled OpenAMQ in the inventory: names, rows, ends, restarts and silence, as written by hand."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.cml.codec import read_message
from gateway.dialects.cml.console import ConsoleConfig
from gateway.dialects.cml.console_config import Matching, ShortLived
from gateway.dialects.cml.messages import SchemaReply
from gateway.dialects.session import Observed
from gateway.feed.records import AgentRecord, DeleteRecord, Lifetime, ObjectRecord, Record
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.mapping.files import is_statistic
from tests.components.opened_index import opened_index
from tests.components.shipped_mappings import shipped_mappings
from tests.dialects.cml.console_trial import Trial
from tests.dialects.cml.playbook import ConsolePlay, Shop
from tests.dialects.cml.recordings import exchange
from tests.hypothesis_profiles import examples
from tests.inventory.playbook import of

STARTED = "2026-11-20T06:52+00:00"
QUEUE = "OpenAMQ 1.4c1|orders"
BINDING = r"OpenAMQ 1.4c1\|orders|rk|amq.direct|"
CONNECTION = f"OpenAMQ 1.4c1|0-2#{STARTED}/22"
"""The name of a connection, which has the broker's run and its number in it, and is never reused."""


class Polled:
    """An inventory and the console that provides its observations."""

    def __init__(self, state: Path) -> None:
        mappings = shipped_mappings()
        index = opened_index(state / "instances.sqlite3")
        self.records: list[Record] = []
        self.inventory = Inventory(
            "gw", 1, ClassRegistry(mappings), index, lambda batch: self.records.extend(batch.records)
        )
        self.source = self.inventory.add_source("openamq", "cml", 10_000)
        schema = read_message(exchange("schema-002").replies[0])
        assert isinstance(schema, SchemaReply)
        self.broker = Shop(schema)
        self.stock(first=20)
        self.play = ConsolePlay(ConsoleConfig(is_statistic=partial(is_statistic, mappings)), self.broker)
        self.play.receives = self.observe

    def stock(self, first: int, started: str = STARTED) -> None:
        """Replace the broker's objects, numbered from ``first`` on."""
        self.broker.objects.clear()
        put = self.broker.put
        put(0, "broker", name="OpenAMQ 1.4c1", started=started, locked="0", messages="3")
        put(1, "config", 0, name="")
        put(2, "exchange", 0, name="amq.direct", type="direct")
        put(first, "queue", 0, name="orders", pending="3", exclusive="0", auto_delete="0", messages_in="9")
        put(first + 1, "queue_binding", first, name="rk", exchange_name="amq.direct", binding_args="")
        put(first + 2, "connection", 0, name="0-2", user_name="till")

    def observe(self, observed: Observed) -> None:
        self.inventory.observed(self.source, observed.observations, self.play.now)

    def rows(self) -> dict[str, int]:
        return {one.stable_name: one.row for one in self.objects()}

    def objects(self) -> list[ObjectRecord]:
        return of(ObjectRecord, list(self.inventory.snapshot()[0]))

    def is_fresh(self) -> bool:
        (agent,) = of(AgentRecord, list(self.inventory.snapshot()[0]))
        return agent.fresh

    def ended(self) -> list[str]:
        """Return the objects that ended since the last call, with ``?`` after inferred ends."""
        ends = [f"{one.stable_name}{'?' * one.inferred}" for one in of(DeleteRecord, self.records)]
        self.records.clear()
        return ends


@pytest.fixture
def polled(tmp_path: Path) -> Polled:
    polled = Polled(tmp_path)
    polled.play.connects()
    polled.play.time_passes(5)
    assert polled.is_fresh()
    assert not polled.ended()
    return polled


def test_names_begin_with_the_brokers(polled: Polled) -> None:
    assert set(polled.rows()) == {
        "OpenAMQ 1.4c1",
        "OpenAMQ 1.4c1|",
        "OpenAMQ 1.4c1|amq.direct",
        QUEUE,
        BINDING,
        CONNECTION,
    }
    assert {one.leaf_name for one in polled.objects() if one.lifetime is Lifetime.TRANSIENT} == {"0-2"}


def test_bindings_of_queues_that_end_with_a_gateway_take_no_rows_for_ever(polled: Polled) -> None:
    own = "amqp-gateway.console.0b1e6f0a-6a6e-4f5c-8a53-3c8f0d6f1a20"
    polled.broker.put(40, "binding", 2, name=own, arguments="")
    polled.broker.put(41, "binding", 2, name="orders", arguments="")
    polled.play.time_passes(60)
    lifetimes = {one.leaf_name: one.lifetime for one in polled.objects()}
    assert lifetimes[own] is Lifetime.TRANSIENT
    assert lifetimes["orders"] is Lifetime.DURABLE


def test_a_queue_that_is_listed_no_more_ends_with_its_binding(polled: Polled) -> None:
    polled.broker.remove(20)
    polled.play.time_passes(6)
    assert polled.ended() == [BINDING, QUEUE]


def test_a_queue_that_is_declared_again_keeps_its_row(polled: Polled) -> None:
    row = polled.rows()[QUEUE]
    polled.broker.remove(20)
    polled.play.time_passes(6)
    polled.broker.put(40, "queue", 0, name="orders", pending="0", exclusive="0", auto_delete="0")
    polled.play.time_passes(12)
    assert polled.rows()[QUEUE] == row


@pytest.mark.parametrize("started", ["2026-11-21T10:00+00:00", STARTED])
def test_a_restart_keeps_durable_rows_and_no_connection(polled: Polled, started: str) -> None:
    """A restart within the same minute shows in a connection's number below the former one."""
    before = polled.rows()
    connection = before.pop(CONNECTION)
    polled.play.disconnects()
    assert not polled.is_fresh()
    polled.stock(first=14, started=started)
    polled.play.connects()
    polled.play.time_passes(6)
    after = polled.rows()
    (new,) = after.keys() - before.keys()
    assert after.pop(new) != connection
    assert after == before
    assert polled.is_fresh()
    ends = {f"{CONNECTION}?"}
    # Nothing survives a restart: another start time shows that all objects have ended, and were made again.
    assert set(polled.ended()) == (ends if started == STARTED else {*ends, *(f"{one}?" for one in before)})


def test_a_pause_changes_nothing(polled: Polled) -> None:
    before = polled.rows()
    polled.play.disconnects()
    polled.play.time_passes(60, answering=False)
    polled.play.connects()
    polled.play.time_passes(6)
    assert polled.rows() == before
    assert polled.is_fresh()
    assert not polled.ended()


def test_what_ended_in_a_pause_is_gone_as_far_as_can_be_known(polled: Polled) -> None:
    polled.play.disconnects()
    polled.broker.remove(20)
    polled.play.connects()
    polled.play.time_passes(6)
    assert sorted(polled.ended()) == [f"{BINDING}?", f"{QUEUE}?"]


def test_a_silent_broker_is_stale_and_keeps_its_rows(polled: Polled) -> None:
    before = polled.rows()
    polled.play.time_passes(21, answering=False)
    assert not polled.is_fresh()
    assert polled.rows() == before
    polled.play.waiting.clear()
    polled.play.time_passes(60)
    assert polled.is_fresh()
    assert polled.rows() == before
    assert not polled.ended()


@settings(max_examples=examples() // 4)
@given(st.data(), st.sampled_from(Matching), st.sampled_from(ShortLived))
def test_whatever_happens_the_inventory_shows_what_there_is(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, matching: Matching, short_lived: ShortLived
) -> None:
    trial = Trial(data, matching, short_lived)
    index = opened_index(tmp_path_factory.mktemp("state") / "instances.sqlite3")
    inventory = Inventory("gw", 1, ClassRegistry({}), index, lambda _: None)
    source = inventory.add_source("openamq", "cml", 10_000)
    trial.play.receives = lambda observed: inventory.observed(source, observed.observations, trial.play.now)
    for _ in range(data.draw(st.integers(0, 40))):
        trial.happens()
    trial.ends_well()
    records = list(inventory.snapshot()[0])
    assert sorted(one.native_id for one in of(ObjectRecord, records)) == sorted(trial.inventory.living)
    assert all(one.fresh for one in of(AgentRecord, records))
    assert source.counters["unidentified"] == 0
