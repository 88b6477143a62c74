"""The totals of each broker, counted once although several sources read it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from gateway.analytics.brokers import Reader, RunningNode, of_readers, same_brokers, united
from gateway.analytics.reports.answers import Row, Value, collected, number


@dataclass(slots=True)
class Broker:
    """One broker, and its sources.

    Attributes:
        readers: its sources.
        why: the reasons why they are one, where they are several.
        counted: the sources of its totals: never two that existed at the same time.
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
        """The name of the first source that is counted."""
        return self.counted[0].source


def brokers(
    seen: Sequence[Row], names: Mapping[Reader, str], nodes: Mapping[Reader, Sequence[RunningNode]]
) -> list[Broker]:
    """Return all brokers, of whatever kind their sources are, in order of their names.

    Args:
        seen: a row for each source: ``log_id``, ``source``, its ``first`` and ``last`` record, and the number
            of ``messages`` in and out.
        names: the result of `gateway.analytics.brokers.same_as`.
        nodes: the result of `gateway.analytics.brokers.running_nodes`.
    """
    by_reader = {Reader(str(row["log_id"]), str(row["source"])): row for row in seen}
    pairs = [
        (one, other, why)
        for one, other, why in same_brokers(names, nodes)
        if one in by_reader and other in by_reader  # others have no records
    ]
    first = united((one, other) for one, other, _ in pairs)
    found: dict[Reader, Broker] = {}
    for reader in sorted(by_reader):
        found.setdefault(first.get(reader, reader), Broker([])).readers.append(reader)
    for one, _, why in pairs:
        known = found[first[one]].why
        known += [why] if why not in known else []
    for broker in found.values():
        broker.counted = _counted(broker.readers, by_reader)
    return sorted(found.values(), key=lambda broker: broker.name)


def _counted(readers: Iterable[Reader], seen: Mapping[Reader, Row]) -> list[Reader]:
    """Return the source with most messages, and others that existed only before or after it."""
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
    """Return the ``messages`` in and out of each source, by its queues' counters.

    Args:
        steps: the rows of `gateway.analytics.reports.queues.steps`.
    """
    both = F.coalesce(F.col("published"), F.lit(0)) + F.coalesce(F.col("delivered"), F.lit(0))
    return steps.groupBy("log_id", "source").agg(F.sum(both).cast("decimal(38,0)").alias("messages"))


def totals(
    found: Sequence[Broker], steps: DataFrame, growing: DataFrame, connections: DataFrame
) -> list[Row]:
    """Return one row for each broker, then one for all together (``broker`` null).

    Columns: ``broker``, its ``sources``, the ``counted`` ones of them, ``why`` they are one;
    ``published`` and ``delivered`` messages; ``queues`` with values, those that are ``growing``;
    connections ``opened``, ``ended``, ``open`` at the end.

    Args:
        found: the result of `brokers`.
        steps: the rows of `gateway.analytics.reports.queues.steps`.
        growing: the rows of `gateway.analytics.reports.queues.growth`.
        connections: lives of connections.
    """
    places = {reader: place for place, broker in enumerate(found) for reader in broker.counted}
    if not places:
        return []
    place_of = F.coalesce(*of_readers(places)).alias("place")
    parts = (
        steps.select(place_of, F.col("queue").alias("name"), "published", "delivered"),
        growing.select(place_of, F.col("queue").alias("grown")),
        connections.select(place_of, "began", "state"),
    )
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts).where(
        F.col("place").isNotNull()
    )
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
