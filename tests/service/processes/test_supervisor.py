"""The supervisor with small processes of the test's own: started in order, kept, ended without a trace."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest
import structlog
from structlog.typing import EventDict

from gateway import starts
from gateway.service.metrics import families
from gateway.service.metrics.families import Reading, encode_readings
from gateway.service.processes import supervisor
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import READY, Lifeline
from gateway.service.processes.supervisor import ProcessPlan, Supervisor
from gateway.service.processes.systemd import ServiceManager
from gateway.starts import STARTS, ReservedStarts
from tests.components.waiting import eventually, until

CHILD = """
import os, signal, socket, struct, subprocess, sys, time
diary, behaviour, line = sys.argv[1], sys.argv[2], socket.socket(fileno=int(sys.argv[4]))
def note(what, more=""):
    with open(diary, "a") as file:
        file.write(f"{what} {os.getpid()} {more}\\n")
def ended(*_):
    note("ended")
    sys.exit(0)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
signal.signal(signal.SIGTERM, signal.SIG_IGN if behaviour == "deaf" else ended)
if behaviour == "again":
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(21))
note("started")
if behaviour.startswith("exits"):
    sys.exit(int(behaviour.removeprefix("exits")))
if behaviour == "killed twice" and open(diary).read().count("started") < 3:
    os.kill(os.getpid(), signal.SIGKILL)
if behaviour == "hangs at start " + str(open(diary).read().count("started")):
    time.sleep(600)
if behaviour == "stops at start " + str(open(diary).read().count("started")):
    os.kill(os.getpid(), signal.SIGSTOP)
if behaviour == "spins at start " + str(open(diary).read().count("started")):
    while True:
        pass
if behaviour.startswith("works until "):
    while not os.path.exists(behaviour.removeprefix("works until ")):
        time.sleep(0.001)
if behaviour == "starts slowly":
    for _ in range(2000):
        time.sleep(0.001)
if behaviour == "deaf":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(diary, "a", encoding="ascii", errors="replace") as file:
        file.write(f"grandchild {child.pid}\\n")
if behaviour != "silent":
    note("ready")
    line.send(b"R")
if behaviour.startswith("empties"):
    count = b"\\x91\\x94\\xacworked_total\\xa0\\x90\\xcb" + struct.pack(">d", 2)
    line.recv(1)
    line.sendall(struct.pack(">I", len(count)) + count)
    os.unlink(behaviour.removeprefix("empties "))
    ended()
while kind := line.recv(1):
    if kind == b"!":
        (length,) = struct.unpack(">I", line.recv(4))
        text = line.recv(length)
        if text.endswith(b"\\x80"):  # what each core gets: that all processes start
            open(diary + ".all-start", "a").write(f"said {os.getpid()}\\n")
        else:
            note("announced", text.decode("ascii", "ignore"))
    elif behaviour == "burns":
        while True:
            pass
    elif behaviour == "answers late":
        until = time.process_time() + 0.8
        while time.process_time() < until:
            pass
        note("answered")
        line.sendall(struct.pack(">I", 1) + b"\\x90")
    elif behaviour.startswith("says "):
        answer = bytes.fromhex(behaviour.removeprefix("says "))
        line.sendall(struct.pack(">I", len(answer)) + answer)
    elif behaviour != "hung":
        line.sendall(struct.pack(">I", 1) + b"\\x90")
note("alone")
"""


class Diary:
    """The lines that a process wrote down, one life after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[str]:
        return self.path.read_text(encoding="ascii").splitlines() if self.path.exists() else []

    def words(self) -> list[str]:
        return [line.split()[0] for line in self.lines()]

    def processes(self, word: str) -> list[int]:
        return [int(line.split()[1]) for line in self.lines() if line.startswith(word)]

    async def has(self, word: str, times: int = 1) -> int:
        """Wait until ``word`` was written so often; return the process that wrote it."""

        async def written() -> bool:
            return self.words().count(word) >= times

        await eventually(written, f"{self.path.name} is {word}")
        return self.processes(word)[times - 1]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses and timeouts, which are meant for machines in trouble."""
    monkeypatch.setattr(supervisor, "FIRST_RESTART_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "STOP_SECONDS", 1.0)


def plan(folder: Path, name: str, behaviour: str = "lives") -> ProcessPlan:
    """Return the plan of a process with this behaviour, and with its diary under its name."""
    return ProcessPlan(name, (sys.executable, "-I", "-S", "-c", CHILD, str(folder / name), behaviour))


@asynccontextmanager
async def supervised(
    *plans: ProcessPlan,
    numbers: ReservedStarts | None = None,
) -> AsyncIterator[tuple[Supervisor, asyncio.Task[None], socket.socket]]:
    """Provide a supervisor that runs, and the other end of its lifeline."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours:
        lifeline = Lifeline(theirs.detach())
        supervising = Supervisor(plans, lifeline, numbers=numbers)
        running = asyncio.create_task(supervising.run())
        try:
            yield supervising, running, ours
        finally:
            supervising.stop()
            await asyncio.wait({running})
            lifeline.close()


