"""Spark sessions for a small machine, and access to files wherever Spark reaches them.

Everything in `Storage` goes through Hadoop's ``FileSystem`` in Spark's own virtual machine, so that a path
means the same here as in ``spark.read``: on a disk, on HDFS, in an object store.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from gateway.analytics.driver import Driver
from gateway.temporary_folders import TemporaryFolder


class AnalyticsError(Exception):
    """Analytics cannot go on; the text is one line that says why and what to do."""


class NoLogError(AnalyticsError):
    """There is no event log where one should be."""


class MissingError(AnalyticsError):
    """Something that the extra ``[spark]`` needs is not installed."""


JAVA_VERSION: Final = 17
"""The lowest version of Java for Spark 4."""

SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""Exceptions of a failed job: PySpark translates some of Java's exceptions, and lets the others through, such
as that of a file that is gone (``SparkException: Job aborted due to stage failure``).
"""

_ADVICE: Final = (
    f"Spark needs a Java virtual machine of version {JAVA_VERSION} or newer: "
    f"install one (on Debian: apt-get install default-jre-headless) or name it by JAVA_HOME"
)
_FILE_GONE: Final = "FILE_NOT_EXIST"
_TRACEBACK: Final = "Traceback (most recent call last):"
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_SECONDS: Final = 60
_END_SECONDS: Final = 20
_TEMPORARY: Final = "amqp-gateway-spark"

_JAVA_OPTIONS: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Variables of the environment whose options every virtual machine takes."""

_SUBMIT: Final = "PYSPARK_SUBMIT_ARGS"
"""The variable with PySpark's own command line, as notebooks set it: it would hold over the master."""

KEEP_JAVA_OPTIONS: Final = "amqp-gateway.keep-java-options"
"""The setting by which Spark's driver gets them, too, if it is ``true``."""

_PY4J: Final = frozenset({"java_gateway", "clientserver"})

