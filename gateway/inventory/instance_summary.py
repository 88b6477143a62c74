"""What an instance index holds, for people."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from gateway.inventory.instance_file import explained, read_index


@dataclass(frozen=True, slots=True)
class ClassRows:
    """Row numbers of one class of a source.

    Attributes:
        source: its number; 0 for series of the gateway's own.
        class_name: ``package:class``.
        durable: objects whose number is kept, and that were there when last heard of.
        retired: objects that are gone, and whose number waits for their return.
        high_water: no number above this one has been given since the numbers began, or last wrapped.
    """

    source: int
    class_name: str
    durable: int
    retired: int
    high_water: int


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """An instance index.

    Attributes:
        version: of the file's form.
        sources: the number of every source that ever was, by name.
        classes: ordered by source and class.
    """

    version: int
    sources: Mapping[str, int]
    classes: tuple[ClassRows, ...]


def summary(path: Path) -> IndexSummary:
    """Read what is committed, also while a gateway writes.

    Raises:
        InstanceIndexError: the file is missing, damaged or of a newer version.
    """
    with closing(read_index(path)) as database, explained(path):
        database.execute("BEGIN")  # one moment for all
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version == 0:
            return IndexSummary(0, {}, ())
        sources = dict(database.execute("SELECT name, number FROM sources ORDER BY number").fetchall())
        rows = database.execute(
            "SELECT counters.source, counters.class, COUNT(name) - COUNT(NULLIF(retired, 0)), "
            "COUNT(NULLIF(retired, 0)), high_water FROM counters LEFT JOIN durable USING (source, class) "
            "GROUP BY counters.source, counters.class ORDER BY counters.source, counters.class"
        )
        return IndexSummary(version, sources, tuple(ClassRows(*row) for row in rows))
