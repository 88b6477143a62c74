"""The process that shows objects to Prometheus: the feed in, a page out. It holds no broker credentials.

The supervisor's endpoint (`gateway.service.metrics.endpoint`) asks it over a Unix socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec
import structlog

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.config.policy import SCRAPER
from gateway.durable_files import ALL, write_durably
from gateway.feed.cleared import ClearedFeed
from gateway.feed.client import FeedLink
from gateway.file_owners import peer, reason_of
from gateway.local_sockets import ARE_THERE, SocketServer
from gateway.prometheus.objects import KeptCounters, ShownObjects, encode, metrics_of
from gateway.service.metrics import families
from gateway.service.metrics.endpoint import ASK_SECONDS, LINE_OCTETS
from gateway.service.metrics.families import Reading
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.kept_sockets import socket_errors
from gateway.service.processes.lifeline import Lifeline, Message, NewListener
from gateway.service.processes.process_setup import tune_garbage_collection
from gateway.state_folder import COUNTER_OFFSETS
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

_MAX_OCTETS: Final = 64 << 20
"""The maximum size of the file of counters; of more objects the last ones are left out."""


class CounterOffsets(msgspec.Struct, frozen=True):
    """The content of the file of offsets."""

    objects: list[KeptCounters] = []
    version: Literal[1] = 1


_WRITING_SHARE: Final = 0.005
"""Share of time that writing may take: where many objects are shown, not each page is followed by it.

Those of 20,000 objects are 13 MB.
"""


class CounterOffsetsFile:
    """The counters that were shown last: the next process shows none with less.

    A file that cannot be read or written is reported, and nothing more: counters may fall then.

    Args:
        state: the state folder.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / COUNTER_OFFSETS
        self._shown: ShownObjects | None = None
        self._written = b""
        self._writing = asyncio.Lock()
        self._not_before = 0.0

    def read(self) -> list[KeptCounters]:
        """Return the counters of the process before."""
        try:
            with self._path.open("rb") as file:
                return msgspec.json.decode(file.read(_MAX_OCTETS), type=CounterOffsets).objects
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("offsets-not-read", path=str(self._path), reason=reason_of(error, self._path.parent))
        except (ValueError, RecursionError):
            reason = "it is damaged, or of a newer gateway"
            log.warning("offsets-not-read", path=str(self._path), reason=reason)
        return []

    async def keep(self, objects: ShownObjects) -> None:
        """Write what was shown, where it changed, or let `write` do so."""
        self._shown = objects
        if not self._writing.locked() and asyncio.get_running_loop().time() >= self._not_before:
            await self.write()

    async def write(self) -> None:
        """Write what is shown, where that is not in the file yet; what is not known whole changes nothing."""
        async with self._writing:
            if self._shown is None or not self._shown.knows_shown:
                return
            clock = asyncio.get_running_loop().time
            began, text = clock(), _encoded(CounterOffsets(self._shown.kept()))
            digest = hashlib.sha256(text).digest()
            if digest == self._written:
                return
            try:
                # Its megabytes would be the whole reserve of a full disk.
                await asyncio.to_thread(write_durably, self._path, f"{text.decode()}\n", leaves=ALL)
                self._written = digest
            except OSError as error:
                reason = reason_of(error, self._path.parent)
                log.warning("offsets-not-kept", path=str(self._path), reason=reason)
            self.write_no_sooner(began + (clock() - began) / _WRITING_SHARE)

    def write_no_sooner(self, time: float) -> None:
        """Let the pages until then be followed by no writing; times are those of the event loop."""
        self._not_before = time


def _encoded(shown: CounterOffsets) -> bytes:
    """Return the content of the file, which the next process reads whole."""
    text = msgspec.json.encode(shown)
    while len(text) >= _MAX_OCTETS:
        shown = CounterOffsets(shown.objects[: len(shown.objects) // 2])
        text = msgspec.json.encode(shown)
    return text


def _readings(link: FeedLink, objects: ShownObjects) -> Iterator[Reading]:
    yield families.FRONT_END_CONNECTED.at(link.is_connected, "objects")
    yield families.FRONT_END_OBJECTS.at(len(objects), "objects")


async def run_objects(loaded: LoadedConfiguration, clock: Clock, lifeline: Lifeline) -> None:
    """Show objects until the supervisor goes or the task is cancelled.

    Raises:
        CommandError: it is not configured, or its socket cannot be made.
    """
    settings = loaded.settings.metrics.objects
    if settings is None:
        raise CommandError(ExitCode.CONFIGURATION, "metrics.objects is not configured")
    # A label with the name of what an object belongs to is part of the object's own name.
    offsets = CounterOffsetsFile(loaded.state_folder)
    cleared = ClearedFeed(SCRAPER, keeps_names=True)
    objects = ShownObjects(settings.classes, clock.now, cleared, offsets.read())
    link = FeedLink(loaded.feed_socket, objects)

    def taken(message: Message) -> None:
        if isinstance(message, NewListener):
            server.move(message.listener)

    def page(accept: str) -> bytes:
        link.judge()
        body, content_type = encode(metrics_of(objects, settings.max_series), accept)
        return f"{content_type}\n".encode("latin-1") + body

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if peer(writer.get_extra_info("socket")) != os.getuid():
            writer.close()
            return
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            async with asyncio.timeout(ASK_SECONDS):
                line = await reader.readline()
                writer.write(b"\n" if line == ARE_THERE else page(line.decode("latin-1").rstrip("\n")))
                await writer.drain()
        writer.close()
        await offsets.keep(objects)

    server = SocketServer(loaded.objects_socket, answer, LINE_OCTETS)
    with socket_errors(loaded.objects_socket):
        await server.start(lifeline.listener)
    lifeline.metrics.add("objects", lambda: _readings(link, objects))
    tune_garbage_collection()
    lifeline.ready()
    log.info("objects-ready", classes=len(settings.classes), max_series=settings.max_series)
    try:
        await until_one_ends(link.run(), lifeline.parent_gone(taken))
    finally:
        server.close()
        await offsets.write()
