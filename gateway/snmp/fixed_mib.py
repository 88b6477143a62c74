"""Numbers of AMQP-GATEWAY-MIB (``mibs/AMQP-GATEWAY-MIB.mib``), relative to the root.

The text is written by hand; a test compares every number here with it.
"""

from __future__ import annotations

import enum

from gateway.snmp.ber import Oid

MODULE: Oid = (1,)
"""agMIB."""

HEALTH: Oid = (*MODULE, 1, 1)
"""agHealth: scalars."""

SOURCE_ENTRY: Oid = (*MODULE, 1, 2, 1)
"""agSourceEntry, indexed by agSourceIndex."""

CLASS_ENTRY: Oid = (*MODULE, 1, 3, 1)
"""agClassEntry, indexed by agSourceIndex, agClassIndex."""

SUM_ENTRY: Oid = (*MODULE, 1, 4, 1)
"""agSumEntry, indexed by agSourceIndex, agClassIndex, agSumColumn."""


class Health(enum.IntEnum):
    """Scalars below `HEALTH`."""

    VERSION = 1
    GATEWAY_UUID = 2
    CORE_EPOCH = 3
    CORE_STARTED = 4
    CORE_UPTIME = 5
    FEED_CONNECTED = 6
    FEED_STALE_SINCE = 7
    FEED_LAST_MESSAGE = 8
    FEED_IDLE = 9
    FEED_MESSAGES = 10
    FEED_SNAPSHOTS = 11
    FEED_REFUSED = 12
    SOURCES = 13
    SOURCES_SYNCHRONISED = 14
    ROWS = 15
    ROWS_STALE = 16
    ROWS_WITHHELD = 17
    CLASSES_PROVISIONAL = 18
    CLASSES_NOT_SHOWN = 19
    ELEMENTS_NOT_SHOWN = 20


class SourceColumn(enum.IntEnum):
    """Columns of agSourceTable; 1 is agSourceIndex."""

    NAME = 2
    KIND = 3
    STATE = 4
    DETAIL = 5
    SINCE = 6
    LAST_HEARD = 7
    ROWS = 8
    STALE_ROWS = 9
    MESSAGES = 10
    OCTETS = 11
    PROTOCOL_ERRORS = 12
    REFUSED = 13
    RESYNCS = 14
    GAPS = 15
    OBJECTS_CREATED = 16
    OBJECTS_DELETED = 17
    EVENTS = 18


class SourceStateNumber(enum.IntEnum):
    """agSourceState; ``unknown`` while the core cannot be asked."""

    UNKNOWN = 1
    CONNECTING = 2
    SYNCHRONISING = 3
    SYNCHRONISED = 4
    DEGRADED = 5
    DOWN = 6


class ClassColumn(enum.IntEnum):
    """Columns of agClassTable; 1 is agClassIndex."""

    PACKAGE = 2
    NAME = 3
    ROWS = 4
    STALE_ROWS = 5
    ROW_TABLE = 6
    LAST_CHANGE = 7
    WORST_STATE = 8


class SumColumn(enum.IntEnum):
    """Columns of agSumTable; 1 is agSumColumn."""

    NAME = 2
    UNITS = 3
    TOTAL = 4
    OBJECTS = 5
    MEAN = 6
