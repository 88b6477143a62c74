"""Events that the gateway makes itself: their schemas, of the package ``gateway``.

They are in every snapshot from the start, so that a front end can prepare for them. No agent may report an
event of this package.
"""

from __future__ import annotations

from gateway.model.schema import Argument, ClassKey, EventSchema
from gateway.model.values import ValueType

PACKAGE = "gateway"

SOURCE_DOWN_ALARM = "sourceDown"
"""The alarm that is active while a source is not trusted; it has no subject."""
CLASS_NOT_READABLE_ALARM = "classNotReadable"
"""The alarms of classes that a source cannot read; their conditions name the classes."""
OF_SOURCES = frozenset({SOURCE_DOWN_ALARM, CLASS_NOT_READABLE_ALARM})
"""The gateway's own alarms of a source."""

_STATE = Argument(
    "state", ValueType.STRING, label="State", description="Whether the source is synchronised now."
)
_DETAIL = Argument(
    "detail",
    ValueType.STRING,
    label="Detail",
    description="Why, and what to do about it; absent where there is nothing to say.",
    optional=True,
)
_ALARM = Argument("alarm", ValueType.STRING, label="Alarm", description="What kind of alarm it is.")

SOURCE_DOWN = EventSchema(
    ClassKey(PACKAGE, "sourceDown"),
    (_STATE, _DETAIL),
    label="Source down",
    description="A source is no longer synchronised: its objects are stale from now on.",
)
SOURCE_UP = EventSchema(
    ClassKey(PACKAGE, "sourceUp"),
    (_STATE, _DETAIL),
    label="Source up",
    description="A source is known again, or for the first time.",
)
ALARM_RAISED = EventSchema(
    ClassKey(PACKAGE, "alarmRaised"),
    (_ALARM,),
    label="Alarm raised",
    description="A condition that lasts has begun, as the values of its object show.",
)
ALARM_CLEARED = EventSchema(
    ClassKey(PACKAGE, "alarmCleared"),
    (_ALARM,),
    label="Alarm cleared",
    description="A condition has ended, as the values of its object show, or because its object is gone.",
)
GAP = EventSchema(
    ClassKey(PACKAGE, "gap"),
    (
        Argument("start", ValueType.TIME, label="Start", description="The start of the time without events."),
        Argument("end", ValueType.TIME, label="End", description="The end of the time without events."),
        Argument("reason", ValueType.STRING, label="Reason", description="What was not received, and why."),
    ),
    label="Gap",
    description="Events and short-lived objects of a source may have been lost.",
)
_AGENT = Argument("agent", ValueType.STRING, label="Agent", description="The agent, within its source.")
AGENT_LOST = EventSchema(
    ClassKey(PACKAGE, "agentLost"),
    (_AGENT, _DETAIL),
    label="Agent lost",
    description="An agent beside others is silent, does not answer, or left: its objects are stale.",
)
AGENT_BACK = EventSchema(
    ClassKey(PACKAGE, "agentBack"),
    (_AGENT,),
    label="Agent back",
    description="An agent that was lost was read again: its objects are current.",
)
_LOST = Argument(
    "lost",
    ValueType.U64,
    label="Lost",
    description="Records that were given up since the start of the core; the log says how many of what.",
)
LOG_TROUBLE = EventSchema(
    ClassKey(PACKAGE, "logTrouble"),
    (
        Argument("trouble", ValueType.STRING, label="Trouble", description="What kind of trouble it is."),
        _DETAIL,
        _LOST,
    ),
    label="Log trouble",
    description="What happens does not reach the disk of the event log in time.",
)
LOG_WRITTEN = EventSchema(
    ClassKey(PACKAGE, "logWritten"),
    (_LOST,),
    label="Log written",
    description="The event log is written: for the first time since the start of the core, or again.",
)
_REASON = Argument("reason", ValueType.STRING, label="Reason", description="Why, as far as it is known.")
PROCESS_ENDED = EventSchema(
    ClassKey(PACKAGE, "processEnded"),
    (
        Argument("process", ValueType.STRING, label="Process", description="The process of the gateway."),
        _REASON,
    ),
    label="Process ended",
    description="A process of the gateway ended without having been asked to; it is started again.",
)
GATEWAY_STOPPING = EventSchema(
    ClassKey(PACKAGE, "gatewayStopping"),
    (_REASON,),
    label="Gateway stopping",
    description="The gateway was asked to end, and ends now.",
)
ACCESS_REFUSED = EventSchema(
    ClassKey(PACKAGE, "accessRefused"),
    (
        Argument("principal", ValueType.STRING, label="Principal", description="Who was refused."),
        Argument(
            "origin",
            ValueType.STRING,
            label="Origin",
            description="From where, such as an address; absent if that is not known.",
            optional=True,
        ),
        Argument(
            "attempts",
            ValueType.U64,
            label="Attempts",
            description="How many attempts this stands for: further ones within a minute are counted.",
        ),
        _REASON,
    ),
    label="Access refused",
    description="A login or an operation was refused, because the principal may not do that.",
)
AUDIT_HEAD = EventSchema(
    ClassKey(PACKAGE, "auditHead"),
    (
        Argument("audit", ValueType.U64, label="Audit", description="The number of the last audited record."),
        Argument("hash", ValueType.STRING, label="Hash", description="The hash of that record, hexadecimal."),
        Argument(
            "head",
            ValueType.STRING,
            label="Head",
            description="The signed head, a line of JSON, to be kept where the gateway cannot change it.",
        ),
    ),
    label="Audit head",
    description="The chain of audited records in the event log is signed up to here.",
)

POLICY_CHANGED = EventSchema(
    ClassKey(PACKAGE, "policyChanged"),
    (
        Argument("principal", ValueType.STRING, label="Principal", description="Who had it reloaded."),
        Argument(
            "reason",
            ValueType.STRING,
            label="Reason",
            description="How many changes there are, and the first of them.",
        ),
    ),
    label="Policy changed",
    description="Roles, or users, communities or receivers of SNMP, were changed while the gateway runs.",
)
MAPPINGS_CHANGED = EventSchema(
    ClassKey(PACKAGE, "mappingsChanged"),
    (
        Argument("principal", ValueType.STRING, label="Principal", description="Who had them reloaded."),
        Argument(
            "reason",
            ValueType.STRING,
            label="Reason",
            description="How many changes the mappings and override files have, and the first of them.",
        ),
    ),
    label="Mappings changed",
    description="Mappings or override files were changed while the gateway runs; its core starts again.",
)

OWN_EVENTS = (
    SOURCE_DOWN,
    SOURCE_UP,
    ALARM_RAISED,
    ALARM_CLEARED,
    GAP,
    LOG_TROUBLE,
    LOG_WRITTEN,
    AGENT_LOST,
    AGENT_BACK,
    PROCESS_ENDED,
    GATEWAY_STOPPING,
    ACCESS_REFUSED,
    AUDIT_HEAD,
    POLICY_CHANGED,
    MAPPINGS_CHANGED,
)
