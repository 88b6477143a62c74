"""``amqp-gateway log`` over logs as the writer and the compactor leave them."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.eventlog.compaction import Compactor
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.segment import (
    LogIdentity,
    compactable,
    identity_path,
    lake_file,
    lake_files,
    list_segments,
)
from gateway.service.processes.exit_codes import ExitCode
from gateway.table_widths import fitting
from tests.components.command_line import COMMAND, Ended, Site, amqp_gateway, environment
from tests.components.waiting import DEADLINE, wait_until
from tests.eventlog.logs import HOUR, LOG_ID, blocks, lines_of, segment, some_segments, update

NASTY = "/|a\x1b[2Jb"
EVENT = LogRecord(
    kind=RecordKind.EVENT,
    ingest_ts="2026-11-20T08:00:01.000000Z",
    source="orders",
    package="rabbitmq",
    class_name="queue",
    object_name=NASTY,
    event="queueGrows",
    severity="warning",
    state="raised",
    text="the queue grows",
)
SNAPSHOT = LogRecord(kind=RecordKind.SNAPSHOT, ingest_ts="2026-11-20T08:00:01.000000Z", source="orders")


def command(*arguments: str | Path) -> Ended:
    """Run a command in this process: its effect is the same, and no interpreter has to be started for it."""
    result = CliRunner().invoke(main, ["log", *map(str, arguments)])
    return Ended(ExitCode(result.exit_code), result.stdout, result.stderr)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Records 1 to 25 in the lake, 26 to 50 in a complete segment, 51 to 57 in the open one."""
    folder = tmp_path / "log"
    some_segments(folder, 2)
    identity = LogIdentity(version=1, log_id=LOG_ID, next_seq=51)
    identity_path(folder).write_text(identity.text(), encoding="utf-8")
    with Compactor(folder) as compactor:
        compactor.compact(compactable(folder)[0])
    segment(folder, 51, [*map(update, range(51, 56)), SNAPSHOT, EVENT], is_open=True)
    return folder


def flip(path: Path, near: bytes) -> None:
    octets = bytearray(path.read_bytes())
    octets[octets.index(near) + 60] ^= 1
    path.write_bytes(octets)


# -- which log


def test_the_log_is_that_of_the_configuration(site: Site) -> None:
    some_segments(site.folder / "elsewhere", 1)
    site.configure(log={"folder": "elsewhere"})
    found = command("tail", "--config", site.configuration, "-n", "2", "--json")
    assert [json.loads(line)["seq"] for line in found.output.splitlines()] == [24, 25]


@pytest.mark.parametrize("name", ["tail", "query", "verify", "compact"])
def test_without_a_log_each_says_what_to_do(tmp_path: Path, name: str) -> None:
    (tmp_path / "of somebody else").mkdir()
    for folder in ("nowhere", "of somebody else"):
        ended = command(name, "--folder", tmp_path / folder)
        assert (ended.code, ended.output) == (ExitCode.STATE, "")
        assert "there is no event log" in ended.reported[0]
        assert "--folder" in ended.reported[0]
    assert not any((tmp_path / "of somebody else").iterdir())


# -- tail


def test_tail_shows_what_happened_last(log: Path) -> None:
    numbers, change = command("tail", "--folder", log, "-n", "2").output.splitlines()
    assert numbers == (
        "2026-11-20 08:00:00.055  update     orders queue /|queue-6  "
        "messages=55 published=18446744073709551560 (+55) absent: consumerUtilisation"
    )
    assert change == (
        "2026-11-20 08:00:01.000  event      orders warning queueGrows raised queue "
        "/|a\\x1b[2Jb  the queue grows"
    )


def test_tail_shows_how_things_stand_where_it_is_asked_to(log: Path) -> None:
    for option in ("--all", "--kind=snapshot"):
        assert "snapshot" in command("tail", "--folder", log, option).output


