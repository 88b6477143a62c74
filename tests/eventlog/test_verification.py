"""Everything that is not as it was written is reported with its place; everything else is not."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from gateway.eventlog.compaction import Compactor
from gateway.eventlog.segment import LogIdentity, compactable, identity_path
from gateway.eventlog.verification import Problem, Summary, verify
from tests.eventlog.logs import HOUR, LOG_ID, segment, some_segments, update, written_again


def verified(folder: Path) -> tuple[list[Problem], Summary]:
    summary = Summary()
    problems = list(verify(folder, summary, lambda *_: None))
    assert summary.problems == len(problems)
    return problems, summary


def only(folder: Path) -> str:
    (problem,), _ = verified(folder)
    return str(problem).removeprefix(f"{folder}/")


def compact(folder: Path) -> list[Path]:
    with Compactor(folder) as compactor:
        done = [compactor.compact(waiting) for waiting in compactable(folder)]
    return [one.file for one in done if one is not None and one.file is not None]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of two files in the lake, two complete segments and one that is open, of 25 records each."""
    some_segments(tmp_path, 2)
    compact(tmp_path)
    segment_file(tmp_path, 51, ".open.jsonl").unlink()
    for first in (51, 76, 101):
        segment(tmp_path, first, map(update, range(first, first + 25)), is_open=first == 101)
    identity = LogIdentity(version=1, log_id=LOG_ID, next_seq=101)
    identity_path(tmp_path).write_text(identity.text(), encoding="utf-8")
    return tmp_path


def segment_file(log: Path, first_seq: int, form: str = ".jsonl") -> Path:
    return log / "segments" / f"{first_seq:020}{form}"


def lake_file(log: Path, first_seq: int) -> Path:
    return log / "lake/dt=2026-11-20/hour=08" / f"{LOG_ID}-{first_seq:020}.parquet"


def test_a_log_as_it_was_written_has_no_problem(log: Path) -> None:
    problems, summary = verified(log)
    assert problems == []
    assert (summary.records, summary.segments, summary.lake_files) == (125, 3, 2)
    assert summary.unchecked == 0
    assert (summary.first_seq, summary.last_seq) == ({LOG_ID: 1}, {LOG_ID: 125})


def test_no_log_has_no_problem_either(tmp_path: Path) -> None:
    assert verified(tmp_path) == ([], Summary())


def test_what_is_not_committed_yet_is_counted_and_no_problem(log: Path) -> None:
    with segment_file(log, 101, ".open.jsonl").open("ab") as file:
        file.write(b"\0" * 100)
    problems, summary = verified(log)
    assert (problems, summary.uncommitted) == ([], 100)


def test_a_segment_beside_its_file_is_counted_once(log: Path) -> None:
    content = segment_file(log, 51).read_bytes()
    compact(log)
    segment_file(log, 51).write_bytes(content)
    problems, summary = verified(log)
    assert (problems, summary.records) == ([], 125)


def test_a_bit_that_flipped_is_reported_with_its_block_and_what_is_missing(log: Path) -> None:
    path = segment_file(log, 76)
    octets = bytearray(path.read_bytes())
    octets[octets.index(b'"seq":90') + 60] ^= 1
    path.write_bytes(octets)
    begins = octets.index(f'{{"log_id":"{LOG_ID}","seq":86,'.encode())
    assert only(log).startswith(f"segments/{path.name}: octet {begins}: expected octets with CRC")


def test_a_segment_cut_off_is_reported_and_so_is_what_is_missing_behind(log: Path) -> None:
    path = segment_file(log, 76)
    path.write_bytes(path.read_bytes()[:-10])
    problems, summary = verified(log)
    assert [problem.file.name for problem in problems] == [
        path.name,
        segment_file(log, 101, ".open.jsonl").name,
    ]
    assert "seq 96 to 100 are missing before it" in str(problems[1])
    assert summary.records == 120


@pytest.mark.parametrize(("gone", "missing", "before"), [(26, "26 to 50", 51), (51, "51 to 75", 76)])
def test_a_file_that_is_gone_is_reported(log: Path, gone: int, missing: str, before: int) -> None:
    (lake_file(log, gone) if gone < 51 else segment_file(log, gone)).unlink()
    assert only(log) == f"segments/{before:020}.jsonl: seq {missing} are missing before it"


def test_the_oldest_files_may_be_gone(log: Path) -> None:
    lake_file(log, 1).unlink()
    problems, summary = verified(log)
    assert (problems, summary.first_seq) == ([], {LOG_ID: 26})


