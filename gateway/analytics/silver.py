"""The silver tables: samples, lives, events, operations, states and gaps, each with typed columns.

`samples`, `deltas`, `events`, `operations`, `source_states`, `gaps` and `life_marks` look at one record at a
time, so they are the same in batch and in Structured Streaming. `lives` needs all records of an object and is
for batches.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from gateway.analytics.bronze import EXACT, VALUE_KINDS

SAME_CREATION_SECONDS: Final = 1.0
"""The difference in seconds below which two times of creation are the same."""

DELTA: Final = "struct<delta:decimal(20,0),interval_ns:bigint,reset:boolean>"
"""The type of a counter's change since its last record; ``delta`` is null where it is not known."""

DELTAS: Final = f"map<string,{DELTA}>"
"""The column ``deltas`` of bronze, which is JSON text."""

_PLACE: Final = ("log_id", "seq", "dt", "hour", "ingest_ts")
_INTEGERS: Final = ("BIGINT", "DECIMAL(19,0)", "DECIMAL(20,0)")
_NANOSECONDS: Final = 1e9


def samples(records: DataFrame, elements: Collection[str] | None = None) -> DataFrame:
    """Return one row for each object, element and sample.

    Columns: the record's place, times and object; ``kind`` of the record (a ``snapshot`` repeats what was
    recorded before); ``element``; ``type`` (``integer``, ``number``, ``boolean``, ``text``, ``list``,
    ``map``, ``absent``); the value in ``integer`` (exact, DECIMAL(20,0)), ``number`` (any number, as DOUBLE),
    ``boolean`` or ``text`` (lists and maps as JSON); of counters ``delta`` (exact; negative where it takes
    back what was added too much), ``interval_ns``, ``reset``, and ``rate`` per second: null where the
    interval is not known, never negative.

    Args:
        records: bronze.
        elements: the chosen elements; all where it is left out.
    """
    chosen = records.where(
        F.col("kind").isin(*VALUE_KINDS) & (F.col("values").isNotNull() | F.col("absent").isNotNull())
    ).withColumn("deltas", F.from_json("deltas", DELTAS))
    entries = chosen.withColumn("entry", F.explode(_entries(elements))).withColumn(
        "element", F.col("entry.key")
    )
    value = F.col("entry.value")
    form = F.schema_of_variant(value)
    counter = F.col("deltas")[F.col("element")]
    typed = entries.withColumns(
        {"form": form, "delta": counter["delta"], "interval_ns": counter["interval_ns"]}
    )
    form = F.col("form")
    # Spark reads a JSON number with a point as DECIMAL where that holds it.
    is_number = form.isin(*_INTEGERS, "DOUBLE", "FLOAT") | form.startswith("DECIMAL")
    return typed.select(
        *_PLACE,
        *("sample_ts", "sample_ns", "source", "package", "class", "object_id", "object_name", "parent_id"),
        *("agent", "kind", "element"),
        _type(form).alias("type"),
        # BIGINT would be null above 2^63-1, which unsigned counters reach.
        F.when(form.isin(*_INTEGERS), F.try_variant_get(value, "$", EXACT.simpleString())).alias("integer"),
        F.when(is_number, F.try_variant_get(value, "$", "double")).alias("number"),
        F.when(form == "BOOLEAN", F.try_variant_get(value, "$", "boolean")).alias("boolean"),
        F.when(_is_text(form), F.try_variant_get(value, "$", "string")).alias("text"),
        "delta",
        "interval_ns",
        # A counter that did not go on may have no delta.
        F.coalesce(counter["reset"], F.when(F.col("delta").isNotNull(), F.lit(False))).alias("reset"),
        rate(F.col("delta"), F.col("interval_ns")).alias("rate"),
    )


def deltas(records: DataFrame) -> DataFrame:
    """Return the rows of `samples` with a ``delta`` or ``reset``, without values: several times quicker.

    Columns: those of `samples`, but ``type``, ``integer``, ``number``, ``boolean`` and ``text``.
    """
    chosen = records.where(F.col("kind").isin(*VALUE_KINDS) & F.col("deltas").isNotNull())
    entry = F.explode(F.from_json("deltas", DELTAS))
    delta, interval_ns = F.col("counter")["delta"], F.col("counter")["interval_ns"]
    return (
        chosen.select("*", entry.alias("element_name", "counter"))
        .select(
            *_PLACE,
            *("sample_ts", "sample_ns", "source", "package", "class", "object_id", "object_name"),
            *("parent_id", "agent", "kind"),
            F.col("element_name").alias("element"),
            delta.alias("delta"),
            interval_ns.alias("interval_ns"),
            F.coalesce(F.col("counter")["reset"], F.lit(False)).alias("reset"),
            rate(delta, interval_ns).alias("rate"),
        )
        .where(F.col("delta").isNotNull() | F.col("reset"))
    )


def rate(delta: Column, interval_ns: Column) -> Column:
    """Return the rate per second; null where it cannot be known, never negative."""
    known = (delta >= 0) & (interval_ns > 0)
    return F.when(known, delta.cast("double") / interval_ns * _NANOSECONDS)


