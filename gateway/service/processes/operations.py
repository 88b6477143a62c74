"""Carries out the effects of operations, between front ends, sources, the event log and the clock."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec
import structlog

from gateway.clock import Clock
from gateway.dialects.console import UnsentError
from gateway.eventlog.disk import EventLogClosedError
from gateway.feed.operations import OperationRecord, OperationRequest
from gateway.feed.records import Batch, EventLogRecord, EventLogState
from gateway.feed.server import Reply as ReplyTo
from gateway.inventory.inventory import Inventory
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.times import SECOND
from gateway.operations.manager import OperationManager
from gateway.operations.operation import Effect, Publish, Reply, Send, SourcePort

log = structlog.get_logger(__name__)

RECORD_SECONDS: Final = 2.0
"""Seconds for which an operation waits for the event log; then it continues, and its record says so."""

_WELL: Final = frozenset({EventLogState.WRITING, EventLogState.UPKEEP})


class RecordingLog(Protocol):
    """The part of the event log that operations use (`gateway.service.processes.event_log.CoreEventLog`)."""

    @property
    def last_seq(self) -> int:
        """The seq of the last record that was appended."""
        ...

    @property
    def record(self) -> EventLogRecord:
        """The state of the log."""
        ...

    async def reached(self, seq: int) -> None:
        """Wait until that seq is on the disk."""
        ...

    def flush(self, seq: int) -> None:
        """Write that seq soon, because a user waits for it."""
        ...


class CoreOperations:
    """Carries out the effects of the operation manager; entered in the core's event loop.

    Args:
        manager: decides everything.
        inventory: publishes records of operations.
        clock: the gateway's.
        event_log: has the begin of each change before anything is sent; ``None`` if none is configured.
    """

    def __init__(
        self, manager: OperationManager, inventory: Inventory, clock: Clock, event_log: RecordingLog | None
    ) -> None:
        self._manager = manager
        self._inventory = inventory
        self._clock = clock
        self._event_log = event_log
        self._ports: dict[int, SourcePort] = {}
        self._effects: deque[Effect] = deque()
        self._is_performing = False
        self._timer: asyncio.TimerHandle | None = None
        self._recording: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._perform(self._manager.close(self._clock.now()))
        if self._timer is not None:
            self._timer.cancel()
        for task in self._recording:
            task.cancel()
        await asyncio.gather(*self._recording, return_exceptions=True)

    def connect(self, source: int, port: SourcePort) -> None:
        """Send operations on objects of the source (its number) through ``port`` from now on."""

        def precheck(request: MethodCall | ObjectModify) -> Answer | None:
            try:
                return port.precheck(request)
            except Exception as error:
                log.exception("operation-not-checked")
                text = f"not sent: internal error {type(error).__name__}: see the log"
                return Answer(request.token, Outcome.REMOTE_FAILURE, text)

        self._ports[source] = port
        self._manager.connect(source, precheck)

    def submit(self, request: OperationRequest, reply: ReplyTo) -> None:
        """Take a request of a front end."""
        self._perform(self._manager.submit(_with_time_left(request), reply, self._clock.now()))

    def refused(self, report: OperationRequest) -> None:
        """Record what a listener of this process, or the supervisor, refused by itself."""
        self.submit(report, lambda _answer: None)

    def answered(self, answer: Answer) -> None:
        """Take an answer of a source to a call, modification or fetch."""
        self._perform(self._manager.answered(answer, self._clock.now()))

    def noticed(self, batch: Batch) -> None:
        """Take a published batch."""
        effects = self._manager.noticed(batch.records, self._clock.now())
        if effects:  # hardly ever, and there are thousands of batches
            self._perform(effects)

    def recover(self, begun: Iterable[OperationRecord]) -> None:
        """Publish the end of operations that an earlier core began and did not finish."""
        self._perform(self._manager.recover(begun, self._clock.now()))

    def _perform(self, effects: Iterable[Effect]) -> None:
        """Carry out effects in order; further effects that they cause follow them."""
        self._effects.extend(effects)
        if self._is_performing:
            return
        self._is_performing = True
        try:
            while self._effects:
                self._carry_out(self._effects.popleft())
        finally:
            self._is_performing = False
        self._set_timer()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Publish(record, durable):
                self._inventory.publish_operation(record)
                if durable:
                    self._record(record.number)
            case Send(source, message):
                # After the present effects: they may be of the very session that gets this call.
                asyncio.get_running_loop().call_soon(self._send, self._ports[source], message)
            case Reply(to, answer):
                to(answer)

    def _send(self, port: SourcePort, message: MethodCall | ObjectModify | ObjectFetch) -> None:
        try:
            match message:
                case MethodCall():
                    port.call(message)
                case ObjectModify():
                    port.modify(message)
                case ObjectFetch():
                    port.fetch(message)
        except UnsentError as error:
            log.exception("operation-not-sent")
            text = f"not sent: internal error {type(error.__cause__).__name__}: see the log"
            self.answered(Answer(message.token, Outcome.REMOTE_FAILURE, text))
        except Exception as error:
            log.exception("operation-not-sent")
            text = f"internal error {type(error).__name__}: it may have been carried out; see the log"
            self.answered(Answer(message.token, Outcome.UNKNOWN, text))

    def _record(self, number: int) -> None:
        """Continue the operation once its begin is in the log."""
        event_log = self._event_log
        if event_log is None:
            self._perform(self._manager.recorded(number, self._clock.now()))
            return
        state = event_log.record
        if state.state not in _WELL:
            self._recorded(number, f"begun while the event log was in trouble ({state.state.value})")
            return
        seq = event_log.last_seq
        event_log.flush(seq)
        task = asyncio.ensure_future(self._until_recorded(event_log, seq, number))
        self._recording.add(task)
        task.add_done_callback(self._recording.discard)

    async def _until_recorded(self, event_log: RecordingLog, seq: int, number: int) -> None:
        trouble = ""
        try:
            async with asyncio.timeout(RECORD_SECONDS):
                await event_log.reached(seq)
        except (TimeoutError, EventLogClosedError):
            trouble = "begun before the event log had it on the disk"
        self._recorded(number, trouble)

    def _recorded(self, number: int, trouble: str = "") -> None:
        if trouble:
            log.warning("operation-not-recorded-first", number=number, reason=trouble)
        self._perform(self._manager.recorded(number, self._clock.now(), trouble))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake_at = self._manager.wake_at
        if wake_at is not None:
            delay = max(0.0, (wake_at - self._clock.now()) / SECOND)
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._perform(self._manager.tick(self._clock.now()))


def _with_time_left(request: OperationRequest) -> OperationRequest:
    """Return a request with the time that is left, if it waited here, as while this process was stopped."""
    waited = int(asyncio.get_running_loop().time() * SECOND) - request.sent
    if not request.sent or waited <= 0:
        return request
    return msgspec.structs.replace(request, timeout=request.timeout - waited)
