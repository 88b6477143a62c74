"""Restore: everything comes back, and nothing is numbered twice."""

from __future__ import annotations

import datetime as dt
import shutil
import stat
from contextlib import closing
from pathlib import Path

import pytest

from gateway.inventory.instance_file import InstanceIndexError
from gateway.service.state.backup import back_up
from gateway.service.state.restore import LEAST_BOOTS, LEAST_ROWS, MAX_ROWS, Leap, restore
from gateway.snmp.registry_files import SiteRegistry
from gateway.starts import CORE, SNMP, ReservedStarts
from gateway.state_folder import VERSION, StateError, StateFolder
from tests.components.full_disk import full_disk
from tests.state.started_state import DAY, NOW, started, texts

VERSION_1, VERSION_2 = (
    Path(__file__).parent.parent / "data" / "state" / f"version-{version}" for version in (1, 2)
)


@pytest.mark.parametrize("there", [(), ("LOCK",), ("lost+found",)])
def test_everything_is_restored_into_a_folder_that_is_missing_or_empty(
    backup: Path, state: StateFolder, tmp_path: Path, there: tuple[str, ...]
) -> None:
    folder = tmp_path / "new"
    for name in there:
        folder.mkdir(exist_ok=True)
        (folder / name).touch()

    restore(backup, folder, NOW)

    assert {name: text for name, text in texts(folder).items() if name != "lost+found"} == texts(state.path)
    modes = {
        stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.name not in {*there, "LOCK"}
    }
    assert modes == {0o600, 0o700}
    again = StateFolder(folder)
    with closing(started(state)) as original, closing(started(again)) as restored:
        assert restored.sources() == original.sources()
        rows = [index.durable_row(1, "rabbitmq:queue", "/|orders") for index in (original, restored)]
    assert rows[0] == rows[1]


def test_no_number_is_given_that_the_original_may_have_given(
    backup: Path, state: StateFolder, tmp_path: Path
) -> None:
    restore(backup, tmp_path / "new", NOW + DAY)
    again = StateFolder(tmp_path / "new")
    boots, rows, sources = set[int](), set[int](), set[int]()
    for run in range(20):
        with closing(started(state)) as index:
            boots.add(state.boots)
            sources.add(index.source_number(f"source {run}"))
            for source in (1, 5):
                rows |= {index.transient_row(source, "rabbitmq:queue") for _ in range(5_000)}
    with closing(started(again)) as index:
        assert again.boots not in boots
        assert index.source_number("new") not in sources
        for source in (1, 5):
            assert index.transient_row(source, "rabbitmq:queue") not in rows


def test_the_same_backup_restored_again_begins_where_the_first_cannot_have_come(
    backup: Path, tmp_path: Path
) -> None:
    first = restore(backup, tmp_path / "first", NOW + DAY)
    second = restore(backup, tmp_path / "second", NOW + 2 * DAY)
    seconds = DAY.total_seconds()
    assert second.boots - first.boots == 4 * seconds, "each 5 s a kill leaves out 20"
    assert second.leap.rows - first.leap.rows == 100 * seconds


@pytest.mark.parametrize(
    ("passed", "boots", "rows"),
    [
        (-DAY, LEAST_BOOTS, LEAST_ROWS),
        (0 * DAY, LEAST_BOOTS, LEAST_ROWS),
        (DAY, LEAST_BOOTS + 345_600, LEAST_ROWS + 8_640_000),
        (3650 * DAY, LEAST_BOOTS + 1_261_440_000, MAX_ROWS),
    ],
)
def test_the_leap_grows_with_the_age_of_the_backup(passed: dt.timedelta, boots: int, rows: int) -> None:
    leap = Leap.over(passed)
    assert (leap.boots, leap.rows) == (boots, rows)


def test_starts_are_numbered_behind_the_leap(backup: Path, tmp_path: Path) -> None:
    restored = restore(backup, tmp_path / "new", NOW + DAY)
    starts = ReservedStarts(tmp_path / "new", 0)
    assert starts.next(CORE) == restored.boots + 1
    assert starts.next(SNMP) == restored.leap.boots + 1


