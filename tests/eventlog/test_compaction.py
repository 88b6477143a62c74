"""A complete segment becomes a Parquet file with the same records, and is then deleted."""

from __future__ import annotations

import stat
from pathlib import Path

import duckdb
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.eventlog.compaction import CompactionError, Compactor
from gateway.eventlog.disk import FILE_MODE, FOLDER_MODE
from gateway.eventlog.parquet import COLUMNS
from gateway.eventlog.record import VERSION as FORM
from gateway.eventlog.record import Delta, LogRecord, RecordKind
from gateway.eventlog.segment import LogIdentity, compactable, identity_path
from tests.eventlog.logs import (
    LOG_ID,
    entries,
    everything,
    file_of,
    has_right_checksum,
    lines_of,
    rows_of,
    segment,
    some_segments,
    update,
)
from tests.hypothesis_profiles import examples

# -- what becomes of a segment


def test_a_segment_becomes_a_file_with_the_same_records_and_goes(tmp_path: Path) -> None:
    first, _ = some_segments(tmp_path, 2)
    before = lines_of(first.path)
    with Compactor(tmp_path) as compactor:
        done = compactor.compact(first)
    assert done is not None
    assert (done.file, done.records, done.problems) == (file_of(tmp_path, 1), 25, ())
    assert rows_of(file_of(tmp_path, 1)) == before
    assert not first.path.exists()
    assert entries(tmp_path / "lake") == {".lock", "dt=2026-11-20"}


def test_users_who_may_read_segments_may_read_the_lake_and_no_others(tmp_path: Path) -> None:
    (first,) = some_segments(tmp_path, 1)
    with Compactor(tmp_path) as compactor:
        compactor.compact(first)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "lake").rglob("*") if path.is_file()}
    folders = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "lake").rglob("*") if path.is_dir()}
    assert (modes, folders) == ({FILE_MODE}, {FOLDER_MODE})


def test_columns_are_the_fields_of_a_record_behind_its_place() -> None:
    fields = [field.encode_name for field in msgspec.structs.fields(LogRecord)]
    assert list(COLUMNS) == ["log_id", "seq", *fields]


