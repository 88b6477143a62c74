"""One Spark for all tests here, and one report of a long story: they take longer than most tests.

Every test that asks for them is of the group ``spark``, so that one worker makes them (``xdist_group``); they
end with the tests of this folder. A test that breaks off in a call, as at its time limit, leaves an answer
behind that the next call would read: its Spark ends with it, and the next test gets another one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from gateway.analytics.coverage import Period
from gateway.analytics.reports.answers import Report
from gateway.analytics.reports.report import make_report
from gateway.analytics.session import SparkSettings, session
from gateway.cli import analytics_jobs
from gateway.cli.analytics import analytics
from tests.analytics import story
from tests.analytics.logs import NOON, WrittenLog, after
from tests.analytics.story import Ledger

STORY_PERIOD = Period(NOON, after(story.END))

SMALL = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    # Each task more takes longer than what so few rows gain by it.
    "spark.default.parallelism": "1",
    # Plans are not checked after each rule of the optimizer, nor described in detail.
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.ui.explainMode": "simple",
    # Plans of so few rows take longer to compile and to adapt than to interpret.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


OF_OTHERS = {
    "JAVA_TOOL_OPTIONS": "-javaagent:/none/agent.jar",
    "PYSPARK_SUBMIT_ARGS": "--master yarn --no-such-option",
}
"""Variables for other programs, with which Spark would not start."""


class SharedSpark:
    """The Spark of all tests, which starts when it is asked for."""

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()
        self._session: SparkSession | None = None

    def session(self) -> SparkSession:
        """Return the session that runs, or another one."""
        if self._session is None:
            with pytest.MonkeyPatch.context() as left_over:
                for name, value in OF_OTHERS.items():
                    left_over.setenv(name, value)
                settings = SparkSettings("local[2]", SMALL)
                self._session = self._running.enter_context(session(settings, "tests"))
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


@pytest.fixture(scope="package")
def shared_spark() -> Iterator[SharedSpark]:
    """Provide it; what PySpark sets in this process is as before when it has ended."""
    shared = SharedSpark()
    environment, path, handler = dict(os.environ), list(sys.path), signal.getsignal(signal.SIGINT)
    yield shared
    shared.end()
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = path
    signal.signal(signal.SIGINT, handler)


@pytest.fixture
def spark(shared_spark: SharedSpark) -> SparkSession:
    return shared_spark.session()


@dataclass(frozen=True, slots=True)
class CommandedReport:
    """The report of the story, as the command made it.

    Attributes:
        log: the log of the story.
        ledger: what is in it.
        settings: of the Spark that was started; it was the tests' own.
        ended: the command.
        report: what the command made, printed, drawn and kept.
        page: the picture.
        kept: the folder of the other files.
    """

    log: WrittenLog
    ledger: Ledger
    settings: SparkSettings
    ended: Result
    report: Report
    page: Path
    kept: Path


@pytest.fixture(scope="package")
def commanded_report(shared_spark: SharedSpark, tmp_path_factory: pytest.TempPathFactory) -> CommandedReport:
    """Return the report in all of its forms, each of which tests of their own look at."""
    folder = tmp_path_factory.mktemp("story")
    log, page, kept = WrittenLog(folder / "log"), folder / "page.png", folder / "kept"
    ledger = story.write(log)
    started: list[SparkSettings] = []
    made: list[Report] = []

    @contextmanager
    def shared(settings: SparkSettings) -> Iterator[SparkSession]:
        started.append(settings)
        yield shared_spark.session()

    def noted(
        spark: SparkSession, log: str, period: Period, progress: Callable[[str], None], most_rows: int
    ) -> Report:
        """Keep the report itself, of which the command prints a part."""
        assert log == f"file://{where[1]}"
        made.append(make_report(spark, log, period, progress, most_rows))
        return made[-1]

    where = ("--log", log.path, "--master=local[1]", "--conf=spark.driver.memory=1g")
    period = ("--from", STORY_PERIOD.begin.isoformat(), "--to", STORY_PERIOD.end.isoformat())
    forms = ("--json", "--plot", str(page), "--output", str(kept))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(analytics_jobs, "session", shared)
        patched.setattr(analytics_jobs, "make_report", noted)
        ended = CliRunner().invoke(analytics, ["report", *where, *period, *forms])
    assert ended.exit_code == 0, ended.output
    (settings,), (report,) = started, made
    return CommandedReport(log, ledger, settings, ended, report, page, kept)


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
