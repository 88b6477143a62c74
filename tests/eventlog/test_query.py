"""The whole log as one table of SQL: each record once, wherever it lies; queries can reach nothing else."""

from __future__ import annotations

import datetime as dt
import shutil
import signal
import threading
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from gateway.eventlog import query
from gateway.eventlog.compaction import Compactor
from gateway.eventlog.follow import Selection
from gateway.eventlog.parquet import database
from gateway.eventlog.query import LogReadError, QueryError, ask
from gateway.eventlog.segment import compactable, lake_file, lake_files, list_segments, segment_path
from gateway.eventlog.verification import Summary, verify
from tests.eventlog.logs import HOUR, LOG_ID, segment, some_segments, update

Row = tuple[object, ...]


def rows(
    folder: Path,
    sql: str,
    parameters: Mapping[str, object] | None = None,
    after: dt.datetime | None = None,
    before: dt.datetime | None = None,
) -> list[Row]:
    with ask(folder, sql, parameters, after=after, before=before) as answer:
        return list(answer.rows)


def seqs(folder: Path, after: dt.datetime | None = None, before: dt.datetime | None = None) -> list[object]:
    return [seq for (seq,) in rows(folder, "SELECT seq FROM log ORDER BY seq", None, after, before)]


def compact(folder: Path, count: int) -> None:
    with Compactor(folder) as compactor:
        for waiting in compactable(folder)[:count]:
            compactor.compact(waiting)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """75 records: 25 in the lake, 25 in a complete segment, 25 in the open one, and half a block behind."""
    some_segments(tmp_path, 2)
    compact(tmp_path, 1)
    (tmp_path / "segments" / "00000000000000000051.open.jsonl").unlink()
    last = segment(tmp_path, 51, map(update, range(51, 76)), is_open=True)
    with last.path.open("ab") as file:
        file.write(f'{{"log_id":"{LOG_ID}","seq":76,"kind":"upda'.encode())
    return tmp_path


def test_each_record_is_there_once(log: Path) -> None:
    assert seqs(log) == list(range(1, 76))


def test_a_segment_beside_its_file_is_reported_once(log: Path) -> None:
    first = list_segments(log)[0]
    content = first.path.read_bytes()
    compact(log, 1)
    first.path.write_bytes(content)
    assert seqs(log) == list(range(1, 76))


def test_an_open_segment_beside_the_complete_one_that_it_became_is_passed_over(log: Path) -> None:
    """As a copy of a log has it that was made in several turns."""
    (complete, opened) = list_segments(log)
    shutil.copy(complete.path, segment_path(log, complete.first_seq, is_open=True))
    assert seqs(log) == list(range(1, 76))
    assert list_segments(log) == [complete, opened]
    *_, problem = verify(log, Summary(), lambda _read, _of: None)
    assert problem.text == "is no file of the log, and may be read as one: move it away"


@pytest.mark.parametrize("earlier", [True, False])
def test_a_file_of_the_lake_that_is_copied_into_another_hour_is_read_once(
    log: Path, *, earlier: bool
) -> None:
    (file,) = lake_files(log)
    hours = dt.timedelta(hours=-1 if earlier else 1)
    copy = lake_file(log, file.log_id, file.first_seq, file.hour + hours).path
    copy.parent.mkdir(parents=True)
    shutil.copy(file.path, copy)
    assert seqs(log) == list(range(1, 76))
    assert seqs(log, after=HOUR, before=HOUR + dt.timedelta(milliseconds=20)) == list(range(1, 20))
    with ask(log, "SELECT 1") as answer:
        assert [one.path in {file.path, copy} for one in answer.copies] == [True]


def test_values_are_exact_and_times_are_in_utc(log: Path) -> None:
    sql = """
        SELECT ingest_ts, ("values"->>'published')::UBIGINT, absent
        FROM log WHERE seq IN (5, 30, 55) ORDER BY 1
    """
    assert rows(log, sql) == [
        (HOUR + dt.timedelta(milliseconds=seq), 2**64 - 1 - seq, ["consumerUtilisation"])
        for seq in (5, 30, 55)
    ]


def test_an_empty_log_has_the_table_too(tmp_path: Path) -> None:
    assert rows(tmp_path, "SELECT count(*), max(ingest_ts) FROM log") == [(0, None)]


def test_bounds_of_time_leave_out_files_and_records(log: Path) -> None:
    after, before = HOUR + dt.timedelta(milliseconds=20), HOUR + dt.timedelta(milliseconds=60)
    assert seqs(log, after=after, before=before) == list(range(20, 60))
    assert seqs(log, after=HOUR + dt.timedelta(hours=1)) == []
    assert query.log_files(log, after=HOUR + dt.timedelta(hours=1)).lake == ()
    assert query.log_files(log, before=HOUR).lake == ()
    assert len(query.log_files(log, after=after, before=before).lake) == 1


