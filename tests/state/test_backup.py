"""Backup: its contents, the files that it lacks, and the conditions that prevent it."""

from __future__ import annotations

import stat
from contextlib import closing
from pathlib import Path

import pytest

from gateway.inventory.instance_file import InstanceIndexError
from gateway.service.state.backup import back_up, open_backup
from gateway.service.state.restore import LEAST_ROWS, restore
from gateway.state_folder import StateError, StateFolder
from tests.components.full_disk import full_disk
from tests.state.started_state import DAY, NOW, started


def test_a_backup_is_for_its_owner_alone_and_says_what_is_in_it(state: StateFolder, tmp_path: Path) -> None:
    done = back_up(state, tmp_path / "b.tar", NOW)

    assert stat.S_IMODE((tmp_path / "b.tar").stat().st_mode) == 0o600
    assert (done.manifest.identity, done.manifest.boots, done.manifest.made) == (state.identity, 3, NOW)
    assert sorted(done.manifest.files) == [
        "VERSION",
        "boots",
        "identity",
        "instances.sqlite3",
        "mibs/AMQP-GATEWAY-SITE-MIB.mib",
        "secrets/community",
    ]
    assert done.octets == (tmp_path / "b.tar").stat().st_size
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "state"]
    with open_backup(tmp_path / "b.tar") as opened:
        assert opened.manifest == done.manifest


def test_what_belongs_to_one_run_is_not_in_it(state: StateFolder, tmp_path: Path) -> None:
    for name in ("LOCK", "feed.sock", ".boots.0123"):
        (state.path / name).touch()
    (state.path / "log").mkdir()
    (state.path / "log" / "segment").touch()
    (state.path / "notes of an operator").touch()
    with closing(started(state)):
        done = back_up(state, tmp_path / "b.tar", NOW)
    assert len(done.manifest.files) == 6
    assert done.left_out == ("notes of an operator",)


def test_a_backup_without_secrets(state: StateFolder, tmp_path: Path) -> None:
    secret = state.secret("community")
    back_up(state, tmp_path / "b.tar", NOW, with_secrets=False)
    assert secret.encode() not in (tmp_path / "b.tar").read_bytes()
    restore(tmp_path / "b.tar", tmp_path / "new", NOW)
    assert StateFolder(tmp_path / "new").secret("community") != secret


def test_a_link_is_no_place_for_a_backup(state: StateFolder, tmp_path: Path) -> None:
    (tmp_path / "b.tar").symlink_to(tmp_path / "missing")
    for replace, said in ((False, "is there already"), (True, "is no regular file")):
        with pytest.raises(StateError, match=said):
            back_up(state, tmp_path / "b.tar", NOW, replace=replace)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "state"]


def test_a_gateway_that_was_never_started(tmp_path: Path) -> None:
    state = StateFolder.create(tmp_path / "state")
    assert "instances.sqlite3" not in back_up(state, tmp_path / "b.tar", NOW).manifest.files
    restore(tmp_path / "b.tar", tmp_path / "new", NOW)
    with closing(started(StateFolder(tmp_path / "new"))) as index:
        assert index.transient_row(1, "c") > LEAST_ROWS, "the original may have been started since"


def test_a_file_that_is_there_is_not_overwritten_by_chance(backup: Path, state: StateFolder) -> None:
    before = backup.read_bytes()
    with pytest.raises(StateError) as raised:
        back_up(state, backup, NOW)
    assert str(raised.value) == f"{backup}: is there already: take another name, or say --replace"
    assert backup.read_bytes() == before
    back_up(state, backup, NOW + DAY, replace=True)
    with open_backup(backup) as opened:
        assert opened.manifest.made == NOW + DAY


@pytest.mark.parametrize("octets", [0, 10_000, 40_000])
def test_a_disk_too_full_for_a_backup_keeps_the_last_one(
    backup: Path, state: StateFolder, octets: int
) -> None:
    before = backup.read_bytes()
    with full_disk(octets), pytest.raises((StateError, InstanceIndexError)):
        back_up(state, backup, NOW + DAY, replace=True)
    assert backup.read_bytes() == before
    assert sorted(path.name for path in backup.parent.iterdir()) == ["backup.tar", "state"]


def test_a_folder_that_is_missing(state: StateFolder, tmp_path: Path) -> None:
    with pytest.raises(StateError) as raised:
        back_up(state, tmp_path / "absent" / "b.tar", NOW)
    assert str(raised.value) == f"{tmp_path}/absent/b.tar: cannot be written: No such file or directory"


def test_a_damaged_index_is_no_backup(state: StateFolder, tmp_path: Path) -> None:
    state.instances.write_bytes(b"no database" * 1000)
    with pytest.raises(InstanceIndexError, match="is damaged"):
        back_up(state, tmp_path / "b.tar", NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