async def test_each_is_ready_before_the_next_is_started(tmp_path: Path) -> None:
    first, second = Diary(tmp_path / "first"), Diary(tmp_path / "second")
    async with supervised(plan(tmp_path, "first", "silent"), plan(tmp_path, "second")) as (_, running, line):
        await first.has("started")
        with pytest.raises(BlockingIOError):
            line.recv(1)
        assert second.lines() == []
    await running
    assert second.lines() == []


async def test_each_start_gets_a_number_also_on_a_disk_that_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process whose starts have no numbers gets none; what finds no number left waits for the disk."""
    monkeypatch.setattr(starts, "RESERVED", 3)
    core, jmx = Diary(tmp_path / "core"), Diary(tmp_path / "jmx")
    state = tmp_path / "state"
    state.mkdir()
    numbers, given = ReservedStarts(state, 0), []
    (state / STARTS).unlink()
    (state / STARTS).mkdir()  # in whose place no file can be written
    async with supervised(plan(tmp_path, "core"), plan(tmp_path, "jmx"), numbers=numbers):
        for start in (1, 2, 3):
            number = await core.has("ready", start)
            given.append(psutil.Process(number).cmdline()[-2:])
            os.kill(number, signal.SIGKILL)
        other = psutil.Process(await jmx.has("ready")).cmdline()
        (state / STARTS).rmdir()
        number = await core.has("ready", 4)
        assert psutil.Process(number).cmdline()[-2:] == ["--start", "4"]
    assert given == [["--start", "1"], ["--start", "2"], ["--start", "3"]]
    assert "--start" not in other


async def test_what_is_stopped_while_it_starts_starts_nothing_more(tmp_path: Path) -> None:
    first, asked = Diary(tmp_path / "first"), []

    def has_work() -> bool:
        asked.append("second")
        return False

    second = replace(plan(tmp_path, "second"), has_work=has_work)
    async with supervised(plan(tmp_path, "first", "silent"), second):
        await first.has("started")
    assert asked == []


async def test_it_is_ready_when_all_are(tmp_path: Path) -> None:
    first, second = Diary(tmp_path / "first"), Diary(tmp_path / "second")
    async with supervised(plan(tmp_path, "first"), plan(tmp_path, "second")) as (supervising, _, line):
        assert await asyncio.get_running_loop().sock_recv(line, 1) == READY
        assert supervising.processes == {
            "first": await first.has("ready"),
            "second": await second.has("ready"),
        }


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_one_that_dies_is_started_again_and_the_others_stay(
    tmp_path: Path, number: signal.Signals
) -> None:
    first, second = Diary(tmp_path / "first"), Diary(tmp_path / "second")
    async with supervised(plan(tmp_path, "first"), plan(tmp_path, "second")) as (supervising, _, line):
        await asyncio.get_running_loop().sock_recv(line, 1)
        with structlog.testing.capture_logs() as logged:
            os.kill(await first.has("ready"), number)
            again = await first.has("ready", 2)
        assert supervising.processes["first"] == again
        assert second.words() == ["started", "ready"]

    died = {"event": "process-died", "log_level": "warning", "name": "first", "restart_in_seconds": 0.01}
    assert logged == [{**died, "exit_code": -number if number is signal.SIGKILL else 0}]


async def test_one_that_dies_again_and_again_is_given_longer_pauses(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "first")
    async with supervised(plan(tmp_path, "first")):
        with structlog.testing.capture_logs() as logged:
            for life in range(1, 5):
                os.kill(await diary.has("ready", life), signal.SIGKILL)
            await diary.has("ready", 5)

    died = [record for record in logged if record["event"] == "process-died"]
    assert [record["restart_in_seconds"] for record in died] == [0.01, 0.02, 0.04, 0.08]


@pytest.mark.parametrize("code", [ExitCode.STATE, ExitCode.ADDRESS_IN_USE])
async def test_one_that_never_works_ends_all_with_its_exit_code(tmp_path: Path, code: ExitCode) -> None:
    plans = plan(tmp_path, "first"), plan(tmp_path, "second", f"exits{code}")
    async with supervised(*plans) as (supervising, running, _):
        with pytest.raises(CommandError) as raised:
            await running

    assert (raised.value.code, str(raised.value)) == (code, "")  # it has said why itself
    assert supervising.processes == {}
    assert Diary(tmp_path / "first").words() == ["started", "ready", "ended"]


@pytest.mark.parametrize("code", [0, 99])
async def test_one_that_never_works_and_says_nothing_is_named(tmp_path: Path, code: int) -> None:
    async with supervised(plan(tmp_path, "core", f"exits{code}")) as (_, running, _line):
        with pytest.raises(CommandError) as raised:
            await running

    assert raised.value.code is ExitCode.FAILED
    assert (
        str(raised.value)
        == f"the process 'core' ended with exit code {code} before it was ready: see the log above"
    )


async def test_one_that_is_killed_before_it_is_ready_is_started_again(tmp_path: Path) -> None:
    first, second = Diary(tmp_path / "first"), Diary(tmp_path / "second")
    async with supervised(plan(tmp_path, "first", "killed twice"), plan(tmp_path, "second")) as (_, _, line):
        assert await asyncio.get_running_loop().sock_recv(line, 1) == READY
    assert first.words()[:4] == ["started", "started", "started", "ready"]
    assert second.words()[:2] == ["started", "ready"]


async def test_a_signal_ends_all_in_order(tmp_path: Path) -> None:
    first, second = Diary(tmp_path / "first"), Diary(tmp_path / "second")
    async with supervised(plan(tmp_path, "first"), plan(tmp_path, "second")) as (supervising, running, line):
        await asyncio.get_running_loop().sock_recv(line, 1)
        os.kill(os.getpid(), signal.SIGTERM)
        await running

    assert first.words() == second.words() == ["started", "ready", "ended"]
    assert supervising.processes == {}


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
async def test_a_signal_that_means_nothing_here_ends_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with structlog.testing.capture_logs() as logged:
        async with supervised(plan(tmp_path, "first")) as (_, running, line):
            await asyncio.get_running_loop().sock_recv(line, 1)
            os.kill(os.getpid(), number)
            assert not running.done()

            async def is_logged() -> bool:
                return number.name in {record.get("signal") for record in logged}

            await eventually(is_logged, "it is logged")


async def test_the_core_publishes_the_end_of_another_and_the_stop(tmp_path: Path) -> None:
    core, other = Diary(tmp_path / "core"), Diary(tmp_path / "other")
    async with supervised(plan(tmp_path, "core"), plan(tmp_path, "other")) as (supervising, running, _):
        os.kill(await other.has("ready"), signal.SIGKILL)
        await other.has("ready", 2)
        supervising.stop("of this test")
        await running
    ended, stops = (line for line in core.lines() if line.startswith("announced"))
    assert "other" in ended
    assert "it was ended by SIGKILL" in ended
    assert "of this test" in stops
    assert core.words()[-1] == "ended", "it was announced before"


async def test_lines_of_a_log_that_another_process_loses_are_published_by_the_core_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of one that was started again, which counts from 0."""
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.05)
    says = "says " + encode_readings([families.LOG_LINES_LOST.at(ord("A"), "snmp")]).hex()
    core, other = Diary(tmp_path / "core"), Diary(tmp_path / "snmp")
    async with supervised(plan(tmp_path, "core", says), plan(tmp_path, "snmp", says)) as (supervising, *_):
        await core.has("announced")
        answers = supervising._lines["snmp"].answers  # noqa: SLF001  nothing else says that it was asked again

        async def is_asked_again() -> bool:
            return supervising._lines["snmp"].answers > answers + 2  # noqa: SLF001  likewise

        await eventually(is_asked_again, "it is asked again, and its count is the same")
        os.kill(await other.has("ready"), signal.SIGKILL)
        await core.has("announced", 3)
    lost, ended, again, stops = (line for line in core.lines() if line.startswith("announced"))
    assert "log-lines-lost" in lost
    assert lost.endswith("linesA")
    assert "it was ended by SIGKILL" in ended
    assert again.split()[2:] == lost.split()[2:]
    assert "gateway-stop" in stops


