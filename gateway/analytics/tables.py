"""Path tables that readers of any kind count right: what a batch adds appears whole, and once.

A table is a folder of Parquet files under ``TABLE/dt=DAY/batch=NUMBER/``. A batch is written to
``_staging`` first; then the folder of each day is renamed to its place. A batch that was cut off is run
again by Spark with the same number and the same records, so what is in its place already is left as it is.
Spark's own file sink keeps the truth in ``_spark_metadata``, which no other reader knows: after a kill
those count rows twice.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from gateway.analytics.storage import Storage, below

_STAGING: Final = "_staging"
_DAY: Final = "dt"


class Tables:
    """The tables below one folder; one writer at a time.

    Args:
        storage: where the folder is.
        folder: its path.
    """

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._folder = folder

    def publish(self, table: str, batch: int, rows: DataFrame) -> None:
        """Add the rows of a batch to ``table``; they have a column ``dt``."""
        staging = below(self._folder, _STAGING, table)
        self._storage.remove(staging)
        rows.write.partitionBy(_DAY).parquet(staging)
        for day in self._storage.names(staging):
            if day.startswith(f"{_DAY}="):
                place = below(self._folder, table, day, f"batch={batch:012}")
                if not self._storage.exists(place):
                    self._storage.move(below(staging, day), place)
        self._storage.remove(staging)
