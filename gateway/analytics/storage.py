"""Files and folders wherever Spark reaches them: on a disk, on HDFS, in an object store.

Everything goes through Hadoop's ``FileSystem`` in Spark's own virtual machine, so that a path means the same
here as in ``spark.read``.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession


class Storage:
    """What is at paths that Spark understands.

    A rename is one step on local disks, HDFS and stores with folders (ABFS); on plain S3 it is a copy.
    """

    def __init__(self, spark: SparkSession) -> None:
        java: Any = spark._jvm  # noqa: SLF001  PySpark has no public way to Hadoop's file systems
        context: Any = spark._jsc  # noqa: SLF001
        self._java = java
        self._configuration = context.hadoopConfiguration()

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        place = self._place(path)
        return bool(self._system(place).exists(place))

    def names(self, path: str) -> list[str]:
        """What is in a folder, in order; nothing where there is no folder. Hidden names are left out."""
        place = self._place(path)
        system = self._system(place)
        if not system.exists(place):
            return []
        names = [str(status.getPath().getName()) for status in system.listStatus(place)]
        return sorted(name for name in names if not name.startswith("."))

    def move(self, path: str, target: str) -> None:
        """Rename a folder to what is not there yet, making the folders above it."""
        place, goal = self._place(path), self._place(target)
        system = self._system(place)
        system.mkdirs(goal.getParent())
        if not system.rename(place, goal):
            raise OSError(f"{path} cannot be renamed to {target}")

    def remove(self, path: str) -> None:
        """Remove a file or folder with all that is in it; one that is not there is no error."""
        place = self._place(path)
        self._system(place).delete(place, True)

    def read(self, path: str) -> str:
        """The text of a file."""
        place = self._place(path)
        stream = self._system(place).open(place)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Make a file, or replace it."""
        place = self._place(path)
        stream = self._system(place).create(place, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _place(self, path: str) -> Any:  # noqa: ANN401  a Java object
        return self._java.org.apache.hadoop.fs.Path(path)

    def _system(self, place: Any) -> Any:  # noqa: ANN401
        return place.getFileSystem(self._configuration)


def below(folder: str, *names: str) -> str:
    """The path of something in a folder."""
    return "/".join((folder.rstrip("/"), *names))


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
