"""A disk of the state folder that takes no row numbers: known objects are shown, new ones wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.feed.records import AlarmRecord
from gateway.model.observations import Severity
from tests.components.full_disk import full_disk
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
