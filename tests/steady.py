"""Runs tests many times beside busy processors, and says how often each failed; see docs/development.md.

Each round is a pytest of its own, in an order of its own, beside one busy loop for each processor. In the
last round the tests have niceness 10, so that the loops come first.

Command: ``python -m tests.steady [--times N] [--minutes N] [--since COMMIT] [TESTS...]``
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.results_page import Run, read_run
from tests.second_run import OPTION

NICENESS: Final = 10
_LOOP: Final = f"import os\nwhile os.getppid() == {os.getpid()}: sum(range(10_000))"
"""A busy loop, which ends with this process however that ends."""

_NOT_FAILED: Final = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


class NothingToRunError(Exception):
    """No test was selected, or pytest cannot run the selection; the text says what to do."""


@contextmanager
def busy_processors() -> Iterator[None]:
    """Keep each processor busy, at the niceness of this process."""
    command = [sys.executable, "-c", _LOOP]
    loops = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]  # noqa: S603  from above
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def changed_since(commit: str) -> list[str]:
    """Return the test files here that differ from those of ``commit``, also those that are not committed.

    Raises:
        NothingToRunError: there is no such commit.
    """
    changed = _git("diff", "--name-only", "--diff-filter=d", commit)
    return sorted({*changed, *_git("ls-files", "--others", "--exclude-standard")})


def _git(*words: str) -> list[str]:
    command = ["git", *words, "--", ":(glob)tests/**/test_*.py"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603  no shell
    if done.returncode != 0:
        raise NothingToRunError(done.stderr.strip())
    return done.stdout.splitlines()


def run_round(tests: Sequence[str], seconds: float, *, is_nice: bool = False) -> Run | None:
    """Run the tests once; return the result, or None where they did not end in time.

    Raises:
        NothingToRunError: pytest cannot run these; its output was printed.
    """
    nice = ["nice", "-n", str(NICENESS)] if is_nice else []
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder, "results.xml")
        options = [f"{OPTION}=off", "--quiet", "-p", "no:cacheprovider", f"--junitxml={xml}"]
        try:
            done = subprocess.run(  # noqa: S603  no shell: names have blanks and brackets
                [*nice, sys.executable, "-m", "pytest", *options, *tests],
                stdin=subprocess.DEVNULL,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
        if done.returncode not in _NOT_FAILED:
            raise NothingToRunError(f"pytest ended with status {done.returncode}; its output is above")
        return read_run("", xml.read_text("utf-8"))


def observe(
    tests: Sequence[str], times: int, minutes: float, say: Callable[[str], None]
) -> tuple[Counter[str], int]:
    """Run the tests in up to ``times`` rounds and a nice one; return how often each failed, and the rounds.

    Args:
        tests: files, folders or tests, as for pytest.
        times: the number of rounds before the nice one.
        minutes: after which no round begins, and one that lasts is ended and not counted.
        say: called with a line for each round.
    """
    failed, end = Counter[str](), time.monotonic() + 60 * minutes
    with busy_processors():
        for number in range(times + 1):
            is_nice = number == times
            began = time.monotonic()
            run = run_round(tests, end - began, is_nice=is_nice) if began < end else None
            if run is None:
                say(f"{minutes:g} min have passed: {times + 1 - number} of {times + 1} rounds were left out")
                return failed, number
            failed.update(run.failures)
            nice = f", niceness {NICENESS}" if is_nice else ""
            took = time.monotonic() - began
            say(
                f"round {number + 1} of {times + 1}{nice}: "
                f"{run.outcomes.total()} ran, {len(run.failures)} failed, in {took:.0f} s"
            )
    return failed, times + 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the selected tests; the exit status is 0 if none failed and each ran at least once."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.steady", description="How often do tests fail beside load?"
    )
    parser.add_argument("--times", type=int, default=20, help="rounds, before the nice one")
    parser.add_argument("--minutes", type=float, default=60, help="no round begins or goes on later")
    parser.add_argument(
        "--since", metavar="COMMIT", help="the test files that differ from those of this commit"
    )
    parser.add_argument("tests", nargs="*", metavar="TEST", help="files, folders or tests, as for pytest")
    options = parser.parse_args(arguments)
    try:
        tests = _selected(options.tests, options.since)
        _say(f"{len(tests)} selected: {' '.join(tests)}")
        failed, rounds = observe(tests, options.times, options.minutes, _say)
    except NothingToRunError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for test, count in failed.most_common():
        _say(f"failed {count} of {rounds} times: {test}")
    _say(f"{rounds} rounds, {len(failed)} tests failed")
    return 1 if failed or not rounds else 0


def _selected(named: Sequence[str], since: str | None) -> list[str]:
    tests = [*named, *(changed_since(since) if since else ())]
    if not tests:
        raise NothingToRunError('no test is selected: make steady TESTS="tests/snmp", or SINCE=COMMIT')
    return tests


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