async def test_the_end_of_the_core_is_published_by_the_next(tmp_path: Path) -> None:
    core = Diary(tmp_path / "core")
    async with supervised(plan(tmp_path, "core")):
        os.kill(await core.has("ready"), signal.SIGKILL)
        await core.has("announced")
    assert core.words()[:5] == ["started", "ready", "started", "ready", "announced"]
    assert "it was ended by SIGKILL" in core.lines()[4]


async def test_one_that_asks_for_it_is_started_again_at_once_and_has_not_died(tmp_path: Path) -> None:
    core = Diary(tmp_path / "core")
    async with supervised(plan(tmp_path, "core", "again")) as (supervising, _, _line):
        with structlog.testing.capture_logs() as logged:
            os.kill(await core.has("ready"), signal.SIGUSR1)
            await core.has("ready", 2)
        assert supervising.restarts == {}
    assert "process-died" not in {record["event"] for record in logged}
    assert core.words() == ["started", "ready", "started", "ready", "announced", "ended"]
    assert "gateway-stop" in core.lines()[4], "no end of a process was announced"


async def test_a_reload_reaches_the_next_core_where_this_one_ends(tmp_path: Path) -> None:
    core = Diary(tmp_path / "core")
    async with supervised(plan(tmp_path, "core", "again")):
        first = await core.has("ready")
        os.kill(first, signal.SIGSTOP)  # what is announced now is not read
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(first, signal.SIGKILL)
        await core.has("announced", 2)
    announced = [line for line in core.lines() if "SIGHUP" in line]
    assert len(announced) == 1
    assert str(first) not in announced[0]


