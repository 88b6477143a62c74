"""Row numbers: kept for durable names, never reused, cheap for short-lived objects."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.inventory import instances
from gateway.inventory.index_upkeep import Upkeep
from gateway.inventory.instance_file import IndexNotWrittenError, InstanceIndexError
from gateway.inventory.instances import BLOCK, InstanceIndex
from tests.components.opened_index import opened_index
from tests.hypothesis_profiles import examples

DAY = 24 * 3600 * 10**9


def statements(index: InstanceIndex) -> list[str]:
    """Return a list that receives the statements that the index executes from now on, except reads."""
    written: list[str] = []
    index._database.set_trace_callback(  # noqa: SLF001  what the file sees is what is counted
        lambda statement: None if statement.startswith("SELECT") else written.append(statement)
    )
    return written


def test_sources_keep_their_numbers_by_name(tmp_path: Path) -> None:
    first = opened_index(tmp_path / "i")
    assert [first.source_number(name) for name in ("a", "b", "a")] == [1, 2, 1]
    first.close()
    again = opened_index(tmp_path / "i")
    assert [again.source_number(name) for name in ("c", "b")] == [3, 2]


def test_a_durable_row_survives_a_process_that_was_killed_after_the_commit(tmp_path: Path) -> None:
    first = opened_index(tmp_path / "i")
    row = first.durable_row(1, "p:queue", "/|orders")
    first.commit()
    # Not closed: what a killed process leaves.
    assert opened_index(tmp_path / "i").durable_row(1, "p:queue", "/|orders") == row


def test_counters_are_apart_for_each_source_and_class(tmp_path: Path) -> None:
    index = opened_index(tmp_path / "i")
    assert [index.durable_row(1, "p:queue", "a"), index.durable_row(1, "p:vhost", "a")] == [1, 1]
    assert index.durable_row(2, "p:queue", "a") == 1


def test_numbers_wrap_at_the_end_and_pass_over_those_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "MAX_ROW", 6)
    index = opened_index(tmp_path / "i")
    durable = index.durable_row(1, "c", "kept")
    transient = [index.transient_row(1, "c") for _ in range(5)]
    assert [durable, *transient] == [1, 2, 3, 4, 5, 6]
    assert [index.transient_row(1, "c", in_use=lambda row: row == 3) for _ in range(3)] == [2, 4, 5]
    assert index.durable_row(1, "c", "also kept", in_use=lambda row: row == 6) == 2, "6 is in use, 1 is kept"


def test_a_retired_name_keeps_its_row_for_a_year_and_is_then_forgotten(tmp_path: Path) -> None:
    index = opened_index(tmp_path / "i")
    row = index.durable_row(1, "c", "a")
    index.retire(1, "c", "a", now=1000 * DAY)
    assert index.forget_retired(now=1300 * DAY) == 0
    assert index.durable_row(1, "c", "a") == row, "it came back"
    assert index.forget_retired(now=9000 * DAY) == 0, "and is not retired any more"
    index.retire(1, "c", "a", now=9000 * DAY)
    assert index.forget_retired(now=9401 * DAY) == 1
    assert index.durable_row(1, "c", "a") != row, "a forgotten number is not given again"


def test_no_index_is_begun_where_the_folder_was_moved_away_from(tmp_path: Path) -> None:
    folder, away = tmp_path / "state", tmp_path / "away"
    folder.mkdir()
    index = opened_index(folder / "i")
    row = index.durable_row(1, "c", "a")
    folder.rename(away)
    folder.mkdir()
    with pytest.raises(IndexNotWrittenError, match="is not there any more: put the state folder back"):
        index.checkpoint()
    assert list(folder.iterdir()) == []
    folder.rmdir()
    away.rename(folder)
    index.checkpoint()
    index.commit()
    assert opened_index(folder / "i", must_exist=True).durable_row(1, "c", "a") == row


# -- starts


def test_a_start_belongs_to_one_gateway(tmp_path: Path) -> None:
    with closing(InstanceIndex(tmp_path / "i")) as index:
        index.start("one", 1)
    with closing(InstanceIndex(tmp_path / "i")) as index, pytest.raises(InstanceIndexError) as raised:
        index.start("other", 2)
    assert str(raised.value) == (
        f"{tmp_path / 'i'}: belongs to gateway one, and 'identity' beside it says other: restore all files "
        "of one backup"
    )


@pytest.mark.parametrize("boot", [7, 8])
def test_a_start_follows_the_last_or_is_done_again(tmp_path: Path, boot: int) -> None:
    with closing(InstanceIndex(tmp_path / "i")) as index:
        index.start("gw", 7)
    with closing(InstanceIndex(tmp_path / "i")) as index:
        index.start("gw", boot)


@pytest.mark.parametrize("boot", [1, 6, 9, 70])
def test_a_start_that_does_not_follow_the_last_shows_a_file_that_was_replaced(
    tmp_path: Path, boot: int
) -> None:
    with closing(InstanceIndex(tmp_path / "i")) as index:
        index.start("gw", 7)
    with closing(InstanceIndex(tmp_path / "i")) as index, pytest.raises(InstanceIndexError) as raised:
        index.start("gw", boot)
    assert str(raised.value) == (
        f"{tmp_path / 'i'}: was last used at start 7, and 'boots' beside it says {boot - 1}: one of them is "
        "an older copy or damaged: restore all files of one backup with `amqp-gateway state restore`"
    )


def test_a_start_reserves_a_block_of_every_known_counter_at_once(tmp_path: Path) -> None:
    with closing(InstanceIndex(tmp_path / "i")) as index:
        first = {name: index.transient_row(1, name) for name in "abc"}
    with closing(InstanceIndex(tmp_path / "i")) as index:
        index.start("gw", 1)
        written = statements(index)
        again = {name: index.transient_row(1, name) for name in "abc"}
        index.commit()
    assert first == dict.fromkeys("abc", 1)
    assert again == dict.fromkeys("abc", 1 + BLOCK)
    assert written == [], "no disk is waited for when objects appear"


# -- sources


def test_a_renamed_source_keeps_its_number_and_its_rows(tmp_path: Path) -> None:
    with closing(InstanceIndex(tmp_path / "i")) as index:
        number = index.source_number("old")
        row = index.durable_row(number, "p:queue", "a")
        index.rename_source("old", "new")
        assert index.source_number("new") == number
        assert index.durable_row(number, "p:queue", "a") == row
        assert index.sources() == {"new": number}
        assert index.source_number("old") == number + 1, "its old name is a name like any other"


def test_sources_exchange_their_numbers_where_both_have_one(tmp_path: Path) -> None:
    with closing(InstanceIndex(tmp_path / "i")) as index:
        numbers = [index.source_number(name) for name in ("a", "b", "c")]
        index.rename_source("a", "c")
        assert [index.source_number(name) for name in ("c", "b", "a")] == numbers
        index.rename_source("c", "c")
        assert [index.source_number(name) for name in ("c", "b", "a")] == numbers


def test_a_source_that_never_was_cannot_be_renamed(tmp_path: Path) -> None:
    with closing(InstanceIndex(tmp_path / "i")) as index:
        index.source_number("a")
        with pytest.raises(KeyError, match="absent"):
            index.rename_source("absent", "b")
        assert index.sources() == {"a": 1}


# -- what happened to a copy's original after the copy was made


def test_after_a_jump_no_number_is_one_that_the_original_may_have_given(tmp_path: Path) -> None:
    with closing(InstanceIndex(tmp_path / "i")) as copy:
        kept = copy.durable_row(copy.source_number("a"), "p:queue", "kept")
        copy.commit()
        shutil.copy(tmp_path / "i", tmp_path / "original")
        shutil.copy(tmp_path / "i-wal", tmp_path / "original-wal")
        copy.jump_ahead(1_000_000, 1000, 500)

        with closing(InstanceIndex(tmp_path / "original")) as original:
            number = original.source_number("made later")
            given = {original.durable_row(1, "p:queue", f"made later {n}") for n in range(3 * BLOCK)}
            given_of_new_class = {original.transient_row(1, "p:new") for _ in range(3 * BLOCK)}

        assert copy.durable_row(1, "p:queue", "kept") == kept
        assert copy.durable_row(1, "p:queue", "made even later") not in given
        assert copy.transient_row(1, "p:new") not in given_of_new_class
        assert copy.source_number("another") > number
    with closing(InstanceIndex(tmp_path / "i")) as copy:
        copy.start("gw", 501)


def test_a_jump_beyond_the_end_wraps_and_passes_over_what_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "MAX_ROW", 10)
    with closing(InstanceIndex(tmp_path / "i")) as index:
        assert [index.durable_row(1, "c", name) for name in "abcde"] == [1, 2, 3, 4, 5]
        index.jump_ahead(2, 0, 1)  # from 10, the end of what is reserved
        assert [index.durable_row(1, "c", name) for name in "fgabc"] == [6, 7, 1, 2, 3]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("durable"), st.sampled_from("abcd")),
        st.tuples(st.just("transient"), st.just("")),
        st.tuples(st.just("burst"), st.just("")),
        st.tuples(st.just("retire"), st.sampled_from("abcd")),
        st.tuples(st.just("upkeep asked"), st.just("")),
        st.tuples(st.just("upkeep done"), st.just("")),
        st.tuples(st.just("kill"), st.just("")),
        st.tuples(st.just("power cut"), st.just("")),
    ),
    max_size=30,
)


class Life:
    """An index that is used, killed and cut off; every assigned number is remembered.

    The disk is a copy of the files as they were at the last sync: a power cut loses everything after that.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self.disk = folder / "i", folder / "disk"
        self.index = opened_index(self.path)
        self.owner: dict[int, str] = {}
        self.rows: dict[str, int] = {}
        self.on_disk: dict[str, int] = {}
        self.asked: Callable[[], Upkeep] | None = None
        self.synced()

    def synced(self) -> None:
        self.disk.mkdir(exist_ok=True)
        for name in ("i", "i-wal"):  # not i-shm: shared memory is on no disk
            shutil.copy(self.path.with_name(name), self.disk)
        self.on_disk = dict(self.rows)

    def give(self, owner: str) -> None:
        """Assign a number and publish it."""
        durable = not owner.startswith("transient")
        marks = self.index._owes_sync  # noqa: SLF001  a commit says nothing of its syncs
        row = self.index.durable_row(1, "c", owner) if durable else self.index.transient_row(1, "c")
        marks = marks or self.index._owes_sync  # noqa: SLF001
        self.index.commit()
        assert self.owner.setdefault(row, owner) == owner, "a number was given to another object"
        if durable:
            assert self.rows.setdefault(owner, row) == row, "an object changed its number"
        if marks:
            self.synced()

    def upkeep(self) -> None:
        if self.asked is not None:
            self.index.upkept(self.asked())
            self.asked = None
            self.synced()

    def restart(self, *, power_cut: bool) -> None:
        self.index._database.close()  # noqa: SLF001  what was committed stands in the files already
        if power_cut:
            for path in self.path.parent.glob("i*"):
                path.unlink()
            for path in self.disk.iterdir():
                shutil.copy(path, self.path.parent)
            self.rows = dict(self.on_disk)
        self.asked = None
        self.index = opened_index(self.path, must_exist=True)


