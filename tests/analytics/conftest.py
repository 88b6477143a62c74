"""One Spark for all tests here: it takes longer to start than most of them to run.

Every test that asks for it is of the group ``spark``, so that one worker starts it (``xdist_group``). A test
that breaks off in a call, as at its time limit, leaves an answer behind that the next call would read: its
Spark ends with it, and the next test gets another one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gateway.analytics.session import SparkSettings, session
from tests.analytics.logs import WrittenLog

SMALL = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    # Plans of so few rows take longer to compile and to adapt than to interpret.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class SharedSpark:
    """The Spark of all tests, which starts when it is asked for."""

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()
        self._session: SparkSession | None = None

    def session(self) -> SparkSession:
        """Return the session that runs, or another one."""
        if self._session is None:
            self._session = self._running.enter_context(session(SparkSettings("local[2]", SMALL), "tests"))
        return self._session

    def give_up(self) -> None:
        """End it at once, as Ctrl-C does."""
        self._session = None
        with contextlib.suppress(KeyboardInterrupt), self._running:
            raise KeyboardInterrupt

    def end(self) -> None:
        """End it."""
        self._session = None
        self._running.close()


@pytest.fixture(scope="session")
def shared_spark() -> Iterator[SharedSpark]:
    shared = SharedSpark()
    yield shared
    shared.end()


@pytest.fixture
def spark(shared_spark: SharedSpark) -> SparkSession:
    return shared_spark.session()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    shared = getattr(item, "funcargs", {}).get("shared_spark")
    if shared is not None and call.excinfo is not None and not call.excinfo.errisinstance(AssertionError):
        shared.give_up()
    return report


@pytest.fixture
def log(tmp_path: Path) -> WrittenLog:
    """An empty log in a folder of its own."""
    return WrittenLog(tmp_path / "log")
