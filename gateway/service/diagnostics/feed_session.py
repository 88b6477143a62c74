"""The session of a command with the running gateway: its whole state once, then changes, and operations."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from gateway.clock import SystemClock
from gateway.feed.cleared import ClearedFeed
from gateway.feed.client import FeedLink
from gateway.feed.operations import Action, OperationAnswer, OperationRequest
from gateway.feed.records import Batch, DeleteRecord, FeedMessage, Interest
from gateway.file_owners import user_name
from gateway.model.operations import Principal
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.terminal.view import FeedChange, KnownObject, TerminalView

SNAPSHOT_SECONDS: Final = 120.0
"""Seconds that the core may take to send everything; 100,000 objects take some seconds."""

RELOAD_SECONDS: Final = 30.0
"""Seconds that the core may take to reload the configuration."""

_LOOK_SECONDS: Final = 0.05

_MAX_WAITING: Final = 10_000
"""The number of changes that a slow terminal has not taken, above which nothing is read."""


class FeedSession:
    """The session of a command with the running gateway: the known state, changes, and requests.

    It shows what the user of the command may read.

    Attributes:
        view: the known state, kept up to date.
        cleared: what the user may read.
        core_ended: whether the core was away at any time since the snapshot was complete.
    """

    def __init__(self, path: Path, interest: Interest | None = None) -> None:
        self.cleared = ClearedFeed(str(principal()))
        self.view = TerminalView(SystemClock().now, self.cleared)
        self.core_ended = False
        self._ends: dict[int, int] = {}  # of each source, also of objects that the user may not read
        self._path = path
        self._link = FeedLink(path, self, self._ready, interest=interest)
        self._whole: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._happened: deque[FeedChange] = deque()
        self._news = asyncio.Event()
        self._taken = asyncio.Event()

    def received(self, message: FeedMessage) -> None:
        """Process a message, as `gateway.feed.client.Subscriber` requires."""
        if isinstance(message, Batch):
            for record in message.records:
                if isinstance(record, DeleteRecord):
                    self._ends[record.source] = max(self._ends.get(record.source, 0), record.number)
        self._note(self.view.received(message))
        if self.view.is_whole and not self._whole.done():
            self._whole.set_result(None)

    def disconnected(self, reason: str) -> None:
        """Note that the core cannot be reached, as `gateway.feed.client.Subscriber` requires."""
        if not self._whole.done():
            self._whole.set_exception(not_reached(self._path, reason))
            return
        self.core_ended = True
        self._note(self.view.disconnected(reason))

    async def run(self) -> None:
        """Read the feed until cancelled."""
        await self._link.run()

    async def whole(self) -> None:
        """Wait until the snapshot is complete.

        Raises:
            CommandError: the gateway cannot be reached, or does not answer.
        """
        try:
            async with asyncio.timeout(SNAPSHOT_SECONDS):
                await self._whole
        except TimeoutError as error:
            raise not_reached(self._path, f"no complete snapshot within {SNAPSHOT_SECONDS:g} s") from error

    async def ask(
        self, known: KnownObject, action: Action, patience: int, *, check_only: bool = False
    ) -> OperationAnswer:
        """Request an operation on an object; return after its effect is in the view.

        Args:
            known: the object.
            action: the requested action.
            patience: nanoseconds after which its outcome is unknown.
            check_only: return what can be known without doing anything.
        """
        record = known.record
        where = (record.source, known.class_name, record.row)
        request = OperationRequest(
            *(0, principal(), *where, action, patience),
            check_only=check_only,
            ends=self._ends.get(record.source, 0),
            stable_name=record.stable_name,
        )
        return await self._link.ask(request)

    async def reload(self) -> OperationAnswer:
        """Ask the core to reload the configuration, and return its answer."""
        return await self._link.reload(principal(), RELOAD_SECONDS)

    async def core_again(self, seconds: float) -> bool:
        """Wait until the core has ended and the next one has sent its snapshot; return whether it has."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not (self.core_ended and self.view.is_whole):  # noqa: ASYNC110  two states of others
                    await asyncio.sleep(_LOOK_SECONDS)
                return True
        return False

    async def changes(self) -> AsyncGenerator[FeedChange, None]:
        """Yield all changes from now on, without end."""
        self._happened.clear()
        while True:
            while self._happened:
                yield self._happened.popleft()
            self._taken.set()
            self._news.clear()
            await self._news.wait()

    def _note(self, happened: list[FeedChange]) -> None:
        if happened:
            self._happened.extend(happened)
            self._news.set()

    async def _ready(self) -> None:
        await asyncio.sleep(0)
        while len(self._happened) > _MAX_WAITING:
            self._taken.clear()
            await self._taken.wait()


@asynccontextmanager
async def feed_session(path: Path, interest: Interest | None = None) -> AsyncIterator[FeedSession]:
    """Open a session that has the complete snapshot, and reads on as long as the context lasts.

    Args:
        path: the path of the feed's socket.
        interest: the objects that it has to know; ``None`` for all.

    Raises:
        CommandError: the gateway cannot be reached.
    """
    session = FeedSession(path, interest)
    reading = asyncio.create_task(session.run())
    try:
        await session.whole()
        yield session
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def not_reached(path: Path, reason: str) -> CommandError:
    """Return the error that the running gateway does not answer, with the reason and advice."""
    advice = "is `amqp-gateway run` running with this configuration?"
    for place in (path, path.parent):  # a folder that only its user may enter hides what is in it
        try:
            owner = place.lstat().st_uid
        except PermissionError:
            continue
        except OSError:
            break
        if owner != os.getuid():
            name = user_name(owner)
            advice = f"the gateway runs as the user {name}, and talks to no other: try sudo -u {name}"
        break
    return CommandError(ExitCode.UNREACHABLE, f"the gateway cannot be reached at {path}: {reason}: {advice}")


def principal() -> Principal:
    """Return the requester of a command's operations: the system user of this process."""
    behind = os.environ.get("SUDO_USER", "")
    origin = f"process {os.getpid()}" + (
        f", by sudo of {behind[:64]}" if behind.isprintable() and behind else ""
    )
    return Principal("cli", user_name(os.getuid()), origin)
