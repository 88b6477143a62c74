"""Signals that end a process, with the process that sent them."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

WAITING = """
import asyncio, os, signal, sys
from gateway.service.processes.stop_signals import let_stop_signals_in, stop_signals

async def main():
    stopped = asyncio.get_running_loop().create_future()
    with stop_signals(stopped.set_result):
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD)
        assert await child.wait() == 0
        print(os.getpid(), flush=True)
        print(await stopped, flush=True)
    print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), flush=True)

CHILD = '''
import signal
from gateway.service.processes.stop_signals import let_stop_signals_in
let_stop_signals_in()
assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
'''
asyncio.run(main())
"""


@contextmanager
def waiting_process(ignored: signal.Signals | None = None) -> Iterator[IO[str]]:
    """Provide the output of a process that waits for a signal, which is its first line: its number."""
    ignoring = "" if ignored is None else f"import signal; signal.signal({ignored.value}, signal.SIG_IGN)"
    words = [sys.executable, "-c", ignoring + WAITING]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as waiting:  # noqa: S603  of this file
        assert waiting.stdout is not None
        yield waiting.stdout
        waiting.stdout.read()
    assert waiting.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_reason_names_signal_process_and_user(number: signal.Signals) -> None:
    with waiting_process() as output:
        os.kill(int(output.readline()), number)
        reason = output.readline()
        assert output.readline() == "set()\n", "nothing is blocked afterwards"
    assert reason.startswith(f"it got {number.name} from process {os.getpid()} (")
    assert reason.endswith(f") of user {pwd.getpwuid(os.getuid()).pw_name}\n")


def test_a_sender_that_ends_at_once_is_named_by_its_number_at_least() -> None:
    with waiting_process() as output:
        words = [sys.executable, "-c", f"import os; os.kill({output.readline()}, 15)"]
        with subprocess.Popen(words) as sender:  # noqa: S603  of this test
            pass
        assert output.readline().startswith(f"it got SIGTERM from process {sender.pid} ")


def test_ctrl_c_does_not_end_what_a_script_began_in_the_background() -> None:
    with waiting_process(ignored=signal.SIGINT) as output:
        pid = int(output.readline())
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
        assert output.readline().startswith("it got SIGTERM from process")