@pytest.mark.parametrize("gone", [1, 51])
def test_a_segment_that_was_set_aside_is_distinguished_from_one_that_retention_took(
    log: Path, gone: int
) -> None:
    file = lake_file(log, gone) if gone == 1 else segment_file(log, gone)
    file.unlink()
    (log / "lost").mkdir()
    (log / "lost" / f"{gone:020}.damaged.jsonl").write_text("nothing in it is whole", encoding="utf-8")
    reported = only(log)
    assert reported.endswith(f": damaged, and set aside as lost/{gone:020}.damaged.jsonl")
    assert str(lake_file(log, 26) if gone == 1 else segment_file(log, 76)).endswith(
        reported.partition(":")[0]
    )


@pytest.mark.parametrize(
    "name",
    [
        "lake/report.parquet",
        f"lake/dt=2026-11-20/hour=08/copy of {LOG_ID}.parquet",
        f"lake/dt=2026-11-20/hour=88/{LOG_ID}-{1:020}.parquet",
        "segments/1.jsonl",
    ],
)
def test_a_file_that_is_none_of_the_logs_is_reported(log: Path, name: str) -> None:
    path = log / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lake_file(log, 1).read_bytes())
    assert only(log) == f"{name}: is no file of the log, and may be read as one: move it away"
    path.rename(path.with_name(f".{path.name}"))
    assert verified(log)[0] == []


def test_a_parquet_file_that_is_damaged_is_reported(log: Path) -> None:
    path = lake_file(log, 26)
    path.write_bytes(path.read_bytes()[:-20])
    problems, _ = verified(log)
    assert [problem.file for problem in problems] == [path, segment_file(log, 51)]
    assert "cannot be read" in str(problems[0])


def test_damage_for_which_duckdb_gives_a_database_up_is_of_one_file_only(log: Path) -> None:
    file = lake_file(log, 1)
    octets = bytearray(file.read_bytes())
    footer = len(octets) - 8 - int.from_bytes(octets[-8:-4], "little")
    # The compressed size of a column, behind type, values and size: now it is negative.
    size = re.compile(rb"\x15\x0c\x16[\x80-\xff]*.\x16[\x80-\xff]*.\x16(.)", re.DOTALL).search(octets, footer)
    assert size is not None
    octets[size.start(1)] ^= 1
    file.write_bytes(octets)
    with duckdb.connect() as database, pytest.raises(duckdb.InternalException):
        database.execute("SELECT * FROM read_parquet($1)", [str(file)]).fetchall()
    (problem,), summary = verified(log)
    assert problem.file == file
    assert summary.records == 100


def test_a_value_that_was_altered_is_reported(log: Path) -> None:
    path = lake_file(log, 26)
    octets = bytearray(path.read_bytes())
    octets[octets.index(b"queue-") + len("queue-")] ^= 1
    path.write_bytes(octets)
    assert only(log).startswith(f"{path.relative_to(log)}: expected octets with CRC ")


def test_a_file_without_a_checksum_is_counted_and_no_problem(log: Path) -> None:
    written_again(lake_file(log, 26))
    problems, summary = verified(log)
    assert (problems, summary.unchecked, summary.lake_files) == ([], 1, 2)


def test_a_file_under_anothers_name_is_reported(log: Path) -> None:
    other = lake_file(log, 26).parent.parent / "hour=09" / lake_file(log, 27).name
    other.parent.mkdir()
    lake_file(log, 26).rename(other)
    problems, _ = verified(log)
    assert [problem.text for problem in problems] == [
        "begins with seq 26",
        "has records of 2026-11-20T08:00:00.026000+00:00 to 2026-11-20T08:00:00.050000+00:00",
    ]


def test_records_that_are_there_twice_are_reported(log: Path) -> None:
    segment(log, 60, map(update, range(60, 70)))
    problems, _ = verified(log)
    assert "seq 60 to 69 are in" in str(problems[0])


def test_a_segment_of_another_log_is_reported(log: Path) -> None:
    segment(log, 126, [update(126)], log_id="another")
    assert only(log) == f"segments/{126:020}.jsonl: octet 0: is of log another, not of {LOG_ID}"


@pytest.mark.parametrize("content", [None, "damaged"])
def test_a_log_without_identity_is_reported(log: Path, content: str | None) -> None:
    identity_path(log).unlink()
    if content is not None:
        identity_path(log).write_text(content, encoding="utf-8")
    assert only(log).startswith("LOG: ")


def test_files_that_move_on_meanwhile_are_no_problem(log: Path) -> None:
    moved = False

    def move_on(done: int, of: int) -> None:
        nonlocal moved
        assert done <= of or moved
        if not moved:
            moved = True
            compact(log)
            segment(log, 101, map(update, range(101, 140)))
            segment_file(log, 101, ".open.jsonl").unlink()
            segment(log, 140, [update(140, HOUR)], is_open=True)

    summary = Summary()
    assert list(verify(log, summary, move_on)) == []
    assert (summary.records, summary.last_seq) == (140, {LOG_ID: 140})
