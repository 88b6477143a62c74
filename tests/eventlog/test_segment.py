"""The list of segments, and their contents."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.eventlog.block import Block, Damage, DamageError
from gateway.eventlog.segment import (
    Segment,
    first_line,
    list_segments,
    read_segment,
    scan_segment,
    segment_path,
    tail,
)
from tests.eventlog.records import block, blocks, update, write_segment


def seqs(found: list[Block]) -> list[tuple[int, int]]:
    return [(one.first_seq, one.last_seq) for one in found]


def test_a_segment_is_named_by_its_first_seq(tmp_path: Path) -> None:
    assert segment_path(tmp_path, 1, is_open=True) == tmp_path / "segments/00000000000000000001.open.jsonl"
    assert segment_path(tmp_path, 2501, is_open=False) == tmp_path / "segments/00000000000000002501.jsonl"


def test_segments_are_listed_oldest_first_and_strangers_passed_over(tmp_path: Path) -> None:
    assert list_segments(tmp_path) == []
    newer = write_segment(tmp_path, 20, b"", is_open=True)
    older = write_segment(tmp_path, 3, b"")
    for name in ("1.jsonl", "00000000000000000001.jsonl.gz", ".00000000000000000001.jsonl", "notes"):
        (tmp_path / "segments" / name).touch()
    assert list_segments(tmp_path) == [Segment(3, older, False), Segment(20, newer, True)]


def test_a_segment_is_read_block_by_block(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 1, b"".join(blocks([2, 3])))
    assert seqs(list(read_segment(Segment(1, path, False)))) == [(1, 2), (3, 5)]


def test_an_open_segment_is_followed_as_it_grows(tmp_path: Path) -> None:
    first, second, third = blocks([2, 3, 1])
    path = write_segment(tmp_path, 1, first + second[:30], is_open=True)
    segment = Segment(1, path, True)
    (read,) = read_segment(segment)
    path.write_bytes(first + second + third)
    assert seqs(list(read_segment(segment, read.end, read.last_seq + 1))) == [(3, 5), (6, 6)]


def test_a_complete_segment_that_ends_within_a_block_is_damaged(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 1, b"".join(blocks([2, 3]))[:-1])
    with pytest.raises(DamageError, match=r"00001\.jsonl: octet \d+: expected a block and its commit line"):
        list(read_segment(Segment(1, path, False)))


def test_zeros_behind_an_open_segment_are_damage(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 1, blocks([2])[0] + bytes(100), is_open=True)
    with pytest.raises(DamageError):
        list(read_segment(Segment(1, path, True)))


def test_a_seq_that_is_missing_or_of_another_log_is_damage(tmp_path: Path) -> None:
    first, second, third = blocks([2, 3, 1])
    for octets, reason in (
        (second, "expected seq 1, found seq 3"),
        (first + third, "expected seq 3, found seq 6"),
        (first + first, "expected seq 3, found seq 1"),
        (first + block([update(1)], 3, "other"), "found log other"),
    ):
        path = write_segment(tmp_path, 1, octets)
        with pytest.raises(DamageError, match=reason):
            list(read_segment(Segment(1, path, False)))


def test_a_scan_goes_on_behind_damage(tmp_path: Path) -> None:
    first, second, third = blocks([2, 3, 1])
    path = write_segment(tmp_path, 1, first + second.replace(b"queue", b"QUEUE") + third)
    found = list(scan_segment(path))
    assert [type(one) for one in found] == [Block, Damage, Block]
    assert (found[1].offset, found[1].end) == (len(first), len(first + second))


def test_first_line_and_tail(tmp_path: Path) -> None:
    octets = b"".join(blocks([2]))
    path = write_segment(tmp_path, 1, octets)
    assert first_line(path) + b"\n" == octets.splitlines(keepends=True)[0]
    assert tail(path, 10) == octets[-10:]
    assert tail(path, 10**6) == octets
    path.write_bytes(b"half")
    assert first_line(path) == b""
