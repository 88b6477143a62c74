"""Files are replaced whole or not at all, and made once."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gateway.durable_files import PUBLIC, create_durably, replaced_durably, write_durably


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


def test_a_folder_that_is_missing_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_durably(tmp_path / "absent" / "file", "text")
