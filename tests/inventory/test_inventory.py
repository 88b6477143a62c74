"""Changes of very many objects are applied in slices: the state, and the input, between two slices."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from gateway.feed.records import AgentRecord, AlarmRecord, DeleteRecord, ObjectRecord, Record, SourceRecord
from gateway.feed.values import ObjectLink
from gateway.inventory import inventory
from gateway.inventory.inventory import BatchSettings
from gateway.model.observations import (
    AgentLost,
    ClassLearned,
    ObjectSeen,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.times import SECOND
from tests.inventory.plant import machine, plant
from tests.inventory.playbook import (
    AGENT,
    CONSUMER,
    NOW,
    QUEUE,
    VHOST,
    Playbook,
    consumer,
    of,
    queue,
    statistics,
    vhost,
)

SLICE = 4
QUEUES = 40
SYNCHRONISED = SourceStateSeen(SourceState.SYNCHRONISED)


class Sliced:
    """A source whose queues end in slices; ``left`` counts the reports of remaining slices."""

    def __init__(self, state: Path, size: int = SLICE) -> None:
        self.left = 0
        self.playbook = Playbook(state, slicing=BatchSettings(self._note, size))

    def _note(self) -> None:
        self.left += 1

    def go_on(self, slices: int = 1_000_000) -> None:
        """Apply this many more slices, or all."""
        while self.left and slices:
            self.left = 0
            self.playbook.inventory.go_on()
            slices -= 1

    def synchronise(self, *objects: ObjectSeen) -> None:
        """Run a whole resync, applied to its end."""
        self.playbook.synchronise(*objects)
        self.go_on()

    def records(self) -> list[Record]:
        """Return all records published so far."""
        return [record for batch in self.playbook.batches for record in batch.records]

    def is_fresh(self) -> bool:
        """Return whether the agent's objects are shown as current."""
        return of(AgentRecord, self.playbook.snapshot())[0].fresh

    def state(self) -> SourceState:
        """Return the state of the source."""
        return self.playbook.source_record().state


@pytest.fixture
def sliced(tmp_path: Path) -> Sliced:
    sliced = Sliced(tmp_path)
    sliced.synchronise(vhost("/", "v1"), *_queues())
    return sliced


def _queues(prefix: str = "q", vhost_id: str = "v1") -> Iterable[ObjectSeen]:
    return (queue(f"queue-{number}", f"{prefix}{number}", vhost_id) for number in range(QUEUES))


def _names(records: Iterable[Record]) -> list[str]:
    return [one.stable_name for one in records if isinstance(one, ObjectRecord | DeleteRecord)]


def test_a_resync_that_misses_very_many_ends_them_a_slice_at_a_time(sliced: Sliced) -> None:
    playbook = sliced.playbook
    playbook.publish(ResyncBegan())
    playbook.publish(vhost("/", "v1"))
    before = len(playbook.batches)
    playbook.publish(ResyncEnded(complete=True), SYNCHRONISED)
    sliced.go_on()
    ends = [len(of(DeleteRecord, batch.records)) for batch in playbook.batches[before:]]
    assert max(ends) <= SLICE
    assert sum(ends) == QUEUES
    assert list(playbook.objects()) == ["/"]


def test_a_snapshot_between_two_slices_reports_each_object_once_and_none_that_ended(sliced: Sliced) -> None:
    playbook = sliced.playbook
    playbook.publish(ResyncBegan())
    playbook.publish(ResyncEnded(complete=True), SYNCHRONISED)
    sliced.go_on(2)
    ended = set(_names(of(DeleteRecord, sliced.records())))
    there = _names(of(ObjectRecord, playbook.snapshot()))
    assert 0 < len(ended) < QUEUES
    assert len(there) == len(set(there))
    assert ended.isdisjoint(there)
    assert len(ended) + len(there) == QUEUES + 1


def test_a_source_is_synchronised_and_its_agent_fresh_when_the_last_slice_is_applied(tmp_path: Path) -> None:
    sliced = Sliced(tmp_path)
    playbook = sliced.playbook
    sliced.synchronise(vhost("/", "v1"), *_queues())
    playbook.publish(SourceStateSeen(SourceState.DOWN, "no connection"))
    playbook.publish(SourceStateSeen(SourceState.SYNCHRONISING), ResyncBegan())
    playbook.publish(ResyncEnded(complete=True), SYNCHRONISED)
    while sliced.left:
        assert (sliced.is_fresh(), sliced.state()) == (False, SourceState.SYNCHRONISING)
        sliced.go_on(1)
    assert (sliced.is_fresh(), sliced.state()) == (True, SourceState.SYNCHRONISED)
    assert playbook.objects() == {}


