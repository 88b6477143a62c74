"""The feed's server: sends the feed to front ends of the same user on a Unix socket, and takes requests."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from gateway.feed.messages import FeedError, RequestReader, encode
from gateway.feed.operations import LoginReport, OperationAnswer, OperationRequest, ReloadRequest
from gateway.feed.records import (
    Alive,
    Batch,
    FeedAnswer,
    FeedMessage,
    Hello,
    Interest,
    PastEventsRequest,
    Record,
)
from gateway.feed.subscription import Subscription
from gateway.file_owners import peer
from gateway.local_sockets import SocketServer
from gateway.model.operations import Outcome
from gateway.tasks import until_closed

log = structlog.get_logger(__name__)

MAX_UNANSWERED = 256
"""Requests of one front end that may be under way; further ones are refused at once."""

MAX_UNREAD = 4 * MAX_UNANSWERED
"""Answers that may wait because one front end does not read them."""

ALIVE_SECONDS = 1.0
"""Seconds of silence after which the core sends a sign of life."""

_LOOK_SECONDS = 0.01
_CHUNK_OCTETS = 64 * 1024

Snapshot = Callable[[], tuple[Sequence[Record], int]]
"""Returns all current records, immutable and in dependency order, and the sequence number of their state."""

Reply = Callable[[OperationAnswer], None]
"""Sends the answer to one request, once; does nothing when the front end is gone."""

Asked = Callable[[OperationRequest, Reply], None]
"""Takes each request of a front end; neither waits nor raises."""


TakeLogin = Callable[[LoginReport], object]
"""Takes each report of logins; neither waits nor raises."""


Reload = Callable[[ReloadRequest, Reply], None]
"""Takes each request to reload the configuration; neither waits nor raises."""

Recall = Callable[[PastEventsRequest, Callable[[FeedAnswer], None]], None]
"""Takes each request for past events, and what sends the answer; neither waits nor raises."""


def refuse_operation(request: OperationRequest | ReloadRequest | PastEventsRequest, reply: Reply) -> None:
    """Refuse a request, in a process without operations."""
    reply(OperationAnswer(request.request, "", Outcome.NOT_NOW, "operations are not served here"))


class FeedCounters(msgspec.Struct):
    """Counters of the server over all subscribers since its start.

    Attributes:
        snapshot_records: records in the last snapshot.
        merges: the number of times that records were merged for a slow subscriber; ``overflows`` counts the
            times when merging was not enough.
        refused: connections of other users' processes.
        requests: requests of front ends.
        hung_up: connections that were closed because of invalid bytes.
    """

    batches: int = 0
    octets: int = 0
    snapshots: int = 0
    snapshot_records: int = 0
    merges: int = 0
    overflows: int = 0
    refused: int = 0
    requests: int = 0
    hung_up: int = 0


_Request = TypeVar("_Request", OperationRequest, ReloadRequest, PastEventsRequest)


class FeedServer:
    """Accepts subscribers; sends each a hello, a snapshot, then every batch, and the answers to its requests.

    Args:
        path: path of the socket; only this user may have access to its folder.
        hello: the first message to each subscriber.
        snapshot: called when a subscriber needs the complete state.
        limit: records that may wait for one subscriber.
        asked: receives the subscribers' requests.
        logged_in: receives their reports of logins.
        reload: receives their requests to reload the configuration.
        recall: receives their requests for past events.

    Attributes:
        counters: counters since the start.
    """

    def __init__(
        self,
        path: Path,
        hello: Hello,
        snapshot: Snapshot,
        limit: int = 100_000,
        asked: Asked = refuse_operation,
        logged_in: TakeLogin = lambda _report: None,
        reload: Reload = refuse_operation,
        recall: Recall = refuse_operation,
    ) -> None:
        self._recall = recall
        self._asked = asked
        self._reload = reload
        self._logged_in = logged_in
        self._hello = hello
        self._snapshot = snapshot
        self._limit = limit
        self.counters = FeedCounters()
        self._subscribers: dict[Subscription, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = SocketServer(path, self._accepted)

    @property
    def limit(self) -> int:
        """Records that may wait for one subscriber."""
        return self._limit

    @property
    def subscribers(self) -> int:
        """The number of subscribers."""
        return len(self._subscribers)

    @property
    def waiting(self) -> int:
        """Records that wait for the slowest subscriber."""
        return max((subscription.waiting for subscription in self._subscribers), default=0)

    async def start(self, listener: socket.socket | None = None) -> None:
        """Accept subscribers, as `SocketServer.start` does.

        Raises:
            OSError: the socket cannot be made.
        """
        await self._server.start(listener)

    def move(self, listener: socket.socket) -> None:
        """Accept subscribers on another socket from now on; those that are connected stay."""
        self._server.move(listener)

    def publish(self, batch: Batch) -> None:
        """Hand ``batch`` to every subscriber; never waits."""
        counters = self.counters
        counters.batches += 1
        for subscription, wake in self._subscribers.items():
            merges, overflows = subscription.merges, subscription.overflows
            subscription.offer(batch)
            counters.merges += subscription.merges - merges
            counters.overflows += subscription.overflows - overflows
            wake.set()

    def send_snapshots(self) -> None:
        """Send a new snapshot to every subscriber, in the place of what waits."""
        for subscription, wake in self._subscribers.items():
            subscription.require_snapshot()
            wake.set()

    async def until_sent(self) -> None:
        """Wait until nothing waits for any subscriber."""
        while not all(subscription.is_empty for subscription in self._subscribers):  # noqa: ASYNC110  at the end only
            await asyncio.sleep(_LOOK_SECONDS)

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if (user := peer(writer.get_extra_info("socket"))) != os.getuid():
                self.counters.refused += 1
                log.warning("feed-refused", reason="the peer runs as another user", uid=user)
                return
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the subscriber or this server closed the connection: either is a normal end
        finally:
            self._tasks.discard(task)
            await until_closed(writer)  # a subscriber that stands still reads nothing

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        subscription, wake = Subscription(self._hello.epoch, self._limit), asyncio.Event()
        self._subscribers[subscription] = wake
        reading = asyncio.ensure_future(self._take_requests(reader, writer, subscription, wake))
        try:
            self._write(writer, self._hello)
            while not reading.done():
                if subscription.needs_snapshot:
                    if subscription.overflows:
                        log.warning("feed-subscriber-slow", overflows=subscription.overflows)
                    records, sequence = self._snapshot()
                    self.counters.snapshots += 1
                    self.counters.snapshot_records = len(records)
                    subscription.start_snapshot(records, sequence)
                message = subscription.take()
                if message is None:
                    wake.clear()
                    message = await _idle(wake)
                    if message is None:
                        continue
                self._write(writer, message)
                await writer.drain()
                await asyncio.sleep(
                    0
                )  # drain returns at once while the buffer has room: yield to other tasks
        finally:
            reading.cancel()
            del self._subscribers[subscription]

    async def _take_requests(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        subscription: Subscription,
        wake: asyncio.Event,
    ) -> None:
        """Take the requests of a front end until it closes the connection, or sends invalid bytes."""
        requests, unanswered = RequestReader(), _Unanswered(subscription, wake)
        try:
            while octets := await reader.read(_CHUNK_OCTETS):
                for request in requests.feed(octets):
                    if isinstance(request, Interest):
                        subscription.narrow(request)
                        continue
                    if isinstance(request, LoginReport):
                        self._logged_in(request)
                        continue
                    self.counters.requests += 1
                    if isinstance(request, ReloadRequest):
                        unanswered.take(request, self._reload)
                    elif isinstance(request, PastEventsRequest):
                        unanswered.take(request, self._recall)
                    else:
                        unanswered.take(request, self._asked)
                    await asyncio.sleep(0)
        except FeedError as error:
            self.counters.hung_up += 1
            log.warning("feed-client-rejected", reason=str(error))
            writer.transport.abort()  # the peer may not read either, so that an orderly close would never end
        except ConnectionError:
            pass  # the front end is gone
        except Exception:
            log.exception("feed-request-failed")
        finally:
            unanswered.close()
            wake.set()

    def _write(self, writer: asyncio.StreamWriter, message: FeedMessage) -> None:
        octets = encode(message)
        self.counters.octets += len(octets)
        writer.write(octets)


async def _idle(wake: asyncio.Event) -> Alive | None:
    """Wait for something to send; return a sign of life after a long wait."""
    try:
        async with asyncio.timeout(ALIVE_SECONDS):
            await wake.wait()
    except TimeoutError:
        return Alive()
    return None


class _Unanswered:
    """The requests of one front end that are under way.

    Args:
        subscription: carries their answers.
        wake: is set when an answer is ready.
    """

    def __init__(self, subscription: Subscription, wake: asyncio.Event) -> None:
        self._subscription = subscription
        self._wake = wake
        self._numbers: set[int] = set()
        self._is_open = True

    def take(
        self, request: _Request, asked: Callable[[_Request, Callable[[FeedAnswer], None]], None]
    ) -> None:
        """Pass a request on.

        Raises:
            FeedError: a request of its number is under way, or the front end does not read its answers.
        """
        number = request.request
        if self._subscription.answers >= MAX_UNREAD:
            raise FeedError(f"{MAX_UNREAD} answers are not read")
        if number in self._numbers:
            raise FeedError(f"a second request of the number {number}, and the first is under way")
        if len(self._numbers) >= MAX_UNANSWERED:
            text = f"{MAX_UNANSWERED} requests of this front end are under way already"
            self._put(OperationAnswer(number, "", Outcome.NOT_NOW, text))
            return
        self._numbers.add(number)
        asked(request, self._answered)

    def close(self) -> None:
        """Discard all further answers: the front end is gone."""
        self._is_open = False

    def _answered(self, answer: FeedAnswer) -> None:
        self._numbers.discard(answer.request)
        if self._is_open:
            self._put(answer)

    def _put(self, answer: FeedAnswer) -> None:
        self._subscription.answer(answer)
        self._wake.set()