def life_marks(records: DataFrame) -> DataFrame:
    """Return the marks of lives: a row for each ``create``, ``delete``, and ``snapshot`` of an object.

    There is also a row for each ``start`` of a segment, without object: living ones are shown again after it.
    """
    return _marks(records.where(F.col("kind").isin("start", "create", "delete", "snapshot")))


def lives(records: DataFrame) -> DataFrame:
    """Return one row for each life of each object.

    A life begins with the object's ``create``, or where the log begins to show it, and ends with its
    ``delete``. A durable object that is made again under its name has another life. Columns: the object;
    ``life`` (1, 2, ...); ``created`` and ``deleted`` by the agent's clock, null where it is not known;
    ``first_seen``, ``last_seen``, ``ended`` by the gateway's; ``inferred``: the end was not reported;
    ``began``: the log saw it being made; ``state``: ``living``, ``deleted``, or ``lost`` where the end was
    not reported, but the next life began, or the last two segments did not show it; ``seconds``: how long it
    lived, by the agent's clock where that has both ends, else by the gateway's where it saw both, else null;
    never negative.

    Args:
        records: bronze, or the rows of `life_marks`; ``last_seen`` is more exact with all records.
    """
    objects = records.where(F.col("object_id").isNotNull())
    marks = _marks(objects.where(F.col("kind").isin("snapshot", "create", "delete")))
    marks = marks.unionByName(_sightings(objects.where(F.col("kind") == "update")), allowMissingColumns=True)
    order = Window.partitionBy("log_id", "object_id").orderBy("seq")
    # Without the present row: each mark is judged by what was known before it.
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    former_creation = F.last("create_ts", ignorenulls=True).over(before)
    made_again = F.col("kind").isin("create", "snapshot") & (
        F.col("create_ts").cast("double") - former_creation.cast("double") > SAME_CREATION_SECONDS
    )
    former_mark = F.last(F.when(F.col("kind") != "update", F.col("kind")), ignorenulls=True).over(before)
    # A durable object that is made again under its name keeps its object_id.
    after_end = (former_mark == "delete") & F.col("kind").isin("create", "snapshot")
    begins = F.coalesce(after_end, F.lit(False)) | F.coalesce(made_again, F.lit(False))
    numbered = marks.withColumn("life", F.sum(begins.cast("int")).over(order) + 1)
    is_end, is_begin = F.col("kind") == "delete", F.col("kind") == "create"
    latest = (
        # `max_by` passes over a row whose second argument is null, and so finds the last value that is there.
        F.max_by(F.col(name), F.when(F.col(name).isNotNull(), F.col("seq"))).alias(name)
        for name in ("source", "package", "class", "object_name", "parent_id", "agent", "lifetime")
    )
    found = numbered.groupBy("log_id", "object_id", "life").agg(
        *latest,
        F.min("create_ts").alias("created"),
        F.max(F.when(is_end, F.col("delete_ts"))).alias("deleted"),
        F.min("ingest_ts").alias("first_seen"),
        F.max("ingest_ts").alias("last_seen"),
        F.max(F.when(is_end, F.col("ingest_ts"))).alias("ended"),
        F.bool_or(F.when(is_end, F.coalesce("inferred", F.lit(False)))).alias("inferred"),
        F.bool_or(is_begin).alias("began"),
    )
    last_life = F.max("life").over(Window.partitionBy("log_id", "object_id"))
    was_lost = (F.col("life") < last_life) | (F.col("last_seen") < F.col("shown_since"))
    state = F.when(F.col("ended").isNotNull(), "deleted").when(was_lost, "lost").otherwise("living")
    return (
        found.join(F.broadcast(shown_since(records)), "log_id", "left")
        .withColumns({"state": state, "seconds": _lived()})
        .drop("shown_since")
    )


def events(records: DataFrame) -> DataFrame:
    """Return one row for each event; ``sample_ts``: its time by the agent's clock, ``values``: JSON text."""
    return records.where(F.col("kind") == "event").select(
        *_PLACE,
        *("event_id", "source", "package", "event", "severity", "state", "condition", "text"),
        *("class", "object_id", "object_name", "agent", "sample_ts", "values"),
    )


def operations(records: DataFrame) -> DataFrame:
    """Return one row for each record of an operation; the last one of an ``operation_id`` has its state.

    ``state``: ``begun`` (again at each segment's head while it is under way), ``ended``, or ``settled``;
    ``outcome`` is null while it is under way; ``attempts``: the number of refused ones for which it stands, 1
    where it does not say; ``values``, ``former``, ``found``: JSON text.
    """
    return records.where(F.col("kind") == "operation").select(
        *_PLACE,
        *("operation_id", "operation", "state", "outcome", "source", "dialect", "package", "class"),
        *("object_id", "object_name", "method", "element", "principal", "origin", "code", "text"),
        *("latency_ns", F.coalesce("attempts", F.lit(1)).alias("attempts"), "values", "former", "found"),
    )


