"""Files are replaced whole or not at all, and made once."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from gateway.durable_files import (
    FOR_STARTS,
    PUBLIC,
    RESERVE,
    DiskReserve,
    create_durably,
    replaced_durably,
    write_durably,
)
from tests.components.full_disk import small_disk


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_made_and_replaced_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for text in ("before\n", "after: \N{GREEK SMALL LETTER ALPHA}\n"):
        write_durably(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert mode(path) == 0o600
    assert names(tmp_path) == ["file"]


def test_what_is_for_others_can_be_read_by_them_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_durably(tmp_path / "module", "text", PUBLIC)
    finally:
        os.umask(before)
    assert mode(tmp_path / "module") == 0o644


def test_only_a_regular_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("before")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("missing")
    (tmp_path / "folder").mkdir()
    before = names(tmp_path)
    for name in ("pipe", "link", "dangling", "folder"):
        with pytest.raises(OSError, match="is no regular file"):
            write_durably(tmp_path / name, "after")
    assert names(tmp_path) == before
    assert (tmp_path / "link").read_text() == "before"


def test_a_file_that_cannot_be_encoded_keeps_its_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_durably(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_durably(path, "after" * 10_000 + "\ud800")
    assert path.read_text(encoding="utf-8") == "before"
    assert names(tmp_path) == ["file"]


def test_a_writer_that_fails_half_way_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_durably(path, "before")

    def half() -> None:
        with replaced_durably(path) as draft:
            draft.write(b"half")
            draft.flush()
            assert len(names(tmp_path)) == 2, "it is written beside the file"
            raise InterruptedError

    with pytest.raises(InterruptedError):
        half()
    assert path.read_text(encoding="utf-8") == "before"
    assert names(tmp_path) == ["file"]


def test_a_file_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    create_durably(path, "first")
    create_durably(path, "second")
    assert path.read_text(encoding="utf-8") == "first"
    assert mode(path) == 0o600
    assert names(tmp_path) == ["file"]


def test_the_draft_of_a_writer_that_was_killed_is_removed_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for _ in range(2):
        if not (writer := os.fork()):
            with replaced_durably(path) as draft:
                draft.write(b"half")
                draft.flush()
                os.kill(os.getpid(), signal.SIGKILL)
        assert os.waitpid(writer, 0)[1] == signal.SIGKILL
        assert len(names(tmp_path)) == 1, "that of the first writer is gone"
    others = {f".file.{'0' * 15}", f".file.old.{'0' * 16}", f".other.{'0' * 16}"}
    for name in others:
        (tmp_path / name).touch()
    create_durably(path, "after")
    assert names(tmp_path) == sorted({"file", *others})


def test_two_writers_of_a_file_leave_each_other_their_drafts(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replaced_durably(path) as draft:
        draft.write(b"slow")
        write_durably(path, "quick")
        assert path.read_text(encoding="utf-8") == "quick"
    assert path.read_text(encoding="utf-8") == "slow"
    assert names(tmp_path) == ["file"]


def test_a_folder_that_is_missing_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_durably(tmp_path / "absent" / "file", "text")


def test_a_full_disk_has_room_for_files_beside_the_reserve(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8 << 20) as disk:
        path = disk.folder / "boots"
        write_durably(path, "6\n")
        reserve = DiskReserve(disk.folder / RESERVE, octets=2 << 20)
        assert reserve.refill()
        disk.fill()
        for text, left in (("7\n", 1_536 << 10), ("8\n", FOR_STARTS)):
            write_durably(path, text, leaves=FOR_STARTS)
            assert (path.read_text(encoding="ascii"), reserve.left) == (text, left)
            disk.fill()
        with pytest.raises(OSError, match="No space left on device"):
            write_durably(path, "9\n", leaves=FOR_STARTS)
        write_durably(path, "7\n")
        assert reserve.left == FOR_STARTS - (64 << 10), "a start releases little"
        while reserve.release():
            disk.fill()
        with pytest.raises(OSError, match="No space left on device"):
            write_durably(path, "8\n")
        assert path.read_text(encoding="ascii") == "7\n"
        assert names(disk.folder) == ["boots", "filler", "reserve"]
        assert not reserve.refill()
        disk.empty()
        assert reserve.refill()


def test_of_another_file_with_the_name_of_a_reserve_nothing_is_released(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(bytes(1 << 20))
    (tmp_path / "link").symlink_to(precious)
    text = tmp_path / RESERVE
    text.write_text("a list of what is in reserve\n" * 100)
    os.mkfifo(tmp_path / "pipe")

    for name in ("link", RESERVE, "pipe", "absent"):
        assert not DiskReserve(tmp_path / name).release()

    assert precious.stat().st_size == 1 << 20
    assert text.read_text().count("reserve") == 100
