"""The recovery of a log whose writer was killed or whose files were damaged since; its continuation."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.eventlog.block import MAX_RECORD_OCTETS
from gateway.eventlog.committer import Recovery, SegmentWriter, look
from gateway.eventlog.disk import Disk, EventLogError
from gateway.eventlog.segment import LOST, LogIdentity, identity_path, list_segments, read_identity
from gateway.eventlog.waiting import MAX_COMMIT_OCTETS
from gateway.model.times import SECOND
from tests.eventlog.plant import Plant
from tests.eventlog.reading import numbers, of_kind, read_log, reasons
from tests.eventlog.records import LOG_ID, block, blocks, update, write_segment


def made(folder: Path, **fields: object) -> Path:
    """Return a log's folder with its identity."""
    folder.mkdir(parents=True, exist_ok=True)
    identity = {"version": 1, "log_id": LOG_ID, "next_seq": 1, "last_ts": "", **fields}
    identity_path(folder).write_text(json.dumps(identity))
    return folder


def mended(folder: Path) -> Recovery:
    """Carry out the recovery that `look` finds; return it."""
    found = look(folder)
    assert found.identity is not None
    writer = SegmentWriter(folder, found.identity, Disk(), 0, found.unclosed)
    writer.close()
    assert not writer.unclosed, writer.unclosed_because
    return found


def lost(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / LOST).glob("*")}


def names(folder: Path) -> list[str]:
    return [segment.path.name.lstrip("0") for segment in list_segments(folder)]


def test_a_folder_that_is_missing_or_empty_is_a_new_log(tmp_path: Path) -> None:
    assert look(tmp_path / "absent") == Recovery(None, 1)
    assert look(tmp_path) == Recovery(None, 1)


def test_what_is_whole_is_kept_and_the_segment_completed(tmp_path: Path) -> None:
    folder = made(tmp_path)
    octets = b"".join(blocks([2, 3]))
    write_segment(folder, 1, octets, is_open=True)
    found = mended(folder)
    assert (found.next_seq, found.last_ts) == (6, "2026-11-20T14:05:06.000000Z")
    assert found.problems == ()
    assert names(folder) == ["1.jsonl"]
    assert list_segments(folder)[0].path.read_bytes() == octets
    assert lost(folder) == {}
    assert read_identity(folder) == LogIdentity(
        version=1, log_id=LOG_ID, next_seq=6, last_ts="2026-11-20T14:05:06.000000Z"
    )


FORGED = b'{"log_id":"%s","kind":"_commit","seq":9,"n":1,"len":3,"crc":"00000000"}\n' % LOG_ID.encode()


@pytest.mark.parametrize(
    "tail",
    [
        blocks([2], 6)[0][:-1],  # cut short
        blocks([2], 6)[0].splitlines(keepends=True)[0],  # records without a commit line
        bytes(5000),
        b"junk",
        b"{}\n" + FORGED,
        FORGED,
        blocks([2], 7)[0],  # a block that does not follow
        blocks([2], 4)[0],  # a block that was there before
        bytes(512) + blocks([2], 6)[0],  # a later page reached the disk, an earlier one did not
    ],
)
def test_what_was_promised_to_no_receiver_goes_to_lost(tmp_path: Path, tail: bytes) -> None:
    folder = made(tmp_path)
    octets = b"".join(blocks([2, 3]))
    write_segment(folder, 1, octets + tail, is_open=True)
    found = mended(folder)
    assert found.next_seq == 6
    assert list_segments(folder)[0].path.read_bytes() == octets
    assert lost(folder) == {f"{1:020}-{len(octets)}.tail": tail}
    assert len(found.problems) >= 1
    assert look(folder) == Recovery(read_identity(folder), 6, found.last_ts), "nothing is left to be done"


@given(st.lists(st.integers(1, 4), max_size=4), st.binary(max_size=300))
def test_any_tail_costs_nothing_that_was_acknowledged(sizes: list[int], tail: bytes) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = made(Path(temporary, "log"))
        octets = b"".join(blocks(sizes))
        write_segment(folder, 1, octets + tail, is_open=True)
        found = mended(folder)
        assert found.next_seq == sum(sizes) + 1
        assert b"".join(segment.path.read_bytes() for segment in list_segments(folder)) == octets
        assert b"".join(lost(folder).values()) == tail


