"""SIGINT and SIGTERM with their senders, so that the log says who ended the gateway.

A handler of a signal learns its number only. `sigwaitinfo` also returns the process and the user that sent
it, but needs the signals to be blocked in every thread. Processes that are started meanwhile inherit that,
and have to unblock them. What a thread receives nevertheless is handled without its sender.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM})


@contextmanager
def stop_signals(stop: Callable[[str], None]) -> Iterator[None]:
    """Call ``stop`` with a reason at SIGINT and SIGTERM, on the running event loop of the main thread.

    The reason is ``it got SIGTERM from process 812 (systemd) of user root``.
    """
    loop = asyncio.get_running_loop()
    wanted = heeded()
    for number in wanted:
        loop.add_signal_handler(number, stop, f"it got {number.name}")
    former = signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    ends = threading.Event()

    def wait() -> None:
        while True:
            received = signal.sigwaitinfo(wanted)
            if ends.is_set():
                return
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(
                    stop, f"it got {signal.Signals(received.si_signo).name}{_from(received)}"
                )

    waiting = threading.Thread(target=wait, name="stop-signals", daemon=True)
    waiting.start()
    try:
        yield
    finally:
        ends.set()
        assert waiting.ident is not None
        signal.pthread_kill(waiting.ident, signal.SIGTERM)
        waiting.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
        for number in wanted:
            loop.remove_signal_handler(number)


def heeded() -> frozenset[signal.Signals]:
    """Return the signals that end this process: without SIGINT where ``&`` of a script began it."""
    ignores = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return STOP_SIGNALS - {signal.SIGINT} if ignores else STOP_SIGNALS


def ends_with_terminal() -> bool:
    """Return whether SIGHUP says that the terminal is gone; not if it was ignored before, as by ``nohup``."""
    return sys.stderr.isatty() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN


def survive_other_signals() -> None:
    """Log SIGUSR1 and SIGUSR2, by which other services open their logs again, and go on.

    Without a handler they would end this process without a word.
    """
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        asyncio.get_running_loop().add_signal_handler(
            number, partial(log.warning, "signal-without-meaning", signal=number.name)
        )


def let_stop_signals_in() -> None:
    """Unblock the signals in this thread: a process that the supervisor started inherited them blocked."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def _from(received: signal.struct_siginfo) -> str:
    """Return the sender, as far as it is known; a terminal (Ctrl-C) has no process."""
    if received.si_pid == 0:
        return " from its terminal"
    try:
        user = pwd.getpwuid(received.si_uid).pw_name
    except KeyError:
        user = str(received.si_uid)
    if received.si_pid == os.getpid():
        return " from itself"
    try:
        command = Path(f"/proc/{received.si_pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # it has ended, as `kill` has, or this system has no such files
        return f" from process {received.si_pid} of user {user}"
    return f" from process {received.si_pid} ({command}) of user {user}"
