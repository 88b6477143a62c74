"""The replica of the feed: its objects, and their freshness, after any messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.freshness import Freshness, Group
from gateway.feed.records import (
    ClassRecord,
    DeleteRecord,
    FeedMessage,
    ObjectRecord,
    Record,
    SnapshotEnded,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.replica import SWEEP_LOOKS, FeedReplica, FeedView, ShownObject
from gateway.model.observations import SourceState
from gateway.model.schema import ClassKey, ClassSchema
from gateway.model.times import SECOND
from tests.components.shop import (
    HALL_CLASS,
    SERVE_STALE_FOR,
    START,
    TILL_CLASS,
    Feeding,
    agent,
    agent_gone,
    hall,
    next_end,
    source,
    till_record,
    update,
)

HALL = ClassRecord(HALL_CLASS, ClassSchema(ClassKey("shop", "hall")), "", "")
TILL = ClassRecord(TILL_CLASS, ClassSchema(ClassKey("shop", "till")), "", "")
HIDDEN = ClassRecord(40, ClassSchema(ClassKey("shop", "hidden")), "", "")
CLASSES = (HALL, TILL, HIDDEN)

Row = tuple[int, str, int]


@dataclass(slots=True, eq=False)
class Shown(ShownObject[Group]):
    """An object as it is shown."""

    key: Row
    values: dict[int, object]


class View(FeedView[str, None, Shown, Group]):
    """A minimal front end, which shows every class but one."""

    def __init__(self) -> None:
        self.shown: dict[Row, Shown] = {}
        self.calls: list[str] = []

    def new_group(self, source: int, agent: str, class_name: str) -> Group:
        return Group(source, agent, class_name)

    def version_of(self, record: ClassRecord) -> str | None:
        return None if record is HIDDEN else str(record.schema.key)

    def find(self, source: int, version: str, row: int) -> Shown | None:
        return self.shown.get((source, version, row))

    def objects_of(self, source: int) -> Iterable[Shown]:
        return [shown for key, shown in self.shown.items() if key[0] == source]

    def show(self, record: ObjectRecord, version: str, shown: Shown | None, group: Group) -> Shown:
        if shown is None:
            key = record.source, version, record.row
            shown = self.shown[key] = Shown(group, key, {})
        shown.values = dict(record.values)
        return shown

    def change(self, record: UpdateRecord, version: str, shown: Shown) -> None:  # noqa: ARG002
        shown.values.update(record.values)

    def remove(self, shown: Shown) -> None:
        del self.shown[shown.key]

    def source_changed(self, record: SourceRecord) -> None:
        self.calls.append(f"source {record.number} is {record.state.value}")

    def source_leaves(self, number: int) -> None:
        self.calls.append(f"source {number} leaves")

    def source_removed(self, number: int) -> None:
        self.calls.append(f"source {number} is removed")


@dataclass
class Gateway(Feeding):
    """A replica, and the core that sends to it."""

    view: View = field(default_factory=View)

    def __post_init__(self) -> None:
        self.replica = FeedReplica(self.view, SERVE_STALE_FOR, self.now)

    def received(self, message: FeedMessage) -> None:
        self.replica.received(message, self.now)
        self.replica.work(2, 1, self.now)

    def disconnect(self) -> None:
        self.replica.disconnected(self.now)

    def settle(self) -> None:
        self.replica.age(self.now)
        self.replica.work_off(self.now)

    def tills(self) -> dict[int, Freshness]:
        """Return the rows of tills, and their freshness."""
        tills = (shown for shown in self.view.shown.values() if shown.key[1] == "shop:till")
        return {shown.key[2]: shown.group.freshness for shown in sorted(tills, key=lambda one: one.key)}


def till(row: int, number: int = 1, agent_name: str = "1.0") -> ObjectRecord:
    return till_record(row, f"till{row}", {0: row}, number, agent_name)


def end(row: int, number: int | None = None) -> DeleteRecord:
    return DeleteRecord(
        1,
        TILL_CLASS,
        row,
        f"till{row}",
        START,
        inferred=False,
        number=next_end() if number is None else number,
    )


@pytest.fixture
def gateway() -> Gateway:
    made = Gateway()
    made.hello()
    made.snapshot(source(), *CLASSES, agent(fresh=True), hall(), till(1), till(2))
    return made


def test_a_snapshot_is_fresh_when_it_is_complete() -> None:
    gateway = Gateway()
    gateway.hello()
    gateway.begin_snapshot(source(), *CLASSES, agent(fresh=True), till(1))
    assert (gateway.tills(), gateway.replica.is_complete) == ({1: Freshness.STALE}, False)
    gateway.received(SnapshotEnded(1, 1))
    assert (gateway.tills(), gateway.replica.is_complete) == ({1: Freshness.FRESH}, True)


def test_what_a_snapshot_does_not_contain_is_removed_before_the_rest_is_fresh(gateway: Gateway) -> None:
    gateway.publish(*map(till, range(3, 7)))
    gateway.disconnect()
    gateway.hello(epoch=2)
    gateway.snapshot(source(), *CLASSES, agent(fresh=True), hall(), till(2))
    assert set(gateway.tills().values()) == {Freshness.STALE}, "some of what is gone is there still"
    gateway.settle()
    assert gateway.tills() == {2: Freshness.FRESH}


def test_objects_of_a_source_that_is_not_synchronised_yet_stay_as_stale(gateway: Gateway) -> None:
    gateway.disconnect()
    gateway.hello(epoch=2)
    gateway.snapshot(source(SourceState.SYNCHRONISING), *CLASSES, till(2))
    gateway.settle()
    assert gateway.tills() == {1: Freshness.STALE, 2: Freshness.STALE}
    gateway.publish(agent(fresh=True), source())
    gateway.settle()
    assert gateway.tills() == {2: Freshness.FRESH}


def test_a_lost_core_makes_everything_stale_and_later_withheld(gateway: Gateway) -> None:
    gateway.disconnect()
    assert gateway.tills() == {1: Freshness.STALE, 2: Freshness.STALE}
    assert gateway.replica.status.stale_since == START
    gateway.wait(SERVE_STALE_FOR // SECOND)
    assert gateway.tills() == {1: Freshness.WITHHELD, 2: Freshness.WITHHELD}


def test_values_of_a_core_that_hid_less_are_withheld_until_they_are_fresh(gateway: Gateway) -> None:
    gateway.disconnect()
    gateway.hello(epoch=2, hides="more")
    assert set(gateway.tills().values()) == {Freshness.WITHHELD}
    gateway.snapshot(source(SourceState.SYNCHRONISING), *CLASSES, agent(fresh=True), hall(), till(2))
    gateway.settle()
    assert set(gateway.tills().values()) == {Freshness.WITHHELD}, "what was not read yet may be a secret"
    gateway.publish(source())
    gateway.settle()
    assert gateway.tills() == {2: Freshness.FRESH}
    gateway.disconnect()
    gateway.hello(epoch=3, hides="more")
    assert gateway.tills() == {2: Freshness.STALE}


def test_numbers_of_classes_of_a_former_core_mean_nothing(gateway: Gateway) -> None:
    gateway.disconnect()
    gateway.hello(epoch=2)
    gateway.begin_snapshot(source(), till(3))
    assert set(gateway.tills()) == {1, 2}
    assert gateway.replica.status.refused == 1


@pytest.mark.parametrize(
    "record",
    [till(3, number=9), update(9, {0: 1}), end(9), msgspec.structs.replace(till(1), class_number=77)],
)
def test_what_names_nothing_known_is_counted_and_changes_nothing(gateway: Gateway, record: Record) -> None:
    before = gateway.tills()
    gateway.publish(record)
    assert (gateway.tills(), gateway.replica.status.refused) == (before, 1)


def test_an_end_that_was_received_before_is_not_that_of_the_object_that_has_the_row_now(
    gateway: Gateway,
) -> None:
    gateway.publish(end(1, number=7), till(1), end(1, number=7))
    assert gateway.tills().keys() == {1, 2}
    gateway.publish(end(1, number=8))
    assert gateway.tills().keys() == {2}


def test_an_end_that_another_core_reports_is_new_also_with_a_number_of_the_one_before(
    gateway: Gateway,
) -> None:
    gateway.publish(end(1, number=70_000))
    gateway.hello(epoch=2)
    gateway.snapshot(source(), *CLASSES, agent(fresh=True), hall(), till(1), till(2))
    gateway.publish(end(2, number=69_000))
    assert gateway.tills().keys() == {1}


def test_a_life_begins_behind_the_last_end_that_was_received(gateway: Gateway) -> None:
    def life() -> tuple[int, int]:
        shown = gateway.view.shown[1, "shop:till", 1]
        return shown.life, gateway.replica.last_end(1)

    assert life() == (0, 0)
    gateway.publish(end(2, 11))
    assert life() == (0, 11)
    gateway.publish(end(1, 12), till(1))
    assert life() == (12, 12)
    # In another version of its class it is the same.
    gateway.publish(end(3, 13), end(1, 0), till(1))
    assert life() == (12, 13)
    # Another core says that it ended, and that another one has its name.
    gateway.hello(epoch=2)
    gateway.snapshot(source(), *CLASSES, agent(fresh=True), end(1, 12), end(1, 14), till(1))
    assert life() == (14, 14)
    gateway.hello(epoch=3)
    gateway.snapshot(source(), *CLASSES, agent(fresh=True), end(1, 14), end(4, 15), till(1))
    assert life() == (14, 15)


def test_an_object_whose_next_version_is_not_shown_is_removed(gateway: Gateway) -> None:
    gateway.publish(end(1, 0), till(1), end(2, 0))
    assert gateway.tills().keys() == {1, 2}  # the rest of a batch may follow
    gateway.publish(update(1, {0: 1}))
    assert gateway.tills().keys() == {1}
    gateway.publish(end(1, 0))
    gateway.publish(till(1))
    gateway.publish(end(1, 0), end(1))
    gateway.publish(till(3))
    assert gateway.tills().keys() == {3}


def test_ends_in_a_snapshot_remove_nothing(gateway: Gateway) -> None:
    gateway.snapshot(source(), *CLASSES, agent(fresh=True), end(1, number=5), till(1), till(2))
    gateway.settle()
    assert gateway.tills().keys() == {1, 2}


def test_a_source_leaves_with_its_objects_once_however_many_snapshots_lack_it(gateway: Gateway) -> None:
    gateway.publish(
        source(number=2), agent(fresh=True, number=2), *(till(row, number=2) for row in range(1, 9))
    )
    gateway.view.calls.clear()
    for _ in range(2):
        gateway.snapshot(source(), *CLASSES, agent(fresh=True), till(1), till(2))
    gateway.settle()
    assert [gateway.view.calls.count(f"source 2 {call}") for call in ("leaves", "is removed")] == [1, 1]
    assert gateway.replica.sources.keys() == {1}
    assert {key[0] for key in gateway.view.shown} == {1}


def test_a_source_that_comes_back_while_it_leaves_stays(gateway: Gateway) -> None:
    gateway.publish(
        source(number=2), agent(fresh=True, number=2), *(till(row, number=2) for row in range(1, 9))
    )
    gateway.snapshot(source(), *CLASSES, agent(fresh=True))
    gateway.snapshot(
        source(),
        source(number=2),
        *CLASSES,
        agent(fresh=True, number=2),
        till(8, number=2),
        till(9, number=2),
    )
    gateway.settle()
    assert {key for key in gateway.view.shown if key[0] == 2} == {(2, "shop:till", 8), (2, "shop:till", 9)}
    assert gateway.replica.sources.keys() == {1, 2}


def test_an_agent_that_is_gone_is_forgotten_with_its_last_object(gateway: Gateway) -> None:
    gateway.publish(agent(fresh=True, name="1.7"), till(3, agent_name="1.7"))
    gateway.publish(agent_gone("1.7"))
    assert gateway.tills()[3] is Freshness.STALE
    gateway.publish(end(3))
    gateway.settle()
    assert {group.agent for group in gateway.replica.groups} == {"1.0"}


def test_an_object_that_moves_to_another_agent_is_as_fresh_as_that(gateway: Gateway) -> None:
    gateway.publish(agent(fresh=False, name="1.7"), till(1, agent_name="1.7"))
    assert gateway.tills() == {1: Freshness.STALE, 2: Freshness.FRESH}
    tills = [group for group in gateway.replica.groups if group.class_name == "shop:till"]
    assert {group.agent: group.objects for group in tills} == {"1.0": 1, "1.7": 1}


def test_examining_many_objects_is_work_for_several_calls(gateway: Gateway) -> None:
    many = [till(row) for row in range(1, SWEEP_LOOKS + 10)]
    gateway.publish(*many)
    gateway.snapshot(source(), *CLASSES, agent(fresh=True), hall(), *many)
    assert gateway.replica.is_sweeping
    gateway.settle()
    assert not gateway.replica.is_sweeping
    assert len(gateway.tills()) == len(many)


_RECORDS: tuple[Record, ...] = (
    source(),
    source(SourceState.DOWN),
    agent(fresh=True),
    agent(fresh=False),
    agent(fresh=True, name="1.7"),
    agent_gone("1.7"),
    till(3, agent_name="1.7"),
    *map(till, range(1, 4)),
    *map(end, range(1, 4)),
    update(1, {0: 9}),
)


@given(
    st.lists(
        st.sampled_from(("disconnect", "hello", "other core", "snapshot", "settle"))
        | st.lists(st.sampled_from(_RECORDS), max_size=4)
    )
)
def test_a_synchronised_snapshot_is_all_that_there_is_whatever_went_before(
    steps: list[str | list[Record]],
) -> None:
    gateway = Gateway()
    gateway.hello()
    for step in steps:
        match step:
            case "disconnect":
                gateway.disconnect()
            case "hello":
                gateway.hello(gateway.epoch)
            case "other core":
                gateway.hello(gateway.epoch + 1)
            case "snapshot":
                gateway.begin_snapshot(source(), *CLASSES)
            case "settle":
                gateway.settle()
            case list():
                gateway.publish(*step)
    gateway.snapshot(source(), *CLASSES, agent(fresh=True), hall(), till(2))
    gateway.settle()
    assert gateway.tills() == {2: Freshness.FRESH}
    assert sum(group.objects for group in gateway.replica.groups) == len(gateway.view.shown) == 2
