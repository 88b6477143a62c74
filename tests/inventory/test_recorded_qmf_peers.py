"""Recorded QMF peers in the inventory: names, rows, references, ends and alarms, as written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.dialects.session import PropertiesMissing
from gateway.feed.records import (
    AgentRecord,
    AlarmRecord,
    ClassRecord,
    DeleteRecord,
    Lifetime,
    ObjectRecord,
    Record,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.inventory.source import SourceInventory
from gateway.model.observations import Observation
from tests.components.opened_index import opened_index
from tests.components.shipped_mappings import shipped_mappings
from tests.dialects.qmf.replaying import Replay
from tests.inventory.playbook import of

EXAMPLE, BROKER = "org.apache.qpid.agent.example", "org.apache.qpid.broker"
PARENTS = [rf"Example Core Object \#{number}" for number in (1, 2, 3)]


class Site:
    """An inventory with a source for each recording, which are played one after the other."""

    def __init__(self, state: Path) -> None:
        self.records: list[Record] = []
        registry = ClassRegistry(shipped_mappings())
        index = opened_index(state / "instances.sqlite3")
        self.inventory = Inventory("gw", 1, registry, index, lambda batch: self.records.extend(batch.records))

    def receives(self, name: str, peer: str) -> tuple[Replay, SourceInventory]:
        source = self.inventory.add_source(name, "qmf", 10_000)

        def observe(observations: tuple[Observation, ...], now: int) -> None:
            unidentified = source.counters["unidentified"]
            self.inventory.observed(source, observations, now)
            if source.counters["unidentified"] != unidentified:
                replay.session.handle(PropertiesMissing(), now)

        replay = Replay(peer, observe)
        return replay, source

    def classes(self) -> dict[int, ClassRecord]:
        return {one.number: one for one in of(ClassRecord, self.snapshot())}

    def objects(self, class_name: str, source: int = 1) -> dict[str, ObjectRecord]:
        """Return the living objects of a class (``package:name``), by stable name."""
        numbers = {number for number, one in self.classes().items() if str(one.schema.key) == class_name}
        return {
            one.stable_name: one
            for one in of(ObjectRecord, self.snapshot())
            if one.class_number in numbers and one.source == source
        }

    def values(self, record: ObjectRecord) -> dict[str, FeedValue]:
        elements = self.classes()[record.class_number].schema.elements
        return {elements[position].name: value for position, value in record.values.items()}

    def ended(self) -> list[str]:
        return [one.stable_name for one in self.records if isinstance(one, DeleteRecord)]

    def agents(self) -> dict[str, bool]:
        """Return whether the objects of each agent are fresh."""
        return {one.agent: one.fresh for one in of(AgentRecord, self.snapshot())}

    def snapshot(self) -> list[Record]:
        return list(self.inventory.snapshot()[0])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_what_an_agent_of_0_6_created_is_shown_although_it_reports_properties_once(site: Site) -> None:
    """Another console asked first, so that the agent published only the statistics of its children."""
    replay, source = site.receives("farm", "console-and-agent-0.6")
    replay.plays(24)
    children = site.objects(f"{EXAMPLE}:child")
    assert sorted(children) == sorted(
        rf"Example Core Object \\\#{number}|kid{kid}" for number in (1, 2, 3) for kid in (0, 1, 2)
    )
    parents = site.objects(f"{EXAMPLE}:parent")
    assert {name: one.row for name, one in parents.items()} == dict(zip(PARENTS, (1, 2, 3), strict=True))
    first = site.values(children[r"Example Core Object \\\#1|kid0"])
    assert first["ParentRef"] == ObjectLink(f"{EXAMPLE}:parent", 1, PARENTS[0])
    assert source.counters["unidentified"] == 3


def test_an_agent_that_left_is_stale_and_has_its_rows_again_when_it_comes_back(site: Site) -> None:
    replay, _ = site.receives("farm", "console-and-agent-0.6")
    replay.plays(29)
    assert site.agents() == {"1.0": True, "1.10": False}
    assert len(site.objects(f"{EXAMPLE}:child")) == 9, "stale: nobody says that they are gone"
    replay.plays()
    assert site.agents() == {"1.0": True, "1.10": True}
    parents = site.objects(f"{EXAMPLE}:parent")
    assert {name: one.row for name, one in parents.items()} == dict(zip(PARENTS, (1, 2, 3), strict=True))
    assert site.values(parents[PARENTS[0]])["count"] == 5
    assert not site.objects(f"{EXAMPLE}:child")
    assert len([name for name in site.ended() if "kid" in name]) == 9
    assert not [name for name in site.ended() if name in PARENTS]
    assert not [name for name in site.ended() if r"\?" in name and "pyq" not in name], "none was misnamed"


def test_a_java_broker_s_objects_have_names_without_hashes_or_banks(site: Site) -> None:
    replay, source = site.receives("java", "java-0.8")
    replay.plays()
    hosts = site.objects(f"{BROKER}:vhost")
    assert sorted(hosts) == ["amqp-broker|development", "amqp-broker|localhost", "amqp-broker|test"]
    queues = site.objects(f"{BROKER}:queue")
    assert len(queues) == 10
    values = site.values(queues[r"amqp-broker\|test|tq91"])
    assert values["vhostRef"] == ObjectLink(f"{BROKER}:vhost", 2, "amqp-broker|test")
    assert site.ended() == [
        r"amqp-broker\\\|test\|<<default>>|amqp-broker\\\|test\|j91q|j91q",
        r"amqp-broker\\\|test\|amq.topic|amqp-broker\\\|test\|j91q|a.\#",
        r"amqp-broker\|test|j91q",
    ]
    assert source.counters["unidentified"] == 0
    assert site.agents() == {"1.0": True}
    replay.time_passes(30)
    assert site.agents() == {"1.0": False}, "silent, asked, and no answer"


def test_queues_of_qpidd_with_what_they_refer_to_and_their_alarms(site: Site) -> None:
    replay, _ = site.receives("qpid", "qpidd-0.34")
    replay.plays()
    queues = site.objects(f"{BROKER}:queue")
    q3 = queues[r"amqp-broker\|/|q3"]
    assert (q3.row, q3.lifetime) == (9, Lifetime.DURABLE)
    values = site.values(q3)
    assert values["vhostRef"] == ObjectLink(f"{BROKER}:vhost", 1, "amqp-broker|/")
    assert values["altExchange"] == ObjectLink(f"{BROKER}:exchange", 3, r"amqp-broker\|/|amq.fanout")
    assert values["arguments"] == {"qpid.max_count": 4, "qpid.policy_type": "reject"}
    assert (values["msgDepth"], values["msgTotalEnqueues"], values["byteDepth"]) == (4, 4, 52)
    assert (values["bindingCount"], values["bindingCountHigh"], values["flowStopped"]) == (1, 1, True)
    q1 = site.values(queues[r"amqp-broker\|/|q1"])
    assert (q1["msgTotalEnqueues"], q1["msgTotalDequeues"], q1["msgDepth"]) == (23, 23, 0)
    assert (q1["acquires"], q1["byteTotalDequeues"], q1["bindingCountLow"]) == (23, 2585, 3)
    assert "altExchange" not in q1, "an optional property that is absent"
    alarms = {one.name: one.text for one in of(AlarmRecord, site.snapshot())}
    assert alarms["queueThreshold"] == "Queue q3 has reached its threshold: 3 messages, 39 octets"
    assert alarms["flowStopped"] == "Queue q3 has stopped its publishers: it holds 4 messages"
    assert len([name for name in site.ended() if name.startswith(r"amqp-broker\|/|mass.")]) >= 600
    assert site.agents()["1.0"]


def test_three_recorded_peers_in_one_inventory_keep_apart(site: Site) -> None:
    peers = {"java": "java-0.8", "farm": "console-and-agent-0.6", "qpid": "qpidd-0.34"}
    for name, peer in peers.items():
        replay, _ = site.receives(name, peer)
        replay.plays()
    brokers = [site.objects(f"{BROKER}:broker", source) for source in (1, 2, 3)]
    assert [list(one) for one in brokers] == [["amqp-broker"]] * 3
    assert [one["amqp-broker"].row for one in brokers] == [1, 1, 1]
    assert len(site.objects(f"{BROKER}:vhost", 1)) == 3
    assert len(site.objects(f"{BROKER}:vhost", 2)) == 1
