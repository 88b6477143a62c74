"""Whatever is done to a log with audited records is found: in segments, in the lake, and after retention."""

from __future__ import annotations

import dataclasses
import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from gateway.eventlog.audit_chain import canonical_form, next_hash
from gateway.eventlog.audit_statements import AuditKey, Head, line_of, read_statement
from gateway.eventlog.audit_verification import MAX_PROBLEMS, Fault
from gateway.eventlog.retention import EVERYTHING, look_at, stored
from gateway.eventlog.segment import identity_path, lake_file, lake_files, list_segments
from tests.components.waiting import until
from tests.eventlog.audited import AuditedLog, operation, renumbered, rewritten
from tests.eventlog.logs import segment, written_again

Records = list[dict[str, Any]]


@pytest.fixture(params=["segments", "lake"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AuditedLog:
    """A log of four hours, of segments only, or of files of the lake and one segment."""
    made = AuditedLog(tmp_path)
    await made.write()
    if request.param == "lake":
        made.compact(but=1)
    return made


def change(log: AuditedLog, place: int, how: Callable[[Records], Records]) -> None:
    """Change the records of the file of an hour, wherever it is, with right seqs and checksums."""
    files = lake_files(log.folder)
    if not files:
        rewritten(list_segments(log.folder)[place].path, how)
        return
    file = files[place]
    lines = file.path.with_suffix(".lines")
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        found = database.execute(
            "SELECT * FROM read_parquet($1, hive_partitioning = false)", [str(file.path)]
        )
        names = [column[0] for column in found.description]
        types = [str(column[1]) for column in found.description]
        changed = how([dict(zip(names, row, strict=True)) for row in found.fetchall()])
        columns = ", ".join(f'"{name}" {kind}' for name, kind in zip(names, types, strict=True))
        database.execute(f"CREATE TABLE changed ({columns})")
        marks = ", ".join("?" * len(names))
        database.executemany(
            f"INSERT INTO changed VALUES ({marks})",  # noqa: S608  ours
            [[row[name] for name in names] for row in changed],
        )
        database.execute(f"COPY changed TO '{lines}' (FORMAT parquet)")
    lines.replace(file.path)


def bound_size(log: AuditedLog, part: float) -> None:
    """Let the log have only a part of the size that it has."""
    max_size = int(stored(log.folder).octets * part)
    log.plant.settings = dataclasses.replace(log.plant.settings, max_size=max_size)


def of_kind(records: Records, kind: str) -> list[int]:
    return [place for place, record in enumerate(records) if record["kind"] == kind]


def test_a_log_as_it_was_written_is_whole(log: AuditedLog) -> None:
    report = log.verified()
    assert report.problems == []
    (chain,) = report.chains
    assert (chain.records, chain.first, chain.last, chain.heads, chain.signed) == (16, 1, 16, 4, 16)
    assert chain.first_ts == "2026-11-20T14:05:06.000000Z"
    assert (chain.deleted, chain.before_chain, chain.lost) == ("", 0, {})


def test_a_record_that_was_removed_is_missed(log: AuditedLog) -> None:
    def remove(records: Records) -> Records:
        del records[of_kind(records, "operation")[1]]
        return records

    change(log, 1, remove)
    (problem,) = log.verified().problems
    assert problem.text.startswith("audit record 7 is missing, between 2026-11-20T15:05:10.000000Z (seq ")


def test_a_record_that_was_removed_and_whose_followers_were_renumbered_is_missed(log: AuditedLog) -> None:
    def remove(records: Records) -> Records:
        del records[of_kind(records, "operation")[1]]
        return renumbered(records)

    change(log, 1, remove)
    assert log.faults() == ["missing"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("principal", "jmx:another"),
        ("outcome", "refused"),
        ("origin", None),
        ("values", {"maxLength": 1}),
        ("ingest_ts", "2026-11-20T15:05:10.500000Z"),
        ("audit_hash", "0" * 64),
        ("audit_hash", "no hash"),
        ("text", "a text that was not there"),
    ],
)
def test_a_record_that_was_changed_is_found(log: AuditedLog, field: str, value: object) -> None:
    def falsify(records: Records) -> Records:
        is_lake = "row" in records[0] and records[0]["row"] is None
        stored = msgspec.json.encode(value).decode() if is_lake and field == "values" else value
        records[of_kind(records, "operation")[1]][field] = stored
        return records

    change(log, 1, falsify)
    faults = log.faults()
    assert faults[0] == "changed"
    assert set(faults) <= {"changed", "rewritten"}


def test_records_that_changed_places_are_found(log: AuditedLog) -> None:
    def swap(records: Records) -> Records:
        first, second, _ = of_kind(records, "operation")
        records[first], records[second] = records[second], records[first]
        return renumbered(records)

    change(log, 1, swap)
    assert "reordered" in log.faults()


def test_a_record_that_was_added_or_robbed_of_its_number_is_found(log: AuditedLog) -> None:
    def rob(records: Records) -> Records:
        for place in of_kind(records, "operation")[:1]:
            records[place]["audit"] = records[place]["audit_hash"] = None
        return records

    change(log, 1, rob)
    assert log.faults() == ["added", "missing"]


def test_a_copy_of_a_record_is_found(log: AuditedLog) -> None:
    def copy(records: Records) -> Records:
        first = of_kind(records, "operation")[0]
        return renumbered([*records, dict(records[first])])

    change(log, 2, copy)
    assert "reordered" in log.faults()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_file_that_was_removed_is_missed(log: AuditedLog, place: int) -> None:
    files = lake_files(log.folder) or list_segments(log.folder)
    files[place].path.unlink()
    (problem,) = log.verified().problems
    assert problem.fault.value == "missing"
    first, last = place * 4 + 1, place * 4 + 4
    assert problem.text.startswith(f"audit records {first} to {last} are missing")
    if not place:
        assert "does not state that it deleted them" in problem.text


def test_a_chain_that_was_computed_again_does_not_have_the_signed_hashes(log: AuditedLog) -> None:
    """The strongest attack without the key: all records from there on are made again, with right hashes."""
    for each in list_segments(log.folder)[-1:]:

        def forge(records: Records) -> Records:
            before = records[0]["values"]["audit"]["hash"]
            for record in records:
                if record.get("principal"):
                    record["principal"] = "jmx:innocent"
                if "audit" in record:
                    before = record["audit_hash"] = next_hash(before, canonical_form(record))
            return records

        rewritten(each.path, forge)
    assert log.faults() == ["rewritten"]
    assert log.faults(with_heads=False) == []


def test_a_tail_that_was_cut_off_is_missed_by_its_head(log: AuditedLog) -> None:
    list_segments(log.folder)[-1].path.unlink()
    (problem,) = log.verified().problems
    assert problem.fault.value == "cut-off"
    assert "a head of 2026-11-20T17:05:18.000000Z is signed for record 16" in problem.text
    (problem,) = log.verified(with_heads=False).problems
    assert "its file LOG knows record 16" in problem.text


def test_a_tail_that_was_cut_off_in_a_file_is_missed(log: AuditedLog) -> None:
    rewritten(list_segments(log.folder)[-1].path, lambda records: records[:-2])
    assert log.faults() == ["cut-off"]


async def test_a_part_of_another_log_does_not_fit(tmp_path: Path) -> None:
    log, other = AuditedLog(tmp_path / "one"), AuditedLog(tmp_path / "other")
    await log.write()
    await other.write()
    log_id = msgspec.json.decode(identity_path(log.folder).read_bytes())["log_id"]
    taken = list_segments(other.folder)[1].path
    rewritten(taken, lambda records: [{**record, "log_id": log_id} for record in records])
    shutil.copy(taken, list_segments(log.folder)[1].path)
    assert set(log.faults()) == {"changed", "rewritten"}


async def test_a_log_that_is_gone_is_missed_by_its_heads(tmp_path: Path) -> None:
    log, other = AuditedLog(tmp_path / "one"), AuditedLog(tmp_path / "other")
    await log.write(1)
    await other.write(1)
    log.heads += [line_of(log.key.head("g", "another-log", 7, 9, "0" * 64, "2026-11-20T14:00:00.000000Z"))]
    (problem,) = log.verified().problems
    assert (problem.fault.value, problem.log_id) == ("cut-off", "another-log")
    assert "the log has none at all" in problem.text


def test_a_head_that_was_changed_or_is_of_another_key_proves_nothing(log: AuditedLog) -> None:
    head = read_statement(log.heads[0])
    assert isinstance(head, Head)
    changed = line_of(msgspec.structs.replace(head, audit=3))
    other = AuditKey.generate()
    foreign = line_of(other.head(head.gateway, head.log_id, head.audit, head.seq, head.hash, head.time))
    log.heads += [changed, foreign, foreign, "no head", "{}", '{"form":"amqp-gateway-head-1"}']
    problems = log.verified().problems
    assert {problem.fault.value for problem in problems} == {"signature"}
    texts = [problem.text for problem in problems]
    assert texts[0] == "heads: line 5: its signature is wrong: it was changed or forged"
    assert texts[-1].startswith(f"heads: line 6: is signed with another key ({other.fingerprint})")
    assert [text.partition(": is no signed statement")[0] for text in texts[1:-1]] == [
        "heads: line 8",
        "heads: line 9",
        "heads: line 10",
    ], "a key that is not known is reported once"


def test_two_heads_that_contradict_each_other_are_reported(log: AuditedLog) -> None:
    head = read_statement(log.heads[0])
    assert isinstance(head, Head)
    log.heads.append(line_of(log.key.head("g", head.log_id, head.audit, head.seq, "0" * 64, head.time)))
    (problem,) = log.verified().problems
    assert (problem.fault.value, problem.text.partition(":")[0]) == ("rewritten", "heads")


def test_a_file_of_the_lake_that_another_program_wrote_is_as_good(log: AuditedLog) -> None:
    for file in lake_files(log.folder):
        written_again(file.path)
    assert log.faults() == []


async def test_what_retention_deletes_is_stated_and_what_is_deleted_besides_is_missed(tmp_path: Path) -> None:
    log = AuditedLog(tmp_path)
    await log.write(5)
    log.compact(but=1)
    bound_size(log, 0.7)
    async with log.plant.log() as writer:
        writer.sign_deletion = log.deletion
        await until(lambda: len(lake_files(log.folder)) < 4, "files are deleted for the size of all")
        await log.hour(writer)
    report = log.verified()
    assert report.problems == []
    (chain,) = report.chains
    assert chain.first > 1
    assert chain.deleted.startswith(f"audit records 1 to {chain.first - 1} were deleted for their age")
    log.compact()
    assert log.faults() == []

    lake_files(log.folder)[0].path.unlink()
    (problem,) = log.verified().problems
    assert problem.fault.value == "missing"
    assert "does not state that it deleted them (it states this of what is before seq" in problem.text


async def test_the_begin_of_what_retention_left_cannot_be_hidden(tmp_path: Path) -> None:
    log = AuditedLog(tmp_path)
    await log.write(4)
    bound_size(log, 0.7)
    async with log.plant.log() as writer:
        writer.sign_deletion = log.deletion
        await until(lambda: len(list_segments(log.folder)) < 4, "files are deleted for the size of all")
        await log.hour(writer)
    assert log.faults() == []

    def hide(records: Records) -> Records:
        for place in [*of_kind(records, "start"), of_kind(records, "operation")[0]]:
            del records[place]["audit"], records[place]["audit_hash"]
        return records

    rewritten(list_segments(log.folder)[0].path, hide)
    (problem,) = log.verified().problems
    assert "removed or robbed of their numbers" in problem.text


async def test_the_statement_of_a_deletion_names_what_remains_and_never_what_comes_later(
    tmp_path: Path,
) -> None:
    log = AuditedLog(tmp_path)
    await log.write(4)
    first, second, *_ = list_segments(log.folder)
    log_id = msgspec.json.decode(identity_path(log.folder).read_bytes())["log_id"]
    next_seq = msgspec.json.decode(identity_path(log.folder).read_bytes())["next_seq"]
    assert first.first_seq == 1
    former = log.folder / "lake/dt=2026-11-20/hour=08" / f"former-{1:020}.parquet"
    former.parent.mkdir(parents=True)
    former.write_bytes(bytes(10))
    held = stored(log.folder).octets
    settings = dataclasses.replace(log.plant.settings, max_size=held - 11)
    _, excess = look_at(log.folder, settings, log.plant.clock.time)
    assert excess is not None
    assert excess.begins == {"former": EVERYTHING, log_id: second.first_seq}
    _, excess = look_at(log.folder, dataclasses.replace(settings, max_size=1), log.plant.clock.time)
    assert excess is not None
    assert excess.begins == {"former": EVERYTHING, log_id: next_seq}


async def test_a_statement_of_a_deletion_cannot_be_made_without_the_key(tmp_path: Path) -> None:
    log = AuditedLog(tmp_path)
    await log.write(2)
    list_segments(log.folder)[0].path.unlink()
    forger = AuditKey.generate()
    log_id = msgspec.json.decode(identity_path(log.folder).read_bytes())["log_id"]
    statement = line_of(forger.deletion("g", log_id, 10**6, "2026-11-20T16:00:00.000000Z"))
    async with log.plant.log() as writer:
        writer.sign_deletion = lambda _log_id, _seq: statement
        await writer._state_deletion({log_id: 10**6})  # noqa: SLF001  as the writer itself does before it deletes
    assert log.faults() == ["signature", "missing"]


async def test_a_log_of_an_earlier_version_has_nothing_to_verify(tmp_path: Path) -> None:
    log = AuditedLog(tmp_path)
    records = [operation(number, "2026-11-20T08:00:00.000000Z") for number in range(5)]
    segment(log.folder, 1, records)
    report = log.verified()
    assert report.problems == []
    (chain,) = report.chains
    assert (chain.records, chain.before_chain) == (0, 5)


def test_problems_are_bounded(log: AuditedLog) -> None:
    log.heads = ["no head"] * (MAX_PROBLEMS + 10)
    assert len(log.faults()) == MAX_PROBLEMS


async def test_a_row_that_one_file_of_the_lake_has_twice(tmp_path: Path) -> None:
    log = AuditedLog(tmp_path)
    await log.write(2)
    log.compact()
    path = next(file.path for file in lake_files(log.folder))
    doubled = tmp_path / "doubled.parquet"
    rows = f"FROM read_parquet('{path}', hive_partitioning = false)"
    twice = f"{rows} UNION ALL {rows} WHERE audit = 2"
    duckdb.connect().sql(f"COPY ({twice} ORDER BY seq) TO '{doubled}' (FORMAT parquet)")
    doubled.rename(path)
    (problem,) = log.verified().problems
    assert (problem.fault, "audit record 2 (" in problem.text) == (Fault.REORDERED, True)
    assert str(path) in problem.text


@pytest.mark.parametrize(("seqs", "hours"), [(1, 0), (1, 1), (0, 1)])
async def test_a_file_of_the_lake_that_is_there_twice(tmp_path: Path, seqs: int, hours: int) -> None:
    log = AuditedLog(tmp_path)
    await log.write(2)
    log.compact()
    assert log.verified().problems == []
    file = lake_files(log.folder)[0]
    hour = file.hour + dt.timedelta(hours=hours)
    copy = lake_file(log.folder, file.log_id, file.first_seq + seqs, hour).path
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file.path, copy)
    problems = log.verified().problems
    assert {problem.fault for problem in problems} == {Fault.REORDERED}
    for path in (file.path, copy):
        assert all(str(path) in problem.text for problem in problems)
