"""The alarm of the file of signed heads, as events and records of the gateway itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.feed.access import Quoted
from gateway.feed.records import AlarmRecord, Batch, EventRecord, Record
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.model.observations import EventState, Severity
from gateway.model.times import MINUTE
from tests.components.opened_index import opened_index

NOW = 1_790_000_000 * 10**9
FILE = "/mnt/evidence/gateway-1.heads"


class Core:
    """An inventory on an index that outlives it."""

    def __init__(self, index: InstanceIndex, epoch: int = 1) -> None:
        self._published: list[Batch] = []
        self.inventory = Inventory("gw", epoch, ClassRegistry({}), index, self._published.append)

    def published(self) -> list[Record]:
        """Return what was published since the last call."""
        records = [record for batch in self._published for record in batch.records]
        self._published.clear()
        return records

    def alarms(self) -> list[AlarmRecord]:
        """Return the active alarms of a snapshot."""
        return [record for record in self.inventory.snapshot()[0] if isinstance(record, AlarmRecord)]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[InstanceIndex]:
    index = opened_index(tmp_path / "instances.sqlite3")
    yield index
    index.close()


def test_a_file_that_cannot_be_written_is_an_alarm_until_it_can(index: InstanceIndex) -> None:
    core = Core(index)
    core.inventory.audit_heads_written(NOW)
    assert core.published() == [], "nothing is wrong"
    core.inventory.audit_heads_not_written(FILE, "No space left on device", NOW)
    event, alarm = core.published()
    assert isinstance(event, EventRecord)
    assert isinstance(alarm, AlarmRecord)
    assert (event.source, event.state, event.severity) == (0, EventState.RAISED, Severity.MAJOR)
    assert event.text == (
        "signed heads of the audit are not written: No space left on device: correct that, or name another"
        " file (audit.heads.file): /mnt/evidence/gateway-1.heads"
    )
    assert event.condition == alarm.condition == alarm.name == "auditHeadsNotWritten"
    assert alarm.quoted == Quoted(), "who sees the alarm reads its text"
    assert core.alarms() == [alarm]
    core.inventory.audit_heads_not_written(FILE, "No space left on device", NOW + MINUTE)
    assert core.published() == [], "it is reported once"
    core.inventory.audit_heads_written(NOW + 5 * MINUTE)
    event, over = core.published()
    assert isinstance(event, EventRecord)
    assert isinstance(over, AlarmRecord)
    assert (event.state, event.severity) == (EventState.CLEARED, Severity.CLEARED)
    assert event.text.endswith("written again, or not used any more, after 5 min")
    assert over.cleared == NOW + 5 * MINUTE
    assert core.alarms() == []


def test_another_reason_is_reported_under_the_same_alarm(index: InstanceIndex) -> None:
    core = Core(index)
    core.inventory.audit_heads_not_written(FILE, "No space left on device", NOW)
    (first,) = core.alarms()
    core.inventory.audit_heads_not_written(FILE, "Permission denied", NOW + MINUTE)
    (second,) = core.alarms()
    assert (second.number, second.raised) == (first.number, first.raised)
    assert "Permission denied" in second.text


def test_the_next_core_ends_the_condition_or_raises_it_again(index: InstanceIndex) -> None:
    core = Core(index)
    core.inventory.audit_heads_not_written(FILE, "No space left on device", NOW)
    raised, _ = core.published()
    assert isinstance(raised, EventRecord)
    again = Core(index, 2)
    again.inventory.recall([raised], {1: 1})
    assert again.alarms() == []
    again.inventory.audit_heads_written(NOW + MINUTE)
    (event,) = again.published()
    assert isinstance(event, EventRecord)
    assert (event.state, event.condition) == (EventState.CLEARED, "auditHeadsNotWritten")
    again.inventory.audit_heads_written(NOW + MINUTE)
    assert again.published() == []

    third = Core(index, 3)
    third.inventory.recall([raised], {1: 1})
    third.inventory.audit_heads_not_written(FILE, "No space left on device", NOW + MINUTE)
    event, _ = third.published()
    assert isinstance(event, EventRecord)
    assert event.state is EventState.RAISED
