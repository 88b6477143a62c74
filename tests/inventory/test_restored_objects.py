"""What waited for a gateway tells of objects that only the gateway before it had seen whole."""

from __future__ import annotations

from pathlib import Path

from gateway.feed.records import (
    ClassRecord,
    DeleteRecord,
    Lifetime,
    ObjectRecord,
    UpdateRecord,
)
from gateway.feed.values import ObjectLink
from gateway.inventory.restored_objects import RestoredObject
from gateway.model.observations import ClassLearned, ResyncBegan
from gateway.model.schema import ClassSchema
from tests.inventory.playbook import NOW, SECOND, Playbook, connection, of, queue, vhost


def returned(state: Path, *former: RestoredObject) -> Playbook:
    """A gateway that starts again; the classes are known from before, nothing is read yet."""
    playbook = Playbook(state, boot=2)
    playbook.source.restore(former, by_native_id=True)
    classes = [schema for schema in playbook.schemas if isinstance(schema, ClassSchema)]
    playbook.tell(*map(ClassLearned, classes))
    return playbook


def remembered(playbook: Playbook) -> list[RestoredObject]:
    """What a log says of the objects of a gateway that ends now."""
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


def test_an_end_told_before_anything_is_read_has_the_name_and_row_of_its_object(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(vhost("/", "v1"), queue("orders", "q1"))
    row = first.objects()["/|orders"].row
    playbook = returned(tmp_path, *remembered(first))

    records = playbook.tell(queue("orders", "q1", deleted=NOW - SECOND))

    (born,), (end,) = of(ObjectRecord, records), of(DeleteRecord, records)
    assert (born.stable_name, born.row, born.parent) == ("/|orders", row, ObjectLink("shop:vhost", 1, "/"))
    assert (end.stable_name, end.row, end.deleted) == ("/|orders", row, NOW - SECOND)


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


def test_a_row_is_nobodys_twice(tmp_path: Path) -> None:
    """Another incarnation has another name; and what was told again is told once."""
    first = Playbook(tmp_path)
    first.synchronise(connection("a", "c1", NOW))
    (former,) = remembered(first)
    playbook = returned(tmp_path, former)

    playbook.synchronise(connection("a", "c9", NOW + SECOND))

    assert playbook.objects()[f"a#{NOW + SECOND}"].row != former.row
    playbook.synchronise(connection("a", "c1", NOW))
    assert playbook.objects()[f"a#{NOW}"].row != former.row, "everything had been told again meanwhile"


def test_a_row_that_an_older_index_may_give_anew_does_not_return(tmp_path: Path) -> None:
    former = RestoredObject("shop:connection", f"a#{NOW}", 5000, "c1", durable=False)
    playbook = returned(tmp_path, former)
    playbook.synchronise(connection("a", "c1", NOW))
    assert playbook.objects()[f"a#{NOW}"].row == 1


def test_an_agent_that_started_anew_calls_its_objects_otherwise(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(vhost("/", "v1"), queue("orders", "q1"))
    playbook = returned(tmp_path, *remembered(first))
    playbook.tell(ResyncBegan(restarted=True))
    assert of(ObjectRecord, playbook.tell(queue("orders", "q1"))) == [], "it waits for its virtual host"


def test_what_is_not_told_again_is_not_referred_to(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(vhost("/", "v1"), queue("orders", "q1"))
    playbook = returned(tmp_path, *remembered(first))
    playbook.tell(queue("orders", "q1"))
    assert ObjectLink("shop:vhost", 1, "/") in playbook.objects()["/|orders"].values.values()

    records = playbook.synchronise(queue("orders", "q1"))

    assert [update.absent for update in of(UpdateRecord, records) if update.absent] == [(0,)]


def test_a_transient_object_keeps_its_name_although_its_creation_became_known_later(tmp_path: Path) -> None:
    first = Playbook(tmp_path)
    first.synchronise(vhost("/", "v1"), connection("peer", "c1"))
    (before,) = [one for one in first.objects().values() if one.native_id == "c1"]
    first.tell(connection("peer", "c1", created=NOW - SECOND))
    playbook = returned(tmp_path, *remembered(first))

    playbook.tell(vhost("/", "v1"), connection("peer", "c1", created=NOW - SECOND))

    (after,) = [one for one in playbook.objects().values() if one.native_id == "c1"]
    assert (after.stable_name, after.row) == (before.stable_name, before.row)
