"""The index's file: migration of old versions, damaged files that are never replaced, copies in use."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.durable_files import DiskReserve
from gateway.inventory.index_upkeep import DiskState
from gateway.inventory.instance_file import (
    STEPS,
    IndexNotWrittenError,
    InstanceIndexError,
    copy_index,
    open_index,
    read_index,
)
from gateway.inventory.instances import InstanceIndex
from tests.components.full_disk import full_disk, small_disk
from tests.hypothesis_profiles import PROVING

VERSION_1 = Path(__file__).parent.parent / "data" / "state" / "version-1" / "instances.sqlite3"
QUEUES = {"/|orders": 1, "/|invoices": 2, "/|return\\|s": 3, "amqp-gateway|\N{GREEK SMALL LETTER ALPHA}": 4}
"""Rows that the gateway of version 1 assigned to queues of its source 1."""


def refusal(path: Path, *, must_exist: bool = True) -> str:
    with pytest.raises(InstanceIndexError) as raised:
        InstanceIndex(path, must_exist=must_exist)
    return str(raised.value)


def no_progress(_done: int, _pages: int) -> None:
    """Ignore the progress."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return a file of version 1, as a gateway left it."""
    return Path(shutil.copy(VERSION_1, tmp_path / "instances.sqlite3"))


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """Return a file with rows on several pages, closed in order."""
    path = tmp_path / "instances.sqlite3"
    with closing(InstanceIndex(path)) as index:
        index.start("gateway", 1)
        index.source_number("orders")
        for number in range(500):
            index.durable_row(1, "rabbitmq:queue", f"/|queue {number}")
    return path


# -- versions


