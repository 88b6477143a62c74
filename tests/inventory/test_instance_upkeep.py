"""Blocks of numbers are reserved by another thread: at any timing, no number is assigned twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.inventory import instance_file
from gateway.inventory.index_upkeep import Reservation, keep_on_disk
from gateway.inventory.instances import BLOCK, MAX_UNSYNCED_CHANGES, InstanceIndex


class Asked:
    """A counter of the requests of an index for upkeep."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def index(tmp_path: Path, asked: Asked) -> Iterator[InstanceIndex]:
    """Provide an index with one counter, which has assigned no number since its start."""
    with closing(InstanceIndex(tmp_path / "i")) as first:
        first.transient_row(1, "c")
    with closing(InstanceIndex(tmp_path / "i", needs_upkeep=asked)) as index:
        index.start("gw", 1)
        index.checkpoint()
        yield index


def use(index: InstanceIndex, count: int) -> int:
    """Assign this many numbers to transient objects and publish them; return the last."""
    row = 0
    for _ in range(count):
        row = index.transient_row(1, "c")
    index.commit()
    return row


def high_water(path: Path) -> int:
    with closing(instance_file.read_index(path)) as database:
        return int(database.execute("SELECT high_water FROM counters WHERE class = 'c'").fetchone()[0])


def in_another_thread(index: InstanceIndex) -> None:
    upkeep = index.upkeep()
    assert upkeep is not None
    done: list[Reservation] = []
    thread = threading.Thread(target=lambda: done.extend(upkeep().granted))
    thread.start()
    thread.join()
    index.reserved(done)


def test_a_block_is_asked_for_when_half_of_the_one_before_is_used(index: InstanceIndex, asked: Asked) -> None:
    use(index, BLOCK // 2 - 1)
    assert asked.times == 0
    use(index, 1)
    assert asked.times == 1
    use(index, BLOCK // 4)
    assert asked.times == 1


def test_with_upkeep_no_object_waits_for_the_disk(index: InstanceIndex, asked: Asked) -> None:
    written: list[str] = []
    index._database.set_trace_callback(written.append)  # noqa: SLF001  what the file sees is what counts
    blocks = 0
    for _ in range(20 * BLOCK // 64):
        use(index, 64)
        if asked.times > blocks:
            blocks = asked.times
            in_another_thread(index)
    assert blocks == 20
    assert written == []


def test_without_upkeep_the_next_block_is_reserved_at_the_last_moment(
    index: InstanceIndex, tmp_path: Path
) -> None:
    last = use(index, BLOCK)
    assert high_water(tmp_path / "i") == last
    assert use(index, 1) == last + 1
    assert high_water(tmp_path / "i") == last + BLOCK


def test_a_reservation_that_comes_too_late_lowers_no_mark(index: InstanceIndex, tmp_path: Path) -> None:
    use(index, BLOCK // 2)
    late = index.upkeep()
    assert late is not None
    last = use(index, 2 * BLOCK)
    mark = high_water(tmp_path / "i")

    assert late().granted == ()

    assert high_water(tmp_path / "i") == mark >= last


def test_a_reservation_reported_too_late_means_nothing_to_a_new_lap(
    index: InstanceIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = use(index, BLOCK // 2) + BLOCK
    monkeypatch.setattr("gateway.inventory.instances.MAX_ROW", end)
    late = index.upkeep()
    assert late is not None
    granted = late().granted
    assert [reservation.upto for reservation in granted] == [end]
    assert use(index, BLOCK + 5) == 5

    index.reserved(granted)

    assert use(index, BLOCK) == BLOCK + 5
    assert high_water(tmp_path / "i") >= BLOCK + 5


def test_a_reservation_ends_where_numbers_end(
    index: InstanceIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = use(index, BLOCK // 2) + BLOCK // 2 + 10
    monkeypatch.setattr("gateway.inventory.instances.MAX_ROW", end)
    in_another_thread(index)
    assert high_water(tmp_path / "i") == end
    assert index.upkeep() is None, "what comes next is number 1, when the last has been given"
    assert use(index, BLOCK // 2 + 10) == end
    assert use(index, 1) == 1
    assert high_water(tmp_path / "i") == BLOCK


def test_nothing_is_written_when_nothing_happened(index: InstanceIndex) -> None:
    assert index.upkeep() is None
    index.durable_row(1, "c", "new")
    index.commit()
    assert index.upkeep() is not None
    assert index.upkeep() is None


def test_many_changes_ask_for_upkeep_until_it_comes(index: InstanceIndex, asked: Asked) -> None:
    for number in range(MAX_UNSYNCED_CHANGES + 2):
        index.durable_row(1, "durable", str(number))
        index.commit()
    assert asked.times >= 2
    index.checkpoint()
    before = asked.times
    index.durable_row(1, "durable", "one more")
    index.commit()
    assert asked.times == before


def test_what_was_committed_is_moved_out_of_the_log(index: InstanceIndex, tmp_path: Path) -> None:
    log = tmp_path / "i-wal"
    sizes = []
    for lap in range(10):
        for number in range(300):
            index.durable_row(1, "durable", f"{lap} {number}")
            index.commit()
        index.checkpoint()
        sizes.append(log.stat().st_size)
    assert sizes[-1] < 2 * sizes[0], "each lap of the log begins at its start"


def test_a_log_that_grew_too_long_is_cut(
    index: InstanceIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        index.durable_row(1, "durable", str(number))
        index.commit()
    grown = (tmp_path / "i-wal").stat().st_size
    monkeypatch.setattr(instance_file, "MAX_LOG_PAGES", 100)
    index.checkpoint()
    assert (tmp_path / "i-wal").stat().st_size < grown / 20


def test_a_disk_that_fails_is_reported_by_the_thread(tmp_path: Path) -> None:
    with pytest.raises(instance_file.InstanceIndexError, match="is not there any more"):
        keep_on_disk(tmp_path / "absent" / "i", ())