def source_states(records: DataFrame) -> DataFrame:
    """Return one row for each record of the state of a source, or of an agent (``agent`` is not null)."""
    return records.where(F.col("kind").isin("source", "agent")).select(
        *_PLACE, "kind", "source", "dialect", "agent", "state", "text", "sample_ts", "values"
    )


def gaps(records: DataFrame) -> DataFrame:
    """Return one row for each time in which something was missed, or not recorded; ``seconds``: its length.

    ``covered``: sources that the gap does not concern; they have gaps of their own for what they missed.
    """
    return records.where(F.col("kind") == "gap").select(
        *_PLACE,
        *("source", "from_ts", "to_ts"),
        _seconds(F.col("from_ts"), F.col("to_ts")).alias("seconds"),
        *("lost", "text", "values"),
        F.from_json("values", "covered array<string>")["covered"].alias("covered"),
    )


def schemas(records: DataFrame) -> DataFrame:
    """Return one row for each element of each class, as last recorded.

    Columns: ``group`` (``property`` or ``statistic``), ``type``, ``kind``, ``unit``, ``description``.
    """
    newest = F.row_number().over(
        Window.partitionBy("log_id", "package", "class").orderBy(F.col("seq").desc())
    )
    element = "struct<name:string,group:string,type:string,kind:string,unit:string,description:string>"
    return (
        records.where((F.col("kind") == "schema") & F.col("class").isNotNull())
        .withColumn("newest", newest)
        .where(F.col("newest") == 1)
        .withColumn("schema", F.from_json("values", f"struct<elements:array<{element}>>"))
        .select("log_id", "package", "class", F.explode("schema.elements").alias("element"))
        .select("log_id", "package", "class", "element.*")
        .withColumnRenamed("name", "element")
    )


def shown_since(records: DataFrame) -> DataFrame:
    """Return the begin of the last segment but one (``shown_since``), for each log.

    Objects that live were shown since then. The last segment may have begun a moment ago, and may not have
    repeated all of them yet.
    """
    heads = records.where(F.col("kind") == "start").groupBy("log_id")
    ordered = F.sort_array(F.collect_list("ingest_ts"), asc=False)
    return heads.agg(F.try_element_at(ordered, F.lit(2)).alias("shown_since"))


def _entries(elements: Collection[str] | None) -> Column:
    """Return the elements of a record with their values, those that have none any more included."""
    # As variants: each value keeps its own type, and unsigned 64-bit numbers all digits.
    variants = F.from_json("values", "map<string,variant>")
    nothing = F.lit(None).cast("variant").alias("value")
    gone = F.transform("absent", lambda name: F.struct(name.alias("key"), nothing))
    entries = F.concat(F.coalesce(F.map_entries(variants), F.array()), F.coalesce(gone, F.array()))
    return entries if elements is None else F.filter(entries, lambda entry: entry["key"].isin(*elements))


def _type(form: Column) -> Column:
    return (
        F.when(form.isNull() | (form == "VOID"), "absent")
        .when(form.isin(*_INTEGERS), "integer")
        .when(form.startswith("DECIMAL") | form.isin("DOUBLE", "FLOAT"), "number")
        .when(form == "BOOLEAN", "boolean")
        .when(form.startswith("ARRAY"), "list")
        .when(form.startswith("OBJECT"), "map")
        .otherwise("text")
    )


def _is_text(form: Column) -> Column:
    return _type(form).isin("text", "list", "map")


def _sightings(updates: DataFrame) -> DataFrame:
    """Return the first and the last ``update`` of each object, which show when it was seen."""
    named = ("log_id", "source", "package", "class", "object_id", "object_name", "agent")
    # Numbers only are gathered, and text is what they are gathered by, because that needs no sorting.
    ends = updates.groupBy(*named).agg(
        *(F.min(name).alias(f"first_{name}") for name in ("seq", "ingest_ts")),
        *(F.max(name).alias(f"last_{name}") for name in ("seq", "ingest_ts")),
    )
    both = F.array(
        *(
            F.struct(F.col(f"{end}_seq").alias("seq"), F.col(f"{end}_ingest_ts").alias("ingest_ts"))
            for end in ("first", "last")
        )
    )
    return ends.select(*named, F.lit("update").alias("kind"), F.inline(both))


def _marks(records: DataFrame) -> DataFrame:
    return records.select(
        *_PLACE,
        *("kind", "source", "package", "class", "object_id", "object_name", "parent_id", "agent", "lifetime"),
        *("create_ts", "delete_ts", "inferred"),
    )


def _lived() -> Column:
    by_agent = _seconds(F.col("created"), F.col("deleted"))
    by_gateway = F.when(F.col("began"), _seconds(F.col("first_seen"), F.col("ended")))
    return F.coalesce(by_agent, by_gateway)


def _seconds(begin: Column, end: Column) -> Column:
    """Return the seconds from one time to another; null where the later one is earlier."""
    # Microseconds as integers: a double has not enough digits for a time since 1970 and its microseconds.
    lasted = F.unix_micros(end) - F.unix_micros(begin)
    return F.when(lasted >= 0, lasted / 1e6)
