"""A pytest plugin: each test that failed runs once more, alone, in a fresh process; see docs/development.md.

Tests of one file that failed for one fixture, which they share, run again together: that is one failure.

A test that passes then is *unsteady*: with ``--second-run=lenient`` the run is green, and its end names the
test with the text of its first failure. What a repetition proves nothing about is red at once: an error at
teardown, a resource or an exception that nobody took care of, a traceback in a log of the gateway
(`RedAtOnceError`), a worker that died, an error of collection.
The model is ``regrtest --rerun`` of CPython.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from _pytest.terminal import TerminalReporter

from tests.process_state import Openings

OPTION: Final = "--second-run"

MOST_FAILURES: Final = 10
"""The maximum number of failures whose tests run again; where there are more, something common is broken."""

UNSTEADY: Final = "unsteady"
"""The category of pytest's last line for tests that failed, and passed when they ran alone."""


LOGGED: Final = "Logged meanwhile"
"""The begin of the title of what a gateway logged while a test ran that fails."""


class RedAtOnceError(AssertionError):
    """A failure of which it says nothing that the test passes once more."""


_RED_AT_ONCE: Final = (
    RedAtOnceError,
    pytest.PytestUnraisableExceptionWarning,
    pytest.PytestUnhandledThreadExceptionWarning,
    ResourceWarning,
)
_TAIL_LINES: Final = 60
OPENINGS: Final = Openings()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that turns the second run on."""
    parser.addoption(
        OPTION,
        choices=("off", "lenient", "strict"),
        default="off",
        help="run each failed test once more, alone: lenient is green if it passes then, strict is red",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin to observe what is opened, and failures in the controller of a run that repeats them."""
    OPENINGS.begin()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_NamesOfFailures(config))
        mode = config.getoption(OPTION)
        if mode != "off":
            config.pluginmanager.register(_SecondRun(config, is_strict=mode == "strict"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note in a report what the controller cannot know: the test's own name, and what kind of failure it is.

    With ``--dist loadgroup``, the name in a worker's report ends in the name of the test's group.
    """
    report = yield
    name, is_red = own_name(item), call.excinfo is not None and _is_red_at_once(call.excinfo.value)
    if name != report.nodeid:
        report.__dict__["own_name"] = name
    if is_red:
        report.__dict__["is_red_at_once"] = True
        report.sections += [("Opened in", line) for line in OPENINGS.of(report.longreprtext)]
    return report


def own_name(item: pytest.Item) -> str:
    """Return the name by which pytest finds a test: without the group that pytest-xdist adds to it."""
    groups = {
        str(marker.args[0] if marker.args else marker.kwargs.get("name", "default"))
        for marker in item.iter_markers("xdist_group")
    }
    return item.nodeid.removesuffix(f"@{'_'.join(sorted(groups))}") if groups else item.nodeid


def _is_red_at_once(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_red_at_once, error.exceptions))
    return isinstance(error, _RED_AT_ONCE)


def _name_in(report: pytest.TestReport) -> str:
    name: str = getattr(report, "own_name", report.nodeid)
    return name


class _NamesOfFailures:
    """Makes ``pytest --last-failed`` know the tests of a group: it finds them by their own names."""

    def __init__(self, config: pytest.Config) -> None:
        self._last_failed = config.pluginmanager.get_plugin("lfplugin")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Replace the name that pytest's cache has just noted."""
        name = _name_in(report)
        if self._last_failed is None or name == report.nodeid:
            return
        known: dict[str, bool] = self._last_failed.lastfailed
        if report.failed:
            known[name] = known.pop(report.nodeid, True)
        elif report.when == "call" or report.skipped:
            known.pop(name, None)


@dataclass(slots=True)
class _Again:
    """The result of the second run: reports of the first one by test, and the end of what failed again."""

    unsteady: dict[str, pytest.TestReport] = field(default_factory=dict)
    steady: dict[str, str] = field(default_factory=dict)
    not_tried: str = ""


class _SecondRun:
    """Runs the failed tests again when all workers have ended, before pytest prints its summary."""

    def __init__(self, config: pytest.Config, *, is_strict: bool) -> None:
        self._config = config
        self._is_strict = is_strict
        self._again = _Again()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Run them, and set the exit status of the session."""
        result = yield
        # An interruption, an internal error or a limit of failures means that not all tests ran.
        if session.exitstatus == pytest.ExitCode.TESTS_FAILED and not (
            session.shouldstop or session.shouldfail
        ):
            reporter = self._config.pluginmanager.get_plugin("terminalreporter")
            assert isinstance(reporter, TerminalReporter)
            self._run(reporter)
            if not (self._is_strict or _failures(reporter)):
                session.exitstatus = pytest.ExitCode.OK
        return result

    def _run(self, reporter: TerminalReporter) -> None:
        together = list(_by_failure(filter(_may_run_again, _failures(reporter))))
        if len(together) > MOST_FAILURES:
            self._again.not_tried = f"{len(together)} failures, more than {MOST_FAILURES}: none ran again"
            return
        reporter.write_line("")
        limit = 2 * _timeout(self._config)
        end = time.monotonic() + limit
        for number, names in enumerate(together, start=1):
            left = end - time.monotonic()
            if left <= 0:
                late = ", ".join(name for each in together[number - 1 :] for name in each)
                self._again.not_tried = f"{limit:g} s were not enough for: {late}"
                return
            said = ", ".join(names)
            reporter.write_line(f"once more, alone ({number} of {len(together)}): {said}")
            failed_again = run_alone(names, list(self._options()), left)
            if failed_again:
                self._again.steady[said] = failed_again
                continue
            for name in names:
                self._move(reporter.stats, name)

    def _options(self) -> Iterator[str]:
        for option in ("--rabbitmq", "--timeout", "--randomly-seed"):
            value = self._config.getoption(option.lstrip("-").replace("-", "_"), None)
            if value is not None:
                yield f"{option}={value}"

    def _move(self, stats: dict[str, list[Any]], name: str) -> None:
        """Let what passed be counted as unsteady, and no longer as failed, unless it is red at once."""
        of_test = [
            (category, report)
            for category in ("failed", "error")
            for report in stats.get(category, [])
            if isinstance(report, pytest.TestReport) and _name_in(report) == name
        ]
        if not all(_may_run_again(report) for _, report in of_test):
            return
        for category, report in of_test:
            stats[category].remove(report)
            if not stats[category]:
                del stats[category]  # pytest's last line would say that none failed
        stats.setdefault(UNSTEADY, []).append(of_test[0][1])
        self._again.unsteady[name] = of_test[0][1]

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Name the tests that are unsteady, and say how the others failed again."""
        again = self._again
        for name, output in again.steady.items():
            terminalreporter.section(f"failed again, alone: {name}", "_", red=True)
            terminalreporter.write_line(output)
        for name, report in again.unsteady.items():
            terminalreporter.section(f"unsteady, the first failure of: {name}", "_", yellow=True)
            terminalreporter.write_line(report.longreprtext)
            for title, content in report.sections:
                if title.startswith(LOGGED):  # it may pass for weeks
                    terminalreporter.section(title, "-")
                    terminalreporter.write_line(content)
        if again.unsteady:
            terminalreporter.section("unsteady: failed, and passed alone; see tests/unsteady.md", yellow=True)
            for name, report in again.unsteady.items():
                terminalreporter.write_line(f"UNSTEADY {name} - {_reason(report)}")
        if again.not_tried:
            terminalreporter.write_line(again.not_tried, red=True)


def _failures(reporter: TerminalReporter) -> list[Any]:
    """Return the reports of failed tests and errors; those of collection are no `pytest.TestReport`."""
    stats: Mapping[str, Sequence[Any]] = reporter.stats
    return [report for category in ("failed", "error") for report in stats.get(category, [])]


def _by_failure(reports: Iterable[Any]) -> Iterator[tuple[str, ...]]:
    """Yield the names of the tests of each failure: a fixture that several share fails once for all."""
    found: dict[tuple[object, ...], dict[str, None]] = {}
    seen = set[str]()
    for report in reports:
        name = _name_in(report)
        if name in seen:
            continue
        seen.add(name)
        key: tuple[object, ...] = (name,)
        crash = getattr(report.longrepr, "reprcrash", None)
        if report.when == "setup" and crash is not None:
            key = (name.partition("::")[0], crash.path, crash.lineno, crash.message)
        found.setdefault(key, {})[name] = None
    yield from map(tuple, found.values())


def _may_run_again(report: object) -> bool:
    """Return whether a repetition says anything; the report of a worker that died has no phase at all."""
    return (
        isinstance(report, pytest.TestReport)
        and report.when in ("setup", "call")
        and not getattr(report, "is_red_at_once", False)
    )


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(getattr(crash, "message", report.longreprtext)).strip().partition("\n")[0]


def _timeout(config: pytest.Config) -> float:
    """Return the seconds that one test may take."""
    return float(config.getoption("timeout", None) or config.getini("timeout"))


def run_alone(names: Sequence[str], options: Sequence[str], seconds: float) -> str:
    """Run tests in a process of their own; return the end of its output if one fails, else an empty text.

    Args:
        names: of the tests, as pytest writes them.
        options: further options of pytest.
        seconds: after which it is killed, and has failed.
    """
    command = [sys.executable, "-m", "pytest", f"{OPTION}=off", "-p", "no:cacheprovider", *options, *names]
    try:
        done = subprocess.run(  # noqa: S603  no shell: names have blanks and brackets
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not ended within {seconds:.0f} s"
    if done.returncode == pytest.ExitCode.OK:
        return ""
    return "\n".join(done.stdout.strip().splitlines()[-_TAIL_LINES:]) or f"exit status {done.returncode}"