def test_looking_changes_nothing(tmp_path: Path) -> None:
    folder = made(tmp_path)
    path = write_segment(folder, 1, blocks([2])[0] + b"junk", is_open=True)
    assert look(folder) == look(folder)
    assert path.read_bytes().endswith(b"junk")
    assert sorted(entry.name for entry in folder.iterdir()) == ["LOG", "segments"]


def test_an_open_segment_without_a_record_goes(tmp_path: Path) -> None:
    folder = made(tmp_path, next_seq=4, last_ts="2026-11-20T14:00:00.000000Z")
    write_segment(folder, 4, b"", is_open=True)
    found = mended(folder)
    assert (found.next_seq, found.last_ts) == (4, "2026-11-20T14:00:00.000000Z")
    assert names(folder) == []


def test_of_two_open_segments_each_is_completed(tmp_path: Path) -> None:
    folder = made(tmp_path)
    write_segment(folder, 1, blocks([2])[0], is_open=True)
    write_segment(folder, 3, blocks([3], 3)[0] + b"junk", is_open=True)
    assert mended(folder).next_seq == 6
    assert names(folder) == ["1.jsonl", "3.jsonl"]


@pytest.mark.parametrize("is_open", [True, False])
def test_what_was_written_again_elsewhere_is_kept_there_only(tmp_path: Path, is_open: bool) -> None:  # noqa: FBT001
    first, second, third = blocks([2, 3, 1])
    folder = made(tmp_path)
    write_segment(folder, 1, first + second, is_open=is_open)
    write_segment(folder, 3, second + third, is_open=True)
    assert mended(folder).next_seq == 7
    assert [segment.path.read_bytes() for segment in list_segments(folder)] == [first, second + third]
    assert list(lost(folder).values()) == [second]


def test_an_open_copy_of_a_complete_segment_takes_nothing_from_it(tmp_path: Path) -> None:
    """As in a copy of a log that was made in several turns, and put back."""
    first, second = blocks([2, 3])
    folder = made(tmp_path)
    write_segment(folder, 1, first + second)
    write_segment(folder, 1, first, is_open=True)
    assert mended(folder).next_seq == 6
    assert list_segments(folder)[0].path.read_bytes() == first + second
    assert lost(folder) == {}


def test_seq_goes_on_behind_segments_that_compaction_took(tmp_path: Path) -> None:
    folder = made(tmp_path, next_seq=100, last_ts="2026-11-20T14:00:00.000000Z")
    assert look(folder).next_seq == 100
    assert look(folder).last_ts == "2026-11-20T14:00:00.000000Z"


def test_seq_goes_on_behind_complete_segments(tmp_path: Path) -> None:
    folder = made(tmp_path)
    write_segment(folder, 1, b"".join(blocks([2, 3])))
    found = look(folder)
    assert (found.next_seq, found.unclosed, found.problems) == (6, (), ())


