"""Messages that waited for a gateway report objects that only the gateway before had observed whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.feed.records import (
    ClassRecord,
    DeleteRecord,
    Lifetime,
    ObjectRecord,
    UpdateRecord,
)
from gateway.feed.values import ObjectLink
from gateway.inventory.restored_objects import RestoredObject
from gateway.model.observations import ClassLearned, Counting, ObjectSeen, ResyncBegan, ResyncEnded
from gateway.model.schema import ClassSchema
from gateway.model.times import SECOND
from tests.inventory.playbook import NOW, Playbook, connection, of, queue, vhost
from tests.inventory.test_identity import lasting


def returned(state: Path, *former: RestoredObject, by_native_id: bool = True) -> Playbook:
    """Return a gateway that starts again; the classes are known from before, no object is read yet."""
    playbook = Playbook(state, boot=2)
    playbook.source.restore(former, by_native_id=by_native_id)
    classes = [schema for schema in playbook.schemas if isinstance(schema, ClassSchema)]
    playbook.publish(*map(ClassLearned, classes))
    return playbook


def remembered(playbook: Playbook) -> list[RestoredObject]:
    """Return the objects of a gateway that ends now, as an event log has them."""
    classes = {one.number: str(one.schema.key) for one in of(ClassRecord, playbook.snapshot())}
    objects = [
        RestoredObject(
            classes[record.class_number],
            record.stable_name,
            record.row,
            record.native_id,
            record.lifetime is Lifetime.DURABLE,
        )
        for record in playbook.objects().values()
    ]
    playbook.index.close()
    return objects


def test_an_end_reported_before_anything_is_read_has_the_name_and_row_of_its_object(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(vhost("/", "v1"), queue("orders", "q1"))
    row = first.objects()["/|orders"].row
    playbook = returned(tmp_path, *remembered(first))

    records = playbook.publish(queue("orders", "q1", deleted=NOW - SECOND))

    (born,), (end,) = of(ObjectRecord, records), of(DeleteRecord, records)
    assert (born.stable_name, born.row, born.parent) == ("/|orders", row, ObjectLink("shop:vhost", 1, "/"))
    assert (end.stable_name, end.row, end.deleted) == ("/|orders", row, NOW - SECOND)


@pytest.mark.parametrize("same", [True, False], ids=["the same", "another one"])
def test_only_what_is_new_may_have_inherited_its_counts(tmp_path: Path, *, same: bool) -> None:
    first = Playbook(tmp_path)
    first.synchronise(vhost("/", "v1"), queue("orders", "q1"))
    playbook = returned(tmp_path, *remembered(first))

    seen = replace(queue("orders", "q1" if same else "q2", published=700), inherited=True)
    playbook.synchronise(vhost("/", "v1"), seen)

    expected = Counting.GO_ON if same else Counting.UNKNOWN
    assert playbook.objects()["/|orders"].counting is expected


def lose_durable_rows(state: Path) -> None:
    """Remove the durable rows, as a power failure before a sync of the index: only their block remains."""
    with closing(sqlite3.connect(state / "instances.sqlite3")) as database:
        database.execute("DELETE FROM durable")
        database.commit()


def test_a_durable_row_that_a_power_failure_took_from_the_index_comes_back(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(vhost("/", "v1"), queue("orders", "q1"), queue("bills", "q2"))
    former = remembered(first)
    lose_durable_rows(tmp_path)
    playbook = returned(tmp_path, *former, by_native_id=False)

    playbook.synchronise(vhost("/", "v1"), queue("mail", "q3"), queue("bills", "q2"), queue("orders", "q1"))

    rows = {name: record.row for name, record in playbook.objects().items()}
    assert {one.name: rows[one.name] for one in former} == {one.name: one.row for one in former}
    assert len({rows[name] for name in ("/|orders", "/|bills", "/|mail")}) == 3


def test_a_row_that_another_durable_object_has_does_not_come_back(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(vhost("/", "v1"), queue("orders", "q1"))
    row = first.objects()["/|orders"].row
    playbook = returned(
        tmp_path, *remembered(first), RestoredObject("shop:queue", "/|bills", row, "q2", durable=True)
    )

    playbook.synchronise(vhost("/", "v1"), queue("bills", "q2"), queue("orders", "q1"))

    rows = {name: record.row for name, record in playbook.objects().items()}
    assert rows["/|orders"] == row != rows["/|bills"]


def test_a_transient_object_that_lives_on_keeps_its_row(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(connection("a", "c1", NOW), connection("b", "c2", NOW))
    former = remembered(first)
    rows = {one.name: one.row for one in former}
    playbook = returned(tmp_path, *former)

    playbook.synchronise(connection("b", "c2", NOW), connection("a", "c1", NOW), connection("c", "c3", NOW))

    shown = {name: record.row for name, record in playbook.objects().items()}
    assert {name: shown[name] for name in rows} == rows
    assert len(set(shown.values())) == 3


def test_a_row_is_never_given_twice(tmp_path: Path) -> None:
    """Another incarnation has another name, and a former row does not return after a whole resync."""
    first = Playbook(tmp_path)
    first.synchronise(connection("a", "c1", NOW))
    (former,) = remembered(first)
    playbook = returned(tmp_path, former)

    playbook.synchronise(connection("a", "c9", NOW + SECOND))

    assert playbook.objects()[f"a#{NOW + SECOND}"].row != former.row
    playbook.synchronise(connection("a", "c1", NOW))
    assert playbook.objects()[f"a#{NOW}"].row != former.row, "everything had been told again meanwhile"


def test_a_row_that_an_older_index_may_give_again_does_not_return(tmp_path: Path) -> None:
    former = RestoredObject("shop:connection", f"a#{NOW}", 5000, "c1", durable=False)
    playbook = returned(tmp_path, former)
    playbook.synchronise(connection("a", "c1", NOW))
    assert playbook.objects()[f"a#{NOW}"].row == 1


def test_an_agent_that_restarted_calls_its_objects_otherwise(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(vhost("/", "v1"), queue("orders", "q1"))
    playbook = returned(tmp_path, *remembered(first))
    playbook.publish(ResyncBegan(restarted=True))
    assert of(ObjectRecord, playbook.publish(queue("orders", "q1"))) == [], "it waits for its virtual host"


def test_what_is_not_reported_again_is_not_referred_to(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(vhost("/", "v1"), queue("orders", "q1"))
    playbook = returned(tmp_path, *remembered(first))
    playbook.publish(queue("orders", "q1"))
    assert ObjectLink("shop:vhost", 1, "/") in playbook.objects()["/|orders"].values.values()

    records = playbook.synchronise(queue("orders", "q1"))

    assert [update.absent for update in of(UpdateRecord, records) if update.absent] == [(0,)]


def test_a_transient_object_keeps_its_name_although_its_creation_became_known_later(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(vhost("/", "v1"), connection("peer", "c1"))
    (before,) = [one for one in first.objects().values() if one.native_id == "c1"]
    first.publish(connection("peer", "c1", created=NOW - SECOND))
    playbook = returned(tmp_path, *remembered(first))

    playbook.publish(vhost("/", "v1"), connection("peer", "c1", created=NOW - SECOND))

    (after,) = [one for one in playbook.objects().values() if one.native_id == "c1"]
    assert (after.stable_name, after.row) == (before.stable_name, before.row)


# -- a source whose agent may have restarted meanwhile


@pytest.mark.parametrize(
    ("identified", "again", "returns"),
    [
        pytest.param(True, lasting(connection("peer", "c1")), True, id="an id that outlives restarts"),
        pytest.param(False, connection("peer", "c1"), False, id="an id of one run of its agent"),
    ],
)
def test_without_a_creation_time_an_object_is_the_same_by_a_lasting_id_only(
    tmp_path: Path, *, identified: bool, again: ObjectSeen, returns: bool
) -> None:
    first = Playbook(tmp_path)
    first.synchronise(connection("peer", "c1"))
    (former,) = remembered(first)
    one = replace(former, identified=identified, persistent_id=identified)
    playbook = returned(tmp_path, one, by_native_id=False)

    playbook.synchronise(again)

    assert (playbook.objects()["peer#c1"].row == former.row) is returns


def test_with_the_same_creation_time_an_object_is_the_same_under_any_id(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(connection("a", "c1", NOW), connection("b", "c2", NOW))
    former = remembered(first)
    playbook = returned(tmp_path, *former, by_native_id=False)

    playbook.synchronise(connection("b", "c1", NOW), connection("a", "c2", NOW))

    shown = {name: record.row for name, record in playbook.objects().items()}
    assert shown == {one.name: one.row for one in former}


def test_an_end_without_what_its_object_belonged_to_is_that_of_the_object(tmp_path: Path) -> None:
    """The virtual host has ended as well, and is not reported any more."""
    first = Playbook(tmp_path)
    first.synchronise(vhost("/", "v1"), queue("orders", "q1", created=NOW))
    host, orders = remembered(first)
    playbook = returned(tmp_path, host, replace(orders, created=NOW), by_native_id=False)

    records = playbook.publish(queue("orders", "q1", created=NOW, deleted=NOW + SECOND))

    (end,) = of(DeleteRecord, records)
    assert (end.stable_name, end.row) == (orders.name, orders.row)


def test_a_row_waits_for_the_agent_that_is_read_later(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(connection("a", "c1", NOW))
    (former,) = remembered(first)
    playbook = returned(tmp_path, replace(former, agent="1.7"), by_native_id=False)
    playbook.source.restore_agents(["1.7"], NOW)
    playbook.publish(ResyncBegan(), ResyncEnded(complete=True, without=frozenset({"1.7"})))

    playbook.publish(replace(connection("a", "c1", NOW), agent="1.7"))

    assert playbook.objects()[f"a#{NOW}"].row == former.row