async def test_a_reload_meets_a_core_that_has_just_ended_and_seems_ready(tmp_path: Path) -> None:
    core = Diary(tmp_path / "core")
    async with supervised(plan(tmp_path, "core")) as (supervising, _, line):
        await asyncio.get_running_loop().sock_recv(line, 1)
        for turns in range(8):
            pid = await core.has("ready", turns + 1)
            await eventually(partial(_answers, supervising, pid), "it answers")
            os.kill(os.getpid(), signal.SIGHUP)
            for _ in range(turns):
                await asyncio.sleep(0)
            os.kill(pid, signal.SIGKILL)
            while _lives(pid):  # meanwhile, the supervisor cannot see that it ended
                os.sched_yield()
            await core.has("announced", 2 * (turns + 1))


async def _answers(supervising: Supervisor, pid: int) -> bool:
    answering = values(await supervising.readings(), families.PROCESS_UP.name)
    return supervising.processes.get("core") == pid and answering == {"core": 1}


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_reload_waits_for_a_core_that_starts(tmp_path: Path) -> None:
    core = Diary(tmp_path / "core")
    async with supervised(plan(tmp_path, "core", "starts slowly")):
        await core.has("started")
        os.kill(os.getpid(), signal.SIGHUP)
        await core.has("announced")
    assert "SIGHUP" in core.lines()[2]


async def test_one_that_does_not_end_when_asked_is_killed_with_all_its_own(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "deaf")
    async with supervised(plan(tmp_path, "deaf", "deaf")) as (supervising, running, _):
        child, grandchild = await diary.has("ready"), await diary.has("grandchild")
        with structlog.testing.capture_logs() as logged:
            supervising.stop()
            await running

    assert "process-killed" in {record["event"] for record in logged}
    assert not psutil.pid_exists(child)
    await eventually(lambda: _gone(grandchild), "the grandchild has gone")


async def test_it_ends_all_when_its_parent_process_has_gone(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "first")
    async with supervised(plan(tmp_path, "first")) as (_, running, line):
        await diary.has("ready")
        line.close()
        await running
    assert diary.words() == ["started", "ready", "ended"]


