"""The objects of the group snmp that RFC 3418 made obsolete: statistics by request and by error-status.

Managers of the time of RFC 1213 graph them, and they are the only standard counts of what an agent is asked.
Most are derived when they are read, so that a request pays for none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.standard_groups import NotificationCounts, SnmpCounters
from gateway.snmp.store import Store

_SNMP: Final[Oid] = (1, 3, 6, 1, 2, 1, 11)
_WRAP: Final = 1 << 32
_READ_ONLY: Final = 4
"""The error-status readOnly, which no agent has reason to send (RFC 3416 section 3)."""

IN_PACKETS: Final = 1
"""snmpInPkts, which is current: only with the answers of receivers is it complete."""

_NEVER: Final = (
    19,  # snmpInTraps: the agent receives no notifications; such a PDU is a snmpUnknownPDUHandlers
    26,  # snmpOutGetNexts: the agent walks no other agent
    27,  # snmpOutSetRequests: nor does it change one
)
"""The objects that count what cannot happen here, and stay zero."""

Count = Callable[[], int]


def serve_obsolete_counters(store: Store, counters: SnmpCounters, notifications: NotificationCounts) -> None:
    """Add the obsolete objects of the group snmp to the store, and complete snmpInPkts.

    `SnmpCounters.serve` has added those that are current, and snmpInTotalSetVars and snmpInSetRequests.

    Args:
        store: the store that serves them.
        counters: counts of requests and of their answers.
        notifications: counts of notifications, and of the answers to informs.
    """
    for number, count in {**_received(counters, notifications), **_sent(counters, notifications)}.items():
        store.scalar((*_SNMP, number, 0), _reader(count))
    for number in _NEVER:
        store.scalar((*_SNMP, number, 0), ber.encode_counter32(0))


def _received(counters: SnmpCounters, notifications: NotificationCounts) -> Mapping[int, Count]:
    statuses = notifications.statuses
    return {
        IN_PACKETS: lambda: counters.in_packets + notifications.received,
        8: lambda: statuses[message.TOO_BIG],  # snmpInTooBigs
        9: lambda: statuses[message.NO_SUCH_NAME],  # snmpInNoSuchNames
        10: lambda: statuses[message.BAD_VALUE],  # snmpInBadValues
        11: lambda: statuses[_READ_ONLY],  # snmpInReadOnlys
        12: lambda: statuses[message.GEN_ERR],  # snmpInGenErrs
        13: lambda: counters.request_variables,  # snmpInTotalReqVars
        15: lambda: counters.get_requests,  # snmpInGetRequests
        16: lambda: counters.get_nexts,  # snmpInGetNexts
        18: statuses.total,  # snmpInGetResponses
    }


def _sent(counters: SnmpCounters, notifications: NotificationCounts) -> Mapping[int, Count]:
    statuses = counters.error_statuses

    def responses() -> int:
        """Return the number of responses: one for each request, unless not even tooBig had room."""
        reads = counters.get_requests + counters.get_nexts + counters.get_bulks + counters.refused_reads
        return reads + counters.sets_ended - counters.silent_drops

    def packets() -> int:
        return responses() + counters.reports - counters.unsent + notifications.datagrams

    return {
        2: packets,  # snmpOutPkts
        20: lambda: statuses[message.TOO_BIG],  # snmpOutTooBigs
        21: lambda: statuses[message.NO_SUCH_NAME],  # snmpOutNoSuchNames
        22: lambda: statuses[message.BAD_VALUE],  # snmpOutBadValues
        24: lambda: statuses[message.GEN_ERR],  # snmpOutGenErrs
        25: lambda: notifications.engine_questions,  # snmpOutGetRequests: the agent asks nothing else
        28: responses,  # snmpOutGetResponses: a report is none
        29: lambda: notifications.traps,  # snmpOutTraps
    }


def _reader(count: Count) -> Callable[[], bytes]:
    return lambda: ber.encode_counter32(count() % _WRAP)