def test_what_is_reported_between_two_slices_is_applied_behind_them(sliced: Sliced) -> None:
    playbook = sliced.playbook
    playbook.publish(ResyncBegan())
    playbook.publish(vhost("/", "v1"))
    playbook.publish(ResyncEnded(complete=True), SYNCHRONISED)
    playbook.publish(queue("queue-7", "n7", depth=3))  # declared again: it ends with the others, and begins
    playbook.publish(statistics("n7", 5, None))
    assert "/|queue-7" in playbook.objects()
    sliced.go_on()
    reported = [one for one in sliced.records() if _names([one]) == ["/|queue-7"]]
    assert [type(one) for one in reported] == [ObjectRecord, DeleteRecord, ObjectRecord]
    assert playbook.objects()["/|queue-7"].values[QUEUE.positions["depth"]] == 5
    assert list(playbook.objects()) == ["/", "/|queue-7"]


@pytest.mark.parametrize(
    "loss",
    [AgentLost(AGENT, "silent"), SourceStateSeen(SourceState.DOWN, "the connection was reset")],
    ids=["agent", "link"],
)
def test_an_agent_lost_between_two_slices_is_stale_at_once_and_stays_so(
    sliced: Sliced, loss: AgentLost | SourceStateSeen
) -> None:
    playbook = sliced.playbook
    playbook.publish(ResyncBegan())
    playbook.publish(vhost("/", "v1"))
    playbook.publish(ResyncEnded(complete=True), SYNCHRONISED)
    assert sliced.is_fresh()
    playbook.publish(loss)
    reported = len(playbook.batches)
    assert not sliced.is_fresh()
    sliced.go_on()
    assert not sliced.is_fresh()
    later = [record for batch in playbook.batches[reported:] for record in batch.records]
    assert not any(agent.fresh for agent in of(AgentRecord, later))
    assert list(playbook.objects()) == ["/"], "what the resync did not tell is gone all the same"


def test_an_agent_that_is_lost_and_read_again_between_two_slices_is_fresh_in_the_end(sliced: Sliced) -> None:
    playbook = sliced.playbook
    playbook.publish(ResyncBegan())
    playbook.publish(vhost("/", "v1"))
    playbook.publish(ResyncEnded(complete=True), SYNCHRONISED)
    playbook.publish(AgentLost(AGENT, "silent"))
    playbook.publish(ResyncBegan())
    playbook.publish(vhost("/", "v1"), queue("queue-1", "q1"))
    playbook.publish(ResyncEnded(complete=True), SYNCHRONISED)
    assert not sliced.is_fresh()
    sliced.go_on()
    assert sliced.is_fresh()
    assert list(playbook.objects()) == ["/", "/|queue-1"]


def test_a_restart_between_two_slices_finds_the_objects_that_are_left_again(sliced: Sliced) -> None:
    playbook = sliced.playbook
    rows = {name: one.row for name, one in playbook.objects().items()}
    playbook.publish(ResyncBegan())
    playbook.publish(vhost("/", "v1"), *_queues())
    playbook.publish(ResyncEnded(complete=True), SYNCHRONISED)
    playbook.publish(ResyncBegan(restarted=True))
    playbook.publish(vhost("/", "V1"), *_queues("Q", "V1"))
    playbook.publish(ResyncEnded(complete=True), SYNCHRONISED)
    sliced.go_on()
    assert {name: one.row for name, one in playbook.objects().items()} == rows
    assert of(DeleteRecord, sliced.records()) == []


def test_an_answer_comes_behind_all_that_was_reported_before_it(sliced: Sliced) -> None:
    playbook = sliced.playbook
    seen: list[int] = []

    def look() -> None:
        seen.append(len(playbook.objects()))

    playbook.inventory.afterwards(playbook.source, look)
    playbook.publish(ResyncBegan())
    playbook.publish(ResyncEnded(complete=True), SYNCHRONISED)
    playbook.inventory.afterwards(playbook.source, look)
    playbook.publish(vhost("/", "v1"))
    sliced.go_on()
    assert seen == [QUEUES + 1, 0]


def test_what_one_slice_leads_to_is_applied_behind_it(sliced: Sliced) -> None:
    playbook = sliced.playbook

    def publish() -> None:
        playbook.publish(queue("from-within", "w1"))

    playbook.inventory.afterwards(playbook.source, publish)
    assert "/|from-within" in playbook.objects()