def values(readings: list[Reading], family: str) -> dict[str, float]:
    return {reading.labels[0]: reading.value for reading in readings if reading.family == family}


async def test_it_reports_its_processes(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "first")
    async with supervised(plan(tmp_path, "first"), plan(tmp_path, "second")) as (supervising, _, line):
        await asyncio.get_running_loop().sock_recv(line, 1)
        os.kill(await diary.has("ready"), signal.SIGKILL)
        await diary.has("ready", 2)

        async def both_answer() -> bool:
            reported = await supervising.readings()
            return values(reported, families.PROCESS_UP.name) == {"first": 1, "second": 1}

        await eventually(both_answer, "both answer")
        reported = await supervising.readings()

    assert values(reported, families.RESTARTS.name) == {"first": 1, "second": 0}
    memory = values(reported, families.PROCESS_MEMORY.name)
    assert memory.keys() == {"supervisor", "first", "second"}
    assert min(memory.values()) > 1_000_000


async def test_one_that_does_not_answer_is_reported_as_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = plan(tmp_path, "first"), plan(tmp_path, "second", "hung")
    async with supervised(*plans) as (supervising, _, line):
        await asyncio.get_running_loop().sock_recv(line, 1)
        monkeypatch.setattr(supervisor, "ANSWER_SECONDS", 0.2)

        async def only_one() -> bool:
            return await supervising.silent() == ["second"]

        await eventually(only_one, "the first answers, and the second does not")
        up = values(await supervising.readings(), families.PROCESS_UP.name)
    assert up["second"] == 0


async def test_one_that_hangs_is_killed_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "HUNG_QUESTIONS", 3)
    first, second = Diary(tmp_path / "first"), Diary(tmp_path / "second")
    async with supervised(plan(tmp_path, "first"), plan(tmp_path, "second")) as (supervising, _, _line):
        os.kill(await second.has("ready"), signal.SIGSTOP)
        await second.has("ready", 2)
        assert supervising.restarts == {"second": 1}
    assert first.words() == ["started", "ready", "ended"]
    assert second.words() == ["started", "ready", "started", "ready", "ended"]


async def test_one_that_runs_and_answers_late_is_slow_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "HUNG_QUESTIONS", 5)
    diary = Diary(tmp_path / "first")
    with structlog.testing.capture_logs() as logged:
        async with supervised(plan(tmp_path, "first", "answers late")) as (supervising, _, _line):
            await diary.has("answered", 3)
            assert not supervising.restarts
    assert "process-answers-late" in {record["event"] for record in logged}
    assert diary.words().count("started") == 1


async def test_one_that_runs_and_never_answers_is_no_silent_one_and_is_killed_much_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "HUNG_QUESTIONS", 5)
    monkeypatch.setattr(supervisor, "BUSY_QUESTIONS", 20)
    diary = Diary(tmp_path / "first")
    with structlog.testing.capture_logs() as logged:
        async with supervised(plan(tmp_path, "first", "burns")) as (supervising, _, _line):
            await diary.has("ready")

            async def slow() -> bool:
                return "process-answers-late" in {record["event"] for record in logged}

            await eventually(slow, "it is reported as slow")
            # systemd restarts the whole gateway for one that is silent.
            assert await supervising.silent() == []
            await diary.has("ready", 2)
            assert supervising.restarts == {"first": 1}
    killed = [record["reason"] for record in logged if record["event"] == "process-killed"]
    assert killed[0] == "it hangs: it runs, and has not answered for 2 s"


@pytest.mark.parametrize(
    ("manner", "life"), [("hangs", 1), ("hangs", 2), ("stops", 1), ("stops", 2), ("spins", 1)]
)
async def test_one_that_hangs_before_it_is_ready_is_killed_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manner: str, life: int
) -> None:
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "IDLE_LOOKS", 100)
    monkeypatch.setattr(supervisor, "START_LOOKS", 600)
    second = Diary(tmp_path / "second")
    plans = plan(tmp_path, "first"), plan(tmp_path, "second", f"{manner} at start {life}")
    async with supervised(*plans) as (supervising, _, line):
        if life > 1:
            os.kill(await second.has("ready"), signal.SIGKILL)
        await second.has("ready", life)
        assert await asyncio.get_running_loop().sock_recv(line, 1) == READY
        assert supervising.restarts == {"second": life}
    assert second.words().count("started") == life + 1


