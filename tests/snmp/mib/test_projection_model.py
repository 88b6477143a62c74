"""After any history, the store shows the same as after a snapshot of the final state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.freshness import Freshness
from gateway.feed.records import AlarmRecord, DeleteRecord, ObjectRecord, Record
from gateway.feed.values import FeedValue
from gateway.model.observations import SourceState
from gateway.snmp import ber
from gateway.snmp.fixed_mib import (
    ALARM_ENTRY,
    CLASS_ENTRY,
    DELETED_ENTRY,
    HEALTH,
    SOURCE_ENTRY,
    SUM_ENTRY,
    ClassColumn,
    Health,
    SumColumn,
)
from gateway.snmp.row_columns import RowColumn
from tests.components.reported_core import AGENTS, ReportedCore
from tests.components.shop import START
from tests.snmp.mib.shop import ROOT, TILL_ENTRY, Gateway, alarm, classes, end, link, till

WAITING = 107


@dataclass
class Core(ReportedCore[Gateway]):
    """The state of a core, which sends a record of each change."""

    gateway: Gateway = field(default_factory=Gateway)
    ends: list[DeleteRecord] = field(default_factory=list)
    alarms: dict[int, AlarmRecord] = field(default_factory=dict)

    def till(self, row: int, reported: Mapping[int, FeedValue], agent_name: str) -> ObjectRecord:
        return till(row, reported, agent_name=agent_name)

    def known(self) -> list[Record]:
        return [*classes(), *self.ends, *self.objects.values(), *self.alarms.values()]

    def delete(self, row: int) -> None:
        if self.objects.pop(row, None) is not None:
            self.ends.append(end(len(self.ends) + 1, row))
            self.gateway.publish(self.ends[-1])

    def raise_alarm(self, row: int) -> None:
        self.alarms[row] = alarm(row, f"alarm {row}", subject=link(row))
        self.gateway.publish(self.alarms[row])

    def clear_alarm(self, row: int) -> None:
        if self.alarms.pop(row, None) is not None:
            self.gateway.publish(alarm(row, f"alarm {row}", cleared=START))


rows = st.integers(1, 6)
values: st.SearchStrategy[dict[int, FeedValue]] = st.fixed_dictionaries(
    {},
    optional={
        1: st.text(max_size=3),
        2: st.sampled_from(["open", "closed", "burnt"]),
        3: st.text(max_size=300),
        4: st.integers(-1, 2**64),
        5: st.integers(0, 2**32 - 1) | st.just("many"),
    },
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), rows, values, st.sampled_from(AGENTS)),
        st.tuples(st.just("update"), rows, values, st.sets(st.integers(0, 9), max_size=3)),
        st.tuples(st.just("delete"), rows),
        st.tuples(st.just("raise_alarm"), rows),
        st.tuples(st.just("clear_alarm"), rows),
        st.tuples(st.just("set_agent"), st.sampled_from(AGENTS), st.booleans()),
        st.tuples(st.just("set_source"), st.sampled_from(SourceState)),
        st.tuples(st.just("wait"), st.integers(0, 90)),
        st.tuples(st.just("connect"), st.integers(0, 1)),
    ),
    max_size=25,
)


def shown(gateway: Gateway) -> dict[ber.Oid, bytes]:
    """Return all instances that depend on objects, without the times at which counts changed."""
    found: dict[ber.Oid, bytes] = {}
    for area in ((2,), SOURCE_ENTRY, CLASS_ENTRY, SUM_ENTRY, ALARM_ENTRY, DELETED_ENTRY):
        found |= {(*area, *rest): tlv for rest, tlv in gateway.walk((*ROOT, *area)).items()}
    times = (*CLASS_ENTRY, ClassColumn.LAST_CHANGE)
    return {oid: tlv for oid, tlv in found.items() if oid[: len(times)] != times}


@given(steps)
def test_any_history_ends_where_its_last_state_does(history: list[tuple[Any, ...]]) -> None:
    core = Core()
    core.publish(7, {1: "the first"}, AGENTS[0])  # so that the class is counted whatever comes
    core.run(history)
    core.trust()

    other = Core(Gateway(now=core.gateway.now), objects=core.objects, ends=core.ends, alarms=core.alarms)
    other.gateway.settle()
    assert shown(core.gateway) == shown(other.gateway)
    for scalar in (Health.ROWS, Health.ROWS_STALE, Health.ROWS_WITHHELD):
        oid = (*ROOT, *HEALTH, scalar, 0)
        assert core.gateway.store.get(oid) == other.gateway.store.get(oid)


def number(tlv: bytes | None) -> int:
    """Return the integer in a TLV of any numeric type."""
    return int.from_bytes(tlv[2:], "big") if tlv else 0


@given(steps)
def test_counts_and_sums_are_always_those_of_the_rows(history: list[tuple[Any, ...]]) -> None:
    core = Core()
    gateway = core.gateway
    for step in history:
        core.run([step])
        gateway.settle()
        states = [number(tlv) for tlv in gateway.walk((*TILL_ENTRY, RowColumn.STATE)).values()]
        assert number(gateway.cell((*ROOT, *CLASS_ENTRY), ClassColumn.ROWS, 1, 7002)) == len(states)
        stale = number(gateway.cell((*ROOT, *CLASS_ENTRY), ClassColumn.STALE_ROWS, 1, 7002))
        assert stale == sum(state != Freshness.FRESH for state in states)
        waiting = [number(tlv) for tlv in gateway.walk((*TILL_ENTRY, WAITING)).values()]
        sums = (*ROOT, *SUM_ENTRY)
        assert number(gateway.cell(sums, SumColumn.TOTAL, 1, 7002, WAITING)) == sum(waiting)
        assert number(gateway.cell(sums, SumColumn.OBJECTS, 1, 7002, WAITING)) == len(waiting)
