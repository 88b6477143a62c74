"""Operations carried out in a loop: the log first, then the source, on time, whatever fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.clock import SystemClock
from gateway.config.model import OperationSettings
from gateway.config.policy import PolicySettings
from gateway.dialects.console import sending_last
from gateway.feed.operations import (
    InvokeMethod,
    OperationAnswer,
    OperationKind,
    OperationRecord,
    OperationRequest,
    OperationState,
    ReadFresh,
)
from gateway.feed.records import Batch, EventLogRecord, EventLogState
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.model.observations import ClassLearned, ResyncBegan, ResyncEnded, SourceState, SourceStateSeen
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.secrets import SecretRules
from gateway.model.times import SECOND
from gateway.operations.audit import Audit, Redaction
from gateway.operations.manager import OperationManager
from gateway.policy.decisions import CallMethod, Policy, Subject
from gateway.policy.marks import Marks
from gateway.service.processes import operations as operations_module
from gateway.service.processes.operations import CoreOperations
from tests.components.opened_index import opened_index
from tests.components.waiting import DEADLINE
from tests.operations.works import BOILER, BOILER_CLASS, MAPPING, OPERATOR, boiler

SETTINGS = OperationSettings.model_validate(
    {"allow": [{"who": ["jmx:operator"], "set": ["*"], "invoke": ["*", "purge"], "read": True}]}
)
PURGE = InvokeMethod("purge")
WELL = EventLogRecord(EventLogState.WRITING)


class RecordedLog:
    """An event log that reaches its disk when the test says so."""

    def __init__(self) -> None:
        self.record = WELL
        self.last_seq = 7
        self.hurried: list[int] = []
        self.on_disk = asyncio.Event()

    async def reached(self, seq: int) -> None:
        """Wait until the record with that seq is on the disk."""
        assert seq == self.last_seq
        await self.on_disk.wait()

    def flush(self, seq: int) -> None:
        """Record that an operation waits for this seq."""
        self.hurried.append(seq)


def policy_of(settings: OperationSettings) -> Policy:
    return Policy(PolicySettings().role_set(settings.allow))


class Site:
    """A core's operations, one source whose port the test is, and the published records of operations."""

    def __init__(self, folder: Path, event_log: RecordedLog | None) -> None:
        clock, classes = SystemClock(), ClassRegistry({"works": MAPPING})
        self.event_log = event_log
        self.reported: list[OperationRecord] = []
        self.sent: asyncio.Queue[MethodCall | ObjectModify | ObjectFetch] = asyncio.Queue()
        index = opened_index(folder / "instances.sqlite3")
        self.inventory = Inventory("gw", 1, classes, index, self._published)
        source = self.inventory.add_source("works", "qmf")
        manager = OperationManager(
            self.inventory,
            classes,
            policy_of(SETTINGS),
            Marks({"works": MAPPING}),
            Audit("gw", 1, Redaction(SecretRules())),
        )
        self.operations = CoreOperations(manager, self.inventory, clock, event_log)
        self.operations.connect(source.identity.number, self)
        self.inventory.observed(
            source,
            [
                ClassLearned(BOILER),
                ResyncBegan(),
                boiler(),
                ResyncEnded(complete=True),
                SourceStateSeen(SourceState.SYNCHRONISED),
            ],
            clock.now(),
        )

    def call(self, call: MethodCall) -> None:
        """Accept a call, as the source's port."""
        self.sent.put_nowait(call)

    def modify(self, modify: ObjectModify) -> None:
        """Accept a change, as the source's port."""
        self.sent.put_nowait(modify)

    def fetch(self, fetch: ObjectFetch) -> None:
        """Accept a read request, as the source's port."""
        self.sent.put_nowait(fetch)

    def precheck(self, request: MethodCall | ObjectModify) -> Answer | None:  # noqa: ARG002  it has none
        """Return no answer, as the source's port."""
        return None

    async def next_sent(self) -> MethodCall | ObjectModify | ObjectFetch:
        async with asyncio.timeout(DEADLINE):
            return await self.sent.get()

    def ask(
        self, action: InvokeMethod | ReadFresh = PURGE, timeout: int = 60 * SECOND, waited: int = 0
    ) -> asyncio.Future[OperationAnswer]:
        """Submit the request of a north, sent ``waited`` nanoseconds ago."""
        answer: asyncio.Future[OperationAnswer] = asyncio.get_running_loop().create_future()
        sent = int(asyncio.get_running_loop().time() * SECOND) - waited
        request = OperationRequest(1, OPERATOR, 1, BOILER_CLASS, 1, action, timeout, sent=sent)
        self.operations.submit(request, answer.set_result)
        return answer

    def _published(self, batch: Batch) -> None:
        self.reported += [record for record in batch.records if isinstance(record, OperationRecord)]
        if hasattr(self, "operations"):
            self.operations.noticed(batch)


@contextlib.asynccontextmanager
async def running(folder: Path, event_log: RecordedLog | None = None) -> AsyncIterator[Site]:
    site = Site(folder, event_log)
    async with site.operations:
        yield site


async def within_deadline(answer: asyncio.Future[OperationAnswer]) -> OperationAnswer:
    async with asyncio.timeout(DEADLINE):
        return await answer


