"""The events of the log behind any place, page by page: over segments and lake, rotation and compaction."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gateway.eventlog.last_state import EVENTS, events_value
from gateway.eventlog.logged_events import LoggedEvent, event_record, start_record
from gateway.eventlog.past_events import PastEventReader
from gateway.eventlog.record import LogRecord, microseconds_text
from gateway.eventlog.retention import Why
from gateway.feed.records import Place
from gateway.model.times import MILLISECOND
from tests.eventlog.feeds import FULL, SHOP, T0, event
from tests.eventlog.logs import blocks, segment, update
from tests.eventlog.test_follow import compact, complete

OF_A_SEGMENT = 20
GATEWAY = "gw"


class Growing:
    """A log that grows: each segment begins with the number of events so far; every core makes 50 events."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places: list[Place] = []
        self._seq = 1
        self._open = 0
        self._left = 0
        self._made: dict[int, int] = {}

    def add(self, count: int) -> None:
        """Record so many events, with other records between them."""
        for _ in range(count):
            if not self._left:
                self._begin()
            epoch, number = len(self.places) // 50 + 1, len(self.places) % 50 + 1
            self._made[epoch] = number
            self.places.append((epoch, number))
            record = event(event_id=f"{GATEWAY}.{epoch}.{number}", number=number)
            self._write([event_record(record, LoggedEvent(FULL), SHOP, self._time()), update(3)])
            self._left -= 1

    def _time(self) -> str:
        return microseconds_text(T0 + self._seq * MILLISECOND) or ""

    def _begin(self) -> None:
        if self._open:
            complete(self.folder, self._open)
        self._open, self._left = self._seq, OF_A_SEGMENT
        segment(self.folder, self._seq, (), is_open=True)
        facts = {"gateway": GATEWAY, EVENTS: events_value(self._made)}
        start = start_record(self._time(), Why.BEGAN, facts)
        self._write([start, LoggedEvent(FULL).schema_record(self._time())])

    def _write(self, records: list[LogRecord]) -> None:
        timed = [record for record in records if record.package != "rabbitmq"]
        path = self.folder / "segments" / f"{self._open:020}.open.jsonl"
        with path.open("ab") as file:
            file.writelines(blocks(self._seq, timed, of_a_block=3))
        self._seq += len(timed)


def read(reader: PastEventReader, after: Place, until: Place, limit: int) -> tuple[list[Place], Place]:
    page = reader.read(after, until, limit)
    found = []
    for record in page.events:
        _, epoch, number = str(record.event_id).split(".")
        found.append((int(epoch), int(number)))
    assert not found or "shop:full" in page.schemas
    return found, page.through


@pytest.fixture
def log(tmp_path: Path) -> Growing:
    growing = Growing(tmp_path)
    growing.add(130)
    compact(tmp_path)
    growing.add(47)
    return growing


def test_all_events_behind_any_place_are_found_in_pages(log: Growing) -> None:
    chance = random.Random(4711)  # noqa: S311  repeatable on purpose
    reader = PastEventReader(log.folder, GATEWAY)
    end = (9, 999)
    for _ in range(6):
        after = (chance.randrange(0, 5), chance.randrange(0, 60))
        found: list[Place] = []
        through = after
        while through < end:
            some, through = read(reader, through, end, chance.randrange(1, 40))
            found += some
        assert found == [place for place in log.places if place > after]


def test_a_page_ends_at_its_last_place_and_the_next_goes_on(log: Growing) -> None:
    reader = PastEventReader(log.folder, GATEWAY)
    assert read(reader, (1, 10), (1, 13), 100) == ([(1, 11), (1, 12), (1, 13)], (1, 13))
    assert read(reader, (1, 13), (1, 14), 100) == ([(1, 14)], (1, 14))
    assert read(reader, (1, 20), (1, 21), 100) == ([(1, 21)], (1, 21))
    assert read(reader, (2, 60), (2, 70), 100) == ([], (2, 70))


def test_pages_go_on_over_rotation_and_compaction(log: Growing) -> None:
    reader = PastEventReader(log.folder, GATEWAY)
    found, through = read(reader, (3, 40), (9, 999), 5)
    log.add(30)
    compact(log.folder)
    while True:
        some, through = read(reader, through, (9, 999), 7)
        if not some:
            break
        found += some
    assert found == [place for place in log.places if place > (3, 40)]
    log.add(1)
    assert read(reader, log.places[-2], (9, 999), 7)[0] == [log.places[-1]]


def test_what_retention_deleted_and_what_is_damaged_is_passed_over(log: Growing) -> None:
    lake = sorted(log.folder.glob("lake/*/*/*.parquet"))
    lake[0].unlink()
    lake[2].write_bytes(b"no parquet")
    found, _ = read(PastEventReader(log.folder, GATEWAY), (0, 0), (9, 999), 1000)
    gone = [*range(OF_A_SEGMENT), *range(2 * OF_A_SEGMENT, 3 * OF_A_SEGMENT)]
    assert found == [place for number, place in enumerate(log.places) if number not in gone]


def test_events_of_another_gateway_are_none_of_ours(log: Growing) -> None:
    assert read(PastEventReader(log.folder, "other"), (0, 0), (9, 999), 1000) == ([], (9, 999))
    assert read(PastEventReader(log.folder / "nowhere", GATEWAY), (0, 0), (9, 9), 10) == ([], (9, 9))