@pytest.mark.parametrize(
    ("options", "seqs"),
    [
        (("--event", "queueGrows"), [57]),
        (("--severity", "warning", "--kind", "event"), [57]),
        (("--object", "/|queue-3", "-n", "2"), [45, 52]),
        (("--class", "rabbitmq:queue", "--kind", "update", "-n", "1"), [55]),
        (("--source", "others"), []),
    ],
)
def test_tail_shows_what_is_chosen(log: Path, options: tuple[str, ...], seqs: list[int]) -> None:
    lines = command("tail", "--folder", log, "--json", *options).output.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == seqs


def test_tail_prints_lines_as_they_are(log: Path) -> None:
    found = command("tail", "--folder", log, "--json", "--all", "-n", "3").output
    path = log / "segments" / f"{51:020}.open.jsonl"
    assert found.encode() == b"".join(path.read_bytes().splitlines(keepends=True)[4:7])


def test_tail_says_what_is_damaged(log: Path) -> None:
    flip(log / "segments" / f"{26:020}.jsonl", b'"seq":40')
    ended = command("tail", "--folder", log, "-n", "40")
    assert ended.code is ExitCode.OK
    assert "CRC" in ended.errors
    assert "log verify" in ended.errors


@contextmanager
def following(log: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    arguments = [*COMMAND, "log", "tail", "--folder", str(log), "--follow", *options]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment()) as process:  # noqa: S603  our own command
        try:
            yield process
        finally:
            process.terminate()


def test_tail_follows_over_rotation(log: Path) -> None:
    with following(log, "--json", "-n", "1") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["seq"] == 57
        path = log / "segments" / f"{51:020}.open.jsonl"
        with path.open("ab") as file:
            file.writelines(blocks(58, [update(58)]))
        assert json.loads(process.stdout.readline())["seq"] == 58
        path.rename(log / "segments" / f"{51:020}.jsonl")
        segment(log, 59, [update(59)], is_open=True)
        assert json.loads(process.stdout.readline())["seq"] == 59


# -- query


def test_a_command_gives_way_where_the_process_is_its_own(log: Path) -> None:
    said_at_the_end = "import atexit, os; atexit.register(lambda: print(os.nice(0)))"
    program = f"{said_at_the_end}; from gateway.cli.main import main; main()"
    before = os.nice(0)

    for name in ("verify", "query"):
        alone = amqp_gateway("log", name, "--folder", log, program=(sys.executable, "-c", program))
        assert alone.output.splitlines()[-1] == str(min(before + 10, 19)), alone.errors
        command(name, "--folder", log)
        assert os.nice(0) == before


def test_query_answers_sql_as_a_table(log: Path) -> None:
    ended = command(
        "query", "--folder", log, "SELECT kind, count(*) AS n FROM log GROUP BY kind ORDER BY n DESC"
    )
    assert ended.code is ExitCode.OK
    assert [line.split() for line in ended.output.splitlines() if line.strip(" ─")] == [
        ["kind", "n"],
        ["update", "55"],
        ["snapshot", "1"],
        ["event", "1"],
    ]


def test_query_answers_in_json_with_all_digits(log: Path) -> None:
    sql = 'SELECT seq, "values", absent, sum(seq) OVER () AS total FROM log WHERE seq IN (1, 5) ORDER BY seq'
    found = command("query", "--folder", log, "--json", sql).output.splitlines()
    assert [json.loads(line) for line in found] == [
        {"seq": 1, "values": {"messages": 1, "published": 2**64 - 2}, "absent": None, "total": 6},
        {
            "seq": 5,
            "values": {"messages": 5, "published": 2**64 - 6},
            "absent": ["consumerUtilisation"],
            "total": 6,
        },
    ]


def test_query_without_sql_reports_records_of_a_time_as_lines(log: Path) -> None:
    bounds = ("--from", "2026-11-20T08:00:00.020", "--to", "2026-11-20T09:00:00.030+01:00")
    found = command("query", "--folder", log, "--json", *bounds).output.splitlines()
    in_segment = lines_of(log / "segments" / f"{26:020}.jsonl")[:4]
    assert [json.loads(line)["seq"] for line in found] == list(range(20, 30))
    assert [json.loads(line) for line in found][6:] == in_segment


