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

ALARMS: Oid = (*MODULE, 1, 6)
"""agAlarms: agAlarmTable and scalars."""

ALARM_ENTRY: Oid = (*ALARMS, 1, 1)
"""agAlarmEntry, indexed by agAlarmIndex."""

DELETED: Oid = (*MODULE, 1, 7)
"""agDeleted: agDeletedTable and scalars."""

DELETED_ENTRY: Oid = (*DELETED, 1, 1)
"""agDeletedEntry, indexed by agDeletedIndex."""

COMMANDS: Oid = (*MODULE, 1, 8)
"""agCommands: the tables of commands and scalars."""

COMMAND_ENTRY: Oid = (*COMMANDS, 1, 1)
"""agCommandEntry, indexed by agCommandOwner, agCommandName."""

COMMAND_ARGUMENT_ENTRY: Oid = (*COMMANDS, 2, 1)
"""agCommandArgumentEntry, indexed by agCommandOwner, agCommandName, agCommandArgumentName."""

COMMAND_RESULT_ENTRY: Oid = (*COMMANDS, 3, 1)
"""agCommandResultEntry, indexed by agCommandOwner, agCommandName, agCommandResultIndex."""

OPERATIONS: Oid = (*MODULE, 1, 9)
"""agOperations: agOperationTable and scalars."""

OPERATION_ENTRY: Oid = (*OPERATIONS, 1, 1)
"""agOperationEntry, indexed by agOperationIndex."""

LOG: Oid = (*MODULE, 1, 13)
"""agLog: scalars."""

PRODUCT: Oid = (4, 1, 1)
"""agGateway of AMQP-GATEWAY-CAPABILITIES-MIB: sysObjectID, the kind of agent."""

CAPABILITIES: Oid = (4, 2)
"""agAgentCapabilities of AMQP-GATEWAY-CAPABILITIES-MIB: the statements that sysORTable names."""


class CapabilitiesNumber(enum.IntEnum):
    """Statements below `CAPABILITIES`."""

    SNMPV2 = 1
    FRAMEWORK = 2
    MPD = 3
    TARGET = 4
    NOTIFICATION = 5
    USER_BASED = 6
    NETWORK_SERVICES = 7
    NOTIFICATION_LOG = 8
    GATEWAY = 10


PACKAGE_CAPABILITIES = 100
"""The number of a package's statement is this and the package's arc below agPackages."""


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
    EVENTS_PROVISIONAL = 21
    EVENTS_NOT_SHOWN = 22
    REQUESTS_DROPPED = 23
    REQUESTS_LOST = 24
    CORE_EPOCH_GAUGE32 = 25


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
    ACTIVE_ALARMS = 19
    WORST_ALARM = 20


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
    MEAN_TEXT = 7
    TOTAL_GAUGE32 = 8
    GAUGE32_UNITS = 9


class AlarmColumn(enum.IntEnum):
    """Columns of agAlarmTable; 1 is agAlarmIndex."""

    SOURCE = 2
    NAME = 3
    SEVERITY = 4
    CONDITION = 5
    CLASS = 6
    OBJECT_NAME = 7
    ROW = 8
    TEXT = 9
    SINCE = 10
    EVENT_ID = 11
    STALE = 12


class AlarmScalar(enum.IntEnum):
    """Scalars below `ALARMS`; 1 is agAlarmTable."""

    ACTIVE = 2
    CRITICAL = 3
    MAJOR = 4
    MINOR = 5
    WARNING = 6
    INFO = 7
    LAST_CHANGE = 8
    NOT_SHOWN = 9


class DeletedColumn(enum.IntEnum):
    """Columns of agDeletedTable; 1 is agDeletedIndex."""

    SOURCE = 2
    CLASS = 3
    NAME = 4
    FULL_NAME = 5
    ROW = 6
    NATIVE_ID = 7
    LIFETIME = 8
    CREATED = 9
    DELETED = 10
    HEARD = 11
    INFERRED = 12
    DURATION = 13
    DURATION_MILLISECONDS = 14


class DeletedScalar(enum.IntEnum):
    """Scalars below `DELETED`; 1 is agDeletedTable."""

    COUNT = 2
    LAST = 3
    TOLD = 4


class OutcomeNumber(enum.IntEnum):
    """AgOutcome: the outcome of an operation, named as `gateway.model.operations.Outcome`."""

    APPLIED = 1
    APPLIED_DIFFERENTLY = 2
    NOT_APPLIED = 3
    OBJECT_GONE = 4
    UNKNOWN_ELEMENT = 5
    READ_ONLY = 6
    REFUSED = 7
    WRONG_TYPE = 8
    WRONG_LENGTH = 9
    WRONG_VALUE = 10
    NOT_NOW = 11
    REMOTE_FAILURE = 12
    SOURCE_DOWN = 13
    UNKNOWN = 14