async def test_the_source_is_asked_once_the_log_has_the_begin_on_the_disk(tmp_path: Path) -> None:
    event_log = RecordedLog()
    async with running(tmp_path, event_log) as site:
        answer = site.ask()
        for _ in range(10):
            await asyncio.sleep(0)
        assert (site.sent.qsize(), event_log.hurried) == (0, [7])
        assert [record.state for record in site.reported] == [OperationState.BEGUN]
        event_log.on_disk.set()
        call = await site.next_sent()
        site.operations.answered(Answer(call.token, Outcome.APPLIED, "OK", 0))
        assert (await within_deadline(answer)).outcome is Outcome.APPLIED
        assert [record.state for record in site.reported] == [OperationState.BEGUN, OperationState.ENDED]


async def test_a_log_in_trouble_holds_nothing_up_and_that_is_reported(tmp_path: Path) -> None:
    event_log = RecordedLog()
    event_log.record = EventLogRecord(EventLogState.DISK_FULL)
    async with running(tmp_path, event_log) as site:
        with capture_logs() as lines:
            answer = site.ask()
            call = await site.next_sent()
        site.operations.answered(Answer(call.token, Outcome.APPLIED, "OK", 0))
        assert (await within_deadline(answer)).text == (
            "OK; begun while the event log was in trouble (disk-full)"
        )
    assert [line["event"] for line in lines] == ["operation-not-recorded-first"]


async def test_a_log_that_hangs_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations_module, "RECORD_SECONDS", 0.01)
    async with running(tmp_path, RecordedLog()) as site:
        site.ask()
        await site.next_sent()


async def test_without_a_log_nothing_waits(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        site.ask()
        assert isinstance(await site.next_sent(), MethodCall)


async def test_a_reading_waits_for_no_disk(tmp_path: Path) -> None:
    async with running(tmp_path, RecordedLog()) as site:
        answer = site.ask(ReadFresh())
        fetch = await site.next_sent()
        site.operations.answered(Answer(fetch.token, Outcome.APPLIED))
        assert (await within_deadline(answer)).values["limit"] == 5


async def test_what_waited_too_long_for_a_core_that_was_stopped_is_not_done(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        answer = await within_deadline(site.ask(waited=61 * SECOND))
        assert answer.outcome is Outcome.NOT_NOW
        assert site.reported[-1].outcome is Outcome.NOT_NOW
        assert site.sent.qsize() == 0


async def test_what_is_not_answered_ends_at_its_deadline(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        answer = await within_deadline(site.ask(timeout=SECOND // 20))
        assert answer.outcome is Outcome.UNKNOWN
        assert site.reported[-1].outcome is Outcome.UNKNOWN
        assert site.sent.qsize() == 1


async def test_a_fault_of_a_source_is_the_outcome_and_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as site:

        def fail(_: MethodCall) -> None:
            raise RuntimeError("ours")

        with monkeypatch.context() as patched, capture_logs() as lines:
            patched.setattr(site, "call", fail)
            answer = await within_deadline(site.ask())
        assert (answer.outcome, answer.text) == (
            Outcome.UNKNOWN,
            "internal error RuntimeError: it may have been carried out; see the log",
        )
        assert [line["event"] for line in lines] == ["operation-not-sent"]

        def fail_before(_: MethodCall) -> None:
            with sending_last():
                raise RuntimeError("ours")

        with monkeypatch.context() as patched, capture_logs() as lines:
            patched.setattr(site, "call", fail_before)
            answer = await within_deadline(site.ask())
        assert (answer.outcome, answer.text) == (
            Outcome.REMOTE_FAILURE,
            "not sent: internal error RuntimeError: see the log",
        )
        assert [line["event"] for line in lines] == ["operation-not-sent"]
        with monkeypatch.context() as patched, capture_logs() as lines:
            patched.setattr(site, "precheck", fail)
            answer = await within_deadline(site.ask())
        assert (answer.outcome, answer.text) == (
            Outcome.REMOTE_FAILURE,
            "not sent: internal error RuntimeError: see the log",
        )
        assert [line["event"] for line in lines] == ["operation-not-checked"]
        site.ask()
        await site.next_sent()


async def test_what_a_core_before_left_is_reported(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        begun = OperationRecord(
            0,
            "gw.0.o4",
            OperationKind.INVOKE,
            OperationState.BEGUN,
            OPERATOR,
            1,
            BOILER_CLASS,
            1,
            "north",
            "north",
            method="purge",
        )
        site.operations.recover([begun])
        assert [(record.operation_id, record.outcome) for record in site.reported] == [
            ("gw.0.o4", Outcome.UNKNOWN)
        ]
        assert site.reported[0] in site.inventory.snapshot()[0]


def test_the_configuration_is_what_the_policy_decides_by() -> None:
    settings = OperationSettings.model_validate(
        {"allow": [{"who": ["jmx:operator"], "objects": ["/|a*"], "invoke": ["purge"]}]}
    )
    policy, purge = policy_of(settings), CallMethod("purge", dangerous=True)
    operator = str(OPERATOR)
    assert policy.decide(operator, Subject("works", "rabbitmq:queue", "/|abc"), purge).allowed
    assert not policy.decide(operator, Subject("works", "rabbitmq:queue", "/|b"), purge).allowed
    nothing = policy_of(OperationSettings())
    assert not nothing.decide(operator, Subject("works", "rabbitmq:queue", "/|abc"), purge).allowed
