"""A small process that keeps a private broker, and ends it when no process uses it any more.

An owner killed by SIGKILL cannot clean up. So the broker's processes are never the owner's children, but
those of this keeper, and each user of the broker holds a shared lock on a lease file: the kernel drops it
with the user, however that ends. A process that inherits a user's descriptor is a user, too. As soon as the
keeper gets the lock for itself, no user is left: it ends the node, then the port mapper, then whatever they
left running (it is their sub-reaper, ``prctl(2)``), and removes the folder. Should the keeper itself be
killed, the kernel kills node and port mapper (``PR_SET_PDEATHSIG``); only the folder's files remain then.

It runs as a script, with the standard library alone: ``python -I keeper.py FOLDER``. Commands arrive as
lines on standard input (``start``, ``stop``, ``kill``, ``guard``); after each it writes `STATE_FILE`.
From ``guard`` on, a node that ends without a command is started again, at most `MOST_RESTARTS` times within
`RESTART_SECONDS`: users that only attached cannot give commands.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

PLAN_FILE: Final = "keeper.plan.json"
"""The file with the plan of the keeper.

It has ``port_mapper`` and ``node`` (argument lists), ``environment``, ``grace`` in seconds given to a node to
stop by itself (0: it is killed at once), ``remove`` (the folder, at the end).
"""

STATE_FILE: Final = "keeper.state.json"
"""The file with the state of the processes.