def test_a_folder_that_is_not_empty_is_kept_as_it_is(backup: Path, state: StateFolder) -> None:
    before = texts(state.path)
    with pytest.raises(StateError) as raised:
        restore(backup, state.path, NOW)
    assert str(raised.value) == (
        f"{state.path}: is not empty: with --replace the backup takes its place, and what is there is kept "
        "beside it"
    )
    assert texts(state.path) == before


def test_a_folder_that_is_replaced_is_kept_beside(backup: Path, state: StateFolder, tmp_path: Path) -> None:
    (state.path / "instances.sqlite3").write_bytes(b"damaged")
    (state.path / "identity").unlink()
    done = restore(backup, state.path, NOW + DAY, replace=True)
    assert done.aside == tmp_path / "state.replaced-20260502T120000Z"
    assert (done.aside / "instances.sqlite3").read_bytes() == b"damaged"
    with closing(started(StateFolder(state.path))) as index:
        assert index.sources() == {"orders": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "backup.tar",
        "state",
        "state.replaced-20260502T120000Z",
    ]


@pytest.mark.parametrize("replace", [False, True])
def test_a_folder_of_something_else_is_not_touched(backup: Path, tmp_path: Path, *, replace: bool) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").touch()
    reported = (
        "is not empty: with --replace" if not replace else "holds something else than a gateway's state"
    )
    with pytest.raises(StateError, match=reported):
        restore(backup, tmp_path / "home", NOW, replace=replace)
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["letter"]


def test_a_file_in_the_place_of_a_folder(backup: Path) -> None:
    with pytest.raises(StateError) as raised:
        restore(backup, backup, NOW)
    assert str(raised.value) == f"{backup}: cannot be read: Not a directory"


@pytest.mark.parametrize("replace", [False, True])
def test_a_folder_in_use_is_not_touched(backup: Path, state: StateFolder, *, replace: bool) -> None:
    before = texts(state.path)
    reported = "another gateway runs on this state" if replace else "is not empty"
    with state.locked(), pytest.raises(StateError, match=reported):
        restore(backup, state.path, NOW, replace=replace)
    assert texts(state.path) == before


def test_state_of_version_1_is_restored_and_brought_up_to_date(tmp_path: Path) -> None:
    shutil.copytree(VERSION_1, tmp_path / "old")
    back_up(StateFolder(tmp_path / "old"), tmp_path / "b.tar", NOW)
    restore(tmp_path / "b.tar", tmp_path / "new", NOW)
    state = StateFolder(tmp_path / "new")
    assert state.secret("community") == "a-community-of-version-1"
    assert state.boots == 3 + LEAST_BOOTS
    with closing(started(state)) as index:
        assert index.durable_row(1, "rabbitmq:queue", "/|invoices") == 2
    registry = SiteRegistry(state.path, "hamburg").load(NOW.date())
    assert [(entry.name, entry.arc) for entry in registry.classes] == [("zoo:dog", 1)]


def test_a_backup_of_version_2_is_restored_and_brought_up_to_date(tmp_path: Path) -> None:
    """The gateway that made it would not read which boots of the SNMP engine were skipped."""
    shutil.copytree(VERSION_2, tmp_path / "old")
    back_up(StateFolder(tmp_path / "old"), tmp_path / "b.tar", NOW)
    restore(tmp_path / "b.tar", tmp_path / "new", NOW)
    state = StateFolder(tmp_path / "new")
    assert state.read_version() == VERSION
    assert state.highest_start == state.boots == 3 + LEAST_BOOTS
    with closing(started(state)):
        assert state.boots == 4 + LEAST_BOOTS


@pytest.mark.parametrize("octets", [0, 30_000])
def test_a_disk_too_full_for_a_restore_leaves_nothing(backup: Path, tmp_path: Path, octets: int) -> None:
    with full_disk(octets), pytest.raises((StateError, InstanceIndexError)):
        restore(backup, tmp_path / "new", NOW)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("octets", [0, 30_000])
def test_a_disk_too_full_to_replace_keeps_what_is_there(
    backup: Path, state: StateFolder, tmp_path: Path, octets: int
) -> None:
    before = texts(state.path)
    with full_disk(octets), pytest.raises((StateError, InstanceIndexError)):
        restore(backup, state.path, NOW, replace=True)
    assert texts(state.path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.tar", "state"]
