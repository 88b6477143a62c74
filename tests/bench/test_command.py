"""The whole command with a benchmark of fixed readings: form and arithmetic are tested, not speed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bench import page
from tests.bench.__main__ import main
from tests.bench.results import read_sections
from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run

CASE = Case("get", "us of CPU per request", Reading.COST)


@dataclass(frozen=True, slots=True)
class Invented:
    """A benchmark with readings 2, 4, 6 ... of ours and 12 of the peer."""

    name: str
    title: str = "Something invented"

    def measure(self, run: Run) -> None:
        for number in run.rounds():
            run.record(CASE, OURS, 2.0 * (number + 1))
            run.record(CASE, "net-snmp", 12.0)
        run.figure("memory", "107 MB")


@pytest.fixture(autouse=True)
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "introduction.md").write_text("# Benchmarks\n")
    for name in ("first", "second"):
        (folder / f"{name}.md").write_text(f"About {name}.\n\n{{results}}\n\nWhat remains of {name}.\n")
    monkeypatch.setattr(page, "TEXTS", folder)
    return folder


BOTH = (Invented("first"), Invented("second"))


def test_each_round_gives_a_ratio_and_the_median_round_the_row(tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    assert main(["first", "--rounds", "3", "--quick", "--json", str(rows)], BOTH) == 0
    [row] = json.loads(rows.read_text())
    assert row["runs"] == [6.0, 3.0, 2.0]
    assert (row["ratio"], row["ours"], row["peer"], row["better"]) == (3.0, 4.0, 12.0, "higher")


def test_one_benchmark_leaves_the_sections_of_others(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    main(["--docs", str(docs), "--rounds", "1"], BOTH)
    first = read_sections(docs / "results" / "benchmarks.json")["first"]
    main(["second", "--docs", str(docs), "--rounds", "2"], BOTH)
    sections = read_sections(docs / "results" / "benchmarks.json")
    assert sections["first"] == first
    assert sections["second"].rounds == 2


def test_the_page_has_the_words_around_the_figures(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    main(["second", "--docs", str(docs), "--rounds", "1"], BOTH)
    text = (docs / "benchmarks.md").read_text()
    assert text.startswith("# Benchmarks\n\n## Something invented\n\nAbout second.\n\nMeasured on ")
    assert "| `get` | net-snmp | us of CPU per request | 2 | 12.0 | **6.00** | 6.00 |" in text
    assert "| memory | 107 MB |" in text
    assert text.endswith("What remains of second.\n")
    assert "About first" not in text
    plot = docs / "_static" / "benchmark-second.svg"
    assert f"](_static/{plot.name})" in text
    assert "get / net-snmp" in plot.read_text()


def test_words_that_changed_come_on_the_page_without_measuring(tmp_path: Path, texts: Path) -> None:
    docs = tmp_path / "docs"
    main(["second", "--docs", str(docs), "--rounds", "1"], BOTH)
    (texts / "second.md").write_text("Other words.\n\n{results}\n")
    kept = (docs / "results" / "benchmarks.json").read_bytes()
    main(["--page", "--docs", str(docs)], BOTH)
    assert "Other words." in (docs / "benchmarks.md").read_text()
    assert (docs / "results" / "benchmarks.json").read_bytes() == kept


def test_the_same_rows_are_drawn_with_the_same_octets(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    main(["second", "--docs", str(docs), "--rounds", "1"], BOTH)
    rows = read_sections(docs / "results" / "benchmarks.json")["second"].rows
    again = tmp_path / "again.svg"
    page.draw(again, rows)
    assert again.read_bytes() == (docs / "_static" / "benchmark-second.svg").read_bytes()


def test_machine_noise_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["first", "--rounds", "3", "--quick", "--json", str(tmp_path / "rows.json")], BOTH)
    printed = capsys.readouterr().out
    assert "Equal work was apart by: fixed loop, wall time " in printed
    assert "get ours 100%, get net-snmp 0%" in printed


def test_a_quick_run_leaves_the_documentation_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    main(["--quick"], BOTH)
    assert not (tmp_path / "docs").exists()


def test_rounds_end_in_time(tmp_path: Path) -> None:
    run = Run(5, quick=True, folder=tmp_path, say=lambda _: None, seconds=0)
    Invented("first").measure(run)
    assert run.done == 1
    assert [row.runs for row in run.rows()] == [(6.0,)]


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["third"], BOTH)
    assert ended.value.code == 2
    assert "no such benchmark: third; there are first, second" in capsys.readouterr().err


def test_a_section_without_a_place_for_results_is_refused(tmp_path: Path, texts: Path) -> None:
    (texts / "first.md").write_text("About first.")
    with pytest.raises(ValueError, match="has no line"):
        main(["first", "--docs", str(tmp_path / "docs"), "--rounds", "1"], BOTH)
