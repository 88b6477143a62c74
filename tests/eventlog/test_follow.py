"""The last records and the new ones: over rotation, compaction, crashes and retention, each once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.eventlog.compaction import Compactor
from gateway.eventlog.follow import LogEnd, Selection
from gateway.eventlog.segment import compactable, list_segments
from tests.eventlog.logs import blocks, lines_of, segment, some_segments, update


def seqs(lines: list[bytes]) -> list[int]:
    return [json.loads(line)["seq"] for line in lines]


def new(end: LogEnd) -> list[int]:
    return seqs(list(end.new()))


def compact(folder: Path) -> None:
    with Compactor(folder) as compactor:
        for waiting in compactable(folder):
            compactor.compact(waiting)


def complete(folder: Path, first_seq: int) -> None:
    path = folder / "segments" / f"{first_seq:020}.open.jsonl"
    path.rename(path.with_name(f"{first_seq:020}.jsonl"))


def append(folder: Path, first_seq: int, seqs: range) -> None:
    path = folder / "segments" / f"{first_seq:020}.open.jsonl"
    with path.open("ab") as file:
        file.writelines(blocks(seqs.start, map(update, seqs)))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Records 1 to 50 in the lake, 51 to 75 in a complete segment, 76 to 80 in the open one."""
    some_segments(tmp_path, 2)
    compact(tmp_path)
    (tmp_path / "segments" / f"{51:020}.open.jsonl").unlink()
    segment(tmp_path, 51, map(update, range(51, 76)))
    segment(tmp_path, 76, map(update, range(76, 81)), is_open=True)
    return tmp_path


@pytest.mark.parametrize("count", [0, 1, 5, 6, 30, 31, 60, 80])
def test_the_last_records_wherever_they_lie(log: Path, count: int) -> None:
    end = LogEnd(log, Selection())
    assert seqs(end.last(count)) == list(range(81 - count, 81))
    assert end.remarks == []


def test_more_than_there_are_is_all(log: Path) -> None:
    assert seqs(LogEnd(log, Selection()).last(1000)) == list(range(1, 81))
    assert LogEnd(log / "nowhere", Selection()).last(10) == []


def test_lines_of_the_lake_are_as_they_were(tmp_path: Path) -> None:
    (first,) = some_segments(tmp_path, 1)
    before = lines_of(first.path)
    text = first.path.read_bytes().splitlines()[0]
    compact(tmp_path)
    lines = LogEnd(tmp_path, Selection()).last(25)
    assert [json.loads(line) for line in lines] == before
    assert lines[0] == text


def test_the_last_of_those_chosen(log: Path) -> None:
    end = LogEnd(log, Selection(objects={"/|queue-3"}))
    assert seqs(end.last(8)) == [number for number in range(1, 81) if number % 7 == 3][-8:]


def test_what_is_committed_later_is_new_once(log: Path) -> None:
    end = LogEnd(log, Selection())
    end.last(0)
    assert new(end) == []
    append(log, 76, range(81, 84))
    assert new(end) == [81, 82, 83]
    assert new(end) == []


def test_half_a_block_is_not_reported(log: Path) -> None:
    end = LogEnd(log, Selection())
    end.last(0)
    (block,) = blocks(81, map(update, range(81, 84)))
    with (log / "segments" / f"{76:020}.open.jsonl").open("ab", buffering=0) as file:
        file.write(block[:-20])
        assert new(end) == []
        file.write(block[-20:])
    assert new(end) == [81, 82, 83]


def test_it_goes_on_over_rotation_and_compaction(log: Path) -> None:
    end = LogEnd(log, Selection())
    end.last(0)
    append(log, 76, range(81, 84))
    complete(log, 76)
    segment(log, 84, map(update, range(84, 90)))
    segment(log, 90, map(update, range(90, 95)), is_open=True)
    assert new(end) == list(range(81, 95))
    append(log, 90, range(95, 97))
    complete(log, 90)
    segment(log, 97, map(update, range(97, 99)))
    segment(log, 99, map(update, range(99, 101)), is_open=True)
    compact(log)
    assert len(list_segments(log)) == 1
    assert new(end) == list(range(95, 101))
    assert end.remarks == []


def test_a_tail_that_a_crash_left_is_forgotten(log: Path) -> None:
    end = LogEnd(log, Selection())
    end.last(0)
    path = log / "segments" / f"{76:020}.open.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"log_id":"torn')
    assert new(end) == []
    path.write_bytes(whole)
    complete(log, 76)
    segment(log, 81, map(update, range(81, 83)), is_open=True)
    assert new(end) == [81, 82]
    assert end.remarks == []


def test_what_retention_took_is_remarked(log: Path) -> None:
    end = LogEnd(log, Selection())
    end.last(0)
    (log / "segments" / f"{76:020}.open.jsonl").unlink()
    segment(log, 90, map(update, range(90, 93)), is_open=True)
    assert new(end) == [90, 91, 92]
    assert end.remarks == ["seq 81 to 89 are gone"]


def test_a_log_that_begins_later_is_reported_from_its_beginning(tmp_path: Path) -> None:
    end = LogEnd(tmp_path, Selection())
    assert end.last(10) == []
    assert new(end) == []
    segment(tmp_path, 1, map(update, range(1, 4)), is_open=True)
    assert new(end) == [1, 2, 3]


def test_damage_is_remarked_and_passed_over(log: Path) -> None:
    path = log / "segments" / f"{51:020}.jsonl"
    octets = bytearray(path.read_bytes())
    octets[octets.index(b'"seq":65') + 60] ^= 1
    path.write_bytes(octets)
    end = LogEnd(log, Selection())
    assert seqs(end.last(20)) == [*range(51, 61), *range(71, 81)]
    # 61 to 70 are the block that is damaged
    assert any("CRC" in remark for remark in end.remarks)
