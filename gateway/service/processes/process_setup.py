"""The setup of every process: structured logs on standard error, garbage collection, signals that end it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import structlog

from gateway.clock import Clock, SystemClock
from gateway.escapes import printable
from gateway.service.metrics import families
from gateway.service.metrics.process import measured
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import Lifeline
from gateway.service.processes.log_output import (
    LAST_SECONDS,
    LogLines,
    LogOutput,
    log_output,
    replace_standard_error,
)
from gateway.service.processes.parent_guard import ParentGuard
from gateway.service.processes.stop_signals import (
    ends_with_terminal,
    heeded,
    let_stop_signals_in,
    survive_other_signals,
)
from gateway.service.processes.systemd import MODULE

RunProcess: TypeAlias = Callable[[Clock, Lifeline], Coroutine[Any, Any, None]]
"""The work of a process with its configuration, until it is cancelled."""


def run_process(
    name: str,
    run: RunProcess,
    inherited: tuple[int | None, int | None, ParentGuard, int | None, int | None],
) -> None:
    """Run a process of the gateway to its end.

    Args:
        name: name of the process.
        run: its work.
        inherited: descriptors of the lifeline and of the state folder's lock, the guard of the lifeline, and
            the descriptor of the socket to listen on; the number of this start.

    Raises:
        CommandError: the process cannot run.
    """
    lifeline = Lifeline(*inherited)
    output = log_output()
    if output is not None:
        lifeline.metrics.add("log", lambda: (families.LOG_LINES_LOST.at(output.lost, name),))
    work = run(SystemClock(), lifeline)
    try:
        asyncio.run(until_terminated(measured(work, name, lifeline.metrics), is_service=True))
    finally:
        if "duckdb" in sys.modules:  # else it complains at the end of what it holds
            gc.unfreeze()


_EXECUTE_TRIALS: Final = 30
"""Trials to execute the interpreter, a second apart."""


def become(words: Sequence[str], state_lock: int | None, lifeline: int | None) -> NoReturn:
    """Start a command of the installed gateway in the place of this process: same number, same descriptors.

    Args:
        words: the command line, without the descriptors.
        state_lock: descriptor of the state folder's lock, if the command takes one.
        lifeline: descriptor of the lifeline to the process that started this one, if any.

    Raises:
        CommandError: the interpreter cannot be executed for half a minute.
    """
    inherited = {"--state-lock": state_lock, "--lifeline": lifeline}
    words = [*MODULE, *words]
    for option, descriptor in inherited.items():
        if descriptor is not None:
            os.set_inheritable(descriptor, True)
            words += [option, str(descriptor)]
    sys.stdout.flush()
    sys.stderr.flush()
    if (output := log_output()) is not None:
        output.wait(LAST_SECONDS)
    trials = 0
    while True:
        try:
            os.execv(sys.executable, words)  # noqa: S606  our own program
        except OSError as error:  # the interpreter is being replaced
            trials += 1
            if trials == _EXECUTE_TRIALS:
                text = f"{sys.executable} cannot be executed: {error.strerror}"
                raise CommandError(ExitCode.FAILED, text) from error
            time.sleep(1)


def configure_logs(process: str, level: int = logging.INFO) -> None:
    """Log to standard error: readable on a terminal, else one JSON object a line.

    A line and its end are one write, because all processes share standard error.

    Args:
        process: part of every line: ``core``, ``snmp``, ...
        level: the least level that is logged; a command that reports errors itself passes
            ``logging.CRITICAL``.
    """
    lines = replace_standard_error() if level < logging.CRITICAL else LogLines(LogOutput(2))
    renderer: structlog.typing.Processor
    display: tuple[structlog.typing.Processor, ...] = ()
    if sys.stderr.isatty():
        display = (_displayed,)
        renderer = structlog.dev.ConsoleRenderer(colors=not os.environ.get("NO_COLOR"))  # no-color.org
    else:
        renderer = structlog.processors.JSONRenderer(sort_keys=True)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            lines.note_lost,
            *display,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lines,
    )
    structlog.contextvars.bind_contextvars(process=process)
    # The links report in one line what these libraries log with a traceback.
    for library in ("aio_pika", "aiormq", "httpx", "httpcore", "asyncio", "py4j"):
        logging.getLogger(library).setLevel(logging.CRITICAL)


def _displayed(
    _logger: object, _method: str, fields: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape texts for a terminal, which JSON escapes by itself; the lines of a traceback stay."""
    return {
        name: "\n".join(map(printable, value.split("\n") if name == "exception" else [value]))
        if isinstance(value, str)
        else value
        for name, value in fields.items()
    }


_YOUNG_OBJECTS = 10_000
"""Allocations between two collections of the youngest generation; the default, 700, is too costly."""

_YOUNGER_BEFORE_MIDDLE, _MIDDLE_BEFORE_OLD = 4, 2_500
"""Young objects are not collected while 100,000 objects are read: a million takes half a second."""


def tune_garbage_collection() -> None:
    """Reduce collections after the setup: a full one over 100,000 objects blocks the loop for 24 to 77 ms."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNGER_BEFORE_MIDDLE, _MIDDLE_BEFORE_OLD)


async def until_terminated(work: Coroutine[Any, Any, None], *, is_service: bool = False) -> bool:
    """Run ``work`` to its end; SIGINT or SIGTERM cancel it, which is no error then.

    Args:
        work: the work.
        is_service: SIGHUP, which asks a service to read its configuration again, is logged as not followed.
            It cancels the work where `ends_with_terminal` is true. SIGUSR1 and SIGUSR2 are logged.

    Returns:
        Whether a signal asked for the end.

    Raises:
        Exception: what ``work`` raises.
    """
    task = asyncio.ensure_future(work)
    asked = False

    def ask() -> None:
        nonlocal asked
        asked = True
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in heeded():
        loop.add_signal_handler(number, ask)
    if is_service:
        loop.add_signal_handler(signal.SIGHUP, ask if ends_with_terminal() else log_not_reloaded)
        survive_other_signals()
    let_stop_signals_in()
    try:
        await task
    except asyncio.CancelledError:
        if not asked:
            raise
    return asked


def log_not_reloaded(**waiting: object) -> None:
    """Log that a SIGHUP does not make the process read its configuration again.

    Args:
        waiting: the changes that wait for a restart, as far as they are known.
    """
    reason = "the configuration is read at a start only: amqp-gateway check, then restart the gateway"
    structlog.get_logger().warning("not-reloaded", reason=reason, **waiting)
