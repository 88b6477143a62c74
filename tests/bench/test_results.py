"""Results of benchmarks in files: rows are merged, sections outlast other runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.results import Section, merge_rows, read_sections, write_sections
from tests.bench.rows import Case, Reading, Row, row
from tests.bench.run import Figure


def made(name: str, peer: str, ours: float) -> Row:
    return row(Case(name, "us", Reading.COST), peer, [ours], [2.0])


def test_rows_of_the_same_name_and_peer_are_replaced_and_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    merge_rows(file, [made("get", "net-snmp", 1.0), made("get", "pysnmp", 1.0)])
    merge_rows(file, [made("get", "net-snmp", 4.0), made("next", "net-snmp", 1.0)])
    assert [
        (found["name"], found["peer_name"], found["ratio"]) for found in json.loads(file.read_text())
    ] == [
        ("get", "net-snmp", 0.5),
        ("get", "pysnmp", 2.0),
        ("next", "net-snmp", 2.0),
    ]


@pytest.mark.parametrize("text", ["no json", "{}x", '[{"name": "get"}]', "[1]", "3"])
def test_a_file_that_is_no_list_of_rows_is_not_overwritten(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rows.json"
    file.write_text(text)
    with pytest.raises(ValueError, match="no list of rows"):
        merge_rows(file, [made("get", "net-snmp", 1.0)])
    assert file.read_text() == text


def test_sections_are_read_as_they_were_written(tmp_path: Path) -> None:
    section = Section(
        measured="2026-11-20 14:50",
        commit="6d6e9a4",
        system="Linux, 2 cores",
        rounds=1,
        seconds=12.5,
        noise={"fixed loop, wall time": 0.01},
        figures=(Figure("memory", "107 MB"),),
        rows=(made("get", "net-snmp", 1.0),),
    )
    file = tmp_path / "benchmarks.json"
    write_sections(file, {"snmp": section})
    assert read_sections(file) == {"snmp": section}


def test_before_the_first_run_there_are_no_sections(tmp_path: Path) -> None:
    assert read_sections(tmp_path / "benchmarks.json") == {}


def test_sections_of_another_version_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "benchmarks.json"
    file.write_text('{"version": 2, "sections": {}}')
    with pytest.raises(ValueError, match="version 2"):
        read_sections(file)
