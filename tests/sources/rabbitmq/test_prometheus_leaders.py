"""Raft figures of quorum queues: the metrics of each release, the nodes to ask, and the figure to use."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.mapping.paths import Json
from gateway.model.times import SECOND
from gateway.model.values import Value
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.object_lives import KnownObject
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.prometheus_leaders import LeaderFigures, LeaderSheet, leader_figures_of
from gateway.sources.rabbitmq.prometheus_samples import ScrapeRequest
from gateway.sources.rabbitmq.reading import class_readers
from tests.components.shipped_mappings import shipped_mappings

READERS = class_readers(shipped_mappings()["rabbitmq"])
NAMES = [one.name for one in READERS["queue"].schema.statistics]
RECORDED = Path(__file__).parents[2] / "data" / "rabbitmq"
T0 = 1_700_000_000 * SECOND
NODES = {"rabbit@a": "http://a:15692", "rabbit@b": "http://b:15692"}


class Broker:
    """The figures of a broker of two nodes, and its known queues."""

    def __init__(self, nodes: dict[str, str] | None = None) -> None:
        self.now = T0
        figures = leader_figures_of(READERS, 0.004)
        assert figures is not None
        self.figures: LeaderFigures = figures
        self.known = KnownObjects(READERS)
        self.figures.learn_nodes(NODES if nodes is None else nodes)

    def lists(self, name: str = "quorum", kind: str = "quorum", **more: Json) -> None:
        """Show a queue in a complete listing; then let 6 s pass."""
        reading = READERS["queue"].read(
            {
                "vhost": "/",
                "name": name,
                "durable": True,
                "auto_delete": False,
                "exclusive": False,
                "type": kind,
                "node": "rabbit@a",
                **more,
            }
        )
        assert reading is not None
        self.known.listed(reading, self.now, self.now, self.now)
        self.figures.learn_leaders(self.known, self.now)
        self.now += 6 * SECOND

    def queue(self, name: str = "quorum") -> KnownObject:
        known = self.known.get(ObjectName("queue", ("/", name)))
        assert known is not None
        return known

    def shown(self, name: str = "quorum") -> dict[str, Value]:
        """Return the figures of a queue that are present."""
        values = zip(NAMES, self.queue(name).statistics, strict=True)
        return {
            element: value for element, value in values if element.startswith("raft") and value is not None
        }

    def request(self) -> ScrapeRequest | None:
        return self.figures.next_request(self.now)

    def answers(self, text: str, node: str = "rabbit@a", seconds: float = 0.01) -> None:
        """Answer for the node that is to be asked now."""
        request = self.request()
        assert request is not None
        assert request.node in {node, ""}
        sheet = LeaderSheet(self.figures.columns)
        sheet.feed(text.replace("rabbit@a", node).encode())
        sheet.finish()
        list(sheet.resolve({}))
        began, self.now = self.now, self.now + int(seconds * SECOND)
        self.figures.scraped(request, sheet, began, self.now, self.now - began)
        self.goes_on()

    def goes_on(self) -> None:
        while self.figures.busy:
            self.figures.advance(self.known, frozenset())


def recorded(release: str) -> str:
    return (RECORDED / f"ra-metrics-{release}.txt").read_text()


def reported(**figures: float) -> str:
    """Return the metrics of a node of RabbitMQ 4.3 for ``quorum``."""
    samples = [
        f'rabbitmq_detailed_raft_{name}{{queue="quorum",vhost="/"}} {value}'
        for name, value in figures.items()
    ]
    return "\n".join([*samples, 'rabbitmq_identity_info{rabbitmq_node="rabbit@a"} 1', ""])


@pytest.mark.parametrize(("release", "latency"), [("3.10.8", 1), ("4.0.5", 1), ("4.3.6", 3)])
def test_the_figures_of_each_release(release: str, latency: int) -> None:
    broker = Broker()
    broker.lists()
    broker.answers(recorded(release))
    assert broker.shown() == {
        "raftTerm": 1,
        "raftCommitIndex": 34,
        "raftUncommitted": 0,
        "raftUnapplied": 0,
        "raftCommitLatency": latency * 1_000_000,
    }


def test_entries_that_a_majority_lacks_and_those_that_have_not_come_to_pass() -> None:
    broker = Broker()
    broker.lists()
    broker.answers(reported(commit_index=100, last_applied=90, last_written_index=130, snapshot_index=70))
    assert broker.shown() == {
        "raftCommitIndex": 100,
        "raftUncommitted": 30,
        "raftUnapplied": 10,
        "raftSnapshotIndex": 70,
    }
    broker.now += 60 * SECOND
    broker.answers(reported(commit_index=100, last_applied=101, last_written_index=99))
    assert broker.shown() == {"raftCommitIndex": 100, "raftUncommitted": 0, "raftUnapplied": 0}


def test_a_replica_that_has_only_just_come_has_no_figures() -> None:
    broker = Broker()
    broker.lists()
    broker.answers(
        reported(term=0, commit_index=0, last_applied=0, last_written_index=0, commit_latency_seconds=0.0)
    )
    assert broker.shown() == {}


def test_the_figures_of_the_leader_count_and_of_no_other_replica() -> None:
    broker = Broker()
    broker.lists()
    broker.lists("other", node="rabbit@b")
    broker.answers(reported(term=2))
    broker.answers(reported(term=1), node="rabbit@b")
    assert broker.shown() == {"raftTerm": 2}
    broker.lists(node="rabbit@b")
    assert broker.shown() == {}, "another leads now, which has not been asked"
    broker.now += 60 * SECOND
    broker.figures.learn_nodes({"rabbit@b": NODES["rabbit@b"]})
    broker.goes_on()
    broker.answers(reported(term=3), node="rabbit@b")
    assert broker.shown() == {"raftTerm": 3}


def test_a_new_leader_is_asked_when_its_figures_have_been_renewed() -> None:
    broker = Broker()
    broker.lists()
    broker.answers(reported(term=1))
    broker.lists("other", node="rabbit@b")
    broker.answers(reported(), node="rabbit@b")
    broker.lists(node="rabbit@b")
    broker.now -= SECOND
    assert broker.request() is None
    broker.now += SECOND
    broker.answers(reported(term=2), node="rabbit@b")
    assert broker.shown() == {"raftTerm": 2}
    assert broker.request() is None


def test_leaders_that_move_again_and_again_cost_no_more_than_the_share() -> None:
    broker = Broker()
    broker.lists()
    broker.answers(reported(term=1), seconds=0.1)
    moved = broker.now
    for node in ("rabbit@b", "rabbit@a"):
        broker.lists(node=node)
    broker.now = moved + 49 * SECOND
    assert broker.request() is None, "0.1 s of each of two nodes in 50 s"
    broker.now = moved + 50 * SECOND
    assert broker.request() is not None


def test_no_node_is_asked_where_no_quorum_queue_is_led() -> None:
    broker = Broker()
    assert broker.request() is None
    broker.lists("stream", "stream")
    broker.lists("classic", "classic")
    assert broker.request() is None
    broker.lists(node="rabbit@b")
    request = broker.request()
    assert request is not None
    assert request.address == "http://b:15692/metrics/detailed?family=ra_metrics"
    broker.answers(reported(term=2), node="rabbit@b")
    assert broker.request() is None, "rabbit@a leads nothing"


def test_a_listing_changes_no_figures_of_the_same_leader() -> None:
    broker = Broker()
    broker.lists()
    broker.answers(reported(term=2))
    broker.lists(messages=9)
    assert broker.shown() == {"raftTerm": 2}


def test_what_a_node_does_not_report_any_more_is_absent() -> None:
    broker = Broker()
    broker.lists()
    broker.answers(reported(term=2))
    broker.now += 30 * SECOND
    broker.answers(reported())
    assert broker.shown() == {}
    broker.now += 30 * SECOND
    broker.answers(reported(term=2))
    broker.now += 30 * SECOND
    request = broker.request()
    assert request is not None
    broker.figures.failed(request, broker.now)
    broker.goes_on()
    assert broker.shown() == {}
    broker.now += 60 * SECOND
    broker.answers(reported(term=2))
    broker.figures.learn_nodes({})
    broker.goes_on()
    assert broker.shown() == {}
    assert broker.figures.pace.spent == 0


def test_figures_of_a_former_queue_are_not_those_of_its_successor() -> None:
    broker = Broker()
    broker.lists()
    request = broker.request()
    assert request is not None
    sheet = LeaderSheet(broker.figures.columns)
    sheet.feed(reported(term=7).encode())
    list(sheet.resolve({}))
    asked = broker.now
    broker.now += 100 * SECOND
    broker.known.deleted(ObjectName("queue", ("/", "quorum")), broker.now, broker.now)
    broker.now += 20 * SECOND
    broker.lists()
    broker.figures.scraped(request, sheet, asked, broker.now, SECOND // 100)
    broker.goes_on()
    assert "raftTerm" not in broker.shown()


def test_nodes_whose_names_are_not_known_are_asked_too() -> None:
    broker = Broker({"http://a:15692": "http://a:15692"})
    broker.lists()
    broker.answers(reported(term=2))
    assert broker.shown() == {"raftTerm": 2}


def test_another_node_than_was_asked_is_not_trusted() -> None:
    broker = Broker()
    broker.lists()
    request = broker.request()
    assert request is not None
    sheet = LeaderSheet(broker.figures.columns)
    sheet.feed(reported(term=7).replace("rabbit@a", "rabbit@elsewhere").encode())
    list(sheet.resolve({}))
    broker.figures.scraped(request, sheet, broker.now, broker.now, 0)
    broker.goes_on()
    assert broker.shown() == {}


def test_reading_takes_no_more_than_its_share_of_time() -> None:
    broker = Broker()
    broker.lists()
    broker.answers(reported(term=2), seconds=0.01)
    assert broker.figures.pace.interval == 30 * SECOND
    broker.now += 30 * SECOND
    broker.answers(reported(term=2), seconds=0.5)
    assert broker.figures.pace.interval == 250 * SECOND, "two nodes may be as slow"
    assert broker.figures.pace.spent == pytest.approx(0.004)
    broker.now += 249 * SECOND
    assert broker.request() is None
    broker.now += SECOND
    assert broker.request() is not None
