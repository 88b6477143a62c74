"""Records that wait for the disk: numbered once, in blocks, within a bound."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gateway.eventlog.block import MAX_BLOCK_RECORDS, Block, BlockScanner
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.waiting import COMMIT_OCTETS, MAX_COMMIT_OCTETS, Batch, Pressure, WaitingRecords
from tests.eventlog.records import LOG_ID, update

TIME = "2026-11-20T14:05:06.000000Z"


def written(batch: Batch) -> list[Block]:
    found = list(BlockScanner().feed(b"".join(batch.blocks)))
    return [one for one in found if isinstance(one, Block)]


def test_what_is_taken_is_what_was_added_in_blocks_of_bounded_size() -> None:
    waiting = WaitingRecords(LOG_ID, 7, 10_000)
    assert [waiting.add(update(n)) for n in range(6000)] == list(range(7, 6007))
    batch = waiting.take()
    assert batch is not None
    assert (batch.first_seq, batch.last_seq, batch.last_ts) == (7, 6006, TIME)
    assert [(block.first_seq, block.last_seq) for block in written(batch)] == [
        (7, 6 + MAX_BLOCK_RECORDS),
        (7 + MAX_BLOCK_RECORDS, 6 + 2 * MAX_BLOCK_RECORDS),
        (7 + 2 * MAX_BLOCK_RECORDS, 6006),
    ]
    assert waiting.take() is None
    assert waiting.records == 6000, "until it is on the disk"
    waiting.done(batch)
    assert (waiting.records, waiting.octets) == (0, 0)


def test_a_batch_is_of_one_segment_and_of_bounded_size() -> None:
    waiting = WaitingRecords(LOG_ID, 1, 10**6)
    for n in range(3):
        waiting.add(update(n))
    waiting.begin_segment()
    large = [update(n, padding=100_000) for n in range(200)]
    for record in large:
        waiting.add(record)
    batches = []
    while (batch := waiting.take()) is not None:
        batches.append(batch)
    assert [batch.segment for batch in batches] == [0] + [1] * (len(batches) - 1)
    assert all(batch.octets <= MAX_COMMIT_OCTETS for batch in batches)
    assert batches[1].octets >= COMMIT_OCTETS
    assert [batch.first_seq for batch in batches[1:]] == [batch.last_seq + 1 for batch in batches[:-1]]


def test_a_block_begins_where_the_former_was_taken() -> None:
    waiting = WaitingRecords(LOG_ID, 1, 1000)
    waiting.add(update(1))
    first = waiting.take()
    waiting.add(update(2))
    second = waiting.take()
    assert first is not None
    assert second is not None
    assert (first.last_seq, second.first_seq, second.last_seq) == (1, 2, 2)


def test_a_gap_that_was_written_takes_no_more() -> None:
    waiting = WaitingRecords(LOG_ID, 1, 1000)
    waiting.add(update(1))
    assert waiting.lose(RecordKind.UPDATE, TIME, TIME) == 2
    assert waiting.lose(RecordKind.CREATE, TIME, TIME) == 2
    waiting.add(update(2))
    batch = waiting.take()
    assert waiting.lose(RecordKind.UPDATE, TIME, TIME) == 4
    assert batch is not None
    assert batch.last_seq == 3
    gap = json.loads([line for block in written(batch) for line in block.split()][1])
    assert (gap["kind"], gap["lost"], gap["values"]) == ("gap", 2, {"create": 1, "update": 1})


@given(
    st.lists(
        st.sampled_from(["update", "create", "take", "done", "segment", "large", "several"]), max_size=300
    )
)
def test_whatever_happens_each_seq_is_reported_once_and_in_order(steps: list[str]) -> None:
    waiting = WaitingRecords(LOG_ID, 1, 40)
    under_way: list[Batch] = []
    seqs: list[int] = []
    lost = 0
    for step in steps:
        if step == "take" and not under_way and (batch := waiting.take()) is not None:
            under_way.append(batch)
        elif step == "done" and under_way:
            batch = under_way.pop()
            waiting.done(batch)
            seqs += [seq for one in written(batch) for seq in range(one.first_seq, one.last_seq + 1)]
        elif step == "segment":
            waiting.begin_segment()
        elif step in {"update", "create", "large"}:
            padding = 20_000 if step == "large" else 0
            kind = RecordKind.CREATE if step == "create" else RecordKind.UPDATE
            if waiting.takes(kind):
                waiting.add(LogRecord(kind=kind, ingest_ts=TIME, text="x" * padding))
            else:
                waiting.lose(kind, TIME, TIME)
                lost += 1
                assert waiting.pressure is Pressure.FULL
        elif step == "several":
            before = waiting.next_seq
            several = [update(number, TIME) for number in range(5)]
            added = waiting.add_all(several, TIME, 1 << 20)
            assert waiting.next_seq == before + added
            assert added == 5 or waiting.records + 5 > 20 or waiting.octets > 20_000
        assert waiting.records <= 41
        assert waiting.octets <= 40 * 1024 + 21_000
    for batch in under_way:
        waiting.done(batch)
        seqs += range(batch.first_seq, batch.last_seq + 1)
    while (rest := waiting.take()) is not None:
        waiting.done(rest)
        seqs += range(rest.first_seq, rest.last_seq + 1)
    assert seqs == list(range(1, waiting.next_seq))
    assert (waiting.records, waiting.octets, waiting.lost) == (0, 0, lost)
