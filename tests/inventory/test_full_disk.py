"""A disk of the state folder that takes no row numbers: known objects are shown, new ones wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.feed.records import AlarmRecord, DeleteRecord
from gateway.inventory import instances
from gateway.model.observations import Severity
from tests.components.full_disk import full_disk, unreadable_disk
from tests.inventory.plant import alarms, event, plant
from tests.inventory.playbook import NOW, QUEUE, Playbook, connection, of, queue, statistics, vhost

DEPTH = QUEUE.positions["depth"]


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    return Playbook(tmp_path)


def test_new_objects_wait_unshown_for_the_disk_and_are_counted(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("known", "q1", depth=1), connection("first", "c0"))
    with full_disk():
        playbook.publish(queue("published", "q2"))  # its row is of a block that the disk has
        playbook.publish(queue("waits", "q3", depth=1), queue("ends", "q4"), queue("known", "q1", depth=2))
        playbook.publish(
            statistics("q3", 5, None), queue("ends", "q4", deleted=NOW + 1), connection("short-lived", "c1")
        )
        playbook.tick(20)
        assert set(playbook.objects()) == {"/", "/|known", "/|published", "first#c0", "short-lived#c1"}
        assert playbook.objects()["/|known"].values[DEPTH] == 2
        assert playbook.source_record().counters["objects_unshown"] == 2
        assert playbook.source.unshown == 1
        (alarm,) = of(AlarmRecord, playbook.snapshot())
        assert (alarm.name, alarm.severity) == ("stateNotWritten", Severity.CRITICAL)
        assert "see to space on the disk" in alarm.text
    playbook.index.checkpoint()
    playbook.tick(1)
    shown = playbook.objects()
    assert shown["/|waits"].values[DEPTH] == 5
    assert "/|ends" not in shown
    assert len({record.row for name, record in shown.items() if name.startswith("/|")}) == 3
    assert playbook.source.unshown == 0
    assert of(AlarmRecord, playbook.snapshot()) == []


def test_what_a_resync_does_not_report_waits_no_longer(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("known", "q0"))
    with full_disk():
        playbook.publish(queue("published", "q1"))
        playbook.publish(queue("waits", "q2"), queue("gone", "q3"))
        playbook.synchronise(vhost("/", "v1"), queue("published", "q1"), queue("waits", "q2"))
        assert playbook.source.unshown == 1
    playbook.index.checkpoint()
    playbook.tick(1)
    assert set(playbook.objects()) == {"/", "/|published", "/|waits"}, "the resync did not report /|known"


def test_objects_end_however_many_while_the_disk_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "OWN_BLOCK", 4)
    playbook = Playbook(tmp_path)
    playbook.synchronise(vhost("/", "v1"), *(queue(f"{n}", f"q{n}") for n in range(20)))
    numbers = []
    with full_disk():
        for n in range(18):
            (end,) = of(DeleteRecord, playbook.publish(queue(f"{n}", f"q{n}", deleted=NOW + 1)))
            numbers.append(end.number)
        assert set(playbook.objects()) == {"/", "/|18", "/|19"}
    assert numbers == list(range(1, 19))
    playbook.index.checkpoint()
    for core in (playbook, Playbook(tmp_path, boot=2)):
        core.synchronise(vhost("/", "v1"), queue("18", "q18"), queue("19", "q19"))
        (end,) = of(DeleteRecord, core.publish(queue("19", "q19", deleted=NOW + 2)))
        numbers.append(end.number)
    assert numbers == sorted(set(numbers)), "they are on the disk since it takes them"


def test_alarms_are_raised_however_many_while_the_disk_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "OWN_BLOCK", 4)
    playbook = plant(tmp_path)
    playbook.synchronise()
    numbers = []
    with full_disk():
        for _ in range(10):
            (raised,) = alarms(playbook.publish(event("strikeBegan")))
            (ended,) = alarms(playbook.publish(event("strikeEnded")))
            assert raised.number == ended.number
            numbers.append(raised.number)
    playbook.index.checkpoint()
    numbers += [alarm.number for alarm in alarms(playbook.publish(event("strikeBegan")))]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 11


def test_an_object_ends_also_where_the_disk_cannot_be_read(playbook: Playbook, tmp_path: Path) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("ends", "q1"), queue("stays", "q2"))
    playbook.index.checkpoint()
    playbook.index._database.execute("PRAGMA shrink_memory")  # noqa: SLF001  pages in memory need no disk
    with unreadable_disk(tmp_path / "instances.sqlite3"), unreadable_disk(tmp_path / "instances.sqlite3-wal"):
        (end,) = of(DeleteRecord, playbook.publish(queue("ends", "q1", deleted=NOW + 1)))
        assert end.stable_name == "/|ends"
        assert playbook.index.trouble
        assert set(playbook.objects()) == {"/", "/|stays"}
