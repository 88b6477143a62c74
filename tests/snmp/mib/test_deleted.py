"""Changes of agDeletedTable by the feed."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from gateway.feed.latest import HistoryLimits
from gateway.model.times import SECOND
from gateway.snmp import ber
from gateway.snmp.cells import date_and_time
from gateway.snmp.fixed_mib import DELETED, DELETED_ENTRY, HEALTH, DeletedColumn, DeletedScalar, Health
from gateway.snmp.row_columns import RowColumn, RowLifetime
from tests.components.shop import START, agent, hall, source
from tests.snmp.mib.shop import ROOT, TILL_ENTRY, Gateway, classes, delete, end, till

MAX_ROWS = HistoryLimits().ends
ENTRY = (*ROOT, *DELETED_ENTRY)
TRUE, FALSE = ber.encode_integer(1), ber.encode_integer(2)
KNOWN = (source(), *classes(), agent(fresh=True))


def text(value: str) -> bytes:
    return ber.encode_octets(value.encode())


@pytest.fixture
def gateway() -> Gateway:
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(*KNOWN, hall(), till(1), till(2))
    return gateway


def row(gateway: Gateway, number: int) -> dict[int, bytes]:
    return {column: tlv for (column, index), tlv in gateway.walk(ENTRY).items() if index == number}


def row_of(gateway: Gateway, number: int) -> dict[int, bytes]:
    """Return the row of an end that is reported now."""
    gateway.publish(end(number, number))
    return row(gateway, number)


def numbers(gateway: Gateway) -> list[int]:
    return sorted({index for _, index in gateway.walk(ENTRY)})


def scalar(gateway: Gateway, which: DeletedScalar) -> bytes | None:
    return gateway.cell((*ROOT, *DELETED), which, 0)


def test_an_object_that_ends_leaves_its_table_for_this_one(gateway: Gateway) -> None:
    gateway.publish(end(11))
    assert gateway.till(RowColumn.NAME, 1) is None
    assert row(gateway, 11) == {
        DeletedColumn.SOURCE: ber.encode_integer(1),
        DeletedColumn.CLASS: text("shop:till"),
        DeletedColumn.NAME: text("till1"),
        DeletedColumn.FULL_NAME: text("hall1/till1"),
        DeletedColumn.ROW: ber.encode_oid((*TILL_ENTRY, RowColumn.NAME, 1, 1)),
        DeletedColumn.NATIVE_ID: text("0-1-1-0-1"),
        DeletedColumn.LIFETIME: ber.encode_integer(RowLifetime.TRANSIENT),
        DeletedColumn.CREATED: date_and_time(START),
        DeletedColumn.DELETED: date_and_time(START + SECOND),
        DeletedColumn.HEARD: date_and_time(START + 2 * SECOND),
        DeletedColumn.INFERRED: FALSE,
        DeletedColumn.DURATION: ber.encode_counter64(SECOND),
        DeletedColumn.DURATION_MILLISECONDS: ber.encode_gauge32(1_000),
    }


def test_what_was_not_reported_has_no_instance(gateway: Gateway) -> None:
    gateway.publish(end(11, deleted=0), msgspec.structs.replace(end(12, 2, created=0), received=0))
    inferred, without_birth = row(gateway, 11), row(gateway, 12)
    assert inferred[DeletedColumn.INFERRED] == TRUE
    assert not {DeletedColumn.DELETED, DeletedColumn.DURATION} & inferred.keys()
    assert not {DeletedColumn.CREATED, DeletedColumn.HEARD, DeletedColumn.DURATION} & without_birth.keys()


@pytest.mark.parametrize(
    ("lived", "milliseconds"),
    [(0, 0), (1, 1), (3 * SECOND, 3_000), (90 * 86_400 * SECOND, 2**32 - 1)],
)
def test_a_life_in_milliseconds_is_rounded_up_and_ends_at_49_days(
    gateway: Gateway, lived: int, milliseconds: int
) -> None:
    gateway.publish(end(11, deleted=START + lived))
    assert row(gateway, 11)[DeletedColumn.DURATION_MILLISECONDS] == ber.encode_gauge32(milliseconds)


def test_clocks_that_disagree_give_no_duration(gateway: Gateway) -> None:
    gateway.publish(end(11, deleted=START, created=START + SECOND))
    assert DeletedColumn.DURATION not in row(gateway, 11)


def test_an_object_that_came_and_went_in_one_batch_is_reported(gateway: Gateway) -> None:
    gateway.publish(till(9), end(11, 9))
    assert gateway.till(RowColumn.NAME, 9) is None
    assert row(gateway, 11)[DeletedColumn.NAME] == text("till9")


def test_the_oldest_row_leaves_when_there_are_too_many(gateway: Gateway) -> None:
    first = MAX_ROWS + 100
    gateway.publish(*(record for n in range(1, first + 1) for record in (till(n), end(n, n))))
    assert numbers(gateway) == list(range(101, first + 1))
    assert scalar(gateway, DeletedScalar.COUNT) == ber.encode_gauge32(MAX_ROWS)
    assert scalar(gateway, DeletedScalar.LAST) == ber.encode_integer(first)
    assert scalar(gateway, DeletedScalar.TOLD) == ber.encode_counter64(first)


def test_a_source_with_many_ends_leaves_the_rows_of_others(gateway: Gateway) -> None:
    gateway.publish(source(number=2), msgspec.structs.replace(end(1), source=2))
    gateway.publish(*(end(n, n) for n in range(2, MAX_ROWS + 3)))
    assert numbers(gateway) == [1, *range(3, MAX_ROWS + 3)]


def test_rows_are_bounded_by_what_is_in_them(gateway: Gateway) -> None:
    octets = sum(map(len, row_of(gateway, 1).values()))
    small = Gateway(history=HistoryLimits(octets=3 * octets))
    small.hello()
    small.snapshot(*KNOWN)
    small.publish(*(end(n, n) for n in range(1, 6)))
    assert numbers(small) == [3, 4, 5]


def test_the_oldest_row_leaves_also_when_numbers_begin_again(gateway: Gateway) -> None:
    highest = 2**31 - 1
    gateway.publish(*(end(highest - n) for n in reversed(range(MAX_ROWS))))
    gateway.publish(end(1))
    assert 1 in numbers(gateway)
    assert highest - MAX_ROWS + 1 not in numbers(gateway)


def test_an_end_that_is_known_is_passed_over_and_touches_no_row(gateway: Gateway) -> None:
    gateway.publish(end(11))
    gateway.publish(till(1))  # a durable object comes back with its row
    gateway.publish(end(11))
    assert gateway.till(RowColumn.NAME, 1) is not None
    assert scalar(gateway, DeletedScalar.TOLD) == ber.encode_counter64(1)


def test_an_end_in_a_snapshot_is_history_and_touches_no_row(gateway: Gateway) -> None:
    gateway.snapshot(*KNOWN, end(11), end(12, 2), hall(), till(1))
    assert numbers(gateway) == [11, 12]
    assert gateway.till(RowColumn.NAME, 1) is not None
    assert gateway.cell((*ROOT, *HEALTH), Health.FEED_REFUSED, 0) == ber.encode_counter64(0)


def test_a_snapshot_gives_a_new_agent_what_the_old_one_had(gateway: Gateway) -> None:
    gateway.publish(end(11), end(12, 2))
    again = Gateway()
    again.hello()
    again.snapshot(*KNOWN, end(11), end(12, 2), hall())
    assert again.walk(ENTRY) == gateway.walk(ENTRY)


def test_after_a_snapshot_what_it_did_not_report_is_gone(gateway: Gateway) -> None:
    gateway.publish(end(11), end(12, 2))
    gateway.snapshot(*KNOWN, end(12, 2), hall())
    assert numbers(gateway) == [12]
    assert scalar(gateway, DeletedScalar.COUNT) == ber.encode_gauge32(1)


def test_a_core_may_give_a_number_of_the_one_before_to_another_end(gateway: Gateway) -> None:
    gateway.publish(end(11))
    again = msgspec.structs.replace(end(11, 2), received=START + 9 * SECOND)
    gateway.hello(epoch=2)
    gateway.snapshot(*KNOWN, again, hall(), till(1))
    gateway.settle()
    assert row(gateway, 11)[DeletedColumn.NAME] == text("till2")
    assert scalar(gateway, DeletedScalar.TOLD) == ber.encode_counter64(2)


def test_many_rows_leave_in_slices(gateway: Gateway) -> None:
    gateway.publish(*(end(n, n) for n in range(1, 201)))
    gateway.snapshot(*KNOWN, hall(), till(1), till(2))
    assert 0 < len(numbers(gateway)) < 200
    assert gateway.projection.tick()
    gateway.settle()
    assert numbers(gateway) == []


def test_a_row_that_is_reported_again_while_it_was_to_leave_stays(gateway: Gateway) -> None:
    gateway.publish(*(end(n, n) for n in range(1, 201)))
    gateway.snapshot(*KNOWN)
    left = numbers(gateway)[-1]
    gateway.publish(end(left, left))
    gateway.settle()
    assert numbers(gateway) == [left]


def test_the_end_of_an_object_of_a_class_without_a_table_has_no_row_to_point_to(gateway: Gateway) -> None:
    flood = replace(
        classes()[0].schema,
        key=replace(classes()[0].schema.key, package="zoo", name="flood"),
        statistics=tuple(replace(classes()[0].schema.properties[0], name=f"e{n}") for n in range(2_001)),
    )
    gateway.publish(
        msgspec.structs.replace(classes()[0], number=99, schema=flood),
        msgspec.structs.replace(end(11), class_number=99),
    )
    assert row(gateway, 11)[DeletedColumn.CLASS] == text("zoo:flood")
    assert row(gateway, 11)[DeletedColumn.ROW] == ber.encode_oid((0, 0))


def test_an_end_without_a_number_only_takes_its_row_away_if_no_other_version_follows(
    gateway: Gateway,
) -> None:
    gateway.publish(msgspec.structs.replace(delete(1), number=0))
    assert gateway.till(RowColumn.NAME, 1) is not None
    gateway.publish()  # the batch that would show it in another version of its class
    assert gateway.till(RowColumn.NAME, 1) is None
    assert numbers(gateway) == []


def test_an_end_in_an_unknown_class_is_counted(gateway: Gateway) -> None:
    gateway.publish(msgspec.structs.replace(end(11), class_number=77))
    assert numbers(gateway) == []
    assert gateway.cell((*ROOT, *HEALTH), Health.FEED_REFUSED, 0) == ber.encode_counter64(1)
