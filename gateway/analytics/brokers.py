"""The sources of each broker, so that a broker read by several sources is counted once.

Two sources are one broker where the configuration says so (``same_as`` of a ``source`` record), or where both
report the same RabbitMQ node: the same cluster, name and process, and started at the same time.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from gateway.analytics.bronze import VALUE_KINDS

SAME_START_SECONDS: Final = 5
"""Seconds between renewals of RabbitMQ's uptime, which gives a start: two readers differ by less."""

_PACKAGE: Final = "rabbitmq"
_NODE: Final = "node"
_NODE_FACTS: Final = ("clusterName", "osProcess", "startTime")
_SECOND_DIGITS: Final = 19
"""The length of an RFC 3339 time up to its seconds."""


class Reader(NamedTuple):
    """A source of a log."""

    log_id: str
    source: str


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node of a RabbitMQ, from one start to the next."""

    cluster: str
    name: str
    process: str
    started: dt.datetime

    @classmethod
    def of(cls, name: str, facts: Mapping[str, str]) -> RunningNode:
        """Return the node of which a source reports ``clusterName``, ``osProcess`` and ``startTime``."""
        cluster, process, started = (facts[fact] for fact in _NODE_FACTS)
        return cls(cluster, name, process, dt.datetime.fromisoformat(started[:_SECOND_DIGITS]))

    def facts(self) -> dict[str, str]:
        """Return the facts from which `of` makes the node, in that order."""
        return dict(zip(_NODE_FACTS, (self.cluster, self.process, self.started.isoformat()), strict=True))

    def is_same(self, other: RunningNode) -> bool:
        """Return whether both are the same node."""
        apart = abs((self.started - other.started).total_seconds())
        named = (self.cluster, self.name, self.process) == (other.cluster, other.name, other.process)
        return named and apart <= SAME_START_SECONDS


def same_brokers(
    names: Mapping[Reader, str], nodes: Mapping[Reader, Sequence[RunningNode]]
) -> Iterator[tuple[Reader, Reader, str]]:
    """Yield the pairs of sources that read the same broker, and the reason of each.

    Args:
        names: the result of `same_as`.
        nodes: the result of `running_nodes`.
    """
    for reader, name in names.items():
        if name:
            yield reader, Reader(reader.log_id, name), "as configured"
    for (one, its), (other, others) in combinations(nodes.items(), 2):
        node = next((node for node in its if any(node.is_same(each) for each in others)), None)
        if node is not None:
            yield one, other, f"cluster {node.cluster}"


def united(pairs: Iterable[tuple[Reader, Reader]]) -> dict[Reader, Reader]:
    """Return the first source of its broker for each source in ``pairs``, each of which is of one broker."""
    first: dict[Reader, Reader] = {}
    for one, other in pairs:
        firsts = {first.get(one, one), first.get(other, other)}
        members = {one, other} | {reader for reader, its in first.items() if its in firsts}
        first |= dict.fromkeys(members, min(members))
    return first


def same_as(states: DataFrame) -> dict[Reader, str]:
    """Return the other source that is configured as the same broker, by source; empty where there is none.

    Args:
        states: the rows of `gateway.analytics.silver.source_states`. A source without a record is left out.
    """
    named = F.coalesce(F.get_json_object("values", "$.same_as"), F.lit(""))
    published = states.where((F.col("kind") == "source") & F.col("source").isNotNull())
    last = published.groupBy("log_id", "source").agg(F.max_by(named, "seq").alias("same_as"))
    return {Reader(row["log_id"], row["source"]): row["same_as"] for row in last.collect()}


def running_nodes(
    records: DataFrame, known: Mapping[Reader, Sequence[RunningNode]] | None = None
) -> dict[Reader, list[RunningNode]]:
    """Return the RabbitMQ nodes of each source, one for each time that it was started.

    Args:
        records: bronze, with the head of a segment in it, if there is one.
        known: nodes that were known before.
    """
    of_node = (F.col("package") == _PACKAGE) & (F.col("class") == _NODE) & F.col("kind").isin(*VALUE_KINDS)
    facts = [F.get_json_object("values", f"$.{name}").alias(name) for name in _NODE_FACTS]
    nodes = (
        records.where(of_node)
        .select("log_id", "source", "object_name", "seq", *facts)
        .where(F.coalesce(*_NODE_FACTS).isNotNull())
        .groupBy("log_id", "source", "object_name", *_NODE_FACTS)
        .agg(F.min("seq").alias("seq"))
        .orderBy("seq")
    )
    # A record has what changed, so each is put upon those before.
    facts_of = {
        (reader, node.name): node.facts() for reader, nodes in (known or {}).items() for node in nodes
    }
    found: dict[Reader, list[RunningNode]] = {}
    for row in nodes.collect():
        reader, name = Reader(row["log_id"], row["source"]), str(row["object_name"])
        facts_now = facts_of.setdefault((reader, name), {})
        facts_now |= {fact: row[fact] for fact in _NODE_FACTS if row[fact] is not None}
        if len(facts_now) == len(_NODE_FACTS):
            found.setdefault(reader, []).append(RunningNode.of(name, facts_now))
    return found


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """The facts about sources and their brokers that batches of records have shown so far.

    Attributes:
        same_as: the result of `same_as`.
        nodes: for each source the nodes of the last batch that showed some, each at its last start.
    """

    same_as: Mapping[Reader, str] = field(default_factory=dict)
    nodes: Mapping[Reader, Sequence[RunningNode]] = field(default_factory=dict)

    def after(
        self, names: Mapping[Reader, str], nodes: Mapping[Reader, Sequence[RunningNode]]
    ) -> BrokerFacts:
        """Return the facts after a batch that showed these."""
        last = {
            reader: tuple({node.name: node for node in shown}.values()) for reader, shown in nodes.items()
        }
        return BrokerFacts({**self.same_as, **names}, {**self.nodes, **last})

    def brokers(
        self, names: Mapping[Reader, str], nodes: Mapping[Reader, Sequence[RunningNode]]
    ) -> dict[Reader, Reader]:
        """Return the sources that read a broker which another source reads, each with the first of them.

        Args:
            names: the result of `same_as` for the next batch.
            nodes: the nodes of the next batch. Its records may have the report of a start of one source, and
                not yet of another one: those of before count, too.
        """
        together = {
            reader: [*self.nodes.get(reader, ()), *nodes.get(reader, ())]
            for reader in sorted(self.nodes.keys() | nodes.keys())
        }
        return united((one, other) for one, other, _ in same_brokers({**self.same_as, **names}, together))

    def as_json(self) -> list[list[Any]]:
        """Return the facts in a form for `from_json`: a list for each source."""
        return [
            [
                *reader,
                self.same_as.get(reader, ""),
                [[*node.facts().values(), node.name] for node in self.nodes.get(reader, ())],
            ]
            for reader in sorted(self.same_as.keys() | self.nodes.keys())
        ]

    @classmethod
    def from_json(cls, facts: list[list[Any]]) -> BrokerFacts:
        """Return the facts that `as_json` converted."""
        names: dict[Reader, str] = {}
        nodes: dict[Reader, Sequence[RunningNode]] = {}
        for log_id, source, name, its in facts:
            reader = Reader(log_id, source)
            names[reader] = name
            nodes[reader] = [
                RunningNode.of(node, dict(zip(_NODE_FACTS, facts_of_node, strict=True)))
                for *facts_of_node, node in its
            ]
        return cls(names, nodes)


def broker_column(brokers: Mapping[Reader, Reader]) -> Column:
    """Return the column ``broker``: the same for all sources of one broker, ``LOG_ID/SOURCE`` of the first.

    Args:
        brokers: the result of `BrokerFacts.brokers`.
    """
    shared = of_readers({reader: "/".join(first) for reader, first in brokers.items()})
    return F.coalesce(*shared, F.concat_ws("/", "log_id", "source")).alias("broker")


def of_readers(values: Mapping[Reader, str | int]) -> list[Column]:
    """Return a column for each source: its value in rows of that source, null in others.

    Together (`coalesce`) they are a join with a few rows, without the job that one begins with.
    """
    return [
        F.when((F.col("log_id") == reader.log_id) & (F.col("source") == reader.source), F.lit(value))
        for reader, value in values.items()
    ]
