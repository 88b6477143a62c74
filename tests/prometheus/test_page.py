"""Objects are shown as long as they are fresh, in the form that Prometheus reads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_string_to_metric_families,
)

from gateway.feed.records import ClassRecord, DeleteRecord, ObjectRecord, Record
from gateway.feed.values import FeedValue
from gateway.model.observations import Counting, SourceState
from gateway.model.schema import ClassKey, ClassSchema, Element, Kind
from gateway.model.values import ValueType
from gateway.prometheus import objects as page_of_objects
from gateway.prometheus.objects import LEFT_OUT, NAME_TAKEN, SERIES, SOURCE_UP, UP, KeptCounters
from tests.components.prometheus import promtool
from tests.components.shop import (
    START,
    TILL_CLASS,
    agent,
    agent_gone,
    hall,
    hall_link,
    source,
    till_record,
    update,
)
from tests.prometheus.shop import COINS, HALL, LAST_SALE, MODE, SALES, TAPE, TILL, Gateway

VALUES = {COINS: 7, SALES: 2**53, TAPE: 4096, LAST_SALE: START, MODE: 1}


def till(row: int = 1, *, agent_name: str = "1.0", name: str = "") -> Record:
    named = name or f"till{row}"
    return till_record(row, f"hall1|{named}", {0: hall_link(), 1: named, **VALUES}, agent_name=agent_name)


def gateway(*more: Record, kept: Sequence[KeptCounters] = ()) -> Gateway:
    shown = Gateway(kept=kept)
    shown.hello()
    shown.snapshot(source(), agent(fresh=True), HALL, TILL, hall(values={1: True}), till(), *more)
    return shown


def test_a_till_as_prometheus_reads_it() -> None:
    labels = (("agent", "1.0"), ("hall_ref", "hall1"), ("name", "till1"), ("source", "shop1"))
    assert gateway().series("amqp_shop_till_") == {
        ("amqp_shop_till_coins", labels): 7,
        ("amqp_shop_till_sales_total", labels): 2**53,
        ("amqp_shop_till_tape_bytes", labels): 4096,
        ("amqp_shop_till_last_sale_timestamp_seconds", labels): START / 1e9,
        ("amqp_shop_till_mode", (*labels, ("state", "busy"))): 1,
    }


def test_a_boolean_is_0_or_1() -> None:
    assert gateway().value("amqp_shop_hall_open", name="hall1") == 1


def test_changes_are_shown_and_what_has_no_value_is_not() -> None:
    shown = gateway()
    shown.publish(update(1, {COINS: 8}, (TAPE,)))
    assert shown.value("amqp_shop_till_coins") == 8
    assert shown.value("amqp_shop_till_tape_bytes") is None


def sales(shown: Gateway) -> float | None:
    return shown.value("amqp_shop_till_sales_total")


LATER = START + 10**9


def test_a_counter_continues_with_an_offset_where_it_falls() -> None:
    """Prometheus takes a fall for a beginning from zero, and would count the whole value again."""
    shown = gateway()
    before = sales(shown)
    for value, expected in ((1000, 0), (1010, 10), (990, 10), (1000, 20), (2**53 + 8, 20), (2**53 + 24, 24)):
        shown.publish(update(1, {SALES: value}))
        assert (sales(shown) or 0) - (before or 0) == expected


def test_a_counter_that_was_less_for_a_moment_is_shown_as_it_is() -> None:
    shown = gateway()
    for value in (700, 2**53 + 2):
        shown.publish(update(1, {SALES: value}))
    assert sales(shown) == 2**53 + 2


def test_a_counter_that_was_absent_does_not_fall() -> None:
    shown = gateway()
    shown.publish(update(1, {}, (SALES,)))
    assert sales(shown) is None
    shown.publish(update(1, {SALES: 700}))
    assert sales(shown) == 2**53


def test_a_counter_falls_where_its_source_proves_that_it_began_again() -> None:
    shown = gateway()
    shown.publish(update(1, {SALES: 700}))
    began = msgspec.structs.replace(update(1, {SALES: 7}), counting=Counting.BEGAN, reset=LATER)
    shown.publish(began)
    assert sales(shown) == 7
    shown.publish(msgspec.structs.replace(update(1, {SALES: 5}), reset=LATER + 1))
    assert sales(shown) == 7


def test_a_counter_continues_over_another_snapshot() -> None:
    shown = gateway()
    shown.publish(update(1, {SALES: 700}))
    fallen = till()
    assert isinstance(fallen, ObjectRecord)
    fallen = msgspec.structs.replace(fallen, values={**fallen.values, SALES: 704})
    shown.hello(epoch=2)
    shown.snapshot(source(), agent(fresh=True), HALL, TILL, hall(values={1: True}), fallen)
    assert sales(shown) == 2**53 + 4


def fallen_till(value: int, **changes: object) -> ObjectRecord:
    """Return a second till with less than it was shown with, of which the process before has an offset."""
    record = till(2)
    assert isinstance(record, ObjectRecord)
    return msgspec.structs.replace(record, values={**record.values, SALES: value}, **changes)


def kept_offsets() -> list[KeptCounters]:
    """Return the offsets of a process that showed 1000, and 700 with an offset of 300."""
    shown = gateway(fallen_till(1000))
    shown.publish(update(2, {SALES: 700}))
    return shown.objects.kept()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 1004),
        ({"reset": LATER}, 1004),
        ({"reset": LATER, "counting": Counting.UNKNOWN}, 1004),
        ({"reset": LATER, "counting": Counting.BEGAN}, 704),
        ({"created": LATER}, 704),
        ({"created": 0}, 1004),
    ],
    ids=["goes on", "core started again", "unknown", "began again", "another till", "no log"],
)
def test_a_counter_continues_in_the_next_process(changes: dict[str, object], expected: int) -> None:
    kept = kept_offsets()
    shown = gateway(fallen_till(704, **changes), kept=kept)
    assert shown.value("amqp_shop_till_sales_total", name="till2") == expected
    shown.publish(update(2, {SALES: 705}))
    assert shown.value("amqp_shop_till_sales_total", name="till2") == expected + 1
    if not changes:
        (till_2,) = (one for one in shown.objects.kept() if one.stable_name.endswith("till2"))
        assert till_2.counters == {"amqp_shop_till_sales": (300, 1000, 705)}


@pytest.mark.parametrize(("fallen", "shows"), [(7, 1000), (700, 1000), (1000, 1000), (1200, 1200)], ids=str)
def test_a_counter_that_fell_between_two_processes_is_not_shown_with_less(fallen: int, shows: int) -> None:
    """Prometheus read 1000 of the first one; that it did not begin again is all that is known."""
    shown = gateway(fallen_till(fallen, reset=LATER), kept=gateway(fallen_till(1000)).objects.kept())
    assert shown.value("amqp_shop_till_sales_total", name="till2") == shows
    shown.publish(msgspec.structs.replace(update(2, {SALES: fallen + 5}), reset=LATER))
    assert shown.value("amqp_shop_till_sales_total", name="till2") == shows + 5


def test_of_too_many_objects_those_are_kept_whose_counters_continue_with_an_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_of_objects, "MAX_KEPT", 1)
    (kept,) = kept_offsets()
    assert kept.counters == {"amqp_shop_till_sales": (300, 1000, 700)}


def test_a_source_that_is_not_configured_any_more_takes_no_place_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [msgspec.structs.replace(one, source="removed") for one in kept_offsets()]
    shown = gateway(fallen_till(1000), kept=left)
    assert [one.source for one in shown.objects.kept()] == ["shop1", "shop1", "removed", "removed"]
    monkeypatch.setattr(page_of_objects, "MAX_KEPT", 2)
    assert [one.source for one in shown.objects.kept()] == ["shop1", "shop1"]


def test_a_counter_that_is_absent_meanwhile_continues_in_the_next_process() -> None:
    shown = gateway(fallen_till(1000))
    shown.publish(update(2, {}, (SALES,)))
    shown = gateway(fallen_till(700), kept=shown.objects.kept())
    assert shown.value("amqp_shop_till_sales_total", name="till2") == 1000


def test_offsets_of_a_source_that_is_not_read_yet_are_kept_on() -> None:
    kept = kept_offsets()
    shown = Gateway(kept=kept)
    shown.hello()
    shown.snapshot(source(SourceState.SYNCHRONISING))
    assert shown.objects.kept() == kept
    names = [one.stable_name for one in gateway(kept=kept).objects.kept()]
    assert not [one for one in names if one.endswith("till2")], "it has no such object"


@given(st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=30))
def test_a_counter_is_never_shown_with_less_whatever_is_read(readings: list[int | None]) -> None:
    shown = gateway()
    last = 0.0
    shown.publish(msgspec.structs.replace(update(1, {SALES: 0}), counting=Counting.BEGAN, reset=LATER))
    for value in readings:
        shown.publish(update(1, {}, (SALES,)) if value is None else update(1, {SALES: value}))
        now = sales(shown)
        if value is not None:
            assert now is not None
            assert now >= max(last, value)
            last = now


def test_series_of_what_is_gone_disappear() -> None:
    shown = gateway(till(2))
    shown.publish(DeleteRecord(1, TILL_CLASS, 1, "hall1|till1", START, inferred=False, number=1))
    assert {dict(labels)["name"] for _, labels in shown.series("amqp_shop_till_")} == {"till2"}


def test_nothing_is_shown_of_a_source_that_is_not_trusted() -> None:
    shown = gateway()
    for state, trusted in (
        (SourceState.DOWN, False),
        (SourceState.CONNECTING, False),
        (SourceState.DEGRADED, True),
        (SourceState.SYNCHRONISED, True),
    ):
        shown.publish(source(state))
        assert shown.value(SOURCE_UP, source="shop1") == trusted
        assert bool(shown.series()) == trusted


def test_nothing_is_shown_of_a_silent_agent() -> None:
    shown = gateway(agent(fresh=True, name="2.0"), till(2, agent_name="2.0"))
    shown.publish(agent(fresh=False))
    assert {dict(labels)["agent"] for _, labels in shown.series()} == {"2.0"}
    shown.publish(agent_gone())
    shown.publish(agent(fresh=True), hall(values={1: True}), till())
    assert {dict(labels)["agent"] for _, labels in shown.series()} == {"1.0", "2.0"}


def test_nothing_is_shown_without_the_core_or_before_it_has_reported_everything() -> None:
    shown = gateway()
    assert shown.value(UP) == 1
    shown.disconnect()
    assert (shown.value(UP), shown.series()) == (0, {})
    shown.hello(2)
    shown.begin_snapshot(source(), agent(fresh=True), HALL, TILL, hall(), till())
    assert (shown.value(UP), shown.series()) == (0, {})


def test_what_a_second_snapshot_does_not_report_is_gone() -> None:
    """The core sends a new snapshot to a subscriber that reads too slowly; known objects stay meanwhile."""
    shown = gateway(till(2))
    shown.begin_snapshot(source(), agent(fresh=True), HALL, TILL)
    assert shown.value("amqp_shop_till_coins", name="till2") == 7
    shown.snapshot(source(), agent(fresh=True), hall(), till())
    assert shown.value("amqp_shop_till_coins", name="till2") is None
    assert shown.value("amqp_shop_till_coins", name="till1") == 7


def test_of_two_with_the_same_labels_the_younger_is_shown() -> None:
    shown = gateway(till(9, name="till1"))
    shown.publish(update(9, {COINS: 99}))
    assert shown.value("amqp_shop_till_coins", name="till1") == 99


def taken(shown: Gateway, class_name: str, what: str) -> float | None:
    return shown.value(NAME_TAKEN, **{"class": class_name, "what": what})


def test_those_with_the_labels_of_a_younger_one_are_counted() -> None:
    shown = gateway(till(8, name="till1"), till(9, name="till1"))
    assert (taken(shown, "shop:till", "object"), taken(shown, "shop:hall", "object")) == (2, 0)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_of_classes_with_one_name_here_that_with_small_letters_is_shown(order: tuple[int, ...]) -> None:
    classes = []
    objects = []
    for place, (package, name) in enumerate([("p1", "thing"), ("p1", "Thing"), ("P1", "thing")]):
        schema = ClassSchema(ClassKey(package, name), (Element("depth", ValueType.U32),))
        classes.append(ClassRecord(50 + place, schema, "", ""))
        objects.append(msgspec.structs.replace(hall(1), class_number=50 + place, values={0: 100 + place}))
    shown = gateway(*(classes[place] for place in order), *objects)
    assert list(shown.series("amqp_p1_thing_depth").values()) == [100]
    counted = {name: taken(shown, name, "element") for name in ("p1:thing", "p1:Thing", "P1:thing")}
    assert counted == {"p1:thing": 0, "p1:Thing": 1, "P1:thing": 1}


def test_names_of_elements_and_labels_that_become_one() -> None:
    names = ("a-b", "a.b", "depth", "Depth")
    elements = (
        *(Element(name, ValueType.STRING, index=True) for name in ("x-y", "x.y", "source")),
        *(Element(name, ValueType.U32) for name in names),
    )
    record = ClassRecord(50, ClassSchema(ClassKey("shop", "Shelf"), elements), "", "")
    values = dict(enumerate(("left", "right", "us", 1, 2, 3, 4)))
    shelf = msgspec.structs.replace(hall(1), class_number=50, values=values)
    shown = gateway(record, shelf)
    found = {name: dict(labels) for name, labels in shown.series("amqp_shop_shelf_")}
    assert {name: shown.value(name) for name in found} == {
        "amqp_shop_shelf_a_b": 1,
        "amqp_shop_shelf_depth": 3,
    }
    expected = {"x_y": "left", "x_y_2": "right", "object_source": "us", "source": "shop1", "agent": "1.0"}
    assert found["amqp_shop_shelf_depth"] == expected
    assert taken(shown, "shop:Shelf", "element") == 2


def test_no_class_has_the_names_of_the_page_itself() -> None:
    schema = ClassSchema(ClassKey("gateway", "objects"), (Element("series", ValueType.U32),))
    own = msgspec.structs.replace(hall(1), class_number=50, values={0: 100})
    shown = gateway(ClassRecord(50, schema, "", ""), own)
    assert shown.value(SERIES) == 6
    assert taken(shown, "gateway:objects", "element") == 1


def read_strictly(shown: Gateway) -> dict[str, float]:
    """Return the samples of shelves by their names; promtool, too, must be able to read the page."""
    checked = promtool("check", "metrics", text=shown.text())
    assert "error while linting" not in checked.stderr, checked.stderr
    text = shown.text(accept="application/openmetrics-text; version=1.0.0")
    return {
        sample.name.removeprefix("amqp_shop_shelf_"): sample.value
        for family in openmetrics_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
        if sample.name.startswith("amqp_shop_shelf_")
    }


def shelf_record(class_number: int, *elements: Element) -> ClassRecord:
    return ClassRecord(class_number, ClassSchema(ClassKey("shop", "Shelf"), elements), "", "")


def shelf(row: int, class_number: int, *values: FeedValue) -> ObjectRecord:
    return msgspec.structs.replace(
        hall(row), class_number=class_number, stable_name=f"shelf{row}", values=dict(enumerate(values))
    )


COUNTER: Callable[[str], Element] = functools.partial(Element, type=ValueType.U64, kind=Kind.COUNTER)
GAUGE: Callable[[str], Element] = functools.partial(Element, type=ValueType.U64)


@pytest.mark.parametrize(
    "suffix", ["Total", "Created", "Info", "Bucket", "Sum", "Count", "Gsum", "Gcount", ""]
)
@pytest.mark.parametrize("other", [COUNTER, GAUGE], ids=["counter", "gauge"])
def test_no_ending_of_a_name_makes_a_page_that_is_refused(
    suffix: str, other: Callable[[str], Element]
) -> None:
    columns = (GAUGE(f"Sales{suffix}"), COUNTER("sales"), other(f"sales{suffix}_x"), other(f"x{suffix}"))
    shown = gateway(shelf_record(50, *columns), shelf(1, 50, 1, 2, 3, 4))
    found = read_strictly(shown)
    assert found["sales_total"] == 2
    counted = taken(shown, "shop:Shelf", "element")
    assert counted == 4 - len(found)
    assert (counted == 1) == (suffix in ("Total", "Created", ""))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_versions_of_a_class_whose_names_collide(order: tuple[int, int]) -> None:
    versions = [
        shelf_record(50, COUNTER("sales"), GAUGE("depth")),
        shelf_record(51, GAUGE("salesCreated"), COUNTER("depth"), GAUGE("salesTotal")),
    ]
    shown = gateway(*(versions[place] for place in order), shelf(1, 50, 1, 2), shelf(2, 51, 3, 4, 5))
    assert read_strictly(shown) == {"sales_total": 1, "depth_total": 4}
    assert taken(shown, "shop:Shelf", "element") == 3


def test_objects_beyond_the_bound_are_left_out_whole_and_counted() -> None:
    shown = gateway(*map(till, range(2, 11)))
    per_till = 5
    series = shown.series(max_series=1 + 4 * per_till + 3)
    assert len(series) == 1 + 4 * per_till
    reported = shown.text(max_series=1 + 4 * per_till + 3)
    assert f'{LEFT_OUT}{{class="shop:till"}} 6.0' in reported
    assert f'{LEFT_OUT}{{class="shop:hall"}} 0.0' in reported
    assert f"{SERIES} {1 + 4 * per_till}.0" in reported


def test_only_what_was_chosen_is_shown() -> None:
    shown = Gateway(classes={"shop:till": ["coins"]})
    shown.hello()
    shown.snapshot(source(), agent(fresh=True), HALL, TILL, hall(values={1: True}), till())
    shown.publish(update(1, {SALES: 5}))
    assert {name for name, _ in shown.series()} == {"amqp_shop_till_coins"}


def test_two_versions_of_a_class_are_one_family() -> None:
    other = msgspec.structs.replace(TILL, number=21)
    moved = msgspec.structs.replace(
        till_record(3, "hall1|till3", {0: hall_link(), 1: "till3", **VALUES}), class_number=21
    )
    shown = gateway(other, moved)
    assert {dict(labels)["name"] for _, labels in shown.series("amqp_shop_till_coins")} == {"till1", "till3"}


def test_open_metrics_are_sent_when_they_are_asked_for() -> None:
    text = gateway().text(accept="application/openmetrics-text; version=1.0.0")
    reported = {family.name: family.type for family in openmetrics_string_to_metric_families(text)}  # type: ignore[no-untyped-call]
    assert reported["amqp_shop_till_sales"] == "counter"


@given(st.text(max_size=40))
def test_any_name_of_an_object_comes_back_as_it_was(name: str) -> None:
    shown = Gateway()
    shown.hello()
    shown.snapshot(source(), agent(fresh=True), HALL, TILL, till(name=name or "x"))
    text = shown.text(accept="application/openmetrics-text; version=1.0.0")
    names = {
        sample.labels["name"]
        for family in openmetrics_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
        if "name" in sample.labels
    }
    assert names == {name or "x"}
