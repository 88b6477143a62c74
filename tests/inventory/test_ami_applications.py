"""Observations of an AMI relay in the inventory: classes that grow lose and duplicate nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from gateway.dialects.ami.relay import RelayConfig, RelayLimits, RelaySession
from gateway.dialects.session import (
    BytesReceived,
    Effect,
    Listening,
    Observed,
    Peer,
    PeerConnected,
    PeerDisconnected,
    TimerExpired,
)
from gateway.feed.records import (
    AgentGoneRecord,
    AgentRecord,
    ClassRecord,
    DeleteRecord,
    EventRecord,
    Lifetime,
    ObjectRecord,
    Record,
)
from gateway.model.schema import ClassSchema
from gateway.model.times import SECOND
from tests.inventory.playbook import NOW, Playbook, of


class Relay:
    """A relay session whose observations go to an inventory."""

    def __init__(
        self, state: Path, schemas: tuple[ClassSchema, ...] = (), limits: RelayLimits | None = None
    ) -> None:
        self.inventory = Playbook(state)
        self.session = RelaySession(RelayConfig(schemas=schemas, limits=limits or RelayLimits()))
        self.now = NOW
        self.take(self.session.handle(Listening(), self.now))

    def take(self, effects: Iterable[Effect]) -> list[Record]:
        self.inventory.now = self.now
        records: list[Record] = []
        for effect in effects:
            if isinstance(effect, Observed):
                records += self.inventory.publish(*effect.observations)
        return records

    def connects(self, name: str = "pump-7", number: int = 1) -> list[Record]:
        self.take(self.session.handle(PeerConnected(number, Peer("127.0.0.1")), self.now))
        return self.says(f'L|I="{name}"', number=number)

    def says(self, *lines: str, number: int = 1) -> list[Record]:
        octets = "".join(f"{line}\n" for line in lines).encode()
        return self.take(self.session.handle(BytesReceived(number, octets), self.now))

    def ends(self, number: int = 1) -> list[Record]:
        return self.take(self.session.handle(PeerDisconnected(number, "it broke"), self.now))

    def time_passes(self, seconds: int) -> list[Record]:
        self.now += seconds * SECOND
        return self.take(self.session.handle(TimerExpired(), self.now))

    def values(self, name: str) -> dict[str, object]:
        """Return the values of an object in a snapshot, by the names of its elements."""
        record = self.inventory.objects()[name]
        classes = of(ClassRecord, self.inventory.snapshot())
        schema = next(one.schema for one in classes if one.number == record.class_number)
        return {schema.elements[position].name: value for position, value in record.values.items()}

    def is_fresh(self, agent: str = "pump-7") -> bool:
        agents = of(AgentRecord, self.inventory.snapshot())
        return next(one.fresh for one in agents if one.agent == agent)


@pytest.fixture
def relay(tmp_path: Path) -> Relay:
    """Return a relay to which an application has logged in."""
    relay = Relay(tmp_path)
    relay.connects()
    return relay


def test_an_application_and_its_objects_are_there_and_fresh(relay: Relay) -> None:
    relay.says('O|T="Tank"|I="t1"|level=3', "S|mem=5", 'A|I="a1"|L=2|T="Leak"')
    assert set(relay.inventory.objects()) == {"pump-7", "pump-7|t1", "pump-7|a1"}
    assert relay.values("pump-7|t1") == {"application": "pump-7", "object": "t1", "level": 3}
    assert relay.is_fresh()


def test_a_class_that_grows_keeps_the_rows_of_its_objects(relay: Relay) -> None:
    relay.says(*(f'O|T="Tank"|I="t{n}"|level={n}' for n in range(5)))
    before = {name: record.row for name, record in relay.inventory.objects().items()}
    relay.says('O|T="Tank"|I="t3"|vol=1.5|note="x"')
    records = relay.time_passes(1)
    after = {name: record.row for name, record in relay.inventory.objects().items()}
    assert after == before
    assert len(of(DeleteRecord, records)) == len(of(ObjectRecord, records)) == 5
    assert {record.number for record in of(DeleteRecord, records)} == {0}
    assert of(DeleteRecord, relay.inventory.snapshot()) == []  # nothing has ended
    assert relay.values("pump-7|t3") == {
        "application": "pump-7",
        "object": "t3",
        "level": 3,
        "vol": 1.5,
        "note": "x",
    }
    assert relay.values("pump-7|t4")["level"] == 4


def test_objects_that_never_come_back_keep_their_rows_too_when_their_class_grows(relay: Relay) -> None:
    relay.says('O|T="session"|I="s1"|a=1', 'O|T="session"|I="s2"|a=1', 'O|T="Tank"|a=1')
    before = {name: record.row for name, record in relay.inventory.objects().items()}
    relay.says('O|T="session"|I="s2"|b=1', 'O|T="Tank"|I="t1"|b=1')
    records = relay.time_passes(1)
    after = {name: record.row for name, record in relay.inventory.objects().items()}
    assert after.items() > before.items()
    reported = [record.stable_name for record in of(ObjectRecord, records)]
    assert len(reported) == len(set(reported)) == 4


def test_commands_change_the_application_only(relay: Relay) -> None:
    relay.says('O|T="Tank"|I="t1"|level=3', 'C|I="halt"|N="Halt"')
    records = relay.time_passes(1)
    assert [record.stable_name for record in of(DeleteRecord, records)] == ["pump-7"]
    assert relay.values("pump-7")["commands"] == 1


def test_objects_of_an_application_that_is_gone_are_stale_and_fresh_when_it_is_back(relay: Relay) -> None:
    relay.connects("pump-8", 2)
    relay.says('O|T="Tank"|I="t1"|level=3')
    relay.ends()
    assert not relay.is_fresh()
    assert relay.is_fresh("pump-8")
    assert "pump-7|t1" in relay.inventory.objects()
    relay.now += 100 * SECOND
    records = relay.connects(number=3)
    assert relay.is_fresh()
    assert of(DeleteRecord, records) == []
    assert relay.inventory.objects()["pump-7|t1"].statistics_sampled == NOW


def test_an_object_that_expires_ends(relay: Relay) -> None:
    relay.says('O|T="Tank"|I="t1"|E=-5000L')
    (record,) = of(DeleteRecord, relay.time_passes(6))
    assert (record.stable_name, record.inferred) == ("pump-7|t1", False)


def test_objects_without_an_id_are_different_ones(relay: Relay) -> None:
    relay.says('O|T="Tank"|level=3', 'O|T="Tank"|level=3')
    relay.says('O|T="Tank"|I="t1"|level=3')
    tanks = [one for name, one in relay.inventory.objects().items() if name != "pump-7"]
    assert [one.lifetime for one in tanks] == [Lifetime.TRANSIENT, Lifetime.TRANSIENT, Lifetime.DURABLE]
    assert [one.row for one in tanks] == [1, 2, 3]


def test_what_happens_is_reported_as_events(relay: Relay) -> None:
    relay.says('L#5|I="x"', 'A|I="a1"|L=2|T="Leak"')
    records = relay.time_passes(2)
    assert [record.values for record in of(EventRecord, records)] == [
        {0: "pump-7", 1: 1, 2: "Already logged in"},
        {0: "pump-7", 1: 4, 2: 0},
    ]


def test_after_a_restart_an_object_that_is_reported_again_has_its_row(tmp_path: Path) -> None:
    before = Relay(tmp_path)
    before.connects()
    before.says('O|T="Tank"|I="t1"|level=3', 'O|T="Tank"|I="t2"|level=4|note="x"')
    before.time_passes(1)
    row = before.inventory.objects()["pump-7|t2"].row
    before.inventory.index.close()
    after = Relay(tmp_path, before.session.schemas)
    after.connects()
    records = after.says('O|T="Tank"|I="t2"|level=5')
    assert after.inventory.objects()["pump-7|t2"].row == row
    assert of(DeleteRecord, records) == []


def test_an_application_that_makes_room_is_no_agent_any_more(tmp_path: Path) -> None:
    relay = Relay(tmp_path, limits=RelayLimits(applications=1))
    relay.connects("pump-7")
    relay.says('O|T="Tank"|I="t1"|level=3')
    relay.ends()
    records = relay.connects("pump-8", 2)
    assert [one.agent for one in records if isinstance(one, AgentGoneRecord)] == ["pump-7"]
    assert not [name for name in relay.inventory.objects() if "pump-7" in name]
