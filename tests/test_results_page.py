"""The page of results, from a JUnit file as pytest writes it to the Markdown that is kept."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.results_page import Figure, Surroundings, main, read_run, render

JUNIT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="5" time="12.4">
<testcase classname="tests.snmp.test_store" name="test_next" time="0.1" />
<testcase classname="tests.snmp.test_store.TestHoles" name="test_a|b" time="0.1">
<properties><property name="GETNEXT p50" value="12.4 us" /></properties></testcase>
<testcase classname="tests.snmp.test_store" name="test_bulk" time="0.1">
<failure message="no">x</failure></testcase>
<testcase classname="tests.test_page" name="test_set_up" time="0.1"><error message="no">x</error></testcase>
<testcase classname="tests.test_page" name="test_left_out" time="0.0"><skipped message="no" /></testcase>
</testsuite></testsuites>
"""

SURROUNDINGS = Surroundings(
    commit="0123456789abcdef0123456789abcdef01234567",
    code="89abcdef0123456789abcdef0123456789abcdef",
    dirty=True,
    time=datetime(2026, 11, 20, 8, 30, tzinfo=UTC),
    system="Linux x86_64, 2 cores",
    components=(("snmp", "5.9.3+dfsg-2"), ("rabbitmq-server", "3.10.8-1")),
)


def test_outcomes_are_counted_by_folder() -> None:
    run = read_run("3.11.2", JUNIT)
    assert run.outcomes == {
        ("tests/snmp", "passed"): 2,
        ("tests/snmp", "failed"): 1,
        ("tests", "failed"): 1,
        ("tests", "skipped"): 1,
    }
    assert run.failures == ("tests.snmp.test_store::test_bulk", "tests.test_page::test_set_up")
    assert run.seconds == 12.4


def test_recorded_figures_are_kept_with_their_test() -> None:
    assert read_run("3.11.2", JUNIT).figures == (
        Figure("tests.snmp.test_store.TestHoles::test_a|b", "GETNEXT p50", "12.4 us"),
    )


def test_another_file_is_refused() -> None:
    with pytest.raises(ValueError, match="not a JUnit XML file"):
        read_run("3.11.2", "nothing of the kind")


def test_the_page_says_what_was_tried_and_what_failed() -> None:
    assert render(SURROUNDINGS, [read_run("3.11.2", JUNIT)]) == (
        "# 2026-11-20, commit 0123456789ab\n\n"
        "Commit `0123456789abcdef0123456789abcdef01234567 with uncommitted changes`, "
        "2026-11-20 08:30 UTC, Linux x86_64, 2 cores.\n"
        "The code is that of every commit whose `git rev-parse COMMIT:gateway` is"
        " `89abcdef0123456789abcdef0123456789abcdef`.\n\n"
        "snmp 5.9.3+dfsg-2, rabbitmq-server 3.10.8-1.\n\n"
        "## Python 3.11.2\n\n"
        "2 passed, 2 failed, 1 skipped in 12 s.\n\n"
        "| folder | passed | failed | skipped |\n"
        "| --- | --- | --- | --- |\n"
        "| `tests` | 0 | 1 | 1 |\n"
        "| `tests/snmp` | 2 | 1 | 0 |\n\n"
        "Failed:\n\n"
        "- `tests.snmp.test_store::test_bulk`\n"
        "- `tests.test_page::test_set_up`\n\n"
        "| measured by | figure | value |\n"
        "| --- | --- | --- |\n"
        "| `tests.snmp.test_store.TestHoles::test_a\\|b` | GETNEXT p50 | 12.4 us |\n"
    )


def test_the_command_writes_one_page_named_by_day_and_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit = tmp_path / "3.11.2.xml"
    junit.write_text(JUNIT, encoding="utf-8")
    main([str(tmp_path / "results"), str(junit)])
    (page,) = (tmp_path / "results").iterdir()
    assert capsys.readouterr().out == f"results: {page}\n"
    assert page.read_text(encoding="utf-8").startswith(f"# {page.name[:10]}, commit ")
