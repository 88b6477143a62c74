"""The alarms of certificates that expire, as events and records of the gateway itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.feed.records import AlarmRecord, Batch, EventRecord, Record
from gateway.inventory.certificates import MAX_ALARMS, CertificateExpiry
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.model.observations import EventState, Severity
from gateway.model.times import DAY, HOUR
from tests.components.opened_index import opened_index

NOW = 1_790_000_000 * 10**9
WARN_BEFORE = 30 * DAY
PATH = "/etc/amqp-gateway/gateway.pem"
KEYS = ("jmx.tls.certificate", "metrics.tls.certificate")


class Core:
    """An inventory on an index that outlives it."""

    def __init__(self, index: InstanceIndex, epoch: int = 1) -> None:
        self.published: list[Batch] = []
        self.inventory = Inventory("gw", epoch, ClassRegistry({}), index, self.published.append)

    def judge(self, *ends: int, now: int = NOW, not_known: tuple[str, ...] = ()) -> list[Record]:
        """Look at one file whose first certificate ends then; return what is published."""
        found = [CertificateExpiry(PATH, end, KEYS) for end in ends]
        self.inventory.certificates_judged(found, WARN_BEFORE, now, not_known)
        return [record for batch in self.published[-1:] for record in batch.records]

    def active(self) -> list[AlarmRecord]:
        """Return the active alarms of a snapshot."""
        return [record for record in self.inventory.snapshot()[0] if isinstance(record, AlarmRecord)]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[InstanceIndex]:
    index = opened_index(tmp_path / "instances.sqlite3")
    yield index
    index.close()


def test_a_certificate_that_expires_soon_is_an_event_and_an_alarm(index: InstanceIndex) -> None:
    core = Core(index)
    event, alarm = core.judge(NOW + 20 * DAY + HOUR)
    assert isinstance(event, EventRecord)
    assert isinstance(alarm, AlarmRecord)
    assert (event.source, event.state, event.severity) == (0, EventState.RAISED, Severity.WARNING)
    assert event.text == (
        "certificate expires on 2026-10-11, in 20 days: renew it: /etc/amqp-gateway/gateway.pem"
        " (jmx.tls.certificate, metrics.tls.certificate)"
    )
    assert event.condition == alarm.condition == 'certificateExpiring "/etc/amqp-gateway/gateway.pem"'
    assert (alarm.source, alarm.name, alarm.event_id) == (0, "certificateExpiring", event.event_id)
    assert core.active() == [alarm]


def test_one_that_is_valid_for_longer_is_none(index: InstanceIndex) -> None:
    assert Core(index).judge(NOW + WARN_BEFORE) == []


def test_it_is_reported_again_when_it_becomes_graver_only(index: InstanceIndex) -> None:
    core, ends = Core(index), NOW + 20 * DAY
    _, first = core.judge(ends)
    assert isinstance(first, AlarmRecord)
    severities = []
    for day in range(1, 25):
        core.published.clear()
        for record in core.judge(ends, now=NOW + day * DAY):
            if isinstance(record, AlarmRecord):
                severities.append((day, record.severity))
                assert (record.number, record.raised) == (first.number, first.raised)
    assert severities == [(14, Severity.MAJOR), (20, Severity.CRITICAL)]
    assert core.active()[0].text.startswith("certificate expired on ")


def test_a_renewed_one_ends_the_alarm(index: InstanceIndex) -> None:
    core = Core(index)
    core.judge(NOW + DAY)
    event, over = core.judge(NOW + 90 * DAY, now=NOW + HOUR)
    assert isinstance(event, EventRecord)
    assert isinstance(over, AlarmRecord)
    assert (event.state, event.severity) == (EventState.CLEARED, Severity.CLEARED)
    assert event.text.startswith("renewed, or not used any more, after 1 h: certificate expires on ")
    assert over.cleared == NOW + HOUR
    assert core.active() == []


def test_a_new_certificate_that_expires_soon_too_is_reported(index: InstanceIndex) -> None:
    core = Core(index)
    core.judge(NOW + 20 * DAY)
    _, alarm = core.judge(NOW + 21 * DAY)
    assert isinstance(alarm, AlarmRecord)
    assert "2026-10-12" in alarm.text


def test_a_file_that_cannot_be_read_now_changes_nothing(index: InstanceIndex) -> None:
    core = Core(index)
    core.judge(NOW + DAY)
    core.published.clear()
    assert core.judge(not_known=(PATH,)) == []
    assert len(core.active()) == 1


def test_an_alarm_lasts_over_a_restart(index: InstanceIndex) -> None:
    core = Core(index)
    _, alarm = core.judge(NOW + DAY)
    again = Core(index, 2)
    assert again.active() == [alarm]
    assert again.judge(NOW + DAY) == []
    event, _ = again.judge(NOW + 90 * DAY)
    assert isinstance(event, EventRecord)
    assert event.event_id == "gw.2.1"


def test_an_end_that_an_earlier_core_did_not_report_is_reported(index: InstanceIndex) -> None:
    core = Core(index)
    event, _ = core.judge(NOW + DAY)
    assert isinstance(event, EventRecord)
    core.judge(NOW + 90 * DAY)  # and it was killed before the log had that
    again = Core(index, 2)
    again.inventory.recall([event], {1: 1})
    (cleared,) = again.judge(NOW + 90 * DAY)
    assert isinstance(cleared, EventRecord)
    assert (cleared.state, cleared.condition) == (EventState.CLEARED, event.condition)
    assert cleared.text.startswith("over before the gateway was started again: ")


def test_a_long_path_makes_a_condition_of_limited_size(index: InstanceIndex) -> None:
    core = Core(index)
    names = [f"/{'long' * 100}/{number}" for number in range(2)]
    core.inventory.certificates_judged([CertificateExpiry(name, NOW) for name in names], WARN_BEFORE, NOW)
    conditions = {alarm.condition for alarm in core.active()}
    assert len(conditions) == 2
    assert all(len(condition.encode()) <= 255 for condition in conditions)


def test_alarms_are_limited(index: InstanceIndex) -> None:
    core = Core(index)
    found = [CertificateExpiry(f"/{number}", NOW) for number in range(MAX_ALARMS + 1)]
    core.inventory.certificates_judged(found, WARN_BEFORE, NOW)
    assert len(core.active()) == MAX_ALARMS