def test_query_of_the_last_hour(tmp_path: Path) -> None:
    now = dt.datetime.now(tz=dt.UTC)
    times = [now - dt.timedelta(hours=2), now - dt.timedelta(minutes=30)]
    records = [
        LogRecord(kind=RecordKind.GAP, ingest_ts=f"{time:%Y-%m-%dT%H:%M:%S.%fZ}", text=str(number))
        for number, time in enumerate(times)
    ]
    for number, record in enumerate(records, start=1):
        segment(tmp_path, number, [record])
    found = command("query", "--folder", tmp_path, "--last", "1h", "--json").output.splitlines()
    assert [json.loads(line)["text"] for line in found] == ["1"]


def test_query_chooses_records_and_writes_csv(log: Path) -> None:
    found = command("query", "--folder", log, "--csv", "--event", "queueGrows").output
    (row,) = csv.DictReader(io.StringIO(found))
    assert (row["seq"], row["object_name"], row["lost"]) == ("57", r"/|a\x1b[2Jb", "")
    assert row["ingest_ts"] == "2026-11-20T08:00:01.000000Z"


def test_query_shows_no_control_sequence_of_a_terminal(log: Path) -> None:
    found = command("query", "--folder", log, "--event", "queueGrows").output
    assert "\\x1b[2J" in found
    assert "\x1b" not in found


def test_a_narrow_table_has_a_line_for_each_row_and_leaves_columns_out() -> None:
    names = ["ingest_ts", "name", "n", "text", "values"]
    texts = [["2026-11-20T08:00:00.000000Z", "q" * 30, "12345", "words " * 9, "{}" * 20]]
    rows: list[tuple[object, ...]] = [(dt.datetime.now(tz=dt.UTC), "q" * 30, 12345, "words " * 9, "{}" * 20)]
    assert fitting(names, texts, rows, 1000) == {0: 27, 1: 30, 2: 5, 3: 54, 4: 40}
    assert fitting(names, texts, rows, 120) == {0: 27, 1: 24, 2: 5, 3: 24, 4: 24}
    assert fitting(names, texts, rows, 62) == {0: 27, 1: 22, 2: 5}
    assert fitting(names, texts, rows, 62, ("n", "values")) == {0: 27, 1: 13, 3: 13}
    assert list(fitting(names, texts, rows, 5)) == [0]


def test_query_says_which_copy_it_passes_over(log: Path) -> None:
    (file,) = lake_files(log)
    copy = lake_file(log, file.log_id, file.first_seq, file.hour + dt.timedelta(hours=1)).path
    copy.parent.mkdir(parents=True)
    shutil.copy(file.path, copy)
    ended = command("query", "--folder", log, "--csv", "SELECT count(*) AS n FROM log")
    assert (ended.code, ended.output.split()) == (ExitCode.OK, ["n", "57"])
    (said,) = ended.reported
    remark = "passed over: another file of the lake has its records: see amqp-gateway log verify"
    assert said in {f"amqp-gateway: {path}: {remark}" for path in (file.path, copy)}


def test_query_says_when_a_table_is_cut(log: Path) -> None:
    ended = command("query", "--folder", log, "-n", "3", "FROM log")
    assert "first 3 rows" in ended.errors
    whole = command("query", "--folder", log, "-n", "0", "FROM log SELECT seq")
    assert (whole.errors, len(whole.output.split())) == ("", 59)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("SELEKT",), "syntax error"),
        (("DELETE FROM log",), "only read"),
        (("FROM log", "--kind", "event"), "WHERE"),
        (("--last", "yesterday"), "90s, 15min, 24h or 7d"),
        (("--from", "noon"), "2026-11-20T14:05"),
        (("--last", "1h", "--from", "2026-11-20"), "--last and --from exclude each other"),
        (("--json", "--csv"), "--json and --csv exclude each other"),
        (("--kind", "surprise"), "surprise"),
    ],
)
def test_query_says_what_is_wrong_with_it(log: Path, arguments: tuple[str, ...], why: str) -> None:
    ended = command("query", "--folder", log, *arguments)
    assert (ended.code, ended.output) == (ExitCode.USAGE, "")
    assert why in ended.errors


