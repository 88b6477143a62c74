"""Refusals of a north reach the core, within bounds; those that it does not accept are reported later."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from gateway.feed.audit_rate_limiter import PERIOD, RECORDED_IN_FULL
from gateway.feed.client import MAX_UNDER_WAY, RefusalReports, refused_request
from gateway.feed.operations import FrontEndRefusal, InvokeMethod, OperationAnswer, OperationRequest
from gateway.model.operations import Outcome, Principal

MALLORY = Principal("jmx", "mallory", "192.0.2.66")
REFUSAL = FrontEndRefusal(Outcome.UNKNOWN_ELEMENT, "there is no operation explode", "explode")
REPORT = refused_request(MALLORY, InvokeMethod("explode"), REFUSAL, (1, "shop:safe", 3))


@dataclass
class Core:
    """A core that accepts reports, unless it is down or does not answer yet."""

    outcome: Outcome = Outcome.APPLIED
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    reported: list[OperationRequest] = field(default_factory=list)
    now: int = 0

    def __post_init__(self) -> None:
        self.answers.set()

    async def ask(self, request: OperationRequest) -> OperationAnswer:
        self.reported.append(request)
        await self.answers.wait()
        return OperationAnswer(request.request, "", self.outcome)

    def reports(self) -> RefusalReports:
        return RefusalReports(self.ask, lambda: self.now)

    def attempts(self) -> int:
        return sum(report.refusal.attempts for report in self.reported if report.refusal is not None)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_attempts_are_reported_one_by_one_and_then_by_their_number() -> None:
    core = Core()
    reports = core.reports()
    for _ in range(RECORDED_IN_FULL + 7):
        reports.report(REPORT)
        await settled()
    assert core.reported == [REPORT] * RECORDED_IN_FULL
    core.now += PERIOD
    reports.tick()
    await settled()
    counted = core.reported[-1]
    assert counted.refusal == FrontEndRefusal(Outcome.UNKNOWN_ELEMENT, REFUSAL.text, attempts=7)
    assert (counted.principal, counted.row) == (MALLORY, 0)
    await reports.close()


async def test_what_a_core_that_is_down_does_not_take_is_sent_to_the_next() -> None:
    core = Core(Outcome.SOURCE_DOWN)
    reports = core.reports()
    for _ in range(3):
        reports.report(REPORT)
    await settled()
    core.reported.clear()
    core.outcome = Outcome.APPLIED
    core.now += PERIOD
    reports.tick()
    await settled()
    assert core.attempts() == 3
    await reports.close()


async def test_a_core_that_does_not_answer_holds_nothing_up() -> None:
    core = Core()
    core.answers.clear()
    reports = core.reports()
    principals = [Principal("jmx", f"user{number}") for number in range(MAX_UNDER_WAY + 3)]
    for principal in principals:
        reports.report(refused_request(principal, InvokeMethod("explode"), REFUSAL))
    await settled()
    assert len(core.reported) == MAX_UNDER_WAY
    core.answers.set()
    await reports.close()
    assert core.attempts() == len(principals)
