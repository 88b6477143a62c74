"""The peers of four kinds in a process of their own, which SIGSTOP can stop.

It writes the port of the OpenAMQ to its standard output, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gateway.demo.broker import PrivateBroker
from gateway.dialects.qmf.am01.messages import Revision
from tests.all_dialects.qpid_broker import QpidBroker
from tests.components.am01_agent import Am01Agent
from tests.components.ami_application import connected
from tests.components.open_amq import open_amq

APPLICATION: Final = "pump-7"
SAID_SECONDS: Final = 0.5
"""The time between two lines of the application, which is closed when it says nothing for some seconds."""


@contextmanager
def peer_process(
    broker: PrivateBroker, for_qpid: str, for_cellar: str, ami_port: int
) -> Iterator[tuple[int, int]]:
    """Provide the peers; return the id of their process, and the port of the OpenAMQ."""
    words = (broker.folder, for_qpid, for_cellar, ami_port)
    with subprocess.Popen(  # noqa: S603  our own program
        [sys.executable, "-m", __name__, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


async def serve(broker: PrivateBroker, for_qpid: str, for_cellar: str, ami_port: int) -> None:
    """Be all of them, until this process ends."""
    qpid, cellar = QpidBroker(broker, for_qpid), Am01Agent(broker, for_cellar, Revision.DESIGN_NOTES)
    cellar.put(1)
    threading.Thread(target=apply, args=(ami_port,), daemon=True).start()
    async with open_amq() as (_, on_the_wire):
        sys.stdout.write(f"{on_the_wire.port}\n")
        sys.stdout.flush()
        await asyncio.gather(qpid.run(), cellar.run())


def apply(ami_port: int) -> None:
    """Be an application that says the same again and again, and connects again where it was closed."""
    pause = threading.Event()
    while True:
        with contextlib.suppress(OSError, AssertionError), connected(ami_port) as application:
            application.log_in(APPLICATION)
            while True:
                application.say('O|T="Tank"|I="t1"|level=42|filled=900L|state="open"')
                application.receive()
                pause.wait(SAID_SECONDS)
        pause.wait(SAID_SECONDS)


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    folder, for_qpid, for_cellar, ami_port = sys.argv[1:]
    threading.Thread(target=_end_with_input, daemon=True).start()
    attached = PrivateBroker.attach(Path(folder))
    assert attached is not None, "the broker runs"
    asyncio.run(serve(attached, for_qpid, for_cellar, int(ami_port)))
