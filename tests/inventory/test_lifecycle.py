"""The lifecycle of objects: identity over restarts, transience, resync, references, discontinuity."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from gateway.feed.records import (
    AgentRecord,
    DeleteRecord,
    GapRecord,
    Lifetime,
    ObjectRecord,
    Record,
    UpdateRecord,
)
from gateway.feed.values import ObjectLink
from gateway.model.observations import (
    AgentLost,
    ClassLearned,
    Counting,
    Gap,
    HeartbeatSeen,
    ObjectSeen,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import Element
from gateway.model.times import SECOND
from gateway.model.values import Reference, ValueType
from tests.inventory.playbook import (
    AGENT,
    CONNECTION,
    NOW,
    QUEUE,
    Playbook,
    connection,
    consumer,
    of,
    queue,
    statistics,
    vhost,
)

DEPTH, PUBLISHED = QUEUE.positions["depth"], QUEUE.positions["published"]


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    return Playbook(tmp_path)


def test_an_object_is_reported_whole_with_its_name_parent_and_row(playbook: Playbook) -> None:
    records = playbook.synchronise(vhost("/", "v1"), queue("orders", "q1", depth=7))
    reported = of(ObjectRecord, records)[-1]
    assert reported.stable_name == "/|orders"
    assert reported.leaf_name == "orders"
    assert reported.parent == ObjectLink("shop:vhost", 1, "/")
    assert reported.row == 1
    assert reported.lifetime is Lifetime.DURABLE
    assert reported.values == {0: ObjectLink("shop:vhost", 1, "/"), 1: "orders", 2: False, DEPTH: 7}


def test_what_its_source_cannot_read_keeps_its_row_and_values(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("orders", "q1", depth=7))
    before = playbook.objects()["/|orders"]
    unread = ObjectSeen(QUEUE.key, AGENT, "q1", NOW, 0, 0, (Reference("v1"), "orders", False), unread_since=5)
    (whole,) = of(ObjectRecord, playbook.publish(unread))
    assert whole == msgspec.structs.replace(
        before, unread_since=5, properties_sampled=whole.properties_sampled
    )
    alone = replace(queue("orders", "q1", depth=7), properties=None, unread_since=None)
    assert of(ObjectRecord, playbook.publish(alone)) == [], "statistics alone do not show that it is read"
    (read,) = of(ObjectRecord, playbook.publish(queue("orders", "q1", depth=8)))
    assert (read.unread_since, read.row, read.values[DEPTH]) == (0, before.row, 8)


def test_a_durable_object_has_its_row_again_after_every_kind_of_restart(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(vhost("/", "v1"), queue("a", "q1"), queue("b", "q2"), queue("c", "q3"))
    rows = {name: record.row for name, record in first.objects().items()}
    first.synchronise(
        vhost("/", "v9"), queue("c", "x1", "v9"), queue("a", "x2", "v9"), queue("b", "x3", "v9")
    )
    assert {name: record.row for name, record in first.objects().items()} == rows, "the agent restarted"
    # The core is killed: nothing is closed in order.
    again = Playbook(tmp_path, boot=2)
    again.synchronise(vhost("/", "v1"), queue("b", "q7"), queue("a", "q8"), queue("c", "q9"))
    assert {name: record.row for name, record in again.objects().items()} == rows, "the core restarted"


def test_a_durable_object_deleted_and_declared_again_has_its_old_row(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("orders", "q1"), queue("other", "q2"))
    row = playbook.objects()["/|orders"].row
    gone = of(DeleteRecord, playbook.publish(queue("orders", "q1", deleted=NOW + 5)))
    assert [(record.row, record.deleted, record.inferred) for record in gone] == [(row, NOW + 5, False)]
    playbook.publish(queue("third", "q3"))
    playbook.publish(queue("orders", "q4"))
    assert playbook.objects()["/|orders"].row == row


def test_an_incarnation_of_a_transient_object_never_inherits_a_row(playbook: Playbook) -> None:
    playbook.synchronise(connection("1.2.3.4:5 -> 6", "c1", created=NOW))
    first = next(iter(playbook.objects().values()))
    playbook.publish(ObjectSeen(CONNECTION.key, AGENT, "c1", NOW, NOW, NOW + 9, ("1.2.3.4:5 -> 6",), ()))
    playbook.publish(connection("1.2.3.4:5 -> 6", "c2", created=NOW + 10))
    second = next(iter(playbook.objects().values()))
    assert second.row != first.row
    assert second.stable_name != first.stable_name
    assert (first.leaf_name, second.leaf_name) == ("1.2.3.4:5 -> 6",) * 2


def test_a_transient_object_with_a_known_birth_is_the_same_after_its_agent_restarted(
    playbook: Playbook,
) -> None:
    playbook.synchronise(connection("a", "c1", created=NOW))
    row = next(iter(playbook.objects().values())).row
    playbook.synchronise(connection("a", "c77", created=NOW), restarted=True)
    assert [record.row for record in playbook.objects().values()] == [row]


def test_a_restarted_core_gives_no_transient_object_a_row_used_before(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(*(connection(f"c{n}", f"c{n}", created=NOW) for n in range(5)))
    used = {record.row for record in first.objects().values()}
    again = Playbook(tmp_path, boot=2)
    again.synchronise(*(connection(f"c{n}", f"c{n}", created=NOW) for n in range(5)))
    assert used.isdisjoint(record.row for record in again.objects().values())


def test_what_came_and_went_between_two_looks_is_reported_as_both(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"))
    records = playbook.publish(queue("brief", "q1", exclusive=True, created=NOW, deleted=NOW + 3, depth=2))
    created, gone = of(ObjectRecord, records)[0], of(DeleteRecord, records)[0]
    assert (created.created, created.values[DEPTH]) == (NOW, 2)
    assert (gone.row, gone.deleted, gone.inferred) == (created.row, NOW + 3, False)
    assert list(playbook.objects()) == ["/"]


def test_a_complete_resync_sweeps_what_it_did_not_report_and_marks_that_as_inferred(
    playbook: Playbook,
) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1"), queue("b", "q2"))
    gone = of(DeleteRecord, playbook.synchronise(vhost("/", "v1"), queue("a", "q1")))
    assert [(record.stable_name, record.deleted, record.inferred) for record in gone] == [("/|b", 0, True)]


def test_a_resync_that_did_not_complete_deletes_nothing(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1"), queue("b", "q2"))
    records = playbook.synchronise(vhost("/", "v1"), complete=False)
    assert not of(DeleteRecord, records)
    assert set(playbook.objects()) == {"/", "/|a", "/|b"}


def test_a_resync_of_one_class_sweeps_that_class_only(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1"), connection("c", "c1", created=NOW))
    playbook.publish(ResyncBegan(class_name="shop:connection"))
    playbook.publish(ResyncEnded(complete=True, class_name="shop:connection"))
    assert set(playbook.objects()) == {"/", "/|a"}


def test_no_value_of_a_former_incarnation_is_shown(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("orders", "q1", depth=41, published=99))
    playbook.now += 60 * SECOND
    playbook.synchronise(vhost("/", "v1"), queue("orders", "q5", depth=None))
    now = playbook.objects()["/|orders"]
    assert now.native_id == "q5"
    assert DEPTH not in now.values
    assert PUBLISHED not in now.values
    assert now.reset == playbook.now, "rates must not span the two incarnations"


@pytest.mark.parametrize(
    ("created", "published", "began_again"),
    [
        (NOW - SECOND, 120, False),
        (NOW - SECOND, 7, True),
        (0, 120, False),
        (NOW, 120, True),
    ],
    ids=["it lived on", "a counter fell", "its agent has forgotten when it began", "it is another"],
)
def test_counters_go_on_of_what_lived_on_while_its_agent_was_restarted(
    playbook: Playbook, created: int, published: int, *, began_again: bool
) -> None:
    playbook.synchronise(
        vhost("/", "v1"), queue("orders", "q1", depth=41, published=99, created=NOW - SECOND)
    )
    former = playbook.objects()["/|orders"]
    playbook.now += 60 * SECOND
    again = queue("orders", "q5", published=published, created=created)
    playbook.synchronise(vhost("/", "v1"), again, restarted=True)
    now = playbook.objects()["/|orders"]
    assert (now.native_id, now.row, now.values[PUBLISHED]) == ("q5", former.row, published)
    assert (now.reset != former.reset) is began_again


def test_a_native_id_reused_before_anybody_noticed_a_restart_is_another_object(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1", depth=1), queue("b", "q2", depth=2))
    row = playbook.objects()["/|a"].row
    playbook.publish(queue("c", "q1", depth=3))  # by another index
    playbook.publish(queue("c", "q1", depth=4))
    shown = playbook.objects()
    assert (shown["/|a"].row, shown["/|a"].values[DEPTH]) == (row, 1)
    assert shown["/|c"].row != row
    records = playbook.synchronise(
        vhost("/", "v1"), queue("c", "q1", depth=4), queue("a", "q3", depth=1), restarted=True
    )
    assert [record.stable_name for record in of(DeleteRecord, records)] == ["/|b"]
    assert playbook.objects()["/|a"].row == row


def test_a_native_id_reported_with_another_birth_is_another_object(playbook: Playbook) -> None:
    playbook.synchronise(connection("peer", "c1", created=NOW - SECOND))
    (former,) = playbook.objects().values()
    playbook.publish(connection("peer", "c1", created=NOW))
    assert {record.created for record in playbook.objects().values()} == {NOW - SECOND, NOW}
    assert len({record.row for record in playbook.objects().values()}) == 2
    playbook.synchronise(connection("peer", "c1", created=NOW))
    assert [record.row != former.row for record in playbook.objects().values()] == [True]


def test_a_native_id_reused_after_a_restart_is_not_taken_for_its_former_owner(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1", depth=1), queue("b", "q2", depth=2))
    rows = {name: record.row for name, record in playbook.objects().items()}
    playbook.synchronise(
        vhost("/", "v1"), queue("b", "q1", depth=20), queue("a", "q2", depth=10), restarted=True
    )
    after = playbook.objects()
    assert {name: record.row for name, record in after.items()} == rows
    assert (after["/|a"].values[DEPTH], after["/|b"].values[DEPTH]) == (10, 20)


def test_a_transient_object_without_a_birth_is_another_after_a_restart(playbook: Playbook) -> None:
    playbook.synchronise(connection("a", "c1"))
    row = next(iter(playbook.objects().values())).row
    playbook.synchronise(connection("a", "c1"))
    assert [record.row for record in playbook.objects().values()] == [row], "the native id still tells"
    playbook.synchronise(connection("a", "c1"), restarted=True)
    assert [record.row for record in playbook.objects().values()] != [row]


def test_only_what_changed_is_reported(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1", depth=1, published=5))
    (update,) = of(UpdateRecord, playbook.publish(statistics("q1", 1, 9, sampled=NOW + SECOND)))
    assert (dict(update.values), update.absent) == ({PUBLISHED: 9}, ())
    assert (update.statistics_sampled, update.properties_sampled) == (NOW + SECOND, NOW)


def test_absent_is_reported_and_is_not_zero(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1", depth=1, published=5))
    (update,) = of(UpdateRecord, playbook.publish(statistics("q1", None, 5)))
    assert (dict(update.values), update.absent) == ({}, (DEPTH,))
    assert DEPTH not in playbook.objects()["/|a"].values


@pytest.mark.parametrize("between", [(), (None,)], ids=["at once", "after it was absent"])
@pytest.mark.parametrize(("then", "is_reset"), [(3, True), (501, False)], ids=["it fell", "it goes on"])
def test_a_counter_that_falls_is_a_discontinuity_of_its_row_and_no_proof(
    playbook: Playbook, between: tuple[None, ...], then: int, *, is_reset: bool
) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1", published=500))
    former = playbook.objects()["/|a"].reset
    for value in between:
        playbook.publish(statistics("q1", 0, value))
    (update,) = of(UpdateRecord, playbook.publish(statistics("q1", 0, then, sampled=NOW + 9 * SECOND)))
    assert update.reset == (NOW + 9 * SECOND if is_reset else former)
    assert update.counting is Counting.GO_ON


@pytest.mark.parametrize("counting", [Counting.BEGAN, Counting.UNKNOWN])
def test_what_a_source_says_of_its_counters_is_a_discontinuity_whatever_their_values(
    playbook: Playbook, counting: Counting
) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1", published=500))
    seen = replace(statistics("q1", 0, None, sampled=NOW + 9 * SECOND), counting=counting)
    (update,) = of(UpdateRecord, playbook.publish(seen))
    assert (update.reset, update.counting) == (NOW + 9 * SECOND, counting)
    (update,) = of(UpdateRecord, playbook.publish(statistics("q1", 0, 501, sampled=NOW + 10 * SECOND)))
    assert (update.reset, update.counting) == (NOW + 9 * SECOND, Counting.GO_ON), "that was said already"


@pytest.mark.parametrize("has_statistics", [True, False])
def test_first_values_that_may_be_inherited_are_unknown_and_later_ones_go_on(
    playbook: Playbook, *, has_statistics: bool
) -> None:
    """The agent says so with each report, as a console may miss any of them."""
    playbook.synchronise(vhost("/", "v1"))
    first = replace(statistics("q1", 0, 500), inherited=True)
    whole = replace(queue("a", "q1", published=500), inherited=True)
    reports = (whole,) if has_statistics else (replace(whole, statistics=None, inherited=False), first)
    records = [record for report in reports for record in playbook.publish(report)]
    countings = [one.counting for one in records if isinstance(one, ObjectRecord | UpdateRecord)]
    assert countings[-1] is Counting.UNKNOWN
    later = replace(statistics("q1", 0, 507), inherited=True)
    assert [one.counting for one in of(UpdateRecord, playbook.publish(later))] == [Counting.GO_ON]
    grown = replace(in_wider(queue("a", "q1", published=510)), inherited=True)
    (record,) = of(ObjectRecord, playbook.publish(ClassLearned(WIDER), grown))
    assert record.counting is Counting.GO_ON


def test_an_incarnation_that_may_have_inherited_its_counts_has_not_counted_from_zero(
    playbook: Playbook,
) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("orders", "q1", published=99))
    after = replace(queue("orders", "q5", published=120), inherited=True)
    records = playbook.synchronise(vhost("/", "v1"), after, restarted=True)
    shown = [one for one in of(ObjectRecord, records) if one.stable_name == "/|orders"]
    assert [one.counting for one in shown] == [Counting.UNKNOWN]


def test_another_incarnation_has_counted_from_zero(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("orders", "q1", published=99))
    records = playbook.synchronise(vhost("/", "v1"), queue("orders", "q5", published=120), restarted=True)
    shown = [one for one in of(ObjectRecord, records) if one.stable_name == "/|orders"]
    assert [one.counting for one in shown] == [Counting.BEGAN]


def test_two_discontinuities_never_have_the_same_time_though_the_clock_of_the_agent_be_behind(
    playbook: Playbook,
) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1", published=50))
    born = playbook.objects()["/|a"].reset
    playbook.publish(statistics("q1", 0, 5, NOW - SECOND))
    first = playbook.objects()["/|a"].reset
    playbook.publish(statistics("q1", 0, 3, NOW - SECOND))
    second = playbook.objects()["/|a"].reset
    tenths = [time // 10**8 for time in (born, first, second)]
    assert tenths == sorted(set(tenths)), "SNMP tells tenths of a second"


WIDER = replace(
    QUEUE,
    key=replace(QUEUE.key, hash=b"w" * 16),
    properties=(*QUEUE.properties, Element("colour", ValueType.STRING, optional=True)),
)
"""A version of the class in which the positions of all statistics are others."""


def in_wider(seen: ObjectSeen) -> ObjectSeen:
    """Return the observation in the other version of the class."""
    return replace(seen, key=WIDER.key, properties=(*(seen.properties or ()), "red"))


def test_an_object_whose_class_grows_keeps_its_statistics_until_they_are_reported(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1", depth=3, published=500))
    former = playbook.objects()["/|a"]
    playbook.now += SECOND
    playbook.publish(
        ClassLearned(WIDER),
        replace(in_wider(queue("a", "q1")), statistics=None),
    )
    grown = playbook.objects()["/|a"]
    assert (grown.row, grown.values[3], grown.values[4], grown.values[5]) == (former.row, "red", 3, 500)
    assert (grown.reset, grown.statistics_sampled) == (former.reset, NOW)


@pytest.mark.parametrize(("published", "is_reset"), [(501, False), (3, True), (None, False)])
def test_counters_of_an_object_whose_class_grows_go_on_unless_they_fall(
    playbook: Playbook, published: int | None, *, is_reset: bool
) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1", published=500))
    former = playbook.objects()["/|a"].reset
    playbook.publish(ClassLearned(WIDER), in_wider(queue("a", "q1", published=published)))
    assert (playbook.objects()["/|a"].reset > former) == is_reset
    playbook.publish(replace(statistics("q1", 0, 600, NOW + SECOND), key=WIDER.key))
    assert (playbook.objects()["/|a"].reset > former) == is_reset


@pytest.mark.parametrize("grows", [False, True])
def test_an_id_without_a_time_that_an_agent_gives_again_is_no_sign_that_counters_go_on(
    playbook: Playbook, *, grows: bool
) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1", published=5))
    former = playbook.objects()["/|a"].reset
    if grows:
        playbook.publish(ClassLearned(WIDER))
    after = queue("a", "q1", published=7)
    playbook.synchronise(vhost("/", "v1"), in_wider(after) if grows else after, restarted=True)
    assert playbook.objects()["/|a"].reset > former


def test_a_gauge_that_falls_is_no_discontinuity(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1", depth=500))
    former = playbook.objects()["/|a"].reset
    playbook.publish(statistics("q1", 3, None, sampled=NOW + 9 * SECOND))
    assert playbook.objects()["/|a"].reset == former


def test_a_name_waits_for_the_target_of_its_reference(playbook: Playbook) -> None:
    playbook.synchronise()
    assert not of(ObjectRecord, playbook.publish(queue("orders", "q1", "v5")))
    records = of(ObjectRecord, playbook.publish(vhost("/", "v5")))
    assert [record.stable_name for record in records] == ["/", "/|orders"]


def test_an_object_that_waits_in_vain_has_a_provisional_name_and_is_named_when_it_can_be(
    playbook: Playbook,
) -> None:
    playbook.synchronise()
    playbook.publish(queue("orders", "q1", "v5"))
    (provisional,) = of(ObjectRecord, playbook.tick(11))
    assert provisional.lifetime is Lifetime.TRANSIENT
    assert provisional.parent is None
    records = playbook.publish(vhost("/", "v5"))
    assert [record.row for record in of(DeleteRecord, records)] == [provisional.row]
    assert playbook.objects()["/|orders"].lifetime is Lifetime.DURABLE
    assert playbook.objects()["/|orders"].values[DEPTH] == 0


@pytest.mark.parametrize("restarted", [False, True])
def test_an_object_that_waited_before_a_resync_that_lacks_it_is_reported_and_is_gone(
    playbook: Playbook, *, restarted: bool
) -> None:
    playbook.synchronise()
    playbook.publish(queue("orders", "q1", "v5"))
    records = playbook.synchronise(vhost("/", "v5"), restarted=restarted)
    assert [record.native_id for record in of(ObjectRecord, records) if "orders" in record.leaf_name] == [
        "q1"
    ]
    assert [record.native_id for record in of(DeleteRecord, records)][-1] == "q1"
    assert sorted(playbook.objects()) == ["/"]


def test_what_belongs_to_a_duplicate_is_provisional_too_until_both_can_be_named(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("orders", "q1"))
    orders = playbook.objects()["/|orders"]
    # The end of the first virtual host was lost on the way; another one of its name is told before a resync.
    playbook.publish(vhost("/", "v2"))
    playbook.publish(queue("orders", "q2", "v2", depth=7))
    (second,) = [record for name, record in playbook.objects().items() if record.native_id == "q2"]
    assert second.lifetime is Lifetime.TRANSIENT, "no row is kept for a name made of native ids"
    playbook.synchronise(vhost("/", "v2"), queue("orders", "q2", "v2", depth=7))
    shown = playbook.objects()
    assert sorted(shown) == ["/", "/|orders"]
    assert (shown["/|orders"].row, shown["/|orders"].lifetime) == (orders.row, Lifetime.DURABLE)
    assert shown["/|orders"].parent == ObjectLink("shop:vhost", shown["/"].row, "/")
    assert shown["/|orders"].values[DEPTH] == 7


def test_what_an_object_belongs_to_follows_its_reference(playbook: Playbook) -> None:
    def parent(records: list[Record]) -> list[ObjectLink | None]:
        return [record.parent for record in of(ObjectRecord, records) if record.native_id == "c1"]

    playbook.synchronise(vhost("/", "v1"), consumer("ctag", "c1", "q1"))
    (reported,) = parent(playbook.publish(queue("orders", "q1")))  # known only now
    assert reported is not None
    assert reported.stable_name == "/|orders"
    assert (
        parent(playbook.publish(queue("orders", "q1", deleted=NOW + 1))) == []
    )  # as it was, though it is gone
    assert parent(playbook.publish(consumer("ctag", "c1", None))) == [None]


def test_a_later_duplicate_never_renames_the_first(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("orders", "q1"))
    first = playbook.objects()["/|orders"]
    playbook.publish(queue("orders", "q2"))
    after = playbook.objects()
    assert after["/|orders"].row == first.row
    assert after["/|orders"].native_id == "q1"
    assert after["/|orders#q2"].lifetime is Lifetime.TRANSIENT


def test_a_duplicate_reported_again_keeps_its_row_until_the_name_is_free(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("orders", "q1"), queue("orders", "q2"))
    row = playbook.objects()["/|orders#q2"].row
    assert not of(DeleteRecord, playbook.publish(queue("orders", "q2", depth=4)))
    assert playbook.objects()["/|orders#q2"].row == row
    playbook.publish(queue("orders", "q1", deleted=NOW + 1))
    playbook.publish(queue("orders", "q2", depth=4))
    assert playbook.objects()["/|orders"].native_id == "q2"


def test_a_reference_follows_its_target(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("orders", "q1"))
    (update,) = of(
        UpdateRecord, playbook.publish(ObjectSeen(vhost("/", "v1").key, AGENT, "v1", NOW, 0, NOW, ("/",)))
    )[-1:]
    assert update.absent == (0,), "the virtual host is gone: no pointer to a row that is not there"
    playbook.publish(vhost("/", "v1"))
    assert playbook.objects()["/|orders"].values[0] == ObjectLink("shop:vhost", 1, "/")


def test_more_objects_than_allowed_are_refused_and_counted(tmp_path: Path) -> None:
    playbook = Playbook(tmp_path, max_objects=2)
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1"), queue("b", "q2"), queue("c", "q3"))
    assert len(playbook.objects()) == 2
    assert playbook.source_record().counters["objects_refused"] == 2


def test_values_are_current_only_after_a_complete_resync(playbook: Playbook) -> None:
    records = playbook.synchronise(vhost("/", "v1"))
    assert [record.fresh for record in of(AgentRecord, records)] == [False, True]


@pytest.mark.parametrize(
    "trouble", [AgentLost(AGENT), SourceStateSeen(SourceState.DOWN, "nothing listens there")]
)
def test_a_silent_agent_or_source_makes_its_objects_stale_until_the_next_resync(
    playbook: Playbook, trouble: AgentLost | SourceStateSeen
) -> None:
    playbook.synchronise(vhost("/", "v1"), queue("a", "q1"))
    (stale,) = of(AgentRecord, playbook.publish(trouble))
    assert not stale.fresh
    playbook.publish(statistics("q1", 3, 3))
    assert not of(AgentRecord, list(playbook.inventory.snapshot()[0]))[0].fresh, "one update is no resync"
    records = playbook.synchronise(vhost("/", "v1"), queue("a", "q1"))
    assert of(AgentRecord, records)[-1].fresh


def test_an_agent_without_any_object_is_trusted_again_after_a_resync(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"))
    playbook.publish(AgentLost(AGENT))
    playbook.synchronise()
    playbook.publish(vhost("/", "v2"))
    (agent,) = of(AgentRecord, list(playbook.inventory.snapshot()[0]))
    assert agent.fresh


def test_an_agent_that_was_lost_during_a_resync_is_not_trusted_after_it(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"))
    playbook.publish(ResyncBegan(), vhost("/", "v1"), AgentLost(AGENT))
    playbook.publish(ResyncEnded(complete=True))
    (agent,) = of(AgentRecord, list(playbook.inventory.snapshot()[0]))
    assert not agent.fresh


def test_a_heartbeat_confirms_what_the_agent_did_not_mention(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"))
    playbook.now += 10 * SECOND
    (agent,) = of(AgentRecord, playbook.publish(HeartbeatSeen(AGENT, NOW)))
    assert (agent.fresh, agent.confirmed) == (True, playbook.now)


def test_a_gap_is_reported_and_counted(playbook: Playbook) -> None:
    records = playbook.publish(Gap(1, 2, "the queue overflowed"))
    assert of(GapRecord, records) == [GapRecord(1, 1, 2, "the queue overflowed")]
    assert playbook.source_record().counters["gaps"] == 1


def test_an_object_that_gets_its_name_late_keeps_what_it_reported_before(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"))
    playbook.publish(queue("orders", "q1", "gone", depth=7))
    playbook.tick(11)  # it waited long enough: shown under a provisional name
    playbook.publish(replace(queue("orders", "q1"), statistics=None))
    assert playbook.objects()["/|orders"].values[DEPTH] == 7