def test_a_file_has_all_columns_with_their_types_also_where_nothing_is_in_them(tmp_path: Path) -> None:
    first = segment(tmp_path, 1, [LogRecord(kind=RecordKind.GAP, ingest_ts="2026-11-20T08:00:00.000001Z")])
    with Compactor(tmp_path) as compactor:
        compactor.compact(first)
    described = (
        duckdb.connect().execute("DESCRIBE FROM read_parquet($1)", [str(file_of(tmp_path, 1))]).fetchall()
    )
    types = {"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}
    expected = [(name, types.get(kind, kind)) for name, kind in COLUMNS.items()]
    assert [(name, kind) for name, kind, *_ in described if name not in {"dt", "hour"}] == expected
    schema = (
        duckdb.connect()
        .execute(
            "SELECT name, logical_type FROM parquet_schema($1) WHERE name LIKE '%\\_ts' ESCAPE '\\'",
            [str(file_of(tmp_path, 1))],
        )
        .fetchall()
    )
    assert len(schema) == 7
    assert all("isAdjustedToUTC=1" in kind and "MICROS" in kind for _, kind in schema)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
numbers = st.integers(-(2**63), 2**64 - 1)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
records = st.builds(
    LogRecord,
    kind=st.sampled_from(RecordKind),
    ingest_ts=st.just("2026-11-20T08:59:59.999999Z"),
    source=st.none() | texts,
    object_name=st.none() | texts,
    row=st.none() | st.integers(1, 2**31 - 1),
    sample_ts=st.none() | st.datetimes().map(lambda time: f"{time.isoformat('T', 'microseconds')}Z"),
    sample_ns=st.none() | st.integers(-(2**63), 2**63 - 1),
    inferred=st.none() | st.booleans(),
    lost=st.none() | st.integers(0, 2**63 - 1),
    values=st.none() | st.dictionaries(texts, values, max_size=4),
    absent=st.none() | st.lists(texts, min_size=1, max_size=3),
    deltas=st.none() | st.dictionaries(texts, st.builds(Delta, numbers, st.none() | numbers, st.booleans())),
)


@given(reported=st.lists(records, min_size=1, max_size=8))
@settings(max_examples=examples() // 5, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_file_contains_whatever_records_say(
    reported: list[LogRecord], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log")
    first = segment(folder, 1, reported)
    before = lines_of(first.path)
    with Compactor(folder) as compactor:
        compactor.compact(first)
    assert rows_of(file_of(folder, 1)) == before


def test_large_numbers_and_floats_stay_the_text_that_they_were(tmp_path: Path) -> None:
    reported = {
        "most": 2**64 - 1,
        "least": -(2**63),
        "tenth": 0.1,
        "tiny": 5e-324,
        "nul": "a\0b",
        "zero": -0.0,
    }
    record = LogRecord(kind=RecordKind.CREATE, ingest_ts="2026-11-20T08:00:00.000000Z", values=reported)
    first = segment(tmp_path, 1, [record])
    text = first.path.read_text(encoding="utf-8").partition('"values":')[2].partition("}")[0] + "}"
    with Compactor(tmp_path) as compactor:
        compactor.compact(first)
    found = (
        duckdb.connect()
        .execute('SELECT "values" FROM read_parquet($1)', [str(file_of(tmp_path, 1))])
        .fetchone()
    )
    assert found == (text,)
    assert '"most":18446744073709551615' in text


def test_rows_of_a_file_lie_in_the_order_of_seq(tmp_path: Path) -> None:
    first = segment(tmp_path, 1, map(update, range(1, 5001)), of_a_block=2500)
    with Compactor(tmp_path) as compactor:
        compactor.compact(first)
    found = (
        duckdb.connect()
        .execute(
            "SELECT bool_and(seq = file_row_number + 1), count(*)"
            " FROM read_parquet($1, file_row_number = true)",
            [str(file_of(tmp_path, 1))],
        )
        .fetchone()
    )
    assert found == (True, 5000)


def test_a_folder_whose_name_is_awkward_is_as_good_as_any(tmp_path: Path) -> None:
    folder = tmp_path / "it's [a] *?{log}"
    first = segment(folder, 1, map(update, range(1, 4)))
    with Compactor(folder) as compactor:
        compactor.compact(first)
    assert len(everything(folder)) == 3


def test_a_file_carries_its_checksum(tmp_path: Path) -> None:
    (first,) = some_segments(tmp_path, 1)
    with Compactor(tmp_path) as compactor:
        compactor.compact(first)
    assert has_right_checksum(file_of(tmp_path, 1))


# -- which segments


def test_the_newest_segment_waits_until_the_log_knows_where_it_ends(tmp_path: Path) -> None:
    first = segment(tmp_path, 1, map(update, range(1, 4)))
    assert compactable(tmp_path) == []
    for next_seq, expected in ((1, []), (4, [first])):
        text = LogIdentity(version=1, log_id=LOG_ID, next_seq=next_seq).text()
        identity_path(tmp_path).write_text(text, encoding="utf-8")
        assert compactable(tmp_path) == expected
    identity_path(tmp_path).write_text("damaged", encoding="utf-8")
    assert compactable(tmp_path) == []


def test_open_segments_stay(tmp_path: Path) -> None:
    first = segment(tmp_path, 1, map(update, range(1, 4)))
    last = segment(tmp_path, 4, map(update, range(4, 6)), is_open=True)
    assert compactable(tmp_path) == [first]
    segment(tmp_path, 6, map(update, range(6, 8)), is_open=True)  # as after a crash
    assert last not in compactable(tmp_path)


def test_a_segment_that_retention_took_is_nothing_to_compact(tmp_path: Path) -> None:
    (first,) = some_segments(tmp_path, 1)
    first.path.unlink()
    with Compactor(tmp_path) as compactor:
        assert compactor.compact(first) is None
    assert entries(tmp_path / "lake") == {".lock"}


def test_a_segment_of_a_later_form_is_left_alone(tmp_path: Path) -> None:
    values: dict[str, object] = {"version": FORM + 1}
    head = LogRecord(kind=RecordKind.START, ingest_ts="2026-11-20T08:00:00.000000Z", values=values)
    first = segment(tmp_path, 1, [head])
    later = rf"form {FORM + 1} .* later version"
    with Compactor(tmp_path) as compactor, pytest.raises(CompactionError, match=later):
        compactor.compact(first)
    assert first.path.exists()