def test_a_selection_of_records_is_a_condition(log: Path) -> None:
    chosen = Selection(
        kinds={"update"}, sources={"orders"}, classes={"rabbitmq:queue"}, objects={"/|queue-3"}
    )
    condition, parameters = chosen.condition()
    found = rows(log, f"SELECT seq FROM log WHERE {condition} ORDER BY seq", parameters)  # noqa: S608  ours
    assert [seq for (seq,) in found] == [number for number in range(1, 76) if number % 7 == 3]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("DELETE FROM log", "only read: DELETE is refused"),
        ("COPY log TO 'stolen.parquet'", "only read: COPY is refused"),
        ("ATTACH 'other.db'", "only read: ATTACH is refused"),
        ("INSTALL httpfs", "only read"),
        ("SET enable_external_access = true", "only read: SET is refused"),
        ("SELECT 1; SELECT 2", "here are 2"),
        ("", "here are 0"),
        ("SELEKT", "syntax error"),
        ("SELECT nothing FROM log", "nothing"),
        ("SELECT seq + 'x' FROM log", "x"),
    ],
)
def test_what_does_not_read_or_is_wrong_is_refused(log: Path, sql: str, why: str) -> None:
    with pytest.raises(QueryError, match=why):
        rows(log, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{}')",
        "SELECT * FROM read_csv('{}')",
        "SELECT * FROM glob('{}*')",
        "SELECT * FROM read_parquet('https://example.org/x.parquet')",
    ],
)
def test_no_file_outside_the_log_is_reached(
    log: Path, tmp_path_factory: pytest.TempPathFactory, sql: str
) -> None:
    other = tmp_path_factory.mktemp("other") / "secret"
    other.write_text("secret")
    with pytest.raises(QueryError, match="disabled by configuration"):
        rows(log, sql.format(other))


def test_files_that_go_while_they_are_looked_up_are_looked_up_again(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, looked = query.log_files, []

    def compacted_meanwhile(*arguments: object) -> query.LogFiles:
        found = look(log)
        looked.append(arguments)
        compact(log, 1)
        return found

    monkeypatch.setattr(query, "log_files", compacted_meanwhile)
    assert seqs(log) == list(range(1, 76))
    assert len(looked) == 2


LONG = 72_001


def rows_while_files_go(folder: Path, sql: str) -> list[Row]:
    """Return the rows of a long log; behind the first one, all files of it that were complete are removed."""
    each = LONG // 12
    for first in range(1, LONG, each):
        segment(folder, first, map(update, range(first, first + each)), of_a_block=1_000)
    segment(folder, LONG, [update(LONG)], is_open=True)
    compact(folder, 6)
    with ask(folder, sql) as answer:  # more than DuckDB makes in advance, or has open files of
        found = [next(answer.rows)]
        for file in lake_files(folder):
            file.path.unlink()
        compact(folder, 12)
        assert [each.is_open for each in list_segments(folder)] == [True]
        return [*found, *answer.rows]


def test_a_long_answer_is_whole_although_files_are_compacted_and_deleted_meanwhile(tmp_path: Path) -> None:
    found = rows_while_files_go(tmp_path, "SELECT seq, * EXCLUDE (seq) FROM log")
    assert sorted(str(row[0]) for row in found) == sorted(map(str, range(1, LONG + 1)))


def test_where_a_file_was_not_held_a_long_answer_ends_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "_HELD", 0)
    with pytest.raises(LogReadError, match="ask again"):
        rows_while_files_go(tmp_path, "FROM log")


def test_a_mistake_that_shows_late_is_reported_although_files_went(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="the last but one"):
        rows_while_files_go(
            tmp_path, "SELECT CASE WHEN seq = 72_000 THEN error('the last but one') END, * FROM log"
        )


def test_a_log_that_is_damaged_is_reported_with_what_to_do(log: Path) -> None:
    damaged = list_segments(log)[0].path
    damaged.write_bytes(damaged.read_bytes().replace(b'"kind":"update"', b'"kind:"update"', 1))
    with pytest.raises(LogReadError, match=f"{damaged.name}.*log compact"):
        seqs(log)


def test_a_file_made_before_a_column_came_has_it_without_values(log: Path) -> None:
    (file,) = (log / "lake").glob("*/*/*.parquet")
    with duckdb.connect() as database:
        database.execute(
            f"COPY (FROM '{file}' SELECT * EXCLUDE (lost, outcome)) TO '{file}.older' (FORMAT parquet)"
        )
    Path(f"{file}.older").replace(file)
    assert seqs(log) == list(range(1, 76))
    assert rows(log, "SELECT count(*), count(outcome), count(lost) FROM log") == [(75, 0, 0)]


def test_ctrl_c_while_the_database_works_is_an_interruption(tmp_path: Path) -> None:
    """DuckDB waits for its own threads, and replaces what the handler of the signal raises."""
    endless = "SELECT sum(a.range * b.range) FROM range(100000000) a, range(1000000) b"
    pressed = threading.Timer(0.5, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), database(tmp_path, memory_mebibytes=200, threads=1) as opened:  # noqa: PT012  the timer begins where it works
        pressed.start()
        opened.execute(endless).fetchall()