def test_damage_of_what_was_acknowledged_long_ago_takes_nothing_behind_it_away(tmp_path: Path) -> None:
    large = [update(1, padding=MAX_RECORD_OCTETS // 2)] * 8
    count = MAX_COMMIT_OCTETS // (4 << 20) + 2
    made_blocks = [block(large, 1 + 8 * n) for n in range(count)]
    spoilt = made_blocks[0][:100] + b"?" + made_blocks[0][101:]
    folder = made(tmp_path)
    write_segment(folder, 1, b"".join([spoilt, *made_blocks[1:]]), is_open=True)
    found = mended(folder)
    assert found.next_seq == 8 * count + 1
    assert "expected octets with CRC" in found.problems[0]
    assert "seq 1 to 8 are missing in it" in found.problems[1]
    assert lost(folder) == {}


def test_seqs_that_are_missing_between_segments_are_reported_unless_the_lake_has_them(tmp_path: Path) -> None:
    folder = made(tmp_path, next_seq=30)
    write_segment(folder, 1, blocks([2])[0])
    write_segment(folder, 20, blocks([2], 20)[0])
    assert [problem.partition("jsonl: ")[2] for problem in look(folder).problems] == [
        "seq 3 to 19 are missing before it"
    ]
    file = folder / f"lake/dt=2026-11-20/hour=14/{LOG_ID}-{3:020}.parquet"
    file.parent.mkdir(parents=True)
    file.touch()
    assert look(folder).problems == ()


def test_a_complete_segment_with_a_damaged_end_is_left_as_it_is(tmp_path: Path) -> None:
    folder = made(tmp_path, next_seq=6)
    path = write_segment(folder, 1, b"".join(blocks([2, 3]))[:-1])
    found = mended(folder)
    assert found.next_seq == 6
    assert "is damaged" in found.problems[0]
    assert path.stat().st_size == len(b"".join(blocks([2, 3]))) - 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is damaged, it begins with ''"),
        ("junk", "is damaged, it begins with 'junk'"),
        ("{}", "is damaged"),
        ('{"version":1,"log_id":"a b","next_seq":1}', "is damaged, it says"),
        ('{"version":1,"log_id":"x","next_seq":0}', "is damaged"),
        ('{"version":0,"log_id":"x"}', "is damaged"),
        ('{"version":4,"log_id":"x"}', "of version 4, this gateway knows 3"),
    ],
)
def test_an_identity_that_cannot_be_understood_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    identity_path(tmp_path).write_text(text)
    with pytest.raises(EventLogError, match=f"LOG: .*{reason}"):
        look(tmp_path)


@given(st.binary(max_size=100))
def test_any_identity_is_one_or_is_refused(octets: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        identity_path(Path(folder)).write_bytes(octets)
        try:
            look(Path(folder))
        except EventLogError as error:
            assert "LOG: " in str(error)  # noqa: PT017  either is right


def test_files_of_a_log_without_its_identity_are_refused(tmp_path: Path) -> None:
    write_segment(tmp_path, 1, blocks([2])[0])
    with pytest.raises(
        EventLogError, match=r"LOG: is missing.*: put back the file.*, or move the folder away"
    ):
        look(tmp_path)


def test_segments_of_another_log_are_refused(tmp_path: Path) -> None:
    for is_open in (True, False):
        folder = made(tmp_path / f"{is_open}")
        write_segment(folder, 1, block([update(1)], log_id="another"), is_open=is_open)
        with pytest.raises(EventLogError, match=f"is of log another, .*LOG says {LOG_ID}: put back"):
            look(folder)


def test_an_identity_that_is_older_than_the_lake_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path, next_seq=3)
    file = folder / f"lake/dt=2026-11-20/hour=14/{LOG_ID}-{10:020}.parquet"
    file.parent.mkdir(parents=True)
    file.touch()
    with pytest.raises(EventLogError, match="is older than the lake: it ends before seq 3"):
        look(folder)


def test_a_log_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path)
    (folder / "segments").write_text("no folder")
    with pytest.raises(EventLogError, match="segments: the event log cannot be read: Not a directory"):
        look(folder)


def test_a_segment_that_is_listed_and_never_there_is_refused_in_the_end(tmp_path: Path) -> None:
    folder = made(tmp_path)
    path = write_segment(folder, 1, b"")
    path.unlink()
    path.symlink_to(tmp_path / "absent")
    with pytest.raises(EventLogError, match="cannot be read: No such file"):
        look(folder)


async def test_after_a_kill_the_log_goes_on_in_a_new_segment(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log() as log:
        await log.reached(log.append(plant.update(1)))
        (segment,) = list_segments(plant.folder)
        left = segment.path.read_bytes() + blocks([1], 3)[0][:100]
    complete = list_segments(plant.folder)[0].path
    complete.write_bytes(left)
    complete.rename(segment.path)
    plant.clock.time += 60 * SECOND
    async with plant.log() as log:
        assert log.recovered
        assert "go to lost/" in log.problems[0]
        log.append(plant.update(2))
    records = read_log(plant.folder)
    assert reasons(records) == ["began", "recovered"]
    assert numbers(records) == [1, 2]
    (gap,) = of_kind(records, "gap")
    assert gap["from_ts"] == "2026-11-20T14:05:06.000000Z"
    assert list(lost(plant.folder).values()) == [blocks([1], 3)[0][:100]]
