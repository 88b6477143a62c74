"""The feed as one principal reads it: what it may not read, and what is unknown, is in no record."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import pytest

from gateway.feed.access import Quoted
from gateway.feed.cleared import ClearedFeed
from gateway.feed.messages import VERSION
from gateway.feed.operations import OperationKind, OperationRecord, OperationState
from gateway.feed.records import (
    AlarmRecord,
    Batch,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventRecord,
    GapRecord,
    Hello,
    ObjectRecord,
    Record,
    SnapshotBegan,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.mapping.rules import Mapping
from gateway.model.observations import EventState, Severity
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import Argument, ClassKey, ClassSchema, Element, EventSchema
from gateway.model.values import ValueType
from gateway.policy.marks import Marks
from gateway.policy.publishing import PolicyPublisher
from gateway.policy.rules import Role, RoleSet, Rule
from tests.components.shop import (
    FULL_LOG,
    GATEWAY_ID,
    HALL_CLASS,
    START,
    TILL_CLASS,
    agent,
    hall,
    hall_link,
    source,
    till_record,
    update,
)

ANNA = "cli:anna"
HALL = ClassRecord(
    HALL_CLASS,
    ClassSchema(
        ClassKey("shop", "hall"),
        (Element("name", ValueType.STRING, index=True), Element("keeper", ValueType.STRING)),
    ),
    "name",
    "",
)
TILL = ClassRecord(
    TILL_CLASS,
    ClassSchema(
        ClassKey("shop", "till"),
        (
            Element("hall", ValueType.REFERENCE, index=True),
            Element("name", ValueType.STRING, index=True),
            Element("next", ValueType.REFERENCE),
            Element("notes", ValueType.MAP),
        ),
        (Element("sales", ValueType.U64),),
    ),
    "name",
    "hall",
)
NEXT, NOTES, SALES = 2, 3, 4
RANG = EventClassRecord(
    30,
    EventSchema(
        ClassKey("shop", "rang"),
        (Argument("by", ValueType.STRING), Argument("hall", ValueType.REFERENCE)),
        label="It rang",
    ),
)
MARKS = Marks(
    {
        "shop": Mapping.model_validate(
            {
                "version": 1,
                "package": "shop",
                "module": "SHOP-MIB",
                "prefix": "shop",
                "events": {"rang": {"arguments": {"by": {"private": True}}}},
            }
        )
    }
)
ALL = Rule("allow rule 1,", read=("*",), subscribe=("*:*",), audit=True)
WHOLE = Rule("allow rule 2,", read=("*",), subscribe=("*:*",), audit=True, private=True)

Kind = TypeVar("Kind", bound=Record)


def denying(
    *,
    read: tuple[str, ...] = (),
    subscribe: tuple[str, ...] = (),
    sources: tuple[str, ...] = ("*",),
    classes: tuple[str, ...] = ("*:*",),
    objects: tuple[str, ...] = ("*",),
) -> Rule:
    return Rule(
        "deny rule 1,",
        denies=True,
        sources=sources,
        classes=classes,
        objects=objects,
        read=read,
        subscribe=subscribe,
    )


NO_HALLS = denying(classes=("shop:hall",), read=("*",))


def till(values: dict[int, FeedValue] | None = None) -> ObjectRecord:
    return till_record(1, "hall1|till1", {0: hall_link(), 1: "till1", SALES: 7, **(values or {})})


def end(name: str = "hall1") -> DeleteRecord:
    return DeleteRecord(1, HALL_CLASS, 1, name, START, inferred=False, number=1, leaf_name=name)


def rang() -> EventRecord:
    return EventRecord(
        event_id=f"{GATEWAY_ID}.1.1",
        source=1,
        class_number=RANG.number,
        agent="1.0",
        time=START,
        severity=Severity.INFO,
        values={0: "anna", 1: hall_link()},
        number=1,
        received=START,
        subject=hall_link(),
        text="anna rang",
    )


def alarm() -> AlarmRecord:
    condition = 'crowded shop:hall "hall1"'
    text = "crowded: the keeper is dora"
    return AlarmRecord(1, 1, "crowded", condition, Severity.MAJOR, hall_link(), text, "an id", START)


def operation(front_end: str = "jmx", name: str = "bert") -> OperationRecord:
    return OperationRecord(
        number=1,
        operation_id=f"{GATEWAY_ID}.1.o1",
        kind=OperationKind.SET,
        state=OperationState.ENDED,
        principal=Principal(front_end, name),
        source=1,
        class_name="shop:hall",
        row=1,
        stable_name="hall1",
        leaf_name="hall1",
        values={"name": "hall1", "keeper": "carl"},
        previous={"keeper": "dora"},
        found={"keeper": "carl"},
        outcome=Outcome.APPLIED,
        text="the keeper was dora",
    )


class Core:
    """A core that publishes its records with a policy, and what Anna reads of them."""

    def __init__(self, *rules: Rule, keeps_names: bool = False) -> None:
        self.publisher = PolicyPublisher(roles(*rules), MARKS)
        self.cleared = ClearedFeed(ANNA, keeps_names=keeps_names)
        self.cleared.received(Hello(VERSION, 1, GATEWAY_ID, START))

    def snapshot(self, *records: Record) -> tuple[Record, ...]:
        """Return what she reads of a snapshot."""
        self.cleared.received(SnapshotBegan(1, 1))
        known = (HALL, TILL, RANG, source(messages=3, objects_created=9), agent(fresh=True))
        return self.publish(*self.publisher.snapshot([*known, *records]))

    def publish(self, *records: Record) -> tuple[Record, ...]:
        """Return what she reads of a batch."""
        message = self.cleared.received(Batch(1, 1, records))
        assert isinstance(message, Batch)
        return message.records

    def reads(self, record: Kind) -> Kind | None:
        """Return how she reads one record, after a snapshot without objects."""
        self.snapshot()
        found = self.publish(record)
        assert all(type(one) is type(record) for one in found)
        return found[0] if found else None  # type: ignore[return-value]  # checked above


def roles(*rules: Rule) -> RoleSet:
    return RoleSet({"watching": Role("watching", rules)}, {ANNA: ("watching",)})


EVERY_RECORD: tuple[Record, ...] = (
    hall(),
    till({NEXT: hall_link(2)}),
    end(),
    rang(),
    alarm(),
    operation(),
    GapRecord(1, START, START, "a reason"),
    FULL_LOG,
)


def test_who_is_not_restricted_reads_the_records_themselves() -> None:
    read = Core(WHOLE).snapshot(*EVERY_RECORD)
    assert [one for record in EVERY_RECORD for one in read if one is record] == list(EVERY_RECORD)


def test_without_a_policy_nothing_is_read() -> None:
    cleared = ClearedFeed(ANNA)
    records = (HALL, source(), *EVERY_RECORD)
    assert cleared.received(Batch(1, 1, records)) == Batch(1, 1, ())
    assert not cleared.sees_source("shop1")


def test_who_has_no_role_reads_nothing_but_what_is_published_anyway() -> None:
    read = Core().snapshot(*EVERY_RECORD)
    assert HALL in read
    assert not {type(record) for record in read} & {type(record) for record in (*EVERY_RECORD, source())}


def test_an_object_that_is_not_read_is_in_no_record() -> None:
    core = Core(ALL, denying(classes=("shop:till",), read=("*",)))
    assert not [record for record in core.snapshot(till()) if isinstance(record, ObjectRecord)]
    assert core.publish(update(1, {SALES: 8})) == ()
    assert core.publish(DeleteRecord(1, TILL_CLASS, 1, "hall1|till1", START, inferred=False)) == ()
    assert core.cleared.mask(1, TILL_CLASS, 1) == 0


def test_elements_that_are_not_read_are_left_out() -> None:
    core = Core(ALL, denying(read=("sales", "next")))
    core.snapshot()
    [shown] = core.publish(till({NEXT: hall_link(), NOTES: {}}))
    assert isinstance(shown, ObjectRecord)
    assert shown.values == {0: hall_link(), 1: "till1", NOTES: {}}
    [changed] = core.publish(update(1, {SALES: 8, 1: "first"}, (NEXT, NOTES)))
    assert isinstance(changed, UpdateRecord)
    assert (changed.values, changed.absent) == ({1: "first"}, (NOTES,))
    assert core.cleared.mask(1, TILL_CLASS, 1) == 0b01011


@pytest.mark.parametrize("element", ["hall", "name"])
def test_an_object_whose_name_is_not_read_does_not_exist(element: str) -> None:
    assert Core(ALL, denying(read=(element,))).reads(till()) is None


def test_a_reference_to_what_is_not_read_is_absent() -> None:
    core = Core(ALL, denying(classes=("shop:hall",), objects=("hall2",), read=("*",)))
    core.snapshot()
    inside: Any = {"list": (1, hall_link(2))}
    [shown] = core.publish(till({NEXT: hall_link(2), NOTES: inside}))
    assert isinstance(shown, ObjectRecord)
    assert shown.values == {0: hall_link(), 1: "till1", SALES: 7}
    assert shown.parent == hall_link()
    [changed] = core.publish(update(1, {NEXT: hall_link(1), NOTES: {"list": ()}}))
    assert isinstance(changed, UpdateRecord)
    assert changed.values == {NEXT: hall_link(1), NOTES: {"list": ()}}
    [changed] = core.publish(update(1, {NEXT: hall_link(2)}))
    assert isinstance(changed, UpdateRecord)
    assert (changed.values, changed.absent) == ({}, (NEXT,))


def test_a_reference_in_a_name_is_kept_where_labels_are_made_of_it() -> None:
    for keeps_names in (False, True):
        shown = Core(ALL, NO_HALLS, keeps_names=keeps_names).reads(till({NEXT: hall_link()}))
        assert shown is not None
        assert shown.parent is None
        assert shown.values.get(0) == (hall_link() if keeps_names else None)
        assert NEXT not in shown.values


def test_an_end_is_read_like_the_object() -> None:
    assert Core(ALL).reads(end()) == end()
    hidden = denying(objects=("hall1",), read=("*",))
    assert Core(ALL, hidden).reads(end()) is None
    assert Core(ALL, hidden).reads(end("hall2")) == end("hall2")


def test_private_arguments_of_an_event_are_left_out_with_its_text() -> None:
    received = Core(ALL).reads(rang())
    assert received is not None
    assert (received.values, received.text) == ({1: hall_link()}, "It rang")


@pytest.mark.parametrize(
    "rule", [denying(subscribe=("shop:r*",)), NO_HALLS, denying(sources=("shop1",), read=("*",))]
)
def test_an_event_is_not_received(rule: Rule) -> None:
    assert Core(ALL, rule).reads(rang()) is None


def test_the_text_of_an_alarm_may_quote_what_is_not_read() -> None:
    seen = Core(ALL).reads(alarm())
    assert seen is not None
    assert seen.text == seen.condition
    assert Core(ALL, NO_HALLS).reads(alarm()) is None
    assert Core(ALL, denying(subscribe=("shop:crowded",))).reads(alarm()) is None


def test_the_text_of_an_alarm_is_read_with_all_that_it_quotes() -> None:
    for quoted in (Quoted(), Quoted(("keeper",)), Quoted(("keeper",), (hall_link(2),))):
        quoting = msgspec.structs.replace(alarm(), quoted=quoted)
        assert Core(ALL).reads(quoting) == quoting
    for rule in (denying(read=("keeper",)), denying(objects=("hall2",), read=("*",))):
        seen = Core(ALL, rule).reads(quoting)
        assert seen is not None
        assert (seen.text, seen.quoted) == (seen.condition, None)


def test_the_text_of_an_alarm_of_an_event_is_read_with_the_whole_event() -> None:
    quoting = msgspec.structs.replace(alarm(), quoted=Quoted(event="shop:rang"))
    for rules, text in (
        ((WHOLE, denying(subscribe=("shop:other",))), quoting.text),
        ((ALL,), quoting.condition),
        ((WHOLE, denying(subscribe=("shop:rang",))), quoting.condition),
    ):
        seen = Core(*rules).reads(quoting)
        assert seen is not None
        assert seen.text == text


def test_an_event_of_an_alarm_is_read_with_the_alarm() -> None:
    ending = msgspec.structs.replace(rang(), state=EventState.CLEARED, condition='crowded shop:hall "hall1"')
    assert Core(ALL).reads(ending) is not None
    assert Core(ALL, denying(subscribe=("shop:crowded",))).reads(ending) is None


def test_the_text_of_an_event_may_quote_what_is_hidden() -> None:
    to_second = msgspec.structs.replace(rang(), values={0: "anna", 1: hall_link(2)})
    read = Core(WHOLE, denying(objects=("hall2",), read=("*",))).reads(to_second)
    assert read is not None
    assert (read.values, read.text) == ({0: "anna"}, "It rang")


def test_operations_of_others_take_a_rule_with_audit() -> None:
    reading = Rule("allow rule 1,", read=("*",), subscribe=("*:*",))
    assert Core(reading).reads(operation()) is None
    assert Core(reading).reads(operation("cli", "anna")) == operation("cli", "anna")
    assert Core(ALL).reads(operation()) == operation()
    assert Core(ALL, NO_HALLS).reads(operation()) is None


def test_operations_of_others_are_without_values_that_are_not_read() -> None:
    seen = Core(ALL, denying(read=("keeper",))).reads(operation())
    assert seen is not None
    assert (seen.values, seen.previous, seen.found, seen.text) == ({"name": "hall1"}, {}, {}, "")


def test_a_source_is_without_counters_of_its_objects_for_who_may_not_read_all_of_them() -> None:
    counters = [
        record.counters
        for rules in ((ALL, NO_HALLS), (ALL,))
        for record in Core(*rules).snapshot()
        if isinstance(record, SourceRecord)
    ]
    assert counters == [{"messages": 3}, {"messages": 3, "objects_created": 9}]


def test_a_source_of_which_nothing_is_read_does_not_exist() -> None:
    core = Core(ALL, denying(sources=("shop1",), read=("*",)))
    read = core.snapshot(hall(), GapRecord(1, START, START, "a reason"))
    assert not {type(record) for record in read} & {
        SourceRecord,
        ObjectRecord,
        GapRecord,
        type(agent(fresh=True)),
    }
    assert not core.cleared.sees_source("shop1")


def test_an_object_that_no_snapshot_had_is_in_no_update() -> None:
    core = Core(ALL)
    core.snapshot(till())
    core.snapshot()
    assert core.publish(update(1, {SALES: 8})) == ()


def test_another_policy_is_a_change_also_where_it_differs_in_one_element_only() -> None:
    core = Core(ALL, denying(read=("sales",)))
    core.snapshot(till())
    core.snapshot(till())
    assert core.cleared.changes == 1
    core.publisher.change(roles(ALL, denying(read=("notes",))))
    core.snapshot(till())
    assert core.cleared.changes == 2
    assert core.cleared.mask(1, TILL_CLASS, 1) == 0b10111


def test_a_policy_that_changes_others_is_no_change_for_who_reads_everything() -> None:
    core = Core(WHOLE)
    core.snapshot()
    core.publisher.change(
        RoleSet({"other": Role("other", (ALL,))}, {ANNA: ("everything",), "jmx:b": ("other",)})
    )
    core.snapshot()
    assert core.cleared.changes == 1


def test_a_new_core_is_not_read_by_the_tables_of_the_former() -> None:
    core = Core(ALL)
    core.snapshot(till())
    core.cleared.received(Hello(VERSION, 2, GATEWAY_ID, START))
    assert core.publish(till(), rang(), update(1, {SALES: 8})) == ()


def test_values_deeper_than_any_are_not_shown() -> None:
    deep: Any = ()
    for _ in range(1000):
        deep = (deep,)
    shown = Core(ALL).reads(till({NOTES: {"deep": deep}}))
    assert shown is not None
    assert NOTES not in shown.values


def test_a_link_to_an_unknown_class_is_not_shown() -> None:
    shown = Core(ALL).reads(till({NEXT: ObjectLink("shop:unknown", 1, "x")}))
    assert shown is not None
    assert NEXT not in shown.values
