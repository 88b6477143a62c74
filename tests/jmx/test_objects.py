"""MBeans of managed objects: their values, their references, and values that do not fit."""

from __future__ import annotations

import msgspec

from gateway.feed.records import Lifetime
from gateway.model.times import SECOND
from gateway.model.values import Reference
from tests.components.shop import START, source, update
from tests.jmx.shop import (
    GATEWAY,
    IDLE,
    NAME,
    NEXT,
    NUMBER,
    SALES,
    STATE,
    TAGS,
    TILL,
    WAITING,
    Gateway,
    classes,
    delete,
    hall,
    hall_name,
    link,
    till,
    till_name,
)


def test_an_mbean_reports_the_object_and_what_the_gateway_knows_of_it(gateway: Gateway) -> None:
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
        "LastOperation": None,
        "hall": hall_name(),
        "name_": "till1",
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
    bare = msgspec.structs.replace(
        till(3), parent=None, created=0, properties_sampled=0, statistics_sampled=0, reset=0, changed=0
    )
    gateway.publish(bare)
    shown = gateway.till(3)
    times = ("Parent", "CreateTime", "SampleTime", "ChangeTime", "DiscontinuityTime")
    assert [shown[attribute] for attribute in times] == [None] * 5


def test_the_properties_sample_time_stands_for_that_of_statistics_that_were_never_reported(
    gateway: Gateway,
) -> None:
    assert gateway.machine.read(hall_name())["SampleTime"] == START


def test_an_update_changes_what_it_reports_and_nothing_else(gateway: Gateway) -> None:
    before = gateway.till()
    gateway.publish(update(1, {SALES: 99, TAGS: {"b": 1, "a": "x"}}, absent=(STATE,)))
    assert gateway.till() == before | {
        "sales": 99,
        "tags": (("a", "x"), ("b", "1")),
        "state": None,
        "SampleTime": START + 9 * SECOND,
    }


def test_an_object_reported_again_loses_what_it_no_longer_has_and_stays_registered(gateway: Gateway) -> None:
    history = list(gateway.machine.history)
    gateway.publish(till(1, {NAME: "till1"}))
    assert (gateway.till()["sales"], gateway.till()["name_"]) == (None, "till1")
    assert gateway.machine.history == history


def test_a_deleted_object_is_gone_at_once(gateway: Gateway) -> None:
    gateway.publish(delete(1))
    assert gateway.names() == ["till2,id=2"]


def test_a_durable_object_that_comes_back_has_its_name_again(gateway: Gateway) -> None:
    durable = msgspec.structs.replace(till(7), lifetime=Lifetime.DURABLE, stable_name="hall1|till7")
    gateway.publish(durable)
    name = "amqp.gateway:source=shop1,package=shop,type=till,parent=hall1,name=till7"
    gateway.publish(delete(7), durable)
    assert gateway.machine.history[-3:] == [f"+{name}", f"-{name}", f"+{name}"]


def test_a_reference_is_the_name_of_its_target(gateway: Gateway) -> None:
    gateway.publish(update(1, {NEXT: link(2, "shop:till")}))
    assert gateway.till()["next"] == till_name(2)


def test_a_reference_waits_for_its_target(gateway: Gateway) -> None:
    gateway.publish(update(1, {NEXT: link(3, "shop:till")}), update(2, {NEXT: link(3, "shop:till")}))
    assert gateway.till()["next"] is None
    gateway.publish(till(3))
    assert [gateway.till(row)["next"] for row in (1, 2)] == [till_name(3)] * 2


def test_a_reference_that_has_changed_waits_no_longer(gateway: Gateway) -> None:
    gateway.publish(update(1, {NEXT: link(3, "shop:till")}), update(2, {NEXT: link(3, "shop:till")}))
    gateway.publish(update(1, {NEXT: link(2, "shop:till")}), update(2, {}, absent=(NEXT,)))
    gateway.publish(till(3))
    assert [gateway.till(row)["next"] for row in (1, 2)] == [till_name(2), None]


def test_a_parent_that_comes_later_is_a_reference_too() -> None:
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source(), *classes(), till(1), hall())
    assert gateway.till()["Parent"] == gateway.till()["hall"] == hall_name()


def test_an_object_that_is_gone_waits_for_no_other(gateway: Gateway) -> None:
    gateway.publish(update(1, {NEXT: link(3, "shop:till")}), delete(1), till(3))
    assert gateway.names() == ["till2,id=2", "till3,id=3"]


def test_a_reference_that_is_no_link_is_null_and_logged(gateway: Gateway) -> None:
    gateway.publish(update(1, {NEXT: Reference("0-1-1-0-9")}))
    assert gateway.till()["next"] is None
    assert [event for event, _ in gateway.logged] == ["value-not-shown"]


def test_a_statistic_beyond_java_is_null_counted_and_logged_once(gateway: Gateway) -> None:
    gateway.publish(update(1, {SALES: 2**63}), update(2, {SALES: 2**64 - 1, WAITING: 3}))
    assert [gateway.till(row)["sales"] for row in (1, 2)] == [None, None]
    assert gateway.till(2)["waiting"] == 3
    assert gateway.logged == [
        ("value-not-shown", "shop:till.sales: '9223372036854775808' does not fit its type")
    ]
    gateway.settle()
    assert gateway.machine.read(GATEWAY)["UnfitValues"] == 1


def test_positions_that_the_schema_does_not_have_are_passed_over(gateway: Gateway) -> None:
    before = gateway.till()
    gateway.publish(update(1, {99: 1, -1: 1}, absent=(100,)))
    assert gateway.till() == before | {"SampleTime": START + 9 * SECOND}


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