async def test_one_that_works_before_it_is_ready_is_given_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "IDLE_LOOKS", 100)
    enough = tmp_path / "enough"
    with structlog.testing.capture_logs() as logged:
        async with supervised(plan(tmp_path, "first", f"works until {enough}")) as (supervising, _, line):
            await until(
                lambda: "process-not-ready-yet" in {record["event"] for record in logged}, "it is said"
            )
            enough.touch()
            assert await asyncio.get_running_loop().sock_recv(line, 1) == READY
            assert not supervising.restarts
    assert Diary(tmp_path / "first").words() == ["started", "ready", "ended"]


async def test_one_with_work_now_and_then_runs_only_then_and_its_counts_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.01)
    work, diary = tmp_path / "work", Diary(tmp_path / "worker")
    at_rest = (Reading("worked_total", "", (), 0.0),)
    worker = replace(plan(tmp_path, "worker", f"empties {work}"), has_work=work.exists, at_rest=at_rest)
    async with supervised(plan(tmp_path, "first"), worker) as (supervising, _, line):
        assert await asyncio.get_running_loop().sock_recv(line, 1) == READY

        async def counted() -> float | None:
            reported = await supervising.readings()
            assert "worker" in values(reported, families.PROCESS_UP.name) or not supervising.processes.get(
                "worker"
            )
            return next((one.value for one in reported if one.family == "worked_total"), None)

        assert await counted() == 0
        assert diary.lines() == []
        for life in (1, 2):
            work.touch()
            await diary.has("ended", life)

            async def rests(expected: float = 2.0 * life) -> bool:
                return "worker" not in supervising.processes and await counted() == expected

            await eventually(rests, "it rests, and what it counted is kept")
        assert supervising.restarts["worker"] == 0
        reported = await supervising.readings()
        assert values(reported, families.PROCESS_UP.name) == {"first": 1}
    assert diary.words() == ["started", "ready", "ended"] * 2


async def test_one_that_is_killed_at_its_work_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.01)
    diary = Diary(tmp_path / "worker")
    worker = replace(plan(tmp_path, "worker"), has_work=lambda: True)
    async with supervised(worker) as (supervising, _, _line):
        os.kill(await diary.has("ready"), signal.SIGKILL)
        await diary.has("ready", 2)
        assert supervising.restarts["worker"] == 1


async def test_one_that_is_being_started_is_not_silent(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "first")
    async with supervised(plan(tmp_path, "first", "silent")) as (supervising, _, _line):
        await diary.has("started")
        assert await supervising.silent() == []


async def _gone(process: int) -> bool:
    try:
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_one_that_cannot_be_started_again_for_a_while_is_started_later(tmp_path: Path) -> None:
    """As where the machine has too many processes, or the program is being installed."""
    diary, program = Diary(tmp_path / "first"), tmp_path / "program"
    program.symlink_to(sys.executable)
    first = plan(tmp_path, "first")
    with structlog.testing.capture_logs() as logged:
        async with supervised(replace(first, command=(str(program), *first.command[1:]))):
            pid = await diary.has("ready")
            program.unlink()
            os.kill(pid, signal.SIGKILL)

            async def is_tried_again() -> bool:
                return [record["event"] for record in logged].count("process-not-started") >= 2

            await eventually(is_tried_again, "it is tried again")
            program.symlink_to(sys.executable)
            await diary.has("ready", 2)
    assert str(program) in next(one["reason"] for one in logged if one["event"] == "process-not-started")


async def test_one_that_cannot_be_started_at_first_is_started_later(tmp_path: Path) -> None:
    """As in the middle of an upgrade: the service manager starts the gateway, and then the program goes."""
    program, first = tmp_path / "program", plan(tmp_path, "first")
    with structlog.testing.capture_logs() as logged:
        async with supervised(replace(first, command=(str(program), *first.command[1:]))) as (_, _, line):
            await until(lambda: tries(logged) >= 2, "it is tried again")
            program.symlink_to(sys.executable)
            assert await asyncio.get_running_loop().sock_recv(line, 1) == READY


