"""Commands of ours as processes: one that ends, and one that goes on for as long as we do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from gateway.service.processes.lifeline import READY

STOP_SECONDS: Final = 15.0
_PROGRAM: Final = (sys.executable, "-m", "gateway.cli.main")


@dataclass(frozen=True, slots=True)
class EndedCommand:
    """How a command ended.

    Attributes:
        code: its exit code.
        printed: on standard output.
        complaints: on standard error.
    """

    code: int
    printed: str
    complaints: str


async def run_command(*words: str) -> EndedCommand:
    """Run ``amqp-gateway WORDS`` and wait for its end; nothing is on its standard input."""
    process = await asyncio.create_subprocess_exec(
        *(*_PROGRAM, *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        printed, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return EndedCommand(
        process.returncode or 0, printed.decode("utf-8", "replace"), complaints.decode("utf-8", "replace")
    )


class RunningCommand:
    """A command of ours as a process, held by a lifeline: it ends when we do."""

    def __init__(self, process: asyncio.subprocess.Process, line: socket.socket) -> None:
        self.process = process
        self._line = line

    @classmethod
    async def start(cls, log: Path, *words: str) -> Self:
        """Start ``amqp-gateway WORDS``; what it prints and logs is added to the file ``log``."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs, log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *(*_PROGRAM, *words, "--lifeline", str(theirs.fileno())),
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(os.environ),
                start_new_session=True,
            )
        return cls(process, ours)

    async def ready(self) -> None:
        """Until it says that it is ready, or has ended."""
        with contextlib.suppress(ConnectionError):
            if await asyncio.get_running_loop().sock_recv(self._line, 1) == READY:
                return
        await self.process.wait()

    async def kill(self) -> None:
        """End it by SIGKILL, as a crash would."""
        self.process.kill()
        await self.process.wait()
        self._line.close()

    async def stop(self) -> None:
        """End it as an operator would, and wait for its end."""
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        try:
            await asyncio.wait_for(self.process.wait(), timeout=STOP_SECONDS)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        self._line.close()
