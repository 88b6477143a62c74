"""What the tables show to principals by their roles: `gateway.snmp.restricted_views`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import msgspec
import pytest

from gateway.feed.operations import OperationKind, OperationRecord, OperationRequest
from gateway.feed.records import Record
from gateway.feed.values import ObjectLink
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.operations import Principal
from gateway.policy.marks import Marks
from gateway.policy.publishing import PolicyPublisher
from gateway.policy.rules import EVERYTHING, Role, RoleSet, Rule
from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.cells import text
from gateway.snmp.fixed_mib import (
    ALARM_ENTRY,
    CLASS_ENTRY,
    DELETED_ENTRY,
    HEALTH,
    OPERATION_ENTRY,
    SOURCE_ENTRY,
    SUM_ENTRY,
    Health,
    OperationColumn,
    SourceColumn,
)
from gateway.snmp.mirror import Mirror
from gateway.snmp.refused_sets import RefusedSets
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.seen_objects import SeenObjects
from gateway.snmp.store import Store
from gateway.snmp.tables.classes import ManagedObjects, Target
from gateway.snmp.written_values import Assignment, Rejected
from tests.components.shop import agent, hall, source
from tests.snmp.mib.shop import ROOT, TILL_ENTRY, Gateway, classes, till
from tests.snmp.mib.test_operations import ENDED

READ_ALL = Rule("all", read=("*",), subscribe=("*:*",))


def publisher(rules: Mapping[str, tuple[Rule, ...]]) -> PolicyPublisher:
    roles = {name: Role(name, own) for name, own in rules.items()}
    principals = {f"snmp:{name}": (name,) for name in rules} | {"snmp:chief": (EVERYTHING,)}
    return PolicyPublisher(RoleSet(roles, principals), Marks(dict[str, MappingFile]()))


class Shop:
    """A shop that principals read by roles of their own, and a chief who reads everything."""

    def __init__(self, **rules: tuple[Rule, ...]) -> None:
        self.gateway = Gateway()
        self.views = {name: self.gateway.projection.views.of(name) for name in (*rules, "chief")}
        self.policy = publisher(rules)
        self.records: list[Record] = [source(), *classes(), agent(fresh=True), hall()]
        self.gateway.hello()

    def show(self, *tills: int) -> None:
        self.gateway.snapshot(*self.policy.snapshot([*self.records, *(till(row) for row in tills)]))

    def __getitem__(self, name: str) -> Mirror:
        return self.views[name]


def names(store: Store, below: Oid) -> set[Oid]:
    found: set[Oid] = set()
    here = below
    while (step := store.next(here)) is not None and step[0][: len(below)] == below:
        here = step[0]
        found.add(here)
    return found


def values(store: Store) -> bytes:
    return b"".join(store.get(name) for name in names(store, ROOT))


def test_who_reads_everything_sees_the_store() -> None:
    shop = Shop(clerk=(READ_ALL,))
    shop.show(1, 2)
    assert names(shop["chief"], (1, 3)) == names(shop.gateway.store, (1, 3))


def test_without_a_policy_nothing_of_objects_is_seen() -> None:
    shop = Shop(clerk=(READ_ALL,))
    shop.gateway.snapshot(*shop.records, till(1))
    for view in shop.views.values():
        assert b"till" not in values(view)
        assert names(view, (*ROOT, 1, 1, 1))
        assert [read(view.get((*ROOT, *HEALTH, each, 0))) for each in (Health.SOURCES, Health.ROWS)] == [0, 0]


def test_rows_that_a_role_does_not_read_do_not_exist() -> None:
    only_first = Rule("first", classes=("shop:*",), objects=("hall1", "*till1"), read=("*",))
    shop = Shop(clerk=(only_first,))
    shop.show(1, 2, 3)
    assert b"till2" not in values(shop["clerk"])
    assert b"till1" in values(shop["clerk"])
    for instance in names(shop.gateway.store, ROOT):
        seen = shop["clerk"].get(instance)
        assert seen in {shop.gateway.store.get(instance), ber.NO_SUCH_OBJECT, ber.NO_SUCH_INSTANCE} or (
            instance[: len(ROOT) + 4] == (*ROOT, *SOURCE_ENTRY) or instance[:-2] == (*ROOT, *HEALTH)
        )


def test_counts_are_of_what_is_seen_or_have_no_instance() -> None:
    halls = Rule("halls", sources=("shop1",), classes=("shop:hall",), read=("*",))
    shop = Shop(clerk=(halls,))
    shop.show(1, 2, 3)
    shop.gateway.publish(source(objects_created=9, events=7, messages=3), source(number=2))

    def count(name: str, scalar: Health) -> int | None:
        return read(shop[name].get((*ROOT, *HEALTH, scalar, 0)))

    def counter(name: str, column: SourceColumn) -> int | None:
        return read(shop[name].get((*ROOT, *SOURCE_ENTRY, column, 1)))

    for scalar, of_chief, of_clerk in (
        (Health.SOURCES, 2, 1),
        (Health.SOURCES_SYNCHRONISED, 2, 1),
        (Health.ROWS, 4, 1),
        (Health.ROWS_STALE, 0, 0),
    ):
        assert (count("chief", scalar), count("clerk", scalar)) == (of_chief, of_clerk)
    for scalar in (Health.ROWS_WITHHELD, Health.FEED_MESSAGES, Health.CLASSES_PROVISIONAL):
        assert (count("chief", scalar) is None, count("clerk", scalar)) == (False, None)
    for column, number in ((SourceColumn.OBJECTS_CREATED, 9), (SourceColumn.EVENTS, 7)):
        assert (counter("chief", column), counter("clerk", column)) == (number, None)
    assert counter("clerk", SourceColumn.MESSAGES) == 3


def test_who_reads_all_but_what_is_private_has_the_counts_of_all() -> None:
    shop = Shop(monitor=(Rule("monitoring", read=("*",), subscribe=("*:*",)),))
    shop.show(1, 2, 3)
    shop.gateway.publish(source(objects_created=9, events=7))
    for scalar in Health:
        name = (*ROOT, *HEALTH, scalar, 0)
        assert shop["monitor"].get(name) == shop["chief"].get(name), scalar.name
    for column in (SourceColumn.OBJECTS_CREATED, SourceColumn.EVENTS, SourceColumn.ROWS):
        name = (*ROOT, *SOURCE_ENTRY, column, 1)
        assert shop["monitor"].get(name) == shop["chief"].get(name), column.name


def read(tlv: bytes) -> int | None:
    """Return a number; ``None`` where there is no instance."""
    return None if tlv in {ber.NO_SUCH_OBJECT, ber.NO_SUCH_INSTANCE} else int.from_bytes(tlv[2:])


def test_a_denial_wins_and_takes_what_adds_it_up() -> None:
    shop = Shop(
        clerk=(
            READ_ALL,
            Rule("no", denies=True, classes=("shop:till",), read=("tak*", "sal*", "ite*", "open*", "cus*")),
        ),
        all=(READ_ALL,),
    )
    shop.show(1, 2)
    sums = names(shop["all"], (*ROOT, *SUM_ENTRY))
    assert names(shop["clerk"], (*ROOT, *SUM_ENTRY)) < sums
    assert names(shop["clerk"], (*ROOT, *CLASS_ENTRY)) == names(shop["all"], (*ROOT, *CLASS_ENTRY))


def test_sums_of_classes_that_are_read_in_part_are_not_shown() -> None:
    shop = Shop(clerk=(Rule("first", objects=("*till1",), read=("*",)),))
    shop.show(1)
    assert not names(shop["clerk"], (*ROOT, *SUM_ENTRY))
    assert not names(shop["clerk"], (*ROOT, *CLASS_ENTRY))


def test_a_reference_to_an_object_that_is_hidden_is_not_shown() -> None:
    shop = Shop(clerk=(Rule("tills", classes=("shop:till",), read=("name", "note")),))
    shop.show(1)
    assert b"by the door" in values(shop["clerk"])
    assert b"hall1" not in values(shop["clerk"])


def test_a_source_that_is_not_read_does_not_exist() -> None:
    shop = Shop(clerk=(Rule("other", sources=("other",), read=("*",)),))
    shop.show(1)
    for entry in (SOURCE_ENTRY, CLASS_ENTRY, SUM_ENTRY, ALARM_ENTRY, DELETED_ENTRY):
        assert not names(shop["clerk"], (*ROOT, *entry))


@pytest.mark.parametrize("wider", [True, False])
def test_another_policy_counts_from_its_snapshot(*, wider: bool) -> None:
    narrow, wide = (Rule("a", read=("name",)),), (READ_ALL,)
    shop = Shop(clerk=narrow if wider else wide)
    shop.show(1, 2)
    assert (b"by the door" in values(shop["clerk"])) is not wider
    shop.policy = publisher({"clerk": wide if wider else narrow})
    shop.show(1, 2)
    assert (b"by the door" in values(shop["clerk"])) is wider


def test_sets_of_what_is_hidden_find_nothing() -> None:
    shop = Shop(clerk=(Rule("first", objects=("hall1", "*till1"), read=("name",)),))
    shop.show(1, 2)
    gateway = shop.gateway
    everything = SeenObjects(gateway.projection, shop["chief"])
    seen = SeenObjects(gateway.projection, shop["clerk"])
    for name in names(gateway.store, ROOT):
        variable = everything.variable(name)
        if variable is None or variable.target.class_name != "shop:till":
            continue
        limited = seen.variable(name)
        assert limited is not None
        assert (limited.target.schema is None) is (name[-1] == 2)
        if shop["clerk"].get(name) in {ber.NO_SUCH_OBJECT, ber.NO_SUCH_INSTANCE}:
            assert limited.shown is None


class _Untouched:
    """Objects of which none may be looked at: what is of a row that is there takes time."""

    def __init__(self, objects: ManagedObjects) -> None:
        self.absent = objects.absent

    def variable(self, name: Oid) -> NoReturn:
        raise AssertionError(name)

    target = variable


def test_nothing_of_a_hidden_row_is_looked_at() -> None:
    shop = Shop(clerk=(Rule("first", objects=("hall1", "*till1"), read=("name",)),))
    shop.show(1, 2)
    untouched, reports = _Untouched(shop.gateway.projection), list[OperationRequest]()
    seen = SeenObjects(untouched, shop["clerk"])
    refused = RefusedSets(untouched, reports.append, lambda _: seen)
    everything = shop.gateway.projection
    hidden = [name for name in names(shop.gateway.store, ROOT) if name[-1] == 2 and everything.target(name)]
    assert hidden
    for name in hidden:
        assert seen.target(name) == Target(name[-2], "shop:till", 2)
        value = [Assignment(1, name, ber.encode_integer(1))]
        refused.tested(Principal("snmp", "clerk"), value, Rejected(message.INCONSISTENT_NAME, 1))
        refused.not_a_writer("", value)
    assert [one.row for one in reports] == [2] * 2 * len(hidden)


def test_a_result_that_refers_to_what_is_hidden_is_not_in_the_record_of_the_call() -> None:
    shop = Shop(clerk=(Rule("first", objects=("hall1", "*till1"), read=("*",)),), other=(READ_ALL,))
    taken: list[OperationRecord] = []
    views = shop.gateway.projection.views
    shop.gateway.projection.notify_of_operations(lambda record: taken.append(views.of_requester(record)))
    shop.show(1, 2)
    tills = {f"till{row}": ObjectLink("shop:till", row, f"hall1/till{row}") for row in (1, 2)}
    for number, name in enumerate(("clerk", "chief"), 1):
        called = msgspec.structs.replace(ENDED, kind=OperationKind.INVOKE, number=number, values={})
        called = msgspec.structs.replace(
            called, principal=Principal("snmp", name), found={"left": 7, **tills}
        )
        shop.gateway.publish(called)
    found = (*ROOT, *OPERATION_ENTRY, OperationColumn.FOUND)
    assert shop["clerk"].get((*found, 1)) == text('{"left":7,"till1":"hall1/till1"}')
    everything = text('{"left":7,"till1":"hall1/till1","till2":"hall1/till2"}')
    assert [shop["chief"].get((*found, number)) for number in (1, 2)] == [everything, everything]
    assert [record.found.keys() for record in taken] == [{"left", "till1"}, {"left", "till1", "till2"}]


def test_who_is_no_client_any_more_sees_nothing() -> None:
    shop = Shop(clerk=(READ_ALL,))
    shop.show(1)
    views = shop.gateway.projection.views
    assert views.present("clerk") is shop["clerk"]
    views.keep(["chief"])
    till_1 = ber.encode_name((*TILL_ENTRY, RowColumn.NAME, 1, 1))
    assert views.present("clerk").read(till_1) in {ber.NO_SUCH_OBJECT, ber.NO_SUCH_INSTANCE}
    assert shop["chief"].read(till_1) == text("till1")
