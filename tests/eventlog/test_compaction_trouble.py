"""Compaction despite every hindrance: damage, full disks, other processes at work, and kills."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zlib
from pathlib import Path

import pytest

from gateway.eventlog.compaction import CompactionBusyError, CompactionError, Compactor
from gateway.eventlog.parquet import UnreadableError
from gateway.eventlog.segment import compactable, list_segments
from tests.eventlog.logs import (
    HOUR,
    LOG_ID,
    entries,
    everything,
    file_of,
    has_right_checksum,
    lines_of,
    rows_of,
    segment,
    some_segments,
    update,
    written_again,
)
from tests.hypothesis_profiles import PROVING

# -- damage


def flip(path: Path, offset: int) -> None:
    octets = bytearray(path.read_bytes())
    octets[offset] ^= 0x04
    path.write_bytes(octets)


def test_of_a_damaged_segment_what_is_whole_becomes_the_file_and_it_is_set_aside(tmp_path: Path) -> None:
    first, second = some_segments(tmp_path, 2)
    before = lines_of(first.path)
    flip(first.path, first.path.read_bytes().index(b'"seq":15') + 80)
    damaged = first.path.read_bytes()
    with Compactor(tmp_path) as compactor:
        done = compactor.compact(first)
        other = compactor.compact(second)
    assert done is not None
    assert other is not None
    (problem,) = done.problems
    assert "CRC" in problem
    assert rows_of(file_of(tmp_path, 1)) == before[:10] + before[20:]
    assert done.set_aside == tmp_path / "lost" / "00000000000000000001.damaged.jsonl"
    assert done.set_aside.read_bytes() == damaged
    assert other.problems == ()
    assert entries(tmp_path / "segments") == {"00000000000000000051.open.jsonl"}


def forged(text: str) -> bytes:
    """Return a block whose commit line is right and whose record is none."""
    line = f'{{"log_id":"{LOG_ID}","seq":1,{text}\n'.encode()
    commit = f'","kind":"_commit","seq":1,"n":1,"len":{len(line)},"crc":"{zlib.crc32(line):08x}"}}\n'
    return line + f'{{"log_id":"{LOG_ID}{commit}'.encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 5000,
        b"no log at all\n" * 100,
        forged('"kind":"update",'),
        forged('"kind":"update","ingest_ts":"2026-11-20T08:00:00Z","row":"no number"}'),
        forged('"kind":"update","ingest_ts":"yesterday"}'),
        forged('"kind":"update"}'),
    ],
    ids=["empty", "zeros", "text", "cut", "row", "time", "no-time"],
)
def test_what_is_no_segment_is_set_aside_whole(tmp_path: Path, content: bytes) -> None:
    (first,) = some_segments(tmp_path, 1)
    first.path.write_bytes(content)
    with Compactor(tmp_path) as compactor:
        done = compactor.compact(first)
    assert done is not None
    assert (done.file, done.records, len(done.problems)) == (None, 0, 1)
    assert done.set_aside is not None
    assert done.set_aside.read_bytes() == content
    assert entries(tmp_path / "lake") == {".lock"}


def test_a_segment_of_two_hours_is_none_of_the_writers(tmp_path: Path) -> None:
    first = segment(tmp_path, 1, [update(1), update(2, HOUR.replace(hour=9))])
    with Compactor(tmp_path) as compactor:
        done = compactor.compact(first)
    assert done is not None
    assert done.problems == ("records of more than one hour: 2026-11-20 08:00 to 2026-11-20 09:00 UTC",)
    assert done.file is None


# -- again, at once, and cut off


def test_a_segment_beside_its_file_only_goes(tmp_path: Path) -> None:
    (first,) = some_segments(tmp_path, 1)
    content = first.path.read_bytes()
    with Compactor(tmp_path) as compactor:
        compactor.compact(first)
        file = file_of(tmp_path, 1)
        made = file.stat()
        first.path.write_bytes(content)
        compactor.compact(first)
    assert not first.path.exists()
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (made.st_ino, made.st_mtime_ns)


def test_a_file_that_is_spoilt_is_made_again_while_its_segment_is_there(tmp_path: Path) -> None:
    (first,) = some_segments(tmp_path, 1)
    content, before = first.path.read_bytes(), lines_of(first.path)
    with Compactor(tmp_path) as compactor:
        compactor.compact(first)
        file = file_of(tmp_path, 1)
        file.write_bytes(file.read_bytes()[:-100])
        first.path.write_bytes(content)
        compactor.compact(first)
    assert rows_of(file) == before


def test_a_file_that_has_other_values_now_is_made_again_while_its_segment_is_there(tmp_path: Path) -> None:
    (first,) = some_segments(tmp_path, 1)
    content, before = first.path.read_bytes(), lines_of(first.path)
    with Compactor(tmp_path) as compactor:
        compactor.compact(first)
        file = file_of(tmp_path, 1)
        flip(file, file.read_bytes().index(b"queue-") + len("queue-"))
        assert rows_of(file) != before, "it can be read"
        first.path.write_bytes(content)
        compactor.compact(first)
    assert rows_of(file) == before
    assert has_right_checksum(file)


def test_a_file_without_a_checksum_is_as_good_as_its_records(tmp_path: Path) -> None:
    (first,) = some_segments(tmp_path, 1)
    content = first.path.read_bytes()
    with Compactor(tmp_path) as compactor:
        compactor.compact(first)
        file = file_of(tmp_path, 1)
        written_again(file)
        made = file.read_bytes()
        first.path.write_bytes(content)
        compactor.compact(first)
    assert not first.path.exists()
    assert file.read_bytes() == made


def test_only_one_compacts_a_log(tmp_path: Path) -> None:
    some_segments(tmp_path, 1)
    with Compactor(tmp_path), pytest.raises(CompactionBusyError), Compactor(tmp_path):
        pass
    with Compactor(tmp_path):
        pass


def test_an_older_compactor_is_refused_and_the_lock_that_it_left_is_replaced(tmp_path: Path) -> None:
    (segment,) = some_segments(tmp_path, 1)
    lock = tmp_path / "lake" / ".lock"
    lock.parent.mkdir()
    with lock.open("wb") as older:
        fcntl.flock(older, fcntl.LOCK_EX)
        with pytest.raises(CompactionBusyError), Compactor(tmp_path):
            pass
    for _ in range(2):
        with Compactor(tmp_path) as compactor, pytest.raises(CompactionBusyError), Compactor(tmp_path):
            pass
        with pytest.raises(IsADirectoryError):
            os.open(lock, os.O_RDONLY | os.O_CREAT)
    with Compactor(tmp_path) as compactor:
        assert compactor.compact(segment) is not None


def test_several_that_replace_the_lock_of_an_older_one_exclude_each_other(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    inside: list[int] = []
    seen: list[int] = []

    def compact() -> None:
        with Compactor(tmp_path, wait=True):
            inside.append(1)
            seen.append(len(inside))
            inside.pop()

    for _ in range(20):
        lock = tmp_path / "lake" / ".lock"
        if lock.is_dir():
            lock.rmdir()
        lock.touch()
        threads = [threading.Thread(target=compact) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen == [1] * 80


def test_a_disk_that_cannot_be_written_to_keeps_the_segment(tmp_path: Path) -> None:
    (first,) = some_segments(tmp_path, 1)
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "dt=2026-11-20").write_text("in the way")
    with Compactor(tmp_path) as compactor, pytest.raises(CompactionError, match="dt=2026-11-20"):
        compactor.compact(first)
    assert first.path.exists()


def test_a_file_that_cannot_be_read_back_is_no_damage_of_the_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made,) = some_segments(tmp_path, 1)

    def unreadable(*_: object) -> None:
        raise UnreadableError("IO Error: Input/output error")

    with Compactor(tmp_path) as compactor:
        monkeypatch.setattr("gateway.eventlog.compaction.contents", unreadable)
        with pytest.raises(CompactionError, match="the file made of it: IO Error"):
            compactor.compact(made)
        monkeypatch.undo()
        assert made.path.exists()
        done = compactor.compact(made)
    assert done is not None
    assert (done.records, done.set_aside) == (25, None)


def test_what_is_interrupted_keeps_the_segment(tmp_path: Path) -> None:
    first = segment(tmp_path, 1, map(update, range(1, 50_001)), of_a_block=2500)
    raised: list[CompactionError] = []
    with Compactor(tmp_path) as compactor:

        def compact() -> None:
            try:
                compactor.compact(first)
            except CompactionError as error:
                raised.append(error)

        thread = threading.Thread(target=compact)
        thread.start()
        compactor.interrupt()
        thread.join()
    assert len(raised) == 1
    assert "nterrupt" in str(raised[0])
    assert first.path.exists()
    assert entries(tmp_path / "lake") == {".lock"}


SEEDS = range(100 if PROVING else 4)
KILLED = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from gateway.eventlog.compaction import Compactor
    from gateway.eventlog.segment import compactable
    folder = Path(sys.argv[1])
    with Compactor(folder) as compactor:
        print("begins", flush=True)
        for segment in compactable(folder):
            compactor.compact(segment)
    """
)


