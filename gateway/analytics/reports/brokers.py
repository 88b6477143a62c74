"""Which sources read the same broker, and what went through each broker, counted once.

Two sources are one broker where the configuration says so (``same_as`` of a ``source`` record), or where both
report the same RabbitMQ node: the same cluster, name and process, and started at the same time.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from gateway.analytics.bronze import VALUE_KINDS
from gateway.analytics.reports.answers import Row, Value, collected, number

SAME_START_SECONDS: Final = 5
"""RabbitMQ renews the uptime that a start is worked out from so often: two readers differ by less."""

_PACKAGE: Final = "rabbitmq"
_NODE: Final = "node"
_NODE_FACTS: Final = ("clusterName", "osProcess", "startTime")
_SECOND_DIGITS: Final = 19
"""Of an RFC 3339 time: as far as its seconds."""


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

    def is_same(self, other: RunningNode) -> bool:
        """Return whether both are one."""
        apart = abs((self.started - other.started).total_seconds())
        named = (self.cluster, self.name, self.process) == (other.cluster, other.name, other.process)
        return named and apart <= SAME_START_SECONDS


@dataclass(slots=True)
class Broker:
    """One broker, and who reads it.

    Attributes:
        readers: its sources.
        why: they are one, where they are several.
        counted: those of them that totals are made of: never two that were there at the same time.
    """

    readers: list[Reader]
    why: list[str] = field(default_factory=list)
    counted: list[Reader] = field(default_factory=list)

    @property
    def is_shared(self) -> bool:
        """Whether it has several sources."""
        return len(self.readers) > 1

    @property
    def name(self) -> str:
        """That of the first source that is counted."""
        return self.counted[0].source


def same_as(states: DataFrame) -> dict[Reader, str]:
    """Of a source the other one that the configuration says reads the same broker.

    Args:
        states: of `gateway.analytics.silver.source_states`.
    """
    named = F.get_json_object("values", "$.same_as")
    published = states.where((F.col("kind") == "source") & F.col("source").isNotNull())
    # The last record counts: `max_by` takes null for a value, too.
    last = published.groupBy("log_id", "source").agg(F.max_by(named, "seq").alias("same_as"))
    return {
        Reader(str(row["log_id"]), str(row["source"])): str(row["same_as"])
        for row in collected(last.where(F.col("same_as").isNotNull()))
    }


def running_nodes(records: DataFrame) -> dict[Reader, list[RunningNode]]:
    """Return the RabbitMQ nodes of each source, one for each time that it was started.

    Args:
        records: bronze, with the head of a segment in it, as far as there is one.
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
    known: dict[tuple[Reader, str], dict[str, Value]] = {}
    found: dict[Reader, list[RunningNode]] = {}
    for row in collected(nodes):
        reader, name = Reader(str(row["log_id"]), str(row["source"])), str(row["object_name"])
        facts_now = known.setdefault((reader, name), {})
        facts_now |= {fact: row[fact] for fact in _NODE_FACTS if row[fact] is not None}
        if len(facts_now) == len(_NODE_FACTS):
            started = dt.datetime.fromisoformat(str(facts_now["startTime"])[:_SECOND_DIGITS])
            node = RunningNode(str(facts_now["clusterName"]), name, str(facts_now["osProcess"]), started)
            found.setdefault(reader, []).append(node)
    return found


def brokers(
    seen: Sequence[Row], names: Mapping[Reader, str], nodes: Mapping[Reader, Sequence[RunningNode]]
) -> list[Broker]:
    """Return all brokers, or whatever else a source is, in order of their names.

    Args:
        seen: a row for each source: ``log_id``, ``source``, its ``first`` and ``last`` record, and how many
            ``messages`` went in and out.
        names: of `same_as`.
        nodes: of `running_nodes`.
    """
    by_reader = {Reader(str(row["log_id"]), str(row["source"])): row for row in seen}
    found = {reader: Broker([reader]) for reader in sorted(by_reader)}
    for reader, name in names.items():
        _unite(found, reader, Reader(reader.log_id, name), "as configured")
    for (one, its), (other, others) in combinations(nodes.items(), 2):
        node = next((node for node in its if any(node.is_same(each) for each in others)), None)
        if node is not None:
            _unite(found, one, other, f"cluster {node.cluster}")
    unique = {id(broker): broker for broker in found.values()}.values()
    for broker in unique:
        broker.counted = _counted(broker.readers, by_reader)
    return sorted(unique, key=lambda broker: broker.name)


