"""Conditions of the gateway itself, as events and records: of processes that cannot be started."""

from __future__ import annotations

import contextlib
from pathlib import Path

from gateway.feed.records import AlarmRecord, Batch, EventRecord
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.model.observations import EventState, Severity
from tests.components.opened_index import opened_index

NOW = 1_790_000_000 * 10**9


def test_processes_that_cannot_be_started_are_an_alarm_until_they_start(tmp_path: Path) -> None:
    published: list[Batch] = []
    with contextlib.closing(opened_index(tmp_path / "instances.sqlite3")) as index:
        inventory = Inventory("gw", 1, ClassRegistry({}), index, published.append)
        inventory.processes_not_started({}, NOW)
        assert published == []
        inventory.processes_not_started({"snmp": "Cannot allocate memory"}, NOW)
        raised, alarm = published.pop().records
        inventory.processes_not_started({"snmp": "Cannot allocate memory"}, NOW + 1)
        assert published == [], "it is reported once"
        inventory.processes_not_started({}, NOW + 3 * 10**9)
        cleared, over = published.pop().records
    assert isinstance(raised, EventRecord)
    assert isinstance(cleared, EventRecord)
    assert isinstance(alarm, AlarmRecord)
    assert isinstance(over, AlarmRecord)
    assert (raised.source, raised.state, raised.severity) == (0, EventState.RAISED, Severity.MAJOR)
    assert raised.condition == alarm.condition == alarm.name == "processNotStarted"
    assert raised.text == (
        "processes of the gateway cannot be started, which is tried again: snmp: Cannot allocate memory"
    )
    assert cleared.state is EventState.CLEARED
    assert cleared.text == "processes of the gateway: all of them start again after 3 s"
    assert over.cleared == NOW + 3 * 10**9
