"""Runs the gateway's processes, restarts those that die or hang, and ends them when it ends.

It imports little, because it lives as long as the gateway: no model of the configuration, no HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import platform
import signal
import socket
import subprocess
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from gateway.service.metrics import families
from gateway.service.metrics.families import Reading, continued
from gateway.service.metrics.process import context_switches, processor_seconds, usage
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.installed_code import InstalledCode, until_other_can_start
from gateway.service.processes.kept_sockets import KeptSocket
from gateway.service.processes.lifeline import (
    AccessRefused,
    Announcement,
    GatewayStop,
    Lifeline,
    LogLinesLost,
    NotStarted,
    ProcessEnd,
    ProcessLine,
    Reload,
)
from gateway.service.processes.log_output import LinesOfOthers, log_output
from gateway.service.processes.stop_signals import ends_with_terminal, stop_signals, survive_other_signals
from gateway.service.processes.systemd import MODULE, ServiceManager
from gateway.shipped_files import version
from gateway.starts import ReservedStarts, StartsError
from gateway.tasks import every, until_one_ends

log = structlog.get_logger(__name__)

FIRST_RESTART_SECONDS, LAST_RESTART_SECONDS = 0.2, 15.0
STEADY_SECONDS = 60.0
"""A process that lived this long is restarted at once when it dies."""

FAILED_STARTS: Final = 3
"""A process of which so many starts in a row came to nothing cannot be started, which is an alarm."""

STOP_SECONDS = 8.0
ANSWER_SECONDS = 3.0
"""Seconds that a process may take to answer with its metrics; Prometheus waits for 10 s."""

LOOK_SECONDS = 2.0
"""Seconds between two looks at whether a process answers, or whether there is work for one."""

HUNG_QUESTIONS = 6
"""A process that did not run while so many questions in a row had no answer hangs: half a minute."""

BUSY_QUESTIONS = 120
"""A process that leaves so many without an answer hangs although it runs, after ten minutes.

