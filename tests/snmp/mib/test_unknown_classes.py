"""Classes and elements without a shipped registry: a provisional table, and elements without room."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from gateway.feed.records import (
    ClassRecord,
)
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import ValueType
from gateway.snmp import ber
from gateway.snmp.cells import float64
from gateway.snmp.fixed_mib import SUM_ENTRY, SumColumn
from tests.components.shop import agent, hall, source
from tests.snmp.mib.shop import (
    ROOT,
    SITE_ENTRY,
    TILL,
    Gateway,
    classes,
    delete,
    till,
)

SALES, WAITING, NOTE, NOTE_LENGTH = 106, 107, 104, 105


@pytest.fixture
def gateway() -> Gateway:
    """Return a gateway with one source, synchronised, with a hall and two tills."""
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), till(1), till(2))
    return gateway


DOG = ClassSchema(ClassKey("zoo", "dog", b"d"), statistics=(Element("legs", ValueType.U8),))
CAT = replace(DOG, key=ClassKey("zoo", "cat"))


def with_statistics(schema: ClassSchema, *statistics: Element) -> ClassSchema:
    return replace(schema, key=replace(schema.key, hash=b"other"), statistics=statistics)


def test_an_unknown_class_gets_a_provisional_table_and_the_registry_is_kept(gateway: Gateway) -> None:
    gateway.publish(ClassRecord(30, DOG, "", ""), till(1, {0: 4}, class_number=30))
    assert gateway.cell(SITE_ENTRY, 100, 1, 1) == ber.encode_gauge32(4)
    (saved,) = gateway.saved
    assert saved is gateway.projection.provisional
    assert [c.name for c in saved.classes] == ["zoo:dog"]
    assert gateway.cell((*ROOT, 1, 1, 1), 18, 0) == ber.encode_gauge32(1)


@pytest.mark.parametrize(
    ("type_", "reported"), [(ValueType.F32, b"0.1"), (ValueType.F64, b"0.10000000149011612")]
)
def test_beside_a_number_in_octets_stands_its_text(
    gateway: Gateway, type_: ValueType, reported: bytes
) -> None:
    weighed = with_statistics(DOG, Element("weight", type_))
    (weight,) = struct.unpack(">f", struct.pack(">f", 0.1))
    gateway.publish(ClassRecord(30, weighed, "", ""), till(1, {0: weight}, class_number=30))
    assert gateway.cell(SITE_ENTRY, 100, 1, 1) == float64(weight)
    assert gateway.cell(SITE_ENTRY, 101, 1, 1) == ber.encode_octets(reported)
    gateway.publish(till(1, {}, class_number=30))
    assert gateway.walk((*SITE_ENTRY, 100)) == gateway.walk((*SITE_ENTRY, 101)) == {}


BOWL = ClassSchema(
    ClassKey("zoo", "bowl", b"b"),
    statistics=(
        Element("meals", ValueType.U64),
        Element("size", ValueType.U64, unit="octets"),
        Element("idle", ValueType.DURATION),
    ),
)
MEALS, SIZE, IDLE = ((100, 101), (102, 103), (104, 105))


def gauges(gateway: Gateway, columns: tuple[int, int]) -> list[int | None]:
    tlvs = [gateway.cell(SITE_ENTRY, column, 1, 1) for column in columns]
    assert [tlv and tlv[0] for tlv in tlvs] in ([ber.COUNTER64, ber.GAUGE32], [None, None])
    return [None if tlv is None else int.from_bytes(tlv[2:], "big") for tlv in tlvs]


def test_beside_a_gauge_of_64_bits_stands_one_of_32_bits(gateway: Gateway) -> None:
    bowl = till(1, {0: 7, 1: 3 * 1024, 2: 5_000_000}, class_number=30)
    gateway.publish(ClassRecord(30, BOWL, "", ""), bowl)
    assert [gauges(gateway, columns) for columns in (MEALS, SIZE, IDLE)] == [
        [7, 7],
        [3072, 3],
        [5_000_000, 5],
    ]
    gateway.publish(till(1, {0: 2**64 - 1, 1: 2**50}, class_number=30))
    assert gauges(gateway, MEALS) == [2**64 - 1, 2**32 - 1]
    assert gauges(gateway, SIZE) == [2**50, 2**32 - 1]
    assert gauges(gateway, IDLE) == [None, None]
    gateway.publish(delete(1, class_number=30))
    assert gateway.walk(SITE_ENTRY) == {}


def test_while_values_are_withheld_no_gauge_is_shown_and_then_both_are(gateway: Gateway) -> None:
    gateway.publish(ClassRecord(30, BOWL, "", ""), till(1, {0: 7}, class_number=30), agent(fresh=False))
    gateway.wait(600)
    gateway.settle()
    assert gauges(gateway, MEALS) == [None, None]
    gateway.publish(agent(fresh=True))
    gateway.settle()
    assert gauges(gateway, MEALS) == [7, 7]


def test_a_registry_of_an_older_gateway_gets_the_gauges_of_32_bits_and_moves_nothing(
    gateway: Gateway,
) -> None:
    gateway.publish(ClassRecord(30, BOWL, "", ""))
    (class_entry,) = gateway.projection.provisional.classes
    elements = tuple(element.model_copy(update={"twin": None}) for element in class_entry.elements)
    older = gateway.projection.provisional.model_copy(
        update={"classes": (class_entry.model_copy(update={"elements": elements}),)}
    )
    again = Gateway(provisional=older)
    again.hello()
    again.snapshot(
        source(), ClassRecord(30, BOWL, "", ""), agent(fresh=True), till(1, {0: 7}, class_number=30)
    )
    assert gauges(again, (100, 105)) == [7, 7]


def test_the_sum_of_octets_is_also_in_kibibytes_and_another_as_it_is(gateway: Gateway) -> None:
    first, second = (till(row, {0: 2**31, 1: 2**41 + 1}, class_number=30) for row in (1, 2))
    gateway.publish(ClassRecord(30, BOWL, "", ""), first, second)
    sums = {
        index[2]: (gateway.cell((*ROOT, *SUM_ENTRY), SumColumn.GAUGE32_UNITS, *index), tlv)
        for (column, *index), tlv in gateway.walk((*ROOT, *SUM_ENTRY)).items()
        if column == SumColumn.TOTAL_GAUGE32 and index[1] == 1_000_001
    }
    assert sums == {
        100: (ber.encode_octets(b""), ber.encode_gauge32(2**32 - 1)),
        102: (ber.encode_octets(b"kibibytes"), ber.encode_gauge32(2**32 - 1)),
    }


def test_the_provisional_registry_is_kept_once_for_all_classes_of_a_message(gateway: Gateway) -> None:
    gateway.publish(ClassRecord(30, DOG, "", ""), ClassRecord(31, CAT, "", ""))
    assert [len(saved.classes) for saved in gateway.saved] == [2]


def test_a_provisional_registry_that_cannot_be_kept_is_logged_once_and_tried_again(gateway: Gateway) -> None:
    gateway.disk_full = True
    gateway.publish(ClassRecord(30, DOG, "", ""), till(1, {0: 4}, class_number=30))
    gateway.publish(ClassRecord(31, CAT, "", ""))
    assert gateway.cell(SITE_ENTRY, 100, 1, 1) == ber.encode_gauge32(4)
    assert [event for event, _ in gateway.logged] == ["provisional-registry-not-saved"]
    gateway.disk_full = False
    gateway.settle()
    assert [len(saved.classes) for saved in gateway.saved] == [2]


def test_a_provisional_class_keeps_its_numbers_over_a_restart(gateway: Gateway) -> None:
    gateway.publish(ClassRecord(30, DOG, "", ""), ClassRecord(31, CAT, "", ""))
    again = Gateway(provisional=gateway.projection.provisional)
    again.hello()
    again.publish(
        source(),
        ClassRecord(1, CAT, "", ""),
        till(1, {0: 4}, class_number=1),
    )
    assert again.saved == []
    assert again.cell((*ROOT, 3, 1, 2, 1), 100, 1, 1) == ber.encode_gauge32(4)


def test_the_module_of_a_site_is_written_again_when_all_it_names_was_reported_after_a_restart(
    gateway: Gateway,
) -> None:
    gateway.publish(ClassRecord(30, DOG, "", ""), ClassRecord(31, CAT, "", ""))
    again = Gateway(provisional=gateway.projection.provisional)
    again.hello()
    dog = with_statistics(DOG, Element("legs", ValueType.U8, unit="legs"))  # a mapping says more by now
    again.publish(source(), ClassRecord(1, CAT, "", ""))
    assert again.saved == []
    again.publish(ClassRecord(2, dog, "", ""))
    assert again.saved == [gateway.projection.provisional]
    again.publish(ClassRecord(2, dog, "", ""), till(1, {0: 4}, class_number=2))
    assert len(again.saved) == 1


def test_a_wider_version_of_a_provisional_class_shares_the_table(gateway: Gateway) -> None:
    gateway.publish(ClassRecord(30, DOG, "", ""), till(1, {0: 4}, class_number=30))
    wider = with_statistics(DOG, *DOG.statistics, Element("tails", ValueType.U8))
    gateway.publish(ClassRecord(31, wider, "", ""), till(2, {0: 3, 1: 1}, class_number=31))
    assert gateway.walk((*SITE_ENTRY, 100)) == {(1, 1): ber.encode_gauge32(4), (1, 2): ber.encode_gauge32(3)}
    assert gateway.walk((*SITE_ENTRY, 101)) == {(1, 2): ber.encode_gauge32(1)}
    gateway.publish(till(2, {0: 3}, class_number=30))
    assert gateway.walk((*SITE_ENTRY, 101)) == {}


def test_a_class_that_finds_no_room_is_counted_and_logged_once(gateway: Gateway) -> None:
    flood = ClassSchema(
        ClassKey("zoo", "flood"), statistics=tuple(Element(f"e{n}", ValueType.U8) for n in range(3_000))
    )
    gateway.publish(ClassRecord(30, flood, "", ""), ClassRecord(31, flood, "", ""), till(1, class_number=30))
    assert [event for event, _ in gateway.logged] == ["class-not-shown"]
    assert gateway.cell((*ROOT, 1, 1, 1), 19, 0) == ber.encode_gauge32(1)


def test_an_element_that_a_shipped_registry_lacks_is_counted_and_logged_once(gateway: Gateway) -> None:
    newer = with_statistics(TILL, *TILL.statistics, Element("rats", ValueType.U8))
    gateway.publish(ClassRecord(30, newer, "", ""), ClassRecord(31, newer, "", ""))
    gateway.publish(till(3, {4: 5, 6: 1}, class_number=30))
    assert gateway.till(SALES, 3) == ber.encode_counter64(5)
    assert gateway.logged == [
        ("element-not-in-registry", "shop:till.rats: the shipped registry has no number for it")
    ]
    assert gateway.cell((*ROOT, 1, 1, 1), 20, 0) == ber.encode_gauge32(1)


def test_an_element_of_another_type_than_the_registry_is_not_shown(gateway: Gateway) -> None:
    other = with_statistics(TILL, Element("sales", ValueType.STRING))
    gateway.publish(ClassRecord(30, other, "", ""), till(3, {4: "many"}, class_number=30))
    assert gateway.till(SALES, 3) is None
    assert [event for event, _ in gateway.logged] == ["element-not-in-registry"]
