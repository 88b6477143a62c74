"""After any course of events, clients see the same as if only the final state had been published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.records import Lifetime, ObjectRecord, Record
from gateway.feed.values import FeedValue
from gateway.jmx.commands import JmxValue
from gateway.model.observations import SourceState
from tests.components.reported_core import AGENTS, ReportedCore
from tests.jmx.shop import (
    GATEWAY,
    NAME,
    NEXT,
    SALES,
    STATE,
    TAGS,
    WAITING,
    Gateway,
    classes,
    delete,
    link,
    till,
)


@dataclass
class Core(ReportedCore[Gateway]):
    """The state of a core, and its report of each change."""

    gateway: Gateway = field(default_factory=Gateway)

    def till(self, row: int, reported: Mapping[int, FeedValue], agent_name: str) -> ObjectRecord:
        """Return the record of a till; odd rows are durable."""
        made = till(row, reported, agent_name=agent_name)
        if row % 2:
            made = msgspec.structs.replace(made, lifetime=Lifetime.DURABLE, stable_name=f"hall1|till{row}")
        return made

    def known(self) -> list[Record]:
        return [*classes(), *self.objects.values()]

    def restart_machine(self) -> None:
        now, cursor, epoch = self.gateway.now, self.gateway.cursor, self.gateway.epoch
        self.gateway = Gateway(now=now, cursor=cursor)
        self.gateway.hello(epoch)
        self.gateway.snapshot(*self.snapshot())

    def delete(self, row: int) -> None:
        """Delete an object; as in the inventory, references to it are removed right after that."""
        if self.objects.pop(row, None) is None:
            return
        self.gateway.publish(delete(row))
        for referrer, kept in list(self.objects.items()):
            target = kept.values.get(NEXT)
            if target == link(row, "shop:till"):
                self.update(referrer, {}, {NEXT})


rows = st.integers(1, 6)
values: st.SearchStrategy[dict[int, FeedValue]] = st.fixed_dictionaries(
    {},
    optional={
        NAME: st.text(max_size=3),
        STATE: st.sampled_from(["open", "closed", "burnt"]),
        NEXT: rows.map(lambda row: link(row, "shop:till")),
        TAGS: st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
        SALES: st.integers(-1, 2**64),
        WAITING: st.integers(0, 2**32 - 1) | st.just("many"),
    },
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), rows, values, st.sampled_from(AGENTS)),
        st.tuples(st.just("update"), rows, values, st.sets(st.integers(0, 10), max_size=3)),
        st.tuples(st.just("delete"), rows),
        st.tuples(st.just("set_agent"), st.sampled_from(AGENTS), st.booleans()),
        st.tuples(st.just("set_source"), st.sampled_from(SourceState)),
        st.tuples(st.just("wait"), st.integers(0, 90)),
        st.tuples(st.just("connect"), st.integers(0, 1)),
        st.tuples(st.just("restart_machine")),
    ),
    max_size=25,
)


def objects_shown(gateway: Gateway) -> dict[str, dict[str, JmxValue]]:
    return {name: values for name, values in gateway.machine.everything().items() if ",type=till," in name}


@given(steps)
def test_any_history_ends_where_its_last_state_does(history: list[tuple[Any, ...]]) -> None:
    core = Core()
    core.run(history)
    core.trust()

    other = Core(Gateway(now=core.gateway.now), objects=core.objects)
    other.gateway.settle()
    assert objects_shown(core.gateway) == objects_shown(other.gateway)
    assert len(objects_shown(core.gateway)) == len(core.objects)


@given(steps)
def test_counts_are_always_those_of_the_objects(history: list[tuple[Any, ...]]) -> None:
    core = Core()
    for step in history:
        core.run([step])
        gateway = core.gateway
        gateway.settle()
        shown = objects_shown(gateway)
        reported = gateway.machine.read(GATEWAY)
        assert reported["Objects"] == len(shown)
        assert reported["StaleObjects"] == sum(bool(values["Stale"]) for values in shown.values())


@given(steps)
def test_an_object_has_one_name_for_as_long_as_it_lives(history: list[tuple[Any, ...]]) -> None:
    core = Core()
    core.run(history)
    core.trust()
    names = set(objects_shown(core.gateway))
    core.restart_machine()
    core.connect(1)
    core.trust()
    assert set(objects_shown(core.gateway)) == names
    assert not [entry for entry in core.gateway.machine.history if entry.startswith("-")]


@given(steps)
def test_nothing_stale_is_shown_as_if_it_were_fresh(history: list[tuple[Any, ...]]) -> None:
    core = Core()
    for step in history:
        core.run([step])
        trusted = core.state in {SourceState.SYNCHRONISED, SourceState.DEGRADED}
        for values in objects_shown(core.gateway).values():
            if not values["Stale"]:
                assert trusted or core.state is SourceState.SYNCHRONISING
                assert core.fresh[str(values["Agent"])]
