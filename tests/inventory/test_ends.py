"""Ends of objects, and the past in a snapshot for a new subscriber."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gateway.feed.latest import HistoryLimits, memory_of
from gateway.feed.records import (
    AgentRecord,
    AlarmRecord,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventRecord,
    EventsMadeRecord,
    GapRecord,
    Lifetime,
    ObjectRecord,
    SourceRecord,
)
from gateway.inventory.history import History
from gateway.model.observations import ClassLearned, EventLearned, RecordLost
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from tests.inventory.plant import EVENTS, VISITOR, alarms, event, events, machine, plant, visitor
from tests.inventory.playbook import AGENT, NOW, Playbook, of


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    playbook = plant(tmp_path)
    playbook.synchronise(machine())
    return playbook


def test_the_end_of_an_object_reports_what_it_was(playbook: Playbook) -> None:
    playbook.publish(visitor("Bob", "v1", created=NOW))
    playbook.now += 9 * SECOND
    (end,) = of(DeleteRecord, playbook.publish(visitor("Bob", "v1", created=NOW, deleted=NOW + 5)))
    (class_number,) = (r.number for r in of(ClassRecord, playbook.snapshot()) if r.schema.key == VISITOR.key)
    assert end == DeleteRecord(
        source=1,
        class_number=class_number,
        row=1,
        stable_name=f"Bob#{NOW}",
        deleted=NOW + 5,
        inferred=False,
        number=end.number,
        leaf_name="Bob",
        native_id="v1",
        agent=AGENT,
        lifetime=Lifetime.TRANSIENT,
        created=NOW,
        received=playbook.now,
    )


def test_when_an_object_was_created_may_be_learned_after_it_was_seen(playbook: Playbook) -> None:
    (seen,) = of(ObjectRecord, playbook.publish(visitor("Bob", "v1")))
    (later,) = of(ObjectRecord, playbook.publish(visitor("Bob", "v1", created=NOW - 7)))
    assert (seen.created, later.created) == (0, NOW - 7)
    assert (later.row, later.stable_name) == (seen.row, seen.stable_name)
    assert of(ObjectRecord, playbook.publish(visitor("Bob", "v1", created=NOW - 7))) == []
    (end,) = of(DeleteRecord, playbook.publish(visitor("Bob", "v1", created=NOW - 7, deleted=NOW)))
    assert end.created == NOW - 7


def test_what_came_and_went_is_reported_once_as_both_in_one_batch_with_both_times(playbook: Playbook) -> None:
    came, went = playbook.publish(visitor("Bob", "v1", created=NOW, deleted=NOW + 5))
    assert isinstance(came, ObjectRecord)
    assert isinstance(went, DeleteRecord)
    assert came.created == went.created == NOW
    assert went.deleted == NOW + 5


def test_numbers_of_ends_ascend_over_a_restart_of_the_core(tmp_path: Path) -> None:
    numbers = []
    for boot in (1, 2):
        playbook = plant(tmp_path, boot=boot)
        playbook.synchronise()
        for n in range(3):
            records = playbook.publish(visitor("Bob", f"v{n}", created=n, deleted=NOW))
            numbers += [end.number for end in of(DeleteRecord, records)]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 6


def test_a_snapshot_reports_ends_before_objects_and_events_and_alarms_last(playbook: Playbook) -> None:
    playbook.publish(machine(hot=True), visitor("Bob", "v1", created=1, deleted=2))
    order = [EventClassRecord, ClassRecord, SourceRecord, AgentRecord, DeleteRecord, ObjectRecord]
    order += [EventRecord, AlarmRecord]
    kinds = list(dict.fromkeys(type(record) for record in playbook.snapshot()))
    assert [kind for kind in kinds if kind not in {EventClassRecord, ClassRecord}] == order[2:]
    assert set(kinds[:2]) == set(order[:2])


def test_a_snapshot_reports_the_last_ends_and_events_as_they_were_reported_first(playbook: Playbook) -> None:
    limits = HistoryLimits()
    reported = [
        playbook.publish(visitor("Bob", f"v{n}", created=n, deleted=NOW), event("whistle", "", n))
        for n in range(1, limits.events + 10)
    ]
    first = [record for records in reported for record in records]
    again = playbook.snapshot()
    assert of(DeleteRecord, again) == of(DeleteRecord, first)[-limits.ends :]
    assert events(again) == events(first)[-limits.events :]


def test_a_source_with_many_events_leaves_the_past_of_others(playbook: Playbook) -> None:
    limits = HistoryLimits(events=3, ends=2)
    history = History(limits)
    records = playbook.publish(visitor("Bob", "v1", created=1, deleted=NOW), event("whistle", "", 1))
    history.note(records)
    (first,) = of(EventRecord, records)
    (end,) = of(DeleteRecord, records)
    noise = [msgspec.structs.replace(first, source=2, number=number) for number in range(10, 20)]
    ends = [msgspec.structs.replace(end, source=2, number=number) for number in range(10, 20)]
    history.note([*noise, *ends])
    assert history.events() == [first, *noise[-3:]]
    assert history.ends() == [end, *ends[-2:]]
    history.forget(2)
    assert (history.events(), history.ends()) == ([first], [end])


def test_the_past_of_a_source_takes_bounded_memory(playbook: Playbook) -> None:
    (first,) = of(EventRecord, playbook.publish(event("whistle", "", 1)))
    long = [msgspec.structs.replace(first, number=number, text="x" * 100_000) for number in range(20)]
    history = History(HistoryLimits(octets=5 * memory_of(long[0])))
    history.note(long)
    assert history.events() == long[-5:]
    huge = msgspec.structs.replace(first, number=99, values={0: {"of": ("x" * 1_000_000,)}})
    history.note([huge])
    assert history.events() == [huge]


def test_an_object_that_came_and_went_before_its_class_was_known_is_a_gap(tmp_path: Path) -> None:
    playbook = plant(tmp_path)
    playbook.now += SECOND
    records = playbook.publish(visitor("Bob", "v1", created=1, deleted=2), event("whistle", "", 1))
    (gap,) = of(GapRecord, records)
    assert (gap.start, gap.end) == (playbook.now, playbook.now)
    assert gap.reason == "2 events or short-lived objects came before their schema"
    assert playbook.source_record().counters["unknown_class"] == 2


def test_what_a_session_could_not_read_is_a_gap(playbook: Playbook) -> None:
    (gap,) = of(GapRecord, playbook.publish(RecordLost(ClassKey("other", "thing"), AGENT)))
    assert gap.reason == "1 events or short-lived objects came before their schema"


def test_such_gaps_are_reported_once_a_second_and_count_all(tmp_path: Path) -> None:
    playbook = plant(tmp_path)
    start = playbook.now
    gaps = of(GapRecord, playbook.publish(visitor("Bob", "v1", deleted=2)))
    for _ in range(9):
        playbook.now += SECOND // 10
        gaps += of(GapRecord, playbook.publish(visitor("Bob", "v1", deleted=2)))
    assert len(gaps) == 1
    (gap,) = of(GapRecord, playbook.tick(0.1))
    assert gap.reason.startswith("9 events")
    assert (gap.start, gap.end) == (start + SECOND // 10, start + SECOND)
    assert not of(GapRecord, playbook.tick(5))


def test_an_object_that_lives_is_no_loss_since_a_resync_reports_it_again(tmp_path: Path) -> None:
    playbook = plant(tmp_path)
    assert not of(GapRecord, playbook.publish(visitor("Bob", "v1")))


def test_what_a_source_taken_out_had_is_gone(playbook: Playbook) -> None:
    playbook.publish(machine(hot=True))
    playbook.publish(event("strikeBegan"))
    playbook.now += SECOND
    before = len(playbook.batches)
    playbook.inventory.remove_source(playbook.source, playbook.now)
    records = [record for batch in playbook.batches[before:] for record in batch.records]
    assert [(e.condition, e.text) for e in events(records)] == [
        (
            'overheated plant:machine "press"',
            "cleared after 1 s, its source was taken out: press is too hot (0 of 100)",
        ),
        ("strike", "cleared after 1 s, its source was taken out: strike"),
    ]
    assert [alarm.cleared for alarm in alarms(records)] == [playbook.now] * 2
    assert [end.stable_name for end in of(DeleteRecord, records)] == ["press"]
    assert {type(record) for record in playbook.snapshot()} == {EventClassRecord, ClassRecord}


def test_a_source_taken_out_and_in_again_has_its_number_and_its_objects_their_rows(
    playbook: Playbook,
) -> None:
    playbook.inventory.remove_source(playbook.source, playbook.now)
    playbook.source = playbook.inventory.add_source("shop", "qmf")
    assert playbook.source.identity.number == 1
    playbook.synchronise(machine())
    assert playbook.objects()["press"].row == 1


def test_a_class_learnt_late_is_reported_from_then_on(tmp_path: Path) -> None:
    playbook = plant(tmp_path)
    playbook.publish(visitor("Bob", "v1", created=1, deleted=2))
    playbook.publish(ClassLearned(VISITOR), EventLearned(EVENTS["whistle"]))
    records = playbook.publish(visitor("Eve", "v2", created=1, deleted=2), event("whistle", "", 1))
    assert [type(record) for record in records] == [ObjectRecord, DeleteRecord, EventRecord]


def test_how_many_events_a_former_core_made_stands_behind_those_that_are_known(playbook: Playbook) -> None:
    (now,) = of(EventRecord, playbook.publish(event("whistle", "", 1)))
    former = [
        msgspec.structs.replace(now, boot=boot, number=number) for boot, number in ((2, 8), (2, 9), (4, 1))
    ]
    history = History()
    history.recall(former, {5: 6, 2: 9, 3: 7, 4: 2}, 0)
    history.note([now])
    assert history.events() == [
        *former[:2],
        EventsMadeRecord(2, 9),
        EventsMadeRecord(3, 7),
        former[2],
        EventsMadeRecord(4, 2),
        EventsMadeRecord(5, 6),
        now,
    ]
