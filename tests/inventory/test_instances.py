"""Row numbers: kept for durable names, never used twice, cheap for what is short-lived."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.inventory import instances
from gateway.inventory.instance_file import InstanceIndexError
from gateway.inventory.instances import BLOCK, MAX_ROW, InstanceIndex
from tests.hypothesis_profiles import PROVING

DAY = 24 * 3600 * 10**9


def test_sources_keep_their_numbers_by_name(tmp_path: Path) -> None:
    first = InstanceIndex(tmp_path / "i")
    assert [first.source_number(name) for name in ("a", "b", "a")] == [1, 2, 1]
    first.close()
    again = InstanceIndex(tmp_path / "i")
    assert [again.source_number(name) for name in ("c", "b")] == [3, 2]


def test_a_durable_row_survives_a_process_that_was_killed_after_the_commit(tmp_path: Path) -> None:
    first = InstanceIndex(tmp_path / "i")
    row = first.durable_row(1, "p:queue", "/|orders")
    first.commit()
    # Not closed: what a killed process leaves.
    assert InstanceIndex(tmp_path / "i").durable_row(1, "p:queue", "/|orders") == row


def test_counters_are_apart_for_each_source_and_class(tmp_path: Path) -> None:
    index = InstanceIndex(tmp_path / "i")
    assert [index.durable_row(1, "p:queue", "a"), index.durable_row(1, "p:vhost", "a")] == [1, 1]
    assert index.durable_row(2, "p:queue", "a") == 1


def test_a_million_short_lived_objects_cost_a_few_hundred_writes(tmp_path: Path) -> None:
    index = InstanceIndex(tmp_path / "i")
    writes: list[str] = []
    index._database.set_trace_callback(  # noqa: SLF001  what the file sees is what is counted
        lambda statement: writes.append(statement) if statement.startswith("INSERT") else None
    )
    count = 1_000_000 if PROVING else 50_000
    rows = [index.transient_row(1, "p:connection") for _ in range(count)]
    assert len(set(rows)) == count
    assert len(writes) <= count / BLOCK + 1
    index.close()
    assert (tmp_path / "i").stat().st_size < 100_000


def test_numbers_wrap_at_the_end_and_pass_over_those_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "MAX_ROW", 6)
    index = InstanceIndex(tmp_path / "i")
    durable = index.durable_row(1, "c", "kept")
    transient = [index.transient_row(1, "c") for _ in range(5)]
    assert [durable, *transient] == [1, 2, 3, 4, 5, 6]
    assert [index.transient_row(1, "c", in_use=lambda row: row == 3) for _ in range(3)] == [2, 4, 5]


def test_a_retired_name_keeps_its_row_for_a_year_and_is_then_forgotten(tmp_path: Path) -> None:
    index = InstanceIndex(tmp_path / "i")
    row = index.durable_row(1, "c", "a")
    index.retire(1, "c", "a", now=1000 * DAY)
    assert index.forget_retired(now=1300 * DAY) == 0
    assert index.durable_row(1, "c", "a") == row, "it came back"
    assert index.forget_retired(now=9000 * DAY) == 0, "and is not retired any more"
    index.retire(1, "c", "a", now=9000 * DAY)
    assert index.forget_retired(now=9401 * DAY) == 1
    assert index.durable_row(1, "c", "a") != row, "a forgotten number is not given again"


def test_an_index_of_another_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "i") as database:
        database.execute("PRAGMA user_version=99")
    with pytest.raises(InstanceIndexError, match="version 99, this gateway knows 2: use the gateway"):
        InstanceIndex(tmp_path / "i")


def test_a_damaged_index_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(b"not a database, but long enough to be looked at as one" * 40)
    with pytest.raises(InstanceIndexError, match="restore a backup"):
        InstanceIndex(tmp_path / "i")


steps = st.lists(
    st.one_of(
        st.tuples(st.just("durable"), st.sampled_from("abcd")),
        st.tuples(st.just("transient"), st.just("")),
        st.tuples(st.just("retire"), st.sampled_from("abcd")),
        st.tuples(st.just("crash"), st.just("")),
    ),
    max_size=30,
)


@given(steps)
def test_whatever_happens_no_two_objects_share_a_row(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("state") / "i"
    index = InstanceIndex(path)
    rows: dict[str, int] = {}
    given_out: set[int] = set()
    for step, name in script:
        if step == "durable":
            row = index.durable_row(1, "c", name)
            assert rows.setdefault(name, row) == row
            assert name in rows or row not in given_out
            given_out.add(row)
        elif step == "transient":
            row = index.transient_row(1, "c")
            assert row not in given_out
            assert row <= MAX_ROW
            given_out.add(row)
        elif step == "retire":
            index.retire(1, "c", name, now=5)
        else:
            index.commit()
            index = InstanceIndex(path)


def test_of_too_many_retired_names_the_oldest_are_forgotten_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "MAX_RETIRED", 3)
    index = InstanceIndex(tmp_path / "i")
    rows = {name: index.durable_row(1, "c", name) for name in "abcdefg"}
    for day, name in enumerate("abcdef"):
        index.retire(1, "c", name, now=(day + 1) * DAY)
    assert [index.forget_retired(now=10 * DAY, limit=2) for _ in range(3)] == [2, 1, 0]
    kept = {name: index.durable_row(1, "c", name) for name in "defg"}
    assert kept == {name: rows[name] for name in "defg"}
