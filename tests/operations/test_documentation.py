"""``docs/set-and-invoke.md`` has each outcome, in order, and each with its exit code."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.eventlog.last_state import MAX_UNFINISHED
from gateway.feed.latest import HistoryLimits
from gateway.model.operations import Outcome
from gateway.model.times import SECOND
from gateway.operations.audit import MAX_LENGTH
from gateway.operations.reconciler import CERTAIN_AFTER, MAX_PENDING, READ_AFTER
from gateway.service.processes.outcome_codes import OF_OUTCOME

PAGE = (Path(__file__).parents[2] / "docs" / "set-and-invoke.md").read_text(encoding="utf-8")


def rows() -> list[list[str]]:
    section = PAGE.partition("\n## Outcomes\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| `.*\|$", section, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_each_outcome_has_a_row() -> None:
    assert [row[0].strip("`") for row in rows()] == [outcome.value for outcome in Outcome]


def test_each_row_has_its_exit_code() -> None:
    assert [int(row[-1]) for row in rows()] == [OF_OUTCOME[outcome] for outcome in Outcome]


def test_numbers_are_those_of_the_code() -> None:
    *first, last = (time // SECOND for time in READ_AFTER)
    assert f"after {', '.join(map(str, first))} and {last} s" in PAGE
    assert f"at least {CERTAIN_AFTER // SECOND} s apart" in " ".join(PAGE.split())
    assert f"The last {MAX_PENDING} such operations" in PAGE
    assert f"The last {HistoryLimits().operations:,} of each source that ended" in PAGE
    assert f"longer than {MAX_LENGTH:,} characters" in PAGE
    assert MAX_UNFINISHED > MAX_PENDING
