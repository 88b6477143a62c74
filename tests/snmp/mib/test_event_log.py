"""agLog, and the alarm and notifications of the gateway itself, which have no source."""

from __future__ import annotations

import msgspec
import pytest

from gateway.feed.records import EventLogRecord, EventLogState
from gateway.snmp import ber
from gateway.snmp.cells import counter64, date_and_time, gauge32, gauge64, text
from gateway.snmp.fixed_mib import (
    ALARM_ENTRY,
    LOG,
    NOTIFICATION_OBJECTS,
    NOTIFICATIONS,
    AlarmColumn,
    LogScalar,
    LogStateNumber,
    NotificationObject,
    OwnNotification,
)
from gateway.snmp.notifications.notification import ActiveAlarms
from tests.components.shop import FULL_LOG, LOG_TROUBLE_BEGAN, LOG_TROUBLE_CLASS, START, source
from tests.snmp.datagrams import read_varbinds
from tests.snmp.mib.shop import ROOT, Gateway, alarm

TROUBLE = msgspec.structs.replace(alarm(9, "logTrouble", name="logTrouble"), source=0)


@pytest.fixture
def gateway() -> Gateway:
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source())
    return gateway


def shown(gateway: Gateway) -> dict[int, bytes]:
    return {column: tlv for (column, _), tlv in gateway.walk((*ROOT, *LOG)).items()}


def state(gateway: Gateway) -> bytes:
    return shown(gateway)[LogScalar.STATE]


def test_the_log_is_shown_as_the_core_reports_it(gateway: Gateway) -> None:
    assert shown(gateway) == {LogScalar.STATE: ber.encode_integer(LogStateNumber.UNKNOWN)}
    gateway.publish(FULL_LOG)
    since = date_and_time(START)
    assert since is not None
    assert shown(gateway) == {
        LogScalar.STATE: ber.encode_integer(LogStateNumber.DISK_FULL),
        LogScalar.DETAIL: text("3 MiB are free"),
        LogScalar.SINCE: since,
        LogScalar.COMMITTED: counter64(2**40),
        LogScalar.WAITING: gauge32(7),
        LogScalar.LOST: counter64(3),
        LogScalar.OCTETS: gauge64(2**41),
        LogScalar.SEGMENTS: gauge32(2),
        LogScalar.DELETED_FILES: counter64(4),
        LogScalar.DELETED_OCTETS: counter64(2**42),
        LogScalar.OCTETS_KIBIBYTES: gauge32(2**31),
    }
    gateway.publish(EventLogRecord(EventLogState.OFF))
    assert state(gateway) == ber.encode_integer(LogStateNumber.OFF)
    assert LogScalar.SINCE not in shown(gateway)


@pytest.mark.parametrize("reported", EventLogState)
def test_every_state_has_a_number(gateway: Gateway, reported: EventLogState) -> None:
    gateway.publish(EventLogRecord(reported))
    assert state(gateway) == ber.encode_integer(LogStateNumber[reported.name])


def test_while_the_core_is_gone_the_state_is_unknown(gateway: Gateway) -> None:
    gateway.publish(FULL_LOG)
    gateway.disconnect()
    assert state(gateway) == ber.encode_integer(LogStateNumber.UNKNOWN)
    assert shown(gateway)[LogScalar.COMMITTED] == counter64(2**40)
    gateway.hello()
    gateway.snapshot(FULL_LOG, source())
    assert state(gateway) == ber.encode_integer(LogStateNumber.DISK_FULL)


def test_its_alarm_is_of_the_gateway_and_never_stale_while_the_core_is_there(gateway: Gateway) -> None:
    gateway.publish(TROUBLE)
    entry = (*ROOT, *ALARM_ENTRY)
    assert gateway.cell(entry, AlarmColumn.SOURCE, 9) == ber.encode_integer(0)
    assert gateway.cell(entry, AlarmColumn.STALE, 9) == ber.encode_integer(2)
    gateway.disconnect()
    gateway.settle()
    assert gateway.cell(entry, AlarmColumn.STALE, 9) == ber.encode_integer(1)
    gateway.hello(epoch=2)
    gateway.snapshot(source())
    gateway.settle()
    assert gateway.walk(entry) == {}, "a new core has none"


def test_receivers_are_held_to_what_lasts_of_the_gateway_itself(gateway: Gateway) -> None:
    gateway.publish(TROUBLE)
    standing = gateway.projection.active_alarms()
    assert standing is not None
    assert standing[""] == ActiveAlarms({"logTrouble": "7b0c.1.9"}, complete=True)
    again = gateway.projection.alarm_notification("", "logTrouble")
    assert again is not None
    assert (again.source, again.condition) == ("", "logTrouble")


def test_its_trouble_is_a_notification_of_the_fixed_module(gateway: Gateway) -> None:
    gateway.publish(LOG_TROUBLE_CLASS, LOG_TROUBLE_BEGAN)
    (notification,) = gateway.notified
    assert notification.oid == (*ROOT, *NOTIFICATIONS, OwnNotification.LOG_TROUBLE)
    assert (notification.name, notification.source) == ("gateway:logTrouble", "")
    objects = (*ROOT, *NOTIFICATION_OBJECTS)
    assert read_varbinds(notification.arguments) == [
        ((*objects, NotificationObject.LOG_TROUBLE, 0), text("disk-full")),
        ((*objects, NotificationObject.LOG_DETAIL, 0), text("3 MiB are free")),
        ((*objects, NotificationObject.LOG_LOST, 0), gauge32(2**32 - 1)),
    ]
