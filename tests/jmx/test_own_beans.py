"""The gateway's own MBeans: its state, and that of its sources."""

from __future__ import annotations

import msgspec

from gateway.inventory.source import SHOWN_COUNTERS
from gateway.jmx.own_beans import COUNTERS
from gateway.model.observations import SourceState
from tests.components.shop import START, source
from tests.jmx.shop import GATEWAY, SOURCE, Gateway, alarm, classes, delete


def test_the_gateway_reports_itself(gateway: Gateway) -> None:
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
        "EventsLost": 0,
        "EventsLostUnknown": False,
        "LastOperations": (),
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


def test_a_source_reports_itself(gateway: Gateway) -> None:
    gateway.publish(source(SourceState.DEGRADED, messages=7, protocol_errors=1))
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


def test_alarms_are_reported_while_they_last(gateway: Gateway) -> None:
    gateway.publish(alarm(1), alarm(2, "flooding"))
    gateway.settle()
    shown = gateway.machine.read(SOURCE)
    assert shown["ActiveAlarms"] == (
        ("burning till1", "major since 2023-11-14T22:13:20.000Z: it burns"),
        ("flooding", "major since 2023-11-14T22:13:20.000Z: it burns"),
    )
    assert (shown["ActiveAlarmCount"], shown["WorstSeverity"]) == (2, "major")
    assert gateway.machine.read(GATEWAY)["WorstSeverity"] == "major"
    gateway.publish(
        alarm(1, cleared=START + 1), alarm(3, "flooding"), alarm(2, "flooding", cleared=START + 1)
    )
    gateway.settle()
    assert gateway.machine.read(SOURCE)["ActiveAlarmCount"] == 1
    gateway.publish(alarm(3, "flooding", cleared=START + 1))
    gateway.settle()
    assert gateway.machine.read(SOURCE)["WorstSeverity"] == "cleared"


def test_alarms_that_a_snapshot_does_not_report_have_ended(gateway: Gateway) -> None:
    gateway.publish(alarm(1), alarm(2, "flooding"))
    gateway.disconnect()
    gateway.hello(epoch=2)
    gateway.snapshot(source(SourceState.CONNECTING))
    gateway.settle()
    assert gateway.machine.read(SOURCE)["ActiveAlarmCount"] == 2
    gateway.publish(source(), alarm(4, "flooding"))
    gateway.settle()
    assert gateway.machine.read(SOURCE)["ActiveAlarmCount"] == 1


def test_what_was_deleted_lately_is_reported_once(gateway: Gateway) -> None:
    gateway.publish(delete(1, number=5), delete(2, number=6))
    gateway.snapshot(source(), *classes(), delete(1, number=5), delete(2, number=6), delete(3, number=7))
    gateway.settle()
    span = "created 2023-11-14T22:13:20.000Z, deleted 2023-11-14T22:13:21.000Z"
    assert gateway.machine.read(SOURCE)["RecentlyDeleted"] == tuple(
        f"shop:till hall1|till{row}#1: {span}" for row in (3, 2, 1)
    )


def test_an_end_that_was_not_reported_happened_before_it_was_noticed(gateway: Gateway) -> None:
    gateway.publish(msgspec.structs.replace(delete(1, number=5), deleted=0, created=0))
    gateway.settle()
    assert gateway.machine.read(SOURCE)["RecentlyDeleted"] == (
        "shop:till hall1|till1#1: deleted before 2023-11-14T22:13:22.000Z",
    )