def played(*names: str) -> list[tuple[str, str]]:
    return [(name, "") for name in names]


@settings(max_examples=examples() // 2)  # each example opens a dozen databases
@given(steps)
@example(played("burst", "upkeep asked", "burst", "burst", "upkeep done", "kill", "burst"))
@example(played("burst", "upkeep asked", "upkeep done", "burst", "burst", "power cut", "burst"))
def test_whatever_happens_no_two_objects_share_a_row(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[str, str]]
) -> None:
    life = Life(tmp_path_factory.mktemp("state"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instances, "BLOCK", 8)
        for number, (step, name) in enumerate(script):
            match step:
                case "durable":
                    life.give(name)
                case "transient":
                    life.give(f"transient {number}")
                case "burst":
                    for n in range(7):
                        life.give(f"transient {number} {n}")
                case "retire":
                    life.index.retire(1, "c", name, now=5)
                    life.index.commit()
                case "upkeep asked":
                    life.asked = life.index.upkeep()
                case "upkeep done":
                    life.upkeep()
                case _:
                    life.restart(power_cut=step == "power cut")
    life.index.close()


def test_of_too_many_retired_names_the_oldest_are_forgotten_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "MAX_RETIRED", 3)
    index = opened_index(tmp_path / "i")
    rows = {name: index.durable_row(1, "c", name) for name in "abcdefg"}
    for day, name in enumerate("abcdef"):
        index.retire(1, "c", name, now=(day + 1) * DAY)
    assert [index.forget_retired(now=10 * DAY, limit=2) for _ in range(3)] == [2, 1, 0]
    kept = {name: index.durable_row(1, "c", name) for name in "defg"}
    assert kept == {name: rows[name] for name in "defg"}
