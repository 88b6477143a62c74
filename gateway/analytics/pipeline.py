"""The stream from the lake to tables of silver and gold: each record once, also after a kill.

Spark's checkpoint assigns files to batches. Beside the tables stand the stretches of seq that were published:
files that come again, under whatever name and however late, add nothing. That takes a few lines of text,
where remembering each record would take a state that grows with the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple, dataclass
from threading import Event
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from gateway.analytics import bronze, coverage, gold, silver
from gateway.analytics.brokers import BrokerFacts, broker_column, running_nodes, same_as
from gateway.analytics.coverage import Stretch
from gateway.analytics.session import SPARK_ERRORS, AnalyticsError, NoLogError, Storage, Tables, below, reason

CHECKPOINT: Final = "_checkpoint"
PUBLISHED: Final = "_published"

SILVER: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "silver/samples": silver.samples,
    "silver/life_marks": silver.life_marks,
    "silver/events": silver.events,
    "silver/operations": silver.operations,
    "silver/source_states": silver.source_states,
    "silver/gaps": silver.gaps,
}
"""Tables made of bronze."""

GOLD: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "gold/counters_by_hour": lambda records: gold.counters_by_hour(silver.deltas(records)),
    "gold/objects_by_hour": lambda records: gold.objects_by_hour(silver.life_marks(records)),
    "gold/events_by_hour": lambda records: gold.events_by_hour(silver.events(records)),
    "gold/operations_by_hour": lambda records: gold.operations_by_hour(silver.operations(records)),
}
"""Tables whose rows add up; made of silver. They are published with a column ``broker`` (`broker_column`)."""

_KEPT_BATCHES: Final = 10
_WAIT_SECONDS: Final = 1


@dataclass(frozen=True, slots=True)
class BatchDone:
    """The result of publishing a batch.

    Attributes:
        number: the number of the batch.
        records: the number of records that it added.
        known: the number of records of its files that had been published before.
    """

    number: int
    records: int
    known: int


class Publisher:
    """Publishes batches of bronze; made for ``foreachBatch``.

    Args:
        storage: the storage of the output.
        output: the folder of tables, checkpoint and published stretches.
        done: called after each batch.

    Attributes:
        batches: the number of batches that were published.
    """

    def __init__(self, storage: Storage, output: str, done: Callable[[BatchDone], None]) -> None:
        self._storage = storage
        self._ledger = below(output, PUBLISHED)
        self._tables = Tables(storage, output)
        self._done = done
        self.batches = 0

    def __call__(self, records: DataFrame, batch: int) -> None:
        """Publish the new ones of ``records`` as ``batch``; again with the same ones changes nothing."""
        # Not this one, which may be a repetition after a kill: what it left then must not count as known.
        published, facts = self._published_before(batch)
        files = coverage.contents(records)
        count = sum(file.records for file in files)
        new = coverage.without((stretch for file in files for stretch in file.stretches), published)
        all_new = coverage.size(new) == count
        fresh = records if all_new else bronze.once(records.where(coverage.among(new)))
        # Ten tables are made of it.
        fresh.persist()
        try:
            for table, made in SILVER.items():
                self._tables.publish(table, batch, made(fresh))
            facts, broker = _learned(facts, fresh)
            for table, made in GOLD.items():
                self._tables.publish(table, batch, made(fresh).select("*", broker))
        finally:
            fresh.unpersist()
        # Behind the tables: after a kill in between the batch is published again, and finds its folders
        # there.
        self._publish_ledger(batch, coverage.union([*published, *new]), facts)
        self.batches += 1
        self._done(BatchDone(batch, coverage.size(new), count - coverage.size(new)))

    def _published_before(self, batch: int) -> tuple[list[Stretch], BrokerFacts]:
        """Return the stretches that all batches before this one published, and their facts of sources.

        The results of an interrupted run of this batch are not in it.
        """
        earlier = [name for name in self._storage.names(self._ledger) if 0 <= _batch_of(name) < batch]
        if not earlier:
            return [], BrokerFacts()
        newest = max(earlier, key=_batch_of)
        read = json.loads(self._storage.read(below(self._ledger, newest)))
        if isinstance(read, list):  # tables that an earlier version began
            read = {"stretches": read, "sources": []}
        stretches = [Stretch(*stretch) for stretch in read["stretches"]]
        return stretches, BrokerFacts.from_json(read["sources"])

    def _publish_ledger(self, batch: int, stretches: list[Stretch], facts: BrokerFacts) -> None:
        draft, place = below(self._ledger, "_draft"), below(self._ledger, f"batch-{batch:012}.json")
        read = {"stretches": [astuple(stretch) for stretch in stretches], "sources": facts.as_json()}
        self._storage.write(draft, json.dumps(read))
        # A rename replaces nothing in Hadoop's file systems.
        self._storage.remove(place)
        self._storage.move(draft, place)
        for name in self._storage.names(self._ledger):
            if 0 <= _batch_of(name) <= batch - _KEPT_BATCHES:
                self._storage.remove(below(self._ledger, name))


def run(
    spark: SparkSession,
    log: str,
    output: str,
    *,
    interval_seconds: float | None,
    done: Callable[[BatchDone], None],
    files_per_batch: int = 64,
    stopping: Event | None = None,
) -> None:
    """Publish the lake of the log folder ``log`` below ``output``, and continue where an earlier run ended.

    Args:
        spark: the session.
        log: the log's folder.
        output: folder of the tables; one run at a time may write to it.
        interval_seconds: the interval of looking for new files; ``None``: publish those there now, and
            return.
        done: called after each batch.
        files_per_batch: the maximum number; bounds memory.
        stopping: once it is set, the batch under way is the last one.

    Raises:
        NoLogError: there is no lake.
        AnalyticsError: Spark cannot read or write a batch; the text is Spark's.
    """
    storage = Storage(spark)
    if not storage.exists(below(log, bronze.LAKE_FOLDER)):
        raise NoLogError(
            f"{log} has no {bronze.LAKE_FOLDER}/ yet: complete segments are made into it by "
            "'amqp-gateway log compact', and by a gateway with log.compact"
        )
    # Without its checkpoint Spark would number from 0 again, and its batches would be taken for those that
    # are there.
    if storage.names(below(output, PUBLISHED)) and not storage.exists(below(output, CHECKPOINT)):
        raise AnalyticsError(
            f"{output} holds tables, but {CHECKPOINT}/ is gone, which says what is in them: "
            "name another folder, or remove this one"
        )
    publisher = Publisher(storage, output, done)
    writer = (
        bronze.lake_stream(spark, log, files_per_batch)
        .writeStream.foreachBatch(publisher)
        .option("checkpointLocation", below(output, CHECKPOINT))
        .queryName("amqp-gateway")
    )
    writer = (
        writer.trigger(availableNow=True)
        if interval_seconds is None
        else writer.trigger(processingTime=f"{interval_seconds} seconds")
    )
    query = writer.start()
    try:
        _wait(query, publisher, stopping or Event())
    except SPARK_ERRORS as error:
        raise AnalyticsError(f"the stream ended: {reason(error)}") from error
    finally:
        query.stop()


def _wait(query: StreamingQuery, publisher: Publisher, stopping: Event) -> None:
    """Wait for the end of the query, or for that of a batch once it is to stop."""
    # In slices, because a signal is only seen between two calls of Java.
    while not stopping.is_set():
        if query.awaitTermination(_WAIT_SECONDS):
            return
    batches = publisher.batches
    # The batch under way is finished: to stop in its middle would only repeat it at the next start.
    while query.status["isTriggerActive"] and publisher.batches == batches:
        if query.awaitTermination(_WAIT_SECONDS):
            return


def _learned(facts: BrokerFacts, records: DataFrame) -> tuple[BrokerFacts, Column]:
    """Return the facts of sources after a batch, and the column that names the broker of each row."""
    names, nodes = same_as(silver.source_states(records)), running_nodes(records, facts.nodes)
    return facts.after(names, nodes), broker_column(facts.brokers(names, nodes))


def _batch_of(name: str) -> int:
    """Return the number of a ledger file's batch; -1 for any other file."""
    number = name.removeprefix("batch-").removesuffix(".json")
    return int(number) if number.isdecimal() else -1
