"""The chain of audited records: numbers, hashes, and a canonical form that the lake gives back."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.eventlog.audit_chain import (
    AuditChain,
    ChainEnd,
    canonical_form,
    chain_begin,
    end_of_chain,
    next_hash,
)
from gateway.eventlog.audit_verification import verify_audit
from gateway.eventlog.block import MAX_RECORD_OCTETS
from gateway.eventlog.compaction import Compactor
from gateway.eventlog.record import AUDITED_KINDS, LogRecord, RecordKind
from gateway.eventlog.segment import compactable, list_segments
from gateway.eventlog.waiting import WaitingRecords
from tests.eventlog.audited import AuditedLog, operation
from tests.eventlog.logs import LOG_ID, lines_of, segment
from tests.eventlog.plant import Plant
from tests.eventlog.reading import of_kind, read_log
from tests.eventlog.records import update
from tests.hypothesis_profiles import examples

TIME = "2026-11-20T14:05:06.000000Z"

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
MAPS: st.SearchStrategy[dict[str, object]] = st.dictionaries(TEXTS, VALUES, max_size=4)


@st.composite
def operations(draw: st.DrawFn) -> LogRecord:
    """Any record of an operation."""
    optional = st.none() | TEXTS
    return LogRecord(
        kind=draw(st.sampled_from(sorted(AUDITED_KINDS - {RecordKind.START}))),
        ingest_ts=TIME,
        source=draw(optional),
        class_name=draw(optional),
        text=draw(optional),
        create_ts=draw(st.none() | st.just("1969-07-20T20:17:40.000001Z")),
        inferred=draw(st.none() | st.booleans()),
        principal=draw(optional),
        values=draw(st.none() | MAPS),
        absent=draw(st.none() | st.lists(TEXTS, max_size=3)),
        found=draw(st.none() | MAPS),
        code=draw(st.none() | st.integers(-(2**63), 2**63 - 1)),
        row=draw(st.none() | st.integers(0, 2**31)),
    )


def test_the_line_without_its_last_field_is_what_is_hashed() -> None:
    waiting = WaitingRecords(LOG_ID, 7, 100)
    waiting.add(update(1))
    waiting.add(operation(1, TIME))
    waiting.add(operation(2, TIME))
    batch = waiting.take()
    assert batch is not None
    lines = bytes(batch.blocks[0]).splitlines()[1:3]
    before = hashlib.sha256(f"amqp-gateway audit chain 1 {LOG_ID}".encode()).digest()
    for number, line in enumerate(lines, 1):
        assert json.loads(line)["audit"] == number
        hashed, _, digest = line.partition(b',"audit_hash":')
        before = hashlib.sha256(before + hashed + b"}").digest()
        assert digest == b'"%s"}' % before.hex().encode()
    assert batch.chain_end == ChainEnd(2, before.hex())


def test_the_end_of_a_chain_is_found_in_lines_although_values_have_the_same_name() -> None:
    waiting = WaitingRecords(LOG_ID, 1, 100)
    waiting.add(operation(1, TIME))
    waiting.add(msgspec.structs.replace(update(1), values={"audit": 9, "audit_hash": "ff"}))
    batch = waiting.take()
    assert batch is not None
    lines = bytes(batch.blocks[0]).splitlines()
    assert end_of_chain(reversed(lines)) == batch.chain_end
    assert end_of_chain([b'{"audit_hash":"', b"no line", b'{"audit":1,"audit_hash":""}']) is None


@pytest.mark.parametrize("before", ["", "00", "z" * 64, "0 " * 32, " " + "0" * 63])
def test_what_is_no_hash_is_refused(before: str) -> None:
    with pytest.raises(ValueError, match=r"hex"):
        next_hash(before, b"")


def test_a_record_without_a_form_in_json_leaves_the_chain_as_it_was() -> None:
    chain = AuditChain(LOG_ID)
    with pytest.raises((TypeError, ValueError)):
        chain.linked(LogRecord(kind=RecordKind.LOGIN, ingest_ts=TIME, values={"x": object()}), 1)
    assert chain.end == chain_begin(LOG_ID)


def test_a_record_that_is_too_large_is_chained_without_its_values_but_with_who_did_what() -> None:
    large = msgspec.structs.replace(operation(1, TIME), values={"x": "y" * MAX_RECORD_OCTETS})
    waiting = WaitingRecords(LOG_ID, 1, 100)
    waiting.add(large)
    batch = waiting.take()
    assert batch is not None
    line = bytes(batch.blocks[0]).splitlines()[0]
    record = json.loads(line)
    assert (record["audit"], record["principal"], record["outcome"]) == (1, "jmx:operator", "applied")
    assert "too large" in record["text"]
    assert record["audit_hash"] == next_hash(chain_begin(LOG_ID).hash, canonical_form(record))


@contextmanager
def chained_log(records: list[LogRecord]) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        chain = AuditChain(LOG_ID)
        linked = [chain.linked(record, seq) for seq, record in enumerate(records, 1)]
        segment(Path(folder), 1, linked)
        yield Path(folder)


@settings(max_examples=max(examples() // 20, 15), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(operations(), min_size=1, max_size=5))
def test_the_canonical_form_is_the_same_on_the_line_and_in_the_lake(records: list[LogRecord]) -> None:
    with chained_log(records) as folder:
        chain = AuditChain(LOG_ID)
        for seq, (record, line) in enumerate(
            zip(records, lines_of(list_segments(folder)[0].path), strict=True), 1
        ):
            before = chain.end.hash
            chain.linked(record, seq)
            assert next_hash(before, canonical_form(line)) == chain.end.hash
        assert verify_audit(folder, {}).problems == []
        with Compactor(folder) as compactor:
            for waiting in compactable(folder):
                compactor.compact(waiting)
        report = verify_audit(folder, {})
        assert (report.problems, report.chains[0].records) == ([], len(records))


async def test_the_chain_goes_on_after_a_restart_and_after_a_crash(tmp_path: Path) -> None:
    log = AuditedLog(tmp_path)
    await log.write(2)
    end = read_log(log.folder)[-2]
    async with log.plant.log() as writer:
        assert writer.audited[0].number == end["audit"] + 1, "the start of the segment"
        await log.hour(writer)
        # As a crash leaves it: the file LOG does not know the open segment, half a block is behind it.
        copy = tmp_path / "crashed" / "log"
        copy.parent.mkdir()
        shutil.copytree(log.folder, copy)
    open_segment = list_segments(copy)[-1]
    assert open_segment.is_open
    with open_segment.path.open("ab") as file:
        file.write(b'{"log_id":"half a line')
    crashed = AuditedLog(tmp_path / "crashed")
    crashed.key, crashed.heads, crashed.plant.clock = log.key, log.heads, log.plant.clock
    async with crashed.plant.log() as writer:
        assert writer.recovered
        await crashed.hour(writer)
    assert crashed.faults() == []
    crashed.compact()
    assert crashed.faults() == []


async def test_each_segment_says_where_the_chain_stands(tmp_path: Path) -> None:
    log = AuditedLog(tmp_path)
    await log.write(2)
    first, second = of_kind(read_log(log.folder), "start")
    assert first["values"]["audit"] == {"number": 0, "hash": chain_begin(first["log_id"]).hash}
    assert second["values"]["audit"]["number"] == 4
    assert second["audit"] == 5


async def test_audited_records_that_the_disk_did_not_take_are_distinguished_from_tampering(
    tmp_path: Path,
) -> None:
    plant = Plant(tmp_path)
    waiting = WaitingRecords(LOG_ID, 1, 40)
    for _ in range(3):
        waiting.lose(RecordKind.OPERATION, TIME, TIME)
    waiting.lose(RecordKind.UPDATE, TIME, TIME)
    assert waiting.take_lost_audited() == {"operation": 3}
    assert waiting.take_lost_audited() == {}
    log = AuditedLog(tmp_path)
    async with plant.log() as writer:
        writer._waiting.lose(RecordKind.LOGIN, TIME, TIME)  # noqa: SLF001  as when too many wait
        plant.clock.time += 3600 * 10**9
        writer.append(operation(1, "2026-11-20T15:05:06.000000Z"))
    report = log.verified()
    assert report.problems == []
    assert report.chains[0].lost == {"login": 1}