It has ``handled`` (number of commands carried out), ``node`` and ``port_mapper`` (process ids or null),
``node_status`` (how the node's last process ended: exit status, or minus the signal, or null), ``detached``
(the process that started the keeper has closed its input, and others use the broker), ``given_up`` (a
guarded node ended so often that it is not started again, but by a command).
"""

LEASE_FILE: Final = "lease"
"""The lease file, on which each user of the broker holds a shared lock (``flock(2)``)."""

CONSOLE_FILE: Final = "console.log"
"""The file with the output of node and port mapper."""

MOST_RESTARTS: Final = 3
RESTART_SECONDS: Final = 600.0

_POLL_SECONDS: Final = 0.1
_REAP_SECONDS: Final = 5.0
_REAP_POLL_SECONDS: Final = 0.01
_REMOVE_SECONDS: Final = 30.0
_NONE_ENDED: Final = (0, 0)
_MAX_COMMAND_OCTETS: Final = 4096
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Keeper:
    """Runs one node and its port mapper from the plan in ``folder``, until the lease ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        plan: dict[str, Any] = json.loads((folder / PLAN_FILE).read_text())
        self._node_command: list[str] = plan["node"]
        self._environment: dict[str, str] = plan["environment"]
        self._grace: float = plan["grace"]
        self._remove: bool = plan["remove"]
        # A lock belongs to the open file: this descriptor has to stay open as long as the keeper lives.
        self._lease = os.open(folder / LEASE_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._handled = 0
        self._node_status: int | None = None
        self._node: subprocess.Popen[bytes] | None = None
        self._ending = False
        self._detached = False
        self._guarded = False
        self._given_up = False
        self._restarts: list[float] = []
        self._port_mapper = self._spawn(plan["port_mapper"])

    def run(self) -> None:
        """Carry out commands until a signal ends the keeper, or no user is left."""
        commands: dict[str, Callable[[], None]] = {
            "start": self._start_node,
            "stop": self._stop_node,
            "kill": self._kill_node,
            "guard": self._guard_node,
        }
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._asked_to_end)
        self._write_state()
        pending = b""
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin, selectors.EVENT_READ)
            while not self._ending and not self._abandoned():
                if self._detached:
                    time.sleep(_POLL_SECONDS)
                elif selector.select(_POLL_SECONDS):
                    received = os.read(sys.stdin.fileno(), _MAX_COMMAND_OCTETS)
                    *lines, pending = (pending + received).split(b"\n")
                    for line in lines:
                        commands[line.decode()]()
                        self._handled += 1
                        self._write_state()
                    # The lease is asked before this is told: an owner that waits learns the truth.
                    if not received and not self._abandoned():
                        self._detached = True
                        self._write_state()
                self._reap()

    def end(self) -> None:
        """End every process below this one, and remove the folder if the plan says so."""
        self._stop_node()
        self._port_mapper.kill()
        self._port_mapper.wait()
        self._reap_what_is_left()
        if self._remove:
            self._remove_folder()

    def _remove_folder(self) -> None:
        """Remove the folder; again, if a process that is ending wrote a file to it meanwhile."""
        deadline = time.monotonic() + _REMOVE_SECONDS
        while self._folder.exists() and time.monotonic() < deadline:
            shutil.rmtree(self._folder, ignore_errors=True)
            time.sleep(_POLL_SECONDS)

    def _abandoned(self) -> bool:
        try:
            fcntl.flock(self._lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _asked_to_end(self, _number: int, _frame: FrameType | None) -> None:
        self._ending = True

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (self._folder / CONSOLE_FILE).open("ab") as console:
            return subprocess.Popen(  # noqa: S603  the commands come from the plan of our own owner
                command,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                cwd=self._folder,
                env=self._environment,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  this process has one thread
            )

    def _start_node(self) -> None:
        self._note_exit()
        if self._node is None:
            self._node_status = None
            self._given_up = False
            self._node = self._spawn(self._node_command)

    def _stop_node(self) -> None:
        if self._node is not None and self._grace > 0:
            self._node.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._node.wait(self._grace)
        self._kill_node()

    def _kill_node(self) -> None:
        if self._node is not None:
            self._node.kill()
            self._node.wait()
        self._note_exit()

    def _guard_node(self) -> None:
        self._guarded = True

    def _restart_node(self) -> None:
        """Start a node again that ended by itself, unless it does so again and again."""
        now = time.monotonic()
        self._restarts = [one for one in self._restarts if now - one < RESTART_SECONDS]
        if len(self._restarts) < MOST_RESTARTS:
            self._restarts.append(now)
            self._start_node()
        else:
            self._given_up = True
        self._write_state()

    def _note_exit(self) -> bool:
        """Return whether the node has ended since the last call."""
        if self._node is None or self._node.poll() is None:
            return False
        self._node_status = self._node.returncode
        self._node = None
        self._write_state()
        return True

    def _reap(self) -> None:
        """Note a node that ended, and reap its orphans, which the kernel hands to this process."""
        # The end by a command was noted where that was carried out.
        if self._note_exit() and self._guarded:
            self._restart_node()
        ours = {self._port_mapper.pid} | ({self._node.pid} if self._node else set())
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while (ended := os.waitid(os.P_ALL, 0, options)) is not None:
            if ended.si_pid in ours:
                break
            os.waitpid(ended.si_pid, 0)

    def _write_state(self) -> None:
        state = {
            "handled": self._handled,
            "node": None if self._node is None else self._node.pid,
            "port_mapper": self._port_mapper.pid,
            "node_status": self._node_status,
            "detached": self._detached,
            "given_up": self._given_up,
        }
        beside = self._folder / f"{STATE_FILE}.new"
        beside.write_text(json.dumps(state))
        beside.replace(self._folder / STATE_FILE)

    def _reap_what_is_left(self) -> None:
        """Kill and reap until none is left: Erlang's port programs outlive a killed node for a moment."""
        deadline = time.monotonic() + _REAP_SECONDS
        while time.monotonic() < deadline:
            for process in _children(os.getpid()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG) != _NONE_ENDED:
                    pass
            except ChildProcessError:
                return
            time.sleep(_REAP_POLL_SECONDS)


def _children(parent: int) -> list[int]:
    """Return the process ids of living children of ``parent`` (``proc(5)``, fields 3 and 4 of ``stat``)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def main() -> None:
    """Keep the broker of the folder named by the first argument."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    keeper = Keeper(Path(sys.argv[1]))
    try:
        keeper.run()
    finally:
        keeper.end()


if __name__ == "__main__":
    main()
