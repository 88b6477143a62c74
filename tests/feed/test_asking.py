"""A north asks over the feed: answers come behind their effects, cores end or hang, messages are invalid."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from gateway.feed.client import FeedLink
from gateway.feed.messages import MAX_REQUEST_OCTETS, VERSION, encode
from gateway.feed.operations import (
    FrontEndRefusal,
    InvokeMethod,
    LoginReport,
    OperationAnswer,
    OperationRequest,
    ReadFresh,
    SetElements,
)
from gateway.feed.records import Batch, Hello
from gateway.feed.server import MAX_UNANSWERED, FeedServer
from gateway.model.operations import Outcome, Principal
from gateway.model.times import SECOND
from tests.components.scripted_operations import ScriptedOperations, applied, nothing
from tests.components.waiting import DEADLINE, eventually
from tests.feed.test_messages import RECORDS
from tests.feed.test_operation_messages import RECORD as OPERATION
from tests.feed.test_server import Recorder

PURGE = OperationRequest(
    0, Principal("jmx", "operator"), 1, "rabbitmq:queue", 3, InvokeMethod("purge"), 10 * SECOND
)
CHECK = msgspec.structs.replace(PURGE, check_only=True)


class Site:
    """A served feed and one north that follows it."""

    def __init__(self, path: Path, grace: float) -> None:
        self.path = path
        self.operations = ScriptedOperations()
        self.logins: list[LoginReport] = []
        self.northbound = Recorder()
        self.link = FeedLink(path, self.northbound, grace=grace)
        self.feed = self._feed()

    async def start(self) -> None:
        await self.feed.start()

    async def restart(self) -> None:
        await self.feed.close()
        self.feed = self._feed()
        await self.feed.start()

    async def until_connected(self) -> None:
        await eventually(self._is_connected, "a connection")

    async def _is_connected(self) -> bool:
        return self.link.is_connected

    def _feed(self) -> FeedServer:
        hello = Hello(VERSION, 1, "gw", 0)
        return FeedServer(
            self.path, hello, lambda: ((), 5), asked=self.operations.asked, logged_in=self.logins.append
        )


@contextlib.asynccontextmanager
async def running(tmp_path: Path, grace: float = DEADLINE) -> AsyncIterator[Site]:
    site = Site(tmp_path / "f.sock", grace)
    await site.start()
    following = asyncio.create_task(site.link.run())
    await site.until_connected()
    try:
        yield site
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await site.feed.close()


async def test_a_request_arrives_as_it_was_made_and_its_answer_comes_back(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        site.operations.script = lambda _: OperationAnswer(
            0, "gw.1.o7", Outcome.REMOTE_FAILURE, "Forbidden", "purge", 6, {"left": 2**64 - 1}
        )
        answer = await site.link.ask(PURGE)
        (request,) = site.operations.requests
        assert request.sent > 0
        assert msgspec.structs.replace(request, request=0, sent=0, reference="") == PURGE
        assert request.reference
        assert answer == OperationAnswer(
            request.request,
            "gw.1.o7",
            Outcome.REMOTE_FAILURE,
            "Forbidden",
            "purge",
            6,
            {"left": 2**64 - 1},
        )


async def test_logins_arrive_as_they_were_reported_and_have_no_answer(tmp_path: Path) -> None:
    reports = [LoginReport(Principal("jmx", "monitor", "192.0.2.1")), LoginReport(PURGE.principal, 2**40)]
    async with running(tmp_path) as site:
        assert [site.link.report_login(report) for report in reports] == [True, True]
        await site.link.ask(PURGE)
        assert site.logins == reports
        await site.feed.close()
        await eventually(lambda: _is_refused(site), "the core is away")


async def _is_refused(site: Site) -> bool:
    return not site.link.report_login(LoginReport(PURGE.principal))


async def test_answers_find_their_requests_in_any_order(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        site.operations.script = nothing
        asked = [asyncio.create_task(site.link.ask(PURGE)) for _ in range(3)]
        await site.operations.until_asked(3)
        for index in (2, 0, 1):
            site.operations.answer(index, OperationAnswer(0, f"gw.1.o{index}", Outcome.APPLIED))
        answers = await asyncio.gather(*asked)
        numbers = {request.request: index for index, request in enumerate(site.operations.requests)}
        assert all(answer.operation_id == f"gw.1.o{numbers[answer.request]}" for answer in answers)
        assert len({answer.request for answer in answers}) == 3


async def test_an_answer_comes_after_what_it_led_to(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        site.operations.script = nothing
        asked = asyncio.create_task(site.link.ask(PURGE))
        await site.operations.until_asked(1)
        batches = [Batch(1, number, tuple(RECORDS)) for number in range(6, 60)]
        for batch in batches:
            site.feed.publish(batch)
        site.operations.answer(0, applied(PURGE))
        await asked
        assert [message for message in site.northbound.messages if isinstance(message, Batch)] == batches


async def test_an_answer_waits_for_the_snapshot_of_a_front_end_that_has_none_yet(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        assert (await site.link.ask(PURGE)).outcome is Outcome.APPLIED
        await site.northbound.until(Hello(VERSION, 1, "gw", 0))
        assert [type(message).__name__ for message in site.northbound.messages] == [
            "Hello",
            "SnapshotBegan",
            "SnapshotEnded",
        ]


async def test_what_was_asked_when_the_core_ended_is_unknown_and_never_asked_again(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        site.operations.script = nothing
        asked = [asyncio.create_task(site.link.ask(request)) for request in (PURGE, CHECK)]
        await site.operations.until_asked(2)
        await site.restart()
        purge, check = await asyncio.gather(*asked)
        assert purge.outcome is Outcome.UNKNOWN
        assert "the gateway's core ended" in purge.text
        assert check.outcome is Outcome.SOURCE_DOWN
        await site.until_connected()
        site.operations.script = applied
        assert (await site.link.ask(PURGE)).outcome is Outcome.APPLIED
        assert len(site.operations.requests) == 3


@pytest.mark.parametrize("reference", ["", "one.of.the.front.end"])
async def test_an_operation_that_has_begun_is_known_by_its_id_when_the_core_ends(
    tmp_path: Path, reference: str
) -> None:
    async with running(tmp_path) as site:
        site.operations.script = nothing
        asked = msgspec.structs.replace(PURGE, reference=reference)
        answers = [asyncio.create_task(site.link.ask(request)) for request in (asked, PURGE, CHECK)]
        await site.operations.until_asked(3)
        given = site.operations.requests[0].reference
        assert given == reference or (given and not reference)
        begun = msgspec.structs.replace(OPERATION, operation_id="gw.1.o7", reference=given)
        others = msgspec.structs.replace(OPERATION, operation_id="gw.1.o8", reference="")
        site.feed.publish(Batch(1, 6, (begun, others)))
        await site.northbound.until(Batch(1, 6, (begun, others)))
        await site.restart()
        ended, other, check = await asyncio.gather(*answers)
        assert (ended.outcome, ended.operation_id) == (Outcome.UNKNOWN, "gw.1.o7")
        assert (other.outcome, other.operation_id) == (Outcome.UNKNOWN, "")
        assert (check.outcome, check.operation_id) == (Outcome.SOURCE_DOWN, "")


async def test_without_a_core_nothing_is_sent(tmp_path: Path) -> None:
    link = FeedLink(tmp_path / "f.sock", Recorder())
    answer = await link.ask(PURGE)
    assert (answer.outcome, answer.operation_id) == (Outcome.SOURCE_DOWN, "")
    assert "cannot be reached" in answer.text


@pytest.mark.parametrize(
    ("request_", "outcome", "text"),
    [
        (PURGE, Outcome.UNKNOWN, "may have been carried out"),
        (CHECK, Outcome.SOURCE_DOWN, "nothing was done"),
        (msgspec.structs.replace(PURGE, action=ReadFresh()), Outcome.UNKNOWN, "it was not read again"),
    ],
    ids=["purge", "check", "read"],
)
async def test_a_core_that_hangs_is_not_waited_for_for_ever(
    tmp_path: Path, request_: OperationRequest, outcome: Outcome, text: str
) -> None:
    async with running(tmp_path, grace=0.01) as site:
        site.operations.script = nothing
        answer = await site.link.ask(msgspec.structs.replace(request_, timeout=1))
        assert answer.outcome is outcome
        assert "does not answer" in answer.text
        assert text in answer.text
        assert site.link.asked == 0


async def test_an_answer_that_comes_too_late_harms_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        site.operations.script = nothing
        asked = asyncio.create_task(site.link.ask(PURGE))
        await site.operations.until_asked(1)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        site.operations.answer(0, applied(PURGE))
        site.operations.script = applied
        assert (await site.link.ask(PURGE)).outcome is Outcome.APPLIED


@pytest.mark.parametrize(
    ("value", "outcome"),
    [("x" * MAX_REQUEST_OCTETS, Outcome.WRONG_LENGTH), (2**64, Outcome.WRONG_VALUE)],
    ids=["long", "large"],
)
async def test_what_cannot_travel_is_refused_where_it_is_and_the_core_records_that(
    tmp_path: Path, value: str | int, outcome: Outcome
) -> None:
    async with running(tmp_path) as site:
        request = msgspec.structs.replace(PURGE, action=SetElements({"description": value}))
        answer = await site.link.ask(request)
        assert answer.outcome is outcome
        await site.operations.until_asked(1)
        (recorded,) = site.operations.requests
        assert recorded.action == SetElements({"description": None})
        assert recorded.refusal == FrontEndRefusal(outcome, answer.text)


async def test_a_check_of_what_cannot_travel_is_not_recorded(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        request = msgspec.structs.replace(CHECK, action=SetElements({"limit": 2**64}))
        assert (await site.link.ask(request)).outcome is Outcome.WRONG_VALUE
        assert (await site.link.ask(PURGE)).outcome is Outcome.APPLIED
        assert [one.action for one in site.operations.requests] == [PURGE.action]


async def test_a_front_end_has_so_many_requests_under_way_at_most(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        site.operations.script = nothing
        waiting = [asyncio.create_task(site.link.ask(PURGE)) for _ in range(MAX_UNANSWERED)]
        await site.operations.until_asked(MAX_UNANSWERED)
        assert (await site.link.ask(PURGE)).outcome is Outcome.NOT_NOW
        assert len(site.operations.requests) == MAX_UNANSWERED
        for index in range(MAX_UNANSWERED):
            site.operations.answer(index, applied(PURGE))
        assert {answer.outcome for answer in await asyncio.gather(*waiting)} == {Outcome.APPLIED}


NONSENSE = {
    "no frame": b"\xff" * 64,
    "no request": encode(Hello(VERSION, 1, "gw", 0)),
    "one number twice": encode(PURGE) * 2,
}


@pytest.mark.parametrize("said", NONSENSE.values(), ids=NONSENSE.keys())
async def test_who_speaks_nonsense_is_hung_up_on_and_others_are_served(tmp_path: Path, said: bytes) -> None:
    async with running(tmp_path) as site:
        site.operations.script = nothing
        reader, writer = await asyncio.open_unix_connection(site.path)
        writer.write(said)
        async with asyncio.timeout(DEADLINE):
            with contextlib.suppress(ConnectionError):
                while await reader.read(65536):
                    pass
        writer.close()
        assert site.feed.counters.hung_up == 1
        site.operations.script = applied
        assert (await site.link.ask(PURGE)).outcome is Outcome.APPLIED


async def test_where_there_are_no_operations_nothing_is_done(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        await site.feed.close()
        site.feed = FeedServer(site.path, Hello(VERSION, 1, "gw", 0), lambda: ((), 5))
        await site.feed.start()
        await site.until_connected()
        assert (await site.link.ask(PURGE)).outcome is Outcome.NOT_NOW
