"""Past events for front ends: from the memory of the core where that is enough, else from the log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from gateway.eventlog.logged_events import LoggedClass, LoggedEvent, event_record
from gateway.eventlog.past_events import Page
from gateway.eventlog.record import LogRecord
from gateway.feed.access import ClassAccessRecord
from gateway.feed.latest import HistoryLimits
from gateway.feed.operations import OperationAnswer
from gateway.feed.records import (
    Batch,
    EventClassRecord,
    FeedAnswer,
    PastEvents,
    PastEventsRequest,
    Place,
    Record,
)
from gateway.feed.values import ObjectLink
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.policy.marks import Marks
from gateway.policy.publishing import PolicyPublisher
from gateway.policy.rules import Role, RoleSet
from gateway.service.state import past_events
from gateway.service.state.past_events import PastEventService
from tests.components.opened_index import opened_index
from tests.eventlog.feeds import FULL, QUEUE, SHOP, T0, event
from tests.service.state.test_restored_events import T0_TEXT

pytestmark = pytest.mark.asyncio
SCHEMA = {"shop:full": LoggedEvent(FULL).schema_record(T0_TEXT)}


class Log:
    """A log whose committed records the test sets."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.classes: dict[str, LogRecord] = {}
        self.reads: list[tuple[Place, Place]] = []
        self.is_open, self.last_seq, self.is_stuck = True, 9, False

    def add(self, *places: Place, withheld: Sequence[str] = (), source: str = "shop") -> None:
        for epoch, number in places:
            record = event(event_id=f"gw.{epoch}.{number}", number=number)
            reported_by = msgspec.structs.replace(SHOP, name=source)
            self.records.append(event_record(record, LoggedEvent(FULL), reported_by, T0_TEXT, withheld))

    async def read(self, after: Place, until: Place, limit: int) -> Page:
        self.reads.append((after, until))
        found = [record for record in self.records if after < _place(record) <= until][:limit]
        through = _place(found[-1]) if len(found) == limit else until
        return Page(found, SCHEMA, self.classes, through)

    def flush(self, seq: int) -> None:
        assert seq == self.last_seq

    async def reached(self, seq: int) -> None:
        assert seq == self.last_seq
        if self.is_stuck:
            await asyncio.get_running_loop().create_future()


def _place(record: LogRecord) -> Place:
    _, epoch, number = str(record.event_id).split(".")
    return int(epoch), int(number)


class Core:
    """The second core of a gateway, which has made 5 events; of the first it recalls some."""

    def __init__(
        self, folder: Path, roles: RoleSet | None = None, recalled: Sequence[int] = (), remembers: int = 100
    ) -> None:
        self.published: list[Batch] = []
        classes, limits = ClassRegistry({}), HistoryLimits(events=remembers)
        index = opened_index(folder / "index")
        self.inventory = Inventory("gw", 2, classes, index, self.published.append, limits=limits)
        self.inventory.add_source("shop", "qmf", 1000)
        number_of_class = classes.event_record(FULL.schema).number if recalled else 0
        former = (
            event(number=number, event_id=f"gw.1.{number}", boot=1, class_number=number_of_class)
            for number in recalled
        )
        self.inventory.recall(former, {1: 9})
        for number in range(5):
            self.inventory.process_ended("snmp", str(number), T0)
        self.log, self.tables = Log(), list[Record]()
        policy = PolicyPublisher(roles or RoleSet(), Marks({}), ("nms",), classes.records)
        self.service = PastEventService(
            *("gw", self.log.read, self.log, self.inventory, classes, policy),
            lambda batch: self.tables.extend(batch.records),
        )

    async def places(self, after: Place, until: Place, limit: int = 100) -> tuple[list[Place], Place]:
        page = await self.service.page(after, until, limit)
        return [(each.boot, each.number) for each in page.records], page.through


async def test_what_the_core_remembers_needs_no_reading(tmp_path: Path) -> None:
    core = Core(tmp_path, recalled=(5, 6, 7, 8))
    assert await core.places((2, 0), (2, 9)) == ([(2, n) for n in range(1, 6)], (2, 5))
    assert await core.places((2, 1), (2, 4), limit=2) == ([(2, 2), (2, 3)], (2, 3))
    assert await core.places((1, 4), (1, 8)) == ([(1, n) for n in range(5, 9)], (1, 8))
    assert await core.places((2, 5), (2, 9)) == ([], (2, 5))
    assert core.log.reads == []


async def test_log_and_memory_together_have_each_event_once(tmp_path: Path) -> None:
    core = Core(tmp_path, recalled=(7, 9))
    core.log.add((1, 1), (1, 2), (1, 7), (2, 2))
    found = [(1, 1), (1, 2), (1, 7), (1, 9), (2, 1), (2, 2), (2, 3), (2, 4), (2, 5)]
    assert await core.places((1, 0), (2, 5)) == (found, (2, 5))
    assert await core.places((1, 0), (2, 5), limit=3) == (found[:3], (1, 7))
    assert await core.places((1, 0), (1, 6)) == ([(1, 1), (1, 2)], (1, 6))
    page = await core.service.page((1, 0), (1, 3), 10)
    assert page.records[0].subject == ObjectLink("shop:queue", 1, "/|q1")
    assert page.records[0].values[0] == ObjectLink("shop:queue", 1, "/|q1")