def test_query_of_a_damaged_log_says_what_to_do(log: Path) -> None:
    path = log / "segments" / f"{26:020}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"kind":"update"', b'"kind:"update"', 1))
    ended = command("query", "--folder", log, "SELECT count(seq) FROM log")
    assert ended.code is ExitCode.STATE
    assert "log compact" in ended.errors


def test_ctrl_c_ends_a_query_at_once(log: Path) -> None:
    endless = "SELECT sum(a.range * b.range) FROM range(100000000) a, range(1000000) b"
    arguments = [*COMMAND, "log", "query", "--folder", str(log), endless]
    with subprocess.Popen(  # noqa: S603  our own command
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        try:
            used = psutil.Process(process.pid)
            wait_until(lambda: used.num_threads() > 2, "DuckDB is at work")
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
    assert (process.returncode, output, errors) == (ExitCode.INTERRUPTED, b"", b"")


# -- verify


def test_verify_of_a_good_log(log: Path) -> None:
    ended = command("verify", "--folder", log)
    assert ended.code is ExitCode.OK
    assert ended.output.splitlines()[1:] == [f"log {LOG_ID}: seq 1 to 57", "everything is as it was written"]
    assert "57 records in 1 files of the lake and 2 segments" in ended.output


def test_verify_of_a_damaged_log(log: Path) -> None:
    path = log / "segments" / f"{26:020}.jsonl"
    flip(path, b'"seq":40')
    ended = command("verify", "--folder", log)
    assert ended.code is ExitCode.DIFFERENCE
    assert ended.output.splitlines()[0].startswith(f"{path}: octet ")
    assert ended.output.splitlines()[-1] == "problems: 1"


def test_verify_for_programs(log: Path) -> None:
    flip(log / "segments" / f"{26:020}.jsonl", b'"seq":40')
    ended = command("verify", "--folder", log, "--json")
    problem, sums = map(json.loads, ended.output.splitlines())
    assert (ended.code, problem["offset"] > 0, sums["problems"]) == (ExitCode.DIFFERENCE, True, 1)
    assert (sums["records"], sums["last_seq"]) == (47, {LOG_ID: 57})


# -- compact


def test_compact_makes_parquet_of_all_that_is_complete(log: Path) -> None:
    ended = command("compact", "--folder", log)
    assert ended.code is ExitCode.OK
    file = f"lake/dt={HOUR:%Y-%m-%d}/hour={HOUR:%H}/{LOG_ID}-{26:020}.parquet"
    assert ended.output.startswith(f"1 of 1: {26:020}.jsonl: 25 records, ")
    assert ended.output.endswith(f" in {file}\n")
    assert (log / file).exists()
    assert command("compact", "--folder", log).output == "no segment is waiting\n"
    assert command("verify", "--folder", log).code is ExitCode.OK


def test_compact_leaves_what_the_next_start_goes_on_from(log: Path) -> None:
    identity = LogIdentity(version=1, log_id=LOG_ID, next_seq=51, standing_seq=26)
    identity_path(log).write_text(identity.text(), encoding="utf-8")
    ended = command("compact", "--folder", log)
    assert (ended.code, list_segments(log)[0].first_seq) == (ExitCode.OK, 26)
    assert ended.output == "no segment is waiting but 1, which the next start reads: --all compacts it, too\n"
    assert command("compact", "--all", "--folder", log).output.startswith(f"1 of 1: {26:020}.jsonl: ")


def test_compact_reports_what_is_damaged(log: Path) -> None:
    flip(log / "segments" / f"{26:020}.jsonl", b'"seq":40')
    ended = command("compact", "--folder", log)
    assert ended.code is ExitCode.DIFFERENCE
    assert "is damaged (octet " in ended.output
    assert "15 records" in ended.output
    assert f"lost/{26:020}.damaged.jsonl" in ended.output


def test_compact_says_what_waits_still(log: Path) -> None:
    (log / "lake" / "dt=2026-11-20" / "hour=08" / f"{LOG_ID}-{26:020}.parquet").mkdir()
    ended = command("compact", "--folder", log)
    assert ended.code is ExitCode.FAILED
    assert ended.reported[-1].endswith(
        "1 of 1 segments are not compacted: see the reasons above, and try again"
    )
    assert (log / "segments" / f"{26:020}.jsonl").exists()
