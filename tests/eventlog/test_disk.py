"""Everything is written, however little the system takes at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.eventlog.disk import Disk


def written(path: Path, pieces: Sequence[bytes | bytearray]) -> bytes:
    disk = Disk()
    descriptor = disk.create(path)
    try:
        disk.write(descriptor, pieces)
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)
    return path.read_bytes()


def test_more_pieces_are_written_than_a_system_takes_at_once(tmp_path: Path) -> None:
    pieces = [bytearray(f"piece {number}\n".encode()) for number in range(3000)]
    assert written(tmp_path / "many", pieces) == b"".join(pieces)


@pytest.mark.parametrize("octets", [1, 4, 5, 9])
def test_a_write_that_takes_a_part_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, octets: int
) -> None:
    def takes_little(descriptor: int, pieces: Sequence[bytes]) -> int:
        return os.write(descriptor, b"".join(pieces)[:octets])

    monkeypatch.setattr("gateway.eventlog.disk.os.writev", takes_little)
    assert written(tmp_path / "parts", [b"four", b"", bytearray(b"fives"), b"x"]) == b"fourfivesx"