class CommandColumn(enum.IntEnum):
    """Columns of agCommandTable; 1 and 2 are agCommandOwner and agCommandName."""

    TARGET = 3
    METHOD = 4
    TIMEOUT = 5
    ROW_STATUS = 6
    STATE = 7
    OUTCOME = 8
    TEXT = 9
    ELEMENT = 10
    CODE = 11
    SUBMITTED = 12
    ENDED = 13
    EXPIRES = 14
    OPERATION_ID = 15


class CommandStateNumber(enum.IntEnum):
    """agCommandState."""

    PREPARING = 1
    RUNNING = 2
    ENDED = 3


class CommandArgumentColumn(enum.IntEnum):
    """Columns of agCommandArgumentTable; 1 is agCommandArgumentName."""

    VALUE = 2
    SYNTAX = 3
    ROW_STATUS = 4


class CommandResultColumn(enum.IntEnum):
    """Columns of agCommandResultTable; 1 is agCommandResultIndex."""

    NAME = 2
    VALUE = 3
    SYNTAX = 4
    LENGTH = 5
    ROW = 6


class ValueSyntaxNumber(enum.IntEnum):
    """AgValueSyntax: the notation of a value of any type."""

    TEXT = 1
    JSON = 2


class CommandScalar(enum.IntEnum):
    """Scalars below `COMMANDS`; 1 to 3 are its tables."""

    QUOTA = 4
    KEEP = 5
    COUNT = 6
    SUBMITTED = 7


class OperationColumn(enum.IntEnum):
    """Columns of agOperationTable; 1 is agOperationIndex."""

    ID = 2
    PRINCIPAL = 3
    ORIGIN = 4
    SOURCE = 5
    CLASS = 6
    NAME = 7
    FULL_NAME = 8
    ROW = 9
    KIND = 10
    METHOD = 11
    VALUES = 12
    STATE = 13
    OUTCOME = 14
    ELEMENT = 15
    CODE = 16
    TEXT = 17
    BEGAN = 18
    ENDED = 19
    DURATION = 20
    FORMER = 21
    FOUND = 22
    DURATION_MILLISECONDS = 23


class OperationKindNumber(enum.IntEnum):
    """agOperationKind, named as `gateway.feed.operations.OperationKind`."""

    SET = 1
    INVOKE = 2
    READ = 3


class OperationStateNumber(enum.IntEnum):
    """agOperationState, named as `gateway.feed.operations.OperationState`."""

    BEGUN = 1
    ENDED = 2
    SETTLED = 3


class OperationScalar(enum.IntEnum):
    """Scalars below `OPERATIONS`; 1 is agOperationTable."""

    COUNT = 2
    LAST = 3
    TOLD = 4


class SeverityNumber(enum.IntEnum):
    """AgSeverity: the numbers of ItuPerceivedSeverity (RFC 3877, after ITU-T X.733), and ``info``.

    ``INDETERMINATE`` is never sent.
    """

    CLEARED = 1
    INDETERMINATE = 2
    CRITICAL = 3
    MAJOR = 4
    MINOR = 5
    WARNING = 6
    INFO = 7


class LogScalar(enum.IntEnum):
    """Scalars below `LOG`."""

    STATE = 1
    DETAIL = 2
    SINCE = 3
    COMMITTED = 4
    WAITING = 5
    LOST = 6
    OCTETS = 7
    SEGMENTS = 8
    DELETED_FILES = 9
    DELETED_OCTETS = 10
    OCTETS_KIBIBYTES = 11


class LogStateNumber(enum.IntEnum):
    """agLogState; ``unknown`` while the core cannot be asked."""

    UNKNOWN = 1
    OFF = 2
    WRITING = 3
    DISK_FULL = 4
    READ_ONLY = 5
    DISK_ERROR = 6
    SLOW = 7
    UPKEEP = 8
    FAILED = 9


OWN_PACKAGE = "gateway"
"""The package of the events that the gateway makes itself: their notifications are in this module."""

NOTIFICATIONS: Oid = (*MODULE, 0)
"""agNotifications: the gateway's own."""

NOTIFICATION_OBJECTS: Oid = (*MODULE, 1, 11)
"""agNotificationObjects: the objects that only notifications carry."""

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
    PROCESS = 27
    PRINCIPAL = 28
    ORIGIN = 29
    ATTEMPTS = 30
    REASON = 31
    AUDIT = 32
    HASH = 33
    HEAD = 34


COMMON_OBJECTS = tuple(NotificationObject)[: NotificationObject.CONDITION]
"""The objects that every notification carries, in the order of its OBJECTS clause."""


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
    PROCESS_ENDED = 12
    GATEWAY_STOPPING = 13
    ACCESS_REFUSED = 14
    AUDIT_HEAD = 15
    POLICY_CHANGED = 16
    MAPPINGS_CHANGED = 17


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
    TRAP_V3 = 4
    INFORM_V3 = 5
