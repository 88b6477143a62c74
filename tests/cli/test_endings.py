"""Commands that are ended from outside, and what their starter did with signals."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.eventlog.record import LogRecord, RecordKind
from gateway.service.processes.exit_codes import ExitCode
from tests.cli.test_answers import TILL, core, end, ran, start
from tests.components.command_line import COMMAND, Site, amqp_gateway, environment, new_site
from tests.components.scripted_operations import ScriptedOperations
from tests.components.waiting import DEADLINE, until
from tests.eventlog.logs import segment

QUERY = ["log", "query", "SELECT * FROM log"]


@pytest.mark.parametrize(
    "words",
    [
        *(["version"], ["mib", "path"], ["state", "show"], ["role", "list", "--json"], ["log", "tail"]),
        *(QUERY, [*QUERY, "--csv"], [*QUERY, "--json"]),
    ],
    ids=" ".join,
)
def test_who_is_not_read_ends_quietly(site: Site, words: list[str]) -> None:
    record = LogRecord(kind=RecordKind.GAP, ingest_ts="2026-11-20T08:00:01.000000Z")
    segment(site.state.path / "log", 1, [record])
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(  # noqa: S603  our own command
            [*COMMAND, *words],
            env=environment(AMQP_GATEWAY_CONFIG=str(site.configuration)),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=DEADLINE,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (ExitCode.NOT_READ, b"")


@pytest.mark.parametrize("words", [["--help"], ["log", "--help"], ["log", "tail", "--folder"]])
def test_a_closed_output_is_one_without_a_reader(tmp_path: Path, words: list[str]) -> None:
    segment(tmp_path, 1, [LogRecord(kind=RecordKind.GAP, ingest_ts="2026-11-20T08:00:01.000000Z")])
    folder = [str(tmp_path)] if "--folder" in words else []
    done = subprocess.run(  # noqa: S603  our own command
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, *words, *folder],
        env=environment(),
        stderr=subprocess.PIPE,
        timeout=DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (ExitCode.NOT_READ, b"")


@pytest.mark.parametrize("is_full", [False, True], ids=["no reader", "disk full"])
def test_remarks_that_cannot_be_written_end_no_command(tmp_path: Path, *, is_full: bool) -> None:
    record = LogRecord(kind=RecordKind.GAP, ingest_ts="2026-11-20T08:00:01.000000Z", source="orders")
    segment(tmp_path, 1, [record, record])
    reading, writing = os.pipe()
    os.close(reading)
    if is_full:
        os.close(writing)
        writing = os.open("/dev/full", os.O_WRONLY)
    try:
        done = subprocess.run(  # noqa: S603  our own command
            [*COMMAND, "log", "query", "--folder", str(tmp_path), "--limit", "1", "SELECT source FROM log"],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=writing,
            timeout=DEADLINE,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stdout.split()[::2]) == (0, [b"source", b"orders"])


def test_an_encoding_without_a_character_ends_no_command(tmp_path: Path) -> None:
    record = LogRecord(kind=RecordKind.CREATE, ingest_ts="2026-11-20T08:00:01.000000Z", object_name="é\x1b€")
    segment(tmp_path, 1, [record])
    done = subprocess.run(  # noqa: S603  our own command
        [*COMMAND, "log", "query", "--folder", str(tmp_path), "--csv", "SELECT object_name FROM log"],
        env=environment(PYTHONIOENCODING="ascii"),
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"object_name\n" + rb"\xe9\x1b\u20ac" + b"\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_json_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    """Those who read JSON know its own escapes, and not those of texts for people."""
    name, values = "é\x1b€\U0001f600", '{"é€\U0001f600": 1}'
    segment(tmp_path / "log", 1, [LogRecord(kind=RecordKind.GAP, ingest_ts="2026-11-20T08:00:01.000000Z")])
    site = new_site(tmp_path)

    def ran(*words: str) -> str:
        return subprocess.run(  # noqa: S603  our own command
            [*COMMAND, *words],
            env=environment(PYTHONIOENCODING=encoding, AMQP_GATEWAY_CONFIG=str(site.configuration)),
            stdout=subprocess.PIPE,
            timeout=DEADLINE,
            check=False,
        ).stdout.decode(encoding)

    path = f"orders/rabbitmq:queue/{name}"
    assert json.loads(ran("role", "explain", "jmx:x", "read:messages", path, "--json"))["object"] == path
    query = f"SELECT '{values}' AS \"values\" FROM log"  # noqa: S608  ours
    _, (cell,) = csv.reader(
        ran("log", "query", "--folder", str(tmp_path / "log"), "--csv", query).splitlines()
    )
    assert json.loads(cell) == json.loads(values)


async def test_ctrl_c_ends_a_watch_as_it_ends_other_commands(site: Site) -> None:
    async with core(site, ScriptedOperations()):
        process = await start(site, "watch")
        assert process.stderr is not None
        assert await process.stderr.readline() == b"watching; Ctrl-C stops it\n"
        process.send_signal(signal.SIGINT)
        ended = await end(process)
    assert (ended.code, ended.output, ended.errors) == (ExitCode.INTERRUPTED, "", "")


@pytest.mark.parametrize("words", [("tree",), ("tree", "--json"), ("log", "tail")], ids=" ".join)
async def test_one_ctrl_c_ends_a_command_whose_output_is_not_read(site: Site, words: tuple[str, ...]) -> None:
    record = LogRecord(kind=RecordKind.GAP, ingest_ts="2026-11-20T08:00:01.000000Z")
    segment(site.state.path / "log", 1, [record])
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, bytes(4096)):
            pass
    os.set_blocking(writing, True)
    try:
        async with core(site, ScriptedOperations()):
            process = await asyncio.create_subprocess_exec(
                *COMMAND,
                *words,
                env=environment(AMQP_GATEWAY_CONFIG=str(site.configuration)),
                stdout=writing,
                stderr=asyncio.subprocess.PIPE,
            )
            waits = Path(f"/proc/{process.pid}/wchan")
            await until(lambda: "pipe_w" in waits.read_text(), "it waits for its reader")
            process.send_signal(signal.SIGINT)
            ended = await end(process)
    finally:
        os.close(reading)
        os.close(writing)
    assert (ended.code, ended.errors) == (ExitCode.INTERRUPTED, "")


async def test_values_that_cannot_travel_are_refused_by_name(site: Site) -> None:
    operations = ScriptedOperations()
    async with core(site, operations):
        large = await ran(site, "set", TILL, f"limit={2**64}")
        octets = await ran(site, "set", TILL, os.fsdecode(b"mood=\xff"))
    assert large.code is octets.code is ExitCode.WRONG_VALUE
    assert large.reported == [f"amqp-gateway: wrong-value: limit: {2**64} has more than 64 bits"]
    assert len(octets.reported) == 1
    assert operations.requests == []


@pytest.mark.parametrize("words", [["doctor"], ["log", "query", "SELECT 1"], ["log", "verify"]])
def test_a_folder_that_cannot_be_looked_at_is_reported_and_no_fault_of_ours(
    site: Site, words: list[str]
) -> None:
    site.configure(log={"folder": "x" * 300})  # longer than a name may be
    ended = amqp_gateway(*words, AMQP_GATEWAY_CONFIG=str(site.configuration))
    assert ended.code in {ExitCode.STATE, ExitCode.DIFFERENCE, ExitCode.OK}
    assert "Traceback" not in ended.errors


STARTER = """
import atexit, os, runpy, signal, sys
for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
if sys.argv[1] == "version":
    @atexit.register
    def report():
        print([signal.getsignal(each).name for each in (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT)])
        print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    runpy.run_module("gateway.cli.main", run_name="__main__", alter_sys=True)
os.execv(sys.executable, [sys.executable, "-m", "gateway.cli.main", *sys.argv[1:]])
"""


def test_what_a_starter_set_for_its_own_children_is_undone_and_what_nohup_set_stays() -> None:
    ended = amqp_gateway("version", program=(sys.executable, "-c", STARTER))
    assert ended.output.splitlines()[1:] == ["['SIG_DFL', 'SIG_IGN', 'SIG_IGN']", "set()"]


def test_exit_codes_of_processes_are_seen_where_the_starter_ignores_their_ends(tmp_path: Path) -> None:
    """Else each end of a process is one with 255, and `run` ends with another code than its process."""
    words = ["--config", "gateway.yaml", "--copy", "gateway.yaml", "--process", "core", "--state-lock", "0"]
    words += ["--state", str(tmp_path)]
    starter = (sys.executable, "-c", STARTER)
    ended = amqp_gateway("supervise", *words, program=starter, folder=tmp_path)
    assert ended.code is ExitCode.CONFIGURATION, "the process has found no file"
