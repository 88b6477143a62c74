"""Writes the page that ``make prove`` leaves in ``docs/results/`` from pytest's JUnit XML files.

The page says what was tried (commit, date, interpreters, components), how many tests of each folder passed,
and each figure that a test recorded by pytest's ``record_property``. It names no machine and no user.

Command: ``python -m tests.results_page FOLDER XML...``; an XML file is named after its Python version.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

from gateway.demo.installation import PACKAGE, RELEASES, root_of

COMPONENTS = ("rabbitmq-server", "erlang-base", "snmp", "snmpd", "smitools")
"""The Debian packages that tests run against, named with their versions; other releases' RabbitMQ as well."""

OUTCOMES = ("passed", "failed", "skipped")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure that a test recorded: ``name`` and ``value`` as the test gave them."""

    test: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a run of pytest; ``outcomes`` counts by folder and outcome, ``seconds`` is wall time."""

    interpreter: str
    seconds: float
    outcomes: Counter[tuple[str, str]]
    failures: tuple[str, ...]
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The code and the machine of the results.

    Attributes:
        commit: of the checkout.
        code: hash of the folder ``gateway`` in it, which stays the same when commits are rebased:
            ``git rev-parse COMMIT:gateway`` shows whether a commit has that code.
        dirty: whether something was not committed, beside the documentation.
        time: when these were determined.
        system: kind of the machine.
        components: names and versions.
    """

    commit: str
    code: str
    dirty: bool
    time: datetime
    system: str
    components: tuple[tuple[str, str], ...] = field(default=())


def read_run(interpreter: str, xml: str) -> Run:
    """Read the text of one JUnit XML file.

    Raises:
        ValueError: it is not such a file.
    """
    try:
        root = ET.fromstring(xml)  # noqa: S314  our own pytest wrote it
    except ET.ParseError as error:
        raise ValueError(f"not a JUnit XML file: {error}") from error
    outcomes: Counter[tuple[str, str]] = Counter()
    failures, figures = [], []
    for case in root.iter("testcase"):
        module = case.get("classname", "")
        test = f"{module}::{case.get('name', '')}"
        outcome = _outcome(case)
        outcomes[_folder(module), outcome] += 1
        if outcome == "failed":
            failures.append(test)
        figures += [
            Figure(test, property_.get("name", ""), property_.get("value", ""))
            for property_ in case.iter("property")
        ]
    seconds = sum(float(suite.get("time", "0")) for suite in root.iter("testsuite"))
    return Run(interpreter, seconds, outcomes, tuple(failures), tuple(figures))


def _outcome(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def _folder(module: str) -> str:
    """Return ``tests/dialects/qmf`` of ``tests.dialects.qmf.test_reader.TestReader``."""
    words = module.split(".")
    names = [index for index, word in enumerate(words) if word.startswith("test_")]
    return "/".join(words[: names[0]] if names else words)


def render(surroundings: Surroundings, runs: Sequence[Run]) -> str:
    """Return the page, in Markdown."""
    commit = surroundings.commit + (" with uncommitted changes" if surroundings.dirty else "")
    lines = [
        f"# {surroundings.time:%Y-%m-%d}, commit {surroundings.commit[:12]}",
        "",
        f"Commit `{commit}`, {surroundings.time:%Y-%m-%d %H:%M} UTC, {surroundings.system}.",
        f"The code is that of every commit whose `git rev-parse COMMIT:gateway` is `{surroundings.code}`.",
        "",
    ]
    if surroundings.components:
        lines += [", ".join(f"{name} {version}" for name, version in surroundings.components) + ".", ""]
    for run in runs:
        lines += _run_section(run)
    return "\n".join(lines)


def _run_section(run: Run) -> list[str]:
    totals = Counter[str]()
    for (_, outcome), count in run.outcomes.items():
        totals[outcome] += count
    said = ", ".join(f"{totals[outcome]} {outcome}" for outcome in OUTCOMES if totals[outcome]) or "no tests"
    lines = [f"## Python {run.interpreter}", "", f"{said} in {run.seconds:.0f} s.", ""]
    folders = sorted({folder for folder, _ in run.outcomes})
    lines += _table(
        ("folder", *OUTCOMES),
        (
            [f"`{folder}`", *(str(run.outcomes[folder, outcome]) for outcome in OUTCOMES)]
            for folder in folders
        ),
    )
    if run.failures:
        lines += ["Failed:", "", *(f"- `{test}`" for test in run.failures), ""]
    if run.figures:
        lines += _table(
            ("measured by", "figure", "value"),
            ([f"`{figure.test}`", figure.name, figure.value] for figure in run.figures),
        )
    return lines


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *body, ""]


def _command(*words: str) -> str:
    finished = subprocess.run(words, check=False, capture_output=True, text=True)  # noqa: S603  fixed words
    return finished.stdout.strip() if finished.returncode == 0 else ""


def look_around() -> Surroundings:
    """Return the current folder's commit, this machine's kind, and the components installed."""
    show = ("--show", "--showformat=${Package} ${Version}\n")
    installed = [_command("dpkg-query", *show, *COMPONENTS)]
    others = (root_of(debian) / "var/lib/dpkg" for debian in RELEASES.values())
    installed += [
        _command("dpkg-query", f"--admindir={other}", *show, PACKAGE) for other in others if other.is_dir()
    ]
    versions = [tuple(line.split(" ", 1)) for line in "\n".join(installed).split("\n") if line]
    return Surroundings(
        commit=_command("git", "rev-parse", "HEAD") or "unknown",
        code=_command("git", "rev-parse", "HEAD:gateway") or "unknown",
        dirty=bool(_command("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs")),
        time=datetime.now(UTC),
        system=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        components=tuple((name, version) for name, version in versions),
    )


def main(arguments: Sequence[str]) -> None:
    """Write the page of the XML files named and print where it is."""
    folder, *files = (Path(argument) for argument in arguments)
    runs = [read_run(file.stem, file.read_text(encoding="utf-8")) for file in files]
    surroundings = look_around()
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{surroundings.time:%Y-%m-%d}-{surroundings.commit[:12]}.md"
    page.write_text(render(surroundings, runs), encoding="utf-8")
    sys.stdout.write(f"results: {page}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
