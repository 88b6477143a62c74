"""A log made by the writer and the compactor, read as the documentation says: without any code of ours."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
import pytest_asyncio
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.service.processes.exit_codes import ExitCode
from tests.eventlog.documented_log import documented, written
from tests.eventlog.logs import segment, update


def statements() -> list[str]:
    return [sql.strip() for code in documented("sql", "DuckDB") for sql in code.split(";") if sql.strip()]


@pytest_asyncio.fixture
async def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a log, which is the working directory."""
    folder = await written(tmp_path)
    monkeypatch.chdir(folder)
    return folder


EXPECTED = [
    [
        ("create", "queue", 2),
        ("delete", "connection", 1),
        ("event", None, 1),
        ("gap", None, 1),
        ("start", None, 1),
        ("update", "queue", 5),
    ],
    [("/|orders", 67)],
    [("/|orders", 2.0), ("/|orders", 26.667), ("/|orders", 0.233)],
    [("127.0.0.1:5000", 90.5)],
    [("major", "queueGrows", "raised", 1)],
    [("orders", 67)],
    [(0,)],
    [("orders", 3, "the queue was full")],
    [(2**64 - 1,)],
    [(13,)],
]
SHOWN = [
    "SELECT * FROM ({})",
    "SELECT object_name, published FROM ({})",
    "SELECT object_name, round(rate, 3) FROM ({})",
    "SELECT object_name, epoch(lived) FROM ({})",
    "SELECT * FROM ({})",
    "SELECT * FROM ({})",
    "SELECT missing FROM ({})",
    "SELECT source, lost, text FROM ({})",
    "SELECT * FROM ({})",
    "SELECT * FROM ({})",
]


@pytest.mark.usefixtures("log")
def test_every_statement_for_duckdb_answers_what_happened() -> None:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        found = [
            database.execute(shown.format(sql)).fetchall()
            for shown, sql in zip(SHOWN, statements(), strict=True)
        ]
    assert found == EXPECTED


@pytest.mark.usefixtures("log")
def test_the_folders_of_days_and_hours_narrow_what_is_read() -> None:
    lake = "read_parquet('lake/*/*/*.parquet', hive_types = {'hour': VARCHAR})"
    with duckdb.connect() as database:
        found = database.execute(f"FROM {lake} SELECT count(*) WHERE dt = '2026-11-20' AND hour = '14'")
        assert found.fetchall() == [(11,)]
        assert database.execute(f"FROM {lake} WHERE dt = '2026-11-21'").fetchall() == []


@pytest.mark.usefixtures("log")
def test_the_lines_for_pandas_answer_what_happened() -> None:
    (code,) = documented("python", "pandas")
    reported = io.StringIO()
    with contextlib.redirect_stdout(reported):
        exec(code, {})  # noqa: S102  the documentation's own example
    lines = [line.split() for line in reported.getvalue().splitlines()]
    assert ["major", "queueGrows", "1"] in lines
    depths = [(line[1], line[2], float(line[-1])) for line in lines[-7:]]
    assert depths == [("orders", f"/|{name}", 5) for name in ("orders", "large", *["orders"] * 5)]


@pytest.mark.usefixtures("log")
def test_the_lines_for_arrow_read_segments() -> None:
    (code,) = documented("python", "Other readers")
    known: dict[str, Any] = {}
    exec(code, known)  # noqa: S102  the documentation's own example
    rows = [(row["kind"], row["text"], row["why"]) for row in known["table"].to_pylist()]
    assert rows == [("start", None, "hour"), ("event", "it is empty", None)]


def test_the_lines_for_jq_answer_what_happened(log: Path) -> None:
    (commands,) = documented("sh", "jq")
    reported = [json.loads(output(command, log)) for command in commands.splitlines()]
    assert reported == [["2026-11-20T15:05:06.000000Z", "major", "it is empty"], {"event": 1, "start": 1}]


def output(command: str, folder: Path) -> bytes:
    shell = ["bash", "-c", command]
    return subprocess.run(shell, check=True, capture_output=True, cwd=folder).stdout  # noqa: S603  the documentation's


def test_the_gateways_own_commands_answer_what_happened(log: Path) -> None:
    (commands,) = documented("sh", "With the gateway's commands")
    reported: dict[tuple[str, int], str] = {}
    for command in commands.splitlines():
        words = shlex.split(command, comments=True)
        assert words[:2] == ["amqp-gateway", "log"]
        following = [word for word in words[1:] if word != "--follow"]  # it would never end
        result = CliRunner().invoke(main, [*following, "--folder", str(log)])
        assert result.exit_code == ExitCode.OK, result.stderr
        reported[words[2], len(reported)] = result.stdout
    assert len(reported["tail", 0].splitlines()) == 10


def test_names_that_differ_in_case_are_read_where_columns_are_given(tmp_path: Path) -> None:
    """Without ``columns`` DuckDB makes a structure of the values, in which case is no difference."""
    first, second = update(1), update(2)
    path = segment(
        tmp_path,
        1,
        [msgspec.structs.replace(first, values={"depth": 1, "Depth": 2}), second],
    ).path
    sql = """SELECT "values"->>'$.depth', "values"->>'$.Depth' FROM read_json($1, columns =
             {seq: 'UBIGINT', kind: 'VARCHAR', "values": 'JSON'}) WHERE kind <> '_commit' ORDER BY seq"""
    with duckdb.connect() as database:
        with pytest.raises(duckdb.Error, match="Duplicate name"):
            database.execute("FROM read_json($1)", [str(path)]).fetchall()
        assert database.execute(sql, [str(path)]).fetchall() == [("1", "2"), (None, None)]