@pytest.fixture(scope="module")
def time_of_all(tmp_path_factory: pytest.TempPathFactory) -> float:
    """Return the seconds that an uninterrupted compaction takes."""
    folder = tmp_path_factory.mktemp("unhurt")
    some_segments(folder, 4)
    started = time.monotonic()
    kill_after(folder, None)
    return time.monotonic() - started


def kill_after(folder: Path, seconds: float | None) -> None:
    """Compact in another process, killed ``seconds`` after its beginning, or not at all."""
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE)  # noqa: S603
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"begins\n"
        if seconds is None:
            assert child.wait() == 0
            return
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
        child.wait()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kill_loses_nothing_and_repeats_nothing(tmp_path: Path, seed: int, time_of_all: float) -> None:
    chance = random.Random(seed)  # noqa: S311  a test's choice
    some_segments(tmp_path, 4)
    before = everything(tmp_path)
    for _ in range(3 if PROVING else 1):
        kill_after(tmp_path, chance.uniform(0, time_of_all))
        files = {int(file.stem[-20:]) for file in (tmp_path / "lake").glob("*/*/*.parquet")}
        # What is in both is told twice, until the segment goes: whoever reads passes over the segment.
        in_both = files & {segment.first_seq for segment in list_segments(tmp_path)}
        reported = [line for line in everything(tmp_path) if line["seq"] not in _seqs(tmp_path, in_both)]
        reported += [line for first in in_both for line in rows_of(file_of(tmp_path, first))]
        assert sorted(reported, key=lambda line: int(line["seq"])) == before
        assert all(has_right_checksum(file) for file in (tmp_path / "lake").glob("*/*/*.parquet"))
    with Compactor(tmp_path) as compactor:
        for waiting in compactable(tmp_path):
            compactor.compact(waiting)
    assert [segment.first_seq for segment in list_segments(tmp_path)] == [101]
    assert everything(tmp_path) == before
    assert entries(tmp_path / "lake") == {".lock", "dt=2026-11-20"}


def _seqs(folder: Path, firsts: set[int]) -> set[int]:
    return {row["seq"] for first in firsts for row in rows_of(file_of(folder, first))}