def tries(logged: list[EventDict]) -> int:
    return [record["event"] for record in logged].count("process-not-started")


async def test_one_that_cannot_be_started_is_published_until_it_can_be(tmp_path: Path) -> None:
    core, program, second = Diary(tmp_path / "core"), tmp_path / "program", plan(tmp_path, "second")
    async with supervised(
        plan(tmp_path, "core"), replace(second, command=(str(program), *second.command[1:]))
    ) as (supervising, _, _line):
        await core.has("announced")
        assert "not-started" in core.lines()[-1]
        assert f"No such file or directory: '{program}'" in core.lines()[-1]
        assert await supervising.silent() == []  # systemd's watchdog is for what the core cannot publish
        os.kill(core.processes("ready")[0], signal.SIGKILL)
        await core.has("announced", 3)
        assert [("not-started" in line, "SIGKILL" in line) for line in core.lines()[-2:]] == [
            (True, False),
            (False, True),
        ], "the next core has to raise the alarm again"
        program.symlink_to(sys.executable)
        await Diary(tmp_path / "core.all-start").has("said", 2)


async def test_a_core_that_cannot_be_started_is_silent_for_the_watchdog(tmp_path: Path) -> None:
    core, program, plan_of_core = Diary(tmp_path / "core"), tmp_path / "program", plan(tmp_path, "core")
    program.symlink_to(sys.executable)
    async with supervised(
        replace(plan_of_core, command=(str(program), *plan_of_core.command[1:])), plan(tmp_path, "second")
    ) as (supervising, _, _line):
        pid = await core.has("ready")
        assert await supervising.silent() == []
        program.unlink()
        os.kill(pid, signal.SIGKILL)

        async def is_silent() -> bool:
            return await supervising.silent() == ["core"]

        await eventually(is_silent, "systemd gets no sign of life")
        program.symlink_to(sys.executable)
        await Diary(tmp_path / "core.all-start").has("said", 2)

        async def none_is_silent() -> bool:
            return await supervising.silent() == []

        await eventually(none_is_silent, "all answer")


async def test_looking_for_work_is_tried_again_where_the_system_lacks_threads(tmp_path: Path) -> None:
    """A thread that cannot be started is a `RuntimeError`, as here."""
    looks = iter([RuntimeError("can't start new thread"), OSError("Too many open files in system")])

    def has_work() -> bool:
        if (error := next(looks, None)) is not None:
            raise error
        return True

    with structlog.testing.capture_logs() as logged:
        async with supervised(replace(plan(tmp_path, "worker"), has_work=has_work)):
            await Diary(tmp_path / "worker").has("ready")
    assert tries(logged) == 2


async def test_a_part_of_the_supervisor_that_ends_unasked_ends_the_gateway(tmp_path: Path) -> None:
    class Ending(ServiceManager):
        async def watch(self, silent: Callable[[], Awaitable[list[str]]]) -> None:
            await Diary(tmp_path / "first").has("ready")
            await silent()
            raise LookupError("of this test")

    first, lifeline = plan(tmp_path, "first"), Lifeline(None)
    supervising = Supervisor([first], lifeline, manager=Ending())
    with pytest.raises(CommandError, match="'watchdog' failed: LookupError"):
        await supervising.run()
    assert Diary(tmp_path / "first").words() == ["started", "ready", "ended"]


async def test_the_end_of_the_parent_is_noticed_while_a_process_starts(tmp_path: Path) -> None:
    async with supervised(plan(tmp_path, "first", "silent")) as (_, running, line):
        await Diary(tmp_path / "first").has("started")
        line.close()
        await running


async def test_a_keeper_that_fails_ends_the_gateway_and_says_why(tmp_path: Path) -> None:
    """A gateway whose processes are not kept any more would live on as if it worked."""

    def has_work() -> bool:
        raise LookupError("of this test")

    first, worker = plan(tmp_path, "first"), replace(plan(tmp_path, "worker"), has_work=has_work)
    async with supervised(first, worker) as (_, running, _line):
        with pytest.raises(CommandError, match="of this test") as raised:
            await running
    assert raised.value.code is ExitCode.FAILED
    assert Diary(tmp_path / "first").words() == ["started", "ready", "ended"]