A slow machine has answered long before. An endless loop has not.
"""

IDLE_LOOKS = 30
"""A process that starts, and has not run at all between so many looks, is hung, after a minute."""

START_LOOKS = 900
"""A process that is not ready after so many looks is hung although it works, after half an hour."""

ANNOUNCE_SECONDS = 2.0
"""Seconds in which the end of the gateway is published before its processes end."""

OWN_NAME = "supervisor"

PUBLISHER = "core"
"""The process that publishes the ends of all."""

MAX_UNPUBLISHED = 100
"""The number of ends that wait for the core; the last ones are kept."""

MAX_REFUSALS = 100
"""The number of reports of refused clients that wait for the core; further ones are counted in the last."""

_OTHERS = "(others)"

_OF_THE_SYSTEM: Final = (OSError, RuntimeError, MemoryError, subprocess.SubprocessError, StartsError)
"""What the start of a process or thread raises where the system lacks something, a program is replaced, or no
number is left, as after many starts on a disk that takes nothing."""


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """A process of the gateway.

    Attributes:
        name: the name of the process.
        command: the command line that runs it, without the lifeline.
        has_work: for a process that runs only while it has work, and ends by itself: returns whether there is
            work. It is called in a thread. ``None`` for a process that always runs.
        at_rest: the readings of such a process before it has run.
    """

    name: str
    command: tuple[str, ...]
    has_work: Callable[[], bool] | None = None
    at_rest: tuple[Reading, ...] = ()


def gateway_command(name: str, configuration: Path, copy: Path) -> tuple[str, ...]:
    """Return the command line of the process ``name`` of this installation (``core``, ``snmp``, ``jmx``).

    Args:
        name: the name of the process.
        configuration: the file, to which relative paths in it are relative.
        copy: the copy of it that the process reads.
    """
    words = ("process", name, "--config", str(configuration), "--copy", str(copy))
    return (*MODULE, *words)


class Supervisor:
    """Keeps a set of processes running.

    Args:
        plans: the processes, in the order of start; each is awaited to be ready before the next is started.
        lifeline: to the process that started this supervisor.
        state_lock: descriptor of the state folder's lock. All processes inherit it, so that no other gateway
            can have the folder while one of them lives.
        manager: informed when all are ready, and when they are being ended.
        sockets: the sockets on which processes listen, by their names.
        code: the installed code.
        again: the command of the gateway that begins in its place when other code was installed.
        numbers: gives each start of a process its number; ``None`` where they count themselves.

    Attributes:
        is_restarting: whether it ended because other code was installed, which is to begin in its place.
        processes: process id of each that runs, by name.
        restarts: the number of deaths of each process, by name.
    """

    def __init__(
        self,
        plans: Sequence[ProcessPlan],
        lifeline: Lifeline,
        state_lock: int | None = None,
        manager: ServiceManager | None = None,
        sockets: Mapping[str, KeptSocket] | None = None,
        code: InstalledCode | None = None,
        again: Sequence[str] = (),
        numbers: ReservedStarts | None = None,
    ) -> None:
        self._code, self._again = code or InstalledCode(), again
        self._numbers = numbers
        self.is_restarting = False
        self._plans = plans
        self._sockets = sockets or {}
        self._state_lock = state_lock
        self._lifeline = lifeline
        self._manager = manager or ServiceManager()
        self._asked, self._stopping = asyncio.Event(), asyncio.Event()
        self._reload_wanted = asyncio.Event()
        self._why = ""
        self._failure: CommandError | None = None
        self._lines: dict[str, ProcessLine] = {}
        self._unanswered: dict[str, Unanswered] = {}
        self._unpublished: deque[ProcessEnd] = deque(maxlen=MAX_UNPUBLISHED)
        self._refusals: deque[AccessRefused] = deque()
        self._failed_starts: Counter[str] = Counter()
        self._lines_of_logs, self._unpublished_lines = LinesOfOthers(), 0
        self._not_started = NotStarted({})
        self._owes_not_started = False
        self._former = {plan.name: list(plan.at_rest) for plan in plans if plan.has_work is not None}
        self.processes: dict[str, int] = {}
        self.restarts: Counter[str] = Counter()

    def stop(self, why: str = "it was asked to") -> None:
        """End everything, for the reason that was given first; `run` returns afterwards."""
        self._why = self._why or why
        self.is_restarting = False  # also where it was about to: then it is asked to end after all
        self._asked.set()

    async def run(self) -> None:
        """Run until `stop`, SIGINT or SIGTERM, or SIGHUP of a terminal.

        Raises:
            CommandError: a process could not do its work from the very start, and reported why. One that was
                killed is started again.
        """
        loop = asyncio.get_running_loop()
        if ends_with_terminal():
            loop.add_signal_handler(signal.SIGHUP, self.stop, "its terminal was closed")
        else:
            loop.add_signal_handler(signal.SIGHUP, self._reload_wanted.set)
        survive_other_signals()
        with stop_signals(self.stop):
            await self._run()
        log.info("gateway-ended", reason=self._why)
        if self._failure is not None:
            raise self._failure

    async def _run(self) -> None:
        keepers: list[asyncio.Task[None]] = []
        await until_one_ends(
            self._asked.wait(),
            self._until_parent_gone(),
            self._unended("starter", self._start(keepers)),
            self._unended("watchdog", self._manager.watch(self.silent)),
            self._unended("look at the installed code", self._watch_code()),
            self._unended("look at the logs", every(LOOK_SECONDS, self._look_at_logs)),
            *(self._unended(f"socket of {name}", kept.keep()) for name, kept in self._sockets.items()),
        )
        (self._manager.restarting if self.is_restarting else self._manager.stopping)()
        log.info("gateway-stopping", reason=self._why, processes=self.processes)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANNOUNCE_SECONDS):
                await self._announce_stop()
        self._stopping.set()
        await asyncio.gather(*keepers)
        while self._refusals:
            _log_unrecorded(self._refusals.popleft())

    async def _start(self, keepers: list[asyncio.Task[None]]) -> None:
        """Start all processes, each when the one before is ready; then pass on reloads, without end."""
        for plan in self._plans:
            ready = asyncio.Event()
            if plan.has_work is not None:
                ready.set()
            keepers.append(asyncio.create_task(self._unended(plan.name, self._keep(plan, ready))))
            await ready.wait()
        self._lifeline.ready()
        self._manager.ready()
        log.info("gateway-ready", processes=self.processes, next="amqp-gateway tree, amqp-gateway doctor")
        await self._pass_on_reloads()

    async def _until_parent_gone(self) -> None:
        await self._lifeline.parent_gone()
        self.stop("the process that started it has ended")

    async def _unended(self, name: str, part: Coroutine[Any, Any, None]) -> None:
        """Run a part that ends only when the gateway stops; one that ends otherwise ends the gateway.

        A gateway of which a part is missing would look alive.
        """
        try:
            await part
            reason = "it ended"
        except Exception as error:
            log.exception("part-failed", name=name)
            reason = repr(error)
        if not self._asked.is_set():
            self._failure = CommandError(ExitCode.FAILED, f"the supervisor's part {name!r} failed: {reason}")
            self.stop(f"its part {name} failed: {reason}")

    async def _watch_code(self) -> None:
        """Have the gateway restart when other code was installed, and can be started."""
        await until_other_can_start(self._code, self._again)
        if not self._asked.is_set():
            self.stop("other code was installed, and it restarts")
            self.is_restarting = True

    def _look_at_logs(self) -> None:
        """Have the core publish that other processes, or this one, have lost lines of their logs."""
        others = (line for name, line in self._lines.items() if name != PUBLISHER)
        lost: dict[object, int] = {line: _lost(line.last_answer) for line in others}
        self._unpublished_lines += self._lines_of_logs.lost_since({**lost, self: _own_lost()})
        self._publish()

    async def _announce_stop(self) -> None:
        """Let front ends send that the gateway stops, before they end."""
        core = self._lines.get(PUBLISHER)
        if core is None or not core.announce(GatewayStop(self._why)):
            return
        # The core has published it when it answers, and sent it when it answers again. A front end has
        # received it then, before the first question, and has sent it when it answers the second.
        for line in (core, *(line for line in self._lines.values() if line is not core)):
            for _ in range(2):
                await line.ask(ANNOUNCE_SECONDS)

    async def _pass_on_reloads(self) -> None:
        """Have the core read the configuration again after each SIGHUP; it may be starting just then."""
        while True:
            await self._reload_wanted.wait()
            self._reload_wanted.clear()
            waits = False
            while not await self._has_taken(Reload("SIGHUP")):
                if not waits:
                    log.info("reload-waits", reason="the core is not running; the next one reloads")
                waits = True
                # The core may seem ready although it has ended: what ends it must have its turn.
                await asyncio.sleep(FIRST_RESTART_SECONDS)

    async def _has_taken(self, announcement: Announcement) -> bool:
        """Return whether the core has taken an announcement; one that ended before has not."""
        core = self._lines.get(PUBLISHER)
        if core is None or not core.announce(announcement):
            return False
        unproven = 2  # the first answer may be that to a question of before
        while core.is_ready:
            if await core.ask(ANSWER_SECONDS) is None:
                await asyncio.sleep(FIRST_RESTART_SECONDS)
                continue
            unproven -= 1
            if not unproven:
                return True
        return False

    def refused(self, refusal: AccessRefused) -> None:
        """Have the core record that clients of a listener of this process were refused."""
        if self._stopping.is_set():
            _log_unrecorded(refusal)
            return
        if len(self._refusals) >= MAX_REFUSALS:
            attempts = refusal.attempts + self._refusals.pop().attempts
            refusal = AccessRefused(refusal.front_end, _OTHERS, refusal.reason, attempts)
        self._refusals.append(refusal)
        self._publish()

    async def readings(self) -> list[Reading]:
        """Return the present readings of all processes, and of the supervisor itself."""
        answers = await self._answers()
        build = families.BUILD.at(1, version(), platform.python_version())
        readings = [build, *usage(OWN_NAME, os.getpid()), families.LOG_LINES_LOST.at(_own_lost(), OWN_NAME)]
        for name, answer in answers.items():
            readings.append(families.RESTARTS.at(self.restarts[name], name))
            if name in self.processes or name not in self._former:
                readings.append(families.PROCESS_UP.at(answer is not None, name))
            if name in self.processes:
                readings += usage(name, self.processes[name])
            readings += continued(self._former.get(name, ()), answer or ())
        return readings

    async def silent(self) -> list[str]:
        """Return the names of the processes that were ready, live, give no answer, and do not run either.

        The core that cannot be started is one of them: front ends have nothing to show without it.
        """
        answers = await self._answers()
        hung = [
            name
            for name, line in self._lines.items()
            if line.is_ready and answers[name] is None and not self._unanswered[name].runs
        ]
        return [*hung, *([PUBLISHER] if self._cannot_start(PUBLISHER) else [])]

    async def _answers(self) -> dict[str, list[Reading] | None]:
        """Return the present answer of each process; ``None`` for one that does not answer."""

        async def ask(name: str) -> list[Reading] | None:
            line = self._lines.get(name)
            return None if line is None else await line.ask(ANSWER_SECONDS)

        names = [plan.name for plan in self._plans]
        return dict(zip(names, await asyncio.gather(*map(ask, names)), strict=True))

    async def _keep(self, plan: ProcessPlan, ready: asyncio.Event) -> None:
        """Start ``plan``'s process, again and again, until the end."""
        pause = FIRST_RESTART_SECONDS
        while not self._stopping.is_set():
            started = time.monotonic()
            code: int | None = None
            try:
                if plan.has_work is not None:
                    await until_one_ends(_until_work(plan.has_work), self._stopping.wait())
                    started = time.monotonic()
                if self._stopping.is_set():
                    return
                if self._code.is_other():  # a process of it would not understand the others
                    raise RuntimeError("other code was installed, and the gateway has not restarted yet")
                code, reason = await self._run_once(plan, ready)
            except _OF_THE_SYSTEM as error:
                reason = f"it could not be started: {error}"
            if self._stopping.is_set():
                return
            if not ready.is_set() and code is not None and code >= 0:
                # It never worked and has said why on standard error: trying again would hide that.
                # One that was killed could not say anything.
                self._failure = _never_ready(plan.name, code)
                self.stop(f"the process {plan.name} could not start")
                return
            if (plan.has_work is not None and code == ExitCode.OK) or code == ExitCode.AGAIN:
                continue
            if time.monotonic() - started > STEADY_SECONDS:
                pause = FIRST_RESTART_SECONDS
            self._died(plan.name, code, reason, pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            pause = min(2 * pause, LAST_RESTART_SECONDS)

    def _died(self, name: str, code: int | None, reason: str, pause: float) -> None:
        """Log and publish that a process ended, or that none could be started: then there is no code."""
        self.restarts[name] += 1
        self._failed_starts[name] += 1  # a process that becomes ready resets it
        if code is None:
            log.warning("process-not-started", name=name, reason=reason, restart_in_seconds=pause)
        else:
            log.warning("process-died", name=name, exit_code=code, restart_in_seconds=pause)
            self._publish(ProcessEnd(name, reason))
        if self._cannot_start(name):
            self._note_starts({**self._not_started.reasons, name: reason})

    def _cannot_start(self, name: str) -> bool:
        return self._failed_starts[name] >= FAILED_STARTS

    def _note_starts(self, reasons: dict[str, str]) -> None:
        """Publish the processes that cannot be started, where they are others than before."""
        if reasons != self._not_started.reasons:
            self._not_started, self._owes_not_started = NotStarted(reasons), True
            self._publish()

    def _became_ready(self, name: str) -> None:
        """Publish what waited for the core if it is this one, and that this process could be started."""
        self._failed_starts[name] = 0
        others = {each: why for each, why in self._not_started.reasons.items() if each != name}
        # A core that takes over is told in any case: the one before may have raised the alarm.
        self._owes_not_started |= name == PUBLISHER
        self._note_starts(others)
        self._publish()

    async def _run_once(self, plan: ProcessPlan, ready: asyncio.Event) -> tuple[int, str]:
        """Run a process once; return its exit code, negative for a signal, and why it ended."""
        ours, theirs = socket.socketpair()
        kept = self._sockets.get(plan.name)
        listener = None if kept is None else kept.listener
        number = None if self._numbers is None else self._numbers.next(plan.name)
        with contextlib.closing(ProcessLine(ours)) as line:
            with theirs:
                inherited = {"--lifeline": theirs.fileno()}
                if self._state_lock is not None:
                    inherited["--state-lock"] = self._state_lock
                if listener is not None:
                    inherited["--listener"] = listener.fileno()
                options = [*inherited.items(), *([] if number is None else [("--start", number)])]
                process = await asyncio.create_subprocess_exec(
                    *plan.command,
                    *(str(word) for option in options for word in option),
                    pass_fds=list(inherited.values()),
                    stdin=asyncio.subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for the supervisor: it ends the others in order
                )
            self.processes[plan.name], self._lines[plan.name] = process.pid, line

            def is_ready() -> None:
                if kept is not None and listener is not None:
                    kept.served(line, listener)
                ready.set()
                self._became_ready(plan.name)

            try:
                return await self._until_ended(plan.name, process, line, is_ready)
            except Exception:
                if process.returncode is None:  # else its number may be another process's
                    _kill(process, plan.name, "it cannot be observed any more")
                raise
            finally:
                if kept is not None:
                    kept.left()
                del self.processes[plan.name], self._lines[plan.name]
                if plan.name in self._former:
                    self._former[plan.name] = continued(self._former[plan.name], line.last_answer)

    async def _until_ended(
        self,
        name: str,
        process: asyncio.subprocess.Process,
        line: ProcessLine,
        is_ready: Callable[[], None],
    ) -> tuple[int, str]:
        """Wait until a process ends, hangs, or is to end; return its exit code and why it ended."""
        unanswered = self._unanswered[name] = Unanswered(name)
        receiving = asyncio.create_task(line.receive(is_ready, self._reported))
        ended = asyncio.create_task(process.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        hanging = asyncio.create_task(_until_hung(line, unanswered, process.pid))
        try:
            await asyncio.wait({ended, stopping, hanging}, return_when=asyncio.FIRST_COMPLETED)
            hangs = hanging.result() if hanging.done() and not ended.done() else ""
            if hangs:
                _kill(process, name, hangs)
            elif not ended.done():
                await _end(process, name, ended)
            code = await ended
        finally:
            for task in (receiving, stopping, hanging):
                task.cancel()
            await asyncio.gather(receiving, stopping, hanging, return_exceptions=True)
        return code, hangs or _reason(code)

    def _reported(self, announcement: Announcement) -> None:
        """Publish what a process reports of one that it had started."""
        if isinstance(announcement, ProcessEnd):
            self._publish(announcement)

    def _publish(self, *ends: ProcessEnd) -> None:
        """Announce ends of processes, refused clients and lost lines to the core, when it is there.

        It may be the one that ended.
        """
        self._unpublished += ends
        core = self._lines.get(PUBLISHER)
        if core is None:
            return
        if self._owes_not_started:
            self._owes_not_started = not core.announce(self._not_started)
        while self._unpublished and core.announce(self._unpublished[0]):
            self._unpublished.popleft()
        while self._refusals and core.announce(self._refusals[0]):
            self._refusals.popleft()
        if self._unpublished_lines and core.announce(LogLinesLost(self._unpublished_lines)):
            self._unpublished_lines = 0


def _log_unrecorded(refusal: AccessRefused) -> None:
    """Log a report of refused clients that no core takes any more."""
    log.warning(
        "refused-attempts-not-recorded",
        principal=refusal.front_end,
        origin=refusal.address,
        attempts=refusal.attempts,
        last=refusal.reason,
    )


def _lost(readings: Iterable[Reading]) -> int:
    """Return how many lines of its log a process has lost, by its readings."""
    return int(sum(each.value for each in readings if each.family == families.LOG_LINES_LOST.name))


def _own_lost() -> int:
    output = log_output()
    return 0 if output is None else output.lost


def _reason(code: int) -> str:
    """Return why a process ended, by its exit code, negative for a signal."""
    if code >= 0:
        return f"it exited with {code}; the log has its reason"
    try:
        return f"it was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was ended by signal {-code}"


async def _end(process: asyncio.subprocess.Process, name: str, ended: asyncio.Future[int]) -> None:
    """Ask a process to end, and kill it if it does not do so in time."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await asyncio.shield(ended)
    except TimeoutError:
        _kill(process, name, "did not end when asked")


def _kill(process: asyncio.subprocess.Process, name: str, reason: str) -> None:
    """End a process, and all processes that it has started, at once."""
    log.warning("process-killed", name=name, reason=reason)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _until_work(has_work: Callable[[], bool]) -> None:
    """Wait until there is work for a process that runs only then."""
    while not await asyncio.to_thread(has_work):  # noqa: ASYNC110  nothing says when a file appears
        await asyncio.sleep(LOOK_SECONDS)


class Unanswered:
    """The questions that a process which was ready left without an answer, and whether it ran meanwhile.

    A process that uses its processor and answers late is slow. An answer, however late, ends the count.

    Args:
        name: the name of the process.

    Attributes:
        runs: by the last question, it gives no answer, and its main thread used the processor since the
            question before.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = False
        self._questions = self._idle = self._answers = 0
        self._processor: float | None = None

    def asked(self, answers: int, processor: float) -> str:
        """Take the result of a question; return why the process hangs, and the empty text if it does not.

        Args:
            answers: the number of its answers so far.
            processor: the processor time of its main thread so far, in seconds; 0 where it is not known.
        """
        before, self._processor = self._processor, processor
        if answers != self._answers:
            self._answers, self._questions, self._idle, self.runs = answers, 0, 0, False
            return ""
        self.runs = before is not None and processor > before
        self._questions += 1
        self._idle = 0 if self.runs else self._idle + 1
        if self._idle >= HUNG_QUESTIONS:
            return "it hangs: it lives, and neither answers nor runs"
        if self._questions >= BUSY_QUESTIONS:
            seconds = round(self._questions * (LOOK_SECONDS + ANSWER_SECONDS))
            return f"it hangs: it runs, and has not answered for {seconds} s"
        if self._questions % HUNG_QUESTIONS == 0:
            log.warning("process-answers-late", name=self.name, unanswered=self._questions)
        return ""


async def _until_hung(line: ProcessLine, unanswered: Unanswered, pid: int) -> str:
    """Wait until a process is hung, and return the reason.

    One that was ready is judged by `Unanswered`. One that starts may need minutes, and cannot answer before
    its event loop runs; but as long as it works, or its loop runs, its main thread is switched to. Counts of
    looks decide, not times: where the supervisor itself, or the machine, stood still, time passed for all of
    them.
    """
    idle = starting = switches = 0
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if line.is_ready:
            await line.ask(ANSWER_SECONDS)
            if hangs := unanswered.asked(line.answers, processor_seconds(pid)):
                return hangs
            continue
        starting += 1
        if starting % IDLE_LOOKS == 0:
            log.warning("process-not-ready-yet", name=unanswered.name, seconds=_seconds(starting))
        before, switches = switches, context_switches(pid)
        idle = idle + 1 if 0 < switches == before else 0  # 0: this system does not count them
        if idle >= IDLE_LOOKS:
            return "it hangs: it has not run for long, and was not ready yet"
        if starting >= START_LOOKS:
            return f"it hangs: it works, and is not ready after {_seconds(starting)} s"


def _seconds(looks: int) -> int:
    return round(looks * LOOK_SECONDS)


def _never_ready(name: str, code: int) -> CommandError:
    """Return the error with which the supervisor ends after a process that was never ready.

    The error has the exit code of the process if that is one of `ExitCode`: such a process has reported the
    reason.

    A process that ended by one has said why.
    """
    if code in set(ExitCode) - {ExitCode.OK}:
        return CommandError(ExitCode(code), "")
    text = f"the process {name!r} ended with exit code {code} before it was ready: see the log above"
    return CommandError(ExitCode.FAILED, text)


@dataclass(frozen=True, slots=True)
class MetricsPages:
    """The endpoint of metrics.

    Attributes:
        listen: numeric address, and port.
        objects: the socket of the process that has the metrics of objects; ``None`` where there is none.
        tls: the files with certificate and key; ``None`` for plain HTTP.
        client_ca: the file with the authorities of required client certificates; ``None`` requires none.
        connections: the maximum number of connections.
    """

    listen: tuple[str, int]
    objects: Path | None
    tls: tuple[Path, Path] | None = None
    client_ca: Path | None = None
    connections: int = 64


async def run_gateway(
    plans: Sequence[ProcessPlan],
    pages: MetricsPages | None,
    lifeline: Lifeline,
    state_lock: int,
    sockets: Mapping[str, Path],
    again: Sequence[str],
    numbers: ReservedStarts,
) -> bool:
    """Run the processes until SIGINT, SIGTERM, the end of the process that started us, or other code.

    Args:
        plans: the processes.
        pages: the endpoint of metrics; ``None`` if they are not served.
        lifeline: to the process that started us.
        state_lock: descriptor of the state folder's lock.
        sockets: the paths of the sockets on which processes listen, by their names.
        again: the command of the gateway that begins in its place when other code was installed.
        numbers: gives the starts of processes their numbers; those that are left are given back at the end.

    Returns:
        Whether other code was installed, which is to begin in the place of this process.

    Raises:
        CommandError: one of them could not do its work from the very start, a socket cannot be made, or the
            address of the metrics is taken.
    """
    manager = ServiceManager.of_environment()
    async with AsyncExitStack() as beside:
        beside.callback(numbers.close)
        kept = {}
        for name, path in sockets.items():
            kept[name] = KeptSocket(path)
            beside.callback(kept[name].close)
        supervisor = Supervisor(plans, lifeline, state_lock, manager, kept, again=again, numbers=numbers)
        if pages is not None:
            late = importlib.import_module("gateway.service.metrics.endpoint")
            endpoint = late.metrics_endpoint(pages, supervisor.readings, supervisor.refused)
            await beside.enter_async_context(endpoint)
        await supervisor.run()
    if supervisor.is_restarting:
        manager.hand_on()
    return supervisor.is_restarting
