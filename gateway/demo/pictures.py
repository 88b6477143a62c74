"""``make pictures``: the pictures of the documentation, taken of the running demonstration.

``python -m gateway.demo.pictures FOLDER`` starts a demonstration and a screen that nobody sees, has the JDK's
own JConsole log in, and saves what it shows: an MBean's attributes, and notifications as they arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.demo.demonstration import JMX_SECRET, JMX_USER, SOURCE, Demonstration
from gateway.demo.install import PICTURE_PACKAGES, InstallError, ensure_installed

PROGRAM = Path(__file__).with_name("java") / "pictures" / "JConsolePicture.java"
SCREEN = "1280x860x24"
PICTURES_SECONDS = 600.0
_QUEUE_SECONDS = 2.0
_SNMP_PORT, _JMX_PORT = 11161, 19990

# JConsole sorts by the key `type` first, whatever the order in the name.
QUEUE = ("amqp.gateway", "queue", SOURCE, "rabbitmq", "shop", "orders.audit")
GATEWAY = ("amqp.gateway", "Gateway")


class PicturesError(Exception):
    """A picture could not be taken; the text says why."""


async def take(folder: Path) -> list[Path]:
    """Take all pictures into ``folder``; returns their files.

    Raises:
        PicturesError: JConsole did not show what it should.
    """
    pictures = [folder / "jconsole-attributes.png", folder / "jconsole-notifications.png"]
    settings = BrokerSettings(statistics_interval=1.0, grace=0)
    running = Demonstration(_say, snmp_port=_SNMP_PORT, jmx_port=_JMX_PORT, settings=settings)
    async with running, _screen() as display:
        assert running.broker is not None
        events = asyncio.create_task(_make_events(running.broker))
        try:
            _say("JConsole logs in")
            await asyncio.wait_for(_photograph(running, display, pictures), PICTURES_SECONDS)
        finally:
            events.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await events
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
    """An X server without a screen; gives its display."""
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


async def _make_events(broker: PrivateBroker) -> None:
    """A queue that comes and goes, so that there is something to be told of."""
    while True:
        for method in ("PUT", "DELETE"):
            await asyncio.to_thread(_request, broker, method)
            await asyncio.sleep(_QUEUE_SECONDS)


def _request(broker: PrivateBroker, method: str) -> None:
    with broker.http() as client:
        body = {"durable": True} if method == "PUT" else None
        client.request(method, "queues/%2F/orders.returned", json=body).raise_for_status()


def main(arguments: list[str]) -> int:
    """Take the pictures into the folder that is named."""
    try:
        ensure_installed(PICTURE_PACKAGES, _say)
        folder = Path(tempfile.mkdtemp(prefix="amqp-gateway-pictures-"))
        for picture in asyncio.run(take(folder)):
            shutil.move(picture, Path(arguments[0], picture.name))
            _say(f"made {Path(arguments[0], picture.name)}")
        shutil.rmtree(folder)  # after a failure it holds a picture of what was on the screen
    except (InstallError, PicturesError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"  ..  {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
