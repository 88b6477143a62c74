"""Changes of agAlarmTable by the feed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.records import AlarmRecord, SnapshotBegan, SnapshotEnded
from gateway.model.observations import EventState, Severity, SourceState
from gateway.model.times import SECOND
from gateway.snmp import ber
from gateway.snmp.ber import NO_ROW
from gateway.snmp.cells import date_and_time
from gateway.snmp.fixed_mib import (
    ALARM_ENTRY,
    ALARMS,
    NOTIFICATIONS,
    SOURCE_ENTRY,
    AlarmColumn,
    AlarmScalar,
    OwnNotification,
    SeverityNumber,
    SourceColumn,
)
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.store import Store
from gateway.snmp.tables.alarms import AlarmTable
from tests.components.shop import START, agent, agent_gone, hall, source
from tests.snmp.mib.shop import ROOT, TILL_ENTRY, Gateway, alarm, classes, link, till

ENTRY = (*ROOT, *ALARM_ENTRY)
TRUE, FALSE = ber.encode_integer(1), ber.encode_integer(2)
EVERYTHING = (source(), *classes(), agent(fresh=True), hall(), till(1), till(2))


def text(value: str) -> bytes:
    return ber.encode_octets(value.encode())


@pytest.fixture
def gateway() -> Gateway:
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(*EVERYTHING)
    return gateway


def row(gateway: Gateway, number: int) -> dict[int, bytes]:
    return {column: tlv for (column, index), tlv in gateway.walk(ENTRY).items() if index == number}


def active(gateway: Gateway) -> set[int]:
    return {index for _, index in gateway.walk(ENTRY)}


def stale(gateway: Gateway, number: int) -> bytes | None:
    return gateway.cell(ENTRY, AlarmColumn.STALE, number)


def scalar(gateway: Gateway, which: AlarmScalar) -> bytes | None:
    return gateway.cell((*ROOT, *ALARMS), which, 0)


def of_source(gateway: Gateway, column: SourceColumn, number: int = 1) -> bytes | None:
    return gateway.cell((*ROOT, *SOURCE_ENTRY), column, number)


def test_an_alarm_is_a_row_until_it_is_cleared(gateway: Gateway) -> None:
    gateway.publish(alarm(5, subject=link()))
    assert row(gateway, 5) == {
        AlarmColumn.SOURCE: ber.encode_integer(1),
        AlarmColumn.NAME: text("robbery"),
        AlarmColumn.SEVERITY: ber.encode_integer(SeverityNumber.CRITICAL),
        AlarmColumn.CONDITION: text("robbery till1"),
        AlarmColumn.CLASS: text("shop:till"),
        AlarmColumn.OBJECT_NAME: text("hall1/till1"),
        AlarmColumn.ROW: ber.encode_oid((*TILL_ENTRY, RowColumn.NAME, 1, 1)),
        AlarmColumn.TEXT: text("robbery till1!"),
        AlarmColumn.SINCE: date_and_time(START),
        AlarmColumn.EVENT_ID: text("7b0c.1.5"),
        AlarmColumn.STALE: FALSE,
    }
    gateway.publish(alarm(5, subject=link(), cleared=START + SECOND))
    assert gateway.walk(ENTRY) == {}


def test_an_alarm_without_an_object_points_nowhere(gateway: Gateway) -> None:
    gateway.publish(msgspec.structs.replace(alarm(5), raised=0))
    cells = row(gateway, 5)
    assert cells[AlarmColumn.ROW] == ber.encode_oid((0, 0))
    assert cells[AlarmColumn.CLASS] == cells[AlarmColumn.OBJECT_NAME] == text("")
    assert AlarmColumn.SINCE not in cells


def test_alarms_are_counted_by_severity_and_by_source(gateway: Gateway) -> None:
    assert scalar(gateway, AlarmScalar.ACTIVE) == ber.encode_gauge32(0)
    assert of_source(gateway, SourceColumn.WORST_ALARM) == ber.encode_integer(SeverityNumber.CLEARED)
    severities = [Severity.CRITICAL, Severity.MINOR, Severity.MINOR, Severity.WARNING, Severity.INFO]
    gateway.publish(*(alarm(n, f"c{n}", severity=severity) for n, severity in enumerate(severities, 1)))
    counts = [
        (AlarmScalar.ACTIVE, 5),
        (AlarmScalar.CRITICAL, 1),
        (AlarmScalar.MAJOR, 0),
        (AlarmScalar.MINOR, 2),
        (AlarmScalar.WARNING, 1),
        (AlarmScalar.INFO, 1),
    ]
    assert [scalar(gateway, which) for which, _ in counts] == [ber.encode_gauge32(n) for _, n in counts]
    assert of_source(gateway, SourceColumn.ACTIVE_ALARMS) == ber.encode_gauge32(5)
    assert of_source(gateway, SourceColumn.WORST_ALARM) == ber.encode_integer(SeverityNumber.CRITICAL)
    gateway.publish(alarm(1, "c1", cleared=START + SECOND))
    assert scalar(gateway, AlarmScalar.CRITICAL) == ber.encode_gauge32(0)
    assert of_source(gateway, SourceColumn.ACTIVE_ALARMS) == ber.encode_gauge32(4)
    assert of_source(gateway, SourceColumn.WORST_ALARM) == ber.encode_integer(SeverityNumber.MINOR)


def test_an_alarm_may_become_worse(gateway: Gateway) -> None:
    gateway.publish(alarm(1, severity=Severity.WARNING))
    gateway.publish(alarm(1, severity=Severity.MAJOR))
    assert row(gateway, 1)[AlarmColumn.SEVERITY] == ber.encode_integer(SeverityNumber.MAJOR)
    assert scalar(gateway, AlarmScalar.ACTIVE) == ber.encode_gauge32(1)
    assert scalar(gateway, AlarmScalar.WARNING) == ber.encode_gauge32(0)


def test_the_last_change_is_that_of_the_conditions_not_of_their_reports(gateway: Gateway) -> None:
    assert scalar(gateway, AlarmScalar.LAST_CHANGE) is None
    gateway.publish(alarm(1))
    gateway.now += 50 * SECOND
    gateway.publish(alarm(1))
    assert scalar(gateway, AlarmScalar.LAST_CHANGE) == date_and_time(START)
    gateway.publish(alarm(1, cleared=START + 9 * SECOND))
    assert scalar(gateway, AlarmScalar.LAST_CHANGE) == date_and_time(START + 9 * SECOND)


def test_an_alarm_is_stale_with_its_objects_row(gateway: Gateway) -> None:
    gateway.publish(
        agent(fresh=True, name="2.0"),
        till(3, agent_name="2.0"),
        alarm(1, "one", subject=link(1)),
        alarm(3, "three", subject=link(3)),
    )
    gateway.publish(agent(fresh=False, name="2.0"))
    assert (stale(gateway, 1), stale(gateway, 3)) == (FALSE, TRUE)
    gateway.publish(agent(fresh=True, name="2.0"))
    assert stale(gateway, 3) == FALSE


def test_an_alarm_without_a_row_is_stale_with_any_agent_of_its_source(gateway: Gateway) -> None:
    gateway.publish(alarm(1), source(number=2), agent(fresh=True, number=2), alarm(2, number_of_source=2))
    gateway.publish(agent(fresh=False))
    assert (stale(gateway, 1), stale(gateway, 2)) == (TRUE, FALSE)
    gateway.publish(agent(fresh=True), source(SourceState.DOWN))
    assert (stale(gateway, 1), stale(gateway, 2)) == (TRUE, FALSE)


def test_an_alarm_without_a_row_is_not_stale_for_an_agent_that_is_gone(gateway: Gateway) -> None:
    gateway.publish(alarm(1), agent(fresh=False, name="2.0"))
    assert stale(gateway, 1) == TRUE
    gateway.publish(agent_gone("2.0"))
    assert stale(gateway, 1) == FALSE


def test_that_a_source_is_down_is_trusted_while_it_is(gateway: Gateway) -> None:
    gateway.publish(source(SourceState.DOWN), alarm(1, "sourceDown", name="sourceDown"), alarm(2, "two"))
    assert (stale(gateway, 1), stale(gateway, 2)) == (FALSE, TRUE)
    gateway.disconnect()
    assert stale(gateway, 1) == TRUE


def test_a_snapshot_of_the_same_core_takes_away_what_it_does_not_report(gateway: Gateway) -> None:
    gateway.publish(alarm(1, "one"), alarm(2, "two"))
    gateway.snapshot(*EVERYTHING, alarm(2, "two"))
    assert active(gateway) == {2}
    assert scalar(gateway, AlarmScalar.ACTIVE) == ber.encode_gauge32(1)


def test_alarms_stay_stale_until_a_new_core_has_synchronised_their_source(gateway: Gateway) -> None:
    gateway.publish(alarm(1, "one"), alarm(2, "two"))
    gateway.disconnect()
    assert stale(gateway, 1) == TRUE
    gateway.hello(epoch=2)
    gateway.snapshot(source(SourceState.CONNECTING))
    gateway.settle()
    assert active(gateway) == {1, 2}
    assert stale(gateway, 2) == TRUE
    gateway.publish(source(SourceState.SYNCHRONISING), alarm(7, "two"))  # the same condition, by a new number
    assert active(gateway) == {1, 7}
    gateway.publish(source(SourceState.SYNCHRONISED))
    assert active(gateway) == {7}
    assert stale(gateway, 7) == FALSE


def test_the_alarms_of_a_source_that_is_not_configured_any_more_are_gone(gateway: Gateway) -> None:
    gateway.publish(alarm(1))
    gateway.snapshot(source(number=2), alarm(2, number_of_source=2))
    assert active(gateway) == {2}
    assert of_source(gateway, SourceColumn.ACTIVE_ALARMS, 2) == ber.encode_gauge32(1)
    gateway.snapshot(source(number=1), source(number=2), alarm(2, number_of_source=2))
    assert of_source(gateway, SourceColumn.ACTIVE_ALARMS) == ber.encode_gauge32(0)


def test_a_flood_of_alarms_meets_a_bound_and_is_counted() -> None:
    store = Store()
    table = AlarmTable(store, ROOT, lambda _record, _generation: False, limit=3)
    for number in range(1, 6):
        table.show(alarm(number, f"c{number}"), NO_ROW, 1)
    table.show(alarm(2, "c2", severity=Severity.INFO), NO_ROW, 1)
    table.show(alarm(5, "c5", cleared=START), NO_ROW, 1)
    assert len(table) == 3
    assert store.get((*ENTRY, AlarmColumn.SEVERITY, 2)) == ber.encode_integer(SeverityNumber.INFO)
    assert store.get((*ROOT, *ALARMS, AlarmScalar.NOT_SHOWN, 0)) == ber.encode_counter64(2)


def test_many_alarms_are_called_stale_in_slices(gateway: Gateway) -> None:
    gateway.publish(*(alarm(n, f"c{n}") for n in range(1, 101)))
    gateway.publish(source(SourceState.DOWN))
    reported = list(gateway.walk((*ENTRY, AlarmColumn.STALE)).values())
    assert 0 < reported.count(TRUE) < 100
    assert gateway.projection.tick()
    gateway.settle()
    assert set(gateway.walk((*ENTRY, AlarmColumn.STALE)).values()) == {TRUE}


def test_what_lasts_is_reported_only_while_its_source_is_read(gateway: Gateway) -> None:
    projection = gateway.projection

    def standing() -> tuple[set[str], bool] | None:
        alarms = projection.active_alarms()
        return None if alarms is None else (set(alarms["shop1"].conditions), alarms["shop1"].complete)

    gateway.publish(alarm(1, "one"), alarm(2, "two"))
    assert standing() == ({"one", "two"}, True)
    gateway.publish(alarm(1, "one", cleared=START))
    assert standing() == ({"two"}, True)
    gateway.publish(agent(fresh=False))
    assert standing() == ({"two"}, False)
    gateway.publish(agent(fresh=True))
    projection.disconnected("reset")
    assert standing() is None
    gateway.hello(epoch=2)
    projection.received(SnapshotBegan(2, 1))
    gateway.publish(*EVERYTHING)
    assert standing() is None
    projection.received(SnapshotEnded(2, 1))
    assert standing() == (set(), True)  # also before the row of the alarm that ended unseen has left


def test_an_alarm_that_lasts_is_reachable_as_a_notification(gateway: Gateway) -> None:
    gateway.publish(alarm(1, "one"))
    reported = gateway.projection.alarm_notification("shop1", "one")
    assert reported is not None
    assert reported.oid == (*ROOT, *NOTIFICATIONS, OwnNotification.ALARM_RAISED)
    assert (reported.name, reported.number, reported.event_id) == (
        "gateway:alarmRaised",
        0,
        alarm(1, "one").event_id,
    )
    assert (reported.state, reported.condition, reported.source) == (EventState.RAISED, "one", "shop1")
    assert gateway.projection.alarm_notification("shop1", "two") is None
    assert gateway.projection.alarm_notification("nobody", "one") is None


_steps = st.lists(
    st.one_of(
        st.builds(
            alarm,
            st.integers(1, 8),
            st.sampled_from(["a", "b", "c"]),
            severity=st.sampled_from([Severity.INFO, Severity.MAJOR]),
            cleared=st.sampled_from([0, START]),
        ),
        st.just("snapshot"),
        st.just("restart"),
    ),
    max_size=30,
)


@given(_steps)
def test_no_condition_stands_twice_and_every_count_is_that_of_the_rows(
    steps: list[AlarmRecord | str],
) -> None:
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(*EVERYTHING)
    known: dict[int, AlarmRecord] = {}
    for step in steps:
        if isinstance(step, AlarmRecord):
            gateway.publish(step)
            known = {
                n: record for n, record in known.items() if record.condition != step.condition or step.cleared
            }
            known.pop(step.number, None)
            if not step.cleared:
                known[step.number] = step
        else:
            gateway.hello(gateway.epoch + (step == "restart"))
            gateway.snapshot(*EVERYTHING, *known.values())
            gateway.settle()
        conditions = list(gateway.walk((*ENTRY, AlarmColumn.CONDITION)).values())
        assert len(conditions) == len(set(conditions))
        assert active(gateway) == set(known)
        assert scalar(gateway, AlarmScalar.ACTIVE) == ber.encode_gauge32(len(known))
        majors = sum(record.severity is Severity.MAJOR for record in known.values())
        assert scalar(gateway, AlarmScalar.MAJOR) == ber.encode_gauge32(majors)
        assert of_source(gateway, SourceColumn.ACTIVE_ALARMS) == ber.encode_gauge32(len(known))