def test_a_file_of_version_1_is_brought_up_to_date_with_every_number(old: Path) -> None:
    with closing(InstanceIndex(old, must_exist=True)) as index:
        assert index.sources() == {"orders": 1, "field": 2}
        assert {name: index.durable_row(1, "rabbitmq:queue", name) for name in QUEUES} == QUEUES
        assert index.durable_row(1, "rabbitmq:queue", "/|gone") == 5, "a name that was retired comes back"
        assert index.durable_row(2, "org.apache.qpid.broker:queue", "q") == 1
        assert index.transient_row(1, "rabbitmq:connection") > 8197, "the last that version 1 gave"
        assert index.source_number("new") == 3
    with closing(sqlite3.connect(old)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (len(STEPS),)


def test_a_file_of_version_1_is_adopted_by_the_gateway_that_has_it(old: Path) -> None:
    with closing(InstanceIndex(old)) as index:
        index.start("gateway", 4)
    with closing(InstanceIndex(old)) as index, pytest.raises(InstanceIndexError, match="belongs to gateway"):
        index.start("another", 5)


def test_a_newer_version_is_left_alone(used: Path) -> None:
    with closing(sqlite3.connect(used)) as database:
        database.execute("PRAGMA user_version=3")
    before = used.read_bytes()
    assert refusal(used) == (
        f"{used}: instance index of version 3, this gateway knows 2: use the gateway that wrote it, or a "
        "newer one"
    )
    assert used.read_bytes() == before


def test_a_step_that_fails_leaves_the_old_version(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.inventory.instance_file.STEPS", (STEPS[0], f"{STEPS[1]} SELECT nothing;"))
    refusal(old)
    monkeypatch.undo()
    with closing(InstanceIndex(old, must_exist=True)) as index:
        assert index.durable_row(1, "rabbitmq:queue", "/|orders") == 1


# -- damage


def test_a_used_index_that_is_missing_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "instances.sqlite3"
    assert refusal(path) == (
        f"{path}: the index of row numbers is missing: restore a backup with `amqp-gateway state restore`. "
        "It is not begun again, because every row number would change: make a new "
        "gateway in a new folder with `amqp-gateway init`"
    )
    assert not path.exists()


def test_a_used_index_that_is_empty_is_not_replaced(used: Path) -> None:
    used.write_bytes(b"")
    assert f"{used}: the index of row numbers is empty: restore a backup" in refusal(used)


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "instances.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE durable (name TEXT)")
    assert f"{path}: is not an index of row numbers: restore" in refusal(path, must_exist=False)


@pytest.mark.parametrize(
    "statement", ["DROP INDEX durable_number", "DROP TABLE counters", "DELETE FROM about"]
)
def test_an_index_that_lacks_a_part_is_refused(used: Path, statement: str) -> None:
    with closing(sqlite3.connect(used)) as database:
        database.execute(statement)
        database.commit()
    assert "restore a backup" in refusal(used)


def test_what_is_no_database_is_refused(used: Path) -> None:
    used.write_bytes(b"not a database, but long enough to be looked at as one" * 40)
    assert f"{used}: is damaged (file is not a database): restore a backup" in refusal(used)


def test_a_truncated_index_is_refused_at_whatever_length(used: Path) -> None:
    whole = used.read_bytes()
    for length in {0, 1, 50, 100, 511, *range(4096, len(whole), 4096), len(whole) - 1}:
        used.write_bytes(whole[:length])
        assert "restore a backup" in refusal(used), length


def test_random_bytes_in_the_index_never_give_other_rows(used: Path) -> None:
    whole = used.read_bytes()
    chance = random.Random(20260101)  # noqa: S311  nothing to keep secret
    refused = 0
    rounds = 2_000 if PROVING else 100
    for _ in range(rounds):
        damaged = bytearray(whole)
        start, length = chance.randrange(len(whole)), chance.choice((1, 8, 300, 5000))
        damaged[start : start + length] = chance.randbytes(len(damaged[start : start + length]))
        used.write_bytes(damaged)
        try:
            with closing(InstanceIndex(used, must_exist=True)) as index:
                index.start("gateway", 2)
                rows = {
                    name: index.durable_row(1, "rabbitmq:queue", f"/|queue {name}") for name in range(500)
                }
        except InstanceIndexError:
            refused += 1
            continue
        assert rows == {number: number + 1 for number in range(500)}
    assert refused > rounds // 3


# -- a disk that will not have it


def test_a_full_disk_is_no_damage_and_what_it_has_is_used_on(used: Path) -> None:
    asked: list[str] = []
    with closing(InstanceIndex(used, needs_upkeep=lambda: asked.append("upkeep"))) as index:
        index.start("gateway", 2)
        before = index.durable_row(1, "rabbitmq:queue", "/|queue 7")
        with full_disk(0):
            waiting = index.durable_row(1, "rabbitmq:queue", "/|waits")
            index.commit()
            assert index.trouble.startswith(f"{used}: cannot be used: ")
            assert index.trouble.endswith(": see to space on the disk and to the rights of file and folder")
            assert asked == ["upkeep"], "whoever keeps the index is told at once"
            with pytest.raises(IndexNotWrittenError):
                index.durable_row(1, "rabbitmq:queue", "/|after")
            assert index.durable_row(1, "rabbitmq:queue", "/|queue 7") == before
    # The process ended before the disk took it: the object gets another number, and no other object this one.
    with closing(InstanceIndex(used, must_exist=True)) as again:
        again.start("gateway", 3)
        assert again.durable_row(1, "rabbitmq:queue", "/|queue 7") == before
        assert again.durable_row(1, "rabbitmq:queue", "/|waits") > waiting


def test_a_full_disk_has_room_for_the_index_until_the_reserve_is_used(tmp_path: Path) -> None:
    rows: dict[str, int] = {}
    with small_disk(tmp_path / "disk", 4 << 20) as disk:
        path = disk.folder / "i"
        reserve = DiskReserve(disk.folder / "reserve", octets=1 << 20, step=128 << 10)
        with closing(InstanceIndex(path, reserve=reserve)) as index:
            index.start("gateway", 1)
            index.checkpoint()
            assert reserve.is_whole
            disk.fill()
            states = {}
            while index.disk is not DiskState.NOTHING:
                name = f"/|queue {len(rows)}"
                rows[name] = index.durable_row(1, "rabbitmq:queue", name)
                if not len(rows) % 100:
                    index.commit()
                    states[index.disk] = len(rows)
            assert list(states) == [DiskState.ROOM, DiskState.RESERVE, DiskState.NOTHING]
            assert not reserve.left
            assert len(rows) > 1_000
        disk.empty()
        with closing(InstanceIndex(path, must_exist=True, reserve=reserve)) as again:
            again.start("gateway", 2)
            again.checkpoint()
            assert reserve.is_whole, "it is made again"
            kept = [name for name, row in rows.items() if again.durable_row(1, "rabbitmq:queue", name) == row]
            assert kept == list(rows)[: len(kept)]
            assert len(kept) >= len(rows) - 100, "all but those of the commit that failed"


def test_a_start_on_a_full_disk_has_the_room_of_the_reserve(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4 << 20) as disk:
        path = disk.folder / "i"
        reserve = DiskReserve(disk.folder / "reserve", octets=1 << 20, step=128 << 10)
        with closing(InstanceIndex(path, reserve=reserve)) as index:
            index.start("gateway", 1)
            index.checkpoint()
        disk.fill()
        with closing(InstanceIndex(path, must_exist=True, reserve=reserve)) as index:
            index.start("gateway", 2)
            assert index.disk is DiskState.RESERVE
            assert 0 < reserve.left < 1 << 20


def test_a_folder_that_is_missing_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "instances.sqlite3"
    assert refusal(path, must_exist=False) == (
        f"{path}: cannot be written: No such file or directory: see to space on the disk and to the rights "
        "of file and folder"
    )


def test_another_program_that_holds_the_index_is_reported(
    used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.inventory.instance_file._BUSY_SECONDS", 0.01)
    with closing(InstanceIndex(used)) as index, closing(sqlite3.connect(used)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(InstanceIndexError, match="another program holds it"):
            index.start("gateway", 2)


# -- read and copied


def test_it_is_for_its_owner_alone(used: Path) -> None:
    with closing(open_index(used, must_exist=True)) as database:
        database.execute("UPDATE about SET boot = boot")
        modes = {path.name: path.stat().st_mode & 0o777 for path in used.parent.iterdir()}
    assert modes == {used.name: 0o600, f"{used.name}-wal": 0o600, f"{used.name}-shm": 0o600}


def test_a_reader_cannot_write_and_sees_what_is_committed(used: Path) -> None:
    with closing(InstanceIndex(used)) as index, closing(read_index(used)) as reader:
        index.source_number("new")
        assert reader.execute("SELECT name FROM sources ORDER BY number").fetchall() == [
            ("orders",),
            ("new",),
        ]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.execute("DELETE FROM sources")


def test_a_copy_made_while_it_is_written_is_whole_and_one_file(used: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    reported: list[tuple[int, int]] = []
    with closing(InstanceIndex(used)) as index:
        index.start("gateway", 2)
        index.durable_row(1, "rabbitmq:queue", "/|committed")
        index.commit()
        index.durable_row(1, "rabbitmq:queue", "/|not committed")
        copy_index(used, copy, lambda done, pages: reported.append((done, pages)))
        index.commit()
    assert reported[-1][0] == reported[-1][1] > 1
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("copy")] == ["copy"]
    with closing(sqlite3.connect(copy)) as database:
        names = {name for (name,) in database.execute("SELECT name FROM durable")}
    assert len(names) == 501
    assert "/|committed" in names


def test_a_damaged_index_is_not_copied(used: Path, tmp_path: Path) -> None:
    octets = bytearray(used.read_bytes())
    octets[3 * 4096 : 4 * 4096] = bytes(4096)
    used.write_bytes(octets)
    with pytest.raises(InstanceIndexError, match="is damaged"):
        copy_index(used, tmp_path / "copy", no_progress)
