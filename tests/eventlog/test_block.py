"""Records are encoded in blocks and decoded from them; any octets are blocks or reported as damage."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.eventlog.block import (
    MAX_BLOCK_OCTETS,
    MAX_BLOCK_RECORDS,
    MAX_RECORD_OCTETS,
    Block,
    BlockDraft,
    BlockScanner,
    Damage,
)
from gateway.eventlog.record import LogRecord, RecordKind
from tests.eventlog.records import LOG_ID, block, blocks, log_records, update


def scan(octets: bytes, piece: int = 1 << 20) -> list[Block | Damage]:
    def found() -> Iterator[Block | Damage]:
        scanner = BlockScanner()
        for start in range(0, len(octets), piece):
            yield from scanner.feed(octets[start : start + piece])
        if (rest := scanner.finish()) is not None:
            yield rest

    return list(found())


def whole(octets: bytes) -> list[Block]:
    found = scan(octets)
    assert all(isinstance(one, Block) for one in found), found
    return [one for one in found if isinstance(one, Block)]


def damages(octets: bytes) -> list[Damage]:
    return [one for one in scan(octets) if isinstance(one, Damage)]


def commit(lines: bytes, seq: int, records: int, log_id: str = LOG_ID) -> bytes:
    """Return a commit line made by hand, as the documentation describes it."""
    fields = {
        "log_id": log_id, "kind": "_commit", "seq": seq, "n": records, "len": len(lines),
        "crc": f"{zlib.crc32(lines):08x}",
    }  # fmt: skip
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def test_a_block_is_its_records_on_lines_and_a_commit_line() -> None:
    record = LogRecord(kind=RecordKind.EVENT, ingest_ts="2026-11-20T14:05:06.000000Z", event="bound")
    line = (
        f'{{"log_id":"{LOG_ID}","seq":7,"kind":"event","ingest_ts":"2026-11-20T14:05:06.000000Z",'
        '"event":"bound"}\n'
    ).encode()
    assert block([record], first_seq=7) == line + commit(line, 7, 1)


def test_what_was_written_is_read_with_its_place() -> None:
    first, second = blocks([2, 3])
    assert whole(first + second) == [
        Block(LOG_ID, 1, 2, 0, len(first), b"".join(first.splitlines(keepends=True)[:2])),
        Block(LOG_ID, 3, 5, len(first), len(first + second), b"".join(second.splitlines(keepends=True)[:3])),
    ]


@given(st.lists(log_records, min_size=1, max_size=8), st.integers(1, 2**62), st.integers(1, 300))
def test_any_records_are_read_as_they_were_written(
    records: list[LogRecord], first_seq: int, piece: int
) -> None:
    (found,) = scan(block(records, first_seq), piece)
    assert isinstance(found, Block)
    lines = [msgspec.json.decode(line) for line in found.split()]
    assert [line.pop("seq") for line in lines] == list(range(first_seq, first_seq + len(records)))
    assert {line.pop("log_id") for line in lines} == {LOG_ID}
    assert [msgspec.convert(line, LogRecord) for line in lines] == records


@given(st.lists(st.integers(1, 4), max_size=5), st.binary(max_size=200), st.integers(1, 500))
def test_a_tail_of_any_octets_spoils_nothing_before_it(sizes: list[int], tail: bytes, piece: int) -> None:
    good = b"".join(blocks(sizes))
    found = scan(good + tail, piece)
    assert [one.end for one in found if isinstance(one, Block)] == [one.end for one in whole(good)]
    assert sum(one.end - one.offset for one in found) == len(good + tail), "each octet is told once"


@given(st.data())
def test_an_octet_that_changed_is_found_and_costs_its_block_alone(data: st.DataObject) -> None:
    made = blocks([3, 2, 4])
    octets = bytearray(b"".join(made))
    at = data.draw(st.integers(0, len(octets) - 1))
    octets[at] ^= data.draw(st.integers(1, 255))
    good = [one for one in scan(bytes(octets)) if isinstance(one, Block)]
    # Where a commit line is spoilt, it is the block behind it too that has no beginning.
    assert len(good) in {1, 2}
    assert all(one.lines in b"".join(made) for one in good)
    assert damages(bytes(octets))


@given(st.data())
def test_a_block_that_is_cut_short_is_unfinished_not_wrong(data: st.DataObject) -> None:
    first, second = blocks([2, 3])
    length = data.draw(st.integers(1, len(second) - 1))
    found = scan(first + second[:length])
    assert isinstance(found[0], Block)
    assert isinstance(found[1], Damage)
    assert found[1].unfinished
    assert (found[1].offset, found[1].end) == (len(first), len(first) + length)
    assert len(found) == 2


def test_zeros_and_junk_are_not_unfinished() -> None:
    for tail in (bytes(4096), b"junk", blocks([1])[0][:50] + bytes(50), b"\n"):
        (damage,) = damages(blocks([2])[0] + tail)
        assert not damage.unfinished, tail


@pytest.mark.parametrize(
    ("octets", "expected", "found"),
    [
        (commit(b"", 0, 0), "a block within its bounds", "0 records from seq 1 in 0 octets"),
        (b"{}\n" + commit(b"{}\n", 5, 1), "a line of this log with seq 5", "'{}\\n'"),
        (block([update(1)])[:-4] + b'X"}\n', "a block and its commit line", None),
        (block([update(1)], 3).replace(b':3,"n"', b':4,"n"'), "a line of this log with seq 4", None),
        (block([update(1)]).replace(b"queue", b"QUEUE"), "octets with CRC", None),
        (b"x" + block([update(1)]), "octets before the commit line", None),
        (block([update(1)]).replace(b'"n":1', b'"n":2'), "a block within its bounds", None),
    ],
)  # fmt: skip
def test_what_contradicts_its_commit_line_is_reported(
    octets: bytes, expected: str, found: str | None
) -> None:
    (damage,) = damages(octets)
    assert expected in damage.expected
    assert found is None or damage.found == found
    assert str(damage).startswith("octet 0: expected ")


def test_lines_of_another_log_are_not_this_ones() -> None:
    line = block([update(1)]).splitlines(keepends=True)[0]
    other = "another-log"
    (damage,) = damages(line + commit(line, 1, 1, other))
    assert damage.expected == "a line of this log with seq 1"


def test_a_commit_line_inside_a_value_is_a_value() -> None:
    inside = {"log_id": LOG_ID, "kind": "_commit", "seq": 1, "n": 1, "len": 1, "crc": "00000000"}
    record = LogRecord(kind=RecordKind.UPDATE, ingest_ts="", values={"a": inside, "b": [inside] * 50})
    (found,) = whole(block([record]))
    assert found.last_seq == 1


def test_many_false_commit_lines_on_one_line_take_linear_time() -> None:
    octets = (b'{"log_id":"x","kind":"_commit","seq":1,' * 50_000) + b"\n"
    (damage,) = damages(octets)
    assert damage.end == len(octets)


def test_octets_without_any_commit_line_are_given_up_at_the_bound_and_the_next_block_is_found() -> None:
    junk = b"x" * (2 * MAX_BLOCK_OCTETS)
    first, second = blocks([1, 1])
    found = scan(first + junk + b"\n" + second + block([update(3)], 3))
    assert [type(one) for one in found] == [Block, Damage, Block]
    assert isinstance(found[1], Damage)
    assert (found[1].offset, found[1].end) == (len(first), len(first + junk + second) + 1)


def test_a_draft_is_full_by_records_and_by_octets() -> None:
    draft = BlockDraft(LOG_ID, 1)
    for number in range(MAX_BLOCK_RECORDS):
        assert not draft.is_full
        draft.add(update(number))
    assert draft.is_full
    (found,) = whole(bytes(draft.seal()))
    assert (found.first_seq, found.last_seq) == (1, MAX_BLOCK_RECORDS)

    large = BlockDraft(LOG_ID, 1)
    while not large.is_full:
        large.add(update(1, padding=MAX_RECORD_OCTETS - 1000))
    assert len(large.lines) <= MAX_BLOCK_OCTETS
    assert len(whole(bytes(large.seal()))) == 1


def test_a_record_that_is_too_large_is_reported_without_its_values() -> None:
    draft = BlockDraft(LOG_ID, 1)
    draft.add(update(1))
    draft.add(update(2, padding=MAX_RECORD_OCTETS))
    (found,) = whole(bytes(draft.seal()))
    reported = msgspec.json.decode(found.split()[1])
    assert reported["object_id"] == "rabbitmq/rabbitmq:queue/3"
    assert "values" not in reported
    assert "too large" in reported["text"]


def test_a_record_that_has_no_form_is_refused_and_leaves_no_trace() -> None:
    draft = BlockDraft(LOG_ID, 1)
    draft.add(update(1))
    for value in (object(), "\ud800"):
        with pytest.raises((TypeError, ValueError)):
            draft.add(LogRecord(kind=RecordKind.UPDATE, ingest_ts="", values={"a": 1, "b": value}))
    draft.add(update(2))
    assert bytes(draft.seal()) == block([update(1), update(2)])


def test_records_of_one_time_are_added_at_once_as_one_by_one() -> None:
    records = [update(number) for number in range(MAX_BLOCK_RECORDS + 7)]
    draft = BlockDraft(LOG_ID, 5)
    assert draft.add_all(records[:3], records[0].ingest_ts, MAX_BLOCK_OCTETS) == 3
    assert draft.add_all(records[3:], records[0].ingest_ts, MAX_BLOCK_OCTETS) == MAX_BLOCK_RECORDS - 3
    assert draft.add_all(records[-1:], records[0].ingest_ts, MAX_BLOCK_OCTETS) == 0
    assert bytes(draft.seal()) == block(records[:MAX_BLOCK_RECORDS], 5)


@pytest.mark.parametrize(
    "special",
    [
        update(3, "2026-11-20T14:05:07.000000Z"),
        update(3, padding=MAX_RECORD_OCTETS),
        msgspec.structs.replace(update(3), values={"a": 1, "b": object()}),
        msgspec.structs.replace(update(3), values={"a": "\ud800"}),
    ],
    ids=["of another time", "too large", "without a form", "no text"],
)
def test_what_is_special_ends_what_is_added_at_once_and_leaves_no_trace(special: LogRecord) -> None:
    records = [update(1), update(2), special, update(4)]
    draft = BlockDraft(LOG_ID, 1)
    assert draft.add_all(records, records[0].ingest_ts, MAX_BLOCK_OCTETS) == 2
    assert draft.add_all(records[2:], records[0].ingest_ts, MAX_BLOCK_OCTETS) == 0
    assert bytes(draft.seal()) == block(records[:2])


def test_what_is_added_at_once_ends_behind_so_many_octets() -> None:
    records = [update(number) for number in range(10)]
    octets = len(block(records[:4])) - len(commit(b"", 4, 4))
    draft = BlockDraft(LOG_ID, 1)
    assert draft.add_all(records, records[0].ingest_ts, octets - 20) == 4
    assert draft.add_all(records[4:], records[0].ingest_ts, 0) == 0
