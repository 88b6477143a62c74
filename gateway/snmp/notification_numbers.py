"""Numbers of AMQP-GATEWAY-MIB that notifications and their receivers have, relative to the root.

A test compares every number here with the module's text, as of `gateway.snmp.fixed_mib`.
"""

from __future__ import annotations

import enum

from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import MODULE

OWN_PACKAGE = "gateway"
"""The package of the events that the gateway makes itself: their notifications are in this module."""

NOTIFICATIONS: Oid = (*MODULE, 0)
"""agNotifications: the gateway's own."""

NOTIFICATION_OBJECTS: Oid = (*MODULE, 1, 11)
"""agNotificationObjects: what only notifications carry."""

TARGET_ENTRY: Oid = (*MODULE, 1, 12, 1)
"""agTargetEntry, indexed by agTargetName (IMPLIED)."""


class NotificationObject(enum.IntEnum):
    """Objects below `NOTIFICATION_OBJECTS` that exist in notifications only, as instance 0.

    Up to ``CONDITION`` they stand in every notification, in this order.
    """

    ID = 1
    SEVERITY = 2
    TIME = 3
    SOURCE = 4
    CLASS = 5
    OBJECT_NAME = 6
    ROW = 7
    TEXT = 8
    STATE = 9
    CONDITION = 10
    SOURCE_STATE = 11
    SOURCE_DETAIL = 12
    ALARM = 13
    GAP_START = 14
    GAP_END = 15
    GAP_REASON = 16
    SUPPRESSED_TARGET = 17
    SUPPRESSED_COUNT = 18
    SUPPRESSED_SINCE = 19
    SUPPRESSED_NAMES = 20
    LOG_TROUBLE = 21
    LOG_DETAIL = 22
    LOG_LOST = 23
    AGENT = 24
    AGENT_DETAIL = 25
    LATE = 26


COMMON_OBJECTS = tuple(NotificationObject)[: NotificationObject.CONDITION]
"""What every notification carries, in the order of its OBJECTS clause."""


class OwnNotification(enum.IntEnum):
    """Notifications of the gateway itself, below `NOTIFICATIONS`."""

    SOURCE_UP = 1
    SOURCE_DOWN = 2
    ALARM_RAISED = 3
    ALARM_CLEARED = 4
    GAP = 5
    EVENTS_SUPPRESSED = 6
    TEST = 7
    LOG_TROUBLE = 8
    LOG_WRITTEN = 9
    AGENT_LOST = 10
    AGENT_BACK = 11


class ConditionStateNumber(enum.IntEnum):
    """AgConditionState."""

    RAISED = 1
    CLEARED = 2
    ONE_SHOT = 3


class TargetColumn(enum.IntEnum):
    """Columns of agTargetTable; 1 is agTargetName."""

    ADDRESS = 2
    KIND = 3
    SENT = 4
    ACKNOWLEDGED = 5
    SUPPRESSED = 6
    FAILED = 7
    WAITING = 8
    LAST_SENT = 9
    LOST = 10


class TargetKindNumber(enum.IntEnum):
    """agTargetKind."""

    TRAP_V1 = 1
    TRAP_V2C = 2
    INFORM_V2C = 3