_ALWAYS: Final = {
    # As the log's days and hours are; else a filter by hour would miss records.
    "spark.sql.session.timeZone": "UTC",
    # It would open a port that nothing here needs.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Tables hold what was published, and nothing else that a reader of all files would meet.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Workers that run Python look for no module in their current folder, which others may write.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}
_AUTHENTICATED: Final = {
    # The driver listens: without this, every user of the machine can send it what its executors send. Spark
    # makes a secret for each run. A standalone master refuses it: all its applications share one secret.
    "spark.authenticate": "true",
}
_STANDALONE: Final = "spark://"
_LOCAL: Final = {
    # 200 partitions, the default, are for clusters; adaptive execution splits what is large after all.
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "4g",
    # Nothing outside this machine has business with it.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The settings of Spark.

    Attributes:
        master: the place where it runs, such as ``local[2]``, ``yarn``, ``spark://HOST:7077``.
        conf: settings by their Spark names; they have precedence over everything that is set here.
            `KEEP_JAVA_OPTIONS` is none of them.
    """

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def keeps_java_options(self) -> bool:
        """Whether the driver starts also with the options of Java that the environment has."""
        return self.conf.get(KEEP_JAVA_OPTIONS, "").lower() == "true"

    def all(self, temporary: Path) -> dict[str, str]:
        """Return every setting by its Spark name.

        Args:
            temporary: the folder of the driver's temporary files.
        """
        local = _LOCAL | {"spark.local.dir": str(temporary)} if self.master.startswith("local") else {}
        java = f'-Dlog4j2.configurationFile="{_LOGGING.as_uri()}" -Djava.io.tmpdir="{temporary}"'
        driver = {"spark.driver.defaultJavaOptions": java}
        # The user's settings come last, and hold over all others.
        safe = {} if self.master.startswith(_STANDALONE) else _AUTHENTICATED
        return (
            {"spark.master": self.master}
            | _ALWAYS
            | safe
            | local
            | driver
            | {key: value for key, value in self.conf.items() if key != KEEP_JAVA_OPTIONS}
        )


@contextmanager
def session(settings: SparkSettings, name: str = "AMQP management gateway") -> Iterator[SparkSession]:
    """Yield a session that ends with the block, at once where Ctrl-C ends it.

    Raises:
        MissingError: there is no Java that Spark can run on.
        AnalyticsError: Spark does not start, or something of the machine would keep it from its work.
    """
    _check_folder()
    with _without_others(keeps_java=settings.keeps_java_options):
        check_java()
    _check_spark_home()
    _check_user()
    # It would print each error with its whole plan, beside the exception that has it.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_news)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    if settings.master.startswith("local"):
        # Not the first "python3" of the path, which may be of another version. No setting of Spark does this.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONSAFEPATH"] = "1"
    temporary = TemporaryFolder(_TEMPORARY)
    atexit.register(_remove, temporary)
    _check_libraries(temporary.path)
    builder = SparkSession.builder.appName(name)
    for key, value in settings.all(temporary.path).items():
        builder = builder.config(key, value)
    driver = Driver()
    with driver.ends_with_ctrl_c():
        try:
            with _without_others(keeps_java=settings.keeps_java_options):
                spark = builder.getOrCreate()
        except SPARK_ERRORS as error:
            raise AnalyticsError(f"Spark does not start: {reason(error)}") from error
        driver.take_ctrl_c()
        try:
            yield spark
        except KeyboardInterrupt:
            raise  # the driver ends without its consent
        except BaseException:
            spark.stop()
            raise
        spark.stop()


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a record is none of Py4J, which logs the stack of what it raises, too."""
    return record.module not in _PY4J


def _remove(temporary: TemporaryFolder) -> None:
    """Let the virtual machine end, which has files open there, and remove the folder."""
    machine = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001  PySpark has no other way to it
    if machine is not None:
        machine.stdin.close()  # by this it would end when its Python has gone
        with contextlib.suppress(subprocess.TimeoutExpired):
            machine.wait(_END_SECONDS)
    temporary.remove()


def check_java() -> None:
    """Check that the Java that Spark will find is new enough.

    Raises:
        MissingError: there is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME ({home}) holds none. " if home else ""
        raise MissingError(f"{where}{_ADVICE}")
    said = subprocess.run(  # noqa: S603  what the user's own environment names
        [java, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=False
    ).stderr
    # Java prints its version on standard error.
    version = _VERSION.search(said)
    if version is None or int(version[1]) < JAVA_VERSION:
        if version is None and (kept := next(filter(os.environ.get, _JAVA_OPTIONS), None)):
            line = next(iter(said.strip().splitlines()[-1:]), "no version")
            text = (
                f"{java} does not start with the variable {kept}, which is kept ({line}): correct or unset it"
            )
            raise AnalyticsError(text)
        found = f"{java} is of version {version[1]}" if version else f"{java} does not print its version"
        raise MissingError(f"{found}. {_ADVICE}")


@contextmanager
def _without_others(*, keeps_java: bool) -> Iterator[None]:
    """Take options for other programs out of the environment in the block; those of Java may be kept.

    An agent that is missing, or a port that is taken, keeps every virtual machine from its start:
    `amqp-gateway run` starts its own without them, too.
    """
    names = (_SUBMIT, *(() if keeps_java else _JAVA_OPTIONS))
    taken = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(taken)


def _check_folder() -> None:
    """Check that there is a current folder, without which Java does not start.

    Raises:
        AnalyticsError: it was removed.
    """
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise AnalyticsError("the current folder was removed: go to another one") from error


def _check_spark_home() -> None:
    """Check that SPARK_HOME, from which PySpark starts its driver if it is set, is of its own version.

    Raises:
        AnalyticsError: it is not.
    """
    home = os.environ.get("SPARK_HOME")
    if not home or Path(home).resolve() == Path(pyspark.__file__).parent.resolve():
        return
    advice = f"unset it, or let it name Spark {pyspark.__version__}: the extra [spark] brings its own"
    if not Path(home, "bin", "spark-submit").is_file():
        raise AnalyticsError(f"the variable SPARK_HOME names {home}, which has no bin/spark-submit: {advice}")
    if not any(Path(home, "jars").glob(f"spark-core_*-{pyspark.__version__}*.jar")):
        raise AnalyticsError(f"the variable SPARK_HOME names {home}, which has another Spark: {advice}")


def _check_user() -> None:
    """Check that the user has a name, without which Hadoop's library opens no file.

    Raises:
        AnalyticsError: it has none.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError as error:
        raise AnalyticsError(
            f"the user {os.getuid()} has no entry in /etc/passwd, which Spark needs: "
            "run it as a user that has one, or add one"
        ) from error


def _check_libraries(temporary: Path) -> None:
    """Check that Java can load libraries from its temporary folder, where Spark unpacks them.

    Raises:
        AnalyticsError: programs cannot be run there.
    """
    if os.statvfs(temporary).f_flag & os.ST_NOEXEC:
        raise AnalyticsError(
            f"{temporary.parent} is mounted with 'noexec', and Spark loads libraries from there: set the "
            "variable TMPDIR to a folder of a file system without that"
        )


def is_file_gone(error: BaseException) -> bool:
    """Return whether an error of Spark means that a file was removed or renamed before it was read."""
    return any(_FILE_GONE in said for said in _said(error))


def reason(error: BaseException) -> str:
    """Return the message of an error of Spark in one line: without the plan and the stack behind it.

    For an exception of Java it is that of the first cause: the failure of a task, not that of the job.
    """
    lines = (_said(error)[-1].strip() or type(error).__name__).splitlines()
    text = lines[-1] if any(line.endswith(_TRACEBACK) for line in lines) else lines[0]
    if not is_file_gone(error):
        return text
    return (
        f"{text.rstrip('.')}. A file of the log was removed before it was read, by retention perhaps: "
        "try again, or go on without it by --conf spark.sql.files.ignoreMissingFiles=true"
    )


def _said(error: BaseException) -> list[str]:
    """Return the message of an error; for one of Java also those of its causes, the first cause last."""
    if not isinstance(error, Py4JJavaError):
        return [str(error)]
    said = []
    exception: Any = error.java_exception  # a Throwable of Java has no type here
    while exception is not None:
        said.append(str(exception))
        exception = exception.getCause()
    return said


class Storage:
    """The files at paths that Spark understands.

    A rename is one step on local disks, HDFS and stores with folders (ABFS); on plain S3 it is a copy.
    """

    def __init__(self, spark: SparkSession) -> None:
        java: Any = spark._jvm  # noqa: SLF001  PySpark has no public way to Hadoop's file systems
        context: Any = spark._jsc  # noqa: SLF001
        self._java = java
        self._configuration = context.hadoopConfiguration()

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder."""
        place = self._place(path)
        return bool(self._system(place).exists(place))

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, in order, without hidden ones; none where there is no folder."""
        place = self._place(path)
        system = self._system(place)
        if not system.exists(place):
            return []
        names = [str(status.getPath().getName()) for status in system.listStatus(place)]
        return sorted(name for name in names if not name.startswith("."))

    def move(self, path: str, target: str) -> None:
        """Rename a folder to a path that does not exist yet, making the folders above it."""
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
        """Return the text of a file."""
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
    """Return the path of something in a folder."""
    return "/".join((folder.rstrip("/"), *names))


_STAGING: Final = "_staging"
_DAY: Final = "dt"


class Tables:
    """The tables below one folder; one writer at a time.

    Args:
        storage: the storage of the folder.
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
                # It is there from before a kill, whole, because it was renamed: the rows of a batch are
                # always the same.
                if not self._storage.exists(place):
                    self._storage.move(below(staging, day), place)
        self._storage.remove(staging)