def _unite(found: dict[Reader, Broker], one: Reader, other: Reader, why: str) -> None:
    first, second = found.get(one), found.get(other)
    if first is None or second is None:
        return  # it has no records
    if first is not second:
        first.readers = sorted({*first.readers, *second.readers})
        first.why += [reason for reason in second.why if reason not in first.why]
        for reader in second.readers:
            found[reader] = first
    if why not in first.why:
        first.why.append(why)


def _counted(readers: Iterable[Reader], seen: Mapping[Reader, Row]) -> list[Reader]:
    """Return the one with most messages; and others that were there only before or after it."""
    # Most messages first: of those that read the same broker it missed the least.
    best = sorted(readers, key=lambda reader: (-number(seen[reader], "messages"), reader))
    chosen: list[Reader] = []
    for reader in best:
        if not any(_meet(seen[reader], seen[other]) for other in chosen):
            chosen.append(reader)
    return chosen


def _meet(one: Row, other: Row) -> bool:
    times = [one["first"], one["last"], other["first"], other["last"]]
    assert all(isinstance(time, dt.datetime) for time in times)
    first, last, other_first, other_last = (time for time in times if isinstance(time, dt.datetime))
    return first <= other_last and other_first <= last


def queue_messages(steps: DataFrame) -> DataFrame:
    """Of each source: ``messages`` that went in and out, by its queues' counters.

    Args:
        steps: of `gateway.analytics.reports.queues.steps`.
    """
    both = F.coalesce(F.col("published"), F.lit(0)) + F.coalesce(F.col("delivered"), F.lit(0))
    return steps.groupBy("log_id", "source").agg(F.sum(both).cast("decimal(38,0)").alias("messages"))


def totals(
    found: Sequence[Broker], steps: DataFrame, growing: DataFrame, connections: DataFrame
) -> list[Row]:
    """One row for each broker, then one for all together (``broker`` null).

    Columns: ``broker``, ``sources`` that are it, ``counted`` ones of them, ``why`` they are one;
    ``published`` and ``delivered`` messages; ``queues`` with values, those that are ``growing``;
    connections ``opened``, ``ended``, ``open`` at the end.

    Args:
        found: of `brokers`.
        steps: of `gateway.analytics.reports.queues.steps`.
        growing: of `gateway.analytics.reports.queues.growth`.
        connections: lives of connections.
    """
    readers = [(*reader, place) for place, broker in enumerate(found) for reader in broker.counted]
    if not readers:
        return []
    spark = steps.sparkSession
    assigned = F.broadcast(spark.createDataFrame(readers, "log_id string, source string, place int"))

    def of_brokers(rows: DataFrame) -> DataFrame:
        return rows.join(assigned, ["log_id", "source"])

    parts = (
        of_brokers(steps).select("place", F.col("queue").alias("name"), "published", "delivered"),
        of_brokers(growing).select("place", F.col("queue").alias("grown")),
        of_brokers(connections).select("place", "began", "state"),
    )
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    counts = (
        *(F.sum(name).cast("decimal(38,0)").alias(name) for name in ("published", "delivered")),
        F.count_distinct("name").alias("queues"),
        F.count_distinct("grown").alias("growing"),
        F.count_if("began").alias("opened"),
        F.count_if(F.col("state") == "deleted").alias("ended"),
        F.count_if(F.col("state") == "living").alias("open"),
    )
    sums = {row["place"]: row for row in collected(together.groupBy("place").agg(*counts))}
    names = ("published", "delivered", "queues", "growing", "opened", "ended", "open")
    nothing: Row = dict.fromkeys(names)
    rows: list[Row] = []
    for place, broker in enumerate(found):
        gained = sums.get(place, nothing)
        rows.append(_described(broker) | {name: gained[name] for name in names})
    whole: dict[str, Value] = {"broker": None, "sources": None, "counted": None, "why": None}
    return [*rows, whole | {name: _sum(rows, name) for name in names}]


def _described(broker: Broker) -> dict[str, Value]:
    return {
        "broker": broker.name,
        "sources": _listed(broker.readers),
        "counted": _listed(broker.counted),
        "why": ", ".join(broker.why) or None,
    }


def _listed(readers: Iterable[Reader]) -> str:
    return ", ".join(dict.fromkeys(reader.source for reader in readers))


def _sum(rows: Sequence[Row], name: str) -> int | None:
    values = [value for row in rows if isinstance(value := row[name], int)]
    return sum(values) if values else None
