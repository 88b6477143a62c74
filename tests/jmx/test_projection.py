"""Feed messages in, MBeans out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.feed.freshness import Freshness
from gateway.feed.records import Batch, ClassRecord, GapRecord, Lifetime, SnapshotBegan
from gateway.inventory.source import SHOWN_COUNTERS
from gateway.jmx.class_versions import MAX_VERSIONS
from gateway.jmx.classes import Own
from gateway.jmx.commands import AttributeType, DefineClass, Register
from gateway.jmx.leaving import SLICE_LOOKS, SLICE_OBJECTS
from gateway.jmx.own_beans import COUNTERS
from gateway.model.observations import SourceState
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import Reference, ValueType
from tests.components.shop import SECOND, START, agent, source, update
from tests.jmx.shop import (
    GATEWAY,
    IDLE,
    NAME,
    NEXT,
    NUMBER,
    SALES,
    SOURCE,
    STATE,
    TAGS,
    TILL,
    WAITING,
    Gateway,
    alarm,
    classes,
    delete,
    hall,
    hall_name,
    link,
    till,
    till_name,
)


@pytest.fixture
def gateway() -> Gateway:
    """One source, synchronised, with a hall and two tills."""
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), till(1), till(2))
    return gateway


def test_an_mbean_tells_the_object_and_what_the_gateway_knows_of_it(gateway: Gateway) -> None:
    assert gateway.till() == {
        "Name": "till1",
        "StableName": "hall1|till1#1",
        "NativeId": "0-1-1-0-1",
        "Source": "shop1",
        "Agent": "1.0",
        "Lifetime": "transient",
        "Parent": hall_name(),
        "Row": 1,
        "CreateTime": START,
        "SampleTime": START + SECOND,
        "ChangeTime": START,
        "DiscontinuityTime": START,
        "hall": hall_name(),
        "name": "till1",
        "state": "open",
        "next": None,
        "number": 2**64 - 1,
        "tags": None,
        "sales": 10,
        "waiting": 1,
        "idle": None,
        "Stale": False,
    }
    assert gateway.names() == ["till1,id=1", "till2,id=2"]


def test_unknown_times_are_null(gateway: Gateway) -> None:
    bare = replace(
        till(3), parent=None, created=0, properties_sampled=0, statistics_sampled=0, reset=0, changed=0
    )
    gateway.tell(bare)
    shown = gateway.till(3)
    times = ("Parent", "CreateTime", "SampleTime", "ChangeTime", "DiscontinuityTime")
    assert [shown[attribute] for attribute in times] == [None] * 5


def test_the_properties_sample_time_stands_for_that_of_statistics_that_were_never_told(
    gateway: Gateway,
) -> None:
    assert gateway.machine.read(hall_name())["SampleTime"] == START


def test_an_update_changes_what_it_tells_and_nothing_else(gateway: Gateway) -> None:
    before = gateway.till()
    gateway.tell(update(1, {SALES: 99, TAGS: {"b": 1, "a": "x"}}, absent=(STATE,)))
    assert gateway.till() == before | {
        "sales": 99,
        "tags": (("a", "x"), ("b", "1")),
        "state": None,
        "SampleTime": START + 9 * SECOND,
    }


def test_an_object_told_again_loses_what_it_no_longer_has_and_stays_registered(gateway: Gateway) -> None:
    history = list(gateway.machine.history)
    gateway.tell(till(1, {NAME: "till1"}))
    assert (gateway.till()["sales"], gateway.till()["name"]) == (None, "till1")
    assert gateway.machine.history == history


def test_a_deleted_object_is_gone_at_once(gateway: Gateway) -> None:
    gateway.tell(delete(1))
    assert gateway.names() == ["till2,id=2"]


def test_a_durable_object_that_comes_back_has_its_name_again(gateway: Gateway) -> None:
    durable = replace(till(7), lifetime=Lifetime.DURABLE, stable_name="hall1|till7")
    gateway.tell(durable)
    name = "amqp.gateway:source=shop1,package=shop,type=till,parent=hall1,name=till7"
    gateway.tell(delete(7), durable)
    assert gateway.machine.history[-3:] == [f"+{name}", f"-{name}", f"+{name}"]


def test_records_that_name_nothing_known_are_counted(gateway: Gateway) -> None:
    gateway.tell(till(3, class_number=77), update(9, {SALES: 1}), delete(9), delete(1, class_number=78))
    gateway.tell(till(3, number=9))
    gateway.settle()
    assert gateway.machine.read(GATEWAY)["RefusedRecords"] == 5


def test_a_gap_changes_nothing(gateway: Gateway) -> None:
    before = gateway.machine.everything()
    gateway.tell(GapRecord(1, START, START + 1, "the line was cut"))
    assert gateway.machine.everything() == before


# ---- references -----------------------------------------------------------------------------------------


def test_a_reference_is_the_name_of_its_target(gateway: Gateway) -> None:
    gateway.tell(update(1, {NEXT: link(2, "shop:till")}))
    assert gateway.till()["next"] == till_name(2)


def test_a_reference_waits_for_its_target(gateway: Gateway) -> None:
    gateway.tell(update(1, {NEXT: link(3, "shop:till")}), update(2, {NEXT: link(3, "shop:till")}))
    assert gateway.till()["next"] is None
    gateway.tell(till(3))
    assert [gateway.till(row)["next"] for row in (1, 2)] == [till_name(3)] * 2


def test_a_reference_that_has_changed_waits_no_longer(gateway: Gateway) -> None:
    gateway.tell(update(1, {NEXT: link(3, "shop:till")}), update(2, {NEXT: link(3, "shop:till")}))
    gateway.tell(update(1, {NEXT: link(2, "shop:till")}), update(2, {}, absent=(NEXT,)))
    gateway.tell(till(3))
    assert [gateway.till(row)["next"] for row in (1, 2)] == [till_name(2), None]


def test_a_parent_that_comes_later_is_a_reference_too() -> None:
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source(), *classes(), till(1), hall())
    assert gateway.till()["Parent"] == gateway.till()["hall"] == hall_name()


def test_who_is_gone_waits_for_nobody(gateway: Gateway) -> None:
    gateway.tell(update(1, {NEXT: link(3, "shop:till")}), delete(1), till(3))
    assert gateway.names() == ["till2,id=2", "till3,id=3"]


def test_a_reference_that_is_no_link_is_null_and_logged(gateway: Gateway) -> None:
    gateway.tell(update(1, {NEXT: Reference("0-1-1-0-9")}))
    assert gateway.till()["next"] is None
    assert [event for event, _ in gateway.logged] == ["value-not-shown"]


# ---- values that do not fit -----------------------------------------------------------------------------


def test_a_statistic_beyond_java_is_null_counted_and_logged_once(gateway: Gateway) -> None:
    gateway.tell(update(1, {SALES: 2**63}), update(2, {SALES: 2**64 - 1, WAITING: 3}))
    assert [gateway.till(row)["sales"] for row in (1, 2)] == [None, None]
    assert gateway.till(2)["waiting"] == 3
    assert gateway.logged == [
        ("value-not-shown", "shop:till.sales: '9223372036854775808' does not fit its type")
    ]
    gateway.settle()
    assert gateway.machine.read(GATEWAY)["UnfitValues"] == 1


# ---- what a class says of itself ------------------------------------------------------------------------


def test_descriptors_say_what_the_schema_does(gateway: Gateway) -> None:
    sales = gateway.machine.attribute(till_name(), "sales")
    assert (sales.type, sales.description) == (AttributeType.LONG, "Sales made.")
    assert sales.descriptor == {
        "element": "statistic",
        "units": "sales",
        "kind": "counter",
        "metricType": "counter",
        "sampleTime": "SampleTime",
        "oid": "1.3.9.5",
    }
    waiting = gateway.machine.attribute(till_name(), "waiting").descriptor or {}
    assert (waiting["displayName"], waiting["metricType"]) == ("Waiting", "gauge")
    assert (gateway.machine.attribute(till_name(), "idle").descriptor or {})["units"] == "nanoseconds"
    number = gateway.machine.attribute(till_name(), "number")
    assert (number.type, number.minimum, number.maximum) == (AttributeType.BIG_INTEGER, 1, 2**64 - 1)
    assert gateway.machine.attribute(till_name(), "state").legal == ("open", "closed")


def test_changes_of_states_and_configuration_are_told_and_of_nothing_else(gateway: Gateway) -> None:
    definition = gateway.machine.beans[gateway.machine.names[till_name()]].definition
    assert [a.name for a in definition.attributes if a.notifies] == ["state", "next", "number", "tags"]
    assert [n.type for n in definition.notifications] == [
        "amqp.gateway.shop.tillBurns",
        "amqp.gateway.gateway.alarmRaised",
        "amqp.gateway.gateway.alarmCleared",
    ]
    hall_definition = gateway.machine.beans[gateway.machine.names[hall_name()]].definition
    assert [a.name for a in hall_definition.attributes if a.notifies] == []
    assert hall_definition.notifications == ()


ODD = ClassSchema(
    ClassKey("odd", "class"),
    properties=(
        Element("Stale", ValueType.U8),
        Element(" ", ValueType.U8),
        Element("twice", ValueType.U8),
        Element("secret", ValueType.STRING, readable=False),
        Element("twice", ValueType.STRING),
    ),
)


def test_elements_with_odd_names_are_all_shown(gateway: Gateway) -> None:
    gateway.tell(
        ClassRecord(30, ODD, "", ""), till(1, {0: 1, 1: 2, 2: 3, 3: "hidden", 4: "4"}, class_number=30)
    )
    (name,) = [name for name in gateway.machine.names if "type=class" in name]
    shown = gateway.machine.read(name)
    assert {key: shown[key] for key in list(shown)[len(Own) :]} == {
        "Stale_": 1,
        "element1": 2,
        "twice": 3,
        "twice_": "4",
        "Stale": False,
    }


def test_positions_that_the_schema_does_not_have_are_passed_over(gateway: Gateway) -> None:
    before = gateway.till()
    gateway.tell(update(1, {99: 1, -1: 1}, absent=(100,)))
    assert gateway.till() == before | {"SampleTime": START + 9 * SECOND}


# ---- versions of classes --------------------------------------------------------------------------------


def test_a_class_is_defined_with_its_first_object() -> None:
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source(), *classes(), hall())
    assert sorted(d.name for d in gateway.machine.definitions.values()) == [
        "amqp.gateway.Gateway",
        "amqp.gateway.Source",
        "amqp.gateway.shop.hall",
    ]


def test_a_later_version_of_a_class_lives_beside_the_former(gateway: Gateway) -> None:
    wider = replace(
        TILL,
        key=replace(TILL.key, hash=b"other"),
        statistics=(*TILL.statistics, Element("returns", ValueType.U32)),
    )
    gateway.tell(ClassRecord(21, wider, "name", "hall"), till(3, {NAME: "till3", 9: 4}, class_number=21))
    assert gateway.till(3)["returns"] == 4
    assert "returns" not in gateway.till(1)
    gateway.tell(delete(1), till(1, {NAME: "till1", 9: 5}, class_number=21))
    assert gateway.till(1)["returns"] == 5


def test_a_new_core_may_number_classes_anew_and_nothing_is_registered_again(gateway: Gateway) -> None:
    history = list(gateway.machine.history)
    gateway.disconnect()
    gateway.hello(epoch=2)
    swapped = [replace(record, number=30 - record.number) for record in classes()[:2]]
    gateway.snapshot(
        source(), *swapped, agent(fresh=True), replace(hall(), class_number=20), till(1, class_number=10)
    )
    gateway.settle()
    assert gateway.till()["sales"] == 10
    assert gateway.machine.history == [*history, f"-{till_name(2)}"]


def test_versions_without_objects_are_forgotten_and_their_numbers_used_again(gateway: Gateway) -> None:
    known = set(gateway.machine.definitions)
    for version in range(2, 10):
        gateway.hello(epoch=version)
        newer = ClassRecord(20, replace(TILL, description=f"version {version}"), "name", "hall")
        gateway.snapshot(source(), newer, agent(fresh=True), till(1))
        gateway.settle()
    assert set(gateway.machine.definitions) <= known | {max(known) + 1, max(known) + 2}
    assert "version 9" in {d.description for d in gateway.machine.definitions.values()}


def test_versions_are_bounded(gateway: Gateway) -> None:
    gateway.tell(
        *(
            ClassRecord(number, replace(TILL, key=ClassKey("shop", f"till{number}")), "", "")
            for number in range(100, 101 + MAX_VERSIONS)
        )
    )
    assert [event for event, _ in gateway.logged] == ["class-not-shown"]


# ---- freshness ------------------------------------------------------------------------------------------


def test_the_objects_of_a_silent_agent_turn_stale_and_those_of_others_do_not(gateway: Gateway) -> None:
    gateway.tell(till(3, agent_name="2.0"))
    gateway.tell(agent(fresh=False))
    assert [gateway.till(row)["Stale"] for row in (1, 2, 3)] == [True, True, False]
    assert gateway.till()["sales"] == 10
    gateway.settle()
    assert gateway.machine.read(GATEWAY)["StaleObjects"] == 3
    assert gateway.machine.read(SOURCE)["StaleObjects"] == 3
    gateway.tell(agent(fresh=True))
    assert gateway.till()["Stale"] is False


def test_values_that_are_stale_for_too_long_are_withheld_until_they_are_fresh_again(gateway: Gateway) -> None:
    before = gateway.till()
    gateway.tell(agent(fresh=False, since=gateway.now))
    gateway.wait(59)
    assert gateway.till() == before | {"Stale": True}
    gateway.wait(1)
    assert gateway.till() == {
        key: value if position < len(Own) else None for position, (key, value) in enumerate(before.items())
    } | {"Stale": True}
    assert gateway.machine.read(GATEWAY)["WithheldObjects"] == 3
    gateway.tell(update(1, {SALES: 12}), agent(fresh=True))
    assert gateway.till() == before | {"sales": 12, "SampleTime": START + 9 * SECOND}


def test_an_object_that_comes_while_its_agent_is_stale_is_stale(gateway: Gateway) -> None:
    gateway.tell(agent(fresh=False))
    gateway.tell(till(3))
    assert gateway.till(3)["Stale"] is True


@pytest.mark.parametrize("state", [SourceState.DOWN, SourceState.CONNECTING])
def test_a_source_that_is_not_reached_makes_its_objects_stale(gateway: Gateway, state: SourceState) -> None:
    gateway.tell(source(state))
    assert gateway.till()["Stale"] is True
    assert gateway.machine.read(SOURCE)["Stale"] is True
    gateway.tell(source(SourceState.SYNCHRONISING))
    assert gateway.till()["Stale"] is True
    gateway.tell(source(SourceState.DEGRADED))
    assert gateway.till()["Stale"] is False
    assert gateway.machine.read(SOURCE)["Stale"] is False


def test_everything_is_stale_while_the_core_is_gone(gateway: Gateway) -> None:
    gateway.disconnect()
    gateway.disconnect()
    assert gateway.till()["Stale"] is True
    shown = gateway.machine.read(SOURCE)
    assert (shown["State"], shown["Since"], shown["Stale"]) == ("unknown", START, True)
    assert shown["Detail"] == "the core of the gateway cannot be reached: connection reset"
    whole = gateway.machine.read(GATEWAY)
    assert (whole["FeedConnected"], whole["FeedStaleSince"], whole["SourcesSynchronised"]) == (
        False,
        START,
        0,
    )
    gateway.wait(61)
    assert gateway.till()["sales"] is None


def test_before_the_first_word_of_a_core_nothing_is_claimed() -> None:
    gateway = Gateway()
    assert gateway.machine.everything().keys() == {GATEWAY}
    shown = gateway.machine.read(GATEWAY)
    assert (shown["Version"], shown["FeedConnected"], shown["Epoch"]) == ("1.2.3", False, None)


def test_a_new_core_keeps_objects_as_stale_until_the_source_is_synchronised(gateway: Gateway) -> None:
    gateway.disconnect()
    gateway.hello(epoch=2)
    gateway.snapshot(source(SourceState.CONNECTING))
    assert gateway.till()["Stale"] is True
    gateway.tell(source(SourceState.SYNCHRONISING), *classes(), agent(fresh=True), hall(), till(2))
    assert gateway.till(2)["Stale"] is True
    assert till_name(1) in gateway.machine.names
    gateway.tell(source(SourceState.SYNCHRONISED))
    assert gateway.till(2)["Stale"] is False
    assert till_name(1) not in gateway.machine.names


def test_a_new_snapshot_of_the_same_core_sweeps_what_it_does_not_tell(gateway: Gateway) -> None:
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), till(2))
    assert gateway.names() == ["till2,id=2"]


def test_a_snapshot_that_begins_in_the_middle_of_another_counts_alone(gateway: Gateway) -> None:
    gateway.begin_snapshot(source(), till(1))
    gateway.snapshot(source(), till(2))
    assert gateway.names() == ["till2,id=2"]


def test_an_incomplete_snapshot_takes_nothing_away(gateway: Gateway) -> None:
    gateway.projection.received(SnapshotBegan(1, 1))
    gateway.tell(source(), till(2))
    gateway.disconnect()
    gateway.settle()
    assert gateway.names() == ["till1,id=1", "till2,id=2"]


def test_a_deletion_that_a_snapshot_repeats_touches_nobody(gateway: Gateway) -> None:
    gateway.snapshot(source(), *classes(), delete(1, number=5), agent(fresh=True), hall(), till(1), till(2))
    assert gateway.names() == ["till1,id=1", "till2,id=2"]


def test_a_source_that_a_snapshot_does_not_tell_is_gone_with_everything(gateway: Gateway) -> None:
    gateway.snapshot(source(number=2), *classes())
    gateway.settle()
    assert gateway.machine.names.keys() == {GATEWAY, "amqp.gateway:type=Source,source=shop2"}


def test_a_renamed_source_has_objects_of_other_names(gateway: Gateway) -> None:
    gateway.hello(epoch=2)
    gateway.snapshot(replace(source(), name="shop9"), *classes(), agent(fresh=True), till(1))
    gateway.settle()
    assert gateway.machine.names.keys() == {
        GATEWAY,
        "amqp.gateway:type=Source,source=shop9",
        till_name(1, source=9),
    }


def test_however_many_objects_turn_stale_it_is_one_command(gateway: Gateway) -> None:
    gateway.tell(*(till(row) for row in range(1, 500)))
    gateway.projection.received(SnapshotBegan(1, 2))  # no message of its own
    gateway.projection.tick()
    gateway.push()
    before = gateway.projection.waiting
    gateway.projection.disconnected("connection reset")
    groups = [c for c in gateway.projection.take(1000) if getattr(c, "freshness", 0) is Freshness.STALE]
    assert (before, len(groups)) == (0, 2)


def test_many_objects_go_in_slices(gateway: Gateway) -> None:
    rows = 3 * SLICE_OBJECTS
    gateway.tell(*(till(row) for row in range(1, rows + 1)))
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), till(1))
    assert len(gateway.names()) > SLICE_OBJECTS
    gateway.settle()
    assert gateway.names() == ["till1,id=1"]


def test_objects_of_a_source_that_is_gone_go_in_slices(gateway: Gateway) -> None:
    gateway.tell(*(till(row) for row in range(1, 3 * SLICE_OBJECTS + 1)))
    gateway.snapshot(source(number=2), *classes())
    assert len(gateway.names()) > SLICE_OBJECTS
    gateway.settle()
    assert gateway.machine.names.keys() == {GATEWAY, "amqp.gateway:type=Source,source=shop2"}


def test_finding_what_is_to_go_is_work_for_several_slices_too(gateway: Gateway) -> None:
    rows = [till(row) for row in range(1, 2 * SLICE_LOOKS + 1)]
    gateway.tell(*rows)
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), *rows[1:])
    assert gateway.projection.tick()
    gateway.settle()
    assert len(gateway.names()) == len(rows) - 1


def test_commands_are_taken_in_order_and_no_more_than_asked_for(gateway: Gateway) -> None:
    gateway.projection.received(Batch(1, 2, (ClassRecord(30, ODD, "", ""), till(1, {}, class_number=30))))
    assert gateway.projection.waiting == 2
    assert [type(command) for command in gateway.projection.take(1)] == [DefineClass]
    assert [type(command) for command in gateway.projection.take(9)] == [Register]
    assert gateway.projection.take(9) == []


# ---- the gateway's own MBeans ---------------------------------------------------------------------------


def test_the_gateway_tells_of_itself(gateway: Gateway) -> None:
    gateway.settle()
    shown = gateway.machine.read(GATEWAY)
    assert shown == {
        "Version": "1.2.3",
        "Uuid": "7b0c",
        "Epoch": 1,
        "CoreStartTime": START,
        "FeedConnected": True,
        "FeedStaleSince": None,
        "LastMessageTime": START,
        "FeedMessages": 4,
        "FeedSnapshots": 1,
        "RefusedRecords": 0,
        "UnfitValues": 0,
        "VirtualMachineStarts": 1,
        "Sources": 1,
        "SourcesSynchronised": 1,
        "Objects": 3,
        "StaleObjects": 0,
        "WithheldObjects": 0,
        "ActiveAlarmCount": 0,
        "WorstSeverity": "cleared",
        "EventsEmitted": 0,
        "EventLogState": "unknown",
        **dict.fromkeys(
            f"EventLog{name}"
            for name in (
                *("Detail", "Since", "Committed", "Waiting", "Lost", "Octets", "Segments"),
                *("DeletedFiles", "DeletedOctets"),
            )
        ),
        "Stale": False,
    }


def test_a_source_tells_of_itself(gateway: Gateway) -> None:
    gateway.tell(source(SourceState.DEGRADED, messages=7, protocol_errors=1))
    gateway.settle()
    shown = gateway.machine.read(SOURCE)
    assert {key: shown[key] for key in ("Name", "Number", "Kind", "State", "Detail", "Since")} == {
        "Name": "shop1",
        "Number": 1,
        "Kind": "qmf",
        "State": "degraded",
        "Detail": "a detail",
        "Since": START,
    }
    assert (shown["Messages"], shown["ProtocolErrors"], shown["Octets"]) == (7, 1, 0)
    assert (shown["Objects"], shown["ActiveAlarms"], shown["RecentlyDeleted"]) == (3, (), ())


def test_every_counter_of_a_source_has_an_attribute() -> None:
    assert set(COUNTERS) == set(SHOWN_COUNTERS)


def test_alarms_are_told_while_they_last(gateway: Gateway) -> None:
    gateway.tell(alarm(1), alarm(2, "flooding"))
    gateway.settle()
    shown = gateway.machine.read(SOURCE)
    assert shown["ActiveAlarms"] == (
        ("burning till1", "major since 2023-11-14T22:13:20.000Z: it burns"),
        ("flooding", "major since 2023-11-14T22:13:20.000Z: it burns"),
    )
    assert (shown["ActiveAlarmCount"], shown["WorstSeverity"]) == (2, "major")
    assert gateway.machine.read(GATEWAY)["WorstSeverity"] == "major"
    gateway.tell(alarm(1, cleared=START + 1), alarm(3, "flooding"), alarm(2, "flooding", cleared=START + 1))
    gateway.settle()
    assert gateway.machine.read(SOURCE)["ActiveAlarmCount"] == 1
    gateway.tell(alarm(3, "flooding", cleared=START + 1))
    gateway.settle()
    assert gateway.machine.read(SOURCE)["WorstSeverity"] == "cleared"


def test_alarms_that_a_snapshot_does_not_tell_have_ended(gateway: Gateway) -> None:
    gateway.tell(alarm(1), alarm(2, "flooding"))
    gateway.disconnect()
    gateway.hello(epoch=2)
    gateway.snapshot(source(SourceState.CONNECTING))
    gateway.settle()
    assert gateway.machine.read(SOURCE)["ActiveAlarmCount"] == 2
    gateway.tell(source(), alarm(4, "flooding"))
    gateway.settle()
    assert gateway.machine.read(SOURCE)["ActiveAlarmCount"] == 1


def test_what_was_deleted_lately_is_told_once(gateway: Gateway) -> None:
    gateway.tell(delete(1, number=5), delete(2, number=6))
    gateway.snapshot(source(), *classes(), delete(1, number=5), delete(2, number=6), delete(3, number=7))
    gateway.settle()
    span = "created 2023-11-14T22:13:20.000Z, deleted 2023-11-14T22:13:21.000Z"
    assert gateway.machine.read(SOURCE)["RecentlyDeleted"] == tuple(
        f"shop:till hall1|till{row}#1: {span}" for row in (3, 2, 1)
    )


def test_an_end_that_nobody_told_has_happened_before_it_was_noticed(gateway: Gateway) -> None:
    gateway.tell(replace(delete(1, number=5), deleted=0, created=0))
    gateway.settle()
    assert gateway.machine.read(SOURCE)["RecentlyDeleted"] == (
        "shop:till hall1|till1#1: deleted before 2023-11-14T22:13:22.000Z",
    )


def test_names_are_split_into_buckets_where_that_is_configured() -> None:
    gateway = Gateway(buckets={"shop:till": 16})
    gateway.hello()
    gateway.snapshot(source(), *classes(), hall(), till(1))
    (name,) = [name for name in gateway.machine.names if "type=till" in name]
    assert name.startswith("amqp.gateway:source=shop1,package=shop,type=till,group=")
    assert hall_name() in gateway.machine.names
    assert gateway.machine.read(name)["number"] == 2**64 - 1


def test_the_names_of_positions_are_those_that_these_tests_use() -> None:
    names = [element.name for element in TILL.elements]
    assert [names[p] for p in (NAME, STATE, NEXT, NUMBER, TAGS, SALES, WAITING, IDLE)] == [
        "name",
        "state",
        "next",
        "number",
        "tags",
        "sales",
        "waiting",
        "idle",
    ]
