"""The front end's side of the feed: subscribing, reconnecting, requests, reports of refused attempts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final, NoReturn, Protocol, TypeAlias

import msgspec
import structlog

from gateway.feed.audit_rate_limiter import Attempt, AuditRateLimiter, CountedAttempts
from gateway.feed.messages import MAX_REQUEST_OCTETS, VERSION, FeedError, FrameReader, encode
from gateway.feed.operations import (
    Action,
    FrontEndRefusal,
    InvokeMethod,
    LoginReport,
    OperationAnswer,
    OperationKind,
    OperationRecord,
    OperationRequest,
    ReadFresh,
    ReloadRequest,
    SetElements,
    kind_of,
    without_values,
)
from gateway.feed.records import (
    Alive,
    Batch,
    FeedAnswer,
    FeedMessage,
    Hello,
    Interest,
    PastEvents,
    PastEventsRequest,
    Place,
    slices,
)
from gateway.local_sockets import connected
from gateway.model.operations import Outcome, Principal
from gateway.model.times import SECOND
from gateway.tasks import every, until_closed

log = structlog.get_logger(__name__)

MAX_UNDER_WAY: Final = 32
"""Reports that may wait for the core; attempts that are refused meanwhile are counted."""

PATIENCE: Final = 2 * SECOND
"""Nanoseconds that the core has to answer a report."""

TICK_SECONDS: Final = 1.0
CLOSING_SECONDS: Final = 1.0

Ask: TypeAlias = Callable[[OperationRequest], Awaitable[OperationAnswer]]
"""Sends a request to the core (`gateway.feed.client.FeedLink.ask`)."""


def refused_request(
    principal: Principal,
    action: Action,
    refusal: FrontEndRefusal,
    where: tuple[int, str, int] = (0, "", 0),
) -> OperationRequest:
    """Return the report of an attempt that a front end has refused.

    Args:
        principal: the requester.
        action: the requested action; ``None`` among its values stands for a value that is not recorded.
        refusal: the reason.
        where: source, class and row of the object, as far as they are known.
    """
    source, class_name, row = where
    return OperationRequest(0, principal, source, class_name, row, action, PATIENCE, refusal=refusal)


class RefusalReports:
    """Reports refused attempts of one front end to the core, and reports them later if the core is away.

    Args:
        ask: sends a request to the core.
        clock: returns nanoseconds that never decrease.
    """

    def __init__(self, ask: Ask, clock: Callable[[], int]) -> None:
        self._ask = ask
        self._clock = clock
        self._limit = AuditRateLimiter()
        self._under_way: set[asyncio.Task[None]] = set()

    def report(self, report: OperationRequest) -> None:
        """Report a refused attempt. Neither waits nor raises; must be called in the event loop."""
        attempt = _attempt(report)
        if not self._limit.admit(attempt, self._clock()):
            return
        if len(self._under_way) >= MAX_UNDER_WAY:
            self._limit.count(attempt, self._clock())
            return
        self._send(report)

    def tick(self) -> None:
        """Report counts whose period has ended; called about once a second."""
        self._report_counted(self._limit.due(self._clock()))

    async def run(self) -> NoReturn:
        """Tick until cancelled; then report the counts, if the core still takes them."""
        try:
            await every(TICK_SECONDS, self.tick)
        finally:
            await self.close()

    async def close(self) -> None:
        """Report the counts; where the core is gone already, the log of this process has them."""
        self._report_counted(self._limit.due(self._clock(), ending=True))
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=CLOSING_SECONDS)
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        for left in self._limit.due(self._clock(), ending=True):
            log.warning(
                "refused-attempts-not-recorded",
                principal=str(left.principal),
                origin=left.principal.origin,
                attempts=left.attempts,
                last=left.text,
            )

    def _report_counted(self, counted: list[CountedAttempts]) -> None:
        for one in counted:
            for outcome, attempts in one.outcomes:
                refusal = FrontEndRefusal(outcome, one.text, attempts=attempts)
                self._send(refused_request(one.principal, _ACTIONS[one.kind], refusal))

    def _send(self, report: OperationRequest) -> None:
        task = asyncio.get_running_loop().create_task(self._report(report))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _report(self, report: OperationRequest) -> None:
        answer = await self._ask(report)
        if answer.outcome is not Outcome.APPLIED:
            # The core may have recorded it before the answer was lost: twice is better than never.
            self._limit.count(_attempt(report), self._clock())


_ACTIONS: Final[dict[OperationKind, Action]] = {
    OperationKind.SET: SetElements({}),
    OperationKind.INVOKE: InvokeMethod(""),
    OperationKind.READ: ReadFresh(),
}


def _attempt(report: OperationRequest) -> Attempt:
    refusal = report.refusal
    assert refusal is not None
    return Attempt(report.principal, kind_of(report.action), refusal.outcome, refusal.text, refusal.attempts)


RETRY_SECONDS = 0.25
"""Pause between attempts to connect: the core is on this machine, so a short fixed pause does no harm."""

SILENCE_SECONDS: Final = 5.0
"""A core that is silent for so long hangs: it sends `Alive` every second."""

TURN_SECONDS: Final = 1.0
"""Interval in which the process notes that it is running."""

GRACE_SECONDS: Final = 5.0
"""The core answers by a request's deadline. A request is given up this much later, as when the core hangs."""

