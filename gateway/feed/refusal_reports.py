"""What a north refuses by itself, told to the core for the record: boundedly, and nothing uncounted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn, TypeAlias

import structlog

from gateway.feed.audit_rate_limiter import Attempt, AuditRateLimiter, CountedAttempts
from gateway.feed.operations import (
    Action,
    InvokeMethod,
    NorthRefusal,
    OperationAnswer,
    OperationKind,
    OperationRequest,
    ReadFresh,
    SetElements,
    kind_of,
)
from gateway.model.operations import Outcome, Principal

log = structlog.get_logger(__name__)

MAX_UNDER_WAY: Final = 32
"""Reports that wait for the core; what is refused meanwhile is counted."""

PATIENCE: Final = 2 * 10**9
"""Nanoseconds that the core has for a report."""

TICK_SECONDS: Final = 1.0
CLOSING_SECONDS: Final = 1.0

Ask: TypeAlias = Callable[[OperationRequest], Awaitable[OperationAnswer]]
"""Asks the core (`gateway.feed.client.FeedLink.ask`)."""


def refused_request(
    principal: Principal,
    action: Action,
    refusal: NorthRefusal,
    where: tuple[int, str, int] = (0, "", 0),
) -> OperationRequest:
    """The report of an attempt that a north has refused.

    Args:
        principal: whose attempt.
        action: what was wanted; ``None`` among its values is one that is not told.
        refusal: why not.
        where: source, class and row of the object, as far as it is known.
    """
    source, class_name, row = where
    return OperationRequest(0, principal, source, class_name, row, action, PATIENCE, refusal=refusal)


class RefusalReports:
    """Reports of one north. What the core does not take is counted, and told when it takes something again.

    Args:
        ask: the core.
        clock: nanoseconds that never go back.
    """

    def __init__(self, ask: Ask, clock: Callable[[], int]) -> None:
        self._ask = ask
        self._clock = clock
        self._limit = AuditRateLimiter()
        self._under_way: set[asyncio.Task[None]] = set()

    def tell(self, report: OperationRequest) -> None:
        """An attempt was refused; neither waits nor raises. To be called in the event loop."""
        attempt = _attempt(report)
        if not self._limit.admit(attempt, self._clock()):
            return
        if len(self._under_way) >= MAX_UNDER_WAY:
            self._limit.count(attempt, self._clock())
            return
        self._send(report)

    def tick(self) -> None:
        """Once a second, or so: tell what was counted for long enough."""
        self._tell_counted(self._limit.due(self._clock()))

    async def run(self) -> NoReturn:
        """Tick until cancelled; then what is counted is told, as long as the core hears it."""
        try:
            while True:
                await asyncio.sleep(TICK_SECONDS)
                self.tick()
        finally:
            await self.close()

    async def close(self) -> None:
        """Tell what is counted; where the core is gone already, the log of this process has it."""
        self._tell_counted(self._limit.due(self._clock(), ending=True))
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

    def _tell_counted(self, counted: list[CountedAttempts]) -> None:
        for one in counted:
            for outcome, attempts in one.outcomes:
                refusal = NorthRefusal(outcome, one.text, attempts=attempts)
                self._send(refused_request(one.principal, _ACTIONS[one.kind], refusal))

    def _send(self, report: OperationRequest) -> None:
        task = asyncio.get_running_loop().create_task(self._report(report))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _report(self, report: OperationRequest) -> None:
        answer = await self._ask(report)
        if answer.outcome is not Outcome.APPLIED:  # perhaps it has it all the same: better twice than never
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
