"""Pictures of JConsole, the JDK's own, as it shows a running demonstration: attributes, and notifications."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.demo.demonstration import JMX_SECRET, JMX_USER, SOURCE, Demonstration

PROGRAM = Path(__file__).parents[1] / "java" / "pictures" / "JConsolePicture.java"
SCREEN = "1280x860x24"
PICTURES_SECONDS = 240.0

# JConsole sorts by the key `type` first, whatever the order in the name.
QUEUE = ("amqp.gateway", "queue", SOURCE, "rabbitmq", "shop", "orders.audit")
GATEWAY = ("amqp.gateway", "Gateway")


class PicturesError(Exception):
    """A picture could not be taken; the text says why."""


async def photograph(running: Demonstration, folder: Path) -> list[Path]:
    """Start JConsole on a virtual screen, log in, and save what it shows; return the files.

    Args:
        running: its workload goes on, so that there are notifications.
        folder: for ``jconsole-attributes.png`` and ``jconsole-notifications.png``.

    Raises:
        PicturesError: JConsole did not show what it should.
    """
    pictures = [folder / "jconsole-attributes.png", folder / "jconsole-notifications.png"]
    try:
        async with _screen() as display, asyncio.timeout(PICTURES_SECONDS):
            await _photograph(running, display, pictures)
    except TimeoutError as error:
        raise PicturesError(f"JConsole did not end within {PICTURES_SECONDS:g} s") from error
    return pictures


async def _photograph(running: Demonstration, display: str, pictures: list[Path]) -> None:
    assert running.state is not None
    process = await asyncio.create_subprocess_exec(
        *("java", "--add-exports", "jdk.jconsole/sun.tools.jconsole=ALL-UNNAMED", str(PROGRAM)),
        *(
            running.jmx_address,
            JMX_USER,
            "|".join(QUEUE),
            str(pictures[0]),
            "|".join(GATEWAY),
            str(pictures[1]),
        ),
        env=dict(os.environ) | {"DISPLAY": display},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate(running.state.secret(JMX_SECRET).encode() + b"\n")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise PicturesError(said.decode("utf-8", "replace"))


@asynccontextmanager
async def _screen() -> AsyncIterator[str]:
    """Run an X server without a screen; provide its display."""
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *("setpriv", "--pdeathsig", "TERM", "Xvfb", "-displayfd", str(writing)),
        *("-screen", "0", SCREEN, "-nolisten", "tcp"),
        pass_fds=[writing],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    os.close(writing)
    try:
        with os.fdopen(reading) as chosen:
            number = (await asyncio.to_thread(chosen.readline)).strip()
        if not number:
            raise PicturesError("Xvfb did not start")
        yield f":{number}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