MAX_ASKED: Final = 1000
"""Unanswered requests of one front end; the core accepts fewer of each."""

MAX_UNSENT_OCTETS: Final = 4 * 1024 * 1024
"""Bytes of requests that may wait because the core does not read them."""

NOT_CONNECTED: Final = "the gateway's core cannot be reached: nothing was sent; try again when it is up"


_CHUNK_OCTETS = 256 * 1024


class Subscriber(Protocol):
    """The receiver of a feed. Both methods are synchronous and must be quick."""

    def received(self, message: FeedMessage) -> None:
        """Process a message; messages arrive in order. Answers to requests are not among them."""

    def disconnected(self, reason: str) -> None:
        """Note that the core cannot be reached: all values are stale until they are published again."""


async def at_once() -> None:
    """Yield to other tasks once, before the next message is read."""
    await asyncio.sleep(0)


class StoppedWaiting(asyncio.CancelledError):
    """A caller of `FeedLink.ask` was cancelled; ``operation_id`` is empty if its operation had not begun."""

    def __init__(self, operation_id: str) -> None:
        self.operation_id = operation_id
        super().__init__(operation_id)


class FeedLink:
    """The connection of a front end to the core: `run` reads the feed, `ask` sends requests meanwhile.

    Args:
        path: the core's socket.
        subscriber: receives the messages.
        ready: is awaited after each message; meanwhile nothing is read, and the core merges what waits.
        grace: seconds after its timeout at which a request is given up.
        interest: the objects that snapshots are to contain; all where ``None``. They may contain others, too.
        silence: seconds without a message after which the core counts as gone.
        slice_records: the maximum number of records that the subscriber receives at a time: ``ready`` is
            awaited between parts of a larger batch. All at once where ``None``.
    """

    def __init__(
        self,
        path: Path,
        subscriber: Subscriber,
        ready: Callable[[], Awaitable[None]] = at_once,
        grace: float = GRACE_SECONDS,
        interest: Interest | None = None,
        silence: float = SILENCE_SECONDS,
        slice_records: int | None = None,
    ) -> None:
        self._slice_records = slice_records
        self._silence = silence
        self._path = path
        self._subscriber = subscriber
        self._ready = ready
        self._grace = grace
        self._interest = interest
        self._writer: asyncio.StreamWriter | None = None
        self._asked: dict[int, asyncio.Future[FeedAnswer | None]] = {}
        self._begun: dict[str, str] = {}  # the operation of each request, by its reference
        self._next_request = 1
        self._name = secrets.token_hex(8)
        self._turned_at: float | None = None
        self._is_dropped = False

    @property
    def is_connected(self) -> bool:
        """Whether the core has sent its `Hello`, and has not closed the connection."""
        return self._writer is not None

    @property
    def asked(self) -> int:
        """The number of requests without an answer."""
        return len(self._asked)

    async def run(self) -> NoReturn:
        """Read the feed until cancelled, and connect again whenever the connection ends."""
        down = ""
        self.keep_turning()
        while True:
            self._is_dropped = False
            try:
                await self._read()
                reason = "the core closed the feed"
            except OSError as error:
                reason = error.strerror or str(error)
            except FeedError as error:
                reason = str(error)
            if reason != down:  # each reason is logged once, not with every attempt
                log.warning("feed-down", reason=reason, path=str(self._path))
                down = reason
            # From here on everything is stale, whatever ended the connection.
            self._subscriber.disconnected(reason)
            await asyncio.sleep(RETRY_SECONDS)

    def keep_turning(self) -> None:
        """Note every second that this process is running; ends with the event loop."""
        self.judge()
        asyncio.get_running_loop().call_later(TURN_SECONDS, self.keep_turning)

    def judge(self) -> bool:
        """Drop the connection if this process was stopped for longer than a core may be silent.

        All values are that old then, and so are the messages in the socket. Must be called before anything is
        shown that may have waited for as long: the order in which tasks continue after a stop is arbitrary.

        Returns:
            Whether the connection was dropped just now.
        """
        now = asyncio.get_running_loop().time()
        late = 0.0 if self._turned_at is None else now - self._turned_at
        self._turned_at = now
        writer = self._writer
        if late <= self._silence or writer is None:
            return False
        self._is_dropped = True
        self._writer = None
        self._subscriber.disconnected(f"this process stood still for {late:.0f} s")
        # Messages that waited in the socket are as old as the stop: they are not read.
        writer.transport.abort()
        return True

    async def ask(self, request: OperationRequest) -> OperationAnswer:
        """Request an operation; before its answer, the subscriber has received all that it led to.

        Never raises for faults of the connection: the outcome is ``SOURCE_DOWN`` where nothing was sent, and
        ``UNKNOWN`` where the core ended before it answered, with the id of the operation if it had begun; a
        check, which does nothing, is never unknown. No request is sent twice. Cancelling does not take the
        request back, and is `StoppedWaiting` for the caller.

        Args:
            request: the request; its ``request`` and ``sent`` are ignored, because the link numbers and dates
                it.

        Returns:
            The answer, with the link's number.
        """
        number = self._next_request
        self._next_request += 1
        sent = int(asyncio.get_running_loop().time() * SECOND)
        # Without one of the front end's own: by it, the operation is known before it is answered.
        reference = request.reference or (f"{self._name}.{number}" if _changes(request) else "")
        request = msgspec.structs.replace(request, request=number, sent=sent, reference=reference)
        refusal = self._send(request)
        if refusal is not None:
            return refusal
        answered = self._asked[number] = asyncio.get_running_loop().create_future()
        if reference:
            self._begun[reference] = ""
        try:
            # The core ends the operation at its deadline; the grace is for the way of that answer.
            async with asyncio.timeout(request.timeout / SECOND + self._grace):
                answer = await answered
        except TimeoutError:
            return _unanswered(request, "the gateway's core does not answer", self._begun.get(reference, ""))
        except asyncio.CancelledError:
            raise StoppedWaiting(self._begun.get(reference, "")) from None
        finally:
            del self._asked[number]
            begun = self._begun.pop(reference, "")
        if isinstance(answer, OperationAnswer):
            return answer
        return _unanswered(request, "the gateway's core ended", begun)

    async def reload(self, principal: Principal, seconds: float) -> OperationAnswer:
        """Ask the core to reload the configuration, and return its answer.

        The outcome is ``SOURCE_DOWN`` where nothing was sent, ``UNKNOWN`` where there is no answer in time.

        Args:
            principal: the requester.
            seconds: how long to wait.
        """
        writer = self._open_writer()
        if writer is None:
            return OperationAnswer(0, "", Outcome.SOURCE_DOWN, NOT_CONNECTED)
        answer = await self._request(writer, lambda number: ReloadRequest(number, principal), seconds)
        if isinstance(answer, OperationAnswer):
            return answer
        return OperationAnswer(0, "", Outcome.UNKNOWN, "the gateway's core does not answer")

    async def past_events(self, after: Place, until: Place, limit: int, seconds: float) -> PastEvents | None:
        """Ask the core for events that happened before; ``None`` where it does not answer, or not now.

        Args:
            after: the place behind which they begin.
            until: the last place.
            limit: the maximum number of events.
            seconds: how long to wait.
        """
        writer = self._open_writer()
        if writer is None or len(self._asked) >= MAX_ASKED:
            return None
        answer = await self._request(
            writer, lambda number: PastEventsRequest(number, after, until, limit), seconds
        )
        return answer if isinstance(answer, PastEvents) else None

    def _open_writer(self) -> asyncio.StreamWriter | None:
        """Return where requests are sent; ``None`` where nothing can be sent."""
        return None if self._writer is None or self._writer.is_closing() else self._writer

    async def _request(
        self,
        writer: asyncio.StreamWriter,
        make: Callable[[int], ReloadRequest | PastEventsRequest],
        seconds: float,
    ) -> FeedAnswer | None:
        """Send a request; return its answer, ``None`` for none in time."""
        number = self._next_request
        self._next_request += 1
        answered = self._asked[number] = asyncio.get_running_loop().create_future()
        writer.write(encode(make(number)))
        answer: FeedAnswer | None = None
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    answer = await answered
        finally:
            del self._asked[number]
        return answer

    def report_login(self, report: LoginReport) -> bool:
        """Report logins; return whether the core is connected, and reads. Neither waits nor raises."""
        writer = self._open_writer()
        if writer is None:
            return False
        if writer.transport.get_write_buffer_size() > MAX_UNSENT_OCTETS:
            return False
        writer.write(encode(report))
        return True

    def _send(self, request: OperationRequest) -> OperationAnswer | None:
        """Send a request, or return the refusal where that is not possible."""
        writer = self._open_writer()
        if writer is None:
            return _answer(request, Outcome.SOURCE_DOWN, NOT_CONNECTED)
        # A core that does not read must not make this process grow.
        unsent = writer.transport.get_write_buffer_size()
        if len(self._asked) >= MAX_ASKED or unsent > MAX_UNSENT_OCTETS:
            return _answer(
                request, Outcome.NOT_NOW, f"{len(self._asked)} requests wait for an answer already"
            )
        try:
            octets = encode(request)
        except (ValueError, OverflowError, RecursionError) as error:
            return _recorded(writer, request, Outcome.WRONG_VALUE, f"cannot be sent: {error}")
        if len(octets) > MAX_REQUEST_OCTETS:
            text = f"more than {MAX_REQUEST_OCTETS} octets"
            return _recorded(writer, request, Outcome.WRONG_LENGTH, text)
        writer.write(octets)
        return None

    async def _read(self) -> None:
        reader, writer = await connected(self._path, _CHUNK_OCTETS)
        try:
            frames = FrameReader()
            while octets := await self._octets(reader):
                for message in itertools.chain.from_iterable(map(self._sliced, frames.feed(octets))):
                    if self._is_dropped:
                        raise FeedError("this process stood still")
                    self._received(message, writer)
                    await (
                        self._ready()
                    )  # a snapshot has thousands of messages: requests are answered in between
        finally:
            self._writer = None
            self._give_up()
            await until_closed(writer)  # a core that stands still reads nothing

    def _sliced(self, message: FeedMessage) -> Iterable[FeedMessage]:
        """Return what the subscriber receives of a message, one after the other."""
        if self._slice_records is not None and isinstance(message, Batch):
            return slices(message, self._slice_records)
        return (message,)

    async def _octets(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(self._silence):
                return await reader.read(_CHUNK_OCTETS)
        except TimeoutError:
            raise FeedError(f"the core has said nothing for {self._silence:g} s: it stands still") from None

    def _received(self, message: FeedMessage, writer: asyncio.StreamWriter) -> None:
        if isinstance(message, OperationAnswer | PastEvents):
            self._answered(message)
            return
        if isinstance(message, Hello):
            if message.version != VERSION:
                versions = f"the core speaks feed version {message.version}, this process {VERSION}"
                raise FeedError(f"{versions}: it restarts when an upgrade is complete, or is to be restarted")
            log.info("feed-up", gateway=message.gateway, epoch=message.epoch)
            self._writer = writer
            if self._interest is not None:
                writer.write(encode(self._interest))
        if self._begun and isinstance(message, Batch):
            self._note_begun(message)
        if not isinstance(message, Alive):
            self._subscriber.received(message)

    def _note_begun(self, batch: Batch) -> None:
        """Note the operations of unanswered requests."""
        for record in batch.records:
            if isinstance(record, OperationRecord) and record.reference in self._begun:
                self._begun[record.reference] = record.operation_id

    def _answered(self, answer: FeedAnswer) -> None:
        asked = self._asked.get(answer.request)
        if asked is not None and not asked.done():  # otherwise it was given up
            asked.set_result(answer)

    def _give_up(self) -> None:
        """End all requests: the connection has ended, and no answer arrives over another one."""
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result(None)


def _changes(request: OperationRequest) -> bool:
    return request.refusal is None and not (request.check_only or isinstance(request.action, ReadFresh))


def _unanswered(request: OperationRequest, reason: str, operation_id: str) -> OperationAnswer:
    if request.check_only:
        return _answer(request, Outcome.SOURCE_DOWN, f"{reason}: nothing was done")
    if isinstance(request.action, ReadFresh):
        return _answer(request, Outcome.UNKNOWN, f"{reason}: it was not read again")
    text = f"{reason}: it may have been carried out, and the event log will have it"
    return OperationAnswer(request.request, operation_id, Outcome.UNKNOWN, text)


def _recorded(
    writer: asyncio.StreamWriter, request: OperationRequest, outcome: Outcome, text: str
) -> OperationAnswer:
    """Answer a request that cannot be encoded; the core records the attempt, without its values.

    The core's answer to that is not awaited. Checks that fail are not recorded here.
    """
    if request.refusal is None and not (request.check_only or request.reports_failed_check):
        refusal = FrontEndRefusal(outcome, text)
        action = without_values(request.action)
        with contextlib.suppress(ValueError):  # a name that is not Unicode cannot be sent to the core either
            octets = encode(msgspec.structs.replace(request, action=action, refusal=refusal, reference=""))
            if len(octets) <= MAX_REQUEST_OCTETS:
                writer.write(octets)
    return _answer(request, outcome, text)


def _answer(request: OperationRequest, outcome: Outcome, text: str) -> OperationAnswer:
    """Return an answer of the link itself: the core has given the request no operation id."""
    return OperationAnswer(request.request, "", outcome, text)