def test_the_waiters_of_one_object_appear_a_slice_at_a_time(tmp_path: Path) -> None:
    sliced = Sliced(tmp_path)
    playbook = sliced.playbook
    playbook.publish(ClassLearned(VHOST), ClassLearned(QUEUE), ResyncBegan())
    sliced.go_on()
    for one in _queues():
        playbook.publish(one)
    playbook.publish(vhost("/", "v1"))
    assert len(playbook.objects()) < QUEUES
    sliced.go_on()
    assert len(playbook.objects()) == QUEUES + 1
    assert {one.parent for one in playbook.objects().values()} == {None, ObjectLink("shop:vhost", 1, "/")}


def test_the_references_to_one_object_that_ends_and_comes_back_follow_in_slices(sliced: Sliced) -> None:
    playbook = sliced.playbook
    link = playbook.objects()["/|queue-3"].values[0]
    playbook.publish(ObjectSeen(VHOST.key, AGENT, "v1", NOW, 0, NOW, ("/",), ()))
    sliced.go_on()
    assert {0 in one.values for one in playbook.objects().values()} == {False}
    playbook.publish(vhost("/", "v1"))
    sliced.go_on()
    assert [one.values[0] for name, one in playbook.objects().items() if name != "/"] == [link] * QUEUES


def test_alarms_end_with_their_objects_in_slices_too(tmp_path: Path) -> None:
    left: list[int] = []
    playbook = plant(tmp_path, slicing=BatchSettings(lambda: left.append(1), 1))
    playbook.synchronise(machine(hot=True))
    while left:
        left.pop()
        playbook.inventory.go_on()
    assert len(of(AlarmRecord, playbook.snapshot())) == 1
    playbook.synchronise()
    while left:
        left.pop()
        playbook.inventory.go_on()
    assert of(AlarmRecord, playbook.snapshot()) == []


def test_a_tick_between_two_slices_waits_for_the_next_one(sliced: Sliced) -> None:
    playbook = sliced.playbook
    playbook.publish(ResyncBegan())
    playbook.publish(ResyncEnded(complete=True), SYNCHRONISED)
    assert of(SourceRecord, playbook.tick(1)) == []
    sliced.go_on()
    assert playbook.source_record().counters["objects_deleted"] == QUEUES + 1


def test_where_too_much_waits_all_is_applied_at_once(sliced: Sliced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "MAX_WAITING", 3)
    playbook = sliced.playbook
    playbook.publish(ResyncBegan())
    playbook.publish(ResyncEnded(complete=True), SYNCHRONISED)
    for number in range(2):
        playbook.publish(queue(f"other-{number}", f"o{number}"))
    assert len(playbook.objects()) > 1
    playbook.publish(vhost("/", "v9"))
    assert _names(of(ObjectRecord, playbook.snapshot())) == ["/"]


def test_a_source_that_is_to_be_applied_whole_is(tmp_path: Path) -> None:
    playbook = Playbook(tmp_path, slicing=BatchSettings(lambda: None, 1))
    other = playbook.inventory.add_source("kept", "qmf", whole=True)
    classes = [ClassLearned(VHOST), ClassLearned(QUEUE)]
    playbook.inventory.observed(other, [*classes, ResyncBegan(), vhost("/", "v1"), *_queues()], NOW)
    assert len(playbook.objects()) == QUEUES + 1


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_same_is_reported_in_slices_as_at_once(tmp_path: Path, size: int) -> None:
    reported = []
    for folder, slicing in (("whole", None), ("sliced", BatchSettings(lambda: None, size))):
        (tmp_path / folder).mkdir()
        playbook = Playbook(tmp_path / folder, slicing=slicing)
        for bodies in _story():
            playbook.publish(*bodies)
            for _ in range(1000):
                playbook.inventory.go_on()
            playbook.tick(1)
            playbook.now += 11 * SECOND
        reported.append([record for batch in playbook.batches for record in batch.records])
    assert reported[0] == reported[1]


def _story() -> Iterable[tuple[ClassLearned | ObjectSeen | ResyncBegan | ResyncEnded, ...]]:
    consumers = [consumer(f"tag-{number}", f"c{number}", f"q{number}") for number in range(QUEUES)]
    yield (ClassLearned(VHOST), ClassLearned(QUEUE), ClassLearned(CONSUMER), ResyncBegan())
    yield (*_queues(), *consumers)  # they wait for their virtual host, which is told too late
    yield (vhost("/", "v1"),)
    yield (ResyncEnded(complete=True),)
    yield (ResyncBegan(restarted=True), vhost("/", "v2"))
    yield tuple(_queues("Q", "v2"))
    yield (ResyncEnded(complete=True),)
    yield (ResyncBegan(), ResyncEnded(complete=True))
