"""The page on operations and the code have the same statuses for every outcome."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.model.operations import Outcome
from gateway.snmp import message
from gateway.snmp.written_values import COMMIT_STATUSES, TEST_STATUSES, VERSION_1_STATUSES

PAGE = Path(__file__).parents[3] / "docs" / "set-and-invoke.md"
OTHER_CONSTANTS = {"VERSION_1", "VERSION_2C", "RESPONSE_OVERHEAD"}
COLUMNS = ("SNMP, test phase", "SNMP, commit phase")


def status_name(status: int) -> str:
    """Return the name of a status as in RFC 3416."""
    names = [name for name, value in vars(message).items() if type(value) is int and value == status]
    (name,) = (name for name in names if not name.startswith("_") and name not in OTHER_CONSTANTS)
    first, *rest = name.split("_")
    return first.lower() + "".join(word.capitalize() for word in rest)


def test_every_outcome_has_the_statuses_of_the_page() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| ")
    ]
    (heading,) = (row for row in rows if set(COLUMNS) <= set(row))
    tested, committed = (heading.index(column) for column in COLUMNS)
    reported = {row[0].strip("`"): row for row in rows if len(row) == len(heading)}
    for outcome in Outcome:
        row = reported[outcome.value]
        status = TEST_STATUSES.get(outcome)
        assert re.findall(r"`(\w+)`", row[tested]) == ([] if status is None else [status_name(status)])
        assert re.findall(r"`(\w+)`", row[committed]) == [status_name(COMMIT_STATUSES[outcome])]


def test_version_1_gets_only_what_it_knows() -> None:
    reported = {*TEST_STATUSES.values(), *COMMIT_STATUSES.values()}
    assert {VERSION_1_STATUSES.get(status, status) for status in reported} <= set(range(6))
    assert set(VERSION_1_STATUSES) == set(range(message.NO_ACCESS, message.INCONSISTENT_NAME + 1))