async def test_what_the_log_may_still_get_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_events, "COMMIT_SECONDS", 0.01)
    core = Core(tmp_path, remembers=1)
    core.log.add((1, 1), (2, 1), (2, 2), (2, 4))
    core.log.is_stuck = True
    assert await core.places((1, 0), (2, 5)) == ([(1, 1), (2, 1), (2, 2)], (2, 2))
    core.log.is_stuck = False
    assert await core.places((1, 0), (2, 5)) == ([(1, 1), (2, 1), (2, 2), (2, 4), (2, 5)], (2, 5))


async def test_what_a_former_core_did_not_write_is_not_waited_for_while_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_events, "COMMIT_SECONDS", 0.01)
    core = Core(tmp_path, remembers=1)
    core.log.add((1, 1), (1, 4))
    core.log.is_stuck = True
    assert await core.places((1, 0), (1, 9)) == ([(1, 1), (1, 4)], (1, 9))


async def test_without_a_log_there_is_what_the_core_remembers(tmp_path: Path) -> None:
    core = Core(tmp_path, recalled=(7, 9), remembers=2)
    core.service._read = core.service._written = None  # noqa: SLF001  as where the log is off
    assert await core.places((1, 0), (2, 9)) == ([(1, 7), (1, 9), (2, 4), (2, 5)], (2, 5))
    assert await core.places((1, 0), (1, 8)) == ([(1, 7)], (1, 8))


async def test_a_class_that_only_the_log_knows_has_its_table_before_the_answer(tmp_path: Path) -> None:
    core = Core(tmp_path)
    core.log.add((1, 1))
    core.log.classes = {"shop:queue": LoggedClass(QUEUE, 1).schema_record(T0_TEXT)}
    await core.service.page((1, 0), (1, 9), 10)
    (table,) = core.tables
    assert isinstance(table, ClassAccessRecord)
    assert (table.class_name, table.class_number) == ("shop:queue", -1)
    await core.service.page((1, 0), (1, 9), 10)
    assert len(core.tables) == 1
    classes = [r for batch in core.published for r in batch.records if isinstance(r, EventClassRecord)]
    assert [str(each.schema.key) for each in classes] == ["shop:full"]


async def test_events_of_sources_that_are_not_configured_any_more_come_with_their_names(
    tmp_path: Path,
) -> None:
    with closing(InstanceIndex(tmp_path / "index")) as index:
        assert index.source_number("orders") == 1
    core = Core(tmp_path)
    core.log.add((1, 1), source="orders")
    core.log.add((1, 2))
    core.log.add((1, 3), source="has another name by now")
    page = await core.service.page((1, 0), (1, 9), 10)
    assert [(each.number, each.source) for each in page.records] == [(1, 1), (2, 2), (3, 2**31 - 1)]
    assert page.former_sources == {1: "orders", 2**31 - 1: "has another name by now"}
    assert page.through == (1, 9)


async def test_roles_of_then_decide_what_is_withheld(tmp_path: Path) -> None:
    nothing = RoleSet({"none": Role("none")}, {"notify:nms": ("none",)}, {})
    core = Core(tmp_path, nothing)
    core.log.add((1, 1), withheld=["other"])
    core.log.add((2, 1))
    page = await core.service.page((1, 0), (1, 9), 10)
    assert page.records[0].withheld == ("other",)
    page = await core.service.page((2, 0), (2, 1), 10)  # from memory: by the roles that are the same still
    assert page.records[0].withheld == ("nms",)
    core.service.policy_changed()
    page = await core.service.page((2, 0), (2, 1), 10)
    assert page.records[0].withheld == ()


async def test_a_log_that_cannot_be_read_is_an_answer_too(tmp_path: Path) -> None:
    core = Core(tmp_path)
    answers: list[FeedAnswer] = []

    async def fails(_after: Place, _until: Place, _limit: int) -> Page:
        raise OSError(5, "Input/output error")

    core.service._read = fails  # noqa: SLF001  a disk that fails
    for request in (PastEventsRequest(7, (1, 0), (1, 9), 10), PastEventsRequest(8, (2, 0), (2, 9), 10)):
        answered = asyncio.get_running_loop().create_future()
        core.service.requested(request, answered.set_result)
        answers.append(await answered)
    assert isinstance(answers[0], OperationAnswer)
    assert isinstance(answers[1], PastEvents)
    assert (answers[1].request, len(answers[1].records)) == (8, 5)
    await core.service.close()
